"""Finds the baseline that the one at hand replaced, and which figures and settings differ.

A change that makes selection worse and accepts it as well must not go unnoticed. The baseline that was there before is
the one that git has where the branch left the default branch; on that branch itself, the one in the last commit, or in
the commit before it if that is what stands there now. Where git does not tell, as in a shallow clone, the baseline
itself tells which figures it replaced.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ctxbench.core.errors import UserError
from ctxbench.gate.baseline_layout import MANIFEST, figures_of
from ctxbench.gate.baseline_reader import accepted_settings, read_manifest
from ctxbench.gate.check_settings import CheckSettings
from ctxbench.gate.gate_file import GateFile
from ctxbench.gate.model import FigureChange, Loosened, Replacement
from ctxbench.gate.snapshots import SelectorSnapshot
from ctxbench.gate.strictness import loosened_pins, lost_pins, stricter_settings
from ctxbench.io.files import read_bytes
from ctxbench.io.git import file_versions, merge_base

_HERE, _PARENT = "HEAD", "HEAD^1"
_DEFAULT_BRANCHES = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
_SHORT = 8  # digits of a commit's hash
_QUERIES = "queries"


class _Former(NamedTuple):
    """The baseline before this change, as far as git has it.

    Attributes:
        is_known: whether it tells anything.
        head: the manifest of the baseline that was there; None = there was none, or it is the one at hand.
        commit: that has it.
    """

    is_known: bool
    head: Mapping[str, Any] | None = None
    commit: str = ""


def find_replacement(file: GateFile, head: Mapping[str, Any], bases: Sequence[SelectorSnapshot]) -> Replacement | None:
    """Find out whether the baseline of a gate file replaced another one in this change.

    Args:
        file: the gate file.
        head: the manifest of its baseline.
        bases: the snapshots of its baseline.
    """
    data = read_bytes(file.baseline / MANIFEST).replace(b"\r\n", b"\n")
    former = _former_baseline(file, data, records_replaced="replaced" in head)
    old = former.head if former.is_known else head.get("replaced")
    if old is None or _content(old) == _content(head):
        return None
    return Replacement(
        figures=tuple(_figure_changes(old, head)),
        loosened=_loosened_by(old, accepted_settings(head, file.baseline), bases),
        commit=former.commit,
    )


def replaced_by_accepting(file: GateFile) -> Mapping[str, Any] | None:
    """The manifest of the baseline that accepting anew replaces; None where there is none that can be read."""
    former = _former_baseline(file, None, records_replaced=True)
    if former.head is not None:
        return former.head if "settings" in former.head else None
    try:
        return read_manifest(file.baseline)
    except UserError:
        return None


def _former_baseline(file: GateFile, data: bytes | None, *, records_replaced: bool) -> _Former:
    """The baseline before this change, as git has it.

    Args:
        file: the gate file.
        data: of the manifest at hand; None where it is about to be replaced.
        records_replaced: whether the baseline itself has what it replaced, so that git must be looked at first.
    """
    path = file.baseline / MANIFEST
    versions = file_versions(path, (_HERE, _PARENT, *_DEFAULT_BRANCHES))
    is_merged = any(branch in versions for branch in _DEFAULT_BRANCHES)  # else this change may have moved it here
    if is_merged and {*versions.values()} == {data} and (_PARENT in versions or not records_replaced):
        return _Former(is_known=True)
    revision = _revision_before(file.path.parent, committed=versions.get(_HERE) == data)
    gate = file_versions(file.path, (revision,)) if revision else {}
    before = file_versions(path, (revision,)) if revision else {}
    if gate and not before:
        before = file_versions(_baseline_at(file, gate[revision]) / MANIFEST, (revision,))
    if not before:
        return _Former(is_known=bool(gate))
    if before[revision] == data:
        return _Former(is_known=True)
    return _Former(is_known=True, head=_parsed(before[revision]), commit=revision[:_SHORT])


def _revision_before(folder: Path, *, committed: bool) -> str:
    """The commit before this change; empty where git does not have it.

    Args:
        folder: in the checkout.
        committed: whether the baseline at hand is the one in the last commit.
    """
    try:
        head = merge_base(folder, _HERE)
        forks = (merge_base(folder, branch) for branch in _DEFAULT_BRANCHES)
        fork = next(filter(None, forks), head)
    except UserError:
        return ""
    if fork != head or not head:
        return fork
    return _PARENT if committed else head


def _baseline_at(file: GateFile, data: bytes) -> Path:
    """The folder of the baseline that an earlier version of the gate file named; else the one at hand."""
    import yaml  # most gate files name the folder that they named before

    try:
        name = yaml.safe_load(data)["baseline"]
    except (yaml.YAMLError, LookupError, TypeError, ValueError):
        name = f"{file.path.stem}.baseline"
    return file.path.parent / str(name)


def _parsed(data: bytes) -> Mapping[str, Any]:
    """A manifest; one without figures where it cannot be read."""
    try:
        head = json.loads(data)
        figures_of({"settings": {}, **head})
    except (LookupError, TypeError, ValueError, AttributeError):
        return {"datasets": {}}
    return dict(head)


def _content(head: Mapping[str, Any]) -> Any:
    """What counts as a difference: not the versions that it was written with."""
    return [head.get("settings"), head["datasets"]]


def _figure_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[FigureChange]:
    """The figures that differ, in the order of the new manifest, then those that are gone."""
    before, after = _figures(old), _figures(new)
    for key in dict.fromkeys([*after, *before]):
        if before.get(key) != after.get(key):
            dataset, selector, metric = key
            yield FigureChange(
                dataset=dataset, selector=selector, metric=metric, before=before.get(key), after=after.get(key)
            )


def _figures(head: Mapping[str, Any]) -> dict[tuple[str, str, str], float | None]:
    """The figures of a manifest by dataset, selector and metric."""
    return {
        (dataset, selector, metric): value
        for dataset, about in head["datasets"].items()
        for selector, facts in about["selectors"].items()
        for metric, value in [
            *((metric, row.get("mean")) for metric, row in facts["metrics"].items()),
            (_QUERIES, about[_QUERIES]),
        ]
    }


def _loosened_by(
    old: Mapping[str, Any], current: CheckSettings, bases: Sequence[SelectorSnapshot]
) -> tuple[Loosened, ...]:
    """The settings that were loosened when the baseline was accepted anew; none where the old ones are not known."""
    try:
        before = accepted_settings(old, Path())
    except UserError:
        return ()
    _, loosened = stricter_settings(current, before, bases)
    return (*loosened, *loosened_pins(lost_pins(current.pins, before.pins, {})))
