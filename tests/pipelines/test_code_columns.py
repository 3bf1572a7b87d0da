"""Columns of code: values worked by hand over a small history, the same as if nothing had come later."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ctxbench.model.candidates import Candidates
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, whole_texts
from ctxbench.pipelines.code_requests import CodeFit
from ctxbench.pipelines.features import with_features
from ctxbench.pipelines.strategies.files import DISTANCE
from ctxbench.pipelines.strategies.retrieve import Bm25
from ctxbench.testing import mock_resources
from tests.code_history import history, request, up_to

TREE = history(
    ("Start", {"src/colour.py": "def mix(): ...", "src/prompt.py": "class Prompt: ...", "tests/test_prompt.py": ""}),
    ("Mix colours", {"src/colour.py": "def mix(a): ..."}),
    ("Ask for colours", {"src/prompt.py": "class Prompt:\n    def ask(self): ...", "src/colour.py": "def mix(b): ..."}),
    ("Later", {"src/colour.py": None, "src/prompt.py": "def mix(): ..."}),
)
NAMES = tuple(f"code.{name}" for name in CodeFit.columns)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Code facts are kept nowhere but here."""
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path))


def columns(text, n=3, *, catalog=TREE, first="src/prompt.py", **more):
    """Columns by path after the nth commit, of all that the request sees, `first` having the best score."""
    batch = Batch.of(catalog, [request(text, n, **more)])
    items = np.flatnonzero(batch.visible[0])
    score = np.array([float(catalog[item].title == first) for item in items])
    table = Candidates.build(1, np.zeros_like(items), items, score=score)
    made = with_features(table, NAMES, whole_texts(batch), mock_resources())
    values = np.stack([made.columns[name] for name in NAMES], axis=1).tolist()
    return {
        catalog[item].title or catalog[item].name: dict(zip(CodeFit.columns, row, strict=True))
        for item, row in zip(made.item.tolist(), values, strict=True)
    }


def column(name, *asked, **more):
    return {path: row[name] for path, row in columns(*asked, **more).items() if path.endswith(".py")}


def test_words_and_names_of_paths_are_those_of_the_request():
    assert column("named", "see prompt.py") == {"src/colour.py": 0, "src/prompt.py": 1, "tests/test_prompt.py": 0}
    share = column("path", "a colour prompt")
    assert share["src/prompt.py"] == share["tests/test_prompt.py"] < share["src/colour.py"] < 1  # the rarer word
    assert sum(share[path] for path in ("src/prompt.py", "src/colour.py")) == pytest.approx(1.0)


def test_words_are_the_scores_of_bm25_by_the_highest():
    text = "ask for a mix"
    table = Bm25(statistics="scope")(whole_texts(Batch.of(TREE, [request(text, 3)])), mock_resources())
    scores = {TREE[item].path: score for item, score in zip(table.item.tolist(), table.score.tolist(), strict=True)}
    wanted = {path: scores.get(path, 0.0) / max(scores.values()) for path in column("words", text)}
    assert column("words", text) == wanted
    assert wanted["src/colour.py"] == 1.0 > wanted["src/prompt.py"] > wanted["tests/test_prompt.py"] == 0.0


def test_recency_falls_by_half_in_ninety_days():
    ages = {"src/colour.py": 0.25, "src/prompt.py": 0.25, "tests/test_prompt.py": 2.25}  # days
    assert column("recency", "x") == {path: 0.5 ** (age / 90) for path, age in ages.items()}


def test_touches_and_history_are_shares_of_the_most():
    touched = {"src/colour.py": (0.25, 1.25, 2.25), "src/prompt.py": (0.25, 2.25), "tests/test_prompt.py": (2.25,)}
    sums = {path: sum(0.5 ** (age / 365) for age in ages) for path, ages in touched.items()}
    wanted = {path: value / sums["src/colour.py"] for path, value in sums.items()}
    assert column("touches", "x") == pytest.approx(wanted, rel=1e-12)
    voted = column("history", "ask the colour")
    assert voted["src/colour.py"] == 1.0 > voted["src/prompt.py"] > voted["tests/test_prompt.py"] == 0.0


def test_cochange_is_the_highest_share_with_the_best_found():
    # colour changed in three commits, prompt in two of these, the test in the first; two more that nobody made count
    assert column("cochange", "x") == {
        "src/colour.py": 2 / (2 + 2),  # of prompt's
        "src/prompt.py": 2 / (3 + 2),  # of colour's; of the test's 1 / (1 + 2)
        "tests/test_prompt.py": 1 / (2 + 2),  # of prompt's
    }


def test_symbols_are_definitions_that_the_request_names():
    assert column("symbols", "call mix() of Prompt.ask") == {
        "src/colour.py": 1.0,
        "src/prompt.py": 1.0,
        "tests/test_prompt.py": 0.0,
    }
    assert set(column("symbols", "mix the prompt").values()) == {0.0}  # words of English
    assert column("symbols", "`mix`", 1)["src/colour.py"] == 1.0


def test_tests_sizes_and_distances():
    assert column("test", "x") == {"src/colour.py": 0, "src/prompt.py": 0, "tests/test_prompt.py": 1}
    size = len("src/colour.py\n\ndef mix(b): ...")
    assert column("size", "x")["src/colour.py"] == math.log(1 + size)
    assert set(column("distance", "x").values()) == {0.0}


def test_the_distance_that_an_expansion_wrote_stays():
    batch = Batch.of(TREE, [request("x", 3)])
    items = np.flatnonzero(batch.eligible[0])
    table = Candidates.build(1, np.zeros_like(items), items, score=np.ones(len(items)))
    table = table.with_columns(**{DISTANCE: np.array([2.0, np.nan, np.nan])})
    made = with_features(table, [DISTANCE], whole_texts(batch), mock_resources())
    assert made.columns[DISTANCE].tolist() == [2.0, 0.0, 0.0]


def test_what_is_no_code_has_zeros():
    catalog = Catalog([*TREE, Item(type="rule", name="prompt", text="src/prompt.py")])
    assert set(columns("prompt.py mix()", catalog=catalog)["prompt"].values()) == {0.0}


@pytest.mark.parametrize("n", [1, 2, 3])
def test_what_came_later_moves_no_column(n):
    text = "mix() colours in prompt.py"
    assert columns(text, n) == columns(text, n, catalog=up_to(TREE, n))  # to the bit
