"""Scores of runs fall strictly as trec_eval compares them, and change no more than that takes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ctxbench.model.arrays import falling

SCORES = st.lists(st.one_of(st.floats(-1e30, 1e30), st.sampled_from([0.0, -0.0, 1.0, 1.0 - 1e-12, 0.5])), max_size=30)


@given(SCORES)
def test_they_fall_strictly_and_only_what_must_is_lowered(scores):
    before = np.array(scores, dtype=np.float64)
    after = falling(before)
    single, limit = after.astype(np.float32), np.append(np.float32(np.inf), after[:-1].astype(np.float32))
    assert (single < limit).all()
    keeps = before.astype(np.float32) < limit
    assert (after[keeps] == before[keeps]).all()
    assert (single[~keeps] == np.nextafter(limit[~keeps], np.float32(-np.inf))).all()


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([], []),
        ([3.0, 2.5, -1.0], [3.0, 2.5, -1.0]),
        ([1.0, 1.0, 1.0], [1.0, 1.0 - 2**-24, 1.0 - 2**-23]),
        ([0.5, 2.0, 0.1], [0.5, 0.5 - 2**-25, 0.1]),  # an item that was added behind another has a higher score
        ([1.0, 1.0 - 1e-12], [1.0, 1.0 - 2**-24]),  # equal as 32-bit numbers
        ([0.0, -0.0], [0.0, -(2.0**-149)]),
    ],
)
def test_by_hand(scores, expected):
    assert falling(np.array(scores, dtype=np.float64)).tolist() == expected
