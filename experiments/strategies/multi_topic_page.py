"""The page and the figure of `multi_topic.py`: texts only, nothing is measured or chosen here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ctxbench.evaluation.statistics import Comparison
from ctxbench.report.charts import Panel, Scale, line_charts

Lines = Mapping[str, Mapping[str, Sequence[tuple[float, float]]]]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One arm on one dataset.

    Attributes:
        dataset, arm: names.
        base: what it is compared with; empty for a base itself.
        tokens: mean prompt tokens.
        values: completeness and recall.
        gains: of each above the base at as many tokens; None for a base, or one that has no so many.
    """

    dataset: str
    arm: str
    base: str
    tokens: float
    values: Mapping[str, float]
    gains: Mapping[str, Comparison | None]


def page_text(
    *,
    sizes: Mapping[str, Mapping[str, int]],
    chosen: Mapping[str, str],
    final: Sequence[Row],
    single: Sequence[Row],
    tried: Mapping[str, Sequence[Row]],
    chunks: Mapping[str, Sequence[float]],
) -> str:
    """The page.

    Args:
        sizes: requests by split and dataset.
        chosen: the arm of each family.
        final: rows of the test split.
        single: rows of requests of one topic.
        tried: rows of the tuning split by family.
        chunks: mean chunks a request by splitting, in the order of the datasets.
    """
    splitting = next(iter(chosen.values()))
    names = next(iter(sizes.values()))
    lines = ["# Requests of several topics", "", answer(final, splitting), ""]
    lines += ["![recall over prompt tokens](multi-topic.svg)", "", _WORDS, "", "## In words", ""]
    lines += [*_verdicts(final, splitting), *_single(single, splitting), "", f"## {_FINAL_TITLE}", "", _FINAL, ""]
    lines += [f"* {family}: {arm} was chosen on the tuning split." for family, arm in chosen.items()]
    lines += ["", *_table(final, tested=True)]
    lines += ["## What it costs requests of one topic", "", _SINGLE, "", *_table(single, tested=True)]
    lines += ["## How it was made", "", _METHOD]
    for split, counts in sizes.items():
        lines.append(f"* Requests, {split} split: {', '.join(f'{name} {n}' for name, n in counts.items())}.")
    lines += ["", "## What does not hold", "", *_limits(final), ""]
    lines += [f"## {TRIED}", "", "Not tested: these figures are what was chosen from.", ""]
    lines += [f"| chunks a request | {' | '.join(names)} |", f"| --- |{' ---: |' * len(names)}"]
    lines += [f"| {name} | {' | '.join(f'{n:.1f}' for n in row)} |" for name, row in chunks.items()]
    for family, rows in tried.items():
        lines += ["", f"### {family}", "", *_table(rows, tested=False)]
    return "\n".join(lines).rstrip("\n") + "\n"


def answer(rows: Sequence[Row], splitting: str) -> str:
    """What splitting, minima and pooling do to completeness on the test split, as one sentence."""
    datasets = list(dict.fromkeys(row.dataset for row in rows))

    def told(asked: Callable[[Row], bool], sign: float) -> list[str]:
        found = {}
        for row in rows:
            gain = row.gains["completeness"]
            if asked(row) and gain is not None and gain.significant and sign * gain.difference > 0:
                found.setdefault(row.dataset, f"{row.dataset} {points(gain.difference, sign=True)} points")
        return list(found.values())

    def both(asked: Callable[[Row], bool]) -> tuple[str, str]:
        more, fewer = (told(asked, sign) for sign in (1.0, -1.0))
        return tuple(f"{len(one)} ({', '.join(one)})" if one else "none" for one in (more, fewer))

    split, minimum, pooled = (both(asked) for asked in (lambda row: row.arm == splitting, _minimum, _pooled))
    return (
        f"**To search requests of several topics by {_plainly(splitting)} instead of by sentences gives more of them "
        f"all that they require on {split[0]} of the {len(datasets)} datasets, at equal tokens, and fewer on "
        f"{split[1]}; to keep a minimum of items for each part gives more on {minimum[0]} and fewer on {minimum[1]}, "
        f"to join the scores of the parts otherwise than by the best gives more on {pooled[0]} and fewer on "
        f"{pooled[1]}.**"
    )


def _minimum(row: Row) -> bool:
    return "a chunk" in row.arm


def _pooled(row: Row) -> bool:
    return "best" in row.arm or "mean" in row.arm


def _plainly(splitting: str) -> str:
    """`windows of 6 words that overlap by 4`; other splittings by their name."""
    size, _, overlap = splitting.removeprefix("windows ").partition("/")
    return f"windows of {size} words that overlap by {overlap}" if overlap.isdigit() else splitting


def _verdicts(rows: Sequence[Row], splitting: str) -> Iterator[str]:
    """What the table says of each question, in words."""
    questions = {
        f"Splitting into {splitting} instead of sentences": (lambda row: row.arm == splitting, 1.0),
        "Splitting into sentences instead of not at all": (lambda row: row.arm == "whole", -1.0),
        "A minimum per chunk": (_minimum, 1.0),
        "Pooling otherwise than by max": (_pooled, 1.0),
    }
    for question, (asked, sign) in questions.items():
        found = [(row, label, gain) for row in rows if asked(row) for label, gain in row.gains.items() if gain]
        told = [one for one in found if one[2].significant]
        words = []
        for verb, of in (("raises", 1.0), ("lowers", -1.0)):
            some = [f"{label} on {row.dataset} by {points(abs(gain.difference))}{_arm(row, question)}"
                    for row, label, gain in told if sign * of * gain.difference > 0]  # fmt: skip
            words += [f"{verb} {', '.join(some)}"] if some else []
        rest = f"the other {len(found) - len(told)}" if told else f"all {len(found)}"
        yield (
            f"* **{question}** {'; '.join(words) or 'changes nothing significantly'} "
            f"({rest} comparisons are not significant)."
        )


