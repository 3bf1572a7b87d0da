"""Servers that answer, hang, exit, lie and leak; over stdio and HTTP; and none left behind."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ctxbench.catalogs import mcp_capture
from ctxbench.catalogs.mcp_capture import Limits, capture_servers, mcp_servers
from ctxbench.catalogs.mcp_config import read_mcp_config
from ctxbench.catalogs.snapshots import SnapshotPart, capture, write_snapshot
from ctxbench.io.errors import InputError, ParameterError
from tests.children import child
from tests.planted import places

FAKE = str(Path(__file__).parent / "fake_stdio.py")
SECRET = "tiger-42-house"
SHORT = Limits(timeout=4)
PACKED = gzip.compress(gzip.compress(bytes(2**26)))


# Servers that do not stop are given less time than users' get: the SDK's first, then what we give to what is left.
STOPPING = {"PROCESS_TERMINATION_TIMEOUT": 0.5, "FORCE_KILL_TIMEOUT": 0.5}
GRACE = 1.0


@pytest.fixture(autouse=True, scope="module")
def stopped_sooner() -> Iterator[None]:
    from mcp.client import stdio

    with pytest.MonkeyPatch.context() as patch:
        for name, seconds in STOPPING.items():
            patch.setattr(stdio, name, seconds, raising=False)
        patch.setattr(mcp_capture, "_GRACE", GRACE)
        yield


@pytest.fixture
def pids(tmp_path: Path) -> Path:
    return tmp_path / "pids"


@pytest.fixture
def fake(tmp_path: Path, pids: Path) -> Callable[..., Path]:
    """Write a configuration of fake servers, each in the mode that is its name."""
    return lambda *modes, **more: write_config(tmp_path / "mcp.json", pids, *modes, **more)


def write_config(path: Path, pids: Path, *modes: str, **more: Any) -> Path:
    env = {"SECRET": SECRET, "FAKE_PIDS": str(pids)}
    servers = {mode: {"command": sys.executable, "args": [FAKE, mode], "env": env} for mode in modes}
    path.write_text(json.dumps({"mcpServers": {**servers, **more}}))
    return path


def parts_of(config: Path, limits: Limits | None = None) -> dict[str, SnapshotPart]:
    return {part.name: part for part in capture_servers(read_mcp_config(config), limits=limits)}


def alive(pids: Path) -> list[int]:
    """The fake servers that run still; a zombie does not."""
    found = []
    for pid in map(int, pids.read_text().split()):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        found += [pid] if state != "Z" else []
    return found


@pytest.mark.essential
def test_tools_come_with_all_that_a_server_says(fake: Callable[..., Path]) -> None:
    part = parts_of(fake("rich"))["rich"]
    assert [item.id for item in part.items] == ["tool:rich:bare", "tool:rich:rich"]
    rich = part.items[1]
    assert (rich.title, rich.description, rich.schema) == ("Rich", "Does rich.", {"type": "object"})
    about = {"server_name": "fake-rich", "server_version": "1.2.3", "protocol_version": "2025-11-25"}
    assert {key: rich.metadata[key] for key in about} == about
    assert rich.metadata["annotations"] == {"title": "Rich", "readOnlyHint": True}
    assert rich.metadata["outputSchema"] == {"type": "object"}
    assert len(rich.metadata["definition_sha256"]) == 64
    assert part.details == {
        "transport": "stdio", "server": {"name": "fake-rich", "version": "1.2.3"}, "protocol": "2025-11-25",
    }  # fmt: skip
    assert part.as_row()["without_description"] == 1


def test_all_pages_are_read_and_tools_are_in_order_of_their_names(fake: Callable[..., Path]) -> None:
    parts = parts_of(fake("pages", "thousands", "shuffled"))
    assert [item.name for item in parts["pages"].items] == ["t0a", "t0b", "t1a", "t1b", "t2a", "t2b"]
    assert len(parts["thousands"].items) == 3000
    assert [item.name for item in parts["shuffled"].items] == ["a", "b", "c"]


@dataclass(frozen=True)
class Asked:
    """What one capture gave, in the order of its configuration, and the servers that it left running."""

    config: Path
    parts: dict[str, SnapshotPart]
    alive: list[int]


@pytest.fixture(scope="module")
def asked(stopped_sooner: None, tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """Servers of which most fail; asked once, as those that hang take all of their time: side by side, therefore."""
    folder = tmp_path_factory.mktemp("asked")
    hanging = ("hang", "garbage", "hang_later", "stubborn", "not_utf8")
    config = write_config(
        folder / "mcp.json",
        folder / "pids",
        *hanging,
        *("exit", "plain", "exit_later", "invalid", "no_tools", "leak"),
        gone={"command": "/no/such/program"},
        off={"command": "x", "disabled": True},
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mcp_capture, "_AT_ONCE", len(hanging))
        parts = parts_of(config, SHORT)
    return Asked(config, parts, alive(folder / "pids"))


def test_what_fails_is_reported_and_the_others_are_kept(asked: Asked) -> None:
    parts = asked.parts
    states = {name: part.state for name, part in parts.items()}
    assert list(states) == [*json.loads(asked.config.read_text())["mcpServers"]]
    assert [name for name, state in states.items() if state == "captured"] == ["plain", "no_tools", "leak"]
    assert states["off"] == "disabled"
    assert parts["no_tools"].notes == ("it lists no tools",)
    errors = {name: part.error for name, part in parts.items()}
    assert errors["exit"].splitlines() == [
        "it closed the connection before it answered; its last lines on standard error:",
        *[f"  | line {i}" for i in (5, 6, 7, 8)],
        "  | last: <hidden>",
    ]
    assert errors["garbage"] == (
        "it did not answer within 4 s: it was starting; it wrote 2 lines on standard output that are not "
        "MCP messages, the first: 'not json <hidden>'"
    )
    assert errors["hang"] == "it did not answer within 4 s: it was starting"
    assert errors["stubborn"] == errors["hang"]
    assert errors["hang_later"] == "it did not answer within 4 s: reading tools, page 1"
    assert errors["exit_later"].endswith("| the database is gone")
    assert errors["not_utf8"] == "it wrote bytes that are not UTF-8 (0xff)"
    assert errors["invalid"].startswith("its answer is not valid MCP: tools.0.inputSchema: ")
    assert "cannot be started: No such file or directory: /no/such/program" in errors["gone"]
    assert asked.alive == []


def test_noise_does_not_stand_in_the_way(fake: Callable[..., Path]) -> None:
    parts = parts_of(fake("chatty", "noisy"))
    assert [len(part.items) for part in parts.values()] == [2, 2]
    assert parts["chatty"].notes == (
        "it wrote 1 line on standard output that are not MCP messages, the first: 'Server is ready!'",
    )


def test_a_server_that_declares_no_tools_need_not_answer_for_them(
    fake: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_capture, "_UNDECLARED", 0.5)
    parts = parts_of(fake("silent", "undeclared"), Limits(timeout=20))
    assert parts["silent"].state == "captured"
    assert list(parts["silent"].notes) == ["it lists no tools"]
    assert [item.name for item in parts["undeclared"].items] == ["add", "echo"]  # it has some all the same


def test_what_is_waited_for_is_told_once_a_step_and_for_how_long(
    fake: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(mcp_capture, "_SILENCE", 1.0)
    parts_of(fake("mute", "hang_later", "rich"), SHORT)
    probe = "; an older server may not answer `server/discover`: the older protocol is tried after 10 s"
    assert {said for said in caplog.messages if "rich" not in said} == {
        f"server mute has not answered for 1 s (it was starting); its limit is 4 s{probe}",
        "server hang_later has not answered for 1 s (reading tools, page 1); its limit is 4 s",
    }
    assert sum("mute" in said for said in caplog.messages) == 1


def test_the_time_that_is_told_of_the_probe_is_that_of_the_sdk() -> None:
    from mcp.client.session import DISCOVER_TIMEOUT_SECONDS

    assert mcp_capture._PROBE == DISCOVER_TIMEOUT_SECONDS


def test_lists_without_end_are_cut(fake: Callable[..., Path]) -> None:
    parts = parts_of(fake("endless", "circle", "twice"), Limits(timeout=60, pages=20))
    errors = {name: part.error for name, part in parts.items()}
    assert errors == {
        "endless": "its list of tools has no end: it was cut after 20 pages",
        "circle": "its list of tools has no end: page 4 leads back to a page that was read before",
        "twice": "it lists the tool 'same' twice, on page 1 and on page 2; names must differ",
    }
    many = parts_of(fake("thousands"), Limits(timeout=60, tools=2000))["thousands"]
    assert many.error == "it lists more than 2,000 tools"


@pytest.mark.rest  # what is asked takes seconds
def test_nothing_of_the_environment_is_in_the_snapshot(asked: Asked, tmp_path: Path) -> None:
    write_snapshot(capture(lambda: tuple(asked.parts.values())), tmp_path / "out")
    text = "".join(path.read_text() for path in (tmp_path / "out").iterdir())
    assert "<hidden>" in text
    assert SECRET not in text
    assert "tiger" not in text
    assert "values of 'env' or 'headers'" in text


def error_of(folder: Path, mode: str, *arguments: str, **env: str) -> str:
    config = folder / "mcp.json"
    config.write_text(
        json.dumps({"mcpServers": {mode: {"command": sys.executable, "args": [FAKE, mode, *arguments], "env": env}}})
    )
    return parts_of(config)[mode].error


def test_an_error_of_the_server_is_quoted_though_its_code_is_that_of_a_closed_connection(tmp_path: Path) -> None:
    assert error_of(tmp_path, "own_error") == "it failed while reading tools, page 1: database locked"


def test_a_secret_that_is_cut_is_not_shown_in_half(tmp_path: Path) -> None:
    closed = "it closed the connection before it answered; its last lines on standard error:\n  | "
    assert error_of(tmp_path, "long_line", SECRET=SECRET) == f"{closed}(one very long line)"
    assert error_of(tmp_path, "long_lines", SECRET=SECRET) == f"{closed}the end"
    assert error_of(tmp_path, "decodes", "y" * 900, LOGIN="Basic eA==").endswith("yyy']")  # the end, with the remedy
    twice = error_of(tmp_path, "named_twice", SECRET=SECRET)
    assert twice == f"it lists the tool '{'x' * 90}<hidden>' twice, on page 1 and on page 1; names must differ"


def test_credentials_are_hidden_decoded_too_and_so_are_those_among_arguments(tmp_path: Path) -> None:
    login = "Basic " + base64.b64encode(b"admin:hunter-2").decode()
    said = error_of(tmp_path, "decodes", "-e", "GITHUB_TOKEN=ghp_1234", "--pat", "ghp_5678", LOGIN=login)
    assert said.endswith("| no such user: <hidden> ['-e', 'GITHUB_TOKEN=<hidden>', '--pat', '<hidden>']")


@pytest.mark.parametrize("secret", [SECRET, "tiger>>42???/house é", "gh0p>1"])
def test_a_secret_that_a_server_encodes_is_in_nothing_that_is_kept(
    fake: Callable[..., Path], tmp_path: Path, secret: str
) -> None:
    servers = {
        mode: {"command": sys.executable, "args": [FAKE, mode], "env": {"API_KEY": secret, "SECRET": secret}}
        for mode in ("encodes", "encodes_and_ends")
    }
    snapshot = capture(mcp_servers(fake("plain", **servers), limits=SHORT))
    write_snapshot(snapshot, tmp_path / "out")
    assert places(tmp_path / "out", secret) == []
    (leaky,) = (item for item in snapshot.catalog if item.name == "leaky")
    assert leaky.description.count("<hidden>") == 36  # 5 texts in 2 alphabets and 3 ways each, and 6 more
    assert "<hidden>" in snapshot.parts[2].error


def test_a_short_secret_is_hidden_and_what_is_none_stays(tmp_path: Path) -> None:
    env = {"PIN": "48151", "SCOPE": "issues", "NODE_ENV": "production"}
    config = tmp_path / "mcp.json"
    config.write_text(
        json.dumps({"mcpServers": {"a": {"command": sys.executable, "args": [FAKE, "values"], "env": env}}})
    )
    part = parts_of(config)["a"]
    assert [(item.name, item.description) for item in part.items] == [
        ("search_issues", "Search issues in production with <hidden> or pin_<hidden>.")
    ]
    assert part.notes == ("its tools contain values of 'env' or 'headers', which are hidden in the snapshot",)


def test_names_are_never_changed_so_a_secret_in_one_fails_its_server_alone(fake: Callable[..., Path]) -> None:
    parts = parts_of(fake("named", "fields", "plain"))
    assert parts["named"].error == (
        f"its tool '{'x' * 90}<hidden>' cannot be used: '{'x' * 90}<hidden>' is a name in it and holds a secret of "
        "the configuration, and names are kept as they are"
    )
    assert parts["fields"].error.startswith("its tool 'a' cannot be used: '<hidden>' is a name in it")
    assert len(parts["plain"].items) == 2


def test_what_no_file_can_hold_fails_the_server_at_once(fake: Callable[..., Path]) -> None:
    parts = parts_of(fake("nan", "half", "plain"), Limits(timeout=300))
    assert (
        parts["nan"].error
        == "its tool 'a' cannot be used: it contains NaN or an infinite number, which JSON does not have"
    )
    assert parts["half"].error.startswith(
        "its answer cannot be read: it contains half a character (a lone surrogate such as \\ud800), which "
        "UTF-8 cannot hold; it wrote 1 line"
    )
    assert len(parts["plain"].items) == 2


def test_a_server_that_exits_leaves_no_child_behind(fake: Callable[..., Path], pids: Path) -> None:
    assert len(parts_of(fake("leaves_child"))["leaves_child"].items) == 2
    assert len(pids.read_text().split()) == 2
    assert alive(pids) == []


def test_the_same_again_gives_the_same_bytes(fake: Callable[..., Path], tmp_path: Path) -> None:
    config = fake("pages", "exit", "shuffled", "rich")
    for name in ("a", "b"):
        write_snapshot(capture(mcp_servers(config)), tmp_path / name)
    assert (tmp_path / "a" / "corpus.jsonl").read_bytes() == (tmp_path / "b" / "corpus.jsonl").read_bytes()


def test_a_running_event_loop_is_no_hindrance(fake: Callable[..., Path]) -> None:
    config = fake("plain")

    async def notebook() -> int:
        return len(parts_of(config)["plain"].items)

    assert asyncio.run(notebook()) == 2


def test_progress_counts_servers(fake: Callable[..., Path]) -> None:
    seen: list[tuple[int, int]] = []
    capture(mcp_servers(fake("plain", "rich", "exit"), progress=lambda done, total: seen.append((done, total))))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_faults_of_the_configuration_come_before_anything_is_started(fake: Callable[..., Path], pids: Path) -> None:
    with pytest.raises(InputError, match="NOT_SET_ANYWHERE"):
        mcp_servers(fake("plain", bad={"command": "${NOT_SET_ANYWHERE}"}))
    assert not pids.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_server_behind(number: int, fake: Callable[..., Path], pids: Path) -> None:
    config = fake("hang", "stubborn", "parent")
    program = (
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler); signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
        "from mcp.client import stdio\n"
        "from ctxbench.catalogs import mcp_capture as client\n"
        "from ctxbench.catalogs.mcp_capture import mcp_servers\n"
        f"vars(stdio).update({STOPPING}); client._GRACE = {GRACE}\n"
        "try: mcp_servers(sys.argv[1])()\n"
        "except KeyboardInterrupt: sys.exit(130)\n"
    )
    with child([sys.executable, "-c", program, config], stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not pids.exists() or len(pids.read_text().split()) < 4:  # the child of `parent`, too
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(number)
        time.sleep(0.3)
        process.send_signal(number)  # whoever is impatient does not make it worse
        _, said = process.communicate(timeout=60)
    assert process.returncode == (130 if number == signal.SIGINT else -number)
    assert said == ""
    assert alive(pids) == []


def test_another_version_of_the_sdk_is_refused(fake: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _name: "1.30.0")
    with pytest.raises(ParameterError, match=r"version 1\.30\.0, and 2\.x is expected"):
        mcp_capture.check_sdk()


@pytest.mark.parametrize("fields", [{"timeout": 0}, {"timeout": float("nan")}, {"pages": 0}, {"tools": 0}])
def test_limits_must_be_positive(fields: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="greater than 0"):
        Limits(**fields)


# ---------------------------------------------------------------------------------------------- HTTP


class Handler(BaseHTTPRequestHandler):
    """Streamable HTTP; the first part of the path is the mode."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        mode = self.path.split("/")[1]
        if mode == "hang":
            self.server.release.wait(30)  # type: ignore[attr-defined]
        if mode == "locked" and self.headers.get("Authorization") != f"Bearer {SECRET}":
            self.reply(401, b"no", "text/plain")
        elif mode == "broken":
            self.reply(500, f"stack trace {self.headers.get('X-Key')}".encode(), "text/html")
        elif mode in ("packed", "flood"):
            self.junk(mode, "application/json")
        elif mode == "page":
            self.reply(200, b"<html>", "text/html")
        elif mode == "cut":  # what the SDK says of it shows a part only
            self.reply(200, f'{{"oops": "{"x" * 8}{self.headers.get("X-Key")}{"y" * 60}"'.encode(), "application/json")
        elif mode == "nonsense":
            self.reply(200, f'{{"oops": "{self.headers.get("X-Key")}"'.encode(), "application/json")
        elif "id" not in request:
            self.reply(202, b"", "application/json")
        else:
            data = json.dumps({"jsonrpc": "2.0", "id": request["id"], **self.result(request, mode)})
            if mode == "events":
                self.reply(200, f"event: message\ndata: {data}\n\n".encode(), "text/event-stream")
            else:
                self.reply(200, data.encode(), "application/json")

    def result(self, request: dict[str, Any], mode: str) -> dict[str, Any]:
        if request["method"] == "initialize":
            info = {"name": f"http-{mode}", "version": "7"}
            version = request["params"]["protocolVersion"]
            return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
        if request["method"] == "tools/list":
            cursor = (request.get("params") or {}).get("cursor")
            many = range(4000) if mode == "events" else range(2)
            names = [f"t{i:04}" for i in many] if not cursor else ["u"]
            tools = [{"name": name, "description": "x" * 300, "inputSchema": {"type": "object"}} for name in names]
            return {"result": {"tools": tools, **({} if cursor else {"nextCursor": "2"})}}
        return {"error": {"code": -32601, "message": "Method not found"}}

    def do_GET(self) -> None:
        mode = self.path.split("/")[1]
        if mode in ("packed", "flood"):
            self.junk(mode, "text/event-stream")
        else:
            self.reply(405, b"", "text/plain")

    def junk(self, mode: str, kind: str) -> None:
        """Far more than was asked for: packed, or without an end."""
        if mode == "packed":
            self.reply(200, PACKED, kind, encoding="gzip, gzip")
            return
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        with suppress(OSError):
            while not self.server.release.is_set():  # type: ignore[attr-defined]
                self.wfile.write(b": a comment\n" * 5000)

    def reply(self, status: int, body: bytes, kind: str, encoding: str = "") -> None:
        self.send_response(status)
        if encoding:
            self.send_header("Content-Encoding", encoding)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.release = threading.Event()  # type: ignore[attr-defined]
        server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that has left
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.release.set()  # type: ignore[attr-defined]
        server.shutdown()
        thread.join(timeout=60)


