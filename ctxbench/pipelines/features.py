"""Features of candidates by name, what they are computed from, and a logistic regression on them.

A feature is a column `family.name`. Families are registered strategies of the kind `feature`; plugins add theirs by an
entry point. Words of items are weighted by inverse document frequency.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, cast

import numpy as np
import numpy.typing as npt

from ctxbench.io.errors import ParameterError, UnknownNameError, UserError
from ctxbench.model import registry
from ctxbench.model.arrays import BoolArray, Float32Array, FloatArray, IntArray
from ctxbench.model.candidates import MARGIN, SEARCHED, Candidates
from ctxbench.model.items import TEXT_FIELDS, Catalog, Item, ItemKey
from ctxbench.model.requests import Query
from ctxbench.model.resources import Resources, index_over, row_over
from ctxbench.search.chunking import DOCUMENTS, ItemChunking
from ctxbench.search.dense import BLOCK, dense_index, multiply
from ctxbench.search.vector_files import ChunkMatrix, parts_of, row_dots
from ctxbench.search.word_index import Bm25Index, bm25_index
from ctxbench.search.words import STOP_WORDS, FieldText, WordRule, field_words, name_parts, stem

RULE = WordRule(split=True, stop=True, stem=True)
"""Which words count: parts of identifiers, without common English words, stemmed."""


class ItemWords:
    """The words of a catalog's items by field, as an index from word to items.

    Attributes:
        bm25: the index of all their words.
    """

    fields = ("name", "description", "body", "item")

    def __init__(self, catalog: Catalog, bm25: Bm25Index) -> None:
        self._words: list[dict[str, list[str]]] = []
        self._items: dict[str, dict[str, IntArray]] = {field: {} for field in self.fields}
        self._add(catalog, bm25)

    def extended(self, catalog: Catalog, bm25: Bm25Index) -> ItemWords:
        """The words of a catalog that begins with the items of this one; only added items are split."""
        words = ItemWords(Catalog(()), bm25)
        words._words, words._items = self._words, self._items
        words._add(catalog[len(self._words) :], bm25)
        return words

    def _add(self, items: Sequence[Item], bm25: Bm25Index) -> None:
        """Append items; arrays are replaced, never changed, and all weights are computed again."""
        first, added = len(self._words), [_fields(item) for item in items]
        by_word: dict[str, dict[str, list[int]]] = {field: {} for field in self.fields}
        for position, words_by_field in enumerate(added, first):
            for field in self.fields:
                for word in words_by_field[field]:
                    by_word[field].setdefault(word, []).append(position)
        self._words = self._words + added
        self._items = {
            field: self._items[field]
            | {word: np.array([*self._items[field].get(word, ()), *new], dtype=np.int64) for word, new in index.items()}
            for field, index in by_word.items()
        }
        n = len(self._words)
        self._unknown = _idf(n, 0)
        self._weight = {word: _idf(n, len(items)) for word, items in self._items["item"].items()}
        self._total = {
            field: np.array(
                [math.fsum(self._weight[word] for word in words_by_field[field]) for words_by_field in self._words]
            )
            for field in self.fields
        }
        self.bm25 = bm25

    def knows(self, word: str) -> bool:
        """Whether any item has the word."""
        return word in self._weight

    def overlaps(self, words: Sequence[str]) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
        """How much of `words` each field of each item holds, and how much of each field `words` hold.

        Words count by inverse document frequency.

        Args:
            words: distinct, sorted.

        Returns:
            Two mappings from field to shares in [0, 1], shape (n_items,); 0 where there is no word.
        """
        query_weight = math.fsum(self._weight.get(word, self._unknown) for word in words)
        of_query, of_field = {}, {}
        for field in self.fields:
            shared = np.zeros(len(self._words), dtype=np.float64)
            for word in words:
                if word in self._items[field]:
                    shared[self._items[field][word]] += self._weight[word]
            total = self._total[field]
            of_query[field] = shared / query_weight if query_weight > 0 else shared
            of_field[field] = np.divide(shared, total, out=np.zeros_like(shared), where=total > 0)
        return of_query, of_field


def item_bm25(catalog: Catalog, resources: Resources) -> Bm25Index:
    """The index of the default step `bm25` over a catalog, stored in the resources."""
    return bm25_index(catalog, resources, k1=1.5, b=0.75, rule=RULE, server=True)


def field_bm25(catalog: Catalog, resources: Resources) -> Bm25Index:
    """The index of a step `bm25` that also reads parameters and bodies, stored in the resources."""
    return bm25_index(catalog, resources, k1=1.5, b=0.75, rule=RULE, server=True, bodies=True, parameters=True)


def item_words(catalog: Catalog, resources: Resources) -> ItemWords:
    """The words of a catalog, stored in the resources; BM25 is that of the default step `bm25`."""
    bm25 = item_bm25(catalog, resources)
    words: ItemWords = index_over(
        catalog,
        resources,
        "item words",
        over=TEXT_FIELDS,
        make=lambda: ItemWords(catalog, bm25),
        extend=lambda old: old.extended(catalog, bm25),
    )
    return words


def _fields(item: Item) -> dict[str, list[str]]:
    """The distinct stems of an item's fields, sorted; its body is its parameters and text, `item` all of it."""
    words = field_words(item)
    stems_by_field = {
        "name": set(stems(words["name"])),
        "description": set(stems(words["description"])),
        "body": set(stems([*words["parameters"], *words["text"]])),
    }
    stems_by_field["item"] = set().union(*stems_by_field.values())
    return {field: sorted(stems) for field, stems in stems_by_field.items()}


