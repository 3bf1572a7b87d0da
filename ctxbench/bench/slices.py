"""Slices: answers of a selector for some queries of a dataset, and the bytes that they are stored as."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from ctxbench.core.arrays import BoolArray, FloatArray, ranges, starts
from ctxbench.core.candidate_tables import stacked
from ctxbench.core.candidates import SHOWN, Candidates
from ctxbench.core.errors import ParameterError, SelectorError, StorageError
from ctxbench.core.notes import Note
from ctxbench.core.rules import Rule
from ctxbench.io.json_files import dump_json

# What reading damaged bytes or JSON of another form raises, from zip, zlib, numpy and ourselves.
DAMAGE = (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, EOFError, BadZipFile, zlib.error)


@dataclass(frozen=True, eq=False, kw_only=True)
class AnsweredQueries:
    """Answers for some queries of a dataset, in order, but for the candidates.

    Attributes:
        queries: their ids.
        chunks: the query chunks of each.
        ranked, scored: as `Answers`.
        errors: what went wrong, by query id.
        seconds: what each query took, shape (n_queries,).
        notes: what the selector says of these answers, as JSON; counts add up over slices.
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
    """Answers for some queries of a dataset, in order, with the candidates, rows by query."""

    candidates: Candidates

    def blocks(self) -> Iterator[Slice]:
        """The answers a block at a time, which is all at once; `StoredAnswers` have more than one."""
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
        stream = io.BytesIO()
        save = np.savez if timed else np.savez_compressed  # what waits for a moment need not be small
        save(stream, allow_pickle=False, **arrays)
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
            arrays.setdefault("tier", arrays["origin"])  # as versions did that had no rank step behind an expansion
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


def _select_requests(table: Candidates, indices: Sequence[int]) -> Candidates:
    """The rows of some requests, in the order of `indices`."""
    chosen = np.asarray(indices, dtype=np.int64)
    lengths = np.diff(table.start)[chosen]
    rows = ranges(table.start[:-1][chosen], lengths)
    arrays = {name: getattr(table, name)[rows] for name in Candidates.row_arrays()}
    columns = {name: column[rows] for name, column in table.columns.items()}
    return Candidates(start=starts(lengths), rules=table.rules, columns=columns, notes=table.notes, **arrays)


def continuing(table: Candidates) -> BoolArray:
    """Whether a row is the one above with the next item of the catalog, and nothing else changed; shape (n_rows,)."""
    continues = np.zeros(len(table), dtype=np.bool_)
    continues[1:] = (table.request[1:] == table.request[:-1]) & (table.item[1:] == table.item[:-1] + 1)
    for name in Candidates.row_arrays():
        if name != "item":
            continues[1:] &= _equal(getattr(table, name))
    for column in table.columns.values():
        continues[1:] &= _equal(column)
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
    peak = int(np.abs(array).max()) if len(array) else 0
    dtypes: tuple[type[np.signedinteger[Any]], ...] = (np.int8, np.int16, np.int32)
    return array.astype(next((t for t in dtypes if peak <= np.iinfo(t).max), np.int64))
