"""Give a dataset new splits: by hash, by time, or in folds; queries of a group or conversation stay in one split."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from ctxbench.core.errors import ParameterError
from ctxbench.data.datasets.dataset import SPLITS, Dataset, split_of
from ctxbench.data.datasets.query_labels import DatasetQuery
from ctxbench.data.datasets.row_groups import connected_rows

WAYS = ("hash", "time")


@dataclass(frozen=True, eq=False, kw_only=True)
class Resplit:
    """A dataset with new splits, and the changes.

    Attributes:
        dataset: with the new splits; all else is as before.
        before, after: queries by split.
        judged: queries by new split that metrics can be computed for.
        bundles: how many sets of queries that stay together there are, by new split.
        moved: queries whose split is another one now.
        cut: the latest time of a tuning query, for a split by time; else empty.
        late: test queries asked no later than `cut`: at that very time, or earlier and kept together with later ones.
    """

    dataset: Dataset
    before: Mapping[str, int]
    after: Mapping[str, int]
    judged: Mapping[str, int]
    bundles: Mapping[str, int]
    moved: int
    cut: str = ""
    late: int = 0

    def as_dict(self) -> dict[str, Any]:
        """What changed, as JSON, without the dataset."""
        return {
            "dataset": self.dataset.name,
            "version": self.dataset.version,
            "hash": self.dataset.hash,
            "before": dict(self.before),
            "after": {
                name: {"queries": count, "judged": self.judged[name], "bundles": self.bundles[name]}
                for name, count in self.after.items()
            },
            "moved": self.moved,
            "cut": self.cut,
            "late": self.late,
        }


def split_dataset(
    dataset: Dataset, *, by: str = "hash", share: float | None = None, folds: int = 0, version: str | None = None
) -> Resplit:
    """Give every query its split anew. Queries of one group or conversation stay in one split.

    By hash, a query's split follows from its group (else its conversation, else its id) alone: with `share` 0.5 it is
    that of `split_of`. By time, `tuning` holds the earlier queries: what belongs together is placed by its last query,
    so that no tuning query is later than `cut`. A test query may be earlier, or of the very time of `cut`: what ends
    at the same time is ordered by name, and the cut may fall in its midst.

    Args:
        dataset: any.
        by: `hash` or `time` (a time without an offset is taken as UTC).
        share: of queries in `tuning`, above 0 and below 1. By time, as close as what stays together allows (at least
            one set of queries is in each split); by hash, it is the chance of each set, and `tuning` may be empty.
            None = 0.5.
        folds: with 2 or more, splits `fold-1`, `fold-2` ... by hash in place of tuning and test; no more than there
            are sets of queries that stay together. Some may be empty.
        version: of the result; None = as it is.

    Raises:
        ParameterError: a parameter is out of range, share and folds are both given, queries have no time to be split
            by, or everything belongs together.
    """
    if folds and share is not None:
        raise ParameterError("a share is of tuning and test, and folds stand in their place; leave one of the two out")
    share = 0.5 if share is None else share
    _check(by, share, folds)
    bundles = bundles_of(dataset.queries)
    if folds > len(bundles):
        groups = f"{len(bundles):,} {'query' if len(bundles) == 1 else 'queries'} or groups that stay together"
        raise ParameterError(f"dataset {dataset.name} has {groups}, too few for {folds:,} folds")
    if by == "time":
        splits, cut = _time_splits(dataset, bundles, share)
    else:
        splits, cut = [_hash_split(name, folds=folds, share=share) for name, _ in bundles], ""
    split = {dataset.queries[row].id: name for (_, rows), name in zip(bundles, splits, strict=True) for row in rows}
    queries = tuple(replace(query, split=split[query.id]) for query in dataset.queries)
    result = replace(dataset, queries=queries, version=version or dataset.version)
    judged = Counter(query.split for query in result.judged().queries)
    return Resplit(
        dataset=result,
        before=dataset.counts["splits"],
        after={**{f"fold-{n}": 0 for n in range(1, folds + 1)}, **result.counts["splits"]},
        judged={name: judged[name] for name in result.split_names},
        bundles={name: splits.count(name) for name in result.split_names},
        moved=sum(old.split != new.split for old, new in zip(dataset.queries, queries, strict=True)),
        cut=cut,
        late=sum(q.split == "test" and bool(cut) and _time(q) <= datetime.fromisoformat(cut) for q in queries),
    )


def bundles_of(queries: Sequence[DatasetQuery]) -> list[tuple[str, list[int]]]:
    """The sets of queries that stay together, with the name that each is hashed by, in order of their first query.

    Together are queries of one group and of one conversation, and what these connect. The name is the group (the
    first by name, if several are connected), else the conversation, else the id.
    """
    names = ((("group", query.group), ("conversation", query.request.conversation)) for query in queries)
    keys = ([key for key in pair if key[1] is not None] for pair in names)
    return [(_name([queries[row] for row in rows]), rows) for rows in connected_rows(keys)]


def _name(queries: Sequence[DatasetQuery]) -> str:
    groups = sorted({query.group for query in queries if query.group is not None})
    conversations = sorted({q.request.conversation for q in queries if q.request.conversation is not None})
    return [*groups, *conversations, queries[0].id][0]


def _hash_split(name: str, *, folds: int, share: float) -> str:
    if not folds and share == 0.5:
        return split_of(name)
    bits = int.from_bytes(hashlib.sha256(name.encode("utf-8", errors="surrogatepass")).digest()[:8], "big")
    if folds:
        return f"fold-{bits % folds + 1}"
    return SPLITS[0] if bits < share * 2**64 else SPLITS[1]


def _time_splits(dataset: Dataset, bundles: Sequence[tuple[str, list[int]]], share: float) -> tuple[list[str], str]:
    """The split of each bundle, and the latest time of a tuning query."""
    without = [query.id for query in dataset.queries if query.request.time is None]
    if without:
        names = ", ".join(without[:3]) + (", ..." if len(without) > 3 else "")
        raise ParameterError(
            f"dataset {dataset.name}: {len(without)} of {len(dataset)} queries have no time ({names}); a split by time "
            "needs one for each: add field 'time' to queries.jsonl, or split by hash"
        )
    last = [max(_time(dataset.queries[i]) for i in rows) for _, rows in bundles]
    order = sorted(range(len(bundles)), key=lambda b: (last[b], bundles[b][0]))
    sizes = [len(bundles[b][1]) for b in order]
    if len(order) < 2:
        raise ParameterError(f"dataset {dataset.name}: all queries belong together; there is nothing to split")
    n_tuning = min(range(1, len(order)), key=lambda n: abs(sum(sizes[:n]) - share * len(dataset)))
    tuning = set(order[:n_tuning])
    splits = [SPLITS[0] if b in tuning else SPLITS[1] for b in range(len(bundles))]
    return splits, last[order[n_tuning - 1]].isoformat()


def _time(query: DatasetQuery) -> datetime:
    if query.request.time is None:
        raise RuntimeError(f"query {query.id} has no time")
    time = datetime.fromisoformat(query.request.time)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _check(by: str, share: float, folds: int) -> None:
    if by not in WAYS:
        raise ParameterError(f"a dataset is split by {' or '.join(WAYS)}, got {by!r}")
    if not 0 < share < 1:
        raise ParameterError(f"the share of tuning is above 0 and below 1, got {share}")
    if folds and (folds < 2 or by != "hash"):
        raise ParameterError(f"folds are 2 or more, by hash; got {folds} by {by}")
