"""What paths say: conventions of names, by examples of each language."""

from __future__ import annotations

import numpy as np
import pytest

from ctxbench.search.code_facts import is_test_path
from ctxbench.search.code_index import ends_of, entry_score, fits_pattern, named_paths, split_name, subject_of

PATHS = ("src/click/core.py", "src/click/__init__.py", "tests/test_core.py", ".github/lint.yml", "a/x.py", "b/x.py")


@pytest.mark.parametrize(
    ("path", "subject"),
    [
        ("tests/test_core.py", "core"),
        ("pkg/core_test.go", "core"),
        ("src/core.test.ts", "core"),
        ("src/core.spec.tsx", "core"),
        ("src/test/java/a/CoreTest.java", "core"),
        ("spec/core_spec.rb", "core"),
        ("tests/conftest.py", "conftest"),
        ("tests/core.rs", "core"),
    ],
)
def test_a_test_is_told_by_its_name_or_folder(path, subject):
    assert is_test_path(path)
    assert subject_of(path) == subject


@pytest.mark.parametrize("path", ["src/core.py", "src/latest.py", "contest.py", "src/attest/core.go", "Core.java"])
def test_what_only_looks_like_a_test_is_none(path):
    assert not is_test_path(path)


def test_an_entry_point_counts_by_its_kind_and_the_folders_above():
    wanted = {
        "src/main.rs": 1.0,
        "main.go": 1.0,
        "cmd/tool/main.go": 0.5,
        "src/lib.rs": 0.5,
        "src/click/__init__.py": 1 / 6,
    }
    wanted |= {"index.html": 0.0, "tests/main.py": 0.0, "examples/a/main.go": 0.0, "src/core.py": 0.0}
    assert {path: entry_score(path) for path in wanted} == wanted


def test_a_text_names_a_file_by_enough_of_its_end():
    ends, seen = ends_of(PATHS), np.ones(len(PATHS), dtype=bool)
    asked = {
        "see src/click/core.py.": [0],
        "in click/core:": [0],
        "`core.py` and TEST_CORE.PY": [0, 2],
        'File "/home/me/p/src/click/core.py", line 3': [0],
        r"src\click\core.py": [0],
        ".github/lint.yml": [3],
        "./src/click/core.py": [0],
        "x.py": [4, 5],
        "b/x.py": [5],
        "`click.core`, and click.Context": [0],
        "click::core::Context::new is wrong": [0],
        "in src.click.core.Context.invoke()": [0],
        "requests.click.core": [],
        "src/click/core.py::Context and x.py::y": [0, 4, 5],
        "the core of click": [],
        "core": [],
        "3.10": [],
        "": [],
    }
    assert {text: named_paths(text, ends, seen) for text in asked} == asked


def test_only_paths_that_are_seen_are_named_and_none_by_what_names_many():
    ends = ends_of([f"{n}/mod.rs" for n in range(4)])
    assert named_paths("mod.rs", ends, np.ones(4, dtype=bool)) == []
    assert named_paths("mod.rs", ends, np.array([True, False, True, False])) == [0, 2]


def test_a_pattern_fits_from_any_folder_on_or_anywhere_without_signs():
    assert all(
        fits_pattern("src/auth/Mod.rs", one) for one in ("auth", "*auth*", "auth/*.rs", "src/**", "mod.rs", "MOD")
    )
    assert not any(fits_pattern("src/auth/mod.rs", one) for one in ("", "  ", "*.py", "uth/*.rs", "login"))


def test_a_name_is_split_at_its_last_dot():
    assert split_name("a/b.c.py") == ("a", "b.c", "py")
    assert split_name(".gitignore") == ("", ".gitignore", "")
    assert split_name("a/Makefile") == ("a", "Makefile", "")
