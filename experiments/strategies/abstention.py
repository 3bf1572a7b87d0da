"""reports/abstention.md (`make abstention`): offering nothing where nothing is needed, by a fitted probability."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).parents[1]))

from dots import WIDTH, local
from pages import Page, Picture, Tables, each, run_page
from trials import (
    AbstentionData,
    abstention_trial,
    fitted_probability,
    joined_groups,
    ratio_interval,
    similarity,
)

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.lookup import open_dataset
from ctxbench.evaluation.statistics import holm, sign_flip
from ctxbench.model.arrays import FloatArray
from ctxbench.model.resources import Resources
from ctxbench.pipelines.features import Logistic
from ctxbench.pipelines.fits import ABSTENTION, Fit
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.report.charts import colours
from ctxbench.report.pages import axes_at
from ctxbench.selectors.definitions import definition
from ctxbench.selectors.selector import PipelineSelector
from ctxbench.tuning.fit_examples import ALL, Examples, labelled_queries, make_examples
from ctxbench.tuning.query_fits import fit

ROOT = Path(__file__).parents[2]
LISTED = "bfcl-live-listed"  # its queries come with lists of their own, and some of one function are in two groups
DATASETS = {LISTED: LISTED, "workbench": str(ROOT / "datasets" / "workbench")}
FEWER, LOSS = 0.40, 0.02  # the share of false inclusions that is to go, and recall that may be lost
ALLOWED = 0.01  # recall that the threshold may lose where it is chosen, out of fold: other queries may lose more
FOLDS, POINTS = 5, 200
SIGNALS: dict[str, Callable[[Examples], FloatArray]] = {"fitted": fitted_probability, "similarity": similarity}
FOLDED, ALONE = "all, in folds", "test split"


@dataclass(frozen=True)
class Case:
    """The specification's defaults on the queries of one dataset."""

    name: str
    dataset: Dataset
    resources: Resources

    @property
    def pipeline(self) -> Pipeline:
        """The specification's defaults."""
        shipped = definition("semantic")
        return shipped.pipeline(shipped.values("spec"))

    def data(self, part: Dataset, score: Callable[[Examples], FloatArray]) -> AbstentionData:
        """What the defaults offer the queries of a part, with a signal."""
        examples = make_examples(ABSTENTION, part, self.pipeline, self.resources)
        selector = PipelineSelector("default", self.pipeline, self.resources)
        return AbstentionData.of(examples, selector, part, score(examples))

    def folded(self, score: Callable[[Examples], FloatArray]) -> tuple[AbstentionData, AbstentionData]:
        """Before and after, all queries, fit and threshold of a fold from the others; what shares items is joined."""
        part = labelled_queries(self.dataset, ALL)
        whole = self.data(part, similarity)
        if self.name == LISTED:
            groups = joined_groups(whole.examples.groups, part.batch().eligible)
            whole = replace(whole, examples=replace(whole.examples, groups=groups))
        trial = abstention_trial(whole, score, lost=(ALLOWED,), folds=FOLDS)
        return trial.before, trial.after[ALLOWED]

    def alone(self, score: Callable[[Examples], FloatArray]) -> tuple[AbstentionData, AbstentionData]:
        """Before and after, the test split, fit and threshold from the tuning split."""
        tuning, test = (labelled_queries(self.dataset, split) for split in ("tuning", "test"))
        limit = self.data(tuning, score).threshold(ALLOWED)
        if score is fitted_probability:
            score = partial(_by_fit, fit(ABSTENTION, self.dataset, self.pipeline, self.resources))
        before = self.data(test, score)
        return before, before.without(before.signal < limit)


def _by_fit(fitted: Fit, examples: Examples) -> FloatArray:
    return Logistic.read(fitted.values).probabilities(examples.features, examples.vectors)


def measure(datasets: Mapping[str, str] = DATASETS) -> Tables:
    """What is gone and lost by dataset, reading and signal, and the curves over all queries."""
    parts = list(each(of_dataset, list(datasets.items())))
    table = pd.DataFrame([row for rows, _ in parts for row in rows])
    curves = [curve for _, of_part in parts for curve in of_part]
    return {"": table.assign(p=holm(table["p"].tolist())), "curves": pd.concat(curves)}