def test_servers_are_asked_by_http(address: str, tmp_path: Path) -> None:
    def url(mode: str, **headers: str) -> dict[str, Any]:
        return {"type": "http", "url": f"{address}/{mode}/mcp", "headers": headers}

    servers = {
        "json": url("json"), "events": url("events"), "locked": url("locked", Authorization=f"Bearer {SECRET}"),
        "refused": url("locked", Authorization="Bearer wrong-key"), "broken": url("broken", **{"X-Key": SECRET}),
        "page": url("page"), "nonsense": url("nonsense", **{"X-Key": SECRET}), "hang": url("hang"),
        "cut": url("cut", **{"X-Key": SECRET}), "nobody": {"url": "http://127.0.0.1:9/mcp"},
    }  # fmt: skip
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"servers": servers}))
    parts = parts_of(config, SHORT)
    assert {name: len(part.items) for name, part in parts.items() if part.state == "captured"} == {
        "json": 3, "events": 4001, "locked": 3,
    }  # fmt: skip
    assert parts["locked"].details == {
        "transport": "http", "url": address, "server": {"name": "http-locked", "version": "7"},
        "protocol": "2025-11-25",
    }  # fmt: skip
    errors = {name: part.error for name, part in parts.items() if part.error}
    assert "HTTP status 401, unauthorised: check its headers" in errors["refused"]
    assert "HTTP status 500" in errors["broken"]
    assert "Unexpected content type: text/html" in errors["page"]
    assert "JSON" in errors["nonsense"]
    assert errors["hang"] == "it did not answer within 4 s: it was starting"
    assert "connection attempts failed" in errors["nobody"]
    assert "EOF while parsing" in errors["cut"]
    assert "xx" not in errors["cut"]
    assert "tiger" not in repr(parts)
    assert "wrong-key" not in repr(parts)


