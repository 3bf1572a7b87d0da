"""Whether the evals that a dataset was made of have changed since."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from ctxbench.core.errors import UserError
from ctxbench.data.datasets.layout import read_card
from ctxbench.data.datasets.lookup import user_folder
from ctxbench.io.files import read_bytes


def changed_sources(names: Iterable[str], base: Path) -> Iterator[str]:
    """A sentence for each dataset whose evals have changed since the import, if they are still where its card says."""
    for folder in filter(None, (user_folder(name, base) for name in names)):
        try:
            match read_card(folder).get("source"):
                case {"format": "golden", "sha256": dict(files), "path": str(path)} if (folder / path).is_file():
                    digests = files.get(Path(path).name)
                    if digests not in (None, hashlib.sha256(read_bytes(folder / path)).hexdigest()):
                        yield f"{Path(path).name} has changed since it was imported: import it again"
        except UserError:
            continue  # what cannot be read is said where it is needed
