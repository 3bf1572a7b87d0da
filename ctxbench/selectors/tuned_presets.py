"""Reads presets files: what a preset holds, and whether its selector has changed since it was tuned.

A preset goes by the selector as it was when it was tuned. It names every parameter that has an effect, so it stays what
it was when a default, a choice's values or a text change; where the parameters or the pipeline themselves have changed,
reading the file is an error that says what did.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from ctxbench.core.errors import Fault, InputError, ParameterError, UnknownNameError, UserError, raise_faults
from ctxbench.core.pipeline import PipelineError
from ctxbench.io.files import read_text
from ctxbench.io.yaml_files import line_of, load_yaml
from ctxbench.io.yaml_form import YamlForm
from ctxbench.io.yaml_kinds import refuse_other_kind
from ctxbench.selectors.definition import Definition
from ctxbench.selectors.parameters import Parameter, Value, needs_text, value_text

T = TypeVar("T")
FORMAT = 1
PRESET_KEYS = ("about", "selector", "definition", "answers", "set", "policy", "tuning", "test")
_KEYS = ("format", "tuned", "test_split", "definitions", "presets")
_ENDINGS = (".yaml", ".yml")
_MARKERS = ("<<<<<<< ", ">>>>>>> ")  # of a merge that stopped

Metrics = Mapping[str, Mapping[str, float | int | None]]
Find: TypeAlias = Callable[[str], Definition]
"""Gives the selector of a name or a path; raises a `UserError` where there is none, or it is faulty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedPreset:
    """A setting that tuning recommends.

    Attributes:
        set: the value of every parameter that has an effect; with `answers`, of the cut to apply to one's own ranking.
        about: one line.
        selector: a shipped selector's name, or the path of a definition (in the file relative to the file); empty with
            `answers`.
        definition: `definition_hash` of the selector when it was tuned; empty with `answers`.
        parameters: `parameter_texts` of it, to show what has changed since.
        answers: the name of the user's answers that were tuned; empty with `selector`.
        policy: what it is the best at, as the policy file says it.
        tuning, test: means on either split, by metric name: `value`, `low`, `high` and `n`; None = there is none.
            `test` is empty where that split was not read.
    """

    set: Mapping[str, Value]
    about: str = ""
    selector: str = ""
    definition: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    answers: str = ""
    policy: Mapping[str, Any] = field(default_factory=dict)
    tuning: Metrics = field(default_factory=dict)
    test: Metrics = field(default_factory=dict)

    def __post_init__(self) -> None:
        if bool(self.selector) == bool(self.answers):
            raise ParameterError("a tuned preset is of a selector or of answers; give exactly one of the two")
        if self.selector and not self.definition:
            raise ParameterError(f"a tuned preset of selector {self.selector} needs its definition's hash")


@dataclass(frozen=True, kw_only=True)
class PresetsFile:
    """The presets that were tuned on one dataset.

    Attributes:
        path: the file.
        tuned: what they were tuned on and with; `dataset` at least.
        presets: by name, in order.
        find: gives their selectors.
        test_split: what the test split was read for, as a sentence; empty = it was not read.
    """

    path: Path
    tuned: Mapping[str, Any]
    presets: Mapping[str, TunedPreset]
    find: Find = field(repr=False, compare=False)
    test_split: str = ""

    def definition(self, name: str) -> Definition:
        """The selector of a preset; its presets are those of this file that are of the same selector.

        Raises:
            UnknownNameError: the file has no such preset.
            ParameterError: it is for answers of an external selector, which cannot be run here.
        """
        if name not in self.presets:
            raise _unknown(name, self.presets, self.path)
        preset = self.presets[name]
        if preset.answers:
            cut = ", ".join(f"{key} {value_text(value)}" for key, value in preset.set.items())
            raise ParameterError(
                f"preset {name!r} of {self.path} was tuned on your own selector's answers {preset.answers!r}, and only "
                f"you can run that; apply the cut in it ({cut}), then name the new answers, or the selector itself, in "
                "place of the preset"
            )
        definition = self.find(preset.selector)
        presets = {key: entry for key, entry in self.presets.items() if entry.selector == preset.selector}
        abouts = {key: entry.about or f"tuned on {self.tuned['dataset']}" for key, entry in presets.items()}
        return replace(definition, presets={key: entry.set for key, entry in presets.items()}, abouts=abouts)


