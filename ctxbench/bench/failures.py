"""What selectors failed on, in words."""

from __future__ import annotations

from collections.abc import Mapping

from ctxbench.selectors.protocol import NO_ANSWER


def failures_told(dataset: str, selector: str, errors: Mapping[str, str]) -> tuple[str, list[str]]:
    """How many queries a selector failed on, with the first reason, and the other reasons.

    Args:
        dataset, selector: their names.
        errors: why there is no answer, by query; at least one.

    Returns:
        A sentence without a stop; and a line for each reason more, with the queries that share it. So do lines of a
        process that are no answers, whatever they say: it prints them at every request.
    """
    shared: dict[str, list[tuple[str, str]]] = {}
    for query, error in errors.items():
        reason = error.removeprefix(f"query {query!r}: ")
        shared.setdefault(NO_ANSWER if reason.startswith(NO_ANSWER) else reason, []).append((query, reason))
    first, *others = (
        f"query {query!r}{f' and {len(more):,} more' if more else ''}: {reason}"
        for (query, reason), *more in shared.values()
    )
    n = len(errors)
    what = f"{n:,} quer{'y' if n == 1 else 'ies'} failed and count{'s' if n == 1 else ''} as nothing offered"
    return f"{dataset}, {selector}: {what}, first {first}", others
