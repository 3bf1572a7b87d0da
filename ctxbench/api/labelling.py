"""The functions `from_file`, `label`, `review` and `conversation`: labels and stored conversations."""

from __future__ import annotations

import html
import logging
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ctxbench.api.inputs import Data, catalog_of, load, make_frame
from ctxbench.api.selectors import EmbedderGiven, embedder_name, selector_spec
from ctxbench.catalogs.agent_file import is_agent_file
from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.layout import read_exposures
from ctxbench.datasets.lookup import dataset_folder
from ctxbench.datasets.queries import group_pairs
from ctxbench.io.console import ProgressListener, progress_listener
from ctxbench.io.errors import Message, ParameterError, StorageError, UnknownNameError, check_known, raise_first
from ctxbench.io.files import Closing, cache_dir
from ctxbench.labelling.import_files import (
    check_target,
    import_files,
    import_options,
    open_items,
    plan_import,
    write_import,
)
from ctxbench.labelling.pools import Pool, Predictor, make_pool, open_selectors, usual_selectors
from ctxbench.labelling.review import Corrections, Finding, findings, write_patch
from ctxbench.labelling.session import LabelFolder, LabellingSession, LabelPrompt, PromptAnswer, opened as opened_folder
from ctxbench.labelling.trace_import import scopes_of
from ctxbench.model.items import Catalog, ItemKey
from ctxbench.search.embedders import open_embedder
from ctxbench.search.resources import local_resources
from ctxbench.search.tokens import open_counter
from ctxbench.selectors.conversations import ConversationStore, Exchange, content_hash

if TYPE_CHECKING:
    import pandas as pd

    from ctxbench.api.inputs import Rows


_log = logging.getLogger(__name__)

SelectorsGiven: TypeAlias = "Mapping[str, Any] | Sequence[str]"


def from_file(
    path: str | Path | Sequence[str | Path],
    catalog: Catalog | Data | Rows | str | Path | None = None,
    *,
    out: str | Path | None = None,
    kind: str | None = None,
    names: Mapping[str, str] | None = None,
    progress: bool | ProgressListener = True,
    **options: Any,
) -> Data:
    """Make a dataset of files of any kind: logs and sessions, evals, collections; `ctxbench data import` does the same.

    Args:
        path: a file, a folder or a pattern, or several.
        catalog: the items; or what `ctxbench.catalog` takes, such as an agent file, a list of tools, or the name or
            folder of a dataset. None = the items in the files, such as documents, skills or a list of tools.
        out: the folder to write to; an earlier import there is replaced unless somebody has labelled it. None = the
            dataset is in memory alone.
        kind: the kind of the files (`datasets/kinds.md` lists all); None = recognised by content.
        names: the names of fields in the files: `{"query": "question", "expected": "relevance.doc_id"}`.
        progress: as for `evaluate`, by step.
        options: fields of `ImportOptions` (`history`, `all_offered`, `renames`, `redact`, `nothing_else`) and of
            `ImportSettings` (`name`, `version`, `licence`, `grades`, `type`).

    Labels of names that no item or several items have, unreadable lines and skipped files are left out; each count is
    logged as a warning.

    Raises:
        UserError: a file is missing, of no known kind, or faulty; nothing is written then.

    Example:
        >>> import json, pathlib, tempfile
        >>> log = pathlib.Path(tempfile.mkdtemp()) / "log.jsonl"
        >>> _ = log.write_text(json.dumps({"text": "the area of a triangle", "offered": "*", "called": ["area"]}))
        >>> ctxbench.from_file(log, ctxbench.catalog([{"name": "area"}, {"name": "mail"}])).labels["item"].tolist()
        ['tool:area']
    """
    if isinstance(catalog, str | Path):
        items: Catalog | None = open_items(str(catalog))
        scopes: Mapping[str, tuple[ItemKey, ...]] = scopes_of(dataset_folder(str(catalog)))
    else:
        items = None if catalog is None else catalog_of(catalog)
        scopes = catalog.dataset.scopes if isinstance(catalog, Data) else {}
    paths = [Path(file) for file in ([path] if isinstance(path, str | Path) else path)]
    settings = import_options(kind=kind, names=names or {}, folder=None if out is None else Path(out), **options)
    plan = plan_import(paths, kind=kind, has_catalog=items is not None, command="", names=names or {})
    if out is not None:
        check_target(plan, Path(out))
    with progress_listener(progress) as listener:
        imported = import_files(plan, items, options=settings, scopes=scopes, progress=listener)
    if imported.dataset is None:
        raise ParameterError(
            "the files are a catalog without requests; pass them as `catalog`, with a file of requests"
        )
    for line in imported.left_out():
        _log.warning("%s", line)
    if out is None:
        return Data(imported.dataset)
    is_followed = isinstance(catalog, str | Path) and is_agent_file(str(catalog))
    write_import(imported, imported.dataset.of_agent(Path(str(catalog)) if is_followed else None), Path(out))
    return load(out)


