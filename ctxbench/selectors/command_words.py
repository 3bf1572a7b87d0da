"""Checks the words of a command before it is started: the program and the script that it runs."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from ctxbench.core.errors import ParameterError
from ctxbench.sources.own_selectors import OWN_FORM, program_form

_OPERATOR = re.compile(r"(?:^|\s)(\|\|?|&&?|;|>>?|<|2>|2>&1)(?=\s|$)")  # of a shell, as a word of its own
_INTERPRETER = re.compile(r"(?:python|pypy)[\d.]*|node|deno|bun|ruby|perl|php|bash|sh|zsh|Rscript|lua|tsx|ts-node")
_SCRIPT = re.compile(r"\.(?:py|[cm]?[jt]s|rb|pl|php|sh|R|lua)")
_NO_SCRIPT = re.compile(r"-(?:[cmepr]$|-eval|-print|-require|-import|-loader)")  # options that a word of theirs follows


def split_command(command: str) -> list[str]:
    """Split a text as a shell would.

    Raises:
        ParameterError: it cannot be split, or something in it is for a shell, which does not run it.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ParameterError(f"command cannot be split into words: {error}; give it as a list") from error
    if (operator := _OPERATOR.search(command)) and operator.group(1) in words:
        shell = f"{{command: [bash, -c, {shlex.quote(command)}]}}"
        problem = f"command: no shell runs it, so that {operator.group(1)!r} would be an argument of {words[0]!r}"
        raise ParameterError(f"{problem}; name the program alone, or a shell: {shell}")
    return words


def checked_words(command: Sequence[str] | str, base: Path) -> tuple[list[str], str]:
    """The words of a command, and the program to run: of the path if it has no slash, else relative to `base`.

    Raises:
        ParameterError: it is empty, or there is no such program, or no such script for the program to run.
    """
    argv = split_command(command) if isinstance(command, str) else list(command)
    if not argv:
        raise ParameterError(f"command is empty; name the program and its arguments, {OWN_FORM}")
    if not all(isinstance(part, str) and part and "\0" not in part for part in argv):
        raise ParameterError("command must be a list of texts that are not empty, the program first")
    program = _program(argv[0], base)
    _refuse_missing_script(argv, base)
    return argv, program


def _program(name: str, base: Path) -> str:
    if Path(name).name == name:
        program = shutil.which(name)
        if program is None:
            raise ParameterError(f"command: there is no program {name!r} on the path; install it, or give its place")
        return program
    path = (base / name).absolute()
    if shutil.which(str(path)) is None:
        if not path.is_file():
            raise ParameterError(f"command: the program {name!r} does not exist{_nearest(path)}")
        how = program_form(name)
        fix = f"run `chmod +x {shlex.quote(name)}`{f', or write {how}' if how else ''}"
        raise ParameterError(f"command: the program {name!r} is not executable; {fix}")
    return str(path)


def _refuse_missing_script(argv: Sequence[str], base: Path) -> None:
    """Refuse an interpreter's script that is not there, since the interpreter would fail for every query."""
    if not _INTERPRETER.fullmatch(Path(argv[0]).name) or any(_NO_SCRIPT.match(part) for part in argv[1:]):
        return
    script = next((part for part in argv[1:] if not part.startswith("-")), "")
    path = base / script
    if _SCRIPT.fullmatch(Path(script).suffix) and not path.is_file():
        raise ParameterError(f"command: there is no file {str(path)!r} for {argv[0]} to run{_nearest(path)}")


def _nearest(missing: Path) -> str:
    """'; did you mean ...?' for the file in its folder with the nearest name; empty where there is none."""
    try:
        names = [path.name for path in missing.parent.iterdir() if path.is_file()]
    except OSError:
        return ""
    close = get_close_matches(missing.name, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
