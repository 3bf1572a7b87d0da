"""Read a baseline with all its faults, and the vectors stored in it.

Rows of `vectors.npz` are in the order of the hashes of their texts, uncompressed, so that git stores a change as a
difference. Equal vectors give equal bytes.
"""

from __future__ import annotations

import io
import json
import math
import re
import shlex
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np
import numpy.typing as npt
from pydantic import Field

from ctxbench.evaluation.inputs import Prepared
from ctxbench.evaluation.metrics import parse_metric
from ctxbench.gate.baseline_rows import (
    FORMAT,
    ITEMS,
    MANIFEST,
    QUERIES,
    SESSIONS,
    VECTORS,
    BaselineRow,
    SessionRow,
    accept_command,
    answer_from_row,
    answers_file,
    dataset_file,
    file_hash,
    item_from_row,
    manifest_hash,
    other_content,
    query_from_row,
    read_row,
    session_from_row,
)
from ctxbench.gate.settings import CheckSettings
from ctxbench.gate.snapshots import (
    AnswerFact,
    Identity,
    ItemFact,
    QueryFact,
    SelectorSnapshot,
    by_state,
    content_hash,
    first_ids,
    flat_steps,
)
from ctxbench.io.documents import dump_json, finite, parse_json
from ctxbench.io.errors import (
    Fault,
    InputError,
    Message,
    StorageError,
    UserError,
    conflict_faults,
    raise_faults,
)
from ctxbench.io.files import is_utf16, read_bytes, recover_folder
from ctxbench.model.arrays import BoolArray, Float32Array, IntArray
from ctxbench.model.candidates import MARGIN, Rule
from ctxbench.model.formats import Texts, parsed
from ctxbench.model.resources import TextKind
from ctxbench.search.embedders import (
    UNIT_TOLERANCE,
    Embedder,
    EmbedderIdentity,
    ModelError,
    Store,
    Vectors,
    VectorStore,
    text_hash,
)
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import TokenCounter

T = TypeVar("T")

_DAMAGE_ERRORS = (LookupError, TypeError, AttributeError, ValueError, OverflowError, RecursionError)


def _damage(problem: str, path: Path, line: int = 0, column: int = 0) -> Fault:
    """The fault of a damaged file, with what to do."""
    return Fault(Message("gate.damaged", problem=problem, command=accept_command()), path, line, column)


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
    except (UserError, *_DAMAGE_ERRORS) as error:
        raise InputError([_damage(f"damaged ({_error_text(error)})", folder / MANIFEST)]) from error
    raise_faults(reader.faults, subject=f"baseline {folder}")
    if not any(about["selectors"] for about in head["datasets"].values()):
        raise InputError([_damage("the baseline has no selector", folder / MANIFEST)])
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
        raise InputError([_damage("no baseline: expected an object with a format", path, 1)])
    if head["format"] != FORMAT:
        raise _other_format(head, path)
    if head.get("hash") != manifest_hash(head):
        raise InputError([_damage("edited by hand, or merged", path)])
    return head


def accepted_settings(head: Mapping[str, Any], folder: Path) -> CheckSettings:
    """The settings of the gate that a baseline was accepted with, given its manifest.

    Raises:
        InputError: the manifest has none that can be read.
    """
    try:
        return CheckSettings.from_dict(head["settings"])
    except (UserError, *_DAMAGE_ERRORS) as error:
        raise InputError([_damage(f"damaged settings ({_error_text(error)})", folder / MANIFEST)]) from error


def _other_format(head: Mapping[str, Any], path: Path) -> InputError:
    """The error for a baseline of another format, with what to do."""
    versions = head.get("versions")
    values = {
        "format": head["format"],
        "version": versions.get("ctxbench") if isinstance(versions, dict) else "unknown",
        "expected": FORMAT,
    }
    if isinstance(head["format"], int) and head["format"] > FORMAT:
        return NewerFormatError([Fault(Message("gate.newer-format", **values), path)])
    return InputError([Fault(Message("gate.older-format", command=accept_command(), **values), path)])


