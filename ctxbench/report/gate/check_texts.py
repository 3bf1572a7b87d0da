"""Writes the results of a check in words: values, scores, causes; decides nothing."""

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
    """What people read as a selector's name: `agent (= learned/normal, shipped)`."""
    return wording.selector_title(check.selector, check.shipped)


def opening_words(check: Check) -> str:
    """What the first line of a report begins with: a gate that was loosened, a baseline that was accepted anew."""
    said = []
    if check.loosened:
        said.append(f"the gate was loosened ({_first_texts(map(loosened_text, check.loosened))})")
    if (replaced := check.replacement) is not None:
        figures = [*map(_figure_text, replaced.figures)] or ["same figures"]
        looser = [f"looser: {loosened_text(one)}" for one in replaced.loosened]
        place = f", in place of the one in {replaced.commit}" if replaced.commit else ""
        said.append(f"the baseline was accepted anew{place} ({_first_texts([*looser, *figures])})")
    return "; ".join(said)


def loosened_text(found: Loosened) -> str:
    """A loosened setting on one line, such as `tolerance of recall 0.01 -> 0.9`."""
    if found.after:
        return f"{found.setting} {found.before} -> {found.after}"
    return f"{found.setting}: {found.before} is gone"


def _figure_text(found: FigureChange) -> str:
    """A figure of a baseline that was accepted anew: `bm25 on desk: completeness 47.0% -> 27.9%`."""
    name = f"{found.selector} on {found.dataset}: {found.metric}"
    sides = (_figure(found.metric, value) for value in (found.before, found.after))
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
    found = [*texts]
    more = [f"{len(found) - _NAMED:,} more"] if len(found) > _NAMED else []
    return "; ".join([*found[:_NAMED], *more])


def shared_notices(check: Check) -> tuple[str, ...]:
    """Notices that all of several selectors have, which need saying once; in their order."""
    first, *others = check.selectors or (None,)
    if first is None or not others:
        return ()
    return tuple(one for one in first.notices if all(one in other.notices for other in others))


def unsteady_notes(selectors: Sequence[SelectorCheck]) -> Iterator[str]:
    """The notes that lost and gained items leave out unsteady queries, of selectors of which others are counted."""
    for one in selectors:
        if one.counted and one.unsteady > 0:
            n = f"{one.unsteady:,} of {count(one.needing, 'query', 'queries')} that need something"
            yield f"required items lost and gained of {selector_name(one)} leave out {n}: unsteady between repeats"


def counts_tokens(judged: MetricVerdict) -> bool:
    """Whether a metric counts prompt tokens."""
    return parse_metric(judged.metric).declaration.unit == "tokens"


def p_value_note(check: SelectorCheck, judged: MetricVerdict) -> str:
    """`, p 0.031`; empty for a selector that is known to answer alike whenever it is asked: what differs is a fact."""
    return "" if check.deterministic else f", p {p_value(judged.comparison)}"


def unmet_text(found: UnmetRequirement) -> str:
    """On one line: `rule:a (disabled): required by 2 queries, offered to 1 before, nothing else would do (q1, q2)`."""
    n = count(len(found.queries), "query", "queries")
    told = f"required by {n}, offered to {found.before or 'none'} before, and nothing else would do"
    return f"{' or '.join(found.items)} ({found.why}): {told} ({first_ones(found.queries)})"


def price_change_text(found: PriceChange) -> str:
    """On one line: `tool:a:b costs 540 prompt tokens and cost 120 (schema edited): 4,200 more over 10 queries`."""
    more = f"{abs(found.tokens):,} {'more' if found.tokens > 0 else 'less'}"
    over = count(len(found.queries), "query", "queries")
    return f"{found.item} costs {found.head:,} prompt tokens and cost {found.base:,} ({found.why}): {more} over {over}"


def metric_title(judged: MetricVerdict) -> str:
    """A metric with what its numbers count: `completeness %`, `tokens`."""
    metric = parse_metric(judged.metric)
    return f"{metric} %" if wording.unit(metric) == "%" else str(metric)


def means(judged: MetricVerdict) -> str:
    """The means of both sides: `93.1 (90.2-95.5) -> 90.0 (87.1-92.4)`."""
    return " -> ".join(sides(judged))


