"""A tuning on the console: a sentence of advice for each policy, then its figures."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from ctxbench.bench.metrics import Metric
from ctxbench.io.visible import count
from ctxbench.report import wording
from ctxbench.report.tuning import tuning_texts
from ctxbench.report.tuning.advice import all_advice
from ctxbench.report.tuning.tuning_tables import reported_split
from ctxbench.report.tuning.tuning_texts import ALL, COMPLETENESS, SPLITS, TEST, TOKENS, TUNING
from ctxbench.report.wording import printable
from ctxbench.tuning.tuning_results import DatasetTuning, PolicyOutcome, Tuning

_WIDTH = 80
_ASIDE, _COLUMN = 15, 26  # of the names of rows, and of a split's figures
_ALL_DECIDE = "Figures are of the same requests that the values were chosen on: none are left to test them on."


def console_table(tuning: Tuning, *, plain: bool = False) -> str:
    """The recommendations in 80 columns; ends with a line feed.

    Args:
        tuning: what was found.
        plain: whether the terminal lacks Unicode, so that signs must be plain.
    """
    lines: list[str] = []
    several = len(tuning.datasets) > 1
    for dataset in tuning.datasets:
        for advice in all_advice(dataset):
            lines += _wrapped(f"{f'{dataset.dataset}, ' * several}{advice}", 0, 2)
    lines += [*_wrapped(tuning_texts.terms(tuning), 0, 2), ""] if lines else []
    for dataset in tuning.datasets:
        lines += _wrapped(_heading(dataset), 0, 2)
        if dataset.all_decide:
            lines += _wrapped(_ALL_DECIDE, 2, 2)
        for group in dataset.same_advice():
            lines += [*_outcome(dataset, group), ""]
        if dataset.shipped:
            lines += [*_shipped(dataset), ""]
    if tuning.datasets:
        legend = [tuning_texts.p_words(tuning), tuning_texts.LOOSE if any(map(wording.has_loose, lines)) else ""]
        lines += [*_wrapped(" ".join(filter(None, legend)), 0, 2), ""] if any(legend) else []
    return "\n".join(printable(line, plain) for line in lines or ["No policy was tuned for.", ""])


def _heading(dataset: DatasetTuning) -> str:
    counts = [f"{n:,}" if split == ALL else f"{n:,} {split}" for split, n in dataset.queries.items()]
    items = count(dataset.items, "item")
    queries = "query" if [*dataset.queries.values()] == [1] else "queries"
    return f"{dataset.dataset}: {wording.listed(counts) or 'no'} {queries}, {items}, tokens by {dataset.tokens}"


def _outcome(dataset: DatasetTuning, group: Sequence[PolicyOutcome]) -> Iterator[str]:
    """The figures of policies that come to the same."""
    for outcome in group:
        yield from _wrapped(f"{outcome.policy.name}: {tuning_texts.policy_text(outcome.policy)}", 2, 4)
    outcome, chosen = group[0], group[0].chosen
    if chosen is None:
        for reason in dict.fromkeys(map(tuning_texts.default_text, group)):
            yield from _wrapped(reason, 4, 6)
        return
    yield from _wrapped(tuning_texts.choice_text(outcome, chosen), 4, 6)
    splits = {ALL: chosen.tuning} if dataset.all_decide else {TUNING: chosen.tuning, TEST: chosen.test}
    aims = tuple(dict.fromkeys(metric for member in group for metric in tuning_texts.own_aim(member.policy)))
    metrics = tuning_texts.policy_metrics(member.policy for member in group)
    titles = {tuning_texts.title(metric): metric for metric in (*aims, *metrics)}
    aside = max(_ASIDE, *(len(title) + 1 for title in titles))
    yield f"    {'':<{aside}}{''.join(f'{SPLITS[split]:<{_COLUMN}}' for split in splits)}".rstrip()
    for title, metric in titles.items():
        sides = (tuning_texts.estimate_text(estimates, metric) for estimates in splits.values())
        yield f"    {title:<{aside}}{''.join(f'{side:<{_COLUMN}}' for side in sides)}".rstrip()
    if not outcome.against:
        return
    yield from _compared("against the base's defaults", outcome, "defaults", aims)
    fixed = {member.fixed.name if member.fixed else member.fixed_reason: member for member in group}
    for member in fixed.values():
        suffix = f" of {member.policy.name}" * (len(fixed) > 1)
        if member.fixed is not None:
            yield from _compared(f"against tuned fixed k{suffix}", member, "fixed", aims)
        else:
            yield from _wrapped(f"tuned fixed k{suffix}: {member.fixed_reason or tuning_texts.NO_K}", 4, 6)
    for member in group:
        suffix = f" of {member.policy.name}" * (len(group) > 1)
        split = SPLITS[reported_split(dataset)]
        yield from _wrapped(f"constraints{suffix}, {split}: {tuning_texts.constraints_text(member)}", 4, 6)


def _compared(title: str, outcome: PolicyOutcome, key: str, aims: Sequence[Metric]) -> Iterator[str]:
    """Changes against one other setting."""
    yield f"    {title}"
    compared = outcome.against.get(key)
    yield from _wrapped(f"prompt tokens {', '.join(tuning_texts.change_text(compared, TOKENS))}", 6, 8)
    for metric in (COMPLETENESS, *aims):
        yield from _wrapped(
            f"{tuning_texts.points(metric)} {', '.join(tuning_texts.change_text(compared, metric))}", 6, 8
        )


def _shipped(dataset: DatasetTuning) -> Iterator[str]:
    """The presets that competed as they ship."""
    width = max(map(len, dataset.shipped)) + 2
    metrics = tuning_texts.policy_metrics(outcome.policy for outcome in dataset.outcomes)
    yield f"  as shipped, {SPLITS[reported_split(dataset)]}"
    for pair in (metrics[start : start + 2] for start in range(0, len(metrics), 2)):  # no third column fits
        yield f"    {'':<{width}}{''.join(f'{tuning_texts.title(metric):<{_COLUMN}}' for metric in pair)}".rstrip()
        for name, result in dataset.shipped.items():
            figures = (f"{tuning_texts.estimate_text(result.figures, metric):<{_COLUMN}}" for metric in pair)
            is_default = ", the default" * (result is dataset.default and TOKENS in pair)
            yield f"    {name:<{width}}{''.join(figures).rstrip()}{is_default}"


def _wrapped(text: str, first: int, rest: int) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=" " * first, subsequent_indent=" " * rest) or [""]
