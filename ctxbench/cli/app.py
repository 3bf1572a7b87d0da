"""The command `ctxbench`: arguments of its commands.

Heavy modules are imported by the command that needs them. Annotations are evaluated here, once: typer would evaluate
those of all commands again and again, which takes as long as importing it.
"""

import gc
from collections.abc import Sequence
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
    JsonFlag,
    MarkdownFile,
    MaxFiles,
    OptionalCatalogName,
    StoreFile,
    TokenCounter,
    WorkspaceName,
    lazy_group,
)
from ctxbench.io.console import drop_output, guarded, keep_numbers, say
from ctxbench.io.errors import UserError, message_lines

app = typer.Typer(
    name="ctxbench",
    cls=Group,
    help="Test what a context selector offers an AI agent's model, and at what price in tokens.",
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
    """Test what a context selector offers an AI agent's model, and at what price in tokens.

    A selector picks the items (tools, rules, skills, references, memories) that a request's prompt gets. Begin with
    `ctxbench init` in your project.
    """


@app.command("run", cls=Command)
def run_command(
    experiment: Annotated[
        Path, typer.Argument(help="A YAML file with datasets and selectors; `ctxbench init` writes one.")
    ],
    out: Annotated[Path | None, typer.Option(help="The run folder; runs/<experiment name> by default.")] = None,
    markdown: MarkdownFile = None,
    csv: CsvFile = None,
    selectors: Annotated[
        list[str] | None, typer.Option("--only", help="Run this selector of the experiment only; repeatable.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(help="Ask at most so many queries of each dataset; near-copies (one group) stay together.", min=1),
    ] = None,
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Ask every selector again in place of reading stored answers; vectors are kept."),
    ] = False,
    json_: JsonFlag = False,
) -> None:
    """Measure selectors on datasets.

    Every selector on every dataset of the experiment, with a table and an HTML page.

    Stopped at any point, the same command goes on. With --only or --limit the run folder is
    runs/<experiment name>-part.

    For example:

    ctxbench run experiments/presets.yaml
    """
    from ctxbench.cli.run import ReportTargets, run_experiment

    run_experiment(
        experiment,
        out=out,
        selectors=selectors or [],
        limit=limit,
        fresh=fresh,
        targets=ReportTargets(markdown=markdown, csv=csv, json=json_),
    )


@app.command(cls=Command)
def score(
    answers: Annotated[Path, typer.Argument(help="A file, one JSON object a line for each query.")],
    dataset: Annotated[str, typer.Option("--dataset", "-d", help="A dataset's name or folder.")],
    selectors: Annotated[
        list[str] | None,
        typer.Option(
            "--compare-to", help="A selector to compare with, such as semantic/normal or an agent file; repeatable."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Keep the run in this folder, with its HTML report.")] = None,
    tokens: TokenCounter = "o200k",
    csv: CsvFile = None,
    json_: JsonFlag = False,
) -> None:
    """Score a file of your own selector's answers.

    An answer names what is offered for a query, best first: {"query": "q1", "items": [{"id": "tool:search"}]}.
    `ctxbench data export D --requests FILE` writes what to answer.

    For example:

    ctxbench score answers.jsonl -d bfcl-simple --compare-to semantic/normal
    """
    from ctxbench.cli.run import ReportTargets, score_answers

    score_answers(
        answers,
        dataset=dataset,
        selectors=selectors or [],
        out=out,
        tokens=tokens,
        targets=ReportTargets(csv=csv, json=json_),
    )


@app.command(cls=Command)
def select(
    text: Annotated[str, typer.Argument(help="What the user asks.")],
    catalog: OptionalCatalogName = None,
    agent: Annotated[
        Path | None,
        typer.Option(
            help="An agent file (`ctxbench init` writes it): its items, selector, settings and system prompt."
        ),
    ] = None,
    selector: Annotated[
        str | None,
        typer.Option(
            help=(
                "A shipped selector, a YAML file of one, or with --experiment one of its names; by default "
                "learned, of a git repository codebase, with --session or --history semantic."
            )
        ),
    ] = None,
    experiment: Annotated[
        Path | None, typer.Option(help="An experiment file whose selector, named by --selector, is asked.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="A preset of the selector, such as normal, or of the presets file.")
    ] = None,
    presets: Annotated[
        Path | None, typer.Option(help="A presets file that `ctxbench tune` wrote, in place of a selector.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE: one parameter, such as at_most=3; repeatable.")
    ] = None,
    max_files: MaxFiles = None,
    session: Annotated[
        Path | None, typer.Option(help="A session's JSON: its items, what was removed, its settings.")
    ] = None,
    history: Annotated[
        str | None, typer.Option(help="Earlier messages: a JSON list, or stored conversations, FILE or FILE#ID.")
    ] = None,
    add: Annotated[
        list[str] | None, typer.Option(help="Add the item of this id or path to a session; repeatable.")
    ] = None,
    remove: Annotated[
        list[str] | None, typer.Option(help="Remove the item of this id or path from the session; repeatable.")
    ] = None,
    tool_result: Annotated[
        list[str] | None,
        typer.Option(help="TOOL=FILE: what a tool has answered, for selectors that search with it; repeatable."),
    ] = None,
    user: Annotated[str | None, typer.Option(help="Whose request it is: it sees this user's items, too.")] = None,
    workspace: Annotated[
        str | None, typer.Option(help="Where it is asked: it sees this workspace's items, too.")
    ] = None,
    time: Annotated[str | None, typer.Option(help="When it is asked, ISO 8601: what was there then is seen.")] = None,
    near: Annotated[int, typer.Option(help="How many items that stayed out are shown.", min=0)] = 5,
    embedder: EmbedderName = "minilm",
    messages: Annotated[bool, typer.Option("--messages", help="Print what the model would be sent, as JSON.")] = False,
    json_: JsonFlag = False,
) -> None:
    """Select for one request, and explain it.

    Every item in, with the passage of the request and the passage of the item that match best, and the nearest that
    stayed out, each with the rule that kept it out.

    A command, callable or URL of your own, in an agent or experiment file, is asked as well: its items, with what it
    ranked and did not choose.

    With --session or --history it is asked as within a chat, whose session is the items in it from the start or added
    by hand; no file is changed.

    For example:

    ctxbench select "area of a triangle" --catalog bfcl-simple --preset normal
    """
    from ctxbench.cli.select import Chat, SelectRequest, run, what_is_asked

    items, selector = what_is_asked(catalog, agent, selector=selector, file=presets or experiment)
    chat = Chat(session, history, tuple(add or ()), tuple(remove or ()), tuple(tool_result or ()))
    scope_values = {"user": user, "workspace": workspace, "time": time}
    scope = {name: value for name, value in scope_values.items() if value is not None}
    question = SelectRequest(
        text, items, selector, preset, tuple(set_ or ()), embedder, chat, presets, experiment, scope, max_files
    )
    run(question, near=near, messages=messages, as_json=json_)


@app.command(cls=Command)
def tune(
    datasets: Annotated[
        list[str], typer.Argument(help="Labelled datasets, names or folders; with --unlabelled one catalog.")
    ],
    policy: Annotated[
        Path | None,
        typer.Option(
            "--policy",
            "-p",
            help="A YAML file: what to minimise or maximise, and what to keep. Needed unless --unlabelled is given.",
        ),
    ] = None,
    unlabelled: Annotated[
        str | None,
        typer.Option(
            help=(
                "Requests without labels: a text file with one a line, JSON lines with `text`, what `data export "
                "--requests` writes, or a dataset."
            )
        ),
    ] = None,
    tokens: Annotated[
        float | None, typer.Option(help="With --unlabelled: prompt tokens that a request may cost on average.")
    ] = None,
    selector: Annotated[
        str | None,
        typer.Option(
            help=(
                "With --unlabelled: a selector that ends by leaving out what scores far below the best (the cut "
                "`margin`); by default that of the agent, else learned."
            )
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The folder, runs/tune-POLICY-DATASET by default; with --unlabelled a presets file."),
    ] = None,
    markdown: MarkdownFile = None,
    no_text: Annotated[
        bool,
        typer.Option(
            "--no-text",
            help="Keep texts of requests out of the reports. A fitted selector's file holds them all the same.",
        ),
    ] = False,
    json_: JsonFlag = False,
) -> None:
    """Find better presets for your data.

    A preset is a selector with settings: how many items it offers, and how good they must be. Every setting is
    evaluated and compared with the default, query by query; what costs less or offers more and keeps what your policy
    asks is recommended, else it says how many more labels would help. Where labels are many, one half of them chooses
    and the other half, read once, confirms. Writes presets files and a report.

    With --unlabelled and --tokens no label is needed: it writes a preset that costs so many tokens on average.

    For example:

    ctxbench tune bfcl-simple --policy experiments/tuning/presets.yaml
    """
    from ctxbench.cli.tune import checked_budget, tune_presets, tune_to_budget

    options = {"--markdown": markdown is not None, "--no-text": no_text}
    budget = checked_budget(datasets, policy, unlabelled, tokens, selector, out, options=options)
    if budget is not None:
        tune_to_budget(budget, as_json=json_)
    elif policy is not None:
        tune_presets(datasets, policy, out=out, markdown=markdown, texts=not no_text, as_json=json_)


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
            "--strict", help="Fail if the check is inconclusive: exit code 1, or 2 if a server must be asked."
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
    recapture: Annotated[
        bool, typer.Option("--recapture", help="First ask the MCP servers of the agent files for their tools again.")
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
    run(request, Outputs(form=output_format or "", markdown=markdown, junit=junit, verbose=verbose))


@app.command(cls=Command)
def serve(
    store: StoreFile,
    workspace: WorkspaceName,
    selector: Annotated[str, typer.Option(help="A shipped selector, or a YAML file of one.")] = "memory",
    embedder: EmbedderName = "minilm",
    tokens: Annotated[
        Path | None,
        typer.Option(help="A YAML file of who may ask, TOKEN: USER a line; null where one reads /metrics alone."),
    ] = None,
    user: Annotated[str | None, typer.Option(help="Without --tokens: who asks, whoever it is.")] = None,
    host: Annotated[str, typer.Option(help="The address; without --tokens one of this machine.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 for any that is free.")] = 8377,
) -> None:
    """Answer requests for contexts over HTTP.

    POST /context/build, /context/preview, /context/feedback and /context/sufficient, GET /metrics and /openapi.json.
    Ctrl-C or SIGTERM ends it when the requests under way are answered. It needs the extra `server` of the package.

    For example:

    ctxbench serve memories.db --workspace home
    """
    from ctxbench.cli.memory import run

    run(store, workspace, selector=selector, embedder=embedder, who=(tokens, user), at=(host, port))


@app.command("init", cls=Command)
def init_project(
    folder: Annotated[Path, typer.Argument(help="The project's folder.")] = Path(), json_: JsonFlag = False
) -> None:
    """Write the files that a project needs.

    An agent file, a gate, policies, an experiment and a workflow for what the project's folder holds. It looks for
    MCP configurations, rules and skills, lists of tools and labelled datasets. Files that are there stay.

    For example:

    ctxbench init
    """
    from ctxbench.cli.init import init

    init(folder, as_json=json_)


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
        bool, typer.Option("--history", help="Show accepted baselines over the commits of git instead of a run.")
    ] = False,
    limit: Annotated[int | None, typer.Option(help="With --history: the newest so many commits; default all.")] = None,
    chart: Annotated[
        Path | None, typer.Option(help="With --history: draw it into this file, too, .png or .svg.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Of a run: write the report as Markdown to this file, too.")
    ] = None,
    csv: CsvFile = None,
    json_: JsonFlag = False,
) -> None:
    """Show a finished run, or a gate's history.

    Without --history the argument is the folder of a run, as `ctxbench run` makes it.

    With --history it is a gate file or the folder of its baseline, as `ctxbench check --accept` makes it, in a checkout
    of git: `ctxbench report --history gate.yaml --chart history.png`. Each commit that changed the baseline is a line,
    oldest first, with the completeness and the prompt tokens of every selector on every dataset.

    For example:

    ctxbench report runs/presets
    """
    from ctxbench.cli.run import report as show

    show(path, history=history, limit=limit, chart=chart, markdown=markdown, csv=csv, as_json=json_)


@app.command(cls=Command)
def graph(
    catalog: CatalogArgument,
    out: Annotated[Path, typer.Option(help="The file to write, for `graph:` in a pipeline; if it is there, updated.")],
    similarity: Annotated[
        str,
        typer.Option(
            help=(
                "Of two items, over the passages of their texts: max (of the most alike pair), mean (of all "
                "pairs) or centroid (of their mean vectors)."
            )
        ),
    ] = "max",
    threshold: Annotated[float, typer.Option(help="Least similarity that is kept, 0 to 1.")] = 0.75,
    neighbours: Annotated[int, typer.Option(help="At most so many similar items of each item.")] = 100,
    heads: Annotated[bool, typer.Option("--heads", help="Compare only the first passage of each item.")] = False,
    embedder: EmbedderName = "minilm",
    json_: JsonFlag = False,
) -> None:
    """Store which items of a catalog are alike.

    A selector with `expansion: {by: graph, graph: FILE}` adds the items that are related to those it found; without a
    file it works the graph out in memory when it is first needed. Made again after an edit, only what changed is
    compared.

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
                "probability: how likely an item is needed. abstention: how likely anything is. weights: how "
                "much each column of a step `linear` counts, or each search of a hybrid."
            ),
        ),
    ],
    datasets: Annotated[list[str], typer.Argument(help="Labelled datasets, names or folders: one fit each.")],
    out: Annotated[Path, typer.Option(help="The file of fits to write, for `calibration:` in a pipeline.")],
    selector: Annotated[
        str | None,
        typer.Option(
            help="The selector to fit; by default learned for probability, semantic for abstention, hybrid for weights."
        ),
    ] = None,
    split: Annotated[str, typer.Option(help="Fit to the queries of this split; all = every query.")] = "tuning",
    folds: Annotated[
        int, typer.Option(help="Also measure it on requests that it was not fitted to, in so many parts.", min=0)
    ] = 0,
    embedder: EmbedderName = "minilm",
    no_text: Annotated[
        bool, typer.Option("--no-text", help="Keep no labelled requests in the fit; it then ignores what they needed.")
    ] = False,
    metric: Annotated[
        str | None,
        typer.Option(
            help=(
                "The figure that weights of a step `linear` are to raise: nDCG@10 (the order of the first ten) "
                "by default, R@10 (the share of the needed items among the first ten), Comp@5, RR ..."
            )
        ),
    ] = None,
    json_: JsonFlag = False,
) -> None:
    """Fit a selector to your labels.

    What is fitted is plain numbers, which the steps of a selector with `calibration: FILE` read: a logistic regression
    for probability and abstention (whether to offer nothing), and the weights that rank items best, those of a step
    `linear` or else of a hybrid (a search by words and one by meaning, as one). A
    probability starts from the shipped weights, holds for other catalogs, too, and is written with a selector that uses
    it; the others are for one catalog and search. Its file holds the labelled requests, as what similar requests needed
    says most.

    For example:

    ctxbench calibrate probability bfcl-simple --out fits.json --folds 5
    """
    from ctxbench.cli.tune import FitRequest
    from ctxbench.cli.tune import calibrate as fit

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
            help="Shipped selectors, or selector/preset; semantic/spec by default, of an agent file its own."
        ),
    ] = None,
    catalog: CatalogName = "workbench",
    embedder: EmbedderName = "minilm",
    seconds: Annotated[float, typer.Option(help="How long all selectors together are timed.", min=0, max=3600)] = 60.0,
    json_: JsonFlag = False,
) -> None:
    """Measure how long a request takes.

    Requests, made from descriptions of the items, are asked one at a time in one process, all selectors in turn, once
    indexes are made and vectors stored. Quantiles are printed: the median, and what 95% and 99% of requests stay below.

    For example:

    ctxbench latency semantic/spec learned/normal --catalog workbench
    """
    from ctxbench.cli.run import measure_latency

    measure_latency(selectors or [], catalog, embedder=embedder, seconds=seconds, as_json=json_)


_GROUPS = {
    "data": "Datasets and catalogs: get, make, label, change.",
    "memory": "Memories: import, search, make a prompt's context.",
}
for _name, _help in _GROUPS.items():
    _group = lazy_group(f"ctxbench.cli.{_name}_app")
    app.add_typer(typer.Typer(cls=_group, help=_help, no_args_is_help=True, rich_markup_mode=None), name=_name)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `ctxbench`: exit 0, 1 (a verdict), 2 (a fault of the user, one clear message) or 130 (Ctrl-C).

    Args:
        arguments: without the program's name; None: those of the process.
    """
    if arguments is None:
        keep_numbers()
        gc.set_threshold(100_000, 20, 20)  # importing makes many objects and no garbage: do not search it every 700
    with guarded(for_good=arguments is None):
        try:
            Path.cwd()  # raises where the folder is gone, in which some libraries cannot even be imported
            app(arguments, prog_name="ctxbench")
        except UserError as error:
            from ctxbench.cli.common import without_keys

            _fail(str(without_keys(error)), error.exit_code)
        except OSError as error:
            from ctxbench.io.errors import system_fault

            fault = system_fault(error)
            if fault is None:
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
