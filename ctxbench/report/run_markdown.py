"""A run as Markdown, to be kept in a repository: every figure with what it was measured on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ctxbench.bench.metrics import Grade, Metric
from ctxbench.bench.summary import DatasetSummary, RunSummary
from ctxbench.core.stages import EMBEDDER, kind_of
from ctxbench.core.stored_pipelines import pipelines_in
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.io.visible import count
from ctxbench.report import wording
from ctxbench.report.column_words import column_words
from ctxbench.report.opening_sentence import glance, run_answer
from ctxbench.report.run_tables import ComparisonTable, about_selector, comparison_table, with_titles

_TEXT_OF = "`name: description`, for what is no tool with its text"


def markdown_report(summary: RunSummary, datasets: Mapping[str, Dataset]) -> str:
    """Make the report; the same run gives the same text.

    Args:
        summary: of the run.
        datasets: those that were run, by name.
    """
    summary = with_titles(summary)
    experiment = summary.manifest["experiment"]
    metrics = dict.fromkeys(metric for one in summary.datasets for metric in summary.metrics(one))
    lines = [f"# {_said(experiment['name'])}", ""]
    if answer := run_answer(summary):
        lines += [f"**{_said(answer)}**", ""]
    if len(summary.datasets) > 1 and {"completeness", "tokens"} <= set(experiment["metrics"]):
        head, *rows = glance(summary)
        lines += ["Complete % / prompt tokens:", "", *_table(head, rows), ""]
    if experiment["about"]:
        lines += [_said(experiment["about"]), ""]
    lines += [*_common(summary.manifest, metrics), ""]
    for one in summary.datasets:
        table = comparison_table(summary, one, every_metric=True)
        lines += [f"## {_said(table.heading)}", "", *_about(one, datasets[one.dataset]), ""]
        lines += [*_figures(table), "", *_differences(table)]
        lines += [f"* {_said(note)}" for note in table.notes]
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def _common(manifest: Mapping[str, Any], metrics: Iterable[Metric]) -> Iterator[str]:
    """What holds for all figures."""
    steps = [step for pipeline in pipelines_in(manifest["selectors"]) for step in pipeline.steps()]
    yield f"* Item text, which pipelines search: {_TEXT_OF}. Prompt tokens are those of `{manifest['tokens']}`."
    for words in dict.fromkeys(_words(step.values) for step in steps if (step.kind, step.name) == ("retrieve", "bm25")):
        yield f"* Words of BM25: {words}."
    used = _embedders(manifest["selectors"])
    if EMBEDDER in used:
        model = manifest["embedder"]
        yield f"* Embeddings: {', '.join(f'{name} {value}' for name, value in model.items())}."
    for name in sorted(used - {EMBEDDER}):
        yield f"* Embeddings of steps that name an embedder: `{_said(name.partition(':')[2])}`."
    yield f"* Split: {manifest['experiment'].get('split') or 'all queries, tuning and test together'}."
    if sample := manifest["experiment"].get("sample"):
        drawn = f"groups whole, drawn by hash with seed {manifest['experiment']['seed']}"
        yield f"* Sample: at most {sample:,} queries a dataset, {drawn}; the headings say how many of how many."
    yield "* Values are means over queries with their 95% intervals; what the model then calls is outside."
    yield f"* Columns. {_said(column_words((str(metric), metric) for metric in metrics))}"
    for name in manifest["selectors"]:
        about, values = about_selector(manifest, name)
        yield f"* `{wording.named(name)}`: {_said(about)}{f' ({wording.named(values)})' if values else ''}."


def _embedders(described: Any) -> set[str]:
    """The embedders among the resources that selectors say they use, at any depth."""
    if isinstance(described, Mapping):
        own = described.get("identities")
        named = {name for name in own if kind_of(name) == EMBEDDER} if isinstance(own, Mapping) else set()
        return named.union(*map(_embedders, described.values()))
    return set().union(*map(_embedders, described)) if isinstance(described, list) else set()


def _words(step: Mapping[str, Any]) -> str:
    """Which words of a text count in a BM25 step."""
    identifiers = ", identifiers by their parts" if step.get("words") == "split" else ""
    left_out = "common English words and single characters left out" if step.get("stop") else "nothing left out"
    stemmed = "English endings taken off" if step.get("stem") else "nothing stemmed"
    server = "; a tool's server is searched, too" if step.get("server") else ""
    return f"runs of letters and digits, case-folded{identifiers}; {stemmed}, {left_out}{server}"


def _about(one: DatasetSummary, dataset: Dataset) -> Iterator[str]:
    """What a dataset is, and how its labels came about."""
    counts = dataset.counts
    yield f"* Version {_said(dataset.version)}, content `{dataset.hash[:12]}`."
    splits = ", ".join(f"{name} {n:,}" for name, n in counts["splits"].items())
    none = f"; {counts['needs_nothing']:,} need nothing" if counts["needs_nothing"] else ""
    partly = f"; of {one.only_negatives:,} only forbidden items are measured" * bool(one.only_negatives)
    left = f"; {count(one.unlabelled, 'query', 'queries')} without full labels left out" * bool(one.unlabelled)
    needs = f"Requirements: {_requirements(dataset):,}, alternatives counted once"
    yield f"* Queries: {splits}{none}{partly}{left}. {needs}."
    yield f"* Labels: {_said(str(dataset.about.get('labelling', '')))}"
    for note in _texts(dataset.about.get("notes")):
        yield f"  * {_said(note)}"


def _requirements(dataset: Dataset) -> int:
    """How many requirements the queries that are measured with have, alternatives counted once."""
    judged = dataset.judged()
    return len(
        {(label.query, label.alternatives or label.item.id) for label in judged.labels if label.grade == Grade.REQUIRED}
    )


def _texts(notes: Any) -> Iterable[str]:
    """Notes of any shape as sentences."""
    if isinstance(notes, Mapping):
        return [f"{name}: {_flat(value)}" for name, value in notes.items()]
    if isinstance(notes, list):
        return [_flat(note) for note in notes]
    return [] if notes in (None, "") else [str(notes)]


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_flat(one)}" for name, one in value.items())
    if isinstance(value, list):
        texts = [_flat(one) for one in value]
        return (" " if all(text.endswith(".") for text in texts) else ", ").join(texts)
    return str(value)


def _figures(table: ComparisonTable) -> list[str]:
    """One row a selector, one column a metric, the interval behind each value."""
    titles = [f"{column.title}{' %' if column.unit == '%' else ''}" for column in table.columns]
    rows = []
    for row in table.rows:
        cells = [row.cells[column.key] for column in table.columns]
        told = [f"{cell.value} ({cell.interval})" if cell.interval else cell.value for cell in cells]
        rows.append([f"**{row.selector}**" if row.is_base else row.selector, *told])
    return _table(["selector", *titles], rows)


def _differences(table: ComparisonTable) -> list[str]:
    if not table.compared:
        return []
    titles = [f"{metric.name}, points" if wording.unit(metric) == "%" else metric.name for metric in table.compared]
    rows = []
    for row in table.rows:
        if not row.is_base:
            found = [row.differences.get(str(metric)) for metric in table.compared]
            told = [f"{d.value} ({d.interval}), {d.verdict}" if d else wording.NONE for d in found]
            rows.append([row.selector, *told])
    lines = _table(["selector", *titles], rows, rule="---")
    return [f"Against **{_said(table.base)}**, on the same queries:", "", *lines, ""]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, rule: str = "---:") -> list[str]:
    """A table whose columns, the first left out, stand as the rule says: numbers at the right."""
    return [_row(head), _row(["---", *(rule for _ in head[1:])]), *map(_row, rows)]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(_said(cell) for cell in cells)} |"


def _said(text: str) -> str:
    """A text on one line that ends no cell of a table."""
    return wording.on_one_line(text).replace("|", "\\|")