def definition_hash(definition: Definition) -> str:
    """SHA-256 of what the values of a preset mean: the parameters (names, ranges, choices, needs) and the pipeline.

    Defaults, what choices set, presets, texts, and what stands in files that steps read are no part of it.
    """
    parts = {"parameters": parameter_texts(definition), "pipeline": definition.written}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def parameter_texts(definition: Definition) -> dict[str, str]:
    """What each parameter of a selector may be, by name: `1 to 100`, `true or false`, `one of a, b`."""
    return {name: _text(parameter) for name, parameter in definition.parameters.items()}


def _text(parameter: Parameter) -> str:
    if parameter.choices:
        text = f"one of {', '.join(sorted(parameter.choices))}"
    elif isinstance(parameter.default, bool):
        text = "true or false"
    else:
        text = f"{parameter.low!r} to {parameter.high!r}"  # 1.0 may be divided further, 1 may not
    return f"{text}, where {needs_text(parameter.needs)}" if parameter.needs else text


def read_with(find: Find, path: Path, *, preset: str = "") -> PresetsFile:
    """Read a presets file and check the presets in it against their selectors as they are now.

    Args:
        find: gives the selectors.
        path: the file.
        preset: its name; presets of other selectors are left out and not checked. Empty = all are read.

    Raises:
        StorageError: the file is missing or cannot be read.
        UnknownNameError: it has no preset of this name.
        InputError: it is no presets file, or of another format; a selector is unknown, faulty or has changed; a value
            is wrong or missing: all faults, with their lines.
    """
    if marked := [number for number, line in enumerate(read_text(path).splitlines(), 1) if line.startswith(_MARKERS)]:
        message = "a merge stopped here and left both sides in the file; keep one of them"
        raise InputError([Fault(message, path, number) for number in marked])
    data, lines = load_yaml(path)
    refuse_other_kind(data, path, expected="a presets file", keys_allowed=_KEYS)
    reader = _PresetReader(path, lines, [], find=find)
    reader.check_kind(data)
    blocks = reader.mapping(data, "presets")
    if preset:
        if preset not in blocks:
            raise _unknown(preset, blocks, path)
        blocks = {name: block for name, block in blocks.items() if _source(block) == _source(blocks[preset])}
    presets = {str(name): reader.preset(name, block, data) for name, block in blocks.items()}
    if not presets and not reader.faults:
        reader.fault("the file holds no preset", "presets")
    raise_faults(sorted(dict.fromkeys(reader.faults), key=lambda fault: fault.line))
    valid = {name: preset for name, preset in presets.items() if preset is not None}
    split = data.get("test_split", "")
    return PresetsFile(path=path, tuned=data["tuned"], presets=valid, find=find, test_split=split)


def _unknown(name: str, names: Iterable[str], path: Path) -> UnknownNameError:
    return UnknownNameError("preset", name, names, where=f" of presets file {path}")


def _source(block: Any) -> Any:
    """The selector that the block of a preset names; None where it names none."""
    return block.get("selector") if isinstance(block, Mapping) else None


