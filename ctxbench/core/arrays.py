"""Array types, and the one way in which lists of different lengths are held (CSR)."""

from __future__ import annotations

from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
Float32Array: TypeAlias = npt.NDArray[np.float32]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
T = TypeVar("T", bound=np.generic)


def starts(lengths: npt.ArrayLike) -> IntArray:
    """Turn lengths, shape (n,), into CSR starts, shape (n + 1,): row i is `[starts[i], starts[i + 1])`."""
    lengths = np.asarray(lengths, dtype=np.int64)
    out = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=out[1:])
    return out


def owners(start: IntArray) -> IntArray:
    """Turn CSR starts, shape (n + 1,), into the row of every entry, shape (start[-1],)."""
    return np.repeat(np.arange(len(start) - 1, dtype=np.int64), np.diff(start))


def ranges(first: IntArray, length: IntArray) -> IntArray:
    """Numbers that follow each other, one range behind the other: `length[i]` of them from `first[i]` on."""
    start = starts(length)
    return np.arange(int(start[-1]), dtype=np.int64) + np.repeat(first - start[:-1], length)


def firsts(*keys: npt.NDArray[np.generic]) -> BoolArray:
    """True where a row differs from the one before it in any of the keys, shape (n,) each; so for the first."""
    new = np.zeros(len(keys[0]), dtype=np.bool_)
    new[:1] = True
    for key in keys:
        new[1:] |= key[1:] != key[:-1]
    return new


def frozen(array: npt.NDArray[T]) -> npt.NDArray[T]:
    """The array itself, made read-only, so that no step can change what another one was given."""
    array.flags.writeable = False
    return array
