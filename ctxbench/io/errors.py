"""Error classes, lists of faults, and text that is safe to print.

`UserError` and its subclasses are faults in the input: the command line prints them as one message and exits with their
`exit_code`. Any other exception is a bug and keeps its traceback.

Text from others is made safe to print: characters that move the cursor, change the direction of text or hide it become
U+FFFD. Sources: Unicode's UAX #9; "Workflow commands for GitHub Actions" and actions/runner,
src/Runner.Common/ActionCommand.cs (a line that begins with `::` after blanks, and `##[` anywhere in a line).
"""

from __future__ import annotations

import difflib
import errno
import json
import math
import os
import re
import string
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote, urlsplit

MARK = "\ufffd"
STYLE = r"\x1b\[[0-9;]*m"  # a colour or weight, as our own tables have them

_SEPARATORS = "\t\n"
# Control characters, signs of direction, line ends of Unicode, half characters, and what has no width. Joiners stay:
# emoji, Persian and Indic scripts are written with them.
_OTHERS = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f"
)
_HIDDEN = re.compile(f"[{_OTHERS}]")
_HIDDEN_OR_BREAK = re.compile(f"[{_SEPARATORS}{_OTHERS}]")
_ENDS = "\r\v\f\x1c-\x1e\x85\u2028\u2029"  # of lines, beside the line feed
_COMMAND = re.compile(rf"((?:^|(?<=[{_ENDS}]))(?:[^\S\n{_ENDS}]|{STYLE})*:)(?=:)|##(?=\[)", re.MULTILINE)
_QUOTE = "  | "


def visible(text: str) -> str:
    """The text with U+FFFD for every character that a terminal would obey or hide; tabs and line feeds stay."""
    return _HIDDEN.sub(MARK, text)


def one_line(text: str) -> str:
    """A text for use inside a line: as `visible`, and U+FFFD for tabs and line feeds, too."""
    return _HIDDEN_OR_BREAK.sub(MARK, text)


def quoted(text: str) -> list[str]:
    """The lines of a text, all but the first marked as a quotation."""
    first, *rest = text.replace("\r\n", "\n").split("\n")
    return [first, *(f"{_QUOTE}{line}" for line in rest)]


def message_lines(message: str) -> list[str]:
    """The lines of a message, all but the first indented, so that none looks like another message."""
    first, *rest = message.split("\n")
    return [first, *(line if line.startswith("  ") else f"  {line}" for line in rest)]


def joined(lines: Iterable[str]) -> str:
    """Join lines into a text without a final line feed; each stays one line, and none is a workflow command."""
    return harmless("\n".join(map(one_line, lines)))


def harmless(text: str) -> str:
    """The text with a blank in every workflow command, so that a runner does not obey it."""
    return _COMMAND.sub(r"\g<0> ", text)


def visible_json(document: str) -> str:
    """The JSON document with invisible characters and workflow commands escaped; its value is the same.

    Its lines begin with no colon.
    """
    return _HIDDEN.sub(_escape, document).replace("##[", "#\\u0023[")


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[start]:02x}{units[start + 1]:02x}" for start in range(0, len(units), 2))


def count(n: int, singular: str, plural: str = "") -> str:
    """A number of things in words: `1 query`, `1,053 queries`."""
    return f"{n:,} {singular if n == 1 else plural or f'{singular}s'}"


def first_few(texts: Sequence[str], limit: int = 5) -> str:
    """The first texts, and how many more there are: `a, b and c`, `a, b and 3 more`."""
    if len(texts) <= limit + 1:
        return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))
    return f"{', '.join(texts[:limit])} and {len(texts) - limit:,} more"


# Names that users wrote before the first release, and what is written instead; none is accepted
RENAMED = {
    "documents": "spec",  # a preset
    "fit": "pack",  # a kind of step
    "wrong_siblings": "same_server_confusions",  # a metric
}


SHOWN = 50  # faults that a message lists; a file of the wrong kind has thousands


class CtxbenchError(Exception):
    """Base of every error that ctxbench raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _error, (type(self), self.args, self.__dict__)  # not by the constructor, whose parameters differ


def _error(kind: type[CtxbenchError], args: tuple[Any, ...], attributes: Mapping[str, Any]) -> CtxbenchError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


class UserError(CtxbenchError):
    """A fault in the user's input; the message says what is wrong, where, what was expected and what to do."""

    exit_code = 2


