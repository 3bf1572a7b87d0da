"""`ctxbench run`, `score`, `report`, `latency`, `graph` and `data overlap`: run them and print.

Arguments are in `ctxbench/cli/app.py`; tables, pages and charts in `ctxbench/report`.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ctxbench.catalogs.agent_file import is_agent_file
from ctxbench.cli.common import dataset_inputs, print_json, print_result, selector_inputs
from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.lookup import find_catalog, unread_agents
from ctxbench.evaluation import latency, runner
from ctxbench.evaluation.experiment import Experiment, examine, failures_told, machine, scoring
from ctxbench.evaluation.inputs import Prepared, datasets_of_run, prepare
from ctxbench.evaluation.run_folder import RunFolder, RunSummary, summarise_run
from ctxbench.gate.baseline_rows import GATE, gate_file_in_messages
from ctxbench.gate.history import baseline_of, read_history
from ctxbench.io.cache import line_from, refuse_outputs
from ctxbench.io.console import progress, say, show_tables
from ctxbench.io.documents import dump_json
from ctxbench.io.errors import (
    SHOWN,
    Message,
    ParameterError,
    SelectorError,
    StorageError,
    check_all_known,
    count,
    first_few,
    one_line,
    quoted,
    raise_first,
)
from ctxbench.io.files import cache_dir, temporary_folder, write_atomic
from ctxbench.io.workers import Workers
from ctxbench.model.requests import Batch
from ctxbench.model.resources import EMBEDDER, kind_of
from ctxbench.report.pages import titles, write_parted
from ctxbench.report.run_charts import growth_chart, history_chart, history_csv, history_json, history_tables
from ctxbench.report.run_page import page_tokens, write_report
from ctxbench.report.run_tables import winner
from ctxbench.report.run_text import figures_csv, growth_tables, latency_tables, markdown_report, print_summary
from ctxbench.search.embedders import Vectors, VectorStore, open_embedder, open_vectors
from ctxbench.search.graph import GraphSpec, made_from, make_graph, read_graph, write_graph
from ctxbench.search.resources import LocalResources, local_resources
from ctxbench.search.tokens import TokenCounter, open_counter
from ctxbench.selectors.definitions import find_definition, selector_name, shipped_spec
from ctxbench.selectors.external import all_empty
from ctxbench.selectors.selector import offered_sizes

if TYPE_CHECKING:  # what only some commands need
    from rich.console import Console, RenderableType

    from ctxbench.labelling.overlap import EditEffect, NamesAlike, Overlap, OverlapPair


@dataclass(frozen=True, kw_only=True)
class ReportTargets:
    """Further outputs of a run: a Markdown file, a CSV file, or JSON instead of the table."""

    markdown: Path | None = None
    csv: Path | None = None
    json: bool = False

    def refuse(self, inputs: Mapping[str, Sequence[Path]]) -> None:
        """Check where the files will go, before the work.

        Raises:
            UserError: as `refuse_outputs`.
        """
        refuse_outputs(
            {"--csv": self.csv, "--markdown": self.markdown},
            inputs,
            may_replace={"--csv": line_from("dataset,selector,")},
        )


def run_experiment(
    path: Path,
    *,
    out: Path | None,
    selectors: Sequence[str],
    limit: int | None,
    fresh: bool,
    workers: Workers,
    targets: ReportTargets,
) -> None:
    """Run an experiment or a part of it, print its table, write its page and the other outputs.

    Args:
        path: the experiment's file.
        out: the run folder; None = `runs/<name>`, of a part `runs/<name>-part`.
        selectors: names; empty = all.
        limit: at most so many queries per dataset; None = as the experiment says.
        fresh: compute every answer again.
        workers: where queries are answered.
        targets: where it is reported.

    Raises:
        UnknownNameError: the experiment has no such selector.
    """
    with progress() as bar:
        experiment, faults = examine(path)
        targets.refuse({"the experiment": [path], **dataset_inputs(*experiment.datasets, base=experiment.base)})
        named = {spec.name for spec in experiment.selectors}
        if not (faults and set(selectors) - named):  # else one that is named may be among what cannot be read
            experiment = _part_of(experiment, selectors, limit)
        prepared = prepare(experiment, faults=faults, notify=bar.say)
        agents = [spec.agent for spec in experiment.selectors if spec.agent is not None]
        for text in unread_agents(experiment.datasets, experiment.base, agents):
            bar.say(f"notice: {text}")
    name = f"{experiment.name}-part" if selectors or limit is not None else experiment.name
    _run(prepared, out or Path("runs") / name, workers=workers, fresh=fresh, targets=targets)


def _part_of(experiment: Experiment, selectors: Sequence[str], limit: int | None) -> Experiment:
    """The experiment with some of its selectors, those that they take sizes from, and fewer queries."""
    specs = {spec.name: spec for spec in experiment.selectors}
    check_all_known("selector of the experiment", selectors, specs)
    if selectors:
        names = {*selectors, *(specs[name].like for name in selectors)}
        chosen = tuple(spec for spec in experiment.selectors if spec.name in names)
        base = experiment.compare_to if experiment.compare_to in names else chosen[0].name
        experiment = replace(experiment, selectors=chosen, compare_to=base)
    if limit is not None:
        experiment = replace(experiment, sample=min(limit, experiment.sample or limit))
    return experiment


def score_answers(
    answers: Path,
    *,
    dataset: str,
    selectors: list[str],
    split: str,
    out: Path | None,
    tokens: str,
    workers: Workers,
    targets: ReportTargets,
) -> None:
    """Score a file of answers, and shipped selectors to compare with, if any."""
    targets.refuse({"the answers": [answers], **dataset_inputs(dataset), **selector_inputs(*selectors)})
    with progress() as bar:
        experiment = scoring(answers, dataset=dataset, compare_with=selectors, tokens=tokens, split=split)
        prepared = prepare(experiment, notify=bar.say)
    if out is not None:
        _run(prepared, out, workers=workers, targets=targets)
        return
    with ExitStack() as end:
        try:
            folder = end.enter_context(temporary_folder(Path(tempfile.gettempdir(), "ctxbench")))
        except OSError as error:
            raise StorageError(f"no temporary folder can be made ({error}); name one with --out") from error
        _run(prepared, folder, workers=workers, targets=targets, page=False)


def report_run(path: Path, targets: ReportTargets) -> None:
    """Show a finished run again.

    Raises:
        StorageError: it is no finished run.
        ParameterError: a dataset has changed since.
    """
    folder = RunFolder(path)
    manifest = folder.read("manifest.json")
    base = path / str(folder.read("timings.json").get("experiment_folder", "."))
    targets.refuse(dataset_inputs(*(entry["reference"] for entry in manifest["datasets"].values()), base=base))
    datasets = datasets_of_run(path)
    raise_first((datasets.faults, Message("evaluation.run-datasets", reasons=datasets.faults)))
    _report(folder, datasets.asked, open_counter(manifest["tokens"], cache=cache_dir()), targets=targets)


def _run(
    prepared: Prepared,
    path: Path,
    *,
    workers: Workers,
    targets: ReportTargets,
    fresh: bool = False,
    page: bool = True,
) -> None:
    try:
        with progress() as bar:
            done = runner.run(prepared, path, progress=bar, fresh=fresh, workers=workers)
            for line in _failures(prepared, RunFolder(path), persistent=page):
                bar.say(line)
            text = f"{done.made} selector run{'' if done.made == 1 else 's'} made, {done.reused} reused"
            if done.kept:
                bar.say(
                    "not asked again, since no source file of it has changed: "
                    f"{', '.join(done.kept)}; --fresh asks again"
                )
            bar.say(f"{text}; {done.embedded:,} texts embedded{'' if done.embedded else ', no model loaded'}")
            if prepared.experiment.path is None:
                for line in _all_empty(prepared, RunFolder(path)):
                    bar.say(line)
        answered = any(
            RunFolder(path).error_count(name, selector.name) < len(dataset.measured())
            for name, dataset in prepared.datasets.items()
            for selector in prepared.experiment.selectors
        )
        _report(RunFolder(path), prepared.datasets, prepared.counter, targets=targets, page=page, answered=answered)
    except KeyboardInterrupt as stopped:
        if page:  # else nothing is kept
            stopped.add_note("the same command goes on from here")
        raise
    _refuse_silence(prepared, RunFolder(path))


def _refuse_silence(prepared: Prepared, folder: RunFolder) -> None:
    """Refuse a run in which a selector failed on more than half of the queries: it was not measured.

    Raises:
        SelectorError: there is one.
    """
    silent, mostly = [], []
    for name, dataset in prepared.datasets.items():
        n = len(dataset.measured())
        for selector in prepared.experiment.selectors:
            failed = folder.error_count(name, selector.name)
            if n and failed == n:
                silent.append(f"{selector.name} on {name}")
            elif 2 * failed > n:
                mostly.append(f"{selector.name} on {name} ({failed:,} of {n:,})")
    problems = [f"no query was answered by {', '.join(silent)}"] if silent else []
    problems += [f"more than half of the queries failed of {', '.join(mostly)}"] if mostly else []
    if problems:
        raise SelectorError(f"{'; '.join(problems)}; the first failure of each is named above")


def _all_empty(prepared: Prepared, folder: RunFolder) -> Iterator[str]:
    """A warning where the answers that are scored, those of the first selector, offer nothing for any query."""
    name = prepared.experiment.selectors[0].name
    for dataset in prepared.datasets:
        part = folder.load(dataset, name)
        items = part.metrics.get("items")  # NaN where not all labels are known
        none = items is not None and len(items) and not np.nan_to_num(items).any()
        if none and not any(offered_sizes(block.candidates).any() for block in part.answers.blocks()):
            yield f"warning: {all_empty(name, dataset)}"


def _failures(prepared: Prepared, folder: RunFolder, *, persistent: bool) -> Iterator[str]:
    """A warning for each selector that failed on queries, with up to 50 reasons; if persistent, all are in the folder.

    Then, if persistent and any failed, that they are asked again.
    """
    failed = 0
    for dataset in prepared.datasets:
        for selector in prepared.experiment.selectors:
            if (n := folder.error_count(dataset, selector.name)) == 0:
                continue
            failed += n
            summary, details = failures_told(dataset, selector.name, folder.load(dataset, selector.name).answers.errors)
            where = folder.part_path(dataset, selector.name) / "selections.jsonl"
            pointer = f"; all: {where}" if persistent else "; --out keeps a folder with all of them"
            yield f"warning: {summary}{pointer if n > 1 else ''}"
            yield from (f"  {detail}" for detail in details[: SHOWN - 1])
            if len(details) >= SHOWN:
                yield f"  and {len(details) - SHOWN + 1:,} more"
    if failed and persistent:
        subject = "the failed query is" if failed == 1 else "failed queries are"
        yield f"{subject} asked again by the next call of the same command"


def _report(
    folder: RunFolder,
    datasets: Mapping[str, Dataset],
    counter: TokenCounter,
    *,
    targets: ReportTargets,
    page: bool = True,
    answered: bool = True,
) -> None:
    """Write the summary and the page of a finished run, then print: whoever reads may leave before the end.

    Without `answered` no query was answered, and no table is printed: an error follows.
    """
    summary = summarise_run(folder)
    write_atomic(folder.path / "summary.json", dump_json(summary.as_dict(), indent=2))
    if targets.csv is not None:
        write_atomic(targets.csv, figures_csv(summary))
    if targets.markdown is not None:
        text = markdown_report(summary, datasets)
        for path in write_parted(targets.markdown, text, titles(text) if len(summary.datasets) > 1 else ()):
            say(f"report: {path}", err=True)
    where = None
    if page:
        tokens = {name: page_tokens(folder, name, dataset, counter) for name, dataset in datasets.items()}
        where = write_report(folder, datasets, tokens=tokens, summary=summary)
    try:
        if targets.json:
            print_json(summary.as_dict())
        elif answered:
            print_summary(summary)
            for line in _missed_most(summary, folder, datasets):
                say(line)
    finally:
        if where is not None:
            say(f"report: {where} (open it in a browser)", err=True)


def _missed_most(summary: RunSummary, folder: RunFolder, datasets: Mapping[str, Dataset]) -> Iterator[str]:
    """For each dataset the required items that its winner, or its only selector, left out most often."""
    for row in summary.datasets:
        name = row.selectors[0].selector if len(row.selectors) == 1 else winner(row, summary.compare_to)
        dataset, needed, missed = datasets[row.dataset], Counter[str](), Counter[str]()
        for block in folder.load(row.dataset, name).answers.blocks() if name else ():
            table, ids = block.candidates, dataset.catalog.ids
            pairs = zip(table.request[table.chosen], table.item[table.chosen], strict=True)
            offered = {(int(request), ids[item]) for request, item in pairs}
            for number, query in enumerate(block.queries):
                for group in dataset.required[query]:
                    needed[group[0].id] += 1
                    missed[group[0].id] += not any((number, item.id) in offered for item in group)
        worst = [f"{item} ({n:,} of {needed[item]:,})" for item, n in missed.most_common(5) if n]
        if worst:
            yield f"{one_line(name)} missed most on {row.dataset}: {', '.join(worst)}"


def measure_latency(selectors: Sequence[str], catalog: str, *, embedder: str, seconds: float, as_json: bool) -> None:
    """Time selectors side by side, by default an agent's own, and print their quantiles."""
    pipelines = {}
    for name in selectors or [catalog if is_agent_file(catalog) else "semantic/spec"]:
        definition, preset = find_definition(name)
        pipelines[name] = definition.pipeline(definition.values(preset))
    model, items = open_embedder(embedder), find_catalog(catalog)
    requests = latency.requests_like(items)
    new_resources = partial(local_resources, model, open_counter("o200k", cache=cache_dir()))
    with progress() as bar:
        times = latency.time_requests(
            pipelines, items, requests, new_resources=new_resources, seconds=seconds, progress=bar
        )
        steps = [step for pipeline in pipelines.values() for step in (pipeline.retrieve, *pipeline.refine)]
        embeds = any(kind_of(use) == EMBEDDER for step in steps for use in step.uses)
        embedding = latency.time_embedding(model, [request.text for request in requests]) if embeds else None
    measured = {
        "catalog": {"items": len(items), "hash": items.hash},
        "embedder": model.identity.as_dict(),
        "requests": len(requests),
        "machine": machine(),
        "unit": "seconds",
        "selectors": {name: asdict(quantiles) for name, quantiles in times.items()},
        "embedding": None if embedding is None else asdict(embedding),
    }
    _show(measured, lambda _: latency_tables(times, embedding), as_json=as_json)


