"""Which contexts are kept, and for how long."""

from __future__ import annotations

import pytest

from ctxbench.io.errors import ParameterError
from ctxbench.memory.engine import ContextCache


class Time:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Time()


def put(cache, key, *, catalog="c", thread="t", user="u"):
    return cache.entry(key, catalog=catalog, thread=thread, user=user)


def test_what_was_put_is_found_until_its_time_from_the_last_use_is_over(clock):
    cache = ContextCache(clock=clock)
    put(cache, "a").outputs["step"] = 1
    for clock.now in (29.9, 59.8):
        assert put(cache, "a").outputs == {"step": 1}
    clock.now = 59.8 + 30
    assert "a" not in cache
    assert put(cache, "a").outputs == {}


def test_a_look_is_no_use(clock):
    cache = ContextCache(clock=clock)
    put(cache, "a")
    clock.now = 29.0
    assert "a" in cache
    clock.now = 30.0
    assert "a" not in cache


def test_the_one_used_longest_ago_goes_first():
    cache = ContextCache(2)
    put(cache, "a"), put(cache, "b"), put(cache, "a"), put(cache, "c")
    assert [key in cache for key in "abc"] == [True, False, True]


def test_a_hundred_are_kept_and_none_where_nothing_is_to_be():
    cache, none = ContextCache(), ContextCache(0)
    for number in range(101):
        put(cache, str(number)), put(none, str(number))
    names = [str(number) for number in range(101)]
    assert [name for name in names if name in cache] == names[1:]
    assert not any(name in none for name in names)


def test_contexts_of_an_earlier_catalog_go_with_the_first_of_a_later_one():
    cache = ContextCache()
    put(cache, "a"), put(cache, "b"), put(cache, "c", catalog="later")
    assert [key in cache for key in "abc"] == [False, False, True]


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({"thread": "t"}, ["c"]),
        ({"user": "u"}, ["b"]),
        ({"thread": "t", "user": "u"}, ["b", "c"]),
        ({}, []),
        ({"thread": "x"}, ["a", "b", "c"]),
    ],
)
def test_contexts_are_forgotten_by_thread_and_user(given, left):
    cache = ContextCache()
    put(cache, "a"), put(cache, "b", user="v"), put(cache, "c", thread="s")
    assert cache.forget(**given) == 3 - len(left)
    assert [key for key in "abc" if key in cache] == left


def test_sizes_below_nothing_are_refused():
    with pytest.raises(ParameterError, match="size must be 0 or more, got -1"):
        ContextCache(-1)
    with pytest.raises(ParameterError, match="seconds must be 0 or more"):
        ContextCache(seconds=float("nan"))
