"""AutoRAG's questions: groups of documents, in each of the forms that the files have."""

from __future__ import annotations

import json

import pytest

from ctxbench.datasets.queries import minimal_groups
from ctxbench.io.errors import InputError, StorageError
from ctxbench.labelling.judgment_files import import_collection

CORPUS = [{"doc_id": name, "contents": f"text of {name}", "metadata": {}} for name in "abcd"]
QA = [
    {"qid": "q1", "query": "(a or b) and c", "retrieval_gt": [["a", "b"], ["c"]], "generation_gt": ["x"]},
    {"qid": "q2", "query": "a or b", "retrieval_gt": ["a", "b"]},
    {"qid": "q3", "query": "d", "retrieval_gt": "d"},
    {"qid": "q4", "query": "nothing", "retrieval_gt": [[]]},
]


def import_autorag(qa, *, corpus):
    return import_collection([corpus, qa], kind="autorag")


def write(path, rows):
    if path.suffix == ".jsonl":
        text = "".join(json.dumps(row) + "\n" for row in rows)
    elif path.suffix == ".json":
        text = json.dumps(rows)
    else:
        text = rows
    path.write_text(text, "utf-8")
    return path


@pytest.fixture
def corpus(tmp_path):
    return write(tmp_path / "corpus.jsonl", CORPUS)


def labels_of(data):
    return [(i.query, i.item.name, i.grade, i.alternatives) for i in data.labels]


EXPECTED = [
    ("q1", "a", 2, "group 1"),
    ("q1", "b", 2, "group 1"),
    ("q1", "c", 2, ""),
    ("q2", "a", 2, "group 1"),
    ("q2", "b", 2, "group 1"),
    ("q3", "d", 2, ""),
]


def test_groups_become_alternatives(tmp_path, corpus):
    found = import_autorag(write(tmp_path / "qa.jsonl", QA), corpus=corpus)
    assert labels_of(found.dataset) == EXPECTED
    assert found.dataset.unlabelled == ("q4",)
    assert found.counts["unlabelled queries (no required document)"] == 1
    assert found.dataset.catalog[0].search_text == "a\n\ntext of a"
    need = found.dataset.judged().judgments
    assert len(set(need.group[:3].tolist())) == 2  # (a or b) and c: two things are required


def test_json_as_a_list_and_as_pandas_columns(tmp_path, corpus):
    columns = {name: {str(i): row[name] for i, row in enumerate(QA)} for name in ("qid", "query", "retrieval_gt")}
    for rows in (QA, columns):
        found = import_autorag(write(tmp_path / "qa.json", rows), corpus=corpus)
        assert labels_of(found.dataset) == EXPECTED


def test_csv_with_lists_as_json_or_as_python_writes_them(tmp_path, corpus):
    text = 'qid,query,retrieval_gt\nq1,"(a or b)\nand c","[[""a"", ""b""], [""c""]]"\nq2,a,"[[\'a\', \'b\']]"\nq3,d,d\n'
    found = import_autorag(write(tmp_path / "qa.csv", text), corpus=corpus)
    assert labels_of(found.dataset) == EXPECTED
    assert found.dataset.queries[0].request.text == "(a or b)\nand c"


def test_a_csv_with_a_broken_quote_says_where_the_row_starts(tmp_path, corpus):
    text = 'qid,query,retrieval_gt\nq1,fine,a\nq2,"never closed,b\nq3,c,c\n'
    with pytest.raises(InputError) as caught:
        import_autorag(write(tmp_path / "qa.csv", text), corpus=corpus)
    (fault,) = caught.value.faults
    assert fault.line == 3
    assert "check its quotes" in fault.message


def test_a_csv_row_with_too_few_fields_has_its_line(tmp_path, corpus):
    with pytest.raises(InputError) as caught:
        import_autorag(write(tmp_path / "qa.csv", 'qid,query,retrieval_gt\nq1,"a\nb",a\nq2,b\n'), corpus=corpus)
    (fault,) = caught.value.faults
    assert (fault.line, fault.message) == (4, "expected 3 fields as in the header, got 2")


@pytest.mark.parametrize(
    ("groups", "left", "implied", "overlap"),
    [
        ([], [], 0, False),
        ([["a", "b"], ["c"]], [["a", "b"], ["c"]], 0, False),
        ([["a"], ["a", "b"]], [["a"]], 1, False),  # who has a has one of a and b
        ([["a", "b"], ["b", "a"]], [["a", "b"]], 1, False),
        ([["a", "a"]], [["a"]], 0, False),
        ([["a", "b"], ["b", "c"]], [["a", "b"], ["b", "c"]], 0, True),
        ([["a"], []], [["a"]], 0, False),
    ],
)
def test_groups_that_another_implies_are_left_out(groups, left, implied, overlap):
    assert minimal_groups(groups) == (left, implied, overlap)