@pytest.mark.parametrize("transport", ["http", "sse"])
def test_what_a_server_sends_is_bounded(address: str, fake: Callable[..., Path], transport: str) -> None:
    servers = {mode: {"type": transport, "url": f"{address}/{mode}/mcp"} for mode in ("packed", "flood")}
    tracemalloc.start()
    try:
        parts = parts_of(fake(**servers), Limits(timeout=60, size=2**20))
        assert tracemalloc.get_traced_memory()[1] < 2**25
    finally:
        tracemalloc.stop()
    errors = {name: part.error for name, part in parts.items()}
    assert errors == {
        "packed": "it sent a body in the encoding 'gzip, gzip', which was not requested",
        "flood": "it sent more than 1 MiB",
    }


def test_what_a_program_sends_is_bounded(fake: Callable[..., Path], pids: Path) -> None:
    parts = parts_of(fake("flood"), Limits(timeout=60, size=2**20))
    assert parts["flood"].error == "it sent more than 1 MiB"
    assert alive(pids) == []


def test_many_tools_are_fewer_bytes_than_a_server_may_send(fake: Callable[..., Path]) -> None:
    assert len(parts_of(fake("thousands"), Limits(size=2**20))["thousands"].items) == 0
    assert len(parts_of(fake("thousands"), Limits(size=2**21))["thousands"].items) == 3000
