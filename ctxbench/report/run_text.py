"""A run on the console, as Markdown and as CSV; its tables for papers; latency on the console."""

from __future__ import annotations

import csv
import html
import io
import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise, product
from typing import IO, TYPE_CHECKING, Any

from rich import box
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ctxbench.datasets.dataset import Dataset
from ctxbench.evaluation.latency import GROWTH_BATCH, Growth, Quantiles
from ctxbench.evaluation.metrics import Metric
from ctxbench.evaluation.run_folder import HEADLINE, DatasetSummary, RunSummary
from ctxbench.evaluation.statistics import RESAMPLES, Comparison, Estimate
from ctxbench.io.console import is_plain, show_tables
from ctxbench.io.errors import count, one_line
from ctxbench.model.registry import pipelines_in
from ctxbench.model.resources import EMBEDDER, kind_of
from ctxbench.model.strategies import built_step
from ctxbench.report import document
from ctxbench.report.document import Quoted, escaped, inline, paragraph, printable
from ctxbench.report.run_tables import (
    Column,
    ComparisonTable,
    SelectorRow,
    about_selector,
    column_words,
    comparison_table,
    failure_notes,
    glance,
    judged_note,
    label_notes,
    note_text,
    run_answer,
    selector_titles,
    size_notes,
    table_notes,
    with_titles,
)

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from ctxbench.search.words import WordRule


def empty_table() -> Table:
    """A table without columns, ruled below its headings only."""
    return Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim", show_edge=False)


def dim_notes(notes: Iterable[str], *, plain: bool = False) -> list[RenderableType]:
    """Notes below a table, each a paragraph; without signs that the terminal lacks where it is plain."""
    return [Padding(Text(printable(note, plain), style="dim"), (0, 0, 0, 2)) for note in notes]


_WIDE = 110  # from here on a comparison takes one line
_DROPPED_FIRST = ("Comp@1", "Comp@20", "same_server_confusions", "Comp", "items")  # where the terminal is narrow
_BASELINE = "(baseline)"
_NAME = 15  # columns that names of selectors have, however narrow it is
_OUTSIDE = "What a selector offers is measured; what the model then calls is not."


def print_summary(summary: RunSummary, file: IO[str] | None = None, *, width: int | None = None) -> None:
    """Print the tables of a run, all at once: a reader that leaves is for the caller to deal with.

    Args:
        summary: of the run.
        file: standard output if None.
        width: columns; None asks the terminal (80 where there is none).
    """
    show_tables(lambda console: console_tables(summary, console=console), file=file, width=width)


def console_tables(summary: RunSummary, *, console: Console) -> list[RenderableType]:
    """What `print_summary` prints: the answer, for each dataset its tables and notes, then the notes common to all.

    Args:
        summary: of the run.
        console: where it is going. Columns that do not fit its width go to further tables where the user named the
            metrics; of the usual ones they are left out and named. Where its encoding is not Unicode, signs are plain.
    """
    plain = is_plain(console.encoding)
    summary = with_titles(summary)
    tables, dropped = [], []
    for dataset in summary.datasets:
        table, hidden = comparison_table(summary, dataset), []
        if not summary.metrics_named:
            columns = _fitting(table, _DROPPED_FIRST, console)
            hidden = [column for column in table.columns if column not in columns]
            notes = table_notes(summary, dataset, columns) if hidden else table.notes
            table = replace(table, columns=tuple(columns), notes=notes)
        tables.append(table)
        dropped.append(hidden)
    common = [note for note in tables[0].notes if all(note in table.notes for table in tables)] if tables else []
    parts: list[RenderableType] = []
    printed: dict[tuple[str, Metric], None] = {}
    for table, hidden in zip(tables, dropped, strict=True):
        parts += _dataset(table, hidden, console=console, common=set(common))
        in_all = [column for column in hidden if str(column.metric) == "total_tokens"]  # which the answer counts
        printed |= {(column.title, column.metric): None for column in (*table.columns, *in_all)}
    words = column_words(printed)
    answer = Text(printable(run_answer(summary), plain), style="bold")
    return [answer, Text(), *parts, *dim_notes([*([words] if words else []), *common, _OUTSIDE], plain=plain)]


