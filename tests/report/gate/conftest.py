"""Checks made by hand: what reports are tested with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ctxbench.evaluation.statistics import Estimate, Interval, compare
from ctxbench.gate.results import (
    Cause,
    CauseGroup,
    CauseKind,
    Change,
    Check,
    Fix,
    MetricVerdict,
    PinFailure,
    SelectorCheck,
    TokenChange,
    UnmetRequirement,
    Verdict,
)
from ctxbench.model.candidates import Rule

HOSTILE = (
    "<script>alert(1)</script> | `rm` \\| *b* [x](http://y.z) @admin #12 ~~s~~ &lt;\n# no\x00 heading \u202e\ud800\\"
)
EDITED = Cause(kind=CauseKind.EDITED, subjects=("rule:code%20review",), detail="text of rule:code%20review edited")
CROWDED = Cause(kind=CauseKind.CROWDED, subjects=("tool:a:x", "tool:a:y"), detail="2 new tools stand above it")
LOST = Change(
    query="q2",
    item="rule:code%20review",
    lost=True,
    required=True,
    cause=EDITED,
    base_score=0.5,
    head_score=0.25,
    base_rank=2,
    head_rank=9,
    rule=Rule.of("threshold", threshold=0.3),
    missed_by=0.05,
    fix=Fix("bring the words of q2 back"),
)
OTHER = Change(query="q3", item="tool:a:x", lost=False, required=False, cause=CROWDED, head_score=0.75, head_rank=1)


def estimate(value: float, low: float, high: float, n: int) -> Estimate:
    interval = Interval(low=low, high=high, level=0.95, method="made", holds=True)
    return Estimate(value=value, interval=interval, n=n, left_out=0)


def judged(metric: str, verdict: Verdict, base: Any, head: Any, *, detectable: float | None = 0.1) -> MetricVerdict:
    """Means of 0/1 values or of amounts, with the comparison that these values give."""
    sides = [np.asarray(side, dtype=np.float64) for side in (base, head)]
    scale = "amount" if metric == "tokens" else "yes/no"
    found = compare(*sides, scale=scale)
    means = [estimate(float(side.mean()), float(side.min()), float(side.max()), len(side)) for side in sides]
    return MetricVerdict(
        metric=metric,
        verdict=verdict,
        base=means[0],
        head=means[1],
        comparison=found,
        tolerance=0.01 if scale == "yes/no" else 12.5,
        detectable=detectable,
    )


def worse() -> SelectorCheck:
    return SelectorCheck(
        dataset="desk",
        selector="semantic/normal",
        verdict=Verdict.WORSE,
        reasons=("1 required item was lost and 0 were gained, at most 0 more may be lost.",),
        compared=20,
        left_out={"new": ("q30", "q31"), "removed": ()},
        changes=(LOST, OTHER),
        swaps=("q4",),
        causes=(
            CauseGroup(cause=EDITED, lost=1, gained=0, others=0, tokens=-120, queries=("q2",), fix=Fix("pin it")),
            CauseGroup(cause=CROWDED, lost=0, gained=0, others=1, tokens=80, queries=("q3",)),
        ),
        metrics=(
            judged("completeness", Verdict.WORSE, [1] * 20, [0] * 10 + [1] * 10),
            judged("tokens", Verdict.SAME, [100.0] * 20, [100.0] * 20, detectable=None),
        ),
        pins=(
            PinFailure(
                pin="q2 must include rule:code%20review", line=12, query="q2", message="rule:code%20review is out"
            ),
        ),
        lost=1,
        allowed=0,
        notices=("Two queries are new.",),
        texts={"q2": "please review my code", "rule:code%20review": "Code review"},
    )


def same() -> SelectorCheck:
    return SelectorCheck(
        dataset="desk",
        selector="bm25",
        verdict=Verdict.SAME,
        reasons=("No required item was lost.",),
        compared=20,
        allowed=1,
        metrics=(judged("completeness", Verdict.SAME, [1] * 20, [1] * 20),),
    )


def inconclusive() -> SelectorCheck:
    return replace(
        same(),
        selector="dense",
        verdict=Verdict.INCONCLUSIVE,
        reasons=("completeness fell by 5.0 points, without evidence.",),
        metrics=(judged("completeness", Verdict.INCONCLUSIVE, [1] * 20, [0] + [1] * 19),),
    )


def not_comparable() -> SelectorCheck:
    return SelectorCheck(
        dataset="desk",
        selector="mine",
        verdict=Verdict.NOT_COMPARABLE,
        reasons=("query q7 has no answer: the endpoint returned 500.",),
    )


def better() -> SelectorCheck:
    return replace(same(), selector="hybrid", verdict=Verdict.BETTER, reasons=("completeness rose.",), gained=2)


def gone() -> SelectorCheck:
    """Worse since required items can no longer be offered, though none was lost; known to answer alike every time."""
    return replace(
        same(),
        verdict=Verdict.WORSE,
        reasons=("required by 3 queries, offered to none before, and nothing else would do",),
        unmet=(
            UnmetRequirement(items=("rule:code%20review",), why="disabled", queries=("q2", "q5")),
            UnmetRequirement(items=("tool:a:x", "tool:a:y"), why="no longer in the catalog", queries=("q7",)),
        ),
        deterministic=True,
    )


def dearer() -> SelectorCheck:
    """Worse since two items cost more where they are offered as before, and one less."""
    prices = (("tool:a:x", 100, 540, 4), ("tool:a:y", 50, 60, 2), ("rule:z", 9, 8, 1))
    items = tuple(
        TokenChange(
            item=name, base=was, head=now, queries=tuple(f"q{place}" for place in range(count)), why="schema edited"
        )
        for name, was, now, count in prices
    )
    cause = Cause(
        kind=CauseKind.COSTS_MORE, subjects=("tool:a:x", "tool:a:y"), detail="2 items cost more prompt tokens"
    )
    return replace(
        same(),
        verdict=Verdict.WORSE,
        reasons=("tokens rose.",),
        metrics=(judged("tokens", Verdict.WORSE, [100.0] * 20, [150.0 + place for place in range(20)]),),
        causes=(CauseGroup(cause=cause, lost=0, gained=0, others=0, tokens=1780, queries=("q0", "q1")),),
        token_changes=items,
        deterministic=True,
    )


def check(*selectors: SelectorCheck, **given: Any) -> Check:
    told = {"name": "gate.yaml", "base": "gate.baseline", "head": "this run", "baseline": "gate.baseline", **given}
    return Check(selectors=selectors, **told)


def hostile() -> Check:
    """A check in which every text that someone else writes is made to break out."""
    cause = Cause(kind=CauseKind.EDITED, subjects=(HOSTILE,), detail=HOSTILE)
    return check(
        replace(
            worse(),
            selector=HOSTILE,
            dataset=HOSTILE,
            reasons=(HOSTILE,),
            changes=(replace(LOST, query=HOSTILE, item=HOSTILE, cause=cause, rule=Rule(HOSTILE), fix=Fix(HOSTILE)),),
            causes=(
                CauseGroup(cause=cause, lost=1, gained=0, others=0, tokens=0, queries=(HOSTILE,), fix=Fix(HOSTILE)),
            ),
            pins=(PinFailure(pin=HOSTILE, line=3, query=HOSTILE, message=HOSTILE),),
            unmet=(UnmetRequirement(items=(HOSTILE,), why="disabled", queries=(HOSTILE,)),),
            token_changes=(TokenChange(item=HOSTILE, base=1, head=2, queries=(HOSTILE,), why=HOSTILE),),
            swaps=(HOSTILE,),
            left_out={"new": (HOSTILE,)},
            notices=(HOSTILE,),
            texts={HOSTILE: HOSTILE},
        ),
        name=HOSTILE,
        notices=(HOSTILE,),
    )


def many(n: int) -> Check:
    """A check with so many lost items, each of a cause of its own, and as many that went in."""
    changes = [replace(LOST, query=f"q{i}", item=f"rule:r{i}") for i in range(n)]
    changes += [replace(OTHER, query=f"q{i}", item=f"tool:a:t{i}") for i in range(n)]
    causes = tuple(
        CauseGroup(
            cause=Cause(kind=CauseKind.EDITED, subjects=(f"rule:r{i}",), detail="text edited"),
            lost=n - i,
            gained=0,
            others=0,
            tokens=0,
            queries=(f"q{i}",),
        )
        for i in range(n)
    )
    texts = {f"q{i}": f"Request {i} in some more words" for i in range(n)}
    return check(replace(worse(), changes=tuple(changes), causes=causes, lost=n, texts=texts), same())


@pytest.fixture
def made() -> SimpleNamespace:
    """Makers of checks."""
    checks = (worse, same, inconclusive, not_comparable, better, gone, dearer)
    makers: tuple[Callable[..., Any], ...] = (*checks, check, hostile, many)
    return SimpleNamespace(
        **{one.__name__: one for one in makers},
        judged=judged,
        every=lambda: check(worse(), same(), inconclusive(), not_comparable(), better()),
        HOSTILE=HOSTILE,
        LOST=LOST,
        EDITED=EDITED,
    )
