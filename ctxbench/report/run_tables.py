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
    """One figure: `-` without a value, with the reason in `why`."""

    value: str
    interval: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class ShownDifference:
    """The difference of a selector from the baseline on one metric.

    Attributes:
        value: signed.
        interval: of the difference alone.
        verdict: a p-value, or that the difference is not significant.
        queries_needed: how many queries would make the difference significant; may be empty.
        significant: whether the difference is.
        counts: on how many queries it is higher, lower, equal.
        test: which.
    """

    value: str
    interval: str
    verdict: str
    queries_needed: str
    significant: bool
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
    """The titles of a run's selectors, by name."""
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
        replace(dataset, selectors=tuple(replace(row, selector=titles[row.selector]) for row in dataset.selectors))
        for dataset in summary.datasets
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
        rows=tuple(_row(summary, selector, columns) for selector in dataset.selectors),
        notes=table_notes(summary, dataset, columns),
    )


SEEN = "fitted on labels that may be among these: judge it by `split: test`"


def about_selector(manifest: Mapping[str, Any], name: str) -> tuple[str, str]:
    """What a selector is (of a pipeline of the experiment, its steps), and its values; either may be empty."""
    described = manifest["selectors"].get(name, {})
    description = described.get("description", {})
    about = str(described.get("about", "")).rstrip(".") or pipeline_text(description)
    ran = {name for key, entry in manifest.get("datasets", {}).items() for name in (key, str(entry.get("name", key)))}
    if manifest["experiment"].get("split") != "test" and may_have_seen(description, ran):
        about = f"{about}; {SEEN}"
    values = ", ".join(f"{key} {value_text(value)}" for key, value in described.get("values", {}).items())
    if described.get("like"):  # then its own size counts for nothing
        values = f"as many items as {described['like']}"
    return about, values


def _columns(summary: RunSummary, dataset: DatasetSummary, every_metric: bool) -> tuple[Column, ...]:
    """All metrics that the user named, also those without a value; of the default ones those that are informative."""
    metrics = list(summary.metrics(dataset))
    if not summary.metrics_named:
        metrics = [metric for metric in metrics if _has_value(dataset, metric)]
        if not every_metric:
            decide = [metric for metric in metrics if metric.name in _SHOWN and _is_informative(dataset, metric)]
            metrics = sorted(decide, key=lambda metric: (_SHOWN.index(metric.name), metric.k))
    return tuple(
        Column(
            metric=metric,
            title=str(metric) if every_metric else _SHORT.get(metric.name, str(metric)),
            about=metric.declaration.text,
            unit=wording.unit(metric),
            interval=every_metric or summary.metrics_named or metric.name in HEADLINE,
        )
        for metric in metrics
    )


def _is_informative(dataset: DatasetSummary, metric: Metric) -> bool:
    """Whether a column is informative: total and loaded tokens are where they differ from tokens."""
    if metric.name not in ("total_tokens", "loaded_tokens"):
        return True
    values = [
        [selector.estimates[name].value for name in ("tokens", metric.name) if name in selector.estimates]
        for selector in dataset.selectors
    ]
    return any(len(pair) == 2 and pair[0] != pair[1] for pair in values)


def _has_value(dataset: DatasetSummary, metric: Metric) -> bool:
    estimates = [selector.estimates.get(str(metric)) for selector in dataset.selectors]
    return any(estimate is not None and estimate.n > 0 for estimate in estimates)


def _row(summary: RunSummary, selector: SelectorSummary, columns: Sequence[Column]) -> SelectorRow:
    return SelectorRow(
        selector=selector.selector,
        about="; ".join(filter(None, about_selector(summary.manifest, selector.selector))),
        is_base=selector.selector == summary.compare_to,
        cells={column.key: _cell(selector, column) for column in columns},
        differences={
            name: _difference(parse_metric(name), comparison) for name, comparison in selector.against.items()
        },
        errors=selector.errors,
    )


def _cell(selector: SelectorSummary, column: Column) -> Cell:
    estimate = selector.estimates.get(column.key)
    if estimate is None:
        return Cell(wording.NONE, why=selector.unavailable.get(column.key, "not computed"))
    if estimate.n == 0:
        return Cell(wording.NONE, why="no query that it applies to")
    interval = wording.estimate_interval(column.metric, estimate) if column.interval else ""
    return Cell(wording.number(column.metric, estimate.value), interval)


def _difference(metric: Metric, comparison: Comparison) -> ShownDifference:
    return ShownDifference(
        value=wording.signed(metric, comparison.difference),
        interval=wording.difference_interval(metric, comparison),
        verdict=wording.verdict(comparison),
        queries_needed=wording.queries_needed(comparison),
        significant=bool(comparison.distinguishable),
        counts=(comparison.higher, comparison.lower, comparison.equal),
        test=comparison.test,
    )


def table_notes(summary: RunSummary, dataset: DatasetSummary, columns: Sequence[Column]) -> tuple[str, ...]:
    """What a reader must know of the figures of some columns, each a sentence."""
    figures = [
        (c, e) for c in columns for selector in dataset.selectors if (e := selector.estimates.get(c.key)) and e.n
    ]
    notes = (
        [f"Prompt tokens are counted by {summary.manifest['tokens']}."]
        if any("item_tokens" in c.metric.declaration.needs for c in columns)
        else []
    )
    notes += [*_sizes(columns, figures), *_methods(figures)]
    if _any_loose(dataset, figures):
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
        *_selector_notes(dataset),
    )


