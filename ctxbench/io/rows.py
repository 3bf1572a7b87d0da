"""Rows of files, field by field: what is wrong becomes a fault with its line, and reading goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from ctxbench.core.errors import Fault, ParameterError, suggest
from ctxbench.core.items import ItemKey
from ctxbench.io.json_files import iter_jsonl
from ctxbench.io.yaml_files import YamlPath

T = TypeVar("T")

_CALLED = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    list: "a list",
    dict: "an object",
}


@dataclass
class Row:
    """The fields of one JSON object or YAML mapping, taken out one by one; what is wrong goes to `faults`.

    A field of the wrong type counts as absent once it is reported, so that one pass finds everything else.

    Attributes:
        data: the fields.
        faults: where faults go.
        path: the file.
        line: 1-based.
        lines: lines of single fields, for YAML.
    """

    data: Mapping[str, Any]
    faults: list[Fault]
    path: Path
    line: int
    lines: Mapping[YamlPath, int] = field(default_factory=dict)

    def fault(self, message: str, *, at: str | None = None) -> None:
        """Note what is wrong, at the line of a field where fields have their own."""
        self.faults.append(Fault(message, self.path, self.lines.get((at,), self.line) if at else self.line))

    def nested(self, value: Any) -> Row:
        """The fields of an object in this one, at the same line; none if the value is no object."""
        return replace(self, data=value if isinstance(value, dict) else {}, lines={})

    def refuse_unknown(self, fields: tuple[str, ...]) -> None:
        """Note every field that is not known, with the closest."""
        for name in self.data:
            if name not in fields:
                self.fault(f"unknown field {name!r}{suggest(name, fields)}", at=name)

    def take(self, name: str, kind: type[T], default: T, *, required: bool = False) -> T:
        """The value of a field, or `default` if it is absent or null.

        A required field that is absent, null or an empty text is a fault.
        """
        value = self.data.get(name)
        if value is None:
            if required:
                self.fault(f"field {name!r} is missing; expected {_CALLED[kind]}", at=name)
            return default
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            self.fault(f"field {name!r} must be {_CALLED[kind]}, got {value!r:.60}", at=name)
            return default
        if required and not value and kind is str:
            self.fault(f"field {name!r} must not be empty", at=name)
        return value

    def optional(self, name: str, kind: type[T]) -> T | None:
        """The value of a field, or None if it is absent, null or of another type (a fault)."""
        return None if self.data.get(name) is None else self.take(name, cast("type[T | None]", kind), None)

    def filled(self, name: str) -> str | None:
        """The text of a field, or None if it is absent or null; an empty one is a fault."""
        value = self.optional(name, str)
        if value == "":
            self.fault(f"field {name!r} must not be empty; leave it out where there is none", at=name)
        return value or None

    def number(self, name: str) -> float | None:
        """The value of a field as a number, or None if it is absent, null or no number (a fault)."""
        value = self.data.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.fault(f"field {name!r} must be a number, got {value!r:.60}", at=name)
            return None
        return float(value)

    def read_list(self, name: str, read: Callable[[Any], T], *, expected: str) -> tuple[T, ...]:
        """The entries of a list, read one by one; those that `read` refuses are faults and left out."""
        out = []
        entries: list[Any] = self.take(name, list, [])
        for number, entry in enumerate(entries, start=1):
            try:
                out.append(read(entry))
            except ParameterError as error:
                self.fault(f"field {name!r}, entry {number}: {error}", at=name)
            except (KeyError, TypeError):
                self.fault(f"field {name!r}, entry {number}: expected {expected}, got {entry!r:.60}", at=name)
        return tuple(out)


def jsonl_rows(path: Path, faults: list[Fault]) -> Iterator[Row]:
    """The objects of a file of JSON lines; a line that holds none is a fault and left out.

    Raises:
        StorageError: the file is missing or cannot be read.
    """
    for line, data in iter_jsonl(path, faults):
        yield Row(data, faults, path, line)


def read_key(value: Any) -> ItemKey:
    """An item's key from its id.

    Raises:
        ParameterError: a text that is no item id.
        TypeError: no text.
    """
    return ItemKey.parse(read_text_value(value))


def read_text_value(value: Any) -> str:
    """A value that must be a text.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(value, str):
        raise TypeError
    return value
