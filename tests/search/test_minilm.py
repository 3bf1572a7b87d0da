"""The default embedder: equal to sentence-transformers, and independent of company, order and threads."""

from __future__ import annotations

import numpy as np
import pytest

from ctxbench.io.errors import ParameterError
from ctxbench.search.embedders import ModelError
from ctxbench.search.minilm import MAX_PIECES, MiniLM, _batches

VARIED = [
    "",
    " ",
    "a",
    "Deploys a service to production and waits until it is healthy.",
    "get_weather: Returns the weather.\nCity is required; units are 'metric' or 'imperial'.",
    "\x00",
    "nul \x00 inside",
    "[CLS] [SEP] [PAD] [MASK] are words of the vocabulary",
    "Größe, naïve café, ΑΒΓ, 你好世界, emoji \U0001f600\U0001f680",
    "﻿byte order mark",
    "snake_case camelCase dotted.path::name /a/b.py",
    "word " * 1000,
    "x" * 3000,
    "1234567890 " * 40,
    "Répéter. " * 60,
]


@pytest.fixture(scope="module")
def reference():
    """SentenceTransformer over the same files."""
    sentence_transformers = pytest.importorskip("sentence_transformers", reason="needs the extra")
    from ctxbench.search.minilm import find_weights

    return sentence_transformers.SentenceTransformer(str(find_weights().model.parent), device="cpu")


def test_vectors_are_those_of_sentence_transformers(minilm, reference):
    ours = minilm.embed(VARIED)
    theirs = reference.encode(VARIED, normalize_embeddings=True, show_progress_bar=False)
    assert (ours * theirs).sum(axis=1).min() >= 0.999999
    np.testing.assert_allclose(ours, theirs, atol=2e-6)


@pytest.mark.essential
def test_vectors_are_those_of_the_reference_engine(minilm, desk_texts, desk_vectors):
    np.testing.assert_allclose(minilm.embed(desk_texts), desk_vectors, atol=2e-6)


def test_rows_are_of_unit_length(minilm, desk_texts):
    lengths = np.linalg.norm(minilm.embed(desk_texts).astype(np.float64), axis=1)
    np.testing.assert_allclose(lengths, 1, atol=1e-6)


def test_a_text_alone_has_the_bits_that_it_has_in_company(minilm, desk_texts):
    together = minilm.embed(desk_texts)
    alone = np.concatenate([minilm.embed([text]) for text in desk_texts])
    assert alone.tobytes() == together.tobytes()


def test_texts_of_one_length_share_calls_and_keep_their_bits(minilm):
    texts = [f"{a} {b}" for a in ("read", "write", "list") for b in ("file", "mail", "page", "note", "log")]
    together = minilm.embed(texts)
    assert together.tobytes() == np.concatenate([minilm.embed([text]) for text in texts]).tobytes()


def test_order_does_not_matter(minilm, desk_texts):
    order = np.random.default_rng(0).permutation(len(desk_texts))
    shuffled = minilm.embed([desk_texts[position] for position in order])
    assert shuffled.tobytes() == minilm.embed(desk_texts)[order].tobytes()


@pytest.mark.parametrize("threads", [1, 3])
def test_the_number_of_threads_does_not_matter(minilm, desk_texts, threads):
    assert MiniLM(threads=threads).embed(desk_texts).tobytes() == minilm.embed(desk_texts).tobytes()


def test_more_texts_than_a_window(minilm):
    texts = [f"file {number}" for number in range(1030)]
    vectors = minilm.embed(texts)
    for position in (0, 511, 512, 1029):
        assert vectors[position].tobytes() == minilm.embed([texts[position]]).tobytes()


def test_on_done_reports_every_row_once(minilm, desk_texts):
    seen = []
    vectors = minilm.embed(desk_texts, on_done=lambda position, vector: seen.append((position, vector.tobytes())))
    assert sorted(seen) == [(position, row.tobytes()) for position, row in enumerate(vectors)]


def test_an_error_in_on_done_ends_the_call(minilm, desk_texts):
    def stop(position, vector):
        raise InterruptedError

    with pytest.raises(InterruptedError):
        minilm.embed(desk_texts, on_done=stop)
    assert minilm.embed(desk_texts[:3]).shape == (3, 384)


def test_text_beyond_256_word_pieces_is_cut(minilm):
    # "a" is one piece; with [CLS] and [SEP] 254 of them fill the model
    full, longer = minilm.embed(["a " * 254, "a " * 254 + "zebra"])
    assert full.tobytes() == longer.tobytes()
    assert minilm.embed(["a " * 253 + "zebra"])[0].tobytes() != full.tobytes()
    assert MAX_PIECES == 256


def test_100_000_characters_are_one_text(minilm):
    np.testing.assert_allclose(np.linalg.norm(minilm.embed(["word " * 20_000])), 1, atol=1e-6)


@pytest.mark.parametrize(("cut", "whole"), [("half \ud83d", "half �"), ("\ud83d\ude00 smile", "\U0001f600 smile")])
def test_surrogates_count_as_what_they_stand_for(minilm, cut, whole):
    first, second = minilm.embed([cut, whole])
    assert first.tobytes() == second.tobytes()


def test_no_texts(minilm):
    assert minilm.embed([]).shape == (0, 384)
    assert minilm.embed([]).dtype == np.float32


def test_calls_hold_texts_of_one_length_longest_first():
    pieces = [[1, 2], [1] * 200, [3, 4], [5, 6, 7], [1] * 100, [2] * 100, [3] * 100]
    assert [(positions, len(ids[0])) for positions, ids in _batches(pieces)] == [
        ([1], 200),
        ([4, 5], 100),  # three would be more than 256 word pieces
        ([6], 100),
        ([3], 3),
        ([0, 2], 2),
    ]


def test_the_identity_names_the_weights():
    assert MiniLM().identity.as_dict() == {
        "model": "sentence-transformers/all-MiniLM-L6-v2",
        "revision": "53aa51172d14",
        "backend": "onnxruntime-graph1",
        "quantisation": "float32",
        "dimensions": 384,
    }


def test_threads_must_be_positive():
    with pytest.raises(ParameterError, match="threads must be at least 1, got 0"):
        MiniLM(threads=0)


def test_a_missing_model_is_no_ones_text(tmp_path):
    with pytest.raises(ModelError, match=r"no model\.safetensors in"):
        MiniLM(tmp_path).embed(["a"])
