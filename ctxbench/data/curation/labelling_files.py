"""Copy the files of labelling from a dataset's folder to that of a dataset that was made of it.

The weights say that a label queue drew the queries, which the figures of a run must tell; they follow in any case. The
log of answers, the queue and what a log says was offered are about certain items: they follow where queries, labels and
catalog are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ctxbench.data.labelling.query_files import EXPOSURE, FOLDER, LOG, WEIGHTS
from ctxbench.io.files import read_bytes, write_atomic


@dataclass(frozen=True, slots=True, kw_only=True)
class LabellingCopy:
    """The files of labelling that were copied, and those that were not; empty if there are none.

    Attributes:
        copied: those that are in the new folder now.
        left_out: those that are not.
        own_answers: whether nothing was copied because the new folder holds answers of its own.
    """

    copied: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    own_answers: bool = False

    def as_dict(self) -> dict[str, list[str]]:
        """The names as JSON."""
        return {"carried": list(self.copied), "left_out": list(self.left_out)}

    def lines(self) -> list[str]:
        """What was copied and what was not, one line each."""
        copied = [f"carried along: {', '.join(self.copied)}"] if self.copied else []
        why = "the folder holds answers of its own" if self.own_answers else "they are about the catalog as it was"
        return copied + ([f"left out, since {why}: {', '.join(self.left_out)}"] if self.left_out else [])


def copy_labelling(source: Path, target: Path, *, answers: bool) -> LabellingCopy:
    """Copy the files of labelling from one dataset's folder to another's; nothing if the two are one.

    Args:
        source: the folder of the dataset that was labelled.
        target: the folder of the dataset made of it, with the same query ids.
        answers: also the log of answers and the queue, not the weights alone.

    Raises:
        StorageError: a file cannot be read or written.
    """
    folder = source / FOLDER
    files = {f"{FOLDER}/{path.name}": path for path in sorted(folder.glob("*")) if path.is_file()}
    if (source / EXPOSURE).is_file():
        files[EXPOSURE] = source / EXPOSURE
    if not files or source.resolve() == target.resolve():
        return LabellingCopy()
    log = _log(source) if answers else b""
    if not log.startswith(_log(target)):  # else what is there is nothing, or an earlier copy
        return LabellingCopy(left_out=tuple(files), own_answers=True)
    copied = tuple(name for name in files if answers or name == str(WEIGHTS))
    for name in copied:
        write_atomic(target / name, read_bytes(files[name]))
    return LabellingCopy(copied=copied, left_out=tuple(name for name in files if name not in copied))


def _log(folder: Path) -> bytes:
    path = folder / FOLDER / LOG
    return read_bytes(path) if path.is_file() else b""
