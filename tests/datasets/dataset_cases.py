"""A folder to damage, and how tests damage it."""

from __future__ import annotations

from pathlib import Path

TINY = Path(__file__).parents[1] / "fixtures" / "tiny"


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times"
    path.write_text(text.replace(old, new), encoding="utf-8")
