"""`ctxbench data import`, `label`, `review`, `pool` and `agreement`: arguments."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer

from ctxbench.cli.common import CatalogName, Command, DatasetName, EmbedderName, Group, JsonFlag
from ctxbench.io.errors import ParameterError

NewName = Annotated[str | None, typer.Option("--name", help="Name of the dataset; by default that of the file.")]
FolderName = Annotated[str | None, typer.Option("--name", help="Name of the dataset; by default that of its folder.")]
ItemType = Annotated[str, typer.Option("--type", help="Type of the items: reference, chunk, tool, skill, rule ...")]
Grades = Annotated[
    str | None,
    typer.Option(help="Grades of scores (2 required, 1 helpful, 0 irrelevant), for example 1=1,2=2,3=2."),
]
Licence = Annotated[str | None, typer.Option(help="Licence of the data, for the card.")]
OutFolder = Annotated[Path, typer.Option("--out", help="Write the dataset to this folder.")]
HideKeys = Annotated[
    bool, typer.Option("--hide-keys", help="Replace keys in texts (ghp_..., JWT ...) with placeholders.")
]
NewVersion = Annotated[str | None, typer.Option("--version", help="Version of the result.")]


class ImportGroup(Group):
    """Adds the sub-command to `import NAME` and `import FILE.json`."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Read the arguments with the sub-command."""
        return super().parse_args(ctx, self.with_command(args))

    def with_command(self, args: list[str]) -> list[str]:
        """The arguments with `dataset` or `tools` before them, if they have no sub-command."""
        if not args or args[0] in (*self.commands, "--help", "-h"):
            return args
        if (similar := get_close_matches(args[0], self.commands, 1, 0.75)) and args[0] not in _datasets():
            raise ParameterError(f"no import {args[0]!r}; did you mean {similar[0]}? See `ctxbench data import --help`")
        file = any(not argument.startswith("-") and Path(argument).suffix in (".json", ".jsonc") for argument in args)
        file = file and args[0] not in _datasets()  # `--from FILE.json` of a dataset
        return ["tools" if file else "dataset", *args]


def _datasets() -> Collection[str]:
    """The datasets that can be imported by name."""
    from ctxbench.datasets.lookup import importers

    return importers()


