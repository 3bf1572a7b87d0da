"""`vectors.npz` of a baseline: the vectors that a check needs, by the hash of their text.

Rows stand in the order of hashes, uncompressed: float32 numbers hardly shrink, and so git keeps a changed file as its
difference. The same vectors give the same bytes.
"""

from __future__ import annotations

import io
import json
import math
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np
import numpy.typing as npt

from ctxbench.core.arrays import BoolArray, Float32Array
from ctxbench.core.candidates import MARGIN
from ctxbench.core.errors import StorageError
from ctxbench.embedding.vectors import UNIT_TOLERANCE, text_hash
from ctxbench.gate.baseline_layout import accept_command
from ctxbench.io.files import read_bytes
from ctxbench.io.json_files import dump_json

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
_DAMAGE = (
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
        found = rows >= 0
        vectors = np.zeros((len(texts), self.vectors.shape[1]), dtype=np.float32)
        vectors[found] = self.vectors[rows[found]]
        return found, vectors


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
        before: the file so far: a vector that is no further from the one there than `MARGIN` stays as it stands, for
            then no score moves by more.
    """
    stands: StoredVectors | None = None
    if before is not None:
        try:
            stands = _from_bytes(before, Path())
        except StorageError:
            stands = None  # it is written anew
    by_hash = {text_hash(text): np.asarray(vector, dtype="<f4") for text, vector in vectors.items()}
    if stands is not None and stands.embedder == embedder:
        for key, vector in by_hash.items():
            row = stands.rows.get(key, -1)
            if row >= 0 and len(vector) == stands.vectors.shape[1]:
                old = stands.vectors[row]
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
    how = f"bring it back from git, or write it again ({accept_command('--vectors')})"
    return StorageError(f"{path} is damaged or of another version ({wrong}); {how}")


def _from_bytes(data: bytes, path: Path) -> StoredVectors:
    if data.startswith(_LFS):
        raise StorageError(f"{path} is a pointer of Git LFS and not the file itself; fetch it with `git lfs pull`")
    try:
        with ZipFile(io.BytesIO(data)) as archive:
            meta = json.loads(_read_array(archive, "meta", "|u1", at_most=_LONGEST_META).tobytes())
            hashes, vectors = _read_array(archive, "hashes", "|u1"), _read_array(archive, "vectors", "<f4")
        wrong = _content_fault(meta, hashes, vectors)
    except _DAMAGE as error:
        wrong = str(error) or type(error).__name__
    if wrong:
        raise damaged(path, wrong)
    keys = hashes.tobytes()
    rows = {keys[_HASH * row : _HASH * (row + 1)]: row for row in range(len(hashes))}
    return StoredVectors(meta["embedder"], rows, vectors)


def _read_array(archive: ZipFile, name: str, kind: str, *, at_most: int | None = None) -> npt.NDArray[Any]:
    """Read one array of the archive, which must not be compressed.

    Raises:
        ValueError: it is packed, locked, too long, no array, or of another kind or size than it says.
    """
    about = archive.getinfo(f"{name}.npy")
    if about.compress_type != ZIP_STORED or about.flag_bits & _LOCKED or about.file_size != about.compress_size:
        raise ValueError(f"{name} is compressed or encrypted, and is stored as it is by ctxbench")
    if at_most is not None and about.file_size > at_most:
        raise ValueError(f"{name} takes {about.file_size} bytes, at most {at_most} are expected")
    content = archive.read(about)
    head = _HEADER.match(content)
    if head is None:
        raise ValueError(f"{name} is no array of one or two dimensions")
    if head["kind"].decode() != kind:
        raise ValueError(f"{name} are {np.dtype(head['kind'].decode())}, expected {np.dtype(kind)}")
    shape = [int(size) for size in head["shape"].decode().split(",") if size.strip()]
    if math.prod(shape) * np.dtype(kind).itemsize != len(content) - head.end():
        raise ValueError(f"{name} say that they are of shape {tuple(shape)}, which {len(content)} bytes do not hold")
    return np.frombuffer(content, dtype=kind, offset=head.end()).reshape(shape)


def _content_fault(meta: object, hashes: npt.NDArray[np.uint8], vectors: Float32Array) -> str:
    """What is wrong with the content; empty if nothing is."""
    if not isinstance(meta, dict) or meta.get("format") != _FORMAT or not isinstance(meta.get("embedder"), str):
        return f"expected format {_FORMAT} and the key of an embedder"
    if not len(hashes) or hashes.shape != (len(vectors), _HASH) or vectors.ndim != 2:
        return f"hashes of shape {hashes.shape} do not fit vectors of shape {vectors.shape}"
    squares = np.einsum("ij,ij->i", vectors, vectors)
    return "" if np.all(np.abs(squares - 1.0) <= UNIT_TOLERANCE) else "a vector is not finite or not of unit length"
