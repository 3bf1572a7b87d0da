"""Labels that require what their query never sees."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ctxbench.datasets.files import read_dataset
from ctxbench.io.errors import InputError


def folder(place: Path, item: dict[str, object], query: dict[str, object]) -> Path:
    place.mkdir()
    rows = {
        "corpus.jsonl": {"_id": "memory:m", "text": "Likes tea.", **item},
        "queries.jsonl": {"_id": "q", "text": "tea?", "split": "test", **query},
    }
    for name, row in rows.items():
        (place / name).write_text(json.dumps(row) + "\n")
    (place / "qrels").mkdir()
    (place / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\tmemory:m\t2\n")
    card = 'name: seen\nversion: "1"\nlicence: CC0-1.0\nsource: here\nlabelling: by hand\n'
    (place / "dataset.yaml").write_text(card)
    return place


@pytest.mark.parametrize(
    ("item", "query", "said"),
    [
        (
            {"workspace": "a"},
            {"workspace": "b"},
            "of workspace 'a', but the query's workspace is 'b'; such a request never",
        ),
        ({"user": "a"}, {}, "that is of user 'a', but the query has no user; such a request never"),
        (
            {"created": "2026-02-02"},
            {"time": "2026-02-01"},
            r"that was created \(2026-02-02\) after the query's time \(2026-02-01\)",
        ),
        (
            {"until": "2026-02-02"},
            {"time": "2026-02-02T00:00:00Z"},
            r"ended \(2026-02-02\) before the query's time \(2026",
        ),
        ({"until": "2026-02-02"}, {}, r"ended \(2026-02-02\) before the query's time \(now\)"),
    ],
)
def test_a_label_of_what_its_query_never_sees_is_refused(tmp_path, item, query, said):
    with pytest.raises(InputError, match=f"label of 'memory:m' for query 'q' is of an item .*{said}"):
        read_dataset(folder(tmp_path / "seen", item, query))


@pytest.mark.parametrize("grade", [0, 1])
def test_no_label_is_older_than_its_item(tmp_path, grade):
    place = folder(tmp_path / "seen", {"created": "2026-02-02"}, {"time": "2026-02-01"})
    (place / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\nq\tmemory:m\t{grade}\n")
    said = r"label of 'memory:m' for query 'q' is of an item that was created \(2026-02-02\) after .*test.tsv, line 2"
    with pytest.raises(InputError, match=said):
        read_dataset(place)


def test_what_had_ended_can_be_labelled_as_of_no_use(tmp_path):
    place = folder(tmp_path / "seen", {"until": "2026-02-02"}, {"time": "2026-02-03"})
    (place / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\tmemory:m\t0\n")
    assert len(read_dataset(place)) == 1


def test_a_label_of_what_its_query_sees_is_not(tmp_path):
    facts = {"workspace": "a", "user": "u", "created": "2026-02-01", "until": "2026-02-03"}
    asked = {"workspace": "a", "user": "u", "time": "2026-02-02T23:59:00+01:00", "only": {"types": ["memory"]}}
    dataset = read_dataset(folder(tmp_path / "seen", facts, asked))
    assert dataset.batch().eligible.counts().tolist() == [1]
    assert dataset.queries[0].as_row()["only"] == {"types": ["memory"]}


@pytest.mark.parametrize(
    ("only", "said"),
    [
        ({"type": ["memory"]}, "unknown field 'type'"),
        ({"kinds": [3]}, "field 'kinds', entry 1"),
        ({"types": ["memry"]}, "field 'only': no item type is called 'memry'"),
        ({"since": "soon"}, "field 'only': since must be ISO 8601"),
        ({"confidence": 2}, "field 'only': confidence must be 0 to 1"),
    ],
)
def test_faults_of_restrictions_are_told(tmp_path, only, said):
    with pytest.raises(InputError, match=rf"{said}.*\(.*queries.jsonl, line 1\)"):
        read_dataset(folder(tmp_path / "seen", {}, {"only": only}))


@pytest.mark.parametrize("field", ["session", "removed", "explicit", "recent", "uses"])
def test_what_a_query_names_and_never_sees_is_said_as_it_is(tmp_path, field):
    named = {"session": [{"id": "memory:m"}], "uses": {"memory:m": 1}}
    place = folder(
        tmp_path / "seen",
        {"user": "bob"},
        {"user": "ada", field: named.get(field, ["memory:m"])},
    )
    (place / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\tmemory:m\t0\n")
    said = rf"query 'q' \({field}\) names item 'memory:m', which is of user 'bob', but .* is 'ada'.*jsonl, line 1"
    with pytest.raises(InputError, match=said):
        read_dataset(place)


@pytest.mark.parametrize(
    ("uses", "said"),
    [
        (["memory:m"], "field 'uses' must be an object"),
        ({"m": 1}, "field 'uses': 'm' is no item id"),
        ({"memory:m": -1}, "field 'uses': query 'q': how often 'memory:m' was useful must be a whole number"),
        ({"memory:m": True}, "must be a whole number, 0 or more, got True"),
    ],
)
def test_faults_of_uses_are_told(tmp_path, uses, said):
    with pytest.raises(InputError, match=rf"{said}.*\(.*queries.jsonl, line 1\)"):
        read_dataset(folder(tmp_path / "seen", {}, {"uses": uses}))


def test_a_label_of_what_only_leaves_out_is_refused_unless_the_session_holds_it(tmp_path):
    facts, only = {"conversation": "c1"}, {"only": {"conversation": "c2"}}
    with pytest.raises(InputError, match="says required, but the query's `only` excludes the item"):
        read_dataset(folder(tmp_path / "seen", facts, only))
    held = {**only, "session": [{"id": "memory:m", "mode": "manual"}]}
    assert len(read_dataset(folder(tmp_path / "held", facts, held))) == 1


@pytest.mark.parametrize(
    ("item", "query", "said"),
    [
        ({"user": ""}, {}, r"user must not be empty; leave it out of what is everybody's \(item memory:m\).*corpus"),
        (
            {},
            {"workspace": ""},
            r"field 'workspace' must not be empty.*queries.jsonl, l",
        ),
        ({}, {"only": {"since": "2026-05-01", "before": "2026-04-01"}}, r"since \(2026-05-01\) must be before before"),
    ],
)
def test_whose_it_is_and_what_is_searched_must_say_something(tmp_path, item, query, said):
    with pytest.raises(InputError, match=said):
        read_dataset(folder(tmp_path / "seen", item, query))
