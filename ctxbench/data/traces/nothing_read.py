"""Say what logs hold of which no turn can be made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ctxbench.data.traces.records import LogFindings

_NAMED = 5
_EXPECTED = (
    "expected a message of a user's in a line with messages, or in a span of a model call with gen_ai.input.messages "
    "(ai.prompt.messages in the AI SDK's)"
)
_RECORDING = "is recording of content switched on (experimental_telemetry with recordInputs in the AI SDK)?"


def what_was_seen(findings: LogFindings) -> str:
    """What a log without any turn holds, and what was expected, in one sentence."""
    return "; ".join([*_seen(findings), _EXPECTED])


def _seen(findings: LogFindings) -> Iterator[str]:
    n = findings.counts
    if n["spans"]:
        yield f"{n['spans']:,} spans ({_shown(findings.span_names)}) hold no message of a user's"
        if n["spans_other"] == n["spans"]:
            yield "none of them is a model call"
    if n["spans_without_content"]:
        yield f"{n['spans_without_content']:,} of them are model calls without messages: {_RECORDING}"
    if n["records_without_request"]:
        roles = f"roles: {_shown(findings.roles)}" if findings.roles else "no messages at all"
        yield f"{n['records_without_request']:,} lines or model calls hold no message of a user's ({roles})"
    if n["logs_without_span"]:
        yield f"{n['logs_without_span']:,} log records belong to no span"
    if not n["lines"]:
        yield "there is nothing in it"


def _shown(names: Counter[str]) -> str:
    more = f", and {len(names) - _NAMED:,} other names" if len(names) > _NAMED else ""
    return ", ".join(f"{times:,} {name!r}" for name, times in names.most_common(_NAMED)) + more
