"""The former location of an item that an agent no longer has: its file, or the configuration of its server."""

from __future__ import annotations

from pathlib import Path

from ctxbench.core.errors import UserError
from ctxbench.core.items import ItemKey
from ctxbench.io.jsonc import entry_lines, read_jsonc
from ctxbench.sources.agent_file import AgentFile
from ctxbench.sources.catalogs import CORPUS
from ctxbench.sources.mcp.server_config import server_names


def former_place(agent: AgentFile, item: str, path: str = "") -> tuple[Path, int]:
    """The file that held an item, which may be gone, and the line of its server; 0 if no line is known.

    Args:
        agent: that no longer has the item.
        item: its id.
        path: of its file in the folder that it was read from; empty = its name is that path, or nobody knows it.

    Returns:
        The agent file and 0 where nothing that the agent names can have held the item.
    """
    try:
        key = ItemKey.parse(item)
    except UserError:
        return agent.path, 0
    if key.type == "tool":
        return _place_of_server(agent, key.server)
    if not path and key.type == "skill":  # a skill is called as it likes
        return agent.path, 0
    folders = (*agent.rules, *agent.references) if key.type != "reference" else (*agent.references, *agent.rules)
    files = [folder / (path or key.name) for folder in folders]
    return max(files, key=_depth_left, default=agent.path), 0


def _depth_left(file: Path) -> int:
    """A rank of how much of a path still exists: a missing file was in the folder of which most is left."""
    for depth, ancestor in enumerate((file, *file.parents)):
        if ancestor.exists():
            return -depth
    return -len(file.parents)


def _place_of_server(agent: AgentFile, server: str | None) -> tuple[Path, int]:
    """The line of a tool's server in the configuration; the snapshot, if the server is still configured.

    Where the configuration does not name it, a list of tools may have.
    """
    lists = [source.file for source in agent.tools if source.server == server]
    if agent.mcp is None or server is None or lists:
        several = lists or [source.file for source in agent.tools]
        return (several[0] if len(several) == 1 else agent.path), 0
    try:
        if server in server_names(agent.mcp):
            return agent.snapshot / CORPUS, 0
        lines = entry_lines(read_jsonc(agent.mcp)[1])
    except UserError:
        return agent.mcp, 0
    return agent.mcp, next((line for path, line in lines.items() if path[-1:] == (server,)), 0)
