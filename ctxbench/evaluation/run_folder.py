"""Run folders: write, read, and summarise by estimates and comparisons.

    manifest.json               versions, hashes, configuration, seed, identities, git commit
    timings.json                seconds, the machine and the day; nothing else depends on them
    <dataset>/<selector>/
        answers.zip             every candidate of every query, offered or not, by blocks of queries
        selections.jsonl        offered items, one line per query, for reading
        metrics.jsonl           values of all metrics, one line per query
        part.json               hashes of the inputs and of the files in the folder

Each JSON file that is read again holds its checksum. A changed file is an error, and its part is computed again. A part
(one dataset and selector) appears whole or not at all. Until then finished slices of queries are in
`<selector>+partial`, so that an interrupted run continues there. A run folder without a manifest is unfinished.
Summaries are computed from the values by query; no mean is stored alone.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ctxbench.datasets.lookup import sha256_of
from ctxbench.evaluation.answers import (
    ANSWERS,
    DAMAGE,
    SELECTIONS,
    SUFFIX,
    Part,
    Slice,
    StoredAnswers,
    read_slice,
    write_blocks,
    write_metrics,
    write_selections,
    write_slice,
)
from ctxbench.evaluation.comparisons import compare_metric, estimates
from ctxbench.evaluation.experiment import machine
from ctxbench.evaluation.metrics import FORBIDDEN_OFFERED, GroupMean, Metric, parse_metric, worst_group
from ctxbench.evaluation.statistics import Comparison, Estimate, correct
from ctxbench.io.cache import files_in, refuse_unwritable
from ctxbench.io.documents import dump_json, read_json
from ctxbench.io.errors import Message, StorageError, UserError, raise_first
from ctxbench.io.files import (
    atomic_folder,
    exclusive,
    file_name,
    read_bytes,
    recover_folder,
    sweep_folder,
    write_atomic,
    writing,
)
from ctxbench.model.arrays import FloatArray
from ctxbench.model.items import Catalog

_log = logging.getLogger(__name__)
LONGEST_NAME = 200  # bytes of a file name, with room for an ending
FORMAT = 5  # of the run folder; raised when a reader of the old one would go wrong
MEANING = 3  # of answers, part of their key: raised when stored answers get another meaning
_AGAIN = "run the experiment again"


def content_key(*parts: Any) -> str:
    """SHA-256 over JSON values."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


