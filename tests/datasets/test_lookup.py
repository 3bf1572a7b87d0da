"""Datasets by name: from a folder, from the cache, or imported into it at the first use."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import ClassVar

import pytest

from ctxbench.catalogs.snapshots import read_catalog
from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.files import read_dataset, write_dataset
from ctxbench.datasets.lookup import ListedDataset, import_dataset, importers, list_datasets, open_dataset
from ctxbench.io.errors import InputError, ParameterError, StorageError, UnknownNameError
from ctxbench.model import registry

TINY = Path(__file__).parents[1] / "fixtures" / "tiny"


class Published:
    """An importer whose source is the tiny dataset, in whatever version the test says."""

    provides: ClassVar[tuple[str, ...]] = ("published",)
    version: ClassVar[str] = "1"
    install: ClassVar[str] = "pip install published"
    installed: ClassVar[bool] = True
    loads: ClassVar[int] = 0

    def available(self) -> bool:
        return self.installed

    def load(self, name: str) -> Dataset:
        type(self).loads += 1
        return dataclasses.replace(read_dataset(TINY), name=name, version=self.version)


@pytest.fixture
def importer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[Published]:
    """The one importer there is, and an empty cache."""
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    made = type("Own", (Published,), {"loads": 0})
    monkeypatch.setattr(registry, "names", lambda kind: ("own",))
    monkeypatch.setattr(registry, "find", lambda kind, name: made)
    return made


def test_a_folder_is_read(importer: type[Published], monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (TINY, str(TINY)):
        assert open_dataset(place).hash == read_dataset(TINY).hash
    monkeypatch.chdir(TINY.parent)
    assert open_dataset("tiny").name == "tiny"
    assert importer.loads == 0


def test_a_name_is_imported_once_and_then_read_from_the_cache(importer: type[Published], tmp_path: Path) -> None:
    said: list[str] = []
    first = open_dataset("published", notify=said.append)
    second = open_dataset("published", notify=said.append)
    assert importer.loads == 1
    assert (first.hash, first.card) == (second.hash, second.card)
    place = tmp_path / "cache" / "datasets" / "published"
    assert said == [f"dataset published: 10 queries over 12 items imported to {place}"]
    assert [p.name for p in place.parent.iterdir()] == ["published"]


def test_another_version_is_imported_again_only_if_its_source_is_there(importer: type[Published]) -> None:
    said: list[str] = []
    open_dataset("published")
    importer.version, importer.installed = "2", False
    assert open_dataset("published", notify=said.append).version == "1"
    importer.installed = True
    assert open_dataset("published", notify=said.append).version == "2"
    assert said[0] == "dataset published: version 1 is cached, importing 2"
    assert importer.loads == 2
    assert import_dataset("published").version == "2"
    assert importer.loads == 3


def test_what_is_not_installed_says_what_to_install(importer: type[Published]) -> None:
    importer.installed = False
    with pytest.raises(StorageError, match="not installed: pip install published"):
        open_dataset("published")


def test_unknown_names_list_the_closest(importer: type[Published], tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'published'"):
        open_dataset("publisht")
    with pytest.raises(UnknownNameError, match="Known: published"):
        import_dataset("nothing-like-it")
    with pytest.raises(StorageError, match="no such folder"):
        open_dataset(str(tmp_path / "none"))


def test_a_folder_that_cannot_be_read_is_no_unknown_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine").symlink_to("mine")
    with pytest.raises(StorageError, match="cannot read dataset mine: Too many levels of symbolic links"):
        open_dataset("mine")
    with pytest.raises(StorageError, match="cannot read the catalog mine: Too many levels of symbolic links"):
        read_catalog("mine")


def test_a_cache_that_cannot_be_written_is_said_and_does_no_harm(importer: type[Published], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    said: list[str] = []
    assert len(open_dataset("published", notify=said.append)) == 10
    assert said[0].startswith("dataset published: imported, but not cached: cannot write")


FILES = ("dataset.yaml", "corpus.jsonl", "queries.jsonl", "qrels/test.tsv", ".checksums")


def flipped(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8 % len(data)] ^= 1 << bit % 8
    path.write_bytes(data)


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_cached_dataset_is_imported_again(importer: type[Published], tmp_path: Path, name: str) -> None:
    hashed = open_dataset("published").hash
    flipped(tmp_path / "cache" / "datasets" / "published" / name, 809)
    said: list[str] = []
    assert open_dataset("published", notify=said.append).hash == hashed
    assert said[0] == f"dataset published: damaged in the cache: {name}, importing 1"
    assert (open_dataset("published").hash, importer.loads) == (hashed, 2)


@pytest.mark.parametrize("name", FILES[:-1])
def test_a_cached_dataset_that_lost_a_file_is_imported_again(
    importer: type[Published], tmp_path: Path, name: str
) -> None:
    hashed = open_dataset("published").hash
    path = tmp_path / "cache" / "datasets" / "published" / name
    path.unlink()
    path.mkdir()
    assert open_dataset("published").hash == hashed
    assert path.is_file()


def test_a_damaged_cached_dataset_without_its_source_says_what_to_install(
    importer: type[Published], tmp_path: Path
) -> None:
    open_dataset("published")
    folder = tmp_path / "cache" / "datasets" / "published"
    flipped(folder / "queries.jsonl", 0)
    importer.installed = False
    message = rf"damaged in the cache: queries\.jsonl \({folder}\), and its source is not installed: pip install"
    with pytest.raises(StorageError, match=message):
        open_dataset("published")


def test_a_cached_dataset_without_checksums_is_imported_again_if_its_source_is_there(
    importer: type[Published], tmp_path: Path
) -> None:
    open_dataset("published")
    (tmp_path / "cache" / "datasets" / "published" / ".checksums").unlink()
    importer.installed = False
    assert len(open_dataset("published")) == 10
    importer.installed = True
    said: list[str] = []
    open_dataset("published", notify=said.append)
    assert said[0] == "dataset published: version 1 is cached without checksums, importing 1"
    open_dataset("published")
    assert importer.loads == 2


def test_a_damaged_catalog_in_the_cache_is_not_read(importer: type[Published], tmp_path: Path) -> None:
    items = len(open_dataset("published").catalog)
    folder = tmp_path / "cache" / "datasets" / "published"
    corpus = folder / "corpus.jsonl"
    (tmp_path / "link").symlink_to(folder)
    good = corpus.read_bytes()
    assert len(read_catalog("published")) == items
    for bit in (0, 1001, 5005):
        flipped(corpus, bit)
        for given in ("published", folder, corpus, tmp_path / "link"):
            message = (
                r"corpus\.jsonl is damaged; import it again: `ctxbench data import published`, "
                rf"or, if no importer provides it any more, delete the folder {folder}$"
            )
            with pytest.raises(StorageError, match=message):
                read_catalog(given)
        corpus.write_bytes(good)
    flipped(corpus, 0)
    import_dataset("published")  # as the command does
    assert len(read_catalog(folder)) == items
    flipped(corpus, 0)
    shutil.copytree(folder, tmp_path / "own")  # whose items may be edited
    with pytest.raises(InputError):
        read_catalog(tmp_path / "own")


def test_the_list_holds_what_is_cached_and_what_could_be(importer: type[Published], tmp_path: Path) -> None:
    own = dataclasses.replace(read_dataset(TINY), name="own", version="7")
    assert list_datasets() == (ListedDataset("published", "importable", "1", "pip install published"),)
    write_dataset(own, tmp_path / "cache" / "datasets" / "own")
    open_dataset("published")
    assert list_datasets() == (
        ListedDataset("own", "cached", "7"),
        ListedDataset("published", "cached", "1", "pip install published"),
    )
    importer.version = "2"
    assert list_datasets()[1].state == "importable"
    importer.installed = False
    assert list_datasets()[1] == ListedDataset("published", "cached", "1", "pip install published")
    assert open_dataset("own").version == "7"


def test_two_importers_of_one_name_are_refused(importer: type[Published], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "names", lambda kind: ("own", "other"))
    with pytest.raises(ParameterError, match="two importers provide the dataset 'published'"):
        importers()