def stems(words: Sequence[str]) -> list[str]:
    """Words without the common ones, stemmed."""
    return [stem(word) for word in words if word not in STOP_WORDS]


def query_stems(text: str) -> list[str]:
    """The distinct stems of a request's words, sorted."""
    return sorted(set(stems(name_parts(text))))


def _idf(n: int, n_holding: int) -> float:
    """Inverse document frequency of a word that `n_holding` of `n` items have; above 0. Source: BM25 of Lucene."""
    return math.log1p((n - n_holding + 0.5) / (n_holding + 0.5))


NEIGHBOURS = 10
"""How many of the labelled requests most similar to a request count in its shares."""

LABELLED = ("labelled.nearest", "labelled.share")
"""The columns that are made of labelled requests."""


@dataclass(frozen=True, eq=False)
class LabelledRequests:
    """Labelled requests and the items they require, as a fit stores them.

    Attributes:
        ids: of the labelled queries, shape (n,).
        groups: a number each, the same for queries that belong together (paraphrases, one conversation).
        texts: of each request, shape (n,).
        items: the ids of the items that each needs, all alternatives among them, shape (n,); empty where it needs
            nothing.
    """

    ids: tuple[str, ...]
    groups: tuple[int, ...]
    texts: tuple[str, ...]
    items: tuple[tuple[str, ...], ...]

    @classmethod
    def read(cls, rows: Any) -> LabelledRequests:
        """Read what `as_rows` made.

        Raises:
            ParameterError: it is something else.
        """
        if not isinstance(rows, list) or not all(map(_is_row, rows)):
            raise ParameterError('expected `requests` as a list of ["id", group, "the request", ["item", ...]]')
        ids, groups, texts, items = zip(*rows, strict=True) if rows else ((), (), (), ())
        return cls(ids, groups, texts, tuple(map(tuple, items)))

    def as_rows(self) -> list[list[Any]]:
        """As JSON: id, group, text and a list of items each."""
        return [list(row) for row in zip(self.ids, self.groups, self.texts, map(list, self.items), strict=True)]

    @cached_property
    def content(self) -> str:
        """SHA-256 over all of it."""
        return hashlib.sha256(repr(self.as_rows()).encode("utf-8", "surrogatepass")).hexdigest()

    def similarity(self, query: str, vector: Float32Array, labelled: Float32Array) -> FloatArray:
        """How much a request is like each labelled one, shape (n,): cosine similarity, at least 0.

        It is 0 to labelled requests without text, and to the query itself and those of its group: a query that is
        measured must not see its own label.

        Args:
            query: the id of the request.
            vector: of its text, shape (n_dimensions,).
            labelled: vectors of `texts`, shape (n, n_dimensions).
        """
        similarity: FloatArray = np.maximum(row_dots(vector, labelled), 0.0)
        similarity[self._blank] = 0.0
        if (position := self._position_of.get(query)) is not None:
            similarity[self._group == self._group[position]] = 0.0
        return similarity

    @cached_property
    def _position_of(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.ids)}

    @cached_property
    def _group(self) -> IntArray:
        return np.array(self.groups, dtype=np.int64)

    @cached_property
    def _blank(self) -> BoolArray:
        return np.array([not text.strip() for text in self.texts], dtype=np.bool_)

    def needed_by(self, catalog: Catalog) -> dict[int, IntArray]:
        """Which requests need an item, rising, by its catalog position; items that the catalog lacks are left out."""
        by_item: dict[int, list[int]] = {}
        for request, items in enumerate(self.items):
            for item in dict.fromkeys(items):
                if (position := catalog.find(item)) is not None:
                    by_item.setdefault(position, []).append(request)
        return {item: np.array(requests, dtype=np.int64) for item, requests in by_item.items()}


