"""Labelled examples for fits, and fitted weights with a prior.

Source: Gelman et al., A weakly informative default prior distribution for logistic regression, 2008 (scaled features
with a prior each); Newton's method with halved steps, Boyd and Vandenberghe, Convex Optimization, 9.5.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.queries import DatasetQuery
from ctxbench.evaluation.metrics import evaluate, mean, parse_metric
from ctxbench.io.errors import ParameterError
from ctxbench.labelling.curation import bundles_of
from ctxbench.model.arrays import BoolArray, Evidence, FloatArray, Grade, IntArray, OfferedItems, Rankings
from ctxbench.model.candidates import Candidates, Origin, order, sources_of
from ctxbench.model.items import Catalog
from ctxbench.model.resources import Resources
from ctxbench.model.strategies import PerType
from ctxbench.pipelines.feature_families import REQUEST, request_features, request_vectors
from ctxbench.pipelines.features import LABELLED, TEXT, LabelledRequests, Logistic, feature_rows, needed_columns
from ctxbench.pipelines.fits import ABSTENTION, PROBABILITY
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.pipelines.strategies.rank import fused, normalised

ALL = "all"
"""The name that means the queries of every split."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Examples:
    """Rows with features and labels of the labelled queries of a dataset.

    Attributes:
        what: `probability` (a row is a candidate) or `abstention` (a row is a request with candidates).
        names: of the features.
        features: shape (n, n_features).
        vectors: shape (n, n_dimensions); no columns for `probability`.
        label: shape (n,); whether the item is required, or anything is.
        query: shape (n,); the index of the query of each row in `ids`.
        ids, groups: of the queries, in the order of the dataset; queries of one group are in one fold.
        needed: the query of each required item or group of alternatives, shape (n_needed,).
        required_rows: for each of these, the rows that meet it; empty if it was not found.
        needs: shape (n_queries,); whether a query needs anything.
        neighbours: similarities between queries; None if no column reads them.
    """

    what: str
    names: tuple[str, ...]
    features: FloatArray
    vectors: FloatArray
    label: BoolArray
    query: IntArray
    ids: tuple[str, ...]
    groups: tuple[str, ...]
    needed: IntArray
    required_rows: tuple[IntArray, ...]
    needs: BoolArray
    neighbours: Neighbours | None = None

    @property
    def n_queries(self) -> int:
        """The number of queries, with those without candidates."""
        return len(self.ids)

    def select_queries(self, queries: BoolArray) -> Examples:
        """The examples of the queries where `queries`, shape (n_queries,), is True."""
        rows, required, new = queries[self.query], np.flatnonzero(queries[self.needed]), np.cumsum(queries) - 1
        new_row = np.cumsum(rows) - 1
        return replace(
            self,
            features=self.columns(self.names, labelled=queries)[rows],
            vectors=self.vectors[rows],
            label=self.label[rows],
            query=new[self.query[rows]],
            ids=tuple(itertools.compress(self.ids, queries)),
            groups=tuple(itertools.compress(self.groups, queries)),
            needed=new[self.needed[required]],
            required_rows=tuple(new_row[self.required_rows[index]] for index in required if self.required_rows),
            needs=self.needs[queries],
            neighbours=None if self.neighbours is None else self.neighbours.part(queries),
        )

    def columns(self, names: Sequence[str], *, labelled: BoolArray | None = None) -> FloatArray:
        """Some features of all rows, shape (n, n_names).

        Args:
            names: of the features.
            labelled: the queries whose labels the columns of labelled requests read, shape (n_queries,); None = all.
        """
        features = self.features
        if labelled is not None and self.neighbours is not None:
            features = features.copy()
            features[:, [self.names.index(name) for name in LABELLED]] = self.neighbours.columns(labelled)
        return features[:, [self.names.index(name) for name in names]]


def labelled_queries(dataset: Dataset, split: str) -> Dataset:
    """The queries of a split (or of all) that are labelled.

    Raises:
        UnknownNameError: there is no such split.
        ParameterError: none of its queries is labelled.
    """
    labelled = (dataset if split == ALL else dataset.split(split)).judged()
    if not len(labelled):
        where = "" if split == ALL else f" in split {split}"
        raise ParameterError(
            f"dataset {dataset.name} has no labelled query{where}; label some with `ctxbench data label`"
        )
    return labelled


