"""Messages about the queries that selectors failed on."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ctxbench.selectors.protocol import NO_ANSWER, NOT_AWAITED

_LINE = re.compile(r", line \d+\)$")  # of a file of answers, which an error ends with


def failures_told(dataset: str, selector: str, errors: Mapping[str, str]) -> tuple[str, list[str]]:
    """How many queries a selector failed on, with the first reason, and the other reasons.

    Args:
        dataset, selector: their names.
        errors: why there is no answer, by query; at least one.

    Returns:
        A sentence without a stop; and a line for each reason more, with the queries that share it. So do lines of a
        process that are no answers, or answers to another request, whatever they say, since it prints them at every
        request; and what is wrong in the same way in several lines of a file.
    """
    shared: dict[str, list[tuple[str, str]]] = {}
    for query, error in errors.items():
        reason = error.removeprefix(f"query {query!r}: ")
        alike = next(
            (prefix for prefix in (NO_ANSWER, NOT_AWAITED) if reason.startswith(prefix)), _LINE.sub(")", reason)
        )
        shared.setdefault(alike, []).append((query, reason))
    first, *rest = (
        f"query {query!r}{f' and {len(repeats):,} more' if repeats else ''}: {reason}"
        for (query, reason), *repeats in shared.values()
    )
    n = len(errors)
    summary = f"{n:,} quer{'y' if n == 1 else 'ies'} failed and count{'s' if n == 1 else ''} as nothing offered"
    return f"{dataset}, {selector}: {summary}, first {first}", rest
