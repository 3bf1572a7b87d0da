"""Runs settings that no sweep can evaluate, each step once for all settings that share it, and draws which to try.

A cut that offers a prefix of the ranking is swept exactly. Expansion of several passes, a budget that skips, or a
re-ranking is run setting by setting; a setting shares with those before it every step up to the first that differs.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import UserDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from ctxbench.bench.labels import Labels
from ctxbench.bench.metrics import Metric, evaluate
from ctxbench.bench.slices import Slice
from ctxbench.core.arrays import FloatArray
from ctxbench.core.candidates import SHOWN, Candidates, Origin
from ctxbench.core.errors import ParameterError
from ctxbench.core.pipeline import Outcome, Pipeline, PipelineError
from ctxbench.core.requests import Batch
from ctxbench.core.stages import Resources
from ctxbench.selectors.definition import Definition
from ctxbench.selectors.parameters import Parameter, Value
from ctxbench.tuning.sweep.measures import REACH, Measure, Pairing, queries_by_type, values_of_measures
from ctxbench.tuning.sweep.threshold_lines import ThresholdLine

MEMORY = 256_000_000  # bytes of outputs of steps that are kept
STEPS = 1000  # parts that the range of a parameter with decimals is divided into
_DRAWS = 50  # draws for each setting wanted, after which a space is taken to hold no further one


class OutputCache(UserDict[str, Any]):
    """A cache of the outputs of steps: of more than `limit` bytes those used longest ago are dropped.

    The one stored last always stays, whatever its size.
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
    """Bytes of the arrays that a step's output holds itself; those of the batch are the caller's anyway."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, Mapping):
        return sum(_count_bytes(entry) for entry in value.values())
    if is_dataclass(value) and not isinstance(value, Batch):
        return sum(_count_bytes(getattr(value, attribute.name)) for attribute in fields(value))
    return 0


def measure_answers(table: Candidates, labels: Labels, measures: Sequence[Measure]) -> dict[Measure, FloatArray]:
    """Values of measures by query, for what was offered.

    Args:
        table: with a ranking, rows by query in the order of `labels`.
        labels: of the queries.
        measures: which.

    Returns:
        By measure, shape (n_queries,), NaN where it does not apply: for `reachable`, also where the first `REACH`
        items of the ranking do not make the query complete.
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
    if missing := sorted({str(metric) for metric in metrics if metric not in values}):
        raise ParameterError(f"{', '.join(missing)} cannot be computed by query; use a set metric")
    by_type = queries_by_type(labels) if any(measure.required_type for measure in measures) else {}
    reachable = values[within] == 1.0 if within in values else np.zeros(table.n_requests, dtype=np.bool_)
    return values_of_measures(measures, values, evidence, labels.dataset.catalog, by_type=by_type, reachable=reachable)


def setting_line(
    values: Mapping[str, Value], by_query: Mapping[Measure, FloatArray], *, pairing: Pairing | None = None
) -> ThresholdLine:
    """One setting as a line, from its values by query; the sums are exact before they are rounded once.

    Args:
        values: of its parameters.
        by_query: by measure, shape (n_queries,).
        pairing: what differences are taken to, over the same queries.
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
        resources: what its steps use.
        labels: of the requests, in the same order.
        measures: what every setting is measured by.
        pairing: what differences are taken to; None = none are.

    Attributes:
        definition: the selector.
        pairing: as given.
        runs: how many settings were run and measured so far; one that makes the same pipeline as an earlier one is
            not.
        selections: how many of them offered something that none before had offered; only these were measured.
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
        if batch.ids != tuple(query.id for query in labels.dataset.queries):
            raise ParameterError(f"the batch is not of dataset {labels.dataset.name}'s queries, in its order")

    @property
    def runs(self) -> int:
        """How many settings were run."""
        return len(self._offer_by_steps)

    @property
    def selections(self) -> int:
        """How many different selections they came to."""
        return len(self._values_by_offer)

    def outcome(self, values: Mapping[str, Value]) -> Outcome:
        """What the selector makes of the batch at one setting.

        Args:
            values: checked ones, over the selector's defaults.

        Raises:
            PipelineError: a value does not suit a step.
            ParameterError: a step was fitted for another catalog, or behind other steps.
        """
        return self._run(self._pipeline(values))

    def values(self, values: Mapping[str, Value]) -> Mapping[Measure, FloatArray]:
        """Measure one setting; what was offered before is not measured again.

        Args:
            values: checked ones, over the selector's defaults.

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

        They are run so that those that share most stand together, whatever order they come in.

        Args:
            settings: checked values, over the selector's defaults.

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
        if pipeline.fitted:
            from ctxbench.features.stored_fits import require_matching_fits

            require_matching_fits(pipeline, self._batch.catalog)
        return pipeline.run(self._batch, self._resources, memo=self._memo)


