"""Runs the shell steps of an action as GitHub's runner does, and a server with the comments of one pull request."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail")
REPOSITORY, NUMBER, TOKEN = "shop/desk", 7, "t0ken-of-this-job"
HOSTILE = "$(touch pwned) `touch pwned` \"; touch pwned #' @admin ${{ github.token }}"


def event(name: str, *, fork: bool = False) -> dict[str, Any]:
    """The payload of an event as GitHub records it, as far as anything could read it."""
    head = {"ref": HOSTILE, "sha": "4f2a" * 10, "repo": {"full_name": "someone/desk" if fork else REPOSITORY}}
    if name == "push":
        return {"ref": "refs/heads/main", "after": head["sha"], "head_commit": {"message": HOSTILE}}
    pull_request = {"number": NUMBER, "title": HOSTILE, "body": HOSTILE, "head": head, "base": {"ref": "main"}}
    return {"action": "synchronize", "number": NUMBER, "pull_request": pull_request}


@dataclass
class Job:
    """What a run of an action left.

    Attributes:
        code: the exit code of the first step that failed, or 0.
        out, err: what its steps printed.
        summary: of its steps, in Markdown.
        steps: the exit code of each shell step that ran, by name.
        uses: the other actions that ran, with their inputs.
    """

    code: int = 0
    out: str = ""
    err: str = ""
    summary: str = ""
    steps: dict[str, int] = field(default_factory=dict)
    uses: dict[str, dict[str, str]] = field(default_factory=dict)


class Runner:
    """A runner of GitHub with a checkout.

    Args:
        action: the file of the action.
        workspace: the checkout.
        home: a folder for what the runner itself writes.
        env: the environment of every step.
    """

    def __init__(self, action: Path, workspace: Path, home: Path, env: dict[str, str]) -> None:
        self.action, self.workspace, self.home = action, workspace, home
        self.env, self.server = env, "https://github.com"
        (home / "temp").mkdir(parents=True, exist_ok=True)

    def run(self, event_name: str = "pull_request", *, fork: bool = False, **inputs: str) -> Job:
        """Run all steps for an event; other actions are listed, not run."""
        data = yaml.safe_load(self.action.read_text("utf-8"))
        assert inputs.keys() <= {name.replace("-", "_") for name in data["inputs"]}
        contexts = {
            **{f"inputs.{name}": str(entry["default"]) for name, entry in data["inputs"].items()},
            **{f"inputs.{name.replace('_', '-')}": value for name, value in inputs.items()},
            "runner.temp": str(self.home / "temp"),
            "runner.os": "Linux",
            "runner.arch": "X64",
            "github.token": TOKEN,
            "github.event_name": event_name,
            "github.server_url": self.server,
        }
        job = Job()
        (self.home / "event.json").write_text(json.dumps(event(event_name, fork=fork)), "utf-8")
        for step in data["runs"]["steps"]:
            if not holds(step.get("if", "success()"), contexts, failed=bool(job.code)):
                continue
            if "uses" in step:
                job.uses[step["uses"].partition("@")[0]] = {
                    name: filled(value, contexts) for name, value in step["with"].items()
                }
            else:
                self._run_step(step, contexts, job)
        return job

    def _run_step(self, step: dict[str, Any], contexts: dict[str, str], job: Job) -> None:
        assert step["shell"] == "bash"
        script, output, summary = (self.home / name for name in ("step.sh", "output", "summary.md"))
        script.write_text(step["run"], "utf-8")  # no expression is filled in: see the test of the file
        for path in (output, summary):
            path.write_text("")
        github = {
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTION_PATH": str(self.action.parent),
            "GITHUB_EVENT_NAME": contexts["github.event_name"],
            "GITHUB_EVENT_PATH": str(self.home / "event.json"),
            "GITHUB_OUTPUT": str(output),
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_RUN_ID": "12",
            "GITHUB_SERVER_URL": "https://git.example.org",
            "GITHUB_STEP_SUMMARY": str(summary),
            "GITHUB_WORKSPACE": str(self.workspace),
            "RUNNER_TEMP": contexts["runner.temp"],
        }
        env = {**self.env, **github, **{name: filled(text, contexts) for name, text in step.get("env", {}).items()}}
        done = subprocess.run(
            [*BASH, str(script)],
            cwd=self.workspace,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        job.steps[step["name"]] = done.returncode
        job.code = job.code or done.returncode
        job.out, job.err = job.out + done.stdout, job.err + done.stderr
        job.summary += summary.read_text("utf-8")
        for line in output.read_text("utf-8").splitlines():
            name, _, value = line.partition("=")
            contexts[f"steps.{step['id']}.outputs.{name}"] = value


def filled(text: str, contexts: dict[str, str]) -> str:
    """A text with the values of its expressions, each the name of a context."""
    return re.sub(r"\$\{\{ (\S+) \}\}", lambda match: contexts[match[1]], str(text))


def holds(condition: str, contexts: dict[str, str], *, failed: bool) -> bool:
    """Whether a step runs."""
    expression = re.sub(r"^\$\{\{ (.*) \}\}$", r"\1", condition)
    if "cancelled()" not in expression and failed:
        return False
    expression = expression.replace("!cancelled()", "True").replace("success()", "True").replace("&&", "and")
    expression = re.sub(r"(?<!/)\b(?:inputs|github)\.[\w-]+", lambda match: repr(contexts[match[0]]), expression)
    return bool(eval(expression, {"__builtins__": {}}))


class Forge:
    """The comments of a pull request as GitHub serves them, and as the notes of a merge request as GitLab does.

    Attributes:
        comments: by id, each with author, kind of author and text.
        requests: the method and path of each request.
        has_user: whether a token of GitHub is a user's, not that of a job, which may not ask whose it is.
        faults: by method, a status, or `hang` or `drop`, that every such request ends with; `text`: a body that is no
            JSON, `fields`: JSON without fields, or `deep`: JSON that is nested too deeply; a list has one for each
            request, None = none.
        url: of its API.
    """

    def __init__(self) -> None:
        self.comments: dict[int, dict[str, Any]] = {}
        self.requests: list[tuple[str, str]] = []
        self.faults: dict[str, int | str | list[int | None]] = {}
        self.has_user = False
        self.released = threading.Event()
        forge = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else {}
                token = self.headers.get("Authorization", self.headers.get("PRIVATE-TOKEN"))
                status, value = forge.answer(self.command, self.path, body, token)
                if status == 0:
                    self.close_connection = True
                    self.connection.close()
                    return
                data = value if isinstance(value, bytes) else json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PATCH = do_PUT = _serve

            def log_message(self, *_: Any) -> None:
                pass

        class Http(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                pass  # a client that gave up is what some tests are about

        self.http = Http(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/api"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def stop(self) -> None:
        self.released.set()
        self.http.shutdown()
        self.thread.join(timeout=60)
        self.http.server_close()

    def add(self, body: str, *, author: int = 1, kind: str = "Bot") -> int:
        """Write a comment without a request; returns its id."""
        number = 100 + len(self.comments)
        self.comments[number] = {"author": author, "kind": kind, "body": body}
        return number

    def bodies(self) -> list[str]:
        return [comment["body"] for comment in self.comments.values()]

    def answer(self, method: str, target: str, body: dict[str, str], token: str | None) -> tuple[int, Any]:
        parts = urlsplit(target)
        self.requests.append((method, parts.path))
        fault = self.faults.get(method)
        if isinstance(fault, list):
            fault = fault.pop(0) if fault else None
        if fault == "hang":
            self.released.wait(60)
        if fault in ("hang", "drop"):
            return 0, None
        if fault == "text":
            return 200, b"<html>Sign in</html>"
        if fault == "fields":
            return 200, {}
        if fault == "deep":
            return 200, b"[" * 200_000
        if fault is not None:
            return int(fault), {"message": f"Resource not accessible by {TOKEN}"}
        if token not in (TOKEN, f"Bearer {TOKEN}"):
            return 401, {"message": "Bad credentials"}
        if len(body.get("body", "")) > 65_536:
            return 422, {"message": "Validation Failed: body is too long (maximum is 65536 characters)"}
        gitlab = {f"/api/projects/5/merge_requests/{NUMBER}/notes": "PUT"}
        github = {f"/api/repos/{REPOSITORY}/issues/{NUMBER}/comments": "PATCH"}
        if parts.path == "/api/user":
            if token == TOKEN or self.has_user:
                return 200, {"id": 1}
            return 403, {"message": "Resource not accessible by integration"}
        if parts.path in (gitlab | github):
            if method == "GET":
                query = {name: int(value) for name, (value, *_) in parse_qs(parts.query).items()}
                end = query["page"] * query["per_page"]
                return 200, [self._shown(number) for number in [*self.comments][end - query["per_page"] : end]]
            if method == "POST":
                return 201, self._shown(self.add(body["body"]))
        folder, _, number = parts.path.rpartition("/")
        updates = {**gitlab, f"/api/repos/{REPOSITORY}/issues/comments": "PATCH"}
        if updates.get(folder) == method and int(number) in self.comments:
            self.comments[int(number)]["body"] = body["body"]
            return 200, self._shown(int(number))
        return 404, {"message": "Not Found"}

    def _shown(self, number: int) -> dict[str, Any]:
        """A comment with the fields of both."""
        comment = self.comments[number]
        author = comment["author"]
        login = "github-actions[bot]" if author == 1 else f"user-{author}"
        user = {"id": author, "login": login, "type": comment["kind"]}
        return {
            "id": number,
            "html_url": f"https://git.example.org/{REPOSITORY}/pull/{NUMBER}#issuecomment-{number}",
            "body": comment["body"],
            "user": user,
            "author": user,
        }
