"""The options of a call of the memory engine."""

from __future__ import annotations

from dataclasses import dataclass

from ctxbench.core.errors import check_range
from ctxbench.core.registry import check_fields
from ctxbench.core.requests import Filter
from ctxbench.memory.engine_errors import typed_errors

MOST_RESULTS = 100  # as of the shipped selectors
DEEPEST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """The options of a search.

    Attributes:
        limit: results at most, 1 to 100; what relationships bring in comes on top.
        kinds: only memories of these kinds, such as `fact`; empty = all.
        since, before: only memories created from the one on, and before the other; ISO 8601.
        confidence: only memories that are at least so sure, 0 to 1.
        conversation: only memories of this conversation.
        relationships: whether memories that results are related to are brought in, too.
        depth: over how many relationships, 1 to 5.
        ranker: `default`, `similarity`, `recency`, `confidence`, or one that was registered.
        user: whose memories are seen as well as everybody's.
        time: as of when; ISO 8601, without an offset UTC. None = now.

    Raises:
        EngineError: an option is of another type, or out of range; the search tells what else is wrong.
    """

    limit: int = 10
    kinds: tuple[str, ...] = ()
    since: str | None = None
    before: str | None = None
    confidence: float | None = None
    conversation: str | None = None
    relationships: bool = False
    depth: int = 1
    ranker: str = "default"
    user: str | None = None
    time: str | None = None

    def __post_init__(self) -> None:
        with typed_errors():
            check_fields(self)
            check_range("limit", self.limit, 1, MOST_RESULTS)
            check_range("depth", self.depth, 1, DEEPEST)

    @property
    def item_filter(self) -> Filter:
        """The filter of the search."""
        unchanged = ("kinds", "since", "before", "confidence", "conversation")
        return Filter(types=("memory",), **{name: getattr(self, name) for name in unchanged})


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOptions(SearchOptions):
    """The options of building a context.

    Attributes:
        template: `chat`, `detailed`, `summary`, or one that was registered; None = the engine's.
        budget: tokens of the rendered context, 1 or more; None = the engine's.
        metadata: whether kind, confidence and time are shown; None = as the template says.
    """

    template: str | None = None
    budget: int | None = None
    metadata: bool | None = None

    def __post_init__(self) -> None:
        SearchOptions.__post_init__(self)
        if self.budget is not None:
            with typed_errors():
                check_range("budget", self.budget, 1)
