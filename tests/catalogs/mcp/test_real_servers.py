"""Servers from the registries, as `make test-all` installs them (tests/servers), over stdio and streamable HTTP."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from ctxbench.catalogs.mcp_capture import Limits, mcp_servers
from ctxbench.catalogs.snapshots import SnapshotPart, capture, read_catalog, write_snapshot
from tests.children import child

SERVERS = Path(__file__).parents[3] / ".venv" / "servers"
PYTHON = SERVERS / "python" / "bin"
NODE = SERVERS / "node" / "node_modules" / ".bin"
PATIENT = Limits(timeout=120)  # other programs may have the machine
SECRET = "tiger-42-house"

needs_python = pytest.mark.skipif(
    not (PYTHON / "mcp-server-git").exists(),
    reason="needs the servers of tests/servers/requirements.txt (make test-all)",
)
needs_node = pytest.mark.skipif(
    not (NODE / "mcp-server-memory").exists(), reason="needs node, npm and tests/servers/package.json (make test-all)"
)


def captured(folder: Path, servers: dict[str, Any]) -> dict[str, SnapshotPart]:
    """Capture servers, and check what holds for any of them."""
    config = folder / "mcp.json"
    config.write_text(json.dumps({"mcpServers": servers}))
    for name in ("first", "again"):
        snapshot = capture(mcp_servers(config, limits=PATIENT))
        write_snapshot(snapshot, folder / name)
    assert snapshot.failed == ()
    corpus = (folder / "first" / "corpus.jsonl").read_bytes()
    assert corpus == (folder / "again" / "corpus.jsonl").read_bytes()
    assert SECRET.encode() not in corpus + (folder / "first" / "capture.yaml").read_bytes()
    assert read_catalog(folder / "first").hash == snapshot.catalog.hash
    for item in snapshot.catalog:
        assert item.description
        assert item.schema is not None
        assert item.schema["type"] == "object"
        assert item.metadata["server_version"]
    return {part.name: part for part in snapshot.parts}


def names(part: SnapshotPart) -> set[str]:
    return {item.name for item in part.items}


@needs_python
def test_servers_of_pypi(tmp_path: Path) -> None:
    parts = captured(
        tmp_path,
        {
            "git": {"command": str(PYTHON / "mcp-server-git"), "env": {"GITHUB_TOKEN": SECRET}},
            "time": {"command": str(PYTHON / "mcp-server-time"), "args": ["--local-timezone", "Europe/Berlin"]},
            "fetch": {"command": str(PYTHON / "mcp-server-fetch")},
        },
    )
    assert names(parts["git"]) >= {"git_status", "git_diff", "git_commit", "git_log", "git_checkout"}
    assert names(parts["time"]) == {"get_current_time", "convert_time"}
    assert names(parts["fetch"]) == {"fetch"}
    assert parts["git"].details["server"]["name"] == "mcp-git"
    assert parts["fetch"].items[0].schema["required"] == ["url"]  # type: ignore[index]


@needs_node
def test_servers_of_npm(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    parts = captured(
        tmp_path,
        {
            "filesystem": {
                "command": str(NODE / "mcp-server-filesystem"),
                "args": ["files"],
                "cwd": "${workspaceFolder}",
            },
            "memory": {"type": "stdio", "command": str(NODE / "mcp-server-memory"), "env": {"API_KEY": SECRET}},
            "everything": {"command": str(NODE / "mcp-server-everything"), "args": ["stdio"]},
        },
    )
    assert names(parts["filesystem"]) >= {"read_text_file", "write_file", "list_directory", "search_files"}
    assert names(parts["memory"]) >= {"create_entities", "create_relations", "read_graph", "search_nodes"}
    assert names(parts["everything"]) >= {"echo", "get-sum"}


@needs_node
@pytest.mark.parametrize(("mode", "path", "transport"), [("streamableHttp", "mcp", "http"), ("sse", "sse", "sse")])
def test_a_server_of_npm_by_http(mode: str, path: str, transport: str, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with child(
        [NODE / "mcp-server-everything", mode],
        env={**os.environ, "PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert time.monotonic() < deadline
                assert server.poll() is None
                time.sleep(0.1)
        url = f"http://127.0.0.1:{port}/{path}"
        part = captured(tmp_path, {"everything": {"url": url, "headers": {"Authorization": f"Bearer {SECRET}"}}})
        assert names(part["everything"]) >= {"echo", "get-sum"}
        assert part["everything"].details["transport"] == transport
        server.terminate()
