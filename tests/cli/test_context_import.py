"""`ctxbench context import`: files, messages and events, all or none, again and again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ctxbench.memory.memories import Event
from ctxbench.memory.sqlite_store import SqliteStore
from tests.cli.test_memory import write

ROOT = Path(__file__).parents[2]
FILE = {
    "id": "src/pay.py",
    "type": "file",
    "kind": "text/x-python",
    "content": "def pay(): ...",
    "created": "2026-03-01",
}
ROWS = [
    {"event": "access", "id": "src/pay.py", "user": "ann", "at": "2026-03-03"},  # events may come before their items
    FILE,
    {"id": "a@2.md", "type": "file", "content": "A path with @.", "created_at": "2026-03-01"},
    {"id": "m1", "type": "message", "kind": "user", "conversation_id": "t1", "user": "ann", "content": "who pays?"},
    {"id": "tea", "type": "memory", "kind": "fact", "content": "Ben drinks tea."},
    {"event": "reference", "id": "src/pay.py", "user": "ann", "conversation": "t1", "at": "2026-03-02T09:00:00+01:00"},
    {"event": "feedback", "id": "src/pay.py", "user": "ann", "useful": True, "at": "2026-03-03"},
]
WORDS = ("context", "import", "m.db", "rows.jsonl", "-w", "home")


@pytest.fixture
def imported(cli, place):
    write(*ROWS)
    done = cli(*WORDS)
    assert done.code == 0, done.err
    return done


def stored():
    with SqliteStore("m.db", create=False) as store:
        return [item.as_row() for item in store.catalog("home")], store.events("home")


def test_items_and_events_enter_with_their_fields(imported):
    said, next_ = imported.out.splitlines()
    assert said.startswith("m.db (created), workspace home: 4 new items, 0 later versions, 0 that were there, ")
    assert said.endswith(", 3 new events")
    assert next_ == "Next: ctxbench serve m.db --workspace home --selector assembly"
    with SqliteStore("m.db") as store:
        file, message = store.get("home", "src/pay.py"), store.get("home", "m1")
        assert (file.type, file.kind, file.created) == ("file", "text/x-python", "2026-03-01T00:00:00+00:00")
        assert (message.type, message.conversation, message.user) == ("message", "t1", "ann")
        assert (store.get("home", "tea").type, store.get("home", "a@2.md").type) == ("memory", "file")
        about = {"workspace": "home", "id": "src/pay.py", "user": "ann"}
        reference = Event(kind="reference", conversation="t1", at="2026-03-02T08:00:00+00:00", **about)
        assert store.events("home")[0] == reference
        request = store.request("home", "who pays?", user="ann", conversation="t1")
        names = [[key.name for key in keys] for keys in (request.explicit, request.recent)]
        assert (names, request.uses[0][1]) == ([["src/pay.py@1"], ["src/pay.py@1"]], 1)


def test_the_same_file_again_changes_nothing_and_a_changed_row_is_a_version(cli, imported):
    before = stored()
    given = {"versions": 0, "same": 7, "relationships": 0, "events": 0, "elsewhere": 0, "embedded": 0}
    assert cli(*WORDS, "--json").json == {"database": "m.db", "made": False, "workspace": "home", "new": 0, **given}
    assert stored() == before
    write({**FILE, "content": "def pay(n): ...", "created": "2026-03-04"})
    assert cli(*WORDS, "--json").json["versions"] == 1
    with SqliteStore("m.db") as store:
        assert (store.get("home", "src/pay.py").version, store.get("home", "src/pay.py").type) == (2, "file")


def test_what_a_store_holds_and_a_dataset_are_read_as_they_are(cli, imported, place):
    items, _ = stored()
    Path("rows.jsonl").write_text("".join(f"{json.dumps(item)}\n" for item in items))
    assert cli("context", "import", "copy.db", "rows.jsonl", "-w", "home").code == 0
    with SqliteStore("copy.db") as store:
        assert [item.as_row() for item in store.catalog("home")] == items
    done = cli("context", "import", "t.db", ROOT / "datasets" / "threads" / "corpus.jsonl", "-w", "t", "--json")
    assert done.json["new"] == len((ROOT / "datasets" / "threads" / "corpus.jsonl").read_text().splitlines())


def test_vectors_are_computed_at_the_import_if_asked_for(cli, imported):
    done = cli(*WORDS, "--embedder", "hashing")
    assert "vectors of hashing: 6 computed" in done.out
    assert done.out.endswith(" --selector assembly/embeddings --embedder hashing\n")
    assert "vectors of hashing: 0 computed" in cli(*WORDS, "--embedder", "hashing").out


BAD_ROWS = {
    "type": ({**FILE, "type": "tool"}, "type must be one of memory, file, message, got 'tool'"),
    "no type": ({"id": "a", "content": "x"}, "type must be one of memory, file, message, got None"),
    "item type": ({"_id": "tool:a", "text": "x"}, "'tool:a' cannot be stored"),
    "other type": (
        {"id": "src/pay.py", "type": "message", "content": "x", "created": "2026-04-01"},
        "stored as a file",
    ),
    "field": ({**FILE, "usr": "ann"}, "unknown field 'usr'"),
    "event": (
        {"event": "acces", "id": "src/pay.py", "at": "2026-03-03"},
        "event must be one of reference, unreference, access, feedback, got 'acces'",
    ),
    "event field": (
        {"event": "access", "id": "src/pay.py", "at": "2026-03-03", "content": "x"},
        "unknown field 'content'",
    ),
    "no time": ({"event": "access", "id": "src/pay.py"}, "at is missing"),
    "no conversation": ({"event": "reference", "id": "src/pay.py", "at": "2026-03-03"}, "conversation is missing"),
    "no item": ({"event": "access", "id": "src/pai.py", "at": "2026-03-03"}, "has no 'src/pai.py'"),
    "before its item": ({"event": "access", "id": "src/pay.py", "at": "2026-02-03"}, "has no 'src/pay.py'"),
    "other user": ({"event": "access", "id": "m1", "user": "ben", "at": "2099-01-01"}, "has no 'm1'"),
    "useful": ({"event": "access", "id": "src/pay.py", "at": "2026-03-03", "useful": True}, "useful is for"),
}


@pytest.mark.parametrize(("row", "said"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_a_bad_row_is_named_with_its_line_and_nothing_is_written(cli, imported, row, said):
    before = stored()
    write({"id": "new.py", "type": "file", "content": "x"}, row)
    done = cli(*WORDS)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert "rows.jsonl, line 2" in done.err
    assert stored() == before


@pytest.mark.parametrize(
    "row", [FILE, ROWS[0], {"_id": "message:m1", "text": "x"}, {**FILE, "_id": "file:a", "id": None}]
)
def test_a_file_is_refused_by_memory_import_with_one_error(cli, place, row):
    write({"id": "tea", "content": "Ben drinks tea."}, row, row)
    done = cli("memory", "import", "m.db", "rows.jsonl", "-w", "home")
    assert (done.code, done.out, Path("m.db").exists()) == (2, "", False)
    (line,) = done.err.splitlines()
    assert "2 rows" in line
    assert "`ctxbench context import`" in line
    assert "rows.jsonl, line 2" in line