def _any_loose(dataset: DatasetSummary, figures: Sequence[tuple[Column, Estimate]]) -> bool:
    """Whether an interval that does not hold is shown, of a mean or of a difference."""
    texts = [wording.estimate_interval(column.metric, estimate) for column, estimate in figures if column.interval]
    against = [pair for selector in dataset.selectors for pair in selector.against.items()]
    texts += [wording.difference_interval(parse_metric(name), comparison) for name, comparison in against]
    return any(text.endswith(wording.LOOSE) for text in texts)


def _sizes(columns: Sequence[Column], figures: Sequence[tuple[Column, Estimate]]) -> list[str]:
    """The number of queries of each mean; empty without columns."""
    by_size: dict[tuple[int, ...], list[str]] = {}
    for column in columns:
        if sizes := tuple(sorted({estimate.n for c, estimate in figures if c is column})):
            by_size.setdefault(sizes, []).append(column.title)
    texts = []
    for sizes, titles in by_size.items():
        span = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
        texts.append(span if len(by_size) == 1 else f"{span} for {wording.listed(titles)}")
    return [f"{wording.SIZE_WORDS}, {'; '.join(texts)}."] if texts else []


def _methods(figures: Sequence[tuple[Column, Estimate]]) -> list[str]:
    """Which intervals are shown, and how they were made."""
    methods: dict[str, dict[str, None]] = {}
    levels = set()
    for column, estimate in figures:
        if column.interval and wording.estimate_interval(column.metric, estimate):
            methods.setdefault(estimate.interval.method, {})[column.title] = None
            levels.add(f"{estimate.interval.level:.0%}")
    texts = [f"{method} for {wording.listed(list(titles))}" for method, titles in methods.items()]
    if not texts:
        return []
    level = wording.listed(sorted(levels))
    text = f"Behind a value stands its {level} interval: where the mean over many more such queries most likely lies."
    return [f"{text} (Methods: {'; '.join(texts)}.)"]


def _comparison_note(dataset: DatasetSummary) -> list[str]:
    comparisons = [comparison for selector in dataset.selectors for comparison in selector.against.values()]
    if not comparisons:
        return []
    tests = wording.listed(sorted({comparison.test for comparison in comparisons}))
    note = f"{wording.P_WORDS}; up to {max(comparison.alpha for comparison in comparisons):g} counts."
    methods = f"query by query, {tests}"
    if len(comparisons) > 1:
        note += f" {wording.RAISED}"
        methods += f"; Holm's correction for {len(comparisons)} comparisons"
    return [f"{note} (Methods: {methods}.)"]


def _reasons(dataset: DatasetSummary, columns: Sequence[Column]) -> list[str]:
    """Why figures are missing, one line per reason."""
    missing: dict[tuple[str, str], list[str]] = {}
    for selector in dataset.selectors:
        reasons: dict[str, list[str]] = {}
        for column in columns:
            cell = _cell(selector, column)
            if cell.why:
                reasons.setdefault(cell.why, []).append(column.title)
        for why, titles in reasons.items():
            missing.setdefault((why, wording.listed(titles)), []).append(wording.named(selector.selector))
    return [f"{wording.NONE} {titles} of {wording.listed(names)}: {why}." for (why, titles), names in missing.items()]


def _worst_scopes(dataset: DatasetSummary) -> list[str]:
    metric = parse_metric(HEADLINE[0])
    texts = [
        f"{wording.named(selector.selector)} {wording.named(selector.worst_scope.group)} "
        f"{wording.number(metric, selector.worst_scope.mean.value)}% (n = {selector.worst_scope.mean.n:,})"
        for selector in dataset.selectors
        if selector.worst_scope is not None
    ]
    return [f"Worst scope by completeness: {'; '.join(texts)}."] if texts else []


_MOST_FORBIDDEN = 3  # items that are named of each selector


def _forbidden(dataset: DatasetSummary) -> list[str]:
    """The forbidden items that selectors offered most often, in a sentence."""
    texts = []
    for selector in dataset.selectors:
        items = [f"{wording.named(item)} ({n:,})" for item, n in [*selector.forbidden.items()][:_MOST_FORBIDDEN]]
        further = len(selector.forbidden) - len(items)
        texts += [
            f"{wording.named(selector.selector)} {', '.join(items)}{f' and {further:,} more' * (further > 0)}"
        ] * bool(items)
    return [f"Forbidden items offered most often (queries): {'; '.join(texts)}."] if texts else []


def _failures(dataset: DatasetSummary) -> list[str]:
    return [
        f"{wording.named(selector.selector)} failed on {selector.errors:,} "
        f"of {count(selector.queries, 'query', 'queries')}; to fail counts as nothing offered."
        for selector in dataset.selectors
        if selector.errors
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
    """A selector's note on its answers as text; unknown notes as they are."""
    if name in _LISTS and isinstance(value, list):
        return f"{_LISTS[name]} {wording.listed([wording.named(str(entry)) for entry in value])}"
    if name in _NOTES and isinstance(value, int):
        words = _NOTES[name]
        first = words.split(" ", 1)[0]
        singular = {"queries": "query", "answers": "answer", "items": "item", "times": "time"}[first]
        return f"{value:,} {words if value != 1 else words.replace(first, singular, 1)}"
    return f"{name} {value}"


def _selector_notes(dataset: DatasetSummary) -> list[str]:
    """The notes of selectors on their answers."""
    return [
        f"{wording.named(selector.selector)}: {', '.join(note_text(*note) for note in selector.notes.items())}."
        for selector in dataset.selectors
        if selector.notes
    ]
