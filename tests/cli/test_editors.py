"""The files that `ctxbench init` writes are completed and checked by the language server of editors, offline."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.children import child

ROOT = Path(__file__).parents[2]
SERVER = ROOT / ".venv" / "servers" / "node" / "node_modules" / ".bin" / "yaml-language-server"
NAMES = ("agent.yaml", "experiment.yaml", "gate.yaml", "policies.yaml")

pytestmark = [
    pytest.mark.rest,
    pytest.mark.skipif(not SERVER.exists(), reason="needs node, npm and tests/servers/package.json (make test-rest)"),
]


class Editor:
    """What an editor asks a language server, over its standard input and output."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self._process, self._folder, self._id = process, folder, 0
        root = folder.as_uri()
        self.ask("initialize", processId=None, rootUri=root, capabilities={}, workspaceFolders=None)
        self._send(method="initialized", params={})
        settings = {"yaml": {"schemaStore": {"enable": False}, "completion": True, "validate": True, "hover": True}}
        self._send(method="workspace/didChangeConfiguration", params={"settings": settings})

    def _send(self, **message: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        size = 0
        while line := self._process.stdout.readline().strip():
            size = int(line.partition(b":")[2]) if line.startswith(b"Content-Length") else size
        assert size, "the language server has ended"
        return json.loads(self._process.stdout.read(size))

    def _await(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first message that is `wanted`; requests of the server are answered with nothing on the way."""
        while True:
            message = self._receive()
            if wanted(message):
                return message
            if "id" in message and "method" in message:
                items = message["params"].get("items") if isinstance(message.get("params"), dict) else None
                self._send(id=message["id"], result=[None] * len(items) if items else None)

    def ask(self, method: str, **params: Any) -> Any:
        self._id += 1
        number = self._id
        self._send(id=number, method=method, params=params)
        answer = self._await(lambda message: message.get("id") == number and "method" not in message)
        assert "error" not in answer, answer
        return answer["result"]

    @contextmanager
    def _opened(self, name: str, text: str) -> Iterator[str]:
        """Show a file with a text to the server; its URI. It keeps what it parsed of an equal version."""
        uri = (self._folder / name).as_uri()
        self._id += 1
        about = {"uri": uri, "languageId": "yaml", "version": self._id, "text": text}
        self._send(method="textDocument/didOpen", params={"textDocument": about})
        yield uri
        self._send(method="textDocument/didClose", params={"textDocument": {"uri": uri}})

    def faults(self, name: str, text: str) -> list[str]:
        """What an editor underlines in a file with a text."""
        with self._opened(name, text) as uri:
            expected = ("textDocument/publishDiagnostics", uri)
            shown = self._await(
                lambda message: (message.get("method"), (message.get("params") or {}).get("uri")) == expected
            )
        return [fault["message"] for fault in shown["params"]["diagnostics"]]

    def completions(self, name: str, text: str) -> dict[str, str]:
        """What is offered at the end of a text, with its description."""
        lines = text.split("\n")
        position = {"line": len(lines) - 1, "character": len(lines[-1])}
        with self._opened(name, text) as uri:
            result = self.ask("textDocument/completion", textDocument={"uri": uri}, position=position)
        items = result["items"] if isinstance(result, dict) else result or []
        return {item["label"]: str(item.get("documentation", "")) for item in items}


@contextmanager
def editor(folder: Path):
    command = [SERVER, "--stdio"]
    pipe = subprocess.PIPE
    with child(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, limit=60) as process:
        try:
            yield Editor(process, folder)
        finally:
            process.kill()


def header(path: Path) -> str:
    return f"{path.read_text('utf-8').splitlines()[0]}\n"


@pytest.fixture
def project(place, cli):
    (place / "tools.json").write_text(json.dumps([{"name": "refund", "description": "Pay back"}]))
    assert cli("init").code == 0
    return place


def test_an_editor_completes_and_checks_every_file(project):
    with editor(project) as files:
        faults = {name: files.faults(name, (project / name).read_text("utf-8")) for name in NAMES}
        fields = {name: files.completions(name, header(project / name)) for name in NAMES}
        wrong = {name: files.faults(name, f"{header(project / name)}no_such_field: 1\n") for name in NAMES}
    assert faults == {name: [] for name in NAMES}
    assert {"sources", "selector", "include"} <= fields["agent.yaml"].keys()
    assert {"name", "datasets", "selectors"} <= fields["experiment.yaml"].keys()
    assert {"datasets", "selectors", "gate"} <= fields["gate.yaml"].keys()
    assert {"selectors", "policies"} <= fields["policies.yaml"].keys()
    assert [name for name in NAMES if not all(fields[name].values())] == []  # each with its description
    assert [name for name, faults in wrong.items() if not any("no_such_field" in fault for fault in faults)] == []


def test_an_editor_completes_a_field_within_a_field(project):
    with editor(project) as files:
        gate = files.completions("gate.yaml", f"{header(project / 'gate.yaml')}gate:\n  ")
        policies = files.completions("policies.yaml", f"{header(project / 'policies.yaml')}policies:\n  small:\n    ")
    assert {"tolerance", "pins"} <= gate.keys()
    assert {"minimise", "maximise", "constraints"} <= policies.keys()
