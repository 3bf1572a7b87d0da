"""The interface of importers: an importer makes datasets of what their owner has published."""

from __future__ import annotations

from typing import ClassVar, Protocol

from ctxbench.data.datasets.dataset import Dataset


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
