"""Sessions in files: JSON, names only, so that a session outlives its process."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ctxbench.core.errors import Fault, InputError, UserError
from ctxbench.core.pipeline import PipelineError
from ctxbench.core.requests import SessionItem
from ctxbench.io.files import read_text, write_atomic
from ctxbench.io.json_files import dump_json, parse_json
from ctxbench.io.rows import Row, read_key, read_text_value
from ctxbench.session.exchange import is_format
from ctxbench.session.session import Agent, Session

FORMAT = 1
_FIELDS = ("format", "id", "selector", "items", "removed", "settings", "workspace", "user")


def write_session(session: Session, path: Path | str) -> None:
    """Write a session, whole or not at all.

    Raises:
        StorageError: the place cannot be written.
    """
    write_atomic(path, dump_json({"format": FORMAT, **session.as_dict()}, indent=2))


def read_session(path: Path | str, agent: Agent) -> Session:
    """Read a session back, over the agent as it is now; what it has not is named when a request is built.

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
    items = row.each("items", _item, expected='{"id", "mode"}, mode always or manual')
    removed = row.each("removed", read_key, expected="an item id")
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
    """The 1-based line of a field: where its name first stands before a colon."""
    found = re.search(rf"{re.escape(dump_json(name))}\s*:", text)
    return 1 if found is None else text.count("\n", 0, found.start()) + 1