def make_examples(
    kind: str, dataset: Dataset, pipeline: Pipeline, resources: Resources, *, columns: Sequence[str] = TEXT
) -> Examples:
    """Run the steps before a fitted step, and take features and labels of the candidates.

    Args:
        kind: `probability` or `abstention`.
        dataset: labelled queries only; see `labelled_queries`.
        pipeline: only its analysis, retrieval and rank steps are run.
        resources: as for the pipeline.
        columns: the features of a candidate, for `probability`. Features of labelled requests use the queries of other
            groups; they are left out if no two queries need the same item.

    Raises:
        UnknownNameError: a column is unknown.
        ParameterError: all rows have the same label.
    """
    rank = tuple(step for step in pipeline.refine if isinstance(step, PerType) or step.kind == "rank")
    outcome = replace(pipeline, refine=rank).run(dataset.batch(), resources)
    query, table = outcome.query, outcome.candidates
    required, groups = _required(dataset, table)
    needs = np.bincount(groups, minlength=len(dataset)) > 0
    by_query = groups_of(dataset.queries)
    neighbours = None
    if kind == ABSTENTION:
        row_query, features = request_features(query, table, resources)
        label, vectors, rows = needs[row_query], request_vectors(query, row_query, resources), row_query
        meeting: Sequence[IntArray] = ()
    else:
        plain = [name for name in columns if name not in LABELLED]
        searched, features = feature_rows(table, plain, query, resources)
        rows = searched.rows
        if len(plain) < len(columns):
            neighbours = Neighbours.of(dataset, by_query, resources, query=table.request[rows], item=searched.item)
            of_others = neighbours.columns(np.ones(len(dataset), dtype=np.bool_))
            neighbours = neighbours if of_others.any() else None  # no two queries need the same item
            columns = plain if neighbours is None else (*plain, *LABELLED)
            features = features if neighbours is None else np.concatenate([features, of_others], axis=1)
        row_query, new_row = table.request[rows], np.full(len(table), -1, dtype=np.int64)
        new_row[rows] = np.arange(len(rows))
        meeting = [new_row[table_rows][new_row[table_rows] >= 0] for table_rows in required]
        label = np.isin(np.arange(len(rows)), np.concatenate([np.empty(0, dtype=np.int64), *meeting]))
        vectors = np.zeros((len(rows), 0), dtype=np.float64)
    examples = Examples(
        what=kind,
        names=tuple(columns) if kind == PROBABILITY else REQUEST,
        features=features,
        vectors=vectors,
        label=label,
        query=row_query,
        ids=tuple(query.id for query in dataset.queries),
        groups=by_query,
        needed=groups,
        required_rows=tuple(meeting),
        needs=needs,
        neighbours=neighbours,
    )
    _check_classes(dataset, examples)
    return examples


def groups_of(queries: Sequence[DatasetQuery]) -> tuple[str, ...]:
    """The name of the group of each query, shape (n_queries,); queries of one group are in one fold.

    Groups are the bundles that a split keeps together, see `bundles_of`. A name is that of the group (the first, if
    several are connected), of the conversation, or of the query.
    """
    names = list(map(_group_of, queries))
    for _, rows in bundles_of(queries):
        first = min((names[row] for row in rows), key=lambda name: (not name.startswith("group "), name))
        for row in rows:
            names[row] = first
    return tuple(names)


def _group_of(query: DatasetQuery) -> str:
    conversation = query.request.conversation
    alone = f"query {query.id}" if conversation is None else f"conversation {conversation}"
    return alone if query.group is None else f"group {query.group}"


def folds_of(groups: Sequence[str], folds: int) -> IntArray:
    """Assign queries to folds of about equal size, by whole groups; the order of queries does not matter.

    Args:
        groups: of each query, shape (n_queries,).
        folds: >= 2.

    Returns:
        The fold of each query, shape (n_queries,).

    Raises:
        ParameterError: there are fewer groups than folds.
    """
    group, size, hashes = _hashed(groups)
    if not 2 <= folds <= len(size):
        raise ParameterError(f"folds must be 2 to the number of groups, which is {len(size)}, got {folds}")
    filled = np.zeros(folds, dtype=np.int64)
    fold = np.empty(len(size), dtype=np.int64)
    for index in sorted(range(len(size)), key=lambda index: (-int(size[index]), hashes[index])):
        fold[index] = int(filled.argmin())
        filled[fold[index]] += size[index]
    return np.asarray(fold[group])


