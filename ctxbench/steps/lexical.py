"""Lexical retrieval: candidates that share words with a request, or nearly do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, Literal

from ctxbench.core.arrays import FloatArray
from ctxbench.core.candidates import Candidates
from ctxbench.core.errors import ParameterError, check_choice, check_range, number_within, suggest
from ctxbench.core.items import TEXT_FIELDS
from ctxbench.core.query import Query
from ctxbench.core.stages import Resources
from ctxbench.core.strategy import Strategy, later
from ctxbench.index.bm25 import VARIANTS, Bm25fIndex, bm25_index, query_words
from ctxbench.index.fuzzy import FIELDS as FUZZY_FIELDS
from ctxbench.index.fuzzy import FuzzyIndex
from ctxbench.index.ranked import DEPTH, ranked_by
from ctxbench.index.versions import index_over
from ctxbench.index.word_index import WordIndex
from ctxbench.index.words import FIELDS, WordRule

_TOGETHER = 256  # requests whose words are compared with the catalog's at once, to bound memory


@dataclass(frozen=True)
class Bm25(Strategy):
    """BM25 over search texts (name, description, text), with the name of a tool's server in front.

    Attributes:
        k1: saturation of term frequency, >= 0.
        b: share of length normalisation, 0 to 1.
        variant: `lucene`, `robertson` or `bm25+`.
        depth: how many items are found for a request, >= 1.
        words: `split`, identifiers count by their parts (`createIssue` and `create_issue` as `create issue`), or
            `plain`, words are runs of letters and digits.
        stop: whether common English words and single letters and digits are left out, unless nothing else is there.
        stem: whether English endings are taken off.
        server: whether a tool's server is searched.
        bodies: whether the body of a skill is searched, too, which the model loads on demand.
        statistics: over which items it is counted how rare a word and how long a text is, `catalog`, all, or `scope`,
            those that the request may see, of its user and at its time, and any search may offer. Then nothing else
            moves a score.

    Items that share no word with the request are no candidates; a blank request has none. Each item counts as
    one chunk; a word counts as often as it stands in the request's chunks, each time by the chunk's weight. The
    defaults were measured over eleven datasets (reports/comparators.md). Cost: linear in the items that share a word.
    Source: Robertson et al. 1994; bm25s, rank-bm25.
    """

    k1: float = 1.5
    b: float = 0.75
    depth: int = DEPTH
    variant: str = VARIANTS[0]
    words: Literal["plain", "split"] = "split"
    stop: bool = True
    stem: bool = True
    server: bool = True
    bodies: bool = later(False)
    statistics: Literal["catalog", "scope"] = later("catalog")
    version: ClassVar[int] = 3  # 3: `URLs` is one word, `class` keeps its s

    def __post_init__(self) -> None:
        check_choice("variant", self.variant, VARIANTS)
        if self.k1 < 0 or not 0 <= self.b <= 1:
            raise ParameterError(f"k1 must be 0 or more and b 0 to 1, got k1 {self.k1} and b {self.b}")
        check_range("depth", self.depth, 1)

    def __call__(self, query: Query, resources: Resources) -> Candidates:
        """Score every request's chunks, taken together."""
        batch = query.batch
        rule = WordRule(split=self.words == "split", stop=self.stop, stem=self.stem)
        settings = {name: getattr(self, name) for name in ("k1", "b", "variant", "server", "bodies")} | {"rule": rule}
        index = bm25_index(batch.catalog, resources, **settings)
        words_by_request = [index.words(query.chunks(row), _weights(query, row)) for row in range(len(batch))]
        scores = _scores(index, words_by_request, query, self.statistics)
        masks = [
            row & (score > 0) & index.shares_word(words)
            for row, score, words in zip(batch.eligible, scores, words_by_request, strict=True)
        ]
        return ranked_by(scores, masks, depth=self.depth)


def _scores(
    index: WordIndex, words_by_request: Sequence[Mapping[str, float]], query: Query, statistics: str
) -> list[FloatArray]:
    """The scores of all items for the words of each request, shape (n_items,) each."""
    if statistics == "catalog":
        return [index.scores(words) for words in words_by_request]
    counted = query.batch.visible.within(query.batch.catalog.facts.searchable)  # masks that requests share stay shared
    return [index.scores(words, counted=row) for words, row in zip(words_by_request, counted, strict=True)]


def _weights(query: Query, request: int) -> Sequence[float]:
    """The weights of a request's chunks."""
    weights: list[float] = query.weight[query.start[request] : query.start[request + 1]].tolist()
    return weights


_WEIGHTS = MappingProxyType({"server": 3.0, "name": 3.0, "description": 1.0, "parameters": 1.0, "text": 0.25})
_B = MappingProxyType({"server": 0.3, "name": 0.3, "description": 0.75, "parameters": 0.75, "text": 0.75})


