"""Queries and labels from turns, the report of an import, and the items that a session of an agent used."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, lru_cache
from itertools import chain, count as number_from
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Any

from ctxbench.datasets.dataset import Dataset, split_of
from ctxbench.datasets.layout import SIGNALS, Exposure
from ctxbench.datasets.queries import DatasetQuery, Label, connected_rows, group_pairs
from ctxbench.io.console import ProgressListener
from ctxbench.io.errors import Message
from ctxbench.io.redaction import Redactor
from ctxbench.io.rows import instant
from ctxbench.labelling.record_files import AMBIGUOUS, UNKNOWN, NameResolver, Resolved
from ctxbench.labelling.trace_messages import STATUSES, Call, Interner, LogFindings, Record, get
from ctxbench.labelling.trace_turns import Turn, meant_field, reuses_ids
from ctxbench.model.arrays import Grade
from ctxbench.model.items import Catalog, Item, ItemKey
from ctxbench.model.requests import Message as ChatTurn, Request, SessionItem

COUNTS: dict[str, tuple[str, ...]] = {
    "read": (
        *(
            "lines",
            "lines_twice",
            "lines_unreadable",
            "events_other",
            "results_cut",
            "spans",
            "spans_twice",
            "spans_unreadable",
        ),
        *("spans_without_content", "model_calls_of_helpers", "logs_without_span"),
        *("records_without_request", "responses_unread", "responses_missing"),
    ),
    "turns": (
        *(
            "conversations",
            "turns",
            "turns_full",
            "turns_partial",
            "turns_without_offered",
            "turns_assumed_full",
            "text_empty",
        ),
        *("available_unknown", "scopes_unknown", "session_not_available"),
    ),
    "queries": (
        *("queries_complete", "queries_partly", "queries_unlabelled", "queries_nothing"),
        *("full_but_doubtful", "full_but_not_all_tools"),
    ),
    "labels": ("labels_full", "labels_partial"),
    "calls": (
        *("calls_ok", "calls_error", "calls_unknown_tool", "calls_not_offered", "calls_not_available"),
        *("calls_outside_catalog", "calls_ambiguous", "calls_without_request", "calls_of_earlier_turns"),
        *("requests_of_earlier_turns", "calls_unread"),
    ),
    "signals": tuple(f"signal_{name}" for name in SIGNALS),
}
"""Counts by part of the card; `datasets/traces.md` describes each."""

_ID = re.compile(r"[\da-fA-F]{16,}")  # of a trace, perhaps of digits alone; longer than a number of a phone
_CACHED = 4096  # redacted texts
_SHOWN = 20  # names that the card lists
_NAMED = 5  # names that a message lists
_REPLY, _REPLY_LENGTH = 2, 20  # words and characters of a reply that says nothing alone, at most


@dataclass(frozen=True, kw_only=True)
class TraceReport:
    """Counts of an import of traces.

    Attributes:
        counts: the counts of `COUNTS`.
        rules: how many names each rule resolved.
        unknown, ambiguous: counts of names without an item, most frequent first.
        outside: counts of called tools that are part of a coding agent and of no catalog, most frequent first.
        ignored: counts of ignored fields.
        redaction: by kind, the number of replacements and of distinct secrets; None = redaction was off.
        examples: some faults, with file and line.
    """

    counts: Counter[str]
    rules: Mapping[str, int]
    unknown: Mapping[str, int]
    ambiguous: Mapping[str, int]
    outside: Mapping[str, int]
    ignored: Mapping[str, int]
    redaction: Mapping[str, Mapping[str, int]] | None
    examples: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The report as data, for the notes of the card."""
        parts: dict[str, Any] = {part: {name: self.counts[name] for name in names} for part, names in COUNTS.items()}
        n_labels = sum(parts["labels"].values())
        parts["labels"]["share_full"] = round(self.counts["labels_full"] / n_labels, 4) if n_labels else None
        names = {
            "by_rule": dict(self.rules),
            UNKNOWN: dict(list(self.unknown.items())[:_SHOWN]),
            AMBIGUOUS: dict(list(self.ambiguous.items())[:_SHOWN]),
            "of_the_agent": dict(list(self.outside.items())[:_SHOWN]),
            "unknown_in_all": len(self.unknown),
            "ambiguous_in_all": len(self.ambiguous),
        }
        redaction = "off" if self.redaction is None else {kind: dict(c) for kind, c in self.redaction.items()}
        return parts | {"names": names, "fields_not_read": dict(self.ignored), "redaction": redaction}

    def labelling(self) -> str:
        """The card's `labelling`: the origin of the labels, and the queries that metrics use."""
        n = self.counts
        message = Message(
            "labelling.card-traces",
            labels=n["labels_full"] + n["labels_partial"],
            share_full=self._share_full,
            n=n["turns"],
            full=n["queries_complete"] + n["queries_nothing"],
            partly=n["queries_partly"],
            unlabelled=n["queries_unlabelled"],
            nothing=n["queries_nothing"],
        )
        return str(message)

    @property
    def _share_full(self) -> str:
        """The share of the labels that are of turns that were offered everything."""
        full, partial = self.counts["labels_full"], self.counts["labels_partial"]
        return f"{full / (full + partial):.0%}" if full + partial else "none"

    def lines(self) -> list[str]:
        """The report in words, one line per count; counts of 0 are left out."""
        n = self.counts
        signals = [f"{n[f'signal_{name}']:,} {name}" for name in SIGNALS if n[f"signal_{name}"]]
        kinds = ", ".join(f"{c['replaced']:,} {kind}" for kind, c in (self.redaction or {}).items())
        hint = "".join(map(meant_field, self.ignored))
        lines = [
            (n["labels_full"], Message("labelling.report-labels", full=self._share_full)),
            (signals, Message("labelling.report-misses", signals=signals)),
            *((n[name], Message(key, n=n[name])) for name, key in NOTES.items()),
            (self.unknown, Message("labelling.names-unknown", names=listed(self.unknown))),
            (self.outside, Message("labelling.names-outside", names=listed(self.outside))),
            (self.ambiguous, Message("labelling.names-ambiguous", names=listed(self.ambiguous))),
            (self.ignored, Message("labelling.fields-ignored", names=listed(self.ignored), hint=hint)),
            *((True, f"  {example}") for example in self.examples),
            (self.redaction is None, Message("labelling.redaction-off")),
            (self.redaction is not None, Message("labelling.redacted", kinds=kinds or "nothing")),
        ]
        return [line for is_said, line in lines if is_said]


