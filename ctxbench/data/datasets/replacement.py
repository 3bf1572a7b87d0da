"""Whether the dataset that an import made may be replaced by a new import: not where people's work would be lost."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from ctxbench.core.errors import InputError, ParameterError, StorageError
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.data.datasets.layout import ANSWERS, LABELLING, RENAMES
from ctxbench.data.datasets.reader import read_dataset

OTHER = "another dataset"


def refuse_loss(folder: Path, *, made: Callable[[Dataset], bool], sources: Collection[str]) -> None:
    """Refuse to replace a dataset that holds more than an import of the same kind wrote.

    Args:
        folder: of the dataset.
        made: whether such an import made it.
        sources: what its labels give as their source; any other label is somebody's work.

    Raises:
        ParameterError: it is frozen, somebody has labelled there (answers that are not in the dataset yet count) or
            renamed items, another import made it, or it cannot be read.
    """
    answers = folder / LABELLING / ANSWERS
    if answers.is_file() and answers.stat().st_size:
        raise loss(folder, f"answers of `data label` ({LABELLING}/{ANSWERS})")
    what = OTHER
    with suppress(InputError, StorageError):
        dataset = read_dataset(folder)
        others = {label.source for label in dataset.labels} - {*sources, ""}
        if "frozen" in dataset.about:
            what = "a frozen dataset"
        elif others:
            what = f"labels by {', '.join(sorted(others))}"
        elif made(dataset) and RENAMES in dataset.about:
            what = "labels that follow renamed items (`renames` in its card)"
        elif made(dataset):
            return
    raise loss(folder, what)


def loss(folder: Path | str, what: str) -> ParameterError:
    """The error that a folder holds what would be lost."""
    return ParameterError(f"{folder} holds {what}, which would be lost; name another folder, or delete it")
