"""`ctxbench memory` and `ctxbench serve`."""

from __future__ import annotations

import hashlib
import logging
import math
import os
import shlex
import signal
import socket
import textwrap
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import typer

from ctxbench.catalogs.agent_file import is_agent_file
from ctxbench.cli.common import aligned, print_json, print_result, without_keys
from ctxbench.cli.select import (
    Chat,
    ReadySelector,
    SelectRequest,
    answer_of,
    catalog_and_selector,
    parse_values,
    prepare_request,
    ready_selectors,
)
from ctxbench.datasets.dataset import name_of_path
from ctxbench.datasets.files import create_dataset
from ctxbench.datasets.layout import EXPOSURE, write_exposures
from ctxbench.datasets.lookup import find_catalog
from ctxbench.evaluation.experiment import versions
from ctxbench.io.console import embedding_progress, exit_code, progress, say, show_text
from ctxbench.io.documents import dump_json, load_mapping, parse_json
from ctxbench.io.errors import (
    Fault,
    ParameterError,
    StorageError,
    UnknownNameError,
    UserError,
    check_range,
    count,
    install_command,
    raise_faults,
    raise_first,
    suggest,
    visible_json,
)
from ctxbench.io.files import FilesRead, cache_dir, folder_fault, readable, temporary_folder
from ctxbench.io.rows import instant_text, named_instant
from ctxbench.memory import ContextEngine, ContextOptions, EngineError, SearchOptions
from ctxbench.memory.engine import BuiltContext
from ctxbench.memory.memories import StoreRows, checked_name, read_file
from ctxbench.memory.service import SELECT_COUNTS, ContextService, Metrics
from ctxbench.memory.sqlite_store import SqliteStore
from ctxbench.memory.stores import Imported, UserCatalogs, feedback_dataset, import_rows
from ctxbench.model.requests import Batch, Message as ChatMessage, Request
from ctxbench.model.resources import bound_indexes
from ctxbench.pipelines.fits import fit_notices
from ctxbench.pipelines.strategies.format import FIELDS
from ctxbench.search.embedders import open_embedder, open_vectors, vectors_stored
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import CharsCounter, counter_for_model, open_counter
from ctxbench.selectors.explain import explain, explain_outcome
from ctxbench.selectors.selector import check_fits

if TYPE_CHECKING:  # needs the extra `server`
    from ctxbench.memory.web_app import Access, UserTokens

WIDTH = 60  # characters of a memory
LEFT_OUT = 5
RECENCY = "recency"  # the ranker by time
TEMPLATE_FILES = (".yaml", ".yml", ".json")


def import_file(
    path: Path, file: Path, workspace: str, *, memories: bool, as_json: bool, embedder: str | None = None
) -> None:
    """Import a file and print the result; with an embedder, make the vectors of memories.

    Args:
        path: the database.
        file: rows of memories, or else of items and events.
        workspace: the workspace of the rows.
        memories: see `read_rows`.
        as_json: whether to print JSON.
        embedder: its name.

    Raises:
        UserError: the file is wrong, or there is no such embedder; nothing was stored.
    """
    checked_name("--workspace", workspace)
    if embedder is not None:
        open_embedder(embedder)
    read = read_file(file, workspace, memories=memories)
    created = not path.exists()
    done = _stored(path, read)
    if not as_json:
        say(*_imported(done, f"{path}{' (created)' if created else ''}, workspace {workspace}", memories=memories))
    embedded = 0
    if embedder is not None:
        with _engine(path, embedder) as engine:
            embedded = engine.embed(workspace)
    command = ["memory", "search", str(path), "what is asked"] if memories else ["serve", str(path)]
    selector = "assembly" if embedder is None else "assembly/embeddings"
    words = ["ctxbench", *command, "--workspace", workspace, *([] if memories else ["--selector", selector])]
    words += [] if embedder is None else ["--embedder", embedder]
    print_result(
        {"database": str(path), "made": created, "workspace": workspace, **asdict(done), "embedded": embedded},
        *([] if embedder is None else [f"vectors of {embedder}: {embedded:,} computed"]),
        f"Next: {shlex.join(words)}",
        as_json=as_json,
    )


