"""Files of a baseline folder and the rows in them.

    baseline.json               format, versions, settings, selectors, metrics, figures of the replaced baseline, hashes
    vectors.npz                 vectors of the texts that a check needs, if stored
    <dataset>/items.jsonl       {"id", "hash", "tokens", "prompt"?, "enabled"?, "scopes"?: [...], "row"?}
    <dataset>/queries.jsonl     {"id", "text"?, "asked", "labelled", "required"?, "labels"?, "needs"?, "group"?,
                                 "tags"?, "scope"?, "removed"?: [...], "explicit"?: [...], "recent"?: [...],
                                 "available"?: [...]}
    <dataset>/sessions.jsonl    {"session", "items": ["always rule:style", ...]}
    <dataset>/<selector>.jsonl  {"query", "error"?, "session"?, "offered": [...], "near"?: [...], "values"}

Items and queries are in their order. `session` is a line number of `sessions.jsonl`, or a list. A candidate is `[id,
score]`; an excluded one `[id, score, rule]`, the rule a number that `baseline.json` explains. Other origins are added:
`["rule:style", 0.81, {"mode": "expansion", "origin": "expansion", "via": "rule:tests"}]`. Winning pairs of chunks are
left out, since they change with every edit of a text.
"""

from __future__ import annotations

import hashlib
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import BeforeValidator, ConfigDict, Field

from ctxbench.evaluation.metrics import parse_metric
from ctxbench.gate.snapshots import LISTS, SHORT, AnswerFact, ItemFact, LabelFact, QueryFact, shortened
from ctxbench.io.documents import dump_json
from ctxbench.io.errors import ParameterError, StorageError, UserError
from ctxbench.io.files import file_name
from ctxbench.model.candidates import Rule
from ctxbench.model.formats import FileModel, Given, Source, Texts, parsed, validate
from ctxbench.model.items import ItemKey
from ctxbench.model.selection import Offered

FORMAT = 4  # raised when a reader of the old one would go wrong
MANIFEST, VECTORS = "baseline.json", "vectors.npz"
ITEMS, QUERIES, SESSIONS = "items.jsonl", "queries.jsonl", "sessions.jsonl"
GATE = "gate.yaml"  # the default gate file
_FOREIGN = {"dataset.yaml": "a dataset", "manifest.json": "a run", "timings.json": "a run"}


_gate: ContextVar[Path] = ContextVar("gate", default=Path(GATE))


@contextmanager
def gate_file_in_messages(gate: Path) -> Iterator[None]:
    """Within it, messages name the command that accepts the baseline of a gate file."""
    token = _gate.set(gate)
    try:
        yield
    finally:
        _gate.reset(token)


def accept_command(*options: str) -> str:
    """The command that accepts the baseline of the current gate file, in backticks."""
    gate = _gate.get()
    return f"`{shlex.join(['ctxbench', 'check', *([] if gate == Path(GATE) else [str(gate)]), '--accept', *options])}`"


def answers_file(selector: str) -> str:
    """The name of the file of a selector's answers, which no other selector or file of a dataset has."""
    name = f"{file_name(selector)}.jsonl"
    return f"%{ord(name[0]):02X}{name[1:]}" if name in (ITEMS, QUERIES, SESSIONS) else name


def dataset_file(dataset: str, name: str) -> str:
    """The path of a file of a dataset in the folder of the baseline."""
    return f"{file_name(dataset)}/{name}"


def file_hash(data: bytes) -> str:
    """The first `SHORT` hex digits of SHA-256; line ends that git made CRLF count as LF."""
    return hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()[:SHORT]


def manifest_hash(head: Mapping[str, Any]) -> str:
    """Hash of everything in `baseline.json` but this hash itself."""
    return file_hash(dump_json({key: value for key, value in head.items() if key != "hash"}).encode())


