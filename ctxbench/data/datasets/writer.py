"""Write a dataset as a folder, without losing other files of the folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from pathlib import Path

from ctxbench.core.errors import InputError, ParameterError, StorageError
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.data.datasets.layout import AGENT, CARD, QRELS, QRELS_HEADER, QUERIES, own_files, read_card
from ctxbench.data.datasets.reader import read_dataset
from ctxbench.data.datasets.replacement import OTHER, loss, refuse_loss
from ctxbench.io.files import atomic_folder, read_bytes, write_atomic
from ctxbench.io.json_files import dump_jsonl
from ctxbench.io.yaml_files import dump_yaml
from ctxbench.sources.catalogs import CORPUS, corpus_rows


def write_dataset(dataset: Dataset, folder: Path | str) -> None:
    """Write a dataset as a folder, atomically; equal datasets give the same bytes.

    A dataset that is there is replaced; files that are no part of one (a guide, a log of answers) stay. Any other
    folder that holds something is refused.

    Raises:
        ParameterError: the folder holds something else than a dataset, or a frozen one that would be another byte for
            byte, or the dataset does not say its licence, source or labelling.
        InputError: the card that stands there cannot be read, so that nobody knows whether it is frozen.
        StorageError: the place cannot be written; what was there is unchanged.
    """
    folder = Path(folder)
    frozen = _is_frozen(folder)
    with atomic_folder(folder) as temporary:
        copy_other_files(folder, temporary, own_files(folder))
        write_files(dataset, temporary, home=folder)
        if frozen:
            _refuse_change(folder, temporary)


def create_dataset(dataset: Dataset, folder: Path | str, *, replace: bool = False) -> bool:
    """Write a dataset to a folder, as `write_dataset` does, but never over another dataset.

    Args:
        dataset: what to write.
        folder: where to.
        replace: replace what an earlier import made of files of the same form and name, if nobody has added to it.

    Returns:
        Whether such an earlier one was there, and was another.

    Raises:
        ParameterError: the folder holds another dataset, or one that cannot be read; and as `write_dataset`.
        StorageError: the place cannot be written.
    """
    is_other = False
    if (Path(folder) / CARD).exists():
        try:
            is_other = read_dataset(folder).hash != dataset.hash
        except (InputError, StorageError):
            is_other = True
        if is_other and not replace:
            raise loss(folder, OTHER)
        if is_other:
            made_of = _made_of(dataset)
            refuse_loss(
                Path(folder), is_own=lambda dataset: made_of is not None and _made_of(dataset) == made_of, sources=()
            )
    write_dataset(dataset, folder)
    return is_other


def _made_of(dataset: Dataset) -> tuple[str, list[str]] | None:
    """The format and the names of the files that a dataset was made of, as its card says; None if it does not."""
    match dataset.about.get("source"):
        case {"format": str(form), "sha256": dict(files)}:
            return form, sorted(files)
    return None


def write_files(dataset: Dataset, folder: Path, *, home: Path | None = None) -> None:
    """Write the files of a dataset into an existing folder.

    Args:
        dataset: what to write.
        folder: where to.
        home: where the folder will stand, which the path of an agent file is relative to; None = its items are written
            as they are now, and the card names no agent.

    Raises:
        ParameterError: the dataset does not say its licence, source or labelling.
        StorageError: the folder cannot be written.
    """
    missing = [name for name in ("licence", "source", "labelling") if not dataset.about.get(name)]
    if missing:
        raise ParameterError(f"dataset {dataset.name}: `about` must say {', '.join(missing)}, or nobody can trust it")
    card = dataset.card
    agent = card.pop(AGENT, None)
    if agent is None or home is None:
        # as bytes: one text of all would take four times the room where a single character of it is rare
        write_atomic(folder / CORPUS, b"".join(dump_jsonl([row]).encode() for row in corpus_rows(dataset.catalog)))
    else:
        counts = {name: count for name, count in card["counts"].items() if name not in ("items", "types")}
        from_card = Path(os.path.relpath(agent, home.absolute())).as_posix()
        card |= {AGENT: from_card, "counts": counts}  # its items are read anew
    write_atomic(folder / CARD, dump_yaml(card))
    write_atomic(folder / QUERIES, dump_jsonl(query.as_row() for query in dataset.queries))
    optional = {"source": any(i.source for i in dataset.labels), "quote": any(i.quote for i in dataset.labels)}
    columns = [column for column, name in enumerate(QRELS_HEADER) if optional.get(name, True)]
    for split in dataset.split_names:
        labels = (i for q in dataset.queries if q.split == split for i in dataset.labels_of(q.id))
        fields = ((i.query, i.item.id, str(i.grade), i.via, i.alternatives, i.source, i.quote) for i in labels)
        lines = ("\t".join(row[column] for column in columns) for row in (QRELS_HEADER, *fields))
        write_atomic(folder / QRELS / f"{split}.tsv", "".join(f"{line}\n" for line in lines))


def _is_frozen(folder: Path) -> bool:
    """Whether a folder holds a frozen dataset.

    Raises:
        ParameterError: it holds something else than a dataset.
    """
    try:
        is_other = folder.exists() and not (folder / CARD).is_file() and (not folder.is_dir() or any(folder.iterdir()))
    except OSError as error:
        raise StorageError(f"cannot write {folder}: {error.strerror or error}") from error
    if is_other:
        raise ParameterError(f"{folder} is there and is no dataset; expected a new folder, or a dataset to replace")
    return (folder / CARD).is_file() and bool(read_card(folder).get("frozen"))


def _refuse_change(old: Path, new: Path) -> None:
    """Raise if a frozen dataset would change in any byte."""
    names = own_files(old)
    if names != own_files(new) or any(read_bytes(old / name) != read_bytes(new / name) for name in names):
        raise ParameterError(
            f"dataset {old} is frozen (its card says so) and would be changed; write to another folder, or take "
            "`frozen` out of its card and give it a new version"
        )


def copy_other_files(old: Path, new: Path, own_files: Collection[str]) -> None:
    """Copy the files of a dataset's folder that are no part of the dataset.

    Args:
        old: the folder; nothing is copied if it is none.
        new: where to.
        own_files: paths of the dataset's files in the folder.

    Raises:
        StorageError: a file cannot be read or written.
    """
    try:
        for path in sorted(old.rglob("*")) if old.is_dir() else ():
            name = path.relative_to(old)
            if name.as_posix() in own_files or (path.is_dir() and not path.is_symlink()):
                continue
            (new / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, new / name, follow_symlinks=False)
    except OSError as error:
        raise StorageError(f"cannot write {old}: {error.strerror or error}; nothing was changed there") from error
