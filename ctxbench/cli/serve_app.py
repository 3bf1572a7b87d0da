"""`ctxbench serve`."""

from pathlib import Path
from typing import Annotated

import typer

from ctxbench.cli.options import EmbedderName


def serve(
    store: Annotated[Path, typer.Argument(metavar="STORE.db", help="The database of memories, an SQLite file.")],
    workspace: Annotated[str, typer.Option("--workspace", "-w", help="Whose items.")],
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

    POST /context/build, /context/preview and /context/feedback, GET /metrics and /openapi.json. Ctrl-C or SIGTERM ends
    it when the requests under way are answered. It needs the extra `server` of the package.

    For example:

    ctxbench serve memories.db --workspace home
    """
    from ctxbench.cli.serve_command import run

    run(store, workspace, selector=selector, embedder=embedder, who=(tokens, user), at=(host, port))
