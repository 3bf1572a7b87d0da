"""Opens datasets whose catalog was edited by hand, with the labels of the baseline where the edit dropped them.

An edit that takes a required item away is what a check is to find, so that it must not make the dataset invalid. Three
things are put right in memory; no file is written:

* A label on an item of the baseline that is gone, or can no longer be offered, is kept, and that item counts as not
  offered (`read_dataset`).
* A label that names an item which goes on under another id follows it, and so do scopes, lists of available items, and
  results of tools.
* Labels that were dropped with such an item, as `ctxbench data rebase` does, are put back: of a query that is asked
  alike and whose other labels are those of the baseline.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ctxbench.bench.metrics.inputs import Grade
from ctxbench.bench.progress_listener import nothing_said
from ctxbench.core.items import Item, ItemKey
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.data.datasets.lookup import open_dataset
from ctxbench.data.datasets.query_labels import DatasetQuery, Label
from ctxbench.gate.comparability import find_renames
from ctxbench.gate.questions import Questions, result_names, tool_names
from ctxbench.gate.snapshots import LabelFact, QueryFact, SelectorSnapshot, label_facts


def open_edited(
    name_or_path: str | Path,
    *,
    bases: Sequence[SelectorSnapshot],
    base: Path | None = None,
    notify: Callable[[str], None] = nothing_said,
) -> Dataset:
    """Open a dataset as it is to be judged against a baseline.

    Args:
        name_or_path, base, notify: as for `open_dataset`.
        bases: the snapshots of the baseline. A dataset that is in none must be valid, but for `frozen` and `counts`.

    Raises:
        UserError: as `open_dataset`.
    """
    first = {snapshot.dataset: snapshot for snapshot in reversed(bases)}
    before = {name: [*snapshot.all_items] for name, snapshot in first.items()}
    dataset = open_dataset(name_or_path, base=base, notify=notify, former_ids=before)
    return restore_labels(dataset, first[dataset.name]) if dataset.name in first else dataset


def restore_labels(dataset: Dataset, base: SelectorSnapshot) -> Dataset:
    """Restore the labels of an edited dataset from the baseline, where only the edit took them away.

    Args:
        dataset: read with the ids of the baseline's items as `former_ids`.
        base: any selector's on that dataset.
    """
    offered = {item.id for item in dataset.current_catalog if item.enabled}
    out = {name for name in base.items if name not in offered}
    if not out:
        return dataset
    gone = [fact for name, fact in base.items.items() if name in out]
    added = [item for item in dataset.current_catalog if item.enabled and item.id not in base.items]
    renames = find_renames(gone, added, dataset.renames)
    return _restore_dropped_labels(_follow_renames(dataset, renames) if renames else dataset, base, out, renames)


def _follow_renames(dataset: Dataset, renames: Mapping[ItemKey, ItemKey]) -> Dataset:
    """Give renamed items their new ids and names wherever a dataset names them, unless it names both.

    A name of a tool's result is followed if no tool has it any more: else it may be that one's.
    """

    def new(keys: tuple[ItemKey, ...]) -> tuple[ItemKey, ...]:
        present = set(keys)
        return tuple(renames[key] if key in renames and renames[key] not in present else key for key in keys)

    scopes = {name: new(keys) for name, keys in dataset.scopes.items()}
    lists = {query.request.available for query in dataset.queries} - {None}
    available = {keys: new(keys) for keys in lists if keys is not None}
    used_names = {name for item in dataset.current_catalog if item.type == "tool" for name in tool_names(item.key)}
    names = {old: name for old, name in result_names(renames).items() if old not in used_names}
    queries = []
    for query in dataset.queries:
        keys = query.request.available
        request = query.request if keys is None else replace(query.request, available=available[keys])
        if request.tool_results:
            results = tuple((names.get(tool, tool), text) for tool, text in request.tool_results)
            request = replace(request, tool_results=results)
        queries.append(replace(query, request=request))
    labelled = {(label.query, label.item) for label in dataset.labels}
    labels = [
        label
        if (label.query, renames.get(label.item, label.item)) in labelled
        else replace(label, item=renames[label.item])
        for label in dataset.labels
    ]
    return replace(dataset, queries=tuple(queries), labels=tuple(labels), scopes=scopes)


def _restore_dropped_labels(
    dataset: Dataset, base: SelectorSnapshot, out: set[str], renames: Mapping[ItemKey, ItemKey]
) -> Dataset:
    """Restore the labels that were dropped with items that can no longer be offered."""
    ids = {old.id: new.id for old, new in renames.items()}
    questions = Questions(
        base,
        offered=[item.id for item in dataset.current_catalog if item.enabled],
        scopes={name: [key.id for key in keys] for name, keys in dataset.scopes.items()},
        renames=ids,
    )
    back: dict[str, list[Label]] = {}
    for query in dataset.queries:
        base_query = base.queries.get(query.id)
        if base_query is None:
            continue
        labels = _dropped_labels(query, base_query, dataset.labels_of(query.id), out, ids)
        if labels and questions.is_same_question(QueryFact.of(query, ()), query):
            back[query.id] = labels
    if not back:
        return dataset
    queries = [
        replace(query, partly_labelled=not base.queries[query.id].complete) if query.id in back else query
        for query in dataset.queries
    ]
    labels = [label for label in dataset.labels if label.query not in back]
    labels += [label for several in back.values() for label in several]
    missing = sorted(
        {label.item for label in labels if dataset.catalog.find(label.item) is None}, key=lambda key: key.id
    )
    items = [Item(type=key.type, server=key.server, name=key.name, enabled=False) for key in missing]
    return replace(
        dataset,
        catalog=dataset.catalog.extended(items),
        queries=tuple(queries),
        labels=tuple(labels),
        gone=dataset.gone + len(items),
    )


def _dropped_labels(
    query: DatasetQuery, base_query: QueryFact, labels: Sequence[Label], out: set[str], ids: Mapping[str, str]
) -> list[Label]:
    """The baseline's labels of a query, if its own labels lack only those of items that can no longer be offered.

    Empty if no label is missing, or if others differ. Whether the query is the same question is not looked at.
    """
    before = base_query.labels()
    current = label_facts(labels)
    if before is None or query.needs_nothing != base_query.needs_nothing:
        return []
    before = sorted((ids.get(name, name), grade, via, group) for name, grade, via, group in before)
    if before == current or any(
        name not in out for name in {label[0] for label in before} - {label[0] for label in current}
    ):
        return []
    left = {label[0] for label in current}
    if sorted(_without_single_alternatives([label for label in before if label[0] in left])) != current:
        return []
    sources = {label.item.id: label.source for label in labels}
    return [
        Label(query.id, ItemKey.parse(name), grade, via, alternatives, sources.get(name, ""))
        for name, grade, via, alternatives in before
    ]


def _without_single_alternatives(labels: Sequence[LabelFact]) -> list[LabelFact]:
    """Labels without the names of groups of alternatives that have one member left."""
    groups = [alternatives for _, grade, _, alternatives in labels if grade == Grade.REQUIRED]
    return [(name, grade, via, "" if groups.count(group) == 1 else group) for name, grade, via, group in labels]
