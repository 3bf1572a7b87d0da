"""The comparison of a dataset as a table of texts: what the console and the page both show."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ctxbench.bench.metrics import Metric, parse_metric
from ctxbench.bench.stats import Comparison, Estimate
from ctxbench.bench.summary import HEADLINE, DatasetSummary, RunSummary, SelectorSummary
from ctxbench.io.visible import count
from ctxbench.report import wording
from ctxbench.report.column_words import column_words
from ctxbench.report.steps_text import may_have_seen, pipeline_text
from ctxbench.selectors.parameters import value_text

_SHOWN = (
    *(
        "completeness",
        "tokens",
        "forbidden_offered",
        "total_tokens",
        "loaded_tokens",
        "model_tokens",
        "items",
        "Comp",
        "wrong_siblings",
    ),
    "abstention",
)
_SHORT = {
    "completeness": "complete",
    "tokens": "prompt tokens",
    "total_tokens": "in all",
    "loaded_tokens": "with bodies",
    "model_tokens": "model tokens",
    "items": "items",
    "forbidden_offered": "forbidden offered",
    "wrong_siblings": "wrong siblings",
    "abstention": "empty when nothing needed",
}


@dataclass(frozen=True, slots=True)
class Column:
    """One metric of a table.

    Attributes:
        metric: which.
        title: its heading.
        about: one sentence.
        unit: `%`, `tokens`, `items` or empty.
        interval: whether intervals are shown.
    """

    metric: Metric
    title: str
    about: str
    unit: str
    interval: bool

    @property
    def key(self) -> str:
        """The metric's printed name."""
        return str(self.metric)


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure: `-` without a value, and then `why` says why."""

    value: str
    interval: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class ShownDifference:
    """A selector against the one that all are compared with, on one metric.

    Attributes:
        value: signed.
        interval: of the difference alone.
        verdict: a p-value, or that the two cannot be told apart.
        needed: how many queries would tell them apart, or empty.
        told: whether they are told apart.
        counts: on how many queries it is higher, lower, equal.
        test: which.
    """

    value: str
    interval: str
    verdict: str
    needed: str
    told: bool
    counts: tuple[int, int, int]
    test: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorRow:
    """One selector.

    Attributes:
        selector: its name.
        about: what it is, with its values; guesses say so.
        is_base: whether all others are compared with it.
        cells: by column key.
        differences: by headline metric; empty for the base.
        errors: queries that it failed on.
    """

    selector: str
    about: str
    is_base: bool
    cells: Mapping[str, Cell]
    differences: Mapping[str, ShownDifference]
    errors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonTable:
    """All selectors on one dataset.

    Attributes:
        dataset: its name.
        heading: name, number of queries, number of items.
        base: the selector that all are compared with.
        columns: those that have a value in any row.
        compared: the headline metrics that any row is compared on.
        rows: in the order of the experiment.
        notes: what a reader must know of the figures, each a sentence.
    """

    dataset: str
    heading: str
    base: str
    columns: tuple[Column, ...]
    compared: tuple[Metric, ...]
    rows: tuple[SelectorRow, ...]
    notes: tuple[str, ...]

    @property
    def headline(self) -> tuple[Column, ...]:
        """The columns that a page shows before the differences: those of the headline metrics, or all without these."""
        return tuple(column for column in self.columns if column.metric.name in HEADLINE) or self.columns

    @property
    def further(self) -> tuple[Column, ...]:
        """The other columns."""
        return tuple(column for column in self.columns if column not in self.headline)

    @property
    def words(self) -> str:
        """What its columns mean."""
        return column_words((column.title, column.metric) for column in self.columns)


def selector_titles(manifest: Mapping[str, Any]) -> dict[str, str]:
    """What people read as the name of each selector of a run, by the name that data has."""
    return {
        name: wording.selector_title(name, about.get("shipped", "")) for name, about in manifest["selectors"].items()
    }


def with_titles(summary: RunSummary) -> RunSummary:
    """The summary with the titles of selectors as their names, for reports that people read."""
    titles = selector_titles(summary.manifest)
    if all(name == title for name, title in titles.items()):
        return summary
    described = {
        titles[name]: {**about, "shipped": "", "like": titles.get(about.get("like"), about.get("like"))}
        for name, about in summary.manifest["selectors"].items()
    }
    experiment = {**summary.manifest["experiment"], "compare_to": titles[summary.compare_to]}
    datasets = [
        replace(one, selectors=tuple(replace(row, selector=titles[row.selector]) for row in one.selectors))
        for one in summary.datasets
    ]
    manifest = {**summary.manifest, "experiment": experiment, "selectors": described}
    return RunSummary(manifest=manifest, datasets=tuple(datasets))


def comparison_table(summary: RunSummary, dataset: DatasetSummary, *, every_metric: bool = False) -> ComparisonTable:
    """Make the table of a dataset.

    Args:
        summary: of the run.
        dataset: one of its datasets.
        every_metric: all metrics of the experiment, each with its interval. Else those that the user named, each with
            its interval, or of the usual ones those that decide.
    """
    columns = _columns(summary, dataset, every_metric)
    compared = tuple(parse_metric(name) for name in HEADLINE if any(name in s.against for s in dataset.selectors))
    queries, items = count(dataset.queries, "query", "queries"), count(dataset.items, "item")
    if dataset.of > dataset.queries:
        queries = f"a sample of {dataset.queries:,} of {count(dataset.of, 'query', 'queries')}"
    split = summary.manifest["experiment"].get("split")
    if split:
        queries += f" of split {split}"
    return ComparisonTable(
        dataset=dataset.dataset,
        heading=f"{dataset.dataset}: {queries}, {items}",
        base=summary.compare_to,
        columns=columns,
        compared=compared,
        rows=tuple(_row(summary, one, columns) for one in dataset.selectors),
        notes=table_notes(summary, dataset, columns),
    )


SEEN = "fitted on labels that may be among these: judge it by `split: test`"


def about_selector(manifest: Mapping[str, Any], name: str) -> tuple[str, str]:
    """What a selector is (of a pipeline of the experiment, its steps), and its values; either may be empty."""
    described = manifest["selectors"].get(name, {})
    description = described.get("description", {})
    about = str(described.get("about", "")).rstrip(".") or pipeline_text(description)
    ran = {name for key, one in manifest.get("datasets", {}).items() for name in (key, str(one.get("name", key)))}
    if manifest["experiment"].get("split") != "test" and may_have_seen(description, ran):
        about = f"{about}; {SEEN}"
    values = ", ".join(f"{key} {value_text(value)}" for key, value in described.get("values", {}).items())
    if described.get("like"):  # then its own size counts for nothing
        values = f"as many items as {described['like']}"
    return about, values


def _columns(summary: RunSummary, dataset: DatasetSummary, every_metric: bool) -> tuple[Column, ...]:
    """All metrics that the user named, also those without a value; of the usual ones those that say something."""
    asked = list(summary.metrics(dataset))
    if not summary.metrics_named:
        asked = [metric for metric in asked if _has_value(dataset, metric)]
        if not every_metric:
            decide = [metric for metric in asked if metric.name in _SHOWN and _tells(dataset, metric)]
            asked = sorted(decide, key=lambda metric: (_SHOWN.index(metric.name), metric.k))
    return tuple(
        Column(
            metric=metric,
            title=str(metric) if every_metric else _SHORT.get(metric.name, str(metric)),
            about=metric.declaration.text,
            unit=wording.unit(metric),
            interval=every_metric or summary.metrics_named or metric.name in HEADLINE,
        )
        for metric in asked
    )


def _tells(dataset: DatasetSummary, metric: Metric) -> bool:
    """Whether a column says something: tokens with the session's, or with bodies, do where they are more."""
    if metric.name not in ("total_tokens", "loaded_tokens"):
        return True
    values = [
        [one.estimates[name].value for name in ("tokens", metric.name) if name in one.estimates]
        for one in dataset.selectors
    ]
    return any(len(pair) == 2 and pair[0] != pair[1] for pair in values)


