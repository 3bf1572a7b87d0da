"""Which line of a dataset's catalog an item stands in, for those who are to look at it."""

from __future__ import annotations

from pathlib import Path

from ctxbench.errors import Fault, UserError
from ctxbench.jsonio import iter_jsonl
from ctxbench.sources.catalogs import CORPUS


class ItemLines:
    """Finds items in `corpus.jsonl` by their ids; each file is read once, when it is first asked for."""

    def __init__(self) -> None:
        self._read: dict[Path, dict[str, int]] = {}

    def find(self, folder: Path, item: str) -> tuple[Path, int]:
        """The catalog of a dataset and the 1-based line of an item in it; 0 where it is not there."""
        path = folder / CORPUS
        if path not in self._read:
            self._read[path] = _lines(path)
        return path, self._read[path].get(item, 0)


def _lines(path: Path) -> dict[str, int]:
    """Lines by id; none of a file that cannot be read: what is looked for is a convenience."""
    ignored: list[Fault] = []
    try:
        return {str(row.get("_id")): line for line, row in iter_jsonl(path, ignored)}
    except UserError:
        return {}
