"""The servers of the agents of a gate's datasets: asking them again, and when they were captured."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ctxbench.core.errors import InputError, ParameterError, StorageError, UserError, suggest
from ctxbench.io.console import printing_to_stderr, say
from ctxbench.io.visible import message_lines, one_line
from ctxbench.sources.mcp.server_config import disabled_servers, read_mcp_config, server_names

if TYPE_CHECKING:
    from ctxbench.sources.agent_file import AgentFile
    from ctxbench.sources.catalog_snapshots import SnapshotPart


def recapture(gate: Path, *, skip: Sequence[str] = ()) -> dict[Path, dict[str, str]]:
    """Ask the servers of all agents again and store their tools; of one that fails the earlier tools are kept.

    What is wrong with the gate file or an agent file is left to the check, which says it with the rest.

    Args:
        gate: the gate file.
        skip: names of servers that are not asked.

    Returns:
        By agent file (resolved) and server that was asked: what went wrong; empty where it answered.

    Raises:
        UserError: a server fails of which nothing was captured before, or a name to skip is of none.
    """
    agents = list(_agents(gate))
    if not agents:
        why = f"no dataset of {gate} is over an agent file that can be read and names servers"
        say(f"--recapture asks nobody: {why}", err=True)
    names = {name for _, config in agents for name in server_names(config)}
    if agents and (unknown := [name for name in skip if name not in names]):
        raise ParameterError(f"--skip: there is no server {unknown[0]!r}{suggest(unknown[0], sorted(names))}")
    return {agent.path.resolve(): _recapture(agent, config, skip) for agent, config in agents}


def _recapture(agent: AgentFile, config: Path, skip: Sequence[str]) -> dict[str, str]:
    """Ask the servers of one agent; see `recapture`."""
    from ctxbench.cli.capture import keep
    from ctxbench.sources.catalog_snapshots import CAPTURE, SERVER, SnapshotPart, earlier_parts

    earlier = {
        part.name: part
        for part in (earlier_parts(agent.snapshot) if (agent.snapshot / CAPTURE).is_file() else ())
        if part.kind == SERVER
    }
    names = [name for name in server_names(config) if name not in skip]
    errors, startable = dict.fromkeys(names, ""), []
    for name in names:
        try:
            read_mcp_config(config, only=[name])
            startable.append(name)
        except InputError as error:  # such as a variable that is not set, as secrets are not for a fork
            errors[name] = "; ".join(fault.message.removeprefix(f"server {name!r}: ") for fault in error.faults)
    parts = {part.name: part for part in _ask(config, startable)}
    errors |= {name: part.error for name, part in parts.items() if part.state == "failed"}
    if lost := [name for name in names if errors[name] and not (name in earlier and earlier[name].items)]:
        why = f"server {lost[0]} gave no tools, and {agent.snapshot} holds none of it ({errors[lost[0]]})"
        raise StorageError(f"{why}; fix that, or leave it out with --skip {shlex.quote(lost[0])}")
    parts |= {name: SnapshotPart(name=name, kind=SERVER, state="disabled") for name in disabled_servers(config)}
    parts |= {
        name: earlier[name] for name in [*skip, *(name for name, why in errors.items() if why)] if name in earlier
    }
    with printing_to_stderr():
        for name, why in errors.items():
            if why:
                say(*message_lines(f"{name}: {why}"))
        if startable:
            order = [*server_names(config), *disabled_servers(config)]
            keep([lambda: [parts[name] for name in order if name in parts]], out=agent.snapshot, as_json=False)
    return errors


def _ask(config: Path, names: Sequence[str]) -> Sequence[SnapshotPart]:
    """The tools that some servers of a configuration have now."""
    from ctxbench.cli.progress import progress
    from ctxbench.sources.mcp.capturing import mcp_servers

    if not names:
        return ()
    with progress() as bar:
        source = mcp_servers(
            config, only=names, progress=lambda done, total: bar("asking servers for their tools", done, total)
        )
        return source()


def tell_captured(gate: Path) -> None:
    """Print to standard error how old the captured tools are, before they are accepted."""
    from ctxbench.gate.verdict import server_reasons

    for agent, _ in _agents(gate):
        for reason in server_reasons(agent.captured_servers()):
            say(one_line(f"{agent.path}: {reason}"), err=True)


def _agents(gate: Path) -> Iterator[tuple[AgentFile, Path]]:
    """The agents of a gate file's datasets, each once, with the configuration of its servers."""
    from ctxbench.data.datasets.layout import agent_of
    from ctxbench.data.datasets.lookup import user_folder
    from ctxbench.io.yaml_files import load_yaml
    from ctxbench.sources.agent_file import read_agent

    visited: set[Path] = set()
    try:
        data, _ = load_yaml(gate)
    except UserError:
        return
    names = data.get("datasets") if isinstance(data, dict) else None
    for name in names if isinstance(names, list) else ():
        folder = user_folder(name, gate.parent) if isinstance(name, str) else None
        path = None if folder is None else agent_of(folder)
        if path is None or path.resolve() in visited:
            continue
        visited.add(path.resolve())
        try:
            agent = read_agent(path)
        except UserError:
            continue
        if agent.mcp is not None:
            yield agent, agent.mcp
