"""Fits in JSON files: probabilities and weights by dataset, and how a pipeline finds them.

A fit of abstention or of weights belongs to a catalog, an embedder and the retrieval before it; each mismatch is an
error that names both sides. A fit of a probability reads features that carry over: it may be of several datasets, and
is used on other catalogs with a notice.
"""

from __future__ import annotations

import copy
import hashlib
import json
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from ctxbench.io.documents import dump_json, parse_json
from ctxbench.io.errors import Fault, InputError, Message, ParameterError, StorageError
from ctxbench.io.files import exclusive, read_bytes, write_atomic
from ctxbench.model.items import Catalog
from ctxbench.model.registry import StoredPipeline
from ctxbench.model.resources import Resources
from ctxbench.model.strategies import PerType, Step, Strategy
from ctxbench.pipelines.pipeline import Pipeline

T = TypeVar("T")

FORMAT = 2
PROBABILITY, ABSTENTION, WEIGHTS, LINEAR = "probability", "abstention", "weights", "linear"
KINDS = (PROBABILITY, ABSTENTION, WEIGHTS, LINEAR)
SHIPPED = "shipped"
"""What the file of the fit that comes with ctxbench is called."""

_SHIPPED_FILE = Path(__file__).parents[1] / "selectors" / "shipped" / "learned.json"


@dataclass(frozen=True, kw_only=True)
class Fit:
    """One fit.

    Attributes:
        kind: `probability`, `abstention`, `weights` (of sources) or `linear` (weights of columns).
        dataset: the name of the dataset whose labels it was made from.
        dataset_hash, catalog: content hashes of the dataset (the split that was used) and of its catalog; empty where
            the fit is of several.
        embedder: identity of the embedder.
        behind: what the fitted step is behind, as `describe_context` gives it.
        split: whose queries were used; `all` = those of every split.
        queries: how many.
        values: what was fitted; each kind of step reads its own.
    """

    kind: str
    dataset: str
    dataset_hash: str
    catalog: str
    embedder: str
    behind: Mapping[str, Any]
    split: str
    queries: int
    values: Mapping[str, Any]

    def __str__(self) -> str:
        catalog = f"catalog {self.catalog[:12]}" if self.catalog else "several catalogs"
        return f"{self.kind} of {self.dataset} ({catalog}, {self.queries} queries)"


_TYPES: dict[str, type] = {
    **dict.fromkeys(("kind", "dataset", "dataset_hash", "catalog", "embedder", "split"), str),
    **dict.fromkeys(("behind", "values"), dict),
    "queries": int,
}


@dataclass(frozen=True)
class Calibrations:
    """The fits of one file.

    Attributes:
        path: the file.
        content: SHA-256 of its bytes; part of keys and manifests, where the path alone would hide an edit.
        fits: at most one for each kind and catalog.
    """

    path: Path
    content: str
    fits: tuple[Fit, ...]

    def kinds(self) -> tuple[str, ...]:
        """The kinds of fits that exist, in the order of `KINDS`."""
        return tuple(kind for kind in KINDS if any(fit.kind == kind for fit in self.fits))

    def fit(self, kind: str, catalog: Catalog) -> Fit:
        """The fit for a catalog; else the only fit for another; else the one for several catalogs.

        Raises:
            ParameterError: there are several, and which one is meant is unclear (names them), or none.
        """
        of_kind = [fit for fit in self.fits if fit.kind == kind]
        exact, pooled = (
            [fit for fit in of_kind if fit.catalog == catalog.hash],
            [fit for fit in of_kind if not fit.catalog],
        )
        for candidates in (exact, [fit for fit in of_kind if fit.catalog], pooled):
            if len(candidates) == 1:
                return candidates[0]
        raise self._none(kind, catalog)

    def exact_fit(self, kind: str, catalog: Catalog, resources: Resources) -> Fit:
        """The fit for a catalog and the embedder of these resources.

        Raises:
            ParameterError: there is none for the catalog (names those that exist), or it was made with another
                embedder (names both).
        """
        fit = next((fit for fit in self.fits if fit.kind == kind and fit.catalog == catalog.hash), None)
        if fit is None:
            raise self._none(kind, catalog)
        embedder = resources.identity("embedder")
        if fit.embedder != embedder:
            raise ParameterError(
                f"{self.path}: the {kind} fit of {fit.dataset} was made with the embedder {fit.embedder}, "
                f"and this is {embedder}; scores of two models are not comparable: fit it again with this one"
            )
        return fit

    def _none(self, kind: str, catalog: Catalog) -> ParameterError:
        """The message that no fit is for a catalog."""
        catalogs = ", ".join(f"{fit.dataset} ({fit.catalog[:12]})" for fit in self.fits if fit.kind == kind) or "none"
        message = Message(
            "pipelines.no-fit",
            path=self.path,
            kind=kind,
            n=len(catalog),
            catalog=catalog.hash[:12],
            catalogs=catalogs,
            command=self.command(kind),
        )
        return ParameterError(message)

    def command(self, kind: str) -> str:
        """What writes a fit into the file, of a dataset that the user names; in backticks."""
        out = "FILE" if self.path == Path(SHIPPED) else shlex.quote(str(self.path))
        arguments = f"{WEIGHTS} DATASET --selector NAME" if kind == LINEAR else f"{kind} DATASET"
        return f"`ctxbench calibrate {arguments} --out {out}`"