class SelectorEntry(BaselineRow):
    """The entry of a selector on a dataset in `baseline.json`."""

    noun = "a selector"
    external: bool = Field(description="Whether it is an external selector.")
    shipped: str = Field(default="", description="Name of the shipped selector.")
    embedder: str = Field(description="Key of the model; empty without one.")
    tokens: str = Field(description="Name of the token counter.")
    values: dict[str, Any] = Field(description="Parameters by name.")
    description: dict[str, Any] = Field(description="Steps with all parameters, or a command with its hash.")
    versions: dict[str, str] | None = Field(default=None, description="Versions, if they differ from the baseline's.")
    repeats: int = Field(default=1, ge=1, description="How often each query was answered.")
    spread: dict[str, Annotated[float, Field(ge=0)]] = Field(
        default_factory=dict, description="Standard deviations of means over repeats, by metric."
    )
    nondeterministic: Texts[str] = Field(default=(), description="Ids of queries with differing answers.")
    metrics: dict[str, Any] = Field(description="Means with intervals, by metric.")
    rules: dict[str, Annotated[Rule, parsed(Rule.read, dict)]] = Field(description="Exclusion rules by their number.")
    file: str = Field(description="Hash of the file of answers.")


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
        snapshots = [self._snapshot(head, (dataset, name), entry, facts) for name, entry in about["selectors"].items()]
        return [replace(snapshot, inputs=about.get("inputs", "")) for snapshot in snapshots]

    def _snapshot(
        self,
        head: Mapping[str, Any],
        names: tuple[str, str],
        about: Mapping[str, Any],
        facts: _DatasetFacts,
    ) -> SelectorSnapshot:
        dataset, selector = names
        path = dataset_file(dataset, answers_file(selector))
        entry = read_row(SelectorEntry, about)
        flat_steps(entry.description)  # raises an error for a pipeline that is none
        read = partial(
            answer_from_row, rules=(None, *entry.rules.values()), sessions=facts.sessions, repeated=entry.repeats > 1
        )
        rows = self._rows(path, entry.file, read, check=partial(_answer_faults, facts=facts))
        items, disabled = by_state(facts.items)
        columns = {name: [values.get(name, math.nan) for _, (_, values) in rows] for name in entry.metrics}
        return SelectorSnapshot(
            dataset=dataset,
            selector=selector,
            items=items,
            disabled=disabled,
            queries=facts.queries,
            answers={answer.query: answer for _, (answer, _) in rows},
            metrics={parse_metric(name): np.array(column, dtype=np.float64) for name, column in columns.items()},
            identity=Identity(
                selector=entry.description,
                values=entry.values,
                embedder=entry.embedder,
                tokens=entry.tokens,
                versions=dict(head["versions"]) if entry.versions is None else entry.versions,
                external=entry.external,
                shipped=entry.shipped,
            ),
            repeats=entry.repeats,
            spread=entry.spread,
            nondeterministic=entry.nondeterministic,
            source=str(self.folder),
        )

    def _rows_by_id(self, name: str, digest: str, read: Callable[[object], T]) -> dict[Any, T]:
        """The lines of a file by their ids, which must differ."""
        return {row.id: row for _, row in self._rows(name, digest, read, check=_duplicate_ids)}

    def _rows(
        self,
        name: str,
        digest: str,
        read: Callable[[object], T],
        *,
        check: Callable[[Sequence[tuple[int, T]]], Iterator[tuple[int, str]]],
    ) -> list[tuple[int, T]]:
        """The valid lines of a file with their numbers; all others are faults.

        Args:
            name: of the file in the folder.
            digest: its hash.
            read: makes something of a line.
            check: finds faults of lines that could all be read: line numbers and messages.
        """
        path = self.folder / name
        try:
            data = read_bytes(path)
        except StorageError:
            self.faults.append(_damage("cannot be read" if path.exists() else "is missing", path))
            return []
        intact = file_hash(data) == digest
        faults = [] if intact else _content_faults(data, path, self.folder)
        rows = [] if faults else _read_lines(data, path, read, faults)
        if not faults and (rows or intact):
            faults += [_damage(message, path, line) for line, message in check(rows)]
        if not intact and not faults:
            faults.append(_damage("edited by hand, or merged" if data.strip() else "is empty", path))
        self.faults.extend(faults)
        return rows


