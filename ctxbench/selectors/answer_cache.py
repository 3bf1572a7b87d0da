"""Answers kept on disk under the build id of the selector that gave them."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from pathlib import Path
from typing import Any, cast

from ctxbench.core.requests import Batch
from ctxbench.io.cache import checksum
from ctxbench.io.leftovers import make_folder
from ctxbench.selectors.protocol import MalformedError, catalog_hash, loads

_log = logging.getLogger(__name__)


class AnswerCache:
    """Answers by catalog, request and repeat, in a file of JSON lines that only grows.

    Each record starts with the checksum of the rest of its line; one that does not fit is ignored and reported. How
    many were reported is a record, too, so that each is reported once.
    A record is written with one system call behind a line end of its own, so that a process that is killed spoils
    no record but the one that it is writing. Several processes may write at once.
    """

    def __init__(self, path: Path) -> None:
        """Read what is there; a missing file is an empty cache, and `unwritable` says why another cannot be read."""
        self._path = path
        self.unwritable = ""
        try:
            lines = path.read_bytes().split(b"\n")
        except FileNotFoundError:
            lines = []
        except OSError as error:
            lines = []
            self.unwritable = error.strerror or type(error).__name__
        written = [line for line in lines[:-1] if line]  # behind the last line end somebody may be writing
        records = [record for line in written if (record := self._record(line)) is not None]
        answer_records = [record for record in records if "said" not in record]
        self._answers: dict[str, Any] = {
            record["key"]: record["answer"] for record in answer_records
        }  # the last one of a key
        failed = len(written) - len(records)
        if failed > max((record["said"] for record in records if "said" in record), default=0):
            count = f"{failed:,} of {failed + len(answer_records):,} answers in {path}"
            _log.warning("%s did not fit their checksums; they are asked for again", count)
            self._append({"said": failed})

    @classmethod
    def of(cls, folder: Path, identity: str) -> AnswerCache:
        """The cache of one selector and build.

        Args:
            folder: where such caches are, `cache_dir() / "answers"`.
            identity: everything that decides the answers; only its SHA-256 is used.
        """
        return cls(folder / f"{hashlib.sha256(identity.encode('utf-8', 'surrogatepass')).hexdigest()}-2.jsonl")

    def get(self, batch: Batch, row: int, repeat: int) -> Any:
        """The answer kept for a request, or None."""
        return self._answers.get(_key(batch, row, repeat))

    def put(self, batch: Batch, row: int, repeat: int, answer: Any) -> None:
        """Keep an answer. If the disk is full or read-only, `unwritable` says so, and no more is written."""
        key = _key(batch, row, repeat)
        if self.unwritable or key in self._answers:
            return
        self._answers[key] = answer
        self._append({"key": key, "answer": answer})

    def _append(self, record: dict[str, Any]) -> None:
        rest = json.dumps(record, ensure_ascii=True, separators=(",", ":")).encode("ascii")[1:]
        try:
            make_folder(self._path.parent)
            handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(handle, b"\n" + self._start(rest) + rest + b"\n")
            finally:
                os.close(handle)
        except OSError as error:
            self.unwritable = error.strerror or type(error).__name__

    def _record(self, line: bytes) -> dict[str, Any] | None:
        """What a line holds; None if it is not as it was written, or nested too deep to be read."""
        start = len(self._start(b""))
        if line[:start] != self._start(line[start:]):
            return None
        try:
            return cast("dict[str, Any]", loads(line))
        except MalformedError:
            return None

    def _start(self, rest: bytes) -> bytes:
        """What the line of a record starts with: a checksum of the rest, and of whose answers the file holds."""
        return b'{"checksum":"%s",' % checksum(self._path.name, rest).encode()


def _key(batch: Batch, row: int, repeat: int) -> str:
    parts = [catalog_hash(batch, row), batch.requests[row].as_dict(), repeat]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode("ascii")).hexdigest()
