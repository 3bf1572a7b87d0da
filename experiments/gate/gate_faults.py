"""The faults that the power of the gate is measured on, each made over all queries of a dataset."""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from gate_world import SELECTORS, accepted, check, data_of, opened, reworded, shipped, with_data, with_more

from ctxbench.datasets.dataset import Dataset
from ctxbench.gate.results import Cause, CauseKind
from ctxbench.gate.snapshot_sources import take
from ctxbench.gate.snapshots import SelectorSnapshot, offered_ids
from ctxbench.io.documents import dump_jsonl
from ctxbench.model.arrays import Grade
from ctxbench.model.items import Item
from ctxbench.selectors.definitions import definition

DROPPED = 0.1  # share of queries that lose a required item
NEEDED = 10  # queries that need the item whose text is replaced, at least
MOST = 16  # of these in a draw, at most
Narrow = Callable[[SelectorSnapshot, SelectorSnapshot, np.random.Generator], SelectorSnapshot]


@dataclass(frozen=True, eq=False, kw_only=True)
class Fault:
    """A change that a gate should name.

    Attributes:
        bases, heads: before and after, by selector.
        kinds: the causes that are right.
        subjects: the right cause names some of these and nothing else; empty = whatever it names.
        needed: queries of which `at_least` are in every draw.
        at_least: how many; 0 = draws are of all queries.
        narrowed: the head for a draw, from base and head over it, where the fault hits some of its queries only.
    """

    bases: Sequence[SelectorSnapshot]
    heads: Sequence[SelectorSnapshot]
    kinds: frozenset[CauseKind]
    subjects: frozenset[str] = frozenset()
    needed: Sequence[str] = ()
    at_least: int = 0
    narrowed: Narrow | None = None

    def right(self, cause: Cause) -> bool:
        """Whether a cause is the right one."""
        named = not self.subjects or (bool(cause.subjects) and self.subjects >= set(cause.subjects))
        return cause.kind in self.kinds and named


# ---------------------------------------------------------------------------------------------- items dropped


def items_dropped(dataset: str) -> Fault:
    """A selector of the user's that answers as ours do, and then leaves a required item out of some answers."""
    _, plain, _ = shipped(dataset)
    with tempfile.TemporaryDirectory() as folder:
        before = _answers(Path(folder), dataset, {snapshot.selector: _offers(snapshot) for snapshot in plain})
        after = _answers(Path(folder), dataset, {snapshot.selector: _without_last(snapshot) for snapshot in plain})
    return Fault(
        bases=accepted(before),
        heads=after,
        kinds=frozenset({CauseKind.EXTERNAL}),
        narrowed=_some_dropped,
    )


def _offers(snapshot: SelectorSnapshot) -> dict[str, list[str]]:
    return {query: _of_search(snapshot, query) for query in snapshot.queries}


def _of_search(snapshot: SelectorSnapshot, query: str) -> list[str]:
    return [row.id for row in snapshot.answers[query].offered if row.origin != "session"]


def _without_last(snapshot: SelectorSnapshot) -> dict[str, list[str]]:
    """Every answer without the last item that meets a requirement alone."""
    offers = {}
    for query, fact in snapshot.queries.items():
        offered = _of_search(snapshot, query)
        alone = [next(iter(met)) for group in fact.required if len(met := set(group) & set(offered)) == 1]
        last = max(alone, key=offered.index, default=None)
        offers[query] = [item for item in offered if item != last]
    return offers


def _answers(folder: Path, dataset: str, offers: Mapping[str, Mapping[str, Sequence[str]]]) -> list[SelectorSnapshot]:
    """What files of answers come to."""
    selectors = []
    for name, rows in offers.items():
        path = folder / f"{name.replace('/', '-')}.jsonl"
        path.write_text(
            dump_jsonl({"query": query, "items": [{"id": item} for item in items]} for query, items in rows.items())
        )
        selectors.append({"answers": str(path), "name": name})
    return take(opened(dataset, selectors=selectors))


def _some_dropped(base: SelectorSnapshot, head: SelectorSnapshot, rng: np.random.Generator) -> SelectorSnapshot:
    """The base's answers, and the head's for so many of the queries that differ."""
    differ = [
        query
        for query in head.queries
        if set(offered_ids(base.answers, query)) != set(offered_ids(head.answers, query))
    ]
    count = round(DROPPED * len(head.queries))
    hit = {differ[index] for index in rng.permutation(len(differ))[:count].tolist()}
    chosen = np.array([query in hit for query in head.queries])
    return replace(
        head,
        answers={query: (head if query in hit else base).answers[query] for query in head.queries},
        metrics={metric: np.where(chosen, values, base.metrics[metric]) for metric, values in head.metrics.items()},
    )


