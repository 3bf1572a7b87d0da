"""Outputs of steps, each made once and kept under everything that it depends on."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, MutableMapping
from typing import Any, TypeAlias, TypeVar, cast

from ctxbench.core.candidates import Candidates
from ctxbench.core.query import Query
from ctxbench.core.requests import Batch
from ctxbench.core.stages import Analyses, Merge, PerType, Resources, Step

T = TypeVar("T", Query, Candidates)

Listener: TypeAlias = Callable[[str, str, float], None]
"""Told the kind of a step that ran (`analyse`, `retrieve`, `rank` ...), its name, and its seconds."""

_LACKING = ("late", "failed")  # kinds of notes: the next time, the answer may be another
_COMBINED: dict[type, tuple[str, str]] = {
    Analyses: ("analyse", "analyses"),
    Merge: ("retrieve", "merge"),
    PerType: ("refine", "by_domain"),
}
_NOTHING = object()


class StepOutputs:
    """Runs the steps of one pipeline over one batch, in order, and takes from a memo what is there already.

    Args:
        batch, resources: what the steps are called with.
        memo: outputs by key; None = nothing is kept, and no key is made: hashing a large catalog takes longer than a
            search. It may drop what it holds at any time.
        live: what was late or failed is left out of answers, so from such an output on nothing is kept.
        listener: see `Listener`.
    """

    def __init__(
        self,
        batch: Batch,
        resources: Resources,
        memo: MutableMapping[str, Any] | None,
        *,
        live: bool = False,
        listener: Listener | None = None,
    ) -> None:
        self._resources = resources
        self._memo = memo
        self._live = live
        self._listener = listener
        self._identities: dict[str, str] = {}
        self._key = "" if memo is None else batch.key

    def __call__(self, step: Step | Analyses | Merge | PerType, make: Callable[[], T]) -> T:
        """The output of the next step: kept from an earlier run, or made now."""
        if self._memo is None:
            return self._run(step, make)
        for use in step.uses:
            self._identities[use] = self._resources.identity(use)
        parts = [self._key, step.describe(), self._identities]
        self._key = hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()
        stored = self._memo.get(self._key, _NOTHING)
        if stored is not _NOTHING:
            return cast("T", stored)
        output = self._run(step, make)
        if self._live and any(note.kind in _LACKING for note in output.notes):
            self._memo = None
        else:
            self._memo[self._key] = output
        return output

    def _run(self, step: Step | Analyses | Merge | PerType, make: Callable[[], T]) -> T:
        if self._listener is None:
            return make()
        begin = time.perf_counter()
        output = make()
        kind, name = _COMBINED.get(type(step)) or (step.kind, step.name)  # type: ignore[union-attr]
        self._listener(kind, name, time.perf_counter() - begin)
        return output
