"""Reads the selectors that a policy file names, and checks their parameters; all faults with their lines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ctxbench.bench.slices import Slice
from ctxbench.core.arrays import FloatArray
from ctxbench.core.errors import Fault, InputError, ParameterError, UnknownNameError, UserError
from ctxbench.core.pipeline import PipelineError
from ctxbench.io.yaml_files import line_of
from ctxbench.selectors.definition import Definition
from ctxbench.selectors.definitions import find_definition
from ctxbench.selectors.external import FileSelector
from ctxbench.selectors.parameters import Parameter
from ctxbench.tuning.policy_file import PolicyFile, SelectorEntry
from ctxbench.tuning.query_sets import QuerySet, read_ranking
from ctxbench.tuning.tunables import Tunable

OWN_CUT = Definition(  # of a ranking from outside; includeScore goes as far as its scores, see `with_range_of`
    name="answers",
    about="a ranking of your own, cut by us",
    parameters={
        "topN": Parameter(name="topN", default=5, low=0, high=50),
        "includeScore": Parameter(name="includeScore", default=1.0, low=0.0, high=1.0),
        "margin": Parameter(name="margin", default=1.0, low=0.0, high=1.0),
    },
    spec={
        "retrieve": "everything",
        "refine": [
            {"standard": {"topK": 100, "topN": "$topN", "includeScore": "$includeScore"}},
            {"margin": {"margin": "$margin", "of": "ratio", "at_least": 0, "at_most": 100}},
        ],
    },
    presets={},
    abouts={},
    written={},
)


def read_tunables(file: PolicyFile) -> tuple[tuple[Tunable, ...], list[Fault]]:
    """Read the selectors of a policy file.

    Returns:
        The selectors that can be tuned, and what is wrong with the others, by line.
    """
    tunables: list[Tunable] = []
    faults: list[Fault] = []
    for entry in file.selectors:
        try:
            one = _read(entry, file.base)
            wrong = list(_unsuitable(one)) or list(_without_effect(one))
        except InputError as error:
            faults += error.faults
            continue
        except UserError as error:
            faults.append(Fault(str(error), file.path, line_of(file.lines, entry.where)))
            continue
        faults += [Fault(what, file.path, line_of(file.lines, (*entry.where, *where))) for what, where in wrong]
        tunables += [_checked(one)] if not wrong else []
    return tuple(tunables), faults


def _read(entry: SelectorEntry, base: Path) -> Tunable:
    if entry.answers:
        answers = FileSelector(base / entry.answers, name=entry.name)
        return Tunable(entry=entry, source=entry.name, definition=OWN_CUT, answers=answers)
    definition, preset = find_definition(entry.selector, base=base)
    if preset is not None and preset not in definition.presets:
        raise UnknownNameError("preset", preset, definition.presets, where=f" of selector {definition.name!r}")
    start = definition.presets[preset] if preset is not None else {}
    source = entry.selector if preset is None else entry.selector.removesuffix(f"/{preset}")
    return Tunable(entry=entry, source=source, definition=definition, start=start)


def with_range_of(one: Tunable, query_sets: Sequence[QuerySet]) -> Tunable:
    """The same selector; of answers with an includeScore that can be above all their scores, and so include nothing.

    Args:
        one: a selector.
        query_sets: of all datasets.
    """
    if one.answers is None:
        return one
    scores = [searched_scores(read_ranking(one.answers, query_set).answers) for query_set in query_sets]
    tops = [float(score.max()) for score in scores if len(score)]
    highest = max(tops, default=0.0)
    if highest < 1:
        return one
    above = float(math.floor(highest) + 1)
    wider = replace(OWN_CUT.parameters["includeScore"], default=above, high=above)
    return replace(one, definition=replace(OWN_CUT, parameters={**OWN_CUT.parameters, wider.name: wider}))


def searched_scores(found: Slice) -> FloatArray:
    """The scores of all that was ranked."""
    table = found.candidates
    scores: FloatArray = table.score[table.ranked]
    return scores


def _unsuitable(one: Tunable) -> Iterator[tuple[str, Sequence[str | int]]]:
    """What is wrong with each value that the file gives a selector, taken alone."""
    written: dict[tuple[str | int, ...], Any] = {("set", name): value for name, value in one.entry.set.items()}
    for name, values in one.entry.search.items():
        written |= {("search", name, place): value for place, value in enumerate(values)}
    seen = set()
    for where, value in written.items():
        try:
            one.definition.checked(str(where[1]), value)
        except ParameterError as error:
            if (where[:2], str(error)) not in seen:  # of an unknown parameter every value would be wrong
                yield str(error), where
            seen.add((where[:2], str(error)))


def _checked(one: Tunable) -> Tunable:
    """The same with values as its parameters keep them: 1 is 1.0 where decimals are allowed."""
    check = one.definition.checked
    written = {name: check(name, value) for name, value in one.entry.set.items()}
    search = {name: tuple(check(name, value) for value in values) for name, values in one.entry.search.items()}
    return replace(one, entry=replace(one.entry, set=written, search=search))


def _without_effect(one: Tunable) -> Iterator[tuple[str, Sequence[str | int]]]:
    """Values that the file gives a selector and that have no effect."""
    for name in one.entry.search:
        if name in one.swept_thresholds:
            yield f"{name} is tried at every value that matters; leave it out of `search`", ("search", name)
        for place, value in enumerate(one.entry.search[name]):
            try:
                one.pipeline({name: value})
            except PipelineError as error:
                yield from ((fault.message, ("search", name, place)) for fault in error.faults)
    for name, value in one.entry.set.items():
        if idle := one.definition.idle(name, one.values()):
            yield f"{name} {value!r}: {idle}", ("set", name)
