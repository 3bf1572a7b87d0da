"""One domain of a search as if there were no other."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ctxbench.datasets.queries import Label
from ctxbench.evaluation.answers import Labels
from ctxbench.model.arrays import BoolArray, Grade
from ctxbench.model.candidates import Candidates, Origin


def restrict_to_domain(table: Candidates, labels: Labels, types: BoolArray) -> tuple[Candidates, Labels]:
    """One domain as if there were no other: to be read by `MeasuredRankings.of` and swept like any ranking.

    Args:
        table: what stands in front of the domains' cuts.
        labels: of the same queries.
        types: which items belong to the domain, shape (n_items,), of `domain_items`.

    Returns:
        Its rows, and the labels of its items. A query that needs nothing of the domain needs nothing. Where an item
        of another domain could stand for it, an item is taken to be needed all the same, unless the session holds
        that other one: then it is helpful only.
    """
    dataset = labels.dataset
    keys = {item.key for item, members in zip(dataset.catalog, types.tolist(), strict=True) if members}
    rows = table.origin == Origin.SESSION
    ids = [query.id for query in dataset.queries]
    pairs = zip(table.request[rows].tolist(), table.item[rows].tolist(), strict=True)
    in_session = {(ids[request], dataset.catalog[item].key) for request, item in pairs}
    met = {
        (label.query, label.alternatives)
        for label in dataset.labels
        if label.alternatives and label.item not in keys and (label.query, label.item) in in_session
    }
    kept = [label for label in dataset.labels if label.item in keys]
    sizes = Counter((label.query, label.alternatives) for label in kept)

    def relabel(label: Label) -> Label:
        group = (label.query, label.alternatives)
        if group in met:
            return replace(label, grade=int(Grade.HELPFUL), alternatives="")
        return replace(label, alternatives="") if sizes[group] == 1 else label

    kept = [relabel(label) for label in kept]
    in_need = {label.query for label in kept if label.grade == Grade.REQUIRED}
    queries = tuple(replace(query, needs_nothing=query.id not in in_need) for query in dataset.queries)
    restricted = replace(dataset, queries=queries, labels=tuple(kept))
    domain_labels = replace(Labels.of(restricted, labels.item_tokens), body_tokens=labels.body_tokens)
    return table.select_rows(types[table.item]), domain_labels
