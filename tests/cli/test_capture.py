"""Capturing servers and importing lists of tools, from outside."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from ctxbench.catalogs.snapshots import SnapshotPart
from ctxbench.cli.capture import CaptureRequest, capture_all, keep
from ctxbench.io.errors import InputError, ParameterError, StorageError
from ctxbench.model.items import Catalog, Item

FAKE = str(Path(__file__).parents[1] / "catalogs" / "mcp" / "fake_stdio.py")
TOOLS = [
    {"name": "area", "description": "Area of a triangle.", "inputSchema": {"type": "object"}},
    {"type": "function", "function": {"name": "mail"}},
    {"type": "web_search"},
]


@pytest.fixture
def config(place: Path) -> Path:
    servers: dict[str, Any] = {
        mode: {"command": sys.executable, "args": [FAKE, mode]} for mode in ("rich", "exit_later")
    }
    path = place / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {**servers, "off": {"command": "x", "disabled": True}}}))
    return path


@pytest.fixture
def tools(place: Path) -> Path:
    path = place / "tools.json"
    path.write_text(json.dumps(TOOLS))
    return path


def test_how_each_server_went_is_printed(config: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert capture_all(CaptureRequest(mcp_config=config, timeout=60), out=Path("kept"), as_json=False) == 1
    lines = capfd.readouterr().out.splitlines()
    closed = "it closed the connection before it answered"
    assert lines[:5] == [
        "rich        2 items (fake-rich 1.2.3)",
        "            1 of 2 tools have no description and are found by their names only",
        f"exit_later  failed (fake-exit_later 1.2.3): {closed}; its last lines on standard error:",
        "  | the database is gone",
        "off         disabled",
    ]
    assert lines[6:] == [
        "1 of 3 failed: exit_later; this is what the others gave",
        'Next: ctxbench select "what a user asks" --catalog kept',
    ]
    assert (
        capture_all(CaptureRequest(mcp_config=config, skip=["exit_later"], timeout=60), out=Path("kept"), as_json=False)
        == 0
    )


def test_json_is_the_card(config: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert (
        capture_all(CaptureRequest(mcp_config=config, servers=["rich"], timeout=60), out=Path("kept"), as_json=True)
        == 0
    )
    card = json.loads(capfd.readouterr().out)
    assert (card["folder"], card["counts"]) == ("kept", {"items": 2, "tools": 2, "without_description": 1})
    assert [part["name"] for part in card["parts"]] == ["rich"]


def test_nothing_is_written_when_nothing_was_captured(config: Path) -> None:
    with pytest.raises(
        InputError, match=r"(?s)nothing was captured.*server 'exit_later'.*server 'off': it is disabled"
    ) as caught:
        capture_all(CaptureRequest(mcp_config=config, skip=["rich"], timeout=60), out=Path("kept"), as_json=False)
    assert "standard error:  | the database is gone" in str(caught.value)
    assert not Path("kept").exists()


@pytest.mark.parametrize("timeout", [0.0, -3.0, float("nan"), float("inf")])
def test_a_time_limit_that_is_none_is_told_as_the_option(config: Path, timeout: float) -> None:
    with pytest.raises(ParameterError, match=rf"^--timeout must be above 0 seconds and finite, got {timeout:g}$"):
        capture_all(CaptureRequest(mcp_config=config, timeout=timeout), out=Path("kept"), as_json=False)


def test_a_folder_with_something_else_is_refused_before_anything_is_started(config: Path, place: Path) -> None:
    with pytest.raises(ParameterError, match=r"\. would be replaced, but it holds mcp\.json"):
        capture_all(CaptureRequest(mcp_config=config, timeout=60), out=Path(), as_json=False)


def test_a_list_of_tools_becomes_a_catalog_to_select_from(tools: Path, cli) -> None:  # type: ignore[no-untyped-def]
    lines = cli("data", "import", tools.name, "--out", "kept").out.splitlines()
    assert lines[:5] == [
        "tools.json: tools of MCP, OpenAI, Anthropic or the AI SDK (--as tools)",
        "tools.json  2 items",
        "            left out, because the model's provider runs them and they have no definition: 1 web_search",
        "            1 of 2 tools have no description and are found by their names only",
        "            1 of 2 tools have no input schema",
    ]
    done = cli("select", "area of a triangle", "--catalog", "kept", "--embedder", "hashing", "--json")
    assert done.code == 0
    assert "tool:area" in done.out


def test_a_folder_must_be_named(tools: Path, cli) -> None:  # type: ignore[no-untyped-def]
    done = cli("data", "import", tools)
    assert (done.code, done.out) == (2, "")
    assert "--out FOLDER" in done.err


def test_rules_and_references_join_the_servers(config: Path, place: Path, cli) -> None:  # type: ignore[no-untyped-def]
    (place / "shop" / "docs").mkdir(parents=True)
    (place / "shop" / "AGENTS.md").write_text("# How we work\n\nTabs.")
    (place / "shop" / "docs" / "keys.md").write_text("# Keys\n\nShop = SHP.")
    where = ["--rules", "shop", "--references", "shop/docs", "--out", "kept"]
    done = cli("data", "capture", "--mcp-config", config, "--only", "rich", *where)
    assert done.code == 0
    names = [line.split("  ")[0] for line in done.out.splitlines()]
    assert names[:4] == ["rich", "", "AGENTS.md", "references in docs"]
    assert "4 items, catalog " in done.out
    shown = cli("select", "project keys", "--catalog", "kept", "--embedder", "hashing", "--json")
    assert "reference:keys.md" in shown.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to capture: name --mcp-config FILE, --rules FOLDER or --references FOLDER"),
        (["--rules", ".", "--only", "x"], "--only and --skip choose among servers"),
        (["--rules", "none"], "cannot read none: no such folder"),
        (["--references", "empty"], "nothing was captured"),
    ],
)
def test_what_cannot_be_captured_is_one_message(arguments: list[str], message: str, place: Path, cli) -> None:  # type: ignore[no-untyped-def]
    (place / "empty").mkdir()
    done = cli("data", "capture", *arguments, "--out", "kept")
    assert done.code == 2
    assert message in done.err
    assert not Path("kept").exists()


def test_what_no_file_can_hold_is_a_fault_with_its_line(place: Path, cli) -> None:  # type: ignore[no-untyped-def]
    path = place / "half.json"
    path.write_text('[{"name": "a", "inputSchema": {}},\n{"name": "t", "description": "\\ud800 x"}]')
    done = cli("data", "import", path, "--out", "kept")
    assert done.code == 2
    assert "tool 't': it contains half a character (a lone surrogate such as \\ud800)" in done.err
    assert "half.json, line 2" in done.err


def test_two_folders_with_the_same_rule_are_named(place: Path, cli) -> None:  # type: ignore[no-untyped-def]
    for folder in ("A", "B"):
        (place / folder).mkdir()
        (place / folder / "AGENTS.md").write_text("Tabs.")
    done = cli("data", "capture", "--rules", "A", "--rules", "B", "--out", "kept")
    assert done.code == 2
    assert "item 'rule:AGENTS.md' comes from 'AGENTS.md' in A and from 'AGENTS.md' in B" in done.err


def test_import_needs_no_word_before_a_file_of_tools(tools: Path, cli) -> None:  # type: ignore[no-untyped-def]
    assert cli("data", "import", tools, "--out", "one").code == 0
    assert cli("data", "import", "tools", tools, "--out", "two").code == 0
    assert Path("one/corpus.jsonl").read_bytes() == Path("two/corpus.jsonl").read_bytes()


def test_an_earlier_catalog_is_not_replaced_by_less(config: Path, cli) -> None:  # type: ignore[no-untyped-def]
    where = ["--mcp-config", config, "--out", "kept"]
    assert cli("data", "capture", *where, "--only", "rich").code == 0
    before = Path("kept/capture.yaml").read_bytes()
    done = cli("data", "capture", *where)
    assert done.code == 2
    assert "kept is kept as it was, since 1 of 3 failed; it holds no item of exit_later; fix that, ask only" in done.err
    assert "the others: --skip exit_later, or replace it by what the others gave: --partial (exit_later: it" in done.err
    assert Path("kept/capture.yaml").read_bytes() == before
    assert cli("data", "capture", *where, "--partial").code == 1
    assert Path("kept/capture.yaml").read_bytes() != before


def test_what_a_failed_source_has_in_the_earlier_catalog_is_told(place: Path, cli) -> None:  # type: ignore[no-untyped-def]
    def asked(**modes: str) -> Any:
        servers = {name: {"command": sys.executable, "args": [FAKE, mode]} for name, mode in modes.items()}
        Path("mcp.json").write_text(json.dumps({"mcpServers": servers}))
        return cli("data", "capture", "--mcp-config", "mcp.json", "--out", "kept")

    assert asked(first="rich", second="rich", third="exit_later").code == 1
    done = asked(first="rich", second="exit_later", third="exit_later")
    assert "since 2 of 3 failed, and it holds 2 items of second; fix that, ask only" in done.err
    assert (
        "the others: --skip second --skip third, or replace it by what the others gave: --partial (second: it"
        in done.err
    )
    for damaged in ("parts: 3", "[", "parts: [{kind: server}]"):
        Path("kept/capture.yaml").write_text(damaged)
        done = asked(first="rich", second="exit_later")
        assert "and its items of theirs are unknown: " in done.err
        assert done.code == 2


@pytest.mark.parametrize("chosen", [["--only", "second"], ["--skip", "first", "--skip", "off"]])
def test_what_is_not_asked_stays_as_it_was_captured(place: Path, cli, chosen: list[str]) -> None:  # type: ignore[no-untyped-def]
    servers: dict[str, Any] = {
        name: {"command": sys.executable, "args": [FAKE, "rich"]} for name in ("first", "second")
    }
    Path("mcp.json").write_text(json.dumps({"mcpServers": {**servers, "off": {"command": "x", "disabled": True}}}))
    Path("AGENTS.md").write_text("Be kind.\n")
    where = ["--mcp-config", "mcp.json", "--out", "kept"]
    assert cli("data", "capture", *where, "--rules", ".").code == 0
    before = Path("kept/corpus.jsonl").read_bytes()
    card = Path("kept/capture.yaml")
    card.write_text(re.sub(r"captured: '.*'", "captured: '2026-01-02T03:04:05Z'", card.read_text()))
    done = cli("data", "capture", *where, *chosen)
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "first      2 items (fake-rich 1.2.3), not asked: kept as captured on 2026-01-02"
    assert "second     2 items (fake-rich 1.2.3)" in lines
    assert "AGENTS.md  1 item, not asked: kept as captured on 2026-01-02" in lines
    assert Path("kept/corpus.jsonl").read_bytes() == before
    assert cli("data", "capture", *where, *chosen).out.splitlines() == lines, "the age of what is kept stays"
    assert "5 items" not in cli("data", "capture", *where, *chosen, "--partial").out
    assert Path("kept/corpus.jsonl").read_bytes() != before


def test_an_edited_snapshot_is_not_taken_apart(place: Path, cli) -> None:  # type: ignore[no-untyped-def]
    servers = {"one": {"command": sys.executable, "args": [FAKE, "rich"]}}
    Path("mcp.json").write_text(json.dumps({"mcpServers": servers}))
    where = ["--mcp-config", "mcp.json", "--out", "kept"]
    assert cli("data", "capture", *where).code == 0
    rows = Path("kept/corpus.jsonl").read_text().splitlines()
    Path("kept/corpus.jsonl").write_text(rows[0] + "\n")
    done = cli("data", "capture", *where, "--only", "one")
    assert (done.code, "capture all of them again, without --only and --skip" in done.err) == (2, True)


def test_a_folder_that_fails_is_not_skipped_by_name(place: Path) -> None:
    part = SnapshotPart(name="docs", kind="rules", state="failed", error="it is gone")
    items = tuple(Catalog([Item(type="tool", server="s", name="a", description="A.")]))
    whole = [lambda: [SnapshotPart(name="docs", kind="rules", items=items)]]
    assert keep(whole, out=Path("kept"), as_json=False) == 0
    less = [lambda: [part, SnapshotPart(name="calc", kind="server", items=items)]]
    with pytest.raises(StorageError, match=r"and it holds 1 item of docs; .* gave: --partial \(docs: it is gone\)$"):
        keep(less, out=Path("kept"), as_json=False, partial=False)
