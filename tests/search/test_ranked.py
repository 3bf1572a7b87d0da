from __future__ import annotations

import numpy as np

from ctxbench.search.dense import ranked_by


def test_ranking_by_scores_takes_only_what_was_found():
    scores = [np.array([0.5, 0.9, 0.5, 0.7]), np.array([0.0, 0.0, 0.0, 0.0])]
    masks = [np.array([True, False, True, True]), np.zeros(4, dtype=bool)]
    table = ranked_by(scores, masks, depth=2)
    assert table.item.tolist() == [3, 0]
    assert table.chunk_rank.tolist() == [0, 1]
    assert table.start.tolist() == [0, 2, 2]


def test_the_best_are_those_of_a_whole_sort():
    draw = np.random.default_rng(2)
    for n, depth in [(0, 3), (5, 0), (50, 1), (3_000, 2), (3_000, 90), (2_999, 5)] * 3:
        score = draw.integers(0, draw.integers(2, 2_000), n).astype(np.float64)  # with ties
        score[draw.random(n) < 0.3] = -np.inf
        mask = draw.random(n) < draw.choice([0.01, 0.9])
        for allowed, table in (
            (score > -np.inf, ranked_by([score], depth=depth)),
            (mask & (score > -np.inf), ranked_by([score], [mask], depth=depth)),
        ):
            order = sorted(np.flatnonzero(allowed).tolist(), key=lambda item: (-score[item], item))[:depth]
            assert table.item.tolist() == order
            assert table.score.tolist() == score[order].tolist()
            assert table.chunk_rank.tolist() == list(range(len(order)))
