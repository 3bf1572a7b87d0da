"""`ctxbench init`: what it writes for what it finds, and that what it writes works as it stands."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from ctxbench.catalogs.agent_file import read_agent
from ctxbench.evaluation.experiment import examine
from ctxbench.gate.settings import examine_gate
from ctxbench.tuning.policy import read_policies

TOOLS = [{"name": "track_parcel", "description": "Where a parcel is"}, {"name": "refund", "description": "Pay back"}]
SERVERS = '{"mcpServers": {"shop": {"command": "x"}}}'
EVALS = [{"query": "where is my parcel", "expected": ["track_parcel"]}, {"query": "bye", "expected": []}]
GOLDEN = "ctxbench data import evals.jsonl --catalog agent.yaml --out datasets/evals"
ADD = (
    "git add agent.yaml datasets/evals gate.yaml gate.baseline policies.yaml experiment.yaml .ctxbench "
    ".gitignore .github/workflows/ctxbench.yml .github/actions/ctxbench/action.yml"
)
OWN = "name your own selector under selector: in agent.yaml; until then a shipped one (learned/normal) is measured"
EDIT = "fill in install: in .github/workflows/ctxbench.yml: where pip gets ctxbench from; its job fails until then"
READY = Path(__file__).parents[2] / "experiments" / "gate"


@pytest.fixture
def project(place):
    """A git repository with rules, a list of tools and evals."""
    (place / ".git").mkdir()
    (place / "AGENTS.md").write_text("Be kind to customers.")
    (place / "tools.json").write_text(json.dumps(TOOLS))
    (place / "evals.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in EVALS))
    return place


def test_it_writes_what_the_project_needs(cli, project):
    done = cli("init")
    assert done.code == 0, done.err
    assert [line for line in done.out.splitlines() if "schema.json" not in line] == [
        "found 2 tools in tools.json",
        "found 1 file of rules and skills",
        "written: agent.yaml",
        "written: gate.yaml",
        "written: policies.yaml",
        "written: experiment.yaml",
        "written: .github/workflows/ctxbench.yml",
        "written: .github/actions/ctxbench/action.yml",
        "written: .gitignore",
        "Next:",
        "  ctxbench select 'what a user asks' --agent agent.yaml",
        f"  {GOLDEN}    # your evals, or a log",
        f"  {OWN}",
        "  ctxbench run experiment.yaml    # the selectors beside each other",
        "  ctxbench check gate.yaml --accept --vectors",
        f"  {EDIT}",
        f"  {ADD}    # what a check in CI needs; not runs/, which holds texts",
    ]
    assert [item.id for item in read_agent(project / "agent.yaml").catalog()] == [
        "tool:track_parcel",
        "tool:refund",
        "rule:AGENTS.md",
    ]
    assert Path(".github/workflows/ctxbench.yml").read_text() == (READY / "workflow.yml").read_text()
    assert Path(".github/actions/ctxbench/action.yml").read_text() == (READY / "action.yml").read_text()
    assert "\n      # - run: npm ci " in (READY / "workflow.yml").read_text()
    gate = Path("gate.yaml").read_text()
    Path("gate.yaml").write_text(gate.replace("  # repeats: 3 ", "  repeats: 3 "))
    assert examine_gate(Path("gate.yaml"))[0].settings.repeats == 3
    policies = read_policies(Path("policies.yaml")).policies
    assert [*policies] == ["aggressive", "normal", "conservative"]
    told = "# a selector of your own competes too: {command: [...]} or {answers: FILE}"
    assert told in Path("policies.yaml").read_text("utf-8")


@pytest.mark.parametrize("files", [["agent.yaml"], ["experiment.yaml", "gate.yaml"]])
def test_whose_selector_is_named_already_is_not_told_to_name_it(cli, project, files):
    assert OWN in cli("init", "--json").json["next"]
    for name in files:
        shipped, own = ("selector: learned/normal", 'selector: {command: [node, "x.mjs"]}')
        if name != "agent.yaml":
            shipped, own = "selectors:\n", 'selectors:\n  - {command: [node, "x.mjs"]}\n'
        Path(name).write_text(Path(name).read_text().replace(f"\n{shipped}", f"\n{own}"))
    assert OWN not in cli("init", "--json").json["next"]


@pytest.mark.essential
def test_the_next_commands_work_as_they_stand(cli, project):
    cli("init")
    hashing = ("--embedder", "hashing")
    assert cli("select", "what a user asks", "--agent", "agent.yaml", *hashing).code == 0
    assert (
        cli("data", "import", "golden", "evals.jsonl", "--catalog", "agent.yaml", "--out", "datasets/evals").code == 0
    )
    Path("gate.yaml").write_text(Path("gate.yaml").read_text() + "embedder: hashing\n")
    Path("experiment.yaml").write_text(Path("experiment.yaml").read_text() + "embedder: hashing\n")
    done = cli("run", "experiment.yaml")
    assert done.code == 0, done.err
    assert "\nagent (= learned/normal, shipped)" in done.out
    selectors = cli("run", "experiment.yaml", "--json").json["datasets"]["evals"]["selectors"]
    assert {"agent", "learned/normal"} <= set(selectors)
    page = Path("runs/experiment/report.html").read_text("utf-8")
    assert "agent (= learned/normal, shipped)" in page
    accepted = cli("check", "gate.yaml", "--accept")
    assert accepted.code == 0
    assert "agent (= learned/normal, shipped) on evals" in accepted.out
    done = cli("check", "--verbose")
    assert done.out.startswith("same")
    assert "agent (= learned/normal, shipped)" in done.out
    (told,) = cli("check", "--output-format", "json").json["selectors"]
    assert (told["selector"], told["shipped"]) == ("agent", "learned/normal")


@pytest.mark.parametrize(
    ("line", "entry", "shipped"),
    [
        ("selector: learned", "agent.yaml", "learned/normal"),
        ("selector: bm25", "agent.yaml", "bm25"),
        ("selector: learned/aggressive", "agent.yaml", "learned/aggressive"),
        ("selector: learned/normal", "{selector: agent.yaml, preset: conservative}", "learned/conservative"),
        ("selector: learned/normal\nsettings: {at_most: 7}", "agent.yaml", "learned with other settings"),
        ("selector: learned/normal", "{selector: agent.yaml, set: {at_most: 7}}", "learned with other settings"),
        ("selector: mine.yaml", "agent.yaml", ""),
        ('selector: {command: ["true"]}', "agent.yaml", ""),
        ("selector: learned/normal", "learned/normal", ""),
    ],
)
def test_a_selector_is_called_shipped_where_the_agent_file_names_none_of_the_user_s(cli, project, line, entry, shipped):
    cli("init")
    Path("mine.yaml").write_text("{name: mine, pipeline: {retrieve: bm25, refine: [{first: {n: 2}}]}}")
    Path("agent.yaml").write_text(Path("agent.yaml").read_text().replace("\nselector: learned/normal", f"\n{line}"))
    Path("e.yaml").write_text(f"datasets: [datasets/evals]\nselectors: [{entry}]\n")
    experiment, faults = examine(Path("e.yaml"))
    assert (faults, [spec.shipped for spec in experiment.selectors]) == ([], [shipped])


def test_a_selector_of_ones_own_has_a_line_to_take_the_comment_from(cli, project):
    cli("init")
    text = Path("agent.yaml").read_text()
    assert "it is not yet the one that your project uses" in text
    for kind in ("command", "callable", "url"):
        (line,) = [line for line in text.splitlines() if line.startswith(f"# selector: {{{kind}:")]
        Path("agent.yaml").write_text(text.replace("selector: learned/normal", line.removeprefix("# ")))
        assert kind in read_agent(Path("agent.yaml")).external
        assert ("`source: [src]`" in line) is (kind == "command")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"mcpServers": {', "malformed JSON: it ends too early"),
        (
            '{"mcpServers": {"shop": {"comand": "x"}}}',
            "server 'shop': it has neither 'command' nor 'url' (.mcp.json, line 1)",
        ),
    ],
)
def test_servers_that_cannot_be_read_are_not_taken(cli, project, text, reason):
    Path(".mcp.json").write_text(text)
    (project / ".cursor").mkdir()
    Path(".cursor/mcp.json").write_text(
        '{"mcpServers": {"shop": {"command": "x", "env": {"KEY": "${NOT_SET_ANYWHERE}"}}}}'
    )
    done = cli("init")
    assert f"not taken: .mcp.json, which cannot be used ({reason}" in done.out
    assert "found servers in .mcp.json" not in done.out
    assert read_agent(project / "agent.yaml").mcp == project / ".cursor/mcp.json"


def test_a_folder_where_a_file_goes_is_an_error_and_nothing_is_written(cli, project):
    Path("gate.yaml").mkdir()
    done = cli("init")
    assert done.code == 2
    assert "gate.yaml: a folder, where a file goes; move it away" in done.err
    assert not Path("agent.yaml").exists()


def test_editors_find_the_schema_of_each_file(cli, project):
    done = cli("init", "--json").json
    schemas = {path for path in done["written"] if path.endswith(".schema.json")}
    assert ".ctxbench/agent.schema.json" in schemas
    headers = {path.read_text("utf-8").split("\n")[0] for path in project.glob("*.yaml")}
    assert {f"# yaml-language-server: $schema={path}" for path in schemas} <= headers
    schema = json.loads((project / ".ctxbench" / "agent.schema.json").read_text("utf-8"))
    jsonschema.validate(yaml.safe_load((project / "agent.yaml").read_text("utf-8")), schema)


def test_schemas_of_another_version_are_replaced(cli, project):
    cli("init")
    schema = project / ".ctxbench" / "gate.schema.json"
    text = schema.read_text("utf-8")
    schema.write_text("{}")
    assert cli("init", "--json").json["written"] == [".ctxbench/gate.schema.json"]
    assert schema.read_text("utf-8") == text


def test_what_is_there_stays(cli, project):
    (project / "gate.yaml").write_text("mine")
    done = cli("init", "--json").json
    assert done["kept"] == ["gate.yaml"]
    assert [path for path in done["written"] if "schema.json" not in path] == [
        "agent.yaml",
        "policies.yaml",
        "experiment.yaml",
        ".github/workflows/ctxbench.yml",
        ".github/actions/ctxbench/action.yml",
        ".gitignore",
    ]
    assert (project / "gate.yaml").read_text() == "mine"
    assert cli("init", "--json").json["written"] == []


@pytest.mark.parametrize("line", ["runs", "runs/", "/runs/", "**/runs/", "runs/*", "/runs/**"])
def test_a_gitignore_that_keeps_runs_out_is_enough(cli, project, line):
    (project / ".gitignore").write_text(f"# mine\nnode_modules\n{line}\n")
    done = cli("init", "--json").json
    assert ".gitignore" not in done["written"]
    assert not [step for step in done["next"] if step.startswith("add the line")]


@pytest.mark.parametrize("line", ["node_modules", "# runs/", "/app/runs/", "!runs/", "myruns/"])
def test_a_gitignore_without_such_a_line_is_not_changed_but_told(cli, project, line):
    (project / ".gitignore").write_text(f"{line}\n")
    done = cli("init", "--json").json
    assert ".gitignore" not in done["written"]
    assert "add the line runs/ to .gitignore: runs hold texts, which a repository should not have" in done["next"]
    assert " .gitignore " in done["next"][-1]
    assert (project / ".gitignore").read_text() == f"{line}\n"


@pytest.mark.parametrize(
    ("line", "written"),
    [("runs/", False), ("apps/folio/runs/", False), ("/apps/folio/runs", False), ("/runs/", True), ("", True)],
)
def test_a_gitignore_above_counts_where_it_is_of_the_repository(cli, place, line, written):
    (place / ".gitignore").write_text("runs/\n")  # of another repository, or of none
    (place / "repo" / ".git").mkdir(parents=True)
    (place / "repo" / ".gitignore").write_text(f"{line}\n")
    folder = place / "repo" / "apps" / "folio"
    folder.mkdir(parents=True)
    (folder / "AGENTS.md").write_text("Be kind.")
    assert cli("init", "repo/apps/folio").code == 0
    assert (folder / ".gitignore").exists() is written


def test_without_a_repository_there_is_no_gitignore(cli, project):
    (project / ".git").rmdir()
    assert ".gitignore" not in cli("init").out


def test_servers_and_datasets_are_found_and_named(cli, place):
    (place / "work").mkdir()
    (place / "work" / ".cursor").mkdir()
    (place / "work" / ".cursor" / "mcp.json").write_text(SERVERS)
    (place / "work" / "data" / "mine").mkdir(parents=True)
    (place / "work" / "data" / "mine" / "dataset.yaml").write_text("name: mine")
    (place / "work" / "node_modules" / "x").mkdir(parents=True)
    (place / "work" / "node_modules" / "x" / "dataset.yaml").write_text("name: x")
    done = cli("init", "work")
    assert done.code == 0, done.err
    assert "found servers in .cursor/mcp.json" in done.out
    assert "  ctxbench data capture --agent work/agent.yaml" in done.out
    assert "golden" not in done.out
    assert "no git repository here or above, so that no files for CI are written" in done.out
    assert yaml.safe_load((place / "work" / "agent.yaml").read_text())["sources"] == {"mcp": ".cursor/mcp.json"}
    assert yaml.safe_load((place / "work" / "gate.yaml").read_text())["datasets"] == ["data/mine"]
    assert not (place / "work" / ".github").exists()


def test_in_a_folder_of_a_repository_the_workflow_goes_to_its_root(cli, place):
    (place / ".git").mkdir()
    (place / "apps" / "folio").mkdir(parents=True)
    (place / "apps" / "folio" / "AGENTS.md").write_text("Be kind.")
    done = cli("init", "apps/folio")
    assert done.code == 0, done.err
    path = "apps/folio/../../.github/workflows/ctxbench.yml"
    assert f"written: {path}" in done.out.splitlines()
    assert "git add apps/folio/agent.yaml apps/folio/datasets/evals apps/folio/gate.yaml" in done.out
    assert inputs() == {"gate": "apps/folio/gate.yaml", "options": "", "install": ""}


INSTALL = "ctxbench @ git+https://HOST/PATH@COMMIT"


def step_for_ci(out):
    """The part of a workflow or pipeline that `init` says to add."""
    (line,) = re.findall(r"add `((?:include:|- ).*)` to ", out)
    return yaml.safe_load(line)


def add_folder(place, name):
    (place / name).mkdir(parents=True)
    (place / name / "AGENTS.md").write_text("Be kind.")


def test_a_second_gate_of_a_repository_is_added_to_its_workflow(cli, place):
    (place / ".git").mkdir()
    for name in ("apps/folio", "apps/desk"):
        add_folder(place, name)
    assert "fill in install: in " in cli("init", "apps/folio").out
    (step,) = step_for_ci(cli("init", "apps/desk").out)
    assert (step["uses"], step["if"]) == ("./.github/actions/ctxbench", "${{ !cancelled() }}")
    assert step["with"] == {"gate": "apps/desk/gate.yaml", "install": INSTALL, "artifact": "gate-apps-desk"}
    workflow = place / ".github" / "workflows" / "ctxbench.yml"
    workflow.write_text(f"{workflow.read_text()}\n      - {json.dumps(step)}\n")
    for name in ("apps/folio", "apps/desk"):
        assert "add `" not in cli("init", name).out.replace("add `references", "")


def test_a_second_gate_of_a_repository_is_a_second_job_in_gitlab(cli, place):
    (place / ".git").mkdir()
    pipeline = place / ".gitlab-ci.yml"
    pipeline.write_text("stages: [test]\n")
    add_folder(place, "apps/desk")
    (place / "AGENTS.md").write_text("Be kind.")
    (include,) = step_for_ci(cli("init").out)["include"]
    (before,) = step_for_ci(cli("init", "apps/desk").out)["include"]
    pipeline.write_text(json.dumps({"include": [include]}))
    (second,) = step_for_ci(cli("init", "apps/desk").out)["include"]
    assert second["inputs"] == {
        "gate": "apps/desk/gate.yaml",
        "install": INSTALL,
        "name": "context-selection-apps-desk",
    }
    assert before == second  # also while the first include is not in the pipeline yet
    pipeline.write_text(json.dumps({"include": [include, second]}))
    assert "include:" not in cli("init").out + cli("init", "apps/desk").out
    pipeline.write_text("include:\n  - local: .gitlab/ctxbench.yml\n    inputs:\n      install: x\n")
    assert "include:" not in cli("init").out


def test_in_gitlab_the_servers_in_the_repository_are_asked_too(cli, place):
    (place / ".git").mkdir()
    (place / ".gitlab-ci.yml").write_text("stages: [test]\n")
    (place / "shop.py").write_text("")
    (place / ".mcp.json").write_text(json.dumps({"mcpServers": {"shop": {"command": "python3", "args": ["shop.py"]}}}))
    out = cli("init").out
    assert "; without --strict in options it passes if a server does not start\n" in out
    (include,) = step_for_ci(out)["include"]
    assert include["inputs"]["options"] == "--recapture"
    assert include["inputs"]["install"].startswith("ctxbench[mcp] @ ")
    # an include without options gets the same whatever folder `init` ran in
    assert (place / ".gitlab" / "ctxbench.yml").read_text() == (READY / "gitlab.yml").read_text()


def inputs():
    """What the workflow tells the action."""
    workflow = Path(".github/workflows/ctxbench.yml").read_text()
    return yaml.safe_load(workflow)["jobs"]["check"]["steps"][-1]["with"]


@pytest.mark.parametrize(("folder", "gate"), [(".", "gate.yaml"), ("apps/folio", "apps/folio/gate.yaml")])
def test_in_a_repository_of_gitlab_a_template_is_written_with_the_line_that_includes_it(cli, place, folder, gate):
    (place / ".git").mkdir()
    (place / ".gitlab-ci.yml").write_text("stages: [test]\n")
    (place / folder).mkdir(parents=True, exist_ok=True)
    (place / folder / "AGENTS.md").write_text("Be kind.")
    done = cli("init", folder)
    assert done.code == 0, done.err
    assert not (place / ".github").exists()
    assert (place / ".gitlab" / "ctxbench.yml").read_text() == (READY / "gitlab.yml").read_text()
    (line,) = re.findall(r"add `(include: .*)` to \.gitlab-ci\.yml", done.out)
    assert yaml.safe_load(line)["include"] == [
        {"local": ".gitlab/ctxbench.yml", "inputs": {"install": INSTALL, "gate": gate}},
    ]
    assert re.search(r"git add .* (apps/folio/\.\./\.\./)?\.gitlab/ctxbench\.yml", done.out)
    (place / ".github").mkdir()
    assert cli("init", folder).code == 0
    assert (place / ".github" / "actions" / "ctxbench" / "action.yml").is_file()


def test_files_for_both_hosts_are_written_and_renewed(cli, place):
    (place / ".git").mkdir()
    (place / ".github").mkdir()
    (place / ".gitlab-ci.yml").write_text("stages: [test]\n")
    (place / "AGENTS.md").write_text("Be kind.")
    out = cli("init").out
    assert "fill in install: in .github/workflows/ctxbench.yml" in out
    assert [entry["local"] for entry in step_for_ci(out)["include"]] == [".gitlab/ctxbench.yml"]
    copies = [place / ".github/actions/ctxbench/action.yml", place / ".gitlab/ctxbench.yml"]
    before = [path.read_bytes() for path in copies]
    for path in copies:
        path.unlink()
    assert cli("init").code == 0
    assert [path.read_bytes() for path in copies] == before


@pytest.mark.parametrize(
    ("servers", "options"),
    [
        ({"shop": ["python3", "servers/shop.py"]}, "--recapture"),
        ({"shop": ["node", "${workspaceFolder}/servers/shop.mjs"], "far": "https://h/mcp"}, "--recapture --skip far"),
        ({"shop": ["npx", "-y", "@corp/shop"], "far": "https://h/mcp"}, ""),
        ({"shop": ["python3", "-m", "servers.shop"], "off": None}, "--recapture"),
    ],
)
def test_servers_whose_code_is_in_the_repository_are_asked_in_the_workflow(cli, project, servers, options):
    (project / "servers").mkdir()
    for name in ("shop.py", "shop.mjs"):
        (project / "servers" / name).write_text("")
    entries = {
        name: {"url": entry}
        if isinstance(entry, str)
        else {"command": entry[0], "args": entry[1:]}
        if entry
        else {"command": "x", "disabled": True}
        for name, entry in servers.items()
    }
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": entries}))
    assert cli("init").code == 0
    assert inputs()["options"] == options
    text = Path(".github/workflows/ctxbench.yml").read_text()
    assert ("#   ctxbench[mcp] @ git+" in text) is bool(options)
    assert ("#   ./tools/ctxbench[mcp] " in text) is bool(options)
    assert "ctxbench[mcp]" not in inputs()["install"]


def test_what_is_not_taken_is_said_with_what_to_do(cli, place):
    for folder in (".vscode", "src", "apps/folio"):
        (place / folder).mkdir(parents=True)
    for name in (".mcp.json", ".vscode/mcp.json", "apps/folio/.mcp.json"):
        (place / name).write_text(SERVERS)
    (place / "src" / "tools.json").write_text(json.dumps(TOOLS))
    (place / "tools.json").write_text("[1]")
    (place / "src" / "my-evals.csv").write_text("query,expected")
    lines = cli("init").out.splitlines()
    assert lines[:2] == ["found servers in .mcp.json", "found 2 tools in src/tools.json"]
    assert "not taken: .vscode/mcp.json; the agent file names one configuration" in lines
    assert "not taken: apps/folio/.mcp.json; `ctxbench init apps/folio` makes an agent file for it" in lines
    how = "`ctxbench data import tools tools.json --out catalogs/tools` says what is missing"
    assert f"not taken: tools.json, whose form is not known; {how}" in lines
    assert any("data import src/my-evals.csv --catalog agent.yaml" in line for line in lines)


def test_what_is_odd_in_rules_is_told(cli, project):
    (project / ".cursor" / "rules").mkdir(parents=True)
    (project / ".cursor" / "rules" / "pets.mdc").write_text("No pets.")
    said = "  Cursor rules: .cursor/rules/pets.mdc has no front matter; its include mode is manual"
    assert said in cli("init").out.splitlines()


def test_documents_and_further_lists_are_told_with_the_line_that_names_them(cli, project):
    for name in ("docs", "servers", "tools"):
        (project / name).mkdir()
    for name in ("docs/fares.md", "docs/ports.md"):
        (project / name).write_text("Fares.")
    (project / "servers" / "bookings.tools.json").write_text(json.dumps([{"name": "book", "description": "Book."}]))
    (project / "tools" / "crew.json").write_text(json.dumps([{"name": "crew", "description": "Crew."}]))
    (project / "tools" / "tsconfig.json").write_text('{"compilerOptions": {}}')
    lines = [line for line in cli("init").out.splitlines() if line.startswith("not taken")]
    lists = "servers/bookings.tools.json, tools/crew.json"
    held = "servers/bookings.tools.json (1 tool), tools/crew.json (1 tool)"
    to = "to sources in agent.yaml"
    assert lines == [
        f"not taken: docs, 2 Markdown files; if the agent may find them, add `references: docs` {to}",
        f"not taken: {held}; if no server gives these tools, add `tools: [tools.json, {lists}]` {to}",
    ]
    text = (project / "agent.yaml").read_text()
    text = text.replace("  tools: tools.json\n", f"  tools: [tools.json, {lists}]\n  references: docs\n")
    (project / "agent.yaml").write_text(text)
    assert "tool:book" in read_agent(project / "agent.yaml").catalog().ids
    assert "not taken" not in cli("init").out


def test_sources_that_came_later_are_told_with_the_line_that_names_them(cli, project):
    (project / "agent.yaml").write_text("name: desk\nsources: {references: docs}\n")
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {"desk": {"command": "desk"}}}))
    done = cli("init")
    to = "to sources in agent.yaml"
    assert [line for line in done.out.splitlines() if line.startswith("not taken")] == [
        f"not taken: 1 file of rules and skills; add `rules: .` {to}",
        f"not taken: tools.json (2 tools); if no server gives these tools, add `tools: [tools.json]` {to}",
    ]
    steps = [line.strip() for line in done.out.partition("Next:\n")[2].splitlines()]
    capture = steps.index("ctxbench data capture --agent agent.yaml")
    assert steps[capture - 1] == f"add `mcp: .mcp.json` {to}, which does not name these servers yet"
    (project / "agent.yaml").write_text("name: desk\nsources: {mcp: .mcp.json, rules: ., tools: tools.json}\n")
    assert "add `" not in cli("init").out


def test_a_list_that_is_none_of_tools_is_passed_over(cli, project):
    (project / "tools.json").write_text('{"compilerOptions": {}}')
    assert "not taken: tools.json, whose form is not known" in cli("init").out
    assert yaml.safe_load((project / "agent.yaml").read_text())["sources"] == {"rules": "."}


def test_beside_the_gate_of_a_service_it_writes_the_files_for_ci(cli, place):
    (place / ".git").mkdir()
    folder = place / "apps" / "docs"
    folder.mkdir(parents=True)
    refused = cli("init", "apps/docs")
    assert refused.code == 2
    assert "write gate.yaml there (experiments/gate/ci.md), and `init` adds the rest" in refused.err
    (folder / "gate.yaml").write_text("datasets: [questions]\nselectors: [{url: http://127.0.0.1:8700/select}]\n")
    (folder / "questions").mkdir()
    (folder / "questions" / "dataset.yaml").write_text("name: questions")
    done = cli("init", "apps/docs")
    assert done.code == 0, done.err
    assert inputs()["gate"] == "apps/docs/gate.yaml"
    assert {path.name for path in folder.iterdir()} == {".ctxbench", ".gitignore", "gate.yaml", "questions"}
    check, install, add = done.out.partition("Next:\n")[2].splitlines()
    assert check == "  ctxbench check apps/docs/gate.yaml --accept --vectors"
    assert install.startswith("  fill in install: in ")
    names = [f"apps/docs/{name}" for name in ("questions", "gate.yaml", "gate.baseline", ".ctxbench", ".gitignore")]
    assert add.startswith(f"  git add {' '.join(names)} apps/docs/../../.github/workflows/ctxbench.yml ")


@pytest.mark.parametrize(
    ("folder", "message"),
    [("gone", "there is no folder gone"), (".", "holds nothing that an agent could be given: no MCP configuration")],
)
def test_nothing_is_written_where_there_is_nothing(cli, place, folder, message):
    done = cli("init", folder)
    assert done.code == 2
    assert message in done.err
    assert list(place.iterdir()) == []
