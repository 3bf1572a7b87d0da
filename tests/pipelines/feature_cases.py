"""What the tests of features share: a small catalog, requests and tables over it, and vectors that are given."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from ctxbench import testing
from ctxbench.model.candidates import Candidates
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Query, Request
from ctxbench.model.resources import Resources, TextKind
from ctxbench.pipelines.features import FeatureInput, with_features
from ctxbench.search.dense import chunks_of

SCHEMA = {
    "type": "object",
    "properties": {"base": {"type": "number"}, "height": {"type": "number"}, "unit": {"type": "string"}},
    "required": ["base", "height"],
}
CATALOG = Catalog(
    [
        Item(type="tool", name="triangle_area", description="The area of a triangle.", schema=SCHEMA),
        Item(type="rule", name="tone", description="How to write.", text="Be brief."),
        Item(type="reference", name="prices", text="What a triangle costs."),
    ]
)


class Plane(Resources):
    """Resources whose vectors are given: one for each chunk of an item, by its name, and one for each text."""

    def __init__(self, catalog: Catalog, items: Mapping[str, Sequence[tuple[float, float]]], **texts: Any) -> None:
        self._vectors = dict(texts)
        for item in catalog:
            self._vectors |= dict(zip(chunks_of(item), items[item.name], strict=True))
        self._kept: dict[Hashable, Any] = {}

    def vectors(self, texts: Sequence[str], *, kind: TextKind = "query") -> np.ndarray:
        return np.array([self._vectors[text] for text in texts], dtype=np.float32).reshape(len(texts), 2)

    def get_or_create(self, key: Hashable, make: Callable[[], Any]) -> Any:
        return self._kept.setdefault(key, make())


def asked(*texts: str, catalog: Catalog = CATALOG) -> Query:
    """Requests of one chunk each; none where the text is empty."""
    batch = Batch.of(catalog, [Request(id=str(i), text=text) for i, text in enumerate(texts)])
    return Query.of_chunks(batch, [[text] if text else [] for text in texts])


def table(*scores: list[float], **given: np.ndarray) -> Candidates:
    """Items 0, 1, ... of each request with these scores."""
    request = np.repeat(np.arange(len(scores)), [len(own) for own in scores])
    item = np.concatenate([np.arange(len(own)) for own in scores]).astype(np.int64)
    return Candidates.build(len(scores), request, item, score=np.concatenate(scores), **given)


def rows_of(query: Query, candidates: Candidates, *columns: str, resources: Any = None) -> list[dict[str, float]]:
    """The columns of every row that the search found, in its order."""
    resources = resources or testing.mock_resources()
    made = with_features(candidates, columns, query, resources)
    found = FeatureInput.of(query, made, resources)
    return [{name: float(made.columns[name][row]) for name in columns} for row in found.rows.tolist()]
