"""`ctxbench memory` and its sub-commands."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import typer

from ctxbench.cli.common import Command, EmbedderName, Group, JsonFlag, StoreFile

C = TypeVar("C", bound=Callable[..., None])
QueryText = Annotated[str, typer.Argument(help="What is asked: a question, or a message of the user.")]
WorkspaceName = Annotated[
    str, typer.Option("--workspace", "-w", help="Whose memories: a database has several workspaces, each by itself.")
]


class _Option(NamedTuple):
    """An option of a type, and its flag where that is not the name."""

    kind: Any
    help: str
    flag: str = ""


_SEARCH = {  # by the names of `SearchOptions`, which has the limits and the defaults
    "limit": _Option(int, "At most so many memories, 1 to 100; 10 by default."),
    "ranker": _Option(
        str,
        "What comes first: default (like the query in meaning and in words), similarity (in meaning alone), "
        "recency (the newest of what the default finds) or confidence (the surest of that).",
    ),
    "kinds": _Option(list[str], "Only memories of this type, such as fact; repeatable.", "--type"),
    "since": _Option(str, "Only memories created at this time, ISO 8601, or later."),
    "before": _Option(str, "Only memories created before this time."),
    "confidence": _Option(float, "Only memories that are at least so sure, 0 to 1."),
    "conversation": _Option(str, "Only memories of this conversation."),
    "user": _Option(str, "Who asks: memories that are one user's alone are seen by that user only."),
    "time": _Option(str, "Answer as at this time, ISO 8601: what was known then, and no later version.", "--as-of"),
    "relationships": _Option(bool, "Add the memories that those found are related to.", "--relationships"),
    "depth": _Option(int, "How many relationships away these may be, 1 to 5; 1 by default."),
}
_EXPLAIN = _Option(bool, "Show what each score is made of, and what stayed out and why.", "--explain")
_CONTEXT = {  # likewise of `ContextOptions`, and what counts its tokens
    "template": _Option(
        str,
        "How memories are written: chat (a list, the default), detailed (with type, confidence and time), "
        "summary (in one line), or a YAML file with memory_format, header, separator and footer.",
    ),
    "budget": _Option(int, "At most so many tokens, all in all; 2000 by default."),
    "metadata": _Option(
        bool, "Fill in type, confidence and time where the template has them.", "--metadata/--no-metadata"
    ),
    "tokens": _Option(
        str, "How tokens are counted: o200k (GPT-4o's tokenizer, by default), cl100k (GPT-4's), chars/4 (a guess)."
    ),
    "model": _Option(str, "The model that reads it, such as gpt-4: its tokens are counted, not those above."),
}

memory_app = typer.Typer(
    cls=Group,
    help="What an agent remembers: import it, search it, make the context of a prompt.",
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
    """The arguments of every search command: three before its options, and two options after them."""


def _asks_with(table: Mapping[str, _Option]) -> Callable[[C], C]:
    """Give a command the shared arguments and the options of a table; an option that is not given is None."""

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
        typer.Argument(metavar="FILE.jsonl", help="Memories, one JSON object a line; or a dataset's corpus.jsonl."),
    ],
    workspace: WorkspaceName,
    embedder: Annotated[
        str | None,
        typer.Option(help="Make the vectors now, with this model, such as minilm; otherwise the first search does."),
    ] = None,
    json_: JsonFlag = False,
) -> None:
    """Import memories from JSON lines.

    A row has id, content, and as needed type, confidence (0 to 1), created_at (ISO 8601), conversation_id, user_id,
    workspace_id, metadata and relationships, [{"type": "follows", "target": ID}]. Rows of other workspaces are left
    out.

    An id that is there already becomes a later version from its created_at on; a row that says the same is passed over.
    A later version has what its row says: type, confidence and metadata that it leaves out are the defaults again. A
    file that says again what an earlier version said takes the edit back. What a file no longer has stays stored.
    Where anything is wrong, nothing is imported. The database is made where there is none.

    For example:

    ctxbench memory import memories.db rows.jsonl --workspace home
    """
    from ctxbench.cli.memory import import_file

    import_file(store, file, workspace, embedder=embedder, as_json=json_)


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
    """Make the context of a prompt.

    The best memories that fit into the budget. Standard output has that text and nothing else; what it is made of is
    told on standard error.

    For example:

    ctxbench memory build memories.db "what does Ben drink?" -w home
    """
    from ctxbench.cli.memory import build

    build(**options)


@memory_app.command("preview", cls=Command)
@_asks_with(_CONTEXT | _SEARCH)
def memory_preview(**options: Any) -> None:
    """Show what a context would hold.

    The memories that `ctxbench memory build` takes with the same options, their scores, and the share of the budget.

    For example:

    ctxbench memory preview memories.db "what does Ben drink?" -w home
    """
    from ctxbench.cli.memory import preview

    preview(**options)