def open_calibrations(name: str) -> Calibrations:
    """The fits of a file, or those of ctxbench, named `shipped`.

    Raises:
        StorageError, InputError: as of `read_calibrations`.
    """
    return _shipped() if name == SHIPPED else read_calibrations(Path(name))


def may_have_seen(description: Mapping[str, Any], datasets: Collection[str]) -> bool:
    """Whether a step of a described pipeline uses a fit that may have been made from labels of these datasets.

    What comes with ctxbench was fitted on datasets that it names, and on none of the user's; of another file of fits
    nothing is known.
    """
    files = files_of_fits(description)
    if files != {SHIPPED}:
        return bool(files)
    fitted = {name for fit in open_calibrations(SHIPPED).fits for name in fit.dataset.split(" + ")}
    return any(name == source or name.startswith(f"{source}-") for name in datasets for source in fitted)


def files_of_fits(description: Mapping[str, Any]) -> set[Any]:
    """The files of fits that the steps of a described pipeline use."""
    pipeline = StoredPipeline.of(description)
    return {step.values.get("calibration") for step in (pipeline.steps() if pipeline else ())} - {None, ""}


class FittedStep(Strategy):
    """A step that reads fits from the file `calibration`, if one is named."""

    calibration: str | None

    @cached_property
    def calibrations(self) -> Calibrations:
        """The fits of the file, read once; without a file none."""
        return Calibrations(Path(), "", ()) if self.calibration is None else open_calibrations(self.calibration)

    @property
    def content(self) -> str:
        """SHA-256 of the file; empty without one."""
        return self.calibrations.content

    def check_holds(self, kind: str) -> None:
        """Raise `ParameterError` if the file has no fit of a kind."""
        if kind not in self.calibrations.kinds():
            path, kinds = self.calibrations.path, " and ".join(self.calibrations.kinds()) or "nothing"
            command = self.calibrations.command(kind)
            raise ParameterError(f"{path} holds fits of {kinds}, none of {kind}; make one with {command}")

    def read_fit(self, fit: Fit, read: Callable[[Mapping[str, Any]], T]) -> T:
        """What the values of a fit mean.

        Raises:
            ParameterError: the values are invalid, or of features that are defined otherwise here.
        """
        try:
            return read(fit.values)
        except ParameterError as error:
            path, command = self.calibrations.path, self.calibrations.command(fit.kind)
            raise ParameterError(f"{path}: fit of {fit}: {error}; fit again with {command}") from error

    def with_model(self, model: Any) -> Any:
        """The step with another regression in the place of its fit."""
        step = copy.copy(self)
        object.__setattr__(step, "model", lambda *_: model)
        return step


class FittedWeights(FittedStep):
    """A step whose weights are given, or those of the file `calibration`, of fits of the kind `fitted`."""

    fitted: ClassVar[str]
    weights: Mapping[str, float]

    @property
    def calibrated(self) -> str | None:
        """The kind of fit that is read; None where weights are given."""
        return None if self.calibration is None else self.fitted

    def check_source(self) -> None:
        """Raise `ParameterError` if both weights and a file are given, or if the file has no such fits."""
        if self.calibration is not None and self.weights:
            raise ParameterError("weights come from the calibration; leave one of the two out")
        if self.calibration is not None and self.fitted not in self.calibrations.kinds():
            command = self.calibrations.command(self.fitted)
            raise ParameterError(f"{self.calibration} holds no fit of {self.fitted}; make one with {command}")


