"""Reads a baseline, and finds everything that is wrong in its files at once."""

from __future__ import annotations

import json
import math
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ctxbench.bench.metrics import parse_metric
from ctxbench.core.errors import Fault, InputError, ParameterError, StorageError, UserError, raise_faults
from ctxbench.core.rules import Rule
from ctxbench.gate.baseline_layout import (
    FORMAT,
    ITEMS,
    MANIFEST,
    QUERIES,
    SESSIONS,
    accept_command,
    answers_file,
    dataset_file,
    file_hash,
    manifest_hash,
    other_content,
)
from ctxbench.gate.baseline_rows import (
    RowError,
    SessionRow,
    answer_from_row,
    is_number,
    item_from_row,
    query_from_row,
    session_from_row,
    texts,
)
from ctxbench.gate.check_settings import CheckSettings
from ctxbench.gate.flat_steps import flat_steps
from ctxbench.gate.snapshots import AnswerFact, Identity, ItemFact, QueryFact, SelectorSnapshot, by_state
from ctxbench.gate.value_texts import first_ids
from ctxbench.io.files import read_bytes, recover_folder
from ctxbench.io.json_files import parse_json
from ctxbench.io.merge_conflicts import conflicts
from ctxbench.io.other_forms import is_utf16

T = TypeVar("T")

_DAMAGE = (LookupError, TypeError, AttributeError, ValueError, OverflowError, RecursionError)


def restore_advice() -> str:
    """What to do about a damaged baseline, for the gate file at hand."""
    return f"bring it back from git, or accept again ({accept_command()})"


class NewerFormatError(InputError):
    """A baseline that a newer version of ctxbench wrote."""


