"""`ctxbench calibrate probability | abstention | weights`: fit on labelled queries, and write what was fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxbench.cli.output import print_json
from ctxbench.cli.progress import progress
from ctxbench.cli.read_files import dataset_inputs, selector_inputs
from ctxbench.core.errors import InputError, ParameterError
from ctxbench.io.console import say
from ctxbench.io.output_paths import refuse_outputs

if TYPE_CHECKING:
    from ctxbench.bench.stats import Estimate
    from ctxbench.core.pipeline import Pipeline
    from ctxbench.features.stored_fits import Fit
    from ctxbench.tuning.fits.curves import FoldFigures
    from ctxbench.tuning.fits.linear_fits import WeightFigures

FEW = 30  # labelled queries below which it is said how few a fit has seen
_HEADS = {
    "items": "items a query",
    "recall": "recall",
    "lost": "in need, offered nothing",
    "spared": "in no need, offered nothing",
}


@dataclass(frozen=True)
class FitRequest:
    """What the command line asks for.

    Attributes:
        kind: `probability`, `abstention` or `weights`.
        datasets: names or folders, one fit each.
        selector: what the fitted step is to stand behind: a shipped selector, `name/preset`, or a YAML file.
        split: whose queries are used; `all` = those of every split.
        folds: 0 = no figures out of fold.
        embedder: as `open_embedder` reads it.
        texts: whether a fit of a probability keeps the labelled requests, with their texts.
        metric: that the weights of a step `linear` are to raise; None = nDCG@10.
    """

    kind: str
    datasets: Sequence[str]
    selector: str
    split: str
    folds: int
    embedder: str
    texts: bool = True
    metric: str | None = None


def calibrate(request: FitRequest, *, out: Path, as_json: bool) -> None:
    """Fit, write, and print what was fitted and, with folds, what it is worth.

    Raises:
        ParameterError: there is no such kind, the weights of a fusion are asked for out of fold or by another metric,
            or two datasets have one name.
        UserError: as of `ctxbench.tuning.fits.query_fits.fit`.
    """
    from ctxbench.features.stored_fits import KINDS, LINEAR, PROBABILITY, WEIGHTS, write_calibrations
    from ctxbench.selectors.definitions import find_definition
    from ctxbench.selectors.fitted import fitted_file, fitted_index, write_fitted
    from ctxbench.tuning.fits.linear_fits import linear_index

    kinds = [kind for kind in KINDS if kind != LINEAR]  # those of columns are asked for as weights, too
    if request.kind not in kinds:
        raise ParameterError(f"what is fitted must be one of {', '.join(kinds)}, got {request.kind!r}")
    refuse_outputs({"--out": out}, {**dataset_inputs(*request.datasets), **selector_inputs(request.selector)})
    _refuse_foreign(out)
    definition, preset = find_definition(request.selector)
    pipeline = definition.pipeline(definition.values(preset))
    linear = request.kind == WEIGHTS and linear_index(pipeline) is not None
    if request.folds and request.kind == WEIGHTS and not linear:
        fitted = "probability, abstention and the weights of a step `linear`"
        raise ParameterError(f"folds are for {fitted}; those of a fusion are measured by an experiment")
    if request.metric is not None and not linear:
        raise ParameterError("a metric is for the weights of a selector with a step `linear`")
    writes_selector = request.kind == PROBABILITY and fitted_index(definition.written, PROBABILITY) is not None
    if writes_selector:
        fitted_file(definition, out)  # what stands in the way is said before anything is fitted
    fits, figures = _fitted(request, pipeline, linear=linear)
    write_calibrations(out, fits.values())
    selector = write_fitted(definition, out, preset) if writes_selector else None
    say(*(_warning(fit) for fit in fits.values() if fit.queries < FEW), err=True)
    if as_json:
        facts = {name: _facts(fits[name], figures.get(name)) for name in fits}
        print_json({"fits": facts, "written": str(out), "selector": None if selector is None else str(selector)})
        return
    for name, fit in fits.items():
        say(_summary(fit))
        if name in figures:
            say(*_table(figures[name]))
    say(f"written to {out}")
    if selector is not None:
        say(f"the selector with it: {selector}, wherever a shipped name may stand")


def _warning(fit: Fit) -> str:
    """The warning that a fit has seen few queries."""
    from ctxbench.io.visible import count

    text = f"{fit.dataset}: {fit.what} is fitted on {count(fit.queries, 'labelled query', 'labelled queries')} only"
    return f"warning: {text}, which says little about others; label about {FEW} or more (`ctxbench data label`)"


def _fitted(
    request: FitRequest, pipeline: Pipeline, *, linear: bool
) -> tuple[dict[str, Fit], dict[str, FoldFigures | WeightFigures]]:
    """The fits by dataset, and with folds the figures of each on requests that it was not fitted to."""
    from ctxbench.bench.metrics import parse_metric
    from ctxbench.data.datasets.lookup import open_dataset
    from ctxbench.embedding.embedder_names import open_embedder
    from ctxbench.embedding.vectors import open_vectors
    from ctxbench.index.resources import LocalResources
    from ctxbench.io.cache import cache_dir
    from ctxbench.text.tokens import open_counter
    from ctxbench.tuning.fits.curves import measure
    from ctxbench.tuning.fits.examples import labelled_queries, make_examples
    from ctxbench.tuning.fits.fitted_weights import METRIC
    from ctxbench.tuning.fits.linear_fits import fit_columns
    from ctxbench.tuning.fits.query_fits import columns_of, fit

    embedder, metric = open_embedder(request.embedder), parse_metric(request.metric or METRIC)
    fits: dict[str, Fit] = {}
    figures: dict[str, FoldFigures | WeightFigures] = {}
    with progress() as bar:
        opened = [open_dataset(name, notify=bar.say) for name in request.datasets]
        names = [dataset.name for dataset in opened]
        if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
            raise ParameterError(f"two datasets are called {', '.join(twice)}; name each once, or rename one")
        vectors = open_vectors(embedder, progress=partial(bar, "embedding texts"))
        resources = LocalResources(vectors, open_counter("o200k", cache=cache_dir()))
        for dataset in opened:
            if linear:
                fits[dataset.name], held_out = fit_columns(
                    dataset, pipeline, resources, metric, split=request.split, folds=request.folds
                )
                figures.update({} if held_out is None else {dataset.name: held_out})
                continue
            fits[dataset.name] = fit(
                request.kind, dataset, pipeline, resources, split=request.split, requests=request.texts
            )
            if request.folds:
                part, columns = labelled_queries(dataset, request.split), columns_of(requests=request.texts)
                examples = make_examples(request.kind, part, pipeline, resources, columns=columns)
                figures[dataset.name] = measure(
                    examples, request.folds, progress=partial(bar, f"{dataset.name}: folds")
                )
    return fits, figures


def _refuse_foreign(out: Path) -> None:
    """Refuse to overwrite a file of something else, before anything is fitted.

    Raises:
        ParameterError: it stands where the fits go.
    """
    from ctxbench.features.stored_fits import read_calibrations

    try:
        if out.exists():
            read_calibrations(out)
    except InputError as error:
        problem = f"{out} is there and is no file of fits that can be read"
        raise ParameterError(f"{problem}; name another --out") from error


def _facts(fit: Fit, figures: FoldFigures | WeightFigures | None) -> dict[str, Any]:
    facts = {"what": fit.what, "catalog": fit.catalog, "split": fit.split, "queries": fit.queries}
    return facts | ({"values": fit.values} if figures is None else {"out_of_fold": figures.as_dict()})


def _summary(fit: Fit) -> str:
    where = "every split" if fit.split == "all" else f"split {fit.split}"
    from ctxbench.io.visible import count

    kind = "weights of columns" if fit.what == "linear" else fit.what
    line = f"{fit.dataset}: {kind} fitted on {count(fit.queries, 'query', 'queries')} of {where}"
    weights = fit.values.get("weights")
    if isinstance(weights, Mapping):
        line += ": " + ", ".join(f"{name} {value:g}" for name, value in weights.items())
    if "before" in fit.values:
        line += "; {metric} {value:.3f} there, {before:.3f} with those it had".format(**fit.values)
    if requests := fit.values.get("requests"):
        line += f"; the file holds the texts of {count(len(requests), 'labelled request')} and what they need"
    return line


def _table(figures: FoldFigures | WeightFigures) -> list[str]:
    """The figures as lines of text."""
    from ctxbench.io.visible import count
    from ctxbench.tuning.fits.linear_fits import WeightFigures

    if isinstance(figures, WeightFigures):
        comparison, gain = figures.compared, figures.compared.interval
        of = f"{figures.folds} folds of {count(comparison.n, 'query', 'queries')} in {count(figures.groups, 'group')}"
        means = f"{figures.metric} {comparison.other:.3f}, {comparison.base:.3f} with the weights it had"
        text = f"{means}: {comparison.difference:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]"
        return [f"  Measured on requests it was not fitted on ({of}): {text}"]

    of_items = "items" in figures.columns
    statement = (
        "a required item scores above one that is not" if of_items else "a request in need scores above one in none"
    )
    queries, groups = count(figures.queries, "query", "queries"), count(figures.groups, "group")
    head = (
        f"  Measured on requests it was not fitted on ({figures.folds} folds of {queries} in {groups}): how "
        f"often {statement} (1 = always): {figures.roc_area:.3f} [{figures.interval.low:.3f}, "
        f"{figures.interval.high:.3f}]. Below: what comes of each threshold; in brackets 95% intervals."
    )
    names = [_HEADS[name] for name in figures.columns]
    lines = [head, f"  {'threshold':>10}  {names[0]:>28}  {names[1]:>28}"]
    lines += [
        f"  {point[0]:>10.4f}  {_estimate_text(point[1]):>28}  {_estimate_text(point[2]):>28}"
        for point in figures.points
    ]
    return lines


def _estimate_text(value: Estimate) -> str:
    digits = 3 if value.value <= 1 else 2
    return f"{value.value:.{digits}f} [{value.interval.low:.{digits}f}, {value.interval.high:.{digits}f}]"