def _dataset(
    table: ComparisonTable, dropped: Sequence[Column], *, console: Console, common: set[str]
) -> list[RenderableType]:
    plain = is_plain(console.encoding)
    heading, answer = Text(printable(table.heading, plain), style="bold"), Text(printable(table.answer, plain))
    parts: list[RenderableType] = [heading, *([answer, Text()] if table.answer else [])]
    columns = _fitting(table, (), console)
    parts.append(_console_figures(table, columns, plain))
    while rest := table.columns[len(columns) :]:
        further = _fitting(replace(table, columns=rest), (), console)
        parts += [Text(), _console_figures(table, further, plain, errors=False)]
        columns += further
    if table.compared:
        against = printable(f"Against {table.base} {_BASELINE}, on the same queries", plain)
        parts += [Text(), Text(against, style="bold"), _console_differences(table, plain, console.width)]
    notes = [note for note in table.notes if note not in common]
    if dropped:
        titles = document.listed([column.title for column in dropped])
        notes.append(f"Left out at this width, and on the page: {titles}.")
    return [*parts, Text(), *dim_notes(notes, plain=plain), *([Text()] if notes else [])]


def _fitting(table: ComparisonTable, dropped_first: Sequence[str], console: Console) -> list[Column]:
    """The columns that fit the width after the names, at least one; names are broken before a headline is dropped.

    Args:
        table: all of its columns.
        dropped_first: names of metrics whose columns go first; then those at the end.
        console: whose width it is.
    """
    columns = list(table.columns)
    order = [column for name in dropped_first for column in columns if name in (column.key, column.metric.name)]
    headline = [column for column in columns if column.metric.name in HEADLINE]
    for column in dict.fromkeys([*order, *columns[:0:-1]]):
        if _width(table, columns, console, broken=column in headline) <= console.width:
            break
        columns.remove(column)
    return columns


def _width(table: ComparisonTable, columns: Sequence[Column], console: Console, *, broken: bool) -> int:
    """The width of a table with the mark of the baseline on a separate line; `broken`: names are broken, too."""
    figures = _console_figures(table, columns, is_plain(console.encoding), marked=False)
    if broken:
        figures.columns[0].width = figures.columns[0].min_width
    return Measurement.get(console, console.options.update(width=10_000), figures).maximum


def _console_figures(
    table: ComparisonTable, columns: Sequence[Column], plain: bool, *, marked: bool = True, errors: bool = True
) -> Table:
    """The table of some columns.

    Args:
        table: whose rows.
        columns: which.
        plain: whether signs must be plain.
        marked: whether the baseline is marked.
        errors: with the number of failed queries, where there are any.
    """
    figures = empty_table()
    # names are broken where it is narrow, but never left out; the mark is not broken
    longest = max((len(row.selector) for row in table.rows), default=0)
    mark = max((len(_BASELINE) for row in table.rows if row.is_base), default=0)
    figures.add_column("selector", overflow="fold", min_width=max(min(longest, _NAME), mark))
    for column in columns:
        figures.add_column(
            _heading(column),
            justify="left" if column.interval else "right",
            no_wrap=len(columns) > 1,  # a column that stands alone is broken, never cut
        )
    errors = errors and any(row.errors for row in table.rows)
    if errors:
        figures.add_column("errors", justify="right", style="bold red")
    for row in table.rows:
        cells = [_text(f"{row.selector} {_BASELINE}" if row.is_base and marked else row.selector, plain)]
        cells += [_figure(table, row, column, plain) for column in columns]
        if errors:
            cells.append(_text(f"{row.errors:,}", plain))
        figures.add_row(*cells, style="bold" if row.is_base else "")
    return figures


def _figure(table: ComparisonTable, row: SelectorRow, column: Column, plain: bool) -> Text:
    """A value and its interval; values are right-aligned in their column."""
    cell = row.cells[column.key]
    if not column.interval:
        return _text(cell.value, plain)
    width = max(len(peer.cells[column.key].value) for peer in table.rows)
    text = _text(cell.value.rjust(width), plain)
    text.append(f"  {printable(cell.interval, plain)}" if cell.interval else "", style="not bold dim")
    return text


