"""A recommended setting against the first n items of the base's ranking at equal prompt tokens.

A tuned fixed number of items meets a policy with something to spare, since one item more is a large step. Between two
numbers the comparison is with the one or the other by lot, so that neither side has more tokens to spend.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ctxbench.bench.equal_tokens import LENGTHS, AtTokens, Curve, at_equal_tokens
from ctxbench.bench.labels import Labels
from ctxbench.bench.metrics import Metric
from ctxbench.bench.stats import correct
from ctxbench.core.candidates import Candidates
from ctxbench.tuning.held_out_figures import SettingValues
from ctxbench.tuning.query_sets import QuerySet
from ctxbench.tuning.sweep.measures import Measure
from ctxbench.tuning.sweep.rankings import MeasuredRankings

_COMPLETENESS, _TOKENS = Measure(Metric("completeness")), Measure(Metric("tokens"))


def first_items_curve(table: Candidates, labels: Labels) -> Curve:
    """Completeness and tokens of the first n items on every query, from none to the 100 that are ranked.

    Args:
        table: a ranking that nothing was cut of, in the order of the queries of `labels`.
        labels: of the queries.
    """
    rankings = MeasuredRankings.of(table, labels, (_COMPLETENESS, _TOKENS))
    values = [
        [rankings.values(measure, np.minimum(rankings.sizes, n)) for n in LENGTHS]
        for measure in (_COMPLETENESS, _TOKENS)
    ]
    return Curve(*(np.stack(each) for each in values))


def compare_at_tokens(
    chosen: Mapping[str, SettingValues], curve: Curve, query_set: QuerySet, *, seed: int
) -> dict[str, AtTokens]:
    """Compare recommended settings with the curve, each at its own mean tokens; Holm-corrected together.

    Groups of paraphrases are witnesses as a whole: the p-value is that of the groups, the interval that of queries.

    Args:
        chosen: by policy, measured on the split of `query_set`.
        curve: on the same queries.
        query_set: the split.
        seed: of the sign flips.

    Returns:
        By policy; one that failed on a query, which then has no tokens, is left out.
    """
    found: dict[str, AtTokens] = {}
    for policy, one in chosen.items():
        complete, tokens = (one.by_query[query_set.split][measure.metric] for measure in (_COMPLETENESS, _TOKENS))
        if not np.isnan(tokens).any():
            found[policy] = at_equal_tokens(complete, tokens, curve, groups=query_set.group, seed=seed)
    corrected = correct(
        {policy: replace(one.comparison, p=one.p_groups) for policy, one in found.items() if one.comparison is not None}
    )
    return {policy: replace(one, comparison=corrected.get(policy)) for policy, one in found.items()}
