"""`ctxbench init` and `setup`: write an agent's first files, and install the embedding model."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import yaml

from ctxbench.catalogs.agent_file import AgentFile, read_agent
from ctxbench.catalogs.instructions import LEFT_OUT, rules_folder
from ctxbench.catalogs.mcp_config import server_digests, server_names
from ctxbench.catalogs.snapshots import odd_in
from ctxbench.catalogs.tool_lists import read_tool_list
from ctxbench.cli.common import print_result
from ctxbench.datasets.layout import CARD
from ctxbench.io.console import progress
from ctxbench.io.documents import load_yaml
from ctxbench.io.errors import ParameterError, StorageError, UserError, count, install_command, one_line
from ctxbench.io.files import write_atomic
from ctxbench.selectors.selector import EXTERNAL_KINDS

MCP = (".mcp.json", "mcp.json", ".cursor/mcp.json", ".vscode/mcp.json")
TOOLS = ("tools.json", "tools.jsonl", "functions.json")
_MORE_TOOLS = (".tools.json", ".tools.jsonl")  # endings of lists that a server may serve: reported, not used
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
    def has_items(self) -> bool:
        """Whether there is anything that an agent file could name."""
        return self.mcp is not None or bool(self.rules or self.tools)

    @property
    def within(self) -> str:
        """The folder's path in its repository; empty if it is the root, or there is no repository."""
        if self.repository is None:
            return ""
        return self.folder.resolve().relative_to(self.repository).as_posix().removeprefix(".")


def look(folder: Path) -> Project:
    """Look for what an agent can be given, and for evals and datasets, without asking servers."""
    files = list(_instruction_files(folder))
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


def _instruction_files(folder: Path) -> Iterator[str]:
    """The files at the top and some folders below it, those nearest the top first."""
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
    read, unread = {}, []
    for name in names:
        try:
            read[name] = len(read_tool_list(folder / name).items)
        except UserError:
            unread.append(name)
    return read, unread


AGENT, GATE, POLICIES, EXPERIMENT = "agent.yaml", "gate.yaml", "policies.yaml", "experiment.yaml"
WORKFLOW, ACTION = ".github/workflows/ctxbench.yml", ".github/actions/ctxbench/action.yml"
GITLAB, TEMPLATE = ".gitlab-ci.yml", ".gitlab/ctxbench.yml"  # a project's own pipeline, and what it includes
SCHEMAS = ".ctxbench"  # the folder of the JSON Schemas that editors complete and check files with
_SCHEMA_NAMES = {AGENT: "agent", GATE: "gate", POLICIES: "policies", EXPERIMENT: "experiment"}
EVALS = "datasets/evals"  # the dataset that the gate names where there is none yet
_SERVICE = (
    f"for a service that selects documents, write {GATE} there (experiments/gate/ci.md), and `init` adds the rest"
)
_HERE = Path(__file__).parent
_SHIPPED = (_HERE, _HERE.parents[1] / "experiments" / "gate")  # the folder of CI files: in a wheel, in the repository


