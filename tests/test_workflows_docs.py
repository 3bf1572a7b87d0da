"""Workflows that are shown or shipped run the actions that were looked at: named by commit, the version beside it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("ctxbench", "datasets", "experiments", "notebooks", "reports")
READ = {".yml", ".yaml", ".md", ".html", ".j2", ".py", ".txt", ".ipynb"}
USES = re.compile(r"^\W*uses:[ \t]*(\S+@.*)$", re.MULTILINE)
PINNED = re.compile(r"[\w-]+/[\w./-]+@[0-9a-f]{40} +# v[0-9]+\.[0-9]+\.[0-9]+")


def test_every_action_is_pinned_by_commit_with_its_version_beside_it():
    paths = [*ROOT.glob("*.md"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))]
    found = {
        uses: path
        for path in paths
        if path.suffix in READ and path.is_file()
        for uses in USES.findall(path.read_text("utf-8", errors="replace"))
    }
    assert {uses.partition("@")[0] for uses in found} >= {f"actions/{name}" for name in ("checkout", "setup-python")}
    placeholders = {uses for uses in found if uses.startswith("OWNER/") and uses.endswith("@COMMIT")}
    assert {uses: path for uses, path in found.items() if not PINNED.fullmatch(uses)}.keys() == placeholders
