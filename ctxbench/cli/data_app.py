"""`ctxbench data`: arguments of its commands."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ctxbench.cli.common import (
    FIRST_WORDS,
    CatalogArgument,
    Command,
    DatasetName,
    EmbedderName,
    Group,
    Jobs,
    JsonFlag,
    On,
    OptionalCatalogName,
    Store,
    StoreFile,
    TokenCounter,
    WorkspaceName,
)
from ctxbench.io.errors import ParameterError

HideKeys = Annotated[
    bool, typer.Option("--hide-keys", help="Replace keys in texts (ghp_..., JWT ...) with placeholders.")
]
NewVersion = Annotated[str | None, typer.Option("--version", help="Version of the result.")]


class ImportCommand(Command):
    """Accepts a kind in the first place: `import golden FILE` is `import --as golden FILE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Read the arguments."""
        if args and args[0] in FIRST_WORDS and not Path(args[0]).exists():
            args = ["--as", *args]
        return super().parse_args(ctx, args)


import_app = typer.Typer()


@import_app.command("import", cls=ImportCommand, no_args_is_help=True)
def data_import(
    paths: Annotated[
        list[str], typer.Argument(help="Files, folders or patterns of any kind; or the name of a public dataset.")
    ],
    catalog: OptionalCatalogName = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write the result to this folder.")] = None,
    as_: Annotated[
        str | None, typer.Option("--as", metavar="KIND", help="Kind of the files, if it is not recognised.")
    ] = None,
    map_: Annotated[
        list[str] | None,
        typer.Option(
            "--map", help="Names of fields in the files: query=userMessage,expected=wanted; expected=a+b joins two."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the first three requests with their labels; write nothing.")
    ] = False,
    type_: Annotated[
        str | None, typer.Option("--type", help="Type of documents: reference, chunk, file, memory, tool ...")
    ] = None,
    grades: Annotated[
        str | None,
        typer.Option(
            help="Grades of scores (2 required, 1 helpful, 0 irrelevant), for example 1=1,2=2,3=2. Irrelevant counts "
            "as forbidden: to leave scores of 0 out, remove their rows."
        ),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the dataset; by default that of --out.")] = None,
    licence: Annotated[str | None, typer.Option(help="Licence of the data, for the card.")] = None,
    version: NewVersion = None,
    history: Annotated[int | None, typer.Option(help="Logs: earlier messages per query; 20 by default.", min=0)] = None,
    all_offered: Annotated[
        bool, typer.Option("--all-offered", help="Logs: turns that list no offered items were offered everything.")
    ] = False,
    renames: Annotated[
        Path | None, typer.Option(help="Logs: renamed items, lines `old id: new id`, YAML or JSON.")
    ] = None,
    redact: Annotated[
        Path | None, typer.Option(help="Logs: patterns to redact, YAML or JSON, before the built-in ones.")
    ] = None,
    no_redact: Annotated[bool, typer.Option("--no-redact", help="Logs: do not redact texts.")] = False,
    nothing_else: Annotated[
        bool, typer.Option("--nothing-else", help="Trigger evals: requests that trigger no skill need nothing.")
    ] = False,
    server: Annotated[str | None, typer.Option(help="Tools: server of tools without one.")] = None,
    hide_keys: HideKeys = False,
    source: Annotated[
        Path | None, typer.Option("--from", help="Public dataset: folder with the published files.")
    ] = None,
    own_files: Annotated[
        bool, typer.Option("--own", help="Public dataset: --from has your own files in the same form.")
    ] = False,
    dataset: Annotated[
        str | None, typer.Option("--dataset", "-d", help="TREC run: name or folder of the dataset.")
    ] = None,
    keep: Annotated[int | None, typer.Option(help="TREC run: offered items per query; 5 by default.", min=0)] = None,
    json_: JsonFlag = False,
) -> None:
    """Make a dataset or a catalog of files.

    Recognises files by content: logs and sessions of agents, evals, collections with judgments, lists of tools or
    documents, skills and rules. datasets/kinds.md has a table of all kinds.

    For example:

    ctxbench data import sessions/ -c catalogs/mine --out datasets/mine
    """
    from ctxbench.cli.data import ImportRequest, import_any

    import_any(
        ImportRequest(
            paths=paths,
            catalog=catalog,
            out=out,
            kind=as_,
            names=",".join(map_ or ()) or None,
            dry_run=dry_run,
            item_type=type_,
            grades=grades,
            name=name,
            licence=licence,
            version=version,
            history=history,
            all_offered=all_offered,
            renames=renames,
            redact=redact,
            no_redact=no_redact,
            nothing_else=nothing_else,
            server=server,
            hide_keys=hide_keys,
            source=source,
            own_files=own_files,
            dataset=dataset,
            keep=keep,
        ),
        as_json=json_,
    )


Selectors = Annotated[
    list[str] | None,
    typer.Option(
        help="A selector (name, or name/preset), an agent file, or an experiment file; repeatable. By default bm25, "
        "dense, semantic/spec, and that of the agent file of the dataset."
    ),
]

label_app = typer.Typer()


@label_app.command("label", cls=Command)
def data_label(
    folder: Annotated[Path, typer.Argument(help="Folder of your dataset.")],
    minutes: Annotated[
        float, typer.Option(help="How long to ask; 0 only applies earlier answers and prints the figures.")
    ] = 20.0,
    selectors: Selectors = None,
    figure: Annotated[
        list[str] | None,
        typer.Option(
            help="At the first start: ask for the queries that make this figure more certain: a selector, or a "
            'difference "A - B"; repeatable.'
        ),
    ] = None,
    embedder: EmbedderName = "minilm",
    json_: JsonFlag = False,
) -> None:
    """Ask which items requests need, one key per answer.

    The first requests are those whose answers make the figures of selectors most certain. The key / searches for an
    item by its words.

    For example:

    ctxbench data label mine --minutes 20
    """
    from ctxbench.cli.label import label

    label(folder, minutes=minutes, selectors=selectors or [], figures=figure or [], embedder=embedder, as_json=json_)


@label_app.command("review", cls=Command)
def data_review(
    dataset: DatasetName,
    patch: Annotated[Path | None, typer.Option(help="Write accepted corrections to this file.")] = None,
    apply: Annotated[
        Path | None, typer.Option(help="Apply this file of corrections to the folder of the dataset.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Only list the labels.")] = False,
    selectors: Selectors = None,
    embedder: EmbedderName = "minilm",
    json_: JsonFlag = False,
) -> None:
    """Review labels that look wrong, worst first.

    Lists labels that all selectors contradict, and asks about each. Items have their server and name; --json and the
    patch have ids.

    For example:

    ctxbench data review mine --patch corrections.jsonl
    """
    from ctxbench.cli.label import apply_patch, review

    if (apply is not None) + list_ + (patch is not None) > 1:
        raise ParameterError("--apply, --list and --patch exclude each other; use one of them")
    if apply is not None:
        apply_patch(Path(dataset), apply)
    else:
        review(dataset, selectors=selectors or [], patch=patch, listed=list_, embedder=embedder, as_json=json_)


@label_app.command("pool", cls=Command)
def data_pool(
    dataset: DatasetName,
    out: Annotated[Path, typer.Option(help="Write the pairs to this file, JSON lines.")],
    share: Annotated[float, typer.Option(help="Share of queries to draw, 0 to 1.")] = 0.2,
    random: Annotated[int, typer.Option(help="Number of random items per query.", min=0)] = 10,
    seed: Annotated[int, typer.Option(help="Seed of the random draw.")] = 0,
    selectors: Selectors = None,
    embedder: EmbedderName = "minilm",
    json_: JsonFlag = False,
) -> None:
    """Draw pairs for a second labelling.

    Writes pairs of a request and an item without labels, for `data agreement`. For each drawn query: the best 20
    items of each selector, labelled items, and random items, in random order.

    For example:

    ctxbench data pool datasets/workbench --out pairs.jsonl
    """
    from ctxbench.cli.label import pool

    pool(
        dataset,
        share=share,
        random=random,
        seed=seed,
        selectors=selectors or [],
        embedder=embedder,
        out=out,
        as_json=json_,
    )


@label_app.command("agreement", cls=Command)
def data_agreement(
    first: Annotated[Path, typer.Argument(help="File of labels: query-id, corpus-id and score, separated by tabs.")],
    second: Annotated[Path, typer.Argument(help="Second file of labels of the same pairs.")],
    json_: JsonFlag = False,
) -> None:
    """Compute the agreement of two labellings.

    Prints the share of equal labels, and kappa, the agreement beyond chance (1 = always).

    For example:

    ctxbench data agreement first.tsv second.tsv
    """
    from ctxbench.cli.label import compare

    compare(first, second, as_json=json_)


AllFlag = Annotated[bool, typer.Option("--all", help="List all of it, not the first ten.")]
Out = Annotated[Path | None, typer.Option(help="Write the result to this folder.")]
InPlace = Annotated[bool, typer.Option("--in-place", help="Change the dataset's own folder.")]

curate_app = typer.Typer()


@curate_app.command("stats", cls=Command)
def data_stats(
    dataset: DatasetName,
    tokens: TokenCounter = "o200k",
    threshold: Annotated[
        float | None, typer.Option(help="Least similarity of near-duplicates; 0.7 by words, 0.85 by vectors.")
    ] = None,
    embedder: Annotated[
        str | None, typer.Option(help="Look for near-duplicates by this embedder's vectors, not by words.")
    ] = None,
    all_: AllFlag = False,
    json_: JsonFlag = False,
) -> None:
    """Say what a dataset holds.

    Labels, lengths, prices in tokens, requests and items that are nearly the same, and requests that name what they
    need.

    For example:

    ctxbench data stats bfcl-live
    """
    from ctxbench.cli.curate import stats

    stats(dataset, tokens=tokens, threshold=threshold, embedder=embedder, list_all=all_, as_json=json_)


@curate_app.command("overlap", cls=Command)
def data_overlap(
    catalog: CatalogArgument,
    threshold: Annotated[
        float | None, typer.Option(help="Items read alike from this similarity on, 0 to 1; 0.85 by default.")
    ] = None,
    embedder: EmbedderName = "minilm",
    all_: AllFlag = False,
    json_: JsonFlag = False,
) -> None:
    """Say which items a search confuses; no labels needed.

    Each item is searched for with the first sentence of its own description. Where another comes first, requests
    will miss it: what merging the two, or another name, would do is measured.

    For example:

    ctxbench data overlap catalogs/mine
    """
    from ctxbench.cli.run import show_overlap

    show_overlap(catalog, embedder=embedder, threshold=threshold, list_all=all_, as_json=json_)


@curate_app.command("split", cls=Command)
def data_split(
    dataset: DatasetName,
    by: Annotated[
        str, typer.Option(help="hash: at random, but always alike; or time: the earlier queries are for tuning.")
    ] = "hash",
    share: Annotated[
        float | None, typer.Option(help="Share of the queries that are for tuning, 0 to 1; 0.5 by default.")
    ] = None,
    folds: Annotated[int, typer.Option(help="So many splits fold-1, fold-2 ... in place of tuning and test.")] = 0,
    out: Out = None,
    in_place: InPlace = False,
    version: NewVersion = None,
    json_: JsonFlag = False,
) -> None:
    """Split a dataset's queries anew.

    Into those for tuning and those for testing, or into folds; groups and conversations stay whole.

    For example:

    ctxbench data split datasets/mine --by time --share 0.6 --in-place
    """
    from ctxbench.cli.curate import Splitting, split

    how = Splitting(by=by, share=share, folds=folds, version=version)
    split(dataset, how, out=out, in_place=in_place, as_json=json_)


@curate_app.command("diff", cls=Command)
def data_diff(
    first: Annotated[str, typer.Argument(help="A dataset's name or folder.")],
    second: Annotated[str, typer.Argument(help="Another one.")],
    all_: AllFlag = False,
    json_: JsonFlag = False,
) -> None:
    """Say how two datasets differ.

    Exit code 0 if they do not, else 1.

    For example:

    ctxbench data diff datasets/old datasets/new
    """
    from ctxbench.cli.curate import diff

    raise typer.Exit(diff(first, second, list_all=all_, as_json=json_))


@curate_app.command("rebase", cls=Command)
def data_rebase(
    dataset: DatasetName,
    catalog: Annotated[
        str | None,
        typer.Option(
            "--catalog",
            "-c",
            help="An agent file, corpus.jsonl, a dataset's folder or name. If left out: the agent of the dataset.",
        ),
    ] = None,
    out: Out = None,
    in_place: InPlace = False,
    renames: Annotated[Path | None, typer.Option(help="YAML or JSON: old item id to new.")] = None,
    accept_renames: Annotated[
        bool,
        typer.Option(
            "--accept-renames",
            help="Follow items with the same content elsewhere, too; not over an agent file, of whose former items "
            "only ids are known: there take --renames.",
        ),
    ] = False,
    version: NewVersion = None,
    all_: AllFlag = False,
    json_: JsonFlag = False,
) -> None:
    """Carry a dataset's labels to a changed catalog.

    Labels follow their items, renamed ones too; all that is lost or new is said.

    For example:

    ctxbench data rebase datasets/mine --in-place
    """
    from ctxbench.cli.curate import Rebasing, rebase

    how = Rebasing(catalog=catalog, renames=renames, accept=accept_renames, version=version)
    rebase(dataset, how, out=out, in_place=in_place, list_all=all_, as_json=json_)


@curate_app.command("export", cls=Command)
def data_export(
    dataset: DatasetName,
    format_: Annotated[str | None, typer.Option("--format", help="beir or trec, which search programs read.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write to this folder: a new one, or an earlier export; takes --format.")
    ] = None,
    requests: Annotated[
        Path | None,
        typer.Option(help="Write to this file what a command reads: a line with the catalog, then one a query."),
    ] = None,
    may_offer: Annotated[
        bool, typer.Option("--may-offer", help="With --requests: add to each query the ids of what it may be offered.")
    ] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Only what the format itself holds.")] = False,
    run: Annotated[Path | None, typer.Option(help="With trec: a run folder; its rankings are written, too.")] = None,
    split: Annotated[str, typer.Option(help="Only the queries of this split.")] = "",
    json_: JsonFlag = False,
) -> None:
    """Write a dataset, and a run's rankings, for other programs.

    With --format, a folder that search programs read. With --requests, the lines that a run would send a command of
    your own, so that you can run it by hand: `my-command < requests.jsonl > answers.jsonl`, and then
    `ctxbench score answers.jsonl --dataset bfcl-simple`.

    For example:

    ctxbench data export bfcl-simple --requests requests.jsonl
    """
    from ctxbench.cli.curate import ExportTargets, export

    targets = ExportTargets(format_, out, requests, plain=plain, run=run, split=split, may_offer=may_offer)
    export(dataset, targets, as_json=json_)


data_app = typer.Typer(
    cls=Group,
    help="Datasets and catalogs: get, make, label, change.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@data_app.command("list", cls=Command)
def data_list(json_: JsonFlag = False) -> None:
    """List the datasets that have a name.

    Those that come with the package or were imported (cached), and those that can be imported, with what that takes.

    For example:

    ctxbench data list
    """
    from ctxbench.cli.data import list_datasets

    list_datasets(as_json=json_)


@data_app.command("show", cls=Command)
def data_show(
    dataset: DatasetName,
    query: Annotated[str | None, typer.Option(help="Show this query with its labels.")] = None,
    json_: JsonFlag = False,
) -> None:
    """Show a dataset, or one query of it.

    For example:

    ctxbench data show bfcl-simple --query simple_python_0
    """
    from ctxbench.cli.data import show

    show(dataset, query=query, as_json=json_)


@data_app.command("validate", cls=Command)
def data_validate(
    dataset: DatasetName,
    json_: JsonFlag = False,
) -> None:
    """Check a dataset: all faults at once.

    For example:

    ctxbench data validate datasets/mine
    """
    from ctxbench.cli.data import validate

    raise typer.Exit(validate(dataset, as_json=json_))


@data_app.command("fetch", cls=Command)
def data_fetch(
    name: Annotated[str, typer.Argument(help="A source, or a dataset made of it, for example metatool.")],
    json_: JsonFlag = False,
) -> None:
    """Fetch a public dataset's files from their owner.

    For example:

    ctxbench data fetch metatool
    """
    from ctxbench.cli.data import fetch_source

    fetch_source(name, as_json=json_)


@data_app.command("capture", cls=Command)
def data_capture(
    out: Annotated[Path | None, typer.Option(help="The catalog's folder: corpus.jsonl and capture.yaml.")] = None,
    agent: Annotated[
        Path | None, typer.Option(help="Ask the servers of this agent file, and keep what they said where it names.")
    ] = None,
    mcp_config: Annotated[
        Path | None,
        typer.Option("--mcp-config", help="A configuration of MCP servers, as Claude, Cursor or VS Code keep it."),
    ] = None,
    rules: Annotated[
        list[Path] | None, typer.Option(help="A project: AGENTS.md, CLAUDE.md, Cursor, Copilot, skills; repeatable.")
    ] = None,
    references: Annotated[
        list[Path] | None, typer.Option(help="A folder of Markdown files, each a reference; repeatable.")
    ] = None,
    servers: Annotated[
        list[str] | None,
        typer.Option("--only", help="Ask this server only; all else in an earlier catalog stays. Repeatable."),
    ] = None,
    skip: Annotated[
        list[str] | None, typer.Option(help="Do not ask this server; its items in an earlier catalog stay. Repeatable.")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds that each server gets.")] = 30.0,
    partial: Annotated[
        bool, typer.Option("--partial", help="Replace an earlier catalog although servers failed or were not asked.")
    ] = False,
    hide_keys: HideKeys = False,
    json_: JsonFlag = False,
) -> None:
    """Write down what an agent has, as a catalog.

    Tools of MCP servers, rules and references. Asking servers takes the MCP SDK, the extra `mcp` of the package. Exit
    code 1 if some servers failed; the others are kept, but an earlier catalog is not replaced by less.

    With --agent FILE only the servers of an agent file are asked: its rules, references and lists of tools are read
    anew each time.

    For example:

    ctxbench data capture --mcp-config .mcp.json --rules . --out catalogs/mine
    """
    from ctxbench.cli.capture import CaptureRequest, capture_agent, capture_all

    request = CaptureRequest(
        mcp_config=mcp_config,
        rules=rules or [],
        references=references or [],
        servers=servers or [],
        skip=skip or [],
        timeout=timeout,
        partial=partial,
        hide_keys=hide_keys,
    )
    if agent is not None:
        raise typer.Exit(capture_agent(agent, request, out=out, as_json=json_))
    raise typer.Exit(capture_all(request, out=out, as_json=json_))


@data_app.command("from-git", cls=Command)
def data_from_git(
    repository: Annotated[Path, typer.Argument(metavar="REPO", help="A git repository, also a bare one.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Write the dataset to this folder; datasets/NAME by default.", show_default=False),
    ] = None,
    queries: Annotated[int, typer.Option(help="How many of the newest commits become queries.", min=1)] = 300,
    commits: Annotated[int, typer.Option(help="How many of the newest commits are looked at.", min=1)] = 5_000,
    head: Annotated[str, typer.Option(help="The newest commit: a branch, a tag or a hash.")] = "HEAD",
    view: Annotated[
        str,
        typer.Option(help="What items are: files, or definitions (outlines of files, and a chunk each)."),
    ] = "files",
    split: Annotated[float, typer.Option(help="The share of the newest queries that are for the test.")] = 0.4,
    merges: Annotated[
        bool, typer.Option("--merges", help="Merges whose message says what they bring are queries, too.")
    ] = False,
    keep_issues: Annotated[
        bool, typer.Option("--keep-issues", help="Leave the numbers of issues in the messages.")
    ] = False,
    queries_from: Annotated[
        Path | None,
        typer.Option(
            help='Texts of issues or pull requests in place of messages: lines {"number": 12, "text": ...} or '
            '{"commit": HASH, "text": ...}.',
            show_default=False,
        ),
    ] = None,
    grow: Annotated[
        bool,
        typer.Option(
            "--grow",
            help="Add the newer commits to the dataset there, without --queries and --split; what it has stays.",
        ),
    ] = False,
    jobs: Jobs = None,
    on: On = "",
    store: Store = "",
    json_: JsonFlag = False,
) -> None:
    """Make a labelled dataset of a repository's history.

    A commit's message is a query over the tree before it, and what it changed is required. Merges, reverts, releases,
    bots, changes of white space or of documentation alone, and commits that only add files are left out.

    For example:

    ctxbench data from-git . --out datasets/history
    """
    from ctxbench.catalogs.git_history import QueryTexts, read_query_texts
    from ctxbench.cli.data import write_history
    from ctxbench.io.workers import Workers
    from ctxbench.labelling.git_history import CommitRules, HistorySettings

    texts = QueryTexts() if queries_from is None else read_query_texts(queries_from)
    rules = CommitRules(queries=queries, merges=merges, keep_issues=keep_issues, texts=texts)
    settings = HistorySettings(head=head, commits=commits, rules=rules, view=view, test_share=split)
    workers = Workers(jobs=jobs, on=on, store=store)
    write_history(repository, settings, out=out, grow=grow, workers=workers, as_json=json_)


@data_app.command("from-feedback", cls=Command)
def from_feedback(
    store: StoreFile,
    workspace: WorkspaceName,
    out: Annotated[Path, typer.Option(help="Write the dataset to this folder.")],
    json_: JsonFlag = False,
) -> None:
    """Make a dataset of feedback on contexts that `ctxbench serve` built.

    Each context that feedback named is a query: what was useful is required, what was not is irrelevant, and more may
    be required, unless the context was said to be sufficient and each of its items was judged. The dataset's items are
    all that the workspace holds, of all users.

    For example:

    ctxbench data from-feedback memories.db --workspace home --out labelled
    """
    from ctxbench.cli.memory import write_labels

    write_labels(store, workspace, out, as_json=json_)


data_app.registered_commands += [
    *import_app.registered_commands,
    *label_app.registered_commands,
    *curate_app.registered_commands,
]
