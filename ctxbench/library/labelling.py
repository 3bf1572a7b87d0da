"""Labels from Python: a dataset out of logs, questions about what requests need, and labels that look wrong."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from ctxbench.bench.progress_listener import Progress, silent
from ctxbench.core.errors import ParameterError, UnknownNameError
from ctxbench.core.items import Catalog, ItemKey
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.data.datasets.lookup import dataset_folder
from ctxbench.data.labelling.folder import LabelFolder
from ctxbench.data.labelling.folder import opened as opened_folder
from ctxbench.data.labelling.labelling_session import LabellingSession, LabelPrompt, PromptAnswer
from ctxbench.data.labelling.pool import Pool, make_pool, open_selectors, usual_selectors
from ctxbench.data.labelling.predict import Predictor
from ctxbench.data.labelling.query_files import read_exposures
from ctxbench.data.traces.importer import TraceSettings, TraceSource, import_into, scopes_of
from ctxbench.embedding.embedder_names import open_embedder
from ctxbench.index.resources import local_resources
from ctxbench.library.dataset_frames import Data, load
from ctxbench.library.embedders import EmbedderGiven, embedder_name
from ctxbench.library.selectors import selector_spec
from ctxbench.sources.agent_file import open_catalog
from ctxbench.text.tokens import open_counter

if TYPE_CHECKING:
    import pandas as pd

SelectorsGiven: TypeAlias = "Mapping[str, Any] | Sequence[str]"


def from_logs(
    logs: str | Path | Sequence[str | Path],
    items: Catalog | Data | str | Path,
    out: str | Path,
    *,
    name: str | None = None,
    licence: str | None = None,
    history: int = 20,
    all_offered: bool = False,
    renames: Mapping[str, str] | None = None,
    redact: bool | str | Path = True,
) -> Data:
    """Make a dataset of what an agent logged, in a folder; `ctxbench data import traces` does the same.

    What was called is a part of what is needed: where not everything was offered, a query is labelled in part only, and
    figures leave it out until somebody has looked (`label`). So is every query that may get something else than tools,
    such as rules or skills, since no log shows when those are needed.

    Args:
        logs: files of JSON lines of turns, or of OpenTelemetry spans.
        items: the catalog that the agent chose from, or the name or folder of a dataset or a file of items.
        out: the folder; an earlier import there is replaced unless somebody has labelled it.
        name: of the dataset; None = the folder's.
        licence: of the log's texts, for the card.
        history: how many earlier messages a query keeps, >= 0.
        all_offered: turns without a list of what was offered were offered everything.
        renames: ids that the log has for items that go by another id now, old to new.
        redact: whether names, addresses and keys in texts are replaced by placeholders; a file adds patterns of yours.

    Raises:
        UserError: a log, the catalog or the folder is not what it should be; nothing is written then.

    Example:
        >>> import json, pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> tools = ctxbench.catalog([{"name": "area"}, {"name": "mail"}])
        >>> turn = {"text": "the area of a triangle", "offered": "*", "called": ["area"]}
        >>> _ = (folder / "log.jsonl").write_text(json.dumps(turn))
        >>> ctxbench.from_logs(folder / "log.jsonl", tools, folder / "mine").labels["item"].tolist()
        ['tool:area']
    """
    files = tuple(Path(log) for log in ([logs] if isinstance(logs, str | Path) else logs))
    folder = Path(out)
    settings = TraceSettings.of_folder(folder, name=name, licence=licence, history=history, all_offered=all_offered)
    patterns = None if isinstance(redact, bool) else Path(redact)
    scopes: Mapping[str, tuple[ItemKey, ...]] = {}
    if isinstance(items, Catalog):
        catalog = items
    elif isinstance(items, Data):
        catalog, scopes = items.dataset.current_catalog, items.dataset.scopes
    else:
        catalog, scopes = open_catalog(str(items)), scopes_of(dataset_folder(str(items)))
    renamed = {ItemKey.parse(old): ItemKey.parse(new) for old, new in (renames or {}).items()}
    source = TraceSource(logs=files, catalog=catalog, scopes=scopes, renames=renamed)
    import_into(folder, source, settings, redact=bool(redact), patterns=patterns)
    return load(folder)


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
        import pandas as pd

        return pd.DataFrame(
            {"item": list(self.candidates), "offered_by": [", ".join(names) for names in self.offered_by]}
        )

    def __str__(self) -> str:
        known_text = f" It is known to need {', '.join(self.known)}." if self.known else ""
        if self.kind == "alternative":
            return f"{self.query}: {self.text!r}: would {self.item} do as well as {self.of}?"
        return f"{self.query}: what {'else ' if known_text else ''}does {self.text!r} need?{known_text}"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(str(self))}</p>{self.to_frame().head(9).to_html(index=False, border=0)}"


def label(
    folder: str | Path,
    selectors: SelectorsGiven | None = None,
    *,
    figures: Sequence[str] = (),
    embedder: EmbedderGiven = "minilm",
    progress: Progress = silent,
) -> Labelling:
    """Open the folder of a dataset to label its queries, those first that narrow the figures most.

    `ctxbench data label` asks the same questions on a terminal; either goes on where the other stopped.

    Args:
        folder: of the dataset; nobody else can label it until `close`.
        selectors: whose completeness the labels are to tell, as for `evaluate`; two or more. None = bm25, dense and
            semantic/documents, and that of the agent that the dataset is over.
        figures: names of the figures to narrow, as `report` lists them; none = all. Of the first session only.
        embedder: as for `evaluate`.
        progress: told how many queries each selector was asked.

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


