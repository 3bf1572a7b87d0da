"""Messages about logs that give no turn or no label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ctxbench.data.traces.records import LogFindings

_NAMED = 5
_EXPECTED = (
    "expected a message of a user's in a line with messages, or in a span of a model call with gen_ai.input.messages "
    "(ai.prompt.messages in the AI SDK's)"
)
_CALLED = (
    "write the calls as `called`, a list of names, or as one of the forms in datasets/traces.md; or leave them out to "
    "label the requests by hand"
)
_RECORDING = "is recording of content switched on (experimental_telemetry with recordInputs in the AI SDK)?"


def what_was_seen(findings: LogFindings) -> str:
    """The content of a log without any turn, and what was expected, in one sentence."""
    return "; ".join([*_contents(findings), _EXPECTED])


def what_was_not_read(findings: LogFindings, calls_not_found: Counter[str]) -> str:
    """Why logs give no label, and what to do, in one sentence; empty if there is no reason."""
    parts = []
    if findings.unread:
        parts.append(f"fields that hold responses, calls or labels and are not understood: {_listed(findings.unread)}")
    if n_unread := findings.counts["calls_unread"]:
        parts.append(f"calls in messages in no form that is known, or without a name: {n_unread:,}")
    if n_without := findings.counts["calls_without_request"]:
        parts.append(f"calls that belong to no message of a user's: {n_without:,}")
    if calls_not_found:
        parts.append(f"calls whose name is of no item of the catalog, or of several: {_listed(calls_not_found)}")
    return "; ".join([*parts, _CALLED]) if parts else ""


def _contents(findings: LogFindings) -> Iterator[str]:
    n = findings.counts
    if n["spans"]:
        yield f"{n['spans']:,} spans ({_listed_names(findings.span_names)}) hold no message of a user's"
        if n["spans_other"] == n["spans"]:
            yield "none of them is a model call"
    if n["spans_without_content"]:
        yield f"{n['spans_without_content']:,} of them are model calls without messages: {_RECORDING}"
    if n["records_without_request"]:
        roles = f"roles: {_listed_names(findings.roles)}" if findings.roles else "no messages at all"
        yield f"{n['records_without_request']:,} lines or model calls hold no message of a user's ({roles})"
    if n["logs_without_span"]:
        yield f"{n['logs_without_span']:,} log records belong to no span"
    if not n["lines"]:
        yield "there is nothing in it"


def _listed(names: Counter[str]) -> str:
    ending = f", and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(f"{name!r} ({times:,})" for name, times in names.most_common(_NAMED)) + ending


def _listed_names(names: Counter[str]) -> str:
    ending = f", and {len(names) - _NAMED:,} other names" if len(names) > _NAMED else ""
    return ", ".join(f"{times:,} {name!r}" for name, times in names.most_common(_NAMED)) + ending
