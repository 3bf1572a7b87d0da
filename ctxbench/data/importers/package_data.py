"""The small datasets that are part of the package."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from ctxbench.core.errors import StorageError, UnknownNameError
from ctxbench.core.installation import install_command
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.data.datasets.reader import read_dataset

_PACKAGE = Path(__file__).parents[2]
_FOLDERS = (_PACKAGE / "shipped_datasets", _PACKAGE.parent / "datasets")  # of a wheel, and of the repository


class PackageData:
    """`smoke`, a front desk's 24 items and 30 requests; `workbench`, `freight` and `diary`, a few hundred of each.

    A language model wrote and labelled them, as their cards say: they are for a first look, notebooks and tests.
    """

    provides: ClassVar[tuple[str, ...]] = ("smoke", "workbench", "freight", "diary")
    version: ClassVar[str] = "1"

    @property
    def install(self) -> str:
        """The command that puts them there."""
        return install_command(reinstall=True)

    def available(self) -> bool:
        """Whether their files are there."""
        return all(self._folder(name) is not None for name in self.provides)

    def load(self, name: str) -> Dataset:
        """Read one of the datasets.

        Raises:
            UnknownNameError: it is another name.
            StorageError: the files are missing.
        """
        if name not in self.provides:
            raise UnknownNameError("shipped dataset", name, self.provides)
        folder = self._folder(name)
        if folder is None:
            raise StorageError(f"the files of dataset {name} are missing from the package; run `{self.install}`")
        return read_dataset(folder)

    def _folder(self, name: str) -> Path | None:
        return next((folder / name for folder in _FOLDERS if (folder / name / "dataset.yaml").is_file()), None)
