"""Reads all tests and fails where one could wait for ever, for a process or a thread."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
RUNS = {"subprocess.run", "subprocess.call", "subprocess.check_call", "subprocess.check_output"}
STARTS = {"subprocess.Popen"}
WAITS = {"join", "wait", "communicate"}
WHERE_THEY_START = {"children.py", "fake_stdio.py", "scale.py"}  # the others are run as processes themselves


def endless(source: str, *, starts: bool = False) -> Iterator[str]:
    """What may wait for ever in a module, as `line: call`; `starts`: it may start processes by itself."""
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        name = ast.unparse(call.func)
        given = {keyword.arg for keyword in call.keywords}
        limited = bool(call.args) if call.func.attr != "communicate" else False
        wrong = (name in RUNS and not given & {"timeout", None}) or (name in STARTS and not starts)
        if wrong or (call.func.attr in WAITS and not limited and "timeout" not in given):
            yield f"{call.lineno}: {name}"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("subprocess.run([], check=True)", ["1: subprocess.run"]),
        ("subprocess.run([], timeout=1); subprocess.run([], **options)", []),
        ("subprocess.Popen([])", ["1: subprocess.Popen"]),
        ("one.wait()\none.join()\none.communicate('x')", ["1: one.wait", "2: one.join", "3: one.communicate"]),
        ("one.wait(3); one.join(timeout=1); ' '.join(words); one.communicate(timeout=2)", []),
    ],
)
def test_what_has_no_end_is_found(source, found):
    assert list(endless(source)) == found


def test_no_test_waits_for_ever():
    found = [
        f"{path.relative_to(TESTS)}:{one}"
        for path in sorted(TESTS.rglob("*.py"))
        for one in endless(path.read_text(encoding="utf-8"), starts=path.name in WHERE_THEY_START)
    ]
    assert found == [], "give it a timeout, or start the process by tests.children.child"
