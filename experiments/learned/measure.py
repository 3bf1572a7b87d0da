"""What the shipped ranking is worth: `python experiments/learned/measure.py` (part of `make learned`).

Measured on test splits. Each dataset is ranked by a fit that has seen none of its family: no dataset with the same
items, nor by the same authors. Writes reports/learned.md.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from labels import N_LABELS, OwnLabels, own_labels
from page import write_page
from pooled import fit_examples
from world import FAMILIES, ROOT, TEST, TUNING, Half, cut, halves, mean, resources

from ctxbench.cli.common import run_script
from ctxbench.evaluation.comparisons import Curve, at_equal_tokens
from ctxbench.evaluation.statistics import Comparison, compare
from ctxbench.model.arrays import BoolArray, FloatArray
from ctxbench.pipelines.features import Logistic
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.selectors.definitions import definition
from ctxbench.tuning.preset_files import Prices
from ctxbench.tuning.query_fits import fit_with_prior
from ctxbench.tuning.results import rank_with_pipeline
from ctxbench.tuning.tuner import first_items_curve

COMPARATORS = ("semantic", "bm25", "hybrid")
PRESETS = ("aggressive", "normal", "conservative")
LESS = 0.75
DRAWS, REQUESTS = 20, 200  # of the budgets set without labels
FEWEST = 300  # requests of a dataset on which budgets are measured


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A preset beside the specification's defaults."""

    tokens: float
    complete: float
    against: Comparison


@dataclass(frozen=True, kw_only=True)
class Budget:
    """A budget set on requests without labels, drawn several times.

    Attributes:
        shares: tokens on the other requests as a share of those on the drawn ones, by draw; none with few requests.
        chance: the standard error of such a share if only chance differs: that of the mean tokens of the drawn
            requests and of the others, at the setting found on all.
    """

    shares: tuple[float, ...] = ()
    chance: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Row:
    """One dataset; completeness in shares, tokens as means.

    Attributes:
        name, family: of the dataset.
        queries: how many were measured.
        tokens, documents: of the specification's defaults.
        at_tokens: completeness of each comparator's first n at these tokens, by name.
        learned, gains: of the ranking at these tokens, and against the first n of each comparator, by name,
            that can cost as much.
        less: at `LESS` times the tokens.
        own: of a fit on the dataset's own tuning split, by the same features.
        requests: of one that also reads what similar requests of that split needed.
        presets: by name.
        requests_of_both: how many requests both splits have together, as far as they were drawn.
        budgets: set on `REQUESTS` of these, for the mean tokens of each preset.
        oracle, everything: tokens of the required items alone, and of all items.
    """

    name: str
    family: str
    queries: int
    tokens: float
    documents: float
    at_tokens: dict[str, float]
    learned: float
    gains: dict[str, Comparison]
    less: float
    own: float
    requests: float
    presets: dict[str, Preset]
    requests_of_both: int
    budgets: dict[str, Budget]
    oracle: float
    everything: float


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "reports" / "learned.md", help="the page")
    parser.add_argument("--draws", type=int, default=3, help="draws of labels a dataset and number of labels")
    given = parser.parse_args()
    began, opened = time.monotonic(), resources()

    def told(text: str) -> None:
        sys.stderr.write(f"{time.monotonic() - began:6.0f} s  {text}\n")

    tuning, test = (halves(split, opened, told) for split in (TUNING, TEST))
    shipped = {family: left_out(family, tuning) for family in FAMILIES}
    rows = []
    for one, own in zip(test, tuning, strict=True):
        told(f"measuring {one.name}")
        rows.append(measured(one, own, shipped[one.family]))
    found: list[OwnLabels] = []
    for n, (one, own) in itertools.product(N_LABELS, list(zip(test, tuning, strict=True))):
        told(f"{n} labels of {one.name}")
        found += own_labels(n, test=one, tuning=own, shipped=shipped[one.family], draws=given.draws)
    write_page(given.out, rows, found)


def left_out(family: str, tuning: Sequence[Half]) -> Logistic:
    """The ranking fitted without a family."""
    others = [half for half in tuning if half.family != family]
    return Logistic.read(fit_examples([half.made for half in others], [half.family for half in others]))