def _has_value(dataset: DatasetSummary, metric: Metric) -> bool:
    found = [one.estimates.get(str(metric)) for one in dataset.selectors]
    return any(estimate is not None and estimate.n > 0 for estimate in found)


def _row(summary: RunSummary, one: SelectorSummary, columns: Sequence[Column]) -> SelectorRow:
    return SelectorRow(
        selector=one.selector,
        about="; ".join(filter(None, about_selector(summary.manifest, one.selector))),
        is_base=one.selector == summary.compare_to,
        cells={column.key: _cell(one, column) for column in columns},
        differences={name: _difference(parse_metric(name), found) for name, found in one.against.items()},
        errors=one.errors,
    )


def _cell(one: SelectorSummary, column: Column) -> Cell:
    found = one.estimates.get(column.key)
    if found is None:
        return Cell(wording.NONE, why=one.unavailable.get(column.key, "not computed"))
    if found.n == 0:
        return Cell(wording.NONE, why="no query that it applies to")
    interval = wording.estimate_interval(column.metric, found) if column.interval else ""
    return Cell(wording.number(column.metric, found.value), interval)


def _difference(metric: Metric, found: Comparison) -> ShownDifference:
    return ShownDifference(
        value=wording.signed(metric, found.difference),
        interval=wording.difference_interval(metric, found),
        verdict=wording.verdict(found),
        needed=wording.needed(found),
        told=bool(found.distinguishable),
        counts=(found.higher, found.lower, found.equal),
        test=found.test,
    )


