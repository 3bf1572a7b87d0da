"""The files of a dataset, in BEIR's layout: `corpus.jsonl`, `queries.jsonl`, `qrels/<split>.tsv`, `dataset.yaml`.

Where the card names an agent file, the items are what the agent has now, and there is no `corpus.jsonl`; which ones it
had when the dataset was made stands in `items.txt`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from ctxbench.core.errors import UserError
from ctxbench.io.files import read_bytes, read_text, write_atomic
from ctxbench.io.json_files import iter_jsonl
from ctxbench.io.yaml_files import load_yaml
from ctxbench.sources.agent_file import read_agent
from ctxbench.sources.catalogs import CORPUS
from ctxbench.sources.former_places import former_place

CARD, QUERIES, QRELS = "dataset.yaml", "queries.jsonl", "qrels"
AGENT, RENAMES = "agent", "renames"
DROPPED = "dropped"  # ids of items that were gone, and how many labels a rebase dropped with each
KNOWN = "items.txt"  # of a dataset over an agent: the ids that the agent had when it was made or last rebased
LABELLING, ANSWERS = "labelling", "answers.jsonl"  # a folder next to them, and its log of answers
ABOUT = ("licence", "source", "labelling", "notes", "frozen", RENAMES, DROPPED, AGENT)
CARD_FIELDS = ("format", "name", "version", *ABOUT, "counts", "scopes")
QRELS_HEADER = ("query-id", "corpus-id", "score", "via", "alternatives", "source", "quote")


def own_files(folder: Path) -> set[str]:
    """Paths of the files of a dataset, relative to its folder; the required ones whether they exist or not."""
    corpus = () if agent_of(folder) else (CORPUS,)
    return {CARD, *corpus, QUERIES, *(f"{QRELS}/{path.name}" for path in (folder / QRELS).glob("*.tsv"))}


def near_folder(requested: Path | str, *bases: Path) -> str:
    """'; did you mean ...?' for a dataset's folder with a similar name; empty if there is none.

    Args:
        requested: the path that was not found; a folder below `datasets` of just that name comes first.
        bases: folders that it may be relative to; none = the working directory.
    """
    path, candidates = Path(requested), dict[str, Path]()
    for parent in [parent for base in bases or (Path(),) for parent in (base / "datasets", base / path.parent)]:
        with suppress(OSError):
            for folder in sorted(card.parent for card in parent.glob(f"*/{CARD}")):
                candidates.setdefault(folder.name, folder)
    close = get_close_matches(path.name, candidates, n=1, cutoff=0.7)
    return f"; did you mean {candidates[close[0]].as_posix()!r}?" if close else ""


def read_card(folder: Path) -> Mapping[str, Any]:
    """The card of a dataset; empty if the file holds no mapping.

    Raises:
        StorageError, InputError: it cannot be read.
    """
    card, _ = load_yaml(folder / CARD)
    return card if isinstance(card, Mapping) else {}


def agent_of(folder: Path) -> Path | None:
    """The agent file that a dataset's card names; None where it names none, or cannot be read."""
    try:
        name = read_card(folder).get(AGENT)
    except UserError:
        return None
    return Path(os.path.normpath(folder / name)) if isinstance(name, str) and name else None


def known_items(folder: Path) -> frozenset[str] | None:
    """The ids that a dataset's agent had when it was made or last rebased; None if they were not written."""
    if agent_of(folder) is None or not (folder / KNOWN).is_file():
        return None
    return frozenset(filter(None, read_text(folder / KNOWN).splitlines()))


def write_known_items(folder: Path, items: Iterable[str] | None) -> None:
    """Write the ids of the items of a dataset's agent; does nothing if it has none, or they are unknown.

    They are no part of the dataset: they only tell which items are new since.
    """
    if items is not None and agent_of(folder) is not None:
        write_atomic(folder / KNOWN, "".join(f"{item}\n" for item in sorted(items)))


def files_hash(folder: Path) -> str:
    """SHA-256 over the files that a dataset is read from, byte for byte, as 64 hex digits.

    Of an agent file the items count that the agent has.

    Raises:
        StorageError: one is missing or cannot be read.
        InputError: the agent's sources are faulty.
    """
    digest = hashlib.sha256()
    for name in sorted(own_files(folder)):
        data = read_bytes(folder / name)
        digest.update(f"{name} {len(data)}\n".encode() + data)
    if (agent := agent_of(folder)) is not None:
        has_corpus = (folder / CORPUS).exists()  # a fault, which whoever reads the dataset says
        digest.update(f"{AGENT} {read_agent(agent).catalog().hash} {has_corpus}\n".encode())
    return digest.hexdigest()


class DatasetLines:
    """Lines in the files of datasets, by id; each file is read once, when it is first needed.

    Lines are 1-based; 0 where the id is not in the file, or the file cannot be read: a line is a convenience.
    """

    def __init__(self) -> None:
        self._lines_of = cache(_lines_of)
        self._places_of = cache(_places_of)

    def item(self, folder: Path, item: str, former: str = "") -> tuple[Path, int]:
        """The catalog of a dataset and the line of an item in it.

        Of an agent's item it is the file that it comes from; of one that the agent no longer has, the file that it
        came from, or the configuration of its server; `former` is the path that its metadata gave.
        """
        if (agent := agent_of(folder)) is not None:
            return self._places_of(agent).get(item) or _former_place(agent, item, former)
        return folder / CORPUS, self._lines_of(folder / CORPUS).get(item, 0)

    def query(self, folder: Path, query: str) -> tuple[Path, int]:
        """The path of a dataset's queries, and the line of one of them."""
        return folder / QUERIES, self._lines_of(folder / QUERIES).get(query, 0)

    def labels(self, folder: Path, query: str, item: str = "") -> tuple[Path, int]:
        """The file and the line of a query's label of an item, else of its first label, else its queries and 0."""
        for name in (f"{query}\t{item}", query):
            for path in sorted((folder / QRELS).glob("*.tsv")):
                if line := self._lines_of(path).get(name):
                    return path, line
        return folder / QUERIES, 0


def _places_of(agent: Path) -> Mapping[str, tuple[Path, int]]:
    try:
        return read_agent(agent).locations()
    except UserError:
        return {}


def _former_place(agent: Path, item: str, path: str) -> tuple[Path, int]:
    """The former location of an item that the agent no longer has; the agent file if that cannot be read."""
    try:
        return former_place(read_agent(agent), item, path)
    except UserError:
        return agent, 0


def _lines_of(path: Path) -> Mapping[str, int]:
    """The line of each row of a file by id; of a file of labels, of each query and item, and the first of a query."""
    try:
        if path.suffix != ".tsv":
            return {str(row.get("_id")): line for line, row in iter_jsonl(path, [])}
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except (UserError, OSError):
        return {}
    line_by_name: dict[str, int] = {}
    for number, line in reversed(list(enumerate(lines, 1))):
        names = line.split("\t")[:2]
        line_by_name["\t".join(names)] = line_by_name[names[0]] = number
    return line_by_name
