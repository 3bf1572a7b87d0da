"""Small snapshots for the tests of the gate, made of names: `snapshot({"q1": ["a", "b"]}, required={"q1": ["a"]})`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.evaluation.metrics import parse_metric
from ctxbench.gate.snapshots import AnswerFact, Identity, SelectorSnapshot, by_state, facts_of
from ctxbench.model.candidates import Rule
from ctxbench.model.items import Catalog, Item, ItemKey
from ctxbench.model.requests import Request
from ctxbench.model.selection import Offered

RULE = "below includeScore"  # what keeps out everything that `near` names, unless it is given
TOKENS = 10  # of every item, unless they are given


def item_id(name: str) -> str:
    """`a` is the tool `a` of server `s`; whatever holds a colon is an id already."""
    return name if ":" in name else f"tool:s:{name}"


def item(name: str, description: str = "", **given: Any) -> Item:
    """An item by its short name or id; its description is its name said twice, unless it is given."""
    return Item(**ItemKey.parse(item_id(name))._asdict(), description=description or f"{name} {name}.", **given)


def offered(name: str, score: float | None = None, **given: Any) -> Offered:
    """One candidate that the search found, or an item of the session where `mode` is always or manual."""
    session = given.get("mode") in ("always", "manual")
    parts = {"mode": "agent", "origin": "session" if session else "search", **given}
    if isinstance(rule := parts.get("rule"), str):
        parts["rule"] = Rule(rule) if rule else None
    return Offered(id=item_id(name), score=score, **parts)


def answer(query: str, chosen: Sequence[Any] = (), near: Sequence[Any] = (), *, error: str = "") -> AnswerFact:
    """What a query was offered, and what stayed out.

    Args:
        query: its id.
        chosen, near: best first; each a name, a (name, score), a (name, score, rule), or an `Offered`. Names alone get
            scores of 0.9, 0.89, ... in order, `near` behind `chosen`.
        error: what went wrong.
    """
    rows = []
    for place, one in enumerate([*chosen, *near]):
        out = {"rule": RULE} if place >= len(chosen) else {}
        if isinstance(one, str):
            one = (one, round(0.9 - place / 100, 6))
        if not isinstance(one, Offered):
            one = offered(one[0], one[1], **({"rule": one[2]} if len(one) > 2 else out))
        rows.append(one)
    return AnswerFact(query=query, offered=tuple(rows[: len(chosen)]), near=tuple(rows[len(chosen) :]), error=error)


def identity(**given: Any) -> Identity:
    """The same for every snapshot, but for what is given."""
    parts = {
        "selector": {"pipeline": {"refine": [{"standard": {"topN": 5}}]}, "identities": {"embedder": "minilm"}},
        "values": {"topN": 5},
        "embedder": "minilm",
        "tokens": "o200k",
        "versions": {"python": "3.11", "ctxbench": "0.1.0", "code": "c0de"},
    }
    return Identity(**{**parts, **given})


def snapshot(
    answers: Mapping[str, Any],
    *,
    required: Mapping[str, Sequence[str | tuple[str, ...]]] | None = None,
    items: Mapping[str, str] | Iterable[Item] = (),
    queries: Mapping[str, Mapping[str, Any]] | None = None,
    tokens: Mapping[str, int] | None = None,
    **given: Any,
) -> SelectorSnapshot:
    """A snapshot with a dataset of its own.

    Args:
        answers: by query id: what is offered; or a tuple of that and what stays out; or an `AnswerFact`; or None, for a
            query that the run has no answer to. Forms as in `answer`.
        required: by query id: names, or tuples of alternatives. A query without any needs nothing.
        items: descriptions by name, or items; others that answers and labels name are added behind them.
        queries: by query id: fields of the query (`text`, `group`, `tags`, ...), and `helpful`: names.
        tokens: by name; `TOKENS` for the rest.
        **given: fields of `SelectorSnapshot`; metrics are those of `measured` unless given. And `scopes`:
            names of items by the name of a set of them, which queries have as `scope`. And `before`: names of items
            that labels may require although no selector could offer them, as in a catalog that was edited by hand.
    """
    required, queries, tokens = required or {}, queries or {}, tokens or {}
    facts = {query: _fact(query, one) for query, one in answers.items() if one is not None}
    scopes = {
        name: [ItemKey.parse(item_id(one)) for one in several] for name, several in given.pop("scopes", {}).items()
    }
    catalog = _catalog(items, facts, required, queries)
    asked, labels = [], []
    for query in answers:
        fields = dict(queries.get(query, {}))
        helpful = fields.pop("helpful", ())
        labels += _labels(query, required.get(query, ()), helpful)
        own = {name: fields.pop(name) for name in tuple(fields) if name in DatasetQuery.__dataclass_fields__}
        if "scope" in own:
            fields["available"] = tuple(scopes[own["scope"]])
        request = Request(id=query, text=fields.pop("text", f"text of {query}"), **fields)
        nothing = not required.get(query)
        asked.append(DatasetQuery(request=request, **{"split": "test", "needs_nothing": nothing, **own}))
    dataset = Dataset(
        name=given.pop("dataset", "d"),
        version="1",
        catalog=catalog,
        queries=tuple(asked),
        labels=tuple(labels),
        scopes={name: tuple(keys) for name, keys in scopes.items()},
        former_ids=frozenset(map(item_id, given.pop("before"))) if "before" in given else None,
    )
    counts = {item_id(name): count for name, count in tokens.items()}
    known, wanted = facts_of(dataset, [counts.get(name, TOKENS) for name in catalog.ids])
    there, disabled = by_state(known)
    parts: dict[str, Any] = {
        "dataset": dataset.name,
        "selector": "s",
        "items": there,
        "disabled": disabled,
        "queries": wanted,
        "answers": facts,
        "identity": identity(),
        "judged": dataset,
    }
    made = SelectorSnapshot(**{"metrics": {}, **parts, **given})
    return made if "metrics" in given else SelectorSnapshot(**{**parts, **given, "metrics": measured(made)})


def measured(found: SelectorSnapshot) -> dict[Any, Any]:
    """Completeness, recall, items and tokens with the session's and without, counted one query at a time."""
    rows = []
    for name, query in found.queries.items():
        fact = found.answers.get(name) or AnswerFact(query=name, offered=())
        there = {one.id for one in fact.offered}
        added = [one.id for one in fact.offered if one.origin != "session"]
        met = [not there.isdisjoint(one) for one in query.required]
        complete, share = (float(all(met)), sum(met) / len(met)) if met else (math.nan, math.nan)
        tokens, total = (float(sum(found.items[one].tokens for one in ids)) for ids in (added, there))
        rows.append((complete, share, float(len(added)), tokens, total))
    columns = np.array(rows, dtype=np.float64).reshape(len(rows), 5).T.copy()
    names = ("completeness", "recall", "items", "tokens", "total_tokens")
    return {parse_metric(name): column for name, column in zip(names, columns, strict=True)}