@dataclass(frozen=True, eq=False)
class Question:
    """A question to a person about one request.

    Attributes:
        query: its id.
        text: what the user asked.
        history: the messages before, as `role` and `content`.
        kind: `needed` (what does it need, beside `known`?), or `alternative` (would `item` do as well as `of`?).
        known: ids of the items that it is known to need.
        item, of: of an alternative; else empty.
        candidates: ids of what it may need, the likeliest first; none for an alternative.
        offered_by: the selectors that offer each candidate.
        signals: what the log says of a likely miss.
    """

    query: str
    text: str
    history: tuple[dict[str, str], ...]
    kind: str
    known: tuple[str, ...]
    item: str
    of: str
    candidates: tuple[str, ...]
    offered_by: tuple[tuple[str, ...], ...]
    signals: tuple[str, ...]

    def to_frame(self) -> pd.DataFrame:
        """The candidates, the likeliest first: `item` and `offered_by`."""
        return make_frame(zip(self.candidates, map(", ".join, self.offered_by), strict=True), ["item", "offered_by"])

    def __str__(self) -> str:
        if self.kind == "alternative":
            return Message("api.question-alternative", query=self.query, text=self.text, item=self.item, of=self.of)
        if self.known:
            return Message("api.question-more-items", query=self.query, text=self.text, items=self.known)
        return Message("api.question-items", query=self.query, text=self.text)

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(str(self))}</p>{self.to_frame().head(9).to_html(index=False, border=0)}"


def label(
    folder: str | Path,
    selectors: SelectorsGiven | None = None,
    *,
    figures: Sequence[str] = (),
    embedder: EmbedderGiven = "minilm",
    progress: bool | ProgressListener = True,
) -> Labelling:
    """Open the folder of a dataset to label its queries, those first that narrow the figures most.

    `ctxbench data label` asks the same questions on a terminal; either goes on where the other stopped.

    Args:
        folder: of the dataset; nobody else can label it until `close`.
        selectors: whose completeness the labels are to tell, as for `evaluate`; two or more. None = bm25, dense and
            semantic/spec, and that of the agent that the dataset is over.
        figures: names of the figures to narrow, as `report` lists them; none = all. Of the first session only.
        embedder: as for `evaluate`.
        progress: as for `evaluate`, by selector.

    Returns:
        The session, to be used by `with`, or ended by `close`.

    Raises:
        UserError: it is no folder of a dataset, frozen, or open elsewhere; or a selector fails.

    Example:
        >>> import tempfile
        >>> folder = f"{tempfile.mkdtemp()}/mine"
        >>> tools = [{"name": "area", "description": "area of a triangle"}, {"name": "mail"}]
        >>> ctxbench.dataset(tools, [{"query": "q1", "text": "area of a triangle"}], []).save(folder)
        >>> with ctxbench.label(folder, ["bm25", "everything"], embedder="hashing") as session:
        ...     print(session.next())
        ...     session.answer(["area"])
        q1: what does 'area of a triangle' need?
        >>> ctxbench.load(folder).labels["item"].tolist()
        ['tool:area']
    """
    stack = ExitStack()
    try:
        work = stack.enter_context(opened_folder(Path(folder)))
        pool = ask_pool(work.dataset, selectors, embedder, folder=Path(folder), progress=progress)
        session = work.session(Predictor(pool), focus=tuple(figures))
    except BaseException:
        stack.close()
        raise
    return Labelling(stack, work, session)


