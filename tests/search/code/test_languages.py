import random

import pytest

from ctxbench.search.code_grammars import LONGEST_LINE, is_minified, language_of


@pytest.mark.parametrize(
    ("path", "language"),
    [
        ("src/a.py", "python"),
        ("a.pyi", "python"),
        ("crates/x/src/lib.rs", "rust"),
        ("a.ts", "typescript"),
        ("a.d.ts", "typescript"),
        ("a.tsx", "typescript"),
        ("a.mjs", "javascript"),
        ("cmd/main.go", "go"),
        ("src/main/java/A.java", "java"),
        ("README.md", "markdown"),
        ("pyproject.toml", "toml"),
        ("go.mod", "gomod"),
        ("Makefile", "make"),
        ("build/Dockerfile", "docker"),
        ("A.PY", "python"),
        ("LICENSE", "text"),
    ],
)
def test_a_language_is_told_by_the_name(path, language):
    assert language_of(path) == language


@pytest.mark.parametrize("path", ["", "x", ".py", "folder.py/x", "a.unheard", "a."])
def test_an_unknown_name_has_none(path):
    assert language_of(path) is None


def test_a_line_is_too_long_beyond_the_longest():
    draw = random.Random(8)
    for _ in range(300):
        near = [0, 1, LONGEST_LINE // 2, LONGEST_LINE - 1, LONGEST_LINE, LONGEST_LINE + (draw.random() < 0.2)]
        lines = ["x" * draw.choice(near) for _ in range(draw.randrange(6))]
        assert is_minified("\n".join(lines)) == (max(map(len, lines), default=0) > LONGEST_LINE)
