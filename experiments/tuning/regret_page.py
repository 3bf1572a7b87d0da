"""The page of `regret.py`."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

HARM, BARS, BARS_FROM = 0.05, {50: 0.25, 100: 0.5, 200: 0.65, 400: 0.75}, "semantic/spec"
_WIDTH = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """What following the advice came to for one team.

    Attributes:
        dataset: on which.
        n: how many labelled requests it has that need something.
        recommended: whether a setting was recommended; else the default was kept.
        harm: what the setting does on the rest that it must not, in a word; empty = nothing.
        gain: share of the default's tokens that it saves on the rest; 0 where the default was kept.
        attainable: the same of the best recommendable setting by the rest itself.
        counts: whether there is enough to gain for the share of it to count.
    """

    dataset: str
    n: int
    recommended: bool
    harm: str
    gain: float
    attainable: float
    counts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Means over teams, and over datasets that weigh the same.

    Attributes:
        harm, recommended, gain: shares.
        attained: share of the attainable gain, over teams that have enough to gain; None = there are none.
        kinds: what harm there was, in words.
    """

    harm: float
    recommended: float
    gain: float
    attained: float | None
    kinds: tuple[str, ...]

    @classmethod
    def of(cls, datasets: Sequence[Sequence[Team]]) -> Row:
        """Sum up the teams of some datasets, at least one team each."""

        def mean(value: Callable[[Team], float], groups: Sequence[Sequence[Team]] = datasets) -> float:
            return sum(sum(map(value, teams)) / len(teams) for teams in groups) / len(groups)

        kept = [teams for teams in ([one for one in teams if one.counts] for teams in datasets) if teams]
        attainable = mean(lambda one: one.attainable, kept) if kept else 0.0
        return cls(
            harm=mean(lambda one: bool(one.harm)),
            recommended=mean(lambda one: one.recommended),
            gain=mean(lambda one: one.gain),
            attained=mean(lambda one: one.gain, kept) / attainable if attainable > 0 else None,
            kinds=tuple(sorted({one.harm for teams in datasets for one in teams if one.harm})),
        )


def page(teams: Sequence[Team], *, start: str, beside: Sequence[str], command: str) -> str:
    """Markdown; the answer first."""
    names, ns = list(dict.fromkeys(one.dataset for one in teams)), sorted({one.n for one in teams})
    by_name = {name: {n: [t for t in teams if (t.dataset, t.n) == (name, n)] for n in ns} for name in names}
    by_n = {n: Row.of([each[n] for each in by_name.values() if each[n]]) for n in ns}
    lines = ["# What following the advice of `tune` costs and gains", "", answer(by_n), ""]
    lines += ["| labels | harm | recommended | tokens saved | of what is attainable | bar |", f"|{' ---: |' * 6}"]
    for n, row in by_n.items():
        bar = f"{BARS[n]:.0%}" if n in BARS and start == BARS_FROM else ""
        lines.append(f"| {n} | {row.harm:.1%} | {row.recommended:.0%} | {row.gain:.1%} | {_attained(row)} | {bar} |")
    lines += ["", *_bars(by_n, start, beside), "", *_wrapped(_WORDS), "", "## By dataset", "", *_wrapped(_CELLS), ""]
    lines += [f"| dataset | {' | '.join(f'{n} labels' for n in ns)} |", f"| --- |{' --- |' * len(ns)}"]
    for name, each in by_name.items():
        lines.append(f"| {name} | {' | '.join(_cell(each[n]) for n in ns)} |")
    lines += ["", "## How it was made", "", *_wrapped(_READING), "", "```sh", command, "```"]
    return "\n".join(lines) + "\n"


def answer(by_n: Mapping[int, Row]) -> str:
    """What the advice saves with few labels and with many, and how often it harms, as one sentence."""
    (few, less), (many, more) = ((n, by_n[n]) for n in (min(by_n), max(by_n)))
    worst = max(by_n.values(), key=lambda row: row.harm)
    return (
        f"**A team that follows the advice of `ctxbench tune` saves {less.gain:.1%} of its prompt tokens on requests "
        f"that it did not label if it has labelled {few}, and {more.gain:.1%} if it has labelled {many} "
        f"({_attained(less)} and {_attained(more)} of what could be saved); the advice harms {worst.harm:.1%} of teams "
        "at most, on average over datasets.**"
    )


def _bars(by_n: Mapping[int, Row], start: str, beside: Sequence[str]) -> Iterator[str]:
    """What was demanded, and whether it is met, in sentences."""
    over = [n for n, row in by_n.items() if row.harm > HARM]
    short = [n for n, bar in BARS.items() if n in by_n and (by_n[n].attained or 0.0) < bar]
    worst = max(by_n.values(), key=lambda row: row.harm)
    among = f"the settings of {', '.join([start.partition('/')[0], *beside])}"
    harm = f"Harm is {worst.harm:.1%} at most, on average over datasets" + (
        f": above the bar of {HARM:.0%} at {_listed(over)} labels." if over else f": within the bar of {HARM:.0%}."
    )
    gain = (
        f"What is attainable beyond that start has no bar; {_attained(list(by_n.values())[-1])} of it is gained with "
        f"{list(by_n)[-1]} labels."
        if start != BARS_FROM
        else f"The share of the attainable gain is below its bar at {_listed(short)} labels."
        if short
        else "The share of the attainable gain is at its bar or above at every number of labels."
    )
    yield from _wrapped(f"Starting from `{start}`, among {among}. {harm} {gain}")


def _listed(ns: Sequence[int]) -> str:
    return " and ".join(filter(None, (", ".join(map(str, ns[:-1])), str(ns[-1]))))


def _attained(row: Row) -> str:
    return "-" if row.attained is None else f"{row.attained:.0%}"


def _cell(teams: Sequence[Team]) -> str:
    """One dataset at one number of labels."""
    if not teams:
        return "too few left"
    row = Row.of([teams])
    harm = f", harm {row.harm:.0%} ({', '.join(row.kinds)})" if row.harm else ""
    return f"{row.recommended:.0%}: {_attained(row)}{harm}"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, break_on_hyphens=False)


_WORDS = (
    "`labels`: labelled requests that need something. `harm`: the share of teams for which, on other requests, the "
    "recommended setting is more than 2 points below its target (incomplete), costs over 1.5 times the default's "
    "tokens without being significantly more complete (dear), or leaves a type below half of the default's "
    "completeness (a type). `recommended`: teams that were recommended another setting than the default. Attainable "
    "is what the best recommendable setting saves if those other requests decide by their means. A bar is what was "
    "demanded."
)
_READING = (
    "Simulated teams: 20 for each dataset and number of labels, drawn from a sample of at most 1,500 requests, "
    "paraphrases together, of longer groups such as conversations some requests each; the truth is the rest, without "
    "paraphrases of what a team has seen, of at least 100 requests in need. The policy is README's `normal`: fewest "
    "tokens that keep 0.98 of the default's completeness. A rest of some 200 requests has an error of its own, of 1 to "
    "2 points, which counts as harm too. Teams for which what is attainable is under 2% of tokens and 1 point count "
    "for harm alone. Settings are fewer than `tune` has: topK 10, 20, 50, 100, eleven topN, every threshold. Every "
    "dataset weighs the same."
)
_CELLS = "Each cell: how many teams were recommended a setting, the share of the attainable gain, and harm if any."