class Labelling(Closing):
    """Questions and answers about a dataset's queries. Each answer is on disk when `answer` returns.

    Attributes:
        notes: what was found and done on opening, one sentence each.
    """

    def __init__(self, stack: ExitStack, work: LabelFolder, session: LabellingSession) -> None:
        self._stack = stack
        self._work = work
        self._session = session
        self._prompt: LabelPrompt | None = None
        self._entries: list[int] = []  # of each answer, in the log
        self._closed = False
        self.notes: tuple[str, ...] = tuple(work.notes)

    def next(self) -> Question | None:
        """The question that is asked next; None when nothing is left to ask. Without an answer it stays the same."""
        self._hold_open()
        self._prompt = self._session.next()
        if self._prompt is None:
            return None
        prompt, pool = self._prompt, self._session.pool
        ids, request = pool.dataset.catalog.ids, pool.dataset.queries[pool.row[self._prompt.query]].request
        return Question(
            query=prompt.query,
            text=request.text,
            history=tuple({"role": message.role, "content": message.content} for message in request.history),
            kind=prompt.kind,
            known=tuple(ids[position] for position in prompt.known),
            item=ids[prompt.item] if prompt.item >= 0 else "",
            of=ids[prompt.of] if prompt.of >= 0 else "",
            candidates=tuple(ids[candidate.item] for candidate in prompt.candidates),
            offered_by=tuple(candidate.offered_by for candidate in prompt.candidates),
            signals=prompt.signals,
        )

    def answer(
        self, reply: Sequence[str] | bool | None, *, helpful: Sequence[str] = (), wrong: Sequence[str] = ()
    ) -> None:
        """Answer the question that `next` gave.

        Args:
            reply: what the request needs beside what is known: ids, or names that no other item has; empty = nothing
                (more). True or False where it is asked whether an item would do as well. None = skip it.
            helpful: what would help and is not needed.
            wrong: items labelled as needed that are not.

        Raises:
            ParameterError: no question was asked, or the reply is none to it.
            UnknownNameError: there is no such item.
        """
        self._hold_open()
        if (prompt := self._prompt) is None:
            raise ParameterError("no question waits for an answer; call next first")
        asks = prompt.kind == "needed"
        no_reply = Message("api.no-reply", kind="a list of items" if asks else "True or False", reply=reply)
        raise_first(
            (reply is not None and isinstance(reply, bool | str) == asks, no_reply),
            ((helpful or wrong) and not isinstance(reply, Sequence), Message("api.reply-incomplete")),
        )
        if reply is None:
            replies = [PromptAnswer("skip")]
        elif isinstance(reply, bool):
            replies = [PromptAnswer("alternative", yes=reply)]
        else:
            by_kind = {"wrong": wrong, "helpful": helpful, "needed": reply}
            replies = [
                PromptAnswer(kind, self._position(name)) for kind, several in by_kind.items() for name in several
            ]
            self._refuse(prompt, [entry.item for entry in replies if entry.kind == "needed"])
            replies.append(PromptAnswer("done"))
        for entry in replies:
            self._session.answer(prompt, entry)
        self._entries.append(len(replies))
        self._prompt = None

    def undo(self) -> str | None:
        """Take the last answer back; the id of its query, or None where there is none.

        Of an answer of an earlier session the last key is taken back, as on a terminal.
        """
        self._hold_open()
        self._prompt = None
        undone = [self._session.undo() for _ in range(self._entries.pop() if self._entries else 1)]
        return None if undone[0] is None else str(undone[0].query)

    def report(self) -> pd.DataFrame:
        """The figures as estimated from the labels so far.

        Returns:
            One row per selector (`completeness`) and a pair of selectors (`difference`): `figure`, `of`, `value`,
            `low`, `high` (a 95% interval), `labels_to_halve_interval` (its width; NaN = even all answers do not).
        """
        report = self._session.report()
        rows = [
            {
                "figure": figure,
                "of": estimate.name,
                "value": estimate.value,
                "low": estimate.low,
                "high": estimate.high,
                "labels_to_halve_interval": report.labels_to_halve_interval[estimate.name],
            }
            for figure, several in (("completeness", report.completeness), ("difference", report.differences))
            for estimate in several
        ]
        return make_frame(rows)

    def close(self) -> None:
        """Put the answers into the dataset's files, and let others label it; a second time it does nothing."""
        if not self._closed:
            self._closed = True
            with self._stack:
                self._work.save(self._session)

    def _hold_open(self) -> None:
        raise_first((self._closed, Message("api.session-closed")))

    def _position(self, name: str) -> int:
        catalog = self._session.pool.dataset.catalog
        positions = [position for position, item in enumerate(catalog) if name in (item.id, item.name)]
        exact = [position for position in positions if catalog.ids[position] == name]
        if len(exact or positions) != 1:
            if positions:
                raise ParameterError(f"several items are called {name!r}; name one by its id")
            raise UnknownNameError("item", str(name), catalog.ids)
        return (exact or positions)[0]

    def _refuse(self, prompt: LabelPrompt, items: Sequence[int]) -> None:
        """Refuse, before anything is kept, items that the query cannot need."""
        for item in items:
            if not self._session.can_need(prompt.query, item):
                named = self._session.pool.dataset.catalog.ids[item]
                raise ParameterError(f"query {prompt.query!r} cannot need {named!r}: it may not get it")