def test_what_labels_cannot_say_is_kept_unlabelled_and_counted(tmp_path, corpus):
    rows = [
        {"qid": "overlap", "query": "x", "retrieval_gt": [["a", "b"], ["b", "c"]]},
        {"qid": "implied", "query": "x", "retrieval_gt": [["a"], ["a", "b"]]},
        {"qid": "partly", "query": "x", "retrieval_gt": [["a"], ["gone"]]},
        {"qid": "fewer", "query": "x", "retrieval_gt": [["a", "gone"]]},
        {"qid": "all gone", "query": "x", "retrieval_gt": [["gone"]]},
    ]
    found = import_autorag(write(tmp_path / "qa.jsonl", rows), corpus=corpus)
    assert list(found.counts.values()) == [3, 1, 1, 1, 1, 1]
    assert found.dataset.unlabelled == ("overlap", "partly", "all%20gone")
    assert labels_of(found.dataset) == [("implied", "a", 2, ""), ("partly", "a", 2, ""), ("fewer", "a", 2, "")]
    assert len(found.dataset) == 5


@pytest.mark.parametrize(
    ("groups", "labels", "counted"),
    [  # counted: documents not there, partly, unlabelled, implied, overlap
        ([["a", "x"], ["x", "c"]], ["a", "c"], [1, 0, 0, 0, 0]),
        ([["a", "x"], ["a", "b"]], ["a"], [1, 0, 0, 1, 0]),
        ([["a", "b", "x"], ["b", "c", "y"]], [], [2, 0, 0, 0, 1]),
        ([["x"], ["x", "a"], ["b"]], ["b"], [1, 1, 0, 1, 0]),
        ([["x"], ["y", "a"]], ["a"], [2, 1, 0, 0, 0]),
        ([["x"], ["y"]], [], [2, 0, 1, 0, 0]),
    ],
)
def test_groups_are_judged_by_the_documents_that_are_there(tmp_path, corpus, groups, labels, counted):
    rows = [{"qid": "q", "query": "x", "retrieval_gt": groups}, {"qid": "r", "query": "y", "retrieval_gt": "c"}]
    found = import_autorag(write(tmp_path / "qa.jsonl", rows), corpus=corpus)
    assert [label.item.name for label in found.dataset.labels if label.query == "q"] == labels
    assert list(found.counts.values()) == [*counted, 0]


def test_faults_are_listed_with_their_lines(tmp_path):
    corpus = write(tmp_path / "corpus.jsonl", [{"doc_id": "a", "contents": "x"}, {"doc_id": "a"}, {"contents": "y"}])
    rows = [{"qid": "q", "query": "x", "retrieval_gt": [["a", 1]]}, {"qid": "q", "query": "y", "retrieval_gt": "a"}, {}]
    with pytest.raises(InputError) as caught:
        import_autorag(write(tmp_path / "qa.jsonl", rows), corpus=corpus)
    text = str(caught.value)
    for expected in (
        "no text",
        "no id",
        "document 'a' occurs twice, first in line 1",
        "must be document ids in groups, such as [[a, b], [c]]",
        "query 'q' occurs twice, first in line 1",
    ):
        assert expected in text, expected


def test_other_files_are_refused(tmp_path, corpus):
    (tmp_path / "qa.parquet").write_bytes(b"PAR1")
    with pytest.raises((InputError, StorageError), match="parquet"):
        import_autorag(tmp_path / "qa.parquet", corpus=corpus)
    with pytest.raises(StorageError, match="cannot read"):
        import_autorag(tmp_path / "none.parquet", corpus=corpus)
    for name, rows in {"qa.xlsx": "", "qa.json": "x", "qa.jsonl": []}.items():
        with pytest.raises(InputError, match=f"{name}: 1 fault"):
            import_autorag(write(tmp_path / name, rows), corpus=corpus)


@pytest.mark.parametrize("text", ["[" * 20_000, "[{[]: 1}]", "[array(['a'], dtype=object)]", "[a, b]", "[[1]]", "", 7])
def test_what_is_no_list_of_ids_is_a_fault(tmp_path, corpus, text):
    rows = [{"qid": "q", "query": "x", "retrieval_gt": text}]
    with pytest.raises(InputError, match="'retrieval_gt' must be document ids"):
        import_autorag(write(tmp_path / "qa.jsonl", rows), corpus=corpus)
