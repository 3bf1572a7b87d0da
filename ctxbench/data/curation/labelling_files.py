"""Copy the files of labelling from a dataset's folder to that of a dataset that was made of it.

The weights say that a label queue drew the queries, which the figures of a run must tell; they follow in any case. The
log of answers, the queue and what a log says was offered are about certain items: they follow where queries, labels and
catalog are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ctxbench.data.labelling.answers import FOLDER, LOG
from ctxbench.data.labelling.exposure import EXPOSURE
from ctxbench.data.labelling.weights import WEIGHTS
from ctxbench.io.files import read_bytes, write_atomic


@dataclass(frozen=True, slots=True, kw_only=True)
class LabellingCopy:
    """The files of labelling that were copied, and those that were not; empty if there are none.

    Attributes:
        carried: those that are in the new folder now.
        left_out: those that are not.
        kept: whether nothing was carried because the new folder holds answers of its own, which stay as they are.
    """

    carried: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    kept: bool = False

    def as_dict(self) -> dict[str, list[str]]:
        """The names as JSON."""
        return {"carried": list(self.carried), "left_out": list(self.left_out)}

    def lines(self) -> list[str]:
        """What to tell, one line each."""
        carried = [f"carried along: {', '.join(self.carried)}"] if self.carried else []
        why = "the folder holds answers of its own" if self.kept else "they are about the catalog as it was"
        return carried + ([f"left out, since {why}: {', '.join(self.left_out)}"] if self.left_out else [])


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
    there = {f"{FOLDER}/{path.name}": path for path in sorted(folder.glob("*")) if path.is_file()}
    if (source / EXPOSURE).is_file():
        there[EXPOSURE] = source / EXPOSURE
    if not there or source.resolve() == target.resolve():
        return LabellingCopy()
    log = _log(source) if answers else b""
    if not log.startswith(_log(target)):  # else what is there is nothing, or an earlier copy
        return LabellingCopy(left_out=tuple(there), kept=True)
    wanted = tuple(name for name in there if answers or name == str(WEIGHTS))
    for name in wanted:
        write_atomic(target / name, read_bytes(there[name]))
    return LabellingCopy(carried=wanted, left_out=tuple(name for name in there if name not in wanted))


def _log(folder: Path) -> bytes:
    path = folder / FOLDER / LOG
    return read_bytes(path) if path.is_file() else b""
