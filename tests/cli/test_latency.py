"""`ctxbench latency`: how long a selection takes."""

from __future__ import annotations

import functools
import json

import pytest


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """As little as can be measured; the command is the same."""
    from ctxbench.bench import latency

    small = functools.partial(latency.LatencySettings, sizes=(4,), repeats=1, requests=2)
    monkeypatch.setattr(latency, "LatencySettings", small)


def test_times_are_printed_and_every_sample_written(cli, tiny, place):
    done = cli("latency", "semantic/normal", "--catalog", tiny, "--embedder", "hashing", "--out", "samples.json")
    assert done.code == 0
    assert "semantic/normal" in done.out
    assert "Indexing" in done.out
    assert json.loads((place / "samples.json").read_text("utf-8"))


def test_json_can_be_read(cli, tiny):
    done = cli("latency", "bm25", "--catalog", tiny, "--embedder", "hashing", "--json")
    assert done.code == 0
    assert done.json["settings"]["embedder"] == "hashing"


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
