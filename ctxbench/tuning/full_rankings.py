"""Rankings of selectors before any cut, so that any cut can be tried on them without asking again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ctxbench.bench.slices import Slice
from ctxbench.core.arrays import FloatArray
from ctxbench.core.candidates import Candidates, place_among
from ctxbench.core.errors import Fault, InputError, ParameterError
from ctxbench.core.pipeline import Pipeline
from ctxbench.core.query import Query
from ctxbench.core.stages import ByDomain, Step
from ctxbench.features.logistic import Logistic
from ctxbench.features.stored_fits import ABSTENTION, KINDS, PROBABILITY, Calibrations
from ctxbench.selectors.external import FileSelector
from ctxbench.selectors.pipelines import PipelineSelector
from ctxbench.steps.calibrated import Abstain, Probability
from ctxbench.tuning.fits.examples import folds_of, make_examples
from ctxbench.tuning.fits.query_fits import out_of_fold
from ctxbench.tuning.query_sets import TEST, QuerySet

OUT_OF_FOLD = 5  # folds that a fit's own queries are scored in
REFITTED = (PROBABILITY, ABSTENTION)


@dataclass(frozen=True, eq=False)
class FullRanking:
    """The ranking of a selector with nothing cut.

    Attributes:
        query: the analysed requests.
        answers: all that was found, as if all of it were offered.
        refitted: whether scores are out of fold, since a step was fitted on these queries.
        shared: of how many datasets a fit is that has seen these queries among theirs; 0 = there is none.
    """

    query: Query
    answers: Slice
    refitted: bool = False
    shared: int = 0

    def cut(self, steps: Sequence[Step | ByDomain], query_set: QuerySet) -> Slice:
        """Apply steps to it."""
        table = self.answers.candidates
        for step in steps:
            table = step.call(self.query, table, query_set.resources)
        return replace(self.answers, candidates=table)


def rank_with_pipeline(head: Pipeline, query_set: QuerySet) -> FullRanking:
    """Rank with a pipeline without cuts.

    A probability that was fitted on the very queries of the side would look better than it is on others: there each
    fold of them is scored by a fit of the same kind on the other folds. Weights of a fusion are a number a source and
    stay as they are.

    Raises:
        ParameterError: a step was fitted on the test split.
        UserError: a step fails, or does not suit the catalog.
    """
    if is_fitted_on(head, query_set):
        if query_set.split == TEST:
            raise ParameterError(
                f"a step was fitted on the {query_set.split} split of dataset {query_set.dataset.name}, so that "
                "nothing measured there would hold elsewhere; fit it on the tuning split with `ctxbench calibrate "
                "--split tuning`"
            )
        return _out_of_fold(head, query_set)
    found = _ask(PipelineSelector("uncut", head, query_set.resources, query_set.memo), query_set)
    return FullRanking(*found, shared=count_fit_datasets(head, query_set))


def read_ranking(answers: FileSelector, query_set: QuerySet) -> FullRanking:
    """Read the rankings of a file of answers.

    Raises:
        InputError: it gives no ranking, or one without scores, or fails on queries.
    """
    query, found = _ask(answers, query_set)
    if found.errors or not found.ranked or not found.scored:
        where = f"answers {answers.name!r}, {query_set.title}"
        raise InputError([Fault(f"{where}: {_why_unusable(found)}")])
    table = found.candidates
    return FullRanking(query, replace(found, candidates=replace(table, out=np.zeros(len(table), dtype=np.int64))))


def _why_unusable(found: Slice) -> str:
    """Why answers cannot be tuned on."""
    if found.errors:
        query, why = next(iter(found.errors.items()))
        some = f"{len(found.errors)} of {len(found.queries)} queries have"
        return (
            f"{some if len(found.errors) > 1 else '1 query has'} no answer that can be used, the first is {query!r}: "
            f"{why.removeprefix(f'query {query!r}: ')}"
        )
    if not found.ranked:
        return "some answer has no `ranking`; tuning needs all that your selector ranks, not only what it chose"
    first = found.queries[_first_unscored(found.candidates)]
    return (
        f"some item of a `ranking` has no `score`, the first is of query {first!r}; without scores there is no "
        "threshold that could be tuned"
    )


def _first_unscored(table: Candidates) -> int:
    """The first request with an order in place of scores, which reads as -1, -2, ... along the ranking."""
    by_place = -1.0 - place_among(table, table.ranked)
    scored = np.zeros(table.n_requests, dtype=np.bool_)
    rows = table.ranked
    scored[table.request[rows & (table.score != by_place)]] = True
    some = np.zeros(table.n_requests, dtype=np.bool_)
    some[table.request[rows]] = True
    return int(np.flatnonzero(some & ~scored)[0])


def _ask(selector: PipelineSelector | FileSelector, query_set: QuerySet) -> tuple[Query, Slice]:
    answers = query_set.answers(selector)
    return Query.of_chunks(query_set.batch, answers.chunks), answers


def _is_step_fitted_on(step: Step | ByDomain, query_set: QuerySet) -> bool:
    """Whether the step is a fit that has seen queries of these queries; of weights only on the test split.

    A fit of several datasets, such as the shipped one, counts on the test split only: a dataset is a small part of what
    it saw, and there is no fit without it.
    """
    datasets = _fit_datasets(step, query_set)
    return datasets == 1 or (datasets > 1 and query_set.split == TEST)


def _fit_datasets(step: Step | ByDomain, query_set: QuerySet) -> int:
    """Of how many datasets the step's fit is, if it has seen queries of these queries; 0 = it has not."""
    kinds = KINDS if query_set.split == TEST else REFITTED
    if not isinstance(step, Step) or step.says("calibrated") not in kinds:
        return 0
    stored: Calibrations = step.call.calibrations  # type: ignore[attr-defined]
    what, catalog = step.says("calibrated"), query_set.dataset.catalog
    try:
        fits = [stored.fit(what, catalog)] if what == PROBABILITY else stored.fits
    except ParameterError:  # there is none for this catalog, which the step says when it is asked
        return 0
    for fit in fits:
        names = fit.values.get("datasets", [fit.dataset])
        own = what == PROBABILITY or (fit.what, fit.catalog) == (what, catalog.hash)
        if own and query_set.dataset.name in names and fit.split in query_set.fit_splits:
            return len(names)
    return 0


