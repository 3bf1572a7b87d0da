"""Products of matrices in float32, by blocks and on one thread where that is faster, and the best of what they give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from ctxbench.core.arrays import Float32Array, FloatArray, IntArray

GROUP = 16  # values of which the greatest is looked at first
SMALL = 50_000_000  # multiplications below which a second BLAS thread costs more than it gives


def parts_of(start: int, stop: int, size: int) -> Iterator[slice]:
    """A range in slices of at most `size`, >= 1; one empty slice of an empty range."""
    for first in range(start, max(stop, start + 1), size):
        yield slice(first, min(first + size, stop))


def row_dots(left: Float32Array | FloatArray, right: Float32Array | FloatArray) -> FloatArray:
    """Dot products row by row in float64, shape (n,): bit-equal for equal rows, whatever stands around them."""
    products: FloatArray = right.astype(np.float64)
    products *= left  # exact in either type: a product of float32 numbers fits float64
    return np.asarray(np.add.reduce(products, axis=1))


def multiply(left: Float32Array, right: Float32Array) -> Float32Array:
    """`left @ right.T`, with one BLAS thread where the product is small."""
    if left.shape[0] * right.shape[0] * left.shape[1] > SMALL:
        return left @ right.T
    with _blas().limit(limits=1, user_api="blas"):
        return left @ right.T


def nth_greatest(values: Float32Array, n: int) -> np.float32:
    """The `n`-th greatest of some values.

    It is at least the `n`-th of the greatest of each group, so that few are left to be put in order.
    """
    groups = len(values) // GROUP
    if groups > n:
        highest = values[: groups * GROUP].reshape(GROUP, groups).max(axis=0)
        values = values[values >= np.partition(highest, groups - n)[groups - n]]
    return cast("np.float32", np.partition(values, len(values) - n)[len(values) - n])


_controller: list[Any] = []


def _blas() -> Any:
    """The controller of BLAS threads; finding the libraries costs milliseconds, so it is done once."""
    if not _controller:
        from threadpoolctl import ThreadpoolController

        _controller.append(ThreadpoolController())
    return _controller[0]


def blocks(start: IntArray, per_block: int) -> Iterator[tuple[int, int]]:
    """Runs of requests that have at most `per_block` query chunks together (or are a single request)."""
    first, n = 0, len(start) - 1
    while first < n:
        last = int(np.searchsorted(start, start[first] + per_block, side="right")) - 1
        last = min(max(last, first + 1), n)
        yield first, last
        first = last