def figures_of(head: Mapping[str, Any]) -> dict[str, Any]:
    """What a later baseline keeps of a manifest: the settings of its gate, and its figures."""
    return {
        "settings": head["settings"],
        "datasets": {
            dataset: {
                "queries": about["queries"],
                "selectors": {
                    selector: {
                        "metrics": {metric: {"mean": row.get("mean")} for metric, row in facts["metrics"].items()}
                    }
                    for selector, facts in about["selectors"].items()
                },
            }
            for dataset, about in head["datasets"].items()
        },
    }


def other_content(folder: Path) -> str:
    """What a folder holds if it is no baseline: `a dataset`, `a run`, `no folder` ...; else empty.

    Raises:
        StorageError: it cannot be looked at, or is a baseline that has lost its manifest.
    """
    try:
        if not folder.exists():
            return ""
        if not folder.is_dir():
            return "a file"
        names = {path.name for path in folder.iterdir()}
    except OSError as error:
        raise StorageError(
            f"cannot read {folder}: {error.strerror or error}; expected the folder of a baseline"
        ) from error
    for name, kind in _FOREIGN.items():
        if name in names:
            return f"the folder of {kind}"
    if MANIFEST not in names and (VECTORS in names or next(folder.glob(f"*/{ITEMS}"), None)):
        raise StorageError(
            f"{folder / MANIFEST} is missing; restore it from git, or delete the folder and accept a new baseline "
            f"({accept_command()})"
        )
    return "a folder of something else" if names and MANIFEST not in names else ""


DECIMALS = 7  # of scores: a hundredth of `candidates.MARGIN`, below which machines differ
_MAX_WHOLE = 2**53  # of items and tokens: whole numbers up to it are exact as floats, too
_ROUNDING = 1e-9  # by which a share that is summed up may be above 1
_DIRECT = "direct"
_LONGEST = 300  # characters of a message about a line
_LABEL = ("", 0, _DIRECT, "")  # a label, with the defaults of its end
_DEFAULTS = {"mode": "agent", "origin": "search", "via": None}


class RowError(ValueError):
    """A line that is not valid in a baseline; the message has what was expected."""


def _label(row: object) -> LabelFact:
    """A label from `[id, grade, via, alternatives]`, of which the last two may be missing."""
    if isinstance(row, list) and 2 <= len(row) <= len(_LABEL):
        label = (*row, *_LABEL[len(row) :])
        if tuple(map(type, label)) == (str, int, str, str):
            return label
    raise ParameterError(f"a label is [id, grade, via, alternatives], got {row!r}")


def _checked_id(value: object) -> object:
    if isinstance(value, str):
        ItemKey.parse(value)
    return value


_Name: TypeAlias = Annotated[str, Field(min_length=1)]
_Count: TypeAlias = Annotated[int, Field(ge=0, le=_MAX_WHOLE)]
_Ids: TypeAlias = Given[Texts[Annotated[str, parsed(_checked_id, str)]]]


class BaselineRow(FileModel):
    """A line of a file of a baseline; fields of later versions are ignored."""

    model_config = ConfigDict(extra="ignore")
    noun = "a line"


class ItemRow(BaselineRow):
    """A line of `items.jsonl`."""

    id: _Name = Field(description="Id of the item, percent-encoded.")
    hash: _Name = Field(description="Hash of all fields of the item.")
    tokens: _Count = Field(description="Prompt tokens.")
    prompt: str = Field(default="", description="Hash of the prompt text.")
    enabled: bool = Field(default=True, description="Whether the item can be offered.")
    scopes: Texts[str] = Field(default=(), description="Scopes that have the item.")
    row: dict[str, Any] | None = Field(default=None, description="Fields of the item; none without texts.")


