"""Finds the queries on which two snapshots can be compared: those asked and labelled alike on both sides."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ctxbench.bench.metrics import FORBIDDEN_OFFERED
from ctxbench.core.items import Item, ItemKey
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.data.datasets.query_labels import DatasetQuery
from ctxbench.data.datasets.row_groups import group_pairs
from ctxbench.gate.check_settings import PRICES, CheckSettings
from ctxbench.gate.questions import Questions, scopes_of
from ctxbench.gate.snapshots import ItemFact, SelectorSnapshot, TableAnswers, Unasked, failures
from ctxbench.gate.value_texts import first_ids
from ctxbench.io.rows import Row
from ctxbench.io.visible import count
from ctxbench.selectors.protocol import NOT_ASKED
from ctxbench.sources.catalogs import read_item

_UNNAMED = "Evals without ids get others when records are put in or taken out before them: give each an `id`"
_ONE_SIDED = 0.05  # share of the queries on which a metric may apply to one side only without a notice
LEFT_OUT_REASONS = {
    "removed": "gone",
    "changed": "asked otherwise",
    "relabelled": "labelled otherwise",
}  # reasons why a query of the baseline cannot be compared


@dataclass(frozen=True, eq=False, kw_only=True)
class Comparability:
    """The queries on which two snapshots can be compared, or the reasons why they cannot be.

    Attributes:
        queries: ids of those compared, in the order of the head.
        left_out: by why (`new`, `removed`, `relabelled`, `changed`), ids of the others; only reasons that there are.
        reasons: why the two cannot be compared, a sentence each; empty if they can.
        renamed: ids of items that go on under another id, old to new.
        notices: what a reader must know, a sentence each.
    """

    queries: tuple[str, ...] = ()
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()


def assess_comparability(base: SelectorSnapshot, head: SelectorSnapshot, settings: CheckSettings) -> Comparability:
    """Find the queries on which two snapshots of a selector on a dataset can be compared.

    Queries are the same if they are asked and labelled alike, whatever their order; where items were renamed, if they
    are alike but for the new names. Catalog, model, parameters and code may differ: they are under test.

    Args:
        base, head: the two.
        settings: which metrics are judged, and whether queries may be gone.
    """
    if base.dataset != head.dataset:
        message = f"{base.source} is of dataset {base.dataset}, {head.source} of {head.dataset}"
        return Comparability(reasons=(f"{message}; name the same dataset, or {_renewal_hint(base)}",))
    renamed = renamed_items(base, head)
    questions = Questions(base, offered=head.items, scopes=scopes_of(head), renames=renamed)
    queries, left_out = _sort_queries(base, head, questions)
    differing = [*_query_differences(base, head, left_out, questions)]
    reasons = [*_missing_queries(base, head, queries)]
    if not (reasons or (settings.allow_removed and queries)):
        reasons = [f"{text}; {_renewal_hint(base)}, or leave them out with --allow-removed" for text in differing]
        if reasons and "changed" in left_out and _numbered(left_out["changed"]):
            reasons[-1] += f". {_UNNAMED}"
    reasons += [*_missing_answers(base, queries), *_missing_answers(head, head.queries)]
    answers_differ = head.answers is not base.answers  # not where no selector was asked
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
            *(f"{text}, left out" for text in differing if settings.allow_removed),
            *_unknown_scopes(base, head, questions),
            *_values_on_one_side(base, head, queries, settings),
        ),
    )


def _renewal_hint(base: SelectorSnapshot) -> str:
    """How to replace a base that does not fit: a baseline is accepted anew, a run is made again."""
    return "write the baseline anew with --accept" if base.judged is None else "run both again"


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
    """The queries of a dataset that are not asked, by id, with why.

    Args:
        dataset: as it was opened.
        subset: the queries of it that are asked: of one split, a sample, what metrics apply to.
    """
    ids = {query.id for query in subset.queries}
    splits = {query.split for query in subset.queries}
    unlabelled = set(dataset.unlabelled).difference(dataset.only_negatives)

    def why(query: DatasetQuery) -> str:
        if query.id in unlabelled:
            return "not labelled in full"
        in_split = query.split in splits
        return "not in the sample that is asked" if in_split else f"of split {query.split}, which is not asked"

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
        yield f"dataset {head.dataset} has no labelled query on either side; label some"
    elif not base.queries.keys() & {*head.queries, *head.unasked}:
        message = f"no query of {base.source} is in dataset {head.dataset}: it may be of another one"
        unnamed = f". {_UNNAMED}" if _numbered(base.queries) else ""
        yield f"{message}; name the same dataset, or {_renewal_hint(base)}{unnamed}"


def _numbered(ids: Iterable[str]) -> bool:
    """Whether ids are those that evals without ids get: the name of the file and a number."""
    return all(re.fullmatch(r".+-\d+", name) for name in ids)


def _query_differences(
    base: SelectorSnapshot, head: SelectorSnapshot, left_out: Mapping[str, tuple[str, ...]], questions: Questions
) -> Iterator[str]:
    """Texts about queries of the base that are gone, changed or relabelled, one for each reason."""
    for why, text in LEFT_OUT_REASONS.items():
        skipped = head.unasked if why == "removed" else {}
        by = group_pairs(
            (f"{skipped[query].why} now" if query in skipped else text, query) for query in left_out.get(why, ())
        )
        for state, ids in by.items():
            verb = "is" if len(ids) == 1 else "are"
            message = f"{count(len(ids), 'query', 'queries')} of {base.source} {verb} {state} ({first_ids(ids)})"
            moved = [*questions.scope_changes(head.queries[query] for query in ids)] if why == "changed" else []
            yield f"{message}: {'; '.join(moved)}" if moved else message


def _unknown_scopes(base: SelectorSnapshot, head: SelectorSnapshot, questions: Questions) -> Iterator[str]:
    if questions.has_unknown_scopes(head.queries.values()):
        message = f"{base.source} does not tell which items its scopes held, so that a change of them goes unnoticed"
        yield f"{message}; {_renewal_hint(base)}"


# ---------------------------------------------------------------------------------------------- answers


def _missing_answers(side: SelectorSnapshot, queries: Collection[str]) -> Iterator[str]:
    """Reasons: queries without an answer, and queries that the selector failed on."""
    if missing := [name for name in queries if name not in side.answers]:
        message = f"{count(len(missing), 'query', 'queries')} without an answer in {side.source} ({first_ids(missing)})"
        yield f"{message}; run it again, whole"
    errors = failures(side.answers)
    if failed := [name for name in queries if name in errors]:
        message = f"{side.selector} failed on {count(len(failed), 'query', 'queries')} in {side.source}"
        why = errors[failed[0]].removeprefix(f"query {failed[0]!r}: ")
        given_up = sum(errors[name].startswith(NOT_ASKED) for name in failed)
        after = f" (after {len(failed) - given_up} of them the others were not asked)" if given_up else ""
        yield f"{message}, first {failed[0]}: {why}{after}; mend that, and run it again"


def _invalid_answers(side: SelectorSnapshot) -> Iterator[str]:
    """Reasons: answers of a baseline that are not valid. Those of a run were checked when they were given."""
    if isinstance(side.answers, TableAnswers):
        return
    for name in side.queries:
        fact = side.answers.get(name)
        if fact is None:
            continue
        candidates = (*fact.offered, *fact.near)
        ids = {candidate.id for candidate in candidates}
        wrong = [
            candidate.id
            for candidate in candidates
            if candidate.score is not None and not math.isfinite(candidate.score)
        ]
        if wrong:
            yield f"query {name}: the score of {wrong[0]} in {side.source} is no number; write it anew"
        elif len(ids) < len(candidates):
            twice = sorted(
                item_id for item_id, count in Counter(candidate.id for candidate in candidates).items() if count > 1
            )
            yield f"query {name}: {first_ids(twice)} stands twice in {side.source}; write it anew"
        elif not side.items.keys() >= ids:
            unknown = sorted(ids - side.items.keys())
            yield f"query {name}: {side.source} has no item {first_ids(unknown)}, but offers it; write it anew"


def _missing_metrics(base: SelectorSnapshot, head: SelectorSnapshot, settings: CheckSettings) -> Iterator[str]:
    """Reasons: metrics that cannot be compared."""
    prices = [str(metric) for metric in settings.metrics if metric.name in PRICES]
    if prices and base.identity.tokens != head.identity.tokens:
        how = f"by {base.identity.tokens} in {base.source} and by {head.identity.tokens} in {head.source}"
        message = f"tokens are counted {how}, so that {' and '.join(prices)} cannot be compared"
        yield f"{message}; count alike, or {_renewal_hint(base)}"
    for metric in settings.metrics:
        missing = [side.source for side in (base, head) if not set(metric.parts) <= side.metrics.keys()]
        if len(missing) == 1:
            alternative = "" if str(metric) in PRICES else ", or judge another"  # prices are judged always
            yield f"{missing[0]} has no values of {metric}; {_renewal_hint(base)}{alternative}"


def _notices(
    base: SelectorSnapshot,
    head: SelectorSnapshot,
    left_out: Mapping[str, tuple[str, ...]],
    settings: CheckSettings,
    renamed: Mapping[str, str],
) -> Iterator[str]:
    """Notices of items renamed, queries that are new, and metrics that neither side has."""
    if renamed:
        pairs = [f"{old} is {new} now" for old, new in renamed.items()]
        stated = set() if head.judged is None else {key.id for key in head.judged.renames}
        carried = "; `ctxbench data rebase` with --renames FILE carries labels over that still hold an old name"
        left = carried if renamed.keys() - stated else ""
        yield f"{count(len(pairs), 'item')} renamed, taken for the same ({first_ids(pairs)}){left}"
    if "new" in left_out:
        ids = left_out["new"]
        remedy = "; --accept takes them in" if base.judged is None else ""
        yield f"{count(len(ids), 'query', 'queries')} not in {base.source}, left out ({first_ids(ids)}){remedy}"
    for metric in settings.metrics:
        if not any(set(metric.parts) <= side.metrics.keys() for side in (base, head)):
            yield f"{metric} cannot be computed for this selector, and is not judged"
    if FORBIDDEN_OFFERED not in (*base.metrics, *settings.metrics) and FORBIDDEN_OFFERED in head.metrics:
        yield f"{FORBIDDEN_OFFERED} is not judged: {base.source} has no values of it; {_renewal_hint(base)}"


def _values_on_one_side(
    base: SelectorSnapshot, head: SelectorSnapshot, queries: Sequence[str], settings: CheckSettings
) -> Iterator[str]:
    """Notices of metrics with a value on one side only for more than a few queries, which are not judged there."""
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
            some = f"{count(len(gone) + len(come), 'query', 'queries')} of {len(queries):,}"
            counts = f"{len(gone):,} only before, {len(come):,} only now; {first_ids(gone + come)}"
            yield f"{metric} has a value on one side only for {some} ({counts}), not judged there"


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
    while True:
        news = {*left.values()}
        remaining = {
            old: new
            for old, new in left.items()
            if (new not in base.items or new in left) and (old not in head.items or old in news)
        }
        if len(remaining) == len(left):
            break
        left = remaining
    if not left or len({*left.values()}) < len(left):
        return {}
    from ctxbench.data.curation.renames import propose_renames  # most cards state no such rename

    before, after = items_of(base.items[old] for old in left), items_of(head.items[new] for new in left.values())
    moved = {rename.old.id: rename.new.id for rename in propose_renames(before, after)[0]}
    return left if moved == left else {}


def find_renames(
    gone: Collection[ItemFact], added: Sequence[Item], stated: Mapping[ItemKey, ItemKey]
) -> dict[ItemKey, ItemKey]:
    """Keys of renamed items, old to new: those that are stated, and of the others those with the same texts.

    Args:
        gone: the items that are gone; by texts none is found that is without them.
        added: the new items.
        stated: the renames that the dataset's card says; of two items with one successor the later is the same one.
    """
    olds, news = {fact.id for fact in gone}, {item.key for item in added}
    last = {new: old for old, new in stated.items() if old.id in olds and new in news}
    renames = {old: new for new, old in last.items()}
    before = [item for item in items_of(gone) if item.key not in renames]
    after = [item for item in added if item.key not in last]
    if not before or not after:
        return renames
    from ctxbench.data.curation.renames import propose_renames  # most checks find no item renamed

    return renames | {rename.old: rename.new for rename in propose_renames(before, after)[0]}


def items_of(facts: Iterable[ItemFact]) -> list[Item]:
    """The items whose texts are known."""
    return [item for item in map(item_of, facts) if item is not None]


def item_of(fact: ItemFact) -> Item | None:
    """The item that a fact is of; None where its text is not known."""
    return None if fact.row is None else read_item(Row(fact.row, [], Path(), 0))
