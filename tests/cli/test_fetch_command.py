"""`ctxbench data fetch`: from a server on this machine to a dataset, and what is printed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from ctxbench.cli.app import main
from ctxbench.cli.data import fetch_source, import_dataset
from ctxbench.datasets.files import read_dataset
from ctxbench.datasets.lookup import list_datasets, open_dataset
from ctxbench.io.errors import StorageError
from ctxbench.labelling import published
from ctxbench.labelling.benchmarks import LiveMCPBench, MetaTool, ToolLens

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data"
METATOOL = {
    "all_clean_data.csv": "Query,Tool\nIs it warm?,weather\n",
    "multi_tool_query_golden.json": '[{"query": "Warm news?", "tool": ["weather", "news"]}]',
    "plugin_des.json": '{"weather": "Now.", "news": "Today."}',
    "big_tool_des.json": "{}",
}


@pytest.fixture
def there(cache, monkeypatch):
    """All files of ToolLens in the cache, of one byte each."""
    files = tuple(
        dataclasses.replace(f, size=1, sha256=hashlib.sha256(b"x").hexdigest()) for f in ToolLens.source.files
    )
    source = dataclasses.replace(ToolLens.source, files=files)
    monkeypatch.setattr(ToolLens, "source", source)
    for file in files:
        (source.folder / file.path).parent.mkdir(parents=True, exist_ok=True)
        (source.folder / file.path).write_bytes(b"x")
    return source


@pytest.fixture
def small_metatool(monkeypatch):
    """A made-up MetaTool that a server on this machine publishes."""
    files, bodies = [], {}
    for file in MetaTool.source.files:
        body = METATOOL[file.path].encode()
        files.append(dataclasses.replace(file, size=len(body), sha256=hashlib.sha256(body).hexdigest()))
        bodies[f"/{MetaTool.source.repository}/{MetaTool.source.commit}/{file.published}"] = body

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path in bodies else 404)
            self.end_headers()
            self.wfile.write(bodies.get(self.path, b""))

        def log_message(self, *_arguments):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    monkeypatch.setattr(MetaTool, "source", dataclasses.replace(MetaTool.source, files=tuple(files)))
    monkeypatch.setattr(published, "HOST", f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("CTXBENCH_OFFLINE")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    yield MetaTool.source
    server.shutdown()
    server.server_close()
    thread.join(timeout=60)


def states():
    return {row.name: row.state for row in list_datasets() if row.name.startswith("metatool")}


def test_what_is_fetched_can_be_opened(small_metatool, capfd):
    assert set(states().values()) == {"not fetched"}
    fetch_source("metatool-multi", as_json=False)
    size = sum(len(text) for text in METATOOL.values())
    assert capfd.readouterr().out == (
        f"metatool: 4 files, {size} bytes in {small_metatool.folder} (4 fetched now)\n"
        "datasets of it, imported at the first use: metatool-multi, metatool-single\n"
    )
    assert set(states().values()) == {"importable"}
    assert [query.request.text for query in open_dataset("metatool-multi").queries] == ["Warm news?"]
    assert states() == {"metatool-multi": "cached", "metatool-single": "importable"}


def test_a_dataset_is_imported_from_a_folder_and_copied(tmp_path):
    source = SHARED / "livemcpbench"
    if not LiveMCPBench(source).available():
        pytest.skip("the published files of livemcpbench are not beside the repository")
    import_dataset("livemcpbench", out=tmp_path / "copy", source=source)
    assert read_dataset(tmp_path / "copy").hash == open_dataset("livemcpbench").hash


def test_a_file_of_ones_own_is_imported_in_the_form_of_a_public_dataset(tmp_path, capfd):
    turn = {"role": "user", "content": "I am a biologist.", "has_answer": True}
    dates = {"question_date": "2023/05/30 (Tue) 23:40", "haystack_dates": ["2023/05/21 (Sun) 03:58"]}
    asked = {"question_id": "q1", "question_type": "mine", "question": "What am I?", **dates}
    histories = {"haystack_session_ids": ["s1"], "haystack_sessions": [[turn]]}
    (tmp_path / "mine.json").write_text(json.dumps([{**asked, **histories}]))
    args = ["data", "import", "longmemeval-oracle", "--from", str(tmp_path / "mine.json"), "--own"]
    with pytest.raises(SystemExit) as ended:
        main([*args, "--out", str(tmp_path / "chats")])
    assert ended.value.code == 0
    assert f"dataset chats: 1 queries over 1 items written to {tmp_path / 'chats'}" in capfd.readouterr().err
    assert read_dataset(tmp_path / "chats").name == "chats"
    assert "longmemeval-oracle" not in [row.name for row in list_datasets() if row.state == "cached"]
    with pytest.raises(SystemExit) as ended:
        main(args)
    assert ended.value.code == 2
    assert "--own needs the files, --from PLACE, and where the dataset goes, --out FOLDER" in capfd.readouterr().err


def test_queries_of_ones_own_whose_evidence_names_no_turn_are_said(tmp_path, capfd):
    turns = [{"dia_id": "m1", "speaker": "Ann", "text": "Hi.", "date_time": "29.12.2023, 22:42:04"}]
    asked = [{"question": "Who?", "category": 4, "evidence": [turn]} for turn in ("m1", "m2")]
    (tmp_path / "mine.json").write_text(json.dumps({"session_1": turns, "qa": asked}))
    args = ["data", "import", "locomo-memory", "--from", str(tmp_path / "mine.json"), "--own"]
    with pytest.raises(SystemExit) as ended:
        main([*args, "--out", str(tmp_path / "chats")])
    assert ended.value.code == 0
    assert "1 query without a label: mine/q1;" in capfd.readouterr().err


def test_what_is_there_is_listed_with_its_licence(there, capfd):
    fetch_source("toollens", as_json=False)
    out, err = capfd.readouterr()
    assert out == (
        f"toollens: 4 files, 4 bytes in {there.folder} (0 fetched now)\n"
        "datasets of it, imported at the first use: toollens\n"
    )
    assert "quchangle1/COLT; licence: none stated by the publisher" in err


def test_a_program_reads_json(there, capfd):
    fetch_source("toollens", as_json=True)
    printed = json.loads(capfd.readouterr().out)
    assert (printed["source"], printed["datasets"], printed["folder"]) == ("toollens", ["toollens"], str(there.folder))
    assert [(row["bytes"], row["fetched"]) for row in printed["files"]] == [(1, False)] * 4


def test_the_network_is_not_used_where_it_is_forbidden():
    with pytest.raises(StorageError, match="cannot fetch locomo: CTXBENCH_OFFLINE"):
        fetch_source("locomo-observations", as_json=False)