def listed(names: Mapping[str, int]) -> str:
    """The most frequent names with their counts: `'a' (3), 'b' (1), and 4 more`."""
    frequent = sorted(names.items(), key=lambda pair: -pair[1])
    ending = f", and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(f"{name!r} ({times:,})" for name, times in frequent[:_NAMED]) + ending or "none"


NOTES = {
    key.removeprefix("labelling.").replace("-", "_"): key
    for key in (
        *("labelling.queries-nothing", "labelling.turns-without-offered"),
        *("labelling.turns-assumed-full", "labelling.full-but-doubtful"),
        *("labelling.full-but-not-all-tools", "labelling.lines-unreadable", "labelling.lines-twice"),
        "labelling.results-cut",
        *("labelling.spans-unreadable", "labelling.spans-twice"),
        *("labelling.spans-without-content", "labelling.logs-without-span"),
        *("labelling.records-without-request", "labelling.responses-unread", "labelling.responses-missing"),
        *(
            "labelling.calls-without-request",
            "labelling.calls-of-earlier-turns",
            "labelling.requests-of-earlier-turns",
            "labelling.calls-unread",
        ),
        *("labelling.model-calls-of-helpers", "labelling.available-unknown"),
        *("labelling.calls-error", "labelling.calls-unknown-tool"),
        *("labelling.calls-not-offered", "labelling.calls-not-available", "labelling.scopes-unknown"),
        *("labelling.session-not-available", "labelling.text-empty"),
    )
}
"""Messages of the report by count, in the order of the report."""


def is_searchable(item: Item) -> bool:
    """Whether a search may offer an item."""
    return item.enabled and item.include == "agent"


SOURCE = "trace"
"""The `source` of labels from a log."""

