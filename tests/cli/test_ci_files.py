"""The action of GitHub and the template of GitLab: their steps run in bash, against a server with the comments."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree.ElementTree import parse

import pytest
import yaml

from tests.ci_runner import BASH, HOSTILE, NUMBER, TOKEN, Forge, Runner

ROOT = Path(__file__).parents[2]
READY = ROOT / "experiments" / "gate"
ACTION, WORKFLOW, TEMPLATE = (READY / name for name in ("action.yml", "workflow.yml", "gitlab.yml"))
NEEDED = "reference:guides%2Fon%20call"  # what q08 needs, and is offered for its description and text
LOGGED = '#!/bin/bash\necho "$(basename "$0")" "$@" >> "$PIP_LOG"\n'
CTXBENCH = f'{LOGGED}exec "{sys.executable}" -m ctxbench "$@"\n'
INSTALL = "./tools/ctxbench"

pytestmark = [
    pytest.mark.rest,
    pytest.mark.skipif(not all(map(shutil.which, ("git", "bash"))), reason="git and bash are needed"),
]


@pytest.fixture
def forge():
    server = Forge()
    yield server
    server.stop()


@pytest.fixture
def env(tmp_path, forge):
    """The environment of a runner: pip is a stand-in that writes down what it is called with."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in (("pip", LOGGED), ("ctxbench", CTXBENCH)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    return {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PIP_LOG": str(tmp_path / "pip.log"),
        "PYTHONPATH": str(ROOT),
        "HOME": str(tmp_path),
        "CTXBENCH_OFFLINE": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GITHUB_API_URL": forge.url,
    }


@pytest.fixture
def checkout(place, tiny, cli):
    """A repository whose gate is in a folder, with its baseline; the requests hold what others could have written."""
    folder = place / "apps" / "desk"
    shutil.copytree(tiny, folder / "data")
    card = yaml.safe_load((folder / "data/dataset.yaml").read_text())
    del card["counts"]
    (folder / "data/dataset.yaml").write_text(yaml.safe_dump(card))
    rows = [json.loads(line) for line in (folder / "data/queries.jsonl").read_text().splitlines()]
    for row in rows:
        row["text"] += f" {HOSTILE} <img src=x> #12"
    (folder / "data/queries.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    gate = {"name": "tiny", "datasets": ["data"], "embedder": "hashing", "tokens": "chars/4"}
    gate |= {"selectors": [{"selector": "bm25", "set": {"n": 3}}], "gate": {"max_lost_required": 0}}
    (folder / "gate.yaml").write_text(yaml.safe_dump(gate))
    assert cli("check", folder / "gate.yaml", "--accept").code == 0
    author = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "Add the gate"]):
        subprocess.run(["git", *author, *words], cwd=place, check=True, timeout=60)
    return place


def empty(checkout):
    """Change the item that q08 needs, so that it is lost; returns its line, and what undoes it."""
    path = checkout / "apps/desk/data/corpus.jsonl"
    before = path.read_text()
    rows = [json.loads(line) for line in before.splitlines()]
    position = next(n for n, row in enumerate(rows) if row["_id"] == NEEDED)
    rows[position] |= {"description": "Ice cream parlour.", "text": "Ice cream parlour."}
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return position + 1, lambda: path.write_text(before)


@pytest.fixture
def runner(checkout, env, tmp_path):
    return Runner(ACTION, checkout, tmp_path / "runner", env)


def notices(job):
    return re.findall(r"^::notice title=ctxbench comment::(.*)$", job.out, re.MULTILINE)


GATE = {"gate": "apps/desk/gate.yaml", "install": INSTALL}


