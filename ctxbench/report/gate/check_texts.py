"""The results of a check as text: values, scores, causes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ctxbench.bench.metrics import Metric, parse_metric
from ctxbench.bench.stats import Comparison
from ctxbench.core.rules import NOT_CHOSEN
from ctxbench.gate.baseline import AcceptedFigures
from ctxbench.gate.cause_texts import phrase_cause
from ctxbench.gate.model import (
    Cause,
    CauseKind,
    Change,
    Check,
    FigureChange,
    Loosened,
    MetricVerdict,
    PriceChange,
    Remedy,
    SelectorCheck,
    UnmetRequirement,
    Verdict,
)
from ctxbench.gate.value_texts import shortened
from ctxbench.io.visible import count
from ctxbench.report import wording
from ctxbench.report.document import Cell, Quoted
from ctxbench.steps.cut import TOP_K

LONGEST = 160  # characters of a request or an item that are quoted
_LONGEST_SENTENCE = 2000
_NAMED = 5  # ids that are named in a sentence
_LEAST = 0.0001  # of what is said of scores
CAUSE_VERDICTS = (Verdict.WORSE, Verdict.CANNOT_TELL)  # of a metric that something is to blame for


def selector_name(check: SelectorCheck) -> str:
    """A selector with its dataset: `semantic on desk`."""
    return f"{selector_title(check)} on {check.dataset}"


def selector_title(check: SelectorCheck | AcceptedFigures) -> str:
    """A selector's name for people: `agent (= learned/normal, shipped)`."""
    return wording.selector_title(check.selector, check.shipped)


def opening_words(check: Check) -> str:
    """What the first line of a report begins with: a gate that was loosened, a baseline that was accepted anew."""
    clauses = []
    if check.loosened:
        clauses.append(f"the gate was loosened ({_first_texts(map(loosened_text, check.loosened))})")
    if (replaced := check.replacement) is not None:
        figures = [*map(_figure_text, replaced.figures)] or ["same figures"]
        looser = [f"looser: {loosened_text(setting)}" for setting in replaced.loosened]
        origin = f", in place of the one in {replaced.commit}" if replaced.commit else ""
        clauses.append(f"the baseline was accepted anew{origin} ({_first_texts([*looser, *figures])})")
    return "; ".join(clauses)


def loosened_text(setting: Loosened) -> str:
    """A loosened setting on one line, such as `tolerance of recall 0.01 -> 0.9`."""
    if setting.after:
        return f"{setting.setting} {setting.before} -> {setting.after}"
    return f"{setting.setting}: {setting.before} is gone"


def _figure_text(change: FigureChange) -> str:
    """A figure of a baseline that was accepted anew: `bm25 on desk: completeness 47.0% -> 27.9%`."""
    name = f"{change.selector} on {change.dataset}: {change.metric}"
    sides = (_figure(change.metric, value) for value in (change.before, change.after))
    return f"{name} {' -> '.join(sides)}"


def _figure(name: str, value: float | None) -> str:
    if value is None:
        return "none"
    if name == "queries":
        return f"{value:,.0f}"
    metric = parse_metric(name)
    return f"{wording.number(metric, value)}{'%' if wording.unit(metric) == '%' else ''}"


def _first_texts(texts: Iterable[str]) -> str:
    """The first few texts, and how many more there are."""
    listed = [*texts]
    remainder = [f"{len(listed) - _NAMED:,} more"] if len(listed) > _NAMED else []
    return "; ".join([*listed[:_NAMED], *remainder])


def shared_notices(check: Check) -> tuple[str, ...]:
    """Notices that all of several selectors have, which need saying once; in their order."""
    first, *following = check.selectors or (None,)
    if first is None or not following:
        return ()
    return tuple(notice for notice in first.notices if all(notice in selector.notices for selector in following))


