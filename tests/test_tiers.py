"""The rule that puts a test into a tier, and the list of long tests that it reads."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.tiers import DURATIONS, ROOT, listed_durations, mean_durations, tiers_of


@pytest.mark.parametrize(
    ("name", "markers", "tiers"),
    [
        ("test_quick", (), {"first", "quick"}),
        ("test_quick[1]", ("rest",), {"rest"}),
        ("test_quick[1]", ("essential",), {"first"}),
        ("test_medium[1]", (), {"first"}),
        ("test_slow", (), {"rest"}),
        ("test_slow[a-1]", (), {"rest"}),
        ("test_slow[a-1]", ("essential",), {"first"}),
        ("TestAll::test_slow", (), {"first", "quick"}),
    ],
)
def test_markers_decide_and_then_durations(name: str, markers: tuple[str, ...], tiers: set[str]) -> None:
    durations = {"tests/test_it.py::test_medium": 0.2, "tests/test_it.py::test_slow": 0.25}
    test = SimpleNamespace(nodeid=f"tests/test_it.py::{name}", get_closest_marker=lambda marker: marker in markers)
    assert tiers_of(test, durations) == tiers


def test_every_long_test_exists_and_the_list_is_in_order() -> None:
    lines = DURATIONS.read_text("utf-8").splitlines()
    assert lines == sorted(lines)
    assert len(listed_durations()) == len(lines)
    for function in listed_durations():
        file, name, *_ = function.split("::")  # a class may inherit its tests
        assert re.search(rf"^(def|class) {name}\b", (ROOT / file).read_text("utf-8"), re.MULTILINE), function


def test_durations_are_means_by_function(tmp_path: Path) -> None:
    cases = [("test_tiers", "test_it[a]", 1), ("test_tiers", "test_it[b]", 3), ("io.test_files.TestAll", "test_it", 5)]
    lines = [f'<testcase classname="tests.{group}" name="{name}" time="{time}"/>' for group, name, time in cases]
    (tmp_path / "junit.xml").write_text(f"<testsuites>{''.join(lines)}</testsuites>")
    assert mean_durations(tmp_path / "junit.xml") == {
        "tests/test_tiers.py::test_it": 2.0,
        "tests/io/test_files.py::TestAll::test_it": 5.0,
    }
