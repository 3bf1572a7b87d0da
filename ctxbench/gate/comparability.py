"""Queries on which two snapshots can be compared, and datasets with an edited catalog.

The scope of a query, or its list of available items, is part of the query; the catalog is under test:

* A renamed item is the same item, wherever it is named.
* An item that is gone, or can no longer be offered, does not change the queries that named it. Nor does a new item.
* An item that queries with a scope require, and that is in no scope any more, is gone for all queries with a scope.
* An item that can be offered in both snapshots, but that a query may get in one only, changes the query.

Edits of a catalog by hand must not make its dataset invalid. In memory only: a label on an item that is gone is kept,
and the item counts as not offered; labels, scopes, lists of available items and tool results follow a renamed item;
labels that were dropped with an item are restored for queries whose text and other labels are those of the baseline.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ctxbench.catalogs.snapshots import read_item
from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.lookup import open_dataset
from ctxbench.datasets.queries import DatasetQuery, Label, group_pairs
from ctxbench.evaluation.metrics import FORBIDDEN_OFFERED
from ctxbench.gate.baseline_rows import session_items
from ctxbench.gate.settings import PRICES, CheckSettings
from ctxbench.gate.snapshots import (
    ItemFact,
    LabelFact,
    QueryFact,
    SelectorSnapshot,
    TableAnswers,
    Unasked,
    asked_hash,
    failures,
    first_ids,
    label_facts,
)
from ctxbench.io.console import nothing_said
from ctxbench.io.errors import Message
from ctxbench.io.rows import Row
from ctxbench.model.arrays import Grade
from ctxbench.model.items import Item, ItemKey
from ctxbench.model.requests import SessionItem
from ctxbench.selectors.protocol import NOT_ASKED


def scopes_of(snapshot: SelectorSnapshot) -> dict[str, frozenset[str]]:
    """The ids of the items that can be offered, by scope."""
    groups = group_pairs((scope, name) for name, fact in snapshot.items.items() for scope in fact.scopes)
    return {scope: frozenset(names) for scope, names in groups.items()}


def items_without_scope(
    base: SelectorSnapshot, scopes: Mapping[str, Collection[str]], renames: Mapping[str, str]
) -> frozenset[str]:
    """Ids at the base of items that queries with a scope require, and that are in no scope any more.

    Args:
        base: the snapshot.
        scopes: the scopes now, ids by name; without scopes no item has left one.
        renames: ids of items that go on under another one, old to new.
    """
    required = {item for query in base.queries.values() if query.scope for group in query.required for item in group}
    scoped = {*chain.from_iterable(scopes.values())}
    out = {item for item in required if renames.get(item, item) not in scoped} if scoped else set()
    return frozenset(item for item in out if item in base.items and base.items[item].scopes)


class Questions:
    """Compares queries with those of a base snapshot.

    Args:
        base: the snapshot.
        offered: ids of the items that can be offered now.
        scopes: the scopes now, ids by name.
        renames: ids of items that go on under another one, old to new.
    """

    def __init__(
        self,
        base: SelectorSnapshot,
        *,
        offered: Iterable[str],
        scopes: Mapping[str, Collection[str]],
        renames: Mapping[str, str],
    ) -> None:
        self._base = base
        self._old = {new: old for old, new in renames.items()}
        self._base_ids = base.all_items.keys()
        self._shared = frozenset(base.items.keys() & {self._old.get(name, name) for name in offered})
        self._before = {scope: ids & self._shared for scope, ids in scopes_of(base).items()}
        self._left_scopes = items_without_scope(base, scopes, renames)
        shared = {scope: self._shared_ids(ids) for scope, ids in scopes.items()}
        unchanged = {scope for scope, ids in shared.items() if self._before.get(scope) == ids}
        self._after = {scope: self._before[scope] if scope in unchanged else ids for scope, ids in shared.items()}

    def is_same_question(self, fact: QueryFact, query: DatasetQuery | None) -> bool:
        """Whether a query is the same question as at the base.

        Args:
            fact: of the query; the base has one of that id.
            query: the query itself; without it, one that names other ids than before counts as another question.
        """
        before = self._base.queries[fact.id]
        old_ids, new_ids = self._available(before, self._before), self._available(fact, self._after)
        if old_ids is not None and new_ids is not None and old_ids is not new_ids:
            passed_over = self._left_scopes if before.scope and fact.scope else frozenset()
            if (old_ids ^ new_ids) - passed_over:
                return False
        if fact.request_hash == before.request_hash:
            return True
        versions = (
            ()
            if query is None
            else self._base_versions(query, before, available=old_ids is not None and new_ids is not None)
        )
        return any(asked_hash(version.as_row()) == before.request_hash for version in versions)

    def has_same_labels(self, fact: QueryFact, query: DatasetQuery | None, labels: Sequence[Label]) -> bool:
        """Whether a query has the same labels as at the base; arguments as in `is_same_question`, and its labels."""
        before = self._base.queries[fact.id].labelled
        if fact.labelled == before or query is None or not self._old:
            return fact.labelled == before
        return (
            QueryFact.of(query, [replace(label, item=self._base_key(label.item)) for label in labels]).labelled
            == before
        )

    def scope_changes(self, queries: Iterable[QueryFact]) -> Iterator[str]:
        """What the scopes of some queries have lost and gained since the base, a text for each scope."""
        pairs = {
            (self._base.queries[query.id].scope, query.scope) for query in queries if query.id in self._base.queries
        }
        for old, new in sorted(pairs):
            old_ids, new_ids = (
                side.get(scope, frozenset()) - self._left_scopes
                for side, scope in ((self._before, old), (self._after, new))
            )
            parts = [f"lost {first_ids(sorted(old_ids - new_ids))}"] if old_ids - new_ids else []
            parts += [f"gained {first_ids(sorted(new_ids - old_ids))}"] if new_ids - old_ids else []
            if old and new and parts:
                yield f"scope {new} {' and '.join(parts)}"

    def _base_key(self, key: ItemKey) -> ItemKey:
        return ItemKey.parse(self._old[key.id]) if key.id in self._old else key

    def _shared_ids(self, ids: Iterable[str]) -> frozenset[str]:
        return self._shared & {self._old.get(name, name) for name in ids}

    def _available(self, fact: QueryFact, scopes: Mapping[str, frozenset[str]]) -> frozenset[str] | None:
        """Ids at the base of the items on both sides that a query may get; None = all, or not known."""
        if fact.scope:
            return scopes.get(fact.scope, frozenset())
        return self._shared_ids(fact.lists["available"]) if "available" in fact.lists else None

    def _base_versions(self, query: DatasetQuery, before: QueryFact, *, available: bool) -> Iterator[DatasetQuery]:
        """The query with the ids of the base; a second version where it has results of renamed tools.

        Results of tools name them by texts, which may also name other tools: the current names come first.
        """
        request = query.request
        lists: dict[str, Any] = {
            name: self._base_list(getattr(request, name), before.lists.get(name, ()))
            for name in ("removed", "explicit", "recent")
        }
        lists["uses"] = tuple((self._base_key(key), count) for key, count in request.uses)
        if request.session is not None:
            lists["session"] = self._base_session(request.session, before)
        if request.available is not None:
            lists["available"] = tuple(map(self._base_key, request.available))
        if available:  # the same items, given by a scope or by a list
            listed = before.lists.get("available")
            query = replace(query, scope=before.scope or None)
            lists["available"] = None if listed is None else tuple(map(ItemKey.parse, listed))
        request = replace(request, **lists)
        yield replace(query, request=request)
        names = result_names({ItemKey.parse(new): ItemKey.parse(old) for new, old in self._old.items()})
        results = tuple((names.get(tool, tool), text) for tool, text in request.tool_results)
        if results != request.tool_results:
            yield replace(query, request=replace(request, tool_results=results))

    def _base_list(self, keys: Sequence[ItemKey], before: Sequence[str]) -> tuple[ItemKey, ...]:
        """Items that a query names, by the ids of the base; as the base lists them if only gone items differ."""
        old = [self._base_key(key) for key in keys]
        is_same = self._without_gone([key.id for key in old]) == self._without_gone(before)
        return tuple(map(ItemKey.parse, before)) if is_same else tuple(old)

    def _base_session(self, session: Sequence[SessionItem], before: QueryFact) -> tuple[SessionItem, ...]:
        """The items of a session, by the ids of the base; the base's session is known from what it offered."""
        answer = self._base.answers.get(before.id)
        parts = [text.split(" ") for text in (session_items(answer) if answer is not None else ())]
        base_session = [SessionItem(ItemKey.parse(name), mode) for mode, name in parts]
        old = [SessionItem(self._base_key(item.key), item.mode) for item in session]
        left = [
            sorted((item.key.id, item.mode) for item in side if self._without_gone([item.key.id]))
            for side in (base_session, old)
        ]
        return tuple(base_session if left[0] == left[1] else old)

    def _without_gone(self, ids: Iterable[str]) -> list[str]:
        """Ids without those of items that are gone."""
        return [name for name in ids if name in self._shared or name not in self._base_ids]