def ask_pool(
    dataset: Dataset,
    selectors: SelectorsGiven | None,
    embedder: EmbedderGiven,
    *,
    folder: Path | None,
    progress: bool | ProgressListener,
) -> Pool:
    """What selectors offer for every query of a dataset.

    Raises:
        ParameterError: no selector is named.
    """
    with progress_listener(progress) as listener:
        resources = local_resources(
            open_embedder(embedder_name(embedder)),
            open_counter("o200k", cache=cache_dir()),
            progress=partial(listener, "embedding texts"),
        )
        if selectors is None:
            instances = open_selectors(usual_selectors(dataset), resources)
        else:
            named = selectors if isinstance(selectors, Mapping) else {str(name): name for name in selectors}
            instances = {name: selector_spec(name, selector).make(resources, {}) for name, selector in named.items()}
        raise_first((not instances, Message("api.too-few-selectors")))
        exposures = {} if folder is None else read_exposures(folder)
        try:
            return make_pool(dataset, instances, exposures=exposures, progress=listener)
        finally:
            for instance in instances.values():
                getattr(instance, "close", lambda: None)()


def review(
    data: Data | str | Path,
    selectors: SelectorsGiven | None = None,
    *,
    embedder: EmbedderGiven = "minilm",
    progress: bool | ProgressListener = True,
) -> Review:
    """Labels that look wrong: what all selectors rank far down though it is required, or first though it is not.

    `ctxbench data review` asks about the same labels on a terminal.

    Args:
        data: a dataset, or its name.
        selectors: two or more that rank, as for `evaluate`; the less they have in common, the more it tells. None = as
            for `label`.
        embedder: as for `evaluate`.
        progress: as for `evaluate`, by selector.

    Raises:
        UserError: there is no such dataset, or a selector is unknown or alone.

    Example:
        >>> found = ctxbench.review("datasets/smoke", ["bm25", "dense"], embedder="hashing")
        >>> found.to_frame().columns[:5].tolist()
        ['severity', 'query', 'text', 'item', 'kind']
    """
    loaded = data if isinstance(data, Data) else load(data)
    pool = ask_pool(loaded.dataset, selectors, embedder, folder=None, progress=progress)
    return Review(loaded, pool, findings(pool))


