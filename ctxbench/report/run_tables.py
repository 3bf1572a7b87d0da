"""Comparison tables of a run, their columns and selectors in words, and the opening sentence."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from ctxbench.datasets.queries import group_pairs
from ctxbench.evaluation.comparisons import refining
from ctxbench.evaluation.metrics import Metric, parse_metric
from ctxbench.evaluation.run_folder import HEADLINE, DatasetSummary, RunSummary, SelectorSummary
from ctxbench.evaluation.statistics import Comparison, Estimate
from ctxbench.io.errors import UserError, count, first_few
from ctxbench.model import registry
from ctxbench.model.registry import AnyStored, StoredAnalyses, StoredDomains, StoredMerge, StoredPipeline, StoredRefine
from ctxbench.pipelines.fits import may_have_seen
from ctxbench.report import document
from ctxbench.selectors.selector import value_text

Stage: TypeAlias = AnyStored | tuple[StoredRefine, ...] | None


def pipeline_text(description: Mapping[str, Any]) -> str:
    """The steps of a described pipeline in order; empty for any other selector."""
    stages = stages_of(description)
    return ", then ".join(stage_text(stages[name]) for name in ("analyse", "retrieve", "refine") if stages.get(name))


def stages_of(description: Mapping[str, Any]) -> dict[str, Stage]:
    """The described stages of a pipeline; none for any other selector."""
    if (pipeline := StoredPipeline.of(description)) is None:
        return {"refine": ()}
    stages = {"analyse": pipeline.analyse, "retrieve": pipeline.retrieve, "format": pipeline.format}
    return {**stages, "refine": refining(pipeline.refine)}


def stage_text(stage: Stage) -> str:
    """Steps as one writes them, without parameters that have their default; with the hash of a file that one reads."""
    if stage is None:
        return str(None)
    if isinstance(stage, tuple):
        return ", ".join(map(stage_text, stage)) or "nothing"
    if isinstance(stage, StoredAnalyses):
        return stage_text(stage.steps)
    if isinstance(stage, StoredMerge):
        return " beside ".join(
            stage_text(step) if step.name == name else f"{name}: {stage_text(step)}" for name, step in stage.sources
        )
    if isinstance(stage, StoredDomains):
        return "; ".join(f"{','.join(types)}: {stage_text(steps)}" for types, steps in stage.domains)
    usual = _defaults(stage.kind, stage.name)
    values = {k: value for k, value in stage.values.items() if k not in usual or usual[k] != value}
    digest = stage.about.get("content")
    return _written(stage.name, {**values, "sha256": str(digest)[:16]} if digest else values)


def _written(name: str, values: Mapping[str, Any]) -> str:
    """`name (key value, ...)`."""
    inside = ", ".join(_value(key, value) for key, value in values.items())
    return f"{name} ({inside})" if inside else name


def _value(key: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return _written(key, value)
    if key in ("calibration", "graph"):
        return f"{key} {Path(str(value)).name}"
    if isinstance(value, list | tuple):
        return f"{key} {'+'.join(map(str, value))}"
    return (
        f"{key} {value:g}"
        if isinstance(value, float)
        else f"{key} {str(value).lower() if value in (True, False) else value}"
    )


def _defaults(kind: str, name: str) -> dict[str, Any]:
    """The parameters that a strategy has by default; empty where it is not known here."""
    try:
        fields = dataclasses.fields(registry.find(kind, name))
    except (UserError, KeyError):  # a plugin that is not installed here, or one of an older version
        return {}
    defaults = {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}
    with suppress(UserError):  # one that needs a value cannot be made without
        defaults |= registry.parameters(registry.build(kind, name, {}))
    return {key: list(value) if isinstance(value, tuple) else value for key, value in defaults.items()}


_WORDS = {
    "completeness": "share of queries whose required items were all offered, or in the session",
    "tokens": "what the items cost that were added to the prompt",
    "total_tokens": "prompt tokens with what the session holds",
    "loaded_tokens": "prompt tokens with the bodies of the required skills among them, which the model loads",
    "model_tokens": "what the selector itself sent to a language model, and got from it, to choose",
    "forbidden_offered": "share of the queries with forbidden items (labelled irrelevant) that were offered one",
    "items": "how many items were added to the prompt",
    "Comp": "share of queries whose required items are all among the first {k} ranks, or in the session",
    "same_server_confusions": "offered items not needed that resemble a required one (same server, or like name)",
    "abstention": "share of the requests that need nothing to which nothing was offered",
}


def column_words(columns: Iterable[tuple[str, Metric]]) -> str:
    """One sentence per column, one for all k of the same metric; empty without columns.

    Args:
        columns: titles with their metrics, in order.
    """
    by_name = group_pairs(((metric.group, metric.name), (title, metric)) for title, metric in columns)
    return " ".join(map(_sentence, by_name.values()))


def _sentence(columns: list[tuple[str, Metric]]) -> str:
    title, metric = columns[0]
    k = str(metric.k)
    if len(columns) > 1:
        title, k = f"{str(metric).partition('@')[0]}@k", "k"
    general = metric.declaration.description.rstrip(".").replace("first k ", "first {k} ")
    words = _WORDS.get(metric.name, general).replace("{k}", k)
    if metric.group:
        words = f"{words}; items of the same {metric.group} count as one"
    plain = re.fullmatch("[a-z -]+", title)  # no name of a metric that is spelt so
    return f"{title[0].upper() + title[1:] if plain else title}: {words}."


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
        "same_server_confusions",
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
    "same_server_confusions": "same-server confusions",
    "abstention": "empty when none needed",
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
        answer: the sentence of `run_answer` for this dataset; empty if the run has no other.
        base: the selector that all are compared with.
        columns: those that have a value in any row.
        compared: the headline metrics that any row is compared on.
        rows: in the order of the experiment.
        notes: what a reader must know of the figures, each a sentence.
    """

    dataset: str
    heading: str
    answer: str
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
    def words(self) -> str:
        """What its columns mean."""
        return column_words((column.title, column.metric) for column in self.columns)


