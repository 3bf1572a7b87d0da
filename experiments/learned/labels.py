"""What your own labels add: fits around the shipped weights, compared with a fit on these labels alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from world import Half, mean

from ctxbench.io.errors import ParameterError
from ctxbench.pipelines.features import Logistic
from ctxbench.tuning.query_fits import fit_with_prior, fit_without_prior

N_LABELS = (25, 50, 100, 200, 400)
REQUESTS, AROUND, ALONE = "and similar requests", "around the shipped", "labels alone"
"""Fits: around the shipped weights with and without a feature of similar labelled requests, and with no prior."""


def own_labels(n: int, *, test: Half, tuning: Half, shipped: Logistic, draws: int) -> Iterator[dict[str, object]]:
    """Draw labelled requests of the tuning split, fit, and measure on the test split.

    Yields:
        A row for each draw and fit: `gain` of completeness at the tokens of the specification's defaults over the
        shipped ranking (0 where nothing can be fitted), and `expected`, items expected to be needed over items needed.
        Nothing where the split has fewer queries.
    """
    made, labelled = tuning.made, tuning.labelled
    if made.n_queries < n:
        return
    before = mean(test.within(test.ranked(shipped), test.default_tokens)[0])
    for draw in range(draws):
        rows = np.zeros(made.n_queries, dtype=np.bool_)
        rows[np.random.default_rng(draw).permutation(made.n_queries)[:n]] = True
        for kind, make in (
            (REQUESTS, lambda rows=rows: fit_with_prior(labelled.select_queries(rows), shipped)),
            (AROUND, lambda rows=rows: fit_with_prior(made.select_queries(rows), shipped)),
            (ALONE, lambda rows=rows: fit_without_prior(made.select_queries(rows))),
        ):
            row = {"dataset": test.name, "labels": n, "fit": kind, "draw": draw, "gain": 0.0, "expected": np.nan}
            try:
                model = Logistic.read(make())
            except ParameterError:  # labels of one class
                yield row
                continue
            row["gain"] = mean(test.within(test.ranked(model), test.default_tokens)[0]) - before
            row["expected"] = float(np.nansum(test.scored(model).score) / max(test.made.label.sum(), 1))
            yield row
