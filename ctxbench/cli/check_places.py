"""Where what a check is about stands: pins, selectors, items and queries, with their lines."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctxbench.gate.gate import GateCheck
    from ctxbench.report.gate.places import Place, Places


def find_places(done: GateCheck) -> Places:
    """Where pins, selectors, items and queries stand, as far as that is in the repository."""
    from ctxbench.cli.front_matter_lines import edited_line
    from ctxbench.data.datasets.layout import DatasetLines
    from ctxbench.data.datasets.lookup import dataset_folder
    from ctxbench.io.yaml_files import line_of
    from ctxbench.report.gate.places import Places

    experiment, references, lines = done.file.experiment, done.references, DatasetLines()

    def find_in(find: Callable[[Path, str], tuple[Path, int]], dataset: str, name: str) -> tuple[Path, int]:
        own = experiment.base / references[dataset]
        return find(own if own.is_dir() else dataset_folder(references[dataset]), name)

    def finding(find: Callable[[Path, str], tuple[Path, int]]) -> Callable[[str, str], Place]:
        def found(dataset: str, name: str) -> Place:
            path, line = find_in(find, dataset, name)
            return in_repository(path), line

        return found

    def item(dataset: str, name: str) -> Place:
        path, line = find_in(lines.item, dataset, name)
        return in_repository(path), edited_line(path, line, done.edited.get((dataset, name), ()))

    def own(name: str) -> str:
        path = experiment.base / name
        return in_repository(path) if name and path.is_file() else ""

    return Places(
        gate=in_repository(done.file.path),
        selectors={one.name: one.line for one in experiment.selectors},
        files=dict(_agents(done.file.path)),
        own=own,
        embedder=line_of(experiment.lines, ("embedder",)),
        item=item,
        query=finding(lines.query),
        labels=finding(lines.labels),
    )


def _agents(gate: Path) -> Iterator[tuple[str, Place]]:
    """The names of selectors of a gate file that are agent files, each with the line of its settings."""
    from ctxbench.io.yaml_files import line_of, load_yaml
    from ctxbench.sources.agent_file import is_agent_file

    data, _ = load_yaml(gate)
    for entry in data.get("selectors", ()) if isinstance(data, dict) else ():
        about = entry if isinstance(entry, dict) else {"selector": entry}
        path = gate.parent / str(about.get("selector", ""))
        if is_agent_file(path):
            _, lines = load_yaml(path)
            name = about.get("name") or "/".join([path.stem, *([about["preset"]] if "preset" in about else [])])
            line = lines.get(("settings",)) or line_of(lines, ("selector",))
            yield str(name), (in_repository(path), line)


def in_repository(path: Path) -> str:
    """The path from the root of the checkout, or from here; empty for a file elsewhere."""
    root, found = Path(os.environ.get("GITHUB_WORKSPACE") or ".").resolve(), path.resolve()
    return found.relative_to(root).as_posix() if found.is_relative_to(root) else ""
