"""Faulty files: small valid files, edits that break them, and the error that a command ends with."""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any
from unittest import mock

import yaml

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FACTS = HERE / "facts.jsonl"

_LINE = re.compile(r"([^\s:;,(){}'\"]+), line (\d+)")
_QUOTED = re.compile(r"(?<!\w)'([^'\n]{0,60})'(?!\w)")
_IDENTIFIER = re.compile(r"[A-Za-z0-9*%-]+(?:[_:./=@|][A-Za-z0-9*%-]+)+|(?<![\w.-])-?\d[\d.,]*(?!\w)")
_KNOWN = re.compile(r"(?:\bKnown: |\bmapping of ).*", re.DOTALL)  # the names that there are, all of them


@dataclass(frozen=True)
class Case:
    """A command, the files that it reads, and the edits that make one of them faulty.

    Attributes:
        id: format and name.
        command: arguments of `ctxbench`.
        files: texts of valid files by path.
        copies: folders of the project by the path that they are copied to.
        before: commands that make further valid files of these.
        edits: changes of these files, see `edit`.
    """

    id: str
    command: tuple[str, ...]
    files: Mapping[str, str]
    copies: Mapping[str, str]
    before: tuple[tuple[str, ...], ...]
    edits: tuple[Mapping[str, Any], ...]

    def write(self, folder: Path, cache_folder: Path) -> None:
        """Write the files into a folder, edited; the valid ones of a format are made once, in the cache."""
        valid = cache_folder / "valid" / self.id.partition("/")[0]
        if not valid.exists():
            self._write_valid(valid, cache_folder)
        shutil.copytree(valid, folder, dirs_exist_ok=True)
        for change in self.edits:
            edit(folder / change.get("in", next(iter(self.files), "")), change)

    def _write_valid(self, folder: Path, cache_folder: Path) -> None:
        for target, source in self.copies.items():
            shutil.copytree(ROOT / source, folder / target)
        for name, text in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        for command in self.before:
            with chdir(folder), environment(cache_folder), redirect_stderr(StringIO()):
                error, code, output = _error_of(command)
            if error is not None or code:
                raise RuntimeError(f"{self.id}: {' '.join(command)} ended with {code}: {output}") from error


def environment(cache_folder: Path) -> AbstractContextManager[object]:
    """The environment of a command: a cache, no network, no settings of the user."""
    names = {"CTXBENCH_OFFLINE": "1", "COLUMNS": "120", "CTXBENCH_MODEL": "", "GITHUB_STEP_SUMMARY": ""}
    return mock.patch.dict(
        os.environ, {**names, "CTXBENCH_CACHE": str(cache_folder), "HF_HUB_CACHE": str(cache_folder / "hub")}
    )


def edit(path: Path, change: Mapping[str, Any]) -> None:
    """Change one file: `replace` and `with`, `delete_line`, `repeat_line`, `cut` (and all that follows), `append`,
    `write` (a new text), `encoding` (another one), `remove` (the file).
    """
    if "remove" in change:
        path.unlink()
        return
    if "write" in change:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(change["write"], "utf-8")
        return
    text = path.read_text("utf-8")
    for key in ("replace", "delete_line", "repeat_line", "cut"):
        if change.get(key, "") not in text:
            raise ValueError(f"{path.name} holds no {change[key]!r} to edit")
    if "replace" in change:
        text = text.replace(change["replace"], change["with"], 1)
    for key, times in (("delete_line", 0), ("repeat_line", 2)):
        if key in change:
            lines = text.splitlines(keepends=True)
            index = next(i for i, line in enumerate(lines) if change[key] in line)
            text = "".join([*lines[:index], *[lines[index]] * times, *lines[index + 1 :]])
    if "cut" in change:
        text = text[: text.index(change["cut"])]
    text += change.get("append", "")
    path.write_bytes(text.encode(change.get("encoding", "utf-8")))


def read_cases() -> list[Case]:
    """All cases, by format."""
    return [case for path in sorted((HERE / "cases").glob("*.yaml")) for case in _format_cases(path)]