# ---------------------------------------------------------------------------------------------- chunker

_HOUSE = """
import re
from dataclasses import dataclass

from ctxbench.search.chunking import item_chunks


@dataclass(frozen=True)
class House:
    def __call__(self, text):
        return item_chunks(text)
"""
_DROPPING = """
import re
from dataclasses import dataclass

from ctxbench.search.chunking import item_chunks


@dataclass(frozen=True)
class House:
    def __call__(self, text):
        return item_chunks("".join(shorter(part) for part in re.split(r"(\\n\\s*\\n)", text)))


def shorter(paragraph):
    sentences = re.split(r"(?<=[.!?])(\\s+)", paragraph)
    return "".join(sentences[:-2]) if len(sentences) > 2 * LEAST else paragraph
"""


def chunker(dataset: str) -> Fault:
    """A chunking rule of the team's own, as a plugin, is edited and now drops last sentences."""
    return _chunker(dataset, least=0)


def mild_chunker(dataset: str) -> Fault:
    """The same, but an only sentence stays."""
    return _chunker(dataset, least=1)


def _chunker(dataset: str, *, least: int) -> Fault:
    with _house() as write:
        write(None)
        before = take(opened(dataset, selectors=_with_house()))
        write(least)
        after = take(opened(dataset, selectors=_with_house()))
    return Fault(
        bases=accepted(before),
        heads=after,
        kinds=frozenset({CauseKind.PARAMETER, CauseKind.CODE}),
    )


def _with_house() -> list[dict[str, Any]]:
    """The shipped selectors as pipelines of the team's own."""
    selectors = []
    for entry in SELECTORS:
        values = definition("semantic").values(entry.get("preset"), overrides=entry.get("set", {}))
        cut = {name: values[f"context{name[0].upper()}{name[1:]}"] for name in ("topK", "topN", "includeScore")}
        margin = {"margin": values["contextMargin"], "of": "ratio", "at_least": 0, "at_most": 100}
        pipeline = {
            "retrieve": {"dense": {"depth": 100, "chunks": "house"}},
            "refine": [{"standard": cut}, {"margin": margin}],
        }
        selectors.append({"name": entry["name"], "pipeline": pipeline})
    return selectors


@contextmanager
def _house() -> Iterator[Callable[[int | None], None]]:
    """An installed plugin with the rule `house`; gives what writes it: sound, or as it drops sentences."""
    with tempfile.TemporaryDirectory() as folder:
        about = Path(folder) / "house-1.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: house\nVersion: 1\n")
        (about / "entry_points.txt").write_text("[ctxbench.chunk]\nhouse = house_chunks:House\n")
        sys.path.insert(0, folder)

        def write(least: int | None) -> None:
            source = _HOUSE if least is None else f"LEAST = {least}\n{_DROPPING}"
            (Path(folder) / "house_chunks.py").write_text(source)
            sys.modules.pop("house_chunks", None)
            importlib.invalidate_caches()

        try:
            yield write
        finally:
            sys.path.remove(folder)
            sys.modules.pop("house_chunks", None)


# ---------------------------------------------------------------------------------------------- texts replaced


def text_replaced(dataset: str) -> Fault:
    """The text of a much needed rule becomes that of another; its name and description stay."""
    return _replaced(dataset, ("text",))


def rule_replaced(dataset: str) -> Fault:
    """Description and text of a much needed rule (a tool's description where there are no rules) become another's."""
    return _replaced(dataset, ("description", "text"))


def _replaced(dataset: str, fields: Sequence[str]) -> Fault:
    ready, _, bases = shipped(dataset)
    data = data_of(ready)
    need = _need(data)
    kind = "rule" if any(item.type == "rule" for item in data.catalog) else "tool"
    enough = [item for item in data.catalog if item.type == kind and need[item.id] >= NEEDED]
    met = sum((_met(base) for base in bases), Counter())
    much = max(enough, key=lambda item: met[item.id])
    other = min((item for item in data.catalog if item.type == kind), key=lambda item: need[item.id])
    changed = reworded(data, {much.id: {name: getattr(other, name) for name in fields}})
    needed = _needing(data, much)
    return Fault(
        bases=bases,
        heads=take(with_data(ready, changed)),
        kinds=frozenset({CauseKind.EDITED}),
        subjects=frozenset({much.id}),
        needed=needed,
        at_least=MOST,
    )


def _met(snapshot: SelectorSnapshot) -> Counter[str]:
    """How often each item is offered to a query that needs it."""
    return Counter(
        item
        for query, fact in snapshot.queries.items()
        for item in {item for group in fact.required for item in group} & set(offered_ids(snapshot.answers, query))
    )


