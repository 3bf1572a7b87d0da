"""Lines of settings along one threshold, and settings that only a run can evaluate.

A cut that keeps a prefix of the ranking is swept exactly. Expansions of several passes, budgets that skip items, and
re-ranking are run setting by setting. A setting reuses every step before the first one that differs from an earlier
setting.
"""

from __future__ import annotations

import hashlib
import math
from collections import UserDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from ctxbench.evaluation.answers import Labels, Slice
from ctxbench.evaluation.metrics import Metric, evaluate
from ctxbench.io.errors import Message, ParameterError, check_range, raise_first
from ctxbench.model.arrays import BoolArray, FloatArray, IntArray
from ctxbench.model.candidates import MARGIN, SHOWN, Candidates, Origin
from ctxbench.model.requests import Batch
from ctxbench.model.resources import Resources
from ctxbench.pipelines.pipeline import Outcome, Pipeline, PipelineError
from ctxbench.selectors.definition import Definition
from ctxbench.selectors.selector import Parameter, Value, check_fits
from ctxbench.tuning.measures import (
    REACH,
    TOKENS,
    DifferenceSums,
    Measure,
    Pairing,
    queries_by_type,
    values_of_measures,
)

L = TypeVar("L", bound=Sized)
L_contra = TypeVar("L_contra", contravariant=True)
_DIGITS = 17  # enough to distinguish any two floats


@dataclass(frozen=True, slots=True)
class Counts:
    """A parameter that takes whole numbers.

    Attributes:
        name: of the selector's parameter; empty = there is none, and the value is fixed.
        values: to try, rising, >= 0; a single one is fixed.
    """

    name: str
    values: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(sorted({int(value) for value in self.values})))

    def of(self, values: Mapping[str, Value]) -> int:
        """Its value in a setting."""
        return int(value_of(self.name, values, self.values[0]))


@dataclass(frozen=True, slots=True)
class ThresholdSpan:
    """A threshold that is tried at every value at which selections change.

    Attributes:
        name: of the selector's parameter; empty = there is none, and the value is fixed.
        low, high: the ends of its range; equal = it is fixed.
    """

    name: str
    low: float
    high: float

    @classmethod
    def fixed(cls, name: str, value: float) -> ThresholdSpan:
        """A threshold with one value."""
        return cls(name, value, value)

    @property
    def swept(self) -> bool:
        """Whether it has more than one value."""
        return self.low < self.high

    def of(self, values: Mapping[str, Value]) -> float:
        """Its value in a setting."""
        return float(value_of(self.name, values, self.high))


def value_of(name: str, values: Mapping[str, Value], fixed: float) -> Value:
    """The value of a parameter in a setting; `fixed` if it has no name."""
    if not name:
        return fixed
    if name not in values:
        raise ParameterError(f"{name} is missing; a setting needs a value of each swept parameter")
    return values[name]


