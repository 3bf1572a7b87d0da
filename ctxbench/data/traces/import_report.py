"""The report on an import of traces, as data for the card and in words.

The kinds of the catalog's items decide whether an item that was not called is not needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ctxbench.core.items import ITEM_TYPES, Item
from ctxbench.data.datasets.query_labels import unlabelled_words
from ctxbench.data.labelling.query_files import SIGNALS
from ctxbench.data.traces.turn_rows import meant_field
from ctxbench.io.visible import count
from ctxbench.sources.name_resolver import AMBIGUOUS, UNKNOWN

COUNTS: dict[str, tuple[str, ...]] = {
    "read": (
        *("lines", "lines_twice", "lines_unreadable", "spans", "spans_twice", "spans_unreadable"),
        "spans_without_parent",
        *("spans_without_content", "spans_other", "model_calls_of_helpers", "logs_without_span"),
        *("records_without_request", "responses_unread", "responses_missing"),
    ),
    "turns": (
        *("turns", "turns_full", "turns_partial", "turns_without_offered", "turns_assumed_full", "text_empty"),
        *("available_unknown", "scopes_unknown", "session_not_available"),
    ),
    "queries": (
        *("queries_complete", "queries_partly", "queries_unlabelled", "queries_nothing"),
        *("full_but_doubtful", "full_but_not_all_tools"),
    ),
    "labels": ("labels_full", "labels_partial"),
    "calls": (
        *("calls_ok", "calls_error", "calls_unknown_tool", "calls_twice", "calls_not_offered", "calls_not_available"),
        *("calls_outside_catalog", "calls_ambiguous", "calls_without_request", "calls_of_earlier_turns"),
        "calls_unread",
    ),
    "order": (
        *("conversations", "conversations_cut", "conversations_partly_numbered", "turns_missing"),
        *("turn_numbers_twice", "clock_skew"),
    ),
    "signals": tuple(f"signal_{name}" for name in SIGNALS),
}
"""Every count by the part of the card that it stands in; `datasets/traces.md` says what each counts."""

_PLURALS = {"memory": "memories"}
_SHOWN = 20  # names that the card lists
_NAMED = 5  # names that a line of the report lists


@dataclass(frozen=True, kw_only=True)
class TraceReport:
    """Counts of an import of traces.

    Attributes:
        counts: of `COUNTS`.
        rules: how many names were resolved by which rule.
        unknown, ambiguous: names without an item by how often the log has them, most frequent first.
        skew: the furthest that a time lies before the one it should follow, in seconds.
        ignored: fields that nothing reads.
        redaction: by kind, how often something was replaced and how many secrets that were; None = it was off.
        examples: some of what could not be read, with file and line.
    """

    counts: Counter[str]
    rules: Mapping[str, int]
    unknown: Mapping[str, int]
    ambiguous: Mapping[str, int]
    skew: float
    ignored: Mapping[str, int]
    redaction: Mapping[str, Mapping[str, int]] | None
    examples: tuple[str, ...] = ()

    @property
    def is_labelled(self) -> bool:
        """Whether any query has a label, or needs nothing."""
        return any(self.counts[name] for name in ("labels_full", "labels_partial", "queries_nothing"))

    def as_dict(self) -> dict[str, Any]:
        """The report as data, for the notes of the card."""
        out: dict[str, Any] = {part: {name: self.counts[name] for name in names} for part, names in COUNTS.items()}
        labels = out["labels"]
        everything = sum(labels.values())
        labels["share_full"] = round(labels["labels_full"] / everything, 4) if everything else None
        out["order"]["clock_skew_seconds"] = round(self.skew, 3)
        out["names"] = {
            "by_rule": dict(self.rules),
            UNKNOWN: dict(list(self.unknown.items())[:_SHOWN]),
            AMBIGUOUS: dict(list(self.ambiguous.items())[:_SHOWN]),
            "unknown_in_all": len(self.unknown),
            "ambiguous_in_all": len(self.ambiguous),
        }
        out["fields_not_read"] = dict(self.ignored)
        out["redaction"] = "off" if self.redaction is None else {k: dict(v) for k, v in self.redaction.items()}
        return out

    def labelling(self) -> str:
        """The card's `labelling`: the origin of the labels, and the queries that metrics use."""
        n = self.counts
        labels = n["labels_full"] + n["labels_partial"]
        left = n["queries_partly"] + n["queries_unlabelled"]
        return (
            f"From logs of what an agent called: {labels:,} labels, each an item that was called without an error, "
            f"{_share(n['labels_full'], labels)} of them from turns in which everything was offered. "
            f"{n['queries_complete']:,} of {n['turns']:,} queries are labelled wholly: everything was offered, and "
            f"nothing hints at a miss. {unlabelled_words(left, n['queries_partly'])}: of those in part, more may be "
            f"needed than was called. {n['queries_nothing']:,} need nothing, as the log says. Nobody has looked at "
            "the labels."
        )

    def lines(self) -> list[str]:
        """The report in words, one line a count; counts of 0 are left out."""
        n = self.counts
        labels = n["labels_full"] + n["labels_partial"]
        left = n["queries_partly"] + n["queries_unlabelled"]
        shares = [
            f"{n['queries_complete']:,} labelled wholly ({_share(n['queries_complete'], n['turns'])})",
            f"{unlabelled_words(left, n['queries_partly'])} ({_share(left, n['turns'])})",
            *([f"{n['queries_nothing']:,} need nothing"] if n["queries_nothing"] else []),
        ]
        full, partial = _share(n["labels_full"], labels), _share(n["labels_partial"], labels)
        misses = [f"{n[f'signal_{name}']:,} {name}" for name in SIGNALS if n[f"signal_{name}"]]
        queries = count(n["turns"], "query", "queries")
        origins = f"{count(labels, 'label')}: {full} from turns that were offered everything, {partial} from others"
        out = [
            *([] if self.is_labelled else [f"0 labels: {count(n['turns'], 'request')} to label"]),
            f"{queries} of {count(n['conversations'], 'conversation')}: {', '.join(shares)}",
            *([origins] if self.is_labelled else []),
            *([f"likely misses: {', '.join(misses)}"] if misses else []),
            *(_fill(text, n[name], self.skew) for name, text in _SENTENCES.items() if n[name]),
        ]
        for noun, names in (
            ("not in the catalog (renamed since? --renames FILE)", self.unknown),
            ("ambiguous", self.ambiguous),
        ):
            if names:
                listed = ", ".join(f"{name} ({times:,})" for name, times in list(names.items())[:_NAMED])
                ending = f", and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
                out.append(f"names {noun}: {listed}{ending}")
        ending = f", and {len(self.ignored) - _NAMED:,} more" if len(self.ignored) > _NAMED else ""
        suggestions = "".join(map(meant_field, self.ignored))
        read = f"fields that nothing reads: {', '.join(list(self.ignored)[:_NAMED])}{ending}{suggestions}"
        out += [read] if self.ignored else []
        out += [f"  {example}" for example in self.examples]
        if self.redaction is None:
            out.append("redaction was off: the texts are as the log has them")
        else:
            kinds = ", ".join(f"{c['replaced']:,} {kind}" for kind, c in self.redaction.items())
            out.append(f"redacted: {kinds or 'nothing found'}; read a sample before you give the texts away")
        return out


