"""What the shipped ranking gains: `python experiments/learned/measure.py` (part of `make learned`).

Measured on test splits. Each dataset is ranked by a fit that has seen none of its family: no dataset with the same
items, nor by the same authors. Writes reports/learned.md.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

sys.path.extend([str(Path(__file__).parent), str(Path(__file__).parents[1])])

import numpy as np
import pandas as pd
from dots import dot_picture, gain_cell, mean_gain, points
from labels import ALONE, AROUND, N_LABELS, REQUESTS, own_labels
from pages import Page, Tables, run_page
from pooled import fit_examples
from world import FAMILIES, TEST, TUNING, Half, cut, halves, mean, resources

from ctxbench.evaluation.comparisons import Curve, at_equal_tokens
from ctxbench.evaluation.statistics import Comparison, compare
from ctxbench.model.arrays import BoolArray
from ctxbench.pipelines.features import Logistic
from ctxbench.pipelines.fits import SHIPPED, open_calibrations
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.selectors.definitions import definition
from ctxbench.tuning.preset_files import Prices
from ctxbench.tuning.query_fits import fit_with_prior
from ctxbench.tuning.results import rank_with_pipeline
from ctxbench.tuning.tuner import first_items_curve

COMPARATORS = ("semantic", "bm25", "hybrid")
PRESETS = ("aggressive", "normal", "conservative")
LABEL_DRAWS = 3  # of labels, for a dataset and a number of labels
DRAWS, REQUESTS_DRAWN = 20, 200  # of the budgets set without labels
FEWEST = 300  # requests of a dataset on which budgets are measured
KINDS = {
    "tools": ("bfcl", "livemcpbench", "metatool", "toollens"),
    "rules, references and tools": ("workbench", "freight"),
    "skills and rules": ("skills",),
    "chats and memories": ("locomo", "diary"),
}
"""Families of datasets by what their catalogs hold."""
OVER = {"semantic": "specification's ranking", "hybrid": "hybrid"}


def measure() -> Tables:
    """Tables by dataset: completeness at equal tokens, presets, budgets, own labels."""
    began, opened = time.monotonic(), resources()

    def say(text: str) -> None:
        sys.stderr.write(f"{time.monotonic() - began:6.0f} s  {text}\n")

    tuning, test = (halves(split, opened, say) for split in (TUNING, TEST))
    shipped = {family: left_out(family, tuning) for family in FAMILIES}
    both = list(zip(test, tuning, strict=True))
    datasets, presets, budgets, labels = [], [], [], []
    for half, tuning_half in both:
        say(f"measuring {half.name}")
        model = shipped[half.family]
        datasets.append(at_tokens_of_defaults(half, tuning_half, model))
        presets += preset_rows(half, model)
        budgets += budget_rows([half, tuning_half], model)
    for n, (half, tuning_half) in itertools.product(N_LABELS, both):
        say(f"{n} labels of {half.name}")
        labels += own_labels(n, test=half, tuning=tuning_half, shipped=shipped[half.family], draws=LABEL_DRAWS)
    by_draw = pd.DataFrame(labels).groupby(["dataset", "labels", "fit"], sort=False)[["gain", "expected"]]
    return {
        "": pd.DataFrame(datasets),
        "presets": pd.DataFrame(presets),
        "budgets": pd.DataFrame(budgets),
        "labels": by_draw.mean().reset_index(),
    }


def left_out(family: str, tuning: Sequence[Half]) -> Logistic:
    """The ranking fitted without a family."""
    others = [half for half in tuning if half.family != family]
    return Logistic.read(fit_examples([half.made for half in others], [half.family for half in others]))


def at_tokens_of_defaults(test: Half, tuning: Half, shipped: Logistic) -> dict[str, object]:
    """Completeness at the mean tokens of the specification's defaults, and gains over comparators' first n."""
    side, spent = test.side, test.default_tokens
    heads = {name: rank_with_pipeline(_head(name), side).answers.candidates for name in COMPARATORS}
    curves = {name: first_items_curve(table, side.labels) for name, table in heads.items()}
    within = test.within(test.ranked(shipped), spent)
    own_fit, with_requests = (
        mean(test.within(test.ranked(Logistic.read(fit_with_prior(examples, shipped))), spent)[0])
        for examples in (tuning.made, tuning.labelled)
    )
    row: dict[str, object] = {"dataset": test.name, "family": test.family, "queries": len(side), "tokens": spent}
    row |= {"spec_complete": mean(test.default[0]), "learned_complete": mean(within[0])}
    for name, curve in curves.items():
        row[f"{name}_complete"] = _at(curve, spent)
        gain = at_equal_tokens(*within, curve, groups=side.group).comparison
        row |= _difference(gain, f"over_{name}")
    row |= {"own_fit_complete": own_fit, "own_fit_requests_complete": with_requests}
    everything = float(np.mean([eligible @ side.item_tokens for eligible in side.batch.eligible]))
    return row | {"oracle_tokens": _oracle(test), "all_tokens": everything}


def _difference(comparison: Comparison | None, name: str) -> dict[str, float]:
    """A difference with its interval; NaN where a comparator cannot cost as much."""
    if comparison is None:
        return dict.fromkeys((name, f"{name}_low", f"{name}_high"), np.nan)
    interval = comparison.interval
    return {name: comparison.difference, f"{name}_low": interval.low, f"{name}_high": interval.high}


def preset_rows(test: Half, shipped: Logistic) -> Iterator[dict[str, object]]:
    """Tokens and completeness of each preset, compared with the specification's defaults."""
    for name in PRESETS:
        values = definition("learned").values(name)
        threshold, at_most = float(values["threshold"]), int(values["at_most"])
        complete, tokens = test.measured(cut(test.ranked(shipped), test, threshold=threshold, at_most=at_most))
        row = {"dataset": test.name, "family": test.family, "preset": name, "tokens": mean(tokens)}
        row |= {"token_ratio": mean(tokens) / test.default_tokens, "complete": mean(complete)}
        gain = compare(test.default[0], complete, scale="yes/no")
        yield row | {"difference": gain.difference, "low": gain.interval.low, "high": gain.interval.high}