def _duplicate_ids(rows: Sequence[tuple[int, Any]]) -> Iterator[tuple[int, str]]:
    """Faults of lines whose id an earlier line has."""
    ids = set()
    for line, row in rows:
        if row.id in ids:
            yield line, f"{row.id} occurs twice"
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
        parts = [f"{len(ids)} {kind} ({first_ids(ids)})" for kind, ids in lists.items() if ids] or ["another order"]
        yield 0, Message("gate.other-queries", file=QUERIES, differences=parts)
    for line, (answer, _) in rows:
        yield from (
            (line, Message("gate.item-without-row", query=answer.query, item=candidate.id, file=ITEMS))
            for candidate in (*answer.offered, *answer.near)
            if candidate.id not in facts.items
        )


def _read_lines(data: bytes, path: Path, read: Callable[[object], T], faults: list[Fault]) -> list[tuple[int, T]]:
    """Read one JSON object per line; others are added to `faults`."""
    rows = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            rows.append((number, read(_parsed(line, path, number))))
        except InputError as error:
            faults.extend(error.faults)
        except _DAMAGE_ERRORS as error:
            faults.append(_damage(f"a damaged line: {_error_text(error)}", path, number))
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
        raise InputError([_damage(f"invalid UTF-8: {error.reason}", path, line)]) from error
    except InputError as error:
        raise InputError([_damage(fault.message, path, fault.line, fault.column) for fault in error.faults]) from error


_DECODER = json.JSONDecoder(parse_constant=finite)


def _content_faults(data: bytes, path: Path, folder: Path) -> list[Fault]:
    """Faults of a whole file: another encoding, and conflicts that git left, one for each location."""
    if is_utf16(data):
        return [_damage("UTF-16, expected UTF-8", path, 1)]
    message = Message("gate.merge-conflict", folder=shlex.quote(str(folder)), command=accept_command())
    return [replace(fault, message=message) for fault in conflict_faults(data.decode("utf-8", "replace"), path)]


def _error_text(error: Exception) -> str:
    return f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)


_FORMAT = 1
_HASH = 32  # bytes
_DATE = (1980, 1, 1, 0, 0, 0)  # of every file in the archive
_LFS = b"version https://git-lfs"
_LONGEST_META = 4096  # bytes; some hundred are usual
_LOCKED = 1  # of a member's flags
_HEADER = re.compile(  # numpy.lib.format, version 1.0
    rb"\x93NUMPY\x01\x00..\{'descr': '(?P<kind>[|<>][uif][1248])', 'fortran_order': False, "
    rb"'shape': \((?P<shape>[0-9]{1,10},(?: [0-9]{1,10})?)\), \} *\n",
    re.DOTALL,
)
# Whatever `zipfile` raises for bytes that are no archive, or not one of this form; `json` for nesting.
_ARRAY_ERRORS = (
    BadZipFile,
    OSError,
    EOFError,
    LookupError,
    TypeError,
    ValueError,
    ArithmeticError,
    RuntimeError,
    struct.error,
)


@dataclass(frozen=True, eq=False)
class StoredVectors:
    """The vectors of a baseline, by the hash of their text.

    Attributes:
        embedder: key of the identity of who made them.
        rows: by hash of the text, the row in `vectors`.
        vectors: shape (n_texts, dimensions), unit length.
    """

    embedder: str
    rows: Mapping[bytes, int]
    vectors: Float32Array

    def __len__(self) -> int:
        return len(self.rows)

    def look_up(self, texts: Sequence[str]) -> tuple[BoolArray, Float32Array]:
        """Which texts are there, shape (n_texts,), and their vectors, shape (n_texts, dimensions), else zero."""
        rows = np.array([self.rows.get(text_hash(text), -1) for text in texts], dtype=np.int64)
        is_stored = rows >= 0
        vectors = np.zeros((len(texts), self.vectors.shape[1]), dtype=np.float32)
        vectors[is_stored] = self.vectors[rows[is_stored]]
        return is_stored, vectors


