"""The oracle: a comparator that knows the labels, and offers what they require and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from ctxbench.core.candidates import Candidates, concatenated
from ctxbench.core.errors import ParameterError
from ctxbench.core.items import ItemKey
from ctxbench.core.pipeline import session_rows
from ctxbench.core.query import Query
from ctxbench.core.requests import Batch
from ctxbench.core.stages import Resources
from ctxbench.selectors.selector import Answers
from ctxbench.text.original_rules import js_trim

ORACLE = "oracle"
ABOUT = "Exactly what is required, of alternatives the cheapest: the floor of the price. It knows the labels."
NEEDS_LABELS = (
    "selector 'oracle' offers what the labels require, so it answers only in an experiment over labelled datasets; "
    "name it under `selectors` there, and start `ctxbench run`"
)

Required: TypeAlias = Mapping[str, Sequence[Sequence[ItemKey]]]
"""By query id, groups of required items: of each group one is needed."""


@dataclass(frozen=True, eq=False)
class Oracle:
    """The required items of each request: the floor of the price, and the ceiling of completeness.

    Of a group of alternatives it offers the cheapest by prompt tokens, of equals the first in the catalog; none where
    the session holds one of them. What a request may not get is not offered, so that it can be incomplete.

    Attributes:
        name: what tables call it.
        resources: count prompt tokens.
        required: what is required, by query id; None until an experiment gives it (`knowing`).
    """

    name: str
    resources: Resources
    required: Required | None = None

    def knowing(self, required: Required) -> Oracle:
        """The same oracle, with the required items of each query."""
        return replace(self, required=required)

    def describe(self) -> dict[str, Any]:
        """That it is the oracle, and what counts its tokens. The labels are those of the dataset that is run."""
        return {"oracle": ABOUT, "identities": {"tokens": self.resources.identity("tokens")}}

    def select(self, batch: Batch) -> Answers:
        """Offer what is required of every request, each with score 1; a request that needs nothing gets nothing.

        Raises:
            ParameterError: it has no labels, or none of a request.
        """
        if self.required is None:
            raise ParameterError(NEEDS_LABELS)
        tokens = self.resources.tokens(batch.catalog)
        request: list[int] = []
        item: list[int] = []
        for row, one in enumerate(batch.requests):
            if one.id not in self.required:
                raise ParameterError(f"the oracle has no labels of query {one.id!r}; ask it for queries of its dataset")
            held = set(batch.session_item[batch.session_start[row] : batch.session_start[row + 1]].tolist())
            for group in self.required[one.id]:
                there = {place for key in group if (place := batch.catalog.find(key)) is not None}
                offered = [place for place in there if batch.eligible[row, place]]
                if offered and not there & held:
                    request.append(row)
                    item.append(min(offered, key=lambda place: (tokens[place], place)))
        rows, items = np.array(request, dtype=np.int64), np.array(item, dtype=np.int64)
        found = Candidates.build(len(batch), rows, items, score=np.ones(len(items)))
        return Answers(
            query=Query.of_chunks(batch, [[one.text] if js_trim(one.text) else [] for one in batch.requests]),
            candidates=concatenated([session_rows(batch), found]),
            ranked=True,
            scored=True,
        )