def budget_rows(splits: Sequence[Half], shipped: Logistic) -> Iterator[dict[str, object]]:
    """Budgets of the mean tokens of each preset, set on some requests and measured on the others, `DRAWS` times.

    Tokens on the others are shares of those on the drawn ones. `by_chance` is the standard error of such a share if
    only chance differs. Nothing where there are few requests.
    """
    prices = _joined([Prices.of_table(split.ranked(shipped), split.side.item_tokens) for split in splits])
    if prices.n < FEWEST:
        return
    for name in PRESETS:
        values = definition("learned").values(name)
        tokens = prices.tokens(int(values["at_most"]), float(values["threshold"]))
        rng, shares = np.random.default_rng(0), []
        for _ in range(DRAWS):
            drawn = rng.permutation(prices.n) < REQUESTS_DRAWN
            part = _selected(prices, drawn)
            setting = part.setting_within(max(tokens, part.tokens(1, -np.inf)))
            shares.append(_selected(prices, ~drawn).tokens(*setting) / part.tokens(*setting))
        spent = prices.by_request(*prices.setting_within(tokens))
        chance = spent.std() / spent.mean() * np.sqrt(1 / REQUESTS_DRAWN + 1 / (prices.n - REQUESTS_DRAWN))
        row = {"dataset": splits[0].name, "requests": prices.n, "preset": name, "lowest": min(shares)}
        within = np.mean(np.abs(np.array(shares) - 1) <= 0.1)
        yield row | {"highest": max(shares), "within_tenth": within, "by_chance": float(chance)}


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


# ---------------------------------------------------------------------------------------------------- the page


def page(tables: Tables) -> Page:
    """The page of these tables: means by kind of item, every dataset weighing the same."""
    rows, presets = tables[""], tables["presets"]
    tools = rows[rows["family"].isin(KINDS["tools"])]
    spec, hybrid = ([100 * some[f"over_{name}"].mean() for some in (tools, rows)] for name in ("semantic", "hybrid"))
    return Page(
        title="What does the shipped ranking gain?",
        answer=(
            f"At equal tokens, `learned` is {spec[0]:.1f} points more complete than the specification's ranking on "
            f"tools, {spec[1]:.1f} on all {len(rows)} datasets; than `hybrid` {hybrid[0]:.1f} and {hybrid[1]:.1f}."
        ),
        picture=dot_picture(
            {row["dataset"]: {label: _gain(row, name) for name, label in OVER.items()} for _, row in rows.iterrows()},
            x="points of completeness above, at equal tokens",
            alt="Completeness of learned above the specification's ranking and above hybrid, by dataset",
        ),
        table=[_kind_row(kind, rows, presets) for kind in (*KINDS, "all")],
        notes=(
            """Completeness: the share of queries that were offered every required item. `over spec`, `over hybrid`:
            points at the tokens of the specification's defaults above as many items of its ranking (or of `hybrid`) as
            these tokens buy, with 95% intervals. Presets: tokens relative to the specification's defaults, and points
            of completeness above them.""",
            _labels_note(tables["labels"]),
            _budgets_note(tables["budgets"]),
            "## What it was fitted on",
            _fit_note(),
        ),
        made="""`make learned`: test splits, at most 500 queries of each dataset, o200k tokens. Each dataset is ranked
        by a fit without its family: the three of BFCL, the two of MetaTool and of LoCoMo are left out together;
        workbench, freight, skills and diary are by one author, each left out alone. Features, the cut and presets
        were chosen on tuning splits; the test splits were looked at on the way.""",
    )


