"""`ctxbench latency`: how long requests take."""

from __future__ import annotations

import pytest


def test_quantiles_of_every_selector_are_printed(cli, tiny):
    done = cli("latency", "semantic/normal", "bm25", "--catalog", tiny, "--embedder", "hashing", "--seconds", "0")
    assert done.code == 0, done.err
    assert [line.split()[0] for line in done.out.splitlines() if "." in line][:3] == [
        "semantic/normal",
        "bm25",
        "embedding",
    ]


def test_json_has_n_and_three_quantiles(cli, tiny):
    found = cli("latency", "bm25", "--catalog", tiny, "--embedder", "hashing", "--seconds", "0", "--json").json
    assert set(found["selectors"]["bm25"]) == {"n", "p50", "p95", "p99"}
    assert found["selectors"]["bm25"]["n"] == 1
    assert found["embedding"] is None  # bm25 needs no model


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("semantc/normal", "--catalog", "{tiny}"), "did you mean 'semantic'"),
        (("semantic/norml", "--catalog", "{tiny}"), "did you mean 'normal'"),
        (("semantic/normal", "--catalog", "nowhere"), "no catalog 'nowhere'"),
        (("semantic/normal", "--catalog", "{tiny}", "--embedder", "hashng"), "did you mean 'hashing'"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_measured(cli, tiny, words, message):
    done = cli("latency", *(word.format(tiny=tiny) for word in words))
    assert (done.code, done.out) == (2, "")
    assert message in done.err