def _fact(query: str, one: Any) -> AnswerFact:
    if isinstance(one, AnswerFact):
        return one
    return answer(query, *one) if isinstance(one, tuple) else answer(query, one)


def _catalog(
    items: Mapping[str, str] | Iterable[Item],
    facts: Mapping[str, AnswerFact],
    required: Mapping[str, Sequence[str | tuple[str, ...]]],
    queries: Mapping[str, Mapping[str, Any]],
) -> Catalog:
    given = [item(name, text) for name, text in items.items()] if isinstance(items, Mapping) else list(items)
    known = {one.id: one for one in given}
    named = [one.id for fact in facts.values() for one in (*fact.offered, *fact.near)]
    for group in (group for groups in required.values() for group in groups):
        named += [item_id(name) for name in ((group,) if isinstance(group, str) else group)]
    named += [item_id(name) for fields in queries.values() for name in fields.get("helpful", ())]
    for name in named:
        if name not in known:
            known[name] = item(name, name.rpartition(":")[2])
    return Catalog(known.values())


def _labels(query: str, groups: Sequence[str | tuple[str, ...]], helpful: Iterable[str]) -> list[Label]:
    found = [Label(query, ItemKey.parse(item_id(name)), 1) for name in helpful]
    for place, group in enumerate(groups):
        names = (group,) if isinstance(group, str) else group
        shared = f"group{place}" if len(names) > 1 else ""
        found += [Label(query, ItemKey.parse(item_id(name)), 2, "direct", shared) for name in names]
    return found
