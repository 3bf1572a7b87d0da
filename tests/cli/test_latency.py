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


GROW = ("--embedder", "hashing", "--grow", "--seconds", "0")


def test_growth_has_every_cost_of_every_selector_with_its_exponent(cli, tiny, place, cache):
    done = cli("latency", "bm25", "semantic/spec", "--catalog", tiny, *GROW, "--chart", "growth.svg", "--json")
    assert done.code == 0, done.err
    found = done.json
    n_items = found["catalog"]["items"]
    assert found["sizes"][-1] == 8 * n_items
    for costs in found["selectors"].values():
        assert [(cost["cost"], cost["over"]) for cost in costs] == [
            ("preparation", "items"), ("request", "items"), ("batch", "items"), ("batch", "queries"),
        ]  # fmt: skip
        for cost in costs:
            assert len(cost["sizes"]) == len(cost["seconds"]) == len(cost["n"]) >= 4
            assert min(cost["seconds"]) > 0
            assert cost["fit"]["interval"]["low"] <= cost["fit"]["exponent"] <= cost["fit"]["interval"]["high"]
    assert (place / "growth.svg").read_text().startswith("<svg")
    assert not [path for path in cache.iterdir() if path.name.startswith(".")]  # vectors of made items are gone


@pytest.fixture
def agent(place):
    """An agent file over two tools; its selector is to be given."""

    def write(selector):
        (place / "tools.json").write_text('[{"name": "cut", "description": "cuts"}, {"name": "join"}]')
        (place / "agent.yaml").write_text(f"sources: {{tools: tools.json}}\nselector: {selector}\n")

    return write


def test_growth_of_a_function_of_the_user_is_measured(cli, place, agent):
    (place / "mine.py").write_text("def mine(request, items):\n    return [row['_id'] for row in items][:2]\n")
    agent("{callable: 'mine.py:mine'}")
    done = cli("latency", "--catalog", "agent.yaml", *GROW)
    assert done.code == 0, done.err
    assert done.out.startswith("agent: one request over 10 times as many items takes ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--sizes", "1,2,3,4"), "--sizes goes with --grow"),
        (("--chart", "c.png"), "--chart goes with --grow"),
        (("--grow", "--chart", "c.pdf"), "must end in .png or .svg"),
        (("--grow", "--sizes", "1,2,many"), "needs numbers of items with commas"),
        (("--grow", "--sizes", "1,2,3"), "at least 4 different numbers of items"),
        (("--grow", "--sizes", "1,2,3,2000000"), "each 1 to 1,000,000"),
    ],
)
def test_wrong_options_of_growth_are_refused(cli, tiny, place, words, message):
    done = cli("latency", "bm25", "--catalog", tiny, "--embedder", "hashing", *words)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert not list(place.iterdir())


def test_growth_of_kept_answers_and_of_no_item_is_refused(cli, place, agent):
    agent("{url: 'http://127.0.0.1:9/select'}")
    assert "set `cache: false` beside its url" in cli("latency", "--catalog", "agent.yaml", *GROW).err
    (place / "empty.jsonl").write_text("")
    done = cli("latency", "bm25", "--catalog", "empty.jsonl", *GROW)
    assert (done.code, done.out) == (2, "")
