"""Which line of a catalog an item stands in."""

from __future__ import annotations

from ctxbench.evaluation.gate.item_lines import ItemLines


def test_lines_count_from_one_and_blank_lines_count(tmp_path):
    (tmp_path / "corpus.jsonl").write_text('{"_id":"tool:a"}\n\n{"_id":"rule:b"}\nno json\n{"_id":"tool:c"}\n')
    lines = ItemLines()
    path = tmp_path / "corpus.jsonl"
    assert [lines.find(tmp_path, name) for name in ("tool:a", "rule:b", "tool:c", "tool:none")] == [
        *((path, 1), (path, 3), (path, 5), (path, 0)),
    ]


def test_a_catalog_that_is_not_there_has_no_lines(tmp_path):
    assert ItemLines().find(tmp_path, "tool:a") == (tmp_path / "corpus.jsonl", 0)


def test_each_catalog_is_read_once(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"_id":"tool:a"}\n')
    lines = ItemLines()
    assert lines.find(tmp_path, "tool:a")[1] == 1
    path.unlink()
    assert lines.find(tmp_path, "tool:a")[1] == 1
