"""Fits that a policy asks for (`fit: own`): made on the labels that decide, and kept beside the presets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ctxbench.calibrations import PROBABILITY, Fit, write_calibrations
from ctxbench.errors import Fault, InputError, ParameterError, UserError
from ctxbench.evaluation.calibrating.fitting import fit, shipped_fit
from ctxbench.evaluation.tuning.opening import Ready
from ctxbench.evaluation.tuning.policy_file import PolicyFile, SelectorEntry
from ctxbench.evaluation.tuning.sides import Told
from ctxbench.selectors.definitions import find_definition
from ctxbench.selectors.fitted import write_fitted
from ctxbench.yamlio import line_of


def asks_for_fits(file: PolicyFile) -> bool:
    """Whether any selector of the file is to be fitted to the labels."""
    return any(entry.fit for entry in file.selectors)


def with_own_fits(ready: Ready, folder: Path, *, progress: Told) -> tuple[PolicyFile, list[str]]:
    """Fit what the policy file asks for, and name the fitted selectors in the place of the shipped ones.

    Every fit is made around the shipped weights. A dataset whose labels cannot be fitted keeps the shipped fit.

    Args:
        ready: opened with the selectors as the file names them.
        folder: where `NAME.json` with the fits and `NAME.yaml` with the selector are written.
        progress: told how far it is.

    Returns:
        The file with other selectors, and what could not be fitted, a sentence each.

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
        pipeline = definition.pipeline(definition.values(preset))
        fits: list[Fit] = [shipped_fit()]
        catalogs: dict[str, str] = {}
        for place, opened in enumerate(ready.datasets):
            progress(f"{entry.name}, fitting", place, len(ready.datasets))
            side = opened.deciding
            try:
                made = fit(PROBABILITY, side.dataset, pipeline, side.resources, split="all")
                fits.append(replace(made, split=side.split))
                if catalogs.setdefault(made.catalog, made.dataset) != made.dataset:
                    raise _same(ready.file, entry, made.dataset, catalogs[made.catalog])
            except ParameterError as error:
                notices.append(f"{entry.name} keeps the shipped fit on {side.dataset.name}: {error}")
        out = folder / f"{entry.name}.json"
        out.unlink(missing_ok=True)
        try:
            write_calibrations(out, fits)
            path = write_fitted(definition, out, preset)
        except UserError as error:
            what = Fault(f"fit: own: {error}", ready.file.path, line_of(ready.file.lines, (*entry.where, "fit")))
            raise InputError([what]) from error
        entries.append(replace(entry, selector=str(path.resolve()), fit=""))
    return replace(ready.file, selectors=tuple(entries)), notices


def _same(file: PolicyFile, entry: SelectorEntry, dataset: str, other: str) -> InputError:
    """Says that a fit could not be told from another."""
    what = f"fit: own: {other} and {dataset} have the same catalog, and a fit belongs to one of them; tune them apart"
    return InputError([Fault(what, file.path, line_of(file.lines, (*entry.where, "fit")))])
