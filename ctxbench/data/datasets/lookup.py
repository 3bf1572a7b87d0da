"""Look up datasets by name: those in the cache, and those that an importer can put there."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ctxbench.bench.progress_listener import Notify, nothing_said
from ctxbench.core import registry
from ctxbench.core.errors import Fault, InputError, ParameterError, StorageError, UnknownNameError
from ctxbench.data.datasets.dataset import Dataset, name_fault
from ctxbench.data.datasets.layout import CARD, near_folder, own_files, read_card
from ctxbench.data.datasets.reader import read_dataset
from ctxbench.data.datasets.writer import write_files
from ctxbench.data.importers.published_files import FileImporter, Importer
from ctxbench.io.cache import altered, cache_dir, is_sealed, seal_folder
from ctxbench.io.files import atomic_folder, folder_fault, recover_folder


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
    if not, it is used as it is.

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
    folder = user_folder(text, base)
    if folder is not None:
        return read_dataset(folder, former_ids=former_ids)
    if isinstance(name_or_path, Path) or name_fault(text):
        return read_dataset(name_or_path, former_ids=former_ids)
    importer = importers().get(text)
    folder = _cache_folder(text)
    if _holds_dataset(folder):
        fault = _cache_fault(text, importer)
        if not fault:
            return read_dataset(folder, former_ids=former_ids)
        if importer is None:
            raise StorageError(f"dataset {text}: {fault} ({folder}), and no importer makes it again: delete the folder")
        if not importer.available():
            state = f"its source is {_source_state(importer)}: {importer.install}"
            raise StorageError(f"dataset {text}: {fault} ({folder}), and {state}")
        notify(f"dataset {text}: {fault}, importing {importer.version}")
    elif importer is None:
        for parent in (base or Path(), Path()):
            if os.path.lexists(parent / text) and (fault := folder_fault(parent / text)):
                raise StorageError(f"cannot read dataset {text}: {fault}; expected one with {CARD}")
        names = [row.name for row in list_datasets()]
        near = near_folder(text, *([] if base is None else [base]), Path())
        raise UnknownNameError("dataset", text, names, where=f" (and no folder {text} with a {CARD})", hint=near)
    return _import(text, importer, notify)


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
    by_dataset = importers()
    if name not in by_dataset:
        raise UnknownNameError("dataset to import", name, by_dataset)
    importer = by_dataset[name]
    if source is None:
        return _import(name, importer, notify)
    if not isinstance(importer, FileImporter):
        raise ParameterError(f"dataset {name} is not read from a folder; its source is installed: {importer.install}")
    return _write_to_cache(name, importer.with_folder(source).load(name), notify)


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
    by_dataset = importers()
    if name not in by_dataset:
        raise UnknownNameError("dataset to import", name, by_dataset)
    importer = by_dataset[name]
    if not isinstance(importer, FileImporter):
        raise ParameterError(f"dataset {name} is not read from a folder; its source is installed: {importer.install}")
    dataset = importer.with_own(source).load(name)
    if not dataset.labels and not any(query.needs_nothing for query in dataset.queries):
        message = f"no label could be read: the files give {len(dataset):,} queries, none of which is labelled"
        raise InputError([Fault(f"{message}; expected files in the form of {name}", source)])
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
        notify(f"dataset {name}: imported, but not kept: {error}")
        return dataset
    notify(f"dataset {name}: {len(dataset)} queries over {len(dataset.catalog)} items imported to {folder}")
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
        return f"{', '.join(damaged)} in the cache {'is' if len(damaged) == 1 else 'are'} damaged"
    if importer is None or not importer.available():
        return ""
    version = _cached_version(name)
    if version != importer.version:
        return f"version {version} is cached"
    return "" if is_sealed(_cache_folder(name)) else f"version {version} is cached without checksums"


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
