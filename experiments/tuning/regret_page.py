"""The page of `regret.py`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """What following the advice came to for one team.

    Attributes:
        dataset: on which.
        n: how many labelled requests it has.
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


def page(teams: Sequence[Team], *, start: str, beside: Sequence[str], command: str) -> str:
    """Markdown."""
    ns, names = sorted({one.n for one in teams}), list(dict.fromkeys(one.dataset for one in teams))
    lines = [f"# regret {start}", "", "| n | harm | recommended | gain | attained |", "| --- | --- | --- | --- | --- |"]
    for n in ns:
        own = [[t for t in teams if t.n == n and t.dataset == d] for d in names]
        own = [each for each in own if each]
        harm, rec, gain = (
            np.mean([np.mean([f(t) for t in e]) for e in own])
            for f in (lambda t: bool(t.harm), lambda t: t.recommended, lambda t: t.gain)
        )
        lines.append(f"| {n} | {harm:.1%} | {rec:.0%} | {gain:.1%} | {share(own):.0%} |")
    for d in names:
        lines += ["", f"## {d}", ""]
        for n in ns:
            e = [t for t in teams if t.n == n and t.dataset == d]
            if e:
                lines.append(
                    f"* {n}: harm {np.mean([bool(t.harm) for t in e]):.0%} {sorted({t.harm for t in e})}, recommended {np.mean([t.recommended for t in e]):.0%}, gain {np.mean([t.gain for t in e]):.1%} of {np.mean([t.attainable for t in e]):.1%}, counts {sum(t.counts for t in e)}"
                )
    return "\n".join(lines) + "\n"


def share(own: Iterable[Sequence[Team]]) -> float:
    kept = [[t for t in e if t.counts] for e in own]
    pairs = [(np.mean([t.gain for t in e]), np.mean([t.attainable for t in e])) for e in kept if e]
    return float(sum(g for g, _ in pairs) / sum(a for _, a in pairs)) if pairs else float("nan")
