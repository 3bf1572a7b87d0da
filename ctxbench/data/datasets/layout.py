"""The files of a dataset, in BEIR's layout: `corpus.jsonl`, `queries.jsonl`, `qrels/<split>.tsv`, `dataset.yaml`."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ctxbench.io.files import read_bytes
from ctxbench.sources.catalogs import CORPUS

CARD, QUERIES, QRELS = "dataset.yaml", "queries.jsonl", "qrels"
ABOUT = ("licence", "source", "labelling", "notes", "frozen")
CARD_FIELDS = ("format", "name", "version", *ABOUT, "counts", "scopes")
QRELS_HEADER = ("query-id", "corpus-id", "score", "via", "alternatives", "source", "quote")


def own_files(folder: Path) -> set[str]:
    """Paths of the files of a dataset, relative to its folder; the required ones whether they exist or not."""
    return {CARD, CORPUS, QUERIES, *(f"{QRELS}/{path.name}" for path in (folder / QRELS).glob("*.tsv"))}


def files_hash(folder: Path) -> str:
    """SHA-256 over the files that a dataset is read from, byte for byte, as 64 hex digits.

    Raises:
        StorageError: one is missing or cannot be read.
    """
    digest = hashlib.sha256()
    for name in sorted(own_files(folder)):
        data = read_bytes(folder / name)
        digest.update(f"{name} {len(data)}\n".encode() + data)
    return digest.hexdigest()
