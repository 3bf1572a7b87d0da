"""Finds requirements of queries that nothing can meet any more: items gone, disabled, by hand only, or in no scope."""

from __future__ import annotations

from collections.abc import Sequence

from ctxbench.gate.comparability import Comparability
from ctxbench.gate.model import UnmetRequirement
from ctxbench.gate.pins import exclusion_reason
from ctxbench.gate.snapshots import SelectorSnapshot
from ctxbench.gate.table_answers import offered_ids
from ctxbench.gate.value_texts import first_ids, queries_text


def unmet_requirements(
    base: SelectorSnapshot, head: SelectorSnapshot, comparability: Comparability
) -> tuple[UnmetRequirement, ...]:
    """Find requirements that could be met at the base and cannot be at the head, whatever a selector does.

    Whether it was offered makes no difference: what no selector offered is not lost, so that nothing else would tell.

    Args:
        base, head: the two.
        comparability: the queries to compare, and renamed items.

    Returns:
        One for each set of alternatives (of one item, mostly), in the order of the queries.
    """
    if head.items is base.items:
        return ()  # no selector was asked, since nothing has changed
    old = {new: name for name, new in comparability.renamed.items()}
    found: dict[tuple[str, ...], list[str]] = {}
    for query in comparability.queries:
        for group in head.queries[query].required:
            if _can_be_met(group, head, query) or not _can_be_met([old.get(one, one) for one in group], base, query):
                continue
            left = tuple(name for name in group if old.get(name, name) in base.items)
            found.setdefault(left or tuple(group), []).append(query)
    return tuple(
        UnmetRequirement(
            items=items,
            why=" or ".join(dict.fromkeys(_item_reason(one, head) for one in items)),
            queries=tuple(ids),
            before=sum(
                not {old.get(one, one) for one in items}.isdisjoint(offered_ids(base.answers, query)) for query in ids
            ),
        )
        for items, ids in found.items()
    )


def unmet_text(unmet: Sequence[UnmetRequirement]) -> str:
    """All unmet requirements in a sentence.

    Args:
        unmet: at least one.
    """
    items = [*dict.fromkeys(item for one in unmet for item in one.items)]
    queries = [*dict.fromkeys(query for one in unmet for query in one.queries)]
    why = " or ".join(dict.fromkeys(one.why for one in unmet))
    before = sum(one.before for one in unmet)
    what = f"required by {queries_text(len(queries))}, offered to {before or 'none'} before, and nothing else would do"
    return f"{what}: {first_ids(items)} ({why}; {first_ids(queries)})"


def _can_be_met(group: Sequence[str], side: SelectorSnapshot, query: str) -> bool:
    """Whether one of some alternatives can be offered, or is held by the session."""
    asked = side.queries[query]
    if any(one in side.items and not exclusion_reason(one, asked, side.items[one]) for one in group):
        return True
    return not {*group}.isdisjoint(offered_ids(side.answers, query))


def _item_reason(item: str, head: SelectorSnapshot) -> str:
    fact = head.items.get(item)
    if fact is not None and fact.row is not None and fact.row.get("include") == "manual":
        return "included by hand only"
    from ctxbench.gate.input_differences import absence_text  # most checks find nothing gone

    return absence_text(item, head)