def table_notes(summary: RunSummary, dataset: DatasetSummary, columns: Sequence[Column]) -> tuple[str, ...]:
    """What a reader must know of the figures of some columns, each a sentence."""
    shown = [(c, e) for c in columns for one in dataset.selectors if (e := one.estimates.get(c.key)) and e.n]
    notes = (
        [f"Prompt tokens are counted by {summary.manifest['tokens']}."]
        if any("item_tokens" in c.metric.declaration.needs for c in columns)
        else []
    )
    notes += [*_sizes(columns, shown), *_methods(shown)]
    if _any_loose(dataset, shown):
        notes.append(
            f"{wording.LOOSE} behind an interval: there are too few queries, or too few that differ, to rely on it."
        )
    notes += _comparison_note(dataset)
    if dataset.only_negatives:
        some = count(dataset.only_negatives, "query", "queries")
        notes.append(f"{some} without full labels count for forbidden items alone: what else they need is not known.")
    if dataset.unlabelled:
        left = count(dataset.unlabelled, "query", "queries")
        notes.append(f"{left} without full labels left out: what they need is not known, or not all of it.")
    if dataset.drawn:
        folder = str(summary.manifest["datasets"][dataset.dataset]["reference"])
        see = shlex.join(["ctxbench", "data", "label", folder, "--minutes", "0"])
        notes.append(
            f"{count(dataset.drawn, 'query', 'queries')} of these were drawn by a label queue, with unequal "
            f"chances: these are not the figures of all requests, see `{see}`."
        )
    return (
        *notes,
        *_worst_scopes(dataset),
        *_forbidden(dataset),
        *_reasons(dataset, columns),
        *_failures(dataset),
        *_said(dataset),
    )


def _any_loose(dataset: DatasetSummary, shown: Sequence[tuple[Column, Estimate]]) -> bool:
    """Whether an interval that does not hold is shown, of a mean or of a difference."""
    texts = [wording.estimate_interval(column.metric, found) for column, found in shown if column.interval]
    against = [pair for one in dataset.selectors for pair in one.against.items()]
    texts += [wording.difference_interval(parse_metric(name), found) for name, found in against]
    return any(text.endswith(wording.LOOSE) for text in texts)


def _sizes(columns: Sequence[Column], shown: Sequence[tuple[Column, Estimate]]) -> list[str]:
    """Over how many queries each mean is; nothing without columns."""
    by_size: dict[tuple[int, ...], list[str]] = {}
    for column in columns:
        if sizes := tuple(sorted({found.n for c, found in shown if c is column})):
            by_size.setdefault(sizes, []).append(column.title)
    texts = []
    for sizes, titles in by_size.items():
        span = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
        texts.append(span if len(by_size) == 1 else f"{span} for {wording.listed(titles)}")
    return [f"{wording.SIZE_WORDS}, {'; '.join(texts)}."] if texts else []


def _methods(shown: Sequence[tuple[Column, Estimate]]) -> list[str]:
    """Which intervals are shown, and how they were made."""
    methods: dict[str, dict[str, None]] = {}
    levels = set()
    for column, found in shown:
        if column.interval and wording.estimate_interval(column.metric, found):
            methods.setdefault(found.interval.method, {})[column.title] = None
            levels.add(f"{found.interval.level:.0%}")
    texts = [f"{method} for {wording.listed(list(titles))}" for method, titles in methods.items()]
    if not texts:
        return []
    level = wording.listed(sorted(levels))
    said = f"Behind a value stands its {level} interval: where the mean over many more such queries most likely lies."
    return [f"{said} (Methods: {'; '.join(texts)}.)"]


