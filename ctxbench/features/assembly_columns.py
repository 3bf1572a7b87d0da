"""A family of features for assembling the context of a thread: document 002's five scores, of what a row shows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from operator import mul
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ctxbench.core.candidates import Mode
from ctxbench.core.facts import EARLIEST
from ctxbench.core.items import Item
from ctxbench.core.shown import part_of, part_text
from ctxbench.core.times import instant
from ctxbench.features.found import FeatureInput, RequestFamily
from ctxbench.index.document_frequency import document_frequency
from ctxbench.index.words import words

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
    """How what a row shows of its item suits the request, how new it is, where it came from, how useful it was.

    * `tf`: cosine of the counts of words in lower case, split at white space, of the request's text and what is shown,
      in [0, 1]; 0 where one has none.
    * `tfidf`: cosine of counts of `words` times inverse document frequency, over all that the request may see.
    * `keywords`: the share of the request's keywords that stand in what is shown, in lower case, within words, too;
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