def test_a_pull_request_that_gets_worse_and_is_corrected_has_one_comment(runner, forge, checkout, tmp_path):
    job = runner.run(**GATE)
    assert job.code == 0, job.out + job.err
    assert job.steps.keys() >= {"Install", "Check what the model would be offered", "Comment on the pull request"}
    (body,) = forge.bodies()
    assert body.startswith("## ctxbench check apps/desk/gate.yaml: same")

    line, undo = empty(checkout)
    job = runner.run(**GATE)
    assert job.code == 1, job.out + job.err
    assert job.steps["Comment on the pull request"] == 0
    (body,) = forge.bodies()
    assert body.startswith("## ctxbench check apps/desk/gate.yaml: worse: bm25 on tiny: 1 required item lost")
    assert "\nRun the commands in `apps/desk`." in body
    assert f"apps/desk/data/corpus.jsonl:{line}" in body
    assert f"::error file=apps/desk/data/corpus.jsonl,line={line}," in job.out
    assert body.rstrip().endswith("<!-- ctxbench check: apps/desk/gate.yaml -->")
    assert job.summary.split("\n")[0] == body.split("\n")[0]
    assert notices(job) == []
    assert job.uses["actions/upload-artifact"]["path"] == str(tmp_path / "runner/temp/ctxbench/gate.xml")
    suites = parse(job.uses["actions/upload-artifact"]["path"])
    assert [*suites.iter("failure")]
    assert suites.getroot().get("name") == "apps/desk/gate.yaml"
    outside = re.sub("(`+).*?\\1", "", body)  # what is code mentions nobody and is no markup
    assert "@admin" not in outside
    assert "<img" not in outside
    assert "#12" not in outside
    assert "<img" in body

    undo()
    job = runner.run(**GATE)
    assert job.code == 0, job.out + job.err
    (body,) = forge.bodies()
    assert body.startswith("## ctxbench check apps/desk/gate.yaml: same")
    assert [method for method, _ in forge.requests if method != "GET"] == ["POST", "PATCH", "PATCH"]
    assert [*checkout.rglob("pwned")] == []


@pytest.mark.parametrize(("fault", "words"), [(403, "status 403"), (500, "status 500")])
def test_a_fork_has_the_same_verdict_and_the_summary_and_a_notice(runner, forge, checkout, fault, words):
    forge.faults |= {"POST": fault, "PATCH": fault}
    empty(checkout)
    job = runner.run(fork=True, **GATE)
    assert job.code == 1, job.out + job.err
    assert forge.comments == {}
    assert job.summary.startswith("## ctxbench check apps/desk/gate.yaml: worse")
    (notice,) = notices(job)
    assert words in notice
    assert job.steps["Comment on the pull request"] == 0


def test_a_gate_in_a_folder_that_is_not_there_is_not_called_worse(runner, pipeline, forge):
    job = runner.run(**{**GATE, "gate": "nowhere/gate.yaml"})
    assert (job.code, job.steps["Check what the model would be offered"]) == (2, 2)
    assert pipeline(inputs={"gate": "nowhere/gate.yaml"})[0].returncode == 2


def test_a_check_that_was_not_made_replaces_the_verdict_in_the_comment(runner, pipeline, forge):
    for run in (
        lambda options: runner.run(options=options, **GATE).code,
        lambda options: pipeline(inputs={"options": options})[0].returncode,
    ):
        forge.comments.clear()
        assert run("") == 0
        for options in ("--unknown", "--skip server", "--skip 'build"):
            assert run(options) == 2
            (body,) = forge.bodies()
            assert body.startswith("## ctxbench check apps/desk/gate.yaml: not made\n\n* exit code 2;")
        assert run("") == 0
        (body,) = forge.bodies()
        assert body.startswith("## ctxbench check apps/desk/gate.yaml: same")


def test_what_cannot_be_judged_is_in_the_comment(runner, forge, checkout):
    (checkout / "apps/desk/gate.yaml").write_text("name: [\n")
    job = runner.run(**GATE)
    assert job.code == 2, job.out + job.err
    (body,) = forge.bodies()
    assert body.startswith("## ctxbench check: cannot judge: apps/desk/gate.yaml\n\n* malformed YAML")
    assert job.summary.startswith("## ctxbench check: cannot judge")


