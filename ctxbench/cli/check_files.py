"""Files that `ctxbench check` writes: whole, behind what is there in a workflow's summary, or into a device."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ctxbench.core.errors import StorageError
from ctxbench.io.files import write_atomic

if TYPE_CHECKING:
    from ctxbench.report.document import Document

SUMMARY = "GITHUB_STEP_SUMMARY"


def write_summary(document: Document, path: Path) -> None:
    """Write the summary; append it if the file is the summary of a workflow's step.

    Raises:
        StorageError: it cannot be written.
    """
    from ctxbench.report.document_markdown import LIMIT, markdown

    if not is_step_summary(path):
        write_file(path, markdown(document))
        return
    try:
        size = path.stat().st_size if path.exists() else 0
        with path.open("ab") as stream:
            stream.write(b"\n" * bool(size) + markdown(document, limit=LIMIT - size - 1).encode())
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error


def is_step_summary(path: Path) -> bool:
    """Whether a file is the summary of a workflow's step, which grows with every step's."""
    step = os.environ.get(SUMMARY, "")
    return bool(step) and path.resolve() == Path(step).resolve()


def write_file(path: Path, text: str) -> None:
    """Write a file atomically; write directly into what is no regular file, such as a pipe or /dev/null.

    Raises:
        StorageError: it cannot be written.
    """
    if not path.exists() or path.is_file():
        write_atomic(path, text)
        return
    try:
        with path.open("w", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
