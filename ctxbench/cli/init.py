"""`ctxbench init`: the files that an agent's project needs, written for what is found in its folder."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ctxbench.cli.output import print_json
from ctxbench.core.errors import ParameterError, StorageError, UserError
from ctxbench.io.console import say

AGENT, GATE, POLICIES, WORKFLOW = "agent.yaml", "gate.yaml", "policies.yaml", ".github/workflows/ctxbench.yml"
EVALS = "datasets/evals"  # the dataset that the gate names where there is none yet
_MCP = (".mcp.json", "mcp.json", ".cursor/mcp.json", ".vscode/mcp.json")
_TOOLS = ("tools.json", "tools.jsonl", "functions.json")
_DEPTH = 3  # folders below the project in which datasets are looked for
_HERE = Path(__file__).parent
_WORKFLOWS = (_HERE / "workflow.yml", _HERE.parents[1] / "experiments" / "gate" / "workflow.yml")  # wheel, repository


@dataclass(frozen=True, kw_only=True)
class ProjectFiles:
    """What a project's folder holds.

    Attributes:
        mcp: the configuration of MCP servers, relative to the folder; None = there is none.
        rules: how many rules and skills there are.
        tools: lists of tools at the top, each with how many it holds.
        datasets: folders of labelled datasets, relative to the folder.
        repository: whether the folder is the root of a git repository.
    """

    mcp: str | None
    rules: int
    tools: dict[str, int]
    datasets: tuple[str, ...]
    repository: bool


def init(folder: Path, *, as_json: bool) -> None:
    """Write what is missing of an agent file, a gate file, a policy file and a workflow; what is there stays.

    Raises:
        StorageError: there is no such folder, or a file cannot be written.
        ParameterError: it holds nothing that an agent could be given.
    """
    if not folder.is_dir():
        raise StorageError(f"there is no folder {folder}; name the project's folder")
    found = look(folder)
    if found.mcp is None and not found.rules and not found.tools:
        raise ParameterError(
            f"{folder.resolve()} holds nothing that an agent could be given: no MCP configuration ({', '.join(_MCP)}), "
            f"no AGENTS.md, CLAUDE.md, Cursor or Copilot rules or skills, no list of tools ({', '.join(_TOOLS)}); "
            "name the project's folder, or write an agent file by hand"
        )
    written, kept = [], []
    for name, text in _files(folder, found):
        path = folder / name
        if path.exists():
            kept.append(name)
        else:
            _write(path, text)
            written.append(name)
    steps = list(_next(folder, found))
    if as_json:
        print_json({"written": written, "kept": kept, "next": steps})
        return
    say(*_told(found))
    say(*(f"written: {folder / name}" for name in written))
    say(*(f"kept as it is: {folder / name}" for name in kept))
    say("Next:", *(f"  {step}" for step in steps))


def look(folder: Path) -> ProjectFiles:
    """Look for what an agent can be given, and for datasets. Servers are not asked."""
    from ctxbench.sources.instructions import rules_folder

    return ProjectFiles(
        mcp=next((name for name in _MCP if (folder / name).is_file()), None),
        rules=sum(len(part.items) for part in rules_folder(folder)()),
        tools=dict(_tool_lists(folder)),
        datasets=tuple(_datasets(folder)),
        repository=(folder / ".git").exists(),
    )


def _tool_lists(folder: Path) -> Iterator[tuple[str, int]]:
    """The files at the top that are lists of tools; one that cannot be read as such is none."""
    from ctxbench.sources.toollists import read_tool_list

    for name in _TOOLS:
        if (folder / name).is_file():
            try:
                yield name, len(read_tool_list(folder / name).items)
            except UserError:
                continue


def _datasets(folder: Path) -> Iterator[str]:
    """The folders below that hold a dataset, by path."""
    from ctxbench.data.datasets.layout import CARD
    from ctxbench.sources.instructions import LEFT_OUT

    for place, below, names in os.walk(folder):
        path = Path(place).relative_to(folder)
        below[:] = sorted(one for one in below if one not in LEFT_OUT and not one.startswith("."))
        if len(path.parts) >= _DEPTH:
            below.clear()
        if CARD in names and path.parts:
            below.clear()
            yield path.as_posix()


def _files(folder: Path, found: ProjectFiles) -> Iterator[tuple[str, str]]:
    """The files, by their names, with their texts."""
    import yaml

    sources: dict[str, object] = {}
    if found.mcp is not None:
        sources["mcp"] = found.mcp
    if found.tools:
        names = list(found.tools)
        sources["tools"] = names[0] if len(names) == 1 else names
    if found.rules:
        sources["rules"] = "."
    name = "".join(one if one.isalnum() or one in "-_" else "-" for one in folder.resolve().name).strip("-") or "agent"
    about = yaml.safe_dump({"name": name, "sources": sources}, sort_keys=False)
    yield AGENT, _AGENT.format(about=about)
    yield GATE, _GATE.format(datasets=yaml.safe_dump(list(found.datasets) or [EVALS], default_flow_style=True).strip())
    yield POLICIES, _POLICIES
    if found.repository:
        text = next((path.read_text("utf-8") for path in _WORKFLOWS if path.is_file()), "")
        if not text:
            raise StorageError("the workflow that comes with ctxbench is missing; install ctxbench again")
        yield WORKFLOW, text


def _write(path: Path, text: str) -> None:
    from ctxbench.io.files import write_atomic

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
    write_atomic(path, text)


def _told(found: ProjectFiles) -> Iterator[str]:
    if found.mcp is not None:
        yield f"found servers in {found.mcp}"
    for name, count in found.tools.items():
        yield f"found {count:,} tool{'' if count == 1 else 's'} in {name}"
    if found.rules:
        yield f"found {found.rules:,} file{'' if found.rules == 1 else 's'} of rules and skills"
    for name in found.datasets:
        yield f"found the dataset {name}"
    if not found.repository:
        yield "no git repository here, so that no workflow is written"


def _next(folder: Path, found: ProjectFiles) -> Iterator[str]:
    """The commands that come next, with the user's own names."""

    def command(*words: str) -> str:
        return shlex.join(["ctxbench", *words])

    agent, gate = str(folder / AGENT), str(folder / GATE)
    if found.mcp is not None:
        yield command("data", "capture", "--agent", agent)
    yield command("select", "what a user asks", "--agent", agent)
    if not found.datasets:
        out = str(folder / EVALS)
        evals = command("data", "import", "golden", "evals.jsonl", "--catalog", agent, "--out", out)
        yield f"{evals}    # your evals, or `traces` and a log"
    yield command("check", gate, "--accept")
    there = [AGENT, *([f"{Path(AGENT).stem}.snapshot"] if found.mcp else []), *(found.datasets or [EVALS])]
    more = [GATE, f"{Path(GATE).stem}.baseline", POLICIES, *([".github"] if found.repository else [])]
    yield f"{shlex.join(['git', 'add', *there, *more])}    # what a check in CI needs; not runs/, which holds texts"