class Review:
    """Labels that look wrong, and corrections of them.

    Attributes:
        data: what was reviewed.
    """

    def __init__(self, data: Data, pool: Pool, suspects: Sequence[Finding]) -> None:
        self.data = data
        self._pool = pool
        self._findings = {(finding.query, finding.item.id): finding for finding in suspects}
        self._corrections = Corrections(data.dataset)

    def to_frame(self) -> pd.DataFrame:
        """What looks wrong, worst first.

        Returns:
            One row a label: `severity` (0 to 1), `query`, `text`, `item`, `kind` (`required but far down` or `first but
            not required`), `grade` (NaN = no label), and a selector's rank under its name (NaN = beyond 20).
        """
        texts = {query.id: query.request.text for query in self.data.dataset.queries}
        rows = [
            {
                "severity": finding.severity,
                "query": finding.query,
                "text": texts[finding.query],
                "item": finding.item.id,
                "kind": finding.kind,
                "grade": None if finding.label is None else finding.label.grade,
                **finding.ranks,
            }
            for finding in self._findings.values()
        ]
        return make_frame(rows, columns=["severity", "query", "text", "item", "kind", "grade", *self._pool.names])

    def regrade(self, query: str, item: str, grade: int, *, why: str = "") -> None:
        """Correct a label.

        Args:
            query: its id.
            item: its id; it need not be among those that look wrong.
            grade: 2 required, 1 helpful, 0 not needed.
            why: for whoever reads the corrections.

        Raises:
            UnknownNameError: there is no such query or item.
            ParameterError: there is no such grade.
            InputError: the query cannot have such a label, as where it may not get the item; nothing is changed.
        """
        dataset = self.data.dataset
        check_known("query", query, [entry.id for entry in dataset.queries])
        check_known("item", item, dataset.catalog.ids)
        no_grade = isinstance(grade, bool | float) or grade not in (0, 1, 2)
        raise_first((no_grade, Message("api.no-grade", grade=grade)))
        finding = self._findings.get((query, item))
        key = dataset.catalog[dataset.catalog.ids.index(item)].key
        self._corrections.regrade(
            (query, item), key, int(grade), query=query, why=why or (finding.kind if finding else "")
        )

    @property
    def corrected(self) -> Data:
        """The dataset with the corrections, in memory."""
        return Data(self._corrections.dataset)

    def save(self, path: str | Path) -> int:
        """Write the corrections as a patch; how many labels change.

        `ctxbench data review FOLDER --apply FILE` applies it.

        Raises:
            ParameterError: the file is there already.
            StorageError: it cannot be written.
        """
        raise_first((Path(path).exists(), Message("api.corrections-exist", path=path)))
        corrections = self._corrections.corrections
        write_patch(corrections, Path(path))
        return len(corrections)

    def _repr_html_(self) -> str:
        return str(self.to_frame().head(20).to_html(index=False, border=0))

    def __repr__(self) -> str:
        return Message("api.review", dataset=self.data.name, n=len(self._findings), selectors=self._pool.names)


@dataclass(frozen=True, eq=False)
class Conversation:
    """What was asked and replied, and the request context that each reply came from.

    Attributes:
        id: of the conversation.
        exchanges: requests with their replies, oldest first.
        catalog: the items as they are now; None = they are not at hand.
    """

    id: str
    exchanges: Sequence[Exchange]
    catalog: Catalog | None = None

    def __repr__(self) -> str:
        return f"Conversation(id={self.id!r}, n_exchanges={len(self.exchanges)})"

    def to_frame(self) -> pd.DataFrame:
        """One row per reply: `reply` (its number, from 1), `time`, `text`, `said`, `items`, `calls`, `selector`."""
        rows = [
            {
                "reply": number,
                "time": exchange.time,
                "text": exchange.text,
                "said": exchange.reply,
                "items": len(exchange.context),
                "calls": list(exchange.calls),
                "selector": exchange.selector,
            }
            for number, exchange in enumerate(self.exchanges, start=1)
        ]
        return make_frame(rows, columns=["reply", "time", "text", "said", "items", "calls", "selector"])

    def context(self, reply: int = -1) -> pd.DataFrame:
        """The request context of a reply, in its order.

        Args:
            reply: its number, from 1; or from the end, -1 being the last.

        Returns:
            One row per item: `item`, `mode` (`always`, `manual`, `agent`, `expansion`, `explicit`), `score` (NaN for
            what the session held), `shown` (the part of its prompt text; None = all), `called` (whether the reply
            called it, by its id, or by a name that no other tool of the context has), and with a catalog `since`:
            `same`, `edited`, or `gone`.

        Raises:
            ParameterError: there is no such reply.
        """
        exchange = self._exchange(reply)
        tools = [entry.key for entry in exchange.context if entry.key.type == "tool"]
        names = Counter(key.name for key in tools)  # a log may name a tool without its server
        called = {
            key.id for key in tools if key.id in exchange.calls or (key.name in exchange.calls and names[key.name] == 1)
        }
        rows = [
            {
                "item": entry.key.id,
                "mode": entry.mode,
                "score": entry.score,
                "shown": entry.shown,
                "called": entry.key.id in called,
                "since": self._since(entry.key.id, entry.content),
            }
            for entry in exchange.context
        ]
        columns = ["item", "mode", "score", "shown", "called", *(["since"] if self.catalog is not None else [])]
        return make_frame(rows, columns=columns)

    def show(self, reply: int = -1) -> Shown:
        """A reply with what it came from, in columns of rules, references and tools, as text and for a notebook.

        Args:
            reply: its number, from 1; or from the end, -1 being the last.

        Raises:
            ParameterError: there is no such reply.
        """
        return Shown(self._exchange(reply), self.context(reply), self.catalog)

    def _exchange(self, reply: int) -> Exchange:
        n = len(self.exchanges)
        if not isinstance(reply, int) or not (1 <= reply <= n or -n <= reply <= -1):
            raise ParameterError(f"conversation {self.id!r} has replies 1 to {n}, or -1 for the last; got {reply}")
        return self.exchanges[reply - 1 if reply > 0 else reply]

    def _since(self, item: str, content: str) -> str:
        if self.catalog is None or (position := self.catalog.find(item)) is None:
            return "gone"
        return "same" if content_hash(self.catalog[position]) == content else "edited"

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html(index=False, border=0))


