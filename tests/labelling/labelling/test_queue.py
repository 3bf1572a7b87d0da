from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from ctxbench.io.errors import StorageError, UnknownNameError
from ctxbench.labelling.pools import Predictor
from ctxbench.labelling.sampling import Queue, extended, make_queue


def queue_of(pool, **options):
    return make_queue(Predictor(pool), [query.id for query in pool.dataset.queries], seed=3, **options)


def test_every_query_takes_one_turn_and_the_order_does_not_depend_on_theirs(make_pool):
    pool = make_pool(120)
    queue = queue_of(pool)
    ids = [query for stratum in queue.strata for query in stratum.queries]
    assert sorted(ids) == sorted(query.id for query in pool.dataset.queries)
    assert Counter(queue.turns()) == {i: len(stratum.queries) for i, stratum in enumerate(queue.strata)}
    again = make_queue(Predictor(pool), sorted(ids, reverse=True), seed=3)
    assert again == queue


def test_strata_tell_apart_what_the_guesses_tell_apart(make_pool):
    # of even queries `narrow` lacks the item that was called, of odd ones it offers it
    queue = queue_of(make_pool(120))
    parity = [{int(query[1:]) % 2 for query in stratum.queries} for stratum in queue.strata]
    assert all(len(one) == 1 for one in parity)
    assert len(queue.strata) >= 2
    assert len(queue_of(make_pool(120), split=False).strata) == 1


def test_a_focus_names_a_figure(make_pool):
    queue = queue_of(make_pool(120), focus=("wide - narrow",))
    assert queue.focus == ("wide - narrow",)
    with pytest.raises(UnknownNameError, match="unknown figure 'wide - wide'"):
        queue_of(make_pool(), focus=("wide - wide",))


def test_a_queue_is_read_back_equal_and_a_damaged_one_is_refused(tmp_path, make_pool):
    path = tmp_path / "queue.json"
    assert Queue.read(path) is None
    queue = queue_of(make_pool(80))
    queue.write(path)
    assert Queue.read(path) == queue
    path.write_text('{"format": 1, "selectors": ["a"], "seed": 0, "strata": [{"queries": 5}]}')
    with pytest.raises(StorageError, match="damaged"):
        Queue.read(path)


def test_new_queries_come_as_strata_of_their_own(make_pool):
    small, large = make_pool(60), make_pool(100)
    queue = queue_of(small)
    longer = extended(queue, Predictor(large), [query.id for query in large.dataset.queries])
    assert longer.strata[: len(queue.strata)] == queue.strata
    assert sum(len(stratum.queries) for stratum in longer.strata) == 100
    assert extended(longer, Predictor(large), [query.id for query in large.dataset.queries]) is longer


def test_no_queries_give_no_strata(make_pool):
    assert make_queue(Predictor(make_pool()), [], seed=0).turns() == []


def test_one_selector_alone_has_no_pairs_and_a_queue_all_the_same(make_pool):
    pool = make_pool(60)
    queue = queue_of(replace(pool, offers=pool.offers[:1]))
    assert sorted(query for stratum in queue.strata for query in stratum.queries) == sorted(
        query.id for query in pool.dataset.queries
    )
    assert all(stratum.differ == () for stratum in queue.strata)