def measure_growth(
    selectors: Sequence[str],
    catalog: str,
    *,
    embedder: str,
    seconds: float,
    sizes: str,
    chart: Path | None,
    as_json: bool,
) -> None:
    """Time selectors, by default an agent's own, over growing catalogs, and print and draw what was measured.

    Args:
        selectors: names as `shipped_spec` reads them.
        catalog: what is made smaller and larger.
        embedder: its stored vectors are taken, and missing ones of the catalog are made.
        seconds: how long it may take, without embedding.
        sizes: numbers of items, with commas between them; empty = an eighth to eight times of the catalog.
        chart: a PNG or SVG file, or None.
        as_json: print JSON in place of tables.

    Raises:
        UserError: a selector, the catalog or an option is faulty, or a selector fails.
    """
    from ctxbench.testing.contract import MixingEmbedder, resized

    form = _chart_form(chart)
    refuse_outputs({"--chart": chart}, {**dataset_inputs(catalog), **selector_inputs(*selectors)})
    names = selectors or [catalog if is_agent_file(catalog) else "semantic/spec"]
    specs = [shipped_spec(name, name=selector_name(name)) for name in dict.fromkeys(names)]
    items, model = find_catalog(catalog), open_embedder(embedder)
    if not all(size.strip().isdecimal() for size in filter(None, sizes.split(","))):
        raise ParameterError(f"--sizes needs numbers of items with commas between them, got {sizes!r}")
    counts = latency.growth_sizes(len(items), [int(size) for size in filter(None, sizes.split(","))])
    requests = latency.requests_like(items, latency.GROWTH_QUERIES[-1])
    with progress() as bar, ExitStack() as end:
        resources = local_resources(
            model, open_counter("o200k", cache=cache_dir()), progress=partial(bar, "embedding texts")
        )
        for spec in specs:
            selector = spec.make(resources, {})
            if hasattr(selector, "close"):
                end.callback(selector.close)
            if spec.pipeline is not None:
                selector.select(Batch.of(items, requests))  # stores the vectors of the catalog
        folder = end.enter_context(temporary_folder(cache_dir()))  # what is made for this only is not kept
        mixing = MixingEmbedder(model, [request.text for request in requests])
        growth = latency.time_growth(
            specs,
            partial(resized, items),
            counts,
            new_resources=lambda: LocalResources(
                Vectors(mixing, VectorStore(mixing.identity, folder)), open_counter("o200k", cache=folder)
            ),
            seconds=seconds,
            progress=bar,
        )
    measured = {
        "catalog": {"items": len(items), "hash": items.hash},
        "embedder": model.identity.as_dict(),
        "machine": machine(),
        "unit": "seconds",
        "sizes": counts,
        "batch": latency.GROWTH_BATCH,
        "selectors": {name: [asdict(growing) for growing in costs] for name, costs in growth.items()},
    }
    draw = partial(growth_chart, growth, form)
    _show(measured, lambda _: growth_tables(growth, len(items), counts), chart=chart, draw=draw, as_json=as_json)