SHELLS = (
    *("bash", "shell", "sh", "zsh", "powershell", "cmd", "terminal", "exec", "local_shell", "execute_bash"),
    *("run_command", "execute_command", "run_shell_command", "run_terminal_cmd", "run_in_terminal", "shell_exec"),
)
SEARCHES = (
    *("tool_search", "search_tools", "search_tool", "find_tools", "find_tool", "discover_tools", "toolsearch"),
    *("list_tools", "list_available_tools", "retrieve_tools", "tool_search_tool"),
)

_CLEAN = re.compile(r"[\W_]+")
_VERSION = re.compile(r"(?:_regex|_bm25)?(?:_\d{8})?$")  # of Anthropic's tool search tools


@dataclass(frozen=True, slots=True)
class _Scope:
    """The items available to a query.

    Attributes:
        searchable: the items that a search can find; exposure is full if all of them were offered.
        tools_only: all searchable items are tools.
        reachable: the items that can have labels.
    """

    searchable: frozenset[ItemKey]
    tools_only: bool
    reachable: frozenset[ItemKey]


@dataclass
class Builder:
    """Builds the rows of a dataset, turn by turn.

    Attributes:
        assume_full: turns without a list of offered items were offered everything.
        name_counts: counts of the names of items in the log.
        names: resolves names to items.
        calls_not_found: counts of called names without an item, except shells and searches.
    """

    catalog: Catalog
    scopes: Mapping[str, tuple[ItemKey, ...]]
    names: NameResolver
    assume_full: bool
    redactor: Redactor | None
    findings: LogFindings
    queries: list[DatasetQuery] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    exposures: list[Exposure] = field(default_factory=list)
    name_counts: Counter[str] = field(default_factory=Counter)
    calls_not_found: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._position = {item.key: i for i, item in enumerate(self.catalog)}
        self._scope = cache(self._make_scope)
        self._item_lists: dict[tuple[str, ...], tuple[ItemKey, ...]] = {}
        self._text: Callable[[str], str] = str if self.redactor is None else lru_cache(_CACHED)(self.redactor.text)
        self._messages = Interner()
        self._ids: set[str] = set()

    def resolved_names(self) -> list[Resolved]:
        """The names of the log, with their items."""
        return [resolved for resolved in self.names.resolved_names() if self.name_counts[resolved.name]]

    def add_conversations(self, groups: Sequence[Sequence[Turn]], progress: ProgressListener) -> None:
        """Add the queries of conversations; the redactor learns all users before it redacts texts.

        A conversation of several turns without a name is named after its first record.
        """
        records = (record for turns in groups for turn in turns for record in turn.records)
        users = dict.fromkeys(record.user for record in records if record.user)
        if self.redactor is not None:
            for user in users:
                self.redactor.learn(user, "user")
        total = sum(len(turns) for turns in groups)
        for turns in groups:
            first = turns[0].records[0]
            if (name := first.conversation) is not None:  # without characters that ids cannot have
                text = name if _ID.fullmatch(name) and name not in users else self._text(name)
                name = re.sub(r"[\s<>]+", "_", writable(text)).strip("_") or "_"
            elif len(turns) > 1:
                name = f"line-{first.position}"
            for turn in turns:
                self._add_turn(turn, name)
            progress("labelling turns", self.findings.counts["turns"], total)
        self.queries = _in_groups(self.queries)

    def dataset(self, name: str, about: Mapping[str, Any]) -> Dataset:
        """The dataset, with the scopes that its queries use."""
        return Dataset(
            name=name,
            version="1",
            catalog=self.catalog,
            queries=tuple(self.queries),
            labels=tuple(self.labels),
            scopes={scope: keys for scope, keys in self.scopes.items() if scope in {q.scope for q in self.queries}},
            about=about,
        )

    def _add_turn(self, turn: Turn, conversation: str | None) -> None:
        counts = self.findings.counts
        counts["turns"] += 1
        first = turn.records[0]
        available = self._available(turn)
        scope = self._scope(available)
        offered, full = self._exposure(turn, scope)
        offered_keys = frozenset(offered)
        turn.calls = tuple(self._checked_call(call, offered_keys) for call in turn.calls)
        turn_signals = signals(turn, lambda name: self.names.resolve(name).key is not None)
        counts.update(f"signal_{name}" for name in turn_signals)
        called, required, doubtful = self._read_calls(turn, scope, offered)
        nothing = any(record.needs for record in turn.records) and not called
        counts["calls_unread"] += max(record.unread for record in turn.records)
        doubtful = doubtful or any(record.doubtful or record.unread for record in turn.records)
        doubtful = doubtful or reuses_ids(turn.calls) or not turn.text.strip()
        complete = full and scope.tools_only and not turn_signals and not doubtful
        counts["full_but_doubtful"] += full and bool(called) and scope.tools_only and not complete
        counts["full_but_not_all_tools"] += full and bool(called) and not scope.tools_only
        state = "nothing" if nothing else "unlabelled" if not called else "complete" if complete else "partly"
        counts[f"queries_{state}"] += 1
        counts["labels_full" if full else "labels_partial"] += len(called)
        counts["text_empty"] += not turn.text.strip()
        query_id = self._query_id(turn, conversation)
        query = DatasetQuery(
            request=Request(
                id=query_id,
                text=self._text(turn.text),
                history=self._messages.messages(tuple(ChatTurn(m.role, self._text(m.content)) for m in turn.history)),
                session=self._session(turn),
                explicit=self._keys(first.explicit),
                available=available,
                tool_results=tuple((self._text(tool), self._text(text)) for tool, text in first.tool_results),
                user=self._identifier(first.user, "user"),
                workspace=self._identifier(first.workspace, "workspace"),
                conversation=conversation,
                turn=turn.number,
                time=None if turn.time is None else datetime.fromtimestamp(turn.time, UTC).isoformat(),
            ),
            split="",  # of its group, which is known after all queries
            group=conversation,
            tags=("full-exposure" if full else "partial-exposure", *turn_signals),
            scope=first.scope if first.scope in self.scopes else None,
            needs_nothing=nothing,
            partly_labelled=state == "partly",
        )
        first.tool_results = ()  # the query has them now
        self.queries.append(query)
        self.labels += [Label(query_id, key, Grade.REQUIRED, source=SOURCE) for key in called]
        self.exposures.append(
            Exposure(query=query_id, offered=offered, called=called, full=full, signals=turn_signals, wanted=required)
        )

    # ------------------------------------------------------------------------------------------ offers

    def _exposure(self, turn: Turn, scope: _Scope) -> tuple[tuple[ItemKey, ...], bool]:
        """The items offered in any call of the turn, in the order of the catalog, and whether exposure was full.

        It is full if each model call that could call tools was offered everything. A model call without a list could
        call tools if it called some. If no model call has a list, `assume_full` decides.
        """
        counts = self.findings.counts
        offers = [record.offered for record in turn.records]
        offers += [nested.offered for record in turn.records for nested in record.nested]
        lists = dict.fromkeys(names for names in offers if names is not None)
        complete = {names: scope.searchable <= set(self._items(names)) for names in lists}
        everything = any(record.exposure == "full" for record in turn.records)
        is_stated = bool(lists) or everything
        if not is_stated:
            everything = self.assume_full
            counts["turns_assumed_full" if everything else "turns_without_offered"] += 1
        self.name_counts.update(chain.from_iterable(lists))
        keys = self._items(tuple(name for names in lists for name in names))
        keys = self._ordered(frozenset(keys) | scope.searchable) if everything else keys

        def had_all(offer: Record) -> bool:
            if offer.offered is None:
                return not offer.calls if is_stated else self.assume_full
            return complete[offer.offered] or (not offer.offered and any(complete.values()))

        full = (everything or is_stated) and all(
            record.exposure != "partial"
            and (record.exposure == "full" or had_all(record))
            and all(had_all(nested) for nested in record.nested)
            for record in turn.records
        )
        full = full and self._scope_is_known(turn, scope)
        counts["turns_full" if full else "turns_partial"] += 1
        return keys, full

    def _scope_is_known(self, turn: Turn, scope: _Scope) -> bool:
        """Whether all available items are known, and some of them are searchable."""
        first = turn.records[0]
        is_same = all((r.available, r.scope) in ((None, None), (first.available, first.scope)) for r in turn.records)
        is_known = first.scope is None or first.scope in self.scopes
        missing = [name for name in first.available or () if self.names.resolve(name).key is None]
        self.findings.counts["available_unknown"] += bool(missing)
        return is_same and is_known and not missing and bool(scope.searchable)

    def _checked_call(self, call: Call, offered: frozenset[ItemKey]) -> Call:
        """A call with a checked status: `unknown tool` in the result of an offered tool is an error."""
        return (
            replace(call, status="error")
            if call.guessed and call.status == "unknown_tool" and self._resolve(call.name, offered).key in offered
            else call
        )

    def _resolve(self, name: str, offered: frozenset[ItemKey]) -> Resolved:
        """The item of a called name; of several items the offered one."""
        resolved = self.names.resolve(name)
        offered_keys = [key for key in resolved.candidates if key in offered]
        return replace(resolved, key=offered_keys[0], rule="offered") if len(offered_keys) == 1 else resolved

    def _items(self, names: tuple[str, ...]) -> tuple[ItemKey, ...]:
        """The items of a list of names, without unresolved names; equal lists give one object."""
        if names not in self._item_lists:
            keys = self._ordered(frozenset(self._keys(names)))
            self._item_lists[names] = self._item_lists.setdefault(("", *(key.id for key in keys)), keys)
        return self._item_lists[names]

    def _ordered(self, keys: frozenset[ItemKey]) -> tuple[ItemKey, ...]:
        return tuple(sorted(keys, key=self._position.__getitem__))

    def _keys(self, names: Iterable[str]) -> tuple[ItemKey, ...]:
        return tuple(dict.fromkeys(key for key in (self.names.resolve(name).key for name in names) if key is not None))

    def _available(self, turn: Turn) -> tuple[ItemKey, ...] | None:
        """The items available to the request: a scope, a list, or None for all."""
        scope, names = turn.records[0].scope, turn.records[0].available
        if scope is not None and scope in self.scopes:
            return self.scopes[scope]
        self.findings.counts["scopes_unknown"] += scope is not None
        self.name_counts.update(names or ())
        return None if names is None else self._items(names)

    def _make_scope(self, available: tuple[ItemKey, ...] | None) -> _Scope:
        allowed = self._position.keys() if available is None else frozenset(available)
        items = [item for item in self.catalog if item.enabled and item.key in allowed]
        searchable = [item for item in items if is_searchable(item)]
        return _Scope(
            searchable=frozenset(item.key for item in searchable),
            tools_only=all(item.type == "tool" for item in searchable),
            reachable=frozenset(item.key for item in items if item.include != "manual"),
        )

    # ------------------------------------------------------------------------------------------ calls

    def _read_calls(
        self, turn: Turn, scope: _Scope, offered: tuple[ItemKey, ...]
    ) -> tuple[tuple[ItemKey, ...], tuple[ItemKey, ...], bool]:
        """The items called successfully, those called without success, and whether more may be required."""
        counts = self.findings.counts
        offered_keys = frozenset(offered)
        session = frozenset(self._keys(name for name, _ in turn.records[0].session or ()))
        outcomes: dict[str, dict[ItemKey, None]] = {status: {} for status in STATUSES}
        doubtful = False
        for call in turn.calls:
            resolved = self._resolve(call.name, offered_keys)
            key, is_tool = resolved.key, call.status != "unknown_tool"
            self.name_counts[call.name] += 1
            counts[f"calls_{call.status}"] += 1
            if key is None and is_tool:
                counts["calls_ambiguous" if resolved.rule == AMBIGUOUS else "calls_outside_catalog"] += 1
                self.calls_not_found.update([] if is_shell(call.name) or is_search(call.name) else [call.name])
                doubtful = True
            elif is_tool and key is not None and not self._has(key, turn, scope.reachable | session):
                counts["calls_not_available"] += 1
                doubtful = True
            elif key is not None:
                counts["calls_not_offered"] += call.status == "ok" and bool(offered_keys) and key not in offered_keys
                outcomes[call.status][key] = None
        called = outcomes["ok"]
        doubtful = doubtful or not outcomes["error"].keys() <= called.keys()
        return tuple(called), tuple(key for key in outcomes["unknown_tool"] if key not in called), doubtful

    def _has(self, key: ItemKey, turn: Turn, keys: frozenset[ItemKey]) -> bool:
        """Whether a turn can have an item: one of `keys`, and created before it."""
        created = self.catalog[self._position[key]].created
        return key in keys and (None in (created, turn.time) or instant(str(created)) <= (turn.time or 0.0) * 1e6)

    def _session(self, turn: Turn) -> tuple[SessionItem, ...] | None:
        if (session := turn.records[0].session) is None:
            return None
        items: dict[ItemKey, SessionItem] = {}
        for name, mode in session:
            self.name_counts[name] += 1
            if (key := self.names.resolve(name).key) is not None and self.catalog[self._position[key]].enabled:
                items.setdefault(key, SessionItem(key, mode))
            else:
                self.findings.counts["session_not_available"] += 1
        return tuple(items.values())

    # ------------------------------------------------------------------------------------------ texts and ids

    def _identifier(self, value: str | None, kind: str) -> str | None:
        return self.redactor.identifier(value, kind) if value and self.redactor is not None else value

    def _query_id(self, turn: Turn, conversation: str | None) -> str:
        """A unique id: conversation and turn, or the position in the log."""
        base = f"line-{turn.records[0].position}" if conversation is None else f"{conversation}-{turn.number}"
        choices = chain([base], (f"{base}.{number}" for number in number_from(2)))
        query_id = next(choice for choice in choices if choice not in self._ids)
        self._ids.add(query_id)
        return query_id


