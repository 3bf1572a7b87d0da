"""The files that commands read, for `refuse_outputs`, so that no output overwrites them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ctxbench.core.errors import UserError


def dataset_inputs(*names: str | Path, base: Path = Path()) -> dict[str, list[Path]]:
    """The files of datasets, catalogs and agents, by what a message calls them; what is in the cache has none.

    Args:
        names: folders, files or names.
        base: what relative folders are relative to, if not to the working folder.
    """
    return {
        f"the files of {name}": [path for root in dict.fromkeys([base / name, Path(name)]) for path in _files(root)]
        for name in names
    }


def _files(path: Path) -> Iterator[Path]:
    from ctxbench.data.datasets.layout import CARD, QRELS, QUERIES, agent_of
    from ctxbench.data.labelling.query_files import FOLDER
    from ctxbench.sources.agent_file import is_agent_file, read_agent
    from ctxbench.sources.catalog_snapshots import CAPTURE
    from ctxbench.sources.catalogs import CORPUS

    yield from (path / name for name in (CARD, CORPUS, QUERIES, QRELS, FOLDER, CAPTURE))
    yield from [] if path.is_dir() else [path]
    agent = path if is_agent_file(str(path)) else agent_of(path)
    if agent is not None:
        yield agent
        with suppress(UserError):  # whoever reads it says what is wrong
            file = read_agent(agent)
            yield from (file.snapshot, *(source.file for source in file.tools), *([file.mcp] if file.mcp else []))


def selector_inputs(*names: str | None) -> dict[str, list[Path]]:
    """The files of selectors that are named by a path."""
    from ctxbench.selectors.definitions import is_file

    return {f"selector {name}": [Path(name)] for name in names if name is not None and is_file(name)}