def unsteady_notes(selectors: Sequence[SelectorCheck]) -> Iterator[str]:
    """The notes that lost and gained items leave out unsteady queries, of selectors of which others are counted."""
    for selector in selectors:
        if selector.counted and selector.unsteady > 0:
            n = f"{selector.unsteady:,} of {count(selector.needing, 'query', 'queries')} that need something"
            yield f"required items lost and gained of {selector_name(selector)} leave out {n}: unsteady between repeats"


def counts_tokens(judged: MetricVerdict) -> bool:
    """Whether a metric counts prompt tokens."""
    return parse_metric(judged.metric).declaration.unit == "tokens"


def p_value_note(check: SelectorCheck, judged: MetricVerdict) -> str:
    """`, p 0.031`; empty for a deterministic selector, since every difference is a fact."""
    return "" if check.deterministic else f", p {p_value(judged.comparison)}"


def unmet_text(requirement: UnmetRequirement) -> str:
    """On one line: `rule:a (disabled): required by 2 queries, offered to 1 before, nothing else would do (q1, q2)`."""
    n = count(len(requirement.queries), "query", "queries")
    clause = f"required by {n}, offered to {requirement.before or 'none'} before, and nothing else would do"
    return f"{' or '.join(requirement.items)} ({requirement.why}): {clause} ({first_ones(requirement.queries)})"


def price_change_text(change: PriceChange) -> str:
    """On one line: `tool:a:b costs 540 prompt tokens and cost 120 (schema edited): 4,200 more over 10 queries`."""
    amount = f"{abs(change.tokens):,} {'more' if change.tokens > 0 else 'less'}"
    over = count(len(change.queries), "query", "queries")
    costs = f"costs {change.head:,} prompt tokens and cost {change.base:,}"
    return f"{change.item} {costs} ({change.why}): {amount} over {over}"


def metric_title(judged: MetricVerdict) -> str:
    """A metric with what its numbers count: `completeness %`, `tokens`."""
    metric = parse_metric(judged.metric)
    return f"{metric} %" if wording.unit(metric) == "%" else str(metric)


def means(judged: MetricVerdict) -> str:
    """The means of both sides: `93.1 (90.2-95.5) -> 90.0 (87.1-92.4)`."""
    return " -> ".join(sides(judged))


def sides(judged: MetricVerdict) -> tuple[str, str]:
    """The means of baseline and now, with as many decimals as their difference has, so that they show it."""
    metric = parse_metric(judged.metric)
    _, _, decimals = wording.signed(metric, judged.comparison.difference).partition(".")
    min_decimals = len(decimals) if judged.comparison.difference else 0
    return wording.mean(metric, judged.base, min_decimals=min_decimals), wording.mean(
        metric, judged.head, min_decimals=min_decimals
    )


def difference(metric: Metric, comparison: Comparison) -> str:
    """A difference with its interval: `-3.1 (-6.0 to -1.9)`; the interval is left out where all values are equal."""
    value = wording.signed(metric, comparison.difference)
    interval = wording.difference_interval(metric, comparison)
    return f"{value} ({interval})" if interval and (comparison.higher or comparison.lower) else value


def p_value(comparison: Comparison) -> str:
    """The corrected p-value; a dash where nothing was compared."""
    if not comparison.n or not math.isfinite(comparison.p_holm):
        return wording.NONE
    return wording.p_text(comparison.p_holm, at_floor=comparison.p_holm_at_floor)


def size_text(metric: Metric, value: float | None) -> str:
    """A size in the unit of differences: `1.0 points`, `12 tokens`; a dash for None."""
    if value is None or not math.isfinite(value):
        return wording.NONE
    text = wording.number(metric, value)
    if value and not any(digit in text for digit in "123456789"):
        text = f"{value * (100 if wording.unit(metric) == '%' else 1):.2g}"
    return f"{text} {wording.points(metric)}".rstrip()


def score_text(change: Change) -> str:
    """The score and rank on both sides: `0.4512 -> 0.4321, rank 3 -> 8`; empty where neither side has any."""
    parts = []
    if change.base_score is not None or change.head_score is not None:
        parts.append(f"{_score(change.base_score)} -> {_score(change.head_score)}")
    if change.base_rank is not None or change.head_rank is not None:
        parts.append(f"rank {change.base_rank or 'none'} -> {change.head_rank or 'none'}")
    return ", ".join(parts)


