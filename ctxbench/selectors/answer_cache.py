"""Answers kept on disk under the build id of the selector that gave them."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from ctxbench.requests import Batch
from ctxbench.selectors.protocol import MalformedError, loads


class AnswerCache:
    """Answers by catalog, request and repeat, in a file of JSON lines that only grows.

    A record is written with one system call behind a line end of its own, so that a process that is killed spoils
    no record but the one that it is writing, and that one is passed over. Several processes may write at once.
    """

    def __init__(self, path: Path) -> None:
        """Read what is there; a missing file is an empty cache, and `unwritable` says why another cannot be read."""
        self._path = path
        self._kept: dict[str, Any] = {}
        self.unwritable = ""
        try:
            lines = path.read_bytes().split(b"\n")
        except FileNotFoundError:
            lines = []
        except OSError as error:
            lines = []
            self.unwritable = error.strerror or type(error).__name__
        for line in lines:
            record = _record(line)
            if record is not None:
                self._kept[record["key"]] = record["answer"]

    @classmethod
    def of(cls, folder: Path, identity: str) -> AnswerCache:
        """The cache of one selector and build.

        Args:
            folder: where such caches are, `cache_dir() / "answers"`.
            identity: everything that decides the answers; only its SHA-256 is used.
        """
        return cls(folder / f"{hashlib.sha256(identity.encode('utf-8', 'surrogatepass')).hexdigest()}.jsonl")

    def get(self, batch: Batch, row: int, repeat: int) -> Any:
        """The answer kept for a request, or None."""
        return self._kept.get(_key(batch, row, repeat))

    def put(self, batch: Batch, row: int, repeat: int, answer: Any) -> None:
        """Keep an answer. If the disk is full or read-only, `unwritable` says so, and no more is written."""
        key = _key(batch, row, repeat)
        if self.unwritable or key in self._kept:
            return
        self._kept[key] = answer
        record = json.dumps({"key": key, "answer": answer}, ensure_ascii=True, separators=(",", ":"))
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(handle, b"\n" + record.encode("ascii") + b"\n")
            finally:
                os.close(handle)
        except OSError as error:
            self.unwritable = error.strerror or type(error).__name__


def _key(batch: Batch, row: int, repeat: int) -> str:
    parts = [batch.catalog.hash, batch.requests[row].as_dict(), repeat]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode("ascii")).hexdigest()


def _record(line: bytes) -> dict[str, Any] | None:
    """A record, or None for an empty line and for one that a killed process left behind."""
    if not line:
        return None
    try:
        record = loads(line)
    except MalformedError:
        return None
    whole = isinstance(record, dict) and isinstance(record.get("key"), str) and "answer" in record
    return record if whole else None
