"""Check that replacing an imported dataset by a new import loses no work of people."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from ctxbench.core.errors import InputError, ParameterError, StorageError
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.data.datasets.layout import ANSWERS, LABELLING, RENAMES
from ctxbench.data.datasets.reader import read_dataset

OTHER = "another dataset"
_SHOWN = 10  # renamed items that a message names


def refuse_loss(folder: Path, *, is_own: Callable[[Dataset], bool], sources: Collection[str]) -> None:
    """Raise if a dataset holds more than an import of the same kind wrote.

    Args:
        folder: of the dataset.
        is_own: whether such an import made it.
        sources: what its labels give as their source; any other label is somebody's work.

    Raises:
        ParameterError: it is frozen, somebody has labelled there (answers that are not in the dataset yet count) or
            renamed items, another import made it, or it cannot be read.
    """
    answers = folder / LABELLING / ANSWERS
    if answers.is_file() and answers.stat().st_size:
        raise loss(folder, f"answers of `data label` ({LABELLING}/{ANSWERS})")
    problem = OTHER
    with suppress(InputError, StorageError):
        dataset = read_dataset(folder)
        unexpected = {label.source for label in dataset.labels} - {*sources, ""}
        if "frozen" in dataset.about:
            problem = "a frozen dataset"
        elif unexpected:
            problem = f"labels by {', '.join(sorted(unexpected))}"
        elif is_own(dataset) and RENAMES in dataset.about:
            raise ParameterError(_renamed(folder, dataset))
        elif is_own(dataset):
            return
    raise loss(folder, problem)


def _renamed(folder: Path, dataset: Dataset) -> str:
    """The way to import anew what follows renamed items, whose old ids the files of the import may still have."""
    pairs = [f"{old.id} is {new.id} now" for old, new in dataset.renames.items()]
    end = f" and {len(pairs) - _SHOWN} more" if len(pairs) > _SHOWN else ""
    return (
        f"{folder} holds labels that follow renamed items ({', '.join(pairs[:_SHOWN])}{end}; `renames` in its card), "
        "which would be lost. To import the edited file in its place: write the new ids where it still has the old "
        f"ones, delete {folder}, and import again; or name another folder"
    )


def loss(folder: Path | str, problem: str) -> ParameterError:
    """The error that a folder holds what would be lost."""
    return ParameterError(f"{folder} holds {problem}, which would be lost; name another folder, or delete it")
