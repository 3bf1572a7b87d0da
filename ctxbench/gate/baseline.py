"""Writes baselines: what was accepted, as text to be reviewed in a diff; written whole or not at all.

What belongs into the files is what a check needs to compare and to name a cause: content hashes and texts, what the
selector says of itself, the model, and the version and code of ctxbench. Versions of Python and libraries differ from
one machine to the next; they stay as they stand while nothing else changes. The commit is left out: it would change
each time, and the commit that the baseline is in says it.
"""

from __future__ import annotations

import math
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ctxbench.bench.metrics import Metric, summarise
from ctxbench.bench.stats import Estimate, estimate, estimates
from ctxbench.core.arrays import Float32Array
from ctxbench.core.errors import ParameterError, StorageError, UserError
from ctxbench.core.rules import Rule
from ctxbench.data.datasets.row_groups import group_pairs
from ctxbench.gate.baseline_layout import (
    FORMAT,
    ITEMS,
    MANIFEST,
    QUERIES,
    SESSIONS,
    VECTORS,
    answers_file,
    dataset_file,
    figures_of,
    file_hash,
    manifest_hash,
    other_content,
)
from ctxbench.gate.baseline_noise import undo_noise
from ctxbench.gate.baseline_reader import NewerFormatError, read_baseline, read_manifest
from ctxbench.gate.baseline_rows import answer_row, item_row, query_row, session_items, session_row
from ctxbench.gate.check_settings import CheckSettings
from ctxbench.gate.model import PinFailure
from ctxbench.gate.snapshots import SelectorSnapshot
from ctxbench.gate.stored_vectors import vectors_bytes
from ctxbench.io.files import atomic_folder, read_bytes, recover_folder, write_atomic
from ctxbench.io.json_files import dump_json, dump_jsonl

OWN_VERSIONS = ("ctxbench", "code")  # the same on all machines of a team; those of Python and libraries are not
_DEFAULT = CheckSettings()
_DIGITS = 6  # of means and intervals, which are for reading: a check computes them from the values by query


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedFigures:
    """Summary of the answers of a selector on a dataset, to be reviewed when a baseline is accepted.

    Attributes:
        dataset, selector: names.
        shipped: the shipped selector that it is; see `Identity`.
        queries: how many.
        offered: items added over all of them; 0 = it offers nothing to any.
        metrics: means of those judged; NaN where one applies to no query.
    """

    dataset: str
    selector: str
    queries: int
    offered: int
    metrics: Mapping[Metric, float]
    shipped: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedBaseline:
    """The result of accepting a baseline. Paths are of files, sorted.

    Attributes:
        folder: of the baseline.
        written: files that are new or changed.
        unchanged: files that were so already, byte for byte.
        removed: files of selectors and datasets that are gone, and of vectors that were not given this time.
        texts: whether texts were written.
        pins: those of the gate file that what was written does not hold.
        summaries: a few numbers on each selector on each dataset.
    """

    folder: Path
    written: tuple[Path, ...]
    unchanged: tuple[Path, ...]
    removed: tuple[Path, ...]
    texts: bool = True
    pins: tuple[PinFailure, ...] = ()
    summaries: tuple[AcceptedFigures, ...] = ()


def has_no_texts(folder: Path) -> bool:
    """Whether there is a baseline that holds no text of any item; False where none can be read."""
    rows = {item.row is None for snapshot in _current_snapshots(folder).values() for item in snapshot.items.values()}
    return rows == {True}