def sides(judged: MetricVerdict) -> tuple[str, str]:
    """The means of baseline and now, with as many decimals as their difference is told with, so that they show it."""
    metric = parse_metric(judged.metric)
    _, _, decimals = wording.signed(metric, judged.comparison.difference).partition(".")
    least = len(decimals) if judged.comparison.difference else 0
    return wording.mean(metric, judged.base, least=least), wording.mean(metric, judged.head, least=least)


def difference(metric: Metric, found: Comparison) -> str:
    """A difference with its interval: `-3.1 (-6.0 to -1.9)`; the interval is left out where all values are equal."""
    value = wording.signed(metric, found.difference)
    interval = wording.difference_interval(metric, found)
    return f"{value} ({interval})" if interval and (found.higher or found.lower) else value


def p_value(found: Comparison) -> str:
    """The corrected p-value; a dash where nothing was compared."""
    if not found.n or not math.isfinite(found.p_holm):
        return wording.NONE
    return wording.p_text(found.p_holm, at_floor=found.p_holm_at_floor)


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
    told = []
    if change.base_score is not None or change.head_score is not None:
        told.append(f"{_score(change.base_score)} -> {_score(change.head_score)}")
    if change.base_rank is not None or change.head_rank is not None:
        told.append(f"rank {change.base_rank or 'none'} -> {change.head_rank or 'none'}")
    return ", ".join(told)


def _score(value: float | None) -> str:
    return "none" if value is None else wording.named(f"{value:.4f}")


def exclusion_text(change: Change) -> str:
    """What keeps an item out on the side where it is out, and by how much it missed."""
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


def cause_text(found: Cause) -> str:
    """A cause on one line: its kind, its phrase, and what it is about unless the phrase says so."""
    others = [one for one in found.subjects if one not in found.detail]
    if not others or not found.detail:
        return phrase_cause(found, found.detail or first_ones(others))
    return phrase_cause(found, f"{found.detail} ({first_ones(others)})")


def first_ones(ids: Sequence[str], most: int = _NAMED) -> str:
    """The first ids, and how many more there are: `a, b and 3 more`."""
    if len(ids) <= most + 1:
        return wording.listed(list(ids))
    return f"{', '.join(ids[:most])} and {len(ids) - most:,} more"


def summary_text(found: AcceptedFigures) -> str:
    """What was accepted, on one line: `bm25 on desk: completeness 24.8%, 3,094 tokens a query, 694 queries`."""
    told = []
    for metric, value in found.metrics.items():
        unit, number = wording.unit(metric), wording.number(metric, value)
        if unit == "tokens" and str(metric) == unit:
            told.append(f"{number} tokens a query")
        elif str(metric) == "total_tokens":
            told.append(f"{number} with the session's")
        else:
            told.append(f"{metric} {number}{unit if unit == '%' else f' {unit}'}".rstrip())
    told += [count(found.queries, "query", "queries"), *([] if found.offered else ["nothing offered to any"])]
    return f"{selector_title(found)} on {found.dataset}: {', '.join(told)}"


def id_with_text(check: SelectorCheck, name: str) -> Cell:
    """An id, with the text that belongs to it if there is one."""
    text = clipped(check.texts.get(name, ""))
    return (Quoted(name), Quoted(text)) if text else Quoted(name)


def clipped(text: str, most: int = LONGEST) -> str:
    """A text on one line, cut behind a word where it is long; a word that is too long by itself is cut."""
    return shortened(" ".join(text[: 4 * most].split()), most, at_word=True)


def sentence(text: str) -> str:
    """A sentence on one line, cut where it is very long."""
    return clipped(text, _LONGEST_SENTENCE)


def without_texts(check: Check) -> Check:
    """The check with the texts of requests and items left out; ids stay, and may hold words."""

    def bare(remedy: Remedy) -> Remedy:
        return replace(remedy, quoted="")

    def told(one: SelectorCheck) -> SelectorCheck:
        return replace(
            one,
            texts={},
            changes=tuple(replace(change, remedy=bare(change.remedy)) for change in one.changes),
            causes=tuple(replace(group, remedy=bare(group.remedy)) for group in one.causes),
            pins=tuple(replace(pin, remedy=bare(pin.remedy)) for pin in one.pins),
        )

    return replace(check, selectors=tuple(map(told, check.selectors)))