@cache
def _shipped() -> Calibrations:
    return replace(read_calibrations(_SHIPPED_FILE), path=Path(SHIPPED))


def read_calibrations(path: Path | str) -> Calibrations:
    """Read a file of fits.

    Raises:
        StorageError: it is missing or cannot be read.
        InputError: it is no file of fits, or of another version; all faults.
    """
    try:
        data = read_bytes(path)
    except StorageError as error:
        raise StorageError(f"{error}; `ctxbench calibrate` makes a file of fits") from error
    content = parse_json(data.decode("utf-8", "replace"), path=path)
    if not isinstance(content, dict) or not isinstance(content.get("fits"), list):
        raise InputError([Fault('no file of fits: expected {"format": 2, "fits": [...]}', path, 1)])
    if content.get("format") != FORMAT:
        message = Message("pipelines.fits-format", found=content.get("format"), expected=FORMAT)
        raise InputError([Fault(message, path, 1)])
    if faults := [Fault(message, path) for n, row in enumerate(content["fits"]) for message in _wrong(n, row)]:
        raise InputError(faults)
    fits = tuple(Fit(**row) for row in content["fits"])
    if twice := _twice(fits):
        raise InputError([Fault(f"two fits of one kind for one catalog: {fit}", path) for fit in twice])
    return Calibrations(Path(path), hashlib.sha256(data).hexdigest(), fits)


def _wrong(number: int, row: Any) -> Iterator[str]:
    """The faults of one fit in a file."""
    row = row if isinstance(row, dict) else {}
    if set(row) != set(_TYPES):
        yield Message("pipelines.fit-fields", number=number, expected=_TYPES, actual=row or ["none"])
    for name, kind in _TYPES.items():
        if name in row and (not isinstance(row[name], kind) or isinstance(row[name], bool)):
            yield Message("pipelines.fit-type", number=number, name=name, expected=kind.__name__, value=row[name])
    if isinstance(row.get("kind"), str) and row["kind"] not in KINDS:
        yield Message("pipelines.fit-kind", number=number, kinds=KINDS, value=row["kind"])


def _twice(fits: Sequence[Fit]) -> list[Fit]:
    """Fits with the kind and catalog of an earlier fit."""
    keys = [(fit.kind, fit.catalog) for fit in fits]
    return [fit for n, fit in enumerate(fits) if keys[n] in keys[:n]]


def write_calibrations(path: Path, fits: Iterable[Fit]) -> None:
    """Add fits to a file, replacing those of the same kind and catalog; a missing file is created.

    A probability also takes the place of one of the same dataset, whose catalog has changed since. Who writes to the
    same file at the same time takes turns, so that no fit is lost.

    Raises:
        ParameterError: two of them are of one kind and catalog.
        StorageError: the file cannot be written.
        InputError: there is a file, and it is none of fits.
    """
    new = tuple(fits)
    if twice := _twice(new):
        fit = twice[0]
        first = next(new_fit for new_fit in new if (new_fit.kind, new_fit.catalog) == (fit.kind, fit.catalog))
        raise ParameterError(
            f"{first.dataset} and {fit.dataset} have the same catalog, and a file holds one {fit.kind} fit a "
            f"catalog; write them to two files"
        )
    replaced = {(fit.kind, fit.catalog) for fit in new}
    renewed = {(fit.kind, fit.dataset) for fit in new if fit.kind == PROBABILITY}
    with exclusive(path.with_name(f".{path.name}.lock"), waiting=lambda: None):
        old = read_calibrations(path).fits if path.exists() else ()
        remaining = [
            fit for fit in old if (fit.kind, fit.catalog) not in replaced and (fit.kind, fit.dataset) not in renewed
        ]
        ordered = sorted([*remaining, *new], key=lambda fit: (KINDS.index(fit.kind), fit.dataset, fit.catalog))
        write_atomic(path, dump_json({"format": FORMAT, "fits": [asdict(fit) for fit in ordered]}, indent=1))