def write_baseline(
    folder: Path,
    snapshots: Sequence[SelectorSnapshot],
    *,
    settings: CheckSettings = _DEFAULT,
    replaced: Mapping[str, Any] | None = None,
    texts: bool = True,
    vectors: Mapping[str, Float32Array] | None = None,
) -> AcceptedBaseline:
    """Write a baseline, or what of it has changed.

    The same snapshots give the same bytes. What is there already stays as it is, as far as it moved only by what
    machines differ in (`baseline_noise`); where it cannot be read, all is written anew. Files of others stay.

    Args:
        folder: made if it is missing.
        snapshots: at least one; those of one dataset with the same items and queries.
        settings: of the gate that the baseline is accepted with.
        replaced: the manifest of the baseline that this one replaces; None = there was none.
        texts: False keeps out what someone wrote: rows of items, texts of queries.
        vectors: by text, unit vectors of the texts that a check needs, each of shape (dimensions,); None = none.

    Raises:
        ParameterError: there is no snapshot, two have one name or one dataset in different states, a query has no
            answer or one that is none, or the folder is something else than a baseline.
        NewerFormatError: a newer version wrote the baseline.
        StorageError: it cannot be read or written; what was there is unchanged.
    """
    _check_snapshots(snapshots)
    recover_folder(folder)
    if content := other_content(folder):
        raise ParameterError(f"{folder} is {content}, no baseline; name another folder for the baseline")
    before = _current_snapshots(folder)
    stored = snapshots if texts else [*map(without_texts, snapshots)]
    new = [undo_noise(snapshot, before.get((snapshot.dataset, snapshot.selector))) for snapshot in stored]
    current, files = _current_files(folder), _text_files(new)
    embedder = next((snapshot.identity.embedder for snapshot in snapshots if snapshot.identity.embedder), "")
    if vectors and embedder:
        files[VECTORS] = vectors_bytes(vectors, embedder, current.get(VECTORS))
    files[MANIFEST] = _manifest_file(folder, current, partial(manifest, new, files, settings=settings), replaced)
    changed = sorted(name for name, data in files.items() if current.get(name) != data)
    removed = sorted(current.keys() - files)
    if changed or removed:
        with atomic_folder(folder) as temporary:
            _copy_other_files(folder, temporary, current)
            for name, data in files.items():
                write_atomic(temporary / name, data)
    return AcceptedBaseline(
        folder=folder,
        written=tuple(folder / name for name in changed),
        unchanged=tuple(folder / name for name in sorted(set(files) - set(changed))),
        removed=tuple(folder / name for name in removed),
        texts=texts,
    )


def _check_snapshots(snapshots: Sequence[SelectorSnapshot]) -> None:
    """Raise an error for snapshots that cannot be in one baseline."""
    if not snapshots:
        raise ParameterError("a baseline of nothing was asked for; at least one selector must be run on a dataset")
    first: dict[str, SelectorSnapshot] = {}
    names = Counter((snapshot.dataset, snapshot.selector) for snapshot in snapshots)
    for snapshot in snapshots:
        if names[snapshot.dataset, snapshot.selector] > 1:
            raise ParameterError(f"two selectors on {snapshot.dataset} are called {snapshot.selector!r}; rename one")
        earlier = first.setdefault(snapshot.dataset, snapshot)
        if (snapshot.items, snapshot.disabled, snapshot.queries) != (earlier.items, earlier.disabled, earlier.queries):
            message = (
                f"{earlier.selector} and {snapshot.selector} were run on different states of dataset {snapshot.dataset}"
            )
            raise ParameterError(f"{message}; run both again")


def _current_snapshots(folder: Path) -> dict[tuple[str, str], SelectorSnapshot]:
    """The snapshots that are in the folder; none if it cannot be read, as after a merge.

    Raises:
        NewerFormatError: a newer version wrote it, which could not read what this one writes.
    """
    try:
        return {(snapshot.dataset, snapshot.selector): snapshot for snapshot in read_baseline(folder)}
    except NewerFormatError:
        raise
    except UserError:
        return {}


def without_texts(snapshot: SelectorSnapshot) -> SelectorSnapshot:
    """The snapshot without texts that someone wrote; ids, tags and names of scopes stay."""
    return replace(
        snapshot,
        items={name: replace(item, row=None) for name, item in snapshot.items.items()},
        disabled={name: replace(item, row=None) for name, item in snapshot.disabled.items()},
        queries={
            name: replace(
                query,
                text="",
                extra_labels=() if any(group for *_, group in query.extra_labels) else query.extra_labels,
            )
            for name, query in snapshot.queries.items()
        },  # names of alternatives are texts, too
        judged=None,
    )


def _text_files(snapshots: Sequence[SelectorSnapshot]) -> dict[str, bytes]:
    """The files of all datasets, by their path in the folder."""
    files: dict[str, bytes] = {}
    for dataset in dict.fromkeys(snapshot.dataset for snapshot in snapshots):
        several = [snapshot for snapshot in snapshots if snapshot.dataset == dataset]
        sessions = _shared_sessions(several)
        files[dataset_file(dataset, ITEMS)] = _lines(map(item_row, several[0].all_items.values()))
        files[dataset_file(dataset, QUERIES)] = _lines(map(query_row, several[0].queries.values()))
        if sessions:
            rows = (session_row(number, session) for session, number in sessions.items())
            files[dataset_file(dataset, SESSIONS)] = _lines(rows)
        for snapshot in several:
            files[dataset_file(dataset, answers_file(snapshot.selector))] = _answers_file(snapshot, sessions)
    return files


