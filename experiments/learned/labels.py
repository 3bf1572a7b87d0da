"""What your own labels add: fits around the shipped weights, beside a fit on these labels alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from world import Half, mean

from ctxbench.io.errors import ParameterError
from ctxbench.pipelines.feature_families import Items, RequestText, Slots, Words
from ctxbench.pipelines.features import Logistic
from ctxbench.tuning.query_fits import fit_with_prior, fit_without_prior

N_LABELS = (25, 50, 100, 200, 400)
EARLIER = (
    *("retrieved.score", "retrieved.margin", "retrieved.rank"),
    *(f"words.{name}" for name in Words.columns),
    *(f"item.{name}" for name in Items.columns),
    *(f"request.{name}" for name in RequestText.columns),
    *(f"slots.{name}" for name in Slots.columns),
)
"""The features that `probability` had before it was fitted around a shipped one: of items and requests, too."""

SHIPPED, AROUND, REQUESTS = "shipped", "around the shipped", "and what similar requests needed"
ALONE, BEFORE = "own labels alone", "earlier features alone"
_FIRM = 1 / 0.3  # precision of weights of nothing, as `probability` had it


@dataclass(frozen=True, kw_only=True)
class OwnLabels:
    """One draw of labels.

    Attributes:
        dataset: its name.
        n: labels drawn.
        complete: completeness at the budget, by kind of fit; a kind that could not be fitted is missing.
        needed: items expected to be needed over items needed, of the fit that reads similar requests.
    """

    dataset: str
    n: int
    complete: Mapping[str, float]
    needed: float


def own_labels(n: int, *, test: Half, tuning: Half, shipped: Logistic, draws: int) -> list[OwnLabels]:
    """Draw labelled requests of the tuning split, fit, and measure on the test split.

    Nothing where the split has fewer queries.
    """
    made, labelled, earlier = tuning.made, tuning.labelled, tuning.examples(EARLIER)
    if made.n_queries < n:
        return []
    spent = test.default_tokens
    complete = {SHIPPED: mean(test.within(test.ranked(shipped), spent)[0])}
    found = []
    for draw in range(draws):
        rows = np.zeros(made.n_queries, dtype=np.bool_)
        rows[np.random.default_rng(draw).permutation(made.n_queries)[:n]] = True
        fits: dict[str, Logistic] = {}
        for kind, make in (
            (AROUND, lambda rows=rows: fit_with_prior(made.select_queries(rows), shipped)),
            (REQUESTS, lambda rows=rows: fit_with_prior(labelled.select_queries(rows), shipped)),
            (ALONE, lambda rows=rows: fit_without_prior(made.select_queries(rows))),
            (BEFORE, lambda rows=rows: fit_without_prior(earlier.select_queries(rows), precision=_FIRM)),
        ):
            try:
                fits[kind] = Logistic.read(make())
            except ParameterError:  # labels of one class
                continue
        own = {kind: mean(test.within(test.ranked(model), spent)[0]) for kind, model in fits.items()}
        said = np.nansum(test.scored(fits[REQUESTS]).score) if REQUESTS in fits else np.nan
        needed = float(said / max(test.made.label.sum(), 1))
        found.append(OwnLabels(dataset=test.name, n=n, complete={**complete, **own}, needed=needed))
    return found
