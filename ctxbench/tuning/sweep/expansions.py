"""Exact sweep of an expansion behind a cut, over its threshold and its topN, from one run.

What one pass of expansion adds at a fixed cut is a prefix of one ranking by request: the first topN of the items
that reach the threshold. So the engine runs once, with the lowest threshold and the largest topN, and every other
setting is a shorter prefix. Of several passes this does not hold, since what the first leaves out leads no further.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ctxbench.bench.labels import Labels
from ctxbench.core.arrays import BoolArray, FloatArray, IntArray
from ctxbench.core.candidates import RANKED, SEARCHED, Candidates, Origin, place_among
from ctxbench.core.errors import ParameterError
from ctxbench.core.stages import Step
from ctxbench.selectors.definition import Definition
from ctxbench.selectors.parameters import Value
from ctxbench.tuning.sweep.domains import CutReader, parameter_name, step_name
from ctxbench.tuning.sweep.engine_runs import SettingRunner, measure_answers
from ctxbench.tuning.sweep.measures import DifferenceSums, Measure, Pairing
from ctxbench.tuning.sweep.threshold_lines import ThresholdLine

STEP = "expansion"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpansionParameters:
    """Under which names users know the threshold and the limit of a selector's expansion.

    Attributes:
        threshold: of the least similarity.
        topN: of the most items a pass; empty where the pipeline fixes it.
        low, high: the range of the threshold.
        topNs: the values that topN may take, rising; the one that the pipeline fixes.
    """

    threshold: str
    topN: str
    low: float
    high: float
    topNs: tuple[int, ...]


def why_not_exact(definition: Definition, values: Mapping[str, Value]) -> str:
    """Why the threshold and topN of a selector's expansion cannot be swept from one run; empty where they can.

    Args:
        definition: the selector.
        values: checked ones, over its defaults.
    """
    refine = definition.pipeline(definition.with_defaults(values)).refine
    last = refine[-1] if refine else None
    if not (isinstance(last, Step) and last.kind == "expand" and last.name == STEP):
        return f"the last step is no {STEP}"
    if any(step.expands for step in refine[:-1]):
        return f"another step brings items in before {STEP}"
    step: Any = last.call
    reasons = {
        f"{STEP} is off": step.off,
        f"it expands in {step.depth} passes, and what the first leaves out leads no further": step.depth > 1,
        "two rankings are joined (by: both)": step.by == "both",
        "the query weighs in the ranking (query_weight), but not in the threshold": step.query_weight > 0,
        "the graph is a file, which holds nothing below its own threshold": bool(step.graph),
    }
    if reason := next((reason for reason, applies in reasons.items() if applies), ""):
        return reason
    name = _threshold_key(step)
    named = parameter_name(_spec_of(definition, values).get(name))
    return "" if named else f"the pipeline fixes {name}, so there is no parameter"


def _threshold_key(step: Any) -> str:
    return "graph_threshold" if step.by == "graph" else "threshold"


def _spec_of(definition: Definition, values: Mapping[str, Value]) -> Mapping[str, Any]:
    """The parameters of the expansion as the definition writes them."""
    return step_name(definition.refining(definition.with_defaults(values))[-1])[1]


def _parameters_of(definition: Definition, values: Mapping[str, Value], step: Any) -> ExpansionParameters:
    spec, key = _spec_of(definition, values), _threshold_key(step)
    limit = key.replace("threshold", "topN")
    reader = CutReader(definition=definition, values=definition.with_defaults(values), fixed=(), search={})
    span, counts = reader.span(spec[key]), reader.counts(spec.get(limit, getattr(step, limit)))
    return ExpansionParameters(threshold=span.name, topN=counts.name, low=span.low, high=span.high, topNs=counts.values)


@dataclass(frozen=True, eq=False, kw_only=True)
class ExpansionSweep:
    """One setting of a cut, and every setting of the expansion behind it.

    Attributes:
        values: of the cut and everything else that is fixed, by name.
        parameters: the two that are swept.
        score: of what is added, best first, shape (n_queries, most of a query); minus infinity where no more is.
        values_by_length: by measure, its values with the first 0, 1, ... of these items, shape (most of a query + 1,
            n_queries); NaN where it does not apply.
        pairing: what differences are taken to; None = none are.
    """

    values: Mapping[str, Value]
    parameters: ExpansionParameters
    score: FloatArray
    values_by_length: Mapping[Measure, FloatArray]
    pairing: Pairing | None = None

    @classmethod
    def of(
        cls, runner: SettingRunner, values: Mapping[str, Value], *, labels: Labels, measures: Sequence[Measure]
    ) -> ExpansionSweep:
        """Run the engine once, with the lowest threshold and the largest topN.

        Args:
            runner: the selector on a batch; its leading steps are shared with what else it runs.
            values: checked ones, over the selector's defaults; those of the threshold and topN do not matter.
            labels: of the batch.
            measures: which.

        Raises:
            ParameterError: one run is not enough (`why_not_exact`).
        """
        definition = runner.definition
        if reason := why_not_exact(definition, values):
            raise ParameterError(f"selector {definition.name!r}: expansion cannot be swept from one run: {reason}")
        step: Any = definition.pipeline(definition.with_defaults(values)).refine[-1]
        parameters = _parameters_of(definition, values, step.call)
        widest: dict[str, Value] = {parameters.threshold: float(parameters.low)}
        if parameters.topN:
            widest[parameters.topN] = parameters.topNs[-1]
        table = runner.outcome({**values, **widest}).candidates
        position = place_among(table, table.chosen & (table.origin >= Origin.EXPANSION))
        fixed = {name: value for name, value in values.items() if name not in (parameters.threshold, parameters.topN)}
        return cls(
            values=fixed,
            parameters=parameters,
            score=_scores(table, position),
            values_by_length=_by_length(table, position, labels=labels, measures=measures),
            pairing=runner.pairing,
        )

    def lines(self, topNs: Sequence[int] | None = None) -> Iterator[ThresholdLine]:  # noqa: N803 - the specification's name
        """Every threshold for each topN, rising.

        Args:
            topNs: which; all of its range if not given.

        Raises:
            ParameterError: a topN is out of its range.
        """
        limits = self.parameters.topNs if topNs is None else tuple(sorted(set(topNs)))
        if wrong := sorted(set(limits) - set(self.parameters.topNs)):
            raise ParameterError(f"{self.parameters.topN or 'topN'} cannot be {', '.join(map(str, wrong))}")
        for limit in limits:
            yield self._line(limit)

    def lengths(self, values: Mapping[str, Value]) -> IntArray:
        """How many items are added for each query at one setting, shape (n_queries,)."""
        limit = int(values[self.parameters.topN]) if self.parameters.topN else self.parameters.topNs[0]
        return self._within(float(values[self.parameters.threshold]), limit)

    def by_query(self, values: Mapping[str, Value]) -> dict[Measure, FloatArray]:
        """By measure, the values of every query at one setting, shape (n_queries,)."""
        length = self.lengths(values)
        query = np.arange(len(length))
        return {measure: by_length[length, query] for measure, by_length in self.values_by_length.items()}

    def _within(self, threshold: float, limit: int) -> IntArray:
        return np.asarray(np.minimum((self.score >= threshold).sum(axis=1), limit).astype(np.int64))

    def _line(self, limit: int) -> ThresholdLine:
        """Sums at the highest threshold, and what every item adds in order of falling score."""
        parameters, scores = self.parameters, self.score[:, :limit]
        first = self._within(parameters.high, limit)
        query, position = np.nonzero((scores >= parameters.low) & (scores < parameters.high))
        score = scores[query, position]
        by_score = np.argsort(-score, kind="stable")
        query, position, score = query[by_score], position[by_score], score[by_score]
        last = np.flatnonzero(np.append(score[1:] != score[:-1], True)) if len(score) else np.empty(0, np.int64)
        everyone = np.arange(len(self.score))

        def summed(values: FloatArray) -> FloatArray:
            added = np.cumsum(values[position + 1, query] - values[position, query])[last]
            return np.asarray(values[first, everyone].sum() + np.concatenate([[0.0], added]), dtype=np.float64)

        applies = {measure: (~np.isnan(values)).astype(np.float64) for measure, values in self.values_by_length.items()}
        known_values = {measure: np.nan_to_num(values) for measure, values in self.values_by_length.items()}
        amounts = {
            measure: values for measure, values in known_values.items() if measure.metric.declaration.scale != "yes/no"
        }
        above = scores[scores >= parameters.high]

        def paired(measure: Measure, pairing: Pairing) -> DifferenceSums:
            values = self.values_by_length[measure]
            return pairing.line_differences(
                measure,
                values[first, everyone],
                owner=query,
                gain=np.nan_to_num(values[position + 1, query] - values[position, query]),
                stops=last + 1,
            )

        pairs = (
            []
            if self.pairing is None
            else [(measure, self.pairing) for measure in self.pairing.base if measure in applies]
        )
        return ThresholdLine(
            values={**self.values, **({parameters.topN: limit} if parameters.topN else {})},
            axis=parameters.threshold,
            thresholds=np.concatenate([[float(parameters.high)], score[last]]),
            sums={measure: summed(values) for measure, values in known_values.items()},
            n={measure: int(values.any(axis=0).sum()) for measure, values in applies.items()},
            squares={measure: summed(values**2) for measure, values in amounts.items()},
            cubes={measure: summed(values**3) for measure, values in amounts.items()},
            applies={measure: summed(values) for measure, values in applies.items() if (values != values[0]).any()},
            differences={measure: paired(measure, pairing) for measure, pairing in pairs},
            span=(float(parameters.low), float(parameters.high)),
            beyond=(float(above.min()) if len(above) else np.inf, -np.inf),
        )


def _scores(table: Candidates, position: IntArray) -> FloatArray:
    scores = np.full((table.n_requests, int(position.max(initial=-1)) + 1), -np.inf)
    rows = position >= 0
    scores[table.request[rows], position[rows]] = table.score[rows]
    return scores


def _by_length(
    table: Candidates, position: IntArray, *, labels: Labels, measures: Sequence[Measure]
) -> dict[Measure, FloatArray]:
    """The measures with the first 0, 1, ... of the items added."""
    by_measure: dict[Measure, list[FloatArray]] = {measure: [] for measure in measures}
    ranking = any(measure.reachable for measure in measures)
    for length in range(int(position.max(initial=-1)) + 2):
        shorter = (
            remove_added(table, position >= length)
            if ranking
            else table.select_rows(table.chosen & (position < length))
        )
        for measure, values in measure_answers(shorter, labels, measures).items():
            by_measure[measure].append(values)
    return {measure: np.stack(values) for measure, values in by_measure.items()}


def remove_added(table: Candidates, rows: BoolArray) -> Candidates:
    """A table as if an expansion had not added some rows: those that were found before get their old rank, excluded."""
    before = table.columns.get(SEARCHED, np.full(len(table), np.nan))
    back = rows & ~np.isnan(before)
    reduced = table.exclude(back, "not_brought_in").select_rows(~rows | back)
    back, before = back[~rows | back], before[~rows | back]
    return reduced.reordered(
        score=np.where(back, before, reduced.score),
        origin=np.where(back, Origin.SEARCH, reduced.origin),
        tier=np.where(back, RANKED, reduced.tier),
    )
