"""Which lines the commits of a history changed: asked of git once for each commit, and kept on disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from ctxbench.io.cache import cache_dir
from ctxbench.io.checked_rows import OptionalRows
from ctxbench.sources.repository.git_reader import GitRepository, Hunks, LineCommit, LineHunk

_FORM = "2"  # goes up with whatever changes the hunks of a commit


def line_hunks(repository: GitRepository, line: Sequence[LineCommit]) -> Hunks:
    """The lines that commits changed; of a partial clone, which may lack the files, nothing.

    They are kept in `hunks-1.sqlite` of the cache folder, by commit. Where nothing can be read or written there, git
    is asked each time.

    Raises:
        StorageError: the repository is damaged.
    """
    if repository.partial:
        return {}
    keys = {one.sha: hashlib.sha256(f"{_FORM}\0{one.sha}".encode()).digest() for one in line}
    rows = OptionalRows(cache_dir() / "hunks-1.sqlite", "hunks")
    found: dict[tuple[str, str], Sequence[LineHunk]] = {}
    try:
        kept = rows.get(keys.values())
        for value in kept.values():
            found |= {(old, new): [LineHunk(*one) for one in some] for old, new, some in json.loads(value)}
        asked = [one for one in line if one.parents and one.changes and keys[one.sha] not in kept]  # as far as is known
        if asked:
            made: dict[str, Hunks] = {one.sha: {} for one in asked}
            made |= repository.hunks(asked)
            rows.put({keys[sha]: _to_json(some) for sha, some in made.items()})
            for some in made.values():
                found |= some
    finally:
        rows.close()
    return found


def _to_json(hunks: Hunks) -> bytes:
    return json.dumps([[old, new, some] for (old, new), some in hunks.items()], separators=(",", ":")).encode()