@pytest.mark.parametrize(("event_name", "inputs"), [("push", {}), ("pull_request", {"comment": "false"})])
def test_without_a_pull_request_or_where_none_is_wanted_there_is_no_comment(runner, forge, event_name, inputs):
    job = runner.run(event_name, **GATE, **inputs, artifact="")
    assert job.code == 0, job.out + job.err
    assert "Comment on the pull request" not in job.steps
    assert forge.requests == []
    assert "actions/upload-artifact" not in job.uses
    assert job.summary.startswith("## ctxbench check apps/desk/gate.yaml: same")


def test_pull_request_target_is_refused_before_anything_runs(runner, forge, tmp_path):
    job = runner.run("pull_request_target", **GATE)
    assert job.code == 2
    assert job.out.startswith("::error title=ctxbench::use the event pull_request: ")
    assert [*job.steps] == ["Refuse pull_request_target"]
    assert not (tmp_path / "pip.log").exists()
    assert forge.requests == []


@pytest.fixture
def words(env, tmp_path):
    """What stand-ins of ctxbench were called with: the words of each call."""
    log = tmp_path / "ctxbench.log"
    program = tmp_path / "programs" / "ctxbench"
    program.write_text(
        f'{LOGGED}if [ "$1" = setup ]; then exit 0; fi\n'
        f'printf "%s\\n" "${{CTXBENCH_TOKEN-unset}}" "$PWD" "$@" "" >> "{log}"\nexit 3\n'
    )
    return lambda: [call.splitlines() for call in log.read_text().split("\n\n")[:-1]]


def test_options_are_split_as_in_a_shell_and_never_run(runner, words):
    options = (
        "--strict --recapture\n--skip 'build server' --skip \"it's\" --skip $(touch pwned) --skip `touch${IFS}pwned`"
    )
    job = runner.run(options=options, **GATE)
    assert job.code == 3  # what else ctxbench may end with is kept, too
    (_, folder, *call) = words()[0]
    assert folder.endswith("/apps/desk")
    assert call[:2] == ["check", "gate.yaml"]
    assert call[2 : call.index("--output-format")] == [
        *("--strict", "--recapture", "--skip", "build server", "--skip", "it's"),
        *("--skip", "$(touch", "pwned)", "--skip", "`touch${IFS}pwned`"),
    ]
    assert [*runner.workspace.rglob("pwned")] == []


def test_options_with_a_quote_that_does_not_end_are_refused(runner, pipeline, words, tmp_path):
    options = '--strict --skip "build server'
    assert runner.run(options=options, **GATE, comment="false").code == 2
    assert pipeline(inputs={"options": options}, CI_MERGE_REQUEST_IID="")[0].returncode == 2
    assert not (tmp_path / "ctxbench.log").exists()


def test_without_the_model_the_check_is_made_and_says_itself_what_it_lacks(runner, pipeline, forge, tmp_path):
    program = tmp_path / "programs" / "ctxbench"
    program.write_text(CTXBENCH.replace("exec ", 'if [ "$1" = setup ]; then exit 2; fi\nexec '))
    job = runner.run(**GATE)
    assert job.code == 0, job.out + job.err
    assert "::warning title=ctxbench::" in job.out
    assert pipeline()[0].returncode == 0


def test_the_results_of_an_earlier_check_of_the_job_are_not_posted_again(runner, forge):
    assert runner.run(**GATE).code == 0
    forge.comments.clear()
    job = runner.run(gate=GATE["gate"], install="ctxbench")
    assert (job.code, job.steps["Install"], forge.comments) == (2, 2, {})


def test_results_are_uploaded_again_when_a_job_runs_again_and_nowhere_but_on_github(runner, words):
    assert runner.run(**GATE).uses["actions/upload-artifact"]["overwrite"] == "True"
    runner.server = "https://git.example.org"
    assert "actions/upload-artifact" not in runner.run(**GATE).uses