class QueryRow(BaselineRow):
    """A line of `queries.jsonl`."""

    id: _Name = Field(description="Id of the query.")
    text: str = Field(default="", description="Text of the request; empty without texts.")
    asked: _Name = Field(description="Hash of the request.")
    labelled: _Name = Field(description="Hash of the labels.")
    required: Texts[
        Annotated[Texts[str], BeforeValidator(lambda entry: [entry] if isinstance(entry, str) else entry)]
    ] = Field(default=(), description="Ids of required items; a list of ids holds alternatives.")
    labels: Texts[Annotated[LabelFact, parsed(_label, list[str | int])]] = Field(
        default=(), description="Labels beyond `required`, as `[id, grade, via, alternatives]`."
    )
    needs: str = Field(default="", description="`nothing` if no item is required.")
    group: str = Field(default="", description="Group of paraphrases, by default the id.")
    tags: Texts[str] = Field(default=(), description="Tags of the query.")
    scope: str = Field(default="", description="Scope of the items that can be offered.")
    removed: _Ids = Field(default=None, description="Items that the user removed.")
    explicit: _Ids = Field(default=None, description="Items that the user named.")
    recent: _Ids = Field(default=None, description="Items used recently.")
    available: _Ids = Field(default=None, description="Items that can be offered.")


class SessionItems(BaselineRow):
    """A line of `sessions.jsonl`."""

    session: _Count = Field(description="Number of the session, from 1.")
    items: list[str] = Field(description="Items that the session holds, as `always rule:style`.")


class AnswerRow(BaselineRow):
    """A line of `<selector>.jsonl`."""

    query: _Name = Field(description="Id of the query.")
    error: str = Field(default="", description="Why the selector failed on the query.")
    session: int | list[str] = Field(default_factory=list, description="Number of a session, or its items.")
    offered: list[Any] = Field(description="Candidates `[id, score]` or `[id, score, {mode, origin, via, tokens}]`.")
    near: list[Any] = Field(default_factory=list, description="Excluded candidates `[id, score, rule]`.")
    values: dict[str, float] = Field(description="Values of metrics by name.")


M = TypeVar("M", bound=FileModel)


def read_row(model: type[M], row: object) -> M:
    """Make a model of a parsed line.

    Raises:
        RowError: it is not valid.
    """
    content, faults = validate(model, row, Source())
    if content is None:
        raise RowError(shortened("; ".join(fault.message for fault in faults), _LONGEST))
    return content


@dataclass(frozen=True, slots=True)
class SessionRow:
    """The items of a session that several queries have.

    Attributes:
        id: its number, from 1.
        items: in order.
    """

    id: int
    items: tuple[Offered, ...]


def item_row(item: ItemFact) -> dict[str, Any]:
    """An item as a line."""
    row = {
        "id": item.id,
        "hash": item.hash,
        "tokens": item.tokens,
        "prompt": item.prompt,
        "enabled": item.enabled,
        "scopes": list(item.scopes),
        "row": None if item.row is None else {name: value for name, value in item.row.items() if name != "_id"},
    }
    return _without_defaults(row, {"prompt": "", "enabled": True, "scopes": [], "row": None})


def item_from_row(row: object) -> ItemFact:
    """Read a line of `item_row`.

    Raises:
        RowError: it is not valid.
    """
    item = read_row(ItemRow, row)
    return ItemFact(**{**dict(item), "row": None if item.row is None else {"_id": item.id, **item.row}})


def query_row(query: QueryFact) -> dict[str, Any]:
    """A query as a line."""
    row = {
        "id": query.id,
        "text": query.text,
        "asked": query.request_hash,
        "labelled": query.labelled,
        "required": [
            alternatives[0] if len(alternatives) == 1 else list(alternatives) for alternatives in query.required
        ],
        "labels": [_label_row(label) for label in query.extra_labels],
        "needs": "nothing" if query.needs_nothing else "",
        "group": query.group,
        "tags": list(query.tags),
        "scope": query.scope,
    }
    usual = {"text": "", "required": [], "labels": [], "needs": "", "group": query.id, "tags": [], "scope": ""}
    return _without_defaults(row, usual) | {name: list(ids) for name, ids in query.lists.items()}