def _format_cases(path: Path) -> Iterator[Case]:
    document = yaml.safe_load(path.read_text("utf-8"))
    for name, change in document["cases"].items():
        edits = change if isinstance(change, list) else [change]
        command = next((one["command"] for one in edits if "command" in one), document["command"])
        yield Case(
            id=f"{path.stem}/{name}",
            command=tuple(command.split() if isinstance(command, str) else command),
            files=document.get("files", {}),
            copies=document.get("copies", {}),
            before=tuple(tuple(words.split()) for words in document.get("before", [])),
            edits=tuple(one for one in edits if set(one) - {"command"}),
        )


def run(case: Case, folder: Path, cache_folder: Path) -> dict[str, Any]:
    """Write the files of a case into an empty folder, run its command in this process, and return the facts.

    Returns:
        `error`: the error's class, `none` where there is none, the exit code where a command prints faults. `faults`:
        of each fault, or without an error of each notice, the `file` and `line` that it names, and its `terms`: what it
        quotes, identifiers and numbers. `written`: files and folders that changed.
    """
    case.write(folder, cache_folder)
    before = _contents(folder)
    with chdir(folder), environment(cache_folder), redirect_stderr(StringIO()) as err, _warnings_to(err):
        error, code, output = _error_of(case.command)
    after = _contents(folder)
    written = sorted({Path(name).parts[0] for name in {*before, *after} if before.get(name) != after.get(name)})
    if error is not None:
        facts: dict[str, Any] = {"error": _class_name(error)}
        faults = list(_faults(error))
    else:
        facts = {"error": f"exit {code}" if code else "none"}
        lines = output.splitlines()
        notices = [line for line in lines if _QUOTED.search(line) or _LINE.search(line)]
        faults = [(line.strip(), "", 0) for line in (lines if code else [*err.getvalue().splitlines(), *notices])]
    facts["faults"] = [_fault(message, path, line, folder) for message, path, line in faults]
    return {**facts, **({"written": written} if written else {})}


def _error_of(command: Sequence[str]) -> tuple[BaseException | None, int, str]:
    """The error that a command ends with, if any, its exit code and its output."""
    with redirect_stdout(StringIO()) as out:
        try:
            code = _app().main(list(command), prog_name="ctxbench", standalone_mode=False)
        except BaseException as error:  # noqa: BLE001 - a traceback is a fact, too
            return error, 0, ""
    return None, code or 0, out.getvalue()


@contextmanager
def _warnings_to(stream: StringIO) -> Iterator[None]:
    """Write what is logged to a stream, also where pytest takes it."""
    handler = logging.StreamHandler(stream)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)


@cache
def _app() -> Any:
    from typer.main import get_command

    from ctxbench.cli.app import app

    return get_command(app)


def _class_name(error: BaseException) -> str:
    from ctxbench.io.errors import UserError

    expected = isinstance(error, UserError | OSError) or type(error).__module__.startswith(("typer", "click"))
    return type(error).__name__ if expected else f"traceback: {type(error).__name__}"


def _faults(error: BaseException) -> Iterator[tuple[str, str, int]]:
    for fault in getattr(error, "faults", ()):
        yield fault.message, "" if fault.path is None else str(fault.path), fault.line
    if not hasattr(error, "faults"):
        yield str(error), "", 0


def _fault(message: str, path: str, line: int, folder: Path) -> dict[str, Any]:
    for prefix in (f"{folder}/", str(folder)):
        message, path = message.replace(prefix, ""), path.replace(prefix, "")
    if not path and (place := _LINE.search(message)):
        path, line = place[1], int(place[2])
    shown = _LINE.sub("", _KNOWN.sub("", message))
    words = [*_QUOTED.findall(shown), *_IDENTIFIER.findall(_QUOTED.sub(" ", shown))]
    terms = dict.fromkeys(word.rstrip(".,") for word in words if re.match(r"[^<\\]*\w", word))
    return {**({"file": path} if path else {}), **({"line": line} if line else {}), "terms": [*terms][:12]}


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
