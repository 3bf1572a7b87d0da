"""Faults that a gate must name: made once over all queries of a dataset, then checked on draws of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from statistics import median

import numpy as np
from gate_faults import FAULTS, Fault
from gate_world import ALLOWANCES, Loss, check, draw, found_once, only

from ctxbench.gate.results import Check, SelectorCheck, Verdict
from ctxbench.gate.snapshots import SelectorSnapshot

NS = (30, 100, 300)
DRAWS = 100
CHECKED, CHECKED_NS = 2, (30, 100)  # so many draws of these sizes are also checked without `found_once`


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One fault, one selector, draws of one size.

    Attributes:
        draws: how many.
        worse: of these named worse.
        right: of these named worse with the right cause first.
        net: required items lost more than gained, the median over draws.
        by_facts, by_metrics: named worse for items lost, and for a metric, whatever else.
        allowing: by share in `ALLOWANCES`, how many would be named worse.
        other: the first causes that were not the right one, by kind.
    """

    draws: int
    worse: int
    right: int
    net: float
    by_facts: int
    by_metrics: int
    allowing: Mapping[float, int]
    other: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """One fault on one dataset.

    Attributes:
        dataset, fault: names.
        about: what was done, in words.
        cells: by selector and number of queries.
        whole: by selector, the check over all queries: verdict, items lost net, first cause.
        agreed, compared: how many of so many draws came to the same without `found_once`.
    """

    dataset: str
    fault: str
    about: str
    cells: Mapping[tuple[str, int], Cell]
    whole: Mapping[str, tuple[str, int, str]]
    agreed: int
    compared: int


def power(dataset: str, name: str) -> Power:
    """Make a fault and check it on draws."""
    fault = FAULTS[name](dataset)
    full = check(list(zip(fault.bases, fault.heads, strict=True)))
    cells: dict[tuple[str, int], Cell] = {}
    agreed = compared = 0
    for n in NS:
        if n > len(fault.bases[0].queries):
            continue
        tallies = {one.selector: _Tally(fault) for one in fault.heads}
        for seed in range(DRAWS):
            pairs = list(_drawn(fault, n, seed))
            with nullcontext() if fault.narrowed else found_once(full):
                found = check(pairs)
            if seed < CHECKED and n in CHECKED_NS and not fault.narrowed:
                compared += 1
                agreed += _gist(check(pairs)) == _gist(found)
            for one, (_, head) in zip(found.selectors, pairs, strict=True):
                tallies[one.selector].add(one, head)
        cells |= {(selector, n): tally.cell() for selector, tally in tallies.items()}
    whole = {one.selector: (str(one.verdict), one.lost - one.gained, _first(one)) for one in full.selectors}
    return Power(
        dataset=dataset, fault=name, about=fault.about, cells=cells, whole=whole, agreed=agreed, compared=compared
    )


def _drawn(fault: Fault, n: int, seed: int) -> Iterator[tuple[SelectorSnapshot, SelectorSnapshot]]:
    """The two snapshots of each selector over a draw; a fault that hits some queries only hits so many of these."""
    rng = np.random.default_rng([seed, n, 7])
    needed = [fault.needed[place] for place in rng.permutation(len(fault.needed))[: fault.at_least].tolist()]
    queries = draw(fault.bases[0], n, seed, among=needed)
    for base, head in zip(fault.bases, fault.heads, strict=True):
        one, other = only(base, queries), only(head, queries)
        yield one, fault.narrowed(one, other, rng) if fault.narrowed else other


@dataclass
class _Tally:
    fault: Fault
    verdicts: list[Verdict] = field(default_factory=list)
    rights: int = 0
    nets: list[int] = field(default_factory=list)
    facts: int = 0
    metrics: int = 0
    allowing: dict[float, int] = field(default_factory=dict)
    other: dict[str, int] = field(default_factory=dict)

    def add(self, one: SelectorCheck, head: SelectorSnapshot) -> None:
        self.verdicts.append(one.verdict)
        self.nets.append(one.lost - one.gained)
        self.facts += one.lost - one.gained > one.allowed
        loss = Loss.of(one, head)
        self.metrics += loss.by_metrics
        for part in ALLOWANCES:
            self.allowing[part] = self.allowing.get(part, 0) + loss.worse(part)
        if one.verdict is not Verdict.WORSE:
            return
        if one.causes and self.fault.right(one.causes[0].cause):
            self.rights += 1
        else:
            first = _first(one)
            self.other[first] = self.other.get(first, 0) + 1

    def cell(self) -> Cell:
        return Cell(
            draws=len(self.verdicts),
            worse=sum(one is Verdict.WORSE for one in self.verdicts),
            right=self.rights,
            net=median(self.nets),
            by_facts=self.facts,
            by_metrics=self.metrics,
            allowing=self.allowing,
            other=self.other,
        )


def _first(one: SelectorCheck) -> str:
    return str(one.causes[0].cause.kind) if one.causes else "none"


def _gist(found: Check) -> list[object]:
    """What a check comes to, but for the wording of what would fix it."""
    return [
        (one.verdict, one.lost, one.gained, one.swaps, [(g.cause, g.lost, g.gained, g.others) for g in one.causes])
        for one in found.selectors
    ]


# No rule of freight is needed by ten queries. Tools have no text beside what is said of them, and are chunked whole.
NOT_MADE = {("freight", "rule replaced"), ("freight", "rule's text replaced")}
OF_TOOLS = ("items dropped", "rule replaced", "look-alikes", "second server", "costly look-alikes", "static model")


def tasks(own: Sequence[str]) -> list[tuple[str, str]]:
    """Dataset and fault, all that are made, what takes longest first."""
    faults = list(reversed(list(FAULTS)))
    found = [(dataset, name) for name in faults for dataset in own if (dataset, name) not in NOT_MADE]
    return found + [("bfcl-live", name) for name in faults if name in OF_TOOLS]
