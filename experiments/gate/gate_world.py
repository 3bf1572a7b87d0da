"""Snapshots of selectors on datasets that are changed in memory, draws of their queries, and checks of both."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from ctxbench.datasets.dataset import Dataset
from ctxbench.evaluation.experiment import experiment_of
from ctxbench.evaluation.inputs import Prepared, count_tokens, prepare
from ctxbench.gate import causes, gate
from ctxbench.gate.baseline import write_baseline
from ctxbench.gate.baseline_reader import read_baseline
from ctxbench.gate.cause_finder import SnapshotPair
from ctxbench.gate.comparability import Comparability
from ctxbench.gate.differences import Differences
from ctxbench.gate.results import Change, Check, SelectorCheck, Verdict
from ctxbench.gate.settings import METRICS, CheckSettings
from ctxbench.gate.snapshot_sources import take
from ctxbench.gate.snapshots import SelectorSnapshot, TableAnswers
from ctxbench.model.items import Catalog, Item

HERE = Path(__file__).parent
OWN = ("workbench", "freight")
TWINS = " with twins"
TUNED = {"contextTopK": 6, "contextTopN": 6, "contextIncludeScore": 1.0, "contextMargin": 0.41873}
SELECTORS = (
    {"selector": "semantic", "name": "semantic, tuned", "set": TUNED},
    {"selector": "semantic", "name": "semantic/spec", "preset": "spec"},
)
ALLOWANCES = (0.0, 0.0025, 0.005, 0.01, 0.02)  # shares of the queries in need that a default may allow
Pairs = Sequence[tuple[SelectorSnapshot, SelectorSnapshot]]


def opened(dataset: str, *, selectors: Sequence[Mapping[str, Any]] = SELECTORS, embedder: str = "minilm") -> Prepared:
    """An experiment over one dataset, by name, with the metrics that a gate judges where it says nothing."""
    data = {
        "name": "gate",
        "datasets": [f"../../datasets/{dataset}" if dataset in OWN else dataset],
        "selectors": list(selectors),
        "metrics": list(METRICS),
        "embedder": embedder,
    }
    experiment, faults = experiment_of(data, {}, HERE / "measure.py")
    return prepare(experiment, faults=faults)


def data_of(ready: Prepared) -> Dataset:
    """Its one dataset, judged queries only."""
    return next(iter(ready.datasets.values())).judged()


def with_data(ready: Prepared, dataset: Dataset) -> Prepared:
    """The experiment over another state of its dataset."""
    tokens = count_tokens(ready.counter, dataset.catalog)
    return replace(ready, datasets={dataset.name: dataset}, item_tokens={dataset.name: tokens})


def with_items(dataset: Dataset, items: Iterable[Item]) -> Dataset:
    """The dataset over other items."""
    return replace(dataset, catalog=Catalog(items))


def reworded(dataset: Dataset, texts: Mapping[str, Mapping[str, Any]]) -> Dataset:
    """The dataset with other fields of some items, by item id."""
    return with_items(dataset, [replace(item, **texts.get(item.id, {})) for item in dataset.catalog])


def accepted(snapshots: Sequence[SelectorSnapshot]) -> list[SelectorSnapshot]:
    """Snapshots as they come back from a baseline that was written."""
    with tempfile.TemporaryDirectory() as folder:
        write_baseline(Path(folder) / "baseline", snapshots)
        return read_baseline(Path(folder) / "baseline")


def with_more(dataset: Dataset, added: Sequence[Item]) -> Dataset:
    """The dataset with more items, which every scope has as well."""
    keys = tuple(item.key for item in added)
    scopes = {name: (*members, *keys) for name, members in dataset.scopes.items()}
    queries = tuple(
        query if query.scope is None else replace(query, request=replace(query.request, available=scopes[query.scope]))
        for query in dataset.queries
    )
    return replace(dataset, catalog=Catalog([*dataset.catalog, *added]), scopes=scopes, queries=queries)


@cache
def shipped(dataset: str) -> tuple[Prepared, tuple[SelectorSnapshot, ...], tuple[SelectorSnapshot, ...]]:
    """The experiment over a dataset, what its selectors answer, and the same as a baseline.

    Args:
        dataset: its name; `TWINS` is a dataset in which every tool stands twice, on a server each, word for word, so
            that both have the same score.
    """
    ready = opened(dataset.removesuffix(TWINS))
    if dataset.endswith(TWINS):
        data = data_of(ready)
        tools = [item for item in data.catalog if item.type == "tool"]
        ready = with_data(ready, with_more(data, [replace(item, server=f"{item.server}-twin") for item in tools]))
    snapshots = take(ready)
    return ready, tuple(snapshots), tuple(accepted(snapshots))


# ---------------------------------------------------------------------------------------------- draws


def only(snapshot: SelectorSnapshot, queries: Sequence[str]) -> SelectorSnapshot:
    """The snapshot over some of its queries, in the order given."""
    position = {query: row for row, query in enumerate(snapshot.queries)}
    rows = np.array([position[query] for query in queries], dtype=np.int64)
    answers = snapshot.answers
    return replace(
        snapshot,
        queries={query: snapshot.queries[query] for query in queries},
        answers=answers.select(queries)
        if isinstance(answers, TableAnswers)
        else {query: answers[query] for query in queries},
        metrics={metric: values[rows] for metric, values in snapshot.metrics.items()},
        nondeterministic=tuple(query for query in snapshot.nondeterministic if query in set(queries)),
    )


def draw(snapshot: SelectorSnapshot, n: int, seed: int, *, among: Sequence[str] = ()) -> list[str]:
    """Some queries without replacement, groups whole, in the order of the dataset.

    Args:
        snapshot: whose queries.
        n: how many; a group that would make it more is passed over.
        seed: of the draw.
        among: queries that are in every draw, with their groups, as far as there is room.
    """
    groups: dict[str, list[str]] = {}
    for query in snapshot.queries.values():
        groups.setdefault(query.group, []).append(query.id)
    rng = np.random.default_rng([seed, n])
    names = sorted(groups)
    names = [names[index] for index in rng.permutation(len(names)).tolist()]
    first = {snapshot.queries[query].group for query in among}
    drawn: set[str] = set()
    for name in sorted(names, key=lambda name: name not in first):
        if len(drawn) + len(groups[name]) <= n:
            drawn.update(groups[name])
    return [query for query in snapshot.queries if query in drawn]


# ---------------------------------------------------------------------------------------------- checks


ALLOWED_COLUMNS = [f"worse_allowing_{100 * share:g}%" for share in ALLOWANCES]


def worse_allowing(result: SelectorCheck, head: SelectorSnapshot) -> dict[str, bool]:
    """Whether a selector is worse by other defaults, by column of `ALLOWED_COLUMNS`.

    A share of the queries in need may lose a required item net, at least 1; none may for the share 0.
    """
    in_need = sum(bool(query.required) for query in head.queries.values())
    worse = any(judged.verdict is Verdict.WORSE for judged in result.metrics)
    return {
        column: worse or result.lost - result.gained > (max(1, int(share * in_need)) if share else 0)
        for column, share in zip(ALLOWED_COLUMNS, ALLOWANCES, strict=True)
    }


def check(pairs: Pairs, settings: CheckSettings | None = None) -> Check:
    """A check as the command makes it, over settings that nobody has written."""
    return gate.check(
        gate.SnapshotPairs(pairs), settings or CheckSettings(), name="gate", base="baseline", head="this run"
    )


@contextmanager
def found_once(full: Check) -> Iterator[None]:
    """Within it, checks over some of the queries of a check take changes and their causes from that check.

    Both are found query by query, so that a check over some of the queries finds the same; that they are is measured
    as well (see `gate_power`).
    """
    known = {(selector.dataset, selector.selector): selector for selector in full.selectors}

    def differences(base: SelectorSnapshot, head: SelectorSnapshot, comparable: Comparability) -> Differences:
        return _restricted(known[base.dataset, head.selector], set(comparable.queries))

    def explain(_pair: SnapshotPair, changes: Sequence[Change]) -> tuple[Change, ...]:
        return tuple(changes)

    with patch.object(gate, "differences", differences), patch.object(causes, "explain", explain):
        yield


def _restricted(result: SelectorCheck, queries: set[str]) -> Differences:
    changes = tuple(change for change in result.changes if change.query in queries)
    return Differences(
        changes=changes,
        swaps=tuple(query for query in result.swaps if query in queries),
        lost=sum(change.required for change in changes if change.lost),
        gained=sum(change.required for change in changes if not change.lost),
    )
