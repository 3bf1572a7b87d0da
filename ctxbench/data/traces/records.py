"""What one line or one model call of a log says, whatever its form, and counts of what was odd in it."""

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
class Below:
    """A model call further down, of a sub-agent or a helper: what it was offered (None = not said) and called."""

    offered: tuple[str, ...] | None
    calls: tuple[Call, ...]


@dataclass(slots=True, kw_only=True)
class Record:
    """One line or one model call.

    Attributes:
        place: 1-based position in the log, over all files.
        conversation: None if the log does not say.
        turn: its number, if the log has one.
        time: seconds since 1970, if the log says.
        text: the last message of the user; None if no message is a user's.
        history: what user and assistant said before that, oldest first.
        after: what the assistant said after it.
        users: how many messages are the user's.
        key: tells what was said up to the user's last message from anything else.
        continued: messages come after the user's last one, so this is not the first call of its turn.
        finished: the last message is an answer, without a call.
        offered: names; None if the log does not say.
        everything: the log says that everything was offered.
        partial: the log says that it was not, whatever it lists.
        available: names of all that the request may get; None if the log does not say.
        scope: the name of a scope of the catalog's dataset.
        calls: in the order of the log.
        needs_nothing: the log says that someone judged so.
        session, explicit: names of items, and modes for the session; None and empty if the log does not say.
        tool_results: (tool, text) that the request came with.
        cumulative: `calls` come from messages, which later records of the turn hold again.
        executed: calls as the spans of their execution have them.
        unit: records of one unit (a trace, an agent's invocation) with the same `key` are of one turn.
        below: model calls of sub-agents and helpers that belong to this one.
        earlier: how many calls stand before the user's last message.
        asked: tells each of the user's messages from other texts, oldest first.
        doubtful: which text is the user's, or what belongs to it, is not certain.
    """

    place: int
    conversation: str | None = None
    turn: int | None = None
    time: float | None = None
    user: str | None = None
    workspace: str | None = None
    text: str | None = None
    history: tuple[Message, ...] = ()
    after: tuple[Message, ...] = ()
    users: int = 0
    key: int = 0
    continued: bool = False
    finished: bool = False
    offered: tuple[str, ...] | None = None
    everything: bool = False
    partial: bool = False
    available: tuple[str, ...] | None = None
    scope: str | None = None
    calls: tuple[Call, ...] = ()
    needs_nothing: bool = False
    session: tuple[tuple[str, str], ...] | None = None
    explicit: tuple[str, ...] = ()
    tool_results: tuple[tuple[str, str], ...] = ()
    cumulative: bool = False
    executed: tuple[Call, ...] = ()
    unit: str | None = None
    below: tuple[Below, ...] = ()
    earlier: int = 0
    asked: tuple[int, ...] = ()
    doubtful: bool = False


@dataclass
class Tally:
    """What was odd, counted while a log is read; see the table of counts in `datasets/traces.md`.

    Attributes:
        counts: by name.
        faults: what could not be read, with file and line.
        ignored: fields that nothing reads, by how often they stand there.
        skew: the furthest that a time lies before the one it should follow, in seconds.
    """

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    skew: float = 0.0

    def skewed(self, seconds: float) -> None:
        """Count a time that lies before the one it should follow."""
        self.counts["clock_skew"] += 1
        self.skew = max(self.skew, seconds)


class Shared:
    """Equal values as one object: a log repeats a conversation's messages in every one of its lines."""

    def __init__(self) -> None:
        self._messages: dict[Message, Message] = {}
        self._names: dict[tuple[str, ...], tuple[str, ...]] = {}

    def messages(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The same messages."""
        return tuple(self._messages.setdefault(message, message) for message in messages)

    def names(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The same names."""
        return self._names.setdefault(names, names)


def seconds(value: Any) -> float | None:
    """Seconds since 1970 of a time as logs have it, or None if it is none.

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
    found = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return found if found > 0 else None


def iso(moment: float) -> str:
    """A time as datasets have it: ISO 8601, UTC, to the microsecond where it has any."""
    return datetime.fromtimestamp(moment, UTC).isoformat()


def get(data: Mapping[str, Any], *names: str) -> Any:
    """The first of the fields that is there and not null."""
    return next((data[name] for name in names if data.get(name) is not None), None)