def _hashed(groups: Sequence[str]) -> tuple[IntArray, IntArray, list[str]]:
    """The group of each query as a number, and of each group its size and a hash of its name."""
    names, group, size = np.unique(np.array(groups, dtype=object), return_inverse=True, return_counts=True)
    return group, size, [hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest() for name in names]


def _required(dataset: Dataset, table: Candidates) -> tuple[list[IntArray], IntArray]:
    """The rows that meet each required item (any of its alternatives), and its query."""
    judgments = dataset.judgments
    n_items = len(dataset.catalog)
    keys = table.request * n_items + table.item
    by_key = np.argsort(keys)
    rows, queries = [], []
    for query in range(len(dataset)):
        span = slice(int(judgments.start[query]), int(judgments.start[query + 1]))
        required = judgments.grade[span] == Grade.REQUIRED
        for group in np.unique(judgments.group[span][required]):
            items = judgments.item[span][required & (judgments.group[span] == group)]
            at = np.searchsorted(keys, query * n_items + items, sorter=by_key)
            matches = by_key[np.minimum(at, len(keys) - 1)] if len(keys) else np.empty(0, dtype=np.int64)
            rows.append(matches[keys[matches] == query * n_items + items] if len(keys) else matches)
            queries.append(query)
    return rows, np.array(queries, dtype=np.int64)


def _check_classes(dataset: Dataset, examples: Examples) -> None:
    """Check that examples have labels of both kinds, since nothing can be learned from one kind.

    Raises:
        ParameterError: there is one kind only, or no row.
    """
    if examples.label.any() and not examples.label.all():
        return
    kinds = "all" if examples.label.any() else "none"
    if examples.what == ABSTENTION:
        raise ParameterError(
            f"dataset {dataset.name}: of {len(dataset)} labelled queries {kinds} need an item; abstention is learned "
            "from queries with a required item and queries marked `needs: nothing`"
        )
    raise ParameterError(
        f"dataset {dataset.name}: of the {len(examples.label)} candidates of {len(dataset)} labelled queries {kinds} "
        "are required; a probability is learned from candidates that are required and candidates that are not"
    )


MOST = 2000
"""About how many labelled requests a fit keeps: whole groups, those with the lowest hashes."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Neighbours:
    """Similarities of each labelled query to those that a fit keeps, and the items that these need.

    Attributes:
        requests: the requests that a fit keeps.
        selected: their indices among all queries, rising, shape (n_kept,).
        similarity: of every query to every kept one, shape (n_queries, n_kept).
        catalog: of the items.
        query, item: of each row of the examples, shape (n,).
    """

    requests: LabelledRequests
    selected: IntArray
    similarity: FloatArray
    catalog: Catalog
    query: IntArray
    item: IntArray

    @classmethod
    def of(
        cls, dataset: Dataset, groups: Sequence[str], resources: Resources, *, query: IntArray, item: IntArray
    ) -> Neighbours:
        """Compare the queries of a dataset with each other.

        Args:
            dataset: labelled queries only.
            groups: of each query, shape (n_queries,); the similarity within a group is 0.
            resources: for the vectors of the texts.
            query, item: of each row of the examples.
        """
        selected = _select_groups(groups)
        requests = _requests(dataset, groups, selected)
        vectors = resources.vectors([dataset_query.request.text for dataset_query in dataset.queries])
        of_kept = vectors[selected]
        similarity = np.zeros((len(dataset), len(selected)))
        for index, (dataset_query, vector) in enumerate(zip(dataset.queries, vectors, strict=True)):
            if dataset_query.request.text.strip():
                similarity[index] = requests.similarity(dataset_query.id, vector, of_kept)
        return cls(
            requests=requests, selected=selected, similarity=similarity, catalog=dataset.catalog, query=query, item=item
        )

    def columns(self, labelled: BoolArray) -> FloatArray:
        """The columns of all rows, if only the labels of some queries are read, shape (n, 2).

        Args:
            labelled: whether the labels of a query are read, shape (n_queries,).
        """
        is_labelled = labelled[self.selected]
        needs = _select_requests(self.requests, is_labelled).needed_by(self.catalog)
        if not needs:
            return np.zeros((len(self.item), len(LABELLED)))
        return needed_columns(self.similarity[:, is_labelled], self.query, self.item, needs)

    def part(self, queries: BoolArray) -> Neighbours:
        """The same for some of the queries, shape (n_queries,), without the others."""
        is_selected, new, rows = queries[self.selected], np.cumsum(queries) - 1, queries[self.query]
        return replace(
            self,
            requests=_select_requests(self.requests, is_selected),
            selected=new[self.selected[is_selected]],
            similarity=self.similarity[queries][:, is_selected],
            query=new[self.query[rows]],
            item=self.item[rows],
        )


def _select_groups(groups: Sequence[str]) -> IntArray:
    """The indices of the queries of whole groups, until there are `MOST` queries, rising."""
    group, size, hashes = _hashed(groups)
    by_hash = np.argsort(hashes)
    return np.flatnonzero(np.isin(group, by_hash[np.cumsum(size[by_hash]) - size[by_hash] < MOST])).astype(np.int64)


def _requests(dataset: Dataset, groups: Sequence[str], selected: IntArray) -> LabelledRequests:
    """Some queries of a dataset, with the items that they need."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(groups[index] for index in selected.tolist()))}
    judgments, ids = dataset.judgments, dataset.catalog.ids
    queries = [dataset.queries[index] for index in selected.tolist()]
    spans = [slice(int(judgments.start[index]), int(judgments.start[index + 1])) for index in selected.tolist()]
    return LabelledRequests(
        ids=tuple(query.id for query in queries),
        groups=tuple(numbers[groups[index]] for index in selected.tolist()),
        texts=tuple(query.request.text for query in queries),
        items=tuple(
            tuple(ids[item] for item in judgments.item[span][judgments.grade[span] == 2].tolist()) for span in spans
        ),
    )


