"""Features of shared words: BM25, and how much of the request an item's fields hold, and the other way round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ctxbench.core.arrays import FloatArray
from ctxbench.features.found import Found, log1p
from ctxbench.features.item_words import ItemWords, query_stems


@dataclass(frozen=True)
class Words:
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
    uses: ClassVar[tuple[str, ...]] = ()

    def __call__(self, found: Found) -> FloatArray:
        """The columns, shape (n_found, 9)."""
        out = np.zeros((len(found), len(self.columns)), dtype=np.float64)
        for request, span in found.spans():
            text, item = found.query.batch.requests[request].text, found.item[span]
            of_query, of_field = found.words.overlaps(query_stems(text))
            bm25 = found.words.bm25(text)[item]
            most = float(bm25.max(initial=0.0))
            columns = [log1p(bm25), bm25 / most if most > 0 else bm25]
            columns += [of_query[field][item] for field in ItemWords.fields]
            columns += [of_field[field][item] for field in ("name", "description", "body")]
            out[span] = np.stack(columns, axis=1)
        return out
