"""Which ranking for memories, at equal tokens, and what each feature of `memory` pays: reports/memory.md.

    python experiments/memory/columns.py [--page]

Three corpora: `locomo-memory` (chats that a model wrote), `diary` (notes) and, if `../shared/data/realtalk` is there,
REALTALK (chats of people; only figures of it are written). Rankings are compared where their first items have as many
tokens. Each corpus is measured with weights found on the others, too.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1]))

from pages import Page, Picture, Tables, run_page

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.lookup import import_own, open_dataset
from ctxbench.evaluation.comparisons import Curve, at_equal_tokens
from ctxbench.model.arrays import FloatArray
from ctxbench.model.registry import build
from ctxbench.model.strategies import Step
from ctxbench.search.embedders import open_embedder
from ctxbench.search.resources import local_resources
from ctxbench.search.tokens import open_counter
from ctxbench.selectors.definitions import definition
from ctxbench.tuning.linear_fits import LinearExamples, LineSearch, parse_objective

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROOT = Path(__file__).parents[2]
REALTALK = ROOT.parent / "shared" / "data" / "realtalk"
GENERATED, PEOPLE, DIARY = "locomo-memory", "REALTALK", "diary"
KINDS = {GENERATED: "chats that a model wrote", PEOPLE: "chats of people", DIARY: "notes"}
SIZES = (5, 10, 20)
LARGEST = 60  # items of a ranking that are read
HYBRID, FUSION, MEMORY, SPEC = "`hybrid`", "fusion", "`memory`", "`memory-spec`"
COLUMNS = ("similarity.score", "turn.share", "turn.near", "turn.asked", "turn.named")
OTHERS = ("conversation.best", "conversation.answers", "conversation.near", "memory.length", "memory.recency")
FUSED = {"similarity.score": 1.0, "turn.share": 0.5}
NEAREST = "nearest"  # 1 for the ten most similar candidates, which `memory-spec` ranks
DOCUMENT = dict.fromkeys(("similarity.score", "memory.recency", "memory.confidence"), 1.0)
STEPS = {"turn.share": 0.1, "turn.near": 0.1, "turn.asked": 0.05, "turn.named": 0.05}
LEAST = 0.1
CATEGORIES = ("single-hop", "multi-hop", "temporal", "open-domain", "adversarial")


@dataclass(frozen=True)
class Ranked:
    """The first items of a ranking, from none to `LARGEST` of them.

    Attributes:
        complete, recall, tokens: shape (LARGEST + 1, n_queries); the first two NaN where nothing is required.
    """

    complete: FloatArray
    recall: FloatArray
    tokens: FloatArray

    def at(self, tokens: float, *, recall: bool = False) -> float:
        """Mean completeness or recall at a mean token count, between two sizes in proportion."""
        values = np.nanmean(self.recall if recall else self.complete, axis=1)
        return float(np.interp(tokens, self.tokens.mean(axis=1), values))

    def gains(self, base: Ranked) -> list[float]:
        """Points of completeness and of recall above a base, each with as many tokens as its first 5, 10 and 20."""
        spent = [float(base.tokens[n].mean()) for n in SIZES]
        return [100 * (self.at(t, recall=r) - base.at(t, recall=r)) for t in spent for r in (False, True)]


@dataclass(frozen=True, eq=False)
class Corpus:
    """The candidates of `memory` on the queries of a dataset, padded to one width, with the columns that are tried.

    Attributes:
        examples: candidates with the columns.
        hybrid: 1 / rank of each candidate in the ranking of `hybrid`; 0 for others.
    """

    examples: LinearExamples
    hybrid: FloatArray

    @classmethod
    def opened(cls, dataset: Dataset) -> Corpus:
        """Search as `memory` does, and as `hybrid` does."""
        dataset = dataset.judged()
        resources = local_resources(open_embedder("minilm"), open_counter("o200k"))
        columns = dict.fromkeys((*COLUMNS, *OTHERS, *DOCUMENT, "conversation.item"), 1.0)
        shipped = definition("memory").pipeline(definition("memory").values())
        linear = Step("rank", "linear", build("rank", "linear", {"weights": columns}))
        pipeline = replace(shipped, refine=(linear, *shipped.refine[1:]))
        examples = LinearExamples.of(dataset, pipeline, resources)
        hybrid = definition("hybrid").pipeline(definition("hybrid").values())
        outcome = replace(hybrid, refine=hybrid.refine[:-1]).run(dataset.batch(), resources)
        start, item = outcome.candidates.ranking()
        rank = {}
        for query in range(len(dataset)):
            ranking = item[start[query] : start[query + 1]].tolist()
            rank.update({(query, position): n for n, position in enumerate(ranking, start=1)})
        cases = examples.cases
        pairs = zip(cases.query.tolist(), cases.item.tolist(), strict=True)
        return cls(examples, np.array([1 / rank[pair] if pair in rank else 0.0 for pair in pairs]))

    @cached_property
    def _places(self) -> tuple[np.ndarray, np.ndarray, tuple[int, int]]:
        """The row and the column of each candidate in the padded arrays, and their shape."""
        query = self.examples.cases.query
        size = np.bincount(query, minlength=len(self.examples.dataset))
        place = np.arange(len(query)) - np.repeat(np.cumsum(size) - size, size)
        return query, place, (len(size), max(int(size.max()), LARGEST))

    def _padded(self, values: np.ndarray, fill: float) -> np.ndarray:
        row, column, shape = self._places
        out = np.full(shape, fill, dtype=values.dtype)
        out[row, column] = values
        return out

    @cached_property
    def _columns(self) -> dict[str, FloatArray]:
        names = self.examples.columns
        columns = {name: self._padded(self.examples.cases.values[:, at], 0.0) for at, name in enumerate(names)}
        similar = self._padded(self.examples.cases.values[:, names.index("similarity.score")], -np.inf)
        nearest = (-similar).argsort(axis=1, kind="stable").argsort(axis=1) < SIZES[1]
        return columns | {HYBRID: self._padded(self.hybrid, 0.0), NEAREST: nearest.astype(np.float64)}

    @cached_property
    def _tokens(self) -> np.ndarray:
        return self._padded(np.asarray(self.examples.cases.tokens), 0)

    @cached_property
    def _groups(self) -> tuple[np.ndarray, np.ndarray]:
        """The required group of each candidate by number, -1 if none, padded; and the query of each group."""
        joined = self.examples.cases.joined()
        label = joined.label_of(self.examples.cases.query, self.examples.cases.item)
        group = np.where(label >= 0, joined.label_group[label], -1)
        return self._padded(group, -1), joined.group_query

    @cached_property
    def families(self) -> np.ndarray:
        """The group of each query, by number."""
        names = [str(query.group) for query in self.examples.dataset.queries]
        return np.unique(names, return_inverse=True)[1]

    def ranked(self, weights: Mapping[str, float]) -> Ranked:
        """The first items by a weighted sum of columns; of equal ones the first in the catalog."""
        score = self._padded(np.zeros(len(self.hybrid)), -np.inf)
        for name, weight in weights.items():
            score += weight * self._columns[name]
        part = np.sort(np.argpartition(-score, LARGEST - 1, axis=1)[:, :LARGEST], axis=1)
        order = np.argsort(-np.take_along_axis(score, part, axis=1), axis=1, kind="stable")
        top = np.take_along_axis(part, order, axis=1)
        groups, group_query = self._groups
        n_groups = np.bincount(group_query, minlength=len(score))
        found = np.take_along_axis(groups, top, axis=1)
        first = np.full(len(group_query), LARGEST)
        np.minimum.at(first, found[found >= 0], np.nonzero(found >= 0)[1])
        met = np.stack([np.bincount(group_query[first < n], minlength=len(score)) for n in range(LARGEST + 1)])
        with np.errstate(invalid="ignore", divide="ignore"):
            recall = met / np.where(n_groups > 0, n_groups, np.nan)
        tokens = np.cumsum(np.take_along_axis(self._tokens, top, axis=1), axis=1).T
        tokens = np.concatenate([np.zeros((1, len(score))), tokens])
        return Ranked(np.where(np.isnan(recall), np.nan, recall == 1), recall, tokens.astype(np.float64))

    def mean_gain(self, weights: Mapping[str, float]) -> float:
        """The mean points above the fusion at equal tokens, computed once for each weights."""
        key = tuple(sorted(weights.items()))
        if key not in self._gains:
            self._gains[key] = float(np.mean(self.ranked(weights).gains(self.bases[FUSION])))
        return self._gains[key]

    @cached_property
    def _gains(self) -> dict[tuple[tuple[str, float], ...], float]:
        return {}

    @cached_property
    def bases(self) -> dict[str, Ranked]:
        """`hybrid`, and the fusion without a fit."""
        return {HYBRID: self.ranked({HYBRID: 1.0}), FUSION: self.ranked(FUSED)}


def climb(corpora: Sequence[Corpus]) -> dict[str, float]:
    """Weights for some corpora, from the fusion without and with its neighbours, a step at a time.

    A step must raise the mean of -exp(-points / 2) above the fusion, read as points, by `LEAST`: what is lost on a
    corpus counts more than what is gained on another, and a weight grows no further than it pays.
    """

    def value(weights: Mapping[str, float]) -> float:
        gains = [corpus.mean_gain(weights) for corpus in corpora]
        return -2 * math.log(float(np.mean([math.exp(-gain / 2) for gain in gains])))

    results = []
    for near in (0.0, 0.6):
        weights = dict.fromkeys(COLUMNS, 0.0) | FUSED | {"turn.near": near}
        while True:
            moved = [
                {**weights, name: round(weights[name] + n * step, 6)}
                for name, step in STEPS.items()
                for n in (-2, -1, 1, 2)
            ]
            best = max(moved, key=value)
            if value(best) < value(weights) + LEAST:
                break
            weights = best
        results.append(weights)
    return max(results, key=value)


def conversations_left_out(corpus: Corpus, start: Mapping[str, float]) -> tuple[Ranked, dict[str, float]]:
    """The ranking of each conversation with weights fitted within tokens to the others, and weights fitted to all.

    Args:
        corpus: with conversations as groups of queries.
        start: weights that have not seen the corpus.
    """
    base, examples = corpus.bases[HYBRID], corpus.examples
    metric = parse_objective(f"R@{round(base.tokens[10].mean())}tokens")
    at = [examples.columns.index(name) for name in COLUMNS]
    cases, fits = replace(examples.cases, values=examples.cases.values[:, at]), []
    for family in range(-1, corpus.families.max() + 1):
        search = LineSearch(cases, metric, queries=corpus.families != family)
        weights = search.climb(np.array([start[name] for name in COLUMNS]))
        sys.stderr.write(f"conversation {family + 1} left out\n")
        fits.append(dict(zip(COLUMNS, (weights / weights[0]).tolist(), strict=True)))
    parts = [corpus.ranked(weights) for weights in fits[1:]]
    row = np.arange(len(corpus.families))
    arrays = [np.stack([getattr(part, name) for part in parts]) for name in ("complete", "recall", "tokens")]
    return Ranked(*(np.moveaxis(array, 1, 2)[corpus.families, row].T for array in arrays)), fits[0]


def points(ours: Ranked, base: Ranked, families: np.ndarray) -> list[dict[str, Any]]:
    """Points of completeness above a base at the tokens of our first 5, 10 and 20 items, with 95% intervals."""
    curve, rows = Curve(base.complete, base.tokens), []
    for n in SIZES:
        result = at_equal_tokens(ours.complete[n], ours.tokens[n], curve, groups=families).comparison
        if result is not None:
            interval = result.interval
            rows.append(
                {"items": n, "points": 100 * result.difference, "low": 100 * interval.low, "high": 100 * interval.high}
            )
    return rows


def payments(corpora: Mapping[str, Corpus], shipped: Mapping[str, float]) -> list[dict[str, Any]]:
    """What is gained above the fusion, without each feature, and with one more at the weight best for the first."""
    tried: dict[tuple[str, float | None], Mapping[str, float]] = {("as shipped", None): shipped}
    tried |= {(f"without {name}", None): {**shipped, name: 0.0} for name in COLUMNS[1:]}
    first = next(iter(corpora.values()))
    for name in OTHERS:
        spread = float(np.std(first.examples.cases.values[:, first.examples.columns.index(name)]))
        best = max(({**shipped, name: share / spread} for share in (0.01, 0.02, 0.04, 0.08)), key=first.mean_gain)
        tried[f"with {name}", best[name]] = best
    return [
        {"features": name, "weight": weight, "corpus": corpus, "points": examples.mean_gain(weights)}
        for (name, weight), weights in tried.items()
        for corpus, examples in corpora.items()
    ]


def by_kind(corpora: Mapping[str, Corpus], shipped: Mapping[str, float]) -> list[dict[str, Any]]:
    """Recall among the first ten by the kind of question, of `hybrid` and of `memory`."""
    rows = []
    for corpus, examples in corpora.items():
        tags = [query.tags for query in examples.examples.dataset.queries]
        for ranking, ranked in ((HYBRID, examples.bases[HYBRID]), (MEMORY, examples.ranked(shipped))):
            for kind in CATEGORIES:
                mask = np.array([kind in query_tags for query_tags in tags])
                if mask.any():
                    recall = float(np.nanmean(ranked.recall[10][mask]))
                    rows.append({"corpus": corpus, "ranking": ranking, "kind": kind, "R@10": recall})
    return rows


def curve_rows(corpus: str, ranking: str, ranked: Ranked, n: int) -> list[dict[str, Any]]:
    """Completeness, recall and tokens of the first 1 to 20 items of a ranking, over n questions."""
    return [
        {
            "corpus": corpus,
            "questions": n,
            "ranking": ranking,
            "items": size,
            "tokens": float(ranked.tokens[size].mean()),
            "completeness": float(np.nanmean(ranked.complete[size])),
            "recall": float(np.nanmean(ranked.recall[size])),
        }
        for size in range(1, SIZES[-1] + 1)
        if ranking != SPEC or size <= SIZES[1]
    ]


def measure() -> Tables:
    """Search as `memory` does on every corpus, and compare rankings of what is found."""
    datasets = {GENERATED: open_dataset(GENERATED)}
    if REALTALK.is_dir():
        datasets[PEOPLE] = import_own(GENERATED, REALTALK, called="realtalk")
    datasets[DIARY] = open_dataset(ROOT / "datasets" / DIARY)
    corpora = {name: Corpus.opened(dataset) for name, dataset in datasets.items()}
    shipped = definition("memory").pipeline(definition("memory").values()).refine[0].call.weights  # type: ignore[union-attr]
    unseen = {name: climb([other for key, other in corpora.items() if key != name]) for name in corpora}
    rankings: dict[str, Mapping[str, float]] = {"dense": {"similarity.score": 1.0}, "BM25": {"conversation.item": 1.0}}
    rankings |= {HYBRID: {HYBRID: 1.0}, FUSION: FUSED, MEMORY: shipped, SPEC: {**DOCUMENT, NEAREST: 100.0}}
    curves = [
        row
        for name, corpus in corpora.items()
        for ranking, weights in rankings.items()
        for row in curve_rows(name, ranking, corpus.ranked(weights), len(corpus.examples.dataset))
    ]
    held_out, own = conversations_left_out(corpora[GENERATED], unseen[GENERATED])
    curves += curve_rows(GENERATED, LEFT_OUT, held_out, len(corpora[GENERATED].examples.dataset))
    judged = [(name, MEMORY, corpus.ranked(shipped)) for name, corpus in corpora.items()]
    judged += [(name, OF_OTHERS, corpus.ranked(unseen[name])) for name, corpus in corpora.items()]
    judged.append((GENERATED, LEFT_OUT, held_out))
    differences = [
        {"corpus": name, "weights": weights, "base": base, **row}
        for name, weights, ranked in judged
        for base, base_ranked in corpora[name].bases.items()
        for row in points(ranked, base_ranked, corpora[name].families)
    ]
    named = {"shipped": shipped, "found on all": climb(list(corpora.values()))}
    named |= {f"found without {name}": weights for name, weights in unseen.items()}
    named[f"fitted to {GENERATED} (preset locomo)"] = own
    weights_rows = [{"weights": name, **{column: row[column] for column in COLUMNS}} for name, row in named.items()]
    return {
        "": pd.DataFrame(differences),
        "curves": pd.DataFrame(curves),
        "features": pd.DataFrame(payments(corpora, shipped)),
        "kinds": pd.DataFrame(by_kind(corpora, shipped)),
        "weights": pd.DataFrame(weights_rows),
    }


LEFT_OUT, OF_OTHERS = "conversations left out", "found on the others"
DRAWN = {MEMORY: "C0", HYBRID: "C1", "dense": "C7", SPEC: "C3"}


def draw(curves: pd.DataFrame, figure: Figure) -> None:
    """Completeness against tokens, a panel for each corpus."""
    corpora = list(dict.fromkeys(curves["corpus"]))
    figure.set_layout_engine("constrained")
    axes = np.atleast_1d(figure.subplots(1, len(corpora), sharey=True))
    for corpus, panel in zip(corpora, axes, strict=True):
        for ranking, colour in DRAWN.items():
            line = curves[(curves["corpus"] == corpus) & (curves["ranking"] == ranking)]
            panel.plot(line["tokens"], 100 * line["completeness"], color=colour, label=ranking.strip("`"))
            ten = line[line["items"] == SIZES[1]]
            panel.plot(ten["tokens"], 100 * ten["completeness"], "o", color=colour)
        panel.set_title(KINDS[corpus], fontsize=11)
        panel.set_xlabel("tokens")
        panel.locator_params(axis="x", nbins=3)
        panel.set_xlim(left=0)
        panel.set_ylim(0, 100)
    axes[0].set_ylabel("complete %")
    figure.legend(*axes[0].get_legend_handles_labels(), frameon=False, ncols=len(DRAWN), loc="outside upper left")


def page(tables: Tables) -> Page:
    """The report."""
    differences, curves = tables[""], tables["curves"]
    ten = differences[(differences["items"] == SIZES[1]) & (differences["base"] == HYBRID)]
    at_ten = curves[curves["items"] == SIZES[1]].set_index(["corpus", "ranking"])

    def points_of(corpus: str, weights: str) -> str:
        row = ten[(ten["corpus"] == corpus) & (ten["weights"] == weights)]
        return "".join(f"{one.points:+.1f} ({one.low:+.1f} to {one.high:+.1f})" for one in row.itertuples()) or "\u2013"

    corpora = list(dict.fromkeys(ten["corpus"]))
    rows = []
    for corpus in corpora:
        shares = {f"{name} %": f"{100 * at_ten.loc[(corpus, name), 'completeness']:.1f}" for name in DRAWN}
        counted = int(at_ten.loc[(corpus, MEMORY), "questions"])
        row = {"corpus": f"{corpus}: {KINDS[corpus]}, {counted:,} questions", **shares}
        row["`memory` over `hybrid`, points"] = points_of(corpus, MEMORY)
        rows.append({**row, "weights found on the others, points": points_of(corpus, OF_OTHERS)})
    memory = ten[ten["weights"] == MEMORY].set_index("corpus")
    better = [name for name in corpora if memory.loc[name, "low"] > 0]
    points = " and ".join(f"{memory.loc[name, 'points']:+.1f} points" for name in better) or "no points"
    gained = f"{points} of completeness over `hybrid` on {' and '.join(KINDS[name] for name in better)}"
    same = " and ".join(KINDS[name] for name in corpora if name not in better)
    gains = features_of(tables["features"])
    left_out = at_ten.loc[(GENERATED, LEFT_OUT)]
    ahead = left_out["recall"] - at_ten.loc[(GENERATED, HYBRID), "recall"]
    return Page(
        title="Which ranking for memories?",
        answer=f"Take `memory`: at equal tokens {gained}" + f"; not significant on {same}." * bool(same),
        picture=Picture(draw=lambda figure: draw(curves, figure), alt=" ".join(ALT.split()), width=560, height=330),
        table=rows,
        notes=[
            " ".join(note.split())
            for note in (NOTES + BY_FIGURES)
            .format(recall=left_out["recall"], ahead=ahead, feature=gains.idxmin().replace("without ", ""))
            .split("\n\n")
        ],
        made=" ".join(MADE.split()),
    )


def features_of(features: pd.DataFrame) -> pd.Series:
    """The change of the mean points over corpora without each feature."""
    gains = features.pivot(index="features", columns="corpus", values="points")
    return gains.loc[[f"without {name}" for name in COLUMNS[1:]]].sub(gains.loc["as shipped"]).mean(axis=1)


ALT = """Completeness against tokens of the first 1 to 20 items, a panel for each corpus: memory is above hybrid on
chats that a model wrote, and memory-spec is below both on all chats; dots are ten items"""
NOTES = """Complete % is the share of questions for which the first ten items have all that is required. Differences
are points of completeness at the tokens of the first ten items of `memory`, with 95% intervals. *Found on the
others*: weights that have not seen the corpus.

