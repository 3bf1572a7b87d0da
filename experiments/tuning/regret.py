"""What does following the advice of `tune` save, and how often does it harm: reports/regret.md (`make regret`).

Teams are simulated: each draws labelled requests of a dataset, one group after the other, until n of them need
something, and tunes on them by the policy `normal` of README; the rest of the requests says what the advice was worth.
`learned` ranks each dataset by a fit that has seen none of its family.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

sys.path.extend([str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "learned")])

import numpy as np
import pandas as pd
from pages import Page, Picture, Tables, constrained_axes, run_page
from pooled import fit_examples
from world import FAMILIES, ROOT, halves, resources

from ctxbench.datasets.dataset import draw_sample
from ctxbench.datasets.lookup import open_dataset
from ctxbench.evaluation.metrics import Metric
from ctxbench.model.arrays import BoolArray, FloatArray
from ctxbench.pipelines.fits import write_calibrations
from ctxbench.search.resources import LocalResources
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
    Ties,
    kept_measures,
    limits_of,
    mean_gain,
    policy_measures,
)
from ctxbench.tuning.preset_files import write_fitted
from ctxbench.tuning.query_fits import shipped_fit
from ctxbench.tuning.rankings import MeasuredRankings
from ctxbench.tuning.results import TUNING, QuerySet
from ctxbench.tuning.search import Optimum, Setting
from ctxbench.tuning.tunables import Tunable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

START, RIVAL = "semantic/spec", "learned"
DATASETS = (
    *("bfcl-simple", "bfcl-live", "bfcl-live-listed", "datasets/workbench", "datasets/freight"),
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


Advice: TypeAlias = tuple[Candidate, Mapping[str, Value]] | None
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
        typed = [Measure(Metric(metric), required_type=name) for name in types for metric in ("completeness", "items")]
        candidates = []
        for tunable in tunables:
            if tunable.family is None:
                sys.exit(f"{tunable.name} has no cut that is swept exactly")
            answers = tunable.rank(side).answers.candidates
            rankings = MeasuredRankings.of(answers, side.labels, (*policy_measures([NORMAL]), *typed))
            candidates.append(Candidate(tunable=tunable, family=tunable.family.coarse(), rankings=rankings))
        first = candidates[0]
        values = first.family.by_query(first.rankings, first.tunable.values())
        pairing = Pairing(base={COMPLETENESS: values[COMPLETENESS]}, group=side.group)
        return cls(
            name=dataset.name,
            candidates=tuple(replace(each, rankings=each.rankings.with_base(pairing)) for each in candidates),
            values=values,
            types=types,
            pairing=pairing,
        )

    def base(self, among: BoolArray) -> dict[Measure, float]:
        """Means of the default over some requests, of all that a recommendation is held to there."""
        kept = kept_measures({name: needing[among] for name, needing in self.types.items()})
        values = {measure: self.values[measure][among] for measure in (COMPLETENESS, TOKENS, *kept)}
        return {measure: float(np.nanmean(each)) for measure, each in values.items() if not np.isnan(each).all()}

    def advice(self, among: BoolArray) -> Advice:
        """What `tune` recommends on some requests."""
        base = self.base(among)
        optima = {}
        for candidate in self.candidates:
            optimum = optima[candidate.tunable.name] = Optimum(NORMAL, base=base, defaults=candidate.tunable.values())
            sweep(candidate.family, candidate.rankings.select_queries(among), [optimum])
        ties = Ties[Setting](self.candidates[0].tunable.name, partial(self._gain, among))
        choice = choose(NORMAL, optima, ties)
        if choice.setting is None:
            return None
        return self._candidate(choice.selector), choice.setting.rounded

    def _candidate(self, selector: str) -> Candidate:
        return next(candidate for candidate in self.candidates if candidate.tunable.name == selector)

    def _gain(self, among: BoolArray, policy: Policy, *settings: Setting) -> tuple[float, float]:
        """By how much the objective of a setting is better than that of another on some requests."""
        objectives = []
        for selector, values in settings:
            candidate = self._candidate(selector)
            rankings, values = candidate.rankings.select_queries(among), candidate.tunable.values(values)
            objectives.append(candidate.family.by_query(rankings, values)[Measure(policy.objective)])
        return mean_gain(policy, [(objectives[0], objectives[1], self.pairing.group[among])])

    def best(self, among: BoolArray) -> Advice:
        """The best that is recommendable if some requests are the truth, by means alone."""
        base = self.base(among)
        best: tuple[Candidate, Optimum] | None = None
        for candidate in self.candidates:
            optimum = Optimum(NORMAL, base=base, defaults=candidate.tunable.values())
            optimum.limits = tuple(replace(limit, by="mean", room=0.0) for limit in limits_of(NORMAL, base))
            sweep(candidate.family, candidate.rankings.select_queries(among), [optimum])
            if optimum.best is not None and (best is None or optimum.beats(best[1])):
                best = candidate, optimum
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
            order = rng.permutation(int(group.max()) + 1)[group]
            by_group = np.lexsort((rng.random(len(group)), order))
            team = np.zeros(len(group), dtype=np.bool_)
            team[by_group[np.cumsum(in_need[by_group]) <= n]] = True
            rest = ~np.isin(group, group[team])
            if (team & in_need).sum() == n and (rest & in_need).sum() >= REST:
                yield team, rest


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """What following the advice came to for one team.

    Attributes:
        dataset, labels: on which, and how many labelled requests it has that need something.
        recommended: whether a setting was recommended; else the default was kept.
        harm: what the setting does on the rest that it must not, in a word; empty = nothing.
        saved: share of the default's tokens that it saves on the rest; 0 where the default was kept.
        attainable: the same of the best recommendable setting by the rest itself.
        counts: whether there is enough to gain for the share of it to count.
    """

    dataset: str
    labels: int
    recommended: bool
    harm: str
    saved: float
    attainable: float
    counts: bool


def teams(ground: Ground, n: int) -> Iterator[Team]:
    """What following the advice came to, by team."""
    for team, rest in ground.draws(n):
        advice, best = ground.advice(team), ground.best(rest)
        saved, gained = worth(ground, best, rest)
        yield Team(
            dataset=ground.name,
            labels=n,
            recommended=advice is not None,
            harm=harm(ground, advice, rest),
            saved=worth(ground, advice, rest)[0],
            attainable=saved,
            counts=saved >= 0.02 or gained >= 0.01,
        )


def worth(ground: Ground, setting: Advice, among: BoolArray) -> tuple[float, float]:
    """The share of the default's tokens that a setting saves, and what it adds to its completeness."""
    if setting is None:
        return 0.0, 0.0
    candidate, values = setting
    by_query = candidate.family.by_query(candidate.rankings.select_queries(among), values)
    tokens, complete = (
        float(np.nanmean(by_query[measure]) - np.nanmean(ground.values[measure][among]))
        for measure in (TOKENS, COMPLETENESS)
    )
    return -tokens / float(np.nanmean(ground.values[TOKENS][among])), complete


