"""Read replies, with the items that were offered for them, from stored conversations and logs of agents."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from ctxbench.core.errors import Fault, ParameterError, none_found, raise_faults
from ctxbench.core.items import ITEM_TYPES, Catalog, Item, ItemKey
from ctxbench.data.traces.conversations import Turn, conversations
from ctxbench.data.traces.log_reader import read_records
from ctxbench.data.traces.records import LogFindings, iso
from ctxbench.io.files import iter_lines, readable
from ctxbench.session.session_files import ConversationStore
from ctxbench.sources.name_resolver import UNKNOWN, NameResolver

_HISTORY = 1000  # earlier messages of a trace that are looked at


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One reply, with the items that were offered for it.

    Attributes:
        conversation: an id; distinct over all files.
        where: file and line, or file and conversation.
        user_messages: of the conversation so far, the one that is answered last.
        text: of the reply.
        offered: mode by item; an empty mode is not known. None: the log does not say what was offered.
        called: tools that were called.
        unknown: names that were called or offered and are no item, or of several.
        time: ISO 8601, or None.
    """

    conversation: str
    where: str
    user_messages: tuple[str, ...]
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


@dataclass(frozen=True, kw_only=True)
class _RawReply:
    """A reply without items, and the names that its file has for them; `everything`: all items were offered."""

    reply: Reply
    offered: Mapping[str, str] | None
    calls: tuple[str, ...]
    everything: bool = False


def read_replies(paths: Sequence[Path], catalog: Catalog | None = None) -> Replies:
    """Read stored conversations and logs, in any mixture of files (each file is one or the other).

    Args:
        paths: files of `ConversationStore`, or logs as `ctxbench data import traces` reads them.
        catalog: the items; None: those that the files name, of which nothing but the name is known.

    Raises:
        StorageError: a file is missing or cannot be read.
        InputError: a line of a stored conversation is faulty, or most lines of a log are; file and line of all.
        ParameterError: a file is named twice, none holds a reply, a log says that everything was offered and there
            is no catalog, or nothing that the replies name is in the catalog.
    """
    once = {path.resolve(): path for path in paths}
    if len(once) < len(paths):
        twice = next(path for path in paths if once[path.resolve()] is not path)
        raise ParameterError(f"{twice} is named twice, so that its replies would count twice; name it once")
    replies: list[_RawReply] = []
    faults: list[Fault] = []
    for number, path in enumerate(paths):
        if _is_store(path):
            replies += _stored_replies(path, number)
        else:
            findings = LogFindings()
            records = read_records([path], findings, history=_HISTORY)
            for turns in conversations(records, findings, history=_HISTORY):
                replies += _logged_replies(turns, path, number)
            faults += findings.faults
    if not replies:
        raise_faults(faults)
        raise ParameterError(
            f"no reply in {', '.join(map(str, paths))}: expected stored conversations or a log with messages"
        )
    items = _named_items(replies) if catalog is None else catalog
    names = NameResolver(items)
    resolved = tuple(_resolve(raw, names, catalog) for raw in replies)
    named = list(dict.fromkeys(name for raw in replies for name in (*(raw.offered or ()), *raw.calls)))
    if named and all(names.resolve(name).rule == UNKNOWN for name in named):
        what = none_found(named, "names of the replies", "the catalog", items.ids)
        raise ParameterError(f"{what}. Is it the catalog of the agent that gave them?")
    return Replies(replies=resolved, catalog=items, faults=tuple(faults))


def _is_store(path: Path) -> bool:
    """Whether the first line of a file is a stored exchange."""
    first = next((text for _, text in iter_lines(readable(path, again=True), []) if text.strip()), "")
    try:
        row = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(row, dict) and "requestContext" in row


def _stored_replies(path: Path, number: int) -> Iterator[_RawReply]:
    for exchange, line in ConversationStore(path).numbered():
        reply = Reply(
            conversation=f"{number}:{exchange.conversation}",
            where=f"{path}, line {line}",
            user_messages=(*(m.content for m in exchange.history if m.role == "user"), exchange.text),
            text=exchange.reply,
            offered=None,
            time=exchange.time,
        )
        offered = {item.key.id: item.mode for item in exchange.context}
        yield _RawReply(reply=reply, offered=offered, calls=exchange.calls)


def _logged_replies(turns: Sequence[Turn], path: Path, number: int) -> Iterator[_RawReply]:
    begin = turns[0].records[0]  # where no conversation is named, all its turns are of the one that begins here
    name = begin.conversation or f"at {begin.place}"
    for turn in turns:
        first = turn.records[0]
        offers = [record.offered for record in turn.records if record.offered is not None]
        session = [pair for record in turn.records for pair in record.session or ()]
        everything = any(record.all_offered for record in turn.records)
        if everything:
            available = [record.available for record in turn.records if record.available is not None]
            offers += available
            everything = not available and not any(record.scope for record in turn.records)  # a scope is a dataset's
        stated = bool(offers or session or everything)
        answers = max((record.after for record in turn.records), key=len)
        reply = Reply(
            conversation=f"{number}:{begin.workspace}:{name}",
            where=f"{path}, conversation {name}, turn {turn.number + (first.turn is None)}",
            user_messages=(*(message.content for message in turn.history if message.role == "user"), turn.text),
            text="\n".join(message.content for message in answers if message.role == "assistant"),
            offered=None,
            time=None if turn.time is None else iso(turn.time),
        )
        yield _RawReply(
            reply=reply,
            offered={**dict.fromkeys(chain.from_iterable(offers), ""), **dict(session)} if stated else None,
            calls=tuple(call.name for call in turn.calls if call.status != "unknown_tool"),
            everything=everything,
        )


def _named_items(replies: Iterable[_RawReply]) -> Catalog:
    """The items that files name: ids as they are, other names as tools."""
    keys: dict[ItemKey, None] = {}
    for raw in replies:
        if raw.everything:
            raise ParameterError(f"{raw.reply.where} says that everything was offered; name the items with --catalog")
        keys |= dict.fromkeys(_key(name) for name in raw.offered or ())
    return Catalog(Item(type=key.type, server=key.server, name=key.name) for key in keys)


def _key(name: str) -> ItemKey:
    try:
        key = ItemKey.parse(name)
    except ParameterError:
        return ItemKey("tool", None, name)
    return key if key.type in ITEM_TYPES else ItemKey("tool", None, name)


def _resolve(raw: _RawReply, names: NameResolver, catalog: Catalog | None) -> Reply:
    """The reply with items for names."""
    unknown: list[str] = []

    def key(name: str) -> ItemKey | None:
        item = names.resolve(name if catalog is not None else _key(name).id).key or names.resolve(name).key
        if item is None:
            unknown.append(name)
        return item

    offered: dict[ItemKey, str] | None = None
    if raw.offered is not None:
        modes = {key(name): mode for name, mode in raw.offered.items()}
        offered = {item: mode for item, mode in modes.items() if item is not None}
        if raw.everything and catalog is not None:
            offered = {**{item.key: "" for item in catalog if item.enabled}, **offered}
    called = tuple(item for item in map(key, raw.calls) if item is not None)
    return replace(raw.reply, offered=offered, called=called, unknown=tuple(unknown))