@dataclass(frozen=True, eq=False, kw_only=True)
class ThresholdLine:
    """Settings that differ in one threshold, with sums of measures.

    Attributes:
        values: of the parameters that are equal in all settings, by name.
        axis: the parameter that differs; empty = the line is one setting.
        thresholds: the values of the axis, from the fewest offered items to the most, shape (n_settings,): all values
            within the range at which selections change. A selector run with exactly this value gives the same
            selections. Without an axis NaN, shape (1,).
        sums: by measure, the sum over the queries to which it applies, shape (n_settings,).
        squares, cubes: the sums of second and third powers, for measures whose intervals need them.
        n: by measure, the number of queries to which it applies; for a measure in `applies`, the largest number.
        applies: by measure, the number of queries to which it applies at each setting, shape (n_settings,), for
            measures for which it differs, such as precision.
        differences: by measure, paired differences to the base, if there is one.
        span: the ends of the parameter's range.
        is_integer: whether the parameter takes whole numbers only.
        beyond: the values of the parameter at which selections change next, at or before the first threshold and
            behind the last; they may be outside the range, and are infinite if there is none. If more is offered as
            the axis rises, the first is the lower one.
    """

    values: Mapping[str, Value]
    axis: str
    thresholds: FloatArray
    sums: Mapping[Measure, FloatArray]
    n: Mapping[Measure, int]
    squares: Mapping[Measure, FloatArray] = field(default_factory=dict)
    cubes: Mapping[Measure, FloatArray] = field(default_factory=dict)
    applies: Mapping[Measure, FloatArray] = field(default_factory=dict)
    differences: Mapping[Measure, DifferenceSums] = field(default_factory=dict)
    span: tuple[float, float] = (-math.inf, math.inf)
    is_integer: bool = False
    beyond: tuple[float, float] = (math.inf, -math.inf)

    def __len__(self) -> int:
        return len(self.thresholds)

    def values_at(self, index: int) -> dict[str, Value]:
        """The values of one setting."""
        return self._with(float(self.thresholds[index]))

    def rounded_values(self, index: int) -> dict[str, Value]:
        """The values of one setting, with `rounded_threshold` in place of the exact threshold."""
        return self._with(self.rounded_threshold(index))

    def _with(self, threshold: float) -> dict[str, Value]:
        if not self.axis:
            return dict(self.values)
        return {**self.values, self.axis: int(threshold) if self.is_integer else threshold}

    def means(self, measure: Measure, indices: IntArray | None = None) -> FloatArray:
        """The mean at some indices, or at every setting; NaN if it applies to no query."""
        sums = self.sums[measure]
        return np.asarray((sums if indices is None else sums[indices]) / self.counts(measure, indices))

    def counts(self, measure: Measure, indices: IntArray | None = None) -> FloatArray | float:
        """The number of queries to which a measure applies, by setting if it differs; NaN if there is none."""
        applies = self.applies.get(measure) if self.applies else None
        if applies is None:
            return float(self.n[measure] or math.nan)
        some = applies if indices is None else applies[indices]
        return np.where(some > 0, some, math.nan)

    def ends(self, index: int) -> tuple[float, float]:
        """The thresholds between which selections are those of one setting: its threshold, and the next one."""
        end = float(self.thresholds[index + 1] if index + 1 < len(self) else self.beyond[1])
        return float(self.thresholds[index] if index else self.beyond[0]), end

    def rounded_threshold(self, index: int) -> float:
        """A decimal with few digits that gives the same selections on this line, for reports and presets.

        Scores differ by up to 1e-5 between machines. So its distance to the two values at which selections change is at
        least that, or a quarter of the space between them if that is less. Of the decimals with the same number of
        digits, it is the nearest to the middle, or to the end of the range if selections do not change up to there or
        the middle is outside. If selections never change, it is the top of the range. NaN without an axis.
        """
        if not self.axis:
            return float("nan")
        keep = float(self.thresholds[index])
        reached, change = self.ends(index)
        rises = reached < change
        keys = [key for key in (reached, change) if math.isfinite(key)]
        if len(keys) == 2:
            middle = sum(keys) / 2
        else:
            end = keep if math.isfinite(change) else self.span[1 if rises or not keys else 0]
            middle = end if math.isfinite(end) else keep
        middle = min(max(middle, self.span[0]), self.span[1])  # the next change may be outside
        distance = 0.0 if self.is_integer else min([MARGIN, *(abs(middle - key) / 2 for key in keys)])
        for digits in range(-_DIGITS, 1) if self.is_integer else range(_DIGITS + 1):
            short = round(middle, digits)
            selects_same = reached <= short < change if rises else change < short <= reached
            far = all(abs(short - key) >= distance for key in keys)
            if selects_same and far and self.span[0] <= short <= self.span[1]:
                return short
        return keep


class Collector(Protocol[L_contra]):
    """Receives every line of a sweep, and keeps the best setting or a front."""

    def add(self, line: L_contra) -> None:
        """Take the settings of a line into account."""
        ...


class Mergeable(Protocol):
    """A collector that can be filled in parts."""

    def merge(self, later: Any) -> None:
        """Take the settings into account of a collector of the same kind that has seen later lines."""
        ...


