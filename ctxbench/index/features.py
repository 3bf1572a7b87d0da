"""Features: what a fitted step knows of each candidate, and of a request as a whole.

They are pure functions of the request, what was found for it, and the catalog; the engine and the fitting of
calibrations both take them from here. None depends on how many items a request may get: a statistic over all
candidates is either a best one or counted over the catalog.

Source: ours, from the usual evidence of text retrieval (score, margin, BM25, overlap of words weighted by inverse
document frequency) and of the slots of a tool: how many values it requires, and how many the request holds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from ctxbench.arrays import FloatArray, IntArray
from ctxbench.candidates import SEARCHED, Candidates, Origin
from ctxbench.index.fields import field_words, name_parts
from ctxbench.index.lexical import Bm25Index
from ctxbench.items import Catalog, Item
from ctxbench.query import Query
from ctxbench.stages import Resources

VERSION = 2
RETRIEVED = "retrieved.score"
"""Column: the score of retrieval, where a fitted step has put a probability in its place."""

_PLACE = ("margin", "place")
_TEXT = (
    *("bm25", "bm25_share", "query_in_name", "query_in_description", "query_in_body", "query_in_item"),
    *("name_in_query", "description_in_query", "body_in_query"),
)
_ITEM = ("tool", "rule", "reference", "parameters", "required", "required_numbers", "description_words")
_REQUEST = (
    *("words", "words_over_4", "words_over_9", "known_words", "unknown_share", "chunks"),
    *("numbers", "quoted", "capitalised", "not_ascii", "question", "values"),
)
_SLOTS = ("numbers_lacking", "slots_lacking", "slots_filled")
ROW = ("score", *_PLACE, *_TEXT, *_ITEM, *_REQUEST, *_SLOTS)
"""The features of a candidate, by name and in order."""

_BEST = tuple(name for name in ROW if name not in _PLACE)
_MOST = ("query_in_item", "bm25", "body_in_query", "slots_filled")
_LEAST = ("slots_lacking",)
REQUEST = (
    *(f"best.{name}" for name in _BEST),
    *(f"most.{name}" for name in _MOST),
    *(f"least.{name}" for name in _LEAST),
)
"""The features of a request: those of the item that scores best, and the largest or least of some over all."""

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_QUOTED = re.compile(r"\"[^\"]+\"|'[^']{2,}'|“[^”]+”|`[^`]+`")
_NAMES = re.compile(r"(?<=[^\s.!?] )[A-Z]\w*(?:[ ,]+[A-Z]\w*)*")
_ADDRESS = re.compile(r"https?://|\S@\S")
_DAY = re.compile(  # written small; otherwise they are names, and "may" is mostly a verb
    r"\b(?:to(?:day|morrow|night)|(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|june|july"
    r"|august|september|october|november|december)\b"
)
_CAPITALISED = re.compile(r"(?<=[^\s.!?] )[A-Z]\w+")
_NUMBERS = ("integer", "number", "float")  # the last is BFCL's
_ENDINGS = ("ations", "ation", "ings", "ing", "ers", "ies", "es", "ed", "er", "ly", "s", "e", "y")
_COMMON = (
    "a about also am an and any are as at be but by can could did do does for from get give had has have he "
    "hello hi how i if in into is it its just let me my need no not of on or our out please she so some tell "
    "than that the their then there these they this those to up want was we were what when where which who will "
    "with would you your"
)
_LEFT_OUT = frozenset(_COMMON.split())


def found_rows(table: Candidates) -> tuple[IntArray, FloatArray]:
    """The rows that the search found, and the score that retrieval gave each, both by request and score descending.

    Returns:
        Rows and scores, each of shape (n_found,), ties in catalog order.
    """
    score = np.where(table.origin == Origin.SEARCH, table.score, table.columns.get(SEARCHED, np.nan))
    before = table.columns.get(RETRIEVED, np.full(len(table), np.nan))
    score = np.where(np.isnan(before), score, before)
    rows = np.flatnonzero(~np.isnan(score))
    by_score = np.lexsort((table.item[rows], -score[rows], table.request[rows]))
    return rows[by_score], score[rows[by_score]]


def row_features(query: Query, table: Candidates, resources: Resources) -> tuple[IntArray, FloatArray]:
    """The features of every row that the search found.

    Returns:
        The rows, as `found_rows` gives them, and their features, shape (n_found, len(ROW)).
    """
    rows, score = found_rows(table)
    features = np.zeros((len(rows), len(ROW)), dtype=np.float64)
    if not len(rows):
        return rows, features
    texts = item_texts(query.batch.catalog, resources)
    request = table.request[rows]
    bounds = np.searchsorted(request, np.arange(table.n_requests + 1))
    for number, (first, last) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
        if first < last:
            text = query.batch.requests[number].text
            n_chunks = int(query.start[number + 1] - query.start[number])
            _fill(features[first:last], texts, text, n_chunks, score[first:last], table.item[rows[first:last]])
    return rows, features


def request_features(query: Query, table: Candidates, resources: Resources) -> tuple[IntArray, FloatArray]:
    """The features of every request for which anything was found.

    Returns:
        The requests, rising, and their features, shape (n, len(REQUEST)).
    """
    rows, features = row_features(query, table, resources)
    requests, first = np.unique(table.request[rows], return_index=True)
    best = features[first][:, [ROW.index(name) for name in _BEST]]
    most, least = (features[:, [ROW.index(name) for name in names]] for names in (_MOST, _LEAST))
    if len(first):
        most, least = np.maximum.reduceat(most, first, axis=0), np.minimum.reduceat(least, first, axis=0)
    return requests.astype(np.int64), np.concatenate([best, most, least], axis=1)


def request_vectors(query: Query, requests: IntArray, resources: Resources) -> FloatArray:
    """The mean vector of the chunks of each of `requests`, shape (n, n_dimensions); zeros for one without chunks.

    Where none of them has a chunk, nothing is embedded, and n_dimensions is 0.
    """
    chunks = [np.arange(query.start[request], query.start[request + 1]) for request in requests.tolist()]
    wanted = np.concatenate([np.empty(0, np.int64), *chunks])
    if not len(wanted):
        return np.zeros((len(requests), 0), dtype=np.float64)
    vectors = resources.vectors([query.text[chunk] for chunk in wanted]).astype(np.float64)
    ends = np.cumsum([len(own) for own in chunks])
    means = np.zeros((len(requests), vectors.shape[1]), dtype=np.float64)
    for row, (own, end) in enumerate(zip(chunks, ends.tolist(), strict=True)):
        for vector in vectors[end - len(own) : end]:  # one after the other: the sum of some never depends on others
            means[row] += vector
        means[row] /= max(len(own), 1)
    return means


class ItemTexts:
    """The words of a catalog's items by field, as an index from word to items."""

    fields = ("name", "description", "body", "item")

    def __init__(self, catalog: Catalog) -> None:
        words = [_fields(item) for item in catalog]
        n = len(catalog)
        by_word: dict[str, dict[str, list[int]]] = {field: {} for field in self.fields}
        for position, held in enumerate(words):
            for field in self.fields:
                for word in held[field]:
                    by_word[field].setdefault(word, []).append(position)
        self._items = {
            field: {word: np.array(found, dtype=np.int64) for word, found in index.items()}
            for field, index in by_word.items()
        }
        self._unknown = _idf(n, 0)
        self._weight = {word: _idf(n, len(found)) for word, found in self._items["item"].items()}
        self._total = {
            field: np.array([math.fsum(self._weight[word] for word in held[field]) for held in words])
            for field in self.fields
        }
        self._bm25 = Bm25Index(catalog, k1=1.5, b=0.75)
        self.items = np.array([_item_features(item) for item in catalog]).reshape(n, len(_ITEM))

    def knows(self, word: str) -> bool:
        """Whether any item has the word."""
        return word in self._weight

    def bm25(self, text: str) -> FloatArray:
        """BM25 scores of all items, shape (n_items,)."""
        return self._bm25.scores(text)

    def overlaps(self, words: Sequence[str]) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
        """How much of `words` each field of each item holds, and how much of each field `words` hold.

        Words count by inverse document frequency.

        Args:
            words: distinct, sorted.

        Returns:
            Two mappings from field to shares in [0, 1], shape (n_items,); 0 where there is no word.
        """
        asked = math.fsum(self._weight.get(word, self._unknown) for word in words)
        of_query, of_field = {}, {}
        for field in self.fields:
            shared = np.zeros(len(self.items), dtype=np.float64)
            for word in words:
                if word in self._items[field]:
                    shared[self._items[field][word]] += self._weight[word]
            total = self._total[field]
            of_query[field] = shared / asked if asked > 0 else shared
            of_field[field] = np.divide(shared, total, out=np.zeros_like(shared), where=total > 0)
        return of_query, of_field