def _console_differences(table: ComparisonTable, plain: bool, width: int) -> Table:
    differences, stacked = empty_table(), width < _WIDE
    differences.add_column("selector", overflow="fold", min_width=min(_NAME, width // 4))
    for metric in table.compared:
        title = "completeness, points" if metric.name == "completeness" else f"prompt {document.points(metric)}"
        differences.add_column(title, overflow="fold")
    for row in table.rows:
        if row.is_base:
            continue
        cells = [_text(row.selector, plain)]
        for metric in table.compared:
            difference = row.differences.get(str(metric))
            lines = [document.NONE]
            if difference is not None:
                lines = [f"{difference.value}  ({difference.interval})", difference.verdict, difference.queries_needed]
            cells.append(Text("\n" if stacked else "  ").join([_text(line, plain) for line in lines if line]))
        differences.add_row(*cells)
    return differences


def _heading(column: Column) -> str:
    """A heading in short lines, with `%` for shares."""
    words = column.title.replace("empty when none needed", "empty when\nnone needed")
    for two_lines in ("same-server confusions", "forbidden offered"):
        words = words.replace(two_lines, two_lines.replace(" ", "\n"))
    return f"{words} %" if column.unit == "%" else words


def _text(cell: str, plain: bool) -> Text:
    """A cell as text."""
    return Text(printable(cell, plain))


_TEXT_OF = "`name: description`, for what is no tool with its text"


def markdown_report(summary: RunSummary, datasets: Mapping[str, Dataset]) -> str:
    """Make the report; the same run gives the same text.

    Args:
        summary: of the run.
        datasets: those that were run, by name.
    """
    summary = with_titles(summary)
    experiment = summary.manifest["experiment"]
    metrics = dict.fromkeys(metric for dataset in summary.datasets for metric in summary.metrics(dataset))
    has_glance = len(summary.datasets) > 1 and {"completeness", "tokens"} <= set(experiment["metrics"])
    head, *rows = glance(summary)
    lines = [
        *(f"# {inline(experiment['name'])}", "", f"**{inline(run_answer(summary))}**", ""),
        *(["Complete % / prompt tokens:", "", *_table(head, rows), ""] if has_glance else []),
        *([paragraph(experiment["about"]), ""] if experiment["about"] else []),
        *(*_common(summary.manifest, metrics), ""),
    ]
    for dataset in summary.datasets:
        table = comparison_table(summary, dataset, every_metric=True)
        lines += [
            *(f"## {inline(table.heading)}", "", *([paragraph(table.answer), ""] if table.answer else [])),
            *(*_about(dataset, datasets[dataset.dataset]), ""),
            *(*_markdown_figures(table), "", *_markdown_differences(table)),
            *(*(f"* {paragraph(note)}" for note in table.notes), ""),
        ]
    return "\n".join(lines).rstrip("\n") + "\n"


def _common(manifest: Mapping[str, Any], metrics: Iterable[Metric]) -> Iterator[str]:
    """What holds for all figures."""
    steps = [step for pipeline in pipelines_in(manifest["selectors"]) for step in pipeline.steps()]
    yield f"* Item text, which pipelines search: {_TEXT_OF}."
    yield f"* Prompt tokens are those of {inline(Quoted(manifest['tokens']))}."
    rules = ((built_step(step).declared("word_rule"), step) for step in steps if step.kind == "retrieve")
    for words in dict.fromkeys(
        _words(rule, bool(step.values.get("server"))) for rule, step in rules if rule is not None
    ):
        yield f"* Words of BM25: {words}."
    used = _embedders(manifest["selectors"])
    if EMBEDDER in used:
        model = manifest["embedder"]
        yield f"* Embeddings: {inline(', '.join(f'{name} {value}' for name, value in model.items()))}."
    yield from (
        f"* Embeddings of steps that name an embedder: {inline(Quoted(name.partition(':')[2]))}."
        for name in sorted(used - {EMBEDDER})
    )
    yield f"* Split: {inline(manifest['experiment'].get('split') or 'all queries, tuning and test together')}."
    if sample := manifest["experiment"].get("sample"):
        drawn = f"groups whole, drawn by hash with seed {manifest['experiment']['seed']}"
        yield f"* Sample: at most {sample:,} queries a dataset, {drawn}; the headings say how many of how many."
    yield "* Values are means over queries with their 95% intervals; what the model then calls is not measured."
    yield from (f"* {note}" for note in judged_note(manifest))
    yield f"* Columns. {escaped(column_words((str(metric), metric) for metric in metrics))}"
    for name in manifest["selectors"]:
        about, values = about_selector(manifest, name)
        yield f"* {inline(Quoted(document.named(name)))}: {inline(f'{about} ({values})' if values else about)}."


def run_facts(manifest: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Versions, hashes and settings of a run by section: run, datasets, embedder and versions."""
    experiment = manifest["experiment"]
    sample = experiment.get("sample")
    return {
        "run": {
            "token counter": manifest["tokens"],
            "split": experiment.get("split") or "all queries",
            "sample": f"at most {int(sample):,} queries a dataset" if sample else "none: every query",
            "seed": experiment["seed"],
            **({"labels judged as": "trec_eval does"} if experiment.get("judged") else {}),
            "commit": manifest.get("git") or "not known",
            "format of the run folder": manifest.get("format", ""),
        },
        "datasets": {
            name: f"{about.get('name', name)} {about.get('version', '')}, "
            f"{count(about['queries'], 'query', 'queries')}, sha256 {about.get('hash', 'not known')}"
            for name, about in manifest["datasets"].items()
        },
        **{section: dict(manifest.get(section) or {}) for section in ("embedder", "versions")},
    }


class Provenance(dict[str, dict[str, Any]]):
    """What an appendix says of a run, by section: names and values.

    The sections are `run`, `datasets`, `embedder`, `versions`, `selectors`, `statistics` and `machine`. As text it is a
    table in Markdown.

    Args:
        summary: of the run.
        tests: by metric, the test of the comparisons with the baseline.
        timings: of the run folder; empty where they are lost.
    """

    def __init__(self, summary: RunSummary, tests: Mapping[str, str], timings: Mapping[str, Any]) -> None:
        manifest, facts = summary.manifest, run_facts(summary.manifest)
        rows = [row for dataset in summary.datasets for row in dataset.selectors]
        used = [
            *((f"test: {test}", metric) for metric, test in tests.items()),
            *(
                (f"{estimate.interval.level:.0%} interval: {estimate.interval.method}", metric)
                for row in rows
                for metric, estimate in row.estimates.items()
                if estimate.n
            ),
        ]
        methods = {
            method: ", ".join(dict.fromkeys(metric for name, metric in used if name == method)) for method, _ in used
        }
        run = {
            "experiment": manifest["experiment"]["name"],
            "date": timings.get("date", "not known"),
            "baseline": summary.compare_to,
        }
        super().__init__(
            facts,
            run={**run, **facts["run"]},
            selectors={name: "; ".join(filter(None, about_selector(manifest, name))) for name in manifest["selectors"]},
            statistics={
                **methods,
                "correction of p": "Holm",
                "sign flips": f"{RESAMPLES:,}, or all where there are few",
            },
            machine={name: value for name, value in timings.get("machine", {}).items() if name != "load"},
        )

    def to_markdown(self) -> str:
        """A table with one row per value."""
        rows = [("section", "name", "value"), ("---",) * 3, *self._rows(escaped)]
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)

    def to_latex(self) -> str:
        """The same table; it needs the package `booktabs`."""
        rows = map(_latex_row, [("section", "name", "value"), *self._rows(_latex)])
        lines = [r"\begin{tabular}{llp{0.6\linewidth}}", r"\toprule", next(rows), r"\midrule", *rows, r"\bottomrule"]
        text = "\n".join([*lines, r"\end{tabular}", ""])
        return re.sub(r"([0-9a-f]{16})(?=[0-9a-f])", r"\1\\allowbreak ", text)  # no hash is wider than its column

    def _rows(self, escape: Callable[[str], str]) -> list[tuple[str, str, str]]:
        return [
            (section, escape(name), escape(str(value)))
            for section, values in self.items()
            for name, value in values.items()
        ]

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td>{'</td><td>'.join(row)}</td></tr>" for row in self._rows(html.escape))
        return f"<table>{rows}</table>"

    def __repr__(self) -> str:
        return self.to_markdown()


def _embedders(described: Any) -> set[str]:
    """The embedders among the resources that selectors say they use, at any depth."""
    if isinstance(described, Mapping):
        identities = described.get("identities")
        named = {name for name in identities if kind_of(name) == EMBEDDER} if isinstance(identities, Mapping) else set()
        return named.union(*map(_embedders, described.values()))
    return set().union(*map(_embedders, described)) if isinstance(described, list) else set()


def _words(rule: WordRule, with_server: bool) -> str:
    """Which words of a text count in a lexical step."""
    identifiers = ", identifiers by their parts" if rule.split else ""
    left_out = "common English words and single characters left out" if rule.stop else "nothing left out"
    stemmed = "English endings taken off" if rule.stem else "nothing stemmed"
    server = "; a tool's server is searched, too" if with_server else ""
    return f"runs of letters and digits, case-folded{identifiers}; {stemmed}, {left_out}{server}"


def _about(summary: DatasetSummary, dataset: Dataset) -> Iterator[str]:
    """A dataset in words: its version, its queries, and how it was labelled."""
    counts = dataset.counts
    yield f"* Version {inline(dataset.version)}, content `{dataset.hash[:12]}`."
    splits = ", ".join(f"{name} {n:,}" for name, n in counts["splits"].items())
    none = f"; {counts['needs_nothing']:,} need nothing" if counts["needs_nothing"] else ""
    partly = f"; of {summary.only_negatives:,} only forbidden items are measured" * bool(summary.only_negatives)
    left = f"; {count(summary.unlabelled, 'query', 'queries')} without full labels left out" * bool(summary.unlabelled)
    needs = f"Requirements: {sum(map(len, dataset.judged().required.values())):,}, alternatives counted once"
    yield f"* Queries: {splits}{none}{partly}{left}. {needs}."
    yield f"* Labels: {inline(str(dataset.about.get('labelling', '')))}"
    yield from (f"  * {paragraph(note)}" for note in _texts(dataset.about.get("notes")))


def _texts(notes: Any) -> Iterable[str]:
    """Notes of any shape as sentences."""
    if isinstance(notes, Mapping):
        return [f"{name}: {_flat(value)}" for name, value in notes.items()]
    if isinstance(notes, list):
        return [_flat(note) for note in notes]
    return [] if notes in (None, "") else [str(notes)]


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_flat(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        texts = [_flat(inner) for inner in value]
        return (" " if all(text.endswith(".") for text in texts) else ", ").join(texts)
    return str(value)


def _markdown_figures(table: ComparisonTable) -> list[str]:
    """One row a selector, one column a metric, the interval behind each value."""
    titles = [f"{column.title}{' %' if column.unit == '%' else ''}" for column in table.columns]
    cells = [[row.cells[column.key] for column in table.columns] for row in table.rows]
    texts = [[f"{cell.value} ({cell.interval})" if cell.interval else cell.value for cell in row] for row in cells]
    rows = [[row.selector, *cells] for row, cells in zip(table.rows, texts, strict=True)]
    return _table(["selector", *titles], rows, bold=[row.selector for row in table.rows if row.is_base])


def _markdown_differences(table: ComparisonTable) -> list[str]:
    if not table.compared:
        return []
    titles = [f"{metric.name}, points" if document.unit(metric) == "%" else metric.name for metric in table.compared]
    differences = {
        row.selector: [row.differences.get(str(metric)) for metric in table.compared]
        for row in table.rows
        if not row.is_base
    }
    rows = [
        [name, *(f"{d.value} ({d.interval}), {d.verdict}" if d else document.NONE for d in cells)]
        for name, cells in differences.items()
    ]
    lines = _table(["selector", *titles], rows, rule="---")
    return [f"Against **{inline(table.base)}**, on the same queries:", "", *lines, ""]


def _table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, rule: str = "---:", bold: Collection[str] = ()
) -> list[str]:
    """A table; `rule` aligns all columns but the first, and a first cell in `bold` is bold."""
    lines = [map(escaped, head), ["---", *(rule for _ in head[1:])]]
    lines += [[f"**{inline(name)}**" if name in bold else inline(name), *map(inline, cells)] for name, *cells in rows]
    return [f"| {' | '.join(line)} |" for line in lines]


@dataclass(frozen=True, slots=True)
class Figure:
    """A mean in a table for a paper.

    Attributes:
        value: as text; `-` without one.
        interval: as text, or empty.
        star: whether it differs significantly from that of the baseline.
        bold: whether no other value of its column is better.
    """

    value: str
    interval: str
    star: bool
    bold: bool


@dataclass(frozen=True, kw_only=True)
class FigureTable:
    """A table for a paper: a row per selector, a column per dataset and metric.

    Attributes:
        groups: by dataset, how many columns it has; a table of one dataset does not show them.
        heads: of the columns.
        rows: by selector, one figure per column.
        notes: what its marks mean, each a sentence.
    """

    groups: Mapping[str, int]
    heads: tuple[str, ...]
    rows: Mapping[str, tuple[Figure, ...]]
    notes: tuple[str, ...]

    def latex(self, *, caption: str | None = None, label: str | None = None) -> str:
        """The table as the package booktabs sets it, with its notes below; a float if it has a caption or a label."""
        cells = {name: [_latex_figure(figure) for figure in figures] for name, figures in self.rows.items()}
        lines = [_latex_row(["selector", *map(_latex, self.heads)]), r"\midrule"]
        lines += [_latex_row([_latex(name), *figures]) for name, figures in cells.items()]
        if len(self.groups) > 1:
            ends = list(accumulate(self.groups.values(), initial=1))
            rules = [f"\\cmidrule(lr){{{first + 1}-{last}}}" for first, last in pairwise(ends)]
            groups = [f"\\multicolumn{{{n}}}{{c}}{{{_latex(name)}}}" for name, n in self.groups.items()]
            lines = [_latex_row(["", *groups]), " ".join(rules), *lines]
        table = [
            f"\\begin{{tabular}}{{l{'r' * len(self.heads)}}}",
            r"\toprule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
        ]
        if self.notes:
            table.append(f"\\par\\smallskip{{\\footnotesize {_latex(' '.join(self.notes))}\\par}}")
        if caption is not None or label is not None:
            named = [f"\\{key}{{{text}}}" for key, text in (("caption", caption), ("label", label)) if text is not None]
            table = [r"\begin{table}", r"\centering", *named, *table, r"\end{table}"]
        return "\n".join([*table, ""])

    def markdown(self) -> str:
        """The table as GitHub shows it, with its notes below."""
        datasets = [f"{name}: " if len(self.groups) > 1 else "" for name, n in self.groups.items() for _ in range(n)]
        heads = ["selector", *(f"{dataset}{head}" for dataset, head in zip(datasets, self.heads, strict=True))]
        lines = [map(escaped, heads), ["---", *("---:" for _ in self.heads)]]
        lines += [[inline(name), *map(_markdown_figure, figures)] for name, figures in self.rows.items()]
        notes = [f"\n{escaped(' '.join(self.notes))}"] if self.notes else []
        return "\n".join([*(f"| {' | '.join(line)} |" for line in lines), *notes, ""])


def figure_table(
    summary: RunSummary,
    metrics: Sequence[Metric],
    comparisons: Mapping[tuple[str, str, str], Comparison],
    *,
    base: str,
    bold: bool,
    intervals: bool,
) -> FigureTable:
    """Make a table for a paper.

    Args:
        summary: of the run.
        metrics: of the columns, the same for each dataset.
        comparisons: by dataset, selector and metric, with `base`; corrected together. Empty: no stars.
        base: the baseline.
        bold: whether the best values of a column are bold; values that look the same are equally good.
        intervals: whether intervals are shown.
    """
    titles, rows = selector_titles(summary.manifest), defaultdict[str, list[Figure]](list)
    for dataset, metric in product(summary.datasets, metrics):
        name, estimates = str(metric), {row.selector: row.estimates.get(str(metric)) for row in dataset.selectors}
        values = [estimate.value for estimate in estimates.values() if estimate is not None and estimate.n]
        best = (max if metric.declaration.better == "higher" else min)(values, default=math.nan)
        for selector, estimate in estimates.items():
            compared = comparisons.get((dataset.dataset, selector, name))
            value = document.NONE if estimate is None else document.number(metric, estimate.value)
            figure = Figure(
                value=value,
                interval="" if estimate is None or not intervals else document.estimate_interval(metric, estimate),
                star=compared is not None and compared.significant,
                bold=bold and value != document.NONE and value == document.number(metric, best),
            )
            rows[titles[selector]].append(figure)
    return FigureTable(
        groups={dataset.dataset: len(metrics) for dataset in summary.datasets},
        heads=tuple(map(document.axis_title, metrics)) * len(summary.datasets),
        rows={title: tuple(figures) for title, figures in rows.items()},
        notes=(
            *_figure_notes(rows, comparisons, titles[base], [str(metric) for metric in metrics]),
            *label_notes(summary.manifest),
            *size_notes(summary, [str(metric) for metric in metrics]),
            *(note for dataset in with_titles(summary).datasets for note in failure_notes(dataset)),
        ),
    )


def _figure_notes(
    rows: Mapping[str, Sequence[Figure]],
    comparisons: Mapping[tuple[str, str, str], Comparison],
    base: str,
    metrics: Sequence[str],
) -> Iterator[str]:
    """What the marks of a table for a paper mean."""
    figures = [figure for row in rows.values() for figure in row]
    if comparisons:
        tests = document.listed(sorted({comparison.test for comparison in comparisons.values()}))
        alpha = max(comparison.alpha for comparison in comparisons.values())
        family = f", Holm's correction over all {len(comparisons)} comparisons" if len(comparisons) > 1 else ""
        yield f"* differs significantly from {base} (p \u2264 {alpha:g}; {tests}, query by query{family})."
        untested = [name for name in metrics if name not in {metric for _, _, metric in comparisons}]
        yield from [f"Not compared: {document.listed(untested)}."] if untested else []
    if any(figure.bold for figure in figures):
        yield "The best of each column is bold."
    if any(figure.interval for figure in figures):
        yield "In brackets: 95% intervals."
    if any(document.has_loose(figure.interval) for figure in figures):
        yield f"{document.LOOSE_LEGEND}."


def _latex_figure(figure: Figure) -> str:
    value = f"\\textbf{{{_latex(figure.value)}}}" if figure.bold else _latex(figure.value)
    return f"{value}{'$^{*}$' * figure.star}{f' ({_latex(figure.interval)})' if figure.interval else ''}"


def _markdown_figure(figure: Figure) -> str:
    value = f"**{inline(figure.value)}**" if figure.bold else inline(figure.value)
    return f"{value}{inline('*') * figure.star}{f' ({inline(figure.interval)})' if figure.interval else ''}"


_LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\n": " "}
    | {"<": "$<$", ">": "$>$", "|": "$|$", document.MINUS: "$-$", document.DASH: "--", "\u221e": r"$\infty$"}
    | {"\u2264": r"$\leq$", "[": "{[}", "*": "{*}"}  # the end of a row takes a star and brackets for its own
)


def _latex(text: str) -> str:
    """A text in which nothing is a command of LaTeX."""
    return text.translate(_LATEX)


def _latex_row(cells: Iterable[str]) -> str:
    return rf"{' & '.join(cells)} \\"


HEAD = (
    *("dataset", "selector", "metric", "mean", "low", "high", "n", "left_out", "errors", "queries"),
    *("baseline", "difference", "difference_low", "difference_high", "p_holm", "p_holm_at_floor", "note"),
)


def figures_csv(summary: RunSummary) -> str:
    """Means with their 95% intervals, and the comparison with the run's baseline on the headline metrics.

    `p_holm_at_floor` says that p is an upper bound. Shares are 0 to 1; figures have ten digits. One that does not apply
    is an empty field, with the reason in `note`, which also has the recall of an approximate index.
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, HEAD, restval="", lineterminator="\n")
    writer.writeheader()
    for dataset in summary.datasets:
        for selector in dataset.selectors:
            about = {
                "dataset": dataset.dataset,
                "selector": selector.selector,
                "errors": selector.errors,
                "queries": selector.queries,
                "note": note_text("index_recall", recall) if (recall := selector.notes.get("index_recall")) else "",
            }
            for metric, estimate in selector.estimates.items():
                compared = _compared(selector.against.get(metric), summary.compare_to)
                writer.writerow({**about, "metric": metric, **_csv_figures(estimate), **compared})
            for metric, why in selector.unavailable.items():
                writer.writerow({**about, "metric": metric, "note": why})
    return out.getvalue()


def _csv_figures(estimate: Estimate) -> dict[str, str]:
    counts = {"n": str(estimate.n), "left_out": str(estimate.left_out)}
    if not math.isfinite(estimate.value):
        return counts
    interval = estimate.interval
    return {
        "mean": csv_number(estimate.value),
        "low": csv_number(interval.low),
        "high": csv_number(interval.high),
        **counts,
    }


def _compared(comparison: Comparison | None, baseline: str) -> dict[str, str]:
    if comparison is None:
        return {}
    return {
        "baseline": baseline,
        "difference": csv_number(comparison.difference),
        "difference_low": csv_number(comparison.interval.low),
        "difference_high": csv_number(comparison.interval.high),
        "p_holm": csv_number(comparison.p_holm),
        "p_holm_at_floor": "yes" if comparison.p_holm_at_floor else "no",
    }


def csv_number(value: float) -> str:
    """A number with ten digits; empty where it is not finite."""
    return f"{value:.10g}" if math.isfinite(value) else ""


def latency_tables(times: Mapping[str, Quantiles], embedding: Quantiles | None) -> list[RenderableType]:
    """The quantiles of requests by selector, and of embedding a text; None where no selector embeds any."""
    table = empty_table()
    table.add_column("ms", overflow="fold")
    for heading in ("n", "p50", "p95", "p99"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, quantiles in [*times.items(), *([("embedding a text", embedding)] if embedding else [])]:
        milliseconds = (f"{1000 * value:,.2f}" for value in (quantiles.p50, quantiles.p95, quantiles.p99))
        table.add_row(Text(one_line(name)), f"{quantiles.n:,}", *milliseconds)
    note = "Vectors are stored: a request whose text is new takes longer by the embedding of each of its chunks."
    return [table, *dim_notes([note] if embedding else [])]


def cost_title(growth: Growth) -> str:
    """What was timed, against what."""
    titles = {"preparation": "preparation", "request": "one request", "batch": f"{GROWTH_BATCH} queries"}
    return f"{titles[growth.cost]}, by items" if growth.over == "items" else f"n queries, {growth.n_items:,} items"


def growth_tables(
    growth: Mapping[str, Sequence[Growth]], n_items: int, sizes: Sequence[int]
) -> Iterator[RenderableType]:
    """By selector the answer in a sentence and a table of its costs, then notes.

    Args:
        growth: of every selector.
        n_items: of the catalog; larger ones were made from it.
        sizes: what was to be measured.
    """
    for name, costs in growth.items():
        table = empty_table()
        table.add_column("ms (median)", overflow="fold")
        for heading in ("smallest", "largest", "exponent", "last step"):
            table.add_column(heading, justify="right", no_wrap=True)
        for cost in costs:
            ends = (f"{cost.sizes[end]:,}: {1000 * cost.seconds[end]:,.2f}" for end in (0, -1))
            step = math.log(cost.seconds[-1] / cost.seconds[-2]) / math.log(cost.sizes[-1] / cost.sizes[-2])
            table.add_row(cost_title(cost), *ends, _exponent(cost), f"{step:z.2f}")
        request = next(cost for cost in costs if cost.cost == "request")
        times = f"{10**request.fit.exponent:,.1f} times as long (exponent {_exponent(request)})"
        yield Text(one_line(f"{name}: one request over 10 times as many items takes {times}"), style="bold")
        yield table
        yield Text()
    measured = max(size for costs in growth.values() for cost in costs if cost.over == "items" for size in cost.sizes)
    notes = [
        "Preparation: the first request over a new catalog, which makes indexes from stored vectors.",
        "Exponents: fitted to medians, with the 95% interval of Student's t; last step: between the two largest sizes.",
    ]
    if measured > n_items:
        notes.append(
            f"Items beyond the catalog's {n_items:,} are made by mixing words, and vectors, of two of its items."
        )
    if measured < sizes[-1]:
        notes.append(f"Catalogs of more than {measured:,} items are left out: --seconds was up.")
    yield from dim_notes(notes)


def _exponent(growth: Growth) -> str:
    interval = growth.fit.interval
    return f"{growth.fit.exponent:z.2f} [{interval.low:z.2f}, {interval.high:z.2f}]"