def _show(
    value: Any,
    tables: Callable[[Console], Iterable[RenderableType]],
    *,
    as_json: bool,
    chart: Path | None = None,
    draw: Callable[[], bytes] = bytes,
) -> None:
    """Print a value as JSON or as tables; before, draw its chart into a file if one is named."""
    if chart is not None:
        write_atomic(chart, draw())
    if as_json:
        print_json(value)
    else:
        show_tables(tables)
    if chart is not None:
        say(f"chart: {chart}", err=True)


def report(
    path: Path | None,
    *,
    history: bool,
    limit: int | None,
    chart: Path | None,
    markdown: Path | None,
    csv: Path | None,
    as_json: bool,
) -> None:
    """Show a run, or a history.

    Args:
        path: the folder of a run; of a history a gate file (None = `GATE`) or the folder of a baseline.
        history: accepted baselines over time, not a run.
        limit: the newest so many commits; None = all.
        chart: the file of a chart over commits.
        markdown: the file of a run's report as Markdown.
        csv: the file of all figures.
        as_json: print JSON in place of tables.

    Raises:
        UserError: an option is of the other one, the path is none of what is expected, or it cannot be read.
    """
    if history:
        if markdown is not None:
            raise ParameterError("--markdown is for the report of a run; leave it out, or take --csv or --chart")
        _show_history(path or Path(GATE), limit=limit, chart=chart, csv=csv, as_json=as_json)
        return
    for name, value in (("--limit", limit), ("--chart", chart)):
        if value is not None:
            raise ParameterError(f"{name} goes with --history; add that, or leave {name} out")
    if path is None:
        raise ParameterError(
            "name the folder of a finished run, such as runs/presets, or take --history for what a gate accepted"
        )
    if (path / "baseline.json").is_file() or path.suffix in (".yaml", ".yml"):
        raise ParameterError(f"{path} is no folder of a run; add --history to see what was accepted over time")

    report_run(path, ReportTargets(markdown=markdown, csv=csv, json=as_json))