_AGENT = """\
# What the agent has, and where it comes from. Rules, references and lists of tools are read anew each time; servers are
# asked by `ctxbench data capture --agent`.
{about}\
  # references: docs        # Markdown files that the agent may find
# Tools are found by search unless you say otherwise; a tool's mode is over its server's:
include:
  otherwise: agent        # always | agent | manual
  # servers: {{tracker: always}}
  # tools: {{"tool:tracker:delete_issue": manual}}
selector: learned/normal    # a shipped selector, name/preset, or a YAML file
# settings: {{at_most: 5}}
# system: the system prompt, or {{file: prompt.md}}
"""

_GATE = """\
# What a change may not make worse; `ctxbench check --accept` writes the baseline, `ctxbench check` compares with it.
datasets: {datasets}
selectors: [agent.yaml]
gate:
  tolerance: {{completeness: 0.01, tokens: 5%}}
  # pins:
  #   - {{query: evals-17, must_include: ["rule:AGENTS.md"]}}
"""

_POLICIES = """\
# What presets are to be best at; `ctxbench tune DATASET --policy` finds them.
selectors:                                # all compete; the first is the base
  - agent.yaml
  - {selector: learned, name: fitted, fit: own}    # fitted to your labels
sample: 500
policies:
  aggressive:
    minimise: tokens
    constraints:
      - {metric: completeness, at_least: 0.9, of: base}
  normal:
    minimise: tokens
    constraints:
      - {metric: completeness, at_least: 0.98, of: base}
  conservative:
    minimise: tokens
    constraints:
      - {metric: completeness, at_least: 0.9, of: reachable}
"""
