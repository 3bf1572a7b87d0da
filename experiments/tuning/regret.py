"""What does following the advice of `tune` cost and gain? Writes reports/regret.md.

Run from the project's folder: `python experiments/tuning/regret.py [--start SELECTOR/PRESET] [--beside SELECTOR ...]`.
`learned` ranks each dataset by a fit that has seen none of its family.
Teams are simulated: each draws labelled requests of a dataset, one group after the other, until n of them need
something, and tunes on them by the policy `normal` of README; the rest of the requests says what the advice was worth.
Seeds are fixed, so that the page is the same bytes every time.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

sys.path.insert(0, str(Path(__file__).parents[1] / "learned"))

import numpy as np
from pooled import fit_examples
from regret_page import Team, page

from ctxbench.cli.common import run_script
from ctxbench.datasets.dataset import draw_sample
from ctxbench.datasets.lookup import open_dataset
from ctxbench.evaluation.metrics import Metric
from ctxbench.io.files import cache_dir
from ctxbench.model.arrays import BoolArray, FloatArray
from ctxbench.pipelines.fits import write_calibrations
from ctxbench.report.pages import write_parted
from ctxbench.search.embedders import Vectors, VectorStore, open_embedder
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import open_counter
from ctxbench.selectors.definitions import find_definition
from ctxbench.selectors.selector import Value
from ctxbench.tuning.cut_families import CutFamily, sweep
from ctxbench.tuning.fit_examples import ALL
from ctxbench.tuning.inputs import choose
from ctxbench.tuning.measures import COMPLETENESS, TOKENS, Measure, Pairing, queries_by_type
from ctxbench.tuning.policy import (
    MAX_TOKENS,
    SAFETY_ERRORS,
    Constraint,
    Policy,
    SelectorEntry,
    kept_measures,
    limits_of,
    policy_measures,
)
from ctxbench.tuning.preset_files import write_fitted
from ctxbench.tuning.query_fits import shipped_fit
from ctxbench.tuning.rankings import MeasuredRankings
from ctxbench.tuning.results import TUNING, QuerySet
from ctxbench.tuning.search import Optimum, Setting, Ties, mean_gain
from ctxbench.tuning.tunables import Tunable

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "experiments" / "learned"))

from world import FAMILIES, halves  # noqa: E402 - a module of the scripts beside this one

LEARNED = "learned"
DATASETS = (
    *("bfcl-simple", "bfcl-live", "bfcl-live-listed", "datasets/workbench", "datasets/freight", "livemcpbench"),
    *("metatool-single", "metatool-multi", "toollens", "locomo"),
)
LABELS = (25, 50, 100, 200, 400)
DRAWS, SAMPLE, SEED = 20, 1500, 14
PARAPHRASES = 5  # requests that a group has at most to be drawn whole
REST = 100  # requests that need something, of which 2 points are two: below it the rest is no truth
KEEP = 0.98
NORMAL = Policy.of(
    "normal",
    about="fewest tokens that keep 0.98 of the base's completeness",
    minimise=TOKENS.metric,
    constraints=(Constraint(metric=COMPLETENESS.metric, at_least=KEEP, of="base"),),
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Candidate:
    """A selector on a dataset: its rankings, measured once.

    Attributes:
        tunable: which.
        family: the settings that are compared, fewer values of topK and topN than `tune` has.
        rankings: of all requests, with differences to the default.
    """

    tunable: Tunable
    family: CutFamily
    rankings: MeasuredRankings


Found: TypeAlias = tuple[Candidate, Mapping[str, Value]] | None
"""A setting of a candidate; None = the default is kept."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Ground:
    """A dataset on which teams tune.

    Attributes:
        name: of the dataset.
        candidates: the default's selector first.
        values: of the default, by measure and request.
        types: by item type the requests that require it.
        pairing: the default's completeness, and the groups of requests.
    """

    name: str
    candidates: tuple[Candidate, ...]
    values: Mapping[Measure, FloatArray]
    types: Mapping[str, BoolArray]
    pairing: Pairing

    @classmethod
    def of(cls, reference: str, tunables: Sequence[Tunable], resources: LocalResources) -> Ground:
        """Rank every request of a dataset, or of a sample of it."""
        dataset = draw_sample(open_dataset(reference, base=ROOT).judged(), SAMPLE, seed=SEED)
        side = QuerySet(dataset, ALL, resources.tokens(dataset.catalog), resources)
        types = queries_by_type(side.labels)
        typed = [Measure(Metric(one), required_type=name) for name in types for one in ("completeness", "items")]
        found = []
        for tunable in tunables:
            if tunable.family is None:
                sys.exit(f"{tunable.name} has no cut that is swept exactly")
            answers = tunable.rank(side).answers.candidates
            rankings = MeasuredRankings.of(answers, side.labels, (*policy_measures([NORMAL]), *typed))
            found.append(Candidate(tunable=tunable, family=tunable.family.coarse(), rankings=rankings))
        values = found[0].family.by_query(found[0].rankings, found[0].tunable.values())
        pairing = Pairing(base={COMPLETENESS: values[COMPLETENESS]}, group=side.group)
        return cls(
            name=dataset.name,
            candidates=tuple(replace(one, rankings=one.rankings.with_base(pairing)) for one in found),
            values=values,
            types=types,
            pairing=pairing,
        )

    def base(self, among: BoolArray) -> dict[Measure, float]:
        """Means of the default over some requests, of all that a recommendation is held to there."""
        kept = kept_measures({name: one[among] for name, one in self.types.items()})
        values = {one: self.values[one][among] for one in (COMPLETENESS, TOKENS, *kept)}
        return {one: float(np.nanmean(each)) for one, each in values.items() if not np.isnan(each).all()}

    def advice(self, among: BoolArray) -> Found:
        """What `tune` recommends on some requests."""
        base = self.base(among)
        optima = {}
        for one in self.candidates:
            optimum = optima[one.tunable.name] = Optimum(NORMAL, base=base, defaults=one.tunable.values())
            sweep(one.family, one.rankings.select_queries(among), [optimum])
        ties = Ties[Setting](self.candidates[0].tunable.name, partial(self._gain, among))
        choice = choose(NORMAL, optima, ties)
        if choice.setting is None:
            return None
        return self._candidate(choice.selector), choice.setting.rounded

    def _candidate(self, selector: str) -> Candidate:
        return next(candidate for candidate in self.candidates if candidate.tunable.name == selector)

    def _gain(self, among: BoolArray, policy: Policy, *settings: Setting) -> tuple[float, float]:
        """By how much the objective of a setting is better than that of another on some requests."""
        found = []
        for selector, values in settings:
            candidate = self._candidate(selector)
            rankings, values = candidate.rankings.select_queries(among), candidate.tunable.values(values)
            found.append(candidate.family.by_query(rankings, values)[Measure(policy.objective)])
        return mean_gain(policy, [(found[0], found[1], self.pairing.group[among])])

    def best(self, among: BoolArray) -> Found:
        """The best that is recommendable if some requests are the truth, by means alone."""
        base = self.base(among)
        best: tuple[Candidate, Optimum] | None = None
        for one in self.candidates:
            optimum = Optimum(NORMAL, base=base, defaults=one.tunable.values())
            optimum.limits = tuple(replace(limit, by="mean", room=0.0) for limit in limits_of(NORMAL, base))
            sweep(one.family, one.rankings.select_queries(among), [optimum])
            if optimum.best is not None and (best is None or optimum.beats(best[1])):
                best = one, optimum
        return None if best is None or best[1].best is None else (best[0], best[1].best.values)

    def draws(self, n: int) -> Iterator[tuple[BoolArray, BoolArray]]:
        """Requests of a team, and the rest: those of no paraphrase that the team has a request of.

        Groups of up to `PARAPHRASES` requests are drawn whole. Of a longer one, such as a conversation with two hundred
        questions, a team has some: with whole ones 400 labels would be of two conversations.
        """
        rng, whole = np.random.default_rng([SEED, n]), self.pairing.group
        alone = np.bincount(whole)[whole] > PARAPHRASES
        keys = np.where(alone, len(whole) + np.arange(len(whole)), whole)
        group = np.unique(keys, return_inverse=True)[1]
        in_need = ~np.isnan(self.values[COMPLETENESS])
        for _ in range(DRAWS):
            place = rng.permutation(int(group.max()) + 1)[group]
            by_group = np.lexsort((rng.random(len(group)), place))
            team = np.zeros(len(group), dtype=np.bool_)
            team[by_group[np.cumsum(in_need[by_group]) <= n]] = True
            rest = ~np.isin(group, group[team])
            if (team & in_need).sum() == n and (rest & in_need).sum() >= REST:
                yield team, rest