def read_baseline(folder: Path, head: Mapping[str, Any] | None = None) -> list[SelectorSnapshot]:
    """Read the snapshots of a baseline, in the order in which they were accepted.

    Args:
        folder: as `write_baseline` left it.
        head: its manifest, if that was read already.

    Returns:
        Those that are there. `near` holds at most `NEAR` candidates, scores have 7 decimals, pairs of chunks are left
        out.

    Raises:
        StorageError: there is no such folder, or it cannot be read.
        InputError: it is no baseline, of another format, holds no selector, or is damaged: all faults, with file and
            line.
    """
    head = read_manifest(folder) if head is None else head
    reader = _BaselineReader(folder, [])
    try:
        snapshots = [
            snapshot
            for dataset, about in head["datasets"].items()
            for snapshot in reader.snapshots(head, dataset, about)
        ]
    except (UserError, *_DAMAGE) as error:
        raise InputError([Fault(f"damaged ({_error_text(error)}); {restore_advice()}", folder / MANIFEST)]) from error
    raise_faults(reader.faults, subject=f"baseline {folder}")
    if not any(about["selectors"] for about in head["datasets"].values()):
        message = "the baseline holds no selector, so that nothing could be judged"
        raise InputError([Fault(f"{message}; {restore_advice()}", folder / MANIFEST)])
    return snapshots


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read `baseline.json`.

    Raises:
        StorageError: there is no such folder, or it cannot be read.
        InputError: it is no baseline, of another format, or was changed by hand.
    """
    recover_folder(folder)
    if content := other_content(folder):
        raise InputError([Fault(f"{folder} is {content}, no baseline; expected a folder that {accept_command()} made")])
    path = folder / MANIFEST
    if not path.exists():
        state = "is empty" if folder.exists() else "is not there"
        raise StorageError(f"there is no baseline: {folder} {state}; make it with {accept_command()}, and commit it")
    data = read_bytes(path)
    raise_faults(_content_faults(data, path, folder))
    head = _parsed(data, path)
    if not isinstance(head, dict) or "format" not in head:
        raise InputError([Fault(f"no baseline: expected an object with a format; {restore_advice()}", path, 1)])
    if head["format"] != FORMAT:
        raise _other_format(head, path)
    if head.get("hash") != manifest_hash(head):
        raise InputError([Fault(f"was changed by hand, or merged; {restore_advice()}", path)])
    return head


def accepted_settings(head: Mapping[str, Any], folder: Path) -> CheckSettings:
    """The settings of the gate that a baseline was accepted with, given its manifest.

    Raises:
        InputError: the manifest has none that can be read.
    """
    try:
        return CheckSettings.from_dict(head["settings"])
    except (UserError, *_DAMAGE) as error:
        message = f"damaged settings ({_error_text(error)}); {restore_advice()}"
        raise InputError([Fault(message, folder / MANIFEST)]) from error


def _other_format(head: Mapping[str, Any], path: Path) -> InputError:
    """The error for a baseline of another format, with what to do."""
    versions = head.get("versions")
    by = f" (of ctxbench {versions.get('ctxbench')})" if isinstance(versions, dict) else ""
    message = f"format {head['format']!r}{by}, this version of ctxbench reads {FORMAT}"
    if isinstance(head["format"], int) and head["format"] > FORMAT:
        return NewerFormatError([Fault(f"{message}; install the version that wrote it, or a newer one", path)])
    how = f"check once more with the version that wrote it, then write it anew with this one ({accept_command()})"
    return InputError([Fault(f"{message}; {how}", path)])


@dataclass(frozen=True, eq=False)
class _DatasetFacts:
    """The facts that all selectors on one dataset share; sessions None = not known; `sound` = without faults."""

    items: Mapping[str, ItemFact]
    queries: Mapping[str, QueryFact]
    sessions: Mapping[int, SessionRow] | None
    sound: bool


@dataclass(frozen=True)
class _BaselineReader:
    """Reads the files of a baseline that `baseline.json` names.

    Attributes:
        folder: of the baseline.
        faults: found so far.
    """

    folder: Path
    faults: list[Fault]

    def snapshots(self, head: Mapping[str, Any], dataset: str, about: Mapping[str, Any]) -> list[SelectorSnapshot]:
        """The snapshots of one dataset; with faults, as far as they can be read."""
        before = len(self.faults)
        items = self._rows_by_id(dataset_file(dataset, ITEMS), about["files"]["items"], item_from_row)
        queries = self._rows_by_id(dataset_file(dataset, QUERIES), about["files"]["queries"], query_from_row)
        sessions: dict[int, SessionRow] | None = {}
        if "sessions" in about["files"]:
            n_faults = len(self.faults)
            sessions = self._rows_by_id(dataset_file(dataset, SESSIONS), about["files"]["sessions"], session_from_row)
            sessions = sessions if len(self.faults) == n_faults else None
        facts = _DatasetFacts(items, queries, sessions, sound=len(self.faults) == before)
        inputs = _typed(about, "inputs", str, default="")
        snapshots = [self._snapshot(head, (dataset, name), entry, facts) for name, entry in about["selectors"].items()]
        return [replace(snapshot, inputs=inputs) for snapshot in snapshots]

    def _snapshot(
        self,
        head: Mapping[str, Any],
        names: tuple[str, str],
        about: Mapping[str, Any],
        facts: _DatasetFacts,
    ) -> SelectorSnapshot:
        dataset, selector = names
        rules = _rules(about)
        path = dataset_file(dataset, answers_file(selector))
        read = partial(answer_from_row, rules=rules, sessions=facts.sessions, repeated=_repeats(about) > 1)
        rows = self._rows(path, about["file"], read, check=partial(_answer_faults, facts=facts))
        items, disabled = by_state(facts.items)
        columns = {name: [values.get(name, math.nan) for _, (_, values) in rows] for name in about["metrics"]}
        return SelectorSnapshot(
            dataset=dataset,
            selector=selector,
            items=items,
            disabled=disabled,
            queries=facts.queries,
            answers={answer.query: answer for _, (answer, _) in rows},
            metrics={parse_metric(name): np.array(column, dtype=np.float64) for name, column in columns.items()},
            identity=Identity(
                selector=_description(about),
                values=_typed(about, "values", dict),
                embedder=_typed(about, "embedder", str),
                tokens=_typed(about, "tokens", str),
                versions=_typed(about if "versions" in about else head, "versions", dict),
                outside=_typed(about, "outside", bool),
                shipped=_typed(about, "shipped", str, default=""),
            ),
            repeats=_repeats(about),
            spread=_spread(about),
            unsteady=texts("unsteady", _typed(about, "unsteady", list, default=[])),
            source=str(self.folder),
        )

    def _rows_by_id(self, name: str, digest: str, read: Callable[[Mapping[str, Any]], T]) -> dict[Any, T]:
        """The lines of a file by their ids, which must differ."""
        return {row.id: row for _, row in self._rows(name, digest, read, check=_duplicate_ids)}

    def _rows(
        self,
        name: str,
        digest: str,
        read: Callable[[Mapping[str, Any]], T],
        *,
        check: Callable[[Sequence[tuple[int, T]]], Iterator[tuple[int, str]]],
    ) -> list[tuple[int, T]]:
        """The lines of a file with their numbers; what is wrong in it is a fault, and gives what there is.

        Args:
            name: of the file in the folder.
            digest: its hash.
            read: makes something of a line.
            check: finds what is wrong with lines that could all be read: lines and messages.
        """
        path = self.folder / name
        try:
            data = read_bytes(path)
        except StorageError:
            state = "is missing" if not path.exists() else "cannot be read"
            self.faults.append(Fault(f"{state}; {restore_advice()}", path))
            return []
        intact = file_hash(data) == digest
        faults = [] if intact else _content_faults(data, path, self.folder)
        rows = [] if faults else _read_lines(data, path, read, faults)
        if not faults and (rows or intact):
            faults += [Fault(f"{message}; {restore_advice()}", path, line) for line, message in check(rows)]
        if not intact and not faults:
            state = "was changed by hand, or merged: its hash is another" if data.strip() else "is empty"
            faults.append(Fault(f"{state}; {restore_advice()}", path))
        self.faults.extend(faults)
        return rows


def _typed(about: Mapping[str, Any], key: str, kind: type[T], *, default: T | None = None) -> T:
    value = about[key] if default is None else about.get(key, default)
    if not isinstance(value, kind):
        raise TypeError(f"{key} is {value!r}, expected {kind.__name__}")
    return value


def _rules(about: Mapping[str, Any]) -> tuple[Rule | None, ...]:
    """The rules by their numbers, from None = by none."""
    try:
        return (None, *map(Rule.read, _typed(about, "rules", dict).values()))
    except ParameterError as error:
        raise TypeError(f"rules: {error}") from error


def _repeats(about: Mapping[str, Any]) -> int:
    value = about.get("repeats", 1)
    if type(value) is not int or value < 1:
        raise TypeError(f"repeats must be a whole number, 1 or more, got {value!r}")
    return value


def _spread(about: Mapping[str, Any]) -> Mapping[str, float]:
    value = _typed(about, "spread", dict, default={})
    if not all(is_number(number) and number >= 0 for number in value.values()):
        raise TypeError(f"spread must hold numbers, 0 or more, got {value!r}")
    return value


def _description(about: Mapping[str, Any]) -> Mapping[str, Any]:
    value = _typed(about, "description", dict)
    flat_steps(value)  # refuses what is described as a pipeline and is none
    return value


def _duplicate_ids(rows: Sequence[tuple[int, Any]]) -> Iterator[tuple[int, str]]:
    """Faults of lines whose id an earlier line has."""
    ids = set()
    for line, row in rows:
        if row.id in ids:
            yield line, f"{row.id} stands twice"
        ids.add(row.id)


def _answer_faults(
    rows: Sequence[tuple[int, tuple[AnswerFact, Any]]], *, facts: _DatasetFacts
) -> Iterator[tuple[int, str]]:
    """Faults of answers that are not to the dataset's queries in their order, or not of its items."""
    if not facts.sound:
        return
    queries = [answer.query for _, (answer, _) in rows]
    if queries != list(facts.queries):
        counts = Counter(queries)
        lists = {
            "unknown": [query for query in counts if query not in facts.queries],
            "missing": [query for query in facts.queries if query not in counts],
            "twice": [query for query, count in counts.items() if count > 1],
        }
        parts = [f"{len(ids)} {kind} ({first_ids(ids)})" for kind, ids in lists.items() if ids]
        yield 0, f"its queries are not those of {QUERIES}: {', '.join(parts) or 'they stand in another order'}"
    for line, (answer, _) in rows:
        for candidate in (*answer.offered, *answer.near):
            if candidate.id not in facts.items:
                yield line, f"query {answer.query} has {candidate.id}, which {ITEMS} does not have"


