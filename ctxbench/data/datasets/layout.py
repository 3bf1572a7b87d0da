"""The files of a dataset, in BEIR's layout: `corpus.jsonl`, `queries.jsonl`, `qrels/<split>.tsv`, `dataset.yaml`.

Where the card names an agent file, the items are what the agent has now, and there is no `corpus.jsonl`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from ctxbench.core.errors import UserError
from ctxbench.io.files import read_bytes
from ctxbench.io.yaml_files import load_yaml
from ctxbench.sources.agent_file import read_agent
from ctxbench.sources.catalogs import CORPUS

CARD, QUERIES, QRELS = "dataset.yaml", "queries.jsonl", "qrels"
AGENT = "agent"
ABOUT = ("licence", "source", "labelling", "notes", "frozen", AGENT)
CARD_FIELDS = ("format", "name", "version", *ABOUT, "counts", "scopes")
QRELS_HEADER = ("query-id", "corpus-id", "score", "via", "alternatives", "source", "quote")


def own_files(folder: Path) -> set[str]:
    """Paths of the files of a dataset, relative to its folder; the required ones whether they exist or not."""
    corpus = () if agent_of(folder) else (CORPUS,)
    return {CARD, *corpus, QUERIES, *(f"{QRELS}/{path.name}" for path in (folder / QRELS).glob("*.tsv"))}


def agent_of(folder: Path) -> Path | None:
    """The agent file that a dataset's card names; None where it names none, or cannot be read."""
    try:
        card, _ = load_yaml(folder / CARD)
    except UserError:
        return None
    name = card.get(AGENT) if isinstance(card, Mapping) else None
    return Path(os.path.normpath(folder / name)) if isinstance(name, str) and name else None


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
        beside = (folder / CORPUS).exists()  # a fault, which whoever reads the dataset says
        digest.update(f"{AGENT} {read_agent(agent).catalog().hash} {beside}\n".encode())
    return digest.hexdigest()