def show_lines(
    lines: Iterable[L], collectors: Sequence[Collector[L]], *, progress: Callable[[int], None] | None = None
) -> int:
    """Pass each line to all collectors, in order; return the number of settings.

    Args:
        lines: of settings.
        collectors: receive each line.
        progress: called after each line with the number of settings so far.
    """
    settings = 0
    for line in lines:
        settings += len(line)
        for collector in collectors:
            collector.add(line)
        if progress is not None:
            progress(settings)
    return settings


class Front:
    """The settings that no other beats: none has a higher mean gain at the same or a lower mean cost.

    Of settings with equal means, the one with fewer prompt tokens is kept, if lines have tokens; then that of the first
    line, and on a line the one that offers less. There is at most one setting for each distinct mean gain.

    Attributes:
        cost, gain: less cost and more gain are better.
        settings: the number of added settings.
        values: the parameters of each setting, in the order of `means`.
    """

    def __init__(self, *, cost: Measure, gain: Measure) -> None:
        self.cost = cost
        self.gain = gain
        self.settings = 0
        self._points = np.empty((3, 0))  # cost, gain, tokens; costs and gains both rise
        self.values: tuple[Mapping[str, Value], ...] = ()

    def __len__(self) -> int:
        return len(self.values)

    def add(self, line: ThresholdLine) -> None:
        """Take the settings of a line into account; settings without a mean are ignored."""
        self.settings += len(line)
        if not (line.n[self.cost] and line.n[self.gain]):
            return
        indices = _unbeaten(_in_order(line, self.cost), _in_order(line, self.gain))
        cost, gain = line.means(self.cost, indices), line.means(self.gain, indices)
        news = self._is_news(cost, gain)
        if not news.any():
            return
        indices, cost, gain = indices[news], cost[news], gain[news]
        tokens = line.means(TOKENS, indices) if TOKENS in line.sums else np.zeros(len(indices))
        self._add_points(np.stack([cost, gain, tokens]), [line.values_at(index) for index in indices.tolist()])

    def merge(self, later: Front) -> None:
        """Take the settings of a front into account that has seen later lines."""
        self.settings += later.settings
        self._add_points(later._points, later.values)

    def _add_points(self, points: FloatArray, settings: Sequence[Mapping[str, Value]]) -> None:
        """Add settings with their cost, gain and tokens, shape (3, n), and remove those that another beats."""
        points = np.concatenate([self._points, points], axis=1)
        values = [*self.values, *settings]
        by_cost = np.lexsort((np.arange(len(values)), points[2], -points[1], points[0]))
        unbeaten = by_cost[_rises(points[1, by_cost])]
        self._points, self.values = points[:, unbeaten], tuple(values[index] for index in unbeaten.tolist())

    def _is_news(self, cost: FloatArray, gain: FloatArray) -> BoolArray:
        """False for settings that a setting on the front beats."""
        best = np.concatenate([[-np.inf], self._points[1]])
        below = best[np.searchsorted(self._points[0], cost, side="left")]  # of settings that cost less
        upto = best[np.searchsorted(self._points[0], cost, side="right")]  # and of settings that cost as much
        return np.asarray((gain > below) & (gain >= upto))

    @property
    def means(self) -> tuple[FloatArray, FloatArray]:
        """Mean cost and mean gain of each setting, both rising, each of shape (n,)."""
        return self._points[0], self._points[1]

    def thinned(self, max_settings: int) -> list[Mapping[str, Value]]:
        """The parameters of at most `max_settings` settings (>= 1), evenly spaced from the first to the last."""
        indices = np.unique(np.rint(np.linspace(0, len(self) - 1, min(max_settings, len(self)))).astype(np.int64))
        return [self.values[index] for index in indices.tolist()]


def _in_order(line: ThresholdLine, measure: Measure) -> FloatArray:
    """Numbers in the order of the means: the sums if all are over the same queries, which is faster."""
    return line.means(measure) if measure in line.applies else line.sums[measure]


