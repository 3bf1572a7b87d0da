"""Edits by someone who has not seen how causes are found: is the first cause that a check names the right one?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gate_world import HERE, accepted, check, data_of, opened, with_data, worse_allowing

from ctxbench.catalogs.snapshots import read_item
from ctxbench.datasets.dataset import Dataset
from ctxbench.gate.results import Cause, CauseKind, Check
from ctxbench.gate.settings import CheckSettings
from ctxbench.gate.snapshot_sources import take
from ctxbench.gate.snapshots import SelectorSnapshot
from ctxbench.io.documents import load_yaml
from ctxbench.io.errors import Fault
from ctxbench.io.rows import Row
from ctxbench.labelling.rebase import rebase_dataset
from ctxbench.model.arrays import Grade
from ctxbench.model.items import Catalog, Item, ItemKey

NOTHING = "nothing"  # expected where no query is offered anything else


def edits() -> list[dict[str, Any]]:
    """As they are written."""
    rows: list[dict[str, Any]] = load_yaml(HERE / "edits.yaml")[0]
    return rows


def named(index: int) -> list[dict[str, Any]]:
    """Accept before an edit, check after it, and say whether the right cause is named first, in one row.

    It is right if it is of the expected kind and names an item or a parameter that is expected. `labels_lost` are
    required labels whose item can no longer be offered; their queries are left out of the check.
    """
    edit = edits()[index]
    selector = {**edit["selector"], "name": "selector"}
    before = opened(edit["dataset"], selectors=[selector])
    base = accepted(take(before))
    selector, embedder = _selector(selector, edit["edit"])
    after = opened(edit["dataset"], selectors=[selector], embedder=embedder)
    data, labels_lost = _edited(data_of(after), edit["edit"])
    head = take(with_data(after, data))
    result = check(list(zip(base, head, strict=True)), CheckSettings(allow_removed=bool(labels_lost)))
    row = result.selectors[0]
    moved = [group.cause for group in row.causes if group.lost or group.gained or group.others]
    first = moved[0] if moved else None  # an item that costs otherwise where it is offered as before is not expected
    kind, subjects = str(edit["expected"]["cause"]), tuple(edit["expected"]["subjects"])
    return [
        {
            "edit": edit["name"],
            "expected": kind,
            "named_first": NOTHING if first is None else str(first.kind),
            "subjects": "" if first is None else " ".join(first.subjects),
            "right": _right(first, (kind, subjects), result, base[0]),
            "verdict": str(row.verdict),
            "lost": row.lost,
            "gained": row.gained,
            "labels_lost": labels_lost,
            **worse_allowing(row, head[0]),
        }
    ]


def _right(first: Cause | None, expected: tuple[str, tuple[str, ...]], result: Check, base: SelectorSnapshot) -> bool:
    kind, subjects = expected
    compared = result.selectors[0].compared
    if first is None or kind == NOTHING:
        return first is None and kind == NOTHING and compared == len(base.queries)
    if first.kind is CauseKind.MODEL:
        return kind == CauseKind.MODEL  # there is one
    return str(first.kind) == kind and not set(subjects).isdisjoint(first.subjects)


def _selector(selector: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], str]:
    """The selector and the embedder after an edit."""
    edited, embedder = dict(selector), "minilm"
    for step in steps:
        if "parameter" in step:
            edited["set"] = {**edited.get("set", {}), step["parameter"]: step["value"]}
        elif "embedder" in step:
            embedder = step["embedder"]
    return edited, embedder


def _edited(data: Dataset, steps: Sequence[Mapping[str, Any]]) -> tuple[Dataset, int]:
    """The dataset after an edit, carried to the new catalog as `curate rebase` does, and the required labels lost."""
    items = {item.id: item for item in data.catalog}
    renames: dict[ItemKey, ItemKey] = {}
    for step in steps:
        if "set" in step:
            items[step["set"]] = replace(items[step["set"]], **step["fields"])
        elif "rename" in step:
            old, new = ItemKey.parse(step["rename"]), ItemKey.parse(step["to"])
            renames[old] = new
            items = {
                (new.id if name == old.id else name): replace(item, **new._asdict(), title="")
                if name == old.id
                else item
                for name, item in items.items()
            }
        elif "remove" in step:
            del items[step["remove"]]
        elif "add" in step:
            added = _item(step["add"])
            items[added.id] = added
    carried = rebase_dataset(data, Catalog(items.values()), renames=renames, version=data.version)
    return carried.dataset, sum(label.grade == Grade.REQUIRED for label in carried.lost_labels)


def _item(row: Mapping[str, Any]) -> Item:
    faults: list[Fault] = []
    item = read_item(Row(dict(row), faults, HERE / "edits.yaml", 0))
    if item is None or faults:
        raise ValueError(faults)
    return item
