"""Labelling on made-up logs whose truth is known: `python experiments/labelling/simulate.py`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np
from trial import Goal, What, World, answer, answers_until, draw, figure, make_world, naive, name_of, session_of
from world import SETTINGS, Annotator, asks, catalog

from ctxbench.io.files import cache_dir
from ctxbench.labelling.pools import SELECTORS, open_selectors
from ctxbench.search.embedders import Vectors, VectorStore, open_embedder
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import open_counter

TURNS = 2000
FIGURES: tuple[What, ...] = (0, 1, 2, (0, 0, 1), (1, 0, 2), (2, 1, 2))
GOALS: tuple[Goal, ...] = (
    (0, 0.15), (1, 0.15), (2, 0.15), ((0, 0, 1), 0.17), ((1, 0, 2), 0.17), ((2, 1, 2), 0.11)
)  # fmt: skip


def opened(embedder: str, *, setting: str = "first", seed: int = 1) -> World:
    """A world of 6,000 requests with the default selectors' answers."""
    made = open_embedder(embedder)
    resources = LocalResources(Vectors(made, VectorStore(made.identity)), open_counter("chars/4", cache=cache_dir()))
    kind = SETTINGS[setting]
    requests = asks(6000, np.random.default_rng(seed), kind)
    return make_world(requests, catalog(kind), open_selectors(SELECTORS, resources), kind)


def coverage(world: World, *, draws: int, answers: int, seed: int) -> None:
    """Truth, estimate and interval after some answers, with naive labels beside."""
    rows: list[list[tuple[float, float, float, float]]] = []
    beside: list[list[tuple[float, float, float]]] = []
    asked, queries = [], []
    for number in range(draws):
        one = draw(world, turns=TURNS, seed=seed + number)
        session = session_of(one, seed=seed + number)
        asked.append(answer(session, Annotator(one.truth), answers))
        sample = session.sample()
        queries.append(len(sample.answered))
        shares = one.shares()
        true = [shares[w] if isinstance(w, int) else shares[w[1]] - shares[w[2]] for w in FIGURES]
        found = [figure(sample, what) for what in FIGURES]
        rows.append([(t, f.value, f.low, f.high) for t, f in zip(true, found, strict=True)])
        simple = [naive(one.pool, selector) for selector in range(len(one.pool.names))]
        beside.append([(value, interval.low, interval.high) for value, interval in simple])
        say(f"draw {number + 1} of {draws}")
    table, plain = np.array(rows), np.array(beside)
    say("")
    tell(
        f"{draws} logs of {TURNS} turns; {np.mean(asked):.0f} answers (at most {max(asked)}), "
        f"{np.mean(queries):.0f} queries"
    )
    tell(f"{'figure':<26} {'truth':>6} {'estimate':>8} {'off by':>7} {'width':>6} {'covered':>8}   naive  covered")
    for number, what in enumerate(FIGURES):
        true, value, low, high = table[:, number].T
        line = f"{name_of(one.pool, what):<26} {true.mean():6.3f} {value.mean():8.3f} {np.std(value - true):7.3f}"
        line += f" {np.mean(high - low):6.3f} {int(((low <= true) & (true <= high)).sum()):4d}/{draws}"
        if isinstance(what, int):
            value, low, high = plain[:, what].T
            line += f"   {value.mean():5.3f} {int(((low <= true) & (true <= high)).sum()):4d}/{draws}"
        tell(line)


def speed(world: World, *, draws: int, seed: int, focused: bool) -> None:
    """Answers until an interval is reached: the queue, random order, and random order with the queue's strata."""
    tell(
        f"\nmedian answers over {draws} logs until an interval has a width; the ratio is the median of the logs' ratios"
    )
    tell(
        f"{'figure':<26} {'width':>5} {'queue':>6} {'random':>6} {'ratio':>6} {'<= half':>7} "
        f"{'random, strata':>15}{' queue, one figure' if focused else ''}"
    )
    table = np.full((draws, len(GOALS), 4), np.nan)
    for number in range(draws):
        one = draw(world, turns=TURNS, seed=seed + number)
        annotator = Annotator(one.truth)
        queue = session_of(one, seed=seed + number)
        plain = session_of(one, seed=seed + number, split=False)
        strata = queue.queue
        table[number, :, 0] = [reached for reached, _ in answers_until(queue, annotator, GOALS)]
        table[number, :, 1:3] = answers_until(plain, annotator, GOALS, strata=strata)
        for place, (what, width) in enumerate(GOALS if focused else ()):
            alone = session_of(one, seed=seed + number, focus=(name_of(one.pool, what),))
            table[number, place, 3] = answers_until(alone, annotator, [(what, width)])[0][0]
        say(f"draw {number + 1} of {draws}")
    say("")
    for place, (what, width) in enumerate(GOALS):
        a, b, c, d = np.median(table[:, place], axis=0)
        ratios = table[:, place, 0] / table[:, place, 1]
        tell(
            f"{name_of(one.pool, what):<26} {width:5.2f} {a:6.0f} {b:6.0f} {np.median(ratios):6.2f} "
            f"{int((ratios <= 0.5).sum()):4d}/{draws} {c:15.0f}{f' {d:17.0f}' if focused else ''}"
        )


def tell(line: str) -> None:
    """Print a line of a table as soon as it is known."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """Show how far it is, on a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{text:<60}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=100, help="logs for coverage")
    parser.add_argument("--pairs", type=int, default=20, help="logs for the comparison with random order")
    parser.add_argument("--answers", type=int, default=100)
    parser.add_argument("--embedder", default="minilm")
    parser.add_argument("--world", choices=SETTINGS, default="first")
    parser.add_argument("--seed", type=int, default=7000, help="of the requests and of the first log")
    parser.add_argument("--one-figure", action="store_true", help="also queues that are drawn for one figure each")
    given = parser.parse_args(arguments)
    world = opened(given.embedder, setting=given.world, seed=given.seed)
    if given.draws:
        coverage(world, draws=given.draws, answers=given.answers, seed=given.seed + 1000)
    if given.pairs:
        speed(world, draws=given.pairs, seed=given.seed + 5000, focused=given.one_figure)


if __name__ == "__main__":
    main()
