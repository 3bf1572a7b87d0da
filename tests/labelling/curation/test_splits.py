"""New splits: by hash, by time, in folds; what belongs together stays together."""

from __future__ import annotations

import pytest

from ctxbench.cli.curate import split_lines
from ctxbench.datasets.dataset import split_of
from ctxbench.io.errors import ParameterError
from ctxbench.labelling.curation import bundles_of, split_dataset


def splits(resplit):
    return {query.id: query.split for query in resplit.dataset.queries}


def test_by_hash_each_query_is_where_split_of_says(make, tiny):
    found = split_dataset(tiny)
    expected = {q.id: split_of(q.group or q.request.conversation or q.id) for q in tiny.queries}
    assert splits(found) == expected
    assert found.before == {"tuning": 5, "test": 5}
    assert sum(found.after.values()) == 10
    assert found.moved == sum(query.split != expected[query.id] for query in tiny.queries)
    assert split_dataset(found.dataset).moved == 0


def test_groups_and_conversations_that_touch_stay_together(make):
    queries = [
        make.query("a", group="g"),
        make.query("b", group="g", conversation="c"),
        make.query("c", conversation="c"),
        make.query("d"),
        make.query("e", conversation="lone"),
    ]
    assert bundles_of(queries) == [("g", [0, 1, 2]), ("d", [3]), ("lone", [4])]


def test_the_share_moves_the_border_and_nothing_else(make):
    data = make.dataset(["t"], [make.query(f"q{i}") for i in range(400)], [(f"q{i}", "t", 2) for i in range(400)])
    small, large = split_dataset(data, share=0.2), split_dataset(data, share=0.8)
    assert 55 <= small.after["tuning"] <= 105  # 80 expected, standard deviation 8
    assert 295 <= large.after["tuning"] <= 345
    tuning = {name for name, split in splits(small).items() if split == "tuning"}
    assert tuning <= {name for name, split in splits(large).items() if split == "tuning"}


def test_folds_cover_every_query_and_keep_groups_whole(make):
    queries = [make.query(f"q{i}", group=f"g{i // 3}") for i in range(60)]
    found = split_dataset(make.dataset(["t"], queries, [(q.id, "t", 2) for q in queries]), folds=4)
    assert list(found.after) == ["fold-1", "fold-2", "fold-3", "fold-4"]
    assert sum(found.after.values()) == 60
    assert all(count % 3 == 0 for count in found.after.values())
    assert sum(found.bundles.values()) == 20


def test_by_time_the_earlier_half_is_tuning(make):
    days = [5, 1, 4, 2, 3, 6]
    queries = [make.query(f"q{day}", time=f"2026-03-0{day}T12:00:00+00:00") for day in days]
    found = split_dataset(make.dataset(["t"], queries, [(q.id, "t", 2) for q in queries]), by="time")
    assert {q for q, split in splits(found).items() if split == "tuning"} == {"q1", "q2", "q3"}
    assert (found.cut, found.late) == ("2026-03-03T12:00:00+00:00", 0)


def test_by_time_a_conversation_is_placed_by_its_last_query(make):
    queries = [
        make.query("a1", conversation="a", time="2026-03-01"),
        make.query("b", time="2026-03-02"),
        make.query("c", time="2026-03-03T01:00:00+02:00"),  # 2026-03-02T23:00 in UTC
        make.query("a2", conversation="a", time="2026-03-04"),
    ]
    found = split_dataset(make.dataset(["t"], queries, [(q.id, "t", 2) for q in queries]), by="time")
    assert splits(found) == {"a1": "test", "b": "tuning", "c": "tuning", "a2": "test"}
    assert found.late == 1  # a1 is earlier, but belongs to a2


def test_by_time_the_cut_may_fall_among_queries_of_the_same_time(make):
    queries = [make.query(f"q{i}", time="2026-03-01T00:00:00") for i in range(10)]
    data = make.dataset(["t"], queries, [(q.id, "t", 2) for q in queries])
    found = split_dataset(data, by="time", share=0.3)
    assert found.after == {"tuning": 3, "test": 7}
    assert (found.cut, found.late) == ("2026-03-01T00:00:00+00:00", 7)
    assert split_lines(found)[-1] == f"tuning ends at {found.cut}; test queries not after it: 7"


def test_what_cannot_be_split_is_refused(make, tiny):
    with pytest.raises(ParameterError, match=r"10 of 10 queries have no time \(q01, q02, q03, \.\.\.\)"):
        split_dataset(tiny, by="time")
    one = make.dataset(["t"], [make.query("q", time="2026-03-01")], [("q", "t", 2)])
    with pytest.raises(ParameterError, match="all queries stay together"):
        split_dataset(one, by="time")
    both = {"folds": 3, "share": 0.3}
    for wrong in ({"by": "name"}, {"share": 0}, {"share": 1}, {"folds": 1}, {"folds": 3, "by": "time"}, both):
        with pytest.raises(ParameterError):
            split_dataset(tiny, **wrong)
    with pytest.raises(ParameterError, match="has 2 queries or groups that stay together, too few for 3 folds"):
        split_dataset(make.dataset(["t"], [make.query("a"), make.query("b")], [("a", "t", 2)]), folds=3)


def test_an_empty_fold_is_told(make):
    queries = [make.query(name) for name in "abcd"]
    found = split_dataset(make.dataset(["t"], queries, [(name, "t", 2) for name in "abcd"]), folds=4)
    assert sorted(found.after) == ["fold-1", "fold-2", "fold-3", "fold-4"]
    assert 0 in found.after.values()


def test_labels_and_everything_else_stay(tiny):
    found = split_dataset(tiny, folds=2, version="2").dataset
    assert found.labels == tiny.labels
    assert found.version == "2"
    assert found.catalog.hash == tiny.catalog.hash
