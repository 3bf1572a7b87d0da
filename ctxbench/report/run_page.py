"""A run as one HTML file: no request of any kind, readable without JavaScript, texts escaped whoever wrote them."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ctxbench.bench.answer_rows import Part
from ctxbench.bench.metrics import parse_metric
from ctxbench.bench.results import RunFolder
from ctxbench.bench.summary import HEADLINE, DatasetSummary, RunSummary, summarise_run
from ctxbench.core.arrays import IntArray
from ctxbench.core.errors import StorageError
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.io.files import write_atomic
from ctxbench.report import wording
from ctxbench.report.charts.axes import colours
from ctxbench.report.charts.comparisons import points_of, trade_off
from ctxbench.report.charts.histogram import scores
from ctxbench.report.charts.svg import axes_at, svg
from ctxbench.report.opening_sentence import run_answer
from ctxbench.report.page_payload import dataset_payload, script_json
from ctxbench.report.page_templates import page_template, read_parts, stylesheet
from ctxbench.report.run_tables import (
    ComparisonTable,
    about_selector,
    comparison_table,
    selector_titles,
    with_titles,
)
from ctxbench.report.scores import ScoreGroup, score_groups
from ctxbench.report.thresholds import threshold_of
from ctxbench.report.wording import without_surrogates

FILE_NAME = "report.html"
_SCRIPTS = ("data.js", "list.js", "detail.js", "main.js")
_FORBIDDEN = 20  # items that were offered although forbidden, of one selector
_SCATTER, _SCORES = (620.0, 340.0), (620.0, 270.0)  # pixels


@dataclass(frozen=True, eq=False)
class _DrawnScores:
    """A group of selectors with equal scores, drawn."""

    group: ScoreGroup
    svg: str


@dataclass(frozen=True, eq=False, kw_only=True)
class _DatasetView:
    """What the template shows of one dataset."""

    number: int
    name: str
    about: Mapping[str, Any]
    table: ComparisonTable
    every_metric: ComparisonTable
    scatter: str
    scores: tuple[_DrawnScores, ...]
    unscored: tuple[str, ...]
    forbidden: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
    payload: str


def write_report(
    folder: RunFolder,
    datasets: Mapping[str, Dataset],
    *,
    tokens: Mapping[str, IntArray],
    summary: RunSummary | None = None,
) -> Path:
    """Write `report.html` into a run folder, whole or not at all; see `render_page`.

    Returns:
        The path of the file.
    """
    path = folder.path / FILE_NAME
    write_atomic(path, render_page(folder, datasets, tokens=tokens, summary=summary))
    return path


def render_page(
    folder: RunFolder,
    datasets: Mapping[str, Dataset],
    *,
    tokens: Mapping[str, IntArray],
    summary: RunSummary | None = None,
) -> str:
    """Make the page of a finished run. Equal runs and datasets give equal pages.

    Args:
        folder: of the run.
        datasets: those of the run, by the names in its manifest.
        tokens: prompt tokens of every item by dataset, each of shape (n_items,), by the run's counter.
        summary: of this folder, where it is at hand; else it is made.

    Raises:
        StorageError: the folder holds no finished run, or a dataset is missing or is not the one that was run.
    """
    from markupsafe import Markup

    summary = summary or summarise_run(folder)
    titles, summary = selector_titles(summary.manifest), with_titles(summary)
    views = []
    for number, figures in enumerate(summary.datasets):
        parts = [replace(folder.load(figures.dataset, name), selector=title) for name, title in titles.items()]
        dataset = _checked(summary, figures.dataset, datasets, tokens)
        views.append(_view(parts, summary, figures, dataset, tokens[figures.dataset], number))
    script = _script()
    settings = {
        "base": summary.compare_to,
        "datasets": [view.name for view in views],
        "thresholds": _thresholds(summary),
    }
    html: str = page_template("report.html.j2").render(
        summary=summary,
        answer=run_answer(summary),
        manifest=summary.manifest,
        experiment=summary.manifest["experiment"],
        views=views,
        selectors=[
            (name, "; ".join(filter(None, about_selector(summary.manifest, name))))
            for name in summary.manifest["selectors"]
        ],
        outside=[name for name, about in summary.manifest["selectors"].items() if about.get("outside")],
        style=stylesheet("report.css"),
        script=Markup(script),  # noqa: S704 - files of ours
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        settings=Markup(script_json(settings)),  # noqa: S704 - cannot end its element
        payloads=[Markup(view.payload) for view in views],  # noqa: S704 - likewise
        details=_details(summary.manifest),
    )
    return without_surrogates(html)


def _checked(
    summary: RunSummary, name: str, datasets: Mapping[str, Dataset], tokens: Mapping[str, IntArray]
) -> Dataset:
    """The dataset, if it is the one that was run and its items are counted."""
    if name not in datasets:
        raise StorageError(f"the page needs dataset {name!r}, which the run was made on; given: {sorted(datasets)}")
    dataset, ran = datasets[name], summary.manifest["datasets"][name].get("hash")
    if ran is not None and dataset.hash != ran:
        raise StorageError(
            f"dataset {name!r} has changed since the run (hash {dataset.hash[:12]}, in the run {ran[:12]}); "
            "run the experiment again, or give the dataset as it was"
        )
    if name not in tokens or len(tokens[name]) != len(dataset.catalog):
        raise StorageError(f"the page needs the prompt tokens of all {len(dataset.catalog)} items of dataset {name!r}")
    return dataset


def _view(
    parts: Sequence[Part], summary: RunSummary, figures: DatasetSummary, dataset: Dataset, tokens: IntArray, number: int
) -> _DatasetView:
    groups = score_groups(dataset, parts, summary.manifest["selectors"])
    scored = {name for group in groups for name in group.selectors}
    return _DatasetView(
        number=number,
        name=figures.dataset,
        about={"labelling": str(dataset.about.get("labelling", "")), "version": dataset.version, **dataset.counts},
        table=comparison_table(summary, figures),
        every_metric=comparison_table(summary, figures, every_metric=True),
        scatter=_scatter(summary, figures, f"scatter-{number}"),
        scores=tuple(
            _DrawnScores(group, _histogram(group, figures.dataset, f"scores-{number}-{index}"))
            for index, group in enumerate(groups)
        ),
        unscored=_unscored(parts, scored),
        forbidden=tuple(
            (selector.selector, tuple(selector.forbidden.items())[:_FORBIDDEN])
            for selector in figures.selectors
            if selector.forbidden
        ),
        payload=script_json(
            {
                **dataset_payload(dataset, parts, tokens, selectors=summary.manifest["selectors"]),
                "name": figures.dataset,
            }
        ),
    )


def _scatter(summary: RunSummary, dataset: DatasetSummary, name: str) -> str:
    """Completeness against prompt tokens; empty where fewer than two selectors have both."""
    y, x = map(parse_metric, HEADLINE)
    points, (width, height) = points_of(dataset, x, y), _SCATTER
    if len(points) < 2:
        return ""
    options: dict[str, Any] = {
        "x": x,
        "y": y,
        "base": summary.compare_to,
        "colours": colours(summary.manifest["selectors"]),
    }
    return svg(
        lambda figure: trade_off(axes_at(figure, 58.0, 10.0, width - 70.0, height - 68.0), points, **options),
        width=width,
        height=height,
        name=name,
        label=f"Completeness against prompt tokens on {dataset.dataset}",
    )


def _histogram(group: ScoreGroup, dataset: str, name: str) -> str:
    """Histograms of scores, with thresholds."""
    width, height = _SCORES
    of = f"{wording.listed(list(group.selectors))} on {dataset}{f' ({group.title})' if group.title else ''}"
    return svg(
        lambda figure: scores(axes_at(figure, 58.0, 8.0, width - 70.0, height - 52.0), group),
        width=width,
        height=height,
        name=name,
        label=f"Scores of {of}: required items upwards, best items that are not required downwards",
    )


def _thresholds(summary: RunSummary) -> dict[str, float]:
    """The threshold of every selector that has one."""
    thresholds = {name: threshold_of(about) for name, about in summary.manifest["selectors"].items()}
    return {name: value for name, value in thresholds.items() if value is not None}


def _unscored(parts: Sequence[Part], scored: set[str]) -> tuple[str, ...]:
    return tuple(part.selector for part in parts if part.selector not in scored)


def _script() -> str:
    """The page's script: the files in order, inside one function."""
    return f'\n(function () {{\n"use strict";\n{read_parts(*_SCRIPTS)}}})();\n'


def _sample(n: Any) -> str:
    """The sample size in words."""
    return f"at most {int(n):,} queries a dataset" if n else "none: every query"


def _details(manifest: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Versions, hashes and identities, by heading."""
    experiment = manifest["experiment"]
    run = [
        ("token counter", str(manifest["tokens"])),
        ("split", str(experiment.get("split") or "all queries")),
        ("sample", _sample(experiment.get("sample"))),
        ("seed", str(experiment["seed"])),
        ("commit", str(manifest.get("git") or "not known")),
        ("format of the run folder", str(manifest.get("format", ""))),
    ]
    datasets = [
        (name, f"{about.get('name', name)} {about.get('version', '')}, sha256 {about.get('hash', 'not known')}")
        for name, about in manifest["datasets"].items()
    ]
    groups = [("Run", run), ("Datasets", datasets)]
    for title, key in (("Embedder", "embedder"), ("Versions", "versions")):
        values = manifest.get(key)
        if isinstance(values, Mapping):
            groups.append((title, [(str(name), str(value)) for name, value in values.items()]))
    return groups