def _is_row(row: Any) -> bool:
    """Whether it is an id, a number, a text and a list of ids of items."""
    if not isinstance(row, list) or [type(cell) for cell in row] != [str, int, str, list]:
        return False
    try:
        return all(isinstance(item, str) and bool(ItemKey.parse(item)) for item in row[3])
    except UserError:
        return False


def needed_columns(
    similarity: FloatArray, request: IntArray, item: IntArray, required_by_item: Mapping[int, IntArray]
) -> FloatArray:
    """How similar labelled requests label the candidates: the columns `LABELLED`.

    Args:
        similarity: of requests to labelled ones, shape (n_requests, n_labelled), >= 0.
        request: a row of `similarity` for each candidate, shape (n,).
        item: the catalog position of each candidate, shape (n,).
        required_by_item: by item, the labelled requests that need it.

    Returns:
        Shape (n, 2).
    """
    out = np.zeros((len(item), len(LABELLED)), dtype=np.float64)
    first = np.argsort(-similarity, axis=1, kind="stable")[:, :NEIGHBOURS]
    weight = np.take_along_axis(similarity, first, axis=1)
    for _ in range(3):
        weight = weight * weight  # three times squared: the 8th power
    total = np.add.reduce(weight, axis=1)
    share = np.zeros_like(similarity)
    np.put_along_axis(share, first, np.divide(weight, total[:, None], where=total[:, None] > 0, out=weight * 0), axis=1)
    by_item = np.argsort(item, kind="stable")
    distinct, ends = np.unique(item[by_item], return_index=True)
    for position, rows in zip(distinct.tolist(), np.split(by_item, ends)[1:], strict=True):
        if position in required_by_item:
            cells = (request[rows][:, None], required_by_item[position][None, :])
            out[rows, 0] = similarity[cells].max(axis=1)
            out[rows, 1] = np.add.reduce(share[cells], axis=1)
    return out


RETRIEVED = "retrieved.score"
"""Column: the score of retrieval, where a rank step has put another one in its place."""


