"""A git repository for tests: commits with dates of their own, whatever the user's settings are."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path


class Checkout:
    """A repository with a checkout."""

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root = root
        self.run("init", "--quiet", "--initial-branch=main")

    def run(self, *words: str, date: str = "2026-01-01T00:00:00+00:00") -> str:
        """Run git; what it printed."""
        who = ("-c", "user.name=A", "-c", "user.email=a@b.example", "-c", "commit.gpgSign=false")
        env = {**os.environ, "GIT_COMMITTER_DATE": date, "GIT_AUTHOR_DATE": date}
        done = subprocess.run(
            ["git", *who, *words], cwd=self.root, env=env, check=True, capture_output=True, text=True, timeout=60
        )
        return done.stdout.strip()

    def commit(self, message: str, *, day: int = 1) -> str:
        """Commit all there is on a day of January; the hash."""
        date = f"2026-01-{day:02d}T10:00:00+00:00"
        self.run("add", "--all", date=date)
        self.run("commit", "--quiet", "--allow-empty", "-m", message, date=date)
        return self.run("rev-parse", "HEAD")


def written(root: Path, history: Iterable[tuple[str, Mapping[str, str | None]]]) -> Checkout:
    """A repository of commits, the nth on day n of January: a message, and texts by path; None = deleted."""
    found = Checkout(root)
    for day, (message, files) in enumerate(history, 1):
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).unlink() if text is None else (root / name).write_text(text, encoding="utf-8")
        found.commit(message, day=day)
    return found
