"""The texts of winning pairs: which chunking the ordinals of a table count in, as the steps of a pipeline say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ctxbench.core.arrays import IntArray
from ctxbench.core.candidates import Candidates
from ctxbench.core.items import Catalog
from ctxbench.core.pipeline import Pipeline
from ctxbench.core.stages import ByDomain, Merge, Step
from ctxbench.text.chunking.item_chunks import DOCUMENTS, ItemChunking


@dataclass(frozen=True)
class Chunkings:
    """How the steps of a pipeline split items.

    Attributes:
        sources: of each retriever that says how it splits, by the name of its column in a merge (one without a name
            where there is none).
        expansion: of the items that an expansion led from and to.
    """

    sources: Mapping[str, ItemChunking]
    expansion: ItemChunking = DOCUMENTS

    @classmethod
    def of(cls, pipeline: Pipeline) -> Chunkings:
        """Ask the steps of a pipeline."""
        retrieve = pipeline.retrieve
        sources = retrieve.sources if isinstance(retrieve, Merge) else {"": retrieve}
        expansions = (step.chunking for step in refining_steps(pipeline.refine) if step.expands)
        return cls._told({name: step.chunking for name, step in sources.items()}, expansions)

    @classmethod
    def described(cls, description: Mapping[str, Any]) -> Chunkings:
        """Read what a selector says of itself; one that is none of ours tells no pairs."""
        from ctxbench.core.stored_pipelines import StoredMerge, StoredPipeline, single_steps  # a selection needs none

        pipeline = StoredPipeline.of(description)
        if pipeline is None or pipeline.retrieve is None:
            return cls({"": DOCUMENTS})
        retrieve = pipeline.retrieve
        sources = dict(retrieve.sources) if isinstance(retrieve, StoredMerge) else {"": retrieve}
        steps = (one for stage in pipeline.refine for one in single_steps(stage) if one.kind == "expand")
        said = {name: ItemChunking.described(step.values) for name, step in sources.items()}
        return cls._told(said, (ItemChunking.described(step.values) for step in steps))

    @classmethod
    def _told(cls, sources: Mapping[str, ItemChunking | None], expansions: Iterable[ItemChunking | None]) -> Chunkings:
        """What steps say; None of one that does not split items."""
        said = {name: one for name, one in sources.items() if one is not None} or {"": DOCUMENTS}
        return cls(said, next((one for one in expansions if one is not None), DOCUMENTS))

    @property
    def distinct(self) -> tuple[ItemChunking, ...]:
        """Every different chunking, once."""
        return tuple(dict.fromkeys([*self.sources.values(), self.expansion]))

    def used(self, table: Candidates) -> IntArray:
        """The place in `distinct` of the chunking that each row's pair is counted in, shape (n,).

        Behind a merge, a row's pair is that of the best source of those that tell one.
        """
        places = np.array([self.distinct.index(one) for one in self.sources.values()], dtype=np.int64)
        used = np.full(len(table), places[0], dtype=np.int64)
        columns = [table.columns[name] for name in self.sources if name in table.columns]
        if len(set(places.tolist())) > 1 and len(columns) == len(places) and len(table):
            scores = np.stack(columns)
            used = places[np.where(np.isnan(scores), -np.inf, scores).argmax(axis=0)]
        used[table.via_item >= 0] = self.distinct.index(self.expansion)
        return used

    def pair(self, catalog: Catalog, chunks: Sequence[str], table: Candidates, row: int) -> tuple[str, str]:
        """The two texts that gave a row its score; empty where it has no pair.

        Args:
            catalog: the items.
            chunks: of the row's request.
            table: candidates.
            row: of it.

        Returns:
            The text searched with: a chunk of the request, or of the item that led here; and the item's own chunk.
        """
        asked, found = int(table.query_chunk[row]), int(table.item_chunk[row])
        if asked < 0 or found < 0:
            return "", ""
        chunking, via = self.distinct[self.used(table)[row]], int(table.via_item[row])
        return (
            chunks[asked] if via < 0 else chunking(catalog[via])[asked],
            chunking(catalog[int(table.item[row])])[found],
        )


def refining_steps(steps: Iterable[Step | ByDomain]) -> Iterator[Step]:
    """The refining steps, those inside `by_domain` as well."""
    for step in steps:
        if isinstance(step, ByDomain):
            for own in step.domains.values():
                yield from refining_steps(own)
        else:
            yield step
