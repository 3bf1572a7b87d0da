"""The layout of a baseline's folder: names of its files, their hashes and format.

```
baseline.json               format, versions, settings of the gate, selectors with their parameters and metrics, figures
                            of the baseline that it replaced, hashes of the other files
vectors.npz                 vectors of the texts that a check needs, if they were asked for
<dataset>/items.jsonl       the catalog, in its order
<dataset>/queries.jsonl     the judged queries, in their order
<dataset>/sessions.jsonl    what several sessions hold, if any does
<dataset>/<selector>.jsonl  what each query is offered, in the order of the queries
```
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from ctxbench.core.errors import StorageError
from ctxbench.gate.snapshots import SHORT
from ctxbench.io.files import file_name
from ctxbench.io.json_files import dump_json

FORMAT = 3  # raised when a reader of the old one would go wrong
MANIFEST, VECTORS = "baseline.json", "vectors.npz"
ITEMS, QUERIES, SESSIONS = "items.jsonl", "queries.jsonl", "sessions.jsonl"
GATE = "gate.yaml"  # the gate file where nothing else is named
_FOREIGN = {"dataset.yaml": "a dataset", "manifest.json": "a run", "timings.json": "a run"}


_gate: ContextVar[Path] = ContextVar("gate", default=Path(GATE))


@contextmanager
def gate_file_in_messages(gate: Path) -> Iterator[None]:
    """Within it, messages name the command that accepts the baseline of a gate file."""
    token = _gate.set(gate)
    try:
        yield
    finally:
        _gate.reset(token)


def accept_command(*options: str) -> str:
    """The command that accepts the baseline of the current gate file, in backticks."""
    gate = _gate.get()
    return f"`{shlex.join(['ctxbench', 'check', *([] if gate == Path(GATE) else [str(gate)]), '--accept', *options])}`"


def answers_file(selector: str) -> str:
    """The name of the file of a selector's answers, which no other selector or file of a dataset has."""
    name = f"{file_name(selector)}.jsonl"
    return f"%{ord(name[0]):02X}{name[1:]}" if name in (ITEMS, QUERIES, SESSIONS) else name


def dataset_file(dataset: str, name: str) -> str:
    """The path of a file of a dataset in the folder of the baseline."""
    return f"{file_name(dataset)}/{name}"


def file_hash(data: bytes) -> str:
    """The first `SHORT` hex digits of SHA-256; line ends that git made CRLF count as LF."""
    return hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()[:SHORT]


def manifest_hash(head: Mapping[str, Any]) -> str:
    """Hash of everything in `baseline.json` but this hash itself."""
    return file_hash(dump_json({key: value for key, value in head.items() if key != "hash"}).encode())


def figures_of(head: Mapping[str, Any]) -> dict[str, Any]:
    """What a later baseline keeps of a manifest: the settings of its gate, and its figures."""
    datasets = {
        dataset: {
            "queries": about["queries"],
            "selectors": {
                selector: {"metrics": {metric: {"mean": row.get("mean")} for metric, row in facts["metrics"].items()}}
                for selector, facts in about["selectors"].items()
            },
        }
        for dataset, about in head["datasets"].items()
    }
    return {"settings": head["settings"], "datasets": datasets}


def other_content(folder: Path) -> str:
    """What a folder holds if it is no baseline: `a dataset`, `a run`, `no folder` ...; else empty.

    Raises:
        StorageError: it cannot be looked at, or is a baseline that has lost its manifest.
    """
    try:
        if not folder.exists():
            return ""
        if not folder.is_dir():
            return "a file"
        names = {path.name for path in folder.iterdir()}
    except OSError as error:
        raise StorageError(
            f"cannot read {folder}: {error.strerror or error}; expected the folder of a baseline"
        ) from error
    for name, kind in _FOREIGN.items():
        if name in names:
            return f"the folder of {kind}"
    if MANIFEST not in names and (VECTORS in names or next(folder.glob(f"*/{ITEMS}"), None)):
        how = f"bring it back from git, or delete the folder and accept again ({accept_command()})"
        raise StorageError(f"{folder / MANIFEST} is missing; {how}")
    return "a folder of something else" if names and MANIFEST not in names else ""
