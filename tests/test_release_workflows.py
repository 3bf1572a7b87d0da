"""The workflows of this repository: what they may do, and in which order a release is made."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = {path.stem: path for path in (ROOT / ".github" / "workflows").glob("*.yml")}
USES = re.compile(r"[\w-]+/[\w./-]+@[0-9a-f]{40}")
INSERTED = re.compile(r"\$\{\{(.*?)\}\}")


def read(name: str) -> dict[Any, Any]:
    return yaml.safe_load(WORKFLOWS[name].read_text("utf-8"))


def events(workflow: dict[Any, Any]) -> Any:
    return workflow[True]  # YAML 1.1 reads `on` so


def steps(workflow: dict[Any, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job.get("steps", ())]


def test_there_are_two():
    assert WORKFLOWS.keys() == {"ci", "release"}


@pytest.mark.parametrize("name", ["ci", "release"])
def test_every_action_is_pinned_by_commit_with_its_version_beside_it(name):
    workflow = read(name)
    actions = [step["uses"] for step in steps(workflow) if "uses" in step]
    assert actions
    assert [action for action in actions if not USES.fullmatch(action)] == []
    lines = re.findall(r"uses: (\S+@\S+)(.*)", WORKFLOWS[name].read_text("utf-8"))
    assert [action for action, comment in lines if not re.fullmatch(r"  # v\d+\.\d+\.\d+", comment)] == []
    called = [job["uses"] for job in workflow["jobs"].values() if "uses" in job]
    assert all((ROOT / path).is_file() and path.startswith("./") for path in called)


@pytest.mark.parametrize("name", ["ci", "release"])
def test_nothing_that_others_write_is_inserted_into_a_script(name):
    assert [step["run"] for step in steps(read(name)) if INSERTED.search(step.get("run", ""))] == []


@pytest.mark.parametrize("name", ["ci", "release"])
def test_jobs_end_and_leave_no_token_in_the_clone(name):
    workflow = read(name)
    assert all("timeout-minutes" in job for job in workflow["jobs"].values() if "steps" in job)
    checkouts = [step for step in steps(workflow) if step.get("uses", "").startswith("actions/checkout@")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_ci_reads_only_and_runs_everything():
    workflow = read("ci")
    assert workflow["permissions"] == {"contents": "read"}
    assert all("permissions" not in job for job in workflow["jobs"].values())
    assert "pull_request_target" not in events(workflow)
    assert steps(workflow)[-2:] == [{"run": ".ci/run"}, {"run": "make versions"}]


def test_only_the_last_job_of_a_release_may_sign():
    workflow = read("release")
    assert workflow["permissions"] == {}
    jobs = workflow["jobs"]
    assert {name for name, job in jobs.items() if "id-token" in job["permissions"]} == {"publish"}
    assert jobs["publish"]["permissions"] == {"id-token": "write", "attestations": "write", "contents": "read"}
    assert all(job["permissions"] == {"contents": "read"} for name, job in jobs.items() if name != "publish")
    assert not any("secrets" in str(job) for job in jobs.values())


def test_a_person_starts_a_release_and_another_lets_it_out():
    workflow = read("release")
    assert events(workflow).keys() == {"workflow_dispatch"}
    assert events(workflow)["workflow_dispatch"]["inputs"]["version"]["required"] is True
    assert workflow["jobs"]["publish"]["environment"] == "pypi"


def test_what_is_published_was_built_once_and_tested():
    jobs = read("release")["jobs"]
    assert set(jobs["publish"]["needs"]) == jobs.keys() - {"publish"}
    assert jobs["tests"]["uses"] == "./.github/workflows/ci.yml"
    assert not any("run" in step for step in jobs["publish"]["steps"])
    assert [name for name, job in jobs.items() if any(".ci/package" in step.get("run", "")
            for step in job.get("steps", ()))] == ["build"]  # fmt: skip
    names = [step["uses"].partition("@")[0] for step in jobs["publish"]["steps"]]
    assert names == [
        "actions/download-artifact",
        "actions/attest-build-provenance",
        "pypa/gh-action-pypi-publish",
    ]
