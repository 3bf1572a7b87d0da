"""Compares queries of base and head: whether they are asked and labelled alike, though items were renamed or are gone.

Which items a query may get, by a scope or by a list of its own, is part of what is asked; the catalog is under test:

* An item that goes on under another id is the same one, wherever it is named.
* What is gone from the catalog, or can no longer be offered, makes no other question of one that named it. Nor does
  what is new, among the items that a query may get.
* An item that queries with a scope require, and that is in no scope any more, is gone for all that have one.
* An item that can be offered on both sides, but that a query may get on one side only, makes another question.

How a scope is called does not matter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from ctxbench.core.items import ItemKey
from ctxbench.core.requests import SessionItem
from ctxbench.data.datasets.query_labels import DatasetQuery, Label
from ctxbench.data.datasets.row_groups import group_pairs
from ctxbench.gate.baseline_rows import session_items
from ctxbench.gate.snapshots import QueryFact, SelectorSnapshot, asked_hash
from ctxbench.gate.value_texts import first_ids


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
        scopes: the scopes now, ids by name; where there are none, nothing has left them.
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
        are_known = old_ids is not None and new_ids is not None
        if old_ids is not None and new_ids is not None and old_ids is not new_ids:
            passed_over = self._left_scopes if before.scope and fact.scope else frozenset()
            if (old_ids ^ new_ids) - passed_over:
                return False
        if fact.request_hash == before.request_hash:
            return True
        versions = () if query is None else self._base_versions(query, before, available=are_known)
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

    def has_unknown_scopes(self, queries: Iterable[QueryFact]) -> bool:
        """Whether the base lacks the items of some queries' scopes, as the first baselines do."""
        before = self._base.queries
        return any(
            query.scope and not before[query.id].scope and query.request_hash == before[query.id].request_hash
            for query in queries
            if query.id in before
        )

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

        Results of tools name these by texts, which may be of other tools, too: those that stand there come first.
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
        if available:  # the same items, however they are told
            listed = before.lists.get("available")
            query = replace(query, scope=before.scope or None)
            lists["available"] = None if listed is None else tuple(map(ItemKey.parse, listed))
        request = replace(request, **lists)
        yield replace(query, request=request)
        results = self._base_results(request.tool_results)
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

    def _base_results(self, results: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        names = result_names({ItemKey.parse(new): ItemKey.parse(old) for new, old in self._old.items()})
        return tuple((names.get(tool, tool), text) for tool, text in results)


def result_names(renames: Mapping[ItemKey, ItemKey]) -> dict[str, str]:
    """Names of renamed tools in results of tools, old to new: `name`, `server/name`, and the id."""
    names: dict[str, str] = {}
    for old, new in renames.items():
        if old.type == "tool":
            names |= dict(zip(tool_names(old), tool_names(new), strict=True))
    return names


def tool_names(tool: ItemKey) -> tuple[str, str, str]:
    """The names by which a tool's result may name the tool."""
    return tool.name, f"{tool.server}/{tool.name}" if tool.server else tool.name, tool.id