def item_texts(catalog: Catalog, resources: Resources) -> ItemTexts:
    """The words of a catalog, kept with the resources."""
    return resources.kept(("item texts", catalog.hash), lambda: ItemTexts(catalog))


def _fill(out: FloatArray, texts: ItemTexts, text: str, n_chunks: int, score: FloatArray, item: IntArray) -> None:
    """Write the features of one request's candidates, best first, into `out`, shape (n, len(ROW))."""
    words = sorted(set(_stems(name_parts(text))))
    of_query, of_field = texts.overlaps(words)
    bm25 = texts.bm25(text)
    most = float(bm25.max(initial=0.0))
    higher = np.searchsorted(-score, -score, side="left")
    columns: dict[str, FloatArray | float] = {
        "score": score,
        "margin": score[0] - score,
        "place": _log1p(higher),
        "bm25": _log1p(bm25[item]),
        "bm25_share": bm25[item] / most if most > 0 else 0.0,
        **{f"query_in_{field}": of_query[field][item] for field in ItemTexts.fields},
        **{f"{field}_in_query": of_field[field][item] for field in ("name", "description", "body")},
        **{name: texts.items[item, place] for place, name in enumerate(_ITEM)},
        **_of_text(text, words, n_chunks, texts),
    }
    numbers, values = len(_NUMBER.findall(text)), values_in(text)
    required, of_numbers = (np.expm1(columns[name]).round() for name in ("required", "required_numbers"))
    columns["numbers_lacking"] = np.maximum(of_numbers - numbers, 0.0)
    columns["slots_lacking"] = np.maximum(required - values, 0.0)
    columns["slots_filled"] = np.minimum((values + 1.0) / (required + 1.0), 1.0)
    for place, name in enumerate(ROW):
        out[:, place] = columns[name]


