"""Find datasets by name, importing them if needed; the importer base class."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, Self

from ctxbench.catalogs.agent_file import open_catalog, read_agent
from ctxbench.catalogs.snapshots import read_catalog
from ctxbench.datasets.dataset import Dataset, name_fault
from ctxbench.datasets.files import read_dataset, write_files
from ctxbench.datasets.layout import CARD, agent_of, near_folder, own_files, read_card
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.io.cache import altered, is_sealed, seal_folder
from ctxbench.io.console import Notify, nothing_said, progress
from ctxbench.io.documents import load_yaml, parse_json, values_with_lines
from ctxbench.io.errors import (
    Fault,
    InputError,
    Message,
    ParameterError,
    StorageError,
    UnknownNameError,
    UserError,
    check_known,
)
from ctxbench.io.files import atomic_folder, cache_dir, folder_fault, read_bytes, read_text, recover_folder
from ctxbench.io.rows import Row
from ctxbench.model import registry
from ctxbench.model.items import Catalog, Item, ItemKey

SOURCES = "sources"  # below the cache's folder
HUB = "https://huggingface.co"

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

    def available(self) -> bool:
        """Whether the source is installed, in any version."""

    def load(self, name: str) -> Dataset:
        """Make a dataset; the same source gives the same dataset.

        Raises:
            UnknownNameError: it does not provide the name.
            StorageError: the source is not installed, or is not the version that is expected.
        """


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
            raise ParameterError(
                f"{self.source.name} is read from the published files alone: how it labels was looked up in these; "
                "write yours as a folder of a dataset"
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
        check_known(f"dataset of {self.source.name}", name, self.provides)
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
        paths = [file.path for file in self._expected.files] if self._is_own else card.get("files", recipe["files"])
        source = self._expected.card(*paths)
        remarks = [*recipe.get("remarks-published", ()), *recipe["remarks"], *card.get("remarks", ())]
        if self._is_own:
            source = {"form": source["url"], "sha256": source["sha256"]}
            remarks = [str(Message("datasets.own-files")), *recipe["remarks"]]
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
            hint = Message("datasets.import-own", name=self.provides[0])
            raise StorageError(
                f"{location} is not the published file: its SHA-256 is {digest}, expected {file.sha256} "
                f"({file.published} of {self.source.repository} at commit {self.source.commit}); {self._fix()}"
                f"{hint if self.takes_own else ''}"
            )
        return SourceText(location, read_text(location))

    def _digest(self, file: SourceFile) -> tuple[Path, str]:
        """The path of a file, and its SHA-256."""
        if (location := self._find(file)) is None:
            folder = self._folder or self._expected.folder
            if self._is_own:
                raise StorageError(f"cannot read {folder / file.path if folder.is_dir() else folder}: no such file")
            raise StorageError(f"cannot read {folder / file.path}: no such file; {self._fix()}")
        return location, sha256_of(location, fix=self._fix())

    def _find(self, file: SourceFile) -> Path | None:
        folder = self._folder or self._expected.folder
        if len(self._expected.files) == 1 and folder.is_file():
            return folder
        return next((path for path in (folder / file.path, folder / file.published) if path.is_file()), None)

    def _fix(self) -> str:
        return Message("datasets.get-source", command=self.install)


def sha256_of(path: Path, *, fix: str) -> str:
    """The SHA-256 of a file, in hexadecimal.

    Raises:
        StorageError: it cannot be read; says what to do.
    """
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}; {fix}") from error


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
            faults.append(Fault(Message("datasets.entry-type", number=number, expected=expected), source.path, line))


def text_key(text: str) -> str:
    """A key that is the same for texts that differ in case and blanks only."""
    return " ".join(text.casefold().split())


def _lines(text: str) -> list[int]:
    """The 1-based line of each entry of a valid JSON list."""
    return [line for line, _ in values_with_lines(text, len(text) - len(text.lstrip()) + 1, end="]")]


@dataclass(frozen=True, slots=True)
class ListedDataset:
    """A dataset that can be opened by its name.

    Attributes:
        name: what `open_dataset` takes.
        state: `cached`, `importable` (at the first use), `not installed` or `not fetched`.
        version: the version that opening it gives, or would give; empty if it is not known.
        install: the command that installs its source; empty for a dataset without an importer.
    """

    name: str
    state: str
    version: str
    install: str = ""


def importers() -> dict[str, Importer]:
    """The importer of each dataset that one provides, by the dataset's name, sorted.

    Raises:
        ParameterError: two importers provide the same name.
    """
    by_dataset: dict[str, Importer] = {}
    for name in registry.names("importer"):
        importer: Importer = registry.find("importer", name)()
        for dataset in importer.provides:
            if dataset in by_dataset:
                raise ParameterError(f"two importers provide the dataset {dataset!r}; one must be uninstalled")
            by_dataset[dataset] = importer
    return dict(sorted(by_dataset.items()))


def list_datasets() -> tuple[ListedDataset, ...]:
    """Every dataset that has a name, sorted: what is cached and what importers provide."""
    by_dataset = importers()
    cached = _cached_names()
    rows = []
    for name in sorted({*by_dataset, *cached}):
        importer = by_dataset.get(name)
        version = _cached_version(name) if name in cached else ""
        install = importer.install if importer is not None else ""
        if importer is not None and importer.available() and version != importer.version:
            rows.append(ListedDataset(name, "importable", importer.version, install))
        elif name in cached:
            rows.append(ListedDataset(name, "cached", version, install))
        elif importer is not None:
            rows.append(ListedDataset(name, _source_state(importer), importer.version, install))
    return tuple(rows)


def open_dataset(
    name_or_path: str | Path,
    *,
    base: Path | None = None,
    notify: Notify = nothing_said,
    former_ids: Mapping[str, Collection[str]] | None = None,
) -> Dataset:
    """Read a dataset from a folder, or by name from the cache; what an importer provides is imported first.

    A folder that holds a `dataset.yaml` comes before a name. A cached dataset that is damaged is imported again, and
    so is one whose importer has moved on to another version, or that has no checksums yet, if its source is installed;
    if not, the cached one is used.

    Args:
        name_or_path: a folder, or a name that `list_datasets` lists.
        base: what a relative folder is relative to; None = the working directory.
        notify: called with one line when something takes a moment or fails.
        former_ids: as for `read_dataset`.

    Raises:
        UnknownNameError: no such name; the closest are named.
        StorageError: the folder is missing, or the source is not installed (says what to install) and nothing, or
            something damaged, is cached.
        InputError: the dataset is not valid; all faults at once.
    """
    text = str(name_or_path)
    if (folder := user_folder(text, base)) is not None:
        return read_dataset(folder, former_ids=former_ids)
    if isinstance(name_or_path, Path) or name_fault(text):
        return read_dataset(name_or_path, former_ids=former_ids)
    importer = importers().get(text)
    folder = _cache_folder(text)
    if _holds_dataset(folder):
        if not (fault := _cache_fault(text, importer)):
            return read_dataset(folder, former_ids=former_ids)
        if importer is None:
            raise StorageError(f"dataset {text}: {fault} ({folder}), and no importer makes it again: delete the folder")
        if not importer.available():
            raise StorageError(
                f"dataset {text}: {fault} ({folder}), and its source is {_source_state(importer)}: {importer.install}"
            )
        notify(Message("datasets.importing-again", dataset=text, why=fault, version=importer.version))
    elif importer is None:
        for parent in (base or Path(), Path()):
            if os.path.lexists(parent / text) and (fault := folder_fault(parent / text)):
                raise StorageError(f"cannot read dataset {text}: {fault}; expected one with {CARD}")
        names = [row.name for row in list_datasets()]
        near = near_folder(text, *([] if base is None else [base]), Path())
        raise UnknownNameError("dataset", text, names, where=f" (and no folder {text} with a {CARD})", hint=near)
    return _import(text, importer, notify)


def find_catalog(name: str) -> Catalog:
    """A catalog from a file (an agent file among them), a folder, or by the name of a dataset, imported if it can be.

    Raises:
        StorageError: there is none, or its source is not installed.
        InputError: it is faulty.
    """
    try:
        return open_catalog(name)
    except StorageError:
        if (agent := agent_of(Path(name))) is not None:
            return open_catalog(agent)
        if name not in importers() or Path(name).exists():
            raise
        with progress() as bar:
            return open_dataset(name, notify=bar.say).catalog


def import_dataset(name: str, *, source: Path | None = None, notify: Notify = nothing_said) -> Dataset:
    """Import a dataset into the cache, and replace the cached one; if that cannot be written, only return it.

    Args:
        name: of the dataset.
        source: a folder that holds the published files, for an importer that reads files; None = where they are
            installed or fetched to.
        notify: called with one line when something takes a moment or fails.

    Raises:
        UnknownNameError: no importer provides it.
        ParameterError: its importer reads no folder.
        StorageError: the source is not installed (says what to install), or is not what is expected.
    """
    if source is None:
        return _import(name, _importer_of(name), notify)
    return _write_to_cache(name, _file_importer_of(name).with_folder(source).load(name), notify)


def _importer_of(name: str) -> Importer:
    by_dataset = importers()
    check_known("dataset to import", name, by_dataset)
    return by_dataset[name]


def _file_importer_of(name: str) -> FileImporter:
    importer = _importer_of(name)
    if not isinstance(importer, FileImporter):
        raise ParameterError(f"dataset {name} is not read from a folder; get its source with: {importer.install}")
    return importer


def import_own(name: str, source: Path, *, called: str) -> Dataset:
    """Make a dataset of the user's files in the form of published ones.

    Args:
        name: of the dataset whose form they have.
        source: a folder that holds them under the published names, or the file where it is one.
        called: the name of what is made; nothing goes into the cache.

    Raises:
        UnknownNameError: no importer provides `name`.
        ParameterError: its importer takes no other files than the published ones.
        StorageError: a file is missing or cannot be read.
        InputError: a file has another form: all faults, with file and line; or it gives no label.
    """
    dataset = _file_importer_of(name).with_own(source).load(name)
    if not dataset.labels and not any(query.needs_nothing for query in dataset.queries):
        raise InputError([Fault(Message("datasets.no-label", n=len(dataset), form=name), source)])
    return replace(dataset, name=called)


def _import(name: str, importer: Importer, notify: Notify) -> Dataset:
    if not importer.available():
        raise StorageError(
            f"dataset {name} is not in the cache and its source is {_source_state(importer)}: {importer.install}"
        )
    return _write_to_cache(name, importer.load(name), notify)


def _write_to_cache(name: str, dataset: Dataset, notify: Notify) -> Dataset:
    """Write an imported dataset to the cache."""
    folder = _cache_folder(name)
    try:
        with atomic_folder(folder) as temporary:
            write_files(dataset, temporary)
            seal_folder(temporary, sorted(own_files(temporary)))
    except StorageError as error:
        notify(Message("datasets.not-cached", dataset=name, why=error))
        return dataset
    notify(Message("datasets.imported", dataset=name, n=len(dataset), n_items=len(dataset.catalog), folder=folder))
    return dataset


def _source_state(importer: Importer) -> str:
    """The state of a source that is not available: files are fetched, packages installed."""
    return "not fetched" if importer.install.startswith("ctxbench ") else "not installed"


def dataset_reference(name_or_path: str, base: Path) -> str:
    """A reference that opens the same dataset with this `base`: a folder relative to it, or the name."""
    folder = user_folder(name_or_path, base)
    return name_or_path if folder is None else Path(os.path.relpath(folder, base)).as_posix()


def user_folder(name_or_path: str, base: Path | None) -> Path | None:
    """The folder of the user's that `open_dataset` reads; None where the text is a name in the cache, or nothing."""
    folders = [Path(name_or_path)] if base is None else [base / name_or_path, Path(name_or_path)]
    return next((folder for folder in folders if _holds_dataset(folder)), None)


