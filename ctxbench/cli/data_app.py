"""`ctxbench data` and its sub-commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ctxbench.cli.curate_app import curate_app
from ctxbench.cli.import_app import HideKeys, import_app
from ctxbench.cli.label_app import label_app
from ctxbench.cli.light import Command, Group
from ctxbench.cli.options import DatasetName, JsonFlag
from ctxbench.cli.serve_app import from_feedback

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
    from ctxbench.cli.data_listing import list_datasets

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
    from ctxbench.cli.data_listing import show

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
    from ctxbench.cli.data_listing import validate

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
    from ctxbench.cli.fetch_command import fetch_source

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
    json_: JsonFlag = False,
) -> None:
    """Make a labelled dataset of a repository's history.

    A commit's message is a query over the tree before it, and what it changed is required. Merges, reverts, releases,
    bots, changes of white space or of documentation alone, and commits that only add files are left out.

    For example:

    ctxbench data from-git . --out datasets/history
    """
    from ctxbench.cli.from_git_command import write_history
    from ctxbench.data.from_git.commit_choice import CommitRules
    from ctxbench.data.from_git.history_dataset import HistorySettings
    from ctxbench.data.from_git.query_texts import QueryTexts, read_query_texts

    texts = QueryTexts() if queries_from is None else read_query_texts(queries_from)
    rules = CommitRules(queries=queries, merges=merges, keep_issues=keep_issues, texts=texts)
    settings = HistorySettings(head=head, commits=commits, rules=rules, view=view, test_share=split)
    write_history(repository, settings, out=out, grow=grow, as_json=json_)


data_app.command("from-feedback", cls=Command)(from_feedback)
data_app.registered_commands += [*label_app.registered_commands, *curate_app.registered_commands]
data_app.add_typer(import_app, name="import")
