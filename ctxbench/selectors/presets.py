"""Presets files: what tuning recommends on a dataset, in YAML, ready for an experiment, an agent or a request."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ctxbench.core.errors import ParameterError
from ctxbench.io.files import write_atomic
from ctxbench.io.yaml_files import dump_yaml
from ctxbench.selectors.definition import Definition
from ctxbench.selectors.definitions import definition, find_definition, is_file
from ctxbench.selectors.tuned_presets import FORMAT, PRESET_KEYS, PresetsFile, TunedPreset, read_with


def read_presets(path: Path) -> PresetsFile:
    """Read a presets file and check every preset in it against its selector as it is now.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: it is no presets file, or of another format; a selector is unknown, faulty or has changed; a value
            is wrong or missing: all faults, with their lines.
    """
    return read_with(_selector, path)


def _selector(selector: str) -> Definition:
    return find_definition(selector)[0] if is_file(selector) else definition(selector)


def write_presets(path: Path, *, tuned: Mapping[str, Any], presets: Mapping[str, TunedPreset], test_split: str) -> None:
    """Write a presets file, whole or not at all. The same arguments give the same bytes.

    Args:
        path: the file.
        tuned: what the presets were tuned on and with, in the order of the file: `dataset` first.
        presets: by name, in order.
        test_split: what the test split was read for, as a sentence; empty = it was not read.

    Raises:
        ParameterError: `tuned` names no dataset, or there is no preset.
        StorageError: the file cannot be written.
    """
    if not isinstance(tuned.get("dataset"), str) or not presets:
        raise ParameterError("a presets file needs the dataset that was tuned on, and a preset")
    definitions = {preset.definition: preset.parameters for preset in presets.values() if preset.selector}
    data = {
        "format": FORMAT,
        "tuned": tuned,
        "test_split": test_split,
        "definitions": definitions,
        "presets": {name: _block(preset, path) for name, preset in presets.items()},
    }
    if not definitions:
        del data["definitions"]
    head = _head(path, tuned["dataset"], next((name for name, preset in presets.items() if preset.selector), ""))
    write_atomic(path, head + dump_yaml(_plain(data), short=True))


def _head(path: Path, dataset: str, example: str) -> str:
    """Comments that say how the file is used."""
    lines = [f"Presets tuned on {dataset} by `ctxbench tune`, which writes this file anew."]
    if example:
        lines += [
            "In an experiment, with this file's path relative to it:",
            "  selectors:",
            f"    - {{presets: {path.name}, preset: {example}}}",
            "For one request:",
            f"  ctxbench select TEXT --catalog CATALOG --presets {path.name} --preset {example}",
        ]
    return "".join(f"# {line}\n" for line in lines)


def _block(preset: TunedPreset, path: Path) -> dict[str, Any]:
    """A preset as the file has it; what is empty is left out."""
    selector = preset.selector
    if is_file(selector):
        selector = Path(os.path.relpath(selector, path.parent)).as_posix()
    block = {name: getattr(preset, name) for name in PRESET_KEYS} | {"selector": selector}
    return {name: value for name, value in block.items() if value or name == "set"}


def _plain(value: Any) -> Any:
    """Containers and numbers as YAML takes them, each container once; NaN and infinity as null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    value = value.item() if hasattr(value, "item") else value  # numpy's numbers
    return None if isinstance(value, float) and value - value != 0 else value
