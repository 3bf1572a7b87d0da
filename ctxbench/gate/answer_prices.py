"""What an answer costs, in prompt tokens: of an item that is shown in part, that part."""

from __future__ import annotations

from ctxbench.core.selection import Offered
from ctxbench.gate.snapshots import AnswerFact, SelectorSnapshot


def shown_tokens(candidate: Offered, side: SelectorSnapshot) -> int:
    """The prompt tokens of what is shown of an item; 0 where the item is not known."""
    if candidate.tokens is not None:
        return candidate.tokens
    return side.items[candidate.id].tokens if candidate.id in side.items else 0


def answer_tokens(answer: AnswerFact, side: SelectorSnapshot, *, session: bool = False) -> int:
    """The prompt tokens that the selector added; with `session`, also those of the session's items."""
    return sum(
        shown_tokens(candidate, side) for candidate in answer.offered if session or candidate.origin != "session"
    )