def measured(test: Half, tuning: Half, shipped: Logistic) -> Row:
    """All figures of one dataset."""
    side = test.side
    complete, spent = test.default[0], test.default_tokens
    found = {name: rank_with_pipeline(_head(name), side).answers.candidates for name in COMPARATORS}
    curves = {name: first_items_curve(table, side.labels) for name, table in found.items()}
    table = test.ranked(shipped)
    within = test.within(table, spent)
    own, requests = (Logistic.read(fit_with_prior(one, shipped)) for one in (tuning.made, tuning.labelled))
    gains = {name: at_equal_tokens(*within, curve, groups=side.group).comparison for name, curve in curves.items()}
    if gains["semantic"] is None or gains["hybrid"] is None:
        raise RuntimeError(f"{test.name}: the first n items never cost as much as the defaults")
    return Row(
        name=test.name,
        family=test.family,
        queries=len(side),
        tokens=spent,
        documents=mean(complete),
        at_tokens={name: _at(curve, spent) for name, curve in curves.items()},
        learned=mean(within[0]),
        gains={name: gain for name, gain in gains.items() if gain is not None},
        less=mean(test.within(table, LESS * spent)[0]),
        own=mean(test.within(test.ranked(own), spent)[0]),
        requests=mean(test.within(test.ranked(requests), spent)[0]),
        presets={name: _preset(name, test, shipped, complete) for name in PRESETS},
        requests_of_both=len(side) + len(tuning.side),
        budgets=_budgets([test, tuning], shipped),
        oracle=_oracle(test),
        everything=float(np.mean([row @ side.item_tokens for row in side.batch.eligible])),
    )


def _preset(name: str, test: Half, shipped: Logistic, documents: FloatArray) -> Preset:
    values = definition("learned").values(name)
    threshold, at_most = float(values["threshold"]), int(values["at_most"])
    complete, tokens = test.measured(cut(test.ranked(shipped), test, threshold=threshold, at_most=at_most))
    against = compare(documents, complete, scale="yes/no")
    return Preset(tokens=mean(tokens), complete=mean(complete), against=against)


def _budgets(splits: Sequence[Half], shipped: Logistic) -> dict[str, Budget]:
    """A budget for the mean tokens of each preset, set on some requests and measured on the others."""
    prices = _joined([Prices.of_table(split.ranked(shipped), split.side.item_tokens) for split in splits])
    values = {name: definition("learned").values(name) for name in PRESETS}
    settings = {name: (int(preset["at_most"]), float(preset["threshold"])) for name, preset in values.items()}
    return {name: _budget(prices, prices.tokens(*setting)) for name, setting in settings.items()}


def _budget(prices: Prices, tokens: float) -> Budget:
    """A budget set on `REQUESTS` requests, in `DRAWS` draws."""
    if prices.n < FEWEST:
        return Budget()
    rng, shares = np.random.default_rng(0), []
    for _ in range(DRAWS):
        drawn = rng.permutation(prices.n) < REQUESTS
        part = _selected(prices, drawn)
        setting = part.setting_within(max(tokens, part.tokens(1, -np.inf)))
        shares.append(_selected(prices, ~drawn).tokens(*setting) / part.tokens(*setting))
    spent = prices.by_request(*prices.setting_within(tokens))
    chance = float(spent.std() / spent.mean() * np.sqrt(1 / REQUESTS + 1 / (prices.n - REQUESTS)))
    return Budget(shares=tuple(shares), chance=chance)


def _selected(prices: Prices, requests: BoolArray) -> Prices:
    """The prices of the requests where `requests`, shape (n_requests,), is True."""
    rows, number = requests[prices.request], np.cumsum(requests) - 1
    arrays = {name: getattr(prices, name)[rows] for name in ("rank", "score", "cost")}
    return replace(prices, request=number[prices.request[rows]], n=int(requests.sum()), **arrays)


def _joined(parts: Sequence[Prices]) -> Prices:
    """The prices of all requests of several parts."""
    first = np.cumsum([0, *(part.n for part in parts)])
    arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ("rank", "score", "cost")}
    request = np.concatenate([part.request + start for part, start in zip(parts, first, strict=False)])
    return replace(parts[0], request=request, n=int(first[-1]), **arrays)


def _oracle(test: Half) -> float:
    """Mean tokens of the required items that a search may offer; of alternatives the cheapest."""
    dataset, spent = test.side.dataset, 0
    judgments, eligible = dataset.judgments, test.side.batch.eligible
    for query in range(len(dataset)):
        span = slice(int(judgments.start[query]), int(judgments.start[query + 1]))
        required = judgments.grade[span] == 2
        for group in np.unique(judgments.group[span][required]):
            items = judgments.item[span][required & (judgments.group[span] == group)]
            items = items[eligible[query, items]]
            spent += int(test.side.item_tokens[items].min(initial=10**9)) if len(items) else 0
    return spent / max(len(dataset), 1)


def _at(curve: Curve, tokens: float) -> float:
    spent, complete = curve.means()
    return float(np.interp(tokens, spent, complete))


def _head(name: str) -> Pipeline:
    """A selector up to its first cut."""
    whole = definition(name).pipeline(definition(name).values())
    steps: Iterator = itertools.takewhile(lambda step: step.kind == "rank", whole.refine)
    return replace(whole, refine=tuple(steps))


if __name__ == "__main__":
    run_script(main)
