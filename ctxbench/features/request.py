"""Features of the item alone, of the request alone, of the values that the two share, and of a request as a whole."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.core.candidates import Candidates
from ctxbench.core.items import Item
from ctxbench.core.query import Query
from ctxbench.core.stages import Resources
from ctxbench.features.columns import feature_rows
from ctxbench.features.found import Found, RequestFamily, chunk_vectors
from ctxbench.features.item_words import ItemWords, query_stems
from ctxbench.features.similarity import Words
from ctxbench.index.words import name_parts

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


@dataclass(frozen=True)
class Items:
    """The item's type, its parameters and the words of its description; counts as log(1 + count).

    They tell one catalog's items apart, and do not carry over to another's. Source: ours.
    """

    columns: ClassVar[tuple[str, ...]] = (
        *("tool", "rule", "reference", "parameters", "required", "required_numbers", "description_words"),
    )
    uses: ClassVar[tuple[str, ...]] = ()

    def __call__(self, found: Found) -> FloatArray:
        """The columns, shape (n_found, 7)."""
        catalog = found.query.batch.catalog
        made = {position: _item_features(catalog[position]) for position in set(found.item.tolist())}
        return np.array([made[position] for position in found.item.tolist()]).reshape(len(found), len(self.columns))


@dataclass(frozen=True)
class RequestText(RequestFamily):
    """What the request's text looks like: length, known words, numbers, quotes, capitals; the same for all its items.

    They tell one dataset's requests apart, and do not carry over to another's. Source: ours.
    """

    columns: ClassVar[tuple[str, ...]] = (
        *("words", "words_over_4", "words_over_9", "known_words", "unknown_share", "chunks"),
        *("numbers", "quoted", "capitalised", "not_ascii", "question", "values"),
    )

    def of_request(self, found: Found, request: int, span: slice) -> npt.ArrayLike:  # noqa: ARG002
        """The same 12 columns for every item."""
        text = found.query.batch.requests[request].text
        values = _of_text(text, query_stems(text), len(found.query.chunks(request)), found.words)
        return [values[name] for name in self.columns]


@dataclass(frozen=True)
class Slots:
    """The values that an item requires and the request seems to hold.

    `numbers_lacking` and `lacking`: how many numbers, and values of any kind, are required beyond those there are;
    `filled`: (values there are + 1) / (values required + 1), at most 1. Source: ours.
    """

    columns: ClassVar[tuple[str, ...]] = ("numbers_lacking", "lacking", "filled")
    uses: ClassVar[tuple[str, ...]] = ()

    def __call__(self, found: Found) -> FloatArray:
        """The columns, shape (n_found, 3)."""
        out = np.zeros((len(found), len(self.columns)), dtype=np.float64)
        items = Items()(found)
        required, of_numbers = (
            np.expm1(items[:, Items.columns.index(name)]).round() for name in ("required", "required_numbers")
        )
        for request, span in found.spans():
            text = found.query.batch.requests[request].text
            numbers, values = len(_NUMBER.findall(text)), values_in(text)
            out[span, 0] = np.maximum(of_numbers[span] - numbers, 0.0)
            out[span, 1] = np.maximum(required[span] - values, 0.0)
            out[span, 2] = np.minimum((values + 1.0) / (required[span] + 1.0), 1.0)
        return out


def _of_text(text: str, stems: Sequence[str], n_chunks: int, words: ItemWords) -> Mapping[str, float]:
    """The features of a request's text alone."""
    known, length = sum(words.knows(stem) for stem in stems), math.log1p(len(name_parts(text)))
    return {
        "words": length,
        "words_over_4": max(0.0, length - math.log1p(4)),
        "words_over_9": max(0.0, length - math.log1p(9)),
        "known_words": math.log1p(known),
        "unknown_share": 1.0 - known / max(1, len(stems)),
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
    """The features of an item alone, in the order of `Items.columns`."""
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
    """The features of every request for which anything was found.

    Returns:
        The requests, rising, and their features, shape (n, len(REQUEST)).
    """
    found, features = feature_rows(table, _BEST, query, resources, expanded=False)
    first = found.start[:-1][found.asking]
    best = features[first]
    most, least = (features[:, [_BEST.index(name) for name in names]] for names in (_MOST, _LEAST))
    if len(first):
        most, least = np.maximum.reduceat(most, first, axis=0), np.minimum.reduceat(least, first, axis=0)
    return found.asking.astype(np.int64), np.concatenate([best, most, least], axis=1)


def request_vectors(query: Query, requests: IntArray, resources: Resources) -> FloatArray:
    """The mean vector of the chunks of each of `requests`, shape (n, n_dimensions); zeros for one without chunks.

    Where none of them has a chunk, nothing is embedded, and n_dimensions is 0.
    """
    if not any(query.chunks(request) for request in requests.tolist()):
        return np.zeros((len(requests), 0), dtype=np.float64)
    means = []
    for _, vectors in chunk_vectors(query, requests.tolist(), resources):
        total = np.zeros(vectors.shape[1], dtype=np.float64)
        for vector in vectors:  # one after the other: the sum of some never depends on others
            total += vector
        means.append(total / max(len(vectors), 1))
    return np.stack(means)
