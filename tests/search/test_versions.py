from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest

from ctxbench import testing
from ctxbench.model.items import Catalog, Item
from ctxbench.model.resources import KEPT, index_over, row_over

OVER = ("search_text",)


class Names:
    """An index of names, which notes how it was made."""

    def __init__(self, names, how) -> None:
        self.names, self.how = names, how


def items(*names: str, **given) -> list[Item]:
    return [Item(type="rule", name=name, **given) for name in names]


@pytest.fixture
def names():
    """The index of a catalog, over one set of resources."""
    resources = testing.mock_resources()

    def of(catalog: Catalog, *, extends: bool = True) -> Names:
        def extend(old: Names) -> Names:
            return Names([*old.names, *(item.name for item in catalog[len(old.names) :])], f"{old.how}+")

        def make() -> Names:
            return Names([item.name for item in catalog], "anew")

        return index_over(catalog, resources, "names", over=OVER, make=make, extend=extend if extends else None)

    return of


def test_catalogs_that_differ_in_what_is_not_indexed_share_an_index(names):
    held = items("a", "b")
    other = [replace(item, include="manual", priority=1, metadata={"x": 1}) for item in held]
    assert names(Catalog(held)) is names(Catalog(other))
    assert names(Catalog([*held, *items("c")])) is not names(Catalog(held))
    assert names(Catalog(items("a", "b", description="x"))).names == ["a", "b"]


def test_an_index_is_carried_on(names):
    catalog = Catalog(items("a", "b"))
    assert names(catalog).how == "anew"
    extended = catalog.extended(items("c"))
    assert (names(extended).how, names(extended).names) == ("anew+", ["a", "b", "c"])


def test_it_is_carried_on_over_catalogs_that_nobody_searched(names):
    catalog = Catalog(items("a"))
    names(catalog)
    for n in range(100):
        catalog = catalog.extended(items(str(n)))
    assert (names(catalog).how, len(names(catalog).names)) == ("anew+", 101)


def test_a_catalog_extended_in_several_ways_lends_to_all_of_them(names):
    base = Catalog(items("base"))
    names(base)
    for n in range(3 * KEPT):
        one = names(base.extended(items(str(n))))
        assert (one.names, one.how) == (["base", str(n)], "anew+")
    assert names(base).how == "anew"


def test_a_catalog_that_several_share_outlives_what_grows_from_it(names):
    base = Catalog(items("base"))
    first, ways = names(base), [base.extended(items(str(n)), shares=True) for n in range(2)]
    for n in range(3 * KEPT):
        ways = [one.extended(items(f"{n} more")) for one in ways]
        assert [names(one).names[:2] for one in ways] == [["base", "0"], ["base", "1"]]
    assert names(base) is first
    assert names(base.extended(items("late"), shares=True)).how == "anew+"


@pytest.mark.parametrize("extends", [True, False])
def test_a_line_keeps_a_few_and_lets_the_others_go(names, extends):
    catalog = Catalog(items("first"))
    made = [weakref.ref(names(catalog, extends=extends))]
    for n in range(3 * KEPT):
        catalog = catalog.extended(items(str(n)))
        made.append(weakref.ref(names(catalog, extends=extends)))
    gc.collect()
    assert [index() is not None for index in made] == [False] * (2 * KEPT + 1) + [True] * KEPT


def test_catalogs_of_their_own_all_stay(names):
    catalogs = [Catalog(items(str(n))) for n in range(3 * KEPT)]
    made = [names(catalog) for catalog in catalogs]
    assert [names(catalog) for catalog in catalogs] == made


def test_what_fails_is_not_kept():
    resources, catalog = testing.mock_resources(), Catalog(items("a"))

    def fail():
        raise ValueError("no")

    for make, found in ((fail, None), (lambda: "made", "made")):
        if found is None:
            with pytest.raises(ValueError, match="no"):
                index_over(catalog, resources, "x", over=OVER, make=make)
        else:
            assert index_over(catalog, resources, "x", over=OVER, make=make) == found


def test_a_row_is_made_for_what_was_added():
    resources, asked = testing.mock_resources(), []

    def lengths(added):
        asked.append([item.name for item in added])
        return np.array([len(item.name) for item in added], dtype=np.int64)

    def row(catalog):
        return row_over(catalog, resources, "lengths", over=("name",), make=lengths)

    catalog = Catalog(items("a", "bb"))
    extended = catalog.extended(items("ccc"))
    assert row(catalog).tolist() == row(catalog).tolist() == [1, 2]
    extended = catalog.extended(items("ccc"))
    assert row(extended).tolist() == [1, 2, 3]
    assert asked == [["a", "bb"], ["ccc"]]
    assert not row(extended).flags.writeable
    assert row(Catalog([])).tolist() == []


def test_a_row_is_made_for_what_is_asked_alone():
    resources, asked = testing.mock_resources(), []

    def lengths(added):
        asked.append([item.name for item in added])
        return np.array([len(item.name) for item in added], dtype=np.int64)

    def row(catalog, items):
        of = None if items is None else np.array(items, dtype=np.int64)
        return row_over(catalog, resources, "lengths", over=("name",), make=lengths, items=of)

    catalog = Catalog(items("a", "bb", "ccc"))
    assert row(catalog, []).shape == (3,)
    assert row(catalog, [2, 0, 2])[[2, 0]].tolist() == [3, 1]
    first = row(catalog, [0])
    extended = catalog.extended(items("dddd", "eeeee"))
    assert row(extended, [1, 3])[[1, 3]].tolist() == [2, 4]
    assert row(extended, None).tolist() == [1, 2, 3, 4, 5]
    assert row(catalog, None).tolist() == [1, 2, 3]
    assert asked == [[], ["a", "ccc"], ["bb", "dddd"], ["eeeee"], ["bb"]]
    assert not first.flags.writeable