def _lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    return dump_jsonl(rows).encode()


def _shared_sessions(snapshots: Sequence[SelectorSnapshot]) -> dict[tuple[str, ...], int]:
    """The sessions that at least two queries have, numbered from 1 on in the order in which they come."""
    queries = group_pairs(
        (session_items(snapshot.answers[query]), query) for snapshot in snapshots for query in snapshot.queries
    )
    several = [session for session, ids in queries.items() if session and len({*ids}) > 1]
    return {session: number for number, session in enumerate(several, start=1)}


def _answers_file(snapshot: SelectorSnapshot, sessions: Mapping[tuple[str, ...], int]) -> bytes:
    rules = {rule: number for number, rule in enumerate(rules_of(snapshot))}
    columns = {str(metric): column.tolist() for metric, column in snapshot.metrics.items()}
    return _lines(
        answer_row(snapshot.answers[query], {name: column[row] for name, column in columns.items()}, rules, sessions)
        for row, query in enumerate(snapshot.queries)
    )


def _manifest_file(
    folder: Path, current: Mapping[str, bytes], make: Callable[..., dict[str, Any]], replaced: Mapping[str, Any] | None
) -> bytes:
    """`baseline.json`, as it is in the folder where only the time of writing differs.

    That is, versions of Python and libraries, and which baseline it replaced.

    Args:
        folder: of the baseline.
        current: the files that are in the folder.
        make: `manifest`, given all but `replaced` and `libraries`.
        replaced: the manifest of the baseline that this one replaces; None = there was none.
    """
    if MANIFEST in current:
        try:
            old = read_manifest(folder)
            unchanged = dump_json(make(replaced=old.get("replaced"), libraries=old["versions"]), indent=2).encode()
        except (UserError, LookupError, AttributeError, TypeError):
            unchanged = b""  # it cannot be read, and is written anew
        if unchanged == current[MANIFEST]:
            return unchanged
    return dump_json(make(replaced=replaced), indent=2).encode()


def _current_files(folder: Path) -> dict[str, bytes]:
    """The files of a baseline in a folder, by their path in it, with those of datasets that are gone.

    Line ends are LF, whatever git made of them.
    """
    names = [MANIFEST, VECTORS]
    try:
        names += [path.relative_to(folder).as_posix() for path in folder.glob("*/*.jsonl")]
        contents = {name: read_bytes(folder / name) for name in names if (folder / name).is_file()}
        return {name: data if name == VECTORS else data.replace(b"\r\n", b"\n") for name, data in contents.items()}
    except OSError as error:
        raise StorageError(f"cannot read {folder}: {error.strerror or error}") from error


def _copy_other_files(folder: Path, temporary: Path, baseline_files: Iterable[str]) -> None:
    """Copy files that ctxbench did not write, such as a `.gitattributes`, to the folder that replaces this one."""
    left_out = {folder / name for name in baseline_files}
    try:
        for path in sorted(folder.rglob("*")):
            if path not in left_out and not path.is_dir():
                target = temporary / path.relative_to(folder)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target, follow_symlinks=False)
    except OSError as error:
        raise StorageError(f"cannot copy {folder}: {error.strerror or error}; nothing was changed there") from error


def summarise_selector(snapshot: SelectorSnapshot, metrics: Sequence[Metric]) -> AcceptedFigures:
    """Summarise what is accepted; a metric that cannot be computed is left out.

    Args:
        snapshot: as it is written.
        metrics: what a check judges.
    """
    means = summarise(list(metrics), snapshot.metrics)
    return AcceptedFigures(
        dataset=snapshot.dataset,
        selector=snapshot.selector,
        queries=len(snapshot.queries),
        offered=sum(item.origin != "session" for answer in snapshot.answers.values() for item in answer.offered),
        metrics={metric: mean.value for metric, mean in means.items()},
        shipped=snapshot.identity.shipped,
    )


