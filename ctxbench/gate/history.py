"""Accepted baselines in git, the replaced baseline, and changed gate settings.

A change that makes selection worse and accepts that must be noticed. The replaced baseline is the one in git where the
branch left the default branch; on that branch the one in the last commit, or in the commit before if the last has the
current one. If git does not know, as in a shallow clone, the baseline itself stores the figures that it replaced.

A check uses the stricter of the settings in the gate file and in the baseline, so that a change cannot loosen its gate.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from ctxbench.evaluation.metrics import FORBIDDEN_OFFERED, Metric, parse_metric
from ctxbench.gate.baseline import AcceptedFigures, summarise_selector
from ctxbench.gate.baseline_reader import accepted_settings, read_baseline, read_manifest
from ctxbench.gate.baseline_rows import MANIFEST, VECTORS, accept_command, figures_of, other_content
from ctxbench.gate.results import FigureChange, Loosened, Replacement
from ctxbench.gate.settings import CheckSettings, GateFile, Minimum, Pin, Tolerance, read_gate
from ctxbench.gate.snapshots import SelectorSnapshot
from ctxbench.gate.verdict import pin_text
from ctxbench.io.errors import Message, ParameterError, StorageError, UserError, faults_of
from ctxbench.io.files import read_bytes, temporary_folder
from ctxbench.io.git import Commit, Repository, file_versions, merge_base

COMPLETENESS, TOKENS = parse_metric("completeness"), parse_metric("tokens")
FIGURES: tuple[Metric, ...] = (COMPLETENESS, TOKENS)
GONE = "the baseline was removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PastBaseline:
    """The baseline at one commit.

    Attributes:
        commit: which.
        worth: the figures of each selector on each dataset, in its order; `FIGURES` if it has them.
        fault: why it has no figures; empty if it could be read.
    """

    commit: Commit
    worth: tuple[AcceptedFigures, ...] = ()
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineHistory:
    """Baselines over time.

    Attributes:
        folder: of the baseline, as it was named.
        accepted: one a commit that changed it, oldest first; never empty.
        older: whether commits before these were left out, as they are beyond the limit.
        shallow: whether the clone lacks commits before these.
    """

    folder: Path
    accepted: tuple[PastBaseline, ...]
    older: bool = False
    shallow: bool = False

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The (dataset, selector) pairs of all of them, in the order in which they came."""
        return tuple(dict.fromkeys((figures.dataset, figures.selector) for at in self.accepted for figures in at.worth))


def baseline_of(path: Path) -> Path:
    """The folder of the baseline that a gate file names, or the folder itself.

    Raises:
        UserError: the gate file is missing or wrong.
    """
    named = path.is_file() or (path.suffix.lower() in (".yaml", ".yml") and not path.is_dir())
    return read_gate(path).baseline if named else path


def read_history(
    folder: Path,
    *,
    limit: int | None = None,
    notify: Callable[[str, int, int], None] | None = None,
) -> BaselineHistory:
    """Read the baselines of a folder at every commit that changed it. The checkout is not changed.

    Args:
        folder: of the baseline; it need not be there any more.
        limit: the newest so many commits, >= 1; None = all.
        notify: called with the progress.

    Raises:
        ParameterError: the limit is below 1, or the folder is one of something else.
        StorageError: git is not installed or refuses, the folder lies in no repository, or no commit has a baseline in
            it.
    """
    if limit is not None and limit < 1:
        raise ParameterError(f"the limit must be 1 commit or more, got {limit}")
    if content := other_content(folder):
        raise ParameterError(
            f"{folder} is {content}, no baseline; expected a gate file, or a folder that {accept_command()} made"
        )
    if (repository := Repository.around(folder)) is None:
        raise StorageError(f"{folder} is not in a git repository; commit the baseline, since git keeps its history")
    commits = repository.commits(folder, limit=None if limit is None else limit + 1)
    older = limit is not None and len(commits) > limit
    try:
        with temporary_folder(Path(tempfile.gettempdir(), "ctxbench")) as temporary:
            accepted = tuple(_read(repository, folder, commits[1:] if older else commits, temporary, notify))
    except OSError as error:
        raise StorageError(f"no temporary folder can be made ({error}); set TMPDIR to where there is room") from error
    if not any(baseline.worth or baseline.fault != GONE for baseline in accepted):
        raise StorageError(f"no commit has a baseline in {folder}; make it with {accept_command()}, and commit it")
    return BaselineHistory(folder=folder, accepted=accepted, older=older, shallow=repository.is_shallow())


def _read(
    repository: Repository,
    folder: Path,
    commits: Sequence[Commit],
    temporary: Path,
    notify: Callable[[str, int, int], None] | None,
) -> Iterator[PastBaseline]:
    """Read the baseline of a folder at each commit, by way of a temporary folder."""
    cache: dict[
        tuple[tuple[str, str], ...], tuple[tuple[AcceptedFigures, ...], str]
    ] = {}  # what was taken back is read once
    for number, commit in enumerate(commits):
        if notify is not None:
            notify("reading baselines", number, len(commits))
        files = {name: digest for name, digest in repository.files(commit, folder).items() if name != VECTORS}
        if (key := tuple(files.items())) not in cache:
            cache[key] = _worth_of(repository, folder, files, temporary / str(number))
        worth, fault = cache[key]
        yield PastBaseline(commit=commit, worth=worth, fault=fault)


