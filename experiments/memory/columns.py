"""Which ranking for memories, at equal tokens, and what each feature of `memory` pays: reports/memory.md.

Three corpora: `locomo-memory` (chats that a model wrote), `diary` (notes) and, if `../shared/data/realtalk` is there,
REALTALK (chats of people; only figures of it are written). Rankings are compared where their first items have as many
tokens. Each corpus is measured with weights found on the others, too.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from ctxbench.cli.common import run_script
from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.lookup import import_own, open_dataset
from ctxbench.evaluation.comparisons import Curve, at_equal_tokens
from ctxbench.io.files import write_atomic
from ctxbench.model.arrays import FloatArray
from ctxbench.model.registry import build
from ctxbench.model.strategies import Step
from ctxbench.search.embedders import open_embedder
from ctxbench.search.resources import local_resources
from ctxbench.search.tokens import open_counter
from ctxbench.selectors.definitions import definition
from ctxbench.tuning.linear_fits import LinearExamples, LineSearch, parse_objective

ROOT = Path(__file__).parents[2]
REALTALK = ROOT.parent / "shared" / "data" / "realtalk"
GENERATED, PEOPLE, NOTES = "locomo-memory", "REALTALK", "diary"
KINDS = {GENERATED: "chats that a model wrote", PEOPLE: "chats of people", NOTES: "notes"}
SIZES = (5, 10, 20)
LARGEST = 60  # items of a ranking that are read
HYBRID, FUSION, MEMORY = "`hybrid`", "fusion", "`memory`"
COLUMNS = ("similarity.score", "turn.share", "turn.near", "turn.asked", "turn.named")
OTHERS = ("conversation.best", "conversation.answers", "conversation.near", "memory.length", "memory.recency")
FUSED = {"similarity.score": 1.0, "turn.share": 0.5}
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
        return columns | {HYBRID: self._padded(self.hybrid, 0.0)}

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


def points(ours: Ranked, base: Ranked, families: np.ndarray) -> Iterator[str]:
    """Points of completeness above a base at the tokens of our first 5, 10 and 20, the middle with its interval."""
    curve = Curve(base.complete, base.tokens)
    for n in SIZES:
        result = at_equal_tokens(ours.complete[n], ours.tokens[n], curve, groups=families).comparison
        if result is None:
            yield "–"
            continue
        low, high = result.interval.low, result.interval.high
        yield f"{100 * result.difference:+.1f}" + f" ({100 * low:+.1f} to {100 * high:+.1f})" * (n == 10)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], n_texts: int = 1) -> str:
    """A table, its first columns texts and the others figures."""
    rule = "|---" * n_texts + "|---:" * (len(head) - n_texts) + "|"
    return "\n".join([f"| {' | '.join(head)} |", rule, *(f"| {' | '.join(row)} |" for row in rows)])


def figures(ranked: Ranked) -> str:
    """Completeness, R@10 and tokens of the first ten."""
    means = (np.nanmean(ranked.complete[10]), np.nanmean(ranked.recall[10]))
    return f"{means[0]:.3f}, {means[1]:.3f}, {ranked.tokens[10].mean():.0f}"


def payments(corpora: Mapping[str, Corpus], shipped: Mapping[str, float]) -> list[list[str]]:
    """What is gained above the fusion, without each feature, and with one more at the weight best for the first."""
    rows = [["as shipped", "", *(f"{corpus.mean_gain(shipped):+.1f}" for corpus in corpora.values())]]
    for name in COLUMNS[1:]:
        without = {**shipped, name: 0.0}
        rows.append([f"without `{name}`", "", *(f"{corpus.mean_gain(without):+.1f}" for corpus in corpora.values())])
    first = next(iter(corpora.values()))
    for name in OTHERS:
        spread = float(np.std(first.examples.cases.values[:, first.examples.columns.index(name)]))
        tried = [{**shipped, name: share / spread} for share in (0.01, 0.02, 0.04, 0.08)]
        best = max(tried, key=first.mean_gain)
        changed = [f"{corpus.mean_gain(best):+.1f}" for corpus in corpora.values()]
        rows.append([f"with `{name}`", f"{best[name]:.2g}", *changed])
    return rows


def by_kind(corpora: Mapping[str, Corpus], shipped: Mapping[str, float]) -> list[list[str]]:
    """Recall among the first ten by the kind of question, of `hybrid` and of `memory`."""
    rows = []
    for name, corpus in corpora.items():
        tags = [query.tags for query in corpus.examples.dataset.queries]
        for label, ranked in ((HYBRID, corpus.bases[HYBRID]), (MEMORY, corpus.ranked(shipped))):
            of_kind = [np.array([kind in found for found in tags]) for kind in CATEGORIES]
            means = [f"{np.nanmean(ranked.recall[10][mask]):.3f}" if mask.any() else "–" for mask in of_kind]
            rows.append([name, label, *means])
    return [row for row in rows if set(row[2:]) != {"–"}]


def page(corpora: Mapping[str, Corpus], shipped: Mapping[str, float]) -> str:
    """The report."""
    found, judged, lead = {}, [], []
    better: list[str] = []
    same: list[str] = []
    for name, corpus in corpora.items():
        found[name] = climb([other for key, other in corpora.items() if key != name])
        for label, weights in ((MEMORY, shipped), ("found on the others", found[name])):
            ranked = corpus.ranked(weights)
            cells = [cell for base in corpus.bases.values() for cell in points(ranked, base, corpus.families)]
            judged.append([name, label, *cells])
            if label == MEMORY:
                lead.append(f"{cells[1]} on {KINDS[name]} ({name})")
                is_better = "(+" in cells[1]  # the interval is above 0
                (better if is_better else same).append(KINDS[name])
    joint = climb(list(corpora.values()))
    generated = corpora[GENERATED]
    held_out, own = conversations_left_out(generated, found[GENERATED])
    cells = [cell for base in generated.bases.values() for cell in points(held_out, base, generated.families)]
    judged.append([GENERATED, "conversations left out", *cells])
    ahead = np.nanmean(held_out.recall[10]) - np.nanmean(generated.bases[HYBRID].recall[10])
    rankings: dict[str, Mapping[str, float]] = {"dense": {"similarity.score": 1.0}, "BM25": {"conversation.item": 1.0}}
    rankings |= {HYBRID: {HYBRID: 1.0}, FUSION: FUSED, MEMORY: shipped, "the document's three": DOCUMENT}
    plain = [[label, *(figures(c.ranked(w)) for c in corpora.values())] for label, w in rankings.items()]
    plain.append(["`memory`, conversations left out", figures(held_out), *("–" for _ in corpora)][: 1 + len(corpora)])
    bases = [f"{base}, {n} items" for base in (HYBRID, FUSION) for n in SIZES]
    named = {"shipped": shipped, "found on all": joint} | {f"found without {name}": row for name, row in found.items()}
    named[f"fitted to {GENERATED} (preset `locomo`)"] = own
    weight_rows = [[label, *(f"{row[name]:.3g}" for name in COLUMNS)] for label, row in named.items()]
    counts = ", ".join(f"{name} {len(c.examples.dataset):,} questions" for name, c in corpora.items())
    absent = "" if PEOPLE in corpora else f"\n* {PEOPLE} (`../shared/data/realtalk`) was not there and is not measured."
    answer = (
        "**Take `memory`: at the tokens of its first ten items it is significantly more often complete than `hybrid` "
        f"on {' and '.join(better) or 'nothing'}, and not significantly so on {' and '.join(same) or 'nothing'}; by "
        f"points (95% interval) {'; '.join(lead)}.**"
    )
    return f"""# Which ranking for memories?

