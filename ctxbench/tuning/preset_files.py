"""Writes recommended settings as presets files, and next to them the fits that a policy file asks for (`fit: own`)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ctxbench.bench.progress_listener import nothing_said
from ctxbench.bench.stats import Estimate
from ctxbench.bench.summary import finite
from ctxbench.core.errors import InputError, ParameterError, StorageError, UserError
from ctxbench.core.pipeline import Pipeline
from ctxbench.features.stored_fits import PROBABILITY, Fit, in_front, write_calibrations
from ctxbench.selectors.definitions import find_definition, is_file
from ctxbench.selectors.fitted import fitted_file, write_fitted
from ctxbench.selectors.presets import write_presets
from ctxbench.selectors.tuned_presets import TunedPreset, definition_hash, parameter_texts
from ctxbench.tuning.fits.examples import folds_of, groups_of, make_examples
from ctxbench.tuning.fits.query_fits import columns_of, fit, out_of_fold, shipped_fit
from ctxbench.tuning.limits import Policy
from ctxbench.tuning.opened_inputs import TuningInputs, open_tuning
from ctxbench.tuning.policy_file import PolicyFile
from ctxbench.tuning.query_sets import OUT_OF_FOLD, Progress, QuerySet
from ctxbench.tuning.selector_entry import SelectorEntry
from ctxbench.tuning.tuner import no_progress
from ctxbench.tuning.tuning_results import ConstraintVerdict, DatasetTuning, PolicyOutcome, SettingResult

_LONGEST = 60  # letters of the names of several datasets in the name of a file


def asks_for_fits(file: PolicyFile) -> bool:
    """Whether any selector of the file is to be fitted to the labels."""
    return any(entry.fit for entry in file.selectors)


def fit_files(file: PolicyFile, folder: Path, datasets: Sequence[str]) -> list[Path]:
    """The files of the fits that a policy file asks for: of each the fits, and the selector that reads them.

    They are called after the datasets, so that tuning on others leaves them as they are.
    """
    names = [f"{entry.name}-{together(datasets)}" for entry in file.selectors if entry.fit]
    return [folder / "fits" / f"{name}{ending}" for name in names for ending in (".json", ".yaml")]


def together(datasets: Sequence[str]) -> str:
    """The name of a file for several datasets: all their names, or where that is long the first and a digest."""
    joined = "-".join(datasets)
    if len(datasets) == 1 or len(joined) <= _LONGEST:
        return joined
    digest = hashlib.sha256("\n".join(datasets).encode()).hexdigest()[:8]
    return f"{datasets[0]}-and-{len(datasets) - 1}-more-{digest}"


def open_fitted(
    file: PolicyFile,
    datasets: Sequence[str],
    folder: Path,
    *,
    notify: Callable[[str], None] = nothing_said,
    progress: Progress = no_progress,
) -> TuningInputs:
    """Open everything that tuning needs, with the fits that the policy file asks for.

    Args:
        file, datasets: as of `open_tuning`.
        folder: see `fit_selectors`; nothing is written where the file asks for no fit.
        notify: called with a message about what takes a moment, and what could not be fitted.
        progress: called with how far it is.

    Raises:
        InputError, StorageError: as of the two.
    """
    embedding = partial(progress, "embedding texts")
    ready = open_tuning(file, datasets, notify=notify, progress=embedding)
    if not asks_for_fits(file):
        return ready
    fitted, notices = fit_selectors(ready, folder, progress=progress)
    for notice in notices:
        notify(f"notice: {notice}")
    rankings = {tunable.name: tunable.answers for tunable in ready.tunables if tunable.answers is not None}
    return open_tuning(fitted, datasets, notify=notify, progress=embedding, rankings=rankings)


def fit_selectors(ready: TuningInputs, folder: Path, *, progress: Progress) -> tuple[PolicyFile, list[str]]:
    """Fit what the policy file asks for, and name the fitted selectors in the place of the shipped ones.

    Every fit starts from the shipped weights. A dataset whose labels cannot be fitted keeps the shipped fit.

    Args:
        ready: opened with the selectors as the file names them.
        folder: in its folder `fits`, `NAME-DATASET.json` with the fits and `NAME-DATASET.yaml` with the selector are
            written.
        progress: told how far it is.

    Returns:
        The file with other selectors, and what a user should know: what could not be fitted, and which file holds
        texts of requests.

    Raises:
        InputError: a selector has no step `probability` that could be fitted.
        StorageError: a file cannot be written.
    """
    notices: list[str] = []
    entries: list[SelectorEntry] = []
    names = [opened.dataset.name for opened in ready.datasets]
    for entry in ready.file.selectors:
        if not entry.fit:
            entries.append(entry)
            continue
        definition, preset = find_definition(entry.selector, base=ready.file.base)
        out = fit_files(replace(ready.file, selectors=(entry,)), folder, names)[0]
        try:
            fitted_file(definition, out)
        except UserError as error:
            raise InputError([ready.file.fault(f"fit: own: {error}", *entry.where, "fit")]) from error
        _refuse_one_catalog(ready, entry)
        pipeline, fits = definition.pipeline(definition.values(preset)), [shipped_fit()]
        for index, opened in enumerate(ready.datasets):
            progress(f"{entry.name}, fitting", index, len(ready.datasets))
            try:
                fits.append(_fit(opened.tuning_set, pipeline))
            except ParameterError as error:
                notices.append(f"{entry.name} keeps the shipped fit on {opened.dataset.name}: {error}")
        out.unlink(missing_ok=True)
        write_calibrations(out, fits)
        if n_texts := sum(len(fit.values.get("requests", ())) for fit in fits):
            without = "`ctxbench calibrate --no-text` fits without them"
            notices.append(f"{out} holds the texts of {n_texts:,} labelled requests; {without}")
        path = write_fitted(definition, out, preset)
        entries.append(replace(entry, selector=str(path.resolve()), fit=""))
    return replace(ready.file, selectors=tuple(entries)), notices


def _fit(query_set: QuerySet, pipeline: Pipeline) -> Fit:
    """A fit on the queries of a tuning set.

    Raises:
        ParameterError: these cannot be fitted, or cannot be scored out of fold.
    """
    dataset = query_set.dataset.judged()
    fitted = fit(PROBABILITY, dataset, pipeline, query_set.resources, split="all")
    names = groups_of(dataset.queries)
    groups = len(set(names))
    if groups < 2:
        raise ParameterError("all labels are of one group, so that none can be judged by a fit on the others")
    columns, front = columns_of(requests=True), in_front(pipeline, PROBABILITY)
    rows = make_examples(PROBABILITY, dataset, front, query_set.resources, columns=columns)
    out_of_fold(rows, folds_of(names, min(OUT_OF_FOLD, groups)))
    return replace(fitted, split=query_set.split)


def _refuse_one_catalog(ready: TuningInputs, entry: SelectorEntry) -> None:
    """Refuse two datasets of one catalog, since a fit belongs to a catalog.

    Raises:
        InputError: two datasets have the same catalog.
    """
    by_catalog: dict[str, str] = {}
    for opened in ready.datasets:
        owner = by_catalog.setdefault(opened.dataset.catalog.hash, opened.dataset.name)
        if owner != opened.dataset.name:
            message = (
                f"fit: own: {owner} and {opened.dataset.name} have the same catalog, and a fit belongs to one of them; "
                "tune them apart"
            )
            raise InputError([ready.file.fault(message, *entry.where, "fit")])


_READ = "read once, for the figures below, when all values were fixed"


def write_presets_of(result: DatasetTuning, ready: TuningInputs, path: Path) -> bool:
    """Write what is recommended on a dataset; whether there is anything.

    Args:
        result: of the dataset.
        ready: what was tuned.
        path: of the file; where nothing is recommended an earlier one is removed, since it would be of another policy.

    Raises:
        StorageError: the file cannot be written, or an earlier one cannot be removed.
    """
    presets = {
        outcome.policy.name: _preset(outcome, outcome.recommended, ready)
        for outcome in result.outcomes
        if outcome.recommended is not None
    }
    if not presets:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(
                f"cannot remove {path}, which is of another policy: {error.strerror or error}"
            ) from error
        return False
    write_presets(
        path,
        tuned={
            "dataset": result.dataset,
            "version": result.version,
            "hash": result.hash,
            "queries": dict(result.queries),
            "of": dict(result.of),
            "embedder": ready.embedder.identity.as_dict(),
            "tokens": result.tokens,
            "seed": ready.file.seed,
            "confidence": ready.file.confidence,
            "policies": ready.file.hash,
        },
        presets=presets,
        test_split="" if result.all_decide else _READ,
    )
    return True


def _preset(outcome: PolicyOutcome, chosen: SettingResult, ready: TuningInputs) -> TunedPreset:
    policy = outcome.policy
    tunable = ready.tunable(chosen.selector)
    is_pipeline = tunable.answers is None
    source = str(ready.file.base / tunable.source) if is_file(tunable.source) else tunable.source
    return TunedPreset(
        set=dict(chosen.values),
        about=policy.about,
        selector=source if is_pipeline else "",
        definition=definition_hash(tunable.definition) if is_pipeline else "",
        parameters=parameter_texts(tunable.definition) if is_pipeline else {},
        answers="" if is_pipeline else tunable.source,
        policy={**policy_block(policy), "verdicts": [verdict_block(verdict) for verdict in outcome.verdicts]},
        tuning=_figures(chosen.tuning),
        test=_figures(chosen.test),
    )


def policy_block(policy: Policy) -> dict[str, Any]:
    """A policy as in its file."""
    rows = [
        {
            "metric": str(constraint.metric),
            "at_least": constraint.at_least,
            "at_most": constraint.at_most,
            "of": constraint.of,
        }
        for constraint in policy.constraints
    ]
    return {
        "minimise" if policy.minimise else "maximise": str(policy.objective),
        "constraints": [{key: value for key, value in row.items() if value not in (None, "")} for row in rows],
    }


def verdict_block(verdict: ConstraintVerdict) -> dict[str, Any]:
    """A verdict as the presets file holds it."""
    block = {
        "constraint": verdict.text,
        "met": verdict.met,
        "verdict": verdict.status,
        "value": _rounded(verdict.value),
    }
    return {
        **block,
        "low": _rounded(verdict.low),
        "high": _rounded(verdict.high),
        "n": verdict.n,
        "needed": verdict.needed,
    }


def _figures(estimates: Mapping[str, Estimate]) -> dict[str, dict[str, float | int | None]]:
    return {
        metric: {
            "value": _rounded(estimate.value),
            "low": _rounded(estimate.interval.low),
            "high": _rounded(estimate.interval.high),
            "n": estimate.n,
        }
        for metric, estimate in estimates.items()
    }


def _rounded(value: float) -> float | None:
    """To six significant digits: the last ones of a mean depend on the machine."""
    number = finite(value)
    return None if number is None else float(f"{number:.6g}")
