"""The results store: a folder a run, with a manifest, and for each dataset and selector the answers and values.

```
manifest.json               what was run: versions, hashes, configuration, seed, identities, git commit
timings.json                how long it took, and on which machine; nothing else depends on the machine
<dataset>/<selector>/
    answers.npz             every candidate of every query, chosen or not
    selections.jsonl        what was chosen, one line a query, for reading
    metrics.jsonl           every metric's value, one line a query
    part.json               hashes that say what the folder was made from
```

A folder of one dataset and selector (a part) appears whole or not at all. While it is made, finished slices of
queries wait in `<selector>.partial`, so that an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote
from zipfile import BadZipFile

import numpy as np

from ctxbench.arrays import FloatArray
from ctxbench.candidates import Candidates, stacked
from ctxbench.errors import StorageError, UserError
from ctxbench.fileio import atomic_folder, read_bytes, write_atomic
from ctxbench.items import Catalog
from ctxbench.jsonio import dump_json, dump_jsonl, iter_jsonl, read_json
from ctxbench.selection import offered_rows

FORMAT = 1  # of the run folder; raised when a reader of the old one would go wrong


@dataclass(frozen=True, eq=False, kw_only=True)
class Slice:
    """Answers for some queries of a dataset, in order.

    Attributes:
        queries: their ids.
        chunks: the query chunks of each.
        candidates: rows by query.
        ranked, scored: as `Answers`.
        errors: what went wrong, by query id.
        seconds: what each query took, shape (n_queries,).
        notes: what the selector says of these answers, as JSON; counts add up over slices.
    """

    queries: tuple[str, ...]
    chunks: tuple[tuple[str, ...], ...]
    candidates: Candidates
    ranked: bool
    scored: bool
    errors: Mapping[str, str]
    seconds: FloatArray
    notes: Mapping[str, Any] = field(default_factory=dict)

    def to_bytes(self, *, timed: bool) -> bytes:
        """As the bytes of an npz file; equal answers give equal bytes, unless `timed` puts seconds and notes in."""
        table = self.candidates
        arrays: dict[str, np.ndarray[Any, Any]] = {"start": table.start}
        for name in Candidates.row_arrays():
            array = getattr(table, name)
            arrays[name] = array if name == "score" else _small(array)
        arrays |= {f"column:{name}": column for name, column in table.columns.items()}
        if timed:
            arrays["seconds"] = self.seconds
        meta = {
            "queries": self.queries,
            "chunks": self.chunks,
            "rules": table.rules,
            "ranked": self.ranked,
            "scored": self.scored,
            "errors": dict(sorted(self.errors.items())),
        }
        if timed:
            meta["notes"] = dict(self.notes)
        arrays["meta"] = np.frombuffer(dump_json(meta).encode(), dtype=np.uint8)
        stream = io.BytesIO()
        np.savez_compressed(stream, allow_pickle=False, **arrays)
        return stream.getvalue()

    @classmethod
    def from_file(cls, path: Path) -> Slice:
        """Read the bytes back.

        Raises:
            StorageError: the file is missing or damaged.
        """
        try:
            with np.load(io.BytesIO(read_bytes(path)), allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
            meta = json.loads(arrays.pop("meta").tobytes())
            queries = tuple(meta["queries"])
            seconds = arrays.pop("seconds", np.full(len(queries), np.nan))
            columns = {n.removeprefix("column:"): arrays.pop(n) for n in list(arrays) if n.startswith("column:")}
            table = Candidates(
                start=arrays.pop("start"),
                score=arrays.pop("score"),
                rules=tuple(meta["rules"]),
                columns=columns,
                **{name: array.astype(np.int64) for name, array in arrays.items()},
            )
        except (ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
            raise StorageError(f"{path} is damaged ({error}); delete it and run again") from error
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


def joined_slices(slices: Sequence[Slice]) -> Slice:
    """Put slices one behind the other; one whose queries all failed says nothing about rankings."""
    telling = [one for one in slices if len(one.errors) < len(one.queries)] or slices
    return Slice(
        queries=tuple(query for one in slices for query in one.queries),
        chunks=tuple(chunk for one in slices for chunk in one.chunks),
        candidates=stacked([one.candidates for one in slices]),
        ranked=all(one.ranked for one in telling),
        scored=all(one.scored for one in telling),
        errors={query: text for one in slices for query, text in one.errors.items()},
        seconds=np.concatenate([np.empty(0, dtype=np.float64), *(one.seconds for one in slices)]),
        notes=_added_up([one.notes for one in slices]),
    )


def _added_up(notes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Counts are summed, lists joined without repeats, of anything else the last is kept."""
    out: dict[str, Any] = {}
    for name, value in (entry for one in notes for entry in one.items()):
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


@dataclass(frozen=True, eq=False, kw_only=True)
class Part:
    """What one selector offered on one dataset, and what that is worth.

    Attributes:
        dataset, selector: names.
        key: hash of everything that decides the answers and values.
        answers: for every query.
        metrics: values by query, by metric name in the order asked; NaN where a metric does not apply.
        unavailable: why a metric could not be computed, by its name.
        notes: what the selector says of this run, for example how many repeats differed.
    """

    dataset: str
    selector: str
    key: str
    answers: Slice
    metrics: Mapping[str, FloatArray]
    unavailable: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)


