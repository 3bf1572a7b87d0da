"""Families of features for memories: how old, how sure and how long one is, and how the conversation around it fits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.core.facts import EARLIEST
from ctxbench.core.items import Catalog, Item
from ctxbench.core.times import instant
from ctxbench.features.found import FeatureInput, RequestFamily
from ctxbench.features.item_words import item_bm25
from ctxbench.index.versions import index_over, row_over
from ctxbench.index.words import words

DAY = 86_400_000_000
"""In microseconds."""

HALF_LIFE = 30
"""Days in which `memory.half_life` falls by half."""

REACH = 3
"""How many items away `conversation.near` looks."""


@dataclass(frozen=True)
class Memories(RequestFamily):
    """What is known of an item by itself, at the time of the request, else of the newest item that it may see.

    * `recency`: 1 / (1 + days since it was created), in (0, 1]; `half_life`: 0.5 ** (days / 30), in [0, 1]. Both 0
      where it is not known when it was created.
    * `confidence`: in [0, 1]; 1 where nothing is said.
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
        days = np.maximum(time_now - np.where(is_dated, created, time_now), 0) / DAY
        half_life = np.array([0.5 ** (age / HALF_LIFE) for age in days.tolist()])  # one by one: the same bits anywhere
        length = row_over(batch.catalog, inputs.resources, "lengths of texts", over=("search_text",), make=_lengths)
        sure = np.where(np.isnan(confidence), 1.0, confidence)
        return np.stack([is_dated / (1.0 + days), is_dated * half_life, sure, length[item]], axis=1)


@dataclass(frozen=True)
class InConversation(RequestFamily):
    """BM25 of an item and of what was said around it, as far as the request may see its conversation.

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
        batch, item, resources = inputs.query.batch, inputs.item[span], inputs.resources
        catalog, code = batch.catalog, batch.catalog.facts.conversation.code
        order = index_over(
            catalog, resources, "conversations", over=("conversation", "created"), make=lambda: _ordered(catalog)
        )
        in_order = order[batch.visible[request][order]]
        rank = np.full(len(catalog), -1, dtype=np.int64)
        rank[in_order] = np.arange(len(in_order))
        at, conversation = rank[item], code[item]
        bm25 = item_bm25(catalog, resources).scores(batch.requests[request].text, counted=batch.visible[request])
        fits = np.append(bm25, 0.0)  # the last is nothing
        asks = row_over(catalog, resources, "texts that ask", over=("text",), make=_asks)

        def neighbours(steps: int) -> IntArray:
            """The position of what stands so many steps behind each item in its conversation; -1 = nothing does."""
            rows = np.flatnonzero((at >= 0) & (at + steps >= 0) & (at + steps < len(in_order)))
            rows = rows[code[in_order[at[rows] + steps]] == conversation[rows]]
            out = np.full(len(item), -1, dtype=np.int64)
            out[rows] = in_order[at[rows] + steps]
            return out

        best = np.zeros(len(catalog.facts.conversation.names) + 1)
        np.maximum.at(best, code[in_order], fits[in_order])
        near = np.max([fits[neighbours(steps)] for steps in range(-REACH, REACH + 1) if steps], axis=0)
        before = neighbours(-1)
        best_or_item = np.where(at >= 0, best[conversation], fits[item])
        return np.stack([fits[item], best_or_item, fits[before] * asks[before], near], axis=1)


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