class Labelling:
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
            wrong: what is said to be needed and is not.

        Raises:
            ParameterError: no question was asked, or the reply is none to it.
            UnknownNameError: there is no such item.
        """
        self._hold_open()
        prompt = self._prompt
        if prompt is None:
            raise ParameterError("no question waits for an answer; call next first")
        asks = prompt.kind == "needed"
        if reply is not None and isinstance(reply, bool | str) == asks:
            expected = "a list of the items that are needed" if asks else "True or False"
            raise ParameterError(f"this question takes {expected}, or None to skip it; got {reply!r}")
        if (helpful or wrong) and not isinstance(reply, Sequence):
            raise ParameterError("helpful and wrong stand beside the list of what is needed; pass it, too")
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
            One row a selector (`completeness`) and a pair of selectors (`difference`): `figure`, `of`, `value`, `low`,
            `high` (a 95% interval), `answers_to_halve` (its width; NaN = even all answers do not).
        """
        import pandas as pd

        report = self._session.report()
        rows = [
            {
                "figure": figure,
                "of": estimate.name,
                "value": estimate.value,
                "low": estimate.low,
                "high": estimate.high,
                "answers_to_halve": report.halving[estimate.name],
            }
            for figure, several in (("completeness", report.completeness), ("difference", report.differences))
            for estimate in several
        ]
        return pd.DataFrame(rows)

    def close(self) -> None:
        """Put the answers into the dataset's files, and let others label it; a second time it does nothing."""
        if not self._closed:
            self._closed = True
            with self._stack:
                self._work.save(self._session)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _hold_open(self) -> None:
        if self._closed:
            raise ParameterError("this session was closed, so that others may label by now; open another with label")

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
    progress: Progress,
) -> Pool:
    """What selectors offer for every query of a dataset.

    Raises:
        ParameterError: no selector is named.
    """
    from ctxbench.io.cache import cache_dir

    resources = local_resources(open_embedder(embedder_name(embedder)), open_counter("o200k", cache=cache_dir()))
    if selectors is None:
        instances = open_selectors(usual_selectors(dataset), resources)
    else:
        named = selectors if isinstance(selectors, Mapping) else {str(name): name for name in selectors}
        instances = {name: selector_spec(name, selector).make(resources, {}) for name, selector in named.items()}
    if not instances:
        raise ParameterError("selectors is empty; name two or more")
    exposures = {} if folder is None else read_exposures(folder)
    try:
        return make_pool(dataset, instances, exposures=exposures, progress=progress)
    finally:
        for instance in instances.values():
            getattr(instance, "close", lambda: None)()
