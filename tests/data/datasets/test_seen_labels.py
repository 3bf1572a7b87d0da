"""Labels that require what their query never sees."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ctxbench.core.errors import InputError
from ctxbench.data.datasets.reading import read_dataset


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
            "of workspace 'a', and that of the query is 'b'; such a request never",
        ),
        ({"user": "a"}, {}, "the item is of user 'a', and the query names none"),
        (
            {"created": "2026-02-02"},
            {"time": "2026-02-01"},
            r"the item was created \(2026-02-02\) after the query was asked \(2026-02-01\)",
        ),
        ({"until": "2026-02-02"}, {"time": "2026-02-02T00:00:00Z"}, r"ended \(2026-02-02\) and the query was asked at"),
        ({"until": "2026-02-02"}, {}, r"ended \(2026-02-02\) and the query has no time, so it is asked now"),
    ],
)
def test_a_label_of_what_its_query_never_sees_is_refused(tmp_path, item, query, said):
    with pytest.raises(InputError, match=f"label of 'memory:m' for query 'q' says required, but .*{said}"):
        read_dataset(folder(tmp_path / "seen", item, query))


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
        ({"types": ["memry"]}, "field 'only': no item type is called 'memry'"),
        ({"since": "soon"}, "field 'only': since must be ISO 8601"),
        ({"confidence": 2}, "field 'only': confidence must be 0 to 1"),
    ],
)
def test_faults_of_restrictions_are_told(tmp_path, only, said):
    with pytest.raises(InputError, match=rf"{said}.*\(.*queries.jsonl, line 1\)"):
        read_dataset(folder(tmp_path / "seen", {}, {"only": only}))