def _chart_form(chart: Path | None) -> str:
    """`png` or `svg`, from the name of the file; empty if there is none."""
    form = "" if chart is None else chart.suffix.lower().removeprefix(".")
    if chart is not None and form not in ("png", "svg"):
        raise ParameterError(f"--chart {chart}: the name must end in .png or .svg, which says how it is drawn")
    return form


def _show_history(path: Path, *, limit: int | None, chart: Path | None, csv: Path | None, as_json: bool) -> None:
    form = _chart_form(chart)
    read: dict[str, list[Path]] = {"what is shown": [] if path.is_dir() else [path]}
    refuse_outputs({"--csv": csv, "--chart": chart}, read, may_replace={"--csv": line_from("date,commit,")})
    with progress() as bar:
        folder = baseline_of(path)
        with gate_file_in_messages(Path(GATE) if folder == path else path):
            history = read_history(folder, limit=limit, notify=bar)
    if csv is not None:
        write_atomic(csv, history_csv(history))
    draw = partial(history_chart, history, form)
    _show(history_json(history), partial(history_tables, history), chart=chart, draw=draw, as_json=as_json)


def make(catalog: str, spec: GraphSpec, *, out: Path, embedder: str, as_json: bool) -> None:
    """Write the graph of a catalog; links of unchanged items are taken from an existing graph.

    Raises:
        StorageError: the file is there and holds no graph, or cannot be written.
        UserError: the catalog or the embedder is unknown.
    """
    refuse_outputs({"--out": out}, dataset_inputs(catalog))
    items = find_catalog(catalog)
    try:
        old = read_graph(out) if out.exists() else None
    except StorageError as error:
        raise StorageError(f"{out} is there and is no graph that can be read; name another --out") from error
    model = open_embedder(embedder)
    with progress() as bar:
        resources = local_resources(
            model, open_counter("o200k", cache=cache_dir()), progress=partial(bar, "embedding texts")
        )
        graph = make_graph(items, resources, spec, old=old)
    write_graph(out, graph)
    linked = int((graph.start[1:] > graph.start[:-1]).sum())
    print_result(
        {**made_from(graph), "items": len(graph), "linked": linked, "pairs": len(graph.item), "path": str(out)},
        f"{count(len(graph), 'item')}, {linked:,} of them with {len(graph.item):,} similar ones "
        f"({spec.similarity} >= {spec.threshold:g}, at most {spec.neighbours:,} each); written to {out}",
        as_json=as_json,
    )


