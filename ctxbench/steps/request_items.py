"""Retrieval of what a request brings along: items that it names, messages of its conversation, files opened last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ctxbench.core.candidates import Candidates, Mode
from ctxbench.core.errors import check_choice, check_range
from ctxbench.core.items import ITEM_TYPES
from ctxbench.core.query import Query
from ctxbench.core.requests import Batch
from ctxbench.core.stages import Resources
from ctxbench.core.strategy import Strategy


@dataclass(frozen=True)
class Explicit(Strategy):
    """The items that the request names explicitly, in mode `explicit`, in their order: the nth has score 1 / n.

    It alone offers items of include mode `manual`. Of what is named it offers what the request sees and may get, that
    is enabled, not `always`, not removed and not in the session (`Batch.named`); what a search is restricted to
    (`only`) does not count. A request that names nothing has no candidates. Cost: linear in what is named. Source:
    document 002, `getExplicitReferences`; the score is ours.
    """

    def __call__(self, query: Query, resources: Resources) -> Candidates:
        """Offer what every request names."""
        batch = query.batch
        return _in_order(batch, [batch.named(row) for row in range(len(batch))], mode=Mode.EXPLICIT)


@dataclass(frozen=True)
class ConversationMessages(Strategy):
    """The last messages of the request's conversation, the latest first: the nth from the end has score 1 / n.

    Attributes:
        n: how many at most, 0 = none.

    Messages are items of type `message` with the request's `conversation`; the later was created later, and of one
    moment stands further down in the catalog. A request without a conversation has no candidates. Cost: linear in the
    catalog. Source: document 002, `getThreadHistory`; the score is ours.
    """

    n: int = 20

    def __post_init__(self) -> None:
        check_range("n", self.n, 0)

    @property
    def depth(self) -> int:
        """As many as it takes."""
        return self.n

    def __call__(self, query: Query, resources: Resources) -> Candidates:
        """Find the messages of every request's conversation."""
        batch, facts = query.batch, query.batch.catalog.facts
        message = facts.type.are_any(["message"])
        positions: list[list[int]] = []
        for request, eligible in zip(batch.requests, batch.eligible, strict=True):
            messages = np.empty(0, dtype=np.int64)
            if request.conversation is not None:
                messages = np.flatnonzero(message & eligible & facts.conversation.are(request.conversation))
            latest = messages[np.lexsort((messages, facts.created[messages]))[::-1]]
            positions.append(latest[: self.n].tolist())
        return _in_order(batch, positions)


@dataclass(frozen=True)
class RecentFiles(Strategy):
    """The files that the request's user opened last (`recent` of a request): the nth has score 1 / n.

    Attributes:
        n: how many at most, 0 = none.
        types: of which item types; empty = any.

    What the request may not get is passed over, so that the next ones come in. A request that knows of none has no
    candidates. Cost: linear in what was opened. Source: document 002, `getRecentlyAccessed`; the score is ours.
    """

    n: int = 5
    types: tuple[str, ...] = ("file",)

    def __post_init__(self) -> None:
        check_range("n", self.n, 0)
        for name in self.types:
            check_choice("each of types", name, ITEM_TYPES)

    @property
    def depth(self) -> int:
        """As many as it takes."""
        return self.n

    def __call__(self, query: Query, resources: Resources) -> Candidates:
        """Find what every request's user opened last."""
        batch, positions = query.batch, []
        for row, request in enumerate(batch.requests):
            files = [key for key in dict.fromkeys(request.recent) if not self.types or key.type in self.types]
            candidates = np.array([batch.catalog.position(key) for key in files], dtype=np.int64)
            positions.append(
                candidates[batch.eligible.cells(np.full(len(candidates), row), candidates)][: self.n].tolist()
            )
        return _in_order(batch, positions)


def _in_order(batch: Batch, positions: Sequence[Sequence[int]], *, mode: Mode = Mode.AGENT) -> Candidates:
    """Candidates from positions in the catalog, by request and best first: the nth has score 1 / n."""
    rank = np.array([n for row in positions for n in range(len(row))], dtype=np.int64)
    return Candidates.build(
        len(batch),
        np.repeat(np.arange(len(batch), dtype=np.int64), [len(row) for row in positions]),
        np.array([item for row in positions for item in row], dtype=np.int64),
        score=1.0 / (1.0 + rank),
        chunk_rank=rank,
        mode=np.full(len(rank), mode, dtype=np.int64),
    )
