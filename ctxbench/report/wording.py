"""Numbers, verdicts and units in words."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ctxbench.evaluation.metrics import Metric, parse_metric
from ctxbench.evaluation.statistics import Comparison, Estimate, Interval
from ctxbench.io.errors import first_few, one_line

MINUS, DASH = "\u2212", "\u2013"
NONE = "-"  # stands where there is no value
LOOSE = "~"  # stands behind an interval that does not hold
LOOSE_LEGEND = f"{LOOSE} marks an interval that too few values carry"
NOT_SIGNIFICANT = "not significant"
P_WORDS = "p: how often chance alone would give such a difference"
RAISED = (
    "It is raised because many comparisons are made, so a difference may not count though its interval leaves out 0."
)
SIZE_WORDS = "n: how many queries"
_MANY = 1_000_000
_LOOSE_END = re.compile(rf"[\d\u221e]{LOOSE}(?=\)|$)")
_PLAIN = str.maketrans({MINUS: "-", DASH: "-", "\u221e": "inf"})


def number(metric: Metric, value: float, *, min_decimals: int = 0) -> str:
    """A metric's mean: a share in per cent without the sign, tokens whole, other amounts to two decimals.

    `min_decimals` asks for more decimals.
    """
    if not math.isfinite(value):
        return NONE
    decimals = max(min_decimals, _decimals(metric, value))
    return _minus(f"{value * _factor(metric):,.{decimals}f}")


def with_unit(metric: Metric, value: float, *, min_decimals: int = 0) -> str:
    """A mean with the sign of per cent if it is a share: `27.5%`, `2,366`."""
    return f"{number(metric, value, min_decimals=min_decimals)}{'%' * (unit(metric) == '%')}"


def mean(metric: Metric, estimate: Estimate, *, min_decimals: int = 0) -> str:
    """A mean with its interval, if it has one: `93.1 (90.2-95.5)`; `min_decimals` asks for more decimals."""
    interval = estimate_interval(metric, estimate)
    return f"{number(metric, estimate.value, min_decimals=min_decimals)}{f' ({interval})' if interval else ''}"


def signed(metric: Metric, value: float) -> str:
    """A difference with its sign; 0 has none. Shares are in percentage points."""
    if not math.isfinite(value):
        return NONE
    text = f"{value * _factor(metric):+,.{_decimals(metric, value)}f}"
    return text[1:] if not any(digit in text for digit in "123456789") else _minus(text)


def unit(metric: Metric) -> str:
    """What the numbers of a metric count: `%`, `tokens`, `items` or nothing."""
    return "%" if metric.declaration.scale in ("yes/no", "share") else metric.declaration.unit


def axis_title(metric: Metric) -> str:
    """A metric and what its numbers count, as on axes: `completeness, %`, `tokens per query`, `BoR@5`."""
    counted = unit(metric)
    return f"{metric}, %" if counted == "%" else f"{metric} per query" if counted else str(metric)


def points(metric: Metric) -> str:
    """What differences of a metric count."""
    return "points" if unit(metric) == "%" else unit(metric)


def estimate_interval(metric: Metric, estimate: Estimate) -> str:
    """The interval of a mean as `93.6-97.5` (with an en dash); a `~` after it means that it does not hold.

    Empty without a mean, and where the interval has no width: all values are equal, and say nothing of others.
    """
    if not math.isfinite(estimate.value) or estimate.interval.low == estimate.interval.high:
        return ""
    low, high = (_end(number(metric, end), end) for end in (estimate.interval.low, estimate.interval.high))
    joint = DASH if estimate.interval.low >= 0 else " to "
    return f"{low}{joint}{high}{_loose(estimate.interval)}"


def difference_interval(metric: Metric, comparison: Comparison) -> str:
    """The interval of a difference as `-6.0 to -1.9`; a `~` after it means that it does not hold."""
    if not math.isfinite(comparison.difference):
        return ""
    low, high = (_end(signed(metric, end), end) for end in (comparison.interval.low, comparison.interval.high))
    return f"{low} to {high}{_loose(comparison.interval)}"


def has_loose(text: str) -> bool:
    """Whether a text has an interval that does not hold, so that its sign must be explained."""
    return _LOOSE_END.search(text) is not None


def with_loose_legend(text: str) -> str:
    """A text, with an explanation of the sign after an interval if it has one."""
    return f"{text} ({LOOSE_LEGEND})" if has_loose(text) else text


def verdict(comparison: Comparison) -> str:
    """`p=0.0003` of a significant difference, else the words for one that is not.

    A p-value that random flips bound but do not know is `p <= 0.0003`.
    """
    if not comparison.significant:
        return NOT_SIGNIFICANT
    p = p_text(comparison.p_holm, at_floor=comparison.p_holm_at_floor)
    return f"p {p}" if comparison.p_holm_at_floor else f"p{p}" if p.startswith("<") else f"p={p}"


def p_text(p: float, *, at_floor: bool = False) -> str:
    """A p-value to two digits or so: `<0.0001`, `0.0031`, `0.041`, `1`; `<= 0.0002` of one that is at its floor."""
    if at_floor:
        return f"<= {p:.2g}" if p < 0.0001 else f"<= {p_text(p)}"
    return "<0.0001" if p < 0.0001 else f"{p:.4f}" if p < 0.01 else f"{p:.3f}" if p < 1 else "1"


def queries_needed(comparison: Comparison) -> str:
    """How many queries would make the difference significant; empty where it is, or where that is unknown."""
    if comparison.significant or comparison.needed is None:
        return ""
    if comparison.needed > _MANY:
        return "more than a million queries would tell"
    return f"about {two_digits(comparison.needed):,} queries would tell"


@dataclass(frozen=True, slots=True)
class Means:
    """Two means of one metric over the same queries.

    Attributes:
        value: of what a sentence is about.
        compared: of what it is compared with.
        significant: whether the difference is.
    """

    value: float
    compared: float
    significant: bool

    @classmethod
    def of(cls, comparison: Comparison | None) -> Means | None:
        """The means of a comparison: its other side compared with its base; None without a pair."""
        if comparison is None or not comparison.n:
            return None
        return cls(comparison.other, comparison.base, bool(comparison.significant))

    @property
    def swapped(self) -> Means:
        """The same comparison from the other side."""
        return Means(self.compared, self.value, self.significant)


def winner_sentence(name: str, compared: str, complete: Sequence[Means], tokens: Sequence[Means]) -> str:
    """What a selector offers and what that costs, then the same of another; without its end.

    `a offers all that is needed for 97.0% of requests at 365 tokens; b for 96.0% at 541 (tokens: not significant)`.
    Means of several datasets become ranges, which are not said to be significant or not. Equal figures are a tie.
    """
    share, other = (_span("completeness", means) for means in _sides(complete))
    cost, other_cost = (f" at {_span('tokens', means)}" if tokens else "" for means in _sides(tokens))
    doubts = [
        title
        for title, means in (("completeness", complete), ("tokens", tokens))
        if len(means) == 1 and not means[0].significant and means[0].value != means[0].compared
    ]
    end = f" ({' and '.join(doubts)}: {NOT_SIGNIFICANT})" if doubts else ""
    unit, unmeasured = (" tokens", "") if tokens else ("", "; tokens were not measured")
    tied = len(complete) == 1 and (share, cost) == (other, other_cost)
    name, rest = (f"{name} and {compared} tie: each", "") if tied else (name, f"; {compared} for {other}{other_cost}")
    return f"{name} offers all that is needed for {share} of requests{cost}{unit}{rest}{end}{unmeasured}"


def _sides(pairs: Sequence[Means]) -> tuple[list[float], list[float]]:
    return [means.value for means in pairs], [means.compared for means in pairs]


def _span(metric: str, values: Sequence[float]) -> str:
    """A mean, or the lowest and the highest of several."""
    ends = (with_unit(parse_metric(metric), value) for value in (min(values), max(values)))
    return " to ".join(dict.fromkeys(ends))


def listed(names: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return first_few(names, len(names))


def selector_title(name: str, shipped: str) -> str:
    """A selector's name for people: `agent (= learned/normal, shipped)` where an agent has a shipped one.

    Args:
        name: as data has it.
        shipped: the shipped selector that it is; empty for others.
    """
    return f"{name} (= {shipped}, shipped)" if shipped and shipped != name else name


def recall(value: float | None) -> str:
    """The recall of an approximate index, 0 to 1, rounded down to three digits: 1.000 is said of no other."""
    return NONE if value is None else f"{math.floor(1000 * value + 1e-9) / 1000:.3f}"


def named(name: str) -> str:
    """A name for use inside a sentence: U+FFFD for what would break the line or turn the sentence around."""
    return one_line(name)


def on_one_line(text: str) -> str:
    """A text of any number of lines on one line, made fit as `named` does."""
    return named(" ".join(text.split()))


def _factor(metric: Metric) -> float:
    return 100.0 if unit(metric) == "%" else 1.0


def _decimals(metric: Metric, value: float) -> int:
    """One decimal for per cent, none for tokens from 10 on, two for the rest (one from 100 on)."""
    if unit(metric) == "%":
        return 1
    if metric.declaration.unit == "tokens":
        return 0 if abs(value) >= 10 else 1
    return 2 if abs(value) < 100 else 0


def _end(text: str, value: float) -> str:
    return ("\u221e" if value > 0 else f"{MINUS}\u221e") if math.isinf(value) else text


def _loose(interval: Interval) -> str:
    return "" if interval.holds else LOOSE


def _minus(text: str) -> str:
    return text.replace("-", MINUS)


def two_digits(value: int) -> int:
    """Rounded up to two significant digits: a size that is estimated from an estimate deserves no more."""
    step: int = 10 ** max(len(str(value)) - 2, 0)
    return -(-value // step) * step


def printable(text: str, plain: bool) -> str:
    """A text on one line without terminal control characters; `plain` replaces signs outside ASCII."""
    text = one_line(text)
    return text.translate(_PLAIN).encode("ascii", "replace").decode("ascii") if plain else text


def without_surrogates(text: str) -> str:
    """The text with lone surrogates, which UTF-8 cannot hold, replaced by U+FFFD."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)
