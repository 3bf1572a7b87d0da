"""Fits that a policy file asks for (`fit: own`): made on the tuning sets, and kept beside the presets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ctxbench.bench.progress_listener import nothing_said
from ctxbench.core.errors import InputError, ParameterError, UserError
from ctxbench.core.pipeline import Pipeline
from ctxbench.features.stored_fits import PROBABILITY, Fit, in_front, write_calibrations
from ctxbench.selectors.definitions import find_definition
from ctxbench.selectors.fitted import fitted_file, write_fitted
from ctxbench.tuning.fits.examples import folds_of, make_examples
from ctxbench.tuning.fits.query_fits import columns_of, fit, out_of_fold, shipped_fit
from ctxbench.tuning.opened_inputs import TuningInputs, open_tuning
from ctxbench.tuning.policy_file import PolicyFile, SelectorEntry
from ctxbench.tuning.query_sets import OUT_OF_FOLD, Progress, QuerySet
from ctxbench.tuning.tuner import no_progress


def asks_for_fits(file: PolicyFile) -> bool:
    """Whether any selector of the file is to be fitted to the labels."""
    return any(entry.fit for entry in file.selectors)


def fit_files(file: PolicyFile, folder: Path) -> list[Path]:
    """The files of the fits that a policy file asks for: of each the fits, and the selector that reads them."""
    names = [folder / "fits" / entry.name for entry in file.selectors if entry.fit]
    return [path.parent / f"{path.name}{ending}" for path in names for ending in (".json", ".yaml")]


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
        notify: told what takes a moment, and what could not be fitted.
        progress: told how far it is.

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
    return open_tuning(fitted, datasets, notify=notify, progress=embedding)


def fit_selectors(ready: TuningInputs, folder: Path, *, progress: Progress) -> tuple[PolicyFile, list[str]]:
    """Fit what the policy file asks for, and name the fitted selectors in the place of the shipped ones.

    Every fit starts from the shipped weights. A dataset whose labels cannot be fitted keeps the shipped fit.

    Args:
        ready: opened with the selectors as the file names them.
        folder: in its folder `fits`, `NAME.json` with the fits and `NAME.yaml` with the selector are written.
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
    for entry in ready.file.selectors:
        if not entry.fit:
            entries.append(entry)
            continue
        definition, preset = find_definition(entry.selector, base=ready.file.base)
        out = fit_files(replace(ready.file, selectors=(entry,)), folder)[0]
        try:
            fitted_file(definition, out)
        except UserError as error:
            raise InputError([ready.file.fault(f"fit: own: {error}", *entry.where, "fit")]) from error
        _refuse_one_catalog(ready, entry)
        pipeline, fits = definition.pipeline(definition.values(preset)), [shipped_fit()]
        for place, opened in enumerate(ready.datasets):
            progress(f"{entry.name}, fitting", place, len(ready.datasets))
            try:
                fits.append(_fit(opened.tuning_set, pipeline))
            except ParameterError as error:
                notices.append(f"{entry.name} keeps the shipped fit on {opened.dataset.name}: {error}")
        out.unlink(missing_ok=True)
        write_calibrations(out, fits)
        if kept := sum(len(fit.values.get("requests", ())) for fit in fits):
            without = "`ctxbench calibrate --no-text` fits without them"
            notices.append(f"{out} holds the texts of {kept:,} labelled requests; {without}")
        path = write_fitted(definition, out, preset)
        entries.append(replace(entry, selector=str(path.resolve()), fit=""))
    return replace(ready.file, selectors=tuple(entries)), notices


def _fit(query_set: QuerySet, pipeline: Pipeline) -> Fit:
    """A fit on the queries of a tuning set.

    Raises:
        ParameterError: these cannot be fitted, or cannot be scored out of fold.
    """
    fitted = fit(PROBABILITY, query_set.dataset, pipeline, query_set.resources, split="all")
    groups = len(set(query_set.groups))
    if groups < 2:
        raise ParameterError("all labels are of one group, so that none can be judged by a fit on the others")
    columns, front = columns_of(requests=True), in_front(pipeline, PROBABILITY)
    rows = make_examples(PROBABILITY, query_set.dataset, front, query_set.resources, columns=columns)
    out_of_fold(rows, folds_of(query_set.groups, min(OUT_OF_FOLD, groups)))
    return replace(fitted, split=query_set.split)


def _refuse_one_catalog(ready: TuningInputs, entry: SelectorEntry) -> None:
    """Refuse two datasets of one catalog, since a fit belongs to a catalog.

    Raises:
        InputError: two datasets have the same catalog.
    """
    seen: dict[str, str] = {}
    for opened in ready.datasets:
        other = seen.setdefault(opened.dataset.catalog.hash, opened.dataset.name)
        if other != opened.dataset.name:
            what = (
                f"fit: own: {other} and {opened.dataset.name} have the same catalog, and a fit belongs to one of them; "
                "tune them apart"
            )
            raise InputError([ready.file.fault(what, *entry.where, "fit")])
