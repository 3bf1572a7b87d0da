"""The source files that others import."""

from __future__ import annotations

import pytest

from ctxbench.catalogs.mcp_config import imported_files


@pytest.mark.parametrize(
    ("name", "text", "files", "found"),
    [
        ("a.js", "import x from './lib/b.js'", ["lib/b.js", "b.js"], ["lib/b.js"]),
        ("a.mjs", "const b = require('../b');\nawait import(\"./c\")", ["c/index.js", "c.txt"], ["c/index.js"]),
        ("s/a.ts", 'export * from "../b.js";', ["b.ts", "b/index.ts"], ["b.ts"]),
        ("a.ts", "import 'b'; // a package", ["b.ts"], []),
        (
            "a.py",
            "import b.c as d, e",
            ["b/__init__.py", "b/c.py", "e.py", "f.py"],
            ["b/__init__.py", "b/c.py", "e.py"],
        ),
        ("p/a.py", "from .b import (\n    c,\n)", ["p/b.py", "b.py", "c.py"], ["p/b.py"]),
        ("p/q/a.py", "from .. import b as x, c", ["p/b.py", "p/c/__init__.py"], ["p/b.py", "p/c/__init__.py"]),
        ("p/a.py", "from top import b", ["top.py", "top/b.py"], ["top.py", "top/b.py"]),
        ("a.py", "from ..... import b", ["b.py"], []),
        ("a.rb", "require './b'", ["b.rb", "b.js"], []),
        ("a.js", "x" * 1_000_001 + " import './b.js'", ["b.js"], []),
    ],
)
def test_they_are_found_by_name(name, text, files, found, tmp_path):
    for one in (name, *files):
        (tmp_path / one).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / one).write_text("")
    (tmp_path / name).write_text(text)
    among = [tmp_path / one for one in files]
    assert imported_files([tmp_path / name], among, tmp_path) == {tmp_path / one for one in found}


def test_what_they_import_is_followed_and_circles_end(tmp_path):
    for name, text in (("a.py", "import b"), ("b.py", "import c"), ("c.py", "import a, b"), ("d.py", "import a")):
        (tmp_path / name).write_text(text)
    among = [tmp_path / f"{name}.py" for name in "bcd"]
    assert imported_files([tmp_path / "a.py"], among, tmp_path) == {tmp_path / "b.py", tmp_path / "c.py"}
    assert imported_files([tmp_path / "gone.py"], among, tmp_path) == set()
    assert imported_files([], among, tmp_path) == set()
