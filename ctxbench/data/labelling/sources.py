"""The card of a dataset that people have labelled or corrected: how many labels come from where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from ctxbench.data.datasets.dataset import Dataset

_UNSEEN = "Nobody has looked at the labels."  # what an import of a log says
_MARK = "Since then people have labelled: "
UNNAMED = "as the card says"  # labels without a source of their own


def with_sources(dataset: Dataset) -> Dataset:
    """The dataset with counts and shares of its labels by source in its card; the same if they are there already.

    `labelling` gets a closing sentence in place of an older one, and `notes`, unless they are a text, `label_sources`.
    """
    counts = Counter(label.source or UNNAMED for label in dataset.labels)
    total = sum(counts.values())
    found = {name: {"labels": n, "share": round(n / total, 4)} for name, n in sorted(counts.items())}
    about = dict(dataset.about)
    if isinstance(about.get("labelling"), str):
        about["labelling"] = _told(about["labelling"], dataset, counts)
    notes = about.get("notes")
    if notes is None or isinstance(notes, Mapping):
        about["notes"] = {**(notes or {}), "label_sources": found}
    return dataset if about == dict(dataset.about) else replace(dataset, about=about)


def _told(labelling: str, dataset: Dataset, counts: Mapping[str, int]) -> str:
    start = labelling.split(_MARK, maxsplit=1)[0].replace(_UNSEEN, "").rstrip()
    total = sum(counts.values())
    shares = ", ".join(f"{n:,} {name} ({n / total:.1%})" for name, n in sorted(counts.items(), key=lambda one: -one[1]))
    queries = dataset.queries
    partly = sum(query.partly_labelled for query in queries)
    nothing = sum(query.needs_nothing for query in queries)
    return (
        f"{start} {_MARK}of {total:,} labels now, by source: {shares or 'none'}. Of {len(queries):,} queries, "
        f"{len(dataset.judged().queries):,} are labelled wholly ({nothing:,} of them need nothing), {partly:,} partly."
    ).lstrip()