def _without_defaults(row: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """A row without the fields that have their default value."""
    return {name: value for name, value in row.items() if name not in defaults or value != defaults[name]}


def query_from_row(row: object) -> QueryFact:
    """Read a line of `query_row`.

    Raises:
        RowError: it is not valid.
    """
    query = read_row(QueryRow, row)
    return QueryFact(
        id=query.id,
        request_hash=query.asked,
        labelled=query.labelled,
        required=query.required,
        needs_nothing=query.needs == "nothing",
        group=query.group or query.id,
        tags=query.tags,
        text=query.text,
        extra_labels=query.labels,
        scope=query.scope,
        lists={name: ids for name in LISTS if (ids := getattr(query, name)) is not None},
    )


def _label_row(label: LabelFact) -> list[Any]:
    """`[id, grade, via, alternatives]`, without default values at the end."""
    name, grade, via, alternatives = label
    return [name, grade, via, alternatives] if alternatives else [name, grade, *([] if via == _DIRECT else [via])]


def session_items(answer: AnswerFact) -> tuple[str, ...]:
    """The items of the session, with which an offer begins: mode and id of each as one text."""
    candidates = takewhile(
        lambda candidate: candidate.origin == "session" and candidate.score is None and candidate.via is None,
        answer.offered,
    )
    return tuple(f"{candidate.mode} {candidate.id}" for candidate in candidates)


def session_row(number: int, session: Sequence[str]) -> dict[str, Any]:
    """A session as a line."""
    return {"session": number, "items": list(session)}


def session_from_row(row: object) -> SessionRow:
    """Read a line of `session_row`.

    Raises:
        RowError: it is not valid.
    """
    session = read_row(SessionItems, row)
    return SessionRow(session.session, _session_candidates(session.items))


def answer_row(
    answer: AnswerFact,
    values: Mapping[str, float],
    rules: Mapping[Rule | None, int],
    sessions: Mapping[tuple[str, ...], int],
) -> dict[str, Any]:
    """An answer as a line.

    Args:
        answer: the answer; of `near`, all is written.
        values: metrics of the query by name; one that does not apply (NaN) is left out.
        rules: numbers of the rules.
        sessions: numbers of what several sessions hold.
    """
    session = session_items(answer)
    applicable = {name: value for name, value in values.items() if not math.isnan(value)}
    row = {
        "query": answer.query,
        "error": answer.error,
        "session": sessions.get(session) or list(session),
        "offered": [_candidate_row(candidate) for candidate in answer.offered[len(session) :]],
        "near": [_candidate_row(candidate, rules[candidate.rule]) for candidate in answer.near],
        "values": {name: int(value) if value.is_integer() else value for name, value in applicable.items()},
    }
    return _without_defaults(row, {"error": "", "session": [], "near": []})


def answer_from_row(
    row: object,
    rules: Sequence[Rule | None],
    sessions: Mapping[int, SessionRow] | None,
    *,
    repeated: bool = False,
) -> tuple[AnswerFact, Mapping[str, float]]:
    """Read a line of `answer_row`: the answer, and the values of the metrics that apply.

    Args:
        row: the line.
        rules, sessions: as their files have them; None = the file of sessions is faulty.
        repeated: whether values are means over several answers.

    Raises:
        RowError: it is not valid.
    """
    fields = read_row(AnswerRow, row)
    for name, value in fields.values.items():
        if expected := _out_of_range(name, value, repeated=repeated):
            raise RowError(f"the value of {name} must be {expected}, got {value:g}")
    if isinstance(fields.session, list):
        session = _session_candidates(fields.session)
    elif sessions is not None and fields.session not in sessions:
        raise RowError(f"{SESSIONS} has no session {fields.session}")
    else:
        session = () if sessions is None else sessions[fields.session].items
    answer = AnswerFact(
        query=fields.query,
        offered=(*session, *[_candidate_from_row(entry, None) for entry in fields.offered]),
        near=tuple([_candidate_from_row(entry, rules) for entry in fields.near]),
        error=fields.error,
    )
    return answer, fields.values


def _out_of_range(name: str, value: float, *, repeated: bool) -> str:
    """The range expected of a metric's value, if the value is outside; else empty, also for unknown metrics."""
    if (scale := _scale(name)) == "yes/no" and not repeated:
        return "" if value in (0, 1) else "0 or 1"
    if scale in ("yes/no", "share"):
        return "" if 0 <= value <= 1 + _ROUNDING else "from 0 to 1"
    return "0 or more" if scale == "amount" and value < 0 else ""


@cache
def _scale(name: str) -> str:
    try:
        return parse_metric(name).declaration.scale
    except UserError:
        return ""


def rounded(score: float | None) -> float | None:
    """A score as a baseline has it."""
    return None if score is None else round(score, DECIMALS) + 0.0  # no -0.0


def _session_candidates(entries: Sequence[str]) -> tuple[Offered, ...]:
    """The items of a session."""
    parts = [text.split(" ") for text in entries]
    if any(len(part) != 2 for part in parts):
        raise RowError(f"a session holds texts of a mode and an id, as in 'always rule:style'; got {entries!r}")
    return tuple([Offered(id=name, score=None, mode=mode, origin="session") for mode, name in parts])


def _candidate_row(candidate: Offered, rule: int | None = None) -> list[Any]:
    out: list[Any] = [candidate.id, rounded(candidate.score)]
    if rule is not None:
        out.append(rule)
    extras = {name: getattr(candidate, name) for name, usual in _DEFAULTS.items() if getattr(candidate, name) != usual}
    if rule is None and candidate.tokens is not None:
        extras["tokens"] = candidate.tokens  # of the part that is shown
    return [*out, extras] if extras else out


def _candidate_from_row(row: Any, rules: Sequence[Rule | None] | None) -> Offered:
    """Read a candidate; with `rules`, one that stayed out."""
    length = 2 if rules is None else 3
    if not isinstance(row, list) or not length <= len(row) <= length + 1 or not isinstance(row[0], str):
        raise RowError(f"a candidate is {'[id, score]' if rules is None else '[id, score, rule]'}, got {row!r}")
    if (score := row[1]) is not None and not _is_number(score):
        raise RowError(f"the score of {row[0]} must be a finite number or null, got {shortened(repr(score), _LONGEST)}")
    rule = None
    if rules is not None:
        number = row[2]
        if type(number) is not int or not 0 <= number < len(rules):
            raise RowError(f"{row[0]} is out by rule {number!r}, which baseline.json does not have")
        rule = rules[number]
    extras = _extras(row[length]) if len(row) > length else {}
    return Offered(
        id=row[0],
        score=None if score is None else float(score),
        mode=extras.get("mode", "agent"),
        origin=extras.get("origin", "search"),
        rule=rule,
        via=extras.get("via"),
        tokens=extras.get("tokens"),
    )


def _extras(extras: Any) -> Mapping[str, Any]:
    values = extras if isinstance(extras, dict) else {"": None}
    tokens = values.get("tokens", 0)
    texts = {name: value for name, value in values.items() if name != "tokens"}
    if (
        type(tokens) is not int
        or not 0 <= tokens <= _MAX_WHOLE
        or not all(name in _DEFAULTS and type(texts[name]) is str for name in texts)
    ):
        got = shortened(repr(extras), _LONGEST)
        raise RowError(f"expected an object with mode, origin, via or tokens after a candidate, got {got}")
    return values


def _is_number(value: Any) -> bool:
    """Whether it is a finite number that a float holds."""
    try:
        return type(value) in (int, float) and math.isfinite(value)
    except OverflowError:  # a whole number of hundreds of digits
        return False