class BaselineStore(VectorStore):
    """The vectors of a baseline over this machine's store, which is opened only for texts that the baseline lacks.

    Args:
        first: of the baseline.
        identity: of the embedder, whose vectors this machine's store holds; new ones go there.

    Raises:
        ValueError: the two are of different embedders, or of vectors of different lengths.
    """

    def __init__(self, first: StoredVectors, identity: EmbedderIdentity) -> None:
        super().__init__(identity)
        lengths = first.vectors.shape[1], identity.dimensions
        if first.embedder != identity.key or lengths[0] != lengths[1]:
            of = f"{first.embedder} ({lengths[0]} numbers)"
            raise ValueError(f"vectors of {of} cannot stand over those of {identity.key} ({lengths[1]} numbers)")
        self._first = first

    def look_up(self, texts: Sequence[str]) -> tuple[BoolArray, Float32Array]:
        """See `Store.look_up`."""
        is_stored, vectors = self._first.look_up(texts)
        if missing := np.flatnonzero(~is_stored).tolist():
            is_stored[missing], vectors[missing] = super().look_up([texts[index] for index in missing])
        return is_stored, vectors


class GateVectors(Vectors):
    """Vectors that remember those they gave, and explain what to do if a text is new and no model is available.

    Args:
        embedder, store, progress: as for `Vectors`.
        missing_reason: why a baseline has no vector of a text, for messages.
        last: vectors to take where neither the store nor the model has any.
    """

    def __init__(
        self,
        embedder: Embedder,
        store: Store,
        *,
        missing_reason: str,
        last: StoredVectors | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        super().__init__(embedder, store, progress=progress)
        self.vectors_by_text: dict[str, Float32Array] = {}
        self._missing_reason = missing_reason
        self._last = last

    def get(self, texts: Sequence[str], *, kind: TextKind = "query") -> Float32Array:
        """See `Vectors.get`."""
        try:
            vectors = super().get(texts, kind=kind)
        except ModelError as error:
            if self._last is not None:
                last, self._last = self._last, None
                self._memory.update((key, last.vectors[row]) for key, row in last.rows.items())
                return self.get(texts, kind=kind)
            distinct = self.identity.stored_texts(dict.fromkeys(texts), kind)
            new = len(distinct) - int(self.look_up(distinct)[0].sum())
            raise ModelError(
                f"{new} text{'s have' if new > 1 else ' has'} no vector ({self._missing_reason}), "
                f"and the model that would make them cannot be used: {error}. "
                f"Write the vectors on a machine that has the model ({accept_command('--vectors')}) and commit them, "
                "or install the model here"
            ) from error
        self.vectors_by_text.update(zip(self.identity.stored_texts(texts, kind), vectors, strict=True))
        return vectors


class GateResources(LocalResources):
    """The resources of a check: vectors and token counts.

    Attributes:
        vectors_by_text: the vectors used so far, which `write_baseline` stores.
    """

    def __init__(self, vectors: GateVectors, counter: TokenCounter) -> None:
        super().__init__(vectors, counter)
        self.vectors_by_text: Mapping[str, Float32Array] = vectors.vectors_by_text


def gate_resources(
    prepared: Prepared,
    folder: Path,
    *,
    accepting: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> GateResources:
    """Make resources whose vectors come from a baseline, then from this machine's store, then from the model.

    When a baseline is accepted, they come from this machine's store or the model, and from the current baseline only
    if both are missing.

    Vectors of another model than the experiment's are not used.

    Args:
        prepared: the experiment.
        folder: of the baseline; neither it nor vectors in it need be there.
        accepting: whether a new baseline is accepted: current vectors come last, and are ignored if unusable.
        progress: as for `Vectors`.

    Raises:
        StorageError: the vectors are damaged, or not those that were accepted.
        InputError: `baseline.json` is damaged.
    """
    local_store = VectorStore(prepared.embedder.identity)
    stored = _usable_vectors(folder, local_store.identity, accepting=accepting)
    store: Store = local_store
    last: StoredVectors | None = None
    if stored is None:
        missing_reason = f"{folder} has no {VECTORS}"
    elif stored.embedder != local_store.identity.key:
        missing_reason = f"{folder / VECTORS} has those of {stored.embedder}"
    else:
        store, last = (local_store, stored) if accepting else (BaselineStore(stored, local_store.identity), None)
        missing_reason = f"new since {folder / VECTORS} was written"
    vectors = GateVectors(prepared.embedder, store, missing_reason=missing_reason, last=last, progress=progress)
    return GateResources(vectors, prepared.counter)


def _usable_vectors(folder: Path, identity: EmbedderIdentity, *, accepting: bool) -> StoredVectors | None:
    path = folder / VECTORS
    if not path.exists():
        return None
    try:
        stored = accepted_vectors(folder)
        length = stored.vectors.shape[1]
        if stored.embedder == identity.key and length != identity.dimensions:
            raise damaged(path, f"vectors of {length} numbers, the model's have {identity.dimensions}")
    except (StorageError, InputError):
        if accepting:
            return None
        raise
    return stored


def accepted_vectors(folder: Path) -> StoredVectors:
    """The vectors of a baseline, which must be those that were accepted with it.

    Args:
        folder: of the baseline, with a file of vectors.

    Raises:
        StorageError: they are damaged, or others than those whose hash `baseline.json` has.
        InputError: `baseline.json` is damaged.
    """
    path = folder / VECTORS
    stored = read_vectors(path)
    if read_manifest(folder).get("vectors") != file_hash(read_bytes(path)):
        raise StorageError(
            f"{path} is not the accepted file: {MANIFEST} has another hash, or none; restore both from git, or accept "
            f"again ({accept_command('--vectors')})"
        )
    return stored


class BaselineCounter:
    """A token counter that counts only what has no count in a baseline.

    Args:
        counter: counts the rest.
        counts: tokens by (item id, hash of its prompt text), by this counter.
    """

    def __init__(self, counter: TokenCounter, counts: Mapping[tuple[str, str], int]) -> None:
        self.name = counter.name
        self._counter = counter
        self._counts = counts

    def count(self, ids: Sequence[str], texts: Sequence[str]) -> IntArray:
        """Count; see `TokenCounter.count`."""
        stored_counts = [
            self._counts.get((name, content_hash(text)), -1) for name, text in zip(ids, texts, strict=True)
        ]
        counts = np.array(stored_counts, dtype=np.int64)
        if missing := np.flatnonzero(counts < 0).tolist():
            counts[missing] = self._counter.count(
                [ids[index] for index in missing], [texts[index] for index in missing]
            )
        return counts


def baseline_counts(snapshots: Iterable[SelectorSnapshot]) -> Callable[[TokenCounter], TokenCounter]:
    """Make the argument `counting` of `prepare`: a counter that takes counts of items from the baseline."""
    by_counter: dict[str, dict[tuple[str, str], int]] = {}
    for snapshot in snapshots:
        counts = by_counter.setdefault(snapshot.identity.tokens, {})
        counts.update(((item.id, item.prompt), item.tokens) for item in snapshot.all_items.values() if item.prompt)

    def counting(counter: TokenCounter) -> TokenCounter:
        counts = by_counter.get(counter.name)
        return BaselineCounter(counter, counts) if counts else counter

    return counting


def read_vectors(path: Path) -> StoredVectors:
    """Read the vectors of a baseline.

    Raises:
        StorageError: the file is missing, damaged or of another format.
    """
    return _from_bytes(read_bytes(path), path)


def vectors_bytes(vectors: Mapping[str, Float32Array], embedder: str, before: bytes | None = None) -> bytes:
    """Vectors as the bytes of a file.

    Args:
        vectors: by text, at least one, each of shape (dimensions,), of unit length, all equally long.
        embedder: key of the identity of who made them.
        before: the current file: a vector that differs from the current one by at most `MARGIN` is kept, since scores
            then move by no more than that.
    """
    stored = None
    with suppress(StorageError):  # a damaged file is written anew
        stored = None if before is None else _from_bytes(before, Path())
    by_hash = {text_hash(text): np.asarray(vector, dtype="<f4") for text, vector in vectors.items()}
    if stored is not None and stored.embedder == embedder:
        for key, vector in by_hash.items():
            if key in stored.rows and len(vector) == stored.vectors.shape[1]:
                old = stored.vectors[stored.rows[key]]
                by_hash[key] = old if float(np.linalg.norm(vector - old)) <= MARGIN else vector
    keys = sorted(by_hash)
    meta = dump_json({"format": _FORMAT, "embedder": embedder}).encode()
    arrays: dict[str, npt.NDArray[np.generic]] = {
        "meta": np.frombuffer(meta, dtype=np.uint8),
        "hashes": np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), _HASH),
        "vectors": np.array([by_hash[key] for key in keys], dtype="<f4").reshape(len(keys), -1),
    }
    stream = io.BytesIO()
    with ZipFile(stream, "w", ZIP_STORED) as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array, allow_pickle=False)
            archive.writestr(ZipInfo(f"{name}.npy", date_time=_DATE), content.getvalue())
    return stream.getvalue()