def _worth_of(
    repository: Repository, folder: Path, files: Mapping[str, str], target: Path
) -> tuple[tuple[AcceptedFigures, ...], str]:
    """The figures of a baseline, and the reason where there are none."""
    if MANIFEST not in files:
        return (), GONE
    try:
        repository.write(files, target)
        return tuple(summarise_selector(snapshot, FIGURES) for snapshot in read_baseline(target)), ""
    except UserError as error:
        first, *rest = faults_of(error)
        problem = first.message.values.get("problem") if isinstance(first.message, Message) else None
        message = str(replace(first, message=problem or first.message)).replace(str(target), str(folder))
        return (), f"{message}{f'; {len(rest)} more' if rest else ''}"


def stricter_settings(
    current: CheckSettings, before: CheckSettings, bases: Sequence[SelectorSnapshot]
) -> tuple[CheckSettings, tuple[Loosened, ...]]:
    """The settings with the baseline's where they are looser, and which those are; pins excepted, see `lost_pins`.

    Args:
        current: of the gate file.
        before: those that the baseline was accepted with.
        bases: the snapshots of the baseline: tolerances and allowances may depend on their figures.
    """
    gone = [metric for metric in before.metrics if metric not in current.metrics]
    looser = [
        metric
        for metric in dict.fromkeys([*before.metrics, FORBIDDEN_OFFERED])  # the latter is judged without being named
        if metric not in gone and _is_larger(current.tolerance(metric), before.tolerance(metric), metric, bases)
    ]
    loosened = [Loosened("metrics", str(metric)) for metric in gone]
    loosened += [
        Loosened(f"tolerance of {metric}", str(before.tolerance(metric)), str(current.tolerance(metric)))
        for metric in looser
    ]
    numbers = {
        "confidence": current.confidence > before.confidence,
        "max_lost_required": _allows_more(current, before, bases),
        "repeats": current.repeats < before.repeats,
    }
    stricter = {name: getattr(before, name) for name, is_looser in numbers.items() if is_looser}
    loosened += [Loosened(name, _text(value), _text(getattr(current, name))) for name, value in stricter.items()]
    minimums, accepted = dict(current.minimums), dict[Metric, Minimum]()
    for metric, minimum in before.minimums.items():
        if (stated := current.minimums.get(metric)) is not None and stated.implies(minimum):
            continue
        loosened.append(Loosened(f"at_least {metric}", str(minimum), "" if stated is None else str(stated)))
        (minimums if stated is None or minimum.implies(stated) else accepted)[metric] = minimum
    metrics = (*current.metrics, *gone)
    tolerances = {metric: current.tolerance(metric) for metric in (*metrics, FORBIDDEN_OFFERED)}
    tolerances |= {metric: before.tolerance(metric) for metric in (*gone, *looser)}
    stricter |= {"metrics": metrics, "tolerances": tolerances, "minimums": minimums, "seed": before.seed}
    stricter |= {"accepted_minimums": accepted}
    return replace(current, **stricter), tuple(loosened)


def lost_pins(current: Sequence[Pin], before: Sequence[Pin], renamed: Mapping[str, str]) -> tuple[Pin, ...]:
    """What pins of the baseline demand and no pin of the gate file does any more, a pin for each demand.

    Args:
        current: the pins of the gate file.
        before: those that the baseline was accepted with.
        renamed: ids of items that go on under another id, old to new.
    """
    demands = (demand.at(0) for pin in before for demand in pin.demands())
    return tuple(demand for demand in demands if not any(pin.covers(demand, renamed) for pin in current))


def loosened_pins(lost: Sequence[Pin]) -> Iterator[Loosened]:
    """The pins that are gone or weaker, as loosened settings."""
    return (Loosened("pins", pin_text(pin)) for pin in lost)


def _text(value: float | None) -> str:
    return "default" if value is None else f"{value}"


def _is_larger(current: Tolerance, before: Tolerance, metric: Metric, bases: Sequence[SelectorSnapshot]) -> bool:
    """Whether a tolerance is larger on any dataset; a share and an amount compare by the means of the baseline."""
    if current.relative == before.relative:
        return current.amount > before.amount
    values = [base.metrics[part] for base in bases for part in metric.parts if part in base.metrics]
    means = [float(np.nanmean(column)) for column in values if not np.isnan(column).all()]
    return not means or any(current.of(mean) > before.of(mean) for mean in means)


def _allows_more(current: CheckSettings, before: CheckSettings, bases: Sequence[SelectorSnapshot]) -> bool:
    """Whether more required items may be lost of any selector; the default depends on how many queries need some."""
    needs = [sum(bool(query.required) for query in base.queries.values()) for base in bases]
    return any(current.allowed(need) > before.allowed(need) for need in needs)


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
        fork = next(filter(None, (merge_base(folder, branch) for branch in _DEFAULT_BRANCHES)), head)
    except UserError:
        return ""
    if fork != head or not head:
        return fork
    return _PARENT if committed else head


def _baseline_at(file: GateFile, data: bytes) -> Path:
    """The folder of the baseline that an earlier version of the gate file named; else the one at hand."""
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
