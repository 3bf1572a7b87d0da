"""Servers that a check of an agent did not ask, or that do not start; and fixes that it suggests, done as printed."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cli.test_agent import AGENT, EVALS, GATE, agent, write

__all__ = ["agent"]  # a fixture
SERVER = Path(__file__).parents[1] / "catalogs" / "mcp" / "listed_tools.py"


class TestServersNotAsked:
    @pytest.fixture
    def desk(self, place, agent, cli):
        """A gate over a server in the repository, whose tools stand in a module that it imports."""
        (place / ".git").mkdir()
        (place / "servers").mkdir()
        shutil.copy(SERVER, place / "servers" / "desk.py")
        (place / "servers" / "tools.py").write_text('TOOLS = {"find_customer": "Find a customer by name"}')
        self.configure(args=["servers/desk.py"])
        write(place, AGENT | {"sources": {**AGENT["sources"], "mcp": ".mcp.json"}, "snapshot": "captured"})
        assert cli("data", "capture", "--agent", "agent.yaml", "--timeout", "60").code == 0
        (place / "evals.jsonl").write_text('{"query": "find a customer", "expected": ["tool:desk:find_customer"]}')
        assert cli("data", "import", "golden", "evals.jsonl", "--catalog", "agent.yaml", "--out", "evals").code == 0
        (place / "gate.yaml").write_text(GATE)
        assert cli("check", "gate.yaml", "--accept").code == 0
        return place

    def configure(self, **entry):
        servers = {"desk": {"command": sys.executable, **entry}}
        Path(".mcp.json").write_text(json.dumps({"mcpServers": servers}))

    def checked(self, cli, *options):
        """The exit code, the verdict, and the servers that were not asked."""
        done = cli("check", "gate.yaml", "--output-format", "json", *options)
        (one,) = done.json["selectors"]
        return done.code, one["verdict"], one["servers"]

    def test_a_server_that_was_not_asked_is_named_with_the_day_of_its_capture(self, desk, cli):
        code, verdict, (server,) = self.checked(cli)
        assert (code, verdict) == (0, "same")
        assert (server["name"], server["changed"], server["verified"], server["error"]) == ("desk", [], True, "")
        assert server["captured"] == yaml.safe_load(Path("captured/capture.yaml").read_text())["captured"]
        assert cli("check", "gate.yaml", "--markdown", "summary.md").code == 0
        assert f"not queried, tools as captured on {server['captured'][:10]}: desk" in (Path("summary.md").read_text())

    @pytest.mark.parametrize("file", ["servers/desk.py", "servers/tools.py", ".mcp.json"])
    def test_what_changed_since_the_capture_is_not_the_same(self, desk, cli, file):
        if file == ".mcp.json":
            self.configure(args=["servers/desk.py", "--all"])
        else:
            Path(file).write_text(Path(file).read_text().replace("find_customer", "lookup") + "\n# edited\n")
        code, verdict, (server,) = self.checked(cli)
        assert (code, verdict, server["changed"]) == (0, "inconclusive", [file])
        assert self.checked(cli, "--strict")[0] == 2
        assert "--accept" not in cli("check", "gate.yaml").out
        lines = cli("check", "gate.yaml", "--output-format", "github", "--junit", "gate.xml").out
        assert "::warning title=ctxbench check%3A server not asked::" in lines
        assert 'name="server: desk"' in Path("gate.xml").read_text()
        code, verdict, servers = self.checked(cli, "--recapture")
        assert (code, verdict, servers) == (0, "same", [])

    def test_ends_of_lines_and_other_files_are_no_change(self, desk, cli):
        path = Path("servers/tools.py")
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
        Path("servers/other.py").write_text("x = 1")
        assert self.checked(cli)[1] == "same"

    def test_what_is_worse_stays_worse_beside_a_server_that_changed(self, desk, cli):
        Path("servers/tools.py").write_text("TOOLS = {}")
        about = yaml.safe_load(Path("agent.yaml").read_text())
        write(desk, about | {"include": {"otherwise": "agent", "tools": {"tool:desk:find_customer": "manual"}}})
        code, verdict, (server,) = self.checked(cli)
        assert (code, verdict, server["changed"]) == (1, "worse", ["servers/tools.py"])

    def test_a_snapshot_without_digests_of_files_that_are_here_is_inconclusive(self, desk, cli):
        self.without_digests()
        tools = Path("servers/tools.py")
        tools.write_text(tools.read_text().replace("find_customer", "lookup"))
        code, verdict, (server,) = self.checked(cli)
        files = ["servers/desk.py", "servers/tools.py"]
        assert (code, verdict, server["changed"], server["unverified"]) == (0, "inconclusive", [], files)
        assert self.checked(cli, "--strict")[0] == 2
        assert self.checked(cli, "--recapture") == (0, "same", [])

    @pytest.mark.parametrize(("args", "expected"), [(["servers/desk.py"], "inconclusive"), (["-m", "x"], "same")])
    def test_a_server_that_was_never_captured_is_named(self, desk, cli, args, expected):
        servers = json.loads(Path(".mcp.json").read_text())
        servers["mcpServers"]["new"] = {"command": sys.executable, "args": args}
        Path(".mcp.json").write_text(json.dumps(servers))
        code, verdict, (_, server) = self.checked(cli)
        assert (code, verdict, server["name"], server["absent"]) == (0, expected, "new", True)
        assert "server new was never captured" in " ".join(cli("check", "gate.yaml", "--verbose").out.split())

    def test_a_server_elsewhere_is_not_verified(self, desk, cli):
        self.without_digests()
        self.configure(args=["-m", "installed"])
        code, verdict, (server,) = self.checked(cli)
        assert (code, verdict, server["verified"], server["unverified"]) == (0, "same", False, [])
        assert "not verified since" in " ".join(cli("check", "gate.yaml", "--verbose").out.split())

    def without_digests(self):
        path = Path("captured/capture.yaml")
        card = yaml.safe_load(path.read_text())
        for part in card["parts"]:
            del part["files"], part["entry"]
        path.write_text(yaml.safe_dump(card))

    @pytest.mark.parametrize(
        "entry", [{"args": ["gone.py"]}, {"args": ["servers/desk.py"], "env": {"K": "${NOT_SET}"}}]
    )
    def test_a_server_that_does_not_start_makes_it_inconclusive(self, desk, cli, entry):
        before = Path("captured/corpus.jsonl").read_bytes()
        self.configure(**entry)
        for options, expected in (((), 0), (("--strict",), 2)):
            code, verdict, (server,) = self.checked(cli, "--recapture", *options)
            assert (code, verdict, server["name"]) == (expected, "inconclusive", "desk")
            assert server["error"]
        assert Path("captured/corpus.jsonl").read_bytes() == before
        accepted = Path("gate.baseline/baseline.json").read_bytes()
        assert cli("check", "gate.yaml", "--accept", "--recapture").code == 2
        assert Path("gate.baseline/baseline.json").read_bytes() == accepted

    def test_what_was_found_by_asking_again_is_accepted_by_asking_again(self, desk, cli):
        (desk / "servers" / "tools.py").write_text('TOOLS = {"post": "Post a parcel"}')
        done = cli("check", "gate.yaml", "--recapture", "--allow-removed")
        assert "\n  ctxbench check gate.yaml --accept --recapture\n" in done.out

    def test_a_server_may_be_left_out_of_those_that_are_asked(self, desk, cli):
        self.configure(args=["servers/desk.py"], env={"K": "${NOT_SET}"})
        code, verdict, (server,) = self.checked(cli, "--recapture", "--skip", "desk")
        assert (code, verdict, server["error"]) == (0, "same", "")
        assert cli("check", "gate.yaml", "--recapture", "--skip", "desc").code == 2
        assert cli("check", "gate.yaml", "--skip", "desk").code == 2


class TestSuggestedFixes:
    """What a check suggests is done as it is printed; then nothing is worse any more."""

    SKILL = "---\nname: parcels\ndescription: How lost parcels are searched\n---\nAsk the carrier.\n"

    @pytest.fixture
    def repository(self, place, agent, cli):
        """A committed gate with a rule and a skill that evals require."""
        (place / ".claude" / "skills" / "parcels").mkdir(parents=True)
        (place / ".claude" / "skills" / "parcels" / "SKILL.md").write_text(self.SKILL)
        rows = [*EVALS, {"query": "search a lost parcel", "expected": ["skill:parcels"]}]
        (place / "evals.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        assert cli("data", "import", "golden", "evals.jsonl", "--catalog", "agent.yaml", "--out", "evals").code == 0
        (place / "gate.yaml").write_text(GATE)
        assert cli("check", "gate.yaml", "--accept").code == 0
        self.run("git", "init", "-q")
        self.commit("Accept")
        return place

    def run(self, *command):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr

    def commit(self, message):
        self.run("git", "add", "-A")
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        self.run("git", *who, "commit", "-q", "-m", message)

    def fixes(self, cli, verdict="worse"):
        """The suggested fixes of a check, and the commands in each."""
        done = cli("check", "gate.yaml", "--output-format", "json")
        assert done.json["verdict"] == verdict
        fixes = [one["fix"] for one in done.json["selectors"][0]["causes"] if one["fix"]]
        return {fix: re.findall(r"`((?:git|ctxbench) [^`]*)`", fix) for fix in fixes}

    @pytest.mark.parametrize("committed", [False, True])
    def test_a_skill_that_is_gone_is_brought_back(self, repository, cli, committed):
        shutil.rmtree(".claude/skills/parcels")
        if committed:
            self.commit("Drop the skill")
        ((fix, (command,)),) = self.fixes(cli).items()
        assert "replaces it" not in fix  # nothing is new
        self.run(*shlex.split(command))
        assert self.checked(cli) == "same"

    def test_a_skill_that_another_took_the_place_of_has_its_labels_follow(self, repository, cli):
        shutil.rmtree(".claude/skills/parcels")
        path = Path(".claude/skills/search/SKILL.md")
        path.parent.mkdir()
        path.write_text(self.SKILL.replace("name: parcels", "name: search").replace("Ask", "Ask first"))
        ((fix, (_, rebase)),) = self.fixes(cli).items()
        (line,) = re.findall(r"renames.yaml: `([^`]*)` and", fix)
        Path("renames.yaml").write_text(line)
        assert cli(*shlex.split(rebase)[1:]).code == 0
        assert self.checked(cli) == "same"

    def test_a_skill_that_is_dropped_on_purpose_is_accepted_by_the_commands_that_are_named(self, repository, cli):
        shutil.rmtree(".claude/skills/parcels")
        text = " ".join(cli("check", "gate.yaml").out.split())
        (rebase,) = {*re.findall(r"update the labels \(`ctxbench ([^`]*)`", text)}
        assert cli(*shlex.split(rebase)).code == 0
        assert cli("check", "gate.yaml", "--accept").code == 0
        assert self.checked(cli) == "same"

    def test_a_rule_that_is_always_included_now_is_included_as_before(self, repository, cli):
        path = Path(".cursor/rules/refunds.mdc")
        path.write_text(path.read_text().replace("---\n", "---\nalwaysApply: true\n", 1))
        few = "inconclusive"  # on so few queries, though each costs more
        (command,) = {command for found in self.fixes(cli, few).values() for command in found}
        self.run(*shlex.split(command))
        assert self.checked(cli) == "same"

    def checked(self, cli):
        return cli("check", "gate.yaml", "--output-format", "json").json["verdict"]
