"""What of a dataset an experiment asks: the queries of one split, or a sample of them."""

from __future__ import annotations

import hashlib

from ctxbench.core.errors import ParameterError
from ctxbench.data.datasets.dataset import Dataset


def asked(dataset: Dataset, *, split: str = "", sample: int = 0, seed: int = 0) -> Dataset:
    """The queries that an experiment asks, over the whole catalog, in the order of the dataset.

    Args:
        dataset: as opened.
        split: whose queries; empty = those of all splits.
        sample: as in `sampled`; 0 = all of them.
        seed: of the draw.

    Raises:
        UnknownNameError: no query is of that split.
        ParameterError: the sample is too small, see `sampled`.
    """
    found = dataset.split(split) if split else dataset
    return sampled(found, sample, seed=seed) if sample else found


def sampled(dataset: Dataset, n: int, *, seed: int) -> Dataset:
    """At most `n` of the queries that can be measured with, groups whole.

    Groups (a query without one is a group alone) are put in the order of a hash of seed and name, and taken as long
    as they fit; the first that does not fit ends the draw, so that small groups are no likelier than large ones, and
    a smaller sample is part of a larger one. Neither the order of the queries nor what other groups there are
    decides whether one group stands before another. Queries without full labels are neither drawn nor counted, and
    stay. With no more than `n` queries the dataset stays as it is.

    Args:
        dataset: whose queries are drawn from.
        n: how many at most, >= 1.
        seed: another seed draws other groups.

    Raises:
        ParameterError: `n` is below 1, or the first group alone has more queries.
    """
    if n < 1:
        raise ParameterError(f"sample must be 1 or more, got {n}")
    measured = dataset.judged().queries
    if len(measured) <= n:
        return dataset
    groups: dict[str, list[str]] = {}
    for query in measured:
        groups.setdefault(query.id if query.group is None else query.group, []).append(query.id)
    drawn: list[str] = []
    for name in sorted(groups, key=lambda name: (_place(seed, name), name)):
        if len(drawn) + len(groups[name]) > n:
            break
        drawn += groups[name]
    if not drawn:
        largest = max(map(len, groups.values()))
        raise ParameterError(
            f"sample must leave room for whole groups: those of dataset {dataset.name} have up to {largest} queries, "
            f"got {n}"
        )
    return dataset.take([*drawn, *dataset.unlabelled])


def _place(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed}:{name}".encode("utf-8", "surrogatepass")).digest()
