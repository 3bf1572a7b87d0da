"""The kind of a file of JSON lines, by its fields, for messages where another kind is expected."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ctxbench.core.errors import Fault, UserError
from ctxbench.io.json_files import iter_jsonl
from ctxbench.sources.catalogs import CORPUS
from ctxbench.sources.toollists import read_tool_list

_EXPECTING = re.compile(r"expect|forbid|include|exclude|avoid|relevant|(must|should|not)_?use|tools$", re.IGNORECASE)
_LOGGED = ("messages", "called", "offered", "resourceSpans")


def other_kind(path: Path | str) -> str:
    """The kind of a file that is neither a catalog nor memories, and what to do with it; empty if unknown.

    Lists of tools, evals, answers of a selector and logs are recognised. Files with ids of items (`_id`) are not.

    Raises:
        StorageError: the file is missing or cannot be read.
    """
    unreadable: list[Fault] = []
    rows = [row for _, row in iter_jsonl(path, unreadable)]
    return _kind_of_tools(Path(path), rows) or _kind_of_rows(rows, path)


def _kind_of_tools(path: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    try:
        if path.name == CORPUS or any("_id" in row for row in rows) or not read_tool_list(path).items:
            return ""
    except UserError:
        return ""
    how = shlex.join(["ctxbench", "data", "import", "tools", str(path)])
    return f"it is a list of tools; turn it into a catalog: `{how} --out FOLDER`"


def _kind_of_rows(rows: Sequence[Mapping[str, Any]], path: Path | str) -> str:
    names = {str(name) for row in rows for name in row}
    if "_id" in names or not rows:
        return ""
    command = shlex.join(["ctxbench", "data", "import", "NAME", str(path)]).replace
    if any(name in names for name in _LOGGED):
        return f"it is a log; make a dataset of it with `{command('NAME', 'traces')} --catalog CATALOG --out FOLDER`"
    if "query" in names and names & {"items", "ranking"}:
        score = shlex.join(["ctxbench", "score", str(path), "--dataset", "DATASET"])
        return f"it holds a selector's answers; score them with `{score}`"
    if expects(rows) and any(isinstance(value, str) for row in rows for value in row.values()):
        how = f"{command('NAME', 'golden')} --catalog CATALOG --out FOLDER"
        return f"it holds evals, requests with what is expected; make a dataset of them with `{how}`"
    return ""


def expects(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a row has a field for the items that a request should be offered."""
    return any(_EXPECTING.search(str(name)) for row in rows for name in row)
