"""Datasets by name: what the cache holds, and what importers can put there."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ctxbench.core import registry
from ctxbench.core.errors import InputError, ParameterError, StorageError, UnknownNameError
from ctxbench.data.datasets.dataset import Dataset, name_fault
from ctxbench.data.datasets.layout import CARD, own_files
from ctxbench.data.datasets.reader import read_dataset
from ctxbench.data.datasets.writer import write_files
from ctxbench.data.importers.interface import Importer
from ctxbench.io.cache import altered, cache_dir, is_sealed, seal_folder
from ctxbench.io.files import atomic_folder, recover_folder
from ctxbench.io.yaml_files import load_yaml

Notify: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Listing:
    """One dataset that has a name.

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


def silent(_message: str) -> None:
    """Say nothing."""


def importers() -> dict[str, Importer]:
    """The importer of each dataset that one provides, by the dataset's name, sorted.

    Raises:
        ParameterError: two importers provide the same name.
    """
    found: dict[str, Importer] = {}
    for name in registry.names("importer"):
        importer: Importer = registry.find("importer", name)()
        for provided in importer.provides:
            if provided in found:
                raise ParameterError(f"two importers provide the dataset {provided!r}; one must be uninstalled")
            found[provided] = importer
    return dict(sorted(found.items()))


def list_datasets() -> tuple[Listing, ...]:
    """Every dataset that has a name, sorted: what is cached and what importers provide."""
    known = importers()
    cached = _cached_names()
    rows = []
    for name in sorted({*known, *cached}):
        importer = known.get(name)
        version = _cached_version(name) if name in cached else ""
        if importer is not None and importer.available() and version != importer.version:
            rows.append(Listing(name, "importable", importer.version, importer.install))
        elif name in cached:
            rows.append(Listing(name, "cached", version, importer.install if importer else ""))
        elif importer is not None:
            rows.append(Listing(name, _missing(importer), importer.version, importer.install))
    return tuple(rows)


def open_dataset(
    name_or_path: str | Path,
    *,
    base: Path | None = None,
    notify: Notify = silent,
    before: Mapping[str, Collection[str]] | None = None,
) -> Dataset:
    """Read a dataset from a folder, or by name from the cache; what an importer provides is imported first.

    A folder that holds a `dataset.yaml` comes before a name. A cached dataset that is damaged is imported again, and
    so is one whose importer has moved on to another version, or that has no checksums yet, if its source is installed;
    if not, it is used as it is.

    Args:
        name_or_path: a folder, or a name that `list_datasets` lists.
        base: what a relative folder is relative to; None = the working directory.
        notify: told in one line what takes a moment or turned out otherwise.
        before: as for `read_dataset`.

    Raises:
        UnknownNameError: no such name; the closest are named.
        StorageError: the folder is missing, or the source is not installed (says what to install) and nothing, or
            something damaged, is cached.
        InputError: the dataset is not valid; all faults at once.
    """
    text = str(name_or_path)
    folder = own_folder(text, base)
    if folder is not None:
        return read_dataset(folder, before=before)
    if isinstance(name_or_path, Path) or name_fault(text):
        return read_dataset(name_or_path, before=before)
    importer = importers().get(text)
    folder = _folder(text)
    if _holds_dataset(folder):
        why = _outdated(text, importer)
        if not why:
            return read_dataset(folder, before=before)
        if importer is None or not importer.available():
            lost = "no importer makes it again" if importer is None else f"its source is {_missing(importer)}"
            what = "delete the folder" if importer is None else importer.install
            raise StorageError(f"dataset {text}: {why} ({folder}), and {lost}: {what}")
        notify(f"dataset {text}: {why}, importing {importer.version}")
    elif importer is None:
        known = [row.name for row in list_datasets()]
        raise UnknownNameError("dataset", text, known, where=f" (and no folder {text} with a {CARD})")
    return _imported(text, importer, notify)


