"""Expansion through code: what leads where in a small tree, by every kind of edge."""

from __future__ import annotations

import numpy as np
import pytest

from ctxbench.io.errors import ParameterError
from ctxbench.model.candidates import Candidates, Mode, Origin
from ctxbench.model.items import Catalog, Item, ItemKey
from ctxbench.model.requests import Batch, whole_texts
from ctxbench.model.selection import concatenated, session_rows
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.pipelines.strategies.files import DISTANCE, CodeLinks
from ctxbench.selectors.selector import PipelineSelector
from ctxbench.testing import check_selector, mock_resources
from tests.code_history import history, request, up_to

MAIN = "from app import paint\nfrom app.prompt import ask\n\nask(paint.mix())\n"
PAINT = "from app import colour\n\ndef mix():\n    return colour.Shade()\n"
TREE = history(
    ("Start", {"app/__init__.py": "", "app/main.py": MAIN, "app/paint.py": PAINT, "app/prompt.py": "def ask(x): ..."}),
    ("Shades", {"app/colour.py": "from app import paint\n\nclass Shade: ...", "app/paint.py": f"{PAINT}\n"}),
    ("Test paint", {"tests/test_paint.py": "def test_mix(): ...", "app/prompt.py": "def ask(y): ..."}),
    ("Ask", {"app/prompt.py": "def ask(z): ...", "app/main.py": f"{MAIN}\n"}),
    ("Later", {"app/paint.py": None, "app/new.py": "from app import main", "app/main.py": "import os"}),
)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Code facts are kept nowhere but here."""
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path))


def expanded(step, *chosen, n=4, catalog=TREE, **more):
    """The table behind a step, the files chosen being those at some paths after the nth commit."""
    batch = Batch.of(catalog, [request("x", n, **more)])
    seen = batch.visible[0]
    items = [place for path in chosen for place in np.flatnonzero(seen).tolist() if catalog[place].title == path]
    rows = np.zeros(len(items), dtype=np.int64)
    table = Candidates.build(1, rows, np.array(items, dtype=np.int64), score=1.0 - np.arange(len(items)) / 10)
    return step(whole_texts(batch), concatenated([session_rows(batch), table]), mock_resources())


def added(step, *chosen, catalog=TREE, **more):
    """Path, score, path of the file before, and distance of what was brought in, in order."""
    table = expanded(step, *chosen, catalog=catalog, **more)
    rows = np.flatnonzero(table.mode == Mode.EXPANSION)
    distance = table.columns[DISTANCE][rows].astype(int).tolist()
    assert distance == (table.origin[rows] - Origin.EXPANSION + 1).tolist()
    assert np.isnan(table.columns[DISTANCE][table.mode != Mode.EXPANSION]).all()
    items, via = table.item[rows].tolist(), table.via_item[rows].tolist()
    score = [round(one, 9) for one in table.score[rows].tolist()]
    return [(catalog[a].title, s, catalog[b].title, d) for a, s, b, d in zip(items, score, via, distance, strict=True)]


def reached(step, *chosen, **more):
    return [(path, distance) for path, _, _, distance in added(step, *chosen, **more)]


class TestImports:
    def test_what_a_file_imports_comes_in_pass_by_pass_and_cycles_end(self):
        whole = [("app/paint.py", 1), ("app/prompt.py", 1), ("app/colour.py", 2)]  # paint and colour import each other
        for depth in (1, 2, 5):
            found = reached(CodeLinks(depth=depth, max_files=9), "app/main.py")
            assert sorted(found) == sorted(row for row in whole if row[1] <= depth)

    def test_a_score_is_the_weight_by_the_place_of_what_leads_and_halves_a_pass(self):
        found = {path: row for path, *row in added(CodeLinks(depth=2, max_files=9), "app/prompt.py", "app/main.py")}
        assert found["app/paint.py"] == [0.5, "app/main.py", 1]  # main is chosen second
        assert found["app/colour.py"] == [0.25, "app/paint.py", 2]

    def test_no_more_files_than_asked_for_come_in(self):
        assert len(added(CodeLinks(depth=2, max_files=2), "app/main.py")) == 2

    def test_only_what_the_request_sees_leads_and_is_found(self):
        assert reached(CodeLinks(max_files=9), "app/new.py", n=5)[-1] == ("app/main.py", 1)
        assert "app/colour.py" not in [path for path, _ in reached(CodeLinks(depth=5), "app/main.py", n=1)]
        available = tuple(item.key for item in TREE if item.title != "app/paint.py")
        found = reached(CodeLinks(depth=5, max_files=9), "app/main.py", available=available)
        assert sorted(found) == [("app/prompt.py", 1)]  # and nothing is reached through it


def test_references_are_the_files_that_use_what_a_file_defines():
    assert added(CodeLinks(by="references"), "app/prompt.py") == [("app/main.py", 1.0, "app/prompt.py", 1)]
    assert [path for path, _ in reached(CodeLinks(by="references", depth=2), "app/colour.py")] == [
        "app/paint.py",
        "app/main.py",
    ]


def test_a_test_leads_to_what_it_tests_and_back():
    assert added(CodeLinks(by="tests"), "app/paint.py") == [("tests/test_paint.py", 1.0, "app/paint.py", 1)]
    assert reached(CodeLinks(by="tests"), "tests/test_paint.py") == [("app/paint.py", 1)]
    assert reached(CodeLinks(by="tests"), "app/prompt.py") == []


def test_files_that_changed_together_score_by_their_share_of_commits():
    # of prompt's three commits main shares two, and two more that nobody made count against: 2 / (3 + 2)
    found = {path: score for path, score, *_ in added(CodeLinks(by="co_change", max_files=9), "app/prompt.py")}
    assert found == {"app/main.py": 0.4, "app/paint.py": 0.2, "app/__init__.py": 0.2, "tests/test_paint.py": 0.2}


KINDS = ("imports", "references", "tests", "co_change")


@pytest.mark.parametrize("by", KINDS)
def test_what_came_later_moves_nothing(by):
    for n in (1, 2, 3, 4):
        step = CodeLinks(by=by, depth=2, max_files=9)
        whole, cut = (added(step, "app/main.py", "app/paint.py", n=n, catalog=one) for one in (TREE, up_to(TREE, n)))
        assert whole == cut


@pytest.mark.parametrize("by", KINDS)
def test_nothing_chosen_brings_nothing_in(by):
    assert added(CodeLinks(by=by)) == []
    assert added(CodeLinks(by=by), catalog=Catalog([])) == []
    assert added(CodeLinks(by=by, depth=5), "a", catalog=Catalog([Item(type="rule", name="a", title="a")])) == []


def test_switched_off_it_leaves_the_table_alone():
    table = expanded(CodeLinks(), "app/main.py")
    batch = Batch.of(TREE, [request("x", 4)])
    for step in (CodeLinks(depth=0), CodeLinks(max_files=0)):
        assert step(whole_texts(batch), table, mock_resources()) is table


def test_a_definition_leads_by_its_file():
    part = Item(type="chunk", name="app/main.py::run", title="app/main.py", text="app/main.py\n\ndef run(): ...")
    catalog = Catalog([*(item for item in TREE if item.title != "app/main.py" and not item.links), part])
    assert added(CodeLinks(by="tests"), "app/main.py", catalog=catalog) == []  # its file is not there
    whole = Item(type="file", name="app/main.py", title="app/main.py", text="app/main.py\n\ndef run(): ...")
    test = Item(type="file", name="tests/test_main.py", text="tests/test_main.py\n\n")
    catalog = Catalog([*catalog, test, whole])
    batch = Batch.of(catalog, [request("x", 4)])
    at = np.array([catalog.position(ItemKey("chunk", None, "app/main.py::run"))], dtype=np.int64)
    table = Candidates.build(1, np.zeros(1, dtype=np.int64), at, score=np.ones(1))
    out = CodeLinks(by="tests")(whole_texts(batch), table, mock_resources())
    assert [catalog[item].name for item in out.item.tolist()] == ["app/main.py::run", "tests/test_main.py"]
    assert out.via_item.tolist() == [-1, int(at[0])]


@pytest.mark.parametrize("by", KINDS)
def test_it_conforms_over_a_history(by):
    refine = [{"first": {"n": 2}}, {"code": {"by": by, "depth": 2}}]
    pipeline = Pipeline.of({"analyse": "whole", "retrieve": "change", "refine": refine})
    requests = [request("paint", n) for n in range(1, 6)]
    check_selector(PipelineSelector(by, pipeline, mock_resources()), catalog=TREE, requests=requests)


@pytest.mark.parametrize("parameters", [{"depth": 6}, {"depth": -1}, {"max_files": -1}])
def test_a_parameter_out_of_range_is_refused(parameters):
    with pytest.raises(ParameterError, match=next(iter(parameters))):
        CodeLinks(**parameters)