def _of_text(text: str, words: Sequence[str], n_chunks: int, texts: ItemTexts) -> Mapping[str, float]:
    """The features of a request's text alone."""
    known, length = sum(texts.knows(word) for word in words), math.log1p(len(name_parts(text)))
    return {
        "words": length,
        "words_over_4": max(0.0, length - math.log1p(4)),
        "words_over_9": max(0.0, length - math.log1p(9)),
        "known_words": math.log1p(known),
        "unknown_share": 1.0 - known / max(1, len(words)),
        "chunks": math.log1p(n_chunks),
        "numbers": math.log1p(len(_NUMBER.findall(text))),
        "quoted": math.log1p(len(_QUOTED.findall(text))),
        "capitalised": math.log1p(len(_CAPITALISED.findall(text))),
        "not_ascii": sum(ord(character) > 127 for character in text) / max(1, len(text)),
        "question": float("?" in text),
        "values": math.log1p(values_in(text)),
    }


def values_in(text: str) -> int:
    """How many values a text seems to hold that a tool could take: quotes, numbers, names, addresses, days, months."""
    plain = _QUOTED.sub(" ", text)
    rest = (_NUMBER, _NAMES, _ADDRESS, _DAY)
    return len(_QUOTED.findall(text)) + sum(len(pattern.findall(plain)) for pattern in rest)


def _item_features(item: Item) -> tuple[float, ...]:
    """The features of an item alone, in the order of `_ITEM`."""
    schema = item.schema or {}
    properties = schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    required = schema.get("required")
    required = required if isinstance(required, list) else []
    kinds = [one.get("type") for name in required if isinstance(one := properties.get(name), Mapping)]
    return (
        *(float(item.type == kind) for kind in ("tool", "rule", "reference")),
        math.log1p(len(properties)),
        math.log1p(len(required)),
        math.log1p(sum(kind in _NUMBERS for kind in kinds)),
        math.log1p(len(name_parts(item.description))),
    )


def _fields(item: Item) -> dict[str, list[str]]:
    """The distinct stems of an item's fields, sorted; its body is its parameters and text, `item` all of it."""
    words = field_words(item)
    held = {
        "name": set(_stems(words["name"])),
        "description": set(_stems(words["description"])),
        "body": set(_stems([*words["parameters"], *words["text"]])),
    }
    held["item"] = set().union(*held.values())
    return {field: sorted(stems) for field, stems in held.items()}


def _stems(words: Sequence[str]) -> list[str]:
    """Words without the common ones, and without an English ending that leaves at least three letters."""
    return [_stem(word) for word in words if word not in _LEFT_OUT]


def _stem(word: str) -> str:
    ending = next((end for end in _ENDINGS if word.endswith(end) and len(word) - len(end) >= 3), "")
    return word.removesuffix(ending)


def _idf(n: int, held: int) -> float:
    """Inverse document frequency of a word that `held` of `n` items have; above 0. Source: BM25 of Lucene."""
    return math.log1p((n - held + 0.5) / (held + 0.5))


def _log1p(values: FloatArray | IntArray) -> FloatArray:
    """log(1 + value), each by itself: vectorised logarithms may differ in the last bit by where a value stands."""
    return np.array([math.log1p(value) for value in values.tolist()], dtype=np.float64)
