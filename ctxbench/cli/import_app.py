"""`ctxbench data import`, `label`, `review`, `pool` and `agreement`: arguments."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer

from ctxbench.cli.common import CatalogName, Command, DatasetName, EmbedderName, Group, JsonFlag
from ctxbench.io.errors import ParameterError

NewName = Annotated[str | None, typer.Option("--name", help="The dataset's name; made of the file's by default.")]
FolderName = Annotated[str | None, typer.Option("--name", help="The dataset's name; that of its folder by default.")]
ItemType = Annotated[
    str, typer.Option("--type", help="What the documents are here: reference, chunk, tool, skill, rule ...")
]
Grades = Annotated[
    str | None,
    typer.Option(help="Score in the file = grade here (2 required, 1 helpful, 0 irrelevant): for example 1=1,2=2,3=2."),
]
Licence = Annotated[str | None, typer.Option(help="Licence of the data, for the card.")]
OutFolder = Annotated[Path, typer.Option("--out", help="Write the dataset to this folder.")]
HideKeys = Annotated[
    bool, typer.Option("--hide-keys", help="Put placeholders in place of keys in texts (ghp_..., JWT ...).")
]
NewVersion = Annotated[str | None, typer.Option("--version", help="Version of the result.")]


class ImportGroup(Group):
    """`import NAME` and `import FILE.json` without the name of a sub-command, which they then are given."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Read the arguments as those of a sub-command."""
        return super().parse_args(ctx, self.with_command(args))

    def with_command(self, args: list[str]) -> list[str]:
        """The arguments with `dataset` or `tools` in front where they name no sub-command."""
        if not args or args[0] in (*self.commands, "--help", "-h"):
            return args
        if (similar := get_close_matches(args[0], self.commands, 1, 0.75)) and args[0] not in _datasets():
            raise ParameterError(f"no import {args[0]!r}; did you mean {similar[0]}? See `ctxbench data import --help`")
        file = any(not argument.startswith("-") and Path(argument).suffix in (".json", ".jsonc") for argument in args)
        file = file and args[0] not in _datasets()  # `--from FILE.json` of a dataset
        return ["tools" if file else "dataset", *args]


def _datasets() -> Collection[str]:
    """The datasets that can be imported by their name alone."""
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
    name: Annotated[str, typer.Argument(help="A dataset that an importer provides, for example bfcl-simple.")],
    from_: Annotated[Path | None, typer.Option("--from", help="The folder of its published files.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write a copy to this folder, too.")] = None,
    own_files: Annotated[
        bool, typer.Option("--own", help="What --from names are files of yours in the same form; needs --out.")
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
    file: Annotated[Path, typer.Argument(help="Tools as MCP, OpenAI or Anthropic have them, JSON or JSON lines.")],
    out: Annotated[Path | None, typer.Option(help="The catalog's folder.")] = None,
    server: Annotated[str | None, typer.Option(help="Server of tools that name none.")] = None,
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
    logs: Annotated[list[Path], typer.Argument(help="Logs: lines of turns or of requests, spans, exports.")],
    catalog: CatalogName,
    out: Annotated[Path, typer.Option(help="The folder of the dataset to make.")],
    name: FolderName = None,
    licence: Annotated[str | None, typer.Option(help="Of the log's texts, for the card.")] = None,
    history: Annotated[int, typer.Option(help="Earlier messages that a query keeps.", min=0)] = 20,
    all_offered: Annotated[
        bool, typer.Option("--all-offered", help="Turns without a list of what was offered were offered everything.")
    ] = False,
    renames: Annotated[
        Path | None, typer.Option(help="Items that the log has by older ids: lines `old id: new id`, YAML or JSON.")
    ] = None,
    redact: Annotated[
        Path | None, typer.Option(help="Own patterns to redact, YAML or JSON, before the built-in ones.")
    ] = None,
    no_redact: Annotated[
        bool, typer.Option("--no-redact", help="Leave texts as they are, with whatever secrets they hold.")
    ] = False,
    json_: JsonFlag = False,
) -> None:
    """Make a dataset of what an agent logged.

    What a turn did not call is not needed where the catalog holds tools alone and the turn was offered all of them: it
    is labelled wholly. Else that is unknown, and the turn is labelled partly or not at all. So it always is where the
    catalog holds rules, skills or other items beside tools, since no log shows when those are needed.

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
    """Import a folder in BEIR's layout.

    Of any --type: a document that the labels (qrels) do not name is not needed by a query with a required one. A
    query without a required document is unlabelled.

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
    """Import labels in TREC's format (qrels).

    With their queries and documents. Of any --type: a document that the labels do not name is not needed by a query
    with a required one. A query without a required document is unlabelled.

    For example:

    ctxbench data import trec --qrels q --queries q.tsv --corpus d.tsv --out d
    """
    from ctxbench.cli.data import import_trec, settings

    how = settings(name=name, item_type=type_, grades=grades, licence=licence, version=version)
    import_trec(qrels, how, queries=queries, corpus=corpus, out=out, as_json=json_)