def count_fit_datasets(pipeline: Pipeline, query_set: QuerySet) -> int:
    """Of how many datasets, more than one, a fit is that has seen some of these queries; 0 = there is none.

    What such a step gains here is a little more than it would elsewhere.
    """
    found = max((_fit_datasets(step, query_set) for step in _all_steps(pipeline.refine)), default=0)
    return found if found > 1 else 0


def is_fitted_on(pipeline: Pipeline, query_set: QuerySet) -> bool:
    """Whether a step of the pipeline, or of a domain in it, was fitted on queries of these queries.

    Weights of a fusion count on the test split only, where nothing is measured that they have seen.
    """
    return any(_is_step_fitted_on(step, query_set) for step in _all_steps(pipeline.refine))


def _all_steps(steps: Sequence[Step | ByDomain]) -> Iterator[Step]:
    """All steps, and those of domains."""
    for step in steps:
        if isinstance(step, ByDomain):
            for own in step.domains.values():
                yield from _all_steps(own)
        else:
            yield step


def _out_of_fold(head: Pipeline, query_set: QuerySet) -> FullRanking:
    """Rank every query by fits on the other folds.

    What a step is fitted on depends on each query alone, so it is taken once for all folds.
    """
    fold = folds_of(query_set.groups, min(OUT_OF_FOLD, len(set(query_set.groups))))
    steps: list[Step | ByDomain] = []
    for step in head.refine:
        if isinstance(step, Step) and _is_step_fitted_on(step, query_set):
            before = replace(head, refine=tuple(steps))
            columns = _columns(step, query_set)
            rows = make_examples(
                step.says("calibrated"), query_set.dataset, before, query_set.resources, columns=columns
            )
            steps.append(replace(step, call=_fixed_step(step.call, out_of_fold(rows, fold))))
        else:
            steps.append(step)
    found = _ask(PipelineSelector("uncut", replace(head, refine=tuple(steps)), query_set.resources), query_set)
    return FullRanking(*found, refitted=True)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Fixed(Logistic):
    """In the place of a fit: fixed probabilities of the rows, in the order of the examples."""

    known: FloatArray

    def probabilities(self, features: FloatArray, vectors: FloatArray | None = None) -> FloatArray:  # noqa: ARG002
        if len(features) != len(self.known):
            raise RuntimeError(f"{len(self.known)} examples, and {len(features)} rows to score")
        return self.known


@dataclass(frozen=True, kw_only=True)
class _FixedProbability(Probability):
    known: _Fixed

    def model(self, *_: Any) -> Logistic:
        return self.known


@dataclass(frozen=True, kw_only=True)
class _FixedAbstain(Abstain):
    known: _Fixed

    def model(self, *_: Any) -> Logistic:
        return self.known


def _columns(step: Step, query_set: QuerySet) -> Sequence[str]:
    """The features that a step's fit reads; those of abstention are always the same."""
    if step.says("calibrated") != PROBABILITY:
        return ()
    columns: Sequence[str] = step.call.model(query_set.dataset.catalog, query_set.resources).columns  # type: ignore[attr-defined]
    return columns


def _fixed_step(call: Any, probability: FloatArray) -> Probability | Abstain:
    """A fitted step with fixed probabilities, which reads no feature."""
    none = np.empty(0)
    known = _Fixed(
        columns=(), intercept=0.0, weights=none, low=none, high=none, scale=none, vector=none, known=probability
    )
    if isinstance(call, Abstain):
        return _FixedAbstain(calibration=call.calibration, threshold=call.threshold, known=known)
    return _FixedProbability(calibration=call.calibration, known=known)
