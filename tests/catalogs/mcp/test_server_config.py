"""Configurations in the forms of Claude, Cursor and VS Code, and everything that can be wrong in one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ctxbench.catalogs.mcp_config import ServerSpec, read_mcp_config
from ctxbench.io.errors import InputError, StorageError

ENVIRON = {"KEY": "tiger-42", "HOST": "example.org", "EMPTY": ""}


def read(folder: Path, data: Any, **options: Any) -> tuple[ServerSpec, ...]:
    path = folder / "mcp.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return read_mcp_config(path, environ=ENVIRON, **options)


def server(folder: Path, **fields: Any) -> ServerSpec:
    return read(folder, {"mcpServers": {"a": fields}})[0]


def faults_of(folder: Path, data: Any, **options: Any) -> list[tuple[int, str]]:
    with pytest.raises(InputError) as caught:
        read(folder, data, **options)
    return [(fault.line, fault.message) for fault in caught.value.faults]


def fault_of(folder: Path, **fields: Any) -> str:
    found = faults_of(folder, {"mcpServers": {"a": fields}})
    assert len(found) == 1
    return found[0][1]


def test_the_form_of_claude(tmp_path: Path) -> None:
    data = {"mcpServers": {
        "git": {"command": "uvx", "args": ["mcp-server-git"], "env": {"TOKEN": "${KEY}", "LEVEL": 3, "DEBUG": True}},
        "api": {"type": "http", "url": "https://${HOST}/mcp", "headers": {"Authorization": "Bearer ${KEY:-none}"}},
        "old": {"type": "sse", "url": "https://${NONE:-fallback.org}/${EMPTY:-x}"},
    }}  # fmt: skip
    git, api, old = read(tmp_path, data)
    assert (git.name, git.transport, git.command, git.args) == ("git", "stdio", "uvx", ("mcp-server-git",))
    assert git.env == {"TOKEN": "tiger-42", "LEVEL": "3", "DEBUG": "true"}
    assert (api.transport, api.url, api.origin) == ("http", "https://example.org/mcp", "https://example.org")
    assert api.headers == {"Authorization": "Bearer tiger-42"}
    assert (old.transport, old.url) == ("sse", "https://fallback.org/x")


def test_the_form_of_cursor(tmp_path: Path) -> None:
    text = """{ // Cursor
      "mcpServers": {
        "remote": {"url": "https://host.example:8443/mcp", "headers": {"X": "${env:KEY}"}},
        "events": {"url": "https://host.example/sse"},
        "off": {"command": "${env:NOT_SET}", "disabled": true},
      },
    }"""
    remote, events, off = read(tmp_path, text)
    assert (remote.transport, remote.origin, remote.headers) == ("http", "https://host.example:8443", {"X": "tiger-42"})
    assert events.transport == "sse"
    assert (off.name, off.disabled, off.transport) == ("off", True, "")


def test_the_form_of_vs_code(tmp_path: Path) -> None:
    folder = tmp_path / "project" / ".vscode"
    folder.mkdir(parents=True)
    data = {"inputs": [], "servers": {"a": {
        "type": "stdio", "command": "${workspaceFolder}/run", "args": ["${workspaceFolderBasename}", "${env:HOST}"],
        "cwd": "sub", "dev": {"watch": "x"},
    }}}  # fmt: skip
    (spec,) = read(folder, data)
    project = tmp_path / "project"
    assert (spec.command, spec.args, spec.cwd) == (f"{project}/run", ("project", "example.org"), f"{project}/sub")
    assert read(folder, {"mcp": data}) == (spec,)  # as in settings.json


@pytest.mark.parametrize("kind", ["http", "streamable-http", "streamableHttp", "streamable_http", "HTTP"])
def test_spellings_of_streamable_http(kind: str, tmp_path: Path) -> None:
    assert server(tmp_path, type=kind, url="http://[::1]:8/sse").transport == "http"
    assert server(tmp_path, type=kind, url="http://[::1]:8/sse").origin == "http://[::1]:8"


def test_nothing_secret_is_in_the_repr(tmp_path: Path) -> None:
    specs = [
        server(tmp_path, command="x", args=["--token", "${KEY}"], env={"A": "tiger-43"}),
        server(tmp_path, url="https://u:tiger-44@host/mcp", headers={"A": "tiger-45"}),
    ]
    assert "tiger" not in repr(specs)
    assert specs[0].secrets.hide("tiger-42 tiger-43") == "<hidden> <hidden>"
    assert specs[1].secrets.hide("tiger-44 tiger-45") == "<hidden> <hidden>"


def test_servers_are_chosen_and_left_out(tmp_path: Path) -> None:
    data = {"mcpServers": {name: {"command": "x"} for name in "cab"} | {"bad": {}}}
    assert [spec.name for spec in read(tmp_path, data, skip=["bad"])] == ["c", "a", "b"]
    assert [spec.name for spec in read(tmp_path, data, only=["b", "c"])] == ["c", "b"]
    assert "no server 'd'" in faults_of(tmp_path, data, only=["d", "a"])[0][1]
    assert "no server is left" in faults_of(tmp_path, data, only=["a"], skip=["a"])[0][1]


def test_an_input_that_only_an_editor_asks_for_is_a_fault_with_its_line(tmp_path: Path) -> None:
    text = """{"inputs": [{"id": "key", "type": "promptString"}],
      "servers": {"a": {"command": "x", "env": {
        "KEY": "${input:key}"}}}}"""
    ((line, message),) = faults_of(tmp_path, text)
    assert line == 3
    assert message.startswith("server 'a': field 'env.KEY': ${input:key} is asked for by an editor")


def test_all_faults_come_at_once_without_values(tmp_path: Path) -> None:
    text = """{"mcpServers": {
      "a": {"command": "x", "env": {"K": ["tiger-42"]}, "args": "tiger-42"},
      "b": {"command": "${NOT_SET}", "args": ["${command:pick}"]},
      "c": 3}}"""
    found = faults_of(tmp_path, text)
    editor = "${command:pick} is known to an editor only: put its value, or ${env:NAME}, in its place"
    skip = 'leave out the server with `ctxbench data capture ... --skip b` or "disabled": true in the file'
    missing = f"the environment variable NOT_SET is not set: set it, or {skip}"
    assert found == [
        (2, "server 'a': field 'env.K' must be a text"),
        (2, "server 'a': field 'args' must be a list of texts"),
        (3, f"server 'b': field 'args.0': {editor}"),
        (3, f"server 'b': field 'command': {missing}"),
        (4, "server 'c': expected an object with 'command' or 'url'"),
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "it has neither 'command' nor 'url'"),
        ({"command": "x", "url": "http://a"}, "it has both"),
        ({"command": ""}, "field 'command' must be a text that is not empty"),
        ({"command": ["npx", "x"]}, "field 'command' must be a text"),
        ({"command": "x", "type": "http"}, "field 'type' is 'http', so the server needs 'url'"),
        ({"url": "http://a", "type": "stdio"}, "so the server needs 'command'"),
        ({"url": "http://a", "type": "websocket"}, "must be stdio, http, streamable-http or sse, got 'websocket'"),
        ({"url": "ftp://a/b"}, "must be an address that starts with http"),
        ({"url": "http://a:99999/"}, "must be an address"),
        ({"url": "http://a", "headers": ["X: y"]}, "field 'headers' must be an object of texts"),
        ({"command": "x", "args": [None]}, "field 'args.0' must be a text"),
        ({"command": "x", "disabled": "no"}, "field 'disabled' must be true or false"),
        ({"command": "x", "envFile": ".env"}, "field 'envFile' is not read"),
        ({"command": "a\0b"}, "NUL"),
    ],
)
def test_what_is_wrong_with_a_server_is_said(fields: dict[str, Any], message: str, tmp_path: Path) -> None:
    assert message in fault_of(tmp_path, **fields)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "'servers'; it is a list of tools; make a catalog of it: `ctxbench data import "),
        ({"tools": []}, "a list of tools"),
        ({"mcpservers": {}}, "expected an object with 'mcpServers' or 'servers'"),
        ({"mcpServers": []}, "must be an object of servers by name"),
        ({"mcpServers": {}}, "holds no server"),
        ({"mcpServers": {"": {"command": "x"}}}, "server name '' is empty"),
        (
            {"mcpServers": {"a": {"command": "x"}}, "servers": {"a": {"command": "x"}}},
            "in both 'mcpServers' and 'servers'",
        ),
        ("{nope}", "malformed JSON"),
        ('{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}', "'a' occurs twice"),
    ],
)
def test_what_is_no_configuration_is_a_fault(data: Any, message: str, tmp_path: Path) -> None:
    assert message in faults_of(tmp_path, data)[0][1]


def test_a_file_that_is_not_there_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        read_mcp_config(tmp_path / "no.json")