def init(folder: Path, *, as_json: bool) -> None:
    """Write what is missing of an agent file, gate, policies, experiment, files for CI and `.gitignore`.

    Existing files are not changed, but for schemas of another version of ctxbench.

    Raises:
        StorageError: there is no such folder, a folder has the name of a file, or a file cannot be written.
        ParameterError: it holds nothing that an agent could be given, and no gate file.
    """
    if not folder.is_dir():
        raise StorageError(f"there is no folder {folder}; name the project's folder")
    project = look(folder)
    if not project.has_items and not (folder / GATE).exists():
        nothing = (
            f"{folder.resolve()} holds nothing that an agent could be given: no MCP configuration ({', '.join(MCP)}), "
            f"no AGENTS.md, CLAUDE.md, Cursor or Copilot rules or skills, no list of tools ({', '.join(TOOLS)})"
        )
        raise ParameterError(
            "; ".join([nothing, *_not_taken(project), *_not_named(project), "name the project's folder", _SERVICE])
        )
    files = list(_with_schemas(folder, _files(project)))
    if in_the_way := [str(path) for path, _ in files if path.is_dir()]:
        raise StorageError(
            f"{' and '.join(in_the_way)}: a folder, where a file goes; move it away, nothing was written"
        )
    written, unchanged = [], []
    for path, text in files:
        if path.exists() and (path.parent.name != SCHEMAS or path.read_text("utf-8", errors="replace") == text):
            unchanged.append(path)
        else:
            _write(path, text)
            written.append(path)
    steps = list(_next(project, written))
    print_result(
        {"written": [*map(str, written)], "kept": [*map(str, unchanged)], "next": steps},
        *(*_findings(project), *_not_taken(project), *_not_named(project)),
        *(f"written: {path}" for path in written),
        *(f"unchanged: {path}" for path in unchanged),
        "Next:",
        *(f"  {step}" for step in steps),
        as_json=as_json,
    )


def _files(project: Project) -> Iterator[tuple[Path, str]]:
    """The files with their texts."""
    folder = project.folder
    sources: dict[str, object] = {}
    if project.mcp is not None:
        sources["mcp"] = project.mcp
    if project.tools:
        names = list(project.tools)
        sources["tools"] = names[0] if len(names) == 1 else names
    if project.rules:
        sources["rules"] = "."
    name = (
        "".join(
            character if character.isalnum() or character in "-_" else "-" for character in folder.resolve().name
        ).strip("-")
        or "agent"
    )
    datasets = yaml.safe_dump(list(project.datasets) or [EVALS], default_flow_style=True).strip()
    if project.has_items:
        yield folder / AGENT, _AGENT.format(about=yaml.safe_dump({"name": name, "sources": sources}, sort_keys=False))
    yield folder / GATE, _GATE.format(datasets=datasets)
    if project.has_items:
        yield folder / POLICIES, _POLICIES
        yield folder / EXPERIMENT, _EXPERIMENT.format(datasets=datasets)
    for path in _ci_paths(project):
        yield path, _workflow(project) if path.match(WORKFLOW) else _shipped(path.name)
    if project.repository is not None and not project.ignores_runs and not (folder / IGNORE).exists():
        yield folder / IGNORE, _IGNORE


def _with_schemas(folder: Path, files: Iterator[tuple[Path, str]]) -> Iterator[tuple[Path, str]]:
    """The files, those that have a JSON Schema with a first line that names it; and the schemas."""
    schemas = []
    for path, text in files:
        schema = _HERE.parent / "schemas" / f"{_SCHEMA_NAMES.get(path.name, '')}.schema.json"
        header = ""
        if schema.is_file():
            schemas.append((folder / SCHEMAS / schema.name, schema.read_text("utf-8")))
            header = f"# yaml-language-server: $schema={SCHEMAS}/{schema.name}\n"
        yield path, header + text
    yield from schemas


def _ci_paths(project: Project) -> tuple[Path, ...]:
    """The files for CI, in the root of the repository: GitLab's where it has a pipeline, GitHub's else or as well."""
    if project.repository is None:
        return ()
    root = project.folder / ("../" * len(Path(project.within).parts))
    has_gitlab = (project.repository / GITLAB).exists()
    github = [WORKFLOW, ACTION] if not has_gitlab or (project.repository / ".github").exists() else []
    return tuple(root / name for name in (*github, *([TEMPLATE] if has_gitlab else [])))


def _shipped(name: str) -> str:
    """The text of a file for CI that comes with ctxbench.

    Raises:
        StorageError: it is missing.
    """
    name = {Path(TEMPLATE).name: "gitlab.yml"}.get(name, name)
    if not (text := next((path.read_text("utf-8") for folder in _SHIPPED if (path := folder / name).is_file()), "")):
        raise StorageError(f"{name}, which comes with ctxbench, is missing; install ctxbench again")
    return text