def dataset_folder(name_or_path: str | Path) -> Path:
    """The folder of a dataset, from its path or from its name in the cache."""
    path = Path(name_or_path)
    return path if path.is_dir() or not _holds_dataset(_cache_folder(str(path))) else _cache_folder(str(path))


def _holds_dataset(folder: Path) -> bool:
    """Whether a folder holds a dataset; one that a writer was killed over is recovered first."""
    recover_folder(folder)
    return os.path.isfile(folder / CARD)  # noqa: PTH113 - unlike Path's, False where nobody may look


def _cache_folder(name: str) -> Path:
    return cache_dir() / "datasets" / name


def _cache_fault(name: str, importer: Importer | None) -> str:
    """Why a cached dataset cannot be used: it is damaged or, where it can be made again, outdated. Empty if it can."""
    if damaged := altered(_cache_folder(name)):
        return Message("datasets.cache-damaged", files=damaged)
    if importer is None or not importer.available():
        return ""
    if (version := _cached_version(name)) != importer.version:
        return f"version {version} is cached"
    return "" if is_sealed(_cache_folder(name)) else Message("datasets.cache-unsealed", version=version)


def _cached_names() -> set[str]:
    try:
        return {card.parent.name for card in (cache_dir() / "datasets").glob(f"[!.]*/{CARD}")}
    except OSError as error:
        raise StorageError(f"cannot list {cache_dir() / 'datasets'}: {error.strerror or error}") from error