def teams(ground: Ground, n: int) -> Iterator[Team]:
    """What following the advice came to, by team."""
    for team, rest in ground.draws(n):
        advice, best = ground.advice(team), ground.best(rest)
        saved, gained = worth(ground, best, rest)
        yield Team(
            dataset=ground.name,
            n=n,
            recommended=advice is not None,
            harm=harm(ground, advice, rest),
            gain=worth(ground, advice, rest)[0],
            attainable=saved,
            counts=saved >= 0.02 or gained >= 0.01,
        )


def worth(ground: Ground, found: Found, among: BoolArray) -> tuple[float, float]:
    """The share of the default's tokens that a setting saves, and what it adds to its completeness."""
    if found is None:
        return 0.0, 0.0
    candidate, values = found
    own = candidate.family.by_query(candidate.rankings.select_queries(among), values)
    tokens, complete = (
        float(np.nanmean(own[one]) - np.nanmean(ground.values[one][among])) for one in (TOKENS, COMPLETENESS)
    )
    return -tokens / float(np.nanmean(ground.values[TOKENS][among])), complete


def harm(ground: Ground, found: Found, among: BoolArray) -> str:
    """What a setting does that it must not, in a word; empty where it does nothing of it."""
    if found is None:
        return ""
    candidate, values = found
    complete = candidate.family.by_query(candidate.rankings.select_queries(among), values)[COMPLETENESS]
    before = ground.values[COMPLETENESS][among]
    if np.nanmean(complete) < KEEP * np.nanmean(before) - 0.02:
        return "incomplete"
    mean, error = ground.pairing.select_queries(among).differences({COMPLETENESS: complete})[COMPLETENESS].errors()
    if -worth(ground, found, among)[0] > MAX_TOKENS - 1 and not mean[0] - SAFETY_ERRORS * error[0] > 0:
        return "dear"
    for needing in ground.types.values():
        own = needing[among]
        if own.any() and np.nanmean(complete[own]) < 0.5 * np.nanmean(before[own]):
            return "a type"
    return ""


