"""Where the figures of a labelling session stand, and what the next halving of their intervals would take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctxbench.data.labelling.answer_log import active
from ctxbench.data.labelling.estimate import Figure, Sample
from ctxbench.data.labelling.predict import pairs

if TYPE_CHECKING:
    from ctxbench.data.labelling.answer_log import KeyPress
    from ctxbench.data.labelling.queue import Queue

LONG = 120.0  # seconds from which an answer counts as a break


@dataclass(frozen=True, kw_only=True)
class Report:
    """Where the figures stand.

    Attributes:
        completeness: one a selector.
        differences: one a pair of selectors.
        halving: by figure name, how many more answers bring its width down to half; None = even all do not.
        answers: pressed so far, taken back ones not counted.
        queries: labelled through by them.
        unsure: queries in doubt: skipped, or not asked what would do as well.
        minutes_per_answer: median, breaks left out; NaN before the first.
        answers_per_query: so far, or as guessed before the first.
    """

    completeness: tuple[Figure, ...]
    differences: tuple[Figure, ...]
    halving: Mapping[str, int | None]
    answers: int
    queries: int
    unsure: int
    minutes_per_answer: float
    answers_per_query: float


def report_on(sample: Sample, queue: Queue, answers: Sequence[KeyPress]) -> Report:
    """Estimate every figure.

    Args:
        sample: of now.
        queue: that it was drawn by.
        answers: the log.
    """
    n = len(sample.selectors)
    complete = tuple(sample.complete(i) for i in range(n))
    ahead = tuple(sample.ahead(k, i, j) for k, (i, j) in enumerate(pairs(n)))
    to_come = _turns_to_come(sample, queue)
    standing = active(answers)
    per_query = len(standing) / len(sample.answered) if sample.answered else _guessed_answers(queue)
    more: dict[str, int | None] = {}
    for i, figure in enumerate(complete):
        more[figure.name] = _answers(sample.halving_of(i, to_come), per_query)
    for k, (i, j) in enumerate(pairs(n)):
        more[ahead[k].name] = _answers(sample.halving_between(k, i, j, to_come), per_query)
    times = sorted(answer.seconds for answer in standing if 0 < answer.seconds < LONG)
    return Report(
        completeness=complete,
        differences=ahead,
        halving=more,
        answers=len(standing),
        queries=sum(one.sure for one in sample.answered.values()),
        unsure=sample.unsure,
        minutes_per_answer=times[len(times) // 2] / 60.0 if times else float("nan"),
        answers_per_query=per_query,
    )


def _turns_to_come(sample: Sample, queue: Queue) -> list[int]:
    left = [sum(query in sample.answered for query in queries) for queries in sample.strata]
    to_come = []
    for stratum in queue.turns():
        if left[stratum] > 0:
            left[stratum] -= 1
        else:
            to_come.append(stratum)
    return to_come


def _guessed_answers(queue: Queue) -> float:
    sizes = [len(stratum.queries) for stratum in queue.strata]
    total = sum(sizes)
    expected = sum(n * stratum.answers for n, stratum in zip(sizes, queue.strata, strict=True))
    return expected / total if total else 1.0


def _answers(queries: int | None, per_query: float) -> int | None:
    return None if queries is None else round(queries * per_query + 0.499)
