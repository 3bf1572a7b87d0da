"""`ctxbench memory`: import memories, search them, build or preview a context."""

from __future__ import annotations

import os
import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from ctxbench.cli.output import print_json
from ctxbench.cli.progress import Progress, embedding_progress, progress
from ctxbench.core.errors import ParameterError, StorageError, suggest
from ctxbench.core.times import instant_text, named_instant
from ctxbench.embedding.embedder_names import open_embedder
from ctxbench.io.console import say, show_text
from ctxbench.io.files import folder_fault, readable, temporary_folder
from ctxbench.io.visible import count
from ctxbench.io.yaml_files import load_mapping
from ctxbench.memory import ContextEngine, ContextOptions, EngineError, SearchOptions
from ctxbench.memory.memory_import import ImportedMemories, MemoryFile, import_memories, read_memories
from ctxbench.memory.memory_results import BuiltContext
from ctxbench.stores.memories import checked_name
from ctxbench.stores.sqlite import SqliteStore
from ctxbench.text.templates import FIELDS
from ctxbench.text.tokens import CharsCounter, counter_for_model

WIDTH = 60  # characters of a memory
LEFT_OUT = 5
RECENCY = "recency"  # the ranker whose score is the time, which stands in every row anyhow
TEMPLATE_FILES = (".yaml", ".yml", ".json")


def import_file(place: Path, file: Path, workspace: str, *, embedder: str | None, as_json: bool) -> None:
    """Import memories and say what became of them; with an embedder, make their vectors.

    Raises:
        UserError: as `read_memories` and `import_memories`, or there is no such embedder; nothing was stored.
    """
    checked_name("--workspace", workspace)
    if embedder is not None:
        open_embedder(embedder)
    read = read_memories(file, workspace)
    made = not place.exists()
    done = _stored(place, read)
    if not as_json:
        say(*_imported(done, f"{place}{' (made now)' if made else ''}, workspace {workspace}"))
    embedded = 0
    if embedder is not None:
        with _engine(place, embedder) as engine:
            embedded = engine.embed(workspace)
    if as_json:
        print_json({"database": str(place), "made": made, "workspace": workspace, **asdict(done), "embedded": embedded})
        return
    words = ["ctxbench", "memory", "search", str(place), "what is asked", "--workspace", workspace]
    if embedder is not None:
        say(f"vectors of {embedder}: {embedded:,} made")
        words += ["--embedder", embedder]
    say(f"Next: {shlex.join(words)}")


def _stored(place: Path, read: MemoryFile) -> ImportedMemories:
    """Store what was read; a database that is new takes its place when all is in it, so that none is left of less.

    Raises:
        UserError: as of `import_memories`; a new database is not there then.
    """

    def filled(database: Path) -> ImportedMemories:
        with progress() as shown, SqliteStore(database, waiting=partial(_tell_waiting, place, shown)) as store:
            return import_memories(store, read, progress=lambda *n: shown("storing memories", *n))

    if not os.path.lexists(readable(place, repeatedly=True)) and not folder_fault(place.parent):
        with suppress(OSError), temporary_folder(place) as folder:  # else opening the place says what is wrong with it
            beside = folder / "new"
            try:
                done = filled(beside)
            except StorageError as error:
                raise StorageError(str(error).replace(str(beside), str(place))) from error
            os.link(beside, place)  # fails where another process was faster, whose database is added to
            return done
    return filled(place)


def _tell_waiting(place: Path, shown: Progress, limit: float) -> None:
    shown.say(f"another process holds {place}; it is waited for, {limit:g} s at most")


def _imported(done: ImportedMemories, where: str) -> Iterator[str]:
    same = f"{done.same:,} that {'was' if done.same == 1 else 'were'} there"
    new = f"{count(done.new, 'new memory', 'new memories')}, {count(done.versions, 'later version')}"
    yield f"{where}: {new}, {same}, {count(done.relationships, 'relationship')}"
    if done.elsewhere:
        yield f"{count(done.elsewhere, 'row')} of other workspaces left out"


def search(
    store: Path, query: str, workspace: str, *, embedder: str, json_: bool, explain: bool | None, **options: Any
) -> None:
    """Search and print a table, or JSON."""
    checked_name("--workspace", workspace)
    with _engine(store, embedder) as engine:
        found = engine.search(query, workspace, SearchOptions(**_given(options)))
    absent = "" if found.results() else _absent(store, workspace, options)
    results, told = found.results(), found.explained() if explain else []
    if json_:
        print_json({"workspace": workspace, "results": results, **({"explanation": told} if explain else {})})
        return
    ranking = {one["id"]: one["ranking"] for one in reversed(found.explained())}
    by_time = options["ranker"] == RECENCY
    rows = [((one["score"],) if by_time else (ranking[one["memory"]["id"]], one["score"]), one) for one in results]
    say(*_table(rows, *([] if by_time else ["score"]), "alike"))
    what = "ranked by when they were created" if by_time else "score: what they are ranked by"
    alike = "alike: in meaning alone, 0 to 1, - where not measured"
    say(f"{_found(len(results), workspace)}{absent}; {what}; {alike}", err=True)
    if told:
        say("", "what each was ranked by:", *_explanation(told, by_time=by_time))


def build(store: Path, query: str, workspace: str, *, embedder: str, json_: bool, **options: Any) -> None:
    """Build a context and print it, or JSON; what it is made of goes to standard error."""
    built = _built(store, query, workspace, options, embedder)
    if json_:
        print_json(built.as_dict())
    else:
        show_text(built.context)
        absent = "" if built.rows(chosen=True) else _absent(store, workspace, options)
        say(f"{_totals(built, workspace)}{absent}", err=True)


