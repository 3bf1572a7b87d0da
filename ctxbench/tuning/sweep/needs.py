"""What queries need of each item type: which queries need it, and how many of the items needed are offered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ctxbench.bench.labels import Labels
from ctxbench.bench.metrics import Evidence, Grade, Metric
from ctxbench.bench.metrics.joined import Joined
from ctxbench.core.arrays import BoolArray, FloatArray, IntArray, owners, starts
from ctxbench.core.items import Catalog
from ctxbench.tuning.sweep.measures import Measure
from ctxbench.tuning.sweep.metric_values import Rungs, taken


def needed_types(labels: Labels) -> dict[str, BoolArray]:
    """By item type, in order of the name, the queries that require an item of it, shape (n_queries,)."""
    judgments, types = labels.dataset.judgments, _types(labels.dataset.catalog)
    required = judgments.grade == Grade.REQUIRED
    query, own = owners(judgments.start)[required], types[judgments.item[required]]
    found = {}
    for name in sorted(set(own.tolist())):
        found[str(name)] = np.zeros(judgments.n_queries, dtype=np.bool_)
        found[str(name)][query[own == name]] = True
    return found


def offered_of_type(evidence: Evidence, catalog: Catalog, name: str) -> FloatArray:
    """How many of the required items of a type a prompt holds, shape (n_queries,); alternatives count once."""
    joined = Joined(evidence)
    group = joined.label_group
    rows = (group >= 0) & (_types(catalog)[evidence.judgments.item] == name)
    typed = np.zeros(len(joined.group_query), dtype=np.bool_)
    typed[group[rows]] = True
    return joined.total(joined.group_query[typed & joined.met])


def over_own_queries(
    measures: Sequence[Measure],
    values: Mapping[Metric, FloatArray],
    evidence: Evidence,
    catalog: Catalog,
    *,
    needing: Mapping[str, BoolArray],
    reachable: BoolArray,
) -> dict[Measure, FloatArray]:
    """Measures by query from metrics by query, NaN at queries that a measure is not over.

    Args:
        measures: which.
        values: by metric, shape (n_queries,).
        evidence: what was offered.
        catalog: of the items.
        needing: by item type, the queries that require an item of it, shape (n_queries,).
        reachable: the queries within reach, shape (n_queries,).

    Returns:
        By measure, shape (n_queries,).
    """
    out = {}
    for one in measures:
        found = offered_of_type(evidence, catalog, one.needed) if one.counts else values[one.metric]
        if one.needed:
            found = np.where(needing.get(one.needed, False), found, np.nan)
        out[one] = np.where(reachable, found, np.nan) if one.reachable else found
    return out


def offered_by_length(rungs: Rungs, name: str) -> FloatArray:
    """The same at every length of rankings, shape (n_rungs + n_queries,)."""
    judgments, types = rungs.labels.dataset.judgments, _types(rungs.labels.dataset.catalog)
    start, label = taken(judgments.start, rungs.query)
    query = owners(start)
    required = judgments.grade[label] == Grade.REQUIRED
    query, label = query[required], label[required]
    item, width = judgments.item[label], len(types)
    base = int(judgments.group.max(initial=0)) + 1
    keys, group = np.unique(query * base + judgments.group[label], return_inverse=True)
    typed = np.zeros(len(keys), dtype=np.bool_)
    typed[group[types[item] == name]] = True
    first = np.full(len(keys), len(rungs.item) + 1, dtype=np.int64)  # the length at which a group is met
    known, by_key = np.sort(query * width + item), np.argsort(query * width + item)
    enough, held = rungs.enough, rungs.held_enough
    for owner, found, length in (
        (rungs.owner[enough], rungs.item[enough], rungs.place[enough] + 1),
        (owners(rungs.held_start)[held], rungs.held[held], np.zeros(int(held.sum()), dtype=np.int64)),
    ):
        whose, rows = _found(known, owner * width + found)
        np.minimum.at(first, group[by_key[whose]], length[rows])
    owner = keys // base
    met = typed & (first <= np.diff(rungs.start)[owner])
    gains = np.bincount(rungs.length_start[owner[met]] + first[met], minlength=int(rungs.length_start[-1]))
    total = np.concatenate([np.zeros(1), np.cumsum(gains)])
    lengths = np.diff(rungs.length_start)
    counts: FloatArray = total[1:] - np.repeat(total[starts(lengths)[:-1]], lengths)
    return counts


def _found(known: IntArray, keys: IntArray) -> tuple[IntArray, IntArray]:
    """Where each key stands among the known ones, and which keys those are; the others are left out."""
    if not len(known):
        return known, known
    at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    rows = np.flatnonzero(known[at] == keys)
    return at[rows], rows


def _types(catalog: Catalog) -> np.ndarray:
    return np.array([item.type for item in catalog], dtype=object)
