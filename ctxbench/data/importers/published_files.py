"""The protocol of importers, their recipes, and the base of those that read published files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, Self

from ctxbench.core.errors import Fault, InputError, ParameterError, StorageError, UnknownNameError
from ctxbench.core.items import Catalog, Item, ItemKey
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.data.datasets.query_labels import DatasetQuery, Label
from ctxbench.io.cache import cache_dir
from ctxbench.io.files import read_text
from ctxbench.io.json_files import parse_json, values_with_lines
from ctxbench.io.rows import Row
from ctxbench.io.yaml_files import load_yaml

SOURCES = "sources"  # below the cache's folder
HUB = "https://huggingface.co"
_OWN_REMARK = "Made of files in the form of the published ones, not of these: `publishers` are who made them."
OWNER = "publisher"  # the `source` of labels that the owner of the data wrote


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One published file.

    Attributes:
        path: in the folder, with `/`.
        published: the path in the owner's repository; a clone of that will do as the folder.
        size: in bytes.
        sha256: in hexadecimal.
    """

    path: str
    published: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSource:
    """Files that their owner publishes in a repository on GitHub or the Hugging Face Hub, at one commit.

    Attributes:
        name: what `ctxbench data fetch` takes, and the folder below the cache.
        repository: `owner/name`.
        commit: 40 hexadecimal digits.
        date: of the commit.
        paper: that describes the data.
        licence: as the owner states it, or that none is stated.
        files: all that the importer reads.
        hub: whether the repository is a dataset on the Hub; else it is on GitHub.
    """

    name: str
    repository: str
    commit: str
    date: str
    paper: str
    licence: str
    files: tuple[SourceFile, ...]
    hub: bool = False

    @property
    def page(self) -> str:
        """The address of the repository, for people."""
        return f"{HUB}/datasets/{self.repository}" if self.hub else f"https://github.com/{self.repository}"

    def address(self, host: str) -> str:
        """Where the files are published, each at its `published` path below; `host` serves what is on GitHub."""
        return f"{self.page}/resolve/{self.commit}" if self.hub else f"{host}/{self.repository}/{self.commit}"

    @property
    def folder(self) -> Path:
        """The folder of fetched files."""
        return cache_dir() / SOURCES / self.name

    def file(self, path: str) -> SourceFile:
        """The file with a path.

        Raises:
            UnknownNameError: the source has no such file.
        """
        for file in self.files:
            if file.path == path:
                return file
        raise UnknownNameError(f"file of {self.name}", path, [file.path for file in self.files])

    def card(self, *paths: str) -> dict[str, Any]:
        """The `source` of a dataset's card, for a dataset made of these files."""
        return {
            "url": self.page,
            "commit": self.commit,
            "date": self.date,
            "paper": self.paper,
            "sha256": {path: self.file(path).sha256 for path in paths},
        }


@dataclass(frozen=True, slots=True)
class SourceText:
    """The text of a file whose SHA-256 is the expected one."""

    path: Path
    text: str


class Importer(Protocol):
    """Makes datasets of published data; registered under the kind `importer`, made without arguments.

    Attributes:
        provides: names of the datasets it makes; no other importer may provide them.
        version: of source and importer together. It is the version of the datasets; those that are cached under
            another version are imported again.
    """

    provides: ClassVar[tuple[str, ...]]
    version: ClassVar[str]

    @property
    def install(self) -> str:
        """The command that installs the source; a class attribute will do."""
        ...

    def available(self) -> bool:
        """Whether the source is installed, in any version."""
        ...

    def load(self, name: str) -> Dataset:
        """Make a dataset; the same source gives the same dataset.

        Raises:
            UnknownNameError: it does not provide the name.
            StorageError: the source is not installed, or is not the version that is expected.
        """
        ...


@cache
def recipes() -> dict[str, Any]:
    """The recipe of each source: its files with their checksums, and the cards of the datasets made of them."""
    return dict(load_yaml(Path(__file__).with_name("recipes.yaml"))[0])