def of_dataset(named: tuple[str, str]) -> tuple[list[dict[str, Any]], list[pd.DataFrame]]:
    """The rows and curves of a dataset, by its name and path."""
    name, path = named
    case, rows, curves = Case(name, open_dataset(path), local()[0]), [], []
    for signal, score in SIGNALS.items():
        for reading, (before, after) in {FOLDED: case.folded(score), ALONE: case.alone(score)}.items():
            rows.append({"dataset": name, "reading": reading, "signal": signal} | effect(before, after))
            if reading == FOLDED:
                step = max(len(before.lost) // POINTS, 1)
                ends = {"lost": before.lost[::step], "gone": before.removed_share[::step]}
                curves.append(pd.DataFrame({"dataset": name, "signal": signal} | ends))
    return rows, curves


def effect(before: AbstentionData, after: AbstentionData) -> dict[str, Any]:
    """Shares of false inclusions that are gone and recall lost, with intervals by group; p by sign flips of groups."""
    needs, groups = before.examples.needs, before.examples.groups
    idle = list(compress(groups, ~needs))
    sides = {
        "queries": [side.falsely_offered[~needs].astype(np.float64) for side in (before, after)],
        "items": [side.items[~needs] for side in (before, after)],
    }
    row: dict[str, Any] = {"n_idle": int((~needs).sum()), "n_needing": int(needs.sum())}
    for name, (was, now) in sides.items():
        interval = ratio_interval(was - now, was, idle)
        gone = float((was - now).sum() / max(was.sum(), 1.0))
        row |= {name: gone, f"{name}_low": interval.low, f"{name}_high": interval.high}
    lost = (before.recall - after.recall)[needs]
    interval = ratio_interval(lost, np.ones(len(lost)), list(compress(groups, needs)))
    row |= {"lost": float(lost.mean()), "lost_low": interval.low, "lost_high": interval.high}
    was, now = sides["queries"]
    group = np.unique(np.array(idle, dtype=object), return_inverse=True)[1]
    return row | {"p": sign_flip(np.bincount(group, weights=now - was))}


def page(tables: Tables) -> Page:
    """Both signals on each dataset, by both readings."""
    rows = tables[""]
    main = rows[(rows["signal"] == "fitted") & (rows["reading"] == FOLDED)]
    gone = " and ".join(f"{100 * value:.0f}%" for value in main["queries"])
    lost = " and ".join(f"{100 * value:.1f}" for value in main["lost"])
    return Page(
        title="Offering nothing where nothing is needed",
        answer=f"With labels: a fitted probability spares {gone} of false inclusions on two datasets, for {lost} "
        "points of recall.",
        picture=_curves(tables["curves"]),
        table=list(_lines(rows)),
        notes=(
            (
                "A false inclusion is a request that needs nothing and is offered something (by query), or an item "
                "that it is offered (by item). Recall is the share of required items that are offered, by requests "
                f"that need some. The bar: at least {FEWER:.0%} gone, by query and by item, for at most {100 * LOSS:g} "
                "points of recall. Queries: those that need nothing + those that need something."
            ),
            (
                f"A fit of abstention is of one catalog, model and retrieval. Many queries of `{LISTED}` that need "
                "nothing name the task of a listed function but lack a value for it, which words and vectors do not "
                "show."
            ),
        ),
        made="`make abstention`. What the specification's defaults offer, and nothing where the signal is below a "
        f"threshold: the highest that loses at most {100 * ALLOWED:g} point of recall where it is chosen, out of "
        f"fold. *{FOLDED}*: every query of both splits, fit and threshold from the other {FOLDS - 1} of {FOLDS} "
        f"folds; groups of queries over lists that share a function are in one fold. *{ALONE}*: fit and "
        "threshold from the tuning split. Some features of the fit were added after earlier figures of the test "
        "split had been read. Intervals (95%) and p (sign flips, Holm-corrected over the table, of requests "
        "falsely offered something) are by group.",
    )


def _lines(rows: pd.DataFrame) -> Iterator[dict[str, str]]:
    for row in rows.to_dict("records"):
        met = min(row["queries"], row["items"]) >= FEWER and row["lost"] <= LOSS
        yield {
            "dataset": row["dataset"],
            "queries": f"{row['reading']}: {row['n_idle']:,} + {row['n_needing']:,}",
            "signal": row["signal"],
            **{f"gone by {name}, %": _range(row, key, 0) for name, key in (("query", "queries"), ("item", "items"))},
            "recall lost, points": _range(row, "lost", 1),
            "bar": "holds" if met else "no",
            "p": "< 0.001" if row["p"] < 0.001 else f"{row['p']:.3f}",
        }


def _range(row: Mapping[str, float], key: str, digits: int) -> str:
    value, low, high = (100 * row[name] for name in (key, f"{key}_low", f"{key}_high"))
    return f"{value:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def _curves(curves: pd.DataFrame) -> Picture:
    """False inclusions gone against recall lost: a colour a dataset, dashes for the similarity."""

    def draw(figure: Any) -> None:
        ax = axes_at(figure, 62.0, 46.0, WIDTH - 80.0, 270.0)
        for dataset, colour in colours(dict.fromkeys(curves["dataset"])).items():
            for signal, dash in (("fitted", "-"), ("similarity", "--")):
                part = curves[(curves["dataset"] == dataset) & (curves["signal"] == signal)]
                style: dict[str, Any] = {
                    "color": colour,
                    "linestyle": dash,
                    "linewidth": 2.2,
                    "drawstyle": "steps-post",
                }
                ax.plot(100 * part["lost"], 100 * part["gone"], label=f"{dataset}, {signal}", **style)
        ax.set(xlim=(0, 8), ylim=(0, 100), xlabel="recall lost, points", ylabel="false inclusions gone, %")
        figure.legend(loc="upper left", ncols=2, frameon=False, fontsize=11.5, bbox_to_anchor=(0.1, 1.0))

    return Picture(
        draw=draw,
        alt="False inclusions gone against recall lost, by dataset, for a fitted probability and for the similarity",
        width=WIDTH,
        height=370.0,
    )


if __name__ == "__main__":
    run_page("abstention", measure, page, about=__doc__)
