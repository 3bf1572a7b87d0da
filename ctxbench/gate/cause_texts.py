"""Phrases causes: what the kind means, and which other causes are possible."""

from __future__ import annotations

from ctxbench.gate.model import Cause, CauseKind

_KINDS = {CauseKind.CROWDED: "pushed out by other items' higher scores", CauseKind.FREED: "moved up"}


def phrase_cause(cause: Cause, text: str) -> str:
    """A cause in words: what its kind means, and a text about it, which may be empty."""
    if cause.detail.startswith(f"{cause.kind} "):  # `model minilm -> e5`
        return _with_others(text, cause)
    if cause.kind is CauseKind.FREED and text:
        return _with_others(f"moved up because {text}", cause)
    kind = str(_KINDS.get(cause.kind, cause.kind))
    return _with_others(f"{kind}: {text}" if text else kind, cause)


def whole_detail(cause: Cause) -> str:
    """The detail of a cause with other possible causes; empty where there is neither."""
    return _with_others(cause.detail, cause)


def _with_others(text: str, cause: Cause) -> str:
    sentence = f"either {text}, or {cause.either}" if cause.either else text
    return f"{sentence}; it may also be that {cause.also}" if cause.also else sentence