def _fill(sentence: str, n: int, skew: float) -> str:
    """A sentence with the number of its subjects; with 1, the number follows the sentence."""
    if n == 1 and sentence.startswith("{n:,} "):
        return f"{sentence.removeprefix('{n:,} ').format(skew=skew)}: 1"
    return sentence.format(n=n, skew=skew)


_SENTENCES = {
    "turns_without_offered": "{n:,} turns do not say what was offered, so they count as offered a part of the items",
    "turns_assumed_full": "{n:,} turns do not say what was offered; as asked, they count as offered everything",
    "full_but_doubtful": "{n:,} turns that were offered everything are labelled partly: a call failed or is not in the "
    "catalog, or something hints at a miss",
    "full_but_not_all_tools": "{n:,} turns that were offered everything are labelled partly: they may get rules or "
    "references, and no log shows when those are needed (a catalog of tools alone measures tools alone)",
    "lines_unreadable": "{n:,} lines cannot be read and are left out",
    "lines_twice": "{n:,} lines stand there twice",
    "spans_unreadable": "{n:,} spans cannot be read and are left out",
    "spans_twice": "{n:,} spans stand there twice",
    "calls_twice": "{n:,} calls are logged twice",
    "spans_without_parent": "{n:,} spans name a parent that is not in the log",
    "spans_without_content": "{n:,} model calls have no messages; is recording of content switched on?",
    "logs_without_span": "{n:,} log records belong to no span of the log",
    "records_without_request": "{n:,} lines or model calls have no user's message before them and are left out",
    "responses_unread": "{n:,} requests have a response that cannot be read: what it called is not known, and their "
    "queries are not labelled wholly",
    "responses_missing": "{n:,} requests have no response beside them: what it called is only known where a later line "
    "holds it",
    "calls_without_request": "{n:,} calls belong to no user's message and are left out",
    "calls_of_earlier_turns": "{n:,} calls stand before the user's last message of a line, in no turn that the log has "
    "as a line of its own; they are left out",
    "calls_unread": "calls in no form that is known, or without a name: {n:,}; their queries are not labelled wholly",
    "model_calls_of_helpers": "{n:,} model calls are of helpers: what they say is no query",
    "spans_other": "{n:,} spans are no model call, tool or agent, and only link others",
    "available_unknown": "{n:,} turns say that the request may get items that the catalog does not have; they "
    "count as offered a part of the items",
    "calls_error": "{n:,} calls failed and are no labels",
    "calls_unknown_tool": "{n:,} calls were of unknown tools",
    "calls_outside_catalog": "{n:,} calls were of tools that the catalog does not have",
    "calls_ambiguous": "{n:,} calls have names that several items may mean",
    "calls_not_offered": "{n:,} calls were of items that the log does not list as offered",
    "calls_not_available": "{n:,} calls were of items that the query may not get, or that are not enabled or manual",
    "scopes_unknown": "{n:,} turns name a scope that the catalog's dataset does not have",
    "session_not_available": "{n:,} session items are not in the catalog or not enabled",
    "conversations_cut": "{n:,} conversations begin before the log does",
    "conversations_partly_numbered": "{n:,} conversations have turn numbers only in part, which were not used",
    "turns_missing": "{n:,} turns are missing between others",
    "turn_numbers_twice": "{n:,} turn numbers stand for two messages",
    "clock_skew": "{n:,} times lie before what they should follow, by up to {skew:,.3f} s; order is by turn",
    "text_empty": "{n:,} queries have no text",
}