def _unbeaten(cost: FloatArray, gain: FloatArray) -> IntArray:
    """Indices of the settings that no other beats (of equals the first), by rising cost. NaN is ignored."""
    if np.isnan(cost).any() or np.isnan(gain).any():
        finite = np.flatnonzero(~(np.isnan(cost) | np.isnan(gain)))
        return finite[_unbeaten(cost[finite], gain[finite])]
    if (cost[1:] < cost[:-1]).any():
        by_cost: IntArray = np.lexsort((-gain, cost)).astype(np.int64)
        return by_cost[_rises(gain[by_cost])]
    rising = _rises(gain)
    # of settings with equal cost, the last has the highest gain
    costs_more = cost[rising][1:] > cost[rising][:-1]
    return np.asarray(rising[np.append(costs_more, np.ones(min(len(rising), 1), dtype=np.bool_))])


def _rises(values: FloatArray) -> IntArray:
    """Indices at which a value is above all before it."""
    steps = np.flatnonzero(values[1:] > values[:-1]) + 1  # usually few
    steps = np.append(np.zeros(min(len(values), 1), dtype=np.int64), steps)
    highest = np.maximum.accumulate(values[steps])
    return np.asarray(steps[np.append(np.ones(min(len(steps), 1), dtype=np.bool_), highest[1:] > highest[:-1])])


MEMORY = 256_000_000  # most bytes of cached outputs of steps
STEPS = 1000  # steps of the range of a parameter with decimals
_DRAWS = 50  # most draws per setting