@import_app.command("autorag", cls=Command)
def data_import_autorag(
    qa: Annotated[Path, typer.Argument(help="Questions: .jsonl, .json, .csv or .parquet.")],
    corpus: Annotated[Path, typer.Option(help="Documents, in any of the same forms.")],
    out: OutFolder,
    name: NewName = None,
    type_: ItemType = "chunk",
    licence: Licence = None,
    version: NewVersion = None,
    json_: JsonFlag = False,
) -> None:
    """Import AutoRAG's questions and corpus.

    AutoRAG is a program that tunes search over documents. Its groups of documents, [[a, b], [c]], become
    alternatives. Of any --type: a document that a question does not name is not needed by it.

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

    Requests, each with what it should be offered. A record is {"query": "...", "expected": ["refund_order"],
    "forbidden": []}. Whatever the catalog holds, an item that `expected` does not name is not needed; a record
    without `expected` is unlabelled. Alternatives are a list inside it: of [["search", "find"], "open"] either of the
    first two is enough. {"id": "refund_order", "grade": 1} has a grade (--grades). Definitions of items, such as a
    request's `tools`, are what was offered.

    For example:

    ctxbench data import golden evals.jsonl -c catalogs/mine --out datasets/mine
    """
    from ctxbench.cli.data import import_golden, settings

    how = settings(name=name, item_type="tool", grades=grades, licence=licence, version=version)
    import_golden(file, how, catalog=catalog, out=out, names=map_, as_json=json_)


@import_app.command("triggers", cls=Command)
def data_import_triggers(
    folder: Annotated[Path, typer.Argument(help="A folder of skills, each SKILL.md with a trigger_eval.json.")],
    out: OutFolder,
    nothing_else: Annotated[
        bool, typer.Option("--nothing-else", help="What should not trigger a skill needs no other one.")
    ] = False,
    name: NewName = None,
    licence: Licence = None,
    version: NewVersion = None,
    json_: JsonFlag = False,
) -> None:
    """Import skills and their trigger evals.

    A request that should trigger a skill needs no other one, unless another skill's file names it, too. One that
    should trigger none may need a skill whose file does not name it: it is unlabelled (--nothing-else: it needs
    none).

    For example:

    ctxbench data import triggers .claude/skills --out datasets/skills
    """
    from ctxbench.cli.data import import_triggers, settings

    how = settings(name=name, item_type="skill", grades=None, licence=licence, version=version)
    import_triggers(folder, how, nothing_else=nothing_else, out=out, as_json=json_)


@import_app.command("run", cls=Command)
def data_import_run(
    run: Annotated[
        Path, typer.Argument(help="A ranking in TREC's format: query, Q0, document, rank, score and tag in each line.")
    ],
    dataset: Annotated[str, typer.Option("--dataset", "-d", help="The dataset it is about: its name or folder.")],
    out: Annotated[Path, typer.Option(help="Write the answers to this file.")],
    keep: Annotated[int, typer.Option(help="How many of the ranking are offered.", min=0)] = 5,
    json_: JsonFlag = False,
) -> None:
    """Turn another program's ranking into answers.

    A TREC run (one line a query and document), into a file that `ctxbench score` reads.

    For example:

    ctxbench data import run bm25.run -d datasets/mine --out answers.jsonl
    """
    from ctxbench.cli.data import import_run

    import_run(run, dataset=dataset, keep=keep, out=out, as_json=json_)


Selectors = Annotated[
    list[str] | None,
    typer.Option(
        help="A selector (name, or name/preset), an agent file, or an experiment file with several; repeatable. By "
        "default bm25, dense, semantic/spec, and your agent's where the dataset is over an agent file."
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
    from ctxbench.cli.label import apply_patch, review

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
    first: Annotated[Path, typer.Argument(help="A file of labels: columns query-id, corpus-id and score, by tabs.")],
    second: Annotated[Path, typer.Argument(help="Another labelling of the same pairs.")],
    json_: JsonFlag = False,
) -> None:
    """Say how far two labellings agree.

    As the share of equal labels, and as kappa: agreement beyond what chance would give, 1 = always.

    For example:

    ctxbench data agreement first.tsv second.tsv
    """
    from ctxbench.cli.label import compare

    compare(first, second, as_json=json_)