_WHY = {"same name": "the same name", "suffix": "one name goes on where the other ends"}
_JUST_BELOW = 0.05  # pairs this near to the threshold are told as such


def show_overlap(name: str, *, embedder: str, threshold: float | None, list_all: bool, as_json: bool) -> None:
    """Print which items of a catalog read alike or are confused by a search.

    Args:
        name: a catalog's file or folder, or a dataset's name.
        embedder: makes the vectors.
        threshold: least similarity of items that read alike; None = the default.
        list_all: try changes for all pairs, and list all, not the first ten.
        as_json: print JSON, which lists everything.
    """
    from ctxbench.labelling.overlap import VECTORS_THRESHOLD, overlap

    catalog = find_catalog(name)
    with progress() as bar:
        vectors = open_vectors(
            open_embedder(embedder), progress=lambda done, total: bar("embedding texts", done, total)
        )
        result = overlap(
            catalog,
            vectors.get,
            open_counter("o200k", cache=cache_dir()),
            threshold=VECTORS_THRESHOLD if threshold is None else threshold,
            changed=None if list_all else 10,
            progress=lambda done, total: bar("trying changes of pairs", done, total),
        )
    result = replace(result, embedder=embedder)
    print_result(result.as_dict(), *overlap_lines(result, limit=None if list_all else 10), as_json=as_json)


