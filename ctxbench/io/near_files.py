"""Which file was meant by a path where none is."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

_ENDINGS = (".yaml", ".yml", ".json", ".jsonl")
_CLOSE = 0.8


def suggest_file(missing: Path) -> str:
    """'; did you mean ...?' for a file beside it with nearly its name; empty where there is none.

    Endings do not count, since many files share them: `gate.yml` is near `gate.yaml`, `a.yaml` is not near `b.yaml`.
    """
    try:
        names = [
            path.name
            for path in missing.parent.iterdir()
            if path.suffix in (*_ENDINGS, missing.suffix) and path != missing
        ]
    except (OSError, ValueError):
        return ""
    stems = {Path(name).stem: name for name in sorted(names, key=lambda name: name.endswith(missing.suffix))}
    close = get_close_matches(missing.stem, stems, n=1, cutoff=_CLOSE)
    return f"; did you mean {str(missing.with_name(stems[close[0]]))!r}?" if close else ""
