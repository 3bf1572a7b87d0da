"""Where items stood that an agent no longer has."""

from __future__ import annotations

import json

import pytest

from ctxbench.catalogs.agent_file import read_agent
from ctxbench.datasets.layout import former_place

SOURCES = "sources: {mcp: .mcp.json, tools: {file: tools.json, server: own}, rules: [a, b], references: docs}\n"


@pytest.fixture
def agent(tmp_path):
    (tmp_path / "agent.yaml").write_text(SOURCES)
    servers = {"off": {"command": "x", "disabled": True}, "on": {"command": "x"}}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": servers}, indent=1))
    for folder in ("b/rules", "docs"):
        (tmp_path / folder).mkdir(parents=True)
    return read_agent(tmp_path / "agent.yaml")


@pytest.mark.parametrize(
    ("item", "path", "file", "line"),
    [
        ("tool:off:x", "", ".mcp.json", 3),  # disabled
        ("tool:never:x", "", ".mcp.json", 0),
        ("tool:on:x", "", "agent.snapshot/corpus.jsonl", 0),  # it is the server that has the tool no more
        ("tool:own:x", "", "tools.json", 0),
        ("rule:rules%2Fx.mdc", "", "b/rules/x.mdc", 0),  # of which the folder is left
        ("skill:x", "rules/x/SKILL.md", "b/rules/x/SKILL.md", 0),
        ("skill:x", "", "agent.yaml", 0),
        ("reference:x.md", "", "docs/x.md", 0),
        ("", "", "agent.yaml", 0),
    ],
)
def test_it_is_their_file_or_that_of_their_server(agent, item, path, file, line):
    assert former_place(agent, item, path) == (agent.path.parent / file, line)


def test_it_is_the_agent_file_where_that_names_nothing_of_the_kind(tmp_path):
    (tmp_path / "agent.yaml").write_text("sources: {mcp: .mcp.json}\n")
    agent = read_agent(tmp_path / "agent.yaml")
    assert former_place(agent, "rule:x.md") == (agent.path, 0)
    assert former_place(agent, "tool:x:y") == (tmp_path / ".mcp.json", 0)  # which cannot be read
