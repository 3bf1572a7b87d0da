"""Whether weights that were chosen on a repository's own older commits beat the shipped ones on its newer commits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import ctxbench
from ctxbench.evaluation.metrics import parse_metric
from ctxbench.io.console import silent
from ctxbench.model.arrays import FloatArray
from ctxbench.model.strategies import Step
from ctxbench.pipelines.strategies.rank import Weighted, normalised
from ctxbench.tuning.inputs import TuningInputs, open_tuning
from ctxbench.tuning.linear_fits import LinearCases, fit_linear
from ctxbench.tuning.policy import read_policies
from ctxbench.tuning.tuner import DatasetTuner

POLICY = Path(__file__).parents[1] / "tuning" / "own-weights.yaml"
SHIPPED, NEAREST, EXACT = "shipped", "nearest", "exact"
_LEAST = 0.001  # of a weight: that of the words must be above 0


@dataclass(frozen=True)
class OwnWeights:
    """What came of one repository.

    Attributes:
        name: of its dataset.
        recommended: whether `tune` recommends weights of its own.
        found: by weights, the share of what each newer query needs that is offered, shape (n_queries,): the shipped,
            those that `tune` recommends or else came nearest to recommending, and the best on the older queries.
    """

    name: str
    recommended: bool
    found: dict[str, FloatArray]

    @property
    def advised(self) -> FloatArray:
        """What is found by who does as `tune` says."""
        return self.found[NEAREST if self.recommended else SHIPPED]


def own_weights(dataset: Path) -> OwnWeights:
    """Choose weights on the tuning split of a history's dataset, and measure them on its test split."""
    inputs = replace(open_tuning(read_policies(POLICY), [str(dataset)]), shipped=())  # weights alone compete
    (opened,) = inputs.datasets
    tuner = DatasetTuner(inputs, opened, silent)
    tuner.choose()
    optimum = tuner.searches["codebase"].optima["own"]
    chosen = optimum.best or optimum.nearest
    given = {SHIPPED: {}, NEAREST: chosen.rounded if chosen else {}, EXACT: _exact(inputs)}
    own = inputs.tunables[0].entry.set
    selectors: dict[str, Any] = {
        name: {"selector": "codebase", "set": {**own, **values}} for name, values in given.items()
    }
    frame = ctxbench.evaluate(ctxbench.load(str(dataset)), selectors, split="test", metrics=("recall",)).per_query()
    found = {name: frame[frame["selector"] == name]["recall"].to_numpy(dtype=np.float64) for name in selectors}
    return OwnWeights(opened.dataset.name, tuner.choices["own"].setting is not None, found)


def _exact(inputs: TuningInputs) -> dict[str, float]:
    """The weights with the most of what the older queries need among their first ten, by the exact search."""
    asked, pipeline = inputs.datasets[0].tuning_set, inputs.tunables[0].pipeline({})
    step = pipeline.refine[0]
    if not isinstance(step, Step) or not isinstance(step.call, Weighted):
        raise TypeError("codebase is not ranked by its weights")
    found = replace(pipeline, refine=()).run(asked.batch, asked.resources, memo=asked.memo).candidates
    columns = normalised(found, step.call.normalise, lowest=step.call.lowest)
    values, start = np.stack([*columns.values()], axis=1), np.array([step.call.weights[name] for name in columns])
    cases = LinearCases(values=values, query=found.request, item=found.item, judgments=asked.dataset.judgments)
    weights = fit_linear(cases, parse_metric("R@10"), start=start).weights
    return dict(zip(columns, np.maximum(weights, _LEAST).tolist(), strict=True))


Gain = Callable[[Sequence[FloatArray], Sequence[FloatArray]], dict[str, float]]
"""The difference over the queries of all repositories, with its interval, as `measure.gain`."""


def advice(repositories: Sequence[OwnWeights], gain: Gain) -> list[dict[str, Any]]:
    """What weights of one's own change in what is found of the newer requests, a row for each way to choose them."""
    shipped, nearest, exact = ([result.found[name] for result in repositories] for name in (SHIPPED, NEAREST, EXACT))
    n_recommended = sum(result.recommended for result in repositories)
    ways = (
        (f"as `tune` recommends (for {n_recommended} of {len(repositories)})", [row.advised for row in repositories]),
        ("the nearest setting", nearest),
        ("the best on the older requests", exact),
    )
    return [{"weights": name, **gain(shipped, values)} for name, values in ways]