def describe_context(pipeline: Pipeline, position: int | None = None) -> dict[str, Any]:
    """Describe what decides the scores that a step of `refine` reads: analyses, retrieval and rank steps.

    Cuts and expansions are no part of it: they change no score of what the search found.

    Args:
        pipeline: the pipeline of the step.
        position: of the step in `refine`; None = after all of them.
    """
    ranks = [
        {name: value for name, value in step.describe().items() if name != "calibration"}  # its content is named
        for step in pipeline.refine[:position]
        if isinstance(step, PerType) or (step.kind == "rank" and not step.declared("keeps_score"))
    ]
    described = {"analyse": pipeline.analyse.describe(), "retrieve": pipeline.retrieve.describe(), "rank": ranks}
    return dict(json.loads(json.dumps(described)))  # tuples as they come back from a file


def in_front(pipeline: Pipeline, kind: str) -> Pipeline:
    """A pipeline up to its first step that reads a fit of a kind; the whole pipeline if there is none."""
    kinds = [step.declared("calibrated") if isinstance(step, Step) else None for step in pipeline.refine]
    return replace(pipeline, refine=pipeline.refine[: kinds.index(kind)]) if kind in kinds else pipeline


def fit_notices(pipeline: Pipeline, catalog: Catalog, resources: Resources) -> list[str]:
    """Notices about the fits that a pipeline reads, on a catalog with an embedder."""
    return [
        f"{step.name}: {notice}"
        for step in all_steps(pipeline.refine)
        for notice in step.declared("notices")(catalog, resources)
    ]


def calibration_faults(pipeline: Pipeline, catalog: Catalog) -> list[str]:
    """Faults in the positions of a pipeline's fitted steps, for one catalog.

    A fitted step is one with the attribute `calibrated` (the kind of its fit; None = it reads none) and a property
    `calibrations`. That a fit for the catalog exists at all, the step's own `check` says.
    """
    faults: list[str] = []
    for position, step in enumerate(pipeline.refine):
        if isinstance(step, PerType):
            faults += [
                Message("pipelines.fit-in-domain", step=inner.name)
                for inner in all_steps([step])
                if inner.declared("calibrated") is not None
            ]
        elif step.declared("calibrated") is not None:
            faults += _elsewhere(step, describe_context(pipeline, position), catalog)
    return faults


def require_matching_fits(pipeline: Pipeline, catalog: Catalog) -> None:
    """Check that fitted steps run only where they were fitted.

    Raises:
        ParameterError: `calibration_faults` finds any.
    """
    if faults := calibration_faults(pipeline, catalog):
        raise ParameterError("; ".join(faults))


def _elsewhere(step: Step, context: Mapping[str, Any], catalog: Catalog) -> Iterator[str]:
    """The message that a fit was made after other steps than those in front of it here."""
    calibrations: Calibrations = step.call.calibrations  # type: ignore[attr-defined]
    fits = [fit for fit in calibrations.fits if fit.kind == step.declared("calibrated") and fit.catalog == catalog.hash]
    for fit in fits:
        for stage in ("analyse", "retrieve", "rank"):
            if fit.behind.get(stage) != context[stage]:
                yield Message(
                    "pipelines.fit-behind-other-steps",
                    step=step.name,
                    kind=fit.kind,
                    dataset=fit.dataset,
                    path=calibrations.path,
                    stage=stage,
                    fitted=dump_json(fit.behind.get(stage)),
                    actual=dump_json(context[stage]),
                )


def fit_differences(fit: Fit, command: str, catalog: Catalog, embedder: str) -> Iterator[Message]:
    """Notices that a fit was made with another embedder or for another catalog than the ones in use."""
    dataset = fit.dataset if fit.catalog else "several datasets"
    if fit.embedder != embedder:
        yield Message(
            "pipelines.fit-other-embedder", dataset=dataset, fitted=fit.embedder, embedder=embedder, command=command
        )
    if fit.catalog and fit.catalog != catalog.hash:
        yield Message(
            "pipelines.fit-other-catalog",
            dataset=dataset,
            fitted=fit.catalog[:12],
            catalog=catalog.hash[:12],
            command=command,
        )


def all_steps(refine: Iterable[Step | PerType]) -> Iterator[Step]:
    """The refining steps, those inside of domains as well."""
    return (inner for step in refine for inner in step.steps())