`memory-spec`, the specification's formula with equal weights, orders the ten most similar items, so its ten are those
of `dense`. So are those of [mem0 and of LangGraph's store](memory-stores.md).
Questions are asked after everything was said,
about any time, so recency cannot pay there.

A feature is in `memory` if it pays, or costs nothing, on all corpora; but for `turn.named`, which costs a little on
locomo-memory, through adversarial questions, whose evidence is what the other person said.

For labels of yours: `ctxbench calibrate weights DATASET --selector memory --metric R@500tokens --out fits.json`.
"""
BY_FIGURES = """
Most is lost without `{feature}`. With weights fitted to nine conversations and measured on the tenth, each in turn,
R@10 on locomo-memory is {recall:.3f}, {ahead:+.3f} compared with `hybrid`."""
MADE = """`make memory` (`experiments/memory/columns.py`), embeddings by `minilm`, tokens by o200k, over all questions
whose evidence is known. Weights are climbed a step at a time while the mean over corpora of -exp(-points / 2), read
as points, rises by 0.1; shipped are about the means of those found without each corpus. The features were chosen with
all corpora in view: other conversations may come out lower. REALTALK is measured where its files are; only figures of
it are kept."""


if __name__ == "__main__":
    run_page("memory", measure, page, about=__doc__ or "")