def _share(part: int, total: int) -> str:
    return f"{part / total:.0%}" if total else "none"


def is_searchable(item: Item) -> bool:
    """Whether a search may offer an item, so that a request without it was not offered everything."""
    return item.enabled and item.include == "agent"


def tools_alone(items: Iterable[Item]) -> bool:
    """Whether all items are tools, so that a log shows when one is needed."""
    return all(item.type == "tool" for item in items)


def kind_lines(catalog: Iterable[Item]) -> list[str]:
    """Explain what the items of a catalog mean for the labels of an import, in one or two sentences."""
    searchable = [item for item in catalog if is_searchable(item)]
    if not searchable:
        text = (
            "What a request did not call counts as unknown, and no request is labelled wholly: the catalog holds "
            "nothing that a search may offer (all is disabled, always there, or added by hand)."
        )
        return [text]
    if tools_alone(searchable):
        text = (
            "What a request did not call counts as not needed where it was offered all that it may get: of what is "
            f"searched, the catalog holds tools alone ({len(searchable):,}), so such a request can be labelled wholly."
        )
        return [text, "Elsewhere it counts as unknown, and the request is labelled partly or not at all."]
    tools = [item for item in searchable if item.type == "tool"]
    by_type = _by_type([item for item in searchable if item.type != "tool"])
    text = (
        f"What a request did not call counts as unknown, not as not needed: the catalog holds {by_type} "
        f"{f'beside {_by_type(tools)}' if tools else 'and no tools'}, and no log shows when what is no tool is needed."
    )
    if not tools:
        return [text]
    return [
        text,
        "Only requests that may get tools alone can be labelled wholly, as all may in a catalog of tools alone.",
    ]


def _by_type(items: Sequence[Item]) -> str:
    """The number of items of each type: `12 tools`, `3 rules and 1 skill`."""
    counts = Counter(item.type for item in items)
    named = [
        f"{n:,} {item_type if n == 1 else _PLURALS.get(item_type, f'{item_type}s')}"
        for item_type in ITEM_TYPES
        if (n := counts[item_type])
    ]
    return f"{', '.join(named[:-1])} and {named[-1]}" if len(named) > 1 else "".join(named)