class FileImporter:
    """Base of the importers that read published files.

    A class names its recipe, has a method `make`, and a `revision`, which goes up by one with every change of what it
    makes. An importer checks the form of its files only if it `takes_own`: it reads files of the user's in that form,
    too. The others read nothing but files with the checksum of the recipe, whose content is known.
    """

    source: ClassVar[PublishedSource]
    provides: ClassVar[tuple[str, ...]]
    version: ClassVar[str]
    install: ClassVar[str]
    revision: ClassVar[int] = 1
    takes_own: ClassVar[bool] = False

    def __init_subclass__(cls, *, recipe: str) -> None:
        """Set the class attributes from the recipe."""
        names = ("repository", "commit", "date", "paper", "licence", "hub")
        fields = {name: value for name, value in recipes()[recipe].items() if name in names}
        files = tuple(SourceFile(path=path, **file) for path, file in recipes()[recipe]["files"].items())
        cls.source = PublishedSource(name=recipe, files=files, **fields)
        cls.provides = tuple(recipes()[recipe]["datasets"])
        cls.version = f"{cls.source.date}-{cls.source.commit[:8]}-{cls.revision}"
        cls.install = f"ctxbench data fetch {recipe}"

    def __init__(
        self, folder: Path | None = None, *, expected: PublishedSource | None = None, is_own: bool = False
    ) -> None:
        """Read from where `ctxbench data fetch` puts the files, or from a folder that holds the same.

        Args:
            folder: with the files, under their own paths or those of the repository; None = the fetched ones.
            expected: the files that are accepted; None = the published ones.
            is_own: accept the files that are there, as `with_own` does.
        """
        self._folder = folder
        self._expected = expected or self.source
        self._is_own = is_own
        if is_own:
            files = tuple(replace(file, sha256=self._digest(file)[1]) for file in self._expected.files)
            self._expected = replace(self._expected, files=files, licence="not stated in the files")

    def with_folder(self, folder: Path) -> Self:
        """The same importer, which reads from another folder, or the file itself where it reads one."""
        return type(self)(folder, expected=self._expected)

    def with_own(self, folder: Path) -> Self:
        """The same importer for the user's files, in the published form, in a folder.

        What it makes says so in its card, and has a version of their SHA-256.

        Raises:
            ParameterError: it takes the published files alone.
            StorageError: a file is missing or cannot be read.
        """
        if not self.takes_own:
            message = f"{self.source.name} is read from the published files alone"
            raise ParameterError(
                f"{message}: how it labels was looked up in these; write yours as a folder of a dataset"
            )
        return type(self)(folder, expected=self._expected, is_own=True)

    def available(self) -> bool:
        """Whether all files are there; they are checked when they are read."""
        return all(self._find(file) is not None for file in self._expected.files)

    def load(self, name: str) -> Dataset:
        """Make one of the datasets.

        Raises:
            UnknownNameError: `name` is none of `provides`.
            StorageError: a file is missing, or is not the published one.
            InputError: a file holds something else than expected: all faults, with file and line.
        """
        if name not in self.provides:
            raise UnknownNameError(f"dataset of {self.source.name}", name, self.provides)
        dataset = self.make(name)
        if not self._is_own:
            return dataset
        digest = hashlib.sha256("".join(file.sha256 for file in self._expected.files).encode()).hexdigest()
        return replace(dataset, version=f"own-{digest[:12]}-{self.revision}")

    def make(self, name: str) -> Dataset:
        """Make one of `provides`."""
        raise NotImplementedError

    def dataset(
        self,
        name: str,
        items: Iterable[Item],
        queries: Iterable[DatasetQuery],
        labels: Iterable[Label],
        *,
        scopes: Mapping[str, tuple[ItemKey, ...]] = MappingProxyType({}),
        counted: Mapping[str, int] | None = None,
    ) -> Dataset:
        """A dataset with the card that the recipe has for it.

        Args:
            name: one of `provides`.
            items: of the catalog.
            queries: as in `Dataset`.
            labels: as in `Dataset`.
            scopes: as in `Dataset`.
            counted: what is odd in the files, by name; None = as the recipe counts it.
        """
        recipe = recipes()[self.source.name]
        card = recipe["datasets"][name]
        source = self._expected.card(*card.get("files", recipe["files"]))
        remarks = [*recipe["remarks"], *card.get("remarks", ())]
        if self._is_own:
            source = {"form": source["url"], "sha256": source["sha256"]}
            remarks.insert(0, _OWN_REMARK)
        return Dataset(
            name=name,
            version=self.version,
            catalog=Catalog(items),
            queries=tuple(queries),
            labels=tuple(labels),
            scopes=scopes,
            about={
                "licence": self._expected.licence,
                "source": source,
                "labelling": card["labelling"],
                "notes": {"counted": dict(counted or card["counted"]), "remarks": remarks},
            },
        )

    def read(self, path: str) -> SourceText:
        """Read a file whole and check it.

        Raises:
            StorageError: it is missing, cannot be read, or is not the published one.
            InputError: it is not UTF-8.
        """
        file = self._expected.file(path)
        location, digest = self._digest(file)
        if digest != file.sha256:
            advice = "A changed file is another dataset: write it as a folder of its own"
            if self.takes_own:
                advice = (
                    f"A file of your own in this form is another dataset: `ctxbench data import {self.provides[0]} "
                )
                advice += "--from PLACE --own --out FOLDER` makes it"
            raise StorageError(
                f"{location} is not the published file: its SHA-256 is {digest}, expected {file.sha256} "
                f"({file.published} of {self.source.repository} at commit {self.source.commit}); {self._remedy()}. "
                f"{advice}"
            )
        return SourceText(location, read_text(location))

    def _digest(self, file: SourceFile) -> tuple[Path, str]:
        """The path of a file, and its SHA-256."""
        location = self._find(file)
        if location is None:
            missing = (self._folder or self._expected.folder) / file.path
            raise StorageError(f"cannot read {missing}: no such file; {self._remedy()}")
        return location, sha256_of(location, remedy=self._remedy())

    def _find(self, file: SourceFile) -> Path | None:
        folder = self._folder or self._expected.folder
        if len(self._expected.files) == 1 and folder.is_file():
            return folder
        return next((path for path in (folder / file.path, folder / file.published) if path.is_file()), None)

    def _remedy(self) -> str:
        if self._folder is None:
            return f"get it with `{self.install}`"
        return f"get it with `{self.install}`, or name a folder that holds {self._expected.files[0].path} as published"


def sha256_of(path: Path, *, remedy: str) -> str:
    """The SHA-256 of a file, in hexadecimal.

    Raises:
        StorageError: it cannot be read; says what to do.
    """
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}; {remedy}") from error


def json_entries(source: SourceText, faults: list[Fault], *, expected: str) -> Iterator[Row]:
    """The objects of a JSON list, as rows with the line that each starts in; an entry of another type is a fault.

    Raises:
        InputError: it is no JSON list.
    """
    value = parse_json(source.text, path=source.path)
    if not isinstance(value, list):
        raise InputError([Fault(f"expected a JSON list of {expected}", source.path, 1)])
    for number, (entry, line) in enumerate(zip(value, _lines(source.text), strict=True)):
        if isinstance(entry, dict):
            yield Row(entry, faults, source.path, line)
        else:
            faults.append(Fault(f"entry {number} must be an object, one of {expected}", source.path, line))


def text_key(text: str) -> str:
    """A key that is the same for texts that differ in case and blanks only."""
    return " ".join(text.casefold().split())


def _lines(text: str) -> list[int]:
    """The 1-based line of each entry of a valid JSON list."""
    start = len(text) - len(text.lstrip())
    return [line for line, _ in values_with_lines(text, start + 1, end="]")]
