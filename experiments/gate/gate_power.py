"""Faults that a gate must name: made once over all queries of a dataset, then checked on draws of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from statistics import median
from typing import Any

import numpy as np
from gate_faults import FAULTS, Fault
from gate_world import ALLOWED_COLUMNS, check, draw, found_once, only, worse_allowing

from ctxbench.gate.results import Check, SelectorCheck, Verdict
from ctxbench.gate.snapshots import SelectorSnapshot

NS = (30, 100, 300)
DRAWS = 100
CHECKED, CHECKED_NS = 2, (30, 100)  # so many draws of these sizes are also checked without `found_once`


def power(name: str, fault_name: str) -> list[dict[str, Any]]:
    """Make a fault and check it on draws: a row for each selector and number of queries.

    Raises:
        RuntimeError: a check of a draw from the beginning comes to something else.
    """
    fault = FAULTS[fault_name](name)
    full = check(list(zip(fault.bases, fault.heads, strict=True)))
    rows = []
    for n in (n for n in NS if n <= len(fault.bases[0].queries)):
        checks: dict[str, list[tuple[SelectorCheck, SelectorSnapshot]]] = {}
        for seed in range(DRAWS):
            pairs = list(_drawn(fault, n, seed))
            with nullcontext() if fault.narrowed else found_once(full):
                result = check(pairs)
            if seed < CHECKED and n in CHECKED_NS and not fault.narrowed and _gist(check(pairs)) != _gist(result):
                raise RuntimeError(f"{fault_name}, {name}: draw {seed} of {n} queries differs from a whole check")
            for selector, (_, head) in zip(result.selectors, pairs, strict=True):
                checks.setdefault(selector.selector, []).append((selector, head))
        for selector_name, drawn in checks.items():
            rows.append(
                {"fault": fault_name, "dataset": name, "selector": selector_name, "n": n, **_sums(fault, drawn)}
            )
    return rows


def _sums(fault: Fault, checks: Sequence[tuple[SelectorCheck, SelectorSnapshot]]) -> dict[str, Any]:
    """Draws, those that are worse, those with the right cause first, and the median of required items lost net."""
    worse = [result for result, _ in checks if result.verdict is Verdict.WORSE]
    right = [result for result in worse if result.causes and fault.right(result.causes[0].cause)]
    allowing = [worse_allowing(*each) for each in checks]
    return {
        "draws": len(checks),
        "worse": len(worse),
        "right": len(right),
        "net_lost": median(result.lost - result.gained for result, _ in checks),
        **{column: sum(row[column] for row in allowing) for column in ALLOWED_COLUMNS},
    }


def _drawn(fault: Fault, n: int, seed: int) -> Iterator[tuple[SelectorSnapshot, SelectorSnapshot]]:
    """The two snapshots of each selector over a draw; a fault that hits some queries only hits so many of these."""
    rng = np.random.default_rng([seed, n, 7])
    needed = [fault.needed[index] for index in rng.permutation(len(fault.needed))[: fault.at_least].tolist()]
    queries = draw(fault.bases[0], n, seed, among=needed)
    for base, head in zip(fault.bases, fault.heads, strict=True):
        before, after = only(base, queries), only(head, queries)
        yield before, fault.narrowed(before, after, rng) if fault.narrowed else after


def _gist(result: Check) -> list[object]:
    """What a check comes to, but for the wording of what would fix it."""
    return [
        (row.verdict, row.lost, row.gained, row.swaps, [(g.cause, g.lost, g.gained, g.others) for g in row.causes])
        for row in result.selectors
    ]


# No rule of freight is needed by ten queries. Tools have no text beside what is said of them, and are chunked whole.
NOT_MADE = {("freight", "rule replaced"), ("freight", "rule's text replaced")}
OF_TOOLS = ("items dropped", "rule replaced", "look-alikes", "second server", "costly look-alikes", "static model")


def tasks(datasets: Sequence[str]) -> list[tuple[str, str]]:
    """Dataset and fault, all that are made, what takes longest first."""
    faults = list(reversed(list(FAULTS)))
    made = [(dataset, name) for name in faults for dataset in datasets if (dataset, name) not in NOT_MADE]
    return made + [("bfcl-live", name) for name in faults if name in OF_TOOLS]