class ParameterError(UserError, ValueError):
    """A parameter is out of range, of the wrong type, or unknown."""


class UnknownNameError(UserError, LookupError):
    """A name under which nothing is registered or stored; the message lists the closest known names.

    `hint` replaces the list of known names.
    """

    def __init__(self, kind: str, name: str, names: Iterable[str], *, where: str = "", hint: str = "") -> None:
        self.what, self.name, self.known = kind, name, tuple(names)
        super().__init__(f"unknown {kind} {name!r}{where}{hint or suggest(name, self.known)}")


class EmbeddingError(UserError):
    """A text could not be embedded, or no usable model was found."""


class StorageError(UserError):
    """A file or store could not be read or written: missing, locked, damaged, disk full."""


class SelectorError(UserError):
    """A selector failed, or gave an invalid answer."""


class Message(str):
    """A fact with its sentence: what deciding code returns where a person may have to read it.

    The sentences are in `ctxbench/report/messages/`, one TOML file per folder of the package, so that code holds codes
    and values only. `Message("gate.pin-empty", known=names)` is the text of the table `pin-empty` in `gate.toml` with
    the values filled in; it is a `str`, so that it can be printed and compared.

    Attributes:
        key: the file and the table, such as `gate.pin-empty`.
        values: by name, what the text shows.
    """

    __slots__ = ("key", "values")
    key: str
    values: Mapping[str, Any]

    def __new__(cls, key: str, /, **values: Any) -> Self:
        """Fill in the text of a message.

        Raises:
            LookupError: there is no such message, or a value is missing: a bug.
        """
        message = super().__new__(cls, _FORMATTER.vformat(_entry(key)["text"], (), values))
        message.key, message.values = key, values
        return message

    def __reduce__(self) -> tuple[Any, ...]:
        return _message, (self.key, self.values)

    @property
    def code(self) -> str:
        """The stable code that pages and machine-readable output show, such as `CTX101`."""
        return str(_entry(self.key)["code"])


def _message(key: str, values: Mapping[str, Any]) -> Message:
    return Message(key, **values)


def message_code(text: str) -> str:
    """The stable code of a text; empty if it is not a `Message`."""
    return text.code if isinstance(text, Message) else ""


class _MessageFormatter(string.Formatter):
    """`str.format` with `{names:list}` (comma-separated) and `{n:count query}` or `{n:count query/queries}`.

    `{value:json}` is `repr`, but null for None.
    """

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec == "list":
            return ", ".join(map(str, value))
        if format_spec == "json":
            return "null" if value is None else repr(value)
        if format_spec.startswith("count "):
            singular, _, plural = format_spec.removeprefix("count ").partition("/")
            return count(value, singular, plural)
        return str(super().format_field(value, format_spec))


_FORMATTER = _MessageFormatter()


def _entry(key: str) -> Mapping[str, str]:
    file, _, name = key.partition(".")
    return read_messages(file)[name]


@cache
def read_messages(file: str) -> dict[str, dict[str, str]]:
    """The messages of a folder of the package: `code` and `text` by name."""
    import tomllib  # needed only where something is wrong

    return tomllib.loads((MESSAGES / f"{file}.toml").read_text(encoding="utf-8"))