def selector_titles(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The titles of a run's selectors, by name; one with an approximate index has its recall in it."""
    return {
        name: f"{document.selector_title(name, about.get('shipped', ''))}{_recall_title(about.get('index_recall'))}"
        for name, about in manifest["selectors"].items()
    }


def _recall_title(recalls: Mapping[str, Mapping[str, Any]] | None) -> str:
    """` (faiss, recall@20 0.97 to 0.99)`: the lowest and highest recall of an index over datasets; empty without."""
    if not recalls:
        return ""
    (index, k), *_ = {(recall["index"], recall["k"]) for recall in recalls.values()}
    values = sorted({document.recall(recall["value"]) for recall in recalls.values()})
    return f" ({index}, recall@{k} {' to '.join(dict.fromkeys((values[0], values[-1])))})"


def with_titles(summary: RunSummary) -> RunSummary:
    """The summary with the titles of selectors as their names, for reports that people read."""
    titles = selector_titles(summary.manifest)
    if all(name == title for name, title in titles.items()):
        return summary
    described = {
        titles[name]: {
            **about,
            "shipped": "",
            "index_recall": None,
            "like": titles.get(about.get("like"), about.get("like")),
        }
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
    if split := summary.manifest["experiment"].get("split"):
        queries += f" of split {split}"
    return ComparisonTable(
        dataset=dataset.dataset,
        heading=f"{dataset.dataset}: {queries}, {items}",
        answer=run_answer(summary, dataset) if len(summary.datasets) > 1 else "",
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
    about = str(described.get("about", "")).rstrip(".") or pipeline_text(description) or _own_selector(description)
    if _scored_on_seen(manifest, name):
        about = f"{about}; {SEEN}"
    arguments = description.get("values", {}) if "callable" in description else {}  # bound to a function
    values = ", ".join(
        f"{key} {value_text(value) if isinstance(value, str | int | float) else json.dumps(value, ensure_ascii=False)}"
        for key, value in {**arguments, **described.get("values", {})}.items()
    )
    if described.get("like"):  # then its own size counts for nothing
        values = f"as many items as {described['like']}"
    recalls = (described.get("index_recall") or {}).items()
    notes = (f"{dataset}: {note_text('index_recall', recall)}" for dataset, recall in recalls)
    return "; ".join(filter(None, [about, *notes])), values


def _scored_on_seen(manifest: Mapping[str, Any], name: str) -> bool:
    """Whether a selector was asked queries whose labels it may have been fitted on."""
    ran = {name for key, entry in manifest.get("datasets", {}).items() for name in (key, str(entry.get("name", key)))}
    description = manifest["selectors"].get(name, {}).get("description", {})
    return manifest["experiment"].get("split") != "test" and may_have_seen(description, ran)


def _own_selector(description: Mapping[str, Any]) -> str:
    """How a selector of the user's is asked, and what identifies its code or its file; empty for any other."""
    for kind, noun in (("callable", "function"), ("command", "command"), ("url", "endpoint"), ("answers", "file")):
        if value := description.get(kind):
            digest, name = description.get("sha256"), value if isinstance(value, str) else shlex.join(value)
            build = description.get("build")
            digests = (f"sha256 {digest[:16]}" if digest else "", f"build {build}" if build else "")
            return ", ".join(filter(None, [f"own {noun} {name}", *digests]))
    return ""


def _columns(summary: RunSummary, dataset: DatasetSummary, every_metric: bool) -> tuple[Column, ...]:
    """All metrics that the user named, also those without a value; of the default ones those that are informative."""
    metrics = list(summary.metrics(dataset))
    if not summary.metrics_named:
        estimates = [estimate for selector in dataset.selectors for estimate in selector.estimates.items()]
        with_value = {name for name, estimate in estimates if estimate.n}
        metrics = [metric for metric in metrics if str(metric) in with_value]
        if not every_metric:
            of_groups = [metric for metric in metrics if metric.group]
            of_items = [metric for metric in metrics if not metric.group]
            decide = [metric for metric in of_items if metric.name in _SHOWN and _is_informative(dataset, metric)]
            of_items = sorted(decide, key=lambda metric: (_SHOWN.index(metric.name), metric.k))
            headline = [metric for metric in of_items if metric.name in HEADLINE]  # the user asked for groups: not last
            metrics = [*headline, *of_groups, *(metric for metric in of_items if metric not in headline)]
    return tuple(
        Column(
            metric=metric,
            title=str(metric) if every_metric else _SHORT.get(metric.name, str(metric)),
            about=metric.declaration.description
            + f" Items of the same {metric.group} count as one." * bool(metric.group),
            unit=document.unit(metric),
            interval=every_metric or summary.metrics_named or metric.name in HEADLINE,
        )
        for metric in metrics
    )


def _is_informative(dataset: DatasetSummary, metric: Metric) -> bool:
    """Whether a column is informative: total and loaded tokens are where they differ from tokens."""
    if metric.name not in ("total_tokens", "loaded_tokens"):
        return True
    estimates = [selector.estimates for selector in dataset.selectors]
    return any(e["tokens"].value != e[metric.name].value for e in estimates if {"tokens", metric.name} <= e.keys())


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
    if (estimate := selector.estimates.get(column.key)) is None:
        return Cell(document.NONE, why=selector.unavailable.get(column.key, "not computed"))
    if estimate.n == 0:
        return Cell(document.NONE, why="no query that it applies to")
    interval = document.estimate_interval(column.metric, estimate) if column.interval else ""
    return Cell(document.number(column.metric, estimate.value), interval)


def _difference(metric: Metric, comparison: Comparison) -> ShownDifference:
    return ShownDifference(
        value=document.signed(metric, comparison.difference),
        interval=document.difference_interval(metric, comparison),
        verdict=document.verdict(comparison),
        queries_needed=document.queries_needed(comparison),
        significant=bool(comparison.significant),
        counts=(comparison.higher, comparison.lower, comparison.equal),
        test=comparison.test,
    )


def table_notes(summary: RunSummary, dataset: DatasetSummary, columns: Sequence[Column]) -> tuple[str, ...]:
    """What a reader must know of the figures of some columns, each a sentence."""
    figures = [
        (c, e) for c in columns for selector in dataset.selectors if (e := selector.estimates.get(c.key)) and e.n
    ]
    is_counted = any("item_tokens" in c.metric.declaration.needs for c in columns)
    loose = f"{document.LOOSE} behind an interval: there are too few queries, or too few that differ, to rely on it."
    return (
        *([f"Prompt tokens are counted by {summary.manifest['tokens']}."] if is_counted else []),
        *_sizes(columns, figures),
        *_methods(figures),
        *([loose] if _any_loose(dataset, figures) else []),
        *_comparison_note(dataset),
        *label_notes(summary.manifest),
        *_counted_queries(summary, dataset),
        *_worst_scopes(dataset),
        *_forbidden(dataset),
        *reason_notes(dataset, columns),
        *failure_notes(dataset),
        *(
            f"{document.named(selector.selector)}: {', '.join(note_text(*note) for note in selector.notes.items())}."
            for selector in dataset.selectors
            if selector.notes
        ),
    )


def label_notes(manifest: Mapping[str, Any]) -> list[str]:
    """How labels are judged, if not as usual, and the selectors that may have been fitted on some of them."""
    seen = [name for name in manifest["selectors"] if _scored_on_seen(manifest, name)]
    return [*judged_note(manifest), *([f"{', '.join(map(document.named, seen))}: {SEEN}."] if seen else [])]


def judged_note(manifest: Mapping[str, Any]) -> list[str]:
    """That labels are judged as trec_eval does; empty where they are judged as usual."""
    text = (
        "Labels are judged as trec_eval does: every item of grade 1 or 2 is required, also in place of its "
        "alternatives, and an item without a label is irrelevant."
    )
    return [text] if manifest["experiment"].get("judged") else []


def _counted_queries(summary: RunSummary, dataset: DatasetSummary) -> Iterator[str]:
    """The queries that count only in part, that are left out, or that were drawn with unequal chances."""
    folder = str(summary.manifest.get("datasets", {}).get(dataset.dataset, {}).get("reference", ""))
    see = shlex.join(["ctxbench", "data", "label", folder, "--minutes", "0"])
    notes = (
        (
            dataset.only_negatives,
            "without full labels count for forbidden items alone: what else they need is not known.",
        ),
        (dataset.unlabelled, "without full labels left out: what they need is not known, or not all of it."),
        (
            dataset.drawn,
            (
                "of these were drawn by a label queue, with unequal chances: these are not the figures of all "
                f"requests, see `{see}`."
            ),
        ),
    )
    yield from (f"{count(n, 'query', 'queries')} {text}" for n, text in notes if n)


def _any_loose(dataset: DatasetSummary, figures: Sequence[tuple[Column, Estimate]]) -> bool:
    """Whether an interval that does not hold is shown, of a mean or of a difference."""
    texts = [document.estimate_interval(column.metric, estimate) for column, estimate in figures if column.interval]
    against = [pair for selector in dataset.selectors for pair in selector.against.items()]
    texts += [document.difference_interval(parse_metric(name), comparison) for name, comparison in against]
    return any(text.endswith(document.LOOSE) for text in texts)


def _sizes(columns: Sequence[Column], figures: Sequence[tuple[Column, Estimate]]) -> list[str]:
    """The number of queries of each mean; empty without columns."""
    sizes_of = ((sorted({estimate.n for c, estimate in figures if c is column}), column.title) for column in columns)
    by_size = group_pairs((tuple(sizes), title) for sizes, title in sizes_of if sizes)
    spans = {sizes: " to ".join(f"{n:,}" for n in dict.fromkeys((sizes[0], sizes[-1]))) for sizes in by_size}
    texts = [
        spans[sizes] if len(by_size) == 1 else f"{spans[sizes]} for {document.listed(titles)}"
        for sizes, titles in by_size.items()
    ]
    return [f"{document.SIZE_WORDS}, {'; '.join(texts)}."] if texts else []


def size_notes(summary: RunSummary, metrics: Collection[str]) -> Iterator[str]:
    """How many queries the means of some metrics are over, where not all: a sentence for each dataset."""
    for dataset in summary.datasets:
        sizes = {
            metric: sorted({row.estimates[metric].n for row in dataset.selectors if metric in row.estimates})
            for metric in metrics
        }
        by_size = group_pairs((tuple(n), metric) for metric, n in sizes.items() if n and n[0] < dataset.queries)
        texts = [
            f"{' to '.join(f'{n:,}' for n in dict.fromkeys((sizes[0], sizes[-1])))} of {dataset.queries:,} for "
            f"{document.listed(names)}"
            for sizes, names in by_size.items()
        ]
        name = f" of {dataset.dataset}" if len(summary.datasets) > 1 else ""
        if texts:
            yield f"Means are over the queries{name} that a metric applies to: {'; '.join(texts)}."


def _methods(figures: Sequence[tuple[Column, Estimate]]) -> list[str]:
    """Which intervals are shown, and how they were made."""
    methods: dict[str, dict[str, None]] = {}
    levels = set()
    for column, estimate in figures:
        if column.interval and document.estimate_interval(column.metric, estimate):
            methods.setdefault(estimate.interval.method, {})[column.title] = None
            levels.add(f"{estimate.interval.level:.0%}")
    if not (texts := [f"{method} for {document.listed(list(titles))}" for method, titles in methods.items()]):
        return []
    level = document.listed(sorted(levels))
    text = f"Intervals behind values are of {level}: where the mean over many more such queries most likely lies."
    return [f"{text} (Methods: {'; '.join(texts)}.)"]


def _comparison_note(dataset: DatasetSummary) -> list[str]:
    comparisons = [comparison for selector in dataset.selectors for comparison in selector.against.values()]
    if not comparisons:
        return []
    tests = document.listed(sorted({comparison.test for comparison in comparisons}))
    note = f"{document.P_WORDS}; up to {max(comparison.alpha for comparison in comparisons):g} counts."
    methods = f"query by query, {tests}"
    if len(comparisons) > 1:
        note += f" {document.RAISED}"
        methods += f"; Holm's correction for {len(comparisons)} comparisons"
    return [f"{note} (Methods: {methods}.)"]


def reason_notes(dataset: DatasetSummary, columns: Sequence[Column]) -> list[str]:
    """Why figures are missing, one line per reason."""
    reasons = (
        (selector, group_pairs((why, column.title) for column in columns if (why := _cell(selector, column).why)))
        for selector in dataset.selectors
    )
    missing = group_pairs(
        ((why, document.listed(titles)), document.named(selector.selector))
        for selector, titles_by_reason in reasons
        for why, titles in titles_by_reason.items()
    )
    return [f"{document.NONE} {titles} of {document.listed(names)}: {why}." for (why, titles), names in missing.items()]


def _worst_scopes(dataset: DatasetSummary) -> list[str]:
    metric = parse_metric(HEADLINE[0])
    texts = [
        f"{document.named(selector.selector)} {document.named(selector.worst_scope.group)} "
        f"{document.number(metric, selector.worst_scope.mean.value)}% (n = {selector.worst_scope.mean.n:,})"
        for selector in dataset.selectors
        if selector.worst_scope is not None
    ]
    return [f"Worst scope by completeness: {'; '.join(texts)}."] if texts else []


_MOST_FORBIDDEN = 3  # items that are named of each selector


def _forbidden(dataset: DatasetSummary) -> list[str]:
    """The forbidden items that selectors offered most often, in a sentence."""
    items = {
        selector.selector: [f"{document.named(item)} ({n:,})" for item, n in selector.forbidden.items()]
        for selector in dataset.selectors
        if selector.forbidden
    }
    texts = [f"{document.named(name)} {first_few(named, _MOST_FORBIDDEN)}" for name, named in items.items()]
    return [f"Forbidden items offered most often (queries): {'; '.join(texts)}."] if texts else []


def failure_notes(dataset: DatasetSummary) -> list[str]:
    """The selectors that failed on queries, each in a sentence."""
    return [
        f"{document.named(selector.selector)} failed on {selector.errors:,} "
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
        return f"{_LISTS[name]} {document.listed([document.named(str(entry)) for entry in value])}"
    if name == "index_recall":
        share, low, high = (document.recall(value[key]) for key in ("value", "low", "high"))
        sample = f"against exact search on {count(value['n'], 'query', 'queries')}"
        return f"its approximate index ({value['index']}) has recall@{value['k']} {share} ({low} to {high}), {sample}"
    if name in _NOTES and isinstance(value, int):
        words = _NOTES[name]
        first = words.split(" ", 1)[0]
        singular = {"queries": "query", "answers": "answer", "items": "item", "times": "time"}[first]
        return f"{value:,} {words if value != 1 else words.replace(first, singular, 1)}"
    return f"{name} {value}"


_BOUNDS = ("oracle", "everything", "random")  # what others lie between: nobody's choice
_CLOSE = 0.05 + 1e-9  # what is further below the best is not called as complete, however few queries there are
COMPLETENESS, TOKENS = parse_metric("completeness"), parse_metric("tokens")
_UNITS = ("tokens", "tokens in all")  # the second where sessions hold items, as in the column of the table


def run_answer(summary: RunSummary, *only: DatasetSummary) -> str:
    """The sentence that a report begins with: which selector to choose, what it offers, at what price.

    See `winner` for the choice. It is compared with the baseline of the run, the baseline with the most complete other
    selector. Over several datasets the one that wins on most of them is chosen.

    Args:
        summary: of the run.
        only: the datasets that the sentence is about; without any, all.
    """
    datasets, base = only or summary.datasets, summary.compare_to
    if not (winners := [name for dataset in datasets if (name := winner(dataset, base))]):
        return _alone(datasets)
    chosen, n_won = Counter(winners).most_common(1)[0]
    rival = base if chosen != base else _rival(datasets)
    pairs = [pair for dataset in datasets if (pair := _pair(dataset, chosen, rival, base)) is not None]
    complete, tokens = [pair[0] for pair in pairs], [pair[1] for pair in pairs if pair[1] is not None]
    names = (document.named(chosen), document.named(rival))
    held = any(document.session_tokens(row.estimates) for dataset in datasets for row in dataset.selectors)
    sentence = f"{document.winner_sentence(*names, complete, tokens, unit=_UNITS[held])}."
    if len(datasets) == 1:
        return f"{sentence}{_failed(datasets[0], (chosen, rival))}"
    return f"Best on {n_won:,} of {len(datasets):,} datasets: {sentence}"


def winner(dataset: DatasetSummary, base: str) -> str:
    """The selector to choose on a dataset: of the most complete ones the one with the fewest prompt tokens.

    As complete as the best is what the run's baseline shows: a selector whose difference from the baseline lies in the
    interval of the best selector's difference, at most 5 points below it, unless it is significantly less complete than
    the baseline. `oracle`, `everything` and `random` are nobody's choice. Empty where nothing was compared.
    """
    if not (compared := {name: row for name, row in _comparisons(dataset).items() if not _is_bound(name)}):
        return ""
    gains = {name: complete.difference for name, (complete, _) in compared.items()}
    costs = {name: tokens.difference if tokens else 0.0 for name, (_, tokens) in compared.items()}
    alike = {name for name, (complete, _) in compared.items() if not complete.significant or complete.difference > 0}
    if not _is_bound(base):
        gains, costs, alike = {base: 0.0, **gains}, {base: 0.0, **costs}, {base, *alike}
    best = max(gains, key=lambda name: gains[name])
    threshold = max(gains[best] - _CLOSE, compared[best][0].interval.low if best != base else -_CLOSE)
    wins = [
        name
        for name in gains
        if name == best
        or (name in alike and gains[name] >= threshold and not (name == base and compared[best][0].significant))
    ]
    return min(wins, key=lambda name: (costs[name], -gains[name]))


def _is_bound(name: str) -> bool:
    return name.partition("/")[0] in _BOUNDS


def _comparisons(dataset: DatasetSummary) -> dict[str, tuple[Comparison, Comparison | None]]:
    """By selector, its completeness and its tokens compared with the baseline of the run."""
    rows = {selector.selector: selector.against for selector in dataset.selectors}
    measured = {name: row for name, row in rows.items() if str(COMPLETENESS) in row and row[str(COMPLETENESS)].n}
    return {name: (row[str(COMPLETENESS)], row.get(str(TOKENS))) for name, row in measured.items()}


def _rival(datasets: Sequence[DatasetSummary]) -> str:
    """The selector to compare a winning baseline with: the most complete one, which is no bound."""
    gains = [(c.difference, name) for d in datasets for name, (c, _) in _comparisons(d).items() if not _is_bound(name)]
    return max(gains, key=lambda entry: entry[0])[1]


def _pair(
    dataset: DatasetSummary, chosen: str, rival: str, base: str
) -> tuple[document.Means, document.Means | None] | None:
    """Completeness and tokens of the chosen selector and of its rival, one of which is the baseline."""
    if (row := _comparisons(dataset).get(rival if chosen == base else chosen)) is None:
        return None
    complete, tokens = (document.Means.of(comparison) for comparison in row)
    if chosen == base:
        complete, tokens = complete and complete.swapped, tokens and tokens.swapped
    if tokens is not None:
        held = {row.selector: document.session_tokens(row.estimates) for row in dataset.selectors}
        tokens = replace(tokens, value=tokens.value + held[chosen], compared=tokens.compared + held[rival])
    return None if complete is None else (complete, tokens)


def _failed(dataset: DatasetSummary, names: Sequence[str]) -> str:
    """That a selector of the sentence failed on queries."""
    rows = [selector for selector in dataset.selectors if selector.selector in names and selector.errors]
    texts = [f"{document.named(row.selector)} failed on {row.errors:,} of {row.queries:,} queries" for row in rows]
    return "".join(f" {text}." for text in texts)


def _alone(datasets: Sequence[DatasetSummary]) -> str:
    """The sentence of a run in which nothing was compared."""
    rows = [selector for dataset in datasets for selector in dataset.selectors]
    figures = [(row, row.estimates.get(str(COMPLETENESS)), row.estimates.get(str(TOKENS))) for row in rows]
    measured = [(row, complete, tokens) for row, complete, tokens in figures if complete and complete.n]
    if len(measured) != 1:
        reason = (
            "nothing but oracle, everything and random was compared with the baseline"
            if measured
            else "completeness is not known without labels"
        )
        return f"No winner: {reason}."
    ((row, complete, tokens),) = measured
    share = document.with_unit(COMPLETENESS, complete.value)
    held = document.session_tokens(row.estimates)
    cost = document.with_unit(TOKENS, tokens.value + held) if tokens else ""
    price = f" at {cost} {_UNITS[held > 0]}" if cost else "; tokens were not measured"
    return f"{document.named(row.selector)} offers all that is needed for {share} of requests{price}."


def glance(summary: RunSummary) -> Iterator[tuple[str, ...]]:
    """A table of several datasets: a heading, then for each dataset completeness and tokens of every selector."""
    names = list(summary.manifest["selectors"])
    yield ("dataset", *names)
    for dataset in summary.datasets:
        estimates = {selector.selector: selector.estimates for selector in dataset.selectors}
        cells = [
            [document.number(metric, estimates[name][str(metric)].value) for metric in (COMPLETENESS, TOKENS)]
            if name in estimates and {"completeness", "tokens"} <= estimates[name].keys()
            else [document.NONE]
            for name in names
        ]
        yield (dataset.dataset, *(" / ".join(cell) for cell in cells))
