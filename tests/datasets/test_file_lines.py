"""Which line of a dataset an item, a query or its labels stand in."""

from __future__ import annotations

from ctxbench.datasets.layout import DatasetLines


def test_lines_count_from_one_and_blank_lines_count(tmp_path):
    (tmp_path / "corpus.jsonl").write_text('{"_id":"tool:a"}\n\n{"_id":"rule:b"}\nno json\n{"_id":"tool:c"}\n')
    lines = DatasetLines()
    path = tmp_path / "corpus.jsonl"
    assert [lines.item(tmp_path, name) for name in ("tool:a", "rule:b", "tool:c", "tool:none")] == [
        *((path, 1), (path, 3), (path, 5), (path, 0)),
    ]


def test_a_catalog_that_is_not_there_has_no_lines(tmp_path):
    assert DatasetLines().item(tmp_path, "tool:a") == (tmp_path / "corpus.jsonl", 0)


def test_each_catalog_is_read_once(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"_id":"tool:a"}\n')
    lines = DatasetLines()
    assert lines.item(tmp_path, "tool:a")[1] == 1
    path.unlink()
    assert lines.item(tmp_path, "tool:a")[1] == 1


def test_queries_and_their_first_labels_have_lines_too(tmp_path):
    (tmp_path / "queries.jsonl").write_text('{"_id":"q1"}\n{"_id":"q2"}\n')
    (tmp_path / "qrels").mkdir()
    for split, rows in (("test", ["q2\trule:a\t2", "q3\trule:a\t2"]), ("tuning", ["q2\trule:b\t1", "q1\trule:b\t1"])):
        (tmp_path / f"qrels/{split}.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *rows, ""]))
    lines, qrels = DatasetLines(), tmp_path / "qrels"
    assert lines.query(tmp_path, "q2") == (tmp_path / "queries.jsonl", 2)
    assert lines.labels(tmp_path, "q2") == (qrels / "test.tsv", 2)  # in the first file that has it
    assert lines.labels(tmp_path, "q2", "rule:b") == (qrels / "tuning.tsv", 2)
    assert lines.labels(tmp_path, "q3", "rule:c") == (qrels / "test.tsv", 3)  # its first, where it has none of the item
    assert lines.labels(tmp_path, "q1") == (qrels / "tuning.tsv", 3)
    assert lines.labels(tmp_path, "q9") == (tmp_path / "queries.jsonl", 0)


def test_labels_that_cannot_be_read_have_no_lines(tmp_path):
    (tmp_path / "qrels/test.tsv").mkdir(parents=True)
    assert DatasetLines().labels(tmp_path, "q1") == (tmp_path / "queries.jsonl", 0)
