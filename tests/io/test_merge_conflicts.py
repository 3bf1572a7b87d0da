"""What git leaves where it could not merge is told as that, a fault each place."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctxbench.io.documents import iter_jsonl, load_yaml, parse_json
from ctxbench.io.errors import Fault, InputError

CONFLICT = "<<<<<<< HEAD\n{}\n||||||| 1234567\n{}\n=======\n{}\n>>>>>>> other\n"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "a.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_merge_conflict_is_one_fault(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('{"a": 1}\n' + CONFLICT + '{"b": "======="}\n' + CONFLICT + "=======\n>>>>>>> other\n")
    faults: list[Fault] = []
    assert [number for number, _ in iter_jsonl(tmp_path / "a", faults)] == [1, 3, 5, 7, 9, 11, 13, 15]
    what = "a merge conflict: keep what is right of both sides, and delete the lines <<<<<<<, ======= and >>>>>>>"
    assert faults == [Fault(what, tmp_path / "a", line) for line in (2, 10, 17)]
    head = "a: 1\n<<<<<<< HEAD\nb: 2\n=======\nb: 3\n>>>>>>> other\n"
    for text, lines in ((head + head, [2, 8]), ("a: 1\n=======\nb: 3\n>>>>>>> other\n", [2])):
        with pytest.raises(InputError) as caught:
            load_yaml(written(tmp_path, text))
        assert [(fault.message, fault.line) for fault in caught.value.faults] == [(what, line) for line in lines]
    with pytest.raises(InputError) as caught:
        parse_json("{\n" + CONFLICT + "}")
    assert [(fault.message, fault.line, fault.column) for fault in caught.value.faults] == [(what, 2, 0)]


def test_what_only_looks_like_a_merge_conflict_is_none(tmp_path: Path) -> None:
    text = "a: |\n  <<<<<<< HEAD\n  =======\n  >>>>>>> other\n"
    assert load_yaml(written(tmp_path, text))[0] == {"a": "<<<<<<< HEAD\n=======\n>>>>>>> other\n"}
    (tmp_path / "a").write_text("========\n<<<<<<<HEAD\n")
    faults: list[Fault] = []
    assert list(iter_jsonl(tmp_path / "a", faults)) == []
    assert [fault.message for fault in faults] == ["malformed JSON: Expecting value"] * 2