def main(arguments: Sequence[str]) -> None:
    """Make the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--start", default="semantic/spec", help="the default: a selector and its preset")
    parser.add_argument("--out", type=Path, default=ROOT / "reports" / "regret.md")
    parser.add_argument("--beside", nargs="*", default=[], help="selectors that compete with that of the default")
    asked = parser.parse_args(arguments)
    names = (asked.start, *asked.beside)
    embedder = open_embedder("minilm")
    vectors = Vectors(embedder, VectorStore(embedder.identity))
    resources = LocalResources(vectors, open_counter("o200k", cache=cache_dir()))
    found: list[Team] = []
    fits = FamilyFits(resources) if any(one.partition("/")[0] == LEARNED for one in names) else None
    for reference in DATASETS:
        say(f"{reference}: ranking")
        tunables = [tunable_of(one if fits is None else fits.selector(one, reference)) for one in names]
        ground = Ground.of(reference, tunables, resources)
        for n in LABELS:
            found += teams(ground, n)
            say(f"{reference}: {n} labels")
    command = " ".join(["python experiments/tuning/regret.py", *arguments])
    write_parted(asked.out, page(found, start=asked.start, beside=asked.beside, command=command))
    say(f"written: {asked.out}")


class FamilyFits:
    """The selector `learned` with fits that have seen no dataset of a family, in files of their own."""

    def __init__(self, resources: LocalResources) -> None:
        self._tuning = halves(TUNING, resources, say)
        self._folder = Path(tempfile.mkdtemp(prefix="regret-"))

    def selector(self, name: str, reference: str) -> str:
        """What a selector is called on a dataset: itself, or the file of `learned` without the dataset's family."""
        shipped, _, preset = name.partition("/")
        if shipped != LEARNED:
            return name
        family = next(family for family, names in FAMILIES.items() if reference in names)
        fits = self._folder / f"{LEARNED}-{family}.json"
        values = fit_examples([one.made for one in self._tuning if one.family != family])
        fits.unlink(missing_ok=True)
        write_calibrations(fits, [replace(shipped_fit(), dataset=f"all but {family}", values=values)])
        return str(write_fitted(find_definition(LEARNED)[0], fits, preset or None))


def tunable_of(selector: str) -> Tunable:
    """A selector, with a preset in place of its defaults where one is named."""
    definition, preset = find_definition(selector)
    start = definition.presets[preset] if preset is not None else {}
    entry = SelectorEntry(name=definition.name)
    return Tunable(entry=entry, source=definition.name, definition=definition, start=start)


def say(what: str) -> None:
    """Tell how far it is."""
    sys.stderr.write(f"{what}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    run_script(main, sys.argv[1:])
