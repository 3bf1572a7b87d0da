"""Which definitions hold changed lines, on one small file."""

from __future__ import annotations

import pytest

from ctxbench.catalogs.git_trees import changed_definitions
from ctxbench.search.code_grammars import CodeDefinition

OLD = """\
import a

class C:
    x = 1

    def m(self):
        return 1

    def n(self):
        return 2

def f():
    return 3
"""


def definition(name, first, last):
    return CodeDefinition(name, "function", first, last, first, last, name)  # places in lines serve as well as any


DEFINITIONS = [definition("C", 3, 10), definition("C.m", 6, 7), definition("C.n", 9, 10), definition("f", 12, 13)]


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("return 1", "return 9", ("C.m",)),
        ("    x = 1\n", "    x = 2\n", ("C",)),
        ("import a", "import b", ("",)),
        ("        return 2\n", "", ("C.n",)),
        ("        return 1\n", "        y = 1\n        return 1\n", ("C.m",)),
        ("    x = 1\n", "    x = 1\n    y = 1\n", ("C",)),
        ("        return 2\n", "        return 2\n        # more\n", ("C.n",)),
        ("        return 2\n", "        return 2\n\n    def o(self):\n        return 4\n", ("C",)),
        ("return 3\n", "return 3\n\ndef g():\n    return 5\n", ("",)),
        ("import a\n", "import a\nimport b\n", ("",)),
        ("        return 1\n\n", "        return 1\n", ("C",)),
        ("return 3\n", "return 4\n\ndef g():\n    return 5\n", ("f",)),
        ("x", "x", ()),
    ],
)
def test_each_change(old, new, names):
    assert old in OLD
    assert changed_definitions(OLD, OLD.replace(old, new, 1), DEFINITIONS) == names


def test_several_changes_name_each_definition_once_and_by_place():
    new = OLD.replace("import a", "import b").replace("return 3", "return 4").replace("x = 1", "x = 2")
    assert changed_definitions(OLD, new, DEFINITIONS) == ("", "C", "f")


def test_without_definitions_all_is_of_the_file():
    assert changed_definitions("a\nb", "a\nc", []) == ("",)
    assert changed_definitions("", "a", []) == ("",)
