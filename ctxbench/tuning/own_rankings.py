"""The rankings of an external selector, a file of answers, a callable, a command or an endpoint, for cuts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from ctxbench.bench.slices import Slice
from ctxbench.core.arrays import FloatArray
from ctxbench.core.candidates import Candidates, place_among
from ctxbench.core.errors import Fault, InputError
from ctxbench.selectors.definition import Definition
from ctxbench.selectors.external import External
from ctxbench.selectors.parameters import Parameter
from ctxbench.selectors.selector import EXTERNAL_KINDS
from ctxbench.tuning.query_sets import FullRanking, QuerySet, ask

EXTERNAL_CUT = Definition(  # of a ranking from outside; includeScore goes as far as its scores, see `with_range_of`
    name="answers",
    about="a ranking of your own, cut by us",
    parameters={
        "topN": Parameter(name="topN", default=5, low=0, high=50),
        "includeScore": Parameter(name="includeScore", default=1.0, low=0.0, high=1.0),
        "margin": Parameter(name="margin", default=1.0, low=0.0, high=1.0),
    },
    spec={
        "retrieve": "everything",
        "refine": [
            {"standard": {"topK": 100, "topN": "$topN", "includeScore": "$includeScore"}},
            {"margin": {"margin": "$margin", "of": "ratio", "at_least": 0, "at_most": 100}},
        ],
    },
    presets={},
    abouts={},
    written={},
)
_CALLED = {"url": "endpoint"}  # in messages, where the key alone does not say it
MAX_NONPOSITIVE = 0.9  # share of the scores of answers that may be 0 or less


class ExternalRankings:
    """An external selector whose rankings are cut; each query set is asked once, since asking may take long.

    Attributes:
        name: the name in tables.
        title: the name in messages: what it is, and its name.
    """

    def __init__(self, selector: External, written: Collection[str] = ("answers",)) -> None:
        """Make an empty store of rankings.

        Args:
            selector: what is asked; its processes and connections are ended when it has answered.
            written: the keys of its block in a file, one of which says what it is.
        """
        self.name = selector.name
        kind = next(_CALLED.get(kind, kind) for kind in EXTERNAL_KINDS if kind in written)
        self.title = f"{kind} {self.name!r}"
        self._selector = selector
        self._rankings: dict[tuple[str, tuple[str, ...]], FullRanking] = {}

    def of(self, query_set: QuerySet) -> FullRanking:
        """Its rankings of some queries.

        Raises:
            InputError: it gives no ranking, or one without scores, or fails on queries.
        """
        key = query_set.dataset.hash, tuple(query_set.batch.ids)
        if key not in self._rankings:
            with self._selector:
                query, answers = ask(self._selector, query_set)
            if answers.errors or not answers.ranked or not answers.scored:
                where = f"{self.title}, {query_set.title}"
                raise InputError([Fault(f"{where}: {_why_unusable(answers, self._selector.first_unranked)}")])
            table = answers.candidates
            uncut = replace(table, out=np.zeros(len(table), dtype=np.int64))
            self._rankings[key] = FullRanking(query, replace(answers, candidates=uncut))
        return self._rankings[key]


def _why_unusable(answers: Slice, unranked: str) -> str:
    """Why answers cannot be tuned on; `unranked` is the first query whose answer has no ranking."""
    if answers.errors:
        query, why = next(iter(answers.errors.items()))
        some = f"{len(answers.errors)} of {len(answers.queries)} queries have"
        return (
            f"{some if len(answers.errors) > 1 else '1 query has'} no answer that can be used, the first is {query!r}: "
            f"{why.removeprefix(f'query {query!r}: ')}"
        )
    if not answers.ranked:
        needs = "tuning needs all that your selector ranks, not only what it chose"
        return f"some answer has no `ranking`, the first is that of query {unranked!r}; {needs}"
    first = answers.queries[_first_unscored(answers.candidates)]
    return (
        f"some item of a `ranking` has no `score`, the first is of query {first!r}; without scores there is no "
        "threshold that could be tuned"
    )


def _first_unscored(table: Candidates) -> int:
    """The first request with an order in place of scores, which reads as -1, -2, ... along the ranking."""
    rows = table.ranked
    scored = table.request[rows & (table.score != -1.0 - place_among(table, rows))]
    return int(np.setdiff1d(table.request[rows], scored)[0])


def searched_scores(answers: Slice) -> FloatArray:
    """The scores of all that was ranked."""
    table = answers.candidates
    return np.asarray(table.score[table.ranked])


def unfit_scores(title: str, answers: Slice, query_set: QuerySet) -> tuple[Fault, ...]:
    """Faults of the scores of external rankings, named by `title`; empty where there are none."""
    scores = searched_scores(answers)
    if not len(scores) or (scores <= 0).mean() <= MAX_NONPOSITIVE:
        return ()
    message = (
        f"{title}, {query_set.title}: {(scores <= 0).mean():.0%} of the scores in `ranking` are 0 or less, "
        "and a cut offers only what scores above 0; leave items that it would never offer out of `ranking`; if it "
        "would offer such, give scores above 0, such as probabilities"
    )
    return (Fault(message),)
