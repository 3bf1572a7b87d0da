"""Which files of Go import which, by Go's own tools; one that answers as they do stands in their place."""

from __future__ import annotations

import json

import go_by_compiler
import pytest

from ctxbench.io.errors import StorageError

FILES = {
    "go.mod": "module example.com/app\n\ngo 1.22\n",
    "main.go": 'package main\nimport ("fmt"; "example.com/app/util")',
    "util/a.go": "package util",
    "util/b.go": "package util",
    "util/a_test.go": 'package util_test\nimport "example.com/app/util"',
    "util/other_windows.go": 'package util\nimport "example.com/app"',
}


def test_files_of_a_package_are_what_is_imported(tmp_path, monkeypatch):
    folder = tmp_path / "made"
    for path, text in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
    packages = [
        {"Dir": str(folder), "ImportPath": "example.com/app", "GoFiles": ["main.go"]},
        {
            "Dir": str(folder / "util"),
            "ImportPath": "example.com/app/util",
            "GoFiles": ["a.go", "b.go"],
            "XTestGoFiles": ["a_test.go"],
            "IgnoredGoFiles": ["other_windows.go"],
        },
    ]
    (tmp_path / "list").write_text("\n".join(json.dumps(one, indent=2) for one in packages), "utf-8")
    imports = [("main.go", "fmt"), ("main.go", "example.com/app/util"), ("util/a_test.go", "example.com/app/util")]
    (tmp_path / "run").write_text("".join(f"{folder / file}\t{path}\n" for file, path in imports), "utf-8")
    (tmp_path / "go").write_text(f'#!/bin/sh\nexec /bin/cat "{tmp_path}/$1"\n', "utf-8")
    (tmp_path / "go").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    expected, got = go_by_compiler.compared(folder)
    assert expected == {(one, f"util/{other}.go") for one in ("main.go", "util/a_test.go") for other in "ab"}
    assert got == expected


def test_without_go_it_is_said(tmp_path, monkeypatch):
    (tmp_path / "go.mod").write_text("module x\n", "utf-8")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StorageError, match="Go cannot read"):
        go_by_compiler.compiled(tmp_path)


def test_what_is_no_module_is_said(tmp_path):
    with pytest.raises(StorageError, match=r"no go\.mod"):
        go_by_compiler.compiled(tmp_path)