def import_dataset(name: str, *, source: Path | None = None, notify: Notify = silent) -> Dataset:
    """Import a dataset into the cache, in place of what is cached; if that cannot be written, only return it.

    Args:
        name: of the dataset.
        source: a folder that holds the published files, for an importer that reads files; None = where they are
            installed or fetched to.
        notify: told in one line what takes a moment or turned out otherwise.

    Raises:
        UnknownNameError: no importer provides it.
        ParameterError: its importer reads no folder.
        StorageError: the source is not installed (says what to install), or is not what is expected.
    """
    known = importers()
    if name not in known:
        raise UnknownNameError("dataset to import", name, known)
    importer = known[name]
    if source is None:
        return _imported(name, importer, notify)
    from ctxbench.data.importers.published_files import FileImporter  # few read a folder

    if not isinstance(importer, FileImporter):
        raise ParameterError(f"dataset {name} is not read from a folder; its source is installed: {importer.install}")
    return _kept(name, importer.with_folder(source).load(name), notify)


def _imported(name: str, importer: Importer, notify: Notify) -> Dataset:
    if not importer.available():
        raise StorageError(
            f"dataset {name} is not in the cache and its source is {_missing(importer)}: {importer.install}"
        )
    return _kept(name, importer.load(name), notify)


def _kept(name: str, dataset: Dataset, notify: Notify) -> Dataset:
    """Write an imported dataset to the cache."""
    folder = _folder(name)
    try:
        with atomic_folder(folder) as temporary:
            write_files(dataset, temporary)
            seal_folder(temporary, sorted(own_files(temporary)))
    except StorageError as error:
        notify(f"dataset {name}: imported, but not kept: {error}")
        return dataset
    notify(f"dataset {name}: {len(dataset)} queries over {len(dataset.catalog)} items imported to {folder}")
    return dataset


def _missing(importer: Importer) -> str:
    """What its source is, where it is not there: files are fetched, packages installed."""
    return "not fetched" if importer.install.startswith("ctxbench ") else "not installed"


def dataset_reference(name_or_path: str, base: Path) -> str:
    """What opens the same dataset again with this `base`: a folder relative to it, or the name."""
    folder = own_folder(name_or_path, base)
    return name_or_path if folder is None else Path(os.path.relpath(folder, base)).as_posix()


def own_folder(name_or_path: str, base: Path | None) -> Path | None:
    """The user's folder that `open_dataset` reads; None where it takes the text for a name in the cache, or fails."""
    folders = [Path(name_or_path)] if base is None else [base / name_or_path, Path(name_or_path)]
    return next((folder for folder in folders if _holds_dataset(folder)), None)


def dataset_folder(name_or_path: str | Path) -> Path:
    """The folder of a dataset: itself, or that of a name in the cache."""
    given = Path(name_or_path)
    return given if given.is_dir() or not _holds_dataset(_folder(str(given))) else _folder(str(given))


def _holds_dataset(folder: Path) -> bool:
    """Whether a folder holds a dataset, brought back if a writer was killed while it replaced it."""
    recover_folder(folder)
    return (folder / CARD).is_file()


def _folder(name: str) -> Path:
    return cache_dir() / "datasets" / name


def _outdated(name: str, importer: Importer | None) -> str:
    """Why a cached dataset is not to be used; empty where it is. One that cannot be made again must be damaged."""
    wrong = altered(_folder(name))
    if wrong:
        return f"{', '.join(wrong)} in the cache {'is' if len(wrong) == 1 else 'are'} damaged"
    if importer is None or not importer.available():
        return ""
    version = _cached_version(name)
    if version != importer.version:
        return f"version {version} is cached"
    return "" if is_sealed(_folder(name)) else f"version {version} is cached without checksums"


def _cached_names() -> set[str]:
    try:
        return {card.parent.name for card in (cache_dir() / "datasets").glob(f"[!.]*/{CARD}")}
    except OSError as error:
        raise StorageError(f"cannot list {cache_dir() / 'datasets'}: {error.strerror or error}") from error


def _cached_version(name: str) -> str:
    """The version that a cached card says; empty if the card cannot be read, which reading it will explain."""
    try:
        card, _ = load_yaml(_folder(name) / CARD)
    except (InputError, StorageError):
        return ""
    return str(card.get("version", "")) if isinstance(card, dict) else ""
