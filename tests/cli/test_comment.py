"""`ctxbench comment`: one comment a gate, whoever wrote what before, and a notice where there can be none."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from ctxbench.cli import check
from tests.ci_runner import NUMBER, REPOSITORY, TOKEN, Forge, event

MARKER = "<!-- ctxbench check: gate.yaml -->"
HOSTS = ("github", "gitlab")
PAGE = Path(__file__).parents[2] / "experiments" / "gate" / "operate.md"


@pytest.fixture
def forge():
    server = Forge()
    yield server
    server.stop()


@pytest.fixture
def job(forge, place, monkeypatch):
    """The environment of a job of a host for a pull request."""
    for name in ("GITHUB_ACTIONS", "GITHUB_TOKEN", "GITLAB_CI", "CTXBENCH_TOKEN"):
        monkeypatch.delenv(name, raising=False)

    def enter(host="github", event_name="pull_request", **more):
        (place / "event.json").write_text(json.dumps(event(event_name)))
        github = {
            "GITHUB_ACTIONS": "true",
            "GITHUB_TOKEN": TOKEN,
            "GITHUB_API_URL": forge.url,
            "GITHUB_SERVER_URL": "https://git.example.org",
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_RUN_ID": "12",
            "GITHUB_EVENT_PATH": str(place / "event.json"),
        }
        gitlab = {
            "GITLAB_CI": "true",
            "CTXBENCH_TOKEN": TOKEN,
            "CI_API_V4_URL": forge.url,
            "CI_MERGE_REQUEST_PROJECT_ID": "5" if event_name == "pull_request" else "",
            "CI_MERGE_REQUEST_PROJECT_URL": "https://git.example.org/shop/desk",
            "CI_MERGE_REQUEST_IID": str(NUMBER),
            "CI_COMMIT_SHA": "4f2a" * 10,
            "CI_JOB_URL": "https://git.example.org/shop/desk/-/jobs/12",
        }
        for name, value in ({"github": github, "gitlab": gitlab}[host] | more).items():
            monkeypatch.setenv(name, value)

    return enter


@pytest.fixture
def comment(cli, place):
    """Write a comment with a verdict, and post it."""

    def post(verdict="worse", *options, marker=MARKER):
        (place / "comment.md").write_text(f"## ctxbench check: {verdict}\n\n{marker}\n")
        return cli("comment", "comment.md", *options)

    return post


@pytest.mark.parametrize("host", HOSTS)
def test_the_first_is_written_and_the_next_updates_it(forge, job, comment, host):
    job(host)
    done = comment("worse")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("comment created: https://git.example.org/shop/desk/")
    assert done.out.endswith("100\n")
    done = comment("better")
    assert (done.code, done.out.partition(":")[0]) == (0, "comment updated")
    (body,) = forge.bodies()
    assert body.startswith("## ctxbench check: better\n")
    assert body.endswith(f"\n{MARKER}\n")
    assert "\nCommit 4f2a4f2a \u00b7 [report of the job](https://git.example.org/shop/desk/" in body


@pytest.mark.parametrize("host", HOSTS)
def test_each_gate_has_a_comment_and_nobody_elses_is_touched(forge, job, comment, host):
    job(host)
    others = [
        f"somebody quotes it\n{MARKER}",  # to edit it later
        "a bot's text",
        f"{MARKER}\na bot quotes it",
        "<!-- ctxbench check: apps/gate.yaml -->",
    ]
    forge.add(others[0], author=2, kind="User")
    for text in others[1:]:
        forge.add(text)
    comment("worse")
    comment("same")
    assert forge.bodies()[:4] == others
    assert len(forge.comments) == 5
    comment("same", marker=others[3])
    assert len(forge.comments) == 5


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("n_before", [99, 100, 250])
def test_it_is_found_behind_many_others(forge, job, comment, host, n_before):
    job(host)
    for number in range(n_before):
        forge.add(f"comment {number}", author=2, kind="User")
    comment("worse")
    comment("same")
    assert len(forge.comments) == n_before + 1
    assert forge.bodies()[-1].startswith("## ctxbench check: same")


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(
    ("method", "fault", "words"),
    [
        ("GET", 401, "the token is wrong or has expired"),
        ("GET", 404, "status 404"),
        ("POST", 403, "status 403: Resource not accessible by <hidden> ("),
        ("POST", 404, "status 404"),
        ("POST", 500, "status 500"),
        ("POST", 302, "status 302"),
        ("POST", "drop", "no connection to 127.0.0.1"),
        ("POST", "hang", "127.0.0.1 did not answer within 0.2 s"),
        ("GET", "text", "answered with what is no comment"),
        ("POST", "text", "answered with what is no comment"),
        ("GET", "fields", "answered without the field 'id'"),
        ("GET", "deep", "answered with what is no comment"),
    ],
)
def test_what_keeps_it_from_being_written_is_a_notice(forge, job, comment, monkeypatch, host, method, fault, words):
    monkeypatch.setattr(check, "_TIMEOUT_S", 0.2)
    job(host)
    forge.faults[method] = fault
    done = comment()
    assert (done.code, done.err, forge.comments) == (0, "", {})
    (line,) = done.out.splitlines()
    assert words in line
    assert line.startswith("::notice title=ctxbench comment::no comment: " if host == "github" else "no comment: ")
    assert TOKEN not in line
    told = comment("worse", "--json").json
    assert (told["comment"], told["url"]) == ("none", "")
    assert words in told["reason"]


@pytest.mark.parametrize("host", HOSTS)
def test_one_that_can_be_read_but_not_updated_is_left_as_it_is(forge, job, comment, host):
    job(host)
    comment("worse")
    forge.faults |= {"PATCH": 403, "PUT": 403}
    done = comment("same")
    assert done.code == 0
    assert "status 403" in done.out
    assert [body.splitlines()[0] for body in forge.bodies()] == ["## ctxbench check: worse"]


@pytest.mark.parametrize("host", HOSTS)
def test_the_comment_of_another_bot_is_left_as_it_is(forge, job, comment, host):
    job(host)
    other = f"a bot of somebody's\n{MARKER}"
    forge.add(other, author=2)
    comment("worse")
    comment("same")
    assert forge.bodies()[0] == other
    assert len(forge.comments) == 2


def test_with_the_token_of_a_user_its_own_comment_is_updated(forge, job, comment):
    job()
    forge.has_user = True
    forge.add(f"somebody quotes it\n{MARKER}", author=2, kind="User")
    forge.add(f"ours\n{MARKER}", author=1, kind="User")
    comment("same")
    assert [body.splitlines()[0] for body in forge.bodies()] == ["somebody quotes it", "## ctxbench check: same"]


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize("host", HOSTS)
def test_a_server_that_is_busy_is_asked_a_second_time(forge, job, comment, monkeypatch, host, status):
    monkeypatch.setattr(check, "_PAUSE_S", 0.0)
    job(host)
    comment("worse")
    forge.faults = {"GET": [status], "PATCH": [status], "PUT": [status]}
    assert comment("same").out.startswith("comment updated: ")
    assert len(forge.comments) == 1
    forge.faults = {"POST": [status]}
    assert f"status {status}" in comment("same", marker="<!-- ctxbench check: other.yaml -->").out
    assert len(forge.comments) == 1


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"HTTPS_PROXY": "foo://user:password@x"}, "a proxy is not a URL"),
        ({"SSL_CERT_FILE": "missing.pem"}, "SSL_CERT_FILE ...) cannot be used: "),
        ({"HTTPS_PROXY": "http://127.0.0.1:9"}, "Connection refused"),
    ],
)
def test_a_network_that_cannot_be_used_is_named(job, comment, monkeypatch, variables, words):
    for name in ("CTXBENCH_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    job(GITHUB_API_URL="https://api.example.org", **variables)
    done = comment()
    assert (done.code, done.err) == (0, "")
    assert words in done.out
    assert "password" not in done.out


def test_the_certificates_of_a_gitlab_of_ones_own_are_trusted(job, comment, monkeypatch):
    loaded = []

    class Context:
        load_verify_locations = staticmethod(loaded.append)

    monkeypatch.delenv("CTXBENCH_OFFLINE", raising=False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr("ctxbench.io.http.certificates", lambda *_, **__: Context())
    monkeypatch.setattr("ctxbench.io.http.Connection", lambda **_: (_ for _ in ()).throw(OSError("enough")))
    job("gitlab", CI_SERVER_TLS_CA_FILE="/builds/ca.pem")
    comment()
    assert loaded == ["/builds/ca.pem"]


def test_what_a_server_says_is_no_command_of_a_runner(forge, job, comment, monkeypatch):
    job("gitlab")
    monkeypatch.setattr(forge, "answer", lambda *_: (500, {"message": "a\n::error::b\x1b[31m ##[group]c"}))
    done = comment()
    assert done.code == 0
    assert len(done.out.splitlines()) == 1
    assert "\x1b" not in done.out
    assert "##[" not in done.out


@pytest.mark.parametrize(
    ("host", "event_name", "more", "words"),
    [
        ("github", "push", {}, "belongs to no pull request"),
        ("github", "pull_request", {"GITHUB_EVENT_PATH": "none.json"}, "belongs to no pull request"),
        ("github", "pull_request", {"GITHUB_TOKEN": ""}, "GITHUB_TOKEN is not set"),
        ("github", "pull_request", {"GITHUB_API_URL": "https://api.example.org"}, "CTXBENCH_OFFLINE"),
        ("github", "pull_request", {"GITHUB_API_URL": "none of ours"}, "cannot be read: none of ours"),
        ("gitlab", "push", {}, "belongs to no merge request"),
        ("gitlab", "pull_request", {"CTXBENCH_TOKEN": ""}, "CTXBENCH_TOKEN is not set"),
    ],
)
def test_where_there_is_nothing_to_comment_on_or_with_nothing_is_sent(
    forge, job, comment, host, event_name, more, words
):
    job(host, event_name, **more)
    done = comment()
    assert (done.code, done.err, forge.requests) == (0, "", [])
    assert words in done.out


def test_without_such_a_job_or_such_a_file_it_is_an_error(cli, job, comment, place):
    done = comment()
    assert (done.code, done.out) == (2, "")
    assert "no job of GitHub Actions or GitLab CI" in done.err
    job()
    for text in ("# Notes\n", f"{MARKER}\n", f"x\n{MARKER}\ny\n"):
        (place / "notes.md").write_text(text)
        done = cli("comment", "notes.md")
        assert (done.code, done.out) == (2, "")
        assert "notes.md is no comment" in done.err
    assert cli("comment", "nowhere.md").code == 2


def test_the_commands_of_the_page_write_and_post_a_comment(forge, cli, tiny, place, monkeypatch):
    (place / "gate.yaml").write_text(f"datasets: [{tiny}]\nselectors: [bm25]\nembedder: hashing\n")
    assert cli("check", "--accept").code == 0
    (block,) = re.findall(r"```sh\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    check_command, echo, post = block.splitlines()
    assert cli(*shlex.split(check_command)[1:]).code == 0
    subprocess.run(["bash", "-c", echo], check=True, timeout=60)
    *variables, _, command, file = shlex.split(post)
    values = dict(variable.split("=", 1) for variable in variables)
    assert (values["GITHUB_REPOSITORY"], values["GITHUB_TOKEN"]) == ("OWNER/NAME", "TOKEN")
    for name, value in (values | {"GITHUB_REPOSITORY": REPOSITORY, "GITHUB_TOKEN": TOKEN}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GITHUB_API_URL", forge.url)
    assert "comment created: " in cli(command, file).out
    (body,) = forge.bodies()
    assert body.startswith("## ctxbench check: same")
    assert "Commit 4f2a4f2a" in body


def test_the_page_names_the_variables_that_are_read():
    named = {*re.findall(r"`([A-Z][A-Z0-9_]+)`", PAGE.read_text("utf-8").partition("## Try the comment")[2])}
    source = Path(check.__file__).read_text("utf-8").partition("_MARKER = ")[2]
    assert named == {*re.findall(r"""["']((?:CI|GITHUB|GITLAB)_[A-Z0-9_]+|CTXBENCH_TOKEN)["']""", source)}