@dataclass(frozen=True, eq=False)
class FeatureInput:
    """The rows that features are made of.

    Attributes:
        query: the analysed requests.
        table: the candidates.
        resources: as of the pipeline.
        rows: of the table, by request and score of retrieval, best first, ties in catalog order; shape (n_found,).
        item: their catalog positions, shape (n_found,).
        score: what retrieval gave each, shape (n_found,).
        start: where each request's rows start in `rows`, shape (n_requests + 1,).
        labelled: the labelled requests of the fit that the features are for; None = there is no fit.
    """

    query: Query
    table: Candidates
    resources: Resources
    rows: IntArray
    item: IntArray
    score: FloatArray
    start: IntArray
    labelled: LabelledRequests | None = None

    @classmethod
    def of(
        cls,
        query: Query,
        table: Candidates,
        resources: Resources,
        *,
        expanded: bool = True,
        labelled: LabelledRequests | None = None,
    ) -> FeatureInput:
        """Take the rows of a table but for those of the session.

        Args:
            query, table, resources: as of the step.
            expanded: False leaves out what an expansion added, if no rank step has ordered it since.
            labelled: the labelled requests of the fit that the features are for.
        """
        score = np.where(table.ranked | (expanded & (table.tier > 0)), table.score, np.nan)
        for column in (SEARCHED, RETRIEVED):
            before = table.columns.get(column, np.full(len(table), np.nan))
            score = np.where(np.isnan(before), score, before)
        rows = np.flatnonzero(~np.isnan(score))
        rows = rows[np.lexsort((table.item[rows], -score[rows], table.request[rows]))]
        start = np.searchsorted(table.request[rows], np.arange(table.n_requests + 1)).astype(np.int64)
        return cls(query, table, resources, rows, table.item[rows], score[rows], start, labelled)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def asking(self) -> IntArray:
        """The requests that have candidates, ascending."""
        return np.flatnonzero(np.diff(self.start) > 0)

    def spans(self) -> Iterator[tuple[int, slice]]:
        """Every request that has candidates, and its rows as a slice of `rows`."""
        start = self.start.tolist()
        return ((request, slice(start[request], start[request + 1])) for request in self.asking.tolist())

    @cached_property
    def words(self) -> ItemWords:
        """The words of the catalog's items."""
        return item_words(self.query.batch.catalog, self.resources)

    @cached_property
    def similarity(self) -> dict[int, FloatArray]:
        """Cosine similarity of each distinct chunk of a request to each of its items, by request.

        That of an item is that of its best chunk; each is a float64 dot product of the two vectors times the query
        chunk's weight, the same bits whatever is around it. Shape (n_distinct, n_rows); a request without chunks
        is left out.
        """
        return {
            request: best_of_chunks(vectors, matrix, item) * weight[:, None]
            for request, _, vectors, weight, matrix, item in self._matches(DOCUMENTS)
        }

    def field_similarity(self, field: Literal["name", "description"]) -> dict[int, FloatArray]:
        """Cosine similarity of the best chunk of a request to a field of each of its items, by request.

        Shape (n_rows,); 0 for an item without the field. A request without chunks is left out, and all are where no
        item has the field.
        """
        similarity: dict[int, FloatArray] = {}
        for request, rows, vectors, weight, matrix, item in self._matches(FieldText(field=field)):
            similarity[request] = np.zeros(len(rows))
            similarity[request][rows] = (best_of_chunks(vectors, matrix, item) * weight[:, None]).max(axis=0)
        return similarity

    def _matches(self, chunking: ItemChunking) -> Iterator[_Match]:
        """What the chunks of each request are compared with: the chunks of those of its items that have any."""
        query = self.query.distinct[0]
        catalog, index = query.batch.catalog, dense_index(query.batch.catalog, self.resources, chunking=chunking)
        has_chunks = row_over(
            catalog,
            self.resources,
            ("has chunks", chunking),
            over=chunking.over,
            make=lambda items: np.array([bool(chunking(item)) for item in items], dtype=np.bool_),
        )
        is_required = np.isin(np.arange(len(catalog)), self.item) & has_chunks
        matrix = index.matrix(is_required, self.resources.vectors) if is_required.any() else None
        if matrix is None:
            return
        for request, vectors in self._vectors(matrix.vectors.shape[1]).items():
            item = self.item[int(self.start[request]) : int(self.start[request + 1])]
            rows = has_chunks[item]
            if rows.any():
                yield _Match(request, rows, vectors, query.weights(request), matrix, item[rows])

    def _vectors(self, dimensions: int) -> dict[int, Float32Array]:
        """Vectors of the distinct chunks of each request that has candidates and chunks, looked up once."""
        if dimensions not in self._looked_up:
            query = self.query.distinct[0]
            asking = [request for request, _ in self.spans() if query.chunks(request)]
            vectors = query.vectors_by_request(self.resources.vectors, asking, dimensions=dimensions) if asking else {}
            self._looked_up[dimensions] = vectors
        return self._looked_up[dimensions]

    @cached_property
    def _looked_up(self) -> dict[int, dict[int, Float32Array]]:
        """What `_vectors` returned, by dimensions."""
        return {}

    def sentences(self, request: int, span: slice) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Similarity and BM25 of the distinct chunks of a request for each of its items, a few chunks at a time.

        Args:
            request: one that `similarity` has.
            span: its rows, as of `spans`.

        Yields:
            Two arrays of shape (n_those_chunks, n_rows).
        """
        similarity, item = self.similarity[request], self.item[span]
        by_chunk = self.words.bm25.words_by_chunk(self.query.distinct[0].chunks(request))
        for part in parts_of(0, len(similarity), max(1, BLOCK // (8 * max(len(item), 1)))):
            yield similarity[part], np.stack([self.words.bm25.scores(words)[item] for words in by_chunk[part]])


class _Match(NamedTuple):
    """The chunks of a request and of its items that have any.

    Attributes:
        request: its number.
        rows: which of its rows these are, shape (n_rows,).
        vectors, weight: of its distinct chunks.
        matrix: of the chunks of items.
        item: of these rows.
    """

    request: int
    rows: BoolArray
    vectors: Float32Array
    weight: FloatArray
    matrix: ChunkMatrix
    item: IntArray


class RequestFamily(ABC):
    """Columns of the items of each request, made request by request.

    Attributes:
        columns: their names, without that of the family.
        uses: the resources whose identity decides them.
    """

    columns: ClassVar[tuple[str, ...]]
    uses: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def of_request(self, inputs: FeatureInput, request: int, span: slice) -> npt.ArrayLike:
        """The columns of the rows of a request, in a shape that broadcasts to (n_rows, n_columns)."""

    def __call__(self, inputs: FeatureInput) -> FloatArray:
        """The columns, shape (n_found, n_columns)."""
        out = np.zeros((len(inputs), len(self.columns)), dtype=np.float64)
        for request, span in inputs.spans():
            out[span] = self.of_request(inputs, request, span)
        return out


def best_of_chunks(queries: np.ndarray, matrix: ChunkMatrix, item: IntArray) -> FloatArray:
    """The similarity of each item's best chunk to each query vector, in float64.

    BLAS proposes, and what lies within `MARGIN` of an item's best is multiplied again row by row.

    Args:
        queries: unit vectors, shape (n_queries, n_dimensions).
        matrix: holds all chunks of the items.
        item: catalog positions, shape (n_items,), each at most once.

    Returns:
        Shape (n_queries, n_items).
    """
    position = np.searchsorted(matrix.item[matrix.first], item)
    ends = np.append(matrix.first, len(matrix.item))
    size = ends[position + 1] - ends[position]
    owner = np.repeat(np.arange(len(item)), size)
    if size.max(initial=1) == 1:  # most tools: nothing to choose from
        products = matrix.vectors[ends[position]].astype(np.float64)
        return np.stack([np.add.reduce(products * query, axis=1) for query in queries.astype(np.float64)])
    first = np.cumsum(size) - size
    rows = np.arange(int(size.sum())) - np.repeat(first - ends[position], size)
    vectors = matrix.vectors[rows]
    out = np.full((len(queries), len(item)), -np.inf)
    cells = max(len(rows), len(item) * queries.shape[1], 1)  # of the products, and of what is multiplied again
    for part in parts_of(0, len(queries), max(1, BLOCK // cells)):
        block = np.ascontiguousarray(queries[part])
        proposed = multiply(block, vectors)
        best = np.maximum.reduceat(proposed, first, axis=1)
        query, near = np.nonzero(proposed >= best[:, owner] - np.float32(MARGIN))
        np.maximum.at(out[part], (query, owner[near]), row_dots(block[query].astype(np.float64), vectors[near]))
    return out


def ranks_of(values: FloatArray) -> IntArray:
    """How many values of the same row are higher, shape of `values` (n,) or (m, n); ties share the best place."""
    if values.ndim == 1:
        return np.searchsorted(np.sort(-values), -values, side="left").astype(np.int64)
    return np.stack([ranks_of(row) for row in values]) if len(values) else values.astype(np.int64)


def log1p(values: FloatArray | IntArray) -> FloatArray:
    """log(1 + value), one by one: the last bit of a vectorised logarithm may depend on the value's position."""
    return np.array([math.log1p(value) for value in values.ravel().tolist()], dtype=np.float64).reshape(values.shape)


