"""The embedder without a model."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from ctxbench.io.errors import ParameterError
from ctxbench.search.embedders import HashingEmbedder

TEXTS = ["", "  ", "deploy the service", "Deploy The Service!", "read the logs", "\ud800", "\x00", "x" * 5000]


def test_rows_are_of_unit_length_whatever_the_text():
    vectors = HashingEmbedder().embed(TEXTS)
    assert vectors.shape == (8, 256)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_shared_words_bring_texts_together():
    vectors = HashingEmbedder(1024).embed(["deploy the service", "deploy a service", "read my mail"])
    assert vectors[0] @ vectors[1] > 0.5 > 0.2 > vectors[0] @ vectors[2]


def test_case_and_punctuation_do_not_count():
    vectors = HashingEmbedder().embed(TEXTS)
    np.testing.assert_array_equal(vectors[2], vectors[3])


def test_no_features_is_the_first_axis():
    np.testing.assert_array_equal(HashingEmbedder(8).embed(["..."]), [[1, 0, 0, 0, 0, 0, 0, 0]])


def test_one_word_by_hand():
    # "ab": the word (weight 4) and the trigrams <ab and ab> (weight 1 each) on three places of 4096, signs by hash
    vector = HashingEmbedder(4096).embed(["ab"])[0]
    np.testing.assert_allclose(sorted(np.abs(vector[vector != 0])), np.array([1, 1, 4]) / 18**0.5, rtol=1e-6)


def test_the_bits_are_the_same_in_a_process_with_another_hash_seed():
    script = (
        "import sys; from ctxbench.search.embedders import HashingEmbedder;"
        "sys.stdout.buffer.write(HashingEmbedder().embed(['deploy the service', 'Über']).tobytes())"
    )
    shown = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "99"},
        timeout=120,
    )
    assert shown.stdout == HashingEmbedder().embed(["deploy the service", "Über"]).tobytes()


def test_neighbours_and_order_do_not_matter():
    together = HashingEmbedder().embed(TEXTS)
    for position, text in enumerate(TEXTS):
        np.testing.assert_array_equal(HashingEmbedder().embed([text])[0], together[position])


def test_on_done_reports_every_row():
    rows = {}
    vectors = HashingEmbedder().embed(TEXTS, on_done=rows.__setitem__)
    assert sorted(rows) == list(range(8))
    np.testing.assert_array_equal(np.array([rows[position] for position in range(8)]), vectors)


def test_no_texts():
    assert HashingEmbedder(16).embed([]).shape == (0, 16)


@pytest.mark.parametrize("dimensions", [7, 4097, 0, -1])
def test_dimensions_out_of_range(dimensions):
    with pytest.raises(ParameterError, match=f"dimensions must be 8 to 4096, got {dimensions}"):
        HashingEmbedder(dimensions)