MESSAGES = Path(__file__).parents[1] / "report" / "messages"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong in an input.

    Attributes:
        message: what was wrong and what was expected; a `Message` has a code as well.
        path: the file, if any.
        line: 1-based line, 0 if unknown.
        column: 1-based column, 0 if unknown.
    """

    message: str
    path: Path | str | None = None
    line: int = 0
    column: int = 0

    @property
    def location(self) -> str:
        """The location, such as `gate.yaml, line 3, column 7`, as far as it is known; else empty."""
        line = f", line {self.line}" if self.line else ""
        column = f", column {self.column}" if self.line and self.column else ""
        return "" if self.path is None else f"{self.path}{line}{column}"

    def __str__(self) -> str:
        return f"{self.message} ({self.location})" if self.location else self.message


class InputError(UserError):
    """Everything that is wrong in one input, reported at once.

    The message lists the first 50, a line each whatever they quote, and says how many more there are.

    Attributes:
        faults: all faults, in file order; never empty.
    """

    def __init__(self, faults: Sequence[Fault], *, subject: str = "") -> None:
        if not faults:
            raise ValueError("an InputError needs at least one fault")
        self.faults = tuple(faults)
        self.subject = subject
        if len(self.faults) == 1 and not subject:
            super().__init__(one_line(str(self.faults[0])))
        else:
            count = f"{len(self.faults)} fault{'s' if len(self.faults) > 1 else ''}"
            head = f"{subject}: {count}" if subject else count
            rest = [f"  and {len(self.faults) - SHOWN} more"] if len(self.faults) > SHOWN else []
            super().__init__("\n".join([head, *(f"  {one_line(str(fault))}" for fault in self.faults[:SHOWN]), *rest]))


def merge_equal_faults(faults: Sequence[Fault]) -> list[Fault]:
    """One fault for those of a file with equal messages, at the first line, with the number of the other lines."""
    groups: dict[tuple[str, Path | str | None], list[Fault]] = {}
    for fault in faults:
        groups.setdefault((fault.message, fault.path), []).append(fault)
    return [
        replace(first, message=Message("io.repeated-fault", fault=first.message, n=len(repeats))) if repeats else first
        for first, *repeats in groups.values()
    ]


def raise_faults(faults: Sequence[Fault], *, subject: str = "") -> None:
    """Raise all faults at once; do nothing if there are none.

    Raises:
        InputError: there are faults.
    """
    if faults:
        raise InputError(faults, subject=subject)


def check_range(name: str, value: float, low: float, high: float = math.inf) -> None:
    """Check that a number is within a range, ends included.

    Raises:
        ParameterError: it lies outside, or is NaN.
    """
    if not low <= value <= high:
        expected = f"{low} or more" if high == math.inf else f"{low} to {high}"
        raise ParameterError(f"{name} must be {expected}, got {value}")


def number_within(name: str, value: object, low: float, high: float = math.inf) -> float:
    """A value of a mapping as a finite number within a range, ends included.

    Raises:
        ParameterError: it is none, or lies outside.
    """
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not low <= value <= high
        or abs(value) == math.inf  # not by isfinite, to which a whole number can be too large
    ):
        expected = "a number" if math.isinf(low) else f"{low:g} or more" if math.isinf(high) else f"{low:g} to {high:g}"
        raise ParameterError(f"{name} must be {expected}, got {value!r}")
    return float(value)


def raise_first(*problems: tuple[object, str]) -> None:
    """Raise the first problem that applies.

    Args:
        problems: whether each applies, and its message.

    Raises:
        ParameterError: one does.
    """
    for applies, problem in problems:
        if applies:
            raise ParameterError(problem)


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Check that a value is one of the allowed names.

    Raises:
        ParameterError: it is none of them.
    """
    if value not in choices:
        raise ParameterError(f"{name} must be one of {', '.join(choices)}, got {value!r}")


def check_known(kind: str, name: str, names: Collection[str], *, where: str = "") -> None:
    """Check that a name is one of those that are known.

    Raises:
        UnknownNameError: it is none of them.
    """
    if name not in names:
        raise UnknownNameError(kind, name, names, where=where)


def check_all_known(kind: str, names: Iterable[str], known_names: Collection[str]) -> None:
    """Check that each of several names is one of those that are known.

    Raises:
        UnknownNameError: the first that is none of them.
    """
    for name in names:
        check_known(kind, name, known_names)


def faults_of(error: Exception) -> tuple[Fault, ...]:
    """The faults of an error; an error that is no `InputError` is one fault without a location."""
    return error.faults if isinstance(error, InputError) else (Fault(str(error)),)


def none_found(names: Sequence[str], kind: str, where: str, existing: Sequence[str]) -> str:
    """The message that two inputs do not match: none of the names of one is in the other, with examples of both."""
    missing, listing = (first_few([*map(repr, listed)]) for listed in (names, existing))
    return Message("io.no-match", n=len(names), kind=kind, where=where, names=missing, existing=listing or "nothing")


def suggest(name: str, candidates: Iterable[str], *, listed: bool = True, most: int = 12) -> str:
    """The end of a message about an unknown name: '; did you mean ...? Known: ...'.

    Without `listed` the known names are left out, for all but the first of several messages about the same names. Of
    many names `most` are listed.
    """
    name, names = str(name), sorted(candidates)  # what is no text is as unknown
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint: str = Message("io.did-you-mean", names=" or ".join(map(repr, close))) if close else ""
    if (new := RENAMED.get(name)) in names:
        hint = Message("io.renamed", name=new)
    if not listed:
        return hint
    if not names:
        return f"{hint}; none are known"
    return f"{hint or ';'} Known: {', '.join(names[:most])}{', ...' if len(names) > most else ''}"


