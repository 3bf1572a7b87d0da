"""What a calibrated probability is worth: as a cut on `bfcl-simple`, and for offering nothing where nothing is needed.

Writes reports/abstention.md and two figures beside it. Run from the project's folder with the public datasets
imported: `python experiments/strategies/abstention.py`. Fits and thresholds come from the tuning split or, on
`bfcl-simple`, from the other folds; the test split is read for the final figures only.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from ctxbench.arrays import FloatArray, IntArray
from ctxbench.cache import cache_dir
from ctxbench.calibrations import ABSTENTION, PROBABILITY, Fit, write_calibrations
from ctxbench.embedding.names import open_embedder
from ctxbench.embedding.store import VectorStore
from ctxbench.embedding.vectors import Vectors
from ctxbench.evaluation.calibrating.curves import CutCurve, CutPoint, area, area_interval
from ctxbench.evaluation.calibrating.examples import ALL, Examples, examples, labelled
from ctxbench.evaluation.calibrating.fitting import fit
from ctxbench.evaluation.calibrating.trials import Silence, calibrated, cut_trial, similarity
from ctxbench.evaluation.datasets.dataset import Dataset
from ctxbench.evaluation.datasets.store import open_dataset
from ctxbench.evaluation.stats import Comparison, correct
from ctxbench.fileio import write_atomic
from ctxbench.index.resources import LocalResources
from ctxbench.pipeline import Pipeline, Step
from ctxbench.reporting import calibration as tables
from ctxbench.reporting.line_chart import Ring, Scale, line_chart
from ctxbench.selectors.definitions import definition
from ctxbench.selectors.pipelines import PipelineSelector
from ctxbench.steps.calibrated import Abstain, Logistic
from ctxbench.tokens import open_counter

ROOT = Path(__file__).parents[2]
REPORTS = ROOT / "reports"
SIMPLE, FOLDS = "bfcl-simple", 5
BARS = {2.8: 0.93, 4.5: 0.96}  # mean items a query, and the recall wanted with them
AIM = 0.9  # share of these items that the threshold is to give on the other folds: a fold may get more than they do
SILENT = {"bfcl-live-listed": "bfcl-live-listed", "workbench": str(ROOT / "datasets" / "workbench")}
LOSS, FEWER = 0.02, 0.40  # recall that may be lost, and the share of false inclusions that is to go
LOSSES = (0.005, 0.01, 0.015, 0.02)
ALLOWED = 0.01  # recall that the threshold may lose on the tuning split, out of fold: the test split may lose more
CALIBRATED, BEST = "calibrated probability", "best similarity"


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


def cut_trials(made: Examples) -> dict[str, CutTrial]:
    """The calibrated probability and the similarity."""
    trials = {}
    for name, score in {CALIBRATED: calibrated, "similarity": similarity}.items():
        points = {items: cut_trial(made, score, items=AIM * items, folds=FOLDS) for items in BARS}
        own = score(made)
        trials[name] = CutTrial(points, CutCurve.of(made, own), recall_of_first(made, own, 8))
    return trials


def recall_of_first(made: Examples, score: FloatArray, most: int) -> FloatArray:
    """Share of the required items among the best 1, 2, ... of their queries; items that tie all count as the last."""
    start = np.searchsorted(made.query, np.arange(made.n_queries + 1))
    place = [
        float((score[start[query] : start[query + 1]] >= score[rows].max()).sum()) if len(rows) else np.inf
        for query, rows in zip(made.needed, made.needed_row, strict=True)
    ]
    return np.array([np.mean(np.array(place) <= n) for n in range(1, most + 1)])


def cut_section(made: Examples, trials: Mapping[str, CutTrial]) -> Iterator[str]:
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
    said, groups = calibrated(made), [made.groups[query] for query in made.query]
    inside = tables.figure(area(made.label, said), area_interval(made.label, said, groups))
    yield ""
    yield f"Area under the ROC curve over all {len(made.label):,} candidates: {inside} for the probability,"
    yield f"{area(made.label, similarity(made)):.3f} for the similarity. Is it a probability? Candidates out of fold:"
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
    """One dataset: both splits by each signal, and the test split as the engine serves it with `abstain`."""

    tuning: Mapping[str, Silence]
    test: Mapping[str, Silence]
    after: Silence
    size: IntArray
    limit: float


def trial(name: str, resources: LocalResources, folder: Path) -> Trial:
    """Fit and choose on the tuning split, then run the engine on the test split."""
    dataset, own = open_dataset(SILENT[name]), definition("semantic")
    pipeline = own.pipeline(own.values("normal"))
    found = fit(ABSTENTION, dataset, pipeline, resources)
    write_calibrations(folder / f"{name}.json", [found])
    tuning, test = (labelled(dataset, split) for split in ("tuning", "test"))
    by_tuning = silences(tuning, pipeline, resources, None)
    by_test = silences(test, pipeline, resources, found)
    limit = by_tuning[CALIBRATED].threshold(ALLOWED)
    step = Step("cut", "abstain", Abstain(str(folder / f"{name}.json"), limit))
    silent = PipelineSelector("abstain", replace(pipeline, refine=(*pipeline.refine, step)), resources)
    made = by_test[CALIBRATED].made
    after = Silence.of(made, silent, test, by_fit(found, made))
    return Trial(by_tuning, by_test, after, np.asarray(test.batch().eligible.sum(axis=1), dtype=np.int64), limit)


def silences(part: Dataset, pipeline: Pipeline, resources: LocalResources, found: Fit | None) -> dict[str, Silence]:
    """The default on a split by each signal; without a fit, probabilities are out of fold."""
    made, default = examples(ABSTENTION, part, pipeline, resources), PipelineSelector("default", pipeline, resources)
    scores = {CALIBRATED: calibrated if found is None else partial(by_fit, found), BEST: similarity}
    return {signal: Silence.of(made, default, part, score(made)) for signal, score in scores.items()}


def by_fit(found: Fit, made: Examples) -> FloatArray:
    """The probabilities of a fit."""
    return Logistic.of(found, made.names).probabilities(made.features, made.vectors)


def silence_section(one: Trial, p: Mapping[str, Comparison]) -> Iterator[str]:
    """The tables of one dataset, all of its test split."""
    before, needs = one.test[CALIBRATED], one.after.made.needs
    n = int(needs.sum())
    yield f"{len(needs):,} queries of the test split, of which {n:,} need something. Threshold {one.limit:.3f}."
    for table in (
        tables.silence_table(before, one.after, p, fewer=FEWER, loss=LOSS),
        tables.area_table(one.tuning, one.test, one.size),
        tables.trade_table(one.tuning, one.test, LOSSES),
        tables.said_and_was(needs, before.signal),
    ):
        yield ""
        yield from table


def concluded(cuts: Mapping[str, CutTrial], trials: Mapping[str, Trial]) -> Iterator[str]:
    """The verdict in words."""
    met = {name: sum(one.met(items) for items in BARS) for name, one in cuts.items()}
    by = f"by probability meets {met[CALIBRATED]} of {len(BARS)} bars, one by similarity {met['similarity']}"
    yield f"* `{SIMPLE}`: a cut {by}."
    for name, one in trials.items():
        test = one.test[CALIBRATED]
        n, (lost, queries, items) = int(test.made.needs.sum()), test.silenced(one.limit)
        held = [tables.verdict(lost <= LOSS and gone >= FEWER).strip("*") for gone in (queries, items)]
        yield (
            f"* `{name}`: the threshold chosen on the tuning split takes away {queries:.0%} of the false inclusions by "
            f"query (the bar {held[0]}) and {items:.0%} by item ({held[1]}), at {lost:.4f} recall lost of the {LOSS} "
            f"allowed: as much as all of {lost * n:.1f} of {n} queries."
        )
        most, plain = test.silenced(test.threshold(LOSS)), one.test[BEST].silenced(one.test[BEST].threshold(LOSS))
        yield (
            f"  Where the curve of the test split itself crosses {LOSS}, which no choice beforehand can aim at, "
            f"{most[1]:.0%} and {most[2]:.0%} are gone; by the best similarity, {plain[1]:.0%} and {plain[2]:.0%}."
        )


def main() -> None:
    """Measure, and write the page and its figures."""
    embedder = open_embedder("minilm")
    resources = LocalResources(
        Vectors(embedder, VectorStore(embedder.identity)), open_counter("o200k", cache=cache_dir())
    )
    made = examples(PROBABILITY, labelled(open_dataset(SIMPLE), ALL), Pipeline.of({"retrieve": "dense"}), resources)
    cuts = cut_trials(made)
    with tempfile.TemporaryDirectory() as folder:
        trials = {name: trial(name, resources, Path(folder)) for name in SILENT}
    compared = {name: tables.silence_comparisons(one.test[CALIBRATED], one.after) for name, one in trials.items()}
    corrected = correct({(name, what): one for name, some in compared.items() for what, one in some.items()})
    sections: list[str] = []
    for name, one in trials.items():
        p = {what: corrected[name, what] for what in compared[name]}
        sections += [f"### {name}", "", *silence_section(one, p), ""]
    write_atomic(REPORTS / "abstention-cut.svg", cut_figure(cuts))
    write_atomic(REPORTS / "abstention.svg", silence_figure(trials))
    parts: dict[str, Sequence[str]] = {
        "cut": list(cut_section(made, cuts)),
        "sections": sections,
        "verdict": list(concluded(cuts, trials)),
    }
    idle = int((~trials["workbench"].after.made.needs).sum())
    text = (Path(__file__).parent / "abstention.md").read_text("utf-8")
    filled = {name: "\n".join(lines) for name, lines in parts.items()}
    numbers = {"others": FOLDS - 1, "aim": AIM, "allowed": ALLOWED, "tests": len(corrected), "idle": idle}
    write_atomic(REPORTS / "abstention.md", text.format(simple=SIMPLE, **numbers, **filled))


def silence_figure(trials: Mapping[str, Trial]) -> str:
    """False inclusions gone against recall lost, on the test split."""
    lines = {f"{name}, {signal}": (s.lost, s.gone) for name, one in trials.items() for signal, s in one.test.items()}
    points = {name: one.test[CALIBRATED].silenced(one.limit) for name, one in trials.items()}
    rings = [Ring(name, lost, queries) for name, (lost, queries, _) in points.items()]
    return line_chart(
        lines, x=Scale("recall lost", 0, 0.1), y=Scale("share of false inclusions gone (queries)", 0, 1), rings=rings
    )


if __name__ == "__main__":
    main()