def result_names(renames: Mapping[ItemKey, ItemKey]) -> dict[str, str]:
    """Names of renamed tools in results of tools, old to new: `name`, `server/name`, and the id."""
    return {
        old_name: new_name
        for old, new in renames.items()
        if old.type == "tool"
        for old_name, new_name in zip(tool_names(old), tool_names(new), strict=True)
    }


def tool_names(tool: ItemKey) -> tuple[str, str, str]:
    """The names by which a tool's result may name the tool."""
    return tool.name, f"{tool.server}/{tool.name}" if tool.server else tool.name, tool.id


_ONE_SIDED = 0.05  # share of the queries on which a metric may apply to one side only without a notice
LEFT_OUT_REASONS = {
    "removed": "gone",
    "changed": "changed",
    "relabelled": "relabelled",
}  # reasons why a query of the baseline cannot be compared


@dataclass(frozen=True, eq=False, kw_only=True)
class Comparability:
    """The queries on which two snapshots can be compared, or the reasons why they cannot be.

    Attributes:
        queries: ids of those compared, in the order of the head.
        left_out: by why (`new`, `removed`, `relabelled`, `changed`), ids of the others; only reasons that there are.
        reasons: messages why the two cannot be compared; empty if they can.
        renamed: ids of renamed items, old to new.
        notices: messages for the reader.
    """

    queries: tuple[str, ...] = ()
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()