def _needing(data: Dataset, item: Item) -> list[str]:
    """The queries that need an item."""
    return [label.query for label in data.labels if label.item == item.key and label.grade == Grade.REQUIRED]


def _need(data: Dataset) -> Counter[str]:
    return Counter(label.item.id for label in data.labels if label.grade == Grade.REQUIRED)


# ---------------------------------------------------------------------------------------------- look-alikes

LIKE = (  # what a look-alike's name and description have beside the original's
    ("{}_v2", "{} Second version."),
    ("{}_now", "{} At once."),
    ("quick_{}", "Quickly: {}"),
    ("{}_for_team", "For teams. {}"),
    ("{}_bulk", "{} Several at a time."),
    ("safe_{}", "{} Asks before it does anything."),
    ("{}_async", "{} Does not wait for the result."),
    ("{}_plus", "{} With more options."),
    ("{}_as_user", "{} On behalf of the user."),
    ("new_{}", "New: {}"),
    ("{}_lite", "{} With fewer options."),
    ("{}_external", "{} Also for people outside."),
    ("{}_legacy", "{} For older clients."),
    ("{}_checked", "{} The result is checked."),
)


def look_alikes(dataset: str) -> Fault:
    """A server is added whose tools are copies of the most needed one under other names, lightly reworded."""
    data = data_of(shipped(dataset)[0])
    need = _need(data)
    tools = [item for item in data.catalog if item.type == "tool"]
    return _crowded(dataset, max(tools, key=lambda item: need[item.id]))


def second_server(dataset: str) -> Fault:
    """A server is added that has one look-alike of each of the tools that meet most needs."""
    ready, plain, bases = shipped(dataset)
    data = data_of(ready)
    met = sum((_met(snapshot) for snapshot in plain), Counter())
    tools = sorted((item for item in data.catalog if item.type == "tool"), key=lambda item: -met[item.id])[: len(LIKE)]
    added = [_like(item, name, description) for item, (name, description) in zip(tools, LIKE, strict=True)]
    return Fault(
        bases=bases,
        heads=take(with_data(ready, with_more(data, added))),
        kinds=frozenset({CauseKind.CROWDED}),
        subjects=frozenset(item.id for item in added),
    )


def costly_look_alikes(dataset: str) -> Fault:
    """Copies of the tool whose copies should cost most: that scores above most of what is needed and offered."""
    ready, plain, _ = shipped(dataset)
    above: Counter[str] = Counter()
    for snapshot in plain:
        for query, fact in snapshot.queries.items():
            score = snapshot.answers[query].score_of
            met = {item for group in fact.required for item in group} & set(offered_ids(snapshot.answers, query))
            for item, value in score.items():
                above[item] += sum(score.get(other, value) < value or other == item for other in met)
    tools = [item for item in data_of(ready).catalog if item.type == "tool"]
    fault = _crowded(dataset, max(tools, key=lambda item: above[item.id]))
    result = check(list(zip(fault.bases, fault.heads, strict=True)))
    losing = sorted(
        {
            change.query
            for selector in result.selectors
            for change in selector.changes
            if change.lost and change.required
        }
    )
    return replace(fault, needed=losing, at_least=NEEDED)


def _crowded(dataset: str, much: Item) -> Fault:
    ready, _, bases = shipped(dataset)
    data = data_of(ready)
    added = [_like(much, name, description) for name, description in LIKE]
    heads = take(with_data(ready, with_more(data, added)))
    return Fault(
        bases=bases,
        heads=heads,
        kinds=frozenset({CauseKind.CROWDED}),
        subjects=frozenset(item.id for item in added),
    )


def _like(item: Item, name: str, description: str) -> Item:
    return replace(
        item,
        server="lookalike",
        name=name.format(item.name),
        title="",
        description=description.format(item.description),
    )


# ---------------------------------------------------------------------------------------------- model


def static_model(dataset: str) -> Fault:
    """The model is swapped for `hashing`, which adds up vectors of words and word parts."""
    _, _, bases = shipped(dataset)
    return Fault(
        bases=bases,
        heads=take(opened(dataset, embedder="hashing")),
        kinds=frozenset({CauseKind.MODEL}),
    )


FAULTS: Mapping[str, Callable[[str], Fault]] = {
    "items dropped": items_dropped,
    "chunker": chunker,
    "milder chunker": mild_chunker,
    "rule replaced": rule_replaced,
    "rule's text replaced": text_replaced,
    "look-alikes": look_alikes,
    "second server": second_server,
    "costly look-alikes": costly_look_alikes,
    "static model": static_model,
}