def _arm(row: Row, question: str) -> str:
    return "" if row.arm in question or row.arm == "whole" else f" ({row.arm})"


def _limits(final: Sequence[Row]) -> Iterator[str]:
    """What does not hold, with its figures."""
    reached = ", ".join(
        f"{points(row.values['completeness'])}% on {row.dataset}" for row in final if row.arm == "sentences"
    )
    yield f"* Five items complete few of these requests ({reached}). Where that is near zero,"
    yield "  completeness inconclusive arms apart, and recall is what is left to look at."
    yield "* The requests of metatool-multi were made by merging two, each for one tool; their halves are short and"
    yield "  plain, which suits short windows. Those of workbench and freight name several topics in longer texts."


def _single(single: Sequence[Row], splitting: str) -> Iterator[str]:
    """What the splitting does to requests of one topic."""
    gains = {row.dataset: gain for row in single if row.arm == splitting and (gain := row.gains["recall"]) is not None}
    losses = ", ".join(f"{points(gain.difference, sign=True)} on {name}" for name, gain in gains.items())
    told = ", ".join(name for name, gain in gains.items() if gain.significant) or "none of them"
    yield f"* On requests of one topic the recall of {splitting} differs by {losses} (below; significant: {told})."


def _table(rows: Sequence[Row], *, tested: bool) -> Iterator[str]:
    yield "| dataset | arm | tokens | completeness % | gain in completeness | recall % | gain in recall |"
    yield "| --- | --- | ---: | ---: | --- | ---: | --- |"
    for row in rows:
        cells = [row.dataset, row.arm, f"{row.tokens:,.0f}"]
        for label, value in row.values.items():
            cells += [points(value), _gain(row, row.gains[label], tested=tested)]
        yield f"| {' | '.join(cells)} |"
    yield ""


def _gain(row: Row, gain: Comparison | None, *, tested: bool) -> str:
    """A difference with its interval, and its corrected p where it was tested."""
    if gain is None:
        return "its base has no so many tokens" if row.base else "base"
    low, high = (points(end, sign=True) for end in (gain.interval.low, gain.interval.high))
    text = f"{points(gain.difference, sign=True)} ({low} to {high})"
    if not tested:
        return text
    p = "p<0.001" if gain.p_holm < 0.001 else f"p={gain.p_holm:.3f}"
    return f"**{text}**, {p}" if gain.significant else f"{text}, {p}"


def points(value: float, *, sign: bool = False) -> str:
    """A share or a difference of shares in points; a difference that rounds to nothing has no sign."""
    text = f"{100 * value:{'+' if sign else ''}.1f}"
    return (text if text.strip("+-") != "0.0" else "0.0").replace("-", "−")


def recall_figure(panels: Lines) -> str:
    """Recall over tokens as SVG, a panel a dataset and a line an arm."""
    drawn = []
    for title, arms in panels.items():
        lines = {arm: (np.array(row)[:, 0], 100 * np.array(row)[:, 1]) for arm, row in arms.items()}
        right, top = (max(line[axis].max() for line in lines.values()) for axis in (0, 1))
        drawn.append(Panel(title, lines, Scale("mean prompt tokens", 0, right), Scale("recall %", 0, top)))
    return line_charts(drawn, columns=len(drawn))


_FINAL_TITLE, TRIED = "Final figures, test split", "Everything tried, tuning split"
_WORDS = """*Completeness* is the share of requests that were offered all that they require, *recall* the share of
required items that were offered. A request is split into *chunks*, each of which is searched; an *arm* is one way to
do so."""
_METHOD = """Does it pay to split a request, to give each of its chunks a minimum of items, or to pool over its chunks
otherwise than by max? Made by `python experiments/strategies/multi_topic.py` (`make multi-topic`).

* Requests of several topics: all of `metatool-multi` (each needs two tools), and those of `workbench` and `freight`
  that their writers tagged with two topics or more.
* Every arm is dense retrieval (MiniLM) that offers the first 5 of its ranking, the specification's topN. A minimum adds
  the best item of each chunk that has none among them: on top of them, or in place of the last ones. `windows 6/4`
  are windows of 6 words that overlap by 4.
* Gains are at equal prompt tokens (o200k): an arm is compared with its base with as many of its first items as cost
  the same on average, interpolated between two sizes. The base of a splitting is `sentences`, the specification's rule;
  that of a minimum or a pooling is the same splitting without it. Points, with 95% intervals, paired by query.
* Chosen on the tuning split: the arm of each kind with the largest mean gain in recall over the three datasets.
* The test split was not read once only: six of its requests a dataset were looked at while the rules `marked` and
  `clauses` were written, and its table was made several times while this page was. Arms and criterion stayed.
  Recall counts required items, completeness the requests that got all of theirs."""
_FINAL = (
    "p is Holm-corrected over all comparisons of the table; bold is significant at 0.05. `whole` and the minima are "
    "there because they were asked about, the others because they were chosen."
)
_SINGLE = "The chosen splitting against `sentences` (test split; at most 500 requests of metatool-single)."