def assess_comparability(base: SelectorSnapshot, head: SelectorSnapshot, settings: CheckSettings) -> Comparability:
    """Find the queries on which two snapshots of a selector on a dataset can be compared.

    Queries are the same if request and labels are equal, apart from renamed items; their order does not matter.
    Catalog, model, parameters and code may differ: they are under test.

    Args:
        base, head: the two.
        settings: which metrics are judged, and whether queries may be gone.
    """
    if base.dataset != head.dataset:
        values = {"base": base.source, "dataset": base.dataset, "head": head.source, "head_dataset": head.dataset}
        return Comparability(reasons=(Message("gate.other-dataset", fix=_renewal_hint(base), **values),))
    renamed = renamed_items(base, head)
    questions = Questions(base, offered=head.items, scopes=scopes_of(head), renames=renamed)
    queries, left_out = _sort_queries(base, head, questions)
    differing = [*_query_differences(base, head, left_out, questions)]
    if not ((reasons := [*_missing_queries(base, head, queries)]) or (settings.allow_removed and queries)):
        unnamed = "changed" in left_out and _numbered(left_out["changed"])
        key = "gate.numbered-queries-differ" if unnamed else "gate.queries-differ"
        reasons = [Message(key, difference=text, fix=_renewal_hint(base)) for text in differing]
    reasons += [*_missing_answers(base, queries), *_missing_answers(head, head.queries)]
    answers_differ = head.answers is not base.answers  # the same for reused answers
    reasons += [
        *_invalid_answers(base),
        *(_invalid_answers(head) if answers_differ else ()),
        *_missing_metrics(base, head, settings),
    ]
    return Comparability(
        queries=queries,
        left_out=left_out,
        reasons=tuple(reasons),
        renamed=renamed,
        notices=(
            *_notices(base, head, left_out, settings, renamed),
            *(Message("gate.queries-left-out", difference=text) for text in differing if settings.allow_removed),
            *_values_on_one_side(base, head, queries, settings),
        ),
    )


def _renewal_hint(base: SelectorSnapshot) -> str:
    """How to replace a base that does not fit: accept a new baseline, or repeat the runs."""
    return "accept a new baseline (--accept)" if base.judged is None else "run both again"


# ---------------------------------------------------------------------------------------------- queries