def overlap_lines(result: Overlap, *, limit: int | None = 10) -> list[str]:
    """The overlap of items as lines; the first `limit` of each list, None = all."""
    return [*_summary(result), *_pair_lines(result, limit), *_name_lines(result.names, limit)]


def _summary(result: Overlap) -> Iterator[str]:
    from ctxbench.labelling.overlap import FIRST_FEW

    types = ", ".join(f"{n:,} {type_}{'s' * (n != 1)}" for type_, n in result.items.items()) or "no items"
    left_out = f"; {result.left_out:,} that no search finds (disabled, or by hand only) are left out"
    yield f"{types}: {result.tokens:,} prompt tokens{left_out if result.left_out else ''}"
    if result.asked:
        are = "is" if result.first == 1 else "are"
        yield (
            f"searched for with the first sentence of its description, {result.first:,} of {result.asked:,} {are} "
            f"found first among their type, {result.among:,} among the first {FIRST_FEW}"
        )
    if result.mute:
        have = "has" if len(result.mute) == 1 else "have"
        yield f"{len(result.mute):,} {have} no description to search for: {first_few(result.mute, 3)}"


def _pair_lines(result: Overlap, limit: int | None) -> Iterator[str]:
    yield ""
    if not result.pairs:
        yield f"no two items read alike (similarity {result.threshold:g} or more), and none is taken for another"
        if result.nearest:
            yield "nearest to it:"
            for left, right, value in result.nearest:
                below = ", just below" if result.threshold - value < _JUST_BELOW else ""
                yield f"  {left}  {right}  (similarity {_truncate(value)}{below})"
        return
    confused = sum(pair.margin < 0 for pair in result.pairs)
    yield (
        f"pairs that read alike (similarity {result.threshold:g} or more) or are taken for one another: "
        f"{len(result.pairs):,} ({confused:,} taken), sorted by how far the wrong item leads"
    )
    listed = result.pairs[:limit]
    for rank, pair in enumerate(listed):
        yield ""
        yield from _of_pair(pair, result, tried=rank < result.tried)
    if len(listed) < len(result.pairs):
        yield ""
        yield f"  {len(result.pairs) - len(listed):,} more (--all)"


