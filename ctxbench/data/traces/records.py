"""Records of a log (a line, or a model call) in one form, and counts of its oddities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ctxbench.core.errors import Fault
from ctxbench.core.requests import Message

STATUSES = ("ok", "error", "unknown_tool")


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call.

    Attributes:
        name: as the log has it.
        status: `ok`, `error` (it was made and failed) or `unknown_tool` (there was no such tool to call).
        id: of the call, by which it is known when it is logged twice; None if the log has none.
        guessed: the status was read from the words of a result.
    """

    name: str
    status: str = "ok"
    id: str | None = None
    guessed: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class NestedCall:
    """A model call of a sub-agent or a helper: the items offered (None: not in the log) and called."""

    offered: tuple[str, ...] | None
    calls: tuple[Call, ...]


@dataclass(slots=True, kw_only=True)
class MessageSummary:
    """Summary of a list of messages, divided at the last message of the user.

    Attributes:
        text: the user's last message; None if there is none.
        history, after: what user and assistant said before and after it, oldest first.
        users: how many messages are the user's.
        key: differs where the messages up to the user's last one differ, within one process.
        continued: messages come after it, so this is not the first call of its turn.
        finished: the last message is an answer, without a call.
        calls: those after it; before it nothing is of this turn. All of them if there is no user's message.
        unread: how many calls after it cannot be read.
        earlier: how many calls stand before it.
        user_hashes: a hash of each message of the user's, oldest first.
    """

    text: str | None = None
    history: tuple[Message, ...] = ()
    after: tuple[Message, ...] = ()
    users: int = 0
    key: int = 0
    continued: bool = False
    finished: bool = False
    calls: tuple[Call, ...] = ()
    unread: int = 0
    earlier: int = 0
    user_hashes: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class Record(MessageSummary):
    """One line of a log, or one model call, with the summary of its messages.

    Attributes:
        position: 1-based position in the log, over all files.
        conversation: None if the log does not say.
        turn: its number, if the log has one.
        time: seconds since 1970, if the log says.
        offered: names; None if the log does not say.
        all_offered: the log says that everything was offered.
        partly_offered: the log says that it was not, whatever it lists.
        available: names of all that the request may get; None if the log does not say.
        scope: the name of a scope of the catalog's dataset.
        needs_nothing: the log says that someone judged so.
        session, explicit: names of items, and modes for the session; None and empty if the log does not say.
        tool_results: (tool, text) that the request came with.
        cumulative: `calls` come from messages, which later records of the turn hold again.
        executed: calls as the spans of their execution have them.
        unit: records of one unit (a trace, an agent's invocation) with the same `key` are of one turn.
        nested: model calls of sub-agents and helpers that belong to this one.
        doubtful: which text is the user's, or what belongs to it, is not certain.
    """

    position: int
    conversation: str | None = None
    turn: int | None = None
    time: float | None = None
    user: str | None = None
    workspace: str | None = None
    offered: tuple[str, ...] | None = None
    all_offered: bool = False
    partly_offered: bool = False
    available: tuple[str, ...] | None = None
    scope: str | None = None
    needs_nothing: bool = False
    session: tuple[tuple[str, str], ...] | None = None
    explicit: tuple[str, ...] = ()
    tool_results: tuple[tuple[str, str], ...] = ()
    cumulative: bool = False
    executed: tuple[Call, ...] = ()
    unit: str | None = None
    nested: tuple[NestedCall, ...] = ()
    doubtful: bool = False


@dataclass
class LogFindings:
    """Counts and faults of logs; `datasets/traces.md` has a table of the counts.

    Attributes:
        counts: by name.
        faults: what could not be read, with file and line.
        ignored: fields that nothing reads, by how often they stand there.
        unread: fields that hold responses or calls and could not be read, by how often they stand there.
        span_names: names of spans, by how often they stand there.
        roles: of messages of lines and model calls that hold none of a user's.
        skew: the furthest that a time lies before the one it should follow, in seconds.
    """

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)
    span_names: Counter[str] = field(default_factory=Counter)
    roles: Counter[str] = field(default_factory=Counter)
    skew: float = 0.0

    def count_skew(self, seconds: float) -> None:
        """Count a time that is before the one that it should follow."""
        self.counts["clock_skew"] += 1
        self.skew = max(self.skew, seconds)


class Interner:
    """Shares equal values as one object: a log repeats a conversation's messages in each line.

    Attributes:
        history: how many earlier messages a record keeps at most.
    """

    def __init__(self, *, history: int = 0) -> None:
        self.history = history
        self._messages: dict[Message, Message] = {}
        self._names: dict[tuple[str, ...], tuple[str, ...]] = {}

    def messages(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The messages, each as the first equal object."""
        return tuple(self._messages.setdefault(message, message) for message in messages)

    def names(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The names, as the first equal object."""
        return self._names.setdefault(names, names)


def seconds(value: Any) -> float | None:
    """Convert a time of a log into seconds since 1970; None if it is no time.

    Numbers (also as texts) are seconds, milli-, micro- or nanoseconds, by their size; other texts are ISO 8601, in
    UTC where they name no zone.
    """
    if isinstance(value, str):
        try:
            value = int(value)
        except ValueError:
            return _iso(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e21:
        return None
    while value >= 1e11:  # in seconds that would be the year 5138
        value /= 1000
    return float(value)


def _iso(text: str) -> float | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    timestamp = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return timestamp if timestamp > 0 else None


def iso(moment: float) -> str:
    """A time in ISO 8601, UTC, as datasets have it, with microseconds unless they are 0."""
    return datetime.fromtimestamp(moment, UTC).isoformat()


def text_or_none(value: Any) -> str | None:
    """An id as text; an empty one is none."""
    return None if value is None else str(value) or None


def get(data: Mapping[str, Any], *names: str) -> Any:
    """The value of the first of the fields that is present and not null."""
    return next((data[name] for name in names if data.get(name) is not None), None)
