"""The page on the shipped ranking, from what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from labels import ALONE, AROUND, BEFORE, N_LABELS, REQUESTS, SHIPPED, OwnLabels

from ctxbench.report.pages import write_parted

if TYPE_CHECKING:
    from measure import Row

    from ctxbench.evaluation.statistics import Comparison

PRESETS = ("aggressive", "normal", "conservative")
Z = 1.959964  # of a 95% interval


def write_page(path: Path, rows: Sequence[Row], labels: Sequence[OwnLabels]) -> None:
    """Write the page as Markdown."""
    lines = [*_answer(rows), *_at_equal_tokens(rows), *_presets(rows), *_budgets(rows), *_labels(labels), *_method()]
    write_parted(path, "\n".join(lines) + "\n")


KINDS = {
    "tools": ("bfcl", "livemcpbench", "metatool", "toollens"),
    "rules, references and tools": ("workbench", "freight"),
    "skills and rules": ("skills",),
    "chats and memories": ("locomo", "diary"),
}
"""Families of datasets by what their catalogs hold."""

PROMISED = {"aggressive": 0.6, "normal": 0.9, "conservative": 1.4}
"""What the presets say that they cost, in tokens of the specification's defaults."""

FEWEST, MOST = 0.8, 1.25  # how far from that a family may be before it is named


