"""Items by path: where versions stand, and how much of a request's words a path holds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ctxbench.model.items import Catalog, Item
from ctxbench.search.code_index import ItemPaths, file_path, place_of

FILES = Catalog(
    Item(type="file", name=name, title=name.partition("@")[0])
    for name in ("src/red_shade.py", "src/blue_shade.py@1", "src/blue_shade.py@2", "docs/index.md")
)


def test_versions_of_a_definition_stand_at_one_place():
    for name in ("a/b.py::C.d@0123456789ab", "a/b.py::C.d@0123456789ab.2", "a/b.py::C.d"):
        part = Item(type="chunk", name=name, title="a/b.py")
        assert (place_of(part), file_path(part)) == ("a/b.py::C.d", "a/b.py")
    assert place_of(Item(type="file", name="@types/a.ts@0123456789ab", title="@types/a.ts")) == "@types/a.ts"
    assert place_of(Item(type="rule", name="a.py")) is None


def test_files_whose_paths_hold_two_colons_are_different_files():
    names = ("man/Foo::Bar.3", "man/Foo::Baz.3")
    assert [file_path(Item(type="file", name=f"{name}@0123456789ab", title=name)) for name in names] == list(names)
    assert [place_of(Item(type="file", name=name)) for name in names] == list(names)


def test_a_word_counts_by_how_rare_it_is_among_the_paths_that_are_seen():
    paths, every = ItemPaths.of(FILES), np.ones(3, dtype=bool)
    red, shade = math.log(1 + 2.5 / 1.5), math.log(1 + 1.5 / 2.5)  # of three paths one has `red`, and two have `shade`
    shares = paths.shares(["the red shades of noon"], [1.0], every)
    assert shares == pytest.approx([1.0, shade / (red + shade), 0.0])
    assert paths.shares(["red"], [1.0], np.array([False, True, True])).tolist() == [0.0, 0.0, 0.0]
    assert paths.shares(["noon"], [1.0], every).tolist() == paths.shares([], [], every).tolist() == [0.0] * 3


def test_a_word_of_a_lighter_chunk_counts_less():
    paths, every = ItemPaths.of(FILES), np.ones(3, dtype=bool)
    red, shade = math.log(1 + 2.5 / 1.5), 0.5 * math.log(1 + 1.5 / 2.5)
    for chunks, weights in ((["red", "shades red"], [1.0, 0.5]), (["red shades", "red"], [0.5, 1.0])):
        assert paths.shares(chunks, weights, every) == pytest.approx([1.0, shade / (red + shade), 0.0])


def test_values_of_paths_and_items_are_each_others():
    paths = ItemPaths.of(Catalog([*FILES, Item(type="rule", name="x")]))
    assert paths.by_item(np.array([1.0, 2.0, 3.0])).tolist() == [1.0, 2.0, 2.0, 3.0, 0.0]
    assert paths.best(np.array([1.0, 2.0, 5.0, 3.0, 9.0])).tolist() == [1.0, 5.0, 3.0]
    assert paths.visible_paths(np.array([False, False, True, False, True])).tolist() == [False, True, False]