def _read_lines(
    data: bytes, path: Path, read: Callable[[Mapping[str, Any]], T], faults: list[Fault]
) -> list[tuple[int, T]]:
    """Read one JSON object a line; adds to `faults` what is none."""
    rows = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            rows.append((number, read(_object(_parsed(line, path, number)))))
        except InputError as error:
            faults.extend(error.faults)
        except (RowError, *_DAMAGE) as error:
            faults.append(Fault(f"a damaged line: {_error_text(error)}; {restore_advice()}", path, number))
    return rows


def _parsed(data: bytes, path: Path, line: int = 1) -> Any:
    """Parse JSON fast; where that fails, parse it again for a fault with its location.

    Raises:
        InputError: it is not UTF-8, or no JSON.
    """
    with suppress(ValueError, RecursionError):
        return _DECODER.decode(data.decode("utf-8"))
    try:
        return parse_json(data.decode("utf-8"), path=path, line=line)
    except UnicodeDecodeError as error:
        raise InputError([Fault(f"invalid UTF-8: {error.reason}; {restore_advice()}", path, line)]) from error
    except InputError as error:
        raise InputError(
            [replace(fault, message=f"{fault.message}; {restore_advice()}") for fault in error.faults]
        ) from error


def _object(row: Any) -> Mapping[str, Any]:
    if not isinstance(row, dict):
        raise RowError(f"expected a JSON object {{...}} on each line, got {row!r}")
    return row


def _refuse_constant(text: str) -> float:
    raise ValueError(text)


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _content_faults(data: bytes, path: Path, folder: Path) -> list[Fault]:
    """Faults of a whole file: another encoding, and conflicts that git left, one for each location."""
    if is_utf16(data):
        return [Fault(f"is UTF-16, and must be UTF-8; {restore_advice()}", path, 1)]
    take = f"take one side of the whole folder, whichever (`git checkout --ours -- {shlex.quote(str(folder))}`)"
    message = f"a merge conflict; {take}, and accept again ({accept_command()})"
    return [Fault(message, path, line) for line in conflicts(data.decode("utf-8", "replace"))]


def _error_text(error: Exception) -> str:
    return f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
