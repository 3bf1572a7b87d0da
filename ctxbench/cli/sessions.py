"""The session and the history that `ctxbench select` takes."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ctxbench.core.errors import Fault, InputError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctxbench.core.items import Catalog
    from ctxbench.core.requests import Message
    from ctxbench.selectors.definition import Definition
    from ctxbench.selectors.parameters import Value
    from ctxbench.session import Session


@dataclass(frozen=True)
class Chat:
    """The session and the history of a request.

    Attributes:
        session: a session's file, or None for a new one.
        history: a file of messages or of stored conversations (FILE or FILE#CONVERSATION), or None.
        add, remove: ids, or paths of files, each changed in the session before the request is asked; no file is.
        tool_results: TOOL=FILE, each: what a tool that was called for the request has answered.
    """

    session: Path | None = None
    history: str | None = None
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    tool_results: tuple[str, ...] = ()

    @property
    def alone(self) -> bool:
        """Whether the request has no session and no history."""
        return (self.session, self.history, self.add, self.remove) == (None, None, (), ())


def open_session(
    chat: Chat, catalog: Catalog, definition: Definition, preset: str | None, overrides: Mapping[str, Value]
) -> Session:
    """The session of a request, with what the options change in it.

    Raises:
        UserError: a file is faulty, a change is none, a preset is named although the session has settings, or one
            of `overrides` has no effect with them.
    """
    from ctxbench.session import Agent, Session, read_session

    agent = Agent(catalog=catalog, selector=definition, settings=definition.values(preset))
    if chat.session is None:
        session = Session.start(agent, "select")
    else:
        session = read_session(chat.session, agent)
        changed = [name for name, value in session.settings.items() if value != agent.settings[name]]
        if preset is not None and changed:
            raise ParameterError(f"{chat.session} has settings of its own ({', '.join(changed)}); leave out the preset")
    for key in chat.remove:
        session = session.remove(_id_of(key, catalog))
    for key in chat.add:
        session = session.add(_id_of(key, catalog))
    session = session.with_settings(**overrides)
    if idle := [fault for name in overrides if (fault := definition.idle(name, session.settings))]:
        raise ParameterError("; ".join(idle))
    return session


def _id_of(text: str, catalog: Catalog) -> str:
    """The id of a file, or of a part of one, that is named as answers name it; else the text itself."""
    from ctxbench.core.items import ItemKey

    files = (ItemKey(kind, None, text) for kind in ("file", "chunk"))
    return next((key.id for key in files if catalog.find(key) is not None), text)


def read_tool_results(pairs: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The results of tools, (tool, text), from TOOL=FILE.

    Raises:
        ParameterError: one is not of this form.
        StorageError: a file is missing or cannot be read.
    """
    from ctxbench.io.files import read_text

    results = []
    for pair in pairs:
        tool, mark, file = pair.partition("=")
        if not (tool and mark and file):
            raise ParameterError(
                f"--tool-result needs TOOL=FILE, the tool's name and a text file of what it answered; got {pair!r}"
            )
        results.append((tool, read_text(Path(file))))
    return tuple(results)


def read_history(source: str) -> tuple[Message, ...]:
    """Earlier messages from a JSON list of `{"role", "content"}`, or of one stored conversation.

    Args:
        source: a file, FILE#CONVERSATION where a store holds several, or the list itself.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: it is neither; file and line of all faults.
        ParameterError: it holds several conversations, or not the one that is named.
    """
    from ctxbench.io.files import read_text
    from ctxbench.session import ConversationStore

    if source.lstrip().startswith("[") and not Path(source[:200]).exists():
        return _messages(source, Path("--history"))
    name, mark, conversation = (source, "", "") if Path(source).exists() else source.rpartition("#")
    path = Path(name if mark else source)
    text = read_text(path)
    if text.lstrip().startswith("["):
        if mark:
            raise ParameterError(f"{path} is a list of messages, not of conversations; leave out #{conversation}")
        return _messages(text, path)
    if re.match(r'\s*\{\s*"(role|content)"', text):
        problem = 'messages must be a JSON list, [{"role": "user", "content": "..."}, ...]; put them in brackets'
        raise InputError([Fault(problem, path, 1)])
    exchanges = ConversationStore(path).exchanges()
    names = list(dict.fromkeys(exchange.conversation for exchange in exchanges))
    if mark and conversation not in names:
        raise ParameterError(f"{path} holds no conversation {conversation!r}; it holds {_listed(names)}")
    if not mark and len(names) > 1:
        problem = f"{path} holds {len(names)} conversations; name one, as {path}#{names[0]}; it holds {_listed(names)}"
        raise ParameterError(problem)
    chosen = conversation if mark else next(iter(names), "")
    return tuple(message for exchange in exchanges if exchange.conversation == chosen for message in exchange.messages)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:12])) + (", ..." if len(names) > 12 else "") if names else "none"


def _messages(text: str, path: Path) -> tuple[Message, ...]:
    """The messages of a JSON list, entry by entry, so that a fault has its line."""
    from ctxbench.io.json_files import parse_json
    from ctxbench.session.exchange import read_message

    entries = parse_json(text, path=path)
    decoder, position, faults, out = json.JSONDecoder(), text.index("[") + 1, [], []
    for number, entry in enumerate(entries, start=1):
        while text[position] in " \t\r\n,":
            position += 1
        line = text.count("\n", 0, position) + 1
        _, position = decoder.raw_decode(text, position)
        try:
            out.append(read_message(entry))
        except TypeError:
            problem = f'message {number}: expected {{"role", "content"}}, both texts, got {entry!r:.60}'
            faults.append(Fault(problem, path, line))
        except ParameterError as error:
            faults.append(Fault(f"message {number}: {error}", path, line))
    if faults:
        raise InputError(faults)
    return tuple(out)