def _in_groups(queries: Sequence[DatasetQuery]) -> list[DatasetQuery]:
    """Queries with group and split: those of a conversation, and of conversations that share a text, are a group."""
    grouped = list(queries)
    for rows in connected_rows(map(_group_keys, queries)):
        first = queries[rows[0]]
        group = first.group or (first.id if len(rows) > 1 else None)
        for row in rows:
            grouped[row] = replace(queries[row], group=group, split=split_of(group or first.id))
    return grouped


def _group_keys(query: DatasetQuery) -> list[tuple[str, str]]:
    """What a query shares with others of its group: its conversation, and its text whatever the whitespace and case.

    The text of a reply of one or two words (`yes`, `go on`) does not count: it is of its conversation alone, and would
    connect nearly all conversations of a log.
    """
    keys = [] if query.group is None else [("conversation", query.group)]
    words = query.request.text.casefold().split()
    is_short = len(words) <= _REPLY and len("".join(words)) <= _REPLY_LENGTH
    is_reply = is_short and bool(query.request.turn or query.request.history)
    return keys if is_reply or not words else [*keys, ("text", " ".join(words))]


def writable(text: str) -> str:
    """A text for UTF-8: lone surrogates become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def is_shell(name: str) -> bool:
    """Whether a tool runs commands, by its name with or without a server."""
    return _is_one_of(name, SHELLS)


def is_search(name: str) -> bool:
    """Whether a tool searches for tools, by its name."""
    return _is_one_of(name, SEARCHES)


def signals(turn: Turn, has_item: Callable[[str], bool]) -> tuple[str, ...]:
    """The signals of a turn, in the order of `SIGNALS`.

    Args:
        turn: the turn with its calls.
        has_item: whether the catalog has a tool with this name; a shell in the catalog is no signal.
    """
    present = {
        "unknown-tool": any(call.status == "unknown_tool" for call in turn.calls),
        "searched-again": sum(is_search(call.name) for call in turn.calls) > 1,
        "shell-instead": any(is_shell(call.name) and not has_item(call.name) for call in turn.calls),
        "asked-again": turn.asked_again,
    }
    return tuple(name for name in SIGNALS if present[name])


def _is_one_of(name: str, names: tuple[str, ...]) -> bool:
    cleaned = _VERSION.sub("", _CLEAN.sub("_", name.casefold()).strip("_"))
    return any(cleaned == name or cleaned.endswith(f"_{name}") for name in names if len(name) > 3 or cleaned == name)


SERVERS = ("mcpServerName", "server_name", "serverName", "server", "namespace", "providerIdentifier")
"""Fields with the server of a tool."""
_ARGUMENTS = {
    "skill": ("skill", "skill_name", "skillName", "name", "command"),
    "read": ("file_path", "filePath", "path", "absolute_path", "target_file", "filename", "paths", "files"),
    "shell": ("command", "cmd", "script", "code"),
}
"""Fields of the arguments of a call that have the skill, the file or the command."""
_USES = {
    **dict.fromkeys(("skill", "activateskill", "useskill", "loadskill", "slashcommand"), "skill"),
    **dict.fromkeys(("read", "readfile", "readfiles", "readmanyfiles", "readtextfile", "view", "viewfile"), "read"),
    **dict.fromkeys(("openfile", "fsread", "strreplaceeditor", "strreplacebasededittool"), "read"),
    **dict.fromkeys(
        ("localshellcall", "execcommand", "shellcommand", "unifiedexec", "runshellcommand", "runinterminal"), "shell"
    ),
}
"""Tools of agents that load skills, read files, or run commands, which may read files, too."""
_READERS = ("cat", "head", "tail", "less", "more", "bat", "nl", "sed", "awk", "type", "get-content", "gc")
_SHELL_WORDS = ("bash", "sh", "zsh", "-c", "-lc", "sudo", "pwsh", "-Command")
_STEPS = re.compile(r"&&|\|\|?|;|\n")  # between the commands of a script
_LIBRARIES = {"node_modules", "site-packages", "third_party", "vendor"}  # folders with files of other projects
_WITH_SERVER = re.compile(r"__|[./:]|^mcp[_-]")
_SERVER_TWICE = re.compile(r"^(.+?)__(?:mcp[-_]+)?\1[-_./:]+", re.IGNORECASE)  # where a name repeats its server


class SessionNames:
    """Names the items that a session used: tools, skills, and files by the ends of their paths."""

    def __init__(self, catalog: Catalog, resolver: NameResolver) -> None:
        self._resolver = resolver
        skills = [(item, _path_parts(str(item.metadata.get("path", "")))) for item in catalog if item.type == "skill"]
        self._skills = group_pairs(  # a second skill of a name has its path for a name
            ((parts[-2] if item.name.endswith("/SKILL.md") and len(parts) > 1 else item.name).casefold(), (item, parts))
            for item, parts in skills
        )
        files = [item for item in catalog if item.type not in ("tool", "message", "memory")]
        named = [
            (str(item.metadata.get("folder") or ""), str(item.metadata.get("path", item.name)), item) for item in files
        ]
        paths = ((_path_parts(path), bool(folder) or item.type == "skill", item) for folder, path, item in named)
        self._files = group_pairs(
            (parts[-1].casefold(), (parts, item.id))
            for parts, is_inner, item in (
                *paths,
                *((_path_parts(f"{folder}/{path}"), False, item) for folder, path, item in named if folder),
            )
            if len(parts) > is_inner  # a file SKILL.md alone may be of any skill, a file of a folder of any folder
        )

    def skill(self, name: str) -> str:
        """The id of a skill, also with the name of its plugin before a colon; else its name, if several have it."""
        plain = name.strip(" /").casefold()
        plugin, _, last = plain.rpartition(":")
        skills = self._skills.get(plain) or self._skills.get(last, [])
        of_plugin = [skill for skill in skills if plugin in map(str.casefold, skill[1])]
        skills = of_plugin if len(skills) > 1 and of_plugin else skills
        if len(skills) > 1:
            return f"{name.strip(' /')} ({len(skills)} skills)"
        return skills[0][0].id if skills else ItemKey("skill", None, name.strip(" /") or "?").id

    def file(self, path: str, folder: str) -> str:
        """The id of a file that was read; empty if there is none, or if there are several.

        The path of the item is the end of the path that was read; what is before it is the working folder or a folder
        above it, if that is known. Files of other projects, and of libraries in the project, are none of the catalog.

        Args:
            path: the path that was read.
            folder: the working folder; empty if it is unknown.
        """
        parts, above = _path_parts(path), _path_parts(folder)
        is_relative = not (path.startswith(("/", "\\", "~", "file:")) or path[1:2] == ":")
        absolute = _path_parts(normpath("/".join(above + parts if is_relative else parts)))
        matches = [
            (len(end), item_id)
            for end, item_id in (self._files.get(parts[-1].casefold(), ()) if parts else ())
            if absolute[-len(end) :] == end
            and not _LIBRARIES & {*absolute[: -len(end)]} - {*above}
            and (not above or absolute[: -len(end)] == above[: len(absolute) - len(end)])
        ]
        longest = {item_id for length, item_id in matches if length == max(matches)[0]}
        if not longest and len(parts) > 1 and parts[-1] == "SKILL.md":
            return self.skill(parts[-2])
        return longest.pop() if len(longest) == 1 else ""

    def needed(self, name: str, arguments: Any, folder: str) -> list[str]:
        """The names of the items that a call used; empty for a tool of the agent that used none.

        Args:
            name: the name of the tool; empty if it is in a field of any name among the arguments.
            arguments: its input.
            folder: the working folder.
        """
        values = arguments if isinstance(arguments, dict) else {"command": arguments}
        if not name:
            return [value for value in values.values() if isinstance(value, str) and self._is_known(value)][:1]
        server, tool = get(values, *SERVERS), get(values, "tool_name", "toolName")
        name = f"{server}__{tool}" if server and tool else name  # a tool that calls tools
        plain = name if self._is_known(name) else _SERVER_TWICE.sub(r"\1__", name)
        if self.is_item(plain):
            return [plain]
        use = use_of(name)
        value = get(values, *_ARGUMENTS[use]) if use else None
        if use == "skill":
            return [self.skill(value.strip(" /").split(" ")[0])] if isinstance(value, str) else []
        if use == "read" and values.get("command", "view") != "view":  # of an editor
            return []
        paths = _printed_files(value, values) if use == "shell" else value if isinstance(value, list) else [value]
        items = [self.file(path.strip(), folder) for path in paths if isinstance(path, str)]
        return list(dict.fromkeys(filter(None, items)))

    def is_item(self, name: str) -> bool:
        """Whether a called name may be of an item, and not of a tool that is part of the agent."""
        return self._is_known(name) or _WITH_SERVER.search(name) is not None

    def _is_known(self, name: str) -> bool:
        return self._resolver.resolve(name).rule != UNKNOWN

    def offered(self, tools: Sequence[Any], skills: Any) -> tuple[str, ...]:
        """The names in lists of tools and skills, without those that are part of the agent."""
        definitions = [get(entry, "function") or entry if isinstance(entry, dict) else entry for entry in tools]
        names = [entry.get("name") if isinstance(entry, dict) else entry for entry in definitions]
        ids = [self.skill(name) for name in skills or () if isinstance(name, str)]
        return (
            *(name for name in names if isinstance(name, str) and name and self.is_item(name)),
            *(item for item in ids if self._resolver.resolve(item).key is not None),
        )


def use_of(name: str) -> str:
    """What a tool of an agent does: `skill`, `read` or `shell`; empty for others."""
    return _USES.get(re.sub(r"[\W_]", "", name.casefold())) or ("shell" if is_shell(name) else "")


def _path_parts(path: str) -> tuple[str, ...]:
    """The parts of a path of any system, without a root and dots."""
    plain = re.sub(r"^(?:file://)?(?:/?[A-Za-z]:)?", "", path.strip().replace("\\", "/"))
    return tuple(part for part in PurePosixPath(plain).parts if part not in ("/", "//", ".", "~"))


def _printed_files(command: Any, values: Mapping[str, Any]) -> list[str]:
    """The files that a command of a shell prints, such as `cat a.md` or `cd docs && sed -n 1,80p a.md`."""
    base = str(get(values, "workdir", "cwd") or "")
    paths: list[str] = []
    for step in _STEPS.split(" ".join(map(str, command)) if isinstance(command, list) else str(command)):
        words = [word for word in re.split(r"[\s'\"]+", step) if word and word not in _SHELL_WORDS] or [""]
        targets = [word if word[:1] in "/~" or not base else f"{base}/{word}" for word in words[1:] if word[:1] != "-"]
        if words[0] == "cd" and targets:
            base = targets[0]
        elif words[0].casefold() in _READERS and not any(word[:2] == "-i" or ">" in word for word in words):
            paths += targets
    return paths
