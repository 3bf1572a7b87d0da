"""The servers of the agents that a gate's datasets are over: asked anew, or how long ago they were asked."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ctxbench.core.errors import StorageError, UserError
from ctxbench.io.console import say

if TYPE_CHECKING:
    from ctxbench.sources.agent_file import AgentFile


def look_at_servers(gate: Path, *, recapture: bool) -> None:
    """Ask the servers of all agents anew, or say on standard error how old is what they said.

    What is wrong with the gate file or an agent file is left to the check, which says it with the rest.

    Raises:
        UserError: a server fails; what it said before is kept.
    """
    agents = list(_agents(gate))
    if recapture and not agents:
        why = f"no dataset of {gate} is over an agent file that can be read and names servers"
        say(f"--recapture asks nobody: {why}", err=True)
    for agent in agents:
        if recapture:
            from ctxbench.cli.capture import CaptureWanted, capture_all
            from ctxbench.io.console import printing_to_stderr

            with printing_to_stderr():
                wanted = CaptureWanted(mcp_config=agent.mcp, agent=agent.path, told_next=False)
                failed = capture_all(wanted, out=agent.snapshot, as_json=False)
            if failed:
                raise StorageError(
                    f"servers of {agent.mcp} failed, as said above, and nothing is checked without them: start them, "
                    "or leave `--recapture` out to check with those that answered"
                )
        elif agent.captured:
            again = "`--recapture` asks them again"
            say(f"servers of {agent.path} are as captured {_ago(agent.captured)}; {again}", err=True)


def _agents(gate: Path) -> Iterator[AgentFile]:
    """The agents with servers that the datasets of a gate file are over, each once."""
    from ctxbench.data.datasets.layout import agent_of
    from ctxbench.data.datasets.lookup import user_folder
    from ctxbench.io.yaml_files import load_yaml
    from ctxbench.sources.agent_file import read_agent

    seen: set[Path] = set()
    try:
        data, _ = load_yaml(gate)
    except UserError:
        return
    names = data.get("datasets") if isinstance(data, dict) else None
    for name in names if isinstance(names, list) else ():
        folder = user_folder(name, gate.parent) if isinstance(name, str) else None
        path = None if folder is None else agent_of(folder)
        if path is None or path.resolve() in seen:
            continue
        seen.add(path.resolve())
        try:
            agent = read_agent(path)
        except UserError:
            continue
        if agent.mcp is not None:
            yield agent


def _ago(captured: str) -> str:
    """How long ago a time in ISO 8601 was, and the day; the text as it is where it is none."""
    try:
        then = datetime.fromisoformat(captured)
    except ValueError:
        return captured
    days = (datetime.now(UTC) - then).days
    return f"{'today' if days <= 0 else '1 day ago' if days == 1 else f'{days} days ago'} ({then.date().isoformat()})"
