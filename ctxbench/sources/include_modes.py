"""Include modes of tools: the tool's, else its server's, else the one of all others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ctxbench.core.errors import ParameterError, suggest
from ctxbench.core.item_suggestions import suggest_items
from ctxbench.core.items import INCLUDE_MODES, Catalog, ItemKey


def unknown_modes(
    catalog: Catalog, *, tools: Mapping[str, str], servers: Mapping[str, str]
) -> list[tuple[str, str, str]]:
    """The tools and servers with a mode that do not exist: `tools` or `servers`, the name, and a message."""
    tool_items = [item for item in catalog if item.type == "tool"]
    ids, names = {item.id for item in tool_items}, {item.server for item in tool_items if item.server is not None}
    wrong = [("tools", tool, f"no tool {tool!r}{suggest_items(tool, ids)}") for tool in tools if tool not in ids]
    of = "no tool is of server"
    return wrong + [
        ("servers", server, f"{of} {server!r}{suggest(server, names)}") for server in servers if server not in names
    ]


def tool_modes(
    catalog: Catalog, *, tools: Mapping[str, str], servers: Mapping[str, str], otherwise: str = "always"
) -> Catalog:
    """Set the effective include mode of every tool: the tool's, else its server's, else `otherwise`.

    Args:
        catalog: items; what the tools among them say of `include` is replaced, and other types stay as they are.
        tools: modes by item id, `tool:tracker:create_issue`.
        servers: modes by server.
        otherwise: the mode of all other tools; `always` in the specification.

    Raises:
        ParameterError: a mode, a tool or a server is unknown; all of them.

    Source: the specification, "For Tools".
    """
    wrong = [message for _, _, message in unknown_modes(catalog, tools=tools, servers=servers)]
    for where, mode in (*tools.items(), *servers.items(), ("all other tools", otherwise)):
        if mode not in INCLUDE_MODES:
            wrong.append(f"include of {where} must be one of {', '.join(INCLUDE_MODES)}, got {mode!r}")
    if wrong:
        raise ParameterError("; ".join(wrong))
    return Catalog(
        replace(item, include=tools.get(item.id, servers.get(item.server or "", otherwise)))
        if item.type == "tool"
        else item
        for item in catalog
    )


def mode_path(item: str, *, tools: Mapping[str, str], servers: Mapping[str, str]) -> tuple[str, ...]:
    """The path of the mode that applies to a tool: the tool's, its server's, or `otherwise`.

    Args:
        item: its id.
        tools, servers: as for `tool_modes`.
    """
    if item in tools:
        return "tools", item
    server = ItemKey.parse(item).server or ""
    return ("servers", server) if server in servers else ("otherwise",)
