"""`ctxbench memory` and `ctxbench context`, and their sub-commands."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import typer

from ctxbench.cli.common import Command, EmbedderName, Group, JsonFlag, StoreFile

C = TypeVar("C", bound=Callable[..., None])
QueryText = Annotated[str, typer.Argument(help="A question, or a message of the user.")]
WorkspaceName = Annotated[str, typer.Option("--workspace", "-w", help="Workspace of the memories.")]
ImportEmbedder = Annotated[
    str | None,
    typer.Option(help="Compute vectors now with this model, such as minilm; by default at the first search."),
]


class _Option(NamedTuple):
    """An option of a type, and its flag where that is not the name."""

    kind: Any
    help: str
    flag: str = ""


_SEARCH = {  # fields of `SearchOptions`, which has the limits and the defaults
    "limit": _Option(int, "Largest number of memories, 1 to 100; 10 by default."),
    "ranker": _Option(
        str,
        "Order of results: default (similar in meaning and words), spec (similarity + recency + confidence, as "
        "specified), similarity (in meaning only), recency (newest first) or confidence (most certain first).",
    ),
    "settings": _Option(
        list[str], "Set a weight of the order default or spec, NAME=VALUE, such as recency=0.5; repeatable.", "--set"
    ),
    "kinds": _Option(list[str], "Only memories of this type, such as fact; repeatable.", "--type"),
    "since": _Option(str, "Only memories created at this time, ISO 8601, or later."),
    "before": _Option(str, "Only memories created before this time."),
    "confidence": _Option(float, "Only memories with at least this confidence, 0 to 1."),
    "conversation": _Option(str, "Only memories of this conversation."),
    "user": _Option(str, "User who asks, to include private memories of this user."),
    "time": _Option(str, "Search the versions of this time, ISO 8601.", "--as-of"),
    "relationships": _Option(bool, "Add related memories.", "--relationships"),
    "depth": _Option(int, "Largest number of relationships to follow, 1 to 5; 1 by default."),
}
_EXPLAIN = _Option(bool, "Show the parts of scores, and why memories were excluded.", "--explain")
_CONTEXT = {  # fields of `ContextOptions`, and options of the token counter
    "template": _Option(
        str,
        "Format of memories: chat (a list, the default), detailed (with type, confidence and time), summary (one "
        "line), or a YAML file or JSON object with memory_format, header, separator and footer.",
    ),
    "budget": _Option(int, "Largest number of tokens; 2000 by default."),
    "metadata": _Option(bool, "Show type, confidence and time if the template has them.", "--metadata/--no-metadata"),
    "tokens": _Option(str, "Token counter: o200k (of GPT-4o, by default), cl100k (of GPT-4), chars/4 (an estimate)."),
    "model": _Option(str, "Model, such as gpt-4, whose token counter is used."),
}

memory_app = typer.Typer(
    cls=Group,
    help="Import and search memories, and build the context of a prompt.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def _asking(
    store: StoreFile,
    query: QueryText,
    workspace: WorkspaceName,
    embedder: EmbedderName = "minilm",
    json_: JsonFlag = False,
) -> None:
    """The shared arguments of search commands: three before their options, and two after them."""


def _asks_with(table: Mapping[str, _Option]) -> Callable[[C], C]:
    """Add the shared arguments and the options of a table to a command; missing options are None."""

    def give(command: C) -> C:
        shared = [*inspect.signature(_asking, eval_str=True).parameters.values()]
        options = []
        for name, spec in table.items():
            option = typer.Option(spec.flag or f"--{name}", help=spec.help)
            options.append(shared[0].replace(name=name, default=None, annotation=Annotated[spec.kind | None, option]))
        parts = [*shared[:3], *options, *shared[3:]]
        command.__signature__ = inspect.Signature(parts)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parts}
        return command

    return give


@memory_app.command("import", cls=Command)
def memory_import(
    store: StoreFile,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.jsonl", help="Memories, one JSON object per line; or the corpus.jsonl of a dataset."
        ),
    ],
    workspace: WorkspaceName,
    embedder: ImportEmbedder = None,
    json_: JsonFlag = False,
) -> None:
    """Import memories from JSON lines.

    A row has id, content, and perhaps type, confidence (0 to 1), created_at (ISO 8601), conversation_id, user_id,
    workspace_id, metadata and relationships, [{"type": "follows", "target": ID}]. Rows of other workspaces are
    ignored.

    A row with an existing id is a later version from its created_at on; an unchanged row is ignored. Missing fields of
    a later version have their defaults. Memories that are not in the file stay. If a row is wrong, nothing is imported.
    The database is created if it does not exist.

    For example:

    ctxbench memory import memories.db rows.jsonl --workspace home
    """
    from ctxbench.cli.memory import import_file

    import_file(store, file, workspace, memories=True, embedder=embedder, as_json=json_)


context_app = typer.Typer(
    cls=Group,
    help="Import files, messages, references and accesses, of which `ctxbench serve` makes contexts.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@context_app.callback()
def context() -> None:
    """Import files, messages, references and accesses, of which `ctxbench serve` makes contexts."""


@context_app.command("import", cls=Command)
def context_import(
    store: StoreFile,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.jsonl", help="Items and events, one JSON object per line; or the corpus.jsonl of a dataset."
        ),
    ],
    workspace: Annotated[str, typer.Option("--workspace", "-w", help="Workspace of the items.")],
    embedder: ImportEmbedder = None,
    json_: JsonFlag = False,
) -> None:
    """Import files, messages, references and accesses from JSON lines.

    A row of an item has id (the path of a file), type (file, message or memory), content, and perhaps kind, user,
    conversation, created, confidence, metadata and relationships. The rows of a catalog (_id, text) are read, too.

    A row of an event has event (reference, unreference, access or feedback), id, at (ISO 8601), and perhaps user,
    conversation and useful. A reference belongs to a conversation; only an access of a file counts.

    A row with an existing id is a later version; an unchanged row is ignored. Items that are not in the file stay. If a
    row is wrong, nothing is imported. The database is created if it does not exist.

    For example:

    ctxbench context import acme.db rows.jsonl --workspace acme
    """
    from ctxbench.cli.memory import import_file

    import_file(store, file, workspace, memories=False, embedder=embedder, as_json=json_)


@memory_app.command("search", cls=Command)
@_asks_with(_SEARCH | {"explain": _EXPLAIN})
def memory_search(**options: Any) -> None:
    """Search memories, best first.

    For example:

    ctxbench memory search memories.db "what does Ben drink?" -w home
    """
    from ctxbench.cli.memory import search

    search(**options)


@memory_app.command("build", cls=Command)
@_asks_with(_CONTEXT | _SEARCH)
def memory_build(**options: Any) -> None:
    """Build the context of a prompt.

    Prints the best memories that fit into the budget; a summary goes to standard error.

    For example:

    ctxbench memory build memories.db "what does Ben drink?" -w home
    """
    from ctxbench.cli.memory import build

    build(**options)


@memory_app.command("preview", cls=Command)
@_asks_with(_CONTEXT | _SEARCH)
def memory_preview(**options: Any) -> None:
    """Preview a context.

    Prints the memories of `ctxbench memory build` with the same options, their scores, and the share of the budget.

    For example:

    ctxbench memory preview memories.db "what does Ben drink?" -w home
    """
    from ctxbench.cli.memory import preview

    preview(**options)
