"""The interface of every selector: a name, a description for manifests, and answers for a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ctxbench.core.arrays import FloatArray
from ctxbench.core.candidates import Candidates
from ctxbench.core.query import Query
from ctxbench.core.requests import Batch

EXTERNAL_KINDS = ("answers", "callable", "command", "url")  # keys that name a selector outside ctxbench


@dataclass(frozen=True, eq=False, kw_only=True)
class Answers:
    """What a selector offered for a batch.

    Attributes:
        query: the analysed batch; of an external selector, one whole-text chunk a request, none if it is blank.
        candidates: rows by request, in the order of the batch; a request in `errors` has session rows only.
        ranked: the rows found by search, chosen or not, are a ranking of the selector's; without one there are
            no ranking metrics.
        scored: every score is the selector's own; False where of some request only the order was given (then its
            scores are -1, -2, ... in that order).
        errors: what went wrong, by row of the batch.
        seconds: time that each request took, shape (n_requests,); NaN where it is not known by request.
    """

    query: Query
    candidates: Candidates
    ranked: bool
    scored: bool
    errors: Mapping[int, str] = field(default_factory=dict)
    seconds: FloatArray | None = None


class Selector(Protocol):
    """Anything that, for requests, chooses items."""

    @property
    def name(self) -> str:
        """The name of the selector in tables."""

    def describe(self) -> dict[str, Any]:
        """Everything that decides its answers, as JSON: steps and parameters, or command, URL and build id.

        Two selectors with equal descriptions answer alike; a run is resumed only where the description is equal.
        Never holds a secret.
        """

    def select(self, batch: Batch) -> Answers:
        """Answer every request of the batch, each as if it stood alone."""