def harm(ground: Ground, setting: Advice, among: BoolArray) -> str:
    """What a setting does that it must not, in a word; empty where it does nothing of it."""
    if setting is None:
        return ""
    candidate, values = setting
    complete = candidate.family.by_query(candidate.rankings.select_queries(among), values)[COMPLETENESS]
    before = ground.values[COMPLETENESS][among]
    if np.nanmean(complete) < KEEP * np.nanmean(before) - 0.02:
        return "incomplete"
    mean, error = ground.pairing.select_queries(among).differences({COMPLETENESS: complete})[COMPLETENESS].errors()
    if -worth(ground, setting, among)[0] > MAX_TOKENS - 1 and not mean[0] - SAFETY_ERRORS * error[0] > 0:
        return "dear"
    for needing in ground.types.values():
        members = needing[among]
        if members.any() and np.nanmean(complete[members]) < 0.5 * np.nanmean(before[members]):
            return "a type"
    return ""


def measure() -> Tables:
    """Sums over the teams of every dataset and number of labels that leaves enough requests to judge by."""
    opened = resources()
    fits = FamilyFits(opened)
    made: list[Team] = []
    for reference in DATASETS:
        say(f"{reference}: ranking")
        tunables = [tunable_of(START), tunable_of(fits.selector(RIVAL, reference))]
        ground = Ground.of(reference, tunables, opened)
        for n in LABELS:
            made += teams(ground, n)
            say(f"{reference}: {n} labels")
    return {"": summed(made)}


def summed(made: Sequence[Team]) -> pd.DataFrame:
    """A row for each dataset and number of labels, with means over its teams.

    `saved_counting` and `attainable` are means over the teams for which enough can be saved; NaN where there are none.
    """
    frame = pd.DataFrame(made)
    rows = []
    for (dataset, labels), part in frame.groupby(["dataset", "labels"], sort=False):
        counting = part[part["counts"]]
        rows.append(
            {
                "dataset": dataset,
                "labels": labels,
                "teams": len(part),
                "recommended": part["recommended"].mean(),
                "harmed": (part["harm"] != "").mean(),
                "harm": ", ".join(sorted({harm for harm in part["harm"] if harm})),
                "saved": part["saved"].mean(),
                "saved_counting": counting["saved"].mean(),
                "attainable": counting["attainable"].mean(),
            }
        )
    return pd.DataFrame(rows)