SOURCES = [
    ("ctxbench", False),
    ("ctxbench==1.0", False),
    ("ctxbench[mcp] @ git+https://host/path@main", False),
    (f"ctxbench[mcp] @ git+https://host/path@{'0123456789' * 4}", True),
    ("ctxbench @ https://host/ctxbench-1.whl", False),
    (f"ctxbench @ https://host/ctxbench-1.whl#sha256={'01' * 32}", True),
    ("./tools/ctxbench", True),
    ("./tools/ctxbench --index-url https://host", False),
]


def test_a_package_that_cannot_be_installed_is_not_called_worse(runner, pipeline, tmp_path):
    (tmp_path / "programs" / "pip").write_text("#!/bin/bash\nexit 1\n")
    job = runner.run(**GATE)
    assert (job.code, job.steps["Install"]) == (2, 2)
    assert pipeline()[0].returncode == 2


@pytest.mark.parametrize(
    "setup", ["false && true", "exit 1", "cd nowhere && npm ci", "false\ntrue", "true | false", "f() { false; }; f"]
)
def test_a_setup_that_fails_ends_the_job_of_gitlab_before_the_check(pipeline, tmp_path, setup):
    assert pipeline(inputs={"setup": setup})[0].returncode == 2
    assert "ctxbench check" not in (tmp_path / "pip.log").read_text()


def installed(log):
    """What pip was called with, before the model was installed."""
    source, model, *_ = log.read_text().splitlines()
    assert model == "ctxbench setup"
    return source


@pytest.mark.parametrize(("source", "installs"), SOURCES)
def test_nothing_is_installed_by_a_name_and_the_model_by_its_hash(runner, words, tmp_path, source, installs):
    job = runner.run(gate=GATE["gate"], install=source)
    if installs:
        assert job.steps["Install"] == 0
        assert installed(tmp_path / "pip.log") == f"pip install {source}"
    else:
        assert job.code == job.steps["Install"] == 2
        assert job.out.startswith("::error title=ctxbench is not installed::")
        assert "Check what the model would be offered" not in job.steps
        assert not (tmp_path / "pip.log").exists()


def test_from_the_repository_of_ctxbench_it_installs_itself_and_a_copy_does_not(runner, words, tmp_path):
    runner.run(gate=GATE["gate"])
    assert installed(tmp_path / "pip.log") == f"pip install {READY}/../.."
    (tmp_path / "pip.log").unlink()
    runner.run(gate=GATE["gate"], options="--strict\n--recapture\n")
    assert installed(tmp_path / "pip.log") == f"pip install {READY}/../..[mcp]"
    (tmp_path / "pip.log").unlink()
    copy = runner.workspace / ".github/actions/ctxbench/action.yml"
    copy.parent.mkdir(parents=True)
    shutil.copy(ACTION, copy)
    runner.action = copy
    job = runner.run(gate=GATE["gate"])
    assert (job.code, job.steps["Install"]) == (2, 2)


def test_the_cache_is_another_with_another_baseline_or_gate_file(runner, words, checkout):
    def key():
        return runner.run(**GATE).uses["actions/cache"]["key"]

    first = key()
    assert re.fullmatch(r"ctxbench-Linux-X64-3\.12-[0-9a-f]{40}-[0-9a-f]{40}", first)
    assert key() == first
    (checkout / "apps/desk/gate.yaml").write_text("embedder: wordllama\n")
    assert key() != first
    subprocess.run(["git", "rm", "-rq", "apps/desk/gate.baseline"], cwd=checkout, check=True, timeout=60)
    author = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *author, "commit", "-qm", "Drop it"], cwd=checkout, check=True, timeout=60)
    assert key().endswith("-none")


@pytest.mark.essential
def test_no_expression_stands_in_a_script_and_one_step_alone_has_the_token():
    steps = yaml.safe_load(ACTION.read_text("utf-8"))["runs"]["steps"]
    for step in steps:
        assert "${{" not in step.get("run", "")
        assert ("github.token" in json.dumps(step)) is (step.get("name") == "Comment on the pull request")
        assert "secrets" not in json.dumps(step)
        assert "uses" not in step or step["uses"].startswith("actions/")  # by commit: tests/test_workflows_docs.py
        assert "continue-on-error" not in step
    template = TEMPLATE.read_text("utf-8")
    (job,) = [*yaml.safe_load_all(template)][1].values()
    scripts = [*job["before_script"], *job["script"]]
    (script,) = [script for script in scripts if "$[[" in script]
    assert script.startswith("$[[ inputs.setup ]]\n")  # a command of the project's own
    assert script.count("$[[") == 1


