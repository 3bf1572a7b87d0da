"""Sessions and conversations in files.

A session is one JSON object of names only, so that it outlives its process. Conversations are JSON lines, an exchange a
line. Several processes and threads may use one file. A line is on disk before `append` returns. What a crash cut short
is the last line, without its line end; readers pass over it and the next `append` takes it off, as its call never
returned.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ctxbench.core.errors import Fault, InputError, StorageError, UserError
from ctxbench.core.pipeline import PipelineError
from ctxbench.core.requests import Message, SessionItem
from ctxbench.io.files import exclusive, read_text, readable, write_atomic
from ctxbench.io.json_files import dump_json, parse_json
from ctxbench.io.rows import Row, read_key, read_text_value
from ctxbench.session.exchange import Exchange, is_format, message_hash, read_exchange
from ctxbench.session.session import Agent, Session

FORMAT = 1
_BOM = b"\xef\xbb\xbf"
_LAST = 64  # bytes of what was read that must still stand where they stood, or the file is another one
_FIELDS = ("format", "id", "selector", "items", "removed", "settings", "workspace", "user")


def write_session(session: Session, path: Path | str) -> None:
    """Write a session, whole or not at all.

    Raises:
        StorageError: the place cannot be written.
    """
    write_atomic(path, dump_json({"format": FORMAT, **session.as_dict()}, indent=2))


def read_session(path: Path | str, agent: Agent) -> Session:
    """Read a session, over the agent as it is now; building a request warns of items that the agent lacks.

    A file without `items` starts a new session: with the agent's `always` items, but those it removes.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: it is no session, or one of another selector, with file and line.
    """
    file, text = Path(path), read_text(path)
    data = parse_json(text, path=file)
    if not isinstance(data, dict):
        raise InputError([Fault(f'expected a session, {{"items": [{{"id", "mode"}}]}}, got {data!r:.40}', file, 1)])
    faults: list[Fault] = []
    row = Row(data, faults, file, 1, {(name,): _line_of(name, text) for name in data})
    if not is_format(row, FORMAT):
        raise InputError(faults)
    row.refuse_unknown(_FIELDS)
    selector = row.take("selector", str, agent.selector.name)
    if selector != agent.selector.name:
        row.fault(f"the session is of selector {selector!r}, and {agent.selector.name!r} is asked", at="selector")
    name = row.take("id", str, file.stem)
    if not name:
        row.fault("field 'id' must not be empty", at="id")
    items = row.read_list("items", _item, expected='{"id", "mode"}, mode always or manual')
    removed = row.read_list("removed", read_key, expected="an item id")
    workspace, user = row.filled("workspace"), row.filled("user")
    if data.get("items") is None:
        fresh = Session.start(agent, name, workspace=workspace, user=user)
        items = tuple(item for item in fresh.items if item.key not in removed)
    settings = row.take("settings", dict, {})
    if not faults:
        try:
            return Session(
                id=name,
                agent=agent,
                items=items,
                removed=removed,
                settings=settings,
                workspace=workspace,
                user=user,
            )
        except UserError as error:  # each names what is wrong
            of_settings = isinstance(error, PipelineError) or any(key in str(error) for key in settings)
            row.fault(str(error), at="settings" if of_settings else "items")
    raise InputError(faults)


def _item(value: Any) -> SessionItem:
    if not isinstance(value, dict) or not {"id"} <= set(value) <= {"id", "mode"}:
        raise TypeError
    return SessionItem(read_key(value["id"]), read_text_value(value.get("mode", "manual")))


def _line_of(name: str, text: str) -> int:
    """The 1-based line in which a field's name first occurs before a colon."""
    match = re.search(rf"{re.escape(dump_json(name))}\s*:", text)
    return 1 if match is None else text.count("\n", 0, match.start()) + 1


