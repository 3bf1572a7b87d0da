"""What a project's folder holds that an agent can be given, and where its repository begins."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ctxbench.core.errors import UserError

MCP = (".mcp.json", "mcp.json", ".cursor/mcp.json", ".vscode/mcp.json")
TOOLS = ("tools.json", "tools.jsonl", "functions.json")
_MORE_TOOLS = (".tools.json", ".tools.jsonl")  # how lists end that may be what a server serves: told, not taken
_DOCUMENTS, _MARKDOWN = ("docs", "doc", "references", "knowledge"), (".md", ".markdown")
RUNS, IGNORE = "runs", ".gitignore"  # the folder that runs are written to, which hold texts
_EVALS = (".jsonl", ".yaml", ".yml", ".csv")
_DEPTH = 3  # folders below the project in which files are looked for


@dataclass(frozen=True, kw_only=True)
class Project:
    """What a project's folder holds; paths are relative to it.

    Attributes:
        folder: its path.
        mcp: the configuration of MCP servers; None = there is none.
        broken_mcp: configurations that cannot be read, each with the reason.
        other_mcp: further ones, here and in folders below.
        rules: how many rules and skills there are.
        notes: what is odd in those, a line each.
        tools: lists of tools, each with how many it holds.
        unread: files called as lists of tools are, in a form that is not known.
        more_tools: further lists of tools, which are not taken since a server may give the same, each with how many.
        documents: folders of Markdown files that the agent might find, each with how many.
        evals: a file that is called as hand-written evals are, or None.
        datasets: folders of labelled datasets.
        repository: the root of the git repository that it is in, or None.
        ignores_runs: whether a line of a `.gitignore`, here or above, keeps runs out of the repository.
    """

    folder: Path
    mcp: str | None
    broken_mcp: dict[str, str]
    other_mcp: tuple[str, ...]
    rules: int
    notes: tuple[str, ...]
    tools: dict[str, int]
    unread: tuple[str, ...]
    more_tools: dict[str, int]
    documents: dict[str, int]
    evals: str | None
    datasets: tuple[str, ...]
    repository: Path | None
    ignores_runs: bool

    @property
    def within(self) -> str:
        """The folder's path in its repository; empty if it is the root, or there is no repository."""
        if self.repository is None:
            return ""
        return self.folder.resolve().relative_to(self.repository).as_posix().removeprefix(".")


def look(folder: Path) -> Project:
    """Look for what an agent can be given, and for evals and datasets, without asking servers."""
    from ctxbench.data.datasets.layout import CARD
    from ctxbench.sources.catalog_snapshots import odd_in
    from ctxbench.sources.instructions import rules_folder

    files = list(_files(folder))
    datasets = [str(Path(name).parent.as_posix()) for name in files if Path(name).name == CARD and "/" in name]
    names = [name for name in files if not any(name.startswith(f"{dataset}/") for dataset in datasets)]
    broken = _broken(folder, [name for name in dict.fromkeys((*MCP, *names)) if name.endswith(MCP)])
    configurations = [name for name in MCP if (folder / name).is_file() and name not in broken]
    below = [name for name in names if name not in (*configurations, *broken) and name.endswith(MCP)]
    read, unread = _tool_lists(folder, [name for name in names if Path(name).name in TOOLS])
    further, _ = _tool_lists(folder, [name for name in names if name not in (*read, *unread) and _is_more_tools(name)])
    evals = [name for name in names if "eval" in Path(name).stem.casefold() and name.endswith(_EVALS)]
    rules = rules_folder(folder)()
    root = folder.resolve()
    repository = next((parent for parent in (root, *root.parents) if (parent / ".git").exists()), None)
    return Project(
        folder=folder,
        mcp=configurations[0] if configurations else None,
        broken_mcp=broken,
        other_mcp=(*configurations[1:], *below),
        rules=sum(len(part.items) for part in rules),
        notes=tuple(odd_in([part for part in rules if part.items])),
        tools=read,
        unread=tuple(unread),
        more_tools=further,
        documents=_documents(names),
        evals=evals[0] if evals else None,
        datasets=tuple(datasets),
        repository=repository,
        ignores_runs=repository is not None and _ignores_runs(root, repository),
    )


def _is_more_tools(name: str) -> bool:
    """Whether a file may be a list of tools: called so, or JSON in a folder `tools`."""
    path = Path(name)
    return path.name.endswith(_MORE_TOOLS) or (path.parent.name == "tools" and path.suffix in (".json", ".jsonl"))


def _documents(names: list[str]) -> dict[str, int]:
    """The top folders with a usual name for documents, with how many Markdown files each holds."""
    counts = Counter(name.partition("/")[0] for name in names if name.lower().endswith(_MARKDOWN) and "/" in name)
    return {name: counts[name] for name in _DOCUMENTS if counts[name]}


def _files(folder: Path) -> Iterator[str]:
    """The files at the top and some folders below it, those nearest the top first."""
    from ctxbench.sources.instructions import LEFT_OUT

    paths = []
    for root, below, names in os.walk(folder):
        path = Path(root).relative_to(folder)
        below[:] = sorted(directory for directory in below if directory not in LEFT_OUT)
        if len(path.parts) >= _DEPTH:
            below.clear()
        paths += [(path / name).as_posix() for name in sorted(names)]
    yield from sorted(paths, key=lambda name: (name.count("/"), name))


def _ignores_runs(folder: Path, repository: Path) -> bool:
    """Whether a `.gitignore` from a folder up to its repository names the folder of runs."""
    for parent in (folder, *folder.parents):
        relative = (folder / RUNS).relative_to(parent).as_posix()
        try:
            lines = (parent / IGNORE).read_text("utf-8", errors="replace").splitlines()
        except OSError:
            lines = []
        for line in map(str.strip, lines):
            name = line.removesuffix("**").removesuffix("*").removesuffix("/").removeprefix("**/")
            if name in (RUNS, relative, f"/{relative}"):
                return True
        if parent == repository:
            break
    return False


def _broken(folder: Path, names: list[str]) -> dict[str, str]:
    """The configurations of servers that cannot be used, with the reason. Variables may be unset."""
    from ctxbench.sources.mcp.server_config import server_names

    broken = {}
    for name in names:
        try:
            if (folder / name).is_file():
                server_names(folder / name)
        except UserError as error:
            broken[name] = " ".join(str(error).split())
    return broken


def _tool_lists(folder: Path, names: list[str]) -> tuple[dict[str, int], list[str]]:
    """The lists of tools with how many each holds, and the files that cannot be read as one."""
    from ctxbench.sources.toollists import read_tool_list

    read, unread = {}, []
    for name in names:
        try:
            read[name] = len(read_tool_list(folder / name).items)
        except UserError:
            unread.append(name)
    return read, unread