_COLUMNS = {"rule": "Rules", "reference": "References", "tool": "Tools"}
_OTHERS = "Others"  # of every other type
_COLOURS = {"always": "#1a7f37", "manual": "#0969da", "agent": "#8250df", "expansion": "#9a6700", "explicit": "#bc4c00"}


@dataclass(frozen=True)
class ShownItem:
    """An item of a request context, as it is displayed.

    Attributes:
        lead: before the name: the priority of a rule or reference, `001`; the server of a tool, `web.`; else the type.
        name: its name.
        badges: its mode, such as `Agent`, perhaps with its score; `called`; and `edited` or `gone`.
        colour: that of its mode.
        description: empty if it has none, or the items are not at hand.
    """

    lead: str
    name: str
    badges: tuple[str, ...]
    colour: str
    description: str

    def __str__(self) -> str:
        return f"{self.lead} \u2022 {self.name} [{', '.join(self.badges)}]".removeprefix(" \u2022 ")

    def html(self) -> str:
        """The item with coloured badges, and its description below."""
        style = "color:#fff;border-radius:1em;padding:0 .5em;font-size:85%;white-space:nowrap"
        badges = " ".join(
            f'<span style="background:{self.colour if n == 0 else "#57606a"};{style}">{html.escape(badge)}</span>'
            for n, badge in enumerate(self.badges)
        )
        lead = f"<code>{html.escape(self.lead)}</code> " if self.lead else ""
        below = f'<div style="opacity:.7;font-size:85%">{html.escape(self.description)}</div>' * bool(self.description)
        return f'<div style="margin:.4em 0">{lead}{html.escape(self.name)} {badges}{below}</div>'


