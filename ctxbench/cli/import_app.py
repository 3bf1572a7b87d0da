"""`ctxbench data import`, `label`, `review`, `pool` and `agreement`: arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ctxbench.cli.common import Command, DatasetName, EmbedderName, JsonFlag, OptionalCatalogName
from ctxbench.io.errors import ParameterError

HideKeys = Annotated[
    bool, typer.Option("--hide-keys", help="Replace keys in texts (ghp_..., JWT ...) with placeholders.")
]
NewVersion = Annotated[str | None, typer.Option("--version", help="Version of the result.")]


class ImportCommand(Command):
    """Accepts a kind in the first place: `import golden FILE` is `import --as golden FILE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Read the arguments."""
        if args and args[0] in _FIRST_WORDS and not Path(args[0]).exists():
            args = ["--as", *args]
        return super().parse_args(ctx, args)


_FIRST_WORDS = ("dataset", "traces", "tools", "golden", "triggers", "beir", "trec", "autorag", "run")

import_app = typer.Typer()


@import_app.command("import", cls=ImportCommand, no_args_is_help=True)
def data_import(
    paths: Annotated[
        list[str], typer.Argument(help="Files, folders or patterns of any kind; or the name of a public dataset.")
    ],
    catalog: OptionalCatalogName = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write the result to this folder.")] = None,
    as_: Annotated[
        str | None, typer.Option("--as", metavar="KIND", help="Kind of the files, if it is not recognised.")
    ] = None,
    map_: Annotated[
        str | None, typer.Option("--map", help="Names of fields in the files: query=userMessage,expected=wanted.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the first three requests with their labels; write nothing.")
    ] = False,
    type_: Annotated[
        str | None, typer.Option("--type", help="Type of documents: reference, chunk, file, memory, tool ...")
    ] = None,
    grades: Annotated[
        str | None,
        typer.Option(help="Grades of scores (2 required, 1 helpful, 0 irrelevant), for example 1=1,2=2,3=2."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the dataset; by default that of --out.")] = None,
    licence: Annotated[str | None, typer.Option(help="Licence of the data, for the card.")] = None,
    version: NewVersion = None,
    history: Annotated[int | None, typer.Option(help="Logs: earlier messages per query; 20 by default.", min=0)] = None,
    all_offered: Annotated[
        bool, typer.Option("--all-offered", help="Logs: turns that list no offered items were offered everything.")
    ] = False,
    renames: Annotated[
        Path | None, typer.Option(help="Logs: renamed items, lines `old id: new id`, YAML or JSON.")
    ] = None,
    redact: Annotated[
        Path | None, typer.Option(help="Logs: patterns to redact, YAML or JSON, before the built-in ones.")
    ] = None,
    no_redact: Annotated[bool, typer.Option("--no-redact", help="Logs: do not redact texts.")] = False,
    nothing_else: Annotated[
        bool, typer.Option("--nothing-else", help="Trigger evals: requests that trigger no skill need nothing.")
    ] = False,
    server: Annotated[str | None, typer.Option(help="Tools: server of tools without one.")] = None,
    hide_keys: HideKeys = False,
    source: Annotated[
        Path | None, typer.Option("--from", help="Public dataset: folder with the published files.")
    ] = None,
    own_files: Annotated[
        bool, typer.Option("--own", help="Public dataset: --from has your own files in the same form.")
    ] = False,
    dataset: Annotated[
        str | None, typer.Option("--dataset", "-d", help="TREC run: name or folder of the dataset.")
    ] = None,
    keep: Annotated[int | None, typer.Option(help="TREC run: offered items per query; 5 by default.", min=0)] = None,
    json_: JsonFlag = False,
) -> None:
    """Make a dataset or a catalog of files.

    Recognises files by content: logs and sessions of agents, evals, collections with judgments, lists of tools or
    documents, skills and rules. datasets/README.md has a table of all kinds.

    For example:

    ctxbench data import sessions/ -c catalogs/mine --out datasets/mine
    """
    from ctxbench.cli.data import ImportRequest, import_any

    import_any(
        ImportRequest(
            paths=paths,
            catalog=catalog,
            out=out,
            kind=as_,
            names=map_,
            dry_run=dry_run,
            item_type=type_,
            grades=grades,
            name=name,
            licence=licence,
            version=version,
            history=history,
            all_offered=all_offered,
            renames=renames,
            redact=redact,
            no_redact=no_redact,
            nothing_else=nothing_else,
            server=server,
            hide_keys=hide_keys,
            source=source,
            own_files=own_files,
            dataset=dataset,
            keep=keep,
        ),
        as_json=json_,
    )


Selectors = Annotated[
    list[str] | None,
    typer.Option(
        help="A selector (name, or name/preset), an agent file, or an experiment file; repeatable. By default bm25, "
        "dense, semantic/spec, and that of the agent file of the dataset."
    ),
]

label_app = typer.Typer()


@label_app.command("label", cls=Command)
def data_label(
    folder: Annotated[Path, typer.Argument(help="Folder of your dataset.")],
    minutes: Annotated[float, typer.Option(help="How long to ask; 0 only prints the figures.")] = 20.0,
    selectors: Selectors = None,
    figure: Annotated[
        list[str] | None,
        typer.Option(
            help="At the first start: ask for the queries that make this figure more certain: a selector, or a "
            'difference "A - B"; repeatable.'
        ),
    ] = None,
    embedder: EmbedderName = "minilm",
    json_: JsonFlag = False,
) -> None:
    """Ask which items requests need, one key per answer.

    The first requests are those whose answers make the figures of selectors most certain. The key / searches for an
    item by its words.

    For example:

    ctxbench data label mine --minutes 20
    """
    from ctxbench.cli.label import label

    label(folder, minutes=minutes, selectors=selectors or [], figures=figure or [], embedder=embedder, as_json=json_)


@label_app.command("review", cls=Command)
def data_review(
    dataset: DatasetName,
    patch: Annotated[Path | None, typer.Option(help="Write accepted corrections to this file.")] = None,
    apply: Annotated[
        Path | None, typer.Option(help="Apply this file of corrections to the folder of the dataset.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Only list the labels.")] = False,
    selectors: Selectors = None,
    embedder: EmbedderName = "minilm",
    json_: JsonFlag = False,
) -> None:
    """Review labels that look wrong, worst first.

    Lists labels that all selectors contradict, and asks about each. Items have their server and name; --json and the
    patch have ids.

    For example:

    ctxbench data review mine --patch corrections.jsonl
    """
    from ctxbench.cli.label import apply_patch, review

    if (apply is not None) + list_ + (patch is not None) > 1:
        raise ParameterError("--apply, --list and --patch exclude each other; use one of them")
    if apply is not None:
        apply_patch(Path(dataset), apply)
    else:
        review(dataset, selectors=selectors or [], patch=patch, listed=list_, embedder=embedder, as_json=json_)


@label_app.command("pool", cls=Command)
def data_pool(
    dataset: DatasetName,
    out: Annotated[Path, typer.Option(help="Write the pairs to this file, JSON lines.")],
    share: Annotated[float, typer.Option(help="Share of queries to draw, 0 to 1.")] = 0.2,
    random: Annotated[int, typer.Option(help="Number of random items per query.", min=0)] = 10,
    seed: Annotated[int, typer.Option(help="Seed of the random draw.")] = 0,
    selectors: Selectors = None,
    embedder: EmbedderName = "minilm",
    json_: JsonFlag = False,
) -> None:
    """Draw pairs for a second labelling.

    Writes pairs of a request and an item without labels, for `data agreement`. For each drawn query: the best 20
    items of each selector, labelled items, and random items, in random order.

    For example:

    ctxbench data pool datasets/workbench --out pairs.jsonl
    """
    from ctxbench.cli.label import pool

    pool(
        dataset,
        share=share,
        random=random,
        seed=seed,
        selectors=selectors or [],
        embedder=embedder,
        out=out,
        as_json=json_,
    )


@label_app.command("agreement", cls=Command)
def data_agreement(
    first: Annotated[Path, typer.Argument(help="File of labels: query-id, corpus-id and score, separated by tabs.")],
    second: Annotated[Path, typer.Argument(help="Second file of labels of the same pairs.")],
    json_: JsonFlag = False,
) -> None:
    """Compute the agreement of two labellings.

    Prints the share of equal labels, and kappa, the agreement beyond chance (1 = always).

    For example:

    ctxbench data agreement first.tsv second.tsv
    """
    from ctxbench.cli.label import compare

    compare(first, second, as_json=json_)