def _cached_version(name: str) -> str:
    """The version in a cached card; empty if the card cannot be read, which is a fault when the dataset is read."""
    try:
        return str(read_card(_cache_folder(name)).get("version", ""))
    except (InputError, StorageError):
        return ""


def changed_sources(names: Iterable[str], base: Path) -> Iterator[str]:
    """A sentence for each dataset whose evals have changed since the import, if they are still where its card says."""
    for folder in filter(None, (user_folder(name, base) for name in names)):
        try:
            match read_card(folder).get("source"):
                case {"format": "golden", "sha256": dict(files), "path": str(path)} if (folder / path).is_file():
                    digests = files.get(Path(path).name)
                    if digests not in (None, hashlib.sha256(read_bytes(folder / path)).hexdigest()):
                        yield Message("datasets.source-changed", file=Path(path).name)
        except UserError:
            continue  # what cannot be read is said where it is needed


def unread_agents(names: Iterable[str], base: Path, agents: Iterable[Path]) -> Iterator[str]:
    """A sentence for each agent file whose items differ from those that datasets have instead.

    Args:
        names: of datasets, as an experiment names them. Those over the agent file itself, and those without an item of
            the agent, such as public ones, are left out. Of a dataset over another agent file only the items that
            both have are compared: it may leave sources out.
        base: what a relative folder is relative to.
        agents: the agent files whose selectors are asked.
    """
    folders = {name: folder for name in names if (folder := user_folder(name, base))}
    for path in dict.fromkeys(agents):
        copied: list[str] = []
        for name, folder in folders.items():
            source = agent_of(folder)
            with suppress(UserError):  # what cannot be read is said where it is needed
                current = _contents(read_agent(path).catalog())
                own = _contents(read_catalog(folder) if source is None else read_agent(source).catalog())
                shared = own.keys() & current.keys()
                if source is None:
                    copied += [name] if shared and own != current else []
                elif differing := [item for item in shared if own[item] != current[item]]:
                    fields = "sources" if all(own[item][0] == current[item][0] for item in differing) else "include"
                    yield Message("datasets.agent-other", fields=fields, agent=path, source=source, dataset=name)
        if copied:
            yield Message("datasets.agent-unread", datasets=copied, agent=path)


def _contents(catalog: Catalog) -> dict[str, tuple[Any, ...]]:
    """The include mode of each item, and what a search and a prompt read of it, by id."""
    return {item.id: (item.include, item.title, item.description, item.text, item.schema) for item in catalog}