@dataclass(frozen=True, eq=False)
class Shown:
    """A reply with its request context, displayed as the specification has it.

    Attributes:
        exchange: as it was stored.
        context: see `Conversation.context`.
        catalog: the items as they are now, which have priorities and descriptions; None = they are not at hand.
    """

    exchange: Exchange
    context: pd.DataFrame
    catalog: Catalog | None = None

    @property
    def columns(self) -> dict[str, list[ShownItem]]:
        """The items by column: rules and references by priority, then name, tools by server, then name."""
        columns: dict[str, list[tuple[Any, ShownItem]]] = {title: [] for title in (*_COLUMNS.values(), _OTHERS)}
        for row in self.context.to_dict("records"):
            key = ItemKey.parse(row["item"])
            position = None if self.catalog is None else self.catalog.find(key)
            item = None if self.catalog is None or position is None else self.catalog[position]
            priority = None if item is None else item.priority
            title = _COLUMNS.get(key.type, _OTHERS)
            lead = key.type if title == _OTHERS else "" if priority is None else f"{priority:03}"
            if key.type == "tool":
                lead = f"{key.server}." if key.server else ""
            score = f" - {row['score']:.2f}" if row["score"] == row["score"] else ""  # not NaN
            since = row.get("since", "same")
            marks = ["called"] * row["called"] + [since] * (since != "same")
            entry = ShownItem(
                lead=lead,
                name=key.name,
                badges=(f"{row['mode'].capitalize()}{score}", *marks),
                colour=_COLOURS.get(row["mode"], "#57606a"),
                description="" if item is None else item.description,
            )
            columns[title].append(((key.server or "", math.inf if priority is None else priority, key.name), entry))
        if not columns[_OTHERS]:
            del columns[_OTHERS]
        return {title: [entry for _, entry in sorted(items, key=itemgetter(0))] for title, items in columns.items()}

    def _head(self) -> list[tuple[str, str]]:
        exchange = self.exchange
        settings = ", ".join(f"{name} {value}" for name, value in exchange.settings.items())
        parts = {
            "asked": exchange.text,
            "replied": exchange.reply,
            "called": ", ".join(exchange.calls),
            "selector": f"{exchange.selector} with {settings}" if settings else exchange.selector,
            "removed": ", ".join(key.id for key in exchange.removed),
            "warnings": "; ".join(exchange.warnings),
        }
        return [(name, text) for name, text in parts.items() if text]

    def _repr_html_(self) -> str:
        lines = "".join(f"<p><b>{name}</b> {html.escape(text)}</p>" for name, text in self._head())
        columns = "".join(
            f'<div style="flex:1;min-width:14em"><b>{title}</b>{"".join(map(ShownItem.html, items)) or "<p>none</p>"}'
            "</div>"
            for title, items in self.columns.items()
        )
        return f'{lines}<div style="display:flex;flex-wrap:wrap;gap:1.5em">{columns}</div>'

    def __repr__(self) -> str:
        lines = [f"{name}: {text}" for name, text in self._head()]
        for title, items in self.columns.items():
            lines += ["", title, *(f"  {item}" for item in items)] if items else ["", title, "  none"]
        return "\n".join(lines)


def conversation(
    path: str | Path,
    id: str | None = None,  # noqa: A002
    *,
    items: Catalog | Data | str | Path | None = None,
) -> Conversation:
    """A stored conversation: the request context of every reply.

    Args:
        path: the file that a `ConversationStore` writes, one JSON object an exchange.
        id: of the conversation; None = the only one.
        items: the items as they are now (or the name or folder of their dataset), to see which were edited since.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: lines are no exchanges: all of them.
        ParameterError: it holds none, or several and `id` is not given.
        UnknownNameError: it holds none of this id.

    Example:
        >>> from ctxbench.selectors.conversations import ConversationStore
        >>> from ctxbench.selectors.conversations import Exchange
        >>> ConversationStore(tmp_path / "chats.jsonl").append(Exchange(conversation="one", text="hello", reply="hi"))
        >>> ctxbench.conversation(tmp_path / "chats.jsonl").to_frame()["said"].tolist()
        ['hi']
    """
    if not Path(path).is_file():
        raise StorageError(f"no file {path}; expected stored conversations, one JSON object per line")
    by_id = group_pairs((exchange.conversation, exchange) for exchange in ConversationStore(path).exchanges())
    if id is not None and str(id) not in by_id:
        raise UnknownNameError("conversation", str(id), by_id)
    raise_first(
        (not by_id, Message("api.no-conversation", path=path)),
        (
            len(by_id) != 1 and id is None,
            Message("api.several-conversations", path=path, n=len(by_id), ids=list(by_id)[:10]),
        ),
    )
    chosen = next(iter(by_id)) if id is None else str(id)
    current = load(items) if isinstance(items, str | Path) else items
    return Conversation(
        chosen, tuple(by_id[chosen]), current.dataset.current_catalog if isinstance(current, Data) else current
    )