def _stored(path: Path, read: StoreRows) -> Imported:
    """Store rows; a new database is moved to its path when it is complete.

    Raises:
        UserError: as in `import_rows`; then no database is created.
    """

    def filled(database: Path) -> Imported:
        with (
            progress() as bar,
            SqliteStore(
                database,
                waiting=lambda limit: bar.say(f"another process uses {path}; waiting up to {limit:g} s"),
            ) as store,
        ):
            return import_rows(store, read, progress=lambda *n: bar("storing", *n))

    if not os.path.lexists(readable(path, repeatedly=True)) and not folder_fault(path.parent):
        with suppress(OSError), temporary_folder(path) as folder:  # opening the path reports errors
            temporary = folder / "new"
            try:
                done = filled(temporary)
            except StorageError as error:
                raise StorageError(str(error).replace(str(temporary), str(path))) from error
            os.link(temporary, path)  # fails if another process was faster
            return done
    return filled(path)


def _imported(done: Imported, where: str, *, memories: bool) -> Iterator[str]:
    unchanged = f"{done.same:,} that {'was' if done.same == 1 else 'were'} there"
    new = count(done.new, "new memory", "new memories") if memories else count(done.new, "new item")
    events = "" if memories else f", {count(done.events, 'new event')}"
    versions, relationships = count(done.versions, "later version"), count(done.relationships, "relationship")
    yield f"{where}: {new}, {versions}, {unchanged}, {relationships}{events}"
    if done.elsewhere:
        yield f"{count(done.elsewhere, 'row')} of other workspaces ignored"


def search(
    store: Path, query: str, workspace: str, *, embedder: str, json_: bool, explain: bool | None, **options: Any
) -> None:
    """Search and print a table, or JSON."""
    checked_name("--workspace", workspace)
    with _engine(store, embedder) as engine:
        hits = engine.search(query, workspace, SearchOptions(**_given_options(options)))
    absent = "" if hits.results() else _absent(store, workspace, options)
    results, explanation = hits.results(), hits.explained() if explain else []
    if json_:
        print_json({"workspace": workspace, "results": results, **({"explanation": explanation} if explain else {})})
        return
    ranking = {hit["id"]: hit["ranking"] for hit in reversed(hits.explained())}
    by_time = options["ranker"] == RECENCY
    rows = [
        ((result["score"],) if by_time else (ranking[result["memory"]["id"]], result["score"]), result)
        for result in results
    ]
    say(*_table(rows, *([] if by_time else ["score"]), "alike"))
    ranked_by = "ranked by creation time" if by_time else "score: the ranking"
    alike = "alike: similarity in meaning, 0 to 1 (- if not measured)"
    say(f"{_count_text(len(results), workspace)}{absent}; {ranked_by}; {alike}", err=True)
    if explanation:
        say("", "scores of the ranking:", *_explanation(explanation, by_time=by_time))


def build(store: Path, query: str, workspace: str, *, embedder: str, json_: bool, **options: Any) -> None:
    """Build a context and print it, or JSON; a summary goes to standard error."""
    built = _built(store, query, workspace, options, embedder)
    if json_:
        print_json(built.as_dict())
    else:
        show_text(built.context)
        absent = "" if built.rows(chosen=True) else _absent(store, workspace, options)
        say(f"{_totals(built, workspace)}{absent}", err=True)


def preview(store: Path, query: str, workspace: str, *, embedder: str, json_: bool, **options: Any) -> None:
    """Print the memories that `build` would use."""
    built = _built(store, query, workspace, options, embedder)
    facts = built.preview()
    if json_:
        print_json(facts)
        return
    scores = facts["rankingScores"]
    by_time = options["ranker"] == RECENCY
    rows = [(() if by_time else (scores[result["memory"]["id"]],), result) for result in built.every_result()]
    say(*_table(rows, *([] if by_time else ["score"])), _totals(built, workspace))


def _built(path: Path, query: str, workspace: str, options: Mapping[str, Any], embedder: str) -> BuiltContext:
    checked_name("--workspace", workspace)
    settings = _given_options(options)
    tokens, model, template = (settings.pop(name, None) for name in ("tokens", "model", "template"))
    if tokens and model:
        raise ParameterError("--tokens and --model exclude each other; remove one of them")
    if model and (tokens := counter_for_model(model).name) == CharsCounter.name:
        say(f"the tokenizer of {model} is unknown; tokens are estimated by {tokens}", err=True)
    with _engine(path, embedder, tokens) as engine:
        if template and template.lstrip().startswith("{"):
            template = parse_json(template, path="--template")
        elif template and template.endswith(TEMPLATE_FILES):
            file = Path(template)
            template = file.stem
            fields, _ = load_mapping(file, description="a template", keys=FIELDS)
            try:
                engine.register_template(template, fields)
            except EngineError as error:
                raise EngineError(error.type, f"{error} ({file})") from error
        return engine.build(query, workspace, ContextOptions(**settings, template=template))


