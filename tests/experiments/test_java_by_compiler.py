"""Which files of Java import which, by the compiler itself; skipped where there is none."""

from __future__ import annotations

import shutil

import java_by_compiler
import pytest
from edges_compared import tell

from ctxbench.io.errors import StorageError, UserError

needs_javac = pytest.mark.skipif(shutil.which("javac") is None, reason="javac is asked")
FILES = {
    "src/main/java/x/A.java": "package x; import x.y.B; import java.util.List; public class A { static int f; }",
    "src/main/java/x/y/B.java": "package x.y; import static x.A.f; import gone.Gone; public class B { B() { l(); } }",
    "src/main/java/x/y/C.java": "package x.y; import x.A.*; import lib.*; public class C { public static class In {} }",
    "src/test/java/x/ATest.java": "package x; import x.y.*; import x.y.C.In; import static x.y.B.*; class ATest {}",
}


@needs_javac
def test_the_compiler_finds_the_same(tmp_path):
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, "utf-8")
    expected, got = java_by_compiler.compared(tmp_path)
    a, b, c = (f"src/main/java/x/{name}.java" for name in ("A", "y/B", "y/C"))
    assert expected == {(a, b), (b, a), (c, a), ("src/test/java/x/ATest.java", b), ("src/test/java/x/ATest.java", c)}
    assert got == expected


def test_without_a_compiler_it_is_said(tmp_path, monkeypatch):
    (tmp_path / "A.java").write_text("class A {}", "utf-8")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StorageError, match="javac cannot read"):
        java_by_compiler.compiled(tmp_path)


@pytest.mark.parametrize(
    ("given", "message"),
    [([], "name the folder"), (["gone"], "there is no folder gone"), (["."], "has no file of Java")],
)
def test_what_is_no_folder_of_java_is_said(given, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["java_by_compiler.py", *given])
    with pytest.raises(UserError, match=message):
        tell(java_by_compiler.compared)
