"""Which file is suggested where none is."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctxbench.io.errors import StorageError
from ctxbench.io.files import read_text, suggest_file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("agent.yaml", "gate.yaml", "a.yaml", "experiment.yaml", "agent.py", "notes.txt"):
        (tmp_path / name).write_text("", "utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("agnt.yaml", "agent.yaml"),
        ("gte.yaml", "gate.yaml"),
        ("experment.yaml", "experiment.yaml"),
        ("gate.yml", "gate.yaml"),
        ("note.txt", "notes.txt"),
        ("note.yaml", None),
        ("b.yaml", None),
        ("none/agnt.yaml", None),
    ],
)
def test_a_file_with_nearly_the_same_name_is_suggested(folder: Path, given: str, meant: str | None) -> None:
    assert suggest_file(folder / given) == (f"; did you mean {str(folder / meant)!r}?" if meant else "")


def test_what_is_there_is_not_its_own_suggestion(folder: Path) -> None:
    assert suggest_file(folder / "notes.txt") == ""


def test_who_reads_a_file_that_is_missing_is_told(folder: Path) -> None:
    with pytest.raises(StorageError, match=r"agnt\.yaml: No such file .*; did you mean '.*agent\.yaml'\?$"):
        read_text(folder / "agnt.yaml")