def _given_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with values; the engine has defaults for the others."""
    if options["depth"] is not None and not options["relationships"]:
        raise ParameterError("--depth needs --relationships; add it, or remove --depth")
    named_instant("--as-of", options["time"])
    set_options = {name: value for name, value in options.items() if value is not None}
    return set_options | {"settings": parse_values(tuple(set_options.get("settings", ())))}


@contextmanager
def _engine(path: Path, embedder: str, counter: str | None = None) -> Iterator[ContextEngine]:
    """The engine over an existing database."""
    with embedding_progress() as bar, SqliteStore(path, create=False) as store:
        if not store.workspaces():
            how = shlex.join(["ctxbench", "memory", "import", str(path), "FILE", "--workspace", "NAME"])
            raise ParameterError(f"{path} has no workspace; import memories first: `{how}`")
        arguments: dict[str, Any] = {"counter": counter} if counter else {}
        engine = ContextEngine(store, embedder=embedder, **arguments)
        engine.progress = bar
        yield engine


def _table(rows: Sequence[tuple[Sequence[float | None], Mapping[str, Any]]], *figures: str) -> list[str]:
    """Lines of memories, best first, with figures and related memories."""
    lines: list[tuple[str, ...]] = []
    for rank, (values, result) in enumerate(rows, start=1):
        figure_texts = ["-" if value is None else f"{value:.3g}" for value in values]
        lines.append((str(rank), *figure_texts, *_cells(result["memory"])))
        lines += [
            ("", related["relationship"], *[""] * (len(figures) - 1), *_cells(related["memory"]))
            for related in result.get("relationships", ())
        ]
    if not lines:
        return []
    lines.insert(0, ("rank", *figures, "id", "type", "created", "memory"))
    return aligned(lines)


def _cells(memory: Mapping[str, Any]) -> tuple[str, str, str, str]:
    created = f"{memory['created_at']:.16}".replace("T", " ")
    return memory["id"], memory["type"], created, textwrap.shorten(memory["content"], WIDTH, placeholder=" …")


def _explanation(explanation: Sequence[Mapping[str, Any]], *, by_time: bool) -> Iterator[str]:
    """The scores of memories; with `by_time` they are times in microseconds."""
    chosen = sum(entry["rule"] is None for entry in explanation)
    for entry in explanation[: chosen + LEFT_OUT]:
        scores = ", ".join(f"{name} {value:.3g}" for name, value in entry["scores"].items())
        out = f"; excluded: {entry['rule']}" if entry["rule"] else ""
        ranking = instant_text(int(entry["ranking"])) if by_time else f"{entry['ranking']:.3g}"
        yield f"{entry['id']}: {ranking}{f' ({scores})' if scores else ''}{out}"


def _count_text(n: int, workspace: str) -> str:
    memories = count(n, "memory", "memories")
    return f"{memories} of workspace {workspace}" if n else f"no similar memory in workspace {workspace}"


def _absent(path: Path, workspace: str, options: Mapping[str, Any]) -> str:
    """A note if a workspace has no memory of a type or conversation in the options; else empty."""
    filters = {"type": options["kinds"] or [], "conversation": list(filter(None, [options["conversation"]]))}
    if not any(filters.values()):
        return ""
    with SqliteStore(path, create=False) as store:
        items = list(store.catalog(workspace))
    existing = {"type": {item.kind for item in items if item.kind}}
    existing["conversation"] = {item.conversation for item in items if item.conversation}
    missing = [(kind, name) for kind, names in filters.items() for name in names if name not in existing[kind]]
    return "".join(f"; no memory is of {kind} {name!r}{suggest(name, existing[kind])}" for kind, name in missing)


def _totals(built: BuiltContext, workspace: str) -> str:
    """The summary of a context in one line."""
    n = len(built.rows(chosen=True))
    memories = f"no memory of workspace {workspace} fits" if built.truncated and not n else _count_text(n, workspace)
    share = f"{built.preview()['budgetUsed']:g}%"
    used = f"{built.tokens:,} of {built.budget:,} tokens ({share}, counted by {built.counter})"
    cut = "memories excluded or shortened by the budget" if built.truncated else "all memories fit"
    return f"{memories}, {used}, template {built.template}; {cut}"


_log = logging.getLogger("ctxbench.memory")
_GRACE = 10  # seconds for running requests at the end
_SQLITE = b"SQLite format 3\0"
DATABASES = (".db", ".sqlite", ".sqlite3")
NEAR = 5  # excluded items in an answer
REQUESTS = 10_000  # vectors of requests in memory
INDEXES = 4  # of each kind, over the items of now and before; eight times as many where users have tokens
RETRY = 5.0  # seconds until files are read again that could not be read


@dataclass(frozen=True)
class ServeRequest:
    """The arguments of `ctxbench serve`.

    Attributes:
        source: a database of memories, an agent file, or a catalog as `ctxbench select` takes it.
        workspace: the workspace of all requests; a database needs it.
        selector: as in `ContextService`, or as of `SelectRequest`; None = `memory` for a database.
        preset, presets: of `SelectRequest`.
        embedder: its name.
        tokens, user: a token file, or the only user; both None = no user.
        host, port: the address; port 0 = any free one.
    """

    source: str
    workspace: str | None
    selector: str | None
    preset: str | None
    presets: Path | None
    embedder: str
    tokens: Path | None
    user: str | None
    host: str
    port: int


def run(request: ServeRequest) -> None:
    """Serve until stopped.

    Raises:
        UserError: a file, package or argument is missing or wrong.
    """
    try:
        import starlette.routing  # noqa: F401
        import uvicorn  # noqa: F401 - reported before anything is read
    except ImportError:
        raise ParameterError(f"serving needs the extra `server`: {install_command('server')}") from None
    access = _access(request)
    users = (request.user,) if access.tokens is None else access.tokens.users
    if not _is_database(request.source):
        question = select_question(request)
        with _bound(request.host, request.port) as listening, _logging():
            by_token = () if access.tokens is None else users
            service = SelectService(question, workspace=request.workspace, users=by_token)
            _listen(request, service, access, listening, f"{request.source} by {service.health()['selector']}")
        return
    database, workspace = Path(request.source), request.workspace
    if request.preset is not None or request.presets is not None:
        raise ParameterError(
            "--preset and --presets are for agents and catalogs; name a preset as --selector NAME/PRESET"
        )
    with SqliteStore(database, create=False) as store:
        if workspace not in store.workspaces():
            hint = suggest(workspace or "", store.workspaces())
            missing = "needs --workspace NAME" if workspace is None else f"has no workspace {workspace!r}"
            raise ParameterError(f"{database} {missing}{hint}")
        selector = request.selector or "memory"
        contexts = ContextService(store, workspace, selector=selector, embedder=request.embedder)
        contexts.check_users(users)
        with _bound(request.host, request.port) as listening, _logging():
            contexts.prepare(users)
            _listen(request, contexts, access, listening, f"workspace {workspace} of {database} by {selector}")


def _access(request: ServeRequest) -> Access:
    """Who may send requests.

    Raises:
        UserError: options contradict each other, or the token file is faulty.
    """
    from ctxbench.memory.web_app import LOOPBACK, Access, others_may_read, read_tokens

    check_range("--port", request.port, 0, 65_535)
    file, user, host = request.tokens, request.user, request.host
    raise_first(
        (file is not None and user is not None, "--tokens and --user exclude each other; remove one of them"),
        (
            file is None and host not in LOOPBACK,
            f"without --tokens the host must be {LOOPBACK[0]}, got {host!r}; for other machines add --tokens FILE",
        ),
    )
    if user is not None:
        checked_name("--user", user)
    tokens = None if file is None else read_tokens(file)
    if file is not None and others_may_read(file):
        say(f"warning: {file} can be read by others; run `chmod 600 {shlex.quote(str(file))}`", err=True)
    return Access(tokens=tokens, user=user)


def _is_database(source: str) -> bool:
    """Whether a path is that of a database, also of one that does not exist; not of an agent or a catalog."""
    if source.endswith(DATABASES):
        return True
    with suppress(OSError, ValueError), open(source, "rb") as file:  # noqa: PTH123 - ValueError for NUL
        return file.read(len(_SQLITE)) == _SQLITE
    return False


def _listen(
    request: ServeRequest,
    service: ContextService | SelectService,
    access: Access,
    listening: socket.socket,
    text: str,
) -> None:
    """Answer requests until stopped; `text` says what is served."""
    import uvicorn

    from ctxbench.memory.web_app import web_app

    if request.tokens is not None and access.tokens is not None:
        _read_again_on_hangup(request.tokens, access.tokens, service)
    host, port = listening.getsockname()[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    say(f"{text} at {url} (see {url}/openapi.json); press Ctrl-C to stop", err=True)
    settings = uvicorn.Config(
        web_app(service, access),
        timeout_graceful_shutdown=_GRACE,
        log_level="warning",
        access_log=False,
        server_header=False,
    )
    try:
        uvicorn.Server(settings).run([listening])
    except KeyboardInterrupt:
        _log.info("stopped")
        raise typer.Exit(exit_code()) from None


def select_question(request: ServeRequest) -> SelectRequest:
    """The request that every request to a service of a selector is made of.

    Raises:
        UserError: as of `catalog_and_selector`.
    """
    agent = Path(request.source) if is_agent_file(request.source) else None
    catalog = request.source if agent is None else None
    items, selector = catalog_and_selector(catalog, agent, selector=request.selector, file=request.presets)
    return SelectRequest("", items, selector, request.preset, {}, request.embedder, presets=request.presets)


class SelectService:
    """Answers requests as `ctxbench select --json` does, and reads files again that have changed.

    Threads may share it. A request that comes after a change sees it, and waits until the files are read. If one is
    faulty, the items and selectors of before stay, and the fault is logged once.

    Attributes:
        metrics: counts and times.

    Args:
        question: what every request is made of.
        workspace: the workspace of all requests, or None.
        users: who may send requests by a token; each then gets an answer over a catalog of what that user sees, so
            that private items do not affect other users. None = all get the answers of the command.

    Raises:
        UserError: a file is faulty, or there is no such selector, preset or embedder.
    """

    def __init__(self, question: SelectRequest, *, workspace: str | None, users: Collection[str | None]) -> None:
        self.metrics = Metrics("select", SELECT_COUNTS)
        self._question, self._workspace = question, workspace
        self._lock, self._fault, self._files, self._used = threading.Lock(), "", FilesRead(), FilesRead()
        self._retry, self._catalogs = math.inf, UserCatalogs(workspace)
        self.check_users(users)
        with embedding_progress() as bar:
            self._vectors = open_vectors(open_embedder(question.embedder), progress=bar)
            self._vectors.limit = REQUESTS  # they are not stored: a write would take longer than the answer
            self._resources = LocalResources(self._vectors, open_counter("o200k", cache=cache_dir()))
            bound_indexes(self._resources, INDEXES * (8 if self._by_user else 1))
            self._selectors = self._read(self._files)
            self._vectors.progress = None  # nobody waits for it any more

    def check_users(self, users: Collection[str | None]) -> None:
        """Take note of who may send requests."""
        self._by_user = any(user is not None for user in users)

    def select(self, body: Mapping[str, Any], user: str | None) -> str:
        """See `ctxbench.memory.web_app.SelectService`.

        Raises:
            ParameterError: the request names what is not there, or values that do not suit.
            UserError: the selector failed.
        """
        begin = time.perf_counter()
        with self.metrics.request("request") as stages:
            try:
                question, selector = self._ask(body, user)
                prepared = prepare_request(question, selector)
            except UserError as error:
                raise ParameterError(str(error)) from error
            catalog, pipeline = selector.catalog, prepared.pipeline
            near, resources, batch = body.get("near", NEAR), self._resources, Batch.of(catalog, [prepared.request])
            check_fits(pipeline, catalog)
            outcome = pipeline.run(batch, resources, live=True, listener=stages)
            explanation = explain_outcome(pipeline, outcome, resources, near=near)
            facts = {"selector": selector.label, "parameters": selector.definition.in_force(prepared.values)}
            text = visible_json(dump_json(answer_of(explanation, prepared, facts, resources, near=near), indent=2))
        for warning in (*prepared.warnings, *map(str, explanation.selection.trace)):
            _log.warning("%s", warning)
        n_items, tokens = len(explanation.chosen), explanation.prompt_tokens
        self.metrics.count(requests=1, selected=n_items, tokens=tokens)
        who, ms = "-" if user is None else repr(user), (time.perf_counter() - begin) * 1000
        figures = f"{n_items:,} items, {tokens:,} tokens, {ms:.1f} ms"
        _log.info("select user=%s selector=%s: %s", who, selector.label, figures)
        return text

    def health(self) -> dict[str, Any]:
        """See `ctxbench.memory.web_app.SelectService`."""
        selector = self._current()[True, None]
        state = {"status": "stale", "fault": self._fault} if self._fault else {"status": "ok"}
        return {**state, "selector": selector.label, "digest": self._digest(selector), "items": len(selector.catalog)}

    def _digest(self, selector: ReadySelector) -> str:
        """What decides an answer, so that services can be compared: versions, embedder, items, selector with values."""
        pipeline = selector.pipeline(selector.definition.values(selector.preset))
        parts = [versions(), self._question.embedder, selector.catalog.hash, pipeline.key]
        return hashlib.sha256(dump_json(parts).encode()).hexdigest()[:12]

    def _ask(self, body: Mapping[str, Any], user: str | None) -> tuple[SelectRequest, ReadySelector]:
        """The question of a body, and the selector for it."""
        owner = {name: value for name, value in {"user": user, "workspace": self._workspace}.items() if value}
        chat = Chat(
            history=tuple(ChatMessage(**message) for message in body["history"]) if "history" in body else None,
            add=tuple(body.get("add", ())),
            remove=tuple(body.get("remove", ())),
            tool_results=tuple((result["tool"], result["text"]) for result in body.get("tool_results", ())),
        )
        session = body.get("session")
        if session is None and owner and not chat.alone:
            session = {"id": "select"}
        if session is not None:
            chat = replace(chat, session=(Path("session"), dump_json(_owned(session, owner))))
        selectors, preset = self._current(), body.get("preset")
        if (chat.alone, preset) not in selectors:
            names = [name for alone, name in selectors if alone == chat.alone and name is not None]
            raise UnknownNameError("preset", str(preset), names)
        scope = {**owner, **({"time": body["time"]} if "time" in body else {})} if chat.alone else {}
        question = replace(self._question, text=body["text"], set=body.get("set", {}), chat=chat, scope=scope)
        return question, self._limited(selectors[chat.alone, preset], user)

    def _limited(self, selector: ReadySelector, user: str | None) -> ReadySelector:
        """The selector over what a user sees, if users have tokens and items are private; else itself."""
        if not (self._by_user and selector.catalog.facts.private):
            return selector
        return replace(selector, catalog=self._catalogs.of(selector.catalog, user))

    def _current(self) -> Mapping[tuple[bool, str | None], ReadySelector]:
        """The selectors, made of the files as they are now."""
        with self._lock:
            if self._files.changed() or time.monotonic() > self._retry:
                fault, self._retry = self._fault, math.inf
                before, self._files = self._files, FilesRead()
                try:
                    self._selectors = self._read(self._files)
                except (UserError, OSError) as error:
                    self._fault = _one_line(error)
                    self._files.add_all(before)
                    if isinstance(error, (StorageError, OSError)):  # it may pass without a change of the files
                        self._retry = time.monotonic() + RETRY
                    if self._fault != fault:
                        self.metrics.count(reload_failures=1)
                        _log.error("not read again, what was there stays: %s", self._fault)
                else:
                    self._fault = ""
                    self.metrics.count(reloads=1)
                    n_items = count(len(self._selectors[True, None].catalog), "item")
                    _log.info("read %s again: %s", self._question.catalog, n_items)
            return self._selectors

    def _read(self, files: FilesRead) -> Mapping[tuple[bool, str | None], ReadySelector]:
        """Read all files, which are noted, and ask a first request.

        Returns:
            The selectors for requests alone (True) and in a chat, by preset; None = as the command line says.

        Raises:
            UserError: a file is faulty, or less of it can be used than before.
        """
        with files:
            catalog = find_catalog(self._question.catalog)
            alone = ready_selectors(self._question, catalog)
            in_chat = ready_selectors(replace(self._question, chat=Chat(history=())), catalog)
            first = self._limited(alone[None], None)
            pipeline = first.pipeline(first.definition.values(first.preset))
            _ = pipeline.key  # reads the files that steps name
        raise_faults([Fault(text) for text in files.new_faults(self._used)])
        request = Request(id="select", text="a first request", workspace=self._workspace)
        with vectors_stored():
            explain(pipeline, first.catalog, request, self._resources, live=True)
        for notice in fit_notices(pipeline, first.catalog, self._resources):
            _log.info("notice: %s", notice)
        for path, text in files.odd:
            if not path and (path, text) not in self._used.odd:
                _log.warning("%s", text)
        self._used = files
        return {(True, name): ready for name, ready in alone.items()} | {
            (False, name): ready for name, ready in in_chat.items()
        }


def _one_line(error: UserError | OSError) -> str:
    """An error on one line, without keys."""
    head, *rest = str(without_keys(error) if isinstance(error, UserError) else error).splitlines()
    return " ".join(f"{head}: {'; '.join(rest)}".split()) if rest else head


def _owned(session: Mapping[str, Any], owner: Mapping[str, str]) -> Mapping[str, Any]:
    """A session of a user and a workspace.

    Raises:
        ParameterError: it names others.
    """
    for name in ("user", "workspace"):
        if session.get(name) not in (None, owner.get(name)):
            raise ParameterError(f"session: {name} must be that of the request, {owner.get(name)!r}; remove it")
    return {**session, **owner}


class _OnStandardError(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError, ValueError):  # closed, or the disk is full
            say(self.format(record), err=True)


@contextmanager
def _logging() -> Iterator[None]:
    """Log the service on standard error, with one line per context."""
    handler = _OnStandardError()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    level, propagate = _log.level, _log.propagate
    _log.addHandler(handler)
    _log.setLevel(logging.INFO)
    _log.propagate = False
    try:
        yield
    finally:
        _log.removeHandler(handler)
        _log.setLevel(level)
        _log.propagate = propagate


def _read_again_on_hangup(file: Path, tokens: UserTokens, service: ContextService | SelectService) -> None:
    """Read the token file again at each SIGHUP; tokens stay if it is wrong."""
    from ctxbench.memory.web_app import read_tokens

    hangups: SimpleQueue[int] = SimpleQueue()  # its `put` may interrupt anything; taking a lock in a handler may not

    def read_again() -> None:
        while hangups.get():
            try:
                new = read_tokens(file)
                service.check_users(new.users)
            except UserError as error:
                tokens.is_stale = True
                service.metrics.count(reload_failures=1)
                _log.error("tokens not changed: %s", _one_line(error))
            else:
                tokens.replace_by(new)
                _log.info("read %s again: %s", file, count(len(new.users), "user"))

    if hasattr(signal, "SIGHUP"):  # Windows has none
        threading.Thread(target=read_again, name="hangups", daemon=True).start()
        signal.signal(signal.SIGHUP, lambda number, _frame: hangups.put(number))


def write_labels(database: Path, workspace: str, out: Path, *, as_json: bool) -> None:
    """Write the dataset of the feedback in a store, and print a summary.

    Raises:
        UserError: there is no such store or workspace, or no feedback, or the folder has other files.
    """
    with SqliteStore(database, create=False) as store:
        dataset, exposures = feedback_dataset(store, workspace, name=name_of_path(out, "feedback"))
    create_dataset(dataset, out)
    if exposures or (out / EXPOSURE).exists():  # of an earlier call
        write_exposures(exposures, out)
    useful = sum(label.grade == 2 for label in dataset.labels)
    partly = sum(query.partly_labelled for query in dataset.queries)
    insufficient = sum(bool(exposure.signals) for exposure in exposures)
    queries, in_part = (count(n, "query", "queries") for n in (len(dataset.queries), partly))
    command = shlex.join(["ctxbench", "data", "label", str(out)])
    optional = {
        f"{count(len(exposures) - insufficient, 'context')} sufficient, {insufficient:,} not": exposures,
        f"{in_part} labelled in part, which metrics ignore; complete with `{command}`": partly,
    }
    print_result(
        {
            "dataset": str(out),
            "queries": len(dataset.queries),
            "useful": useful,
            "sufficient": len(exposures) - insufficient,
            "notSufficient": insufficient,
            "inPart": partly,
            "notUseful": len(dataset.labels) - useful,
        },
        f"{out}: {queries}, {count(useful, 'item')} useful, {len(dataset.labels) - useful:,} not",
        *(line for line, applies in optional.items() if applies),
        as_json=as_json,
    )


def _bound(host: str, port: int) -> socket.socket:
    """A listening socket.

    Raises:
        StorageError: the address cannot be used, for example because of another program.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = socket.create_server(address[:2], family=family)
    except OSError as error:
        why = getattr(error, "strerror", None) or error
        raise StorageError(f"cannot serve at {host}, port {port}: {why}; choose another --port or --host") from None
    # else the body of an answer waits 40 ms for the client to acknowledge its head: asyncio does not set it here
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
