"""What an answer costs, in prompt tokens: of an item that is shown in part, that part."""

from __future__ import annotations

from ctxbench.core.selection import Offered
from ctxbench.gate.snapshots import AnswerFact, SelectorSnapshot


def shown_tokens(one: Offered, side: SelectorSnapshot) -> int:
    """What is shown of an item costs this; 0 where the item is not known."""
    if one.tokens is not None:
        return one.tokens
    return side.items[one.id].tokens if one.id in side.items else 0


def answer_tokens(answer: AnswerFact, side: SelectorSnapshot, *, session: bool = False) -> int:
    """What the selector added to a prompt; with `session`, also what that holds."""
    return sum(shown_tokens(one, side) for one in answer.offered if session or one.origin != "session")
