"""The lines that the commits of a history changed; git is run once for each commit, and the result is stored."""

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
    keys = {commit.sha: hashlib.sha256(f"{_FORM}\0{commit.sha}".encode()).digest() for commit in line}
    rows = OptionalRows(cache_dir() / "hunks-1.sqlite", "hunks")
    hunks: dict[tuple[str, str], Sequence[LineHunk]] = {}
    try:
        stored = rows.get(keys.values())
        for value in stored.values():
            hunks |= {(old, new): [LineHunk(*fields) for fields in some] for old, new, some in json.loads(value)}
        uncached = [
            commit for commit in line if commit.parents and commit.changes and keys[commit.sha] not in stored
        ]  # as far as is known
        if uncached:
            computed: dict[str, Hunks] = {commit.sha: {} for commit in uncached}
            computed |= repository.hunks(uncached)
            rows.put({keys[sha]: _to_json(some) for sha, some in computed.items()})
            for some in computed.values():
                hunks |= some
    finally:
        rows.close()
    return hunks


def _to_json(hunks: Hunks) -> bytes:
    return json.dumps([[old, new, some] for (old, new), some in hunks.items()], separators=(",", ":")).encode()