@dataclass(frozen=True)
class Bm25f(Strategy):
    """BM25 over fields: server, name, description, parameters (names and descriptions in the schema) and text.

    Attributes:
        weights: by field, >= 0 and not all 0; a field that is not named keeps its default.
        b: share of length normalisation by field, 0 to 1; likewise.
        k1: saturation of the weighted term frequency, >= 0.
        depth: how many items are found for a request, >= 1.
        statistics: `catalog` or `scope`, as of `bm25`.

    Names, and identifiers in a request, are split at case, digits and punctuation, and count whole too:
    `createIssue` and `create_issue` are found by "create an issue". The defaults were chosen on the tuning splits of
    LiveMCPBench, MetaTool (multi), bfcl-live, workbench and freight; for a catalog of texts alone a weight of 1 for
    `text` is better (LoCoMo). Items that share no word with the request are no candidates; a blank request has none.
    Each item counts as one chunk. Cost: linear in the items that share a word. Source: Robertson and Zaragoza, The
    Probabilistic Relevance Framework, 2009 (simple BM25F).
    """

    weights: Mapping[str, float] = field(default_factory=dict)
    b: Mapping[str, float] = field(default_factory=dict)
    k1: float = 1.5
    depth: int = DEPTH
    statistics: Literal["catalog", "scope"] = later("catalog")
    version: ClassVar[int] = 3  # 3: `URLs` is one word

    def __post_init__(self) -> None:
        weights = _by_field("weights", self.weights, _WEIGHTS, high=math.inf)
        if not any(weights.values()):
            raise ParameterError("weights must not all be 0")
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "b", _by_field("b", self.b, _B, high=1.0))
        check_range("k1", self.k1, 0)
        check_range("depth", self.depth, 1)

    def __call__(self, query: Query, resources: Resources) -> Candidates:
        """Score every request's chunks, taken together."""
        batch = query.batch
        index: Bm25fIndex = index_over(
            batch.catalog,
            resources,
            ("bm25f", tuple(self.weights.items()), tuple(self.b.items()), self.k1),
            over=TEXT_FIELDS,
            make=lambda: Bm25fIndex(batch.catalog, weights=self.weights, b=self.b, k1=self.k1),
            extend=lambda old: old.extended(batch.catalog),
        )
        words_by_request = [query_words(query.chunks(row), _weights(query, row)) for row in range(len(batch))]
        masks = [row & index.shares_word(words) for row, words in zip(batch.eligible, words_by_request, strict=True)]
        return ranked_by(_scores(index, words_by_request, query, self.statistics), masks, depth=self.depth)


def _by_field(name: str, values: Mapping[str, float], default: Mapping[str, float], *, high: float) -> dict[str, float]:
    """A value for every field, in the order of `FIELDS`.

    Raises:
        ParameterError: a field is unknown, or a value is no number from 0 to `high`.
    """
    for key, value in values.items():
        if key not in FIELDS:
            raise ParameterError(f"{name}: no field is called {key!r}{suggest(str(key), FIELDS)}")
        number_within(f"{name}: {key}", value, 0.0, high)
    return {key: float(values.get(key, default[key])) for key in FIELDS}


@dataclass(frozen=True)
class Fuzzy(Strategy):
    """Likeness of names (and descriptions) to the words of a request, typing errors allowed for.

    Attributes:
        threshold: only items that are more similar than this are found, 0 to 1.
        near: two words that are less alike than this are strangers, 0 to 1.
        fields: `name`, `description` or both; the greater similarity counts.
        depth: how many items are found for a request, >= 1.

    A name scores the mean over its words of the likeness to the nearest word of the request; `creat isue` finds
    `create_issue`. A blank request finds nothing. Each item counts as one chunk; a word of a chunk counts by the
    chunk's weight. Cost: one comparison for each pair of a word of the request and a word of the catalog. Source:
    the documents, "Fuzzy Search" (similarity above 0.3); rapidfuzz's ratio of words.
    """

    threshold: float = 0.3
    near: float = 0.8
    fields: tuple[str, ...] = ("name",)
    depth: int = DEPTH

    def __post_init__(self) -> None:
        for name in ("threshold", "near"):
            check_range(name, getattr(self, name), 0, 1)
        if not self.fields or not set(self.fields) <= set(FUZZY_FIELDS):
            raise ParameterError(f"fields must be some of {', '.join(FUZZY_FIELDS)}, got {list(self.fields)}")
        check_range("depth", self.depth, 1)

    def __call__(self, query: Query, resources: Resources) -> Candidates:
        """Compare the words of every request with those of the items."""
        batch = query.batch
        index: FuzzyIndex = index_over(
            batch.catalog,
            resources,
            ("fuzzy", self.fields, self.near),
            over=TEXT_FIELDS,
            make=lambda: FuzzyIndex(batch.catalog, fields=self.fields, near=self.near),
            extend=lambda old: old.extended(batch.catalog),
        )
        words_by_request = [_heaviest(query, row) for row in range(len(batch))]
        scores = [
            score
            for first in range(0, len(words_by_request), _TOGETHER)
            for score in index.scores(words_by_request[first : first + _TOGETHER])
        ]
        masks = [row & (score > self.threshold) for row, score in zip(batch.eligible, scores, strict=True)]
        return ranked_by(scores, masks, depth=self.depth)


def _heaviest(query: Query, request: int) -> dict[str, float]:
    """The words of a request, each with the greatest weight of the chunks that contain it."""
    weights: dict[str, float] = {}
    for chunk, weight in zip(query.chunks(request), _weights(query, request), strict=True):
        for word in query_words([chunk], [1.0]):
            weights[word] = max(weights.get(word, 0.0), weight)
    return weights