def _comparison_note(dataset: DatasetSummary) -> list[str]:
    found = [one for selector in dataset.selectors for one in selector.against.values()]
    if not found:
        return []
    tests = wording.listed(sorted({one.test for one in found}))
    note = f"{wording.P_WORDS}; up to {max(one.alpha for one in found):g} counts."
    methods = f"query by query, {tests}"
    if len(found) > 1:
        note += f" {wording.RAISED}"
        methods += f"; Holm's correction for {len(found)} comparisons"
    return [f"{note} (Methods: {methods}.)"]


def _reasons(dataset: DatasetSummary, columns: Sequence[Column]) -> list[str]:
    """Why a figure is missing, once a reason."""
    missing: dict[tuple[str, str], list[str]] = {}
    for one in dataset.selectors:
        reasons: dict[str, list[str]] = {}
        for column in columns:
            cell = _cell(one, column)
            if cell.why:
                reasons.setdefault(cell.why, []).append(column.title)
        for why, titles in reasons.items():
            missing.setdefault((why, wording.listed(titles)), []).append(wording.named(one.selector))
    return [f"{wording.NONE} {titles} of {wording.listed(names)}: {why}." for (why, titles), names in missing.items()]


def _worst_scopes(dataset: DatasetSummary) -> list[str]:
    metric = parse_metric(HEADLINE[0])
    texts = [
        f"{wording.named(one.selector)} {wording.named(one.worst_scope.group)} "
        f"{wording.number(metric, one.worst_scope.mean.value)}% (n = {one.worst_scope.mean.n:,})"
        for one in dataset.selectors
        if one.worst_scope is not None
    ]
    return [f"Worst scope by completeness: {'; '.join(texts)}."] if texts else []


_MOST_FORBIDDEN = 3  # items that are named of each selector


def _forbidden(dataset: DatasetSummary) -> list[str]:
    """The forbidden items that selectors offered most often, in a sentence."""
    texts = []
    for one in dataset.selectors:
        items = [f"{wording.named(item)} ({n:,})" for item, n in [*one.forbidden.items()][:_MOST_FORBIDDEN]]
        more = len(one.forbidden) - len(items)
        texts += [f"{wording.named(one.selector)} {', '.join(items)}{f' and {more:,} more' * (more > 0)}"] * bool(items)
    return [f"Forbidden items offered most often (queries): {'; '.join(texts)}."] if texts else []


def _failures(dataset: DatasetSummary) -> list[str]:
    return [
        f"{wording.named(one.selector)} failed on {one.errors:,} of {count(one.queries, 'query', 'queries')}; "
        "to fail counts as nothing offered."
        for one in dataset.selectors
        if one.errors
    ]


_NOTES = {
    "unstable": "queries answered otherwise when asked again",
    "unstable_items": "queries offered other items when asked again",
    "without_ranking": "queries without a ranking, which have no ranking metrics",
    "without_scores": "queries without scores",
    "from_cache": "answers kept from before",
    "session_items_named": "items named that the session holds already",
    "repeats": "times each was asked",
    "cache_not_written": "answers that could not be kept",
    "answers_not_asked_for": "answers to queries that the dataset does not have",
    "answers_unlabelled": "answers to unlabelled queries, which are not measured",
    "answers_not_in_sample": "answers to queries of the dataset outside the split or sample, which are not measured",
}
_LISTS = {
    "builds": "builds that answered:",
    "first_not_asked_for": "first of these",
    "first_unlabelled": "first of these",
    "first_not_in_sample": "first of these",
}


def note_text(name: str, value: Any) -> str:
    """What a selector says of its answers, in words; what is not known here as it is."""
    if name in _LISTS and isinstance(value, list):
        return f"{_LISTS[name]} {wording.listed([wording.named(str(one)) for one in value])}"
    if name in _NOTES and isinstance(value, int):
        words = _NOTES[name]
        first = words.split(" ", 1)[0]
        one = {"queries": "query", "answers": "answer", "items": "item", "times": "time"}[first]
        return f"{value:,} {words if value != 1 else words.replace(first, one, 1)}"
    return f"{name} {value}"


def _said(dataset: DatasetSummary) -> list[str]:
    """What selectors say of their own answers."""
    return [
        f"{wording.named(one.selector)}: {', '.join(note_text(name, value) for name, value in one.notes.items())}."
        for one in dataset.selectors
        if one.notes
    ]
