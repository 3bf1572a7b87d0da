"""What queries require and nothing can meet any more: items that are gone, disabled, by hand only, or in no scope."""

from __future__ import annotations

from collections.abc import Sequence

from ctxbench.gate.comparability import Comparable, queries_text
from ctxbench.gate.model import Unmet
from ctxbench.gate.pins import barred
from ctxbench.gate.questions import named
from ctxbench.gate.snapshots import Snapshot
from ctxbench.gate.table_answers import offered_ids


def requirements_unmet(base: Snapshot, head: Snapshot, comparable: Comparable) -> tuple[Unmet, ...]:
    """Find what could be offered at the base, or was held by the session, and cannot be now, whatever a selector does.

    Whether it was offered makes no difference: what no selector offered is not lost, so that nothing else would tell.

    Args:
        base, head: the two.
        comparable: what they can be compared on.

    Returns:
        One for each set of alternatives (of one item, mostly), in the order of the queries.
    """
    if head.items is base.items:
        return ()  # no selector was asked, since nothing has changed
    old = {new: name for name, new in comparable.renamed.items()}
    found: dict[tuple[str, ...], list[str]] = {}
    for query in comparable.queries:
        for group in head.queries[query].required:
            if _can_be_met(group, head, query) or not _can_be_met([old.get(one, one) for one in group], base, query):
                continue
            left = tuple(name for name in group if old.get(name, name) in base.items)
            found.setdefault(left or tuple(group), []).append(query)
    return tuple(Unmet(items=items, why=_why(items, head), queries=tuple(ids)) for items, ids in found.items())


def in_words(unmet: Sequence[Unmet]) -> str:
    """All of it in a sentence.

    Args:
        unmet: at least one.
    """
    items = [*dict.fromkeys(item for one in unmet for item in one.items)]
    queries = [*dict.fromkeys(query for one in unmet for query in one.queries)]
    why = " or ".join(dict.fromkeys(one.why for one in unmet))
    what = f"nothing is left that would meet what {queries_text(len(queries))} require{'s' * (len(queries) == 1)}"
    return f"{what}: {named(items)} ({why}; {named(queries)})"


def _can_be_met(group: Sequence[str], side: Snapshot, query: str) -> bool:
    """Whether one of some alternatives can be offered, or is held by the session."""
    asked = side.queries[query]
    if any(one in side.items and not barred(one, asked, side.items[one]) for one in group):
        return True
    return not {*group}.isdisjoint(offered_ids(side.answers, query))


def _why(items: Sequence[str], head: Snapshot) -> str:
    return " or ".join(dict.fromkeys(_what_became(one, head) for one in items))


def _what_became(item: str, head: Snapshot) -> str:
    fact = head.items.get(item)
    if fact is not None and fact.row is not None and fact.row.get("include") == "manual":
        return "included by hand only"
    from ctxbench.gate.snapshot_changes import where_gone  # most checks find nothing gone

    return where_gone(item, head)
