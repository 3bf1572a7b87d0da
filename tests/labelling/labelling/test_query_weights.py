from __future__ import annotations

import pytest

from ctxbench.datasets.layout import WEIGHTS, read_weights, write_weights
from ctxbench.io.errors import InputError


def test_weights_are_read_back(tmp_path):
    assert read_weights(tmp_path) == {}
    write_weights(tmp_path, {"q2": 4.5, "q1": 1.0}, {"q1": 0, "q2": 3, "q3": 1})
    assert (tmp_path / WEIGHTS).read_text("utf-8").splitlines()[0] == '{"query":"q1","stratum":0,"weight":1.0}'
    assert read_weights(tmp_path) == {"q1": 1.0, "q2": 4.5}


def test_a_damaged_file_names_its_lines(tmp_path):
    write_weights(tmp_path, {"q1": 1.0}, {"q1": 0})
    with (tmp_path / WEIGHTS).open("a", encoding="utf-8") as stream:
        stream.write('{"query": "q2", "weight": 0}\n{"query": 5, "weight": 2}\n')
    with pytest.raises(InputError) as caught:
        read_weights(tmp_path)
    assert [fault.line for fault in caught.value.faults] == [2, 3]