def _workflow(project: Project) -> str:
    """The workflow that comes with ctxbench, for a project in a folder of its repository."""
    text = _shipped("workflow.yml")
    inputs = _ci_inputs(project)
    for name, value in inputs.items():
        before, _, rest = text.partition(f"\n          {name}: ")
        text = f"{before}\n          {name}: {value}\n{rest.partition(chr(10))[2]}"
    if "options" in inputs:
        text = re.sub(r"(#   (?:ctxbench|\./tools/ctxbench))\b", r"\1[mcp]", text)
    return text


def _ci_step(project: Project, path: Path, *, is_new: bool) -> str:
    """What is to be done so that a job of a workflow or template checks the gate; empty if one does."""
    is_github = path.match(WORKFLOW)
    if is_github and is_new:
        return f"fill in install: in {path}: where pip gets ctxbench from; its job fails until then"
    pipeline = path if is_github else path.parent.parent / GITLAB
    text = pipeline.read_text("utf-8", errors="replace")
    inputs = {"gate": json.dumps(GATE), **_ci_inputs(project)}
    gates = re.findall(r"""\bgate["']?:\s*["']?([^\s"',}]+)""", text)
    if inputs["gate"][1:-1] in gates or (not project.within and TEMPLATE in text and not gates):  # the default
        return ""
    inputs["install"] = json.dumps(f"ctxbench{'[mcp]' * ('options' in inputs)} @ git+https://HOST/PATH@COMMIT")
    label = project.within.replace("/", "-") or "root"
    if is_github:
        inputs["artifact"] = json.dumps(f"gate-{label}")
    elif TEMPLATE in text or not is_new:  # an include that is not in the pipeline yet may be for another gate
        inputs["name"] = json.dumps(f"context-selection-{label}")
    values = f"{{{', '.join(f'{name}: {value}' for name, value in inputs.items())}}}"
    line, where = f"include: [{{local: {TEMPLATE}, inputs: {values}}}]", GITLAB
    if is_github:
        action = f"./{Path(ACTION).parent.as_posix()}"
        line, where = f'- {{uses: {action}, if: "${{{{ !cancelled() }}}}", with: {values}}}', f"the steps of {path}"
    return f"add `{line}` to {where}, with where pip gets ctxbench from; its job fails until then"


def _ci_inputs(project: Project) -> dict[str, str]:
    """The inputs of the check in CI, if they are not the defaults, as YAML writes them.

    It asks the servers whose code is in the repository: a change of it is seen without a new capture. Others
    are left out, since they may need what a runner has not.
    """
    inputs = {"gate": json.dumps(f"{project.within}/{GATE}")} if project.within else {}
    servers = {} if project.mcp is None else server_digests(project.folder / project.mcp)
    if recaptured := [name for name, digests in servers.items() if "files" in digests]:
        words = ["--recapture", *(word for name in servers if name not in recaptured for word in ("--skip", name))]
        inputs["options"] = json.dumps(shlex.join(words))
    return inputs


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
    write_atomic(path, text)


def _findings(project: Project) -> Iterator[str]:
    if project.mcp is not None:
        yield f"found servers in {project.mcp}"
    yield from (f"found {count(n, 'tool')} in {name}" for name, n in project.tools.items())
    if project.rules:
        yield f"found {project.rules:,} file{'' if project.rules == 1 else 's'} of rules and skills"
        yield from (one_line(f"  {note}") for note in project.notes)
    yield from (f"found the dataset {name}" for name in project.datasets)
    if project.repository is None:
        yield "no git repository here or above, so that no files for CI are written"


