"""Which files of a folder are a dataset's."""

from __future__ import annotations

from pathlib import Path

from ctxbench.datasets.layout import files_hash
from tests.datasets.dataset_cases import TINY, edit


def test_the_hash_is_of_the_files_that_are_read_and_of_no_others(folder: Path) -> None:
    (folder / "qrels" / "why.md").write_text("because", "utf-8")
    assert files_hash(folder) == files_hash(TINY)
    (folder / "qrels" / "other.tsv").touch()
    several = files_hash(folder)
    edit(folder / "corpus.jsonl", "Read the description first", "Read it first")
    assert len({files_hash(TINY), several, files_hash(folder)}) == 3
