"""What is kept of code facts, and what has none."""

import logging
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from ctxbench.search import code_facts as facts_module, code_grammars
from ctxbench.search.code_facts import all_code_facts, code_facts
from ctxbench.search.code_grammars import CodeFacts

TEXT = "import a.b\nfrom . import c as d\nclass A(B):\n    def f(self, é): return g('\ud800')\n"


@pytest.fixture
def counted(monkeypatch):
    """The texts whose syntax was looked into."""
    seen = []
    real = facts_module.extracted
    monkeypatch.setattr(facts_module, "extracted", lambda text, *more: seen.append(text) or real(text, *more))
    return seen


def test_facts_of_a_text_are_computed_once_a_process(counted):
    one, two = all_code_facts({"a.py": TEXT, "b/c.py": TEXT}).values()
    assert code_facts("d.py", TEXT) == one == two
    assert len(counted) == 1


def test_facts_are_read_from_disk_as_they_were(counted, monkeypatch):
    before = code_facts("a.py", TEXT)
    monkeypatch.setattr(facts_module, "_in_memory", {})
    assert code_facts("a.py", TEXT) == before
    assert len(counted) == 1


def test_another_grammar_version_is_other_facts(counted, monkeypatch):
    code_facts("a.py", TEXT)
    monkeypatch.setattr(facts_module, "grammar_version", lambda _name: "next")
    code_facts("a.py", TEXT)
    assert len(counted) == 2


def test_without_a_place_to_keep_them_facts_are_the_same(cache):
    before = code_facts("a.py", TEXT)
    facts_module._in_memory.clear()
    (cache / "code-1.sqlite").unlink()
    cache.rmdir()
    cache.write_text("a file, where the folder should be")
    assert code_facts("a.py", TEXT) == before


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(facts_module, "_MOST", 2)
    assert len(all_code_facts({f"{n}.py": f"x = {n}" for n in range(5)})) == 5
    assert len(facts_module._in_memory) == 2


@pytest.mark.parametrize(
    ("path", "text", "facts"),
    [
        ("a.md", "\n# Title #\n", CodeFacts("markdown", doc="Title", left_out="no grammar for its language")),
        ("x", "", CodeFacts(None, left_out="no grammar for its language")),
        ("a.py", "# Words\n" + "x=1\n" * 300_000, CodeFacts("python", "Words", left_out="over 1,000,000 characters")),
        ("a.js", "x=1;" * 1_500, CodeFacts("javascript", "x=1", left_out="a line of over 5,000 characters")),
    ],
)
def test_what_has_no_facts_says_why(path, text, facts):
    assert code_facts(path, text) == replace(facts, doc=text.strip("\n#; ")[:300] if path == "a.js" else facts.doc)


def test_an_empty_file_has_empty_facts():
    assert code_facts("a.py", "") == CodeFacts("python", parsed=True)
    assert all_code_facts({}) == {}


def test_a_grammar_that_is_not_installed_is_named_once(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "tree_sitter_go", None)
    code_grammars.grammar.cache_clear()
    try:
        with caplog.at_level(logging.WARNING):
            found = all_code_facts({"a.go": "// Words.\npackage a\n", "b.go": "package b\n"})
    finally:
        code_grammars.grammar.cache_clear()
    assert found["a.go"] == CodeFacts("go", "Words.", left_out="its grammar is not installed")
    (said,) = caplog.messages
    assert said.startswith("tree-sitter-go is not installed")
    assert "pip install" in said
    assert "code" in said


@pytest.mark.parametrize("text", ["(\n" * 200_000, "def f(:\n" * 50_000, "class A:\n " * 50_000, "'''" * 100_000])
def test_broken_text_takes_no_longer_than_other(text):
    start = time.monotonic()
    code_facts("a.py", text)
    assert time.monotonic() - start < 20


NESTED = {
    "a.py": lambda n: "".join(f"{' ' * level}class C:\n" for level in range(n)) + " " * n + "pass\n",
    "a.rs": lambda n: "mod a {\n" * n + "use super::b::c;\n" + "}\n" * n,
    "a.ts": lambda n: "namespace a {\n" * n + "}\n" * n,
    "a.js": lambda n: "function f() {\n" * n + "}\n" * n,
    "a.go": lambda n: "package a\nfunc f() {\n" + "x := func() {\n" * n + "}\n" * n + "}\n",
    "A.java": lambda n: "class A {\n" * n + "}\n" * n,
}


@pytest.mark.parametrize("path", NESTED)
def test_a_file_that_nests_deep_is_plain_text_with_a_note(path, caplog):
    began = time.process_time()
    facts = code_facts(path, NESTED[path](1_000))
    assert time.process_time() - began < 2
    assert not facts.definitions
    assert "nests over 500 deep" in facts.left_out
    assert path in caplog.text


@pytest.mark.parametrize("path", NESTED)
def test_a_file_that_nests_400_deep_has_its_definitions(path, caplog):
    facts = code_facts(path, NESTED[path](400))
    assert facts.definitions
    assert not caplog.text


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", "not\n=\n=" * 5_000),  # parsed in a time that grows with the square of its length
        ("a.rs", ">\n>\n!" * 5_000),
        ("a.ts", "/*&enum\n" * 10_000),
        ("a.js", "const a = 1;\n" * 2_000),  # and so grows what the query has not finished
        ("a.rs", "".join(f"mod {'a' * 1_000}{{\n" for _ in range(400)) + "mod b;\n" * 20_000),  # names of 400 kB each
    ],
)
def test_a_text_that_takes_too_long_is_plain_text_with_a_note(path, text, monkeypatch, caplog):
    for name, most in {"_MOST_STEPS": 2_000, "_MOST_READS": 500, "_MOST_MATCHES": 1_000}.items():
        monkeypatch.setattr(code_grammars, name, most)  # a tenth
    assert not code_facts(path, text).definitions
    assert f"{path} is read as plain text" in caplog.text


def test_nothing_is_loaded_before_it_is_used():
    code = "import sys, ctxbench.search.code_facts; print(*({'tree_sitter', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == []
