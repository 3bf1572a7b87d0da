from __future__ import annotations

import time

import pytest

from ctxbench.pipelines.code_requests import MOST, is_file, is_path, named_code


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        ("please make it faster", ()),
        (
            "UserService.find_by_email, AppError::NotFound and find_by_email",
            ("UserService.find_by_email", "AppError::NotFound", "find_by_email"),
        ),
        (
            "see src/auth/token.rs and ./run.sh, .gitignore or Makefile",
            ("src/auth/token.rs", "./run.sh", ".gitignore", "Makefile"),
        ),
        ('  File "app/main.py", line 3, in run\nKeyError: 3', ("app/main.py", "run", "KeyError")),
        ('File "<stdin>", line 3, in <module>', ()),
        ("`--color` and `a b` and calc() but not row(s)", ("--color", "a b", "calc")),
        ("prüfe_betrag in Überweisung.java", ("prüfe_betrag", "Überweisung.java")),
        ("tests/test_a.py::test_b[1] fails", ("tests/test_a.py::test_b",)),
        ("on GitHub in JavaScript with the APIs, e.g. on Monday", ()),
        ("see https://example.org/a/b_c.py there", ()),
        ("the render function, class settings, function that", ("render", "settings")),
        ("a Stack on top. Then the New York office", ("Stack",)),
        ("and/or, undo/redo, 3.5, v1.2", ()),
        ("fix(core): keep Vec<u8>", ("Vec<u8>",)),
    ],
)
def test_names_of_code_are_found_in_the_order_of_the_text(text, names):
    assert named_code(text) == names


def test_each_name_stands_once_and_a_log_does_not_flood():
    assert named_code("a_b a_b") == ("a_b",)
    assert len(named_code(" ".join(f"name_{n}" for n in range(MOST + 9)))) == MOST


@pytest.mark.parametrize(
    "text", ["a/" * 20_000, "_" * 40_000, "a." * 20_000, "x<" * 20_000, "A" * 40_000, "`" * 40_000]
)
def test_hostile_texts_are_read_in_time(text):
    began = time.process_time()
    named_code(text)
    assert time.process_time() - began < 10


def test_files_and_paths_are_told_from_routes_and_names():
    assert [one for one in ("a.py", "LICENSE", ".gitignore", "src/a", "/ping", "a.b", "x / y") if is_path(one)] == [
        "a.py",
        "LICENSE",
        ".gitignore",
        "src/a",
    ]
    assert [one for one in ("src/a.py", "src/a", "docs/LICENSE") if is_file(one)] == ["src/a.py", "docs/LICENSE"]