_NAME = "ctxbench"


def install_command(extra: str = "", *, reinstall: bool = False) -> str:
    """The command that installs ctxbench from where it came from: a clone, an address, or an index.

    Args:
        extra: an optional part, such as `mcp`; empty = none.
        reinstall: replace the installed files, if they are damaged.

    Source: the record that installers write for a package, PEP 610. Without one it came from an index.
    """
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        record = distribution(_NAME).read_text("direct_url.json")
    except PackageNotFoundError:  # run from a clone that was never installed
        record = "{}"
    package = _from_record(record, f"[{extra}]" if extra else "")
    return f"pip install {'--force-reinstall ' if reinstall else ''}{package}"


def _from_record(record: str | None, extra: str) -> str:
    """The argument of `pip install`, quoted for a shell."""
    if record is None:
        return f'"{_NAME}{extra}"' if extra else _NAME
    origin = json.loads(record)
    url, folder = str(origin.get("url", "")), origin.get("dir_info")
    if folder is None and url:
        commit = origin.get("vcs_info", {})
        address = f"{commit['vcs']}+{url}@{commit['commit_id']}" if commit else url
        return Message("io.install-url", extra=extra, url=address)
    from urllib.request import url2pathname  # loads SSL, which few need

    location = Path(url2pathname(unquote(urlsplit(url).path))) if url else None
    if location is None or not (location / "pyproject.toml").is_file():
        return Message("io.install-clone", extra=extra)
    return f'{"-e " if folder.get("editable") else ""}"{location}{extra}"'


_DENIED = (errno.EACCES, errno.EPERM)
_FIXES = {  # of system errors
    errno.EROFS: "name a writable folder",
    errno.ENAMETOOLONG: "give a shorter name",
    errno.ELOOP: "a link leads to itself",
    errno.ENOTDIR: "name a folder",
    errno.EISDIR: "name a file",
    errno.ENOTEMPTY: "name an empty folder",
    errno.EIO: "check the disk",
    errno.EMFILE: "raise ulimit -n",
}


def system_fault(error: OSError) -> StorageError | None:
    """The message for an `OSError` that was not handled elsewhere; None if no file of the user caused it: a bug.

    Args:
        error: as raised by the system call.
    """
    message = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StorageError(Message("io.disk-full", path=error.filename or "the output", why=message))
    try:
        Path.cwd()
    except OSError:
        return StorageError(Message("io.folder-gone"))
    if error.filename is None:
        return None
    path = Path(os.fsdecode(error.filename))
    if error.errno in _DENIED:
        for folder in reversed(path.parents):
            if folder.is_dir() and not os.access(folder, os.X_OK):
                return StorageError(Message("io.unreadable-folder", path=folder, why=message))
        fix = "make it readable and writable"
        return StorageError(Message("io.unusable-path", path=path, why=message, fix=fix))
    if error.errno in _FIXES:
        return StorageError(Message("io.unusable-path", path=path, why=message, fix=_FIXES[error.errno]))
    return None


_MARK = re.compile(r"^(?:<{7}|\|{7}|>{7})(?: .*)?\r?$|^={7}\r?$", re.MULTILINE)


def without_marks(lines: Iterable[tuple[int, str]], path: Path | str, faults: list[Fault]) -> Iterator[tuple[int, str]]:
    """Skip the conflict markers of git, and add a fault for each conflict."""
    inside = False
    for number, text in lines:
        if not _MARK.fullmatch(text):
            yield number, text
            continue
        if not inside or text.startswith("<"):
            faults.append(Fault(Message("io.merge-conflict"), path, number))
        inside = not text.startswith(">")


def conflict_faults(text: str, path: Path | str | None, first_line: int = 1) -> list[Fault]:
    """A fault for each of git's conflicts, at the line where it starts; without a start, for the first marker."""
    marks = [(text.count("\n", 0, mark.start()) + first_line, mark.group()) for mark in _MARK.finditer(text)]
    lines = [line for line, mark in marks if mark.startswith("<")] or [line for line, _ in marks[:1]]
    return [Fault(Message("io.merge-conflict"), path, line) for line in lines]
