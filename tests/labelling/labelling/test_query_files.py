"""The sidecar that says what was offered and called."""

from __future__ import annotations

import pytest

from ctxbench.datasets.layout import EXPOSURE, Exposure, read_exposures, write_exposures
from ctxbench.io.errors import InputError
from ctxbench.model.items import ItemKey

A, B, C = (ItemKey("tool", "s", name) for name in "abc")


def test_what_is_written_is_read_back_equal(tmp_path):
    rows = [
        Exposure(query="q1", offered=(A, B), called=(A,), full=True),
        Exposure(query="q2", offered=(A, B), called=(), signals=("unknown-tool", "asked-again"), wanted=(C,)),
        Exposure(query="q3", offered=(C,)),
        Exposure(query="q4"),
    ]
    write_exposures(rows, tmp_path)
    assert list(read_exposures(tmp_path).values()) == rows


def test_what_several_queries_were_offered_is_written_once(tmp_path):
    write_exposures([Exposure(query=f"q{i}", offered=(A, B)) for i in range(3)], tmp_path)
    text = (tmp_path / EXPOSURE).read_text()
    assert text.splitlines()[0] == '{"set":0,"items":["tool:s:a","tool:s:b"]}'
    assert text.count("tool:s:a") == 1
    assert len(text.splitlines()) == 4


def test_a_folder_without_the_file_has_none(tmp_path):
    assert read_exposures(tmp_path) == {}
    write_exposures([], tmp_path)
    assert read_exposures(tmp_path) == {}


def test_everything_wrong_is_listed_with_its_line(tmp_path):
    (tmp_path / EXPOSURE).write_text(
        '{"query": "q1", "offered": 3}\n{"query": "q2", "signals": ["bored"]}\n{"query": "q2"}\n{"offered": ["x"]}\n'
    )
    with pytest.raises(InputError) as caught:
        read_exposures(tmp_path)
    text = str(caught.value)
    for part in ("names set 3", "line 1", "unknown signal 'bored'", "'q2' occurs twice", "'query' is missing", "'x'"):
        assert part in text
