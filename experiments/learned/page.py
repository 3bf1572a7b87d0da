"""The page on the shipped ranking, from what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from labels import ALONE, AROUND, BEFORE, N_LABELS, REQUESTS, SHIPPED, OwnLabels

from ctxbench.report.pages import write_parted

if TYPE_CHECKING:
    from measure import Row

PRESETS = ("aggressive", "normal", "conservative")


def write_page(path: Path, rows: Sequence[Row], labels: Sequence[OwnLabels]) -> None:
    """Write the page as Markdown."""
    lines = [*_answer(rows), *_at_equal_tokens(rows), *_presets(rows), *_budgets(rows), *_labels(labels), *_method()]
    write_parted(path, "\n".join(lines) + "\n")


def _answer(rows: Sequence[Row]) -> Iterator[str]:
    gains = [100 * (row.learned - row.at_tokens["semantic"]) for row in rows]
    cheaper = 1 - _geometric([row.presets["normal"].tokens / row.tokens for row in rows])
    worst = min(rows, key=lambda row: row.learned - row.at_tokens["semantic"])
    yield "# What the shipped ranking is worth"
    yield ""
    yield (
        f"**At equal tokens `learned` is {np.mean(gains):.1f} points of completeness above the first items of the "
        f"specification's ranking, on average over {len(rows)} datasets, each ranked by a fit without its family; "
        f"the least is {min(gains):+.1f} on {worst.name}. `learned/normal` costs {cheaper:.0%} fewer tokens than the "
        "specification's defaults.**"
    )


def _method() -> Iterator[str]:
    yield ""
    yield "## How it was made"
    yield ""
    yield (
        "Made by `make learned`: test splits, 500 queries a dataset at most, o200k tokens. Left out together: "
        "the three of BFCL, the two of MetaTool and of LoCoMo; workbench and freight are by one author, each left "
        "out alone. Features, overhead and presets were chosen on tuning splits; the test splits were looked at many "
        "times on the way."
    )


def _at_equal_tokens(rows: Sequence[Row]) -> Iterator[str]:
    yield ""
    yield "## Completeness at the tokens of the specification's defaults"
    yield ""
    yield (
        "Completeness, in %, is the share of queries that were offered every required item. First n: as many items of "
        "a ranking as these tokens buy. The oracle offers what is required and nothing else. Own fit: around the "
        "shipped weights, on its own tuning split; with requests: one that also reads what similar requests of that "
        "split needed. The gain is that of `learned` over the specification's first n, with its "
        "95% interval."
    )
    yield ""
    yield (
        "| dataset | queries | tokens | specification's defaults | first n: semantic | bm25 | hybrid | learned | "
        "gain | at 0.75 x tokens | own fit | with requests | tokens of the oracle | of everything |"
    )
    yield "| --- | " + "---: | " * 13
    for row in rows:
        gain = row.gain
        low, high = 100 * gain.interval.low, 100 * gain.interval.high
        cells = [row.documents, *(row.at_tokens[name] for name in ("semantic", "bm25", "hybrid")), row.learned]
        yield (
            f"| {row.name} | {row.queries} | {row.tokens:,.0f} | "
            + " | ".join(f"{100 * cell:.1f}" for cell in cells)
            + f" | {100 * (row.learned - row.at_tokens['semantic']):+.1f} ({low:+.1f} to {high:+.1f}) | "
            f"{100 * row.less:.1f} | {100 * row.own:.1f} | {100 * row.requests:.1f} | "
            f"{row.oracle:,.0f} | {row.everything:,.0f} |"
        )
    means = [
        np.mean([row.documents for row in rows]),
        *(np.mean([row.at_tokens[name] for row in rows]) for name in ("semantic", "bm25", "hybrid")),
        np.mean([row.learned for row in rows]),
    ]
    gain = np.mean([row.learned - row.at_tokens["semantic"] for row in rows])
    yield (
        "| mean | | | "
        + " | ".join(f"{100 * cell:.1f}" for cell in means)
        + f" | {100 * gain:+.1f} | {100 * np.mean([row.less for row in rows]):.1f} | "
        f"{100 * np.mean([row.own for row in rows]):.1f} | {100 * np.mean([row.requests for row in rows]):.1f} | | |"
    )


def _presets(rows: Sequence[Row]) -> Iterator[str]:
    yield ""
    yield "## Presets"
    yield ""
    yield (
        "Tokens as a share of the specification's defaults, and points of completeness against them (95% interval of "
        "the paired difference); `*` = significant."
    )
    yield ""
    yield "| dataset | " + " | ".join(PRESETS) + " |"
    yield "| --- | " + "---: | " * len(PRESETS)
    for row in rows:
        cells = []
        for name in PRESETS:
            one = row.presets[name]
            interval = one.against.interval
            apart = "\\*" if interval.low > 0 or interval.high < 0 else ""
            cells.append(
                f"{one.tokens / row.tokens:.2f} x, {100 * one.against.difference:+.1f} "
                f"({100 * interval.low:+.1f} to {100 * interval.high:+.1f}){apart}"
            )
        yield f"| {row.name} | " + " | ".join(cells) + " |"
    ratios = [_geometric([row.presets[name].tokens / row.tokens for row in rows]) for name in PRESETS]
    points = [np.mean([row.presets[name].against.difference for row in rows]) for name in PRESETS]
    cells = [f"{ratio:.2f} x, {100 * point:+.1f}" for ratio, point in zip(ratios, points, strict=True)]
    yield "| all (geometric and plain mean) | " + " | ".join(cells) + " |"
    kept = {row.name: row.presets["aggressive"].complete / row.documents for row in rows if row.documents > 0}
    below = [f"{name} ({share:.0%})" for name, share in kept.items() if share < 0.9]
    yield ""
    yield (
        "`aggressive` keeps nine tenths of what the specification's defaults make complete on every dataset here"
        + (f" but {', '.join(below)}." if below else ".")
    )


def _budgets(rows: Sequence[Row]) -> Iterator[str]:
    drawn = [row for row in rows if row.budgets["normal"].shares]
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
