"""What labelling promises, on made-up logs whose truth is known; experiments/labelling holds the larger form."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from ctxbench.labelling.pools import SELECTORS, open_selectors
from ctxbench.search.embedders import Vectors, VectorStore, open_embedder
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import open_counter

SIMULATION = Path(__file__).parents[3] / "experiments" / "labelling"
TURNS, DRAWS, PAIRS = 2000, 10, 3
WIDTH = 0.15  # at which the answers are counted


@pytest.fixture(scope="module")
def simulation():
    """The simulation's modules."""
    sys.path.insert(0, str(SIMULATION))
    try:
        import trial
        import world
    finally:
        sys.path.remove(str(SIMULATION))
    yield trial, world
    for name in ("trial", "world"):
        del sys.modules[name]


@pytest.fixture(scope="module")
def made(simulation, tmp_path_factory):
    """A world with the answers of the default selectors; words stand for the embedder, so that no model is needed."""
    trial, world = simulation
    patch = pytest.MonkeyPatch()
    patch.setenv("CTXBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
    embedder = open_embedder("hashing")
    counter = open_counter("chars/4", cache=tmp_path_factory.mktemp("tokens"))
    resources = LocalResources(Vectors(embedder, VectorStore(embedder.identity)), counter)
    asks = world.asks(2600, np.random.default_rng(1))
    yield trial.make_world(asks, world.catalog(), open_selectors(SELECTORS, resources))
    patch.undo()


def test_estimates_after_100_answers_cover_the_truth_where_naive_labels_do_not(simulation, made):
    trial, world = simulation
    covered, naive = np.zeros(len(SELECTORS)), np.zeros(len(SELECTORS))
    for seed in range(DRAWS):
        draw = trial.draw(made, turns=TURNS, seed=seed, read=trial.imported if seed < 2 else trial.imported_by_rule)
        session = trial.session_of(draw, seed=seed)
        assert trial.answer(session, world.Annotator(draw.truth), 100) <= 102
        sample = session.sample()
        for selector, true in enumerate(draw.shares()):
            figure = trial.figure(sample, selector)
            covered[selector] += figure.low <= true <= figure.high
            _, interval = trial.naive(draw.pool, selector)
            naive[selector] += interval.low <= true <= interval.high
    # At a true coverage of 95%, fewer than 8 of 10 have a chance of 1%; at 50% they have one of 95%.
    assert covered.min() >= 8
    assert naive[0] == 0  # the selector that wrote the log is flattered by it, every time


def test_the_queue_takes_half_the_answers_of_random_order(simulation, made):
    trial, world = simulation
    goals = [(selector, WIDTH) for selector in range(len(SELECTORS))]
    ratios = []
    for seed in range(PAIRS):
        draw = trial.draw(made, turns=TURNS, seed=100 + seed, read=trial.imported_by_rule)
        annotator = world.Annotator(draw.truth)
        queue, plain = trial.session_of(draw, seed=seed), trial.session_of(draw, seed=seed, split=False)
        ours, random = ([first for first, _ in trial.answers_until(s, annotator, goals)] for s in (queue, plain))
        ratios.append(np.array(ours) / np.array(random))
    assert (np.median(np.array(ratios), axis=0) <= 0.5).all()
