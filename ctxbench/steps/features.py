"""Features: columns that say how a candidate matches its request, made by one step and read by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ctxbench.core.candidates import Candidates
from ctxbench.core.errors import ParameterError
from ctxbench.core.query import Query
from ctxbench.core.stages import Resources
from ctxbench.core.strategy import Strategy
from ctxbench.features.columns import TEXT, families_of, resources_of, with_features
from ctxbench.features.found import LABELLED


@dataclass(frozen=True)
class Features(Strategy):
    """Add columns of features to what was found or brought in; scores and order stay.

    Attributes:
        columns: their names, `family.name`; by default those that carry over to unseen catalogs.

    A value that stands there already is kept. Rows of the session have none. Empty in, empty out. Cost: some 0.4
    ms a request with 100 candidates: a product of sentences and item chunks, and a look-up a word. Source: ours
    (`ctxbench/features`), after the features of learning to rank (Qin et al., LETOR, 2010).
    """

    columns: tuple[str, ...] = TEXT
    keeps_score: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.columns:
            raise ParameterError("columns must name one or more features, got none")
        families_of(self.columns)
        if own := sorted(set(LABELLED) & set(self.columns)):
            raise ParameterError(
                f"columns name {' and '.join(own)}, which say what labelled requests needed; only a fit holds such "
                "requests, and the step `probability` makes these columns itself"
            )

    @property
    def uses(self) -> tuple[str, ...]:
        """The resources whose identity decides the columns."""
        return resources_of(self.columns)

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Add the columns."""
        return with_features(candidates, self.columns, query, resources)
