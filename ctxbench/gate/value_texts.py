"""Writes values of metrics, numbers of things, ids and long texts for sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ctxbench.bench.metrics import Metric
from ctxbench.io.json_files import dump_json

NONE = "none"  # what a value is shown as where there is none
_SHARES = ("yes/no", "share")
_MAX_NAMED = 3  # ids that a message names
_ROUNDING = 1e-9  # of sums in floating point, as a share
_CLOSING = {"(": ")", "[": "]", "{": "}", '"': '"', "`": "`"}  # of brackets and quotes, by what opens them


def first_ids(ids: Sequence[str]) -> str:
    """The first few of some ids: `q1, q2, q3, ...`."""
    return ", ".join(ids[:_MAX_NAMED]) + (", ..." if len(ids) > _MAX_NAMED else "")


def first_few(texts: Sequence[str], at_most: int = _MAX_NAMED) -> str:
    """The first few of some texts, and how many more there are: `a, b, c and 2 more`."""
    suffix = f" and {len(texts) - at_most} more" if len(texts) > at_most else ""
    return f"{', '.join(texts[:at_most])}{suffix}"


def shortened(text: str, limit: int, *, at_word: bool = False) -> str:
    """A text of at most so many characters: where it is cut it ends in `...`, and no bracket or quote stays open.

    Args:
        text: on one line.
        limit: characters, 3 or more.
        at_word: cut behind a word, unless more than half would go.
    """
    if len(text) <= limit:
        return text
    end = limit - 3
    while True:
        head = text[:end]
        if at_word:
            words = text[: end + 1].rpartition(" ")[0]
            head = words if 2 * len(words) > limit else head.rstrip()
        closing = _left_open(head)
        if len(head) + 3 + len(closing) <= limit:
            return f"{head}...{closing}"
        end -= 1


def _left_open(text: str) -> str:
    """What closes the brackets and quotes that a text leaves open, the innermost first."""
    ends: list[str] = []
    for sign in text:
        if sign in ends:
            del ends[len(ends) - 1 - ends[::-1].index(sign) :]
        elif sign in _CLOSING:
            ends.append(_CLOSING[sign])
    return "".join(reversed(ends))


def level(metric: Metric, value: float) -> str:
    """A mean: `96.7%`, `1,234` tokens, `3.25` of anything else."""
    return f"{_digits(metric, value)}{'%' if _is_share(metric) else ''}"


def levels(metric: Metric, before: float, after: float) -> str:
    """Two means, `151.2 -> 151.9`: with as many decimals as their difference needs."""
    _, _, decimals = _size(metric, abs(after - before)).partition(".")
    min_decimals = len(decimals) if before != after and decimals.isdigit() else 0
    unit = "%" if _is_share(metric) else ""
    return " -> ".join(f"{_digits(metric, value, min_decimals=min_decimals)}{unit}" for value in (before, after))


def signed_difference(metric: Metric, difference: float, *, beyond: float | None = None) -> str:
    """A difference with its sign: `-3.3 points`, `+12`; what would be rounded to 0 keeps two digits that say it.

    Args:
        metric: whose.
        difference: of two means.
        beyond: a size that it exceeds, from which it is told apart by one or two digits more where these are needed.
    """
    sign = "+" if difference > 0 else "-" if difference < 0 else ""
    text = _size(metric, abs(difference))
    if beyond is not None and text == _size(metric, beyond):
        scale = 100.0 if _is_share(metric) else 1.0
        finer = [f"{abs(difference) * scale:,.{digits}f}" for digits in range(1, 5)]
        text = next((candidate for candidate in finer if float(candidate.replace(",", "")) > beyond * scale), text)
    return f"{sign}{text}{' points' if _is_share(metric) else ''}"


def size(metric: Metric, value: float) -> str:
    """A size of differences, >= 0: `1.0 points`, `12 tokens`; what would be rounded to 0 keeps two digits.

    Below `_ROUNDING` it comes of adding in floating point, and is 0.
    """
    value = 0.0 if value < _ROUNDING else value
    unit = "points" if _is_share(metric) else metric.declaration.unit
    return f"{_size(metric, value)} {unit}".rstrip()


def _is_share(metric: Metric) -> bool:
    return metric.declaration.scale in _SHARES


def _size(metric: Metric, value: float) -> str:
    text = _digits(metric, value)
    if value and not any(digit in text for digit in "123456789"):
        return f"{value * (100.0 if _is_share(metric) else 1.0):.2g}"
    return text


def _digits(metric: Metric, value: float, *, min_decimals: int = 0) -> str:
    """A value without its unit: one decimal for per cent, none for tokens from 10 on, two for others below 100.

    `min_decimals` asks for more.
    """
    if _is_share(metric):
        return f"{value * 100.0:.{max(1, min_decimals)}f}"
    usual = (0 if abs(value) >= 10 else 1) if metric.declaration.unit == "tokens" else 2 if abs(value) < 100 else 0
    return f"{value:,.{max(usual, min_decimals)}f}"


def shown_value(value: Any) -> str:
    """A value as short text: JSON, or a text without quotes, cut where it is long."""
    text = NONE if value is None else value if isinstance(value, str) else dump_json(value)
    return shortened(text, 60)


def short_hash(value: Any) -> str:
    """As `shown_value`; a hash by its first eight digits."""
    return value[:8] if isinstance(value, str) and re.fullmatch("[0-9a-f]{40,64}", value) else shown_value(value)