@pytest.mark.essential
def test_the_workflow_may_read_and_comment_and_runs_the_action():
    data = yaml.safe_load(WORKFLOW.read_text("utf-8"))
    assert [*data[True]] == ["pull_request", "push"]  # YAML reads `on` as true
    assert data["permissions"] == {"contents": "read", "pull-requests": "write"}
    group = data["concurrency"][
        "group"
    ]  # a copy for another team, or a nightly run, cancels none of another file or event
    assert {*re.findall(r"github\.(\w+)", group)} == {"workflow_ref", "event_name", "ref"}
    (job,) = data["jobs"].values()
    assert set(job) == {"runs-on", "timeout-minutes", "steps"}  # no permissions of its own, no continue-on-error
    checkout, action = job["steps"]
    assert checkout["with"] == {"persist-credentials": False, "fetch-depth": 2}
    assert action["uses"] == "./.github/actions/ctxbench"
    inputs = yaml.safe_load(ACTION.read_text("utf-8"))["inputs"]
    assert action["with"].keys() <= inputs.keys()
    assert {name: inputs[name]["default"] for name in action["with"]} == action["with"]


# --------------------------------------------------------------------------------------------------------------- GitLab


def with_inputs(value, inputs):
    """A part of a template with its inputs filled in, as GitLab does after it has read the YAML."""
    if isinstance(value, str):
        return re.sub(r"\$\[\[ inputs\.(\w+) \]\]", lambda match: inputs[match[1]], value)
    if isinstance(value, list):
        return [with_inputs(part, inputs) for part in value]
    return (
        {with_inputs(name, inputs): with_inputs(part, inputs) for name, part in value.items()}
        if isinstance(value, dict)
        else value
    )


