"""The mutants of `tests/mutants` can be applied, wherever the functions that they change stand now."""

from __future__ import annotations

import ast
from textwrap import indent

import pytest

from tests.mutants.mutate import MUTANTS, Mutant, NotFoundError, find, functions_of, read_mutants

ALL = read_mutants()
MODULE = '''
def total(rows, *, twice=False):
    """The sum."""
    if rows and len(rows) > 2:
        return sum(rows[1:]) * 2 if twice else rows[0]
    return f"{1 + 2}"
'''


def test_there_are_thirty_with_ids_of_their_own():
    assert len({mutant.id for mutant in ALL}) == len(ALL) == 30


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.id)
def test_each_can_be_applied(mutant):
    try:
        site = find(mutant)
    except NotFoundError as error:
        room = mutant.id.partition("-")[0]
        pytest.fail(f"{error}; draw another in its place: python -m tests.mutants.draw {room} -> {MUTANTS.name}")
    before, after = (ast.dump(ast.parse(site.source(mutated=mutated))) for mutated in (False, True))
    assert before != after


@pytest.fixture
def drawn(tmp_path):
    """All mutants of the module, by operator, and what becomes of the line."""
    path = tmp_path / "ctxbench" / "old.py"
    path.parent.mkdir()
    path.write_text(MODULE)
    found = [site for function in functions_of(path) for site in function.sites()]
    return {
        site.operator: (Mutant("a", "ctxbench/old.py", "total", site.operator, site.index, site.shape), site.lines()[1])
        for site in found
    }


def test_each_operator_changes_one_node(drawn):
    assert {operator: line for operator, (_, line) in drawn.items()} == {
        "default": "def total(rows, *, twice=True):",
        "condition": "return sum(rows[1:]) * 2 if (not twice) else rows[0]",
        "logic": "if (rows or len(rows) > 2):",
        "comparison": "if rows and (len(rows) >= 2):",
        "constant": "return sum(rows[1:]) * 2 if twice else rows[1]",
        "result": "return None",
        "arithmetic": "return (sum(rows[1:]) / 2) if twice else rows[0]",
        "slice": "return sum(rows[1 + 1:]) * 2 if twice else rows[0]",
    }


@pytest.mark.parametrize(
    "text",
    [
        MODULE.replace("rows", "values").replace("def total", "def sum_of"),
        "class Sums:\n" + indent(MODULE.replace("(rows, *,", "(self, rows, *,"), "    "),
        MODULE.replace("    if rows", "    rows = list(rows)\n    if rows"),
    ],
    ids=["renamed", "made-a-method", "edited"],
)
def test_one_is_found_again_where_names_and_the_file_changed(drawn, tmp_path, text):
    (tmp_path / "ctxbench" / "old.py").unlink()
    (tmp_path / "ctxbench" / "new.py").write_text(text)
    for operator in ("condition", "logic", "comparison", "constant", "arithmetic", "slice"):
        mutant, line = drawn[operator]
        assert find(mutant, tmp_path).lines()[1].replace("values", "rows") == line


def test_one_whose_function_is_gone_is_said(drawn, tmp_path):
    (tmp_path / "ctxbench" / "old.py").write_text("def mean(rows):\n    return sum(rows) / len(rows)\n")
    with pytest.raises(NotFoundError, match="total"):
        find(drawn["slice"][0], tmp_path)
