"""Limits on the shape of the package: file length, function length, parameter count."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.modules_passed import BEFORE
from tests.syntax_trees import tree_of

PACKAGE = Path(__file__).parents[1] / "ctxbench"
MODULES = sorted(PACKAGE.rglob("*.py"))
LONGEST_FILE, LONGEST_FUNCTION, MOST_PARAMETERS = 800, 60, 6


@pytest.fixture(scope="module")
def functions() -> list[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """All functions of the package, each with the path of its module."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [(path, node) for path in MODULES for node in ast.walk(tree_of(path)) if isinstance(node, kinds)]


def code_lines(function: ast.FunctionDef) -> int:
    """The lines of a function without its docstring and its parameters."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def test_no_file_is_long():
    assert [path.name for path in MODULES if len(path.read_text("utf-8").splitlines()) > LONGEST_FILE] == []


def test_no_function_is_long(functions):
    assert [f"{path.name}: {one.name}" for path, one in functions if code_lines(one) > LONGEST_FUNCTION] == []


def test_no_function_takes_many_parameters_but_commands_and_what_a_notebook_calls(functions):
    """In a notebook each option stands by its own name, as on the command line; all of them are keywords."""
    many = []
    for path, one in functions:
        arguments = one.args
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        n = len(named) - (bool(arguments.args) and arguments.args[0].arg in ("self", "cls"))
        if n > MOST_PARAMETERS and path.parent.name not in ("cli", "api"):
            many.append(f"{path.name}: {one.name}")
    assert many == []


def test_a_command_passes_at_most_half_of_the_modules_that_it_passed_before_they_were_merged():
    script = Path(__file__).parent / "modules_passed.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300, check=True)
    passed = {line.partition(":")[0]: int(line.split()[1]) for line in done.stdout.splitlines()}
    assert passed.keys() == BEFORE.keys()
    assert {name: n for name, n in passed.items() if 2 * n > BEFORE[name]} == {}
