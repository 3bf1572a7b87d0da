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
    """A few numbers on the answers of a selector on a dataset, for whoever accepts them.

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
    rows = {item.row is None for one in _current_snapshots(folder).values() for item in one.items.values()}
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
    _refuse_unfit_snapshots(snapshots)
    recover_folder(folder)
    if what := other_content(folder):
        raise ParameterError(f"{folder} is {what}, no baseline; name another folder for the baseline")
    before = _current_snapshots(folder)
    kept = snapshots if texts else [*map(without_texts, snapshots)]
    new = [undo_noise(one, before.get((one.dataset, one.selector))) for one in kept]
    here, files = _current_files(folder), _text_files(new)
    embedder = next((one.identity.embedder for one in snapshots if one.identity.embedder), "")
    if vectors and embedder:
        files[VECTORS] = vectors_bytes(vectors, embedder, here.get(VECTORS))
    files[MANIFEST] = _manifest_file(folder, here, partial(manifest, new, files, settings=settings), replaced)
    changed = sorted(name for name, data in files.items() if here.get(name) != data)
    removed = sorted(here.keys() - files)
    if changed or removed:
        with atomic_folder(folder) as temporary:
            _copy_other_files(folder, temporary, here)
            for name, data in files.items():
                write_atomic(temporary / name, data)
    return AcceptedBaseline(
        folder=folder,
        written=tuple(folder / name for name in changed),
        unchanged=tuple(folder / name for name in sorted(set(files) - set(changed))),
        removed=tuple(folder / name for name in removed),
        texts=texts,
    )


def _refuse_unfit_snapshots(snapshots: Sequence[SelectorSnapshot]) -> None:
    """Refuse snapshots that cannot stand in one baseline."""
    if not snapshots:
        raise ParameterError("a baseline of nothing was asked for; at least one selector must be run on a dataset")
    first: dict[str, SelectorSnapshot] = {}
    names = Counter((one.dataset, one.selector) for one in snapshots)
    for one in snapshots:
        if names[one.dataset, one.selector] > 1:
            raise ParameterError(f"two selectors on {one.dataset} are called {one.selector!r}; rename one")
        other = first.setdefault(one.dataset, one)
        if (one.items, one.disabled, one.queries) != (other.items, other.disabled, other.queries):
            what = f"{other.selector} and {one.selector} were run on different states of dataset {one.dataset}"
            raise ParameterError(f"{what}; run both again")


def _current_snapshots(folder: Path) -> dict[tuple[str, str], SelectorSnapshot]:
    """The snapshots that stand in the folder; none if it cannot be read, as after a merge.

    Raises:
        NewerFormatError: a newer version wrote it, which could not read what this one writes.
    """
    try:
        return {(one.dataset, one.selector): one for one in read_baseline(folder)}
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
            name: replace(query, text="", others=() if any(group for *_, group in query.others) else query.others)
            for name, query in snapshot.queries.items()
        },  # names of alternatives are texts, too
        judged=None,
    )


def _text_files(snapshots: Sequence[SelectorSnapshot]) -> dict[str, bytes]:
    """The files of all datasets, by their path in the folder."""
    files: dict[str, bytes] = {}
    for dataset in dict.fromkeys(one.dataset for one in snapshots):
        several = [one for one in snapshots if one.dataset == dataset]
        sessions = _shared_sessions(several)
        files[dataset_file(dataset, ITEMS)] = _lines(map(item_row, several[0].all_items.values()))
        files[dataset_file(dataset, QUERIES)] = _lines(map(query_row, several[0].queries.values()))
        if sessions:
            rows = (session_row(number, held) for held, number in sessions.items())
            files[dataset_file(dataset, SESSIONS)] = _lines(rows)
        for one in several:
            files[dataset_file(dataset, answers_file(one.selector))] = _answers_file(one, sessions)
    return files


def _lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    return dump_jsonl(rows).encode()


def _shared_sessions(snapshots: Sequence[SelectorSnapshot]) -> dict[tuple[str, ...], int]:
    """The sessions that at least two queries have, numbered from 1 on in the order in which they come."""
    queries = group_pairs((session_items(one.answers[query]), query) for one in snapshots for query in one.queries)
    several = [held for held, found in queries.items() if held and len({*found}) > 1]
    return {held: number for number, held in enumerate(several, start=1)}


def _answers_file(one: SelectorSnapshot, sessions: Mapping[tuple[str, ...], int]) -> bytes:
    rules = {rule: place for place, rule in enumerate(rules_of(one))}
    columns = {str(metric): column.tolist() for metric, column in one.metrics.items()}
    return _lines(
        answer_row(one.answers[query], {name: column[row] for name, column in columns.items()}, rules, sessions)
        for row, query in enumerate(one.queries)
    )


def _manifest_file(
    folder: Path, here: Mapping[str, bytes], make: Callable[..., dict[str, Any]], replaced: Mapping[str, Any] | None
) -> bytes:
    """`baseline.json`; what tells the time it was written stays as it stands there if nothing else has changed.

    That is the versions of Python and libraries, and which baseline it replaced.

    Args:
        folder: of the baseline.
        here: the files that stand there.
        make: `manifest`, given all but `replaced` and `libraries`.
        replaced: the manifest of the baseline that this one replaces; None = there was none.
    """
    if MANIFEST in here:
        try:
            old = read_manifest(folder)
            same = dump_json(make(replaced=old.get("replaced"), libraries=old["versions"]), indent=2).encode()
        except (UserError, LookupError, AttributeError, TypeError):
            same = b""  # it cannot be read, and is written anew
        if same == here[MANIFEST]:
            return same
    return dump_json(make(replaced=replaced), indent=2).encode()


def _current_files(folder: Path) -> dict[str, bytes]:
    """The files of a baseline in a folder, by their path in it, with those of datasets that are gone.

    Line ends are LF, whatever git made of them.
    """
    names = [MANIFEST, VECTORS]
    try:
        names += [path.relative_to(folder).as_posix() for path in folder.glob("*/*.jsonl")]
        found = {name: read_bytes(folder / name) for name in names if (folder / name).is_file()}
        return {name: data if name == VECTORS else data.replace(b"\r\n", b"\n") for name, data in found.items()}
    except OSError as error:
        raise StorageError(f"cannot read {folder}: {error.strerror or error}") from error


def _copy_other_files(folder: Path, temporary: Path, own: Iterable[str]) -> None:
    """Copy files of others, such as a `.gitattributes`, to the folder that replaces this one."""
    left_out = {folder / name for name in own}
    try:
        for path in sorted(folder.rglob("*")):
            if path not in left_out and not path.is_dir():
                target = temporary / path.relative_to(folder)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target, follow_symlinks=False)
    except OSError as error:
        raise StorageError(f"cannot copy {folder}: {error.strerror or error}; nothing was changed there") from error


def summarise_selector(one: SelectorSnapshot, metrics: Sequence[Metric]) -> AcceptedFigures:
    """Summarise what is accepted; a metric that cannot be computed is left out.

    Args:
        one: as it is written.
        metrics: what a check judges.
    """
    means = summarise(list(metrics), one.metrics)
    return AcceptedFigures(
        dataset=one.dataset,
        selector=one.selector,
        queries=len(one.queries),
        offered=sum(item.origin != "session" for answer in one.answers.values() for item in answer.offered),
        metrics={metric: found.value for metric, found in means.items()},
        shipped=one.identity.shipped,
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
    for one in snapshots:
        if one.dataset not in datasets:
            named = {"items": ITEMS, "queries": QUERIES, "sessions": SESSIONS}
            paths = {what: dataset_file(one.dataset, name) for what, name in named.items()}
            hashes = {what: file_hash(files[path]) for what, path in paths.items() if path in files}
            counts = {"items": len(one.all_items), "queries": len(one.queries)}
            inputs = {"inputs": one.inputs} if one.inputs else {}
            datasets[one.dataset] = {**counts, **inputs, "files": hashes, "selectors": {}}
        about = _selector_row(one, file_hash(files[dataset_file(one.dataset, answers_file(one.selector))]))
        own = _versions(one, libraries)
        datasets[one.dataset]["selectors"][one.selector] = about if own == versions else {**about, "versions": own}
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
    found = {one.rule for answer in snapshot.answers.values() for one in answer.near if one.rule is not None}
    return [None, *sorted(found, key=lambda rule: dump_json(rule.as_dict()))]


def _versions(one: SelectorSnapshot, libraries: Mapping[str, str] | None) -> dict[str, str]:
    versions = dict(one.identity.versions)
    if libraries is None:
        return versions
    return {**libraries, **{name: value for name, value in versions.items() if name in OWN_VERSIONS}}


def _selector_row(one: SelectorSnapshot, digest: str) -> dict[str, Any]:
    """The entry of a selector on a dataset: its description, and the means of its metrics."""
    identity = one.identity
    repeated = {"repeats": one.repeats, "spread": dict(one.spread), "unsteady": list(one.unsteady)}
    means = _mean_estimates(one) if one.queries else {}
    return {
        "outside": identity.outside,
        **({"shipped": identity.shipped} if identity.shipped else {}),
        "embedder": identity.embedder,
        "tokens": identity.tokens,
        "values": dict(identity.values),
        "description": dict(identity.selector),
        **(repeated if one.repeats > 1 else {}),
        "metrics": {str(metric): _estimate_row(means.get(metric)) for metric in one.metrics},
        "rules": {str(place): rule.as_dict() for place, rule in enumerate(rules_of(one)) if rule is not None},
        "file": digest,
    }


def _mean_estimates(one: SelectorSnapshot) -> Mapping[Metric, Estimate]:
    """Means with the intervals of a run. Of a selector that was asked repeatedly, yes/no values are shares."""
    if one.repeats == 1:
        return estimates(one.metrics, one.metrics)
    scales = {metric: metric.declaration.scale for metric in one.metrics}
    return {
        metric: estimate(values, scale="amount" if scales[metric] == "amount" else "share")
        for metric, values in one.metrics.items()
        if scales[metric] != "bits"
    }


def _estimate_row(one: Estimate | None) -> dict[str, Any]:
    """A mean with its interval; null where the values say nothing."""
    if one is None:
        return {"n": 0}
    numbers = {"mean": one.value, "low": one.interval.low, "high": one.interval.high}
    out = {name: float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None for name, value in numbers.items()}
    return {**out, "level": one.interval.level, "n": one.n, **({} if one.interval.holds else {"holds": False})}
