"""Names in code: which items define and use them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Request, whole_texts
from ctxbench.pipelines.strategies.files import SymbolDefiners
from ctxbench.search.code_index import CodeSymbols
from ctxbench.testing import mock_resources


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Code facts are kept nowhere but here."""
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path))


def file(path, content, **more):
    return Item(type="file", name=path, title=path, text=f"{path}\n\n{content}", **more)


def part(path, name, content, **more):
    return Item(type="chunk", name=f"{path}::{name}", title=path, text=f"{path}\n\n{content}", **more)


WHOLE = Catalog(
    [
        file("a.py", "class Shade:\n    def mix(self): ...\n\ndef paint(): ..."),
        file("b.py", "def paint():\n    return Shade().mix()"),
        file("c.rs", "pub fn paint() {}"),
        file("notes.md", "def paint(): ..."),
    ]
)
PARTS = Catalog(
    [
        file("a.py", "class Shade\n\n    def mix(self)", created="2026-01-02"),
        part("a.py", "Shade", "class Shade: ...", created="2026-01-02"),
        part("a.py", "Shade.mix", "def mix(self): return tone()", created="2026-01-02"),
        file("b.py", "def tone(): ...", created="2026-01-02"),
    ]
)


def found(text, catalog=WHOLE, plan=None, types=("file",)):
    batch = Batch.of(catalog, [Request(id="q", text=text)])
    query = whole_texts(batch)
    query = replace(query, plan=(plan,))
    table = SymbolDefiners(types=types)(query, mock_resources())
    return list(zip((catalog[item].name for item in table.item.tolist()), table.score.tolist(), strict=True))


def test_a_name_scores_by_one_through_its_definers():
    assert found("paint()") == [("a.py", 1 / 3), ("b.py", 1 / 3), ("c.rs", 1 / 3)]
    assert found("the words of English") == []
    assert found("`Shade` and paint()") == [("a.py", 4 / 3), ("b.py", 1 / 3), ("c.rs", 1 / 3)]


def test_a_dotted_name_is_that_of_its_class_else_its_last_part():
    assert found("Shade.mix fails") == [("a.py", 1.0)] == found("pkg.Shade.mix") == found("Other.mix")
    assert found("Other.nothing") == []


def test_names_of_a_plan_stand_in_for_those_of_the_text():
    plan = {"symbols_to_find": ["Shade"], "strategy": {"name": "focused", "symbols": ["mix"]}}
    assert found("paint()", plan=plan) == [("a.py", 2.0)]


def test_definitions_are_found_themselves_and_by_their_files():
    assert found("Shade.mix", PARTS) == [("a.py", 1.0)]
    assert found("Shade.mix", PARTS, types=("file", "chunk")) == [("a.py", 1.0), ("a.py::Shade.mix", 1.0)]


def test_an_outline_is_not_read_as_code_and_a_definition_uses_names():
    symbols = CodeSymbols.of(PARTS)
    definers = symbols.definers("Shade", np.ones(4, dtype=bool))
    assert definers.tolist() == [1]
    used = symbols.used[symbols.use_start[2] : symbols.use_start[3]].tolist()
    assert used == [symbols.number["tone"]]


def test_a_file_that_had_no_definitions_beside_it_is_read_whole():
    early = replace(file("a.py", "def old(): ...", created="2026-01-01", until="2026-01-02"), name="a.py@1")
    symbols = CodeSymbols.of(Catalog([*PARTS, early]))
    assert symbols.definers("old", np.ones(5, dtype=bool)).tolist() == [4]


def test_only_what_is_seen_defines():
    symbols = CodeSymbols.of(WHOLE)
    assert symbols.matches(["paint"], np.array([True, False, False, True])).tolist() == [1.0, 0.0, 0.0, 0.0]
    assert symbols.matches([], np.ones(4, dtype=bool)).tolist() == [0.0] * 4
