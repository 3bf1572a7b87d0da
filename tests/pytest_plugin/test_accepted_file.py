"""Files of accepted selections."""

from __future__ import annotations

import pytest

from ctxbench.core.errors import InputError
from ctxbench.pytest_plugin.accepted_file import AcceptedSelection, Key, read_accepted, write_accepted


def accepted(test, text, **offered):
    return AcceptedSelection(key=Key(test, "one on items", text), decided_by="0f", offered=offered)


def test_a_file_reads_back_and_does_not_depend_on_the_order_of_tests(tmp_path):
    texts = ["no: yes", "# a", "line\nline", "'", "ä\u2028", "", "null"]
    every = [accepted("test_a", text, x=0.1234567, y=None) for text in texts] + [accepted("test_[b: 1]", "x")]
    write_accepted(tmp_path / "a.yaml", every)
    write_accepted(tmp_path / "b.yaml", reversed(every))
    assert (tmp_path / "a.yaml").read_bytes() == (tmp_path / "b.yaml").read_bytes()
    found = read_accepted(tmp_path / "a.yaml")
    assert {key.text for key in found} == {*texts, "x"}
    assert found[every[0].key].offered == {"x": 0.123457, "y": None}  # six decimals
    write_accepted(tmp_path / "b.yaml", found.values())
    assert (tmp_path / "a.yaml").read_bytes() == (tmp_path / "b.yaml").read_bytes()
    write_accepted(tmp_path / "a.yaml", [])
    assert not (tmp_path / "a.yaml").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty; delete it and run pytest --ctxbench-accept .*line 1"),
        ("[1]", "this is no file of accepted selections"),
        ("format: 0\naccepted: []\n", r"format is 0, this version of ctxbench reads 1; .*line 1"),
        ("accepted: []\n", "format is None"),
        ("format: 2\naccepted: []\n", "format is 2, this version of ctxbench reads 1; update ctxbench"),
        ("format: 1\naccepted:\n- {test: a}\n", "an accepted selection is a mapping of test, of, text, .*line 3"),
        ("format: 1\naccepted:\n- {test: a, of: b, text: 1, decided_by: d, offered: {}}\n", "text must be a text"),
        ("format: 1\naccepted:\n- {test: a, of: b, text: c, decided_by: d, offered: {x: y}}\n", "offered must map"),
        (
            "format: 1\naccepted:\n" + "- {test: a, of: b, text: c, decided_by: d, offered: {}}\n" * 2,
            "test a has two selections for 'c'; keep one .*line 4",
        ),
        ("format: 1\n<<<<<<< a\naccepted: []\n=======\n>>>>>>> b\n", "a merge stopped here"),
        ("format: [", "malformed YAML"),
    ],
)
def test_a_damaged_file_says_what_is_wrong_and_where(tmp_path, text, said):
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(InputError, match=said):
        read_accepted(tmp_path / "a.yaml")