VERSION = 4
"""Of the definitions of all shipped features; a fit of another one is rejected."""

TEXT = (
    *("similarity.score", "similarity.margin", "similarity.rank"),
    *("words.bm25", "words.bm25_share"),
    *("words.query_in_name", "words.query_in_description", "words.query_in_body", "words.query_in_item"),
    *("words.name_in_query", "words.description_in_query", "words.body_in_query"),
    *("sentence.margin", "sentence.rank", "sentence.bm25_share", "sentence.bm25_rank", "sentence.fusion"),
    *("fields.name", "fields.description", "fields.bm25_share", "fusion.score", "fusion.margin", "fusion.rank"),
)
"""How an item's text matches a request; these carry over to catalogs that a fit has not seen."""


class FeatureFamily(Protocol):
    """Features that are made together.

    Attributes:
        columns: their names, without that of the family.
        uses: the resources whose identity decides them.
    """

    columns: ClassVar[tuple[str, ...]]
    uses: ClassVar[tuple[str, ...]]

    def __call__(self, inputs: FeatureInput) -> FloatArray:
        """The columns of the retrieved rows, shape (n_found, n_columns), finite; equal in every batch."""


def family(name: str) -> FeatureFamily:
    """A family by its name.

    Raises:
        UnknownNameError: there is none.
    """
    return cast("FeatureFamily", registry.build("feature", name, {}))