import_app = typer.Typer(
    cls=ImportGroup,
    help="Import datasets, tools, logs and evals.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@import_app.command("dataset", cls=Command)
def import_dataset_command(
    name: Annotated[str, typer.Argument(help="Name of a public dataset, for example bfcl-simple.")],
    from_: Annotated[Path | None, typer.Option("--from", help="Folder with the published files.")] = None,
    out: Annotated[Path | None, typer.Option(help="Also write a copy to this folder.")] = None,
    own_files: Annotated[
        bool, typer.Option("--own", help="--from has your own files in the same form; needs --out.")
    ] = False,
    json_: JsonFlag = False,
) -> None:
    """Import a public dataset.

    The word `dataset` may be left out.

    For example:

    ctxbench data import bfcl-simple
    """
    from ctxbench.cli.data import import_dataset

    import_dataset(name, out=out, source=from_, own_files=own_files, as_json=json_)


@import_app.command("tools", cls=Command)
def import_tools_command(
    file: Annotated[Path, typer.Argument(help="Tools of MCP, OpenAI or Anthropic, as JSON or JSON lines.")],
    out: Annotated[Path | None, typer.Option(help="Folder of the catalog.")] = None,
    server: Annotated[str | None, typer.Option(help="Server of tools without one.")] = None,
    map_: Annotated[
        str | None, typer.Option("--map", help="Other names of fields: name=tool_name,description=doc,schema=args.")
    ] = None,
    hide_keys: HideKeys = False,
    json_: JsonFlag = False,
) -> None:
    """Turn a list of tools into a catalog.

    The word `tools` may be left out.

    For example:

    ctxbench data import tools.json --out catalogs/mine
    """
    from ctxbench.cli.capture import import_tools

    raise typer.Exit(import_tools(file, out=out, server=server, names=map_, as_json=json_, hide_keys=hide_keys))


@import_app.command("traces", cls=Command)
def import_traces_command(
    logs: Annotated[list[Path], typer.Argument(help="Logs with turns, requests, spans or exports.")],
    catalog: CatalogName,
    out: Annotated[Path, typer.Option(help="Write the dataset to this folder.")],
    name: FolderName = None,
    licence: Annotated[str | None, typer.Option(help="Licence of the texts, for the card.")] = None,
    history: Annotated[int, typer.Option(help="Number of earlier messages per query.", min=0)] = 20,
    all_offered: Annotated[
        bool, typer.Option("--all-offered", help="Turns without a list of offered items were offered everything.")
    ] = False,
    renames: Annotated[Path | None, typer.Option(help="Renamed items: lines `old id: new id`, YAML or JSON.")] = None,
    redact: Annotated[
        Path | None, typer.Option(help="Patterns to redact, YAML or JSON, before the built-in ones.")
    ] = None,
    no_redact: Annotated[bool, typer.Option("--no-redact", help="Do not redact texts.")] = False,
    json_: JsonFlag = False,
) -> None:
    """Make a dataset of the logs of an agent.

    Tools that were not called count as not needed if the turn was offered all tools of the catalog: it is labelled in
    full. Otherwise they count as unknown, and the turn is labelled in part or not at all. This is always so if the
    catalog has rules, skills or other items, as a log cannot show when they are needed.

    For example:

    ctxbench data import traces log.jsonl --catalog corpus.jsonl --out mine
    """
    from ctxbench.cli.data import import_traces, redaction
    from ctxbench.labelling.trace_import import TraceSettings

    settings = TraceSettings.of_folder(out, name=name, licence=licence, history=history, all_offered=all_offered)
    patterns = redaction(redact, off=no_redact)
    import_traces(logs, catalog=catalog, out=out, settings=settings, renames=renames, redact=patterns, as_json=json_)


@import_app.command("beir", cls=Command)
def data_import_beir(
    folder: Annotated[Path, typer.Argument(help="A folder with corpus.jsonl, queries.jsonl and qrels/.")],
    out: OutFolder,
    name: NewName = None,
    type_: ItemType = "reference",
    grades: Grades = None,
    licence: Licence = None,
    version: NewVersion = None,
    json_: JsonFlag = False,
) -> None:
    """Import a folder in the layout of BEIR.

    Documents without a label (qrels) count as not needed by queries with a required one. A query without a required
    document is unlabelled.

    For example:

    ctxbench data import beir scifact --out datasets/scifact
    """
    from ctxbench.cli.data import import_beir, settings

    how = settings(name=name, item_type=type_, grades=grades, licence=licence, version=version)
    import_beir(folder, how, out=out, as_json=json_)


@import_app.command("trec", cls=Command)
def data_import_trec(
    qrels: Annotated[list[str], typer.Option(help="A file of labels (qrels), as PATH or SPLIT=PATH; repeatable.")],
    queries: Annotated[Path, typer.Option(help="JSON lines with _id and text, or .tsv: id, text.")],
    corpus: Annotated[Path, typer.Option(help="JSON lines with _id, title and text, or .tsv: id, text.")],
    out: OutFolder,
    name: NewName = None,
    type_: ItemType = "reference",
    grades: Grades = None,
    licence: Licence = None,
    version: NewVersion = None,
    json_: JsonFlag = False,
) -> None:
    """Import labels in the format of TREC (qrels).

    Documents without a label count as not needed by queries with a required one. A query without a required document
    is unlabelled.

    For example:

    ctxbench data import trec --qrels q --queries q.tsv --corpus d.tsv --out d
    """
    from ctxbench.cli.data import import_trec, settings

    how = settings(name=name, item_type=type_, grades=grades, licence=licence, version=version)
    import_trec(qrels, how, queries=queries, corpus=corpus, out=out, as_json=json_)


@import_app.command("autorag", cls=Command)
def data_import_autorag(
    qa: Annotated[Path, typer.Argument(help="Questions: .jsonl, .json, .csv or .parquet.")],
    corpus: Annotated[Path, typer.Option(help="Documents, in one of these formats.")],
    out: OutFolder,
    name: NewName = None,
    type_: ItemType = "chunk",
    licence: Licence = None,
    version: NewVersion = None,
    json_: JsonFlag = False,
) -> None:
    """Import questions and corpus of AutoRAG.

    AutoRAG tunes search over documents. Its groups of documents, [[a, b], [c]], become alternatives. Other documents
    count as not needed.

    For example:

    ctxbench data import autorag qa.jsonl --corpus corpus.jsonl --out mine
    """
    from ctxbench.cli.data import import_autorag, settings

    how = settings(name=name, item_type=type_, grades=None, licence=licence, version=version)
    import_autorag(qa, how, corpus=corpus, out=out, as_json=json_)


@import_app.command("golden", cls=Command)
def data_import_golden(
    file: Annotated[Path, typer.Argument(help="Requests with `expected` and `forbidden`: .jsonl, .json, .yaml, .csv.")],
    catalog: CatalogName,
    out: OutFolder,
    map_: Annotated[
        str | None, typer.Option("--map", help="Other names of fields: query=userMessage,expected=wanted,id=caseId.")
    ] = None,
    grades: Grades = None,
    name: FolderName = None,
    licence: Licence = None,
    version: NewVersion = None,
    json_: JsonFlag = False,
) -> None:
    """Import hand-written evals.

    A record is {"query": "...", "expected": ["refund_order"], "forbidden": []}. Items that are not in `expected`
    count as not needed; a record without `expected` is unlabelled. A list in `expected` has alternatives: with
    [["search", "find"], "open"] one of the first two is enough. {"id": "refund_order", "grade": 1} has a grade
    (--grades). Definitions of items, such as the `tools` of a request, are offered items.

    For example:

    ctxbench data import golden evals.jsonl -c catalogs/mine --out datasets/mine
    """
    from ctxbench.cli.data import import_golden, settings

    how = settings(name=name, item_type="tool", grades=grades, licence=licence, version=version)
    import_golden(file, how, catalog=catalog, out=out, names=map_, as_json=json_)


@import_app.command("triggers", cls=Command)
def data_import_triggers(
    folder: Annotated[Path, typer.Argument(help="Folder of skills, each SKILL.md with a trigger_eval.json.")],
    out: OutFolder,
    nothing_else: Annotated[
        bool, typer.Option("--nothing-else", help="Requests that trigger no skill in their file need no other.")
    ] = False,
    name: NewName = None,
    licence: Licence = None,
    version: NewVersion = None,
    json_: JsonFlag = False,
) -> None:
    """Import skills and their trigger evals.

    A request that should trigger a skill needs no other skill, unless the file of another skill has it, too. A
    request that should trigger no skill may need one whose file does not have it: it is unlabelled (with
    --nothing-else it needs nothing).

    For example:

    ctxbench data import triggers .claude/skills --out datasets/skills
    """
    from ctxbench.cli.data import import_triggers, settings

    how = settings(name=name, item_type="skill", grades=None, licence=licence, version=version)
    import_triggers(folder, how, nothing_else=nothing_else, out=out, as_json=json_)


@import_app.command("run", cls=Command)
def data_import_run(
    run: Annotated[
        Path, typer.Argument(help="Ranking in the format of TREC: query, Q0, document, rank, score and tag per line.")
    ],
    dataset: Annotated[str, typer.Option("--dataset", "-d", help="Name or folder of the dataset.")],
    out: Annotated[Path, typer.Option(help="Write the answers to this file.")],
    keep: Annotated[int, typer.Option(help="Number of offered items per query.", min=0)] = 5,
    json_: JsonFlag = False,
) -> None:
    """Convert a ranking of another program into answers.

    Converts a TREC run into a file for `ctxbench score`.

    For example:

    ctxbench data import run bm25.run -d datasets/mine --out answers.jsonl
    """
    from ctxbench.cli.data import import_run

    import_run(run, dataset=dataset, keep=keep, out=out, as_json=json_)


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
