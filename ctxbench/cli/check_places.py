"""Finds the files and lines of what a check is about: pins, selectors, items and queries."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ctxbench.core.errors import StorageError, UserError
from ctxbench.io.files import read_text
from ctxbench.sources.catalogs import CORPUS

if TYPE_CHECKING:
    from ctxbench.gate.gate import GateCheck
    from ctxbench.gate.snapshots import ItemFact
    from ctxbench.report.gate.places import Location, Locations

Find: TypeAlias = Callable[[Path, str], tuple[Path, int]]
"""Finds the file and line of an id in a dataset's folder."""


def find_places(done: GateCheck) -> Locations:
    """The locations of pins, selectors, items and queries, as far as they are in the repository."""
    from ctxbench.data.datasets.layout import DatasetLines
    from ctxbench.data.datasets.lookup import dataset_folder
    from ctxbench.io.yaml_files import line_of
    from ctxbench.report.gate.places import Locations

    experiment, references, lines = done.file.experiment, done.references, DatasetLines()

    def find_in(find: Find, dataset: str, name: str) -> tuple[Path, int]:
        folder = experiment.base / references[dataset]
        return find(folder if folder.is_dir() else dataset_folder(references[dataset]), name)

    def finding(find: Find) -> Callable[[str, str], Location]:
        def locate(dataset: str, name: str) -> Location:
            path, line = find_in(find, dataset, name)
            return in_repository(path), line

        return locate

    def item(dataset: str, name: str) -> Location:
        if not name and (
            changed := [changed_item for of, changed_item in {**done.former, **done.edited} if of == dataset]
        ):
            return _most_common([item(dataset, changed_item) for changed_item in changed])
        fact = done.former.get((dataset, name))
        path, line = find_in(partial(lines.item, former=former_path(fact)), dataset, name)
        if name.startswith("tool:") and {*done.edited.get((dataset, name), ())} == {"include"}:
            path, line = find_in(partial(_mode_place, source=(path, line)), dataset, name)
            return in_repository(path), line
        return in_repository(path), line if fact is None else _line_of_edit(done, (dataset, name), path, line)

    def external_file(name: str) -> str:
        path = experiment.base / name
        return in_repository(path) if name and path.is_file() else ""

    return Locations(
        gate=in_repository(done.file.path),
        selectors={selector.name: selector.line for selector in experiment.selectors},
        files=dict(_agents(done.file.path)),
        external_file=external_file,
        embedder=line_of(experiment.lines, ("embedder",)),
        gone=lambda file: not (_root() / file).exists(),
        item=item,
        query=finding(lines.query),
        labels=lambda dataset, query, item="": finding(partial(lines.labels, item=item))(dataset, query),
    )


def former_path(fact: ItemFact | None) -> str:
    """The path that the metadata of an item of the baseline gives; empty where it gives none, or is kept out."""
    row = None if fact is None else fact.row
    return str((row or {}).get("metadata", {}).get("path", ""))


def _mode_place(folder: Path, item: str, *, source: tuple[Path, int]) -> tuple[Path, int]:
    """The line of the agent file that sets the include mode of a tool.

    Its source, where that alone can have set it; what a server says of its tools has no modes.
    """
    from ctxbench.data.datasets.layout import agent_of
    from ctxbench.io.yaml_files import line_of
    from ctxbench.sources.agent_file import read_agent
    from ctxbench.sources.include_modes import mode_path

    path = agent_of(folder)
    if path is None:
        return source
    agent = read_agent(path)
    if agent.include is not None:
        return path, line_of(agent.lines, ("include", *mode_path(item, **agent.include)))
    return (path, 0) if source[0].name == CORPUS else source


def _line_of_edit(done: GateCheck, item: tuple[str, str], path: Path, line: int) -> int:
    """The line of a file that an item of the baseline was edited in; `line` where that is not known."""
    from ctxbench.cli.front_matter_lines import differing_line, edited_line

    row = done.former[item].row
    if row is not None:
        return edited_line(path, line, done.edited.get(item, ()), row.get("text", ""))
    if item not in done.edited or not line or path.name == CORPUS:
        return line
    before = _text_at(done.file.baseline, path)
    try:
        return line if before is None or (after := read_text(path)) == before else differing_line(before, after)
    except UserError:
        return line


def _text_at(baseline: Path, path: Path) -> str | None:
    """What git has of a file at the last commit that changed the baseline; None where it has none."""
    from ctxbench.io.git import Repository

    try:
        repository = Repository.around(baseline)
        commits = [] if repository is None else repository.commits(baseline, limit=1)
        return repository.text(commits[0], path) if repository is not None and commits else None
    except StorageError:
        return None


def _most_common(locations: Sequence[Location]) -> Location:
    """The file of most of the locations, and the line if they share one; there is at least one location."""
    (file, _), *_ = Counter(file for file, _ in locations).most_common(1)
    lines = {line for name, line in locations if name == file}
    return file, lines.pop() if len(lines) == 1 else 0


def _agents(gate: Path) -> Iterator[tuple[str, Location]]:
    """The names of selectors of a gate file that are agent files, each with the line of its settings."""
    from ctxbench.io.yaml_files import line_of, load_yaml
    from ctxbench.selectors.definitions import selector_name
    from ctxbench.sources.agent_file import is_agent_file

    data, _ = load_yaml(gate)
    for entry in data.get("selectors", ()) if isinstance(data, dict) else ():
        about = entry if isinstance(entry, dict) else {"selector": entry}
        path = gate.parent / str(about.get("selector", ""))
        if is_agent_file(path):
            _, lines = load_yaml(path)
            name = about.get("name") or selector_name(path.name, about.get("preset"))
            line = lines.get(("settings",)) or line_of(lines, ("selector",))
            yield str(name), (in_repository(path), line)


def in_repository(path: Path) -> str:
    """The path from the root of the checkout, or from here; empty for a file elsewhere."""
    root, resolved = _root(), path.resolve()
    return resolved.relative_to(root).as_posix() if resolved.is_relative_to(root) else ""


def _root() -> Path:
    return Path(os.environ.get("GITHUB_WORKSPACE") or ".").resolve()
