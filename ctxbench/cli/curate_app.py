"""`ctxbench data stats | split | diff | rebase | export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ctxbench.cli.light import Command
from ctxbench.cli.options import CatalogArgument, DatasetName, EmbedderName, JsonFlag, TokenCounter

AllFlag = Annotated[bool, typer.Option("--all", help="List all of it, not the first ten.")]
Out = Annotated[Path | None, typer.Option(help="Write the result to this folder.")]
InPlace = Annotated[bool, typer.Option("--in-place", help="Change the dataset's own folder.")]
NewVersion = Annotated[str | None, typer.Option("--version", help="Version of the result.")]

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
    from ctxbench.cli.overlap import show_overlap

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

    export(dataset, ExportTargets(format_, out, requests, plain=plain, run=run, may_offer=may_offer), as_json=json_)
