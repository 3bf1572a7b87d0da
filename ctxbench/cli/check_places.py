"""Where what a check is about stands: pins, selectors, items and queries, with their lines."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctxbench.gate.gate import GateCheck
    from ctxbench.report.gate.places import Place, Places


def find_places(done: GateCheck) -> Places:
    """Where pins, selectors, items and queries stand, as far as that is in the repository."""
    from ctxbench.data.datasets.layout import DatasetLines
    from ctxbench.data.datasets.lookup import dataset_folder
    from ctxbench.io.yaml_files import line_of
    from ctxbench.report.gate.places import Places

    experiment, references, lines = done.file.experiment, done.references, DatasetLines()

    def finding(find: Callable[[Path, str], tuple[Path, int]]) -> Callable[[str, str], Place]:
        def found(dataset: str, name: str) -> Place:
            own = experiment.base / references[dataset]
            path, line = find(own if own.is_dir() else dataset_folder(references[dataset]), name)
            return in_repository(path), line

        return found

    return Places(
        gate=in_repository(done.file.path),
        selectors={one.name: one.line for one in experiment.selectors},
        embedder=line_of(experiment.lines, ("embedder",)),
        item=finding(lines.item),
        query=finding(lines.query),
        labels=finding(lines.labels),
    )


def in_repository(path: Path) -> str:
    """The path from the root of the checkout, or from here; empty for a file elsewhere."""
    root, found = Path(os.environ.get("GITHUB_WORKSPACE") or ".").resolve(), path.resolve()
    return found.relative_to(root).as_posix() if found.is_relative_to(root) else ""