def _not_taken(project: Project) -> Iterator[str]:
    """What is in the folder but not in the agent file, with what to do about it."""
    yield from (f"not taken: {name}, which cannot be used ({reason})" for name, reason in project.broken_mcp.items())
    for name in project.other_mcp:
        owner = Path(name).parent.parent if Path(name).parent.name in (".cursor", ".vscode") else Path(name).parent
        command = shlex.join(["ctxbench", "init", str(project.folder / owner)])
        advice = (
            "the agent file names one configuration" if owner == Path() else f"`{command}` makes an agent file for it"
        )
        yield f"not taken: {name}; {advice}"
    for name in project.unread:
        how = shlex.join(["ctxbench", "data", "import", "tools", str(project.folder / name), "--out", "catalogs/tools"])
        yield f"not taken: {name}, whose form is not known; `{how}` says what is missing"


def _not_named(project: Project) -> Iterator[str]:
    """What the agent may have and its file does not name, with the line that names it."""
    agent, named, lists, tools = project.folder / AGENT, set[Path](), [*project.tools], project.more_tools
    if (read := _agent_of(project)) is not None:
        named = {path.resolve() for path in (*read.references, *(source.file for source in read.tools))}
        lists = [Path(os.path.relpath(source.file, project.folder)).as_posix() for source in read.tools]
        tools = {**project.tools, **tools}
        if project.rules and not read.rules:
            yield f"not taken: {count(project.rules, 'file')} of rules and skills; add `rules: .` to sources in {agent}"
    for name, n in project.documents.items():
        if (project.folder / name).resolve() not in named:
            files, line = count(n, "Markdown file"), f"references: {name}"
            yield f"not taken: {name}, {files}; if the agent may find them, add `{line}` to sources in {agent}"
    if further := {name: n for name, n in tools.items() if (project.folder / name).resolve() not in named}:
        listed = ", ".join(f"{name} ({count(n, 'tool')})" for name, n in further.items())
        line = ", ".join([*lists, *further])
        yield f"not taken: {listed}; if no server gives these tools, add `tools: [{line}]` to sources in {agent}"


def _agent_of(project: Project) -> AgentFile | None:
    """The agent file of a project; None where there is none yet, or one that the next command reports as faulty."""
    try:
        return read_agent(project.folder / AGENT)
    except UserError:
        return None


def _names_own(path: Path) -> bool:
    """Whether an agent, experiment or gate file that is there names a selector that ctxbench does not ship."""
    try:
        data, _ = load_yaml(path)
    except UserError:
        return False
    named = [data.get("selector"), *(data.get("selectors") or ())] if isinstance(data, dict) else []
    return any({*EXTERNAL_KINDS} & {*selector} for selector in named if isinstance(selector, dict))


def _command(*words: str | Path) -> str:
    return shlex.join(["ctxbench", *map(str, words)])


def _first_steps(project: Project) -> Iterator[str]:
    """What comes before a baseline is accepted, for an agent file."""
    folder, agent = project.folder, project.folder / AGENT
    if project.mcp is not None:
        if find_spec("mcp") is None:
            yield f"{install_command('mcp')}    # the MCP SDK, which servers are asked through"
        if (read := _agent_of(project)) is not None and read.mcp is None:
            yield f"add `mcp: {project.mcp}` to sources in {agent}, which does not name these servers yet"
        yield _command("data", "capture", "--agent", agent)
    yield _command("select", "what a user asks", "--agent", agent)
    if not project.datasets:
        evals = folder / (project.evals or "evals.jsonl")
        golden = _command("data", "import", evals, "--catalog", agent, "--out", folder / EVALS)
        yield f"{golden}    # your evals, or a log"
    if not (_names_own(agent) or all(_names_own(folder / name) for name in (EXPERIMENT, GATE))):
        until = "until then a shipped one (learned/normal) is measured"
        yield f"name your own selector under selector: in {agent}; {until}"
    yield f"{_command('run', folder / EXPERIMENT)}    # the selectors beside each other"


