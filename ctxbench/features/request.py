"""Features of the item alone, of the request alone, and of the values that the one requires and the other holds."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ctxbench.core.arrays import FloatArray
from ctxbench.core.items import Item
from ctxbench.features.found import Found
from ctxbench.features.item_words import ItemWords, query_stems
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
        rows = [made[position] for position in found.item.tolist()]
        return np.array(rows, dtype=np.float64).reshape(len(found), len(self.columns))


@dataclass(frozen=True)
class RequestText:
    """What the request's text looks like: length, known words, numbers, quotes, capitals; the same for all its items.

    They tell one dataset's requests apart, and do not carry over to another's. Source: ours.
    """

    columns: ClassVar[tuple[str, ...]] = (
        *("words", "words_over_4", "words_over_9", "known_words", "unknown_share", "chunks"),
        *("numbers", "quoted", "capitalised", "not_ascii", "question", "values"),
    )
    uses: ClassVar[tuple[str, ...]] = ()

    def __call__(self, found: Found) -> FloatArray:
        """The columns, shape (n_found, 12)."""
        out = np.zeros((len(found), len(self.columns)), dtype=np.float64)
        query = found.query
        for request, span in found.spans():
            text = query.batch.requests[request].text
            n_chunks = int(query.start[request + 1] - query.start[request])
            values = _of_text(text, query_stems(text), n_chunks, found.words)
            out[span] = [values[name] for name in self.columns]
        return out


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
