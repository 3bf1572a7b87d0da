"""Labels that quote what a query needs of an item."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ctxbench.datasets.files import read_dataset, write_dataset
from ctxbench.io.errors import InputError

TINY = Path(__file__).parents[1] / "fixtures/tiny"


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(TINY, tmp_path / "tiny")
    return tmp_path / "tiny"


def quoting(folder, quote):
    """Let the label of a rule for q09 quote something."""
    path = next(path for path in (folder / "qrels").glob("*.tsv") if "q09\trule" in path.read_text())
    lines = path.read_text().splitlines()
    lines = [f"{line}\t{quote}" if line.startswith("q09\trule:no%20secrets") else line for line in lines]
    path.write_text("\n".join([f"{lines[0]}\tquote", *lines[1:]]) + "\n")
    return path, next(n for n, line in enumerate(lines, start=1) if line.startswith("q09\trule:no%20secrets"))


def test_a_quote_is_read_written_and_part_of_the_hash(folder, tmp_path):
    plain = read_dataset(folder)
    quoting(folder, "token or password")
    dataset = read_dataset(folder)
    assert [label.quote for label in dataset.labels if label.quote] == ["token or password"]
    assert dataset.labels_hash != plain.labels_hash
    assert replace(dataset, labels=plain.labels).labels_hash == plain.labels_hash
    write_dataset(dataset, tmp_path / "again")
    assert read_dataset(tmp_path / "again").labels == dataset.labels
    headers = {path.read_text().splitlines()[0] for path in (tmp_path / "again/qrels").glob("*.tsv")}
    assert headers == {"query-id\tcorpus-id\tscore\tvia\talternatives\tquote"}


def test_a_quote_that_the_item_does_not_hold_names_file_and_line(folder):
    path, line = quoting(folder, "tokens and passwords")
    with pytest.raises(InputError) as error:
        read_dataset(folder)
    (fault,) = error.value.faults
    assert (fault.path, fault.line) == (path, line)
    assert "quotes 'tokens and passwords', which is not in the item's prompt text" in fault.message