def _truncate(similarity: float) -> str:
    """Truncate to three decimals, so that a value below the threshold never looks as if it reached it."""
    return f"{math.floor(similarity * 1000 + 1e-6) / 1000:.3f}"


def _of_pair(pair: OverlapPair, result: Overlap, *, tried: bool) -> Iterator[str]:
    yield f"  {pair.items[0]}  {pair.items[1]}  (similarity {_truncate(pair.similarity)})"
    for search in pair.asked:
        if search.other > search.score:
            rival = next(item for item in pair.items if item != search.item)
            yield f"    {rival} comes before {search.item} in a search for"
            yield from (f"      {line}" for line in quoted(search.text))
            yield f"      similarity to the search: wrong item {search.other:.2f}, right item {search.score:.2f}"
    yield from (f"    {_change(change, result)}" for change in pair.changes)
    if pair.margin >= 0 and len(pair.asked) == 2:
        yield "    a search for either finds that item before the other"
    elif tried and not any(change.what == "rename" for change in pair.changes):
        yield "    no word added to a name tells them apart: say in the descriptions what only one of them does"


def _change(change: EditEffect, result: Overlap) -> str:
    first = f"{change.first:,} of {result.asked:,} items would be found first by their own words ({result.first:,} now)"
    if change.what == "merge":
        return f"merged into one, as {change.name}: {-change.tokens:,} prompt tokens less, {first}"
    return f"{change.item} renamed, such as {change.name}: {first}"


def _name_lines(names: tuple[NamesAlike, ...], limit: int | None) -> Iterator[str]:
    if not names:
        return
    yield ""
    yield f"names that are hard to tell apart: {len(names):,}"
    listed = names[:limit]
    yield from (f"  {'  '.join(pair.items)}  ({_WHY[pair.why]})" for pair in listed)
    if len(listed) < len(names):
        yield f"  {len(names) - len(listed):,} more (--all)"