class ConversationStore:
    """Exchanges by conversation, in the order in which they were stored.

    It follows the file: what other processes add is there at the next call. A file that is not there is empty.
    """

    def __init__(self, path: Path | str) -> None:
        """Name the file, which need not exist; nothing is read yet."""
        self.path = Path(path)
        self._one_thread = threading.RLock()
        self._forget()

    def _forget(self) -> None:
        self._file: tuple[int, int] | None = None  # which file was read: device and inode
        self._read = self._line = 0  # whole lines read, in bytes and lines
        self._last = self._tail = b""  # the end of what was read, and what follows it without a line end
        self._rows: list[tuple[Exchange, int]] = []
        self._messages: dict[str, dict[str, Message]] = {}  # by conversation and hash

    def exchanges(self, conversation: str | None = None) -> tuple[Exchange, ...]:
        """All exchanges, or those of one conversation (none if there is no such one).

        Raises:
            StorageError: the file cannot be read.
            InputError: lines are no exchanges; all of them.
        """
        return tuple(exchange for exchange, _ in self.numbered() if conversation in (None, exchange.conversation))

    def numbered(self) -> tuple[tuple[Exchange, int], ...]:
        """All exchanges with their lines, from 1; raises as `exchanges`."""
        with self._one_thread:
            self._follow()
            if not _is_whole(self._tail):
                return tuple(self._rows)
            faults: list[Fault] = []
            exchange = self._exchange(self._tail, self._line + 1, faults)
            if exchange is None or faults:
                raise InputError(faults)
            return (*self._rows, (exchange, self._line + 1))

    def history(self, conversation: str) -> tuple[Message, ...]:
        """The messages of user and assistant so far, oldest first; raises as `exchanges`."""
        return tuple(message for exchange in self.exchanges(conversation) for message in exchange.messages)

    def append(self, exchange: Exchange) -> None:
        """Write an exchange to the file, whole or not at all.

        Raises:
            StorageError: the disk is full, or the place cannot be written.
            InputError: the file holds lines that are no exchanges.
        """
        with self._alone():
            self._follow()
            messages = self._messages.get(exchange.conversation, {}).values()
            line = (dump_json(exchange.as_row(messages)) + "\n").encode("utf-8")
            size = self._read
            if _is_whole(self._tail):  # written by hand, or cut short by nothing but its line end
                line, size = b"\n" + line, size + len(self._tail)
            try:
                with self.path.open("ab") as stream:
                    stream.truncate(size)
                    try:
                        stream.write(line)
                        stream.flush()
                        os.fsync(stream.fileno())
                    except OSError:
                        stream.truncate(size)
                        raise
            except OSError as error:
                problem = f"cannot write {self.path}: {error.strerror or error}; the exchange was not stored"
                raise StorageError(problem) from error
            self._follow()

    def remove(self, conversation: str) -> int:
        """Remove a conversation from the file; returns how many exchanges it had.

        Raises:
            StorageError: the file cannot be read or written; nothing was changed.
            InputError: it holds lines that are no exchanges.
        """
        with self._alone():
            rows = self.numbered()
            gone = {line for exchange, line in rows if exchange.conversation == conversation}
            if gone:
                lines = self.path.read_bytes()[: self._read].split(b"\n")[:-1]
                lines += [self._tail] if _is_whole(self._tail) else []
                remaining = [text for number, text in enumerate(lines, start=1) if number not in gone]
                write_atomic(self.path, b"".join(text + b"\n" for text in remaining))
                self._forget()
            return len(gone)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock of the file and of this object."""
        with self._one_thread, exclusive(self.path.with_name(f".{self.path.name}.lock"), waiting=lambda: None):
            yield

    def _follow(self) -> None:
        """Read the lines added since the last call; a file that was replaced is read whole."""
        try:
            with readable(self.path).open("rb") as stream:
                at = os.fstat(stream.fileno())
                stream.seek(self._read - len(self._last))
                if self._file != (at.st_dev, at.st_ino) or stream.read(len(self._last)) != self._last:
                    self._forget()
                    self._file = at.st_dev, at.st_ino
                stream.seek(self._read)
                data = stream.read()
        except FileNotFoundError:
            self._forget()
            return
        except OSError as error:
            raise StorageError(f"cannot read {self.path}: {error.strerror or error}; expected a file") from error
        end = data.rfind(b"\n") + 1
        self._tail = data[end:]
        self._take(data[:end])

    def _take(self, data: bytes) -> None:
        """Read complete lines; if one is faulty, the next call reads the file whole."""
        faults: list[Fault] = []
        lines = data.split(b"\n")[:-1]
        for number, raw in enumerate(lines, start=self._line + 1):
            exchange = self._exchange(raw, number, faults) if raw.strip() else None
            if exchange is not None:
                self._rows.append((exchange, number))
                messages = self._messages.setdefault(exchange.conversation, {})
                messages |= {message_hash(message): message for message in (*exchange.history, *exchange.messages)}
        if faults:
            self._forget()
            raise InputError(faults)
        self._read += len(data)
        self._line += len(lines)
        self._last = (self._last + data)[-_LAST:]

    def _exchange(self, raw: bytes, number: int, faults: list[Fault]) -> Exchange | None:
        """The exchange of a line; faults are added to `faults`."""
        try:
            text = (raw.removeprefix(_BOM) if number == 1 else raw).decode("utf-8")
            data = parse_json(text, path=self.path, line=number)
        except UnicodeDecodeError:
            faults.append(Fault("invalid UTF-8; expected a stored exchange", self.path, number))
            return None
        except InputError as error:
            faults += error.faults
            return None
        if not isinstance(data, dict):
            faults.append(Fault("expected a stored exchange, a JSON object on each line", self.path, number))
            return None
        conversation = data.get("conversation")
        messages = self._messages.get(conversation, {}) if isinstance(conversation, str) else {}
        return read_exchange(Row(data, faults, self.path, number), messages)


def _is_whole(tail: bytes) -> bool:
    """Whether a last line without a line end is a complete JSON object."""
    try:
        return isinstance(json.loads(tail), dict)
    except (ValueError, RecursionError):
        return False
