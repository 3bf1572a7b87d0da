"""What tuning found, on the console: a sentence of advice for each policy, then what it rests on."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from ctxbench.io.visible import count
from ctxbench.report import wording
from ctxbench.report.tuning import tuning_texts
from ctxbench.report.tuning.advice import advice
from ctxbench.report.tuning.tuning_tables import reported_split
from ctxbench.report.tuning.tuning_texts import ALL, COMPLETENESS, SPLITS, TEST, TITLES, TOKENS, TUNING
from ctxbench.report.wording import said
from ctxbench.tuning.tuning_results import DatasetTuning, PolicyOutcome, Tuning

_WIDTH = 80
_ASIDE, _COLUMN = 15, 26  # of the names of rows, and of a split's figures
_ALL_DECIDE = "Figures are of the same requests that the values were chosen on: none are left to test them on."
_OTHERS = {"defaults": "against the base's defaults", "fixed": "against tuned fixed k"}


def console_table(tuning: Tuning, *, plain: bool = False) -> str:
    """The recommendations in 80 columns; ends with a line feed.

    Args:
        tuning: what was found.
        plain: whether the terminal lacks Unicode, so that signs must be plain.
    """
    lines: list[str] = []
    several = len(tuning.datasets) > 1
    for dataset in tuning.datasets:
        for outcome in dataset.outcomes:
            lines += _wrapped(f"{f'{dataset.dataset}, ' * several}{advice(dataset, outcome)}", 0, 2)
    lines += [*_wrapped(tuning_texts.terms(tuning), 0, 2), ""] if lines else []
    for dataset in tuning.datasets:
        lines += _wrapped(_heading(dataset), 0, 2)
        if dataset.all_decide:
            lines += _wrapped(_ALL_DECIDE, 2, 2)
        for outcome in dataset.outcomes:
            lines += [*_outcome(dataset, outcome), ""]
    if tuning.datasets:
        legend = [tuning_texts.p_words(tuning), tuning_texts.LOOSE if any(map(wording.has_loose, lines)) else ""]
        lines += [*_wrapped(" ".join(filter(None, legend)), 0, 2), ""] if any(legend) else []
    return "\n".join(said(line, plain) for line in lines or ["No policy was tuned for.", ""])


def _heading(dataset: DatasetTuning) -> str:
    counts = [f"{n:,}" if split == ALL else f"{n:,} {split}" for split, n in dataset.queries.items()]
    items = count(dataset.items, "item")
    queries = "query" if [*dataset.queries.values()] == [1] else "queries"
    return f"{dataset.dataset}: {wording.listed(counts) or 'no'} {queries}, {items}, tokens by {dataset.tokens}"


def _outcome(dataset: DatasetTuning, outcome: PolicyOutcome) -> Iterator[str]:
    yield from _wrapped(f"{outcome.policy.name}: {tuning_texts.policy_text(outcome.policy)}", 2, 4)
    chosen = outcome.chosen
    if chosen is None:
        yield from _wrapped(tuning_texts.default_text(outcome), 4, 6)
        return
    yield from _wrapped(tuning_texts.choice_text(outcome, chosen), 4, 6)
    splits = {ALL: chosen.tuning} if dataset.all_decide else {TUNING: chosen.tuning, TEST: chosen.test}
    yield f"    {'':<{_ASIDE}}{''.join(f'{SPLITS[split]:<{_COLUMN}}' for split in splits)}".rstrip()
    aims = tuning_texts.own_aim(outcome.policy)
    for metric in (*aims, COMPLETENESS, TOKENS):
        sides = (tuning_texts.estimate_text(found, metric) for found in splits.values())
        title = TITLES.get(str(metric), str(metric))
        yield f"    {title:<{_ASIDE}}{''.join(f'{side:<{_COLUMN}}' for side in sides)}".rstrip()
    if not outcome.against:
        return
    for key, name in _OTHERS.items():
        if key == "fixed" and outcome.fixed is None:
            yield "    tuned fixed k: no k keeps what the policy asks"
            continue
        yield f"    {name}"
        compared = outcome.against.get(key)
        yield from _wrapped(f"prompt tokens {', '.join(tuning_texts.change_text(compared, TOKENS))}", 6, 8)
        for metric in (COMPLETENESS, *aims):
            change = ", ".join(tuning_texts.change_text(compared, metric))
            yield from _wrapped(f"{tuning_texts.points(metric)} {change}", 6, 8)
    yield from _wrapped(
        f"constraints, {SPLITS[reported_split(dataset)]}: {tuning_texts.constraints_text(outcome)}", 4, 6
    )


def _wrapped(text: str, first: int, rest: int) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=" " * first, subsequent_indent=" " * rest) or [""]
