"""Files of accepted selections: YAML beside a test module, an item a line, made to be read in a diff."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from ctxbench.core.errors import Fault, InputError, StorageError, raise_faults
from ctxbench.io.files import read_bytes, read_text, write_atomic
from ctxbench.io.yaml_files import dump_yaml, load_yaml
from ctxbench.io.yaml_form import YamlForm

FORMAT = 1
_HEAD = "# What these tests were offered when it was accepted. Written by pytest --ctxbench-accept; read the diff.\n"
_MARKERS = ("<<<<<<< ", ">>>>>>> ")  # of a merge that stopped
_KEYS = ("test", "of", "text", "decided_by", "offered")
DIGITS = 6  # of scores, one more than where they begin to count


class Key(NamedTuple):
    """Which selection: of which test (its name within the module), selector and catalog, and text."""

    test: str
    of: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedSelection:
    """One selection.

    Attributes:
        key: which.
        decided_by: hash of all that decided it (selector, model, code, catalog, request) and of the ids that were
            offered, so that a file whose ids were edited by hand is known from one that was written.
        offered: scores by item id, in the one order, to six decimals; None for what the session held,
            and of a selector that gives none.
    """

    key: Key
    decided_by: str
    offered: Mapping[str, float | None]

    def as_row(self) -> dict[str, Any]:
        """The selection as a row of the file."""
        offered = {one: None if score is None else round(score, DIGITS) + 0.0 for one, score in self.offered.items()}
        return {**self.key._asdict(), "decided_by": self.decided_by, "offered": offered}

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> AcceptedSelection:
        """Read it back from a row that is known to be right."""
        key = Key(row["test"], row["of"], row["text"])
        return cls(key=key, decided_by=row["decided_by"], offered=row["offered"])


Selections: TypeAlias = dict[Key, AcceptedSelection]


def is_ours(path: Path) -> bool:
    """Whether `write_accepted` wrote a file, as far as its first line tells."""
    return path.is_file() and read_bytes(path).startswith(_HEAD.encode())


def read_accepted(path: Path) -> Selections:
    """Read a file of accepted selections.

    Raises:
        StorageError: it is missing or cannot be read.
        InputError: a merge stopped in it, it is of another format, or anything in it is wrong: all faults, with lines.
    """
    if marked := [number for number, line in enumerate(read_text(path).splitlines(), 1) if line.startswith(_MARKERS)]:
        what = "a merge stopped here and left both sides in the file; keep one, or delete the file and accept anew"
        raise InputError([Fault(what, path, number) for number in marked])
    data, lines = load_yaml(path)
    form = YamlForm(path, lines, [])
    anew = "delete it and run pytest --ctxbench-accept"
    if not isinstance(data, Mapping) or not isinstance(data.get("accepted"), list):
        what = "the file is empty" if data is None else "this is no file of accepted selections"
        raise InputError([Fault(f"{what}; {anew}", path, 1)])
    if data.get("format") != FORMAT:
        newer = isinstance(data.get("format"), int) and data["format"] > FORMAT
        anew = "update ctxbench, which must have written it" if newer else anew
        form.fault(f"format is {data.get('format')!r}, this version of ctxbench reads {FORMAT}; {anew}", "format")
        raise InputError(form.faults)
    found: Selections = {}
    for place, row in enumerate(data["accepted"]):
        if wrong := _wrong(row):
            form.fault(wrong, "accepted", place)
            continue
        one = AcceptedSelection.of_row(row)
        if one.key in found:
            form.fault(f"test {one.key.test} has two selections for {one.key.text!r}; keep one", "accepted", place)
        found[one.key] = one
    raise_faults(form.faults)
    return found


def write_accepted(path: Path, selections: Iterable[AcceptedSelection]) -> None:
    """Write selections in the order of their keys; none at all removes the file.

    Raises:
        StorageError: the place cannot be written.
    """
    rows = [one.as_row() for one in sorted(selections, key=lambda one: one.key)]
    if not rows:
        remove(path)
        return
    text = _HEAD + dump_yaml({"format": FORMAT, "accepted": rows})
    if not path.is_file() or read_text(path) != text:
        write_atomic(path, text)


def remove(path: Path) -> None:
    """Remove a file, if it is there.

    Raises:
        StorageError: it cannot be removed.
    """
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"cannot remove {path}: {error.strerror or error}") from error


def _wrong(row: Any) -> str:
    """What is wrong with a row; empty if nothing."""
    if not isinstance(row, Mapping) or set(row) != set(_KEYS):
        return f"an accepted selection is a mapping of {', '.join(_KEYS)}"
    for key in _KEYS[:-1]:
        if not isinstance(row[key], str):
            return f"{key} must be a text, got {row[key]!r}"
    offered = row["offered"]
    number = (int, float, type(None))
    if not isinstance(offered, Mapping) or not all(
        isinstance(score, number) and not isinstance(score, bool) for score in offered.values()
    ):
        return f"offered must map item ids to scores, got {offered!r}"
    return ""
