"""Servers of an agent that its catalog has no tools of, with the reason and the fix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctxbench.io.yaml_files import load_yaml
from ctxbench.sources.catalog_snapshots import CAPTURE


@dataclass(frozen=True, slots=True)
class AbsentServer:
    """A server whose tools no request can be offered.

    Attributes:
        why: what became of its tools, such as `disabled with server crew in .mcp.json`.
        fix: what brings them back, as an instruction.
    """

    why: str
    fix: str


def absent_servers(config: Path, snapshot: Path, *, config_name: str, ask: str) -> dict[str, AbsentServer]:
    """The servers that a configuration disables, and those that were disabled, or not there, when it was captured.

    Args:
        config: of the servers.
        snapshot: the folder that keeps what they said.
        config_name: the name of the configuration in messages.
        ask: the command that asks them again.

    Raises:
        UserError: the configuration is missing or faulty.
    """
    from ctxbench.sources.mcp.server_config import disabled_servers, server_names

    servers = {
        name: AbsentServer(
            f"disabled with server {name} in {config_name}", f"enable server {name} in {config_name} again"
        )
        for name in disabled_servers(config)
    }
    card = snapshot / CAPTURE
    for name, why in (uncaptured_servers(server_names(config), card) if card.is_file() else {}).items():
        fix = f"ask server {name}: {ask}, or `ctxbench check` with --recapture"
        servers[name] = AbsentServer(f"not in {snapshot.name}, since server {name} was {why}", fix)
    return servers


def uncaptured_servers(names: Iterable[str], card: Path) -> dict[str, str]:
    """Those of some servers of which a snapshot holds nothing, with why: `never captured`, or disabled then.

    Args:
        names: of servers that the configuration has and does not disable.
        card: the snapshot's, which says what became of each server that was to be asked.

    Raises:
        UserError: the card cannot be read.
    """
    states = {part.get("name"): part.get("state") for part in read_card(card)[1]}
    why = {"failed": "never captured", "disabled": "disabled when the servers were captured"}
    return {name: why[state] for name in names if (state := states.get(name, "failed")) in why}


def read_card(path: Path) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    """The card of a snapshot, and those of its parts; empty if the file holds no mapping."""
    data, _ = load_yaml(path)
    card = data if isinstance(data, Mapping) else {}
    parts = card.get("parts")
    return card, [part for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []
