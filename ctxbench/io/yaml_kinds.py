"""Which kind of ctxbench's files in YAML a file is, so that one of another kind is named as what it is."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ctxbench.core.errors import Fault, InputError

_PRESET = "an agent file takes a preset of it as `selector: {form}`, an experiment as `{form}`; its path from there"

# By kind: the keys that tell it, and what takes such a file.
_KINDS = {
    "an agent file": ({"sources"}, "`ctxbench select TEXT --agent {path}`"),
    "a gate file": ({"gate"}, "`ctxbench check {path}`"),
    "an experiment": ({"datasets", "selectors"}, "`ctxbench run {path}`"),
    "a policy file": ({"policies"}, "`ctxbench tune DATASET --policy {path}`"),
    "a presets file": ({"format", "presets"}, _PRESET),
    "a selector": ({"pipeline"}, "`ctxbench select TEXT --catalog CATALOG --selector {path}`"),
}


def refuse_other_kind(data: Any, path: Path, *, expected: str, keys_allowed: Collection[str] = ()) -> None:
    """Refuse a file of another kind, rather than each of its keys; nothing to do where all keys are known.

    Args:
        data: the file's content.
        path: the file.
        wanted: the kind that is read: `an experiment`.
        known: the keys that such a file may have.

    Raises:
        InputError: it is one of the other kinds, and of one only.
    """
    if not isinstance(data, Mapping) or set(data) <= set(keys_allowed):
        return
    kinds = [kind for kind, (marks, _) in _KINDS.items() if marks <= set(data)]
    if "a gate file" in kinds and "an experiment" in kinds:
        kinds.remove("an experiment")  # a gate file is one with more in it
    if len(kinds) != 1 or kinds == [expected]:
        return
    how = _KINDS[kinds[0]][1].format(path=shlex.quote(str(path)), form=_preset_form(path, data))
    raise InputError([Fault(f"{path} is {kinds[0]}, not {expected}: {how}")])


def _preset_form(path: Path, data: Mapping[str, Any]) -> str:
    """How agent files and experiments name the first preset of a presets file."""
    presets = data.get("presets")
    return f"{{presets: {path}, preset: {next(iter(presets), 'NAME') if isinstance(presets, Mapping) else 'NAME'}}}"
