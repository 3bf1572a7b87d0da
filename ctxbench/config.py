"""Experiments in YAML: which selectors run on which datasets. Everything wrong is reported at once, with its line."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ctxbench.errors import Fault, InputError, UserError, suggest
from ctxbench.jsonio import line_of, load_yaml
from ctxbench.pipeline import Pipeline, PipelineError, Resources
from ctxbench.selectors.base import Selector
from ctxbench.selectors.definitions import definition
from ctxbench.selectors.external import KINDS as EXTERNAL_KINDS
from ctxbench.selectors.external import external_from_config
from ctxbench.selectors.pipelines import AsManyAs, PipelineSelector

DEFAULT_METRICS = (
    "completeness",
    "tokens",
    "recall",
    "precision",
    "items",
    "Comp@1",
    "Comp@5",
    "Comp@20",
    "R@5",
    "nDCG@10",
    "RR",
    "wrong_siblings",
    "abstention",
    "false_items",
)
_KEYS = ("name", "about", "datasets", "selectors", "metrics", "embedder", "tokens", "seed", "compare_to")

Make = Callable[[Resources, MutableMapping[str, Any]], Selector]


@dataclass(frozen=True, eq=False)
class SelectorSpec:
    """A selector of an experiment, checked but not yet made.

    Attributes:
        name: what tables call it; unique in the experiment.
        make: makes it from resources and a memo for shared steps.
        about: one line for reports: the preset's or the selector's.
        values: its parameters by name; empty for outside selectors.
        like: the selector whose sizes it takes, or None.
        outside: True for a selector of the user's.
    """

    name: str
    make: Make
    about: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    like: str | None = None
    outside: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class Experiment:
    """What is run.

    Attributes:
        name: of the run folder and the report.
        about: what it is to settle; may be empty.
        path: the file.
        datasets: names or folders, in order; a folder is relative to the file, else to the working directory.
        selectors: in order; names are unique.
        metrics: names as `parse_metric` reads them.
        embedder, tokens: names as `open_embedder` and `open_counter` read them.
        seed: of every random draw.
        compare_to: the selector that the others are compared with.
        dataset_lines: the line of each dataset, for faults found when they are opened.
    """

    name: str
    about: str
    path: Path
    datasets: tuple[str, ...]
    selectors: tuple[SelectorSpec, ...]
    metrics: tuple[str, ...]
    embedder: str
    tokens: str
    seed: int
    compare_to: str
    dataset_lines: tuple[int, ...]

    def make_selectors(self, resources: Resources, memo: MutableMapping[str, Any]) -> dict[str, Selector]:
        """Make all selectors over the same resources and memo, by name, in order."""
        made: dict[str, Selector] = {}
        for spec in sorted(self.selectors, key=lambda spec: spec.like is not None):
            selector = spec.make(resources, memo)
            made[spec.name] = AsManyAs(spec.name, selector, made[spec.like]) if spec.like is not None else selector
        return {spec.name: made[spec.name] for spec in self.selectors}


def read_experiment(path: Path) -> Experiment:
    """Read an experiment and check it whole.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: anything in it is wrong: all faults, with their lines.
    """
    data, lines = load_yaml(path)
    faults: list[Fault] = []
    reader = _Reader(path, lines, faults)
    if not isinstance(data, Mapping):
        raise InputError([Fault(f"an experiment is a mapping of {', '.join(_KEYS)}", path, 1)])
    for key in data:
        if key not in _KEYS:
            reader.fault(f"an experiment has no {key!r}{suggest(str(key), _KEYS)}", key)
    datasets = reader.texts(data, "datasets")
    selectors = reader.selectors(data.get("selectors"))
    metrics = reader.texts(data, "metrics", DEFAULT_METRICS)
    names = [spec.name for spec in selectors]
    compare_to = data.get("compare_to", names[0] if names else "")
    if names and compare_to not in names:
        reader.fault(
            f"compare_to names no selector of this experiment: {compare_to!r}{suggest(str(compare_to), names)}",
            "compare_to",
        )
    for place, spec in enumerate(selectors):
        if spec.like is not None and (spec.like not in names or spec.like == spec.name):
            reader.fault(f"like names no other selector: {spec.like!r}{suggest(spec.like, names)}", "selectors", place)
    seed = data.get("seed", 0)
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**32:
        reader.fault(f"seed must be an integer from 0 to 4294967295, got {seed!r}", "seed")
    if faults:
        raise InputError(faults)
    return Experiment(
        name=str(data.get("name", path.stem)),
        about=str(data.get("about", "")),
        path=path,
        datasets=datasets,
        selectors=tuple(selectors),
        metrics=metrics,
        embedder=str(data.get("embedder", "minilm")),
        tokens=str(data.get("tokens", "o200k")),
        seed=seed,
        compare_to=str(compare_to),
        dataset_lines=tuple(line_of(lines, ("datasets", place)) for place in range(len(datasets))),
    )


def scoring(answers: Path, *, dataset: str, beside: Sequence[str], tokens: str) -> Experiment:
    """The experiment that scores a file of answers, beside shipped selectors given as `name` or `name/preset`.

    Raises:
        UserError: the file or a selector is unknown or faulty.
    """
    own = external_from_config({"answers": str(answers), "name": answers.stem}, base=Path())
    specs = [SelectorSpec(own.name, lambda _resources, _memo: own, "a selector of the user's", outside=True)]
    for named in beside:
        name, _, preset = named.partition("/")
        found = definition(name)
        values = found.values(preset or None)
        maker = _pipeline_maker(named, found.pipeline(values))
        specs.append(SelectorSpec(named, maker, found.abouts.get(preset, found.about), values))
    return Experiment(
        name=own.name,
        about=f"answers of {answers.name}",
        path=answers,
        datasets=(dataset,),
        selectors=tuple(specs),
        metrics=DEFAULT_METRICS,
        embedder="minilm",
        tokens=tokens,
        seed=0,
        compare_to=own.name,
        dataset_lines=(0,),
    )


@dataclass
class _Reader:
    """Reads the parts of an experiment and collects faults."""

    path: Path
    lines: Mapping[tuple[str | int, ...], int]
    faults: list[Fault]

    def fault(self, message: str, *where: str | int) -> None:
        self.faults.append(Fault(message, self.path, line_of(self.lines, where)))

    def texts(self, data: Mapping[str, Any], key: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        value = data.get(key, list(default))
        if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
            self.fault(f"{key} must be a list of names, got {value!r}", key)
            return ()
        if len(set(value)) < len(value):
            self.fault(f"{key} names something twice", key)
        return tuple(value)

    def selectors(self, entries: Any) -> list[SelectorSpec]:
        if not isinstance(entries, list) or not entries:
            self.fault("selectors must be a list with at least one selector", "selectors")
            return []
        specs = [spec for place, entry in enumerate(entries) for spec in self._selector(entry, ("selectors", place))]
        seen: set[str] = set()
        for spec in specs:
            if spec.name in seen:
                self.fault(f"two selectors are called {spec.name!r}; give one another name", "selectors")
            seen.add(spec.name)
        return specs

    def _selector(self, entry: Any, where: tuple[str | int, ...]) -> list[SelectorSpec]:
        if isinstance(entry, str):
            entry = {"selector": entry}
        if not isinstance(entry, Mapping):
            self.fault(f"a selector is a name or a mapping, got {entry!r}", *where)
            return []
        kinds = [key for key in ("selector", "pipeline", *EXTERNAL_KINDS) if key in entry]
        if len(kinds) != 1:
            choices = ", ".join(("selector", "pipeline", *EXTERNAL_KINDS))
            self.fault(f"a selector needs exactly one of {choices}; got {', '.join(map(str, entry)) or 'none'}", *where)
            return []
        try:
            if kinds[0] == "selector":
                return self._shipped(entry, where)
            return [self._inline(entry, where) if kinds[0] == "pipeline" else self._external(entry)]
        except PipelineError as error:
            for one in error.faults:
                self.fault(one.message, *where, "pipeline", *one.path)
        except UserError as error:
            self.fault(str(error), *where)
        return []

    def _check_keys(self, entry: Mapping[str, Any], known: Sequence[str], where: tuple[str | int, ...]) -> None:
        for key in entry:
            if key not in known:
                self.fault(f"a selector has no {key!r}{suggest(str(key), known)}", *where, key)

    def _shipped(self, entry: Mapping[str, Any], where: tuple[str | int, ...]) -> list[SelectorSpec]:
        self._check_keys(entry, ("selector", "preset", "set", "vary", "like", "name"), where)
        found = definition(str(entry["selector"]))
        preset = entry.get("preset")
        base = str(entry.get("name", found.name if preset is None else f"{found.name}/{preset}"))
        about = found.abouts.get(preset, "") if preset is not None else found.about
        specs = []
        for varied in _grid(entry.get("vary") or {}):
            values = found.values(preset, {**(entry.get("set") or {}), **varied})
            pipeline = found.pipeline(values)
            name = " ".join([base, *(f"{key}={value:g}" for key, value in varied.items())])
            make = _pipeline_maker(name, pipeline)
            specs.append(SelectorSpec(name, make, about, values, entry.get("like")))
        return specs

    def _inline(self, entry: Mapping[str, Any], where: tuple[str | int, ...]) -> SelectorSpec:
        self._check_keys(entry, ("pipeline", "name"), where)
        if "name" not in entry:
            self.fault("an inline pipeline needs a name", *where)
        name = str(entry.get("name", "inline"))
        return SelectorSpec(name, _pipeline_maker(name, Pipeline.of(entry["pipeline"])), "a pipeline of the experiment")

    def _external(self, entry: Mapping[str, Any]) -> SelectorSpec:
        made = external_from_config(entry, base=self.path.parent)
        return SelectorSpec(made.name, lambda _resources, _memo: made, "a selector of the user's", outside=True)


def _pipeline_maker(name: str, pipeline: Pipeline) -> Make:
    return lambda resources, memo: PipelineSelector(name, pipeline, resources, memo)


def _grid(vary: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """All combinations of the values to vary, the last name fastest; one empty combination where nothing varies."""
    lists = [values if isinstance(values, list) else [values] for values in vary.values()]
    return [dict(zip(vary, values, strict=True)) for values in itertools.product(*lists)]
