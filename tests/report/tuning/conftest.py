"""Tunings made by hand and by arithmetic: what reports are tested with."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ctxbench.evaluation.comparisons import AtTokens
from ctxbench.evaluation.metrics import GroupMean, Mean, parse_metric
from ctxbench.evaluation.statistics import Comparison, Estimate, Interval
from ctxbench.report.tuning_document import write_report
from ctxbench.tuning.policy import Constraint, Policy
from ctxbench.tuning.results import (
    DEFAULTS,
    EVERYTHING,
    FIXED,
    PRESET,
    RECOMMENDED,
    ConstraintVerdict,
    DatasetTuning,
    MeanGrid,
    PolicyOutcome,
    SettingResult,
    Status,
    Trace,
    Tuning,
    WorseRequest,
)

HOSTILE = "<script>alert(1)</script> | `rm` *b* _i_ [x](y) ~~s~~ $1$ &lt;\n# no heading \u202e\\"
KEPT = "completeness >= 0.9 of what is reachable at 20 items"
NORMAL = Policy.of(
    "normal",
    about="Fewest tokens that keep nine tenths of what is reachable",
    minimise=parse_metric("tokens"),
    constraints=(Constraint(metric=parse_metric("completeness"), at_least=0.9, of="reachable"),),
)
AGGRESSIVE = Policy.of(
    "aggressive",
    about="The smallest context",
    minimise=parse_metric("tokens"),
    constraints=(Constraint(metric=parse_metric("completeness"), at_least=0.8, of="reachable"),),
)
WITHIN = Policy.of(
    "within-4000",
    maximise=parse_metric("completeness"),
    constraints=(Constraint(metric=parse_metric("tokens"), at_most=4000),),
)
VALUES = {"contextTopK": 20, "contextTopN": 12, "contextIncludeScore": 0.7, "contextMargin": 0.15}


def interval(low: float, high: float, *, holds: bool = True) -> Interval:
    return Interval(low=low, high=high, level=0.95, method="made", holds=holds)


def estimate(value: float, half: float, *, n: int = 200, holds: bool = True) -> Estimate:
    return Estimate(value=value, interval=interval(value - half, value + half, holds=holds), n=n, left_out=0)


def measured(complete: float, tokens: float, items: float, **given: Any) -> dict[str, Estimate]:
    """Estimates of completeness (and recall, a third of the way from it to 1), tokens and items."""
    recall = complete + (1 - complete) / 3
    return {
        "completeness": estimate(complete, min(0.03, 1 - complete), **given),
        "recall": estimate(recall, min(0.02, 1 - recall), **given),
        "tokens": estimate(tokens, tokens / 20, **given),
        "items": estimate(items, items / 20, **given),
    }


def contender(name: str, role: str, at: tuple[float, float, float], **given: Any) -> SettingResult:
    """A contender by completeness, tokens and items on the tuning split; on the other it is 1 point worse."""
    given = {"selector": "semantic", "values": {}, **given}
    complete, tokens, items = at
    return SettingResult(
        name=name, role=role, tuning=measured(*at), test=measured(complete - 0.01, tokens * 1.05, items), **given
    )


def comparison(base: float, other: float, half: float, **given: Any) -> Comparison:
    """A comparison whose interval reaches `half` to both sides; told apart where it leaves 0 out."""
    away = other - base
    told = abs(away) > half
    made = Comparison(
        n=200,
        left_out=0,
        base=base,
        other=other,
        difference=away,
        interval=interval(away - half, away + half),
        higher=12,
        lower=3,
        equal=185,
        square=1.0,
        standardised=0.1,
        p=0.0002 if told else 0.4,
        p_holm=0.0004 if told else 0.8,
        test="made",
        alpha=0.05,
        needed=None,
    )
    return replace(made, **given)


def changes(tokens: tuple[float, float], complete: tuple[float, float]) -> dict[str, Comparison]:
    """From the first of each pair to the second."""
    return {"tokens": comparison(*tokens, 20.0), "completeness": comparison(*complete, 0.02)}


def trace(name: str, scale: float, *, points: int = 60, most: float = 60.0, best: float = 0.97) -> Trace:
    """A rising line: completeness best * (1 - exp(-items / scale)), 55 tokens an item."""
    items = np.linspace(0.0, most, points)
    complete = best * (1 - np.exp(-items / scale))
    recall = complete + (1 - complete) / 3
    means = {"completeness": complete, "recall": recall, "tokens": 55.0 * items, "items": items}
    half = {"completeness": 0.03, "recall": 0.02, "tokens": 10.0, "items": 0.2}
    return Trace(
        name=name,
        settings=tuple({"n": int(item)} for item in items),
        means=means,
        low={key: np.maximum(mean - half[key], 0.0) for key, mean in means.items()},
        high={key: mean + half[key] for key, mean in means.items()},
    )


def along(name: str, values: tuple[Any, ...], steep: float) -> Trace:
    """A parameter turned up: completeness and tokens rise along it."""
    at = np.linspace(0.0, 1.0, len(values))
    means = {"completeness": 0.6 + 0.35 * at**steep, "tokens": 200 + 1400 * at**steep}
    return Trace(
        name=name,
        settings=tuple({name: value} for value in values),
        means=means,
        low={"completeness": means["completeness"] - 0.03, "tokens": means["tokens"] * 0.95},
        high={"completeness": means["completeness"] + 0.03, "tokens": means["tokens"] * 1.05},
    )


def heat(x: str, xs: tuple[Any, ...], y: str, ys: tuple[Any, ...]) -> MeanGrid:
    """Both means rise with both parameters."""
    grid = np.linspace(0, 1, len(xs))[None, :] + np.linspace(0, 1, len(ys))[:, None]
    return MeanGrid(x=x, y=y, xs=xs, ys=ys, means={"completeness": 0.5 + 0.24 * grid, "tokens": 100 + 900 * grid**2})


def said(what: Status, *, text: str = KEPT, needed: int | None = None) -> ConstraintVerdict:
    """What is said of a constraint, of 200 queries."""
    return ConstraintVerdict(text=text, status=what, value=0.93, low=0.91, high=0.95, n=200, needed=needed)


def outcome(
    policy: Policy = NORMAL,
    *,
    at: tuple[float, float, float] = (0.93, 320.0, 5.5),
    values: Mapping[str, Any] = VALUES,
    **given: Any,
) -> PolicyOutcome:
    """A recommendation with everything that may be said of one."""
    fixed = contender("semantic, first 9", FIXED, (0.92, 495.0, 9.0), values={"n": 9})
    own = contender("calibrated, first 7", FIXED, (0.925, 400.0, 7.0), selector="calibrated", values={"n": 7})
    made = PolicyOutcome(
        policy=policy,
        chosen=contender(policy.name, RECOMMENDED, at, selector="calibrated", values=values),
        settings=12_345_678,
        tried=64,
        bounds={KEPT: 0.9132},
        verdicts=(said("holds"),),
        fixed=fixed,
        fixed_of_selector=own,
        against={
            "defaults": changes((550.0, 320.0), (0.921, 0.92)),
            "fixed": changes((500.0, 320.0), (0.9, 0.92)),
            "fixed_of_selector": changes((400.0, 320.0), (0.92, 0.92)),
        },
        at_tokens=AtTokens(tokens=320.0, complete=0.93, base=0.9, comparison=comparison(0.9, 0.93, 0.02)),
        ranking=changes((500.0, 400.0), (0.9, 0.92)),
        heat_maps=(
            heat("contextTopN", tuple(range(51)), "contextMargin", tuple(round(i * 0.05, 2) for i in range(21))),
        ),
        slices=(
            along("contextTopK", tuple(range(1, 101)), 0.3),
            along("contextTopN", tuple(range(51)), 0.5),
            along("contextMargin", tuple(round(i * 0.05, 2) for i in range(21)), 1.0),
            along("contextExpansionEnabled", (False, True), 1.0),
        ),
        worst_scope=GroupMean("billing", Mean(value=0.75, n=12, left_out=0)),
        worst_server=GroupMean("tracker", Mean(value=0.8, n=20, left_out=1)),
        worse=tuple(
            WorseRequest(query=f"q{i}", text=f"Request number {i}", missing=(f"tool/server/item-{i}",))
            for i in range(23)
        ),
    )
    return replace(made, **given)


def references() -> tuple[SettingResult, ...]:
    """What every dataset is measured with."""
    return (
        contender("specification's defaults", DEFAULTS, (0.91, 275.0, 5.0), values={"contextTopK": 20}),
        contender("semantic/normal", PRESET, (0.91, 275.0, 5.0)),
        contender("semantic/aggressive", PRESET, (0.83, 165.0, 3.0)),
        contender("semantic/conservative", PRESET, (0.955, 550.0, 10.0)),
        contender("everything", EVERYTHING, (1.0, 20_350.0, 370.0)),
    )


def dataset(
    name: str = "bfcl-simple", *, outcomes: tuple[PolicyOutcome, ...] | None = None, **given: Any
) -> DatasetTuning:
    """A dataset with two selectors and three policies, one of which recommends nothing."""
    found = outcomes
    if found is None:
        found = (
            outcome(
                AGGRESSIVE,
                at=(0.85, 190.0, 3.2),
                values={**VALUES, "contextTopN": 11},
                verdicts=(said("open", needed=120),),
                worse=(),
            ),
            outcome(),
            nothing(WITHIN),
        )
    chosen = [part for one in found for part in (one.chosen, one.fixed, one.fixed_of_selector) if part is not None]
    made = DatasetTuning(
        dataset=name,
        version="2026.3.23-1",
        hash="5473fd3c15f1" * 5,
        items=370,
        queries={"tuning": 183, "test": 217},
        of={"tuning": 183, "test": 1217},
        tokens="o200k_base",
        results=(*references(), *{one.name: one for one in chosen}.values()),
        traces=(
            trace("semantic: front", 1.6),
            trace("semantic: first n", 2.2),
            trace("calibrated: front", 1.1, best=0.985),
            trace("calibrated: first n", 1.5, best=0.985),
        ),
        outcomes=found,
        notes=(
            "contextExpansionDepth breaks the prefix rule: 64 settings were tried.",
            "The test split was read once.",
        ),
    )
    return replace(made, **given)


def nothing(policy: Policy = NORMAL) -> PolicyOutcome:
    """A policy for which there are too few queries."""
    return PolicyOutcome(
        policy=policy,
        chosen=None,
        reason="49 queries are too few to tell that the constraint is met",
        needed=(291, 640),
    )


def tuning(*datasets: DatasetTuning, **given: Any) -> Tuning:
    made = Tuning(
        name="presets",
        about="Three sizes of context",
        command="ctxbench tune bfcl-simple workbench --policy policies.yaml",
        seed=0,
        embedder="sentence-transformers/all-MiniLM-L6-v2, onnxruntime",
        datasets=datasets or (dataset(), dataset("workbench")),
    )
    return replace(made, **given)


def edges() -> dict[str, Tuning]:
    """Tunings at the edge of what may come."""
    empty: Mapping[str, Estimate] = {}
    nan = Estimate(value=math.nan, interval=interval(-math.inf, math.inf, holds=False), n=0, left_out=9)
    unread = outcome(verdicts=(), against={}, ranking={}, worst_scope=None, worst_server=None, worse=())
    unread = replace(unread, chosen=replace(unread.chosen, test=empty), fixed=None, fixed_of_selector=None)
    unknown = outcome(
        at=(0.9, 100.0, 2.0),
        worst_scope=GroupMean("none", Mean(value=math.nan, n=0, left_out=5)),
        against={"defaults": {"tokens": comparison(0.0, 10.0, 1.0), "completeness": comparison(0.9, 0.9, math.inf)}},
    )
    unknown = replace(unknown, chosen=replace(unknown.chosen, test={**unknown.chosen.test, "completeness": nan}))
    huge = tuple(
        replace(one, tuning={**one.tuning, "tokens": estimate(3e9, 1e8)}) if one.role == EVERYTHING else one
        for one in references()
    )
    long = "a-very-long-name-of-a-selector-that-somebody-chose-without-thinking-of-tables/" * 2
    named = WITHIN.model_copy(update={"about": HOSTILE}).named(HOSTILE)
    hostile = outcome(named, worse=(WorseRequest(query=HOSTILE, text=HOSTILE, missing=(HOSTILE, long)),))
    return {
        "nothing": tuning(dataset(outcomes=(nothing(),))),
        "one": tuning(dataset(outcomes=(outcome(),))),
        "unread": tuning(dataset(outcomes=(unread,), queries={"all": 20}, of={"all": 20})),
        "unknown": tuning(dataset(outcomes=(unknown,))),
        "huge": tuning(dataset(results=huge, outcomes=(outcome(),))),
        "bare": tuning(dataset(results=(), traces=(), outcomes=(), notes=(), queries={}, of={})),
        "none": replace(tuning(), datasets=()),
        "together": tuning(dataset("together", version="", traces=(), notes=("One setting for all.",))),
        "hostile": tuning(
            dataset(
                HOSTILE,
                outcomes=(hostile,),
                results=(contender(HOSTILE, PRESET, (0.9, 300.0, 5.0)), contender(long, PRESET, (0.8, 200.0, 4.0))),
                notes=(HOSTILE,),
                traces=(trace(f"{HOSTILE}: front", 2.0),),
            ),
            name=HOSTILE,
            about=HOSTILE,
            command=HOSTILE,
        ),
    }


@pytest.fixture(scope="session")
def made() -> SimpleNamespace:
    """The functions and names above."""
    return SimpleNamespace(**{name: value for name, value in globals().items() if not name.startswith("_")})


@pytest.fixture(scope="session")
def report_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, ...]]:
    """Writes the report of an edge, of the `usual` tuning, or of it on `one dataset`, once for all tests: to be read.

    The figures take seconds to draw. Returns the paths, as `write_report` does.
    """

    @cache
    def written(name: str) -> tuple[Path, ...]:
        made = {"usual": tuning(), "one dataset": tuning(dataset()), **edges()}
        return write_report(made[name], tmp_path_factory.mktemp("report"))

    return written
