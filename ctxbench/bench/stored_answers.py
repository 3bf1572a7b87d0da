"""Answers in files, read a block of queries at a time, so that memory does not grow with the queries."""

from __future__ import annotations

import hashlib
import itertools
import threading
import zipfile
from collections import OrderedDict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ctxbench.bench.slices import DAMAGE, AnsweredQueries, Slice, joined_slices
from ctxbench.core.errors import StorageError
from ctxbench.io.files import read_bytes, write_atomic

SUFFIX = ".slice"  # behind the number of one in the folder of an unfinished part; an npz file behind its SHA-256
_ONE = ".npz"  # the whole answers of a part as one block, as earlier versions wrote them


@dataclass(frozen=True, eq=False, kw_only=True)
class StoredAnswers(AnsweredQueries):
    """Answers for all queries of a dataset, in order; all but the candidates, which are read as they are asked for.

    Attributes:
        path: of the file, or of the folder of an unfinished part.
        parts: the ids of the queries of each block.
        stamp: identifies the file, so that a replaced one is noticed; None of a folder.

    What is told of the queries is over all blocks. A block whose queries all failed says nothing about rankings.
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
        ids = set(queries)
        if not ids <= set(self.queries):
            return None
        holding = {number for number, part in enumerate(self.parts) if not ids.isdisjoint(part)}
        return select_answers(list(self.blocks(holding)), queries)


def select_answers(slices: Sequence[Slice], queries: Sequence[str]) -> Slice | None:
    """The answers to some queries among slices, in the order of `queries`; None if one is not there."""
    ids = set(queries)
    parts = [
        part.select_queries([index for index, query in enumerate(part.queries) if query in ids]) for part in slices
    ]
    joined = joined_slices(parts)
    place_of = {query: index for index, query in enumerate(joined.queries)}
    return joined.select_queries([place_of[query] for query in queries]) if ids <= place_of.keys() else None


def write_blocks(blocks: Iterable[Slice], stream: BinaryIO) -> None:
    """Write answers, a block at a time, as a zip file of npz files; equal blocks give equal bytes."""
    with zipfile.ZipFile(stream, "w") as archive:
        for number, block in enumerate(blocks):
            data = block.to_bytes(timed=False)
            archive.writestr(zipfile.ZipInfo(f"{number:06d}{_ONE}"), data)
            bare = replace(block, seconds=np.full(len(block.queries), np.nan), notes={})  # as it is read back
            _recent.keep(hashlib.sha256(data).digest(), bare)


def write_slice(path: Path, answers: Slice) -> None:
    """Write a finished slice of an unfinished part, behind its checksum."""
    data = answers.to_bytes(timed=True)
    digest = hashlib.sha256(data)
    write_atomic(path, f"{digest.hexdigest()}\n".encode() + data, durable=False)
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
    """The blocks that were written or read last, by their bytes.

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
        """Keep a block by the SHA-256 of its bytes."""
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


_recent = _Recent(limit=32_000_000)


def _blocks(path: Path, *, rows: bool = True, selected: Container[int] | None = None) -> Iterator[Slice]:
    """The blocks of a file or an unfinished part, in order: all or those `selected`, without candidates if not `rows`.

    Raises:
        StorageError: one is damaged.
    """
    if path.is_dir():
        for number, file in enumerate(sorted(path.glob(f"*{SUFFIX}"))):
            if selected is None or number in selected:
                yield read_slice(file, rows=rows)
    elif path.suffix == _ONE:
        yield _recent.read(read_bytes(path), path, rows=rows)
    else:
        try:
            with zipfile.ZipFile(path) as archive:
                for number, name in enumerate(archive.namelist()):
                    if selected is None or number in selected:
                        yield _recent.read(archive.read(name), path, rows=rows)
        except DAMAGE as error:
            raise StorageError(f"{path} is damaged ({error}); delete it and run again") from error
