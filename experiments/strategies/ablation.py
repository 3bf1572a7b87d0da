"""Ablations: every strategy of a run against its base at equal tokens, over all datasets. Prints nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from base_curve import own_curve, standard_cut

from ctxbench.evaluation.answers import Labels
from ctxbench.evaluation.comparisons import AtTokens, Curve, at_equal_tokens
from ctxbench.evaluation.inputs import Prepared
from ctxbench.evaluation.run_folder import DatasetSummary, RunFolder, RunSummary, summarise_run
from ctxbench.evaluation.statistics import correct
from ctxbench.io.errors import ParameterError

NEEDED = ("completeness", "tokens")
ALPHA = 0.05  # of the test on groups


@dataclass(frozen=True, eq=False, kw_only=True)
class DatasetAblation:
    """All strategies on one dataset.

    Attributes:
        summary: estimates, and comparisons at the sizes that the strategies have.
        groups: how many groups of queries were asked, a query without one being a group alone.
        curve: of the base.
        at_tokens: by strategy, without the base; comparisons are Holm-corrected over the strategies.
    """

    summary: DatasetSummary
    groups: int
    curve: Curve
    at_tokens: Mapping[str, AtTokens]


@dataclass(frozen=True, eq=False, kw_only=True)
class Standing:
    """How a strategy stands at equal tokens, over the datasets.

    Attributes:
        strategy: its name; what stands before the first slash is its family.
        loose: of the better and the worse, those that a test on groups of queries does not tell apart.
        better, worse, untold: the datasets on which it differs significantly from the base, or not.
        beyond: those on which it spends more tokens than the base's curve reaches, so that nothing is compared.
        difference: mean over the datasets of the difference in completeness; NaN if none was compared.
    """

    strategy: str
    better: tuple[str, ...]
    worse: tuple[str, ...]
    untold: tuple[str, ...]
    beyond: tuple[str, ...]
    difference: float
    loose: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """What the strategy changes."""
        return self.strategy.partition("/")[0]

    @property
    def key(self) -> tuple[int, float, str]:
        """Sorts the best first: better less worse, then the mean difference, then the name."""
        mean = -math.inf if math.isnan(self.difference) else self.difference
        return (len(self.worse) - len(self.better), -mean, self.strategy)


@dataclass(frozen=True, eq=False, kw_only=True)
class Ablation:
    """A finished run read as an ablation.

    Attributes:
        run: its summary.
        datasets: in the order of the experiment.
    """

    run: RunSummary
    datasets: tuple[DatasetAblation, ...]

    @property
    def base(self) -> str:
        """The selector that the strategies are compared with."""
        return self.run.compare_to

    @property
    def strategies(self) -> tuple[str, ...]:
        """The others, in the order of the experiment."""
        return tuple(name for name in self.run.manifest["selectors"] if name != self.base)

    def standings(self) -> tuple[Standing, ...]:
        """Every strategy, the best first."""
        return tuple(sorted((self._standing(name) for name in self.strategies), key=lambda one: one.key))

    def _standing(self, strategy: str) -> Standing:
        names: dict[str, list[str]] = {"better": [], "worse": [], "untold": [], "beyond": []}
        differences, loose = [], []
        for dataset in self.datasets:
            at = dataset.at_tokens[strategy]
            found, told = at.comparison, verdict(at)
            names[told].append(dataset.summary.dataset)
            if told in ("better", "worse") and at.p_groups > ALPHA:
                loose.append(dataset.summary.dataset)
            if found is not None and found.n:
                differences.append(found.difference)
        mean = math.fsum(differences) / len(differences) if differences else math.nan
        lists = {key: tuple(found) for key, found in names.items()}
        return Standing(strategy=strategy, difference=mean, loose=tuple(loose), **lists)


def verdict(found: AtTokens) -> str:
    """`better` or `worse` where the two differ significantly, else `untold`; `beyond` where nothing was compared."""
    if found.comparison is None:
        return "beyond"
    if not found.comparison.significant:
        return "untold"
    return "better" if found.comparison.difference > 0 else "worse"


def ablate(folder: RunFolder, prepared: Prepared) -> Ablation:
    """Read a finished run as an ablation.

    Args:
        folder: of the run.
        prepared: its experiment.

    Raises:
        ParameterError: it is the run of something else, lacks a metric, or its base has no curve.
        StorageError: it is no finished run, or is damaged.
    """
    run = summarise_run(folder)
    _refuse_other(run, prepared)
    base = run.compare_to
    cut = standard_cut(run.manifest["selectors"][base]["description"])
    resources = prepared.resources()
    datasets = []
    for one in run.datasets:
        asked = prepared.datasets[one.dataset].judged()
        labels = Labels.of(asked, prepared.item_tokens[one.dataset])
        names = [query.id if query.group is None else query.group for query in asked.queries]
        groups = np.unique(names, return_inverse=True)[1]
        curve = own_curve(folder.load(one.dataset, base).answers.joined(), cut, labels, resources)
        found = {}
        for name in run.manifest["selectors"]:
            if name != base:
                values = folder.load(one.dataset, name).metrics
                complete, tokens = (values[metric] for metric in NEEDED)
                found[name] = at_equal_tokens(complete, tokens, curve, groups=groups, seed=_seed(run))
        datasets.append(
            DatasetAblation(
                summary=one, groups=int(groups.max(initial=-1)) + 1, curve=curve, at_tokens=_corrected(found)
            )
        )
    return Ablation(run=run, datasets=tuple(datasets))


def recommended(standings: Sequence[Standing], *, datasets: int) -> tuple[str, ...]:
    """The strategies that go on to the test split, in the order of `standings`.

    Of each family the best, if it is better on more datasets than it is worse; and any that is better on at least
    a third of the datasets and worse on none.
    """
    chosen = []
    families: set[str] = set()
    for one in standings:
        ahead = len(one.better) > len(one.worse)
        broad = 3 * len(one.better) >= datasets and not one.worse
        if (ahead and one.family not in families) or (broad and ahead):
            chosen.append(one.strategy)
        families.add(one.family)
    return tuple(chosen)


def _corrected(found: Mapping[str, AtTokens]) -> dict[str, AtTokens]:
    compared = {name: one.comparison for name, one in found.items() if one.comparison is not None and one.comparison.n}
    corrected = correct(compared)
    return {name: replace(one, comparison=corrected.get(name, one.comparison)) for name, one in found.items()}


def _seed(run: RunSummary) -> int:
    return int(run.manifest["experiment"]["seed"])


def _refuse_other(run: RunSummary, prepared: Prepared) -> None:
    """Hold a run to the experiment that it is said to be of."""
    asked: Mapping[str, Any] = run.manifest["experiment"]
    if asked["name"] != prepared.experiment.name:
        raise ParameterError(f"the run is of experiment {asked['name']!r}, not of {prepared.experiment.name!r}")
    for name, about in run.manifest["datasets"].items():
        dataset = prepared.datasets.get(name)
        if dataset is None or dataset.hash != about["hash"]:
            raise ParameterError(f"dataset {name} of the run is not the experiment's; run the experiment again")
    lacking = [name for name in NEEDED if name not in asked["metrics"]]
    if lacking:
        raise ParameterError(f"an ablation needs the metric {lacking[0]}; add it to the experiment's metrics")