def column_names() -> tuple[str, ...]:
    """The names of all columns that exist, those of plugins included."""
    return tuple(f"{name}.{column}" for name in registry.names("feature") for column in family(name).columns)


def families_of(columns: Sequence[str]) -> dict[str, FeatureFamily]:
    """The families of some columns, by name.

    Raises:
        UnknownNameError: a column is unknown; names the closest.
    """
    families: dict[str, FeatureFamily] = {}
    for column in columns:
        name, _, feature = column.partition(".")
        if name not in families:
            try:
                families[name] = family(name)
            except UnknownNameError as error:
                raise UnknownNameError("feature", column, column_names()) from error
        if feature not in families[name].columns:
            raise UnknownNameError("feature", column, column_names())
    return families


def resources_of(columns: Sequence[str]) -> tuple[str, ...]:
    """The resources whose identity decides some columns."""
    return tuple(dict.fromkeys(use for family_ in families_of(columns).values() for use in family_.uses))


def with_features(
    table: Candidates,
    columns: Sequence[str],
    query: Query,
    resources: Resources,
    *,
    expanded: bool = True,
    labelled: LabelledRequests | None = None,
) -> Candidates:
    """Add the columns that the table lacks, and their values where it lacks those; NaN for rows of the session.

    Columns of what labelled requests needed are always made anew: those of another fit would be of other requests.

    Raises:
        UnknownNameError: a column is unknown.
        ParameterError: a column says what labelled requests needed, and none are given.
    """
    inputs = FeatureInput.of(query, table, resources, expanded=expanded, labelled=labelled)
    present = {
        column: table.columns[column] for column in columns if column in table.columns and column not in LABELLED
    }
    missing = [column for column in columns if column not in present or np.isnan(present[column][inputs.rows]).any()]
    added: dict[str, FloatArray] = {}
    for name, made_family in families_of(missing).items():
        for feature, values in zip(made_family.columns, made_family(inputs).T, strict=True):
            if f"{name}.{feature}" in missing:
                column = np.full(len(table), np.nan)
                column[inputs.rows] = values
                before = present.get(f"{name}.{feature}", column)
                added[f"{name}.{feature}"] = np.where(np.isnan(before), column, before)
    return table.with_columns(**added) if added else table


def feature_rows(
    table: Candidates,
    columns: Sequence[str],
    query: Query,
    resources: Resources,
    *,
    expanded: bool = True,
    labelled: LabelledRequests | None = None,
) -> tuple[FeatureInput, FloatArray]:
    """The rows that features are made of, and the values of some columns there, shape (n_found, n_columns).

    With `expanded` false, what an expansion added and no rank step has ordered since is left out. `labelled` are
    the labelled requests of the fit that reads the columns.
    """
    table = with_features(table, columns, query, resources, expanded=expanded, labelled=labelled)
    inputs = FeatureInput.of(query, table, resources, expanded=expanded)
    return inputs, column_values(table, columns, inputs)


