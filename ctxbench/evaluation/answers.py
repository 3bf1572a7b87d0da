"""Answers of selectors: in blocks, in files, as rows, and joined with labels.

`Slice` has the answers to some queries with all candidates. `StoredAnswers` reads them from `answers.zip` block by
block. A `Part` is one selector on one dataset; `ctxbench.evaluation.run_folder` stores parts. `Labels.evidence` joins
answers and labels into the arrays that `ctxbench.evaluation.metrics` reads.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import math
import threading
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias
from zipfile import BadZipFile

import numpy as np

from ctxbench.datasets.dataset import TREC, Dataset
from ctxbench.io.documents import dump_json
from ctxbench.io.errors import Fault, InputError, Message, ParameterError, SelectorError, StorageError
from ctxbench.io.files import read_bytes, write_atomic
from ctxbench.model.arrays import (
    BoolArray,
    Evidence,
    FloatArray,
    IntArray,
    Kinship,
    OfferedItems,
    Rankings,
    falling,
    ranges,
    starts,
)
from ctxbench.model.candidates import RECEIVED, SECONDS, SENT, SHOWN, Candidates, Note, Rule, holding
from ctxbench.model.items import Catalog
from ctxbench.model.selection import offered_at, stacked

# What reading damaged bytes or JSON of another form raises, from zip, zlib, numpy and ourselves.
DAMAGE = (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, EOFError, BadZipFile, zlib.error)


@dataclass(frozen=True, eq=False, kw_only=True)
class AnsweredQueries:
    """Answers to some queries of a dataset, in order, without the candidates.

    Attributes:
        queries: their ids.
        chunks: the query chunks of each.
        ranked, scored: as `Answers`.
        errors: what went wrong, by query id.
        seconds: what each query took, shape (n_queries,).
        notes: of the selector on these answers, as JSON; counts are added over slices.
    """

    queries: tuple[str, ...]
    chunks: tuple[tuple[str, ...], ...]
    ranked: bool
    scored: bool
    errors: Mapping[str, str]
    seconds: FloatArray
    notes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, kw_only=True)
class Slice(AnsweredQueries):
    """Answers to some queries of a dataset, in order, with the candidates, rows by query."""

    candidates: Candidates

    def blocks(self) -> Iterator[Slice]:
        """The answers block by block: here a single block; `StoredAnswers` have more."""
        yield self

    def joined(self) -> Slice:
        """All answers as one slice, which is this one."""
        return self

    def select_queries(self, indices: Sequence[int]) -> Slice:
        """The answers at some indices, in the order of `indices`; the notes stay those of all."""
        queries = tuple(self.queries[index] for index in indices)
        table = _select_requests(self.candidates, indices)
        return replace(
            self,
            queries=queries,
            chunks=tuple(self.chunks[index] for index in indices),
            candidates=replace(table, notes=tuple(note for note in table.notes if note.query in ("", *queries))),
            errors={query: self.errors[query] for query in queries if query in self.errors},
            seconds=self.seconds[np.asarray(indices, dtype=np.int64)],
        )

    def to_bytes(self, *, timed: bool) -> bytes:
        """As the bytes of an npz file; equal answers give equal bytes, unless `timed` puts seconds and notes in.

        Where most rows continue the one above (see `continuing`), only the first of each run is written, and how long
        it is: what offers the whole catalog takes a row for each query, not one for each item.
        """
        table = self.candidates
        arrays: dict[str, np.ndarray[Any, Any]] = {"start": table.start}
        first = np.flatnonzero(~continuing(table))
        if len(first) > len(table) // 2:
            first = np.arange(len(table))
        else:
            arrays["run"] = _small(np.diff(first, append=len(table)))
        unabridged = bool(table.shows_all.all() and (table.tokens < 0).all())
        stored = {
            name: getattr(table, name)[first] for name in table.row_arrays() if not (unabridged and name in SHOWN)
        }
        arrays |= {name: array if name == "score" else _small(array) for name, array in stored.items()}
        arrays |= {f"column:{name}": column[first] for name, column in table.columns.items()}
        arrays |= {"seconds": self.seconds} if timed else {}
        meta = {
            "queries": self.queries,
            "chunks": self.chunks,
            "rules": [None if rule is None else rule.as_dict() for rule in table.rules],
            "ranked": self.ranked,
            "scored": self.scored,
            "errors": dict(sorted(self.errors.items())),
            **({"trace": [note.as_dict() for note in table.notes]} if table.notes else {}),
            **({"notes": dict(self.notes)} if timed else {}),
        }
        arrays["meta"] = np.frombuffer(dump_json(meta).encode(), dtype=np.uint8)
        save = np.savez if timed else np.savez_compressed  # what waits for a moment need not be small
        save(stream := io.BytesIO(), allow_pickle=False, **arrays)
        return stream.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes, path: Path, *, rows: bool = True) -> Slice:
        """Read what `to_bytes` made.

        Args:
            data: the bytes.
            path: is named where they are damaged.
            rows: False leaves the candidates out, which is faster.

        Raises:
            StorageError: they are damaged.
        """
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files if rows or name in ("meta", "seconds")}
            meta = json.loads(arrays.pop("meta").tobytes())
            queries = tuple(meta["queries"])
            seconds = arrays.pop("seconds", np.full(len(queries), np.nan))
            if not rows:
                arrays |= {name: np.empty(0) for name in Candidates.row_arrays()}
                arrays["start"] = np.zeros(len(queries) + 1, dtype=np.int64)
            if "run" in arrays:
                _unrolled(arrays, arrays.pop("run").astype(np.int64))
            columns = {n.removeprefix("column:"): arrays.pop(n) for n in list(arrays) if n.startswith("column:")}
            for name, all_of_it in zip(SHOWN, (0, -1, -1), strict=True):
                arrays.setdefault(name, np.full(len(arrays["item"]), all_of_it))
            table = Candidates(
                start=arrays.pop("start"),
                score=arrays.pop("score"),
                rules=(None, *map(Rule.read, meta["rules"][1:])),
                columns=columns,
                notes=tuple(Note(**note) for note in meta.get("trace", ())),
                **{name: array.astype(np.int64) for name, array in arrays.items()},
            )
            return cls(
                queries=queries,
                chunks=tuple(tuple(row) for row in meta["chunks"]),
                candidates=table,
                ranked=bool(meta["ranked"]),
                scored=bool(meta["scored"]),
                errors=meta["errors"],
                seconds=seconds,
                notes=meta.get("notes", {}),
            )
        except (*DAMAGE, ParameterError, SelectorError) as error:
            raise StorageError(f"{path} is damaged ({error}); delete it and run again") from error


def run_rows(answers: Slice, ids: Sequence[str]) -> Iterator[tuple[str, str, int, float]]:
    """The ranking that metrics read, as other programs take it: query, item, rank from 1, and score.

    A score is the selector's where scores fall strictly down the ranking, and else slightly lower (see `falling`), so
    that programs that sort by score have the same order.

    Args:
        answers: with rankings.
        ids: of the catalog's items.
    """
    table = answers.candidates
    for index, query in enumerate(answers.queries):
        span = table.rows(index)
        rows = np.flatnonzero(table.tier[span] > 0) + span.start
        pairs = zip(table.item[rows].tolist(), falling(table.score[rows]).tolist(), strict=True)
        yield from ((query, ids[item], rank, score) for rank, (item, score) in enumerate(pairs, start=1))


def _select_requests(table: Candidates, indices: Sequence[int]) -> Candidates:
    """The rows of some requests, in the order of `indices`."""
    chosen = np.asarray(indices, dtype=np.int64)
    lengths = np.diff(table.start)[chosen]
    rows = ranges(table.start[:-1][chosen], lengths)
    return replace(
        table,
        start=starts(lengths),
        columns={name: column[rows] for name, column in table.columns.items()},
        **{name: getattr(table, name)[rows] for name in Candidates.row_arrays()},
    )


def continuing(table: Candidates) -> BoolArray:
    """Whether a row is the one above with the next item of the catalog, and nothing else changed; shape (n_rows,)."""
    continues = np.zeros(len(table), dtype=np.bool_)
    continues[1:] = (table.request[1:] == table.request[:-1]) & (table.item[1:] == table.item[:-1] + 1)
    arrays = (getattr(table, name) for name in Candidates.row_arrays() if name != "item")
    for array in (*arrays, *table.columns.values()):
        continues[1:] &= _equal(array)
    return continues


def _equal(array: np.ndarray[Any, Any]) -> BoolArray:
    """Whether each value but the first is that before it, -0.0 not being 0.0; NaN is equal to NaN."""
    bits = np.ascontiguousarray(array).view(np.int64)
    equal = np.equal(bits[1:], bits[:-1])
    return equal | (np.isnan(array[1:]) & np.isnan(array[:-1])) if array.dtype.kind == "f" else equal


def _unrolled(arrays: dict[str, np.ndarray[Any, Any]], run: np.ndarray[Any, Any]) -> None:
    """Make rows of runs, in place; `run` is how many rows each of them has."""
    arrays |= {name: np.repeat(array, run) for name, array in arrays.items() if name != "start"}
    arrays["item"] = arrays["item"].astype(np.int64)
    arrays["item"] += np.arange(len(arrays["item"])) - np.repeat(np.cumsum(run) - run, run)


def joined_slices(slices: Sequence[Slice]) -> Slice:
    """Concatenate slices; one whose queries all failed does not count for rankings."""
    telling = [part for part in slices if len(part.errors) < len(part.queries)] or slices
    return Slice(
        queries=tuple(query for part in slices for query in part.queries),
        chunks=tuple(chunk for part in slices for chunk in part.chunks),
        candidates=stacked([part.candidates for part in slices]),
        ranked=all(part.ranked for part in telling),
        scored=all(part.scored for part in telling),
        errors={query: text for part in slices for query, text in part.errors.items()},
        seconds=np.concatenate([np.empty(0, dtype=np.float64), *(part.seconds for part in slices)]),
        notes=_added_up([part.notes for part in slices]),
    )


def _added_up(notes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge notes: sum counts, join lists without repeats, and keep the last of anything else."""
    out: dict[str, Any] = {}
    for name, value in (entry for part in notes for entry in part.items()):
        if isinstance(value, int) and not isinstance(value, bool) and name != "repeats":
            out[name] = out.get(name, 0) + value
        elif isinstance(value, list):
            out[name] = sorted({*out.get(name, []), *value})
        else:
            out[name] = value
    return out


