"""`ctxbench memory`: import, search, build and preview, and what they refuse."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
import typer

from ctxbench.cli.app import app
from ctxbench.memory import sqlite_store
from ctxbench.memory.engine import DEEPEST, DEFAULTS, MOST_RESULTS, ContextOptions, SearchOptions
from ctxbench.memory.memories import Memory
from ctxbench.memory.sqlite_store import SqliteStore

DIARY = Path(__file__).parents[2] / "datasets" / "diary" / "corpus.jsonl"
TYRE = {
    "id": "tyre",
    "content": "Ana's front tyre went flat on the canal path.",
    "type": "event",
    "confidence": 0.9,
    "created_at": "2026-03-01T09:00:00Z",
    "conversation_id": "c1",
    "relationships": [{"type": "mended_with", "target": "pump"}],
}
ROWS = [
    TYRE,
    {"id": "pump", "content": "The bicycle pump is kept in the cellar.", "created_at": "2026-03-02", "type": "fact"},
    {"id": "tea", "content": "Ben drinks green tea without sugar.", "created_at": "2026-03-03", "type": "preference"},
    {"id": "tea", "content": "Ben drinks black tea with milk.", "created_at": "2026-03-05", "type": "preference"},
    {"id": "bread", "content": "Ana buys rye bread on Fridays.", "created_at": "2026-03-04", "type": "fact"},
]
OFFLINE = ("-w", "home", "--embedder", "hashing")


def write(*rows, name="rows.jsonl"):
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    Path(name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return name


@pytest.fixture
def imported(cli, place):
    """A database with the rows above."""
    done = cli("memory", "import", "m.db", write(*ROWS), "-w", "home")
    assert done.code == 0, done.err
    return done


@pytest.fixture
def asked(cli, imported):
    """Ask it something."""

    def ask(command, query, *more):
        return cli("memory", command, "m.db", query, *OFFLINE, *more)

    return ask


def stored():
    """What the file holds: ids with versions and contents, and relationships."""
    with closing(sqlite3.connect("m.db")) as db, db:
        memories = "SELECT id || '@' || version, content FROM versions JOIN memories ON key = memory ORDER BY seq"
        return dict(db.execute(memories).fetchall()), db.execute("SELECT count(*) FROM relationships").fetchone()[0]


# ---------------------------------------------------------------------------------------------------- import


def test_an_import_makes_the_database_and_says_so(imported):
    said, next_ = imported.out.splitlines()
    assert said == "m.db (created), workspace home: 4 new memories, 1 later version, 0 that were there, 1 relationship"
    assert next_ == "Next: ctxbench memory search m.db 'what is asked' --workspace home"
    memories, relationships = stored()
    assert list(memories) == ["tyre@1", "pump@1", "tea@1", "bread@1", "tea@2"]
    assert relationships == 1


def test_the_same_file_again_changes_nothing(cli, imported):
    before = stored()
    done = cli("memory", "import", "m.db", "rows.jsonl", "-w", "home", "--json")
    assert stored() == before
    given = {"new": 0, "versions": 0, "same": 5, "relationships": 1, "events": 0, "elsewhere": 0}
    assert done.json == {"database": "m.db", "made": False, "workspace": "home", **given, "embedded": 0}


def test_a_row_without_a_time_is_about_now(cli, imported):
    now = {"id": "tea", "content": "Ben drinks no tea any more.", "type": "preference"}
    for expected in ("0 new memories, 1 later version, 0 that were there", "0 later versions, 1 that was there"):
        assert expected in cli("memory", "import", "m.db", write(now), "-w", "home").out
    assert stored()[0]["tea@3"] == "Ben drinks no tea any more."


def test_a_version_may_stand_before_the_earlier_one(cli, place):
    assert cli("memory", "import", "m.db", write(*ROWS[::-1]), "-w", "home").code == 0
    assert stored()[0]["tea@2"] == "Ben drinks black tea with milk."


UNDONE = {
    "of one time": [{"created_at": "2026-03-01"}, {"created_at": "2026-03-01"}],
    "without a time": [{}, {}],
    "the edit later": [{"created_at": "2026-03-01"}, {"created_at": "2026-03-02"}],
}


@pytest.mark.parametrize("times", UNDONE.values(), ids=UNDONE)
def test_an_edit_that_is_undone_is_a_later_version(cli, place, times):
    files = [
        write({"id": "tea", "content": content, **time}, name=f"{content}.jsonl")
        for content, time in zip(("green", "black"), times, strict=True)
    ]
    for file, version in [(files[0], 1), (files[1], 2), (files[0], 3), (files[0], 3), (files[1], 4), (files[1], 4)]:
        done = cli("memory", "import", "m.db", file, "-w", "home")
        assert (done.code, stored()[0].popitem()) == (0, (f"tea@{version}", Path(file).stem))


def test_a_file_of_several_versions_changes_nothing_again_but_undoes_an_edit(cli, place):
    rows = [{"id": "tea", "content": text, "created_at": f"2026-03-0{day}"} for day, text in enumerate("aba", 1)]
    for file, version in [(rows, 3), (rows, 3), ([{**rows[2], "content": "c"}], 4), (rows, 5), (rows, 5)]:
        assert cli("memory", "import", "m.db", write(*file), "-w", "home").code == 0
        assert len(stored()[0]) == version
    assert stored()[0]["tea@5"] == "a"
    ended = {**rows[1], "until": "2026-03-03"}  # says itself that it is not so any more
    assert "1 that was there" in cli("memory", "import", "m.db", write(ended), "-w", "home").out


def test_rows_of_other_workspaces_are_left_out(cli, place):
    file = write(*({**row, "workspace_id": "home" if row["id"] == "tea" else "work"} for row in ROWS))
    done = cli("memory", "import", "m.db", file, "-w", "home")
    assert done.out.splitlines()[1] == "3 rows of other workspaces ignored"
    done = cli("memory", "import", "m.db", file, "-w", "hme")
    assert (done.code, stored()[0].keys()) == (2, {"tea@1", "tea@2"})
    assert "unknown workspace 'hme'" in done.err
    assert "did you mean 'home'?" in done.err


def test_a_dataset_s_corpus_is_imported_with_versions_and_links(cli, place):
    done = cli("memory", "import", "m.db", DIARY, "-w", "lindqvist-home", "--json")
    assert done.json["new"] + done.json["versions"] == 105
    assert done.json["versions"] == 15
    rows = [json.loads(line) for line in DIARY.read_text("utf-8").splitlines()]
    ended = {row["_id"]: row["until"] for row in rows if row.get("until") and row["workspace"] == "lindqvist-home"}
    with closing(sqlite3.connect("m.db")) as db, db:
        found = dict(
            db.execute(
                "SELECT 'memory:' || id || '%40' || version, until FROM versions JOIN memories ON key = memory"
                " WHERE until IS NOT NULL"
            )
        )
    assert found == {name: until.replace("Z", "+00:00") for name, until in ended.items()}


def test_the_fields_of_items_are_read_or_passed_over(cli, place):
    with SqliteStore("from.db") as store:
        store.create_workspace("home")
        store.insert(Memory(id="tea", workspace="home", content="Ben drinks tea.", kind="habit"))
        store.insert(Memory(id="pot", workspace="home", content="Blue.", created="2026-03-01"))
        store.update("home", "pot", content="Red.", at="2026-03-01")  # the first version is of no time
        items = [item.as_row() for item in store.catalog("home")]
    bare = {
        "_id": "memory:bread",
        "text": "Rye.",
        "type": "memory",
        "include": "agent",
        "enabled": True,
        "server": None,
    }
    done = cli("memory", "import", "m.db", write(*items, bare), "-w", "home")
    assert done.code == 0, done.err
    with SqliteStore("m.db") as store:
        assert [store.get("home", id_).kind for id_ in ("tea", "bread")] == ["habit", "note"]
        assert (store.get("home", "pot").content, store.get("home", "pot").version) == ("Red.", 1)


def test_vectors_are_made_at_the_import_if_asked_for(cli, place):
    done = cli("memory", "import", "m.db", write(*ROWS), *OFFLINE)
    assert "vectors of hashing: 5 computed" in done.out
    assert done.out.endswith("--workspace home --embedder hashing\n")
    done = cli("memory", "import", "m.db", "rows.jsonl", *OFFLINE)
    assert "vectors of hashing: 0 computed" in done.out


def test_where_there_is_no_model_the_memories_are_in_and_that_is_said(cli, place, monkeypatch):
    monkeypatch.setenv("CTXBENCH_MODEL", str(place / "gone"))
    done = cli("memory", "import", "m.db", write(*ROWS), "-w", "home", "--embedder", "minilm")
    assert done.code == 2
    assert "4 new memories" in done.out
    assert len(stored()[0]) == 5


def test_without_such_an_embedder_nothing_is_imported(cli, place):
    done = cli("memory", "import", "m.db", write(*ROWS), "-w", "home", "--embedder", "minilmm")
    assert (done.code, done.out, Path("m.db").exists()) == (2, "", False)


BAD_ROWS = {
    "malformed": ('{"id": "a", "content": }', "malformed JSON"),
    "no object": ("[1]", "expected a JSON object"),
    "unknown field": ({"id": "a", "contnt": "x"}, "unknown field 'contnt'; did you mean 'content'"),
    "two names": ({"id": "a", "content": "x", "text": "y"}, "'content' and 'text' are two names of one field"),
    "no id": ({"content": "x"}, "id must be a text that is not blank, got None"),
    "empty content": ({"id": "a", "content": " "}, "content must be a text that is not blank, got ' '"),
    "no content": ({"id": "a"}, "content must be a text that is not blank, got None"),
    "confidence": ({"id": "a", "content": "x", "confidence": 1.2}, "confidence must be 0 to 1, got 1.2"),
    "control": ({"id": "a", "content": "x\x1b[2J"}, "content must not have control characters"),
    "time": ({"id": "a", "content": "x", "created_at": "soon"}, "created_at must be ISO 8601"),
    "reversed": (
        {"id": "a", "content": "x", "created_at": "2026-03-02", "until": "2026-03-01"},
        "until (2026-03-01T00:00:00+00:00) must not be before created (2026-03-02T00:00:00+00:00)",
    ),
    "end": (
        {"id": "a", "content": "x", "created_at": "2026-03-02", "until": "2026-03-09"},
        "no row of 'a' begins then",
    ),
    "link to nothing": (
        {"id": "a", "content": "x", "relationships": [{"type": "about", "target": "twa"}]},
        "workspace 'home' has no memory 'twa'",
    ),
    "link": ({"id": "a", "content": "x", "relationships": ["a"]}, "field 'relationships', entry 1: expected"),
    "link to itself": (
        {"id": "a", "content": "x", "relationships": [{"type": "about", "target": "a"}]},
        "a relationship must be between different memories",
    ),
    "no memory": ({"_id": "tool:a", "text": "x"}, "'tool:a' cannot be stored; expected an item of type memory, file"),
    "half a character": ({"id": "a", "content": "x\ud800"}, "content must not have half characters, got "),
    "its own name": ({"id": "a", "content": "x", "created_at": "last week"}, "  created_at must be ISO 8601"),
    "an item that is out of everything": ({"_id": "memory:a", "text": "x", "enabled": False}, "remove the row"),
    "a field of items alone": ({"id": "a", "content": "x", "title": "y"}, "unknown field 'title'"),
    "a vector": ({"id": "a", "content": "x", "vector": [1.0]}, "unknown field 'vector'"),
}


@pytest.mark.parametrize(("row", "said"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_a_bad_row_is_told_with_its_line_and_nothing_is_written(cli, place, row, said):
    done = cli("memory", "import", "m.db", write(*ROWS, row), "-w", "home")
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert "rows.jsonl: nothing was imported: 1 fault\n" in done.err
    assert "rows.jsonl, line 6" in done.err
    assert [one.name for one in place.iterdir()] == ["rows.jsonl"]


def test_a_database_without_memories_says_how_to_import_some(cli, place):
    SqliteStore("m.db").close()
    done = cli("memory", "search", "m.db", "tea", *OFFLINE)
    assert (done.code, done.out) == (2, "")
    hint = "import memories first: `ctxbench memory import m.db FILE --workspace NAME`"
    assert done.err == f"error: m.db has no workspace; {hint}\n"


def test_another_process_that_holds_the_database_is_told_of(cli, imported, monkeypatch):
    monkeypatch.setattr(sqlite_store, "_SILENCE", 0.05)
    holding = sqlite3.connect("m.db", check_same_thread=False, isolation_level=None)
    holding.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.5, holding.rollback)
    release.start()
    done = cli("memory", "import", "m.db", "rows.jsonl", "-w", "home")
    release.join(60)
    holding.close()
    assert done.code == 0
    assert "another process uses m.db; waiting up to 30 s\n" in done.err


def test_two_contents_of_a_memory_need_times(cli, place):
    rows = [{"id": "a", "content": "one"}, {"id": "a", "content": "one"}, {"id": "a", "content": "two"}]
    done = cli("memory", "import", "m.db", write(*rows), "-w", "home")
    assert (done.code, Path("m.db").exists()) == (2, False)
    assert "line 1 has other values for 'a'; set created" in done.err
    assert "rows.jsonl, line 3" in done.err


def test_two_contents_of_a_memory_since_one_time_are_refused(cli, place):
    rows = [{"id": "a", "content": text, "created_at": "2026-03-01"} for text in ("one", "one", "two")]
    done = cli("memory", "import", "m.db", write(*rows), "-w", "home")
    assert (done.code, Path("m.db").exists()) == (2, False)
    assert "line 1 has other values for 'a' at the same time; set created" in done.err


def test_a_bad_row_leaves_a_database_that_is_there_as_it_was(cli, imported):
    before = stored()
    early = {"id": "tea", "content": "Ben drinks water.", "created_at": "2026-03-04"}
    done = cli("memory", "import", "m.db", write({"id": "new", "content": "x"}, early), "-w", "home")
    assert done.code == 2
    assert "is before version 2 began" in done.err
    assert "rows.jsonl, line 2" in done.err
    assert stored() == before


@pytest.mark.parametrize(("file", "said"), [("empty.jsonl", "has no memory"), ("gone.jsonl", "cannot read gone.jsonl")])
def test_a_file_without_rows_is_refused(cli, place, file, said):
    write(name="empty.jsonl")
    done = cli("memory", "import", "m.db", file, "-w", "home")
    assert (done.code, Path("m.db").exists()) == (2, False)
    assert said in done.err


# ------------------------------------------------------------------------------------ search, build, preview


def test_a_search_is_a_table_best_first(asked):
    done = asked("search", "flat tyre or tea", "--limit", "2", "--relationships")
    head, first, related, second = done.out.splitlines()
    assert head.split() == ["rank", "score", "alike", "id", "type", "created", "memory"]
    assert re.fullmatch(
        r"1  +\d+\.\d+  +0\.\d+  +tyre  event  +2026-03-01 09:00  Ana's front tyre went flat on the canal path\.", first
    )
    assert related.split()[:2] == ["mended_with", "pump"]
    assert second.startswith("2 ")
    what = "score: the ranking; alike: similarity in meaning, 0 to 1 (- if not measured)"
    assert done.err == f"2 memories of workspace home; {what}\n"


def test_weights_of_the_specification_s_ranking_are_set(asked):
    def ids(*more):
        return [one["memory"]["id"] for one in asked("search", "flat tyre", "--json", *more).json["results"]]

    assert ids("--ranker", "spec", "--set", "similarity=0", "--set", "confidence=0") == ids("--ranker", "recency")
    assert ids("--ranker", "spec", "--set", "recency=0", "--set", "confidence=0") == ids("--ranker", "similarity")
    done = asked("search", "flat tyre", "--ranker", "spec", "--set", "recensy=1")
    assert (done.code, "recency" in done.err) == (2, True)


def test_filters_and_times_are_the_engine_s(asked):
    def ids(*more):
        found = asked("search", "what does Ben drink?", "--json", *more).json["results"]
        return {(one["memory"]["id"], one["memory"]["version"]) for one in found}

    assert ids("--type", "preference") == {("tea", 2)}
    assert ids("--type", "preference", "--as-of", "2026-03-04") == {("tea", 1)}
    assert ids("--conversation", "c1") == ids("--confidence", "0", "--before", "2026-03-02") == {("tyre", 1)}
    assert ids("--since", "2026-03-04") == {("tea", 2), ("bread", 1)}
    assert ids("--type", "dream") == set()


def test_where_nothing_is_found_it_is_said(asked):
    done = asked("search", "tea", "--type", "dream")
    assert (done.code, done.out) == (0, "")
    assert "no similar memory in workspace home" in done.err


def test_an_explanation_says_what_scores_are_made_of_and_what_stayed_out(asked):
    done = asked("search", "green or black tea", "--limit", "1", "--explain")
    assert re.search(r"^tea: [\d.]+ \(bm25 [\d.]+, dense [\d.]+, similarity\.score .*\)$", done.out, re.MULTILINE)
    assert "excluded: beyond the first n=1" in done.out
    told = asked("search", "green or black tea", "--limit", "1", "--explain", "--json").json["explanation"]
    assert [one["rule"] is None for one in told].count(True) == 1


def test_a_build_prints_the_context_and_nothing_else(asked):
    done = asked("build", "flat tyre", "--limit", "1", "--tokens", "chars/4")
    context = f"Relevant context from past conversations:\n\n- {TYRE['content']}\n"
    assert done.out == context
    tokens = -(-len(context) // 4)
    assert done.err == (
        f"1 memory of workspace home, {tokens} of 2,000 tokens ({tokens / 20:.1f}%, counted by chars/4), template chat"
        "; all memories fit\n"
    )


def test_a_context_without_a_line_end_gets_none(asked):
    assert asked("build", "tyre", "--limit", "1", "--template", "summary").out == f"Key information:\n{TYRE['content']}"


def test_where_no_tokenizer_of_a_model_is_known_it_is_said_what_counts(asked):
    said = "the tokenizer of foo is unknown; tokens are estimated by chars/4"
    done = asked("build", "tyre", "--model", "foo", "--json")
    assert (done.json["counter"], done.err) == ("chars/4", f"{said}\n")
    assert asked("build", "tyre", "--model", "gpt-4", "--json").err == ""


def test_a_preview_is_what_a_build_takes(asked):
    options = ("--template", "detailed", "--budget", "60", "--model", "gpt-4")
    built = asked("build", "flat tyre", *options, "--json").json
    told = asked("preview", "flat tyre", *options, "--json").json
    assert {name: told[name] for name in built} == built
    assert (built["counter"], built["truncated"]) == ("cl100k_base", True)
    lines = asked("preview", "flat tyre", *options).out.splitlines()
    assert [line.split()[2] for line in lines[1:-1]] == told["memoryIds"]
    assert f"({told['budgetUsed']:g}%, counted by cl100k_base), template detailed; memories excluded" in lines[-1]


def test_what_is_ranked_by_time_shows_times_and_no_microseconds(asked):
    by_time = ("tea or bread", "--ranker", "recency")
    lines = asked("preview", *by_time).out.splitlines()
    assert lines[0].split() == ["rank", "id", "type", "created", "memory"]
    done = asked("search", *by_time, "--explain")
    assert done.out.splitlines()[0].split() == ["rank", "alike", "id", "type", "created", "memory"]
    assert "; ranked by creation time; alike: " in done.err
    assert re.search(r"^tyre: 2026-03-01 09:00:00 \(", done.out, re.MULTILINE)
    assert "e+15" not in done.out + "".join(lines)


def test_metadata_and_a_template_of_one_s_own(asked):
    Path("mine.yaml").write_text("memory_format: '<{{type}}> {{content}}'\nheader: \"Known:\\n\"\n")
    assert asked("build", "tyre", "--limit", "1", "--template", "mine.yaml").out == f"Known:\n<event> {TYRE['content']}"
    out = asked("build", "tyre", "--limit", "1", "--template", "mine.yaml", "--no-metadata").out
    assert out == f"Known:\n<> {TYRE['content']}"
    fields = json.dumps({"memoryFormat": "<{{type}}> {{content}}", "header": "Known:\n"})
    assert asked("build", "tyre", "--limit", "1", "--template", fields).out == f"Known:\n<event> {TYRE['content']}"


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ("{}", "memory_format is missing"),
        ('{"memoryFormat": "{{contnt}}"}', "no variable is called 'contnt'"),
        ('{"memoryFormat": "{{content}}"', "malformed JSON"),
    ],
)
def test_a_bad_template_in_json_is_refused(asked, fields, fault):
    done = asked("build", "tyre", "--template", fields)
    assert (done.code, done.out) == (2, "")
    assert fault in done.err


TEMPLATES = {
    "unknown variable": ("memory_format: '{{contnt}}'", "no variable is called 'contnt'; did you mean 'content'"),
    "no format": ("header: x", "memory_format is missing"),
    "no mapping": ("- x", "a template is a mapping of name, header, memory_format, separator, footer, metadata"),
    "our name": ("memory_format: '{{content}}'", "'chat' is a shipped template"),
}


@pytest.mark.parametrize(("text", "said"), TEMPLATES.values(), ids=TEMPLATES)
def test_a_bad_template_is_refused(asked, text, said):
    file = "chat.yaml" if "shipped template" in said else "mine.yaml"
    Path(file).write_text(text)
    done = asked("build", "tyre", "--template", file)
    assert (done.code, done.out) == (2, "")
    assert file in done.err
    assert said in done.err


BAD_OPTIONS = {
    "template": (("build", "x", "--template", "chta"), "did you mean 'chat'? Known: chat, detailed, summary"),
    "template file": (("build", "x", "--template", "gone.yaml"), "cannot read gone.yaml"),
    "ranker": (("search", "x", "--ranker", "newest"), "unknown ranker 'newest'"),
    "no limit": (("search", "x", "--limit", "0"), f"limit must be 1 to {MOST_RESULTS}, got 0"),
    "limit": (("preview", "x", "--limit", "101"), f"limit must be 1 to {MOST_RESULTS}, got 101"),
    "budget": (("build", "x", "--budget", "0"), "budget must be 1 to 1000000, got 0"),
    "depth": (("search", "x", "--depth", "9", "--relationships"), f"depth must be 1 to {DEEPEST}, got 9"),
    "depth alone": (("search", "x", "--depth", "2"), "--depth needs --relationships"),
    "confidence": (("search", "x", "--confidence", "2"), "confidence must be 0 to 1, got 2.0"),
    "dates": (("search", "x", "--since", "2026-03-02", "--before", "2026-03-01"), "since (2026-03-02) must be before"),
    "time": (("search", "x", "--as-of", "soon"), "--as-of must be ISO 8601"),
    "blank": (("search", " "), "query 1 is blank"),
    "counters": (("build", "x", "--tokens", "o200k", "--model", "gpt-4"), "remove one of them"),
    "counter": (("build", "x", "--tokens", "o2k"), "'o2k'"),
    "embedder": (("search", "x", "--embedder", "hashng"), "did you mean 'hashing'"),
    "workspace": (("search", "x", "-w", "hom"), "unknown workspace 'hom'; did you mean 'home'"),
}


@pytest.mark.parametrize(("words", "said"), BAD_OPTIONS.values(), ids=BAD_OPTIONS)
def test_a_bad_option_is_one_clear_error(asked, words, said):
    done = asked(*words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert said in done.err


def test_a_failure_is_told_once(process, imported):
    done = process("memory", "search", "m.db", "x", "-w", "work", "--embedder", "hashing")
    assert (done.code, done.err) == (2, "error: unknown workspace 'work'; Known: home\n")


def test_where_nothing_fits_it_is_said(asked):
    done = asked("build", "tyre", "--budget", "3")
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("no memory of workspace home fits, 0 of 3 tokens (0%, ")


def newer():
    with closing(sqlite3.connect("m.db")) as db, db:
        db.execute("PRAGMA user_version = 99")


NO_DATABASE = {
    "none": (lambda: Path("m.db").unlink(), "cannot open m.db: no such file; expected a database of memories"),
    "text": (lambda: Path("m.db").write_text("no database at all, but a text\n" * 99), "not a database"),
    "folder": (lambda: (Path("m.db").unlink(), Path("m.db").mkdir()), "it is a folder"),
    "other": (
        lambda: shutil.copy("other.db", "m.db"),
        "is a database of another application; expected a database of memories",
    ),
    "newer": (newer, "has schema 99, but this version of ctxbench supports 3; update ctxbench"),
}


@pytest.mark.parametrize("command", ["search", "build", "preview", "import"])
@pytest.mark.parametrize(("spoil", "said"), NO_DATABASE.values(), ids=NO_DATABASE)
def test_what_is_no_database_of_memories_is_said(cli, imported, spoil, said, command):
    with closing(sqlite3.connect("other.db")) as db, db:
        db.execute("CREATE TABLE x (y)")
    for left in ("m.db-wal", "m.db-shm"):
        Path(left).unlink(missing_ok=True)
    spoil()
    if command == "import":
        done = cli("memory", "import", "m.db", "rows.jsonl", "-w", "home")
        assert ("(created)" in done.out) == (said.startswith("cannot open m.db: no such")), "that one is made"
    else:
        done = cli("memory", command, "m.db", "tyre", *OFFLINE)
        assert (done.code, done.out) == (2, "")
    assert done.code == 0 or said in done.err


def test_help_says_the_engine_s_limits_and_defaults():
    commands = typer.main.get_command(app).commands["memory"].commands
    for name in ("search", "build", "preview"):
        said = {param.name: param.help for param in commands[name].params}
        assert said["limit"].endswith(f"1 to {MOST_RESULTS}; {SearchOptions().limit} by default.")
        assert said["depth"].endswith(f"1 to {DEEPEST}; {SearchOptions().depth} by default.")
        assert name == "search" or f"{DEFAULTS.budget} by default" in said["budget"]
        assert name == "search" or f"{DEFAULTS.template} (a list, the default)" in said["template"]
        fields = {*ContextOptions.__dataclass_fields__} - (
            {"template", "budget", "metadata"} if name == "search" else set()
        )
        assert fields <= said.keys(), "every option of the engine can be given"


def test_equal_faults_of_a_file_are_one_with_a_count(cli, place):
    (place / "agent.jsonl").write_text("a: {\n" * 9)
    done = cli("memory", "import", "new.db", "agent.jsonl", "--workspace", "home")
    assert done.code == 2
    assert done.err.count("malformed JSON") == 1
    assert "the same in 8 more lines" in done.err


def test_a_list_of_memories_is_read_as_lines_of_them(cli, place):
    Path("rows.jsonl").write_text(json.dumps(ROWS, indent=2), "utf-8")
    done = cli("memory", "import", "m.db", "rows.jsonl", "-w", "home")
    assert (done.code, "4 new memories, 1 later version" in done.out) == (0, True)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"id": "e1", "query": "refund 17", "expected": ["refund_order"]}, "it holds evals"),
        ({"id": "e1", "text": "refund 17", "must_use": ["refund_order"]}, "it holds evals"),
        ({"name": "refund_order", "description": "x", "inputSchema": {}}, "it is a list of tools"),
    ],
)
def test_a_file_of_another_kind_is_told_once(cli, place, row, said):
    done = cli("memory", "import", "m.db", write(row, row | {"id": "e2", "name": "b"}), "-w", "home")
    assert (done.code, done.err.count("\n"), said in done.err) == (2, 1, True)
    assert not Path("m.db").exists()


def test_a_type_or_conversation_that_is_not_there_is_said_with_those_there_are(asked):
    done = asked("search", "tea", "--type", "prefrence")
    assert "no memory is of type 'prefrence'; did you mean 'preference'? Known: event, fact, preference" in done.err
    assert "no memory is of conversation 'zz'; Known: c1" in asked("build", "tea", "--conversation", "zz").err


@pytest.mark.parametrize("command", ["import", "search", "build"])
def test_an_empty_workspace_is_the_option_s_fault(cli, imported, command):
    done = cli("memory", command, "m.db", "rows.jsonl", "-w", "")
    assert (done.code, "--workspace must be a text that is not blank" in done.err) == (2, True)