class FamilyFits:
    """The selector `learned` with fits that have seen no dataset of a family, in files of their own."""

    def __init__(self, opened: LocalResources) -> None:
        self._tuning = halves(TUNING, opened, say)
        self._folder = Path(tempfile.mkdtemp(prefix="regret-"))

    def selector(self, name: str, reference: str) -> str:
        """The file of `learned` without the family of a dataset."""
        family = next(family for family, names in FAMILIES.items() if reference in names)
        fits = self._folder / f"{name}-{family}.json"
        rest = [half for half in self._tuning if half.family != family]
        values = fit_examples([half.made for half in rest], [half.family for half in rest])
        fits.unlink(missing_ok=True)
        write_calibrations(fits, [replace(shipped_fit(), dataset=f"all but {family}", values=values)])
        return str(write_fitted(find_definition(name)[0], fits, None))


def tunable_of(selector: str) -> Tunable:
    """A selector, with a preset in order of its defaults where one is named."""
    definition, preset = find_definition(selector)
    start = definition.presets[preset] if preset is not None else {}
    entry = SelectorEntry(name=definition.name)
    return Tunable(entry=entry, source=definition.name, definition=definition, start=start)


def say(text: str) -> None:
    """Tell how far it is."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def page(tables: Tables) -> Page:
    """The page of these sums: means over datasets that weigh the same."""
    sums = tables[""]
    means = by_labels(sums)
    most = means["harmed"].max()
    row = means.loc[100]
    return Page(
        title="Does following the advice of `tune` pay?",
        answer=(
            f"Yes. With 100 labelled requests it saves {row['saved']:.0%} of the tokens, {row['attained']:.0%} of what "
            f"can be saved; at most {most:.1%} of teams are harmed."
        ),
        picture=Picture(
            draw=partial(draw, sums),
            alt="Share of the attainable saving by number of labels: each dataset and the mean",
            width=520,
            height=340,
        ),
        table=[
            {
                "labels": str(labels),
                "datasets": f"{row['datasets']:.0f}",
                "recommended another setting": f"{row['recommended']:.0%}",
                "tokens saved": f"{row['saved']:.1%}",
                "of what can be saved": f"{row['attained']:.0%}",
                "teams harmed": f"{row['harmed']:.1%}",
            }
            for labels, row in means.iterrows()
        ],
        notes=(
            (
                "`labels`: labelled requests that need something. What can be saved is what the best recommendable "
                "setting saves if the requests that a team did not label decide. A team is harmed if, on those "
                "requests, the setting is more than 2 points below its target, costs over 1.5 times the default's "
                "tokens without being significantly more complete, or leaves a type of items below half of the "
                "default's completeness."
            ),
        ),
        made=(
            f"`make regret`: {sums['teams'].max()} simulated teams for each dataset and number of labels, drawn from "
            f"at most {SAMPLE:,} requests, paraphrases together; the truth is the rest, at least {REST} requests that "
            f"need something. Start: `{START}`; its settings and those of `{RIVAL}` compete, which is fitted without "
            "the dataset's family. Policy: fewest tokens that keep 0.98 of the default's completeness. Settings are "
            "fewer than `tune` has: topK 10, 20, 50, 100, eleven topN, every threshold. Every dataset weighs the same."
        ),
    )


def by_labels(sums: pd.DataFrame) -> pd.DataFrame:
    """Means over datasets by number of labels; `attained` is over those on which enough can be saved."""
    means = sums.groupby("labels")[["recommended", "harmed", "saved"]].mean()
    counting = sums.dropna(subset="attainable").groupby("labels")[["saved_counting", "attainable"]].mean()
    attained = counting["saved_counting"] / counting["attainable"]
    return means.assign(datasets=sums.groupby("labels").size(), attained=attained)


def draw(sums: pd.DataFrame, figure: Figure) -> None:
    """Lines over the number of labels, one for each dataset and one for the mean."""
    axes = constrained_axes(figure)
    sums = sums.dropna(subset="attainable")
    for _, rows in sums.groupby("dataset"):
        axes.plot(rows["labels"], 100 * rows["saved_counting"] / rows["attainable"], color="0.75", marker=".")
    means = by_labels(sums)["attained"]
    axes.plot(means.index, 100 * means, color="C0", linewidth=3, marker="o")
    axes.annotate("mean", (means.index[-1], 100 * means.iloc[-1]), (6, 0), textcoords="offset points", color="C0")
    axes.set_xscale("log")
    axes.set_xticks(LABELS, [str(labels) for labels in LABELS])
    axes.minorticks_off()
    axes.set_xlabel("labelled requests")
    axes.set_ylabel("% of what can be saved")


if __name__ == "__main__":
    run_page("regret", measure, page, about=__doc__.splitlines()[0])
