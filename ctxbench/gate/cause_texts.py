"""Says a cause in words: what its kind means to a reader, and what else may have done it."""

from __future__ import annotations

from ctxbench.gate.model import Cause, CauseKind

_KINDS = {CauseKind.CROWDED: "pushed out by other items' higher scores", CauseKind.FREED: "moved up"}


def told_cause(cause: Cause, said: str) -> str:
    """A cause in words: what its kind means to a reader, and what is said of it, which may be empty."""
    if cause.detail.startswith(f"{cause.kind} "):  # `model minilm -> e5`
        return _with_others(said, cause)
    if cause.kind is CauseKind.FREED and said:
        return _with_others(f"moved up because {said}", cause)
    kind = str(_KINDS.get(cause.kind, cause.kind))
    return _with_others(f"{kind}: {said}" if said else kind, cause)


def whole_detail(cause: Cause) -> str:
    """The detail of a cause with what else may have done it; empty where there is neither."""
    return _with_others(cause.detail, cause)


def _with_others(said: str, cause: Cause) -> str:
    told = f"either {said}, or {cause.either}" if cause.either else said
    return f"{told}; it may also be that {cause.also}" if cause.also else told