def _fit_note() -> str:
    """The datasets and the features of the fit that ships, and which figures of these datasets may be reported."""
    (fit,) = open_calibrations(SHIPPED).fits
    features = ", ".join(f"`{name}`" for name in fit.values["columns"])
    return f"""{fit.queries:,} requests of the split `{fit.split}` of {len(fit.values["datasets"])} datasets:
        {", ".join(fit.values["datasets"])}. Features: {features}. Of these datasets, and of those made from them,
        report figures of `split: test` only, and say that the test splits were looked at on the way; below other tables
        a note says that `learned` was fitted on their labels. On other datasets it was not fitted."""


def _kind_row(kind: str, rows: pd.DataFrame, presets: pd.DataFrame) -> dict[str, str]:
    families = KINDS.get(kind) or tuple(rows["family"])
    members = rows[rows["family"].isin(families)]
    worst = members.loc[members["over_semantic"].idxmin()]
    cells = {
        "items": kind,
        "datasets": str(len(members)),
        "over spec": _mean(_gain(row, "semantic") for _, row in members.iterrows()),
        "worst": f"{points(worst['over_semantic'])}, {worst['dataset']}",
        "over hybrid": _mean(_gain(row, "hybrid") for _, row in members.iterrows()),
    }
    for name in PRESETS:
        some = presets[presets["family"].isin(families) & (presets["preset"] == name)]
        ratio = np.exp(np.log(some["token_ratio"]).mean())
        cells[name] = f"{ratio:.2f} x, {gain_cell(mean_gain(some))}"
    return cells


def _gain(row: pd.Series, name: str) -> dict[str, float]:
    """A gain over a comparator's first n, with its interval."""
    column = f"over_{name}"
    return {"difference": row[column], "low": row[f"{column}_low"], "high": row[f"{column}_high"]}


def _mean(gains: Iterable[Mapping[str, float]]) -> str:
    return gain_cell(mean_gain(pd.DataFrame(gains)))


def _labels_note(labels: pd.DataFrame) -> str:
    gains = labels.groupby(["fit", "labels"])["gain"].mean()
    few = labels[(labels["fit"] == REQUESTS) & (labels["labels"] == 100)].set_index("dataset")["gain"]
    listed = ", ".join(f"{points(gains[REQUESTS, n])} with {n}" for n in N_LABELS)
    worst = labels.groupby("fit")["gain"].min()
    return f"""Your own labels (`ctxbench calibrate probability`) add to this, in points, means over the datasets that
    have as many: {listed}; most where requests repeat themselves ({points(few.max())} with 100 on
    `{few.idxmax()}`), nothing where no two need the same item. The worst of any dataset is
    {points(worst[REQUESTS])}. Without what similar requests needed, 25 labels add {points(gains[AROUND, 25])}, worst
    {points(worst[AROUND])}; without the shipped weights {points(gains[ALONE, 25])}, worst {points(worst[ALONE])}."""


def _budgets_note(budgets: pd.DataFrame) -> str:
    return f"""Without labels, a budget set on {REQUESTS_DRAWN} requests (`ctxbench tune --unlabelled`) costs 0.9 to
    1.1 times as much on other requests in {budgets["within_tenth"].mean():.0%} of draws; the worst are
    {budgets["lowest"].min():.2f} and {budgets["highest"].max():.2f}."""


if __name__ == "__main__":
    run_page("learned", measure, page, about=__doc__.splitlines()[0])