def _score(value: float | None) -> str:
    return "none" if value is None else wording.named(f"{value:.4f}")


def exclusion_text(change: Change) -> str:
    """The rule that excludes an item on the side where it is excluded, and by how much it missed."""
    rule = str(change.rule or "the selector did not find it")
    if change.lost and change.cause.kind is CauseKind.GONE and change.item in change.cause.subjects:
        return "no longer in the catalog"
    if change.rule is not None and change.rule.code == TOP_K:  # a rank counts items
        rule = f"{rule}, of which an item may have several"
    if change.rule is not None and change.rule.code == NOT_CHOSEN:
        rule = f"{rule}; only your selector knows why"
    if not change.missed_by:
        return rule
    missed = f"{change.missed_by:.4f}" if change.missed_by >= _LEAST else f"less than {_LEAST}"
    return f"{rule}; its score is {missed} too low"


def direction(change: Change) -> str:
    """The direction of a change: `out` or `in`."""
    return "out" if change.lost else "in"


def cause_text(cause: Cause) -> str:
    """A cause on one line: its kind, its phrase, and its subjects unless the phrase names them."""
    subjects = [subject for subject in cause.subjects if subject not in cause.detail]
    if not subjects or not cause.detail:
        return phrase_cause(cause, cause.detail or first_ones(subjects))
    return phrase_cause(cause, f"{cause.detail} ({first_ones(subjects)})")


def first_ones(ids: Sequence[str], limit: int = _NAMED) -> str:
    """The first ids, and how many more there are: `a, b and 3 more`."""
    if len(ids) <= limit + 1:
        return wording.listed(list(ids))
    return f"{', '.join(ids[:limit])} and {len(ids) - limit:,} more"


def summary_text(figures: AcceptedFigures) -> str:
    """What was accepted, on one line: `bm25 on desk: completeness 24.8%, 3,094 tokens a query, 694 queries`."""
    parts = []
    for metric, value in figures.metrics.items():
        unit, number = wording.unit(metric), wording.number(metric, value)
        if unit == "tokens" and str(metric) == unit:
            parts.append(f"{number} tokens a query")
        elif str(metric) == "total_tokens":
            parts.append(f"{number} with the session's")
        else:
            parts.append(f"{metric} {number}{unit if unit == '%' else f' {unit}'}".rstrip())
    parts += [count(figures.queries, "query", "queries"), *([] if figures.offered else ["nothing offered to any"])]
    return f"{selector_title(figures)} on {figures.dataset}: {', '.join(parts)}"


def id_with_text(check: SelectorCheck, name: str) -> Cell:
    """An id, with the text that belongs to it if there is one."""
    text = clipped(check.texts.get(name, ""))
    return (Quoted(name), Quoted(text)) if text else Quoted(name)


def clipped(text: str, limit: int = LONGEST) -> str:
    """A text on one line, cut behind a word where it is long; a word that is too long by itself is cut."""
    return shortened(" ".join(text[: 4 * limit].split()), limit, at_word=True)


def sentence(text: str) -> str:
    """A sentence on one line, cut where it is very long."""
    return clipped(text, _LONGEST_SENTENCE)


def without_texts(check: Check) -> Check:
    """The check with the texts of requests and items left out; ids stay, and may hold words."""

    def bare(remedy: Remedy) -> Remedy:
        return replace(remedy, quoted="")

    def strip(selector: SelectorCheck) -> SelectorCheck:
        return replace(
            selector,
            texts={},
            changes=tuple(replace(change, remedy=bare(change.remedy)) for change in selector.changes),
            causes=tuple(replace(group, remedy=bare(group.remedy)) for group in selector.causes),
            pins=tuple(replace(pin, remedy=bare(pin.remedy)) for pin in selector.pins),
        )

    return replace(check, selectors=tuple(map(strip, check.selectors)))