def _select_requests(requests: LabelledRequests, mask: BoolArray) -> LabelledRequests:
    """Some of the requests, shape (n,)."""
    return LabelledRequests.read(
        [row for row, is_selected in zip(requests.as_rows(), mask.tolist(), strict=True) if is_selected]
    )


_STEPS = 100  # most steps of Newton's method; it takes about ten
_ENOUGH = 1e-9  # a step with a smaller expected gain is the last
_SMALLEST = 0.02  # smallest scale of a feature, so that rare values do not get huge weights


@dataclass(frozen=True, eq=False, kw_only=True)
class Prior:
    """The prior of the weights of a regression.

    Attributes:
        columns: the features, in order.
        intercept: log odds if all features are 0; its precision is low.
        weights: shape (n_columns,).
        precision: of the weights, in units of `scale`: 1 / variance, >= 0.
        low, high: the range of each feature, to which values are clipped; shape (n_columns,).
        scale: of each feature, shape (n_columns,), > 0.
    """

    columns: tuple[str, ...]
    intercept: float
    weights: FloatArray
    precision: float
    low: FloatArray
    high: FloatArray
    scale: FloatArray

    @classmethod
    def zero(cls, columns: tuple[str, ...], features: FloatArray, weight: FloatArray, *, precision: float) -> Prior:
        """A prior of weights of 0, on the scale of the given features."""
        centre = np.average(features, axis=0, weights=weight)
        return cls(
            columns=columns,
            intercept=0.0,
            weights=np.zeros(len(columns)),
            precision=precision,
            low=features.min(axis=0),
            high=features.max(axis=0),
            scale=np.maximum(np.sqrt(np.average((features - centre) ** 2, axis=0, weights=weight)), _SMALLEST),
        )

    @classmethod
    def from_fit(
        cls, earlier: Logistic, columns: tuple[str, ...], features: FloatArray, weight: FloatArray, *, precision: float
    ) -> Prior:
        """A prior of the weights of an earlier fit, and of 0 for new columns.

        Ranges are extended to the given features; those of shares of labelled requests are 0 to 1.
        """
        new = cls.zero(columns, features, weight, precision=precision)
        index = {name: at for at, name in enumerate(earlier.columns)}
        old = np.array([index.get(name, -1) for name in columns], dtype=np.int64)
        share = np.array([name in LABELLED for name in columns], dtype=np.bool_)
        in_earlier = old >= 0
        return replace(
            new,
            intercept=earlier.intercept,
            weights=np.where(in_earlier, earlier.weights[old], 0.0),
            low=np.where(share, 0.0, np.where(in_earlier, np.minimum(earlier.low[old], new.low), new.low)),
            high=np.where(share, 1.0, np.where(in_earlier, np.maximum(earlier.high[old], new.high), new.high)),
            scale=np.where(in_earlier, earlier.scale[old], new.scale),
        )


