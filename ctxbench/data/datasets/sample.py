"""The queries of a dataset that an experiment uses: those of a split, or a sample of them."""

from __future__ import annotations

import hashlib

from ctxbench.core.errors import ParameterError
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.data.datasets.row_groups import group_pairs


def select_queries(dataset: Dataset, *, split: str = "", sample: int = 0, seed: int = 0) -> Dataset:
    """Keep the queries of a split, or a sample of them, over the whole catalog and in the order of the dataset.

    Args:
        dataset: any.
        split: whose queries; empty = those of all splits.
        sample: as `n` of `draw_sample`; 0 = all of them.
        seed: of the draw.

    Raises:
        UnknownNameError: no query is of that split.
        ParameterError: the sample is too small, see `draw_sample`.
    """
    queries = dataset.split(split) if split else dataset
    return draw_sample(queries, sample, seed=seed) if sample else queries


def draw_sample(dataset: Dataset, n: int, *, seed: int) -> Dataset:
    """Draw at most `n` of the queries that metrics can be computed for, in whole groups.

    Groups (a query without one is a group alone) are put in the order of a hash of seed and name, and drawn as long
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
    judged = dataset.judged().queries
    if len(judged) <= n:
        return dataset
    groups = group_pairs((query.id if query.group is None else query.group, query.id) for query in judged)
    drawn: list[str] = []
    for name in sorted(groups, key=lambda name: (_digest(seed, name), name)):
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


def _digest(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed}:{name}".encode("utf-8", "surrogatepass")).digest()