{answer}

With weights fitted without the conversation that is measured, R@10 on {GENERATED} is
{np.nanmean(held_out.recall[10]):.3f}, {ahead:+.3f} compared with `hybrid`.

## At equal tokens

Points of completeness compared with `hybrid` and with a fusion without a fit (cosine similarity + 0.5 x BM25 as a share
of the request's highest), which offer as many items as the tokens allow. 95% intervals at ten items.

{table(["corpus", "weights", *bases], judged, 2)}

*Found on the others*: weights that have not seen the corpus. *Conversations left out*: fitted within tokens to nine
conversations and measured on the tenth, each in turn.

## The first ten items

Completeness, R@10 and tokens.

{table(["ranking", *corpora], plain)}

*The document's three*: similarity + recency + confidence, equal weights. Questions are asked after everything was said,
about any time, so recency cannot pay there.

## What each feature pays

Mean points of completeness and recall above the fusion, at the tokens of its first 5, 10 and 20 items. A feature is in
`memory` if it pays, or costs nothing, on all corpora; but for `turn.named`, which costs a little on {GENERATED}. Others
have the weight that is best for {GENERATED}.

{table(["features", "weight", *corpora], payments(corpora, shipped), 1)}

`turn.named` costs on {GENERATED} through adversarial questions alone, whose evidence is what the other person said.

## By kind of question: R@10

{table(["corpus", "ranking", *CATEGORIES], by_kind(corpora, shipped), 2)}

## The weights

{table(["", *(f"`{name}`" for name in COLUMNS)], weight_rows)}

A step at a time, from the fusion without and with neighbours, as long as the mean over corpora of -exp(-points / 2)
rises by {LEAST:g} points: a loss on one corpus counts more than a gain on another. Shipped are about the means of those
found without each corpus; a search from another start can end elsewhere.

## How it was made

* `make memory` (`experiments/memory/columns.py`). Embeddings: {open_embedder("minilm").identity.key}; tokens: o200k.
* Data: {GENERATED} {generated.examples.dataset.version}, content `{open_dataset(GENERATED).hash[:12]}`. Questions whose
  evidence is known: {counts}.{absent}
* For labels of yours: `ctxbench calibrate weights DATASET --selector memory --metric R@500tokens --out fits.json`.
* Differences and intervals are those of `at_equal_tokens` (`ctxbench/evaluation/comparisons.py`), by question. The
  features were chosen with all three corpora in view: other conversations may come out lower.
"""


def main() -> int:
    """Measure and write the page."""
    datasets = {GENERATED: open_dataset(GENERATED)}
    if REALTALK.is_dir():
        datasets[PEOPLE] = import_own(GENERATED, REALTALK, called="realtalk")
    datasets[NOTES] = open_dataset(ROOT / "datasets" / NOTES)
    corpora = {name: Corpus.opened(dataset) for name, dataset in datasets.items()}
    shipped = definition("memory").pipeline(definition("memory").values()).refine[0].call.weights  # type: ignore[union-attr]
    write_atomic(ROOT / "reports" / "memory.md", page(corpora, shipped))
    return 0


if __name__ == "__main__":
    run_script(main)