def fit_regression(prior: Prior, features: FloatArray, label: BoolArray, weight: FloatArray) -> Logistic:
    """The most likely weights, given labels and a prior.

    Args:
        prior: of the weights.
        features: shape (n, n_columns), finite.
        label: shape (n,).
        weight: of each row, shape (n,), > 0.

    Raises:
        ParameterError: all rows have the same label.
    """
    if not label.any() or label.all():
        kinds = "required" if label.any() else "never required"
        raise ParameterError(
            f"a fit would see {len(label)} rows that are all {kinds}; use another number of folds, or label more "
            "queries"
        )
    rows = np.concatenate([np.ones((len(label), 1)), np.clip(features, prior.low, prior.high) / prior.scale], axis=1)
    centre = np.concatenate([[prior.intercept], prior.weights * prior.scale])
    precision = np.concatenate([[1e-3], np.full(len(prior.weights), max(prior.precision, 1e-6))])
    target = label.astype(np.float64)

    def loss(at: FloatArray) -> float:
        odds = rows @ at
        return float(weight @ np.logaddexp(0.0, np.where(label, -odds, odds)) + precision @ (at - centre) ** 2 / 2)

    at, current = centre, loss(centre)
    for _ in range(_STEPS):
        odds = rows @ at
        p = np.exp(-np.logaddexp(0.0, -odds))
        slope = rows.T @ (weight * (p - target)) + precision * (at - centre)
        step = np.linalg.solve((rows * (weight * p * (1 - p))[:, None]).T @ rows + np.diag(precision), slope)
        if step @ slope < _ENOUGH * max(1.0, abs(current)):
            break
        share = 1.0
        while loss(at - share * step) > current - 1e-4 * share * float(step @ slope) and share > 1e-6:
            share /= 2
        at = at - share * step
        current = loss(at)
    return Logistic(
        columns=prior.columns,
        intercept=float(at[0]),
        weights=at[1:] / prior.scale,
        low=prior.low,
        high=prior.high,
        scale=prior.scale,
        vector=np.empty(0),
    )


def levelled(model: Logistic, features: FloatArray, label: BoolArray) -> Logistic:
    """Set the intercept so that the probabilities add up to the number of positive labels.

    A fit with equal weights of queries is calibrated by query. The number of needed items, a sum over rows, needs
    probabilities that are calibrated by row.

    Args:
        model: reads no vector.
        features: shape (n, n_columns).
        label: shape (n,), of both kinds.
    """
    odds = np.clip(features, model.low, model.high) @ model.weights + model.intercept
    low, high = -50.0, 50.0
    for _ in range(100):
        middle = (low + high) / 2
        if np.exp(-np.logaddexp(0.0, -(odds + middle))).sum() > label.sum():
            high = middle
        else:
            low = middle
    return replace(model, intercept=model.intercept + low)


METRIC = "nDCG@10"
STEPS = 20  # steps of the grid of weights of two sources; half as many for more sources
N_ERRORS = 1.645  # standard errors of a one-sided interval of 95%


@dataclass(frozen=True, kw_only=True)
class FusionWeights:
    """Fitted weights of a fusion, and their figures.

    Attributes:
        weights: by source; they add up to 1.
        normalise, lowest: as in the `weighted` step.
        single: the best single source; of equals, the first.
        queries: the number of queries to which nDCG@10 applies.
        value: mean nDCG@10 with these weights, on the queries of the fit.
        single_value: the same of the best single source.
        best_value: the highest mean of all weights of the grid.
    """

    weights: Mapping[str, float]
    normalise: str
    lowest: Mapping[str, float]
    single: str
    queries: int
    value: float
    single_value: float
    best_value: float