def _sort_queries(
    base: SelectorSnapshot, head: SelectorSnapshot, questions: Questions
) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Ids of the queries that are the same on both sides, and of the others by the reason why they are not."""
    groups: dict[str, list[str]] = {"same": [], "new": [], "removed": [], "relabelled": [], "changed": []}
    judged = {query.id: query for query in head.judged.queries} if head.judged is not None else {}
    for name, fact in head.queries.items():
        query = judged.get(name)
        labels = head.judged.labels_of(name) if head.judged is not None else ()
        if name not in base.queries:
            groups["new"].append(name)
        elif not questions.is_same_question(fact, query):
            groups["changed"].append(name)
        else:
            groups["same" if questions.has_same_labels(fact, query, labels) else "relabelled"].append(name)
    groups["removed"] = [name for name in base.queries if name not in head.queries]
    return tuple(groups.pop("same")), {why: tuple(names) for why, names in groups.items() if names}


def unasked(dataset: Dataset, subset: Dataset) -> dict[str, Unasked]:
    """The queries of a dataset that a check does not use, by id, with the reasons.

    Args:
        dataset: the whole dataset.
        subset: the queries that the check uses: those of a split or a sample to which metrics apply.
    """
    ids = {query.id for query in subset.queries}
    splits = {query.split for query in subset.queries}
    unlabelled = set(dataset.unlabelled).difference(dataset.only_negatives)

    def why(query: DatasetQuery) -> str:
        if query.id in unlabelled:
            return "not labelled completely"
        return "not in the sample" if query.split in splits else f"in the unused split {query.split}"

    return {
        query.id: Unasked(why(query), labelled=query.id not in unlabelled, tags=query.tags)
        for query in dataset.queries
        if query.id not in ids
    }


def _missing_queries(base: SelectorSnapshot, head: SelectorSnapshot, queries: tuple[str, ...]) -> Iterator[str]:
    """The reason why there is no query to compare, if there is none."""
    if queries:
        return
    if not base.queries and not head.queries:
        yield Message("gate.no-labelled-query", dataset=head.dataset)
    elif not base.queries.keys() & {*head.queries, *head.unasked}:
        key = "gate.no-common-numbered-query" if _numbered(base.queries) else "gate.no-common-query"
        yield Message(key, base=base.source, dataset=head.dataset, fix=_renewal_hint(base))


def _numbered(ids: Iterable[str]) -> bool:
    """Whether ids are those that evals without ids get: the name of the file and a number."""
    return all(re.fullmatch(r".+-\d+", name) for name in ids)


def _query_differences(
    base: SelectorSnapshot, head: SelectorSnapshot, left_out: Mapping[str, tuple[str, ...]], questions: Questions
) -> Iterator[str]:
    """Messages about queries of the base that are gone, changed or relabelled, one for each reason."""
    for why, text in LEFT_OUT_REASONS.items():
        skipped = head.unasked if why == "removed" else {}
        by = group_pairs(
            (f"{skipped[query].why} now" if query in skipped else text, query) for query in left_out.get(why, ())
        )
        for state, ids in by.items():
            moved = [*questions.scope_changes(head.queries[query] for query in ids)] if why == "changed" else []
            names = "; ".join([first_ids(ids), *moved])
            yield Message("gate.queries-of-base", n=len(ids), base=base.source, state=state, names=names)


# ---------------------------------------------------------------------------------------------- answers


def _missing_answers(side: SelectorSnapshot, queries: Collection[str]) -> Iterator[str]:
    """Reasons: queries without an answer, and queries that the selector failed on."""
    if missing := [name for name in queries if name not in side.answers]:
        yield Message("gate.queries-unanswered", n=len(missing), source=side.source, names=first_ids(missing))
    errors = failures(side.answers)
    if failed := [name for name in queries if name in errors]:
        why = errors[failed[0]].removeprefix(f"query {failed[0]!r}: ")
        skipped = sum(errors[name].startswith(NOT_ASKED) for name in failed)
        values = {"selector": side.selector, "source": side.source, "first": failed[0], "why": why}
        yield Message(
            "gate.selector-gave-up" if skipped else "gate.selector-failed", n=len(failed), skipped=skipped, **values
        )


def _invalid_answers(side: SelectorSnapshot) -> Iterator[str]:
    """Reasons: answers of a baseline that are not valid. Those of a run were checked before."""
    if isinstance(side.answers, TableAnswers):
        return
    for name in side.queries:
        if (fact := side.answers.get(name)) is None:
            continue
        candidates = (*fact.offered, *fact.near)
        ids = {candidate.id for candidate in candidates}
        if wrong := [
            candidate.id
            for candidate in candidates
            if candidate.score is not None and not math.isfinite(candidate.score)
        ]:
            yield Message("gate.score-not-finite", query=name, item=wrong[0], source=side.source)
        elif len(ids) < len(candidates):
            counts = Counter(candidate.id for candidate in candidates)
            twice = sorted(item_id for item_id, n in counts.items() if n > 1)
            yield Message("gate.candidate-twice", query=name, items=first_ids(twice), source=side.source)
        elif not side.items.keys() >= ids:
            yield Message(
                "gate.unknown-candidate",
                query=name,
                items=first_ids(sorted(ids - side.items.keys())),
                source=side.source,
            )


def _missing_metrics(base: SelectorSnapshot, head: SelectorSnapshot, settings: CheckSettings) -> Iterator[str]:
    """Reasons: metrics that cannot be compared."""
    prices = [str(metric) for metric in settings.metrics if metric.name in PRICES]
    if prices and base.identity.tokens != head.identity.tokens:
        yield Message(
            "gate.other-token-counter",
            base=f"{base.identity.tokens} in {base.source}",
            head=f"{head.identity.tokens} in {head.source}",
            metrics=" and ".join(prices),
            fix=_renewal_hint(base),
        )
    judged_as = ["" if side.judged is None else side.judged.judged_as for side in (base, head)]
    if judged_as[0] != judged_as[1]:
        yield Message("gate.judged-otherwise", base=base.source, head=head.source, fix=_renewal_hint(base))
    for metric in settings.metrics:
        missing = [side.source for side in (base, head) if not set(metric.parts) <= side.metrics.keys()]
        if len(missing) == 1:
            yield Message("gate.metric-missing", source=missing[0], metric=metric, fix=_renewal_hint(base))


def _notices(
    base: SelectorSnapshot,
    head: SelectorSnapshot,
    left_out: Mapping[str, tuple[str, ...]],
    settings: CheckSettings,
    renamed: Mapping[str, str],
) -> Iterator[str]:
    """Notices of items renamed, queries that are new, and metrics that neither side has."""
    if renamed:
        pairs = first_ids([f"{old} -> {new}" for old, new in renamed.items()])
        stated = set() if head.judged is None else {key.id for key in head.judged.renames}
        key = "gate.items-renamed-unstated" if renamed.keys() - stated else "gate.items-renamed"
        yield Message(key, n=len(renamed), pairs=pairs)
    if "new" in left_out:
        ids = left_out["new"]
        key = "gate.new-queries-of-baseline" if base.judged is None else "gate.new-queries"
        yield Message(key, n=len(ids), base=base.source, names=first_ids(ids))
    yield from (
        Message("gate.metric-not-computable", metric=metric)
        for metric in settings.metrics
        if not any(set(metric.parts) <= side.metrics.keys() for side in (base, head))
    )
    if FORBIDDEN_OFFERED not in (*base.metrics, *settings.metrics) and FORBIDDEN_OFFERED in head.metrics:
        yield Message("gate.metric-missing", source=base.source, metric=FORBIDDEN_OFFERED, fix=_renewal_hint(base))


def _values_on_one_side(
    base: SelectorSnapshot, head: SelectorSnapshot, queries: Sequence[str], settings: CheckSettings
) -> Iterator[str]:
    """Notices of metrics with a value on one side only for more than a few queries, which are not judged there.

    Queries that a selector failed on have reasons of their own.
    """
    failed = {*failures(base.answers), *failures(head.answers)}
    queries = [query for query in queries if query not in failed]
    rows = [side.rows_of(queries) for side in (base, head)]
    for metric in settings.metrics:
        if not all(part in side.metrics for part in metric.parts for side in (base, head)):
            continue
        before, after = (
            np.all([np.isfinite(side.metrics[part][row]) for part in metric.parts], axis=0)
            for side, row in zip((base, head), rows, strict=True)
        )
        gone, come = (
            [queries[row] for row in np.flatnonzero(mask).tolist()] for mask in (before & ~after, after & ~before)
        )
        if len(gone) + len(come) > _ONE_SIDED * len(queries):
            values = {"metric": metric, "total": len(queries), "names": first_ids(gone + come)}
            yield Message("gate.metric-on-one-side", before=len(gone), now=len(come), **values)


# ---------------------------------------------------------------------------------------------- renames


def renamed_items(base: SelectorSnapshot, head: SelectorSnapshot) -> dict[str, str]:
    """Ids of the items of the base that go on under another id at the head, old to new."""
    gone = [fact for name, fact in base.items.items() if name not in head.items]
    added = [fact for name, fact in head.items.items() if name not in base.items]
    stated = {} if head.judged is None else head.judged.renames
    renamed = {old.id: new.id for old, new in find_renames(gone, items_of(added), stated).items()}
    return renamed | _passed_on(base, head, {old.id: new.id for old, new in stated.items() if old.id not in renamed})


def _passed_on(base: SelectorSnapshot, head: SelectorSnapshot, stated: Mapping[str, str]) -> dict[str, str]:
    """Stated renames to an id that another item had, such as those of two items that exchanged their names.

    The card states them for ever, also over a baseline that was accepted since: only what the items say, which must
    have moved along with every id, tells whether they are still to come.
    """
    left = {old: new for old, new in stated.items() if old in base.items and new in head.items}
    n = -1
    while n != len(left):
        n, news = len(left), {*left.values()}
        left = {
            old: new
            for old, new in left.items()
            if (new not in base.items or new in left) and (old not in head.items or old in news)
        }
    if not left or len({*left.values()}) < len(left):
        return {}
    before, after = items_of(base.items[old] for old in left), items_of(head.items[new] for new in left.values())
    from ctxbench.labelling.rebase import propose_renames  # takes 20 ms, and an unchanged check does not need it

    return left if {rename.old.id: rename.new.id for rename in propose_renames(before, after)[0]} == left else {}


def find_renames(
    gone: Collection[ItemFact], added: Sequence[Item], stated: Mapping[ItemKey, ItemKey]
) -> dict[ItemKey, ItemKey]:
    """Keys of renamed items, old to new: those that are stated, and of the others those with the same texts.

    Args:
        gone: the items that are gone; by texts none is found that is without them.
        added: the new items.
        stated: the renames in the dataset's card; of two items with one successor the later one counts.
    """
    olds, news = {fact.id for fact in gone}, {item.key for item in added}
    last = {new: old for old, new in stated.items() if old.id in olds and new in news}
    renames = {old: new for new, old in last.items()}
    before = [item for item in items_of(gone) if item.key not in renames]
    after = [item for item in added if item.key not in last]
    if not before or not after:
        return renames
    from ctxbench.labelling.rebase import propose_renames

    return renames | {rename.old: rename.new for rename in propose_renames(before, after)[0]}


def items_of(facts: Iterable[ItemFact]) -> list[Item]:
    """The items whose texts are known."""
    return [item for item in map(item_of, facts) if item is not None]


def item_of(fact: ItemFact) -> Item | None:
    """The item that a fact is of; None where its text is not known."""
    return None if fact.row is None else read_item(Row(fact.row, [], Path(), 0))


def open_edited(
    name_or_path: str | Path,
    *,
    bases: Sequence[SelectorSnapshot],
    base: Path | None = None,
    notify: Callable[[str], None] = nothing_said,
) -> Dataset:
    """Open a dataset for a comparison with a baseline.

    Args:
        name_or_path, base, notify: as for `open_dataset`.
        bases: the snapshots of the baseline. A dataset that is in none must be valid, but for `frozen` and `counts`.

    Raises:
        UserError: as `open_dataset`.
    """
    first = {snapshot.dataset: snapshot for snapshot in reversed(bases)}
    dataset = open_dataset(
        name_or_path,
        base=base,
        notify=notify,
        former_ids={name: [*snapshot.all_items] for name, snapshot in first.items()},
    )
    return restore_labels(dataset, first[dataset.name]) if dataset.name in first else dataset


def restore_labels(dataset: Dataset, base: SelectorSnapshot) -> Dataset:
    """Restore the labels of an edited dataset from the baseline, where only the edit took them away.

    Args:
        dataset: read with the ids of the baseline's items as `former_ids`.
        base: any selector's on that dataset.
    """
    offered = {item.id for item in dataset.current_catalog if item.enabled}
    if not (out := {name for name in base.items if name not in offered}):
        return dataset
    gone = [fact for name, fact in base.items.items() if name in out]
    added = [item for item in dataset.current_catalog if item.enabled and item.id not in base.items]
    renames = find_renames(gone, added, dataset.renames)
    return _restore_dropped_labels(_follow_renames(dataset, renames) if renames else dataset, base, out, renames)


def _follow_renames(dataset: Dataset, renames: Mapping[ItemKey, ItemKey]) -> Dataset:
    """Give renamed items their new ids and names wherever a dataset names them, unless it names both.

    A name of a tool's result is followed if no tool has it any more: else it may be that one's.
    """

    def new(keys: tuple[ItemKey, ...]) -> tuple[ItemKey, ...]:
        present = set(keys)
        return tuple(renames[key] if key in renames and renames[key] not in present else key for key in keys)

    scopes = {name: new(keys) for name, keys in dataset.scopes.items()}
    lists = {query.request.available for query in dataset.queries} - {None}
    available = {keys: new(keys) for keys in lists if keys is not None}
    used_names = {name for item in dataset.current_catalog if item.type == "tool" for name in tool_names(item.key)}
    names = {old: name for old, name in result_names(renames).items() if old not in used_names}
    queries = []
    for query in dataset.queries:
        keys = query.request.available
        request = query.request if keys is None else replace(query.request, available=available[keys])
        if request.tool_results:
            request = replace(
                request, tool_results=tuple((names.get(tool, tool), text) for tool, text in request.tool_results)
            )
        queries.append(replace(query, request=request))
    labelled = {(label.query, label.item) for label in dataset.labels}
    labels = [
        label
        if (label.query, renames.get(label.item, label.item)) in labelled
        else replace(label, item=renames[label.item])
        for label in dataset.labels
    ]
    return replace(dataset, queries=tuple(queries), labels=tuple(labels), scopes=scopes)


def _restore_dropped_labels(
    dataset: Dataset, base: SelectorSnapshot, out: set[str], renames: Mapping[ItemKey, ItemKey]
) -> Dataset:
    """Restore the labels that were dropped with items that can no longer be offered."""
    ids = {old.id: new.id for old, new in renames.items()}
    questions = Questions(
        base,
        offered=[item.id for item in dataset.current_catalog if item.enabled],
        scopes={name: [key.id for key in keys] for name, keys in dataset.scopes.items()},
        renames=ids,
    )
    back: dict[str, list[Label]] = {}
    for query in dataset.queries:
        if (base_query := base.queries.get(query.id)) is None:
            continue
        labels = _dropped_labels(query, base_query, dataset.labels_of(query.id), out, ids)
        if labels and questions.is_same_question(QueryFact.of(query, ()), query):
            back[query.id] = labels
    if not back:
        return dataset
    queries = [
        replace(query, partly_labelled=not base.queries[query.id].complete) if query.id in back else query
        for query in dataset.queries
    ]
    labels = [label for label in dataset.labels if label.query not in back]
    labels += [label for several in back.values() for label in several]
    missing = sorted(
        {label.item for label in labels if dataset.catalog.find(label.item) is None}, key=lambda key: key.id
    )
    items = [Item(type=key.type, server=key.server, name=key.name, enabled=False) for key in missing]
    return replace(
        dataset,
        catalog=dataset.catalog.extended(items),
        queries=tuple(queries),
        labels=tuple(labels),
        gone=dataset.gone + len(items),
    )


def _dropped_labels(
    query: DatasetQuery, base_query: QueryFact, labels: Sequence[Label], out: set[str], ids: Mapping[str, str]
) -> list[Label]:
    """The baseline's labels of a query, if its own labels lack only those of items that can no longer be offered.

    Empty if no label is missing, or if others differ. Whether the query is the same question is not looked at.
    """
    before = base_query.labels()
    current = label_facts(labels)
    if before is None or query.needs_nothing != base_query.needs_nothing:
        return []
    before = sorted((ids.get(name, name), grade, via, group) for name, grade, via, group in before)
    if before == current or any(
        name not in out for name in {label[0] for label in before} - {label[0] for label in current}
    ):
        return []
    left = {label[0] for label in current}
    if sorted(_without_single_alternatives([label for label in before if label[0] in left])) != current:
        return []
    sources = {label.item.id: label.source for label in labels}
    return [
        Label(query.id, ItemKey.parse(name), grade, via, alternatives, sources.get(name, ""))
        for name, grade, via, alternatives in before
    ]


def _without_single_alternatives(labels: Sequence[LabelFact]) -> list[LabelFact]:
    """Labels without the names of groups of alternatives that have one member left."""
    groups = [alternatives for _, grade, _, alternatives in labels if grade == Grade.REQUIRED]
    return [(name, grade, via, "" if groups.count(group) == 1 else group) for name, grade, via, group in labels]
