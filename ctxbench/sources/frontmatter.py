"""Front matter of Markdown files: YAML between two lines of dashes, and what passes for it in the wild."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

_FLAGS = ("alwaysApply", "disable-model-invocation")  # fields that are true or false
_FENCE = re.compile(r"---[ \t]*")
_END = re.compile(r"(---|\.\.\.)[ \t]*")
_FIELD = re.compile(r"([A-Za-z][\w-]*)[ \t]*:[ \t]*(.*)")
_GLOBS = re.compile(r"(globs[ \t]*:[ \t]*)([*{!].*)")
_ENTRY = re.compile(r"[ \t]+-[ \t]+(.*)|-[ \t]+(.*)")


@dataclass(frozen=True, slots=True)
class Page:
    """The parts of a Markdown file.

    Attributes:
        fields: of the front matter; empty without one.
        text: what stands behind it, without blank lines around.
        present: whether there is front matter.
        odd: what is wrong with it, or empty; the fields are then what could be made out.
        line: of the file, in which the text begins; 1-based.
        lines: in which each field begins, 1-based.
    """

    fields: Mapping[str, Any]
    text: str
    present: bool
    odd: str = ""
    line: int = 1
    lines: Mapping[str, int] = field(default_factory=dict)


def read_page(source: str) -> Page:
    """Split the text of a file into its parts; never raises, since tools that read such files are lenient.

    Front matter that is no YAML (a colon in an unquoted text) is read line by line as `name: value`, lists as lines
    that start with a dash; but patterns without quotes (`globs: **/*.ts`), which Cursor itself writes, are as if they
    had some. Front matter that never ends is text.
    """
    lines = source.replace("\r\n", "\n").split("\n")
    if not _FENCE.fullmatch(lines[0]):
        return Page({}, source.strip(), present=False, line=_first(lines, 0))
    end = next((i for i, line in enumerate(lines[1:], start=1) if _END.fullmatch(line)), 0)
    if not end:
        return Page({}, source.strip(), present=False, odd="its front matter does not end; read as text")
    text, line = "\n".join(lines[end + 1 :]).strip(), _first(lines, end + 1)
    inside = lines[1:end]
    fields, why = _as_yaml("\n".join(map(_quoted, inside)))
    odd = "" if fields is not None else f"its front matter is no YAML ({why}); read line by line"
    named = [(i, match) for i, line in enumerate(inside, start=2) if (match := _FIELD.fullmatch(line))]
    line_numbers = {match[1]: i for i, match in reversed(named)}
    fields = _by_line(inside) if fields is None else fields
    return Page(fields, text, present=True, odd=odd, line=line, lines=line_numbers)


def _quoted(line: str) -> str:
    """A line of Cursor's `globs: **/*.ts`, which YAML takes for something else, with quotes."""
    match = _GLOBS.fullmatch(line)
    return f"{match[1]}{json.dumps(_plain(match[2]), ensure_ascii=False)}" if match else line


def _first(lines: Sequence[str], start: int) -> int:
    """The first line from `start` that is not blank, 1-based; 1 if all are."""
    return next((i + 1 for i, line in enumerate(lines[start:], start=start) if line.strip()), 1)


def _as_yaml(text: str) -> tuple[dict[str, Any] | None, str]:
    """The fields, or None and why not."""
    import yaml

    try:
        data = yaml.safe_load(text)
        if isinstance(data, dict):
            data = {str(name): value for name, value in data.items()}
    except yaml.MarkedYAMLError as error:
        line = 2 + (error.problem_mark.line if error.problem_mark else 0)  # behind the first line of dashes
        return None, f"line {line}: {error.problem}"
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # a date that is none, a number of 5,000 digits
        return None, str(error).splitlines()[0]
    if data is None:
        return {}, ""
    if not isinstance(data, dict):
        return None, "expected `name: value` lines"
    return data, ""


def _by_line(lines: list[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    name = ""
    for line in lines:
        entry, field = _ENTRY.fullmatch(line), _FIELD.fullmatch(line)
        if entry and name:
            value = fields[name]
            fields[name] = [*(value if isinstance(value, list) else []), _plain(entry.group(1) or entry.group(2))]
        elif field:
            name = field.group(1)
            fields[name] = _plain(field.group(2))
    return fields


def _plain(value: str) -> Any:
    value = re.sub(r"(?<![ \t])[ \t]+#.*$", "", value).strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return {"true": True, "false": False, "": None}.get(value.lower(), value)


def odd_fields(page: Page, allowed: Sequence[str]) -> Iterator[str]:
    """Fields whose name is nearly a known one, and flags that are neither true nor false, with their lines."""
    for name, value in page.fields.items():
        where = f"line {page.lines[name]}" if name in page.lines else "front matter"
        close = (
            []
            if name in allowed
            else get_close_matches(name.lower(), [allowed_name.lower() for allowed_name in allowed], 1, 0.8)
        )
        if close:
            suggestion = next(field for field in allowed if field.lower() == close[0])
            yield f"{where}: the field {name!r} is not known and passed over; did you mean {suggestion!r}?"
        elif name in allowed and name in _FLAGS and truth(value) is None:
            yield f"{where}: {name} must be true or false, got {value!r:.40}; taken as false"


def truth(value: Any) -> bool | None:
    """The truth value of a field or text; a missing field is False, and None means neither."""
    if isinstance(value, bool) or value is None:
        return bool(value)
    word = value.strip().lower() if isinstance(value, str) else ""
    return True if word in ("true", "yes", "on") else False if word in ("false", "no", "off") else None


def texts(value: Any) -> tuple[str, ...]:
    """A list of texts, or one text with commas outside braces between them: `*.ts, src/{a,b}/**`."""
    if isinstance(value, str):
        value = _split(value)
    if not isinstance(value, list):
        return ()
    return tuple(text.strip() for text in value if isinstance(text, str) and text.strip())


def _split(value: str) -> list[str]:
    """The texts between commas outside braces."""
    parts, start, depth = [], 0, 0
    for mark in re.finditer(r"[{},]", value):
        depth = max(depth + {"{": 1, "}": -1}.get(mark[0], 0), 0)
        if mark[0] == "," and not depth:
            parts.append(value[start : mark.start()])
            start = mark.end()
    return [*parts, value[start:]]


def text_of(value: Any) -> str:
    """A field as one line of text; empty if it is none, or a number too long to be written."""
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return ""
    try:
        return " ".join(str(value).split())
    except ValueError:  # an integer of more than 4,300 digits, which hexadecimal can give
        return ""