@dataclass(frozen=True)
class Pooled:
    """The mean of differences over datasets, each weighing the same, with its 95% interval, in points."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, comparisons: Sequence[Comparison]) -> Pooled:
        """Pool independent comparisons."""
        errors = [(comparison.interval.high - comparison.interval.low) / (2 * Z) for comparison in comparisons]
        mean = 100 * float(np.mean([comparison.difference for comparison in comparisons]))
        half = 100 * Z * float(np.sqrt(np.sum(np.square(errors)))) / len(comparisons)
        return cls(mean, mean - half, mean + half)

    def __str__(self) -> str:
        return f"{self.mean:+.1f} ({self.low:+.1f} to {self.high:+.1f})"


def _over(rows: Sequence[Row], name: str) -> Pooled:
    return Pooled.of([row.gains[name] for row in rows if name in row.gains])


def _of_kind(rows: Sequence[Row], kind: str) -> list[Row]:
    return [row for row in rows if row.family in KINDS[kind]]


def _worst(rows: Sequence[Row], name: str) -> str:
    worst = min(rows, key=lambda row: row.gains[name].difference)
    return f"{100 * worst.gains[name].difference:+.1f} on {worst.name}"


def _answer(rows: Sequence[Row]) -> Iterator[str]:
    tools = _of_kind(rows, "tools")
    yield "# What the shipped ranking is worth"
    yield ""
    yield (
        f"**At equal tokens `learned` is {_over(tools, 'semantic').mean:.1f} points of completeness above the first "
        f"items of the specification's ranking on {len(tools)} sets of tools (worst {_worst(tools, 'semantic')}), and "
        f"{_over(rows, 'semantic').mean:.1f} on all {len(rows)} datasets; above `hybrid`, which needs no fit, "
        f"{_over(tools, 'hybrid').mean:.1f} and {_over(rows, 'hybrid').mean:.1f}.**"
    )
    yield ""
    yield "Each dataset is ranked by a fit without its family. Points at the tokens of the specification's defaults:"
    yield ""
    yield "| items | datasets | over first n | worst | over BM25 | over `hybrid` | worst |"
    yield "| --- | ---: | --- | --- | --- | --- | --- |"
    for kind in (*KINDS, "all"):
        of_kind = list(rows) if kind == "all" else _of_kind(rows, kind)
        cells = [_over(of_kind, "semantic"), _worst(of_kind, "semantic"), _over(of_kind, "bm25")]
        cells += [_over(of_kind, "hybrid"), _worst(of_kind, "hybrid")]
        yield f"| {kind} | {len(of_kind)} | {' | '.join(map(str, cells))} |"


def _at_equal_tokens(rows: Sequence[Row]) -> Iterator[str]:
    yield ""
    yield "## Completeness at the tokens of the specification's defaults"
    yield ""
    yield (
        "Completeness, in %, is the share of queries that were offered every required item. First n: as many items of "
        "a ranking as these tokens buy. The oracle offers what is required and nothing else. Own fit: around the "
        "shipped weights, on its own tuning split; with requests: one that also reads what similar requests of that "
        "split needed. The gain is that of `learned` over the specification's first n, with its 95% interval."
    )
    yield ""
    yield (
        "| dataset | queries | tokens | specification's defaults | first n: semantic | bm25 | hybrid | learned | "
        "gain | own fit | with requests | tokens of the oracle |"
    )
    yield "| --- | " + "---: | " * 11
    for row in rows:
        gain = row.gains["semantic"]
        cells = [row.documents, *(row.at_tokens[name] for name in ("semantic", "bm25", "hybrid")), row.learned]
        yield (
            f"| {row.name} | {row.queries} | {row.tokens:,.0f} | "
            + " | ".join(f"{100 * cell:.1f}" for cell in cells)
            + f" | {Pooled.of([gain])} | {100 * row.own:.1f} | {100 * row.requests:.1f} | {row.oracle:,.0f} |"
        )
    columns = [
        [row.documents for row in rows],
        *([row.at_tokens[name] for row in rows] for name in ("semantic", "bm25", "hybrid")),
        [row.learned for row in rows],
    ]
    yield (
        "| mean | | | "
        + " | ".join(f"{100 * np.mean(column):.1f}" for column in columns)
        + f" | {_over(rows, 'semantic')} | {100 * np.mean([row.own for row in rows]):.1f} | "
        f"{100 * np.mean([row.requests for row in rows]):.1f} | |"
    )


def _presets(rows: Sequence[Row]) -> Iterator[str]:
    names = list(PROMISED)
    yield ""
    yield "## Presets"
    yield ""
    yield (
        "They say that they cost "
        + ", ".join(f"{PROMISED[name]:g} (`{name}`)" for name in names)
        + " times as many tokens as the specification's defaults. Measured, with points of completeness against these "
        f"defaults; `*`: the tokens are below {FEWEST:g} or above {MOST:g} times what the preset says."
    )
    yield ""
    yield "| dataset | " + " | ".join(names) + " |"
    yield "| --- |" + " --- |" * len(names)
    for row in rows:
        yield f"| {row.name} | " + " | ".join(_preset_cell(row, name) for name in names) + " |"
    for kind, of_kind in (*((kind, _of_kind(rows, kind)) for kind in KINDS), ("all", list(rows))):
        cells = [
            f"{_geometric([_ratio(row, name) for row in of_kind]):.2f} x, "
            f"{Pooled.of([row.presets[name].against for row in of_kind])}"
            for name in names
        ]
        yield f"| mean, {kind} | {' | '.join(cells)} |"
    yield ""
    yield (
        "Where the specification's defaults offer rules and references of hundreds of tokens each, the presets cost "
        "less than they say, as the price of an item counts in their ranking."
    )


def _ratio(row: Row, name: str) -> float:
    return row.presets[name].tokens / row.tokens


def _preset_cell(row: Row, name: str) -> str:
    ratio = _ratio(row, name)
    mark = "" if FEWEST <= ratio / PROMISED[name] <= MOST else "\\*"
    return f"{ratio:.2f} x{mark}, {Pooled.of([row.presets[name].against])}"


def _budgets(rows: Sequence[Row]) -> Iterator[str]:
    drawn = [row for row in rows if row.budgets["normal"].shares]
    if not drawn:
        return
    shares = np.array([share for row in drawn for budget in row.budgets.values() for share in budget.shares])
    yield ""
    yield "## Budgets without labels"
    yield ""
    yield (
        "`ctxbench tune --unlabelled`: a budget of the mean tokens of each preset, set on 200 requests drawn from both "
        f"splits, {len(drawn[0].budgets['normal'].shares)} times. Mean tokens on the other requests, as a share of "
        "what it says, the mean on the drawn ones: lowest to highest. In brackets: twice the standard error by chance "
        "alone, since requests differ in their tokens. Within 0.9 to 1.1: "
        f"{np.mean(np.abs(shares - 1) <= 0.1):.1%} of the draws."
    )
    yield ""
    yield f"| dataset | requests | {' | '.join(PRESETS)} |"
    yield f"| --- | ---: |{' --- |' * len(PRESETS)}"
    for row in drawn:
        cells = [
            f"{min(budget.shares):.2f} to {max(budget.shares):.2f} (±{2 * budget.chance:.2f})"
            for budget in (row.budgets[name] for name in PRESETS)
        ]
        yield f"| {row.name} | {row.requests_of_both:,} | {' | '.join(cells)} |"


def _labels(found: Sequence[OwnLabels]) -> Iterator[str]:
    kinds = (REQUESTS, AROUND, ALONE, BEFORE)
    yield ""
    yield "## Your own labels"
    yield ""
    yield (
        "Completeness at the same tokens, in points against the shipped ranking (fitted without the family); means "
        "over the datasets that have as many labels, and the worst of them. Labels are of requests drawn one by one. "
        f"{REQUESTS.capitalize()}: what `ctxbench calibrate probability` fits. Needed: items that its probabilities "
        "expect over items needed, on the test split."
    )
    yield ""
    yield (
        "| labels | datasets | "
        + " | ".join(f"{kind}: mean | worst" for kind in kinds)
        + " | needed: mean | least | most |"
    )
    yield "| ---: | ---: | " + "---: | " * (2 * len(kinds) + 3)
    for n in N_LABELS:
        own = [one for one in found if one.n == n]
        cells = []
        for kind in kinds:
            by_name = list(_gains(own, kind).values())
            cells.append(f"{100 * np.mean(by_name):+.1f} | {100 * min(by_name):+.1f}")
        names = _gains(own, REQUESTS)
        needed = sorted((np.mean([one.needed for one in own if one.dataset == name]), name) for name in names)
        ends = " | ".join(f"{value:.2f}, {name}" for value, name in (needed[0], needed[-1]))
        mean = np.mean([value for value, _ in needed])
        yield f"| {n} | {len(names)} | " + " | ".join(cells) + f" | {mean:.2f} | {ends} |"
    yield ""
    yield (
        "Where requests repeat themselves, labels of similar ones say most; where no two need the same item, as in "
        "LoCoMo's chats, nothing. The points of that fit by dataset, and what of them comes from similar requests:"
    )
    yield ""
    yield "| dataset | " + " | ".join(f"{n} labels" for n in N_LABELS) + " |"
    yield "| --- | " + "---: | " * len(N_LABELS)
    for name in dict.fromkeys(one.dataset for one in found):
        cells = []
        for n in N_LABELS:
            own = [one for one in found if (one.n, one.dataset) == (n, name)]
            gains = [100 * _gains(own, kind)[name] for kind in (REQUESTS, AROUND)] if own else []
            cells.append(f"{gains[0]:+.1f} ({gains[0] - gains[1]:+.1f})" if gains else "")
        yield f"| {name} | " + " | ".join(cells) + " |"


def _gains(found: Sequence[OwnLabels], kind: str) -> dict[str, float]:
    """Completeness of a kind of fit above the shipped ranking, the mean of all draws by dataset."""
    by_name: dict[str, list[float]] = {}
    for one in found:
        shipped = one.complete[SHIPPED]
        by_name.setdefault(one.dataset, []).append(one.complete.get(kind, shipped) - shipped)
    return {name: float(np.mean(gains)) for name, gains in sorted(by_name.items())}


def _geometric(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def _method() -> Iterator[str]:
    yield ""
    yield "## How it was made"
    yield ""
    yield (
        "Made by `make learned`: test splits, 500 queries a dataset at most, o200k tokens. Left out together: "
        "the three of BFCL, the two of MetaTool and of LoCoMo; workbench, freight, skills and diary are by one author, "
        "each left out alone. Features, the cut and presets were chosen on tuning splits; the test splits were looked "
        "at on the way. Kinds and all: means over datasets, each weighing the same."
    )