class RunFolder:
    """Reads and writes one run folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def part_path(self, dataset: str, selector: str) -> Path:
        """The folder of a part; names are percent-encoded where a file system might object."""
        return self.path / file_name(dataset) / file_name(selector)

    @contextmanager
    def locked(self, waiting: Callable[[], None]) -> Iterator[None]:
        """Lock the folder against other writers, and remove the incomplete files of a killed process.

        Args:
            waiting: called every tenth of a second while another process writes.

        Raises:
            StorageError: the folder cannot be written.
        """
        try:
            with exclusive(self.path / ".lock", waiting=waiting):
                for folder in (self.path, *self.path.glob("*/"), *self.path.glob("*/*+partial/")):
                    sweep_folder(folder)
                yield
        finally:
            with suppress(OSError):  # it is not empty: something came of the run
                self.path.rmdir()

    def _recovered(self, dataset: str, selector: str) -> Path:
        """The folder of a part, brought back if a writer was killed while it put a new one in its place."""
        recover_folder(folder := self.part_path(dataset, selector))
        return folder

    def answers(self, dataset: str, selector: str, key: str) -> StoredAnswers | None:
        """The answers of a finished part, if they are undamaged and were made for this `key`."""
        folder = self._recovered(dataset, selector)
        with suppress(UserError, *DAMAGE):  # the part is made again
            marker = _read_checked(folder / "part.json")
            if marker["key"] == key:
                return replace(_undamaged(folder, marker), notes=marker["notes"])
        return None

    def stored(self, dataset: str, selector: str, key: str) -> StoredAnswers | None:
        """The answers of a finished part, or those so far of an unfinished one; None if there are none."""
        answers = self.answers(dataset, selector, key)
        if answers is None and _has_text(self._partial(dataset, selector) / "key", key):
            with suppress(StorageError):
                return self.slices(dataset, selector)
        return answers

    def has(self, dataset: str, selector: str, key: str, values_key: str = "") -> bool:
        """Whether the part is there, undamaged, and was made and measured for these keys."""
        folder = self._recovered(dataset, selector)
        if not (folder / "part.json").exists():
            return False
        try:
            marker = _read_checked(folder / "part.json")
            if (marker["key"], marker["values_key"]) != (key, values_key):
                return False
            changed = [
                name for name, sha256 in marker["files"].items() if sha256_of(folder / name, fix=_AGAIN) != sha256
            ]
            reasons: list[object] = [f"{name} was changed or damaged" for name in changed]
        except (UserError, *DAMAGE) as error:
            reasons = [error]
        for reason in reasons:
            _log.warning(Message("evaluation.part-computed-again", folder=folder, reason=reason))
        return not reasons

    def save(self, part: Part, catalog: Catalog) -> None:
        """Write a part, whole or not at all, and drop its slices.

        Raises:
            StorageError: the disk is full or the folder cannot be written.
        """
        target = self.part_path(part.dataset, part.selector)
        self.discard("manifest.json")  # from here on the parts may be of two runs
        with atomic_folder(target) as folder:
            hashes = {}
            for name, write in _FILES.items():
                with writing(folder / name) as stream:
                    write(part, catalog, stream)
                hashes[name] = sha256_of(folder / name, fix=_AGAIN)
            marker = {
                "format": FORMAT,
                "dataset": part.dataset,
                "selector": part.selector,
                "key": part.key,
                "values_key": part.values_key,
                "made_by": dict(part.made_by),
                "metrics": list(part.metrics),
                "unavailable": dict(part.unavailable),
                "notes": dict(part.notes),
                "forbidden": dict(part.forbidden),
                "errors": len(part.answers.errors),
                "files": hashes,
            }
            _write_checked(folder / "part.json", marker)
        self.drop_slices(part.dataset, part.selector)

    def drop_slices(self, dataset: str, selector: str) -> None:
        """Remove what is left of an unfinished part."""
        shutil.rmtree(self._partial(dataset, selector), ignore_errors=True)

    def load(self, dataset: str, selector: str) -> Part:
        """Read a part.

        Raises:
            StorageError: it is missing or damaged.
        """
        folder = self._recovered(dataset, selector)
        marker = _read_checked(folder / "part.json")
        try:
            names, answers = marker["metrics"], _undamaged(folder, marker)
            content = read_bytes(folder / "metrics.jsonl")
            if hashlib.sha256(content).hexdigest() != marker["files"]["metrics.jsonl"]:
                raise _changed(folder / "metrics.jsonl")
            rows = [json.loads(line) for line in content.split(b"\n") if line]
            values = np.array([[row["values"][name] for name in names] for row in rows], dtype=np.float64)
            if tuple(row["query"] for row in rows) != answers.queries:
                raise StorageError(f"{folder / 'metrics.jsonl'} does not fit the answers; run with --fresh")
            return Part(
                dataset=dataset,
                selector=selector,
                key=marker["key"],
                values_key=marker["values_key"],
                made_by=marker["made_by"],
                answers=answers,
                metrics=dict(zip(names, values.reshape(len(rows), len(names)).T.copy(), strict=True)),
                unavailable=marker["unavailable"],
                notes=marker["notes"],
                forbidden=marker["forbidden"],
            )
        except DAMAGE as error:
            raise StorageError(f"{folder} is damaged or of another version ({error}); run again") from error

    def slice_numbers(
        self, dataset: str, selector: str, key: str, *, queries: Sequence[Sequence[str]], fresh: bool = False
    ) -> set[int]:
        """The slices that an unfinished part has.

        Those that are damaged, or answer other queries, are dropped; all are, if they were made from something else
        than `key`, or if `fresh`.

        Args:
            dataset, selector: names.
            key: as `Part.key`.
            queries: the query ids of every slice.
            fresh: keep none.
        """
        folder = self._partial(dataset, selector)
        if fresh or not _has_text(folder / "key", key):
            shutil.rmtree(folder, ignore_errors=True)
        numbers = set()
        for path in folder.glob(f"*{SUFFIX}"):
            number = int(path.stem) if path.stem.isdecimal() else len(queries)
            with suppress(StorageError, IndexError):
                if read_slice(path, rows=False).queries == tuple(queries[number]):
                    numbers.add(number)
                    continue
            path.unlink(missing_ok=True)
        return numbers

    def slices(self, dataset: str, selector: str) -> StoredAnswers:
        """All slices of an unfinished part, concatenated.

        Raises:
            StorageError: one has been changed since `slice_numbers` looked.
        """
        return StoredAnswers.read(self._partial(dataset, selector))

    def notes(self, dataset: str, selector: str) -> dict[str, Any]:
        """The notes of a finished part."""
        return dict(_read_checked(self._recovered(dataset, selector) / "part.json")["notes"])

    def error_count(self, dataset: str, selector: str) -> int:
        """How many queries a finished part failed on."""
        return int(_read_checked(self._recovered(dataset, selector) / "part.json")["errors"])

    def add_slice(self, dataset: str, selector: str, key: str, *, number: int, answers: Slice | bytes) -> None:
        """Store a finished slice, or what `Slice.to_bytes` made of it, until the part is complete."""
        folder = self._partial(dataset, selector)
        if not (folder / "key").exists():
            write_atomic(folder / "key", key, durable=False)
        write_slice(folder / f"{number:06d}{SUFFIX}", answers)

    def _partial(self, dataset: str, selector: str) -> Path:
        part = self.part_path(dataset, selector)
        return part.with_name(f"{part.name}+partial")

    def discard(self, name: str) -> None:
        """Remove one JSON file of the run, if it is there.

        Raises:
            StorageError: it cannot be removed.
        """
        try:
            (self.path / name).unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(f"cannot remove {self.path / name}: {error.strerror or error}") from error

    def write(self, name: str, value: Mapping[str, Any]) -> None:
        """Write one JSON file of the run, for example `manifest.json`."""
        _write_checked(self.path / name, value)

    def experiment(self) -> str | None:
        """The name of the experiment that was run, also by another version; None where it is not certain."""
        with suppress(UserError, KeyError, TypeError):
            manifest = read_json(self.path / "manifest.json")
            if "checksum" in manifest:
                manifest = _read_checked(self.path / "manifest.json")
            return str(manifest["experiment"]["name"])
        return None

    def timings(self) -> dict[str, Any]:
        """The times, the machine and the day; empty where they are lost."""
        with suppress(UserError):
            return self.read("timings.json")
        return {}

    def date(self) -> str:
        """The day on which its last part was made, `2026-11-29`; empty where that is not known."""
        return str(self.timings().get("date", ""))

    def refuse_foreign(self, experiment: str) -> None:
        """Refuse to mix a run with another experiment's, or with anything else.

        Raises:
            ParameterError: the folder holds that.
            StorageError: it cannot be written.
        """
        refuse_unwritable(self.path, folder="a run")
        is_dataset, earlier = (self.path / "dataset.yaml").exists(), self.experiment()
        is_foreign = earlier is None and not self._has_parts() and next(files_in(self.path), None) is not None
        of_another = f"{self.path} holds a run of experiment {earlier!r}, not of {experiment!r}"
        raise_first(
            (is_dataset, f"{self.path} is the folder of a dataset; name another folder for the run"),
            (not is_dataset and is_foreign, f"{self.path} is there and is no run; name a new folder"),
            (earlier not in (None, experiment), f"{of_another}; name another folder, or delete it"),
        )

    def save_timings(self, times: Mapping[str, Mapping[str, Any]], *, made: bool, experiment_folder: Path) -> None:
        """Write the times of parts, with those of earlier calls, into a separate file, since they never repeat.

        Args:
            times: by dataset and selector, see `timing`.
            made: whether this call made any part; else the date of the run stays.
            experiment_folder: where the experiment's file is.
        """
        day = "" if made else self.date()
        try:
            earlier = self.read("timings.json")["parts"]
        except (UserError, KeyError) as error:
            earlier = {}
            if (self.path / "timings.json").exists():
                _log.warning(Message("evaluation.timings-lost", error=error))
        self.write(
            "timings.json",
            {
                "machine": machine(),
                "date": day or datetime.now(UTC).date().isoformat(),
                "experiment_folder": os.path.relpath(experiment_folder, self.path),
                "note": Message("evaluation.timings-note"),
                "parts": {name: {**earlier.get(name, {}), **times.get(name, {})} for name in {**earlier, **times}},
            },
        )

    def _has_parts(self) -> bool:
        return any(next(self.path.glob(part), None) for part in ("*/*/part.json", "*/*+partial/key"))

    def read(self, name: str) -> dict[str, Any]:
        """Read one JSON file of the run.

        Raises:
            StorageError: it is missing (this is no run folder, or the run was never finished), was changed, or is
                of another version.
            InputError: it is no JSON.
        """
        if not (self.path / name).exists():
            if name == "manifest.json" and self._has_parts():
                raise StorageError(Message("evaluation.run-unfinished", path=self.path))
            raise StorageError(f"{self.path} holds no {name}: expected the folder of a finished run (`ctxbench run`)")
        return _read_checked(self.path / name)


def timing(answers: StoredAnswers) -> dict[str, Any]:
    """The times of a part; empty where no query was timed."""
    seconds = answers.seconds[~np.isnan(answers.seconds)]
    if not len(seconds):
        return {}
    p50, p95 = np.percentile(seconds, [50, 95]).tolist()
    row = {"queries": len(seconds), "seconds": float(seconds.sum()), "p50_s": p50, "p95_s": p95}
    return {**row, "processor": machine()["processor"]}  # a row may be of an earlier call, on another machine


def _undamaged(folder: Path, marker: Mapping[str, Any]) -> StoredAnswers:
    """The answers of a finished part.

    Raises:
        StorageError: they were changed or are damaged.
    """
    if sha256_of(folder / ANSWERS, fix=_AGAIN) != marker["files"][ANSWERS]:
        raise _changed(folder / ANSWERS)
    return StoredAnswers.read(folder / ANSWERS)


def _changed(path: Path) -> StorageError:
    return StorageError(Message("evaluation.file-changed", path=path))


def _write_checked(path: Path, value: Mapping[str, Any]) -> None:
    plain = json.loads(dump_json(value))
    write_atomic(path, dump_json({**plain, "checksum": content_key(plain)}, indent=2))


def _read_checked(path: Path) -> dict[str, Any]:
    """Read what `_write_checked` wrote, and check it.

    Raises:
        StorageError: the file is missing, was changed, or is of another version.
        InputError: it is no JSON.
    """
    value = read_json(path)
    if not isinstance(value, dict):
        raise StorageError(f"{path} is damaged: expected a JSON object; run the experiment again")
    checksum = value.pop("checksum", None)
    if value.get("format", FORMAT) != FORMAT:
        raise StorageError(f"{path} has format {value['format']}, this version reads {FORMAT}; run again")
    if checksum != content_key(value):
        raise _changed(path)
    return value


def _has_text(path: Path, text: str) -> bool:
    with suppress(StorageError):
        return read_bytes(path) == text.encode()
    return False


_FILES: dict[str, Callable[[Part, Catalog, BinaryIO], None]] = {
    ANSWERS: lambda *arguments: write_blocks(*arguments),  # noqa: PLW0108 - looked up when it is called
    SELECTIONS: write_selections,
    "metrics.jsonl": write_metrics,
}


SCOPE_QUERIES = 10  # of many small scopes the worst is often only the unluckiest
HEADLINE = ("completeness", "tokens")  # the pair that is compared and corrected for; either alone can be gamed


@dataclass(frozen=True, eq=False, kw_only=True)
class SelectorSummary:
    """One selector on one dataset.

    Attributes:
        selector: its name.
        estimates: mean and interval by metric name, in the order asked.
        unavailable: why a metric has no estimate, by name.
        errors: queries that it failed on; they count as nothing offered.
        queries: how many were asked.
        against: comparison with the run's `compare_to` on each headline metric, Holm-corrected over the dataset's
            selectors and headline metrics; empty for `compare_to` itself.
        notes: what the selector reports about this run.
        worst_scope: the named scope of least completeness, of those with at least `SCOPE_QUERIES` queries that need
            something; None where there are fewer than two such scopes.
        forbidden: to how many queries an item was added that their labels call irrelevant, by its id, most often first.
    """

    selector: str
    estimates: Mapping[str, Estimate]
    unavailable: Mapping[str, str]
    errors: int
    queries: int
    against: Mapping[str, Comparison]
    notes: Mapping[str, Any]
    worst_scope: GroupMean | None = None
    forbidden: Mapping[str, int] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The summary as JSON; numbers that are not finite are null."""
        return {
            "queries": self.queries,
            "errors": self.errors,
            "metrics": {name: estimate_dict(estimate) for name, estimate in self.estimates.items()},
            "unavailable": dict(self.unavailable),
            "against": {name: comparison_dict(comparison) for name, comparison in self.against.items()},
            "notes": dict(self.notes),
            "worst_scope": None
            if self.worst_scope is None
            else {
                "scope": self.worst_scope.group,
                "completeness": self.worst_scope.mean.value,
                "n": self.worst_scope.mean.n,
            },
            "forbidden": dict(self.forbidden),
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class DatasetSummary:
    """All selectors of a run on one dataset, in the order of the experiment.

    Attributes:
        dataset: its name.
        queries: those asked, which are those that are labelled or need nothing, or have forbidden items.
        unlabelled: those left out because nobody has judged them.
        only_negatives: those asked of which not all required items are known; forbidden items alone are measured.
        items: in the catalog.
        of: how many could have been asked; more than `queries` where a sample was.
        drawn: how many of the queries a label queue drew; each represents a different number of queries. 0 if all
            queries of the dataset are labelled.
        selectors: one summary each.
    """

    dataset: str
    queries: int
    unlabelled: int
    items: int
    selectors: tuple[SelectorSummary, ...]
    of: int = 0
    drawn: int = 0
    only_negatives: int = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class RunSummary:
    """A finished run.

    Attributes:
        manifest: what was run.
        datasets: in the order of the experiment.
    """

    manifest: Mapping[str, Any]
    datasets: tuple[DatasetSummary, ...]

    @property
    def compare_to(self) -> str:
        """The selector that the others are compared with."""
        return str(self.manifest["experiment"]["compare_to"])

    @property
    def metrics_named(self) -> bool:
        """Whether the user named the metrics, so that every one of them is shown."""
        return bool(self.manifest["experiment"].get("metrics_named"))

    def metrics(self, dataset: DatasetSummary) -> tuple[Metric, ...]:
        """The metrics of the experiment, in order, then those measured without being named."""
        named = [parse_metric(name) for name in self.manifest["experiment"]["metrics"]]
        measured = any(str(FORBIDDEN_OFFERED) in selector.estimates for selector in dataset.selectors)
        return tuple(dict.fromkeys([*named, *[FORBIDDEN_OFFERED] * measured]))

    @property
    def metric_names(self) -> list[str]:
        """The names of all metrics that were measured on any dataset: those named first, in order."""
        return list(dict.fromkeys(str(metric) for dataset in self.datasets for metric in self.metrics(dataset)))

    def as_dict(self) -> dict[str, Any]:
        """The summary as JSON; numbers that are not finite are null."""
        return {
            "experiment": self.manifest["experiment"],
            "tokens": self.manifest["tokens"],
            "datasets": {
                dataset.dataset: {
                    "queries": dataset.queries,
                    "unlabelled": dataset.unlabelled,
                    "only_negatives": dataset.only_negatives,
                    "items": dataset.items,
                    "of": dataset.of,
                    "drawn": dataset.drawn,
                    "selectors": {summary.selector: summary.as_dict() for summary in dataset.selectors},
                }
                for dataset in self.datasets
            },
        }


def summarise_run(folder: RunFolder) -> RunSummary:
    """Summarise a run folder.

    Raises:
        StorageError: it holds no finished run, or is damaged.
    """
    manifest = folder.read("manifest.json")
    named = [parse_metric(name) for name in manifest["experiment"]["metrics"]]
    metrics = list(dict.fromkeys([*named, FORBIDDEN_OFFERED]))  # those without values are left out
    seed = int(manifest["experiment"]["seed"])
    datasets = []
    for dataset, about in manifest["datasets"].items():
        parts = {selector: folder.load(dataset, selector) for selector in manifest["selectors"]}
        values = {name: {parse_metric(m): v for m, v in part.metrics.items()} for name, part in parts.items()}
        against = _comparisons(values, str(manifest["experiment"]["compare_to"]), seed)
        datasets.append(
            DatasetSummary(
                dataset=dataset,
                queries=int(about["queries"]),
                unlabelled=int(about.get("unlabelled", 0)),
                items=int(about["items"]),
                of=int(about.get("of", about["queries"])),
                drawn=int(about.get("drawn", 0)),
                only_negatives=int(about.get("only_negatives", 0)),
                selectors=tuple(
                    SelectorSummary(
                        selector=name,
                        estimates={
                            str(metric): estimate
                            for metric, estimate in estimates(metrics, values[name], seed=seed).items()
                        },
                        unavailable=part.unavailable,
                        errors=len(part.answers.errors),
                        queries=len(part.answers.queries),
                        against={
                            metric: comparison for (selector, metric), comparison in against.items() if selector == name
                        },
                        notes=part.notes,
                        worst_scope=_worst_scope(values[name], about.get("scopes", {})),
                        forbidden=dict(sorted(part.forbidden.items(), key=lambda pair: (-pair[1], pair[0]))),
                    )
                    for name, part in parts.items()
                ),
            )
        )
    return RunSummary(manifest=manifest, datasets=tuple(datasets))


def _worst_scope(values: Mapping[Metric, FloatArray], scopes: Mapping[str, list[int]]) -> GroupMean | None:
    if (metric := parse_metric(HEADLINE[0])) not in values:
        return None
    groups = {scope: np.array(positions, dtype=np.int64) for scope, positions in scopes.items()}
    return worst_group(metric, values[metric], groups, min_n=SCOPE_QUERIES)


def _comparisons(
    values: Mapping[str, Mapping[Metric, FloatArray]], base: str, seed: int
) -> dict[tuple[str, str], Comparison]:
    """Every selector against `base` on the headline metrics, corrected together."""
    comparisons = {
        (selector, str(metric)): compare_metric(metric, values[base], by_metric, seed=seed)
        for metric in map(parse_metric, HEADLINE)
        for selector, by_metric in values.items()
        if selector != base and metric in by_metric and metric in values[base]
    }
    return correct({key: comparison for key, comparison in comparisons.items() if comparison.n > 0})


def estimate_dict(estimate: Estimate) -> dict[str, Any]:
    """A mean with its interval as JSON."""
    return {
        "value": finite(estimate.value),
        "low": finite(estimate.interval.low),
        "high": finite(estimate.interval.high),
        "level": estimate.interval.level,
        "method": estimate.interval.method,
        "holds": estimate.interval.holds,
        "n": estimate.n,
        "left_out": estimate.left_out,
    }


def comparison_dict(comparison: Comparison) -> dict[str, Any]:
    """A comparison as JSON."""
    return {
        "difference": finite(comparison.difference),
        "low": finite(comparison.interval.low),
        "high": finite(comparison.interval.high),
        "p": finite(comparison.p),
        "p_floor": comparison.p_floor or None,
        "p_holm": finite(comparison.p_holm),
        "p_holm_at_floor": comparison.p_holm_at_floor,
        "test": comparison.test,
        "significant": bool(comparison.significant),
        "better_on": comparison.higher,
        "worse_on": comparison.lower,
        "needed": comparison.needed,
        "n": comparison.n,
    }


def finite(value: float) -> float | None:
    """The number, or None where JSON has none for it."""
    number = float(np.asarray(value))
    return number if math.isfinite(number) else None