def column_values(table: Candidates, columns: Sequence[str], inputs: FeatureInput) -> FloatArray:
    """The values of some columns in the retrieved rows, shape (n_found, n_columns)."""
    if not columns:
        return np.zeros((len(inputs), 0))
    return np.stack([table.columns[column][inputs.rows] for column in columns], axis=1)


@dataclass(frozen=True, eq=False, kw_only=True)
class Logistic:
    """A logistic regression.

    Attributes:
        columns: the features that it reads, in order.
        intercept: log odds where all features are 0.
        weights: shape (n_columns,).
        low, high: the range that each feature had in the fit, shape (n_columns,); values beyond count as its end.
        scale: what a step of each feature was in the fit, shape (n_columns,), > 0.
        vector: weights of a vector, shape (n_dimensions,); empty = takes none.
        labelled: the labelled requests that the columns `labelled.*` are about; None = it reads no such column.
    """

    columns: tuple[str, ...]
    intercept: float
    weights: FloatArray
    low: FloatArray
    high: FloatArray
    scale: FloatArray
    vector: FloatArray
    labelled: LabelledRequests | None = None

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Logistic:
        """Read the values of a fit.

        Args:
            values: `features` (their version), `intercept`, `columns` (by name: weight, low, high, scale), and, which
                may be missing, `vector` and `requests` (the labelled ones).

        Raises:
            ParameterError: they are no such values, or those of features that are defined otherwise here.
        """
        if values.get("features") != VERSION:
            raise ParameterError(f"its features are of version {values.get('features')!r}, and this is {VERSION}")
        columns, vector = values.get("columns"), values.get("vector", [])
        if not isinstance(columns, Mapping) or not columns or not isinstance(vector, list):
            raise ParameterError("expected `columns`, by name [weight, low, high, scale], and `vector` as a list")
        for name, row in columns.items():
            numbers = isinstance(row, list) and len(row) == 4 and all(map(_finite, row))
            if not (numbers and row[1] <= row[2] and row[3] > 0):
                raise ParameterError(
                    f"column {name}: expected four finite numbers, weight, low <= high, and a scale > 0"
                )
        if not all(map(_finite, [values.get("intercept"), *vector])):
            raise ParameterError("the intercept or a weight of the vector is no finite number")
        labelled = LabelledRequests.read(values["requests"]) if "requests" in values else None
        if labelled is None and set(LABELLED) & set(columns):
            raise ParameterError("it reads what labelled requests needed, and holds no `requests`")
        weights, low, high, scale = np.array(list(columns.values()), dtype=np.float64).T
        return cls(
            columns=tuple(columns),
            intercept=float(values["intercept"]),
            weights=weights,
            low=low,
            high=high,
            scale=scale,
            vector=np.array(vector, dtype=np.float64),
            labelled=labelled,
        )

    def outside(self, features: FloatArray) -> np.ndarray:
        """Whether a row has a feature more than a tenth of the fitted range beyond it, shape (n,)."""
        slack = np.maximum((self.high - self.low) * 0.1, 1e-9)
        beyond = (features < self.low - slack) | (features > self.high + slack)
        return np.asarray(beyond.any(axis=1))

    def probabilities(self, features: FloatArray, vectors: FloatArray | None = None) -> FloatArray:
        """The probability of each row, shape (n,); the same bits whatever the other rows are.

        Args:
            features: shape (n, n_columns).
            vectors: shape (n, n_dimensions), where there are weights for them.
        """
        odds = self.intercept + _row_sums(np.clip(features, self.low, self.high) * self.weights)
        if len(self.vector) and vectors is not None and vectors.shape[1]:
            odds = odds + _row_sums(vectors * self.vector)
        exact = [  # the logistic function without overflow
            1.0 / (1.0 + math.exp(-value)) if value >= 0 else math.exp(value) / (1.0 + math.exp(value))
            for value in odds.tolist()
        ]
        return np.array(exact, dtype=np.float64)


def _row_sums(products: FloatArray) -> FloatArray:
    """The sum of every row, shape (n,): by rows in memory, since the order of additions follows the layout."""
    return np.asarray(np.add.reduce(np.ascontiguousarray(products), axis=1))


def _finite(number: object) -> bool:
    return type(number) in (int, float) and math.isfinite(number)  # type: ignore[arg-type]