def damaged(path: Path, wrong: str) -> StorageError:
    """The error for a file of vectors that cannot be used."""
    return StorageError(Message("gate.damaged-vectors", path=path, problem=wrong, command=accept_command("--vectors")))


def _from_bytes(data: bytes, path: Path) -> StoredVectors:
    if data.startswith(_LFS):
        raise StorageError(f"{path} is a pointer of Git LFS and not the file itself; fetch it with `git lfs pull`")
    try:
        with ZipFile(io.BytesIO(data)) as archive:
            meta = json.loads(_read_array(archive, "meta", "|u1", at_most=_LONGEST_META).tobytes())
            hashes, vectors = _read_array(archive, "hashes", "|u1"), _read_array(archive, "vectors", "<f4")
        _check_content(meta, hashes, vectors)
    except _ARRAY_ERRORS as error:
        raise damaged(path, str(error) or type(error).__name__) from error
    keys = hashes.tobytes()
    return StoredVectors(
        meta["embedder"], {keys[_HASH * row : _HASH * (row + 1)]: row for row in range(len(hashes))}, vectors
    )


def _read_array(archive: ZipFile, name: str, kind: str, *, at_most: int | None = None) -> npt.NDArray[Any]:
    """Read one array of the archive, which must not be compressed.

    Raises:
        ValueError: it is compressed, encrypted, too long, no array, or not of the declared kind or size.
    """
    about = archive.getinfo(f"{name}.npy")
    if about.compress_type != ZIP_STORED or about.flag_bits & _LOCKED or about.file_size != about.compress_size:
        raise ValueError(f"{name} is compressed or encrypted, expected a stored member")
    if at_most is not None and about.file_size > at_most:
        raise ValueError(f"{name} takes {about.file_size} bytes, at most {at_most} are expected")
    content = archive.read(about)
    if (head := _HEADER.match(content)) is None:
        raise ValueError(f"{name} is no array of one or two dimensions")
    if head["kind"].decode() != kind:
        raise ValueError(f"{name} are {np.dtype(head['kind'].decode())}, expected {np.dtype(kind)}")
    shape = [int(size) for size in head["shape"].decode().split(",") if size.strip()]
    if math.prod(shape) * np.dtype(kind).itemsize != len(content) - head.end():
        raise ValueError(f"{name} say that they are of shape {tuple(shape)}, which {len(content)} bytes do not hold")
    return np.frombuffer(content, dtype=kind, offset=head.end()).reshape(shape)


def _check_content(meta: object, hashes: npt.NDArray[np.uint8], vectors: Float32Array) -> None:
    """Check the content.

    Raises:
        ValueError: it is not that of a file of vectors.
    """
    if not isinstance(meta, dict) or meta.get("format") != _FORMAT or not isinstance(meta.get("embedder"), str):
        raise ValueError(f"expected format {_FORMAT} and the key of an embedder")
    if not len(hashes) or hashes.shape != (len(vectors), _HASH) or vectors.ndim != 2:
        raise ValueError(f"hashes of shape {hashes.shape} do not fit vectors of shape {vectors.shape}")
    if not np.all(np.abs(np.einsum("ij,ij->i", vectors, vectors) - 1.0) <= UNIT_TOLERANCE):
        raise ValueError("a vector is not finite or not of unit length")