def manifest(
    snapshots: Sequence[SelectorSnapshot],
    files: Mapping[str, bytes],
    *,
    settings: CheckSettings,
    replaced: Mapping[str, Any] | None = None,
    libraries: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Make the content of `baseline.json`.

    Args:
        snapshots: at least one, as they are written.
        files: the other files by their path in the folder.
        settings: of the gate.
        replaced: the manifest of the baseline that this one replaces, or what `figures_of` left of it.
        libraries: versions of Python and libraries that take the place of the snapshots' own, in their order.
    """
    versions = _versions(snapshots[0], libraries)
    datasets: dict[str, Any] = {}
    for snapshot in snapshots:
        if snapshot.dataset not in datasets:
            named = {"items": ITEMS, "queries": QUERIES, "sessions": SESSIONS}
            paths = {kind: dataset_file(snapshot.dataset, name) for kind, name in named.items()}
            hashes = {kind: file_hash(files[path]) for kind, path in paths.items() if path in files}
            counts = {"items": len(snapshot.all_items), "queries": len(snapshot.queries)}
            inputs = {"inputs": snapshot.inputs} if snapshot.inputs else {}
            datasets[snapshot.dataset] = {**counts, **inputs, "files": hashes, "selectors": {}}
        about = _selector_row(
            snapshot, file_hash(files[dataset_file(snapshot.dataset, answers_file(snapshot.selector))])
        )
        selector_versions = _versions(snapshot, libraries)
        datasets[snapshot.dataset]["selectors"][snapshot.selector] = (
            about if selector_versions == versions else {**about, "versions": selector_versions}
        )
    stored = {"vectors": file_hash(files[VECTORS])} if VECTORS in files else {}
    out = {"format": FORMAT, "versions": versions, "settings": settings.as_dict(), **stored, "datasets": datasets}
    if replaced is not None and (figures := figures_of(replaced)) != figures_of(out):
        out["replaced"] = figures
    return {**out, "hash": manifest_hash(out)}


def rules_of(snapshot: SelectorSnapshot) -> list[Rule | None]:
    """The rules that keep candidates of a snapshot out, by their numbers; the first is None.

    In the order of what is written of them: numbers then change with the rules only, and not with who meets which
    first.
    """
    rules = {
        candidate.rule
        for answer in snapshot.answers.values()
        for candidate in answer.near
        if candidate.rule is not None
    }
    return [None, *sorted(rules, key=lambda rule: dump_json(rule.as_dict()))]


def _versions(snapshot: SelectorSnapshot, libraries: Mapping[str, str] | None) -> dict[str, str]:
    versions = dict(snapshot.identity.versions)
    if libraries is None:
        return versions
    return {**libraries, **{name: value for name, value in versions.items() if name in OWN_VERSIONS}}


def _selector_row(snapshot: SelectorSnapshot, digest: str) -> dict[str, Any]:
    """The entry of a selector on a dataset: its description, and the means of its metrics."""
    identity = snapshot.identity
    repeated = {"repeats": snapshot.repeats, "spread": dict(snapshot.spread), "unsteady": list(snapshot.unsteady)}
    means = _mean_estimates(snapshot) if snapshot.queries else {}
    return {
        "outside": identity.outside,
        **({"shipped": identity.shipped} if identity.shipped else {}),
        "embedder": identity.embedder,
        "tokens": identity.tokens,
        "values": dict(identity.values),
        "description": dict(identity.selector),
        **(repeated if snapshot.repeats > 1 else {}),
        "metrics": {str(metric): _estimate_row(means.get(metric)) for metric in snapshot.metrics},
        "rules": {str(number): rule.as_dict() for number, rule in enumerate(rules_of(snapshot)) if rule is not None},
        "file": digest,
    }


def _mean_estimates(snapshot: SelectorSnapshot) -> Mapping[Metric, Estimate]:
    """Means with the intervals of a run. With repeats, yes/no values are shares."""
    if snapshot.repeats == 1:
        return estimates(snapshot.metrics, snapshot.metrics)
    scales = {metric: metric.declaration.scale for metric in snapshot.metrics}
    return {
        metric: estimate(values, scale="amount" if scales[metric] == "amount" else "share")
        for metric, values in snapshot.metrics.items()
        if scales[metric] != "bits"
    }


def _estimate_row(mean: Estimate | None) -> dict[str, Any]:
    """A mean with its interval; `n` is 0 where no value applies."""
    if mean is None:
        return {"n": 0}
    numbers = {"mean": mean.value, "low": mean.interval.low, "high": mean.interval.high}
    out = {name: float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None for name, value in numbers.items()}
    return {**out, "level": mean.interval.level, "n": mean.n, **({} if mean.interval.holds else {"holds": False})}
