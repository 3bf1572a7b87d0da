"""`ctxbench data label | review | pool | agreement`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ctxbench.cli.light import Command
from ctxbench.cli.options import DatasetName, EmbedderName, JsonFlag
from ctxbench.core.errors import ParameterError

Selectors = Annotated[
    list[str] | None,
    typer.Option(
        help="A selector (name, or name/preset), an agent file, or an experiment file with several; repeatable. By "
        "default bm25, dense, semantic/documents, and your agent's where the dataset is over an agent file."
    ),
]

label_app = typer.Typer()


@label_app.command("label", cls=Command)
def data_label(
    folder: Annotated[Path, typer.Argument(help="The folder of a dataset of yours.")],
    minutes: Annotated[float, typer.Option(help="How long to ask; 0 only says where the figures stand.")] = 20.0,
    selectors: Selectors = None,
    figure: Annotated[
        list[str] | None,
        typer.Option(
            help="When labelling starts: ask what makes this figure more certain: how complete a selector is, or the "
            'difference of two, "A - B"; repeatable.'
        ),
    ] = None,
    embedder: EmbedderName = "minilm",
    json_: JsonFlag = False,
) -> None:
    """Ask what requests need, one key an answer.

    First come the requests whose answers make the selectors' figures most certain. The screen sets the request apart
    from what was said before it, and calls items by server and name. The key / searches for an item by its words; one
    that is marked for the request already is said to be, and nothing changes.

    For example:

    ctxbench data label mine --minutes 20
    """
    from ctxbench.cli.label import label

    label(folder, minutes=minutes, selectors=selectors or [], figures=figure or [], embedder=embedder, as_json=json_)


@label_app.command("review", cls=Command)
def data_review(
    dataset: DatasetName,
    patch: Annotated[Path | None, typer.Option(help="Write accepted corrections to this file.")] = None,
    apply: Annotated[Path | None, typer.Option(help="Apply such a file to the dataset's folder.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="Only list.")] = False,
    selectors: Selectors = None,
    embedder: EmbedderName = "minilm",
    json_: JsonFlag = False,
) -> None:
    """Review labels that look wrong, worst first.

    Those that several selectors contradict. Each is asked about with its request, set apart from what was said before
    it. Items are called by server and name; --json and the patch have their ids.

    For example:

    ctxbench data review mine --patch corrections.jsonl
    """
    from ctxbench.cli.review_command import apply_patch, review

    if (apply is not None) + list_ + (patch is not None) > 1:
        raise ParameterError("--apply, --list and --patch exclude each other; give one")
    if apply is not None:
        apply_patch(Path(dataset), apply)
    else:
        review(dataset, selectors=selectors or [], patch=patch, listed=list_, embedder=embedder, as_json=json_)


@label_app.command("pool", cls=Command)
def data_pool(
    dataset: DatasetName,
    out: Annotated[Path, typer.Option(help="Write the pairs to this file, JSON lines.")],
    share: Annotated[float, typer.Option(help="Share of the queries that are drawn, 0 to 1.")] = 0.2,
    random: Annotated[int, typer.Option(help="Items drawn at random for each query.", min=0)] = 10,
    seed: Annotated[int, typer.Option(help="Of the random draw: another number draws others.")] = 0,
    selectors: Selectors = None,
    embedder: EmbedderName = "minilm",
    json_: JsonFlag = False,
) -> None:
    """Draw pairs for somebody else to label, too.

    Pairs of a request and an item, without any label, so that `data agreement` can say how far two people agree. Of
    each drawn query: the best 20 of every selector, what is labelled, and some items at random, in random order.

    For example:

    ctxbench data pool datasets/workbench --out pairs.jsonl
    """
    from ctxbench.cli.agreement_command import Drawn, pool

    drawn = Drawn(share=share, random=random, seed=seed)
    pool(dataset, drawn, selectors=selectors or [], embedder=embedder, out=out, as_json=json_)


@label_app.command("agreement", cls=Command)
def data_agreement(
    first: Annotated[Path, typer.Argument(help="A file of labels: columns query-id, corpus-id and score, by tabs.")],
    second: Annotated[Path, typer.Argument(help="Another labelling of the same pairs.")],
    json_: JsonFlag = False,
) -> None:
    """Say how far two labellings agree.

    As the share of equal labels, and as kappa: agreement beyond what chance would give, 1 = always.

    For example:

    ctxbench data agreement first.tsv second.tsv
    """
    from ctxbench.cli.agreement_command import compare

    compare(first, second, as_json=json_)
