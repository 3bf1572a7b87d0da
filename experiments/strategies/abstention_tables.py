"""Tables of what calibrations are worth, in Markdown."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from trials import AbstentionData, AbstentionTrial, ratio_interval, reliability, roc_area_by_stratum

from ctxbench.evaluation.statistics import Comparison, Estimate, Interval, Scale, compare, sign_flip
from ctxbench.model.arrays import BoolArray, FloatArray, IntArray
from ctxbench.tuning.query_fits import roc_area, roc_area_interval

EDGES = (0.0, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)


def figure(value: float, interval: Interval, digits: int = 3) -> str:
    """A figure with its interval."""
    few = "" if interval.holds else " (too few to rely on the interval)"
    return f"{value:.{digits}f} [{interval.low:.{digits}f}, {interval.high:.{digits}f}]{few}"


def estimated(found: Estimate, digits: int = 3) -> str:
    """An estimate with its interval."""
    return figure(found.value, found.interval, digits)


def said_and_was(label: BoolArray, probability: FloatArray) -> Iterator[str]:
    """What was said of rows, and what was the case."""
    yield "| probability | rows | mean said | share that was |"
    yield "| --- | ---: | ---: | ---: |"
    for one in reliability(label, probability, EDGES):
        yield f"| {one.low:g} to {one.high:g} | {one.n:,} | {one.predicted:.3f} | {one.observed:.3f} |"


def silence_comparisons(before: AbstentionData, after: AbstentionData) -> dict[str, Comparison]:
    """The same queries before and after: who in no need gets something, how many items, and recall of the others.

    The test flips the signs of whole groups: queries of one group are no independent witnesses.
    """
    needs = after.examples.needs
    sides: dict[str, tuple[Scale, BoolArray, list[FloatArray]]] = {
        "queries": ("yes/no", ~needs, [side.falsely_offered.astype(np.float64) for side in (before, after)]),
        "items": ("amount", ~needs, [side.items for side in (before, after)]),
        "recall": ("share", needs, [side.recall for side in (before, after)]),
    }
    found = {}
    for name, (scale, rows, (was, now)) in sides.items():
        _, group = np.unique(np.array(after.examples.groups, dtype=object)[rows], return_inverse=True)
        p = sign_flip(np.bincount(group, weights=(now - was)[rows]))
        compared = compare(was[rows], now[rows], scale=scale)
        found[name] = replace(compared, p=p, p_holm=p, test="sign flips of groups")
    return found


def silence_table(
    before: AbstentionData, after: AbstentionData, p: Mapping[str, Comparison], *, fewer: float, loss: float
) -> Iterator[str]:
    """What abstaining took away, and what it cost, each compared with a bar.

    Args:
        before, after: the same queries.
        p: comparisons as of `silence_comparisons`, corrected.
        fewer: share of false inclusions that is to go.
        loss: recall that may be lost.
    """
    needs = after.examples.needs
    idle, needy = (list(itertools.compress(after.examples.groups, some)) for some in (~needs, needs))
    yield "| | default | with `abstain` | change | wanted | p |"
    yield "| --- | ---: | ---: | --- | --- | --- |"
    shown = [side.falsely_offered[~needs].astype(np.float64) for side in (before, after)]
    items = [side.items[~needs] for side in (before, after)]
    rows = {"queries that need nothing and get something": ("queries", shown), "items that they get": ("items", items)}
    for title, (name, (was, now)) in rows.items():
        gone = float((was - now).sum() / was.sum())
        change = figure(gone, ratio_interval(was - now, was, idle))
        wanted = f"{fewer:g}: {verdict(gone >= fewer)}"
        yield f"| {title} | {was.sum():.0f} | {now.sum():.0f} | {change} gone | {wanted} | {p_value(p[name])} |"
    was, now = before.recall[needs], after.recall[needs]
    lost = float((was - now).mean())
    change = figure(lost, ratio_interval(was - now, np.ones(len(was)), needy), 4)
    wanted = f"at most {loss:g}: {verdict(lost <= loss)}"
    yield f"| recall | {was.mean():.3f} | {now.mean():.3f} | {change} lost | {wanted} | {p_value(p['recall'])} |"


def area_table(
    tuning: Mapping[str, AbstentionData], test: Mapping[str, AbstentionData], size: IntArray
) -> Iterator[str]:
    """Areas under the ROC curves of signals, on both splits and within queries over lists of one size.

    Args:
        tuning, test: by signal.
        size: how many items each query of the test split may get.
    """
    yield "| signal | area under the ROC curve, tuning, out of fold | test | test, pairs with lists of one size |"
    yield "| --- | --- | --- | ---: |"
    for signal in test:
        both = [
            figure(
                roc_area(one.examples.needs, one.signal),
                roc_area_interval(one.examples.needs, one.signal, one.examples.groups),
            )
            for one in (tuning[signal], test[signal])
        ]
        within = roc_area_by_stratum(test[signal].examples.needs, test[signal].signal, size)
        yield f"| {signal} | {both[0]} | {both[1]} | {within:.3f} |"
    needs = next(iter(test.values())).examples.needs
    by_size = roc_area(needs, size.astype(np.float64))
    yield f"| how many items the query may get (no feature; to compare) | | {by_size:.3f} | |"


def trade_table(
    tuning: Mapping[str, AbstentionData], test: Mapping[str, AbstentionData], allowed: Sequence[float]
) -> Iterator[str]:
    """What thresholds chosen on the tuning split for several losses of recall give on the test split."""
    yield "| signal | recall it may lose on tuning | threshold | recall lost | queries gone | items gone |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for signal in test:
        for loss in allowed:
            limit = tuning[signal].threshold(loss)
            lost, queries, items = test[signal].effect_of(limit)
            yield f"| {signal} | {loss:g} | {limit:.3f} | {lost:.4f} | {queries:.3f} | {items:.3f} |"


def nested_table(trials: Mapping[str, AbstentionTrial]) -> Iterator[str]:
    """What thresholds chosen on the other folds for several losses of recall give, over all queries.

    Args:
        trials: by signal.
    """
    yield "| signal | recall it may lose on the other folds | thresholds | recall lost | queries gone | items gone |"
    yield "| --- | ---: | --- | ---: | ---: | ---: |"
    for signal, one in trials.items():
        for loss, limit in one.thresholds.items():
            lost, queries, items = gone(one.before, one.after[loss])
            between = f"{limit.min():.3f} to {limit.max():.3f}"
            yield f"| {signal} | {loss:g} | {between} | {lost:.4f} | {queries:.3f} | {items:.3f} |"


def held(before: AbstentionData, after: AbstentionData, fewer: float, loss: float) -> str:
    """What is gone and lost, as a sentence, against the bars: by the figures, and by the ends of their intervals."""
    needs = after.examples.needs
    idle, needy = (list(itertools.compress(after.examples.groups, some)) for some in (~needs, needs))
    lost, queries, items = gone(before, after)
    shown = [side.falsely_offered.astype(np.float64) for side in (before, after)]
    sides = (shown, [before.items, after.items])
    ends = [ratio_interval((was - now)[~needs], was[~needs], idle).low for was, now in sides]
    most = ratio_interval((before.recall - after.recall)[needs], np.ones(int(needs.sum())), needy).high
    met, sure = lost <= loss and min(queries, items) >= fewer, most <= loss and min(ends) >= fewer
    bars = f"{verdict(met)} by these figures and {verdict(sure)} by the worse ends of their intervals"
    return (
        f"{queries:.0%} of the false inclusions are gone by query and {items:.0%} by item, at {lost:.4f} recall lost: "
        f"as much as all of {lost * needs.sum():.1f} of {needs.sum():,} queries. The bar ({fewer:.0%} and {loss:g}) "
        f"{bars}."
    )


def answer(
    lost: Mapping[str, tuple[float, float, float]],
    alone: Mapping[str, tuple[float, float, float]],
    fitted_probability: tuple[float, float],
    similarity: tuple[float, float],
    *,
    cut_on: str,
) -> str:
    """What a calibrated probability is worth, as one sentence.

    Args:
        lost: by dataset, as of `gone`, over all queries in folds.
        alone: the same on the test split alone.
        calibrated, similarity: mean items and recall of a cut by either.
        cut_on: the dataset of the cut.
    """
    spared = ", and ".join(
        f"{queries:.0%} on `{name}`, at {100 * recall:.1f} points of recall lost on the others (on the test "
        f"split alone {alone[name][1]:.0%}, at {100 * alone[name][0]:.1f} points)"
        for name, (recall, queries, _) in lost.items()
    )
    return (
        "**Of the requests that need nothing and are offered something, a probability that is fitted to labels spares "
        f"{spared}; as a cut on `{cut_on}` it finds {100 * fitted_probability[1]:.1f}% of what is required with "
        f"{fitted_probability[0]:.2f} items a request, where similarity finds {100 * similarity[1]:.1f}% with "
        f"{similarity[0]:.2f}.**"
    )


def bars_table(found: Mapping[str, tuple[float, float, float]], *, fewer: float, loss: float) -> Iterator[str]:
    """What is gone and lost, against the bar.

    Args:
        found: by what was measured, as of `gone`.
        fewer: share of false inclusions that is to go, by query and by item.
        loss: recall that may be lost.
    """
    wanted = f"offering nothing: at least {fewer:.0%} gone, at most {loss:g} lost"
    yield f"| {wanted} | gone by query | by item | recall lost | the bar |"
    yield "| --- | ---: | ---: | ---: | --- |"
    for name, (lost, queries, items) in found.items():
        met = verdict(lost <= loss and min(queries, items) >= fewer)
        yield f"| {name} | {queries:.0%} | {items:.0%} | {lost:.4f} | {met} |"


def gone(before: AbstentionData, after: AbstentionData) -> tuple[float, float, float]:
    """Recall lost, and the shares of falsely offered queries and of false items that are gone."""
    lost = float((before.recall - after.recall).sum()) / max(int(before.examples.needs.sum()), 1)
    queries = 1.0 - float(after.falsely_offered.sum()) / max(float(before.falsely_offered.sum()), 1.0)
    return lost, queries, 1.0 - float(after.items.sum()) / max(float(before.items.sum()), 1.0)


def verdict(met: bool) -> str:
    """Whether a bar is met."""
    return "holds" if met else "**does not hold**"


def p_value(comparison: Comparison) -> str:
    """A corrected p-value."""
    return "< 0.001" if comparison.p_holm < 0.001 else f"{comparison.p_holm:.3f}"