def preview(store: Path, query: str, workspace: str, *, embedder: str, json_: bool, **options: Any) -> None:
    """Print what `build` would take."""
    built = _built(store, query, workspace, options, embedder)
    told = built.preview()
    if json_:
        print_json(told)
        return
    scores = told["rankingScores"]
    by_time = options["ranker"] == RECENCY
    rows = [(() if by_time else (scores[one["memory"]["id"]],), one) for one in built.every_result()]
    say(*_table(rows, *([] if by_time else ["score"])), _totals(built, workspace))


def _built(place: Path, query: str, workspace: str, options: Mapping[str, Any], embedder: str) -> BuiltContext:
    checked_name("--workspace", workspace)
    given = _given(options)
    tokens, model, template = (given.pop(name, None) for name in ("tokens", "model", "template"))
    if tokens and model:
        raise ParameterError("--tokens and --model both say how tokens are counted; leave one out")
    if model and (tokens := counter_for_model(model).name) == CharsCounter.name:
        say(f"no tokenizer of {model} is known: its tokens are guessed by {tokens}", err=True)
    with _engine(place, embedder, tokens) as engine:
        if template and template.endswith(TEMPLATE_FILES):
            file = Path(template)
            template = file.stem
            fields, _ = load_mapping(file, description="a template", keys=FIELDS)
            try:
                engine.register_template(template, fields)
            except EngineError as error:
                raise EngineError(error.type, f"{error} ({file})") from error
        return engine.build(query, workspace, ContextOptions(**given, template=template))


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given: the engine has the defaults of the others."""
    if options["depth"] is not None and not options["relationships"]:
        raise ParameterError("--depth says how far relationships are followed; add --relationships, or leave it out")
    named_instant("--as-of", options["time"])
    return {name: value for name, value in options.items() if value is not None}


@contextmanager
def _engine(place: Path, embedder: str, counter: str | None = None) -> Iterator[ContextEngine]:
    """The engine over a database that is there."""
    with embedding_progress() as shown, SqliteStore(place, create=False) as store:
        if not store.workspaces():
            how = shlex.join(["ctxbench", "memory", "import", str(place), "FILE", "--workspace", "NAME"])
            raise ParameterError(f"{place} holds no workspace; import memories first: `{how}`")
        given: dict[str, Any] = {"counter": counter} if counter else {}
        engine = ContextEngine(store, embedder=embedder, **given)
        engine.progress = shown
        yield engine


def _table(rows: Sequence[tuple[Sequence[float | None], Mapping[str, Any]]], *figures: str) -> list[str]:
    """Lines of memories, best first, with their figures, and what each of them led to below it."""
    lines: list[tuple[str, ...]] = []
    for rank, (values, one) in enumerate(rows, start=1):
        shown = ["-" if value is None else f"{value:.3g}" for value in values]
        lines.append((str(rank), *shown, *_cells(one["memory"])))
        for other in one.get("relationships", ()):
            lines.append(("", other["relationship"], *[""] * (len(figures) - 1), *_cells(other["memory"])))
    if not lines:
        return []
    lines.insert(0, ("rank", *figures, "id", "type", "created", "memory"))
    widths = [max(map(len, column)) for column in list(zip(*lines, strict=True))[:-1]]
    return ["  ".join([*map(str.ljust, line, widths), line[-1]]) for line in lines]


def _cells(memory: Mapping[str, Any]) -> tuple[str, str, str, str]:
    created = f"{memory['created_at']:.16}".replace("T", " ")
    return memory["id"], memory["type"], created, textwrap.shorten(memory["content"], WIDTH, placeholder=" …")


def _explanation(told: Sequence[Mapping[str, Any]], *, by_time: bool) -> Iterator[str]:
    """What each was ranked by; a ranking `by_time` has microseconds for scores, which are shown as the time."""
    chosen = sum(one["rule"] is None for one in told)
    for one in told[: chosen + LEFT_OUT]:
        scores = ", ".join(f"{name} {value:.3g}" for name, value in one["scores"].items())
        out = f"; stayed out: {one['rule']}" if one["rule"] else ""
        ranking = instant_text(int(one["ranking"])) if by_time else f"{one['ranking']:.3g}"
        yield f"{one['id']}: {ranking}{f' ({scores})' if scores else ''}{out}"


def _found(n: int, workspace: str) -> str:
    memories = count(n, "memory", "memories")
    return f"{memories} of workspace {workspace}" if n else f"workspace {workspace} has none like it"


def _absent(place: Path, workspace: str, options: Mapping[str, Any]) -> str:
    """That no memory of a workspace is of a type or conversation asked for, and those there are; else empty."""
    asked = {"type": options["kinds"] or [], "conversation": list(filter(None, [options["conversation"]]))}
    if not any(asked.values()):
        return ""
    with SqliteStore(place, create=False) as store:
        items = list(store.catalog(workspace))
    known = {"type": {item.kind for item in items if item.kind}}
    known["conversation"] = {item.conversation for item in items if item.conversation}
    missing = [(what, name) for what, names in asked.items() for name in names if name not in known[what]]
    return "".join(f"; no memory is of {what} {name!r}{suggest(name, known[what])}" for what, name in missing)


def _totals(built: BuiltContext, workspace: str) -> str:
    """What a context is made of, in a line."""
    n = len(built.rows(chosen=True))
    found = f"no memory of workspace {workspace} fits" if built.truncated and not n else _found(n, workspace)
    share = f"{built.preview()['budgetUsed']:g}%"
    used = f"{built.tokens:,} of {built.budget:,} tokens ({share}, counted by {built.counter})"
    cut = "the budget kept something out" if built.truncated else "nothing was kept out by the budget"
    return f"{found}, {used}, template {built.template}; {cut}"
