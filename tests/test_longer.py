"""The list of test files that `make test-fast` leaves out."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent


def test_every_longer_file_is_there_and_the_list_is_in_order():
    named = (TESTS / "longer.txt").read_text("utf-8").splitlines()
    assert named == sorted(set(named))
    assert [name for name in named if not (TESTS.parent / name).is_file()] == []
