"""The items of one file in both views, and which contents are texts."""

from __future__ import annotations

import hashlib

import pytest

from ctxbench.catalogs.agent_file import open_catalog
from ctxbench.catalogs.git_trees import file_items, text_or_fault
from ctxbench.model.items import Catalog
from tests.checkout import Checkout

SOURCE = '''"""Shapes."""

import math
from .base import Shape, Other


class Circle(Shape):
    """Round."""

    sides = 0

    @property
    def area(self) -> float:
        return math.pi


def unit():
    return Circle()
'''
OUTLINE = """shapes/round.py

Shapes.

imports: math, .base (Shape, Other)

class Circle(Shape)
    def area(self) -> float
def unit()"""
CIRCLE = '''shapes/round.py

class Circle(Shape):
    """Round."""

    sides = 0

    def area(self) -> float'''
AREA = "shapes/round.py\n\n    @property\n    def area(self) -> float:\n        return math.pi"


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@pytest.fixture
def items():
    return {item.name: item for item in file_items("shapes/round.py", SOURCE, view="definitions")}


def test_definitions_are_an_outline_and_a_chunk_each(items):
    pytest.importorskip("tree_sitter_python")
    assert items["shapes/round.py"].text == OUTLINE
    assert items["shapes/round.py::Circle"].text == CIRCLE
    assert items["shapes/round.py::Circle.area"].text == AREA
    assert items["shapes/round.py::unit"].text == "shapes/round.py\n\ndef unit():\n    return Circle()"
    assert [item.type for item in items.values()] == ["file"] + ["chunk"] * (len(items) - 1)
    assert {(item.title, item.kind) for item in items.values()} == {("shapes/round.py", "python")}


def test_a_definition_that_did_not_change_is_the_same_item_in_every_version(items):
    pytest.importorskip("tree_sitter_python")
    before, after = (
        {item.name for item in file_items("shapes/round.py", text, view="definitions", versioned=True)}
        for text in (SOURCE, f"# licence\n{SOURCE.replace('math.pi', '3')}")
    )
    assert f"shapes/round.py::Circle.area@{digest(AREA)}" in before - after
    assert f"shapes/round.py::Circle@{digest(CIRCLE)}" in before & after


def test_a_file_without_definitions_is_whole_in_both_views():
    for path, text in (("notes.md", "# Notes\n"), ("empty.py", ""), ("script.py", "print(1)\n"), ("odd", "x")):
        (item,) = file_items(path, text, view="definitions")
        assert [item] == file_items(path, text)
        assert (item.name, item.text) == (path, f"{path}\n\n{text}")


def test_a_whole_tree_is_as_its_files_one_by_one(tmp_path):
    checkout = Checkout(tmp_path / "repo")
    (checkout.root / "shapes").mkdir()
    (checkout.root / "shapes" / "round.py").write_text(SOURCE)
    (checkout.root / "notes.md").write_text("# Notes\n")
    wanted = [
        *file_items("notes.md", "# Notes\n", view="definitions"),
        *file_items("shapes/round.py", SOURCE, view="definitions"),
    ]
    assert open_catalog(f"{checkout.root}:definitions").hash == Catalog(wanted).hash


def test_names_of_versions_end_in_the_hash_of_the_text():
    (item,) = file_items("a.py", "x\n", versioned=True, created="2026-01-01", until="2026-01-02")
    name = f"a.py@{digest('a.py' + chr(10) * 2 + 'x' + chr(10))}"
    assert (item.name, item.title, item.created, item.until) == (name, "a.py", "2026-01-01", "2026-01-02")


def test_line_ends_become_line_feeds_and_a_mark_of_the_byte_order_goes():
    assert text_or_fault(b"\xef\xbb\xbfone\r\ntwo\rthree") == ("one\ntwo\rthree", "")
    assert text_or_fault(b"") == ("", "")


def test_where_binary_contents_and_long_lines_begin():
    assert text_or_fault(b"\n" * 8_191 + b"\0")[1] == "binary"
    assert text_or_fault(b"\n" * 8_192 + b"\0") == ("\n" * 8_192 + "\0", "")
    assert text_or_fault(b"x" * 5_000 + b"\n")[1] == ""
    assert text_or_fault(b"\n" + b"x" * 5_001)[1] == "minified (a line over 5,000 characters)"
    assert text_or_fault(b"\xff")[1] == "not UTF-8"
