"""How means change near a recommended setting: along each parameter, over two of them, and along fronts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from ctxbench.bench.metrics import mean
from ctxbench.bench.stats import grouped_estimate
from ctxbench.core.arrays import FloatArray
from ctxbench.selectors.parameters import Parameter, Value
from ctxbench.tuning.search import REPORTED, Competitor, SearchResult
from ctxbench.tuning.sweep.measures import Measure
from ctxbench.tuning.tunables import FIRST_N
from ctxbench.tuning.tuning_results import MeanGrid, Trace

POINTS = 40  # of a trace at most
RUNS = 6  # of a trace whose settings have to be run
MAP_CELLS = 12  # of a heat map along either axis, at most
MAPS = 6  # pairs of parameters that heat maps are drawn of; of more parameters only neighbours are paired
FIRST = (*range(21), 25, 30, 40, 50)  # items of the curve of a fixed number of items
HEAT_METRICS = ("completeness", "tokens")


def front_trace(found: SearchResult, *, level: float) -> Trace:
    """The settings that no other beats in prompt tokens and completeness, thinned."""
    return trace(found.competitor, f"{found.competitor.name}: front", found.front.thinned(POINTS), level=level)


def first_trace(competitor: Competitor, *, level: float) -> Trace:
    """Means and intervals of the first n items of the ranking."""
    settings: list[dict[str, Value]] = [{"n": n} for n in FIRST]
    return trace(
        competitor,
        f"{competitor.name}: first n",
        settings,
        level=level,
        by_query=partial(FIRST_N.by_query, competitor.rankings),
    )


def parameter_traces(competitor: Competitor, chosen: Mapping[str, Value], *, level: float) -> tuple[Trace, ...]:
    """How means change with one parameter, all others as chosen."""
    return tuple(
        trace(competitor, one.name, [{**chosen, one.name: value} for value in values], level=level)
        for one, values in _varied_values(competitor, chosen, POINTS if competitor.tunable.is_swept(chosen) else RUNS)
    )


def heat_maps(competitor: Competitor, chosen: Mapping[str, Value]) -> tuple[MeanGrid, ...]:
    """Heat maps over pairs of swept parameters; none where settings would have to be run."""
    varied = [
        one
        for one in _varied_values(competitor, chosen, MAP_CELLS)
        if one[0].name in competitor.tunable.swept_parameters
    ]
    if not competitor.tunable.is_swept(chosen):
        return ()
    pairs = list(itertools.combinations(varied, 2))
    if len(pairs) > MAPS:
        pairs = list(itertools.pairwise(varied))[:MAPS]
    found = []
    for (y, ys), (x, xs) in pairs:
        rows = [[competitor.by_query({**chosen, x.name: at, y.name: of}) for at in xs] for of in ys]
        means = {
            str(one): np.array([[mean(cell[one]).value for cell in row] for row in rows])
            for one in REPORTED
            if str(one) in HEAT_METRICS
        }
        found.append(MeanGrid(x=x.name, y=y.name, xs=xs, ys=ys, means=means))
    return tuple(found)


def _varied_values(
    competitor: Competitor, chosen: Mapping[str, Value], most: int
) -> list[tuple[Parameter, tuple[Value, ...]]]:
    """The numeric parameters that tuning varies with an effect at a setting, with at most so many values each."""
    values, found = competitor.tunable.values(chosen), []
    for name in competitor.tunable.varied_parameters(chosen):
        value = values[name]
        if not isinstance(value, bool | str):
            one, listed = competitor.tunable.definition.parameters[name], competitor.tunable.entry.search.get(name)
            own = _spaced_values(one, value, most) if listed is None else tuple(sorted({*listed, value}))
            found.append((one, tuple(at for at in own if competitor.tunable.is_valid({**chosen, name: at}))))
    return found


def _spaced_values(parameter: Parameter, value: float, most: int) -> tuple[Value, ...]:
    """Values over the range of a parameter, denser below, where more changes; that which is chosen among them."""
    low, high = parameter.low, parameter.high
    steps = low + (high - low) * np.linspace(0.0, 1.0, most - 1) ** 2
    if isinstance(parameter.checked(value), int):
        return tuple(sorted({*np.rint(steps).astype(np.int64).tolist(), int(value)}))
    return tuple(sorted({*np.round(steps, 4).tolist(), float(value)}))


def trace(
    competitor: Competitor,
    name: str,
    settings: Sequence[Mapping[str, Value]],
    *,
    level: float,
    by_query: Callable[[Mapping[str, Value]], Mapping[Measure, FloatArray]] | None = None,
) -> Trace:
    """Means and intervals of some settings on the tuning split; `by_query` gives values in place of the competitor."""
    group, every = competitor.query_set.group, list(map(by_query or competitor.by_query, settings))
    found = {
        str(one): [
            grouped_estimate(values[one], group, scale=one.metric.declaration.scale, level=level)  # type: ignore[arg-type]
            for values in every
        ]
        for one in REPORTED
    }
    return Trace(
        name=name,
        settings=tuple(dict(values) for values in settings),
        means={metric: np.array([one.value for one in each]) for metric, each in found.items()},
        low={metric: np.array([one.interval.low for one in each]) for metric, each in found.items()},
        high={metric: np.array([one.interval.high for one in each]) for metric, each in found.items()},
    )
