"""A run as Markdown: every figure with what it was measured on."""

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
    metrics = dict.fromkeys(metric for dataset in summary.datasets for metric in summary.metrics(dataset))
    lines = [f"# {_escape(experiment['name'])}", ""]
    if answer := run_answer(summary):
        lines += [f"**{_escape(answer)}**", ""]
    if len(summary.datasets) > 1 and {"completeness", "tokens"} <= set(experiment["metrics"]):
        head, *rows = glance(summary)
        lines += ["Complete % / prompt tokens:", "", *_table(head, rows), ""]
    if experiment["about"]:
        lines += [_escape(experiment["about"]), ""]
    lines += [*_common(summary.manifest, metrics), ""]
    for dataset in summary.datasets:
        table = comparison_table(summary, dataset, every_metric=True)
        lines += [f"## {_escape(table.heading)}", "", *_about(dataset, datasets[dataset.dataset]), ""]
        lines += [*_figures(table), "", *_differences(table)]
        lines += [f"* {_escape(note)}" for note in table.notes]
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
        yield f"* Embeddings of steps that name an embedder: `{_escape(name.partition(':')[2])}`."
    yield f"* Split: {manifest['experiment'].get('split') or 'all queries, tuning and test together'}."
    if sample := manifest["experiment"].get("sample"):
        drawn = f"groups whole, drawn by hash with seed {manifest['experiment']['seed']}"
        yield f"* Sample: at most {sample:,} queries a dataset, {drawn}; the headings say how many of how many."
    yield "* Values are means over queries with their 95% intervals; what the model then calls is outside."
    yield f"* Columns. {_escape(column_words((str(metric), metric) for metric in metrics))}"
    for name in manifest["selectors"]:
        about, values = about_selector(manifest, name)
        yield f"* `{wording.named(name)}`: {_escape(about)}{f' ({wording.named(values)})' if values else ''}."


def _embedders(described: Any) -> set[str]:
    """The embedders among the resources that selectors say they use, at any depth."""
    if isinstance(described, Mapping):
        identities = described.get("identities")
        named = {name for name in identities if kind_of(name) == EMBEDDER} if isinstance(identities, Mapping) else set()
        return named.union(*map(_embedders, described.values()))
    return set().union(*map(_embedders, described)) if isinstance(described, list) else set()


def _words(step: Mapping[str, Any]) -> str:
    """Which words of a text count in a BM25 step."""
    identifiers = ", identifiers by their parts" if step.get("words") == "split" else ""
    left_out = "common English words and single characters left out" if step.get("stop") else "nothing left out"
    stemmed = "English endings taken off" if step.get("stem") else "nothing stemmed"
    server = "; a tool's server is searched, too" if step.get("server") else ""
    return f"runs of letters and digits, case-folded{identifiers}; {stemmed}, {left_out}{server}"


def _about(summary: DatasetSummary, dataset: Dataset) -> Iterator[str]:
    """A dataset in words: its version, its queries, and how it was labelled."""
    counts = dataset.counts
    yield f"* Version {_escape(dataset.version)}, content `{dataset.hash[:12]}`."
    splits = ", ".join(f"{name} {n:,}" for name, n in counts["splits"].items())
    none = f"; {counts['needs_nothing']:,} need nothing" if counts["needs_nothing"] else ""
    partly = f"; of {summary.only_negatives:,} only forbidden items are measured" * bool(summary.only_negatives)
    left = f"; {count(summary.unlabelled, 'query', 'queries')} without full labels left out" * bool(summary.unlabelled)
    needs = f"Requirements: {_requirements(dataset):,}, alternatives counted once"
    yield f"* Queries: {splits}{none}{partly}{left}. {needs}."
    yield f"* Labels: {_escape(str(dataset.about.get('labelling', '')))}"
    for note in _texts(dataset.about.get("notes")):
        yield f"  * {_escape(note)}"


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
        return ", ".join(f"{name} {_flat(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        texts = [_flat(inner) for inner in value]
        return (" " if all(text.endswith(".") for text in texts) else ", ").join(texts)
    return str(value)


def _figures(table: ComparisonTable) -> list[str]:
    """One row a selector, one column a metric, the interval behind each value."""
    titles = [f"{column.title}{' %' if column.unit == '%' else ''}" for column in table.columns]
    rows = []
    for row in table.rows:
        cells = [row.cells[column.key] for column in table.columns]
        texts = [f"{cell.value} ({cell.interval})" if cell.interval else cell.value for cell in cells]
        rows.append([f"**{row.selector}**" if row.is_base else row.selector, *texts])
    return _table(["selector", *titles], rows)


def _differences(table: ComparisonTable) -> list[str]:
    if not table.compared:
        return []
    titles = [f"{metric.name}, points" if wording.unit(metric) == "%" else metric.name for metric in table.compared]
    rows = []
    for row in table.rows:
        if not row.is_base:
            differences = [row.differences.get(str(metric)) for metric in table.compared]
            texts = [f"{d.value} ({d.interval}), {d.verdict}" if d else wording.NONE for d in differences]
            rows.append([row.selector, *texts])
    lines = _table(["selector", *titles], rows, rule="---")
    return [f"Against **{_escape(table.base)}**, on the same queries:", "", *lines, ""]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, rule: str = "---:") -> list[str]:
    """A table; `rule` aligns all columns but the first."""
    return [_row(head), _row(["---", *(rule for _ in head[1:])]), *map(_row, rows)]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(_escape(cell) for cell in cells)} |"


def _escape(text: str) -> str:
    """A text on one line that ends no cell of a table."""
    return wording.on_one_line(text).replace("|", "\\|")
