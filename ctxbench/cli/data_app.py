"""`ctxbench data` and its sub-commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ctxbench.cli.light import Command, Group, JsonFlag

data_app = typer.Typer(
    cls=Group, help="List, show, check and import labelled datasets.", no_args_is_help=True, rich_markup_mode=None
)


@data_app.command("list", cls=Command)
def data_list(json_: JsonFlag = False) -> None:
    """List datasets: imported, and to import.

    For example:

    ctxbench data list
    """
    from ctxbench.cli.data import list_datasets

    list_datasets(as_json=json_)


@data_app.command("show", cls=Command)
def data_show(
    dataset: Annotated[str, typer.Argument(help="A dataset's name or folder.")],
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
    dataset: Annotated[str, typer.Argument(help="A dataset's name or folder.")],
    json_: JsonFlag = False,
) -> None:
    """Check a dataset, all faults at once.

    For example:

    ctxbench data validate datasets/mine
    """
    from ctxbench.cli.data import validate

    raise typer.Exit(validate(dataset, as_json=json_))


class ImportGroup(Group):
    """`import NAME` and `import FILE.json` without the name of a sub-command, which they then are given."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Read the arguments as those of a sub-command."""
        return super().parse_args(ctx, self.with_command(args))

    def with_command(self, args: list[str]) -> list[str]:
        """The arguments with `dataset` or `tools` in front where they name no sub-command."""
        if not args or args[0] in (*self.commands, "--help", "-h"):
            return args
        file = any(not one.startswith("-") and Path(one).suffix in (".json", ".jsonc") for one in args)
        return ["tools" if file else "dataset", *args]


import_app = typer.Typer(
    cls=ImportGroup,
    help="Import datasets, lists of tools, logs and other formats.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
data_app.add_typer(import_app, name="import")


@import_app.command("dataset", cls=Command)
def import_dataset_command(
    name: Annotated[str, typer.Argument(help="A dataset that an importer provides, for example bfcl-simple.")],
    from_: Annotated[Path | None, typer.Option("--from", help="The folder of its published files.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write a copy to this folder, too.")] = None,
) -> None:
    """Import a public dataset; the word `dataset` may be left out.

    For example:

    ctxbench data import bfcl-simple
    """
    from ctxbench.cli.data import import_dataset

    import_dataset(name, out=out, source=from_)


@import_app.command("tools", cls=Command)
def import_tools_command(
    file: Annotated[Path, typer.Argument(help="Tools as MCP, OpenAI or Anthropic have them, JSON.")],
    out: Annotated[Path | None, typer.Option(help="The catalog's folder.")] = None,
    server: Annotated[str | None, typer.Option(help="Server of tools that name none.")] = None,
    json_: JsonFlag = False,
) -> None:
    """Turn a list of tools into a catalog; the word `tools` may be left out.

    For example:

    ctxbench data import tools.json --out catalogs/mine
    """
    from ctxbench.cli.capture import import_tools

    raise typer.Exit(import_tools(file, out=out, server=server, as_json=json_))


@data_app.command("capture", cls=Command)
def data_capture(
    out: Annotated[Path, typer.Option(help="The catalog's folder: corpus.jsonl and capture.yaml.")],
    mcp_config: Annotated[
        Path | None, typer.Option("--mcp-config", help="MCP servers as Claude, Cursor or VS Code keep them.")
    ] = None,
    rules: Annotated[
        list[Path] | None, typer.Option(help="A project: AGENTS.md, CLAUDE.md, Cursor, Copilot, skills; repeatable.")
    ] = None,
    references: Annotated[
        list[Path] | None, typer.Option(help="A folder of Markdown files, each a reference; repeatable.")
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help="Ask this server only; repeatable.")] = None,
    skip: Annotated[list[str] | None, typer.Option(help="Leave this server out; repeatable.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds that each server gets.")] = 30.0,
    json_: JsonFlag = False,
) -> None:
    """Capture what an agent has as a catalog: tools of MCP servers, rules, references.

    Exit code 1 if some servers failed; the others are kept.

    For example:

    ctxbench data capture --mcp-config .mcp.json --rules . --out catalogs/mine
    """
    from ctxbench.cli.capture import Wanted, capture_all

    wanted = Wanted(
        mcp_config=mcp_config,
        rules=rules or [],
        references=references or [],
        only=only or [],
        skip=skip or [],
        timeout=timeout,
    )
    raise typer.Exit(capture_all(wanted, out=out, as_json=json_))