class OutputCache(UserDict[str, Any]):
    """A cache of the outputs of steps. Above `limit` bytes, the least recently used are dropped.

    The most recent output always stays.
    """

    def __init__(self, limit: int = MEMORY) -> None:
        super().__init__()
        self._limit = limit
        self.bytes = 0

    def __getitem__(self, key: str) -> Any:
        self.data[key] = self.data.pop(key)  # as the one used last
        return self.data[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.pop(key, None)
        self.data[key] = value
        self.bytes += _count_bytes(value)
        while self.bytes > self._limit and len(self) > 1:
            del self[next(iter(self))]

    def __delitem__(self, key: str) -> None:
        self.bytes -= _count_bytes(self.data.pop(key))


def _count_bytes(value: Any) -> int:
    """Bytes of the arrays of a step's output, without those of the batch."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, Mapping):
        return sum(_count_bytes(entry) for entry in value.values())
    if is_dataclass(value) and not isinstance(value, Batch):
        return sum(_count_bytes(getattr(value, attribute.name)) for attribute in fields(value))
    return 0


def measure_answers(table: Candidates, labels: Labels, measures: Sequence[Measure]) -> dict[Measure, FloatArray]:
    """Values of measures by query, for the offered items.

    Args:
        table: with a ranking, rows by query in the order of `labels`.
        labels: of the queries.
        measures: to compute.

    Returns:
        By measure, shape (n_queries,); NaN if it does not apply. A `reachable` measure does not apply to queries that
        the first `REACH` items of the ranking do not make complete.
    """
    answers = Slice(
        queries=tuple(query.id for query in labels.dataset.queries),
        chunks=((),) * table.n_requests,
        candidates=table,
        ranked=True,
        scored=True,
        errors={},
        seconds=np.full(table.n_requests, np.nan),
    )
    within = Metric("Comp", REACH)
    metrics = list(dict.fromkeys(measure.metric for measure in measures))
    evidence = labels.evidence(answers)
    values = evaluate([*metrics, within] if any(measure.reachable for measure in measures) else metrics, evidence)
    by_type = queries_by_type(labels) if any(measure.required_type for measure in measures) else {}
    reachable = values[within] == 1.0 if within in values else np.zeros(table.n_requests, dtype=np.bool_)
    return values_of_measures(measures, values, evidence, labels.dataset.catalog, by_type=by_type, reachable=reachable)


def setting_line(
    values: Mapping[str, Value], by_query: Mapping[Measure, FloatArray], *, pairing: Pairing | None = None
) -> ThresholdLine:
    """One setting as a line, from its values by query; sums are rounded once.

    Args:
        values: of its parameters.
        by_query: by measure, shape (n_queries,).
        pairing: the base of paired differences, over the same queries.
    """
    applies = {measure: numbers[~np.isnan(numbers)] for measure, numbers in by_query.items()}
    amounts = {measure: numbers for measure, numbers in applies.items() if measure.metric.declaration.scale != "yes/no"}
    return ThresholdLine(
        values=values,
        axis="",
        thresholds=np.array([math.nan]),
        sums={measure: _exact_sum(numbers) for measure, numbers in applies.items()},
        n={measure: len(numbers) for measure, numbers in applies.items()},
        squares={measure: _exact_sum(numbers**2) for measure, numbers in amounts.items()},
        cubes={measure: _exact_sum(numbers**3) for measure, numbers in amounts.items()},
        differences={} if pairing is None else pairing.differences(by_query),
    )


def _exact_sum(values: FloatArray) -> FloatArray:
    return np.array([math.fsum(values.tolist())])


class SettingRunner:
    """Runs a selector on one batch at many settings; a step that settings share runs once.

    Args:
        definition: the selector.
        batch: the requests.
        resources: of its steps.
        labels: of the requests, in the same order.
        measures: of every setting.
        pairing: the base of paired differences; None = no differences.

    Attributes:
        definition: the selector.
        pairing: the base of paired differences.
        runs: the number of settings that were run; settings with equal pipelines are run once.
    """

    def __init__(
        self,
        definition: Definition,
        batch: Batch,
        *,
        resources: Resources,
        labels: Labels,
        measures: Sequence[Measure],
        pairing: Pairing | None = None,
    ) -> None:
        self.definition, self.pairing = definition, pairing
        self._batch, self._resources = batch, resources
        self._labels, self._measures = labels, tuple(measures)
        self._memo = OutputCache(MEMORY)
        self._offer_by_steps: dict[str, str] = {}
        self._values_by_offer: dict[str, Mapping[Measure, FloatArray]] = {}

    @property
    def runs(self) -> int:
        """The number of settings that were run."""
        return len(self._offer_by_steps)

    def outcome(self, values: Mapping[str, Value]) -> Outcome:
        """The outcome of the selector for the batch at one setting.

        Args:
            values: checked values that replace the defaults.

        Raises:
            PipelineError: a value does not suit a step.
            ParameterError: a step was fitted for another catalog, or behind other steps.
        """
        return self._run(self._pipeline(values))

    def values(self, values: Mapping[str, Value]) -> Mapping[Measure, FloatArray]:
        """Measure one setting; equal selections are measured once.

        Args:
            values: checked values that replace the defaults.

        Returns:
            By measure, shape (n_queries,), as `measure_answers`.

        Raises:
            PipelineError: a value does not suit a step.
            ParameterError: a step was fitted for another catalog, or behind other steps.
        """
        pipeline = self._pipeline(values)
        steps = "\n".join(_steps(pipeline))
        if steps not in self._offer_by_steps:
            table = self._run(pipeline).candidates
            offered = _digest(table)
            if offered not in self._values_by_offer:
                self._values_by_offer[offered] = measure_answers(table, self._labels, self._measures)
            self._offer_by_steps[steps] = offered
        return self._values_by_offer[self._offer_by_steps[steps]]

    def lines(self, settings: Sequence[Mapping[str, Value]]) -> tuple[ThresholdLine, ...]:
        """Measure settings, each as a separate line, in their order.

        They are run in an order in which neighbours share the most steps.

        Args:
            settings: checked values that replace the defaults.

        Raises:
            PipelineError: a value does not suit a step; before anything is run.
            ParameterError: a step was fitted for another catalog, or behind other steps.
        """
        steps = [_steps(self._pipeline(values)) for values in settings]
        lines = {
            index: setting_line(settings[index], self.values(settings[index]), pairing=self.pairing)
            for index in sorted(range(len(settings)), key=steps.__getitem__)
        }
        return tuple(lines[index] for index in range(len(settings)))

    def _pipeline(self, values: Mapping[str, Value]) -> Pipeline:
        return self.definition.pipeline(self.definition.with_defaults(values))

    def _run(self, pipeline: Pipeline) -> Outcome:
        check_fits(pipeline, self._batch.catalog)
        return pipeline.run(self._batch, self._resources, memo=self._memo)


def _steps(pipeline: Pipeline) -> tuple[str, ...]:
    """The keys of the steps that decide what is selected, in order, without steps that are off."""
    return tuple(
        step.key for step in (pipeline.analyse, pipeline.retrieve, *(step for step in pipeline.refine if not step.off))
    )


def _steps_at(definition: Definition, values: Mapping[str, Value]) -> tuple[str, ...]:
    """The keys of the steps of a selector at a setting; empty if its values contradict each other."""
    try:
        return _steps(definition.pipeline(values))
    except PipelineError:
        return ()


def _digest(table: Candidates) -> str:
    """A hash of everything that measures depend on: the offered items, their shown parts, and the ranking."""
    from_session = table.origin[table.chosen] == Origin.SESSION
    columns = [getattr(table, name) for name in ("item", *SHOWN)]
    arrays = (
        table.starts_of(table.chosen),
        *(column[table.chosen] for column in columns),
        from_session,
        *table.ranking(),
    )
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


def value_range(parameter: Parameter) -> tuple[Value, ...]:
    """The values of a parameter that a search draws from, rising: all, or `STEPS` + 1 evenly spaced decimals.

    Choices are in the order of the definition; switches are off, then on.
    """
    if parameter.choices:
        return tuple(parameter.choices)
    if isinstance(parameter.default, bool):
        return (False, True)
    low, high = parameter.low, parameter.high
    if isinstance(parameter.checked(low), int):
        return tuple(range(int(low), int(high) + 1))
    return tuple(float(round(low + (high - low) * step / STEPS, 12)) for step in range(STEPS + 1))


def tried_parameter(name: str, tried: Any, default: Any = None) -> tuple[Parameter, tuple[Value, ...]]:
    """A parameter, and the values that are tried of it.

    Args:
        name: of the parameter.
        tried: a list of values of one type, or the ends of a range as a tuple: whole numbers, or 1,001 values between.
        default: its value without tuning. If it is of another type than the values, the first value is taken.

    Raises:
        ParameterError: there is no value, values are of several types, or the range is empty.
    """
    is_range, values = isinstance(tried, tuple), list(tried) if isinstance(tried, list | tuple) else []
    kinds = {_kind_of(value) for value in values}
    wrong_ends = is_range and (len(values) != 2 or kinds != {float} or not values[0] < values[1])
    raise_first(
        (not isinstance(tried, list | tuple), Message("tuning.parameter-values", name=name, got=tried)),
        (not values, Message("tuning.parameter-without-values", name=name)),
        (len(kinds) > 1 or None in kinds, Message("tuning.parameter-types", name=name, values=tried)),
        (wrong_ends, Message("tuning.parameter-range", name=name, values=tried)),
    )
    default = default if _kind_of(default) in kinds else values[0]
    if kinds == {float} and float in {type(value) for value in (*values, default)}:
        default, *values = map(float, (default, *values))
    numbers = values if kinds == {float} else [0]
    choices: dict[str, dict[str, Value]] = {value: {} for value in (*values, default)} if kinds == {str} else {}
    parameter = Parameter(name=name, default=default, low=min(numbers), high=max(numbers), choices=choices)
    return parameter, value_range(parameter) if is_range else tuple(dict.fromkeys(values))


def _kind_of(value: Any) -> type | None:
    """The type of a value of a parameter, `float` for every finite number; None if it is none."""
    if isinstance(value, bool | str):
        return type(value)
    return float if isinstance(value, int | float) and math.isfinite(value) else None


def draw_settings(
    definition: Definition,
    search: Mapping[str, Sequence[Value]],
    *,
    fixed: Mapping[str, Value] | None = None,
    trials: int,
    seed: int,
) -> tuple[dict[str, Value], ...]:
    """Draw settings to run, without settings that are equal for the selector.

    Args:
        definition: of the selector.
        search: the possible values of each parameter, such as `value_range`.
        fixed: values of other parameters.
        trials: the highest number of settings, >= 1.
        seed: of the draw.

    Returns:
        The values that have an effect, by name. All combinations if there are at most `trials`, the last parameter
        changing fastest; else random ones without repeats, in the order of the draw. Without `search`, one setting.

    Raises:
        ParameterError: a value does not suit its parameter, a searched parameter has no effect in any combination, or
            `trials` is below 1.
    """
    fixed = dict(fixed or {})
    axes = _check_search(definition, search, fixed, trials)
    names, sizes = list(axes), [len(values) for values in axes.values()]
    settings: dict[tuple[tuple[str, Value], ...], dict[str, Value]] = {}
    effective: set[str] = set()
    # settings with different values can have equal steps if parameters need others, so steps are compared
    compare_steps = not {name for parameter in definition.parameters.values() for name in parameter.needs}.isdisjoint(
        search
    )
    run: set[object] = set()
    for indices in _draw_indices(sizes, trials=trials, seed=seed):
        combination = fixed | {name: axes[name][index] for name, index in zip(names, indices, strict=True)}
        values = definition.with_defaults(combination)
        setting = {name: value for name, value in combination.items() if not definition.idle(name, values)}
        effective |= setting.keys()
        key = tuple(sorted(definition.in_force(values).items()))
        if key not in settings and (steps := (compare_steps and _steps_at(definition, values)) or key) not in run:
            settings[key] = setting
            run.add(steps)
        if len(settings) == trials:
            break
    if idle := sorted(set(axes) - effective):
        raise ParameterError(f"{', '.join(idle)}: searched, but without effect in every setting; remove it")
    return tuple(settings.values())


def _check_search(
    definition: Definition, search: Mapping[str, Sequence[Value]], fixed: dict[str, Value], trials: int
) -> dict[str, tuple[Value, ...]]:
    """The checked values of each parameter without repeats; `fixed` is changed in place."""
    check_range("trials", trials, 1)
    wrong: list[str] = []
    axes: dict[str, tuple[Value, ...]] = {}
    for name, values in {**{name: (value,) for name, value in fixed.items()}, **search}.items():
        try:
            axes[name] = tuple(dict.fromkeys(definition.checked(name, value) for value in values))
        except ParameterError as error:
            wrong.append(str(error))
    if wrong:
        raise ParameterError("; ".join(wrong))
    fixed.update({name: axes[name][0] for name in fixed})
    return {name: axes[name] for name in search}


def _draw_indices(sizes: Sequence[int], *, trials: int, seed: int) -> Iterator[tuple[int, ...]]:
    """Indices of values, one per axis: all combinations if there are at most `trials`, else random ones."""
    if math.prod(sizes) <= trials:
        yield from np.ndindex(*sizes)
        return
    rng = np.random.default_rng(seed)
    yield from (tuple(int(rng.integers(size)) for size in sizes) for _ in range(_DRAWS * trials))


def distance(values: Mapping[str, Value], defaults: Mapping[str, Value]) -> float:
    """The distance of values from defaults, over the parameters that have one."""
    total = 0.0
    for name, default in defaults.items():
        value = values.get(name, default)
        if isinstance(value, str) or isinstance(default, str):
            total += value != default
        else:
            total += abs(value - default) / max(abs(default), 1)
    return total


def most_stable(thresholds: FloatArray, indices: IntArray) -> int:
    """Of indices with the same means, the one whose threshold is furthest from all others; of equals, the first."""
    if len(indices) == 1:
        return int(indices[0])
    rest = np.sort(np.delete(thresholds, indices))
    if not len(rest):
        return int(indices[0])
    tied = thresholds[indices]
    right = np.searchsorted(rest, tied)
    above = np.where(right < len(rest), rest[np.minimum(right, len(rest) - 1)] - tied, math.inf)
    below = np.where(right > 0, tied - rest[np.maximum(right - 1, 0)], math.inf)
    return int(indices[np.minimum(above, below).argmax()])