@pytest.fixture
def pipeline(checkout, env, forge):
    """Run the job of the template in bash, as a runner of GitLab does, with variables and inputs."""

    def run(*, inputs=None, **variables):
        head, body = TEMPLATE.read_text("utf-8").split("\n---\n")
        values = {name: entry.get("default", "") for name, entry in yaml.safe_load(head)["spec"]["inputs"].items()}
        values |= {**GATE, **(inputs or {})}
        job = with_inputs(yaml.safe_load(body), values)[values["name"]]
        own = {
            "GITLAB_CI": "true",
            "CI_PROJECT_DIR": str(checkout),
            "CI_API_V4_URL": forge.url,
            "CI_MERGE_REQUEST_PROJECT_ID": "5",
            "CI_MERGE_REQUEST_IID": str(NUMBER),
            "CI_MERGE_REQUEST_TITLE": HOSTILE,
            "CTXBENCH_TOKEN": TOKEN,
        }
        base = {**env, **own, **variables}
        defined = {name: text.replace("$CI_PROJECT_DIR", str(checkout)) for name, text in job["variables"].items()}
        script = checkout.parent / "job.sh"
        script.write_text("\n".join([*job["before_script"], *job["script"]]))
        done = subprocess.run(
            [*BASH, str(script)],
            cwd=checkout,
            env=base | defined,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        reports = {**job["artifacts"]["reports"], "markdown": job["artifacts"]["paths"][0]}
        return done, {name: checkout / path for name, path in reports.items()}

    return run


def test_a_merge_request_has_one_note_and_its_reports(pipeline, forge, checkout):
    done, reports = pipeline()
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(reports["codequality"].read_text()) == []
    line, undo = empty(checkout)
    done, reports = pipeline()
    assert done.returncode == 1, done.stdout + done.stderr
    (body,) = forge.bodies()
    assert body.startswith("## ctxbench check apps/desk/gate.yaml: worse")
    assert "comment updated: " in done.stdout
    assert [*parse(reports["junit"]).iter("failure")]
    assert {"path": "apps/desk/data/corpus.jsonl", "lines": {"begin": line}} in [
        problem["location"] for problem in json.loads(reports["codequality"].read_text())
    ]
    assert body.startswith(reports["markdown"].read_text().rstrip())
    undo()
    assert pipeline()[0].returncode == 0
    assert [body.split(": ")[1] for body in forge.bodies()] == ["same"]
    assert [*checkout.rglob("pwned")] == []


@pytest.mark.parametrize(
    ("fault", "variables", "words"),
    [
        (None, {"CTXBENCH_TOKEN": ""}, "no comment: CTXBENCH_TOKEN is not set"),
        (403, {}, "no comment: status 403"),
        (None, {"CI_MERGE_REQUEST_IID": ""}, ""),
    ],
)
def test_without_the_right_to_comment_the_log_has_the_report(pipeline, forge, checkout, fault, variables, words):
    if fault:
        forge.faults["POST"] = fault
    empty(checkout)
    done, _ = pipeline(**variables)
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.startswith("ctxbench check: worse: ") or "\nworse: " in f"\n{done.stdout}"
    assert words in done.stdout
    assert ("comment" in done.stdout) is bool(words)
    assert forge.comments == {}


def test_the_check_of_a_merge_request_has_no_token_and_its_code_is_kept(pipeline, words):
    done, _ = pipeline(inputs={"options": "--strict --skip 'build server'", "setup": "cd apps/desk && echo prepared"})
    assert (done.returncode, done.stdout) == (3, "prepared\n")
    (token, folder, *call) = words()[0]
    assert token == "unset"
    assert folder.endswith("/apps/desk")
    assert call[:6] == ["check", "gate.yaml", "--strict", "--skip", "build server", "--markdown"]


@pytest.mark.parametrize(("source", "installs"), SOURCES)
def test_gitlab_installs_the_same(pipeline, words, tmp_path, source, installs):
    done, _ = pipeline(inputs={"install": source})
    if installs:
        assert installed(tmp_path / "pip.log") == f"pip install {source}"
    else:
        assert done.returncode == 2
        assert done.stdout.startswith("ctxbench is not installed: ")
        assert not (tmp_path / "pip.log").exists()


def test_two_gates_of_a_project_are_two_jobs(pipeline, words):
    for name in ("context-selection", "desk"):
        assert pipeline(inputs={"name": name})[0].returncode == 3


def test_a_loosened_baseline_is_compared_with_the_commit_that_the_merge_request_began_at(pipeline, checkout, cli):
    def git(*words):
        author = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        done = subprocess.run(["git", *author, *words], cwd=checkout, check=True, timeout=60, capture_output=True)
        return done.stdout.decode().strip()

    base = git("rev-parse", "HEAD")
    gate = checkout / "apps/desk/gate.yaml"
    gate.write_text(gate.read_text().replace("max_lost_required: 0", "max_lost_required: 3"))
    assert cli("check", gate, "--accept").code == 0
    git("commit", "-qam", "Loosen it")
    git("branch", "-q", "kept")
    git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/heads/kept")  # of a clone that the runner kept
    done, reports = pipeline(CI_MERGE_REQUEST_DIFF_BASE_SHA=base)
    assert "baseline replaced" in reports["markdown"].read_text(), done.stdout + done.stderr
    assert git("rev-parse", "refs/heads/kept") == git("rev-parse", "HEAD")
    assert git("status", "--porcelain", "--untracked-files=all") == ""
    pipeline()
    assert "origin/HEAD" not in git("for-each-ref")
    assert (checkout / ".git/info/exclude").read_text().count("/ctxbench-results/") == 1


@pytest.mark.essential
def test_a_job_of_gitlab_has_the_whole_history():
    (job,) = [*yaml.safe_load_all(TEMPLATE.read_text("utf-8"))][1].values()
    assert job["variables"]["GIT_DEPTH"] == "0"
