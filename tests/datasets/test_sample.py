"""Samples of a dataset's queries: whole groups, in an order that only seed and names decide."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from ctxbench.datasets.dataset import Dataset, draw_sample, select_queries
from ctxbench.datasets.queries import DatasetQuery
from ctxbench.io.errors import ParameterError, UnknownNameError
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Request


def dataset(groups, *, partly=(), split="tuning"):
    """One query a group name, which may repeat; None is a query without a group. All need nothing."""
    queries = tuple(
        DatasetQuery(
            request=Request(id=f"q{place}", text="?"),
            split=split,
            group=group,
            needs_nothing=place not in partly,
            partly_labelled=place in partly,
        )
        for place, group in enumerate(groups)
    )
    return Dataset(name="d", version="1", catalog=Catalog([Item(type="tool", name="a")]), queries=queries, labels=())


def ids(found):
    return [query.id for query in found.queries]


def in_order(seed, names):
    return sorted(names, key=lambda name: hashlib.sha256(f"{seed}:{name}".encode()).hexdigest())


def test_queries_without_a_group_are_drawn_in_the_order_of_their_hash():
    names = [f"q{place}" for place in range(20)]
    assert set(ids(draw_sample(dataset([None] * 20), 7, seed=3))) == set(in_order(3, names)[:7])


def test_the_order_of_the_dataset_is_kept():
    found = ids(draw_sample(dataset([None] * 20), 7, seed=3))
    assert found == sorted(found, key=lambda name: int(name[1:]))


def test_a_group_is_drawn_whole_or_not_and_the_first_that_does_not_fit_ends_the_draw():
    one = dataset(["a"] * 3 + ["b"] * 3 + ["c"] * 3)
    first, second, _ = in_order(0, "abc")
    groups = {query.id: query.group for query in one.queries}
    assert {groups[name] for name in ids(draw_sample(one, 3, seed=0))} == {first}
    assert ids(draw_sample(one, 5, seed=0)) == ids(draw_sample(one, 3, seed=0))
    assert {groups[name] for name in ids(draw_sample(one, 8, seed=0))} == {first, second}


def test_a_dataset_that_is_small_enough_stays_the_same():
    one = dataset(["a", "a", None])
    assert draw_sample(one, 3, seed=0) is one
    assert draw_sample(dataset([]), 1, seed=0).queries == ()


def test_what_cannot_be_measured_is_not_drawn_and_stays():
    one = dataset([None] * 10, partly={2, 5})
    found = draw_sample(one, 4, seed=0)
    assert len(found.judged()) == 4
    assert found.unlabelled == ("q2", "q5")
    assert draw_sample(one, 8, seed=0) is one


@pytest.mark.parametrize("n", [0, -1])
def test_a_sample_of_none_is_refused(n):
    with pytest.raises(ParameterError, match=f"sample must be 1 or more, got {n}"):
        draw_sample(dataset([None]), n, seed=0)


def test_a_sample_with_no_room_for_the_first_group_is_refused_with_the_size_that_would_do():
    with pytest.raises(ParameterError, match=r"dataset d have up to 3 queries, got 2"):
        draw_sample(dataset(["a"] * 3 + ["b"] * 3), 2, seed=0)


def test_what_is_asked_is_of_the_split_and_then_of_the_sample():
    one = dataset([None] * 6)
    mixed = replace(one, queries=tuple(replace(q, split="test") if q.id == "q0" else q for q in one.queries))
    assert select_queries(mixed) is mixed
    assert ids(select_queries(mixed, split="test", sample=3)) == ["q0"]
    assert len(select_queries(mixed, split="tuning", sample=3, seed=1)) == 3
    with pytest.raises(UnknownNameError, match="split"):
        select_queries(mixed, split="dev")


@given(
    groups=st.lists(st.sampled_from(["a", "b", "c", "d", None]), min_size=6, max_size=30),
    seed=st.integers(0, 5),
    data=st.data(),
)
def test_a_draw_depends_on_no_order_and_a_smaller_one_is_part_of_a_larger(groups, seed, data):
    one = dataset(groups)
    shuffled = replace(one, queries=tuple(data.draw(st.permutations(one.queries))))
    largest = max([groups.count(group) for group in groups if group is not None], default=1)
    small, large = sorted(data.draw(st.tuples(st.integers(largest, 30), st.integers(largest, 30))))
    assert set(ids(draw_sample(shuffled, small, seed=seed))) == set(ids(draw_sample(one, small, seed=seed)))
    assert set(ids(draw_sample(one, small, seed=seed))) <= set(ids(draw_sample(one, large, seed=seed)))
    found = draw_sample(one, small, seed=seed)
    assert len(found) <= small
    for group in {query.group for query in found.queries} - {None}:
        assert sum(query.group == group for query in found.queries) == groups.count(group)