def _steps(pipeline: Pipeline) -> tuple[str, ...]:
    """The steps that decide what is selected, in order, as texts that are equal where the steps are.

    None that is off is among them.
    """
    return tuple(
        json.dumps(step.describe(), sort_keys=True, default=str)
        for step in (pipeline.analyse, pipeline.retrieve, *(step for step in pipeline.refine if not step.off))
    )


def _steps_at(definition: Definition, values: Mapping[str, Value]) -> tuple[str, ...]:
    """The steps of a selector at a setting; empty where its values contradict each other."""
    try:
        return _steps(definition.pipeline(values))
    except PipelineError:
        return ()


def _digest(table: Candidates) -> str:
    """Equal for tables that offer the same, shown alike, in the same ranking: what measures depend on."""
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
    """The values of a parameter that a search draws from, rising: all of them; of decimals `STEPS` + 1, evenly spread.

    Choices and switches come in the order of the definition, off before on.
    """
    if parameter.choices:
        return tuple(parameter.choices)
    if isinstance(parameter.default, bool):
        return (False, True)
    low, high = parameter.low, parameter.high
    if isinstance(parameter.checked(low), int):
        return tuple(range(int(low), int(high) + 1))
    return tuple(float(round(low + (high - low) * step / STEPS, 12)) for step in range(STEPS + 1))


def draw_settings(
    definition: Definition,
    search: Mapping[str, Sequence[Value]],
    *,
    fixed: Mapping[str, Value] | None = None,
    trials: int,
    seed: int,
) -> tuple[dict[str, Value], ...]:
    """Draw settings to try, no two of which are the same to the selector.

    Args:
        definition: the selector.
        search: the values that each parameter may take; `value_range` gives those of a whole range.
        fixed: values of other parameters.
        trials: at most so many settings, >= 1.
        seed: another seed draws others.

    Returns:
        Values by name of what is given or searched and has an effect. Of a space of at most `trials` combinations
        all, the last parameter changing fastest; else drawn with equal chance and without repeats, in the order of
        the draw. Nothing to search: the one setting given.

    Raises:
        ParameterError: a value does not suit its parameter, a parameter has no values, is given as well as searched
            or is without effect in every combination, or `trials` is below 1.
    """
    fixed = dict(fixed or {})
    axes = _check_search(definition, search, fixed, trials)
    names, sizes = list(axes), [len(values) for values in axes.values()]
    settings: dict[tuple[tuple[str, Value], ...], dict[str, Value]] = {}
    effective: set[str] = set()
    # only what others need can switch a step off in two ways, so that the steps must tell whether settings are the same
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
        raise ParameterError(f"{', '.join(idle)}: searched, but without effect in every setting drawn; leave it out")
    return tuple(settings.values())


def _check_search(
    definition: Definition, search: Mapping[str, Sequence[Value]], fixed: dict[str, Value], trials: int
) -> dict[str, tuple[Value, ...]]:
    """The values of each parameter without repeats; `fixed` is checked in place."""
    wrong = [] if trials >= 1 else [f"trials must be 1 or more, got {trials}"]
    axes: dict[str, tuple[Value, ...]] = {}
    for name, values in {**{name: (value,) for name, value in fixed.items()}, **search}.items():
        if not values:
            wrong.append(f"{name} is searched, but has no values to try")
        if name in search and name in fixed:
            wrong.append(f"{name} is searched and has a value, too; leave one of them out")
        try:
            axes[name] = tuple(dict.fromkeys(definition.checked(name, value) for value in values))
        except ParameterError as error:
            wrong.append(str(error))
    if wrong:
        raise ParameterError("; ".join(wrong))
    fixed.update({name: axes[name][0] for name in fixed})
    return {name: axes[name] for name in search}


def _draw_indices(sizes: Sequence[int], *, trials: int, seed: int) -> Iterator[tuple[int, ...]]:
    """Indices of values, one per axis: all combinations if there are no more than `trials`, else random ones."""
    if math.prod(sizes) <= trials:
        yield from np.ndindex(*sizes)
        return
    rng = np.random.default_rng(seed)
    for _ in range(_DRAWS * trials):
        yield tuple(int(rng.integers(size)) for size in sizes)
