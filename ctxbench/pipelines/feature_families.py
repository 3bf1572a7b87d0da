"""Built-in families of features: similarity, words, items, requests, threads and memories."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import mul
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ctxbench.io.errors import ParameterError
from ctxbench.io.rows import instant
from ctxbench.model.arrays import EARLIEST, FloatArray, IntArray
from ctxbench.model.candidates import Candidates, Mode, part_of, part_text
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Query, whole_texts
from ctxbench.model.resources import Resources, index_over, row_over
from ctxbench.pipelines.features import (
    LABELLED,
    FeatureInput,
    ItemWords,
    RequestFamily,
    feature_rows,
    field_bm25,
    item_bm25,
    log1p,
    needed_columns,
    query_stems,
    ranks_of,
)
from ctxbench.search.words import STOP_WORDS, composed, document_frequency, name_parts, words

RANK = 60  # k of reciprocal rank fusion (Cormack, Clarke and Buettcher, SIGIR 2009)


@dataclass(frozen=True)
class Similarity(RequestFamily):
    """Cosine similarity of the request's best chunk and the item's best chunk.

    * `score`: in [-1, 1]; `margin`: how far below the best of the request, >= 0; `rank`: log(1 + how many are better).

    All 0 for a request without chunks. Source: the specification, "Search Implementation" (max pooling).
    """

    columns: ClassVar[tuple[str, ...]] = ("score", "margin", "rank")
    uses: ClassVar[tuple[str, ...]] = ("embedder",)

    def of_request(self, inputs: FeatureInput, request: int, span: slice) -> npt.ArrayLike:  # noqa: ARG002
        """The 3 columns."""
        return score_margin_rank(inputs.similarity[request].max(axis=0)) if request in inputs.similarity else 0.0


@dataclass(frozen=True)
class Retrieved(RequestFamily):
    """The score of retrieval.

    * `score`: as it is; `margin`: how far below the best of the request, >= 0; `rank`: log(1 + how many are better).
    """

    columns: ClassVar[tuple[str, ...]] = ("score", "margin", "rank")

    def of_request(self, inputs: FeatureInput, request: int, span: slice) -> npt.ArrayLike:  # noqa: ARG002
        """The 3 columns."""
        return score_margin_rank(inputs.score[span])


def score_margin_rank(score: FloatArray) -> FloatArray:
    """Score, margin to the best and log rank of the items of one request, shape (n_items, 3)."""
    return np.stack([score, score.max() - score, log1p(ranks_of(score))], axis=1)


@dataclass(frozen=True)
class Fields:
    """How the fields of an item match the request, each on its own.

    * `name`, `description`: cosine similarity of the request's best chunk and the field, in [-1, 1]; 0 for an item
      without the field, a message or memory, and a request without chunks.
    * `bm25_share`: BM25 over server, name, description, parameters, text and body, as a share of the best among what
      was found, in [0, 1]; 0 where none shares a word. Words are counted over what the request may see.

    Source: ours; fields are scored apart as in Robertson and Zaragoza, BM25 and Beyond, 2009.
    """

    columns: ClassVar[tuple[str, ...]] = ("name", "description", "bm25_share")
    uses: ClassVar[tuple[str, ...]] = ("embedder",)

    def __call__(self, inputs: FeatureInput) -> FloatArray:
        """The columns, shape (n_found, 3)."""
        out = np.zeros((len(inputs), len(self.columns)), dtype=np.float64)
        for column, similarities in enumerate(
            [inputs.field_similarity("name"), inputs.field_similarity("description")]
        ):
            for request, similarity in similarities.items():
                out[int(inputs.start[request]) : int(inputs.start[request + 1]), column] = similarity
        batch, bm25 = inputs.query.batch, field_bm25(inputs.query.batch.catalog, inputs.resources)
        for request, span in inputs.spans():
            visible = batch.visible[request]
            counted = None if visible.all() else visible
            scores = bm25.scores(batch.requests[request].text, counted=counted)[inputs.item[span]]
            highest = float(scores.max(initial=0.0))
            out[span, 2] = scores / highest if highest > 0 else scores
        return out


FUSION = {"similarity.score": 1.0, "fields.bm25_share": 0.5, "fields.name": 0.5, "fields.description": 0.5}
"""The weights of `fusion.score`, which the selector `hybrid` ranks by."""


@dataclass(frozen=True)
class Fusion:
    """A sum of similarities and of BM25 that needs no fit: `FUSION`.

    * `score`: as it is; `margin`: how far below the best of the request, >= 0; `rank`: log(1 + how many are better).

    Source: ours; the weights were chosen on the tuning splits of thirteen datasets, each family left out in turn; a sum
    of scores as in Bruch, Gai and Ingber, An Analysis of Fusion Functions for Hybrid Retrieval, TOIS 2023.
    """

    columns: ClassVar[tuple[str, ...]] = ("score", "margin", "rank")
    uses: ClassVar[tuple[str, ...]] = ("embedder",)

    def __call__(self, inputs: FeatureInput) -> FloatArray:
        """The columns, shape (n_found, 3)."""
        values = {f"fields.{name}": column for name, column in zip(Fields.columns, Fields()(inputs).T, strict=True)}
        values["similarity.score"] = Similarity()(inputs)[:, 0]
        score = np.add.reduce([weight * values[name] for name, weight in FUSION.items()], axis=0)
        out = np.zeros((len(inputs), len(self.columns)), dtype=np.float64)
        for _, span in inputs.spans():
            out[span] = score_margin_rank(score[span])
        return out


@dataclass(frozen=True)
class Sentence(RequestFamily):
    """How the item ranks for the sentence (chunk) of the request that it matches best, among the candidates.

    * `margin`: the smallest distance to a sentence's best similarity, >= 0.
    * `rank`: log(1 + the best place by similarity).
    * `bm25_share`: the largest share of a sentence's best BM25, in [0, 1].
    * `bm25_rank`: log(1 + the best place by BM25); an item that shares no word with a sentence has the last one.
    * `fusion`: the largest over sentences of 61 / (60 + rank) by similarity and, where a word is shared, the same by
      BM25, added up; in (0, 2].

    All 0 for a request without chunks. Source: reciprocal rank fusion (Cormack, Clarke and Buettcher, SIGIR 2009).
    """

    columns: ClassVar[tuple[str, ...]] = ("margin", "rank", "bm25_share", "bm25_rank", "fusion")
    uses: ClassVar[tuple[str, ...]] = ("embedder",)

    def of_request(self, inputs: FeatureInput, request: int, span: slice) -> npt.ArrayLike:
        """The 5 columns."""
        if request not in inputs.similarity:
            return 0.0
        parts = np.stack([by_sentence(*part) for part in inputs.sentences(request, span)])
        return np.asarray(np.where(_LEAST_OVER_SENTENCES, parts.min(axis=0), parts.max(axis=0)))


_LEAST_OVER_SENTENCES = np.array(
    [True, True, False, True, False]
)  # which columns of `Sentence` are the least over sentences


def by_sentence(similarity: FloatArray, bm25: FloatArray) -> FloatArray:
    """The columns of `Sentence` over some sentences of one request, shape (n_items, 5), from (n_sentences, n_items)."""
    near, shares = similarity.max(axis=1, keepdims=True) - similarity, bm25 > 0
    highest = bm25.max(axis=1, keepdims=True)
    share = np.divide(bm25, highest, out=np.zeros_like(bm25), where=highest > 0)
    rank, word_place = ranks_of(similarity), ranks_of(bm25)
    last = np.where(shares, word_place, bm25.shape[1])
    fusion = (RANK + 1.0) / (RANK + 1 + rank) + np.where(shares, (RANK + 1.0) / (RANK + 1 + word_place), 0.0)
    columns = [near.min(axis=0), log1p(rank.min(axis=0)), share.max(axis=0), log1p(last.min(axis=0))]
    return np.stack([*columns, fusion.max(axis=0)], axis=1)


@dataclass(frozen=True)
class Words(RequestFamily):
    """Words of the request's text and of the item.

    * `bm25`: log(1 + BM25); `bm25_share`: BM25 as a share of the best among what was found, 0 where none shares a word.
    * `query_in_name`, `query_in_description`, `query_in_body`, `query_in_item`: the share of the request's words that
      the field holds; body is parameters and text, item is all of it.
    * `name_in_query`, `description_in_query`, `body_in_query`: the share of the field's words that the request holds.

    Shares are of stems weighted by inverse document frequency, in [0, 1]; 0 where there is no word. Source: BM25 of
    Lucene; overlaps as in learning to rank (Qin et al., LETOR, 2010).
    """

    columns: ClassVar[tuple[str, ...]] = (
        *("bm25", "bm25_share"),
        *(f"query_in_{field}" for field in ItemWords.fields),
        *(f"{field}_in_query" for field in ("name", "description", "body")),
    )

    def of_request(self, inputs: FeatureInput, request: int, span: slice) -> npt.ArrayLike:
        """The 9 columns."""
        text, item = inputs.query.batch.requests[request].text, inputs.item[span]
        of_query, of_field = inputs.words.overlaps(query_stems(text))
        bm25 = inputs.words.bm25.scores(text)[item]
        highest = float(bm25.max(initial=0.0))
        columns = [log1p(bm25), bm25 / highest if highest > 0 else bm25]
        columns += [of_query[field][item] for field in ItemWords.fields]
        columns += [of_field[field][item] for field in ("name", "description", "body")]
        return np.stack(columns, axis=1)


@dataclass(frozen=True)
class SimilarRequests:
    """What the labelled requests needed that are most like this one.

    * `nearest`: the highest cosine similarity of the request to a labelled one that needed the item, in [0, 1]; 0 where
      none did.
    * `share`: of the ten most similar labelled requests, each weighing the 8th power of its similarity, the share that
      needed the item, in [0, 1].

    Requests are compared as whole texts, one that brings its vector by that. The labelled ones are those that a fit
    holds (`ctxbench calibrate probability`); a labelled query that is asked itself does not see its own label or
    those of its group: it is known by its id, so that the same request under another id sees it. All 0 for a request
    without text.

    Source: k-nearest neighbours with weights by distance (Dudani, 1976); power and number of neighbours were chosen on
    the tuning halves of seven datasets.
    """

    columns: ClassVar[tuple[str, ...]] = tuple(name.partition(".")[2] for name in LABELLED)
    uses: ClassVar[tuple[str, ...]] = ("embedder",)

    def __call__(self, inputs: FeatureInput) -> FloatArray:
        """The columns, shape (n_found, 2).

        Raises:
            ParameterError: no fit says which requests are labelled.
        """
        labelled_requests = inputs.labelled
        if labelled_requests is None:
            raise ParameterError(
                f"{' and '.join(LABELLED)} say what labelled requests needed, and only a fit holds such requests: "
                "take them out of `columns`; the step `probability` makes them for a fit that reads them"
            )
        out = np.zeros((len(inputs), len(self.columns)), dtype=np.float64)
        batch, resources = inputs.query.batch, inputs.resources
        catalog, name = batch.catalog, labelled_requests.content
        whole_query = whole_texts(batch)
        asking = {request: span for request, span in inputs.spans() if whole_query.chunks(request)}
        if not labelled_requests.texts or not asking:
            return out
        required_by_item = resources.get_or_create(
            ("needed by labelled requests", name, catalog.hash), lambda: labelled_requests.needed_by(catalog)
        )
        labelled = resources.get_or_create(
            ("vectors of labelled requests", name), lambda: resources.vectors(labelled_requests.texts)
        )
        vectors = whole_query.vectors(resources.vectors, asking, dimensions=labelled.shape[1])
        for request, vector in zip(asking, vectors, strict=True):
            similarity, item = (
                labelled_requests.similarity(batch.ids[request], vector, labelled),
                inputs.item[asking[request]],
            )
            out[asking[request]] = needed_columns(
                similarity[None, :], np.zeros(len(item), np.int64), item, required_by_item
            )
        return out


_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_QUOTED = re.compile(r"\"[^\"]+\"|'[^']{2,}'|“[^”]+”|`[^`]+`")
_NAMES = re.compile(r"(?<=[^\s.!?] )[A-Z]\w*(?:[ ,]+[A-Z]\w*)*")
_ADDRESS = re.compile(r"https?://|\S@\S")
_DAY = re.compile(  # written small; otherwise they are names, and "may" is mostly a verb
    r"\b(?:to(?:day|morrow|night)|(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|june|july"
    r"|august|september|october|november|december)\b"
)
_LATIN = re.compile(r"[a-z0-9]")
_CAPITALISED = re.compile(r"(?<=[^\s.!?] )[A-Z]\w+")


@dataclass(frozen=True)
class Items:
    """The item's type, its parameters and the words of its description; counts as log(1 + count).

    They tell one catalog's items apart, and do not carry over to another's. Source: ours.
    """

    columns: ClassVar[tuple[str, ...]] = (
        *("tool", "rule", "reference", "parameters", "required", "required_numbers", "description_words"),
    )
    uses: ClassVar[tuple[str, ...]] = ()

    def __call__(self, inputs: FeatureInput) -> FloatArray:
        """The columns, shape (n_found, 7)."""
        catalog = inputs.query.batch.catalog
        by_position = {position: _item_features(catalog[position]) for position in set(inputs.item.tolist())}
        return np.array([by_position[position] for position in inputs.item.tolist()]).reshape(
            len(inputs), len(self.columns)
        )


@dataclass(frozen=True)
class RequestText(RequestFamily):
    """The form of the request's text: length, known words, numbers, quotes, capitals; equal for all items.

    They tell one dataset's requests apart, and do not carry over to another's. Source: ours.
    """

    columns: ClassVar[tuple[str, ...]] = (
        *("words", "words_over_4", "words_over_9", "known_words", "unknown_share", "chunks"),
        *("numbers", "quoted", "capitalised", "not_ascii", "question", "values"),
    )

    def of_request(self, inputs: FeatureInput, request: int, span: slice) -> npt.ArrayLike:  # noqa: ARG002
        """The same 12 columns for every item."""
        text = inputs.query.batch.requests[request].text
        stems, length = query_stems(text), math.log1p(len(name_parts(text)))
        n_known = sum(inputs.words.knows(stem) for stem in stems)
        values = {
            "words": length,
            "words_over_4": max(0.0, length - math.log1p(4)),
            "words_over_9": max(0.0, length - math.log1p(9)),
            "known_words": math.log1p(n_known),
            "unknown_share": 1.0 - n_known / max(1, len(stems)),
            "chunks": math.log1p(len(inputs.query.chunks(request))),
            "numbers": math.log1p(len(_NUMBER.findall(text))),
            "quoted": math.log1p(len(_QUOTED.findall(text))),
            "capitalised": math.log1p(len(_CAPITALISED.findall(text))),
            "not_ascii": sum(ord(character) > 127 for character in text) / max(1, len(text)),
            "question": float("?" in text),
            "values": math.log1p(values_in(text)),
        }
        return [values[name] for name in self.columns]


@dataclass(frozen=True)
class Slots:
    """The values that an item requires and the request seems to hold.

    `numbers_lacking` and `lacking`: how many numbers, and values of any kind, are required beyond those there are;
    `filled`: (values there are + 1) / (values required + 1), at most 1. Source: ours.
    """

    columns: ClassVar[tuple[str, ...]] = ("numbers_lacking", "lacking", "filled")
    uses: ClassVar[tuple[str, ...]] = ()

    def __call__(self, inputs: FeatureInput) -> FloatArray:
        """The columns, shape (n_found, 3)."""
        out = np.zeros((len(inputs), len(self.columns)), dtype=np.float64)
        items = Items()(inputs)
        required, of_numbers = (
            np.expm1(items[:, Items.columns.index(name)]).round() for name in ("required", "required_numbers")
        )
        for request, span in inputs.spans():
            text = inputs.query.batch.requests[request].text
            numbers, values = len(_NUMBER.findall(text)), values_in(text)
            out[span, 0] = np.maximum(of_numbers[span] - numbers, 0.0)
            out[span, 1] = np.maximum(required[span] - values, 0.0)
            out[span, 2] = np.minimum((values + 1.0) / (required[span] + 1.0), 1.0)
        return out


def values_in(text: str) -> int:
    """How many values a text seems to hold that a tool could take: quotes, numbers, names, addresses, days, months."""
    plain = _QUOTED.sub(" ", text)
    return len(_QUOTED.findall(text)) + sum(
        len(pattern.findall(plain)) for pattern in (_NUMBER, _NAMES, _ADDRESS, _DAY)
    )


def _item_features(item: Item) -> tuple[float, ...]:
    """The features of an item alone, in the order of `Items.columns`."""
    schema = item.schema or {}
    properties = schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    required = schema.get("required")
    required = required if isinstance(required, list) else []
    kinds = [parameter.get("type") for name in required if isinstance(parameter := properties.get(name), Mapping)]
    return (
        *(float(item.type == kind) for kind in ("tool", "rule", "reference")),
        math.log1p(len(properties)),
        math.log1p(len(required)),
        math.log1p(sum(kind in ("integer", "number", "float") for kind in kinds)),  # the last is BFCL's
        math.log1p(len(name_parts(item.description))),
    )


_BEST = (
    "retrieved.score",
    *(f"words.{column}" for column in Words.columns),
    *(f"item.{column}" for column in Items.columns),
    *(f"request.{column}" for column in RequestText.columns),
    *(f"slots.{column}" for column in Slots.columns),
)
_MOST = ("words.query_in_item", "words.bm25", "words.body_in_query", "slots.filled")
_LEAST = ("slots.lacking",)
REQUEST = (
    *(f"best.{name}" for name in _BEST),
    *(f"most.{name}" for name in _MOST),
    *(f"least.{name}" for name in _LEAST),
)
"""Their names."""


def request_features(query: Query, table: Candidates, resources: Resources) -> tuple[IntArray, FloatArray]:
    """The features of every request that has candidates.

    Returns:
        The requests, rising, and their features, shape (n, len(REQUEST)).
    """
    inputs, features = feature_rows(table, _BEST, query, resources, expanded=False)
    first = inputs.start[:-1][inputs.asking]
    best = features[first]
    maxima, minima = (features[:, [_BEST.index(name) for name in names]] for names in (_MOST, _LEAST))
    if len(first):
        maxima, minima = np.maximum.reduceat(maxima, first, axis=0), np.minimum.reduceat(minima, first, axis=0)
    return inputs.asking.astype(np.int64), np.concatenate([best, maxima, minima], axis=1)


def request_vectors(query: Query, requests: IntArray, resources: Resources) -> FloatArray:
    """The mean vector of the chunks of each of `requests`, shape (n, n_dimensions); zeros for one without chunks.

    Where none of them has a chunk, nothing is embedded, and n_dimensions is 0.
    """
    if not any(query.chunks(request) for request in requests.tolist()):
        return np.zeros((len(requests), 0), dtype=np.float64)
    means = []
    for vectors in query.vectors_by_request(resources.vectors, requests.tolist()).values():
        total = np.zeros(vectors.shape[1], dtype=np.float64)
        for vector in vectors:  # one after the other: the sum of some never depends on others
            total += vector
        means.append(total / max(len(vectors), 1))
    return np.stack(means)


HOUR = 3_600_000_000
"""In microseconds."""

DECAY = 0.01
"""By which the recency of an item falls in an hour: to a half in 69 hours."""

UNDATED = 0.5
"""The recency of what nobody knows the age of."""

PRIORITY = {"reference": 1.0, "file": 0.7, "chunk": 0.6, "message": 0.5}
OTHER_PRIORITY = 0.3
OFTEN = 10
"""Times that an item was found useful after which more of them say no more."""


@dataclass(frozen=True)
class AssemblyScores(RequestFamily):
    """How the shown part of an item matches the request, its age, its source, and how useful it was.

    * `tf`: cosine of the counts of words in lower case, split at white space, of the request's text and what is shown,
      in [0, 1]; 0 where one has none.
    * `tfidf`: cosine of counts of `words` times inverse document frequency, over all that the request may see.
    * `keywords`: the share of the request's keywords that occur in what is shown, in lower case, within words, too;
      0 without keywords.
    * `recency`: exp(-0.01 x hours since it was created), at the time of the request, else of the newest item that it
      may see; 0.5 where it is not known when it was created.
    * `source`: 1 for a reference and what the request named (mode `explicit`), 0.7 for a file, 0.6 for a chunk, 0.5 for
      a message, else 0.3.
    * `uses`: how often the user found it useful, by 10, at most 1.

    Source: document 002, "Relevance Scoring System"; the weights of words in `tfidf` are scikit-learn's.
    """

    columns: ClassVar[tuple[str, ...]] = ("tf", "tfidf", "keywords", "recency", "source", "uses")

    def of_request(self, inputs: FeatureInput, request: int, span: slice) -> npt.ArrayLike:
        """The 6 columns."""
        batch, rows = inputs.query.batch, inputs.rows[span].tolist()
        asker, catalog, visible = batch.requests[request], batch.catalog, batch.visible[request]
        items: list[Item] = [catalog[item] for item in inputs.item[span].tolist()]
        visible_texts = [part_text(item, part_of(inputs.table, row)) for item, row in zip(items, rows, strict=True)]
        keywords = [word.lower() for word in inputs.query.keywords[request]]
        text, texts = Counter(asker.text.lower().split()), [part.lower() for part in visible_texts]
        counts = [Counter(words(part)) for part in (asker.text, *visible_texts)]
        weight = document_frequency(catalog, inputs.resources).weights(
            {word for counter in counts for word in counter}, visible
        )
        of_query, *of_rows = [{word: n * weight[word] for word, n in counter.items()} for counter in counts]
        time_now = (
            int(catalog.facts.created[visible].max(initial=EARLIEST)) if asker.time is None else instant(asker.time)
        )
        created = catalog.facts.created[inputs.item[span]].tolist()
        explicit = (inputs.table.mode[inputs.rows[span]] == Mode.EXPLICIT).tolist()
        uses = dict(asker.uses)
        return np.array(
            [
                (
                    _cosine(text, Counter(low.split())),
                    _cosine(of_query, vector),
                    sum(word in low for word in keywords) / max(len(keywords), 1),
                    UNDATED if begun == EARLIEST else math.exp(-DECAY * max(time_now - begun, 0) / HOUR),
                    1.0 if named else PRIORITY.get(item.type, OTHER_PRIORITY),
                    min(1.0, uses.get(item.key, 0) / OFTEN),
                )
                for item, low, vector, begun, named in zip(items, texts, of_rows, created, explicit, strict=True)
            ]
        )


def _cosine(left: Mapping[str, float], right: Mapping[str, float]) -> float:
    """Of two vectors by word, in [0, 1]; 0 where one is empty."""
    dot = math.fsum([value * right[word] for word, value in left.items() if word in right])
    if not dot:
        return 0.0
    lengths = [math.sqrt(math.fsum(map(mul, side.values(), side.values()))) for side in (left, right)]
    return min(dot / (lengths[0] * lengths[1]), 1.0)


MICROSECONDS_A_DAY = 86_400_000_000
"""In microseconds."""

MEMORY_HALF_LIFE = 30
"""Days in which `memory.half_life` falls by half."""

REACH = 3
"""How many items away `conversation.near` and `turn.near` look."""

SHARPNESS = 10.0
"""Log odds for a unit of score in the softmax of `turn.near`."""


@dataclass(frozen=True)
class Memories(RequestFamily):
    """Age, confidence and length of an item, at the time of the request or else of the newest visible item.

    * `recency`: 1 / (1 + days since it was created), in (0, 1]; `half_life`: 0.5 ** (days / 30), in [0, 1]. Both 0
      where it is not known when it was created.
    * `confidence`: in [0, 1]; 1 where none is given.
    * `length`: log(1 + the words of its text): a greeting seldom answers anything.

    Source: document 004 (`recency`, `confidence`); ours.
    """

    columns: ClassVar[tuple[str, ...]] = ("recency", "half_life", "confidence", "length")

    def of_request(self, inputs: FeatureInput, request: int, span: slice) -> npt.ArrayLike:
        """The 4 columns."""
        batch, item = inputs.query.batch, inputs.item[span]
        facts, time = batch.catalog.facts, batch.requests[request].time
        created, confidence = facts.created[item], facts.confidence[item]
        is_dated = created != EARLIEST
        time_now = int(facts.created[batch.visible[request]].max(initial=EARLIEST)) if time is None else instant(time)
        days = np.maximum(time_now - np.where(is_dated, created, time_now), 0) / MICROSECONDS_A_DAY
        half_life = np.array(
            [0.5 ** (age / MEMORY_HALF_LIFE) for age in days.tolist()]
        )  # one by one: the same bits anywhere
        length = row_over(batch.catalog, inputs.resources, "lengths of texts", over=("search_text",), make=_lengths)
        sure = np.where(np.isnan(confidence), 1.0, confidence)
        return np.stack([is_dated / (1.0 + days), is_dated * half_life, sure, length[item]], axis=1)


@dataclass(frozen=True, eq=False)
class _Order:
    """The place of candidates in their conversations, as far as the request may see these.

    Attributes:
        visible: catalog positions of items of conversations: by conversation, `created` and position.
        at: the index of each candidate in `visible`; -1 if it is of no conversation.
        conversation: of each candidate, by number.
    """

    visible: IntArray
    at: IntArray
    conversation: IntArray
    code: IntArray

    @classmethod
    def of(cls, inputs: FeatureInput, request: int, item: IntArray) -> _Order:
        """The order for some items of a request."""
        batch, catalog = inputs.query.batch, inputs.query.batch.catalog
        order = index_over(
            catalog, inputs.resources, "conversations", over=("conversation", "created"), make=lambda: _ordered(catalog)
        )
        visible, rank = order[batch.visible[request][order]], np.full(len(catalog), -1, dtype=np.int64)
        rank[visible] = np.arange(len(visible))
        code = catalog.facts.conversation.code
        return cls(visible, rank[item], code[item], code)

    def neighbours(self, steps: int) -> IntArray:
        """The item that comes so many steps after each candidate in its conversation; -1 = none."""
        rows = np.flatnonzero((self.at >= 0) & (self.at + steps >= 0) & (self.at + steps < len(self.visible)))
        rows = rows[self.code[self.visible[self.at[rows] + steps]] == self.conversation[rows]]
        out = np.full(len(self.at), -1, dtype=np.int64)
        out[rows] = self.visible[self.at[rows] + steps]
        return out


@dataclass(frozen=True)
class InConversation(RequestFamily):
    """BM25 of an item and of the messages around it, if the request may see its conversation.

    * `item`: that of the item itself.
    * `best`: the highest of its conversation; that of the item alone where it is of none.
    * `answers`: that of the item before it, by `created`, where that one ends with a question; else 0.
    * `near`: the highest of the three items before it and the three after; 0 where there are none.

    BM25 is that of the step `bm25` with `statistics: scope`, whether or not the search found these items. Source:
    ours; a document by its best passage as in Callan, Passage-level evidence in document retrieval, SIGIR 1994, and
    neighbouring sentences as in Fernandez, Losada and Azzopardi, Extending the language modeling framework for
    sentence retrieval to include local context, Information Retrieval, 2011.
    """

    columns: ClassVar[tuple[str, ...]] = ("item", "best", "answers", "near")

    def of_request(self, inputs: FeatureInput, request: int, span: slice) -> npt.ArrayLike:
        """The 4 columns."""
        batch, item, catalog = inputs.query.batch, inputs.item[span], inputs.query.batch.catalog
        order = _Order.of(inputs, request, item)
        fits = np.append(_visible_bm25(inputs, request), 0.0)  # the last is nothing
        best = np.zeros(len(catalog.facts.conversation.names) + 1)
        np.maximum.at(best, order.code[order.visible], fits[order.visible])
        near = np.max([fits[order.neighbours(steps)] for steps in range(-REACH, REACH + 1) if steps], axis=0)
        before = order.neighbours(-1)
        best_or_item = np.where(order.at >= 0, best[order.conversation], fits[item])
        return np.stack(
            [fits[item], best_or_item, fits[before] * _asking(batch, inputs.resources)[before], near], axis=1
        )


@dataclass(frozen=True)
class Turns(RequestFamily):
    """How well a turn of a conversation matches the request, the turns around it, and who speaks.

    * `share`: its BM25 as a share of the highest that the request may see, in [0, 1]; 0 where none shares a word.
    * `near`: the probabilities of the three items before it in its conversation and the three after, halved with each
      step away and added up, in [0, 1]. That of a candidate is the softmax, over those of the request, of 10 x (cosine
      similarity + 0.5 x `share`); that of others is 0.
    * `asked`: the similarity of the item before it if that is a candidate and ends with a question; else 0.
    * `named`: 1 where the request has the first name of the `speaker` in the item's metadata; else 0. Case and accents
      do not count, `STOP_WORDS` name nobody, and a name without Latin letters may be a part of a word.

    BM25 and order are those of the family `conversation`. Source: ours; see there for neighbours. The 10 is about the
    weight of similarity in a softmax that is fitted to labels.
    """

    columns: ClassVar[tuple[str, ...]] = ("share", "near", "asked", "named")
    uses: ClassVar[tuple[str, ...]] = ("embedder",)

    def of_request(self, inputs: FeatureInput, request: int, span: slice) -> npt.ArrayLike:
        """The 4 columns."""
        batch, item, catalog = inputs.query.batch, inputs.item[span], inputs.query.batch.catalog
        order, bm25 = _Order.of(inputs, request, item), _visible_bm25(inputs, request)
        share = bm25[item] / (float(bm25.max(initial=0.0)) or 1.0)
        score = inputs.similarity[request].max(axis=0) if request in inputs.similarity else np.zeros(len(item))
        fused = score + 0.5 * share
        powers = np.array([math.exp(SHARPNESS * x) for x in (fused - fused.max()).tolist()])  # the same bits anywhere
        likely, similar = np.zeros((2, len(catalog) + 1))  # the last is nothing
        likely[item], similar[item] = powers / math.fsum(powers.tolist()), score
        near = np.zeros(len(item))
        for steps in range(1, REACH + 1):
            near += (likely[order.neighbours(-steps)] + likely[order.neighbours(steps)]) / 2 ** (steps - 1)
        before = order.neighbours(-1)
        after_question = similar[before] * _asking(batch, inputs.resources)[before]
        speakers = [str(catalog[position].metadata.get("speaker") or "") for position in item.tolist()]
        of_request = _name_parts(batch.requests[request].text)
        is_named = {speaker: _names(of_request, _name_parts(speaker)[:1]) for speaker in set(speakers)}
        named = np.array([is_named[speaker] for speaker in speakers], dtype=np.float64)
        return np.stack([share, near, after_question, named], axis=1)


def _name_parts(text: str) -> list[str]:
    """The parts of a name in small letters, Latin ones without accents."""
    return [composed(part) for part in name_parts(unicodedata.normalize("NFC", text))]


def _names(parts: Sequence[str], first: Sequence[str]) -> bool:
    """Whether the parts of a text hold a first name; in languages without blanks it stands within a part."""
    name = "".join(first)
    if not name or name in STOP_WORDS:
        return False
    return name in parts if _LATIN.search(name) else any(name in part for part in parts)


def _visible_bm25(inputs: FeatureInput, request: int) -> FloatArray:
    """BM25 of all items of the catalog, with words counted over what the request may see, shape (n_items,)."""
    batch = inputs.query.batch
    index = item_bm25(batch.catalog, inputs.resources)
    return index.scores(batch.requests[request].text, counted=batch.visible[request])


def _asking(batch: Batch, resources: Resources) -> FloatArray:
    """1 for each item that ends with a question, else 0, shape (n_items,)."""
    return row_over(batch.catalog, resources, "texts that ask", over=("text",), make=_asks)


def _ordered(catalog: Catalog) -> IntArray:
    """The positions of items that are of a conversation: by conversation, `created` and position."""
    code = catalog.facts.conversation.code
    order = np.lexsort((catalog.facts.created, code))
    return np.asarray(order[code[order] >= 0], dtype=np.int64)


def _asks(items: Sequence[Item]) -> FloatArray:
    """1 for items whose text ends with a question mark, quotes and brackets aside."""
    return np.array([item.text.rstrip(" \n.\"'”’»)]").endswith(("?", "？")) for item in items], dtype=np.float64)


def _lengths(items: Sequence[Item]) -> FloatArray:
    return np.array([math.log1p(len(words(item.search_text))) for item in items], dtype=np.float64)