def _small(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The smallest signed type that holds the values: files are an eighth of the size."""
    peak = int(np.abs(array).max(initial=0))
    return array.astype(next((t for t in (np.int8, np.int16, np.int32) if peak <= np.iinfo(t).max), np.int64))


SUFFIX = ".slice"  # behind the number of one in the folder of an unfinished part; an npz file behind its SHA-256


@dataclass(frozen=True, eq=False, kw_only=True)
class StoredAnswers(AnsweredQueries):
    """Answers to all queries of a dataset, in order; candidates are read from the file on demand.

    Attributes:
        path: of the file, or of the folder of an unfinished part.
        parts: the ids of the queries of each block.
        stamp: identifies the file, so that a replaced one is noticed; None of a folder.

    `ranked` and `scored` are over all blocks, without those whose queries all failed.
    """

    path: Path
    parts: tuple[tuple[str, ...], ...]
    stamp: tuple[int, ...] | None

    @classmethod
    def read(cls, path: Path) -> StoredAnswers:
        """Open answers.

        Raises:
            StorageError: there are none, or they are damaged.
        """
        stamp = _stamp(path)
        heads = list(_blocks(path, rows=False))
        all_of_them = joined_slices(heads)
        return cls(
            path=path,
            parts=tuple(head.queries for head in heads),
            stamp=stamp,
            **{field.name: getattr(all_of_them, field.name) for field in fields(AnsweredQueries)},
        )

    def blocks(self, selected: Container[int] | None = None) -> Iterator[Slice]:
        """The answers, a block of queries at a time, in order.

        Args:
            selected: the numbers of the blocks; None = all.

        Raises:
            StorageError: they were changed since they were opened.
        """
        numbers = [number for number in range(len(self.parts)) if selected is None or number in selected]
        blocks = _blocks(self.path, selected=selected) if _stamp(self.path) == self.stamp else iter(())
        for number, block in itertools.zip_longest(numbers, blocks):
            if number is None or block is None or block.queries != self.parts[number]:
                raise StorageError(f"{self.path} was changed while it was read; do the same again")
            yield replace(block, ranked=self.ranked, scored=self.scored)

    def joined(self) -> Slice:
        """All answers at once, which takes the memory that all of them need."""
        return replace(joined_slices(list(self.blocks())), notes=self.notes)

    def select_queries(self, queries: Sequence[str]) -> Slice | None:
        """The answers to some queries, in the order of `queries`; None if one is not there."""
        if not (ids := set(queries)) <= set(self.queries):
            return None
        holding = {number for number, part in enumerate(self.parts) if not ids.isdisjoint(part)}
        return select_answers(list(self.blocks(holding)), queries)


def select_answers(slices: Sequence[Slice], queries: Sequence[str]) -> Slice | None:
    """The answers to some queries among slices, in the order of `queries`; None if one is not there."""
    ids = set(queries)
    joined = joined_slices(
        [part.select_queries([index for index, query in enumerate(part.queries) if query in ids]) for part in slices]
    )
    place_of = {query: index for index, query in enumerate(joined.queries)}
    return joined.select_queries([place_of[query] for query in queries]) if ids <= place_of.keys() else None


def write_slice(path: Path, answers: Slice | bytes) -> None:
    """Write a finished slice of an unfinished part, or what `Slice.to_bytes` made of it, behind its checksum."""
    data = answers if isinstance(answers, bytes) else answers.to_bytes(timed=True)
    digest = hashlib.sha256(data)
    write_atomic(path, f"{digest.hexdigest()}\n".encode() + data, durable=False)
    if not isinstance(answers, bytes):
        _recent.keep(digest.digest(), answers)


def read_slice(path: Path, *, rows: bool = True) -> Slice:
    """A slice of an unfinished part.

    Raises:
        StorageError: it is not as it was written.
    """
    digest, _, data = read_bytes(path).partition(b"\n")
    if digest != hashlib.sha256(data).hexdigest().encode():
        raise StorageError(f"{path} was changed or is damaged; run the experiment again")
    return _recent.read(data, path, rows=rows)


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        status = path.stat()
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}; run again") from error
    return None if path.is_dir() else (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class _Recent:
    """A cache of the blocks that were written or read last, by the hash of their bytes.

    A run and its report read each several times, and unpacking takes longest. No more than `limit` bytes of rows are
    kept; a block that has more never is.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._blocks: OrderedDict[bytes, Slice] = OrderedDict()  # by SHA-256
        self._bytes = 0
        self._lock = threading.Lock()

    def read(self, data: bytes, path: Path, *, rows: bool) -> Slice:
        """As `Slice.from_bytes`."""
        if not rows:
            return Slice.from_bytes(data, path, rows=False)
        key = hashlib.sha256(data).digest()
        with self._lock:
            if key in self._blocks:
                self._blocks.move_to_end(key)
                return self._blocks[key]
        block = Slice.from_bytes(data, path)
        self.keep(key, block)
        return block

    def keep(self, key: bytes, block: Slice) -> None:
        """Store a block under the SHA-256 of its bytes."""
        size = _size(block)
        with self._lock:
            if size <= self._limit and key not in self._blocks:
                self._blocks[key] = block
                self._bytes += size
                while self._bytes > self._limit:
                    self._bytes -= _size(self._blocks.popitem(last=False)[1])


def _size(block: Slice) -> int:
    """The bytes of a block's rows."""
    table = block.candidates
    arrays: list[np.ndarray[Any, Any]] = [getattr(table, name) for name in table.row_arrays()]
    return sum(array.nbytes for array in (*arrays, *table.columns.values()))


_recent = _Recent(limit=100_000_000)


def _blocks(path: Path, *, rows: bool = True, selected: Container[int] | None = None) -> Iterator[Slice]:
    """The blocks of a file or an unfinished part, in order: all or those `selected`, without candidates if not `rows`.

    Raises:
        StorageError: one is damaged.
    """
    if path.is_dir():
        yield from (
            read_slice(file, rows=rows)
            for number, file in enumerate(sorted(path.glob(f"*{SUFFIX}")))
            if selected is None or number in selected
        )
    else:
        try:
            with zipfile.ZipFile(path) as archive:
                yield from (
                    _recent.read(archive.read(name), path, rows=rows)
                    for number, name in enumerate(archive.namelist())
                    if selected is None or number in selected
                )
        except DAMAGE as error:
            raise StorageError(f"{path} is damaged ({error}); delete it and run again") from error


_MANY = 20  # so many equal items in catalog order are written as first and last in `selections.jsonl`


class Measures(NamedTuple):
    """The metrics of a block of answers.

    Attributes:
        values: by metric name in the order asked, shape (n_queries,); NaN where a metric does not apply.
        unavailable: why a metric could not be computed, by its name.
        forbidden: to how many of the queries each item was added although it is labelled irrelevant, shape (n_items,).
    """

    values: Mapping[str, FloatArray]
    unavailable: Mapping[str, str]
    forbidden: IntArray


@dataclass(frozen=True, eq=False, kw_only=True)
class Packed:
    """A block of answers as a worker sends it: measured, and as the files of a run hold it.

    Attributes:
        ranked, scored: as `Answers`; a part whose other blocks differ has the files of this block made again.
        slice: its file in an unfinished part.
        files: its share of each file of a finished part that `pieces` makes, by the file's name.
        measures: its metrics.
    """

    ranked: bool
    scored: bool
    slice: bytes
    files: Mapping[str, bytes]
    measures: Measures

    @classmethod
    def of(cls, answers: Slice, catalog: Catalog, measures: Measures) -> Packed:
        """Pack a block."""
        return cls(
            ranked=answers.ranked,
            scored=answers.scored,
            slice=answers.to_bytes(timed=True),
            files={name: make(answers, catalog) for name, make in _PIECES.items()},
            measures=measures,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Part:
    """The answers of one selector on one dataset, and their metrics.

    Attributes:
        dataset, selector: names.
        key: hash of everything that decides the answers.
        answers: for every query, at once or by blocks.
        metrics: values by query, by metric name in the order asked; NaN where a metric does not apply.
        unavailable: why a metric could not be computed, by its name.
        notes: of the selector on this run, such as how many repeats differed.
        forbidden: by item id, to how many queries it was added although it is labelled irrelevant.
        values_key: hash of what else decides the values: metrics, token counts, code.
        made_by: versions and commit that the part was made by; a run may reuse parts of an earlier one.
        packed: blocks of the answers that workers have packed, by number.
    """

    dataset: str
    selector: str
    key: str
    answers: Slice | StoredAnswers
    metrics: Mapping[str, FloatArray]
    unavailable: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)
    forbidden: Mapping[str, int] = field(default_factory=dict)
    values_key: str = ""
    made_by: Mapping[str, Any] = field(default_factory=dict)
    packed: Mapping[int, Packed] = field(default_factory=dict)

    def pieces(self, name: str, catalog: Catalog) -> Iterator[bytes]:
        """The share of every block in a file of `answers.zip` and `selections.jsonl`, packed already or made now."""
        if not isinstance(self.answers, StoredAnswers):
            yield _PIECES[name](self.answers, catalog)
            return
        numbers = range(len(self.answers.parts))
        blocks = self.answers.blocks(set(numbers) - self.packed.keys())
        for number in numbers:
            ready = self.packed.get(number)
            yield _PIECES[name](next(blocks), catalog) if ready is None else ready.files[name]


ANSWERS, SELECTIONS = "answers.zip", "selections.jsonl"


def write_blocks(part: Part, catalog: Catalog, stream: BinaryIO) -> None:
    """Write answers, a block at a time, as a zip file of npz files; equal blocks give equal bytes."""
    with zipfile.ZipFile(stream, "w") as archive:
        for number, data in enumerate(part.pieces(ANSWERS, catalog)):
            archive.writestr(zipfile.ZipInfo(f"{number:06d}.npz"), data)


def _npz(block: Slice, _catalog: Catalog) -> bytes:
    data = block.to_bytes(timed=False)
    bare = replace(block, seconds=np.full(len(block.queries), np.nan), notes={})  # as it is read back
    _recent.keep(hashlib.sha256(data).digest(), bare)
    return data


def write_selections(part: Part, catalog: Catalog, stream: BinaryIO) -> None:
    """Write the offered items of each query, with scores, one JSON line per query."""
    stream.writelines(part.pieces(SELECTIONS, catalog))


def _selection_lines(answers: Slice, catalog: Catalog) -> bytes:
    alike, lines = continuing(answers.candidates), []
    for index, query in enumerate(answers.queries):
        row = {
            "query": query,
            "error": answers.errors.get(query),
            "trace": [note.as_dict() for note in answers.candidates.notes_of(query)] or None,
            "items": list(_offered(catalog, answers.candidates, index, alike)),
        }
        lines.append(f"{dump_json({name: value for name, value in row.items() if value is not None})}\n")
    return "".join(lines).encode()


_PIECES: dict[str, Callable[[Slice, Catalog], bytes]] = {ANSWERS: _npz, SELECTIONS: _selection_lines}


def _offered(catalog: Catalog, table: Candidates, index: int, alike: BoolArray) -> Iterator[dict[str, Any]]:
    """The offered items of a query; for many consecutive items of the catalog, the first and last id."""
    span = table.rows(index)
    rows = np.flatnonzero(table.chosen[span]) + span.start
    if np.count_nonzero(alike[rows]) < _MANY - 1:
        yield from (item.as_dict() for item in offered_at(catalog, table, rows))
        return
    first = np.flatnonzero(~alike[rows])
    ends = np.append(first[1:], len(rows))
    long = ends - first >= _MANY
    lengths = dict(zip(first[long].tolist(), (ends - first)[long].tolist(), strict=True))
    mask = np.ones(len(rows), dtype=np.bool_)
    for begin, length in lengths.items():
        mask[begin + 1 : begin + length] = False
    for at, item in zip(np.flatnonzero(mask).tolist(), offered_at(catalog, table, rows[mask]), strict=True):
        row = item.as_dict()
        if at in lengths:
            last = catalog[int(table.item[rows[at]]) + lengths[at] - 1].id
            row = {"id": row.pop("id"), "to": last, "items": lengths[at], **row}
        yield row


def write_metrics(part: Part, _catalog: Catalog, stream: BinaryIO) -> None:
    """Write the values of all metrics, one JSON line per query."""
    columns = {name: values.tolist() for name, values in part.metrics.items()}
    for index, query in enumerate(part.answers.queries):
        values = {name: None if math.isnan(v[index]) else v[index] for name, v in columns.items()}
        stream.write(f"{dump_json({'query': query, 'values': values})}\n".encode())


TextTokens: TypeAlias = Callable[[Sequence[str]], IntArray]


@dataclass(frozen=True, eq=False, kw_only=True)
class Labels:
    """The labels of a dataset and what metrics need besides, to be joined with answers.

    Attributes:
        dataset: with judgments for every query.
        item_tokens: prompt tokens, shape (n_items,).
        kinship: which items are siblings.
        pool: how many items each query's search may offer, shape (n_queries,).
        body_tokens: of what the model loads of each item on demand, shape (n_items,); None = it cannot be counted.
        groups: by the name of a grouping, the number of each item's group, shape (n_items,).
    """

    dataset: Dataset
    item_tokens: IntArray
    kinship: Kinship
    pool: IntArray
    body_tokens: IntArray | None
    groups: Mapping[str, IntArray] = field(default_factory=dict)

    @classmethod
    def of(cls, dataset: Dataset, item_tokens: IntArray, count: TextTokens | None = None) -> Labels:
        """Read them from a dataset.

        Args:
            dataset: with judgments for every query.
            item_tokens: prompt tokens, shape (n_items,).
            count: counts the tokens of texts; without it bodies of skills are not counted.
        """
        catalog = dataset.catalog
        return cls(
            dataset=dataset,
            item_tokens=item_tokens,
            kinship=Kinship.of(
                [item.name for item in catalog],
                servers=[item.server or "" for item in catalog],
                types=[item.type for item in catalog],
            ),
            pool=dataset.batch().eligible.counts(),
            body_tokens=_body_tokens(catalog, count),
        )

    def evidence(self, answers: Slice, *, first: int | None = None) -> Evidence:
        """Join labels and answers.

        Args:
            answers: for all queries of the dataset, or some that follow each other, in its order.
            first: the index of the first of them in the dataset; None = they are all.

        Raises:
            InputError: the answers are not those of these queries.
        """
        span = slice(0, len(self.ids)) if first is None else slice(first, first + len(answers.queries))
        if self.ids[span] != answers.queries:
            raise InputError([Fault(Message("evaluation.answers-of-other-queries", dataset=self.dataset.name))])
        table = answers.candidates
        ranked, items = table.ranking()
        enough, chosen = enough_shown(self.dataset, table, first=span.start), table.chosen
        enough_ranked = None if self.dataset.judged_as == TREC else enough[table.tier > 0]  # trec_eval knows no parts
        return Evidence(
            judgments=self.dataset.judgments.of(span),
            offered=OfferedItems(
                start=table.starts_of(chosen),
                item=table.item[chosen],
                origin=table.origin[chosen],
                tokens=table.prices(self.item_tokens)[chosen],
                enough=enough[chosen],
            ),
            rankings=Rankings(start=ranked, item=items, enough=enough_ranked) if answers.ranked else None,
            item_tokens=self.item_tokens,
            kinship=self.kinship,
            pool=self.pool[span],
            body_tokens=self.body_tokens,
            model_use=_model_use(table),
            groups=self.groups,
        )

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The ids of the dataset's queries, in order."""
        return tuple(query.id for query in self.dataset.queries)


def _model_use(table: Candidates) -> FloatArray | None:
    """Tokens and seconds of language models by query; 0 if none was called, None without a step that calls one."""
    if SENT not in table.columns:
        return None
    use = np.zeros((2, table.n_requests), dtype=np.float64)
    rows = ~np.isnan(table.columns[SECONDS])  # a query's first step may have asked for more rows than its second
    tokens = table.columns[SENT] + table.columns[RECEIVED]
    with np.errstate(invalid="ignore"):  # the server may count no tokens: then NaN is right
        for values, of_query in zip((tokens, table.columns[SECONDS]), use, strict=True):
            np.maximum.at(of_query, table.request[rows], values[rows])
    return use


def _body_tokens(catalog: Catalog, count: TextTokens | None) -> IntArray | None:
    """Token counts of item bodies, which are loaded on demand; None if one cannot be counted."""
    bodies = {index: item.body for index, item in enumerate(catalog) if item.body}
    tokens = np.zeros(len(catalog), dtype=np.int64)
    if bodies:
        if count is None:
            return None
        try:
            tokens[list(bodies)] = count(list(bodies.values()))
        except ParameterError:  # a file of counts, which knows whole items only
            return None
    return tokens


def enough_shown(dataset: Dataset, table: Candidates, *, first: int = 0) -> BoolArray:
    """Whether enough of each item is shown: all of it, or what its label quotes; True without a label.

    Args:
        dataset: with labels.
        table: candidates of queries of it that follow each other, in order.
        first: the index of the first of them in the dataset.

    Returns:
        Shape (n_rows,).
    """
    enough = np.ones(len(table), dtype=np.bool_)
    if len(rows := np.flatnonzero(~table.shows_all)):
        catalog, table_queries = dataset.catalog, dataset.queries[first : first + table.n_requests]
        quotes = {
            (query.id, label.item): label.quote for query in table_queries for label in dataset.labels_of(query.id)
        }
        keys = [(table_queries[int(table.request[row])].id, catalog[int(table.item[row])].key) for row in rows]
        labelled = [index for index, key in enumerate(keys) if key in quotes]
        rows, quoted = rows[labelled], [quotes[keys[index]] for index in labelled]
        enough[rows] = holding(catalog, table, rows, quoted)
    return enough