@dataclass
class _PresetReader(YamlForm):
    """Reads the parts of a presets file and collects faults.

    Attributes:
        find: gives selectors.
    """

    find: Find = field(kw_only=True)

    def check_kind(self, data: Any) -> None:
        """Check the format of the file as a whole.

        Raises:
            InputError: it is something else, so that there is no use in reading on.
        """
        expected = "a presets file has format, tuned and presets, as `ctxbench tune` writes them"
        if not isinstance(data, Mapping) or not {"format", "presets"} <= set(data):
            got = "the file is empty" if data is None else "this is none"
            if isinstance(data, Mapping):
                got = f"this one has {', '.join(map(str, data))}"
            raise InputError([Fault(f"{expected}; {got}", self.path, 1)])
        if data["format"] != FORMAT or isinstance(data["format"], bool):
            message = (
                f"its format is {data['format']!r}, and this version reads {FORMAT}; tune again with `ctxbench tune`"
            )
            raise InputError([Fault(message, self.path, line_of(self.lines, ("format",)))])
        self.refuse_unknown(data, _KEYS, "a presets file")
        if not isinstance(self.mapping(data, "tuned").get("dataset"), str):
            self.fault("tuned must say the dataset that was tuned on", "tuned")
        if not isinstance(data.get("test_split", ""), str):
            self.fault(f"test_split must be a text, got {data['test_split']!r}", "test_split")

    def mapping(self, data: Mapping[str, Any], *where: str) -> Mapping[str, Any]:
        """The mapping under the last key, empty where there is none."""
        return self.value(data, {}, "mapping", *where)

    def value(self, data: Mapping[str, Any], empty: T, type_name: str, *where: str) -> T:
        """The value under the last key if it is of the type of `empty`, which `type_name` names; else `empty`."""
        value = data.get(where[-1], empty)
        if isinstance(value, type(empty)):
            return value
        self.fault(f"{where[-1]} must be a {type_name}, got {value!r}", *where)
        return empty

    def preset(self, name: str, block: Any, data: Mapping[str, Any]) -> TunedPreset | None:
        """One preset; None where it is faulty."""
        where = ("presets", name)
        if not isinstance(block, Mapping):
            self.fault(f"{name} must be a mapping, got {block!r}", *where)
            return None
        before = len(self.faults)
        self.refuse_unknown(block, PRESET_KEYS, "a tuned preset", *where)
        texts = {
            key: self.value(block, "", "text", *where, key) for key in ("about", "selector", "definition", "answers")
        }
        maps = {key: self.mapping(block, *where, key) for key in ("set", "policy")}
        means = {key: self.metrics(block, *where, key) for key in ("tuning", "test")}
        for key, value in maps["set"].items():
            if not isinstance(value, bool | int | float | str):
                self.fault(f"{key} must be a number, true, false or a name, got {value!r}", *where, "set", key)
        if bool(texts["selector"]) == bool(texts["answers"]):
            self.fault(f"preset {name} needs exactly one of selector and answers", *where)
        if texts["selector"] and not texts["definition"]:
            self.fault(f"preset {name} needs the definition that it was tuned with", *where)
        if len(self.faults) > before:
            return None
        recorded = self.mapping(self.mapping(data, "definitions"), "definitions", texts["definition"])
        selector = texts["selector"]
        preset = TunedPreset(
            set=maps["set"],
            about=texts["about"],
            selector=os.path.normpath(self.base / selector) if selector.endswith(_ENDINGS) else selector,
            definition=texts["definition"],
            parameters=recorded,
            answers=texts["answers"],
            policy=maps["policy"],
            tuning=means["tuning"],
            test=means["test"],
        )
        if selector:
            self.check_selector(name, preset)
        return preset

    def metrics(self, block: Mapping[str, Any], *where: str) -> Metrics:
        """The means under the last key, by metric."""
        means = self.mapping(block, *where)
        for key, mean in means.items():
            if not isinstance(mean, Mapping):
                self.fault(f"{key} must be a mapping of value, low, high and n, got {mean!r}", *where, key)
        return means

    def check_selector(self, name: str, preset: TunedPreset) -> None:
        """Check the values of a preset against its selector."""
        where = ("presets", name)
        try:
            selector = self.find(preset.selector)
        except UserError as error:
            self.fault(str(error), *where, "selector")
            return
        if preset.definition not in (definition_hash(selector), *selector.earlier):
            unknown = "its pipeline is another" if preset.parameters else "its parameters or its pipeline are others"
            since = "; ".join(changes(preset.parameters, selector)) or unknown
            message = f"selector {selector.name!r} has changed since preset {name} was tuned: {since}"
            self.fault(f"{message}; tune again with `ctxbench tune`", *where, "definition")
            return
        before = len(self.faults)
        settings = preset.set.items()
        tried = {
            key: self.attempt(partial(selector.checked, key, value), *where, "set", key) for key, value in settings
        }
        checked = {key: value for key, value in tried.items() if value is not None}
        if len(self.faults) > before:
            return
        values = selector.with_defaults(checked)
        for key in checked:
            if idle := selector.idle(key, values):
                self.fault(idle, *where, "set", key)
        sets = {key: set(parameter.sets) for key, parameter in selector.parameters.items() if parameter.sets}
        new = set(selector.parameters) - set(preset.parameters) if preset.definition in selector.earlier else set()
        required = [
            key for key in selector.in_force(values) if not sets.get(key, {key}) <= set(checked) and key not in new
        ]
        if missing := [key for key in required if key not in checked]:
            message = f"set lacks {', '.join(missing)}; a tuned preset gives every parameter that has an effect"
            self.fault(message, *where, "set")
        try:
            selector.pipeline(values)
        except PipelineError as error:
            for fault in error.faults:
                self.fault(fault.message, *where, "set")


def changes(recorded: Mapping[str, str], definition: Definition) -> Iterator[str]:
    """The parameters in which a selector differs from its record; none without a record.

    Args:
        recorded: its `parameter_texts` then.
        definition: the selector now.
    """
    current = parameter_texts(definition)
    for name in sorted({*recorded, *current} if recorded else ()):
        if name not in current:
            yield f"parameter {name} was removed"
        elif name not in recorded:
            yield f"parameter {name} was added"
        elif recorded[name] != current[name]:
            yield f"parameter {name} was {recorded[name]} and is {current[name]}"
