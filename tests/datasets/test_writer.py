"""A dataset is written as a folder, reads back equal, and takes no other one's place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.files import create_dataset, read_dataset, validate, write_dataset
from ctxbench.datasets.queries import Label
from ctxbench.io.errors import InputError, ParameterError
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Request
from tests.datasets.dataset_cases import TINY, edit


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_written_again_it_is_the_same_bytes(tmp_path: Path) -> None:
    write_dataset(read_dataset(TINY), tmp_path / "copy")
    assert files(tmp_path / "copy") == files(TINY)
    write_dataset(read_dataset(TINY), tmp_path / "copy")  # in place of the first
    assert files(tmp_path / "copy") == files(TINY)
    assert [p.name for p in tmp_path.iterdir()] == ["copy"]


def test_read_back_it_is_equal_with_awkward_texts(tmp_path: Path) -> None:
    dataset = read_dataset(TINY)
    odd = Item(
        type="tool", server="a:b/c", name="x y\t%\u2028", description="\ud800 \U0001f600", schema={"b": 1, "a": [0.1]}
    )
    queries = list(dataset.queries)
    queries[0] = replace(
        queries[0], request=Request(id="q01", text="a\u2028b\n\t\x85\ufeff", time="2026-03-23T09:30:00Z")
    )
    queries[1] = replace(
        queries[1], request=replace(queries[1].request, available=(odd.key,), tool_results=(("t", ""),))
    )
    named = {"explicit": (odd.key,), "recent": (odd.key,), "uses": ((odd.key, 0), (dataset.catalog[0].key, 7))}
    queries[2] = replace(queries[2], request=replace(queries[2].request, session=(), **named))
    labels = [label for label in dataset.labels if label.query != "q02"]
    written = replace(
        dataset,
        catalog=Catalog([*dataset.catalog, odd]),
        queries=tuple(queries),
        labels=(*labels, *(Label("q02", key, 2, alternatives="x y ü") for key in (odd.key, dataset.catalog[3].key))),
        about={**dataset.about, "notes": ["1e-5", "yes: no", "two\nlines"], "source": {"sha256": "010"}},
    )
    write_dataset(written, tmp_path / "odd")
    read = read_dataset(tmp_path / "odd")
    assert read.queries == written.queries
    assert read.labels == written.labels
    assert tuple(read.catalog) == tuple(written.catalog)
    assert (read.card, read.hash) == (written.card, written.hash)


def test_a_folder_of_something_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("x")
    (tmp_path / "file").write_text("x")
    for name in ("home", "file"):
        with pytest.raises(ParameterError, match="is no dataset"):
            write_dataset(read_dataset(TINY), tmp_path / name)
    assert (tmp_path / "home" / "thesis.txt").read_text() == "x"


@pytest.mark.parametrize("change", [lambda d: replace(d, about={"licence": "MIT", "source": "x"})])
def test_a_dataset_without_provenance_is_not_written(tmp_path: Path, change: Callable[[Dataset], Dataset]) -> None:
    with pytest.raises(ParameterError, match="must have labelling"):
        write_dataset(change(read_dataset(TINY)), tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_the_source_of_labels_is_kept_in_a_column_of_its_own(folder: Path) -> None:
    dataset = read_dataset(folder)
    first, *rest = dataset.labels
    write_dataset(replace(dataset, labels=(replace(first, source="person"), *rest)), folder)
    head, row, *_ = (folder / "qrels" / "tuning.tsv").read_text("utf-8").splitlines()
    assert head.split("\t") == ["query-id", "corpus-id", "score", "via", "alternatives", "source"]
    assert row.split("\t")[-1] == "person"
    assert [label.source for label in read_dataset(folder).labels] == ["person", *("" for _ in rest)]


def test_partly_labelled_queries_are_read_back(folder: Path) -> None:
    dataset = read_dataset(folder)
    changed = replace(dataset.queries[0], partly_labelled=True, needs_nothing=False)
    write_dataset(replace(dataset, queries=(changed, *dataset.queries[1:])), folder)
    again = read_dataset(folder)
    assert again.queries[0] == changed
    assert again.counts["partly_labelled"] == 1


def test_other_files_of_the_folder_stay(folder: Path) -> None:
    (folder / "notes").mkdir()
    (folder / "notes" / "guide.md").write_text("how we labelled", "utf-8")
    (folder / "qrels" / "old").mkdir()
    (folder / "qrels" / "old" / "test.tsv").write_text("before", "utf-8")
    (folder / "qrels" / "why.md").write_text("because", "utf-8")
    write_dataset(read_dataset(folder), folder)
    assert (folder / "notes" / "guide.md").read_text("utf-8") == "how we labelled"
    assert (folder / "qrels" / "old" / "test.tsv").read_text("utf-8") == "before"
    assert (folder / "qrels" / "why.md").read_text("utf-8") == "because"


def test_what_is_frozen_is_checked_and_not_overwritten(folder: Path) -> None:
    dataset = read_dataset(folder)
    frozen = replace(dataset, about={**dataset.about, "frozen": dataset.hash})
    write_dataset(frozen, folder)
    assert read_dataset(folder).card["frozen"] == dataset.hash
    write_dataset(frozen, folder)  # the same again is no change
    other = frozen.take([frozen.queries[0].id])
    assert "frozen" not in other.card  # it is not what was frozen
    first, *rest = dataset.labels
    for changed in (
        other,
        dataset,
        replace(frozen, version="2"),
        replace(frozen, labels=(replace(first, source="person"), *rest)),
    ):
        with pytest.raises(ParameterError, match="is frozen"):
            write_dataset(changed, folder)
    assert read_dataset(folder).card["frozen"] == dataset.hash
    edit(folder / "corpus.jsonl", "Read the description first", "Read it first")
    [fault] = validate(folder)
    assert fault.message.startswith(f"the card says frozen: {dataset.hash[:12]}..., but the hash of the files is ")
    assert fault.path == folder / "dataset.yaml"
    assert fault.line > 1


def test_a_dataset_whose_card_cannot_be_read_is_not_replaced(folder: Path) -> None:
    dataset = read_dataset(folder)
    card = folder / "dataset.yaml"
    card.write_text("<<<<<<< ours\n" + card.read_text("utf-8"), "utf-8")
    before = files(folder)
    with pytest.raises(InputError):
        write_dataset(dataset, folder)
    assert files(folder) == before


def test_a_new_dataset_takes_no_other_ones_place(folder: Path, tmp_path: Path) -> None:
    dataset = read_dataset(folder)
    create_dataset(dataset, tmp_path / "new")
    create_dataset(dataset, tmp_path / "new")  # the same again
    part = dataset.take([dataset.queries[0].id])
    before = files(folder)
    with pytest.raises(ParameterError, match="holds another dataset, which would be lost"):
        create_dataset(part, folder)
    (folder / "queries.jsonl").write_text("{", "utf-8")
    with pytest.raises(ParameterError, match="holds another dataset"):
        create_dataset(dataset, folder)  # whatever stands there, it is somebody's
    assert files(folder) == {**before, "queries.jsonl": b"{"}


def test_an_import_again_takes_the_place_of_what_was_made_of_the_same_file(folder: Path, tmp_path: Path) -> None:
    whole = read_dataset(folder)

    def made(number: int, file: str) -> Dataset:
        source = {"format": "golden", "sha256": {file: f"{number:064}"}}
        part = whole.take([whole.queries[number].id])
        labels = tuple(replace(label, source="") for label in part.labels)
        return replace(part, about={"licence": "MIT", "labelling": "by hand", "source": source}, labels=labels)

    first, second = made(0, "evals.jsonl"), made(1, "evals.jsonl")
    place = tmp_path / "made"
    assert [create_dataset(one, place, replace=True) for one in (first, first, second)] == [False, False, True]
    assert read_dataset(place).hash == second.hash
    before = files(place)
    for other, again in ((first, False), (made(0, "other.jsonl"), True), (whole.take([whole.queries[0].id]), True)):
        with pytest.raises(ParameterError, match="holds another dataset, which would be lost; name another folder"):
            create_dataset(other, place, replace=again)
    assert files(place) == before
    renamed = {**second.about, "renames": {"tool:gone": second.catalog[0].id}}
    labelled = [replace(label, source="person") for label in second.labels]
    for added, what in (
        (replace(second, about=renamed), "labels that follow renamed items"),
        (replace(second, labels=tuple(labelled)), "labels by person"),
        (replace(second, about={**second.about, "frozen": second.hash}), "a frozen dataset"),
    ):
        write_dataset(added, place)
        with pytest.raises(ParameterError, match=f"holds {what}.*, which would be lost.*name another folder"):
            create_dataset(first, place, replace=True)
        if added.about is renamed:
            with pytest.raises(ParameterError, match=r"tool:gone is .* now.*write the new ids into the file"):
                create_dataset(first, place, replace=True)
