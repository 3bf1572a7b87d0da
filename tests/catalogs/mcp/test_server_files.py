"""The files that a server's command names, and whether they changed since it was captured."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from ctxbench.catalogs.mcp_config import captured_servers, server_digests
from ctxbench.catalogs.snapshots import SnapshotPart, capture, write_snapshot
from ctxbench.model.items import Item

WHEN = datetime(2026, 5, 6, tzinfo=UTC)


@pytest.fixture
def project(tmp_path):
    """A repository with servers of several kinds below a folder."""
    for name, text in {
        "servers/crm.py": "from common import serve\nfrom shop import prices\n",
        "servers/common.py": "import json\n",
        "servers/shop/__init__.py": "",
        "servers/shop/prices.py": "",
        "servers/unused.py": "",
        "servers/crew.mjs": "import { tools } from './lib/tools.mjs'\n",
        "servers/lib/tools.mjs": "",
        "node/index.js": "require('./other')\n",
        "node/other.js": "",
        "uvproject/server.py": "",
        "bin/server": "",
        "tools.json": "[]",
        "node_modules/pkg/cli.js": "",
        ".venv/bin/python": "",
        ".git/HEAD": "",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def configure(folder, name=".mcp.json", **entry):
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"mcpServers": {"one": entry, "off": {"command": "x", "disabled": True}}}))
    return path


CRM = ["servers/common.py", "servers/crm.py", "servers/shop/__init__.py", "servers/shop/prices.py"]


@pytest.mark.parametrize(
    ("entry", "files"),
    [
        ({"command": "python3", "args": ["servers/crm.py"]}, CRM),
        ({"command": "python3", "args": ["${workspaceFolder}/servers/crm.py"]}, CRM),
        ({"command": "python3", "args": ["crm.py"], "cwd": "servers"}, CRM),
        ({"command": "uv", "args": ["run", "--directory", "uvproject", "server.py"]}, ["uvproject/server.py"]),
        ({"command": "python3", "args": ["-m", "servers.unused"]}, ["servers/unused.py"]),
        ({"command": "node", "args": ["servers/crew.mjs"]}, ["servers/crew.mjs", "servers/lib/tools.mjs"]),
        ({"command": "node", "args": ["node"]}, ["node/index.js", "node/other.js"]),
        ({"command": "./bin/server", "args": ["--tools=tools.json"]}, ["bin/server", "tools.json"]),
        ({"command": ".venv/bin/python", "args": ["node_modules/pkg/cli.js"]}, []),
        ({"command": "npx", "args": ["-y", "@corp/server", "."]}, []),
        ({"command": "cat", "args": ["/etc/hostname"]}, []),
        ({"url": "https://host/mcp"}, []),
        ({"command": "python3", "args": ["servers/unused.py"], "env": {"K": "${NOT_SET}"}}, ["servers/unused.py"]),
    ],
)
def test_files_are_those_that_the_command_names_and_what_they_import(project, entry, files):
    found = server_digests(configure(project, **entry))
    assert list(found) == ["one"]
    assert list(found["one"].get("files", ())) == files


def test_a_configuration_of_an_editor_is_for_the_folder_above(project):
    config = configure(project, ".cursor/mcp.json", command="python3", args=["servers/unused.py"])
    assert list(server_digests(config)["one"]["files"]) == ["servers/unused.py"]


def test_files_elsewhere_in_the_repository_count(project):
    config = configure(project / "node", command="python3", args=["../servers/unused.py"])
    assert list(server_digests(config)["one"]["files"]) == ["../servers/unused.py"]


def test_secrets_are_no_part_of_the_digest(project):
    entries = [
        {"command": "x", "args": ["--api-key", key], "env": {"KEY": key}}
        for key in ("sk-live-0123456789abcdef", "sk-live-fedcba9876543210")
    ]
    one, other = (server_digests(configure(project, **entry)) for entry in entries)
    assert one == other
    assert server_digests(configure(project, command="y", args=[])) != one


@pytest.mark.parametrize(
    ("edit", "changed"),
    [
        ({}, ()),
        ({"servers/crm.py": "from common import serve\n# new\n"}, ("servers/crm.py", "servers/shop/__init__.py")),
        ({"servers/common.py": "import json\r\n"}, ()),
        ({"servers/unused.py": "x"}, ()),
        ({"servers/common.py": None}, ("servers/common.py",)),
        ({"servers/json.py": ""}, ("servers/json.py",)),
    ],
)
def test_what_changed_since_the_capture_is_named(project, edit, changed):
    config = configure(project, command="python3", args=["servers/crm.py"])
    tool = Item(type="tool", server="one", name="t")
    part = SnapshotPart(name="one", kind="server", items=(tool,), details=server_digests(config)["one"])
    write_snapshot(capture(lambda: [part]), project / "captured", when=WHEN)
    for name, text in edit.items():
        (project / name).unlink(missing_ok=True)
        if text is not None:
            (project / name).write_bytes(text.encode())
    (server,) = captured_servers(config, project / "captured")
    assert (server.name, server.captured, server.verified, server.error) == ("one", "2026-05-06T00:00:00Z", True, "")
    assert server.changed[: len(changed)] == changed
    assert server.outdated is bool(changed)


def test_a_server_without_a_snapshot_is_none_that_was_captured(project):
    assert captured_servers(configure(project, command="x"), project / "captured") == []
