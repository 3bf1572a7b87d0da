"""`ctxbench serve`, and `ctxbench data from-feedback`, which makes labels of feedback on served contexts."""

from pathlib import Path
from typing import Annotated

import typer

from ctxbench.cli.options import EmbedderName, JsonFlag

StoreFile = Annotated[Path, typer.Argument(metavar="STORE.db", help="The database of memories, an SQLite file.")]
WorkspaceName = Annotated[str, typer.Option("--workspace", "-w", help="Whose items.")]


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
    from ctxbench.cli.serve_command import run

    run(store, workspace, selector=selector, embedder=embedder, who=(tokens, user), at=(host, port))


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
    from ctxbench.cli.serve_command import write_labels

    write_labels(store, workspace, out, as_json=json_)