def content_key(*parts: Any) -> str:
    """SHA-256 over JSON values."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


class RunFolder:
    """Reads and writes one run folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def part_path(self, dataset: str, selector: str) -> Path:
        """The folder of a part; names are percent-encoded where a file system might object."""
        return self.path / _file_name(dataset) / _file_name(selector)

    def has(self, dataset: str, selector: str, key: str) -> bool:
        """Whether the part is there, made from just what `key` stands for."""
        marker = self.part_path(dataset, selector) / "part.json"
        try:
            return marker.exists() and read_json(marker).get("key") == key
        except (UserError, AttributeError):
            return False  # a damaged marker: the part is made again

    def save(self, part: Part, catalog: Catalog) -> None:
        """Write a part, whole or not at all, and drop its slices.

        Raises:
            StorageError: the disk is full or the folder cannot be written.
        """
        target = self.part_path(part.dataset, part.selector)
        with atomic_folder(target) as folder:
            write_atomic(folder / "answers.npz", part.answers.to_bytes(timed=False))
            write_atomic(folder / "selections.jsonl", dump_jsonl(_selection_rows(part.answers, catalog)))
            write_atomic(folder / "metrics.jsonl", dump_jsonl(_metric_rows(part)))
            marker = {
                "format": FORMAT,
                "dataset": part.dataset,
                "selector": part.selector,
                "key": part.key,
                "metrics": list(part.metrics),
                "unavailable": dict(part.unavailable),
                "notes": dict(part.notes),
                "errors": len(part.answers.errors),
            }
            write_atomic(folder / "part.json", dump_json(marker, indent=2))
        shutil.rmtree(self._partial(part.dataset, part.selector), ignore_errors=True)

    def load(self, dataset: str, selector: str) -> Part:
        """Read a part.

        Raises:
            StorageError: it is missing or damaged.
        """
        folder = self.part_path(dataset, selector)
        marker = read_json(folder / "part.json")
        if marker.get("format") != FORMAT:
            raise StorageError(f"{folder} has format {marker.get('format')}, this version reads {FORMAT}; run again")
        answers = Slice.from_file(folder / "answers.npz")
        faults: list[Any] = []
        rows = {row["query"]: row["values"] for _, row in iter_jsonl(folder / "metrics.jsonl", faults)}
        if faults or list(rows) != list(answers.queries):
            raise StorageError(f"{folder / 'metrics.jsonl'} does not fit answers.npz; delete {folder} and run again")
        metrics = {
            name: np.array([_number(rows[query][name]) for query in answers.queries], dtype=np.float64)
            for name in marker["metrics"]
        }
        return Part(
            dataset=dataset,
            selector=selector,
            key=marker["key"],
            answers=answers,
            metrics=metrics,
            unavailable=marker["unavailable"],
            notes=marker["notes"],
        )

    def slice_numbers(self, dataset: str, selector: str, key: str, *, fresh: bool = False) -> set[int]:
        """The slices that an unfinished part has; those made from something else than `key`, or all, are dropped."""
        folder = self._partial(dataset, selector)
        marker = folder / "key"
        if not folder.is_dir():
            return set()
        if fresh or not marker.exists() or read_bytes(marker) != key.encode():
            shutil.rmtree(folder, ignore_errors=True)
            return set()
        return {int(path.stem) for path in folder.glob("*.npz")}

    def slices(self, dataset: str, selector: str) -> Slice:
        """All slices of an unfinished part, one behind the other."""
        return joined_slices([Slice.from_file(path) for path in sorted(self._partial(dataset, selector).glob("*.npz"))])

    def error_count(self, dataset: str, selector: str) -> int:
        """How many queries a finished part failed on."""
        return int(read_json(self.part_path(dataset, selector) / "part.json").get("errors", 0))

    def add_slice(self, dataset: str, selector: str, key: str, *, number: int, answers: Slice) -> None:
        """Keep a finished slice until the part is whole."""
        folder = self._partial(dataset, selector)
        if not (folder / "key").exists():
            write_atomic(folder / "key", key)
        write_atomic(folder / f"{number:06d}.npz", answers.to_bytes(timed=True))

    def _partial(self, dataset: str, selector: str) -> Path:
        part = self.part_path(dataset, selector)
        return part.with_name(f"{part.name}.partial")

    def write(self, name: str, value: Mapping[str, Any]) -> None:
        """Write one JSON file of the run, for example `manifest.json`."""
        write_atomic(self.path / name, dump_json(value, indent=2))

    def read(self, name: str) -> dict[str, Any]:
        """Read one JSON file of the run.

        Raises:
            StorageError: it is missing: this is no run folder, or the run was never finished.
        """
        path = self.path / name
        if not path.exists():
            raise StorageError(f"{self.path} holds no {name}: expected the folder of a finished run (`ctxbench run`)")
        value: dict[str, Any] = read_json(path)
        return value


def _file_name(name: str) -> str:
    return quote(name.replace("/", "~"), safe="~ =,")


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _selection_rows(answers: Slice, catalog: Catalog) -> list[dict[str, Any]]:
    rows = []
    for place, query in enumerate(answers.queries):
        row: dict[str, Any] = {"query": query}
        if query in answers.errors:
            row["error"] = answers.errors[query]
        row["items"] = [
            offered.as_dict()
            for offered in offered_rows(catalog, answers.candidates, answers.candidates.rows(place), chosen=True)
        ]
        rows.append(row)
    return rows


def _metric_rows(part: Part) -> list[dict[str, Any]]:
    columns = {name: values.tolist() for name, values in part.metrics.items()}
    return [
        {"query": query, "values": {name: None if math.isnan(v[place]) else v[place] for name, v in columns.items()}}
        for place, query in enumerate(part.answers.queries)
    ]
