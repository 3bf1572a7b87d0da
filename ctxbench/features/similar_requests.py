"""Features of what similar labelled requests needed: where requests repeat themselves, nothing says more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ctxbench.core.arrays import FloatArray
from ctxbench.core.errors import ParameterError
from ctxbench.features.found import Found
from ctxbench.features.labelled_requests import LABELLED, needed_columns


@dataclass(frozen=True)
class SimilarRequests:
    """What the labelled requests needed that are most like this one.

    * `nearest`: the highest cosine similarity of the request to a labelled one that needed the item, in [0, 1]; 0 where
      none did.
    * `share`: of the ten most similar labelled requests, each weighing the 8th power of its similarity, the share that
      needed the item, in [0, 1].

    Requests are compared as whole texts. The labelled ones are those that a fit holds (`ctxbench calibrate
    probability`); a labelled query that is asked itself is not told its own label, nor those of its group: it is known
    by its id, so that the same request under another id is told it. All 0 for a request without text.

    Source: k-nearest neighbours with weights by distance (Dudani, 1976); power and number of neighbours were chosen on
    the tuning halves of seven datasets.
    """

    columns: ClassVar[tuple[str, ...]] = tuple(name.partition(".")[2] for name in LABELLED)
    uses: ClassVar[tuple[str, ...]] = ("embedder",)

    def __call__(self, found: Found) -> FloatArray:
        """The columns, shape (n_found, 2).

        Raises:
            ParameterError: no fit says which requests are labelled.
        """
        known = found.labelled
        if known is None:
            raise ParameterError(
                f"{' and '.join(LABELLED)} say what labelled requests needed, and only a fit holds such requests: "
                "take them out of `columns`; the step `probability` makes them for a fit that reads them"
            )
        out = np.zeros((len(found), len(self.columns)), dtype=np.float64)
        batch, resources = found.query.batch, found.resources
        catalog, name = batch.catalog, known.content
        asking = [request for request in found.asking.tolist() if batch.requests[request].text.strip()]
        if not known.texts or not asking:
            return out
        needed = resources.kept(("needed by labelled requests", name, catalog.hash), lambda: known.needed_by(catalog))
        labelled = resources.kept(("vectors of labelled requests", name), lambda: resources.vectors(known.texts))
        vectors = resources.vectors([batch.requests[request].text for request in asking])
        for request, vector in zip(asking, vectors, strict=True):
            span = slice(int(found.start[request]), int(found.start[request + 1]))
            similarity, item = known.similarity(batch.ids[request], vector, labelled), found.item[span]
            out[span] = needed_columns(similarity[None, :], np.zeros(len(item), np.int64), item, needed)
        return out
