"""Replies and what was offered for them, from stored conversations and from logs of agents."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from ctxbench.core.errors import Fault, InputError, ParameterError
from ctxbench.core.items import ITEM_TYPES, Catalog, Item, ItemKey
from ctxbench.data.traces.conversations import Turn, conversations
from ctxbench.data.traces.log_reader import read_records
from ctxbench.data.traces.records import LogFindings, iso
from ctxbench.io.files import iter_lines, readable
from ctxbench.session.exchange import Exchange
from ctxbench.session.store import ConversationStore
from ctxbench.sources.names import Names

_HISTORY = 1000  # earlier messages of a trace that are looked at


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One reply and what it was given.

    Attributes:
        conversation: an id; distinct over all files.
        where: file and line, or file and conversation.
        asked: what the user said, this message last.
        text: what the assistant said.
        offered: mode by item; an empty mode is not known. None: the log does not say what was offered.
        called: tools that were called.
        unknown: names that were called or offered and are no item, or of several.
        time: ISO 8601, or None.
    """

    conversation: str
    where: str
    asked: tuple[str, ...]
    text: str
    offered: Mapping[ItemKey, str] | None
    called: tuple[ItemKey, ...] = ()
    unknown: tuple[str, ...] = ()
    time: str | None = None


@dataclass(frozen=True, kw_only=True)
class Replies:
    """All replies of some files.

    Attributes:
        replies: in the order of the files.
        catalog: the items that they are about: as given, or what the files name (without texts).
        faults: lines of logs that could not be read.
    """

    replies: tuple[Reply, ...]
    catalog: Catalog
    faults: tuple[Fault, ...] = ()


@dataclass(kw_only=True)
class _Said:
    """A reply with the names as the file has them."""

    conversation: str
    where: str
    asked: tuple[str, ...]
    text: str
    offered: dict[str, str] | None
    calls: tuple[str, ...]
    everything: bool = False
    time: str | None = None


@dataclass
class _Files:
    """What is read, file by file."""

    said: list[_Said] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


def read_replies(paths: Sequence[Path], catalog: Catalog | None = None) -> Replies:
    """Read stored conversations and logs, in any mixture of files (each file is one or the other).

    Args:
        paths: files of `ConversationStore`, or logs as `ctxbench data import traces` reads them.
        catalog: the items; None: those that the files name, of which nothing but the name is known.

    Raises:
        StorageError: a file is missing or cannot be read.
        InputError: a line of a stored conversation is faulty, or most lines of a log are; file and line of all.
        ParameterError: a file is named twice, none holds a reply, or a log says that everything was offered and there
            is no catalog.
    """
    once = {path.resolve(): path for path in paths}
    if len(once) < len(paths):
        twice = next(path for path in paths if once[path.resolve()] is not path)
        raise ParameterError(f"{twice} is named twice, so that its replies would count twice; name it once")
    files = _Files()
    for number, path in enumerate(paths):
        if _is_store(path):
            files.said += _stored(path, number)
        else:
            findings = LogFindings()
            records = read_records([path], findings, history=_HISTORY)
            for turns in conversations(records, findings, history=_HISTORY):
                files.said += _logged(turns, path, number)
            files.faults += findings.faults
    if not files.said:
        if files.faults:
            raise InputError(files.faults)
        raise ParameterError(
            f"no reply in {', '.join(map(str, paths))}: expected stored conversations or a log with messages"
        )
    items = _named(files.said) if catalog is None else catalog
    names = Names(items)
    return Replies(
        replies=tuple(_resolved(one, names, catalog) for one in files.said), catalog=items, faults=tuple(files.faults)
    )


def _is_store(path: Path) -> bool:
    """Whether the first line of a file is a stored exchange."""
    first = next((text for _, text in iter_lines(readable(path, again=True), []) if text.strip()), "")
    try:
        row = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(row, dict) and "requestContext" in row


def _stored(path: Path, number: int) -> Iterator[_Said]:
    for exchange, line in ConversationStore(path).numbered():
        yield _Said(
            conversation=f"{number}:{exchange.conversation}",
            where=f"{path}, line {line}",
            asked=_asked(exchange),
            text=exchange.reply,
            offered={held.key.id: held.mode for held in exchange.context},
            calls=exchange.calls,
            time=exchange.time,
        )


def _asked(exchange: Exchange) -> tuple[str, ...]:
    return (*(message.content for message in exchange.history if message.role == "user"), exchange.text)


def _logged(turns: Sequence[Turn], path: Path, number: int) -> Iterator[_Said]:
    for turn in turns:
        first = turn.records[0]
        name = first.conversation or f"at {first.place}"
        offers = [record.offered for record in turn.records if record.offered is not None]
        session = [pair for record in turn.records for pair in record.session or ()]
        everything = any(record.everything for record in turn.records)
        if everything:
            available = [record.available for record in turn.records if record.available is not None]
            offers += available
            everything = not available and not any(record.scope for record in turn.records)  # a scope is a dataset's
        known = bool(offers or session or everything)
        answers = max((record.after for record in turn.records), key=len)
        time = turn.time
        yield _Said(
            conversation=f"{number}:{name}",
            where=f"{path}, conversation {name}, turn {turn.number + 1}",
            asked=(*(message.content for message in turn.history if message.role == "user"), turn.text),
            text="\n".join(message.content for message in answers if message.role == "assistant"),
            offered={**dict.fromkeys(chain.from_iterable(offers), ""), **dict(session)} if known else None,
            calls=tuple(call.name for call in turn.calls if call.status != "unknown_tool"),
            everything=everything,
            time=None if time is None else iso(time),
        )


def _named(said: Iterable[_Said]) -> Catalog:
    """The items that files name: ids as they are, other names as tools."""
    keys: dict[ItemKey, None] = {}
    for one in said:
        if one.everything:
            raise ParameterError(f"{one.where} says that everything was offered; name the items with --catalog")
        keys |= dict.fromkeys(_key(name) for name in one.offered or ())
    return Catalog(Item(type=key.type, server=key.server, name=key.name) for key in keys)


def _key(name: str) -> ItemKey:
    try:
        key = ItemKey.parse(name)
    except ParameterError:
        return ItemKey("tool", None, name)
    return key if key.type in ITEM_TYPES else ItemKey("tool", None, name)


def _resolved(said: _Said, names: Names, catalog: Catalog | None) -> Reply:
    """A reply with items for names."""
    unknown: list[str] = []

    def key(name: str) -> ItemKey | None:
        found = names.resolve(name if catalog is not None else _key(name).id).key or names.resolve(name).key
        if found is None:
            unknown.append(name)
        return found

    offered: dict[ItemKey, str] | None = None
    if said.offered is not None:
        found = [(key(name), mode) for name, mode in said.offered.items()]
        offered = {one: mode for one, mode in found if one is not None}
        if said.everything and catalog is not None:
            offered = {**{item.key: "" for item in catalog if item.enabled}, **offered}
    called = tuple(one for one in (key(name) for name in said.calls) if one is not None)
    return Reply(
        conversation=said.conversation,
        where=said.where,
        asked=said.asked,
        text=said.text,
        offered=offered,
        called=called,
        unknown=tuple(unknown),
        time=said.time,
    )