def fit_weights(
    dataset: Dataset, candidates: Candidates, *, normalise: str = "min_max", lowest: Mapping[str, float] | None = None
) -> FusionWeights:
    """Fit the weights of a fusion on a dataset's queries.

    The grid has steps of 1/20 for two sources and of 1/10 for more. The weights are those whose gain over the best
    single source has the highest lower bound: its mean less 1.645 standard errors. The gain of that source over itself
    is 0 without error, so it remains the choice unless another one is significantly better.

    Args:
        dataset: labelled queries, those of the tuning split.
        candidates: of a `merge` of two or more sources for these queries, not ranked or cut yet.
        normalise, lowest: as in the `weighted` step.

    Raises:
        ParameterError: there is one source only, or the metric applies to no query.
    """
    sources = tuple(sources_of(candidates))
    if len(sources) < 2:
        raise ParameterError(
            "weights can only be fitted behind a merge of two or more retrievers; use a selector with a merge, such as "
            "`hybrid`, or with a step `linear`"
        )
    ranked = candidates.select_rows(candidates.ranked)
    scores = normalised(ranked, normalise, lowest=lowest)
    grid = list(compositions(STEPS if len(sources) == 2 else STEPS // 2, len(sources)))
    fusions = [fused(scores, dict(zip(sources, parts, strict=True))) for parts in grid]
    values = np.stack([_ranking_values(dataset, candidates, ranked, fusion) for fusion in fusions])
    values = values[:, ~np.isnan(values).any(axis=0)]
    if not values.shape[1]:
        raise ParameterError(f"{METRIC} applies to no query of dataset {dataset.name}; weights cannot be fitted")
    chosen, single = best_by_lower_bound(values, [max(parts) == sum(parts) for parts in grid])
    means = [mean(row).value for row in values]
    total = sum(grid[chosen])
    return FusionWeights(
        weights={name: part / total for name, part in zip(sources, grid[chosen], strict=True)},
        normalise=normalise,
        lowest=dict(lowest or {}),
        single=sources[int(np.argmax(grid[single]))],
        queries=values.shape[1],
        value=means[chosen],
        single_value=means[single],
        best_value=max(means),
    )


def compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All ways to write `total` as an ordered sum of `parts` numbers >= 0, the first number falling."""
    if parts == 1:
        yield (total,)
        return
    yield from ((first, *rest) for first in range(total, -1, -1) for rest in compositions(total - first, parts - 1))


def best_by_lower_bound(values: FloatArray, single: Sequence[bool]) -> tuple[int, int]:
    """The choice with the highest lower bound of its gain over the best single source, and that source.

    Args:
        values: of each choice on each query, shape (n_choices, n_queries), n_queries >= 1.
        single: which choices are one source alone, at least one.

    Returns:
        Indices of the choice and of the best single source; of equals, the first. With one query the error of a gain is
        infinite, so the choice is the single source.
    """
    single_places = np.flatnonzero(single)
    base = int(single_places[np.argmax(np.array([mean(row).value for row in values])[single_places])])
    distance = values - values[base]
    n = values.shape[1]
    error = (
        distance.std(axis=1, ddof=1) / math.sqrt(n) if n > 1 else np.where(np.any(distance != 0, axis=1), np.inf, 0.0)
    )
    bound = np.array([mean(row).value for row in distance]) - N_ERRORS * error
    best = int(np.argmax(bound))
    return (best if bound[best] > 0 else base), base


def _ranking_values(dataset: Dataset, candidates: Candidates, ranked: Candidates, score: FloatArray) -> FloatArray:
    """The metric of each query, shape (n_queries,), for other scores of the rows found, shape (n_rows,)."""
    metric, session = parse_metric(METRIC), candidates.origin == Origin.SESSION
    near = _near(ranked, score, metric.k)
    request, item = ranked.request[near], ranked.item[near]
    by_score = order(request, np.zeros(len(item), dtype=np.int64), score[near], item)
    evidence = Evidence(
        judgments=dataset.judgments,
        offered=OfferedItems(
            start=candidates.starts_of(session), item=candidates.item[session], origin=candidates.origin[session]
        ),
        rankings=Rankings(start=ranked.starts_of(near), item=item[by_score]),
    )
    return np.asarray(evaluate([metric], evidence)[metric])


def _near(table: Candidates, score: FloatArray, depth: int) -> BoolArray:
    """True for the rows that may be among the first `depth`; the others need no sorting."""
    width = int(np.diff(table.start).max(initial=0))
    if width <= depth:
        return np.ones(len(table), dtype=np.bool_)
    padded = np.full((table.n_requests, width), -np.inf)
    padded[table.request, np.arange(len(table)) - table.start[:-1][table.request]] = score
    return np.asarray(score >= np.partition(padded, width - depth, axis=1)[:, width - depth][table.request])