def _next(project: Project, written: Collection[Path]) -> Iterator[str]:
    """What comes next, with the user's own names."""
    folder = project.folder
    if project.has_items:
        yield from _first_steps(project)
    yield _command("check", folder / GATE, "--accept", "--vectors")
    paths = _ci_paths(project)
    pipelines = [path for path in paths if not path.match(ACTION)]
    strict = "; without --strict in options it passes if a server does not start"
    for step in filter(None, (_ci_step(project, path, is_new=path in written) for path in pipelines)):
        yield f"{step}{strict}" if "options" in _ci_inputs(project) else step
    if project.repository is not None:
        if not (project.ignores_runs or folder / IGNORE in written):
            yield f"add the line {RUNS}/ to {folder / IGNORE}: runs hold texts, which a repository should not have"
        names = [AGENT, *([f"{Path(AGENT).stem}.snapshot"] if project.mcp else []), *(project.datasets or [EVALS])]
        names += [GATE, baseline := f"{Path(GATE).stem}.baseline", POLICIES, EXPERIMENT, SCHEMAS]
        names += [IGNORE] if (folder / IGNORE).exists() else []
        if not project.has_items:
            names = [name for name in names if name == baseline or (folder / name).exists()]
        files = map(str, [*(folder / name for name in names), *paths])
        yield f"{shlex.join(['git', 'add', *files])}    # what a check in CI needs; not runs/, which holds texts"


def setup(*, as_json: bool) -> None:
    """Install the embedding model into the cache, unless it is on this machine.

    Raises:
        StorageError: it cannot be downloaded, has another hash, or the cache cannot be written.
        EmbeddingError: `CTXBENCH_MODEL` names a folder without it.
    """
    from ctxbench.search.minilm import REPOSITORY, install_weights

    with progress() as bar:
        weights, is_fresh = install_weights(bar.say)
    folder = weights.model.parent
    state = "installed to" if is_fresh else "already installed in"
    print_result(
        {"model": REPOSITORY, "folder": str(folder), "installed": is_fresh},
        f"the model all-MiniLM-L6-v2 is {state} {folder}",
        as_json=as_json,
    )


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
# A selector that ctxbench ships, as name/preset; it is not yet the one that your project uses. Name that, in place of
# the last line here: a command, a callable or a URL of your own, or a YAML file with a pipeline.
# selector: {{command: [node, my-selector.mjs]}}    # add `source: [src]` if not all code here is its own
# selector: {{callable: "my_selector.py:select"}}
# selector: {{url: "http://127.0.0.1:8700/select"}}
selector: learned/normal
# settings: {{at_most: 5}}
# system: the system prompt, or {{file: prompt.md}}
"""

_IGNORE = f"""\
# Runs of ctxbench and presets that it finds: they hold texts, and no check needs them.
/{RUNS}/
"""

_GATE = """\
# What a change may not make worse; `ctxbench check --accept` writes the baseline, `ctxbench check` compares with it.
datasets: {datasets}
selectors:
  - agent.yaml    # the selector that agent.yaml names: a shipped one until you name your own there
gate:
  max_lost_required: 0    # how many more may be lost than gained; without this line 1 per 400 queries, at least 1
  tolerance: {{completeness: 0.01, tokens: 5%}}
  # repeats: 3    # asks a selector of yours so often; needed where it does not always answer alike
  # pins:
  #   - {{query: evals-17, must_include: ["rule:AGENTS.md"]}}
"""

_EXPERIMENT = """\
# What selectors offer to the agent; `ctxbench run` measures it.
name: experiment
datasets: {datasets}
selectors:
  - {{selector: agent.yaml, name: agent}}    # the selector that agent.yaml names
  - {{selector: learned, preset: normal}}    # the recommended one; it needs no labels
  - {{selector: semantic, preset: spec}}
  - {{selector: bm25, set: {{n: 5}}}}
  - everything
compare_to: agent
"""

_POLICIES = """\
# What presets are to be best at; `ctxbench tune DATASET --policy` finds them, one dataset at a time.
selectors:                                # all compete; the first is the base
  - agent.yaml                            # a selector of your own competes too: {command: [...]} or {answers: FILE}
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
