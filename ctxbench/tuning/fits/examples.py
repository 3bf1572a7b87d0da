"""What a fit is made on: features and labels of the candidates or the requests of a labelled dataset."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ctxbench.bench.metrics.inputs import Grade
from ctxbench.core.arrays import BoolArray, FloatArray, IntArray
from ctxbench.core.candidates import Candidates
from ctxbench.core.errors import ParameterError
from ctxbench.core.items import Catalog
from ctxbench.core.pipeline import Pipeline
from ctxbench.core.stages import PerType, Resources
from ctxbench.data.curation.splits import bundles_of
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.data.datasets.query_labels import DatasetQuery
from ctxbench.features.built_in import REQUEST, request_features, request_vectors
from ctxbench.features.columns import TEXT, feature_rows
from ctxbench.features.found import LABELLED, LabelledRequests, needed_columns
from ctxbench.features.stored_fits import ABSTENTION, PROBABILITY

ALL = "all"
"""The split that stands for the queries of every split."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Examples:
    """Rows with features and labels, of the queries of a dataset that are labelled.

    Attributes:
        what: `probability` (a row is a candidate) or `abstention` (a row is a request with candidates).
        names: of the features.
        features: shape (n, n_features).
        vectors: shape (n, n_dimensions); no columns for `probability`.
        label: shape (n,); whether the item is required, or anything is.
        query: shape (n,); the query of each row, as an index into `ids`.
        ids, groups: of the queries, in the order of the dataset; queries of one group are in one fold.
        needed: one row for each required item or group of alternatives: its query, shape (n_needed,).
        required_rows: the rows that meet it, by index in `needed`; none where it was not found.
        needs: shape (n_queries,); whether a query needs anything.
        neighbours: how similar the queries are to one another; None where no column reads it.
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
        """How many queries there are, those without candidates included."""
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
            f"dataset {dataset.name} has no labelled query{where}: a fit needs labels; label some with "
            "`ctxbench data label`"
        )
    return labelled


def make_examples(
    kind: str, dataset: Dataset, pipeline: Pipeline, resources: Resources, *, columns: Sequence[str] = TEXT
) -> Examples:
    """Run the steps before a fitted step, and take features and labels of what they find.

    Args:
        kind: `probability` or `abstention`.
        dataset: labelled queries only; see `labelled_queries`.
        pipeline: its analysis, retrieval and rank steps are run; cuts, expansions and the rest are not.
        resources: as for the pipeline.
        columns: the features of a candidate, for `probability`. Those of labelled requests are of the other queries of
            the dataset, without the query's own group; they are left out where no query needs what another one needs.

    Raises:
        UnknownNameError: a column is unknown.
        ParameterError: all rows have the same label, so that nothing can be learned.
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
            neighbours = neighbours if of_others.any() else None  # no query needs what another one needs
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
    _refuse_one_class(dataset, examples)
    return examples


def groups_of(queries: Sequence[DatasetQuery]) -> tuple[str, ...]:
    """The name of the group of each query, shape (n_queries,); queries of one group are in one fold.

    Together are those that a split keeps together, see `bundles_of`. The name is that of the group (the first, if
    several are connected), else of the conversation, else of the query.
    """
    names = list(map(_group_of, queries))
    for _, rows in bundles_of(queries):
        first = min((names[row] for row in rows), key=lambda name: (not name.startswith("group "), name))
        for row in rows:
            names[row] = first
    return tuple(names)


def _group_of(query: DatasetQuery) -> str:
    if query.group is not None:
        return f"group {query.group}"
    if query.request.conversation is not None:
        return f"conversation {query.request.conversation}"
    return f"query {query.id}"


def folds_of(groups: Sequence[str], folds: int) -> IntArray:
    """Deal queries into folds of about the same size, whole groups only; the order of queries does not matter.

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
    """The rows that meet each required item (any of its alternatives), and the query of each."""
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


def _refuse_one_class(dataset: Dataset, examples: Examples) -> None:
    """Refuse examples of one kind only, of which nothing can be learned.

    Raises:
        ParameterError: there is one kind only, or no row.
    """
    if len(examples.label) and examples.label.any() and not examples.label.all():
        return
    if examples.what == ABSTENTION:
        kinds = "all need something" if examples.label.any() else "none of those with candidates needs anything"
        raise ParameterError(
            f"dataset {dataset.name}: of {len(dataset)} labelled queries {kinds}; abstention is learned from queries "
            "of both kinds, some with a required item and some marked `needs: nothing`"
        )
    kinds = "all are required" if examples.label.any() else "none is required"
    raise ParameterError(
        f"dataset {dataset.name}: of the {len(examples.label)} candidates of {len(dataset)} labelled queries {kinds}; "
        "a probability is learned from candidates of both kinds"
    )


MOST = 2000
"""How many labelled requests a fit keeps, or a few more: whole groups, those with the lowest hashes."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Neighbours:
    """How much each labelled query is like those that a fit keeps, and what these need.

    Attributes:
        requests: those that a fit keeps.
        selected: their indices among all queries, rising, shape (n_kept,).
        similarity: of every query to every kept one, shape (n_queries, n_kept).
        catalog: whose items they need.
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
        """Compare the queries of a dataset with one another.

        Args:
            dataset: labelled queries only.
            groups: of each query, shape (n_queries,); queries of one group know nothing of one another.
            resources: give the vectors of the requests' texts.
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
        """The columns of all rows where only the labels of some queries are read, shape (n, 2).

        Args:
            labelled: whether the labels of a query are read, shape (n_queries,).
        """
        is_labelled = labelled[self.selected]
        needs = _select_requests(self.requests, is_labelled).needed_by(self.catalog)
        if not needs:
            return np.zeros((len(self.item), len(LABELLED)))
        return needed_columns(self.similarity[:, is_labelled], self.query, self.item, needs)

    def part(self, queries: BoolArray) -> Neighbours:
        """Those of some queries, shape (n_queries,), as if there were no others."""
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
    """The indices of the queries of whole groups until there are `MOST`, rising."""
    group, size, hashes = _hashed(groups)
    by_hash = np.argsort(hashes)
    before = np.cumsum(size[by_hash]) - size[by_hash]
    return np.flatnonzero(np.isin(group, by_hash[before < MOST])).astype(np.int64)


def _requests(dataset: Dataset, groups: Sequence[str], selected: IntArray) -> LabelledRequests:
    """Some queries of a dataset, with what they need."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(groups[index] for index in selected.tolist()))}
    judgments, ids, queries = (
        dataset.judgments,
        dataset.catalog.ids,
        [dataset.queries[index] for index in selected.tolist()],
    )
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
