"""Which line of a dataset's files an item, a query or its labels stand in, for those who are to look at it."""

from __future__ import annotations

from pathlib import Path

from ctxbench.core.errors import Fault, UserError
from ctxbench.data.datasets.layout import QRELS, QUERIES
from ctxbench.io.json_files import iter_jsonl
from ctxbench.sources.catalogs import CORPUS


class DatasetLines:
    """Finds what stands in a dataset's files by its id; each file is read once, when it is first asked for.

    Lines are 1-based; 0 where it is not there, or the file cannot be read: what is looked for is a convenience.
    """

    def __init__(self) -> None:
        self._read: dict[Path, dict[str, int]] = {}

    def item(self, folder: Path, item: str) -> tuple[Path, int]:
        """The catalog of a dataset and the line of an item in it."""
        return self._row(folder / CORPUS, item)

    def query(self, folder: Path, query: str) -> tuple[Path, int]:
        """The queries of a dataset and the line of one of them."""
        return self._row(folder / QUERIES, query)

    def labels(self, folder: Path, query: str) -> tuple[Path, int]:
        """The file of labels in which a query comes first, and the line; the queries and 0 where it has none."""
        for path in sorted((folder / QRELS).glob("*.tsv")):
            if path not in self._read:
                self._read[path] = _first_lines(path)
            if query in self._read[path]:
                return path, self._read[path][query]
        return folder / QUERIES, 0

    def _row(self, path: Path, name: str) -> tuple[Path, int]:
        if path not in self._read:
            self._read[path] = _lines(path)
        return path, self._read[path].get(name, 0)


def _lines(path: Path) -> dict[str, int]:
    """Lines of a file of rows by id."""
    ignored: list[Fault] = []
    try:
        return {str(row.get("_id")): line for line, row in iter_jsonl(path, ignored)}
    except UserError:
        return {}


def _first_lines(path: Path) -> dict[str, int]:
    """The first line of each query in a table of labels."""
    found: dict[str, int] = {}
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return found
    for number, line in enumerate(text.split("\n"), 1):
        found.setdefault(line.split("\t", 1)[0], number)
    return found
