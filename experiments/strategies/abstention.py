"""What a calibrated probability is worth: as a cut on `bfcl-simple`, and for offering nothing where nothing is needed.

Writes reports/abstention.md and two figures beside it. Run from the project's folder with the public datasets
imported: `python experiments/strategies/abstention.py`. Fits and thresholds come from the tuning split or, on
`bfcl-simple`, from the other folds; the test split is read for the final figures only.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "learned"))

import abstention_tables as tables
import numpy as np
from trials import (
    AbstentionData,
    AbstentionTrial,
    abstention_trial,
    cut_trial,
    fitted_probability,
    joined_groups,
    recall_of_first,
    similarity,
)
from world import FAMILIES, fitted

from ctxbench.cli.common import run_script
from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.lookup import open_dataset
from ctxbench.evaluation.statistics import Comparison, correct
from ctxbench.io.files import cache_dir, write_atomic
from ctxbench.model.arrays import BoolArray, FloatArray, IntArray
from ctxbench.model.strategies import Step
from ctxbench.pipelines.features import Logistic
from ctxbench.pipelines.fits import ABSTENTION, PROBABILITY, Fit, write_calibrations
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.pipelines.strategies.cut import Abstain
from ctxbench.report.charts import Ring, Scale, line_chart
from ctxbench.report.pages import titles, write_parted
from ctxbench.search.embedders import Vectors, VectorStore, open_embedder
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import open_counter
from ctxbench.selectors.definitions import definition
from ctxbench.selectors.selector import PipelineSelector
from ctxbench.tuning.fit_examples import ALL, Examples, labelled_queries, make_examples
from ctxbench.tuning.query_fits import CutCurve, CutPoint, fit, roc_area, roc_area_interval

ROOT = Path(__file__).parents[2]
REPORTS = ROOT / "reports"
SIMPLE, FOLDS = "bfcl-simple", 5
BARS = {2.8: 0.93, 4.5: 0.96}  # mean items a query, and the recall wanted with them
AIM = 0.9  # share of these items that the threshold is to give on the other folds: a fold may get more than they do
SILENT = {"bfcl-live-listed": "bfcl-live-listed", "workbench": str(ROOT / "datasets" / "workbench")}
LOSS, FEWER = 0.02, 0.40  # recall that may be lost, and the share of false inclusions that is to go
LOSSES = (0.005, 0.01, 0.015, 0.02)
ALLOWED = 0.01  # recall that the threshold may lose where it is chosen, out of fold: other queries may lose more
DEALINGS = 5  # other ways to deal the groups into folds
LISTED = "bfcl-live-listed"  # its queries come with lists of their own, and some of one function are in two groups
CALIBRATED, BEST, BY_GROUP = "calibrated probability", "best similarity", "calibrated probability, groups not joined"


@dataclass(frozen=True, eq=False)
class CutTrial:
    """A score on `bfcl-simple`: what thresholds give on new queries, by bar, and its curve out of fold."""

    points: Mapping[float, CutPoint]
    curve: CutCurve
    first: FloatArray

    def met(self, items: float) -> bool:
        """Whether a bar is met."""
        point = self.points[items]
        return point.recall.value >= BARS[items] and point.items.value <= items


def cut_trials(made: Examples, known: Logistic) -> dict[str, CutTrial]:
    """The probability, calibrated around what is known of other datasets, and the similarity."""
    trials = {}
    for name, score in {CALIBRATED: partial(fitted_probability, earlier=known), "similarity": similarity}.items():
        points = {items: cut_trial(made, score, items=AIM * items, folds=FOLDS) for items in BARS}
        own = score(made)
        trials[name] = CutTrial(points, CutCurve.of(made, own), recall_of_first(made, own, 8))
    return trials


def cut_section(made: Examples, known: Logistic, trials: Mapping[str, CutTrial]) -> Iterator[str]:
    """The table of cuts."""
    yield f"| {made.n_queries} queries, {FOLDS} folds | mean items | recall | wanted |"
    yield "| --- | --- | --- | --- |"
    for name, one in trials.items():
        for items, recall in BARS.items():
            point = f"{tables.estimated(one.points[items].items, 2)} | {tables.estimated(one.points[items].recall)}"
            wanted = f"{recall} at {items}: {tables.verdict(one.met(items))}"
            yield f"| threshold on the {name} | {point} | {wanted} |"
    for name, one in trials.items():
        yield f"| the first 1, 3, 5 by {name} | 1, 3, 5 | {', '.join(f'{one.first[n - 1]:.3f}' for n in (1, 3, 5))} | |"
    said, groups = fitted_probability(made, earlier=known), [made.groups[query] for query in made.query]
    inside = tables.figure(roc_area(made.label, said), roc_area_interval(made.label, said, groups))
    yield ""
    yield f"Area under the ROC curve over all {len(made.label):,} candidates: {inside} for the probability,"
    by_similarity = roc_area(made.label, similarity(made))
    yield f"{by_similarity:.3f} for the similarity. Is it a probability? Candidates out of fold:"
    yield ""
    yield from tables.said_and_was(made.label, said)


def cut_figure(trials: Mapping[str, CutTrial]) -> str:
    """Recall against items."""
    lines = {
        f"threshold on the {name}, out of fold": (t.curve.items[1:], t.curve.recall[1:]) for name, t in trials.items()
    }
    lines |= {f"the first 1 to 8 by {name}": (np.arange(1.0, 9.0), t.first) for name, t in trials.items()}
    rings = [Ring(name, p.items.value, p.recall.value) for name, t in trials.items() for p in t.points.values()]
    return line_chart(lines, x=Scale("mean items a query", 0, 8), y=Scale("recall", 0.6, 1), rings=rings)


@dataclass(frozen=True, eq=False)
class Trial:
    """One dataset: all queries in folds, both splits by each signal, and the engine with `abstain` on the test split.

    `dealt` is what is lost and gone in all queries with groups dealt into folds otherwise; `apart` are the queries of
    the test split that share no item of their lists with any query of the tuning split.
    """

    nested: Mapping[str, AbstentionTrial]
    dealt: FloatArray
    tuning: Mapping[str, AbstentionData]
    test: Mapping[str, AbstentionData]
    apart: BoolArray
    after: AbstentionData
    size: IntArray
    limit: float


def trial(name: str, resources: LocalResources, folder: Path) -> Trial:
    """Fit and choose on the tuning split, then run the engine on the test split."""
    dataset, own = open_dataset(SILENT[name]), definition("semantic")
    pipeline = own.pipeline(own.values("spec"))
    found = fit(ABSTENTION, dataset, pipeline, resources)
    write_calibrations(folder / f"{name}.json", [found])
    tuning, test = (labelled_queries(dataset, split) for split in ("tuning", "test"))
    by_tuning = silences(tuning, pipeline, resources, None)
    by_test = silences(test, pipeline, resources, found)
    limit = by_tuning[CALIBRATED].threshold(ALLOWED)
    step = Step("cut", "abstain", Abstain(str(folder / f"{name}.json"), limit))
    silent = PipelineSelector("abstain", replace(pipeline, refine=(*pipeline.refine, step)), resources)
    made = by_test[CALIBRATED].examples
    after = AbstentionData.of(made, silent, test, by_fit(found, made))
    nested = in_folds(name, labelled_queries(dataset, ALL), pipeline, resources)
    joined = nested[CALIBRATED].before.examples
    known = dict(zip(joined.ids, joined.groups, strict=True))
    met = {known[query] for query in by_tuning[CALIBRATED].examples.ids}
    apart = np.array([known[query] not in met for query in made.ids])
    size = test.batch().eligible.counts()
    dealt = np.array([dealt_otherwise(nested[CALIBRATED].before, number) for number in range(DEALINGS)])
    return Trial(nested, dealt, by_tuning, by_test, apart, after, size, limit)


def in_folds(name: str, whole: Dataset, pipeline: Pipeline, resources: LocalResources) -> dict[str, AbstentionTrial]:
    """Every query out of fold, fit and threshold from the other folds."""
    made = make_examples(ABSTENTION, whole, pipeline, resources)
    asked = AbstentionData.of(made, PipelineSelector("default", pipeline, resources), whole, similarity(made))
    again = partial(abstention_trial, lost=LOSSES, folds=FOLDS)
    if name != LISTED:
        return {CALIBRATED: again(asked, fitted_probability), BEST: again(asked, similarity)}
    groups = joined_groups(made.groups, whole.batch().eligible)
    joined = replace(asked, examples=replace(made, groups=groups))
    signals = {CALIBRATED: again(joined, fitted_probability), BEST: again(joined, similarity)}
    return signals | {BY_GROUP: again(asked, fitted_probability)}


def dealt_otherwise(whole: AbstentionData, number: int) -> tuple[float, float, float]:
    """What is lost and gone if groups go into other folds: the hash of a name decides, and they get other names."""
    made = replace(whole.examples, groups=tuple(f"{number} {group}" for group in whole.examples.groups))
    tried = abstention_trial(replace(whole, examples=made), fitted_probability, lost=(ALLOWED,), folds=FOLDS)
    return tables.gone(tried.before, tried.after[ALLOWED])


def silences(
    part: Dataset, pipeline: Pipeline, resources: LocalResources, found: Fit | None
) -> dict[str, AbstentionData]:
    """The default on a split by each signal; without a fit, probabilities are out of fold."""
    made, default = (
        make_examples(ABSTENTION, part, pipeline, resources),
        PipelineSelector("default", pipeline, resources),
    )
    scores = {CALIBRATED: fitted_probability if found is None else partial(by_fit, found), BEST: similarity}
    return {signal: AbstentionData.of(made, default, part, score(made)) for signal, score in scores.items()}


def by_fit(found: Fit, made: Examples) -> FloatArray:
    """The probabilities of a fit."""
    return Logistic.read(found.values).probabilities(made.features, made.vectors)


def silence_section(one: Trial, p: Mapping[str, Mapping[str, Comparison]]) -> Iterator[str]:
    """The tables of one dataset."""
    nested, before, needs = one.nested[CALIBRATED], one.test[CALIBRATED], one.after.examples.needs
    made, bars = nested.before.examples, {"fewer": FEWER, "loss": LOSS}
    yield f"All {len(made.needs):,} queries in {FOLDS} folds, of which {int(made.needs.sum()):,} need something."
    for table in (
        tables.silence_table(nested.before, nested.after[ALLOWED], p["all"], **bars),
        tables.nested_table(one.nested),
        [dealings(one.dealt)],
        [f"The test split alone: {len(needs):,} queries, {needs.sum():,} in need. Threshold {one.limit:.3f}."],
        tables.silence_table(before, one.after, p["test"], **bars),
        tables.area_table(one.tuning, one.test, one.size),
        tables.trade_table(one.tuning, one.test, LOSSES),
        tables.said_and_was(needs, before.signal),
    ):
        yield ""
        yield from table


def dealings(dealt: FloatArray) -> str:
    """How far the figures depend on the folds."""
    low, high = dealt.min(axis=0), dealt.max(axis=0)
    spans = [f"{low[place]:.{digits}f} to {high[place]:.{digits}f}" for place, digits in ((0, 4), (1, 3), (2, 3))]
    said = f"lost is {spans[0]} of recall, and gone {spans[1]} by query and {spans[2]} by item"
    return f"With groups dealt into folds in {DEALINGS} other ways, and {ALLOWED:g} allowed, {said}."


def concluded(cuts: Mapping[str, CutTrial], trials: Mapping[str, Trial]) -> Iterator[str]:
    """The verdict in words."""
    met = {name: sum(one.met(items) for items in BARS) for name, one in cuts.items()}
    by = f"by probability meets {met[CALIBRATED]} of {len(BARS)} bars, one by similarity {met['similarity']}"
    yield f"* `{SIMPLE}`: a cut {by}."
    for name, one in trials.items():
        nested, test = one.nested[CALIBRATED], one.test[CALIBRATED]
        yield f"* `{name}`, all queries in folds: {tables.held(nested.before, nested.after[ALLOWED], FEWER, LOSS)}"
        yield f"* `{name}`, the test split alone: {tables.held(test, one.after, FEWER, LOSS)}"
        most, plain = test.effect_of(test.threshold(LOSS)), one.test[BEST].effect_of(one.test[BEST].threshold(LOSS))
        yield (
            f"  Where the curve of the test split itself crosses {LOSS}, which no choice beforehand can aim at, "
            f"{most[1]:.0%} and {most[2]:.0%} are gone; by the best similarity, {plain[1]:.0%} and {plain[2]:.0%}."
        )


def answer(cuts: Mapping[str, CutTrial], trials: Mapping[str, Trial]) -> str:
    """What the probability is worth both ways, as one sentence."""
    lost = {name: tables.gone(one.nested[CALIBRATED].before, one.nested[CALIBRATED].after[ALLOWED])
            for name, one in trials.items()}  # fmt: skip
    alone = {name: tables.gone(one.test[CALIBRATED], one.after) for name, one in trials.items()}
    points = {name: (one.points[min(BARS)].items.value, one.points[min(BARS)].recall.value)
              for name, one in cuts.items()}  # fmt: skip
    return tables.answer(lost, alone, points[CALIBRATED], points["similarity"], cut_on=SIMPLE)


def bars(trials: Mapping[str, Trial]) -> Iterator[str]:
    """What is gone and lost, by dataset and reading."""
    found = {}
    for name, one in trials.items():
        nested = one.nested[CALIBRATED]
        found[f"{name}, all queries in folds"] = tables.gone(nested.before, nested.after[ALLOWED])
        found[f"{name}, the test split alone"] = tables.gone(one.test[CALIBRATED], one.after)
    yield from tables.bars_table(found, fewer=FEWER, loss=LOSS)


def comparisons(one: Trial) -> dict[str, dict[str, Comparison]]:
    """Before and after on all queries and on the test split."""
    nested = one.nested[CALIBRATED]
    return {
        "all": tables.silence_comparisons(nested.before, nested.after[ALLOWED]),
        "test": tables.silence_comparisons(one.test[CALIBRATED], one.after),
    }


def main() -> None:
    """Measure, and write the page and its figures."""
    embedder = open_embedder("minilm")
    resources = LocalResources(
        Vectors(embedder, VectorStore(embedder.identity)), open_counter("o200k", cache=cache_dir())
    )
    made = make_examples(
        PROBABILITY, labelled_queries(open_dataset(SIMPLE), ALL), Pipeline.of({"retrieve": "dense"}), resources
    )
    others = [name for name, family in FAMILIES.items() if SIMPLE not in family]
    known = Logistic.read(fitted(others, resources).values)
    cuts = cut_trials(made, known)
    with tempfile.TemporaryDirectory() as folder:
        trials = {name: trial(name, resources, Path(folder)) for name in SILENT}
    compared = {(name, where): some for name, one in trials.items() for where, some in comparisons(one).items()}
    corrected = correct({(*key, what): one for key, some in compared.items() for what, one in some.items()})
    p = {key: {what: corrected[*key, what] for what in some} for key, some in compared.items()}
    sections: list[str] = []
    for name, one in trials.items():
        sections += [f"### {name}", "", *silence_section(one, {where: p[name, where] for where in ("all", "test")}), ""]
    write_atomic(REPORTS / "abstention-cut.svg", cut_figure(cuts))
    write_atomic(REPORTS / "abstention.svg", silence_figure(trials))
    parts: dict[str, Sequence[str]] = {
        "answer": [answer(cuts, trials)],
        "bars": list(bars(trials)),
        "cut": list(cut_section(made, known, cuts)),
        "sections": sections,
        "verdict": list(concluded(cuts, trials)),
    }
    idle, listed = int((~trials["workbench"].after.examples.needs).sum()), trials[LISTED]
    apart = tables.gone(listed.test[CALIBRATED].select_queries(listed.apart), listed.after.select_queries(listed.apart))
    largest = sorted(Counter(listed.nested[BY_GROUP].before.examples.groups).values())[-2:]
    text = (Path(__file__).parent / "abstention_page.txt").read_text("utf-8")
    filled = {name: "\n".join(lines) for name, lines in parts.items()}
    numbers = {"others": FOLDS - 1, "aim": AIM, "allowed": ALLOWED, "tests": len(corrected), "idle": idle}
    numbers |= {"shared": int((~listed.apart).sum()), "apart": int(listed.apart.sum()), "largest": sum(largest)}
    filled["on_apart"] = f"{apart[1]:.0%} by query and {apart[2]:.0%} by item are gone at {apart[0]:.4f} recall lost"
    filled["lost"] = f"{tables.gone(listed.test[CALIBRATED], listed.after)[0]:.4f}"
    page = text.format(simple=SIMPLE, listed=LISTED, folds=FOLDS, **numbers, **filled)
    write_parted(REPORTS / "abstention.md", f"{page.rstrip()}\n", titles(page)[-1:])


def silence_figure(trials: Mapping[str, Trial]) -> str:
    """False inclusions gone against recall lost, on the test split."""
    lines = {
        f"{name}, {signal}": (s.lost, s.removed_share) for name, one in trials.items() for signal, s in one.test.items()
    }
    points = {name: one.test[CALIBRATED].effect_of(one.limit) for name, one in trials.items()}
    rings = [Ring(name, lost, queries) for name, (lost, queries, _) in points.items()]
    return line_chart(
        lines, x=Scale("recall lost", 0, 0.1), y=Scale("share of false inclusions gone (queries)", 0, 1), rings=rings
    )


if __name__ == "__main__":
    run_script(main)
