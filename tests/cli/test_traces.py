"""`ctxbench data import` of logs: what it prints and writes."""

from __future__ import annotations

import json
import shutil

import pytest

import ctxbench
from ctxbench.datasets.files import read_dataset
from ctxbench.datasets.layout import read_exposures
from ctxbench.io.errors import ParameterError

TURN = {
    "conversation": "c",
    "messages": [{"role": "user", "content": "File a bug, and write to anna@corp.example."}],
    "offered": ["tracker.create_issue"],
    "called": ["tracker.create_issue"],
}


@pytest.fixture
def run(place, tiny, cli):
    """Import turns over the catalog of the tiny dataset into `out`."""

    def call(*turns, options=()):
        (place / "log.jsonl").write_text("".join(json.dumps(turn) + "\n" for turn in turns))
        return cli("data", "import", "log.jsonl", "--catalog", tiny, "--out", "out", *options)

    return call


def test_the_report_says_what_was_made_and_what_to_do_next(run, place):
    done = run(TURN)
    lines = done.out.splitlines()
    assert lines[0] == "log.jsonl: turns in the form of ctxbench (--as turns)"
    assert lines[1].startswith("out: 1 request (")
    assert "1 label, 0 forbidden items, 1 offered set over 12 items; 0 labelled in full, 1 in part" in lines[1]
    assert "redacted: 1 mail; read a sample before you share the texts" in lines
    assert lines[-1] == "next: `ctxbench data label out --minutes 20`"
    assert done.err.startswith(
        "Items that were not called count as unknown: the catalog has 1 rule item, 3 reference items, 5 tool items, "
    )
    dataset = read_dataset(place / "out")
    assert (dataset.name, len(dataset), len(dataset.catalog)) == ("out", 1, 12)
    assert dataset.queries[0].request.text == "File a bug, and write to <mail-1>."
    assert set(read_exposures(place / "out")) == {"c-0"}


def test_a_log_without_calls_is_so_many_requests_to_label(run, place):
    turn = {name: value for name, value in TURN.items() if name not in ("called", "offered")}
    assert run(turn).out.splitlines()[1].endswith("; 0 labelled in full, 0 in part, 1 not at all")
    assert read_dataset(place / "out").counts["unlabelled"] == 1


def test_a_log_whose_responses_cannot_be_read_writes_nothing(cli, place, tiny):
    message = {"role": "user", "content": "File a bug."}
    step = {"content": [{"type": "tool-call", "toolCallId": "1", "toolName": "create_issue", "input": {}}]}
    (place / "log.jsonl").write_text(json.dumps({"messages": [message], "result": {"steps": [step]}}))
    done = cli("data", "import", "traces", "log.jsonl", "--catalog", tiny, "--out", "made")
    assert (done.code, done.out) == (2, "")
    assert "'create_issue'" in done.err
    assert not (place / "made").exists()


def test_json_is_for_programs(run):
    done = run(TURN, options=["--json"])
    assert done.json["files"] == [{"path": "log.jsonl", "kind": "turns"}]
    assert done.json["found"] == {"requests": 1, "labels": 1, "forbidden": 0, "offered": 1}
    assert done.json["labels"] == {"labels_full": 0, "labels_partial": 1, "share_full": 0.0}
    assert done.json["written"] == "out"
    assert done.json["next"] == "`ctxbench data label out --minutes 20`"
    assert done.json["redaction"] == {"mail": {"distinct": 1, "replaced": 1}}


def test_redaction_is_off_only_if_asked(run, place):
    assert "redaction was off" in run(TURN, options=["--no-redact"]).out
    assert "anna@corp.example" in read_dataset(place / "out").queries[0].request.text
    assert "exclude each other" in run(TURN, options=["--no-redact", "--redact", "own.yaml"]).err


def test_what_the_catalog_means_for_labels_is_said_before_a_log_is_read(place, cli):
    (place / "tools.jsonl").write_text(
        '{"_id": "tool:a:b", "description": "x"}\n{"_id": "tool:a:c", "include": "manual"}\n'
    )
    (place / "log.jsonl").write_text("{}\n{")
    done = cli("data", "import", "traces", "log.jsonl", "-c", "tools.jsonl", "--out", "out", "--json")
    assert (done.code, done.out) == (2, "")
    notes = done.err.splitlines()
    assert notes[0].startswith("Tools that were not called count as not needed if ")
    assert "(1 in the catalog)" in notes[0]
    assert "log.jsonl" in notes[-1]
    assert not (place / "out").exists()


def test_an_item_goes_by_the_names_that_it_had_when_the_log_was_written(run, place):
    turn = TURN | {"offered": ["mcp__tracker__file_bug"], "called": [{"server": "tracker", "name": "file_bug"}]}
    renames = place / "renames.yaml"
    renames.write_text("tool:tracker:file_bug: tool:tracker:create_issue\n")
    run(turn, options=["--renames", renames])
    assert [label.item.id for label in read_dataset(place / "out").labels] == ["tool:tracker:create_issue"]
    renames.write_text("tool:tracker:file_bug: tool:tracker:create_isue\n")
    wrong = "the catalog has no 'tool:tracker:create_isue'; did you mean 'tool:tracker:create_issue'?"
    assert wrong in run(turn, options=["--renames", renames]).err


def test_own_patterns_come_from_a_file(run, place):
    (place / "own.yaml").write_text("patterns: [{kind: word, pattern: bug}]\nwithout: [mail]\n")
    run(TURN, options=["--redact", "own.yaml"])
    assert read_dataset(place / "out").queries[0].request.text == "File a <word-1>, and write to anna@corp.example."


def test_a_dataset_that_is_no_import_is_kept(run, place, tiny):
    shutil.copytree(tiny, place / "out")
    assert "another dataset, which would be lost" in run(TURN).err
    assert read_dataset(place / "out").name == "tiny"


def test_a_missing_catalog_is_an_error(place, cli):
    (place / "log.jsonl").write_text(json.dumps(TURN))
    assert "no catalog 'nowhere'" in cli("data", "import", "log.jsonl", "-c", "nowhere", "--out", "out").err
    assert not (place / "out").exists()


CALL = {"id": "1", "type": "function", "function": {"name": "mcp__tracker__create_issue", "arguments": "{}"}}
REQUEST = {
    "id": "chat-7",
    "meta": {"who": "ada"},
    "messages": TURN["messages"],
    "tools": [
        {
            "type": "function",
            "function": {"name": "mcp__tracker__create_issue", "description": "Open.", "parameters": {}},
        }
    ],
    "response": {"choices": [{"message": {"role": "assistant", "tool_calls": [CALL]}}]},
}


@pytest.mark.parametrize("line", [REQUEST, {**TURN, "conversation": None, "id": "chat-7", "meta": {"who": "ada"}}])
def test_the_id_of_a_line_becomes_that_of_its_query(run, place, line):
    assert run(line).code == 0
    assert read_dataset(place / "out").queries[0].id == "line-1"
    done = run(line, options=("--map", "conversation=id,user=meta.who"))
    (query,) = read_dataset(place / "out").queries
    assert (done.code, query.id, query.request.user is None) == (0, "chat-7-0", False)
    assert "'id'" not in done.out
    names = {"conversation": "id"}
    assert ctxbench.from_file("log.jsonl", place / "out", names=names).queries["query"].tolist() == ["chat-7-0"]


def test_a_field_of_a_transcript_may_be_mapped_to_the_conversation(run, place):
    done = run(
        {"chat": "c7", "messages": REQUEST["messages"]}, options=("--as", "transcript", "--map", "conversation=chat")
    )
    assert [query.id for query in read_dataset(place / "out").queries] == ["c7-0"], done.out


@pytest.mark.parametrize(
    ("option", "code"),
    [("id=conversation", "CTX6710"), ("query=text", "CTX6710"), ("conversation=nothing", "CTX6711")],
)
def test_a_mapping_that_does_nothing_in_a_log_is_refused(run, place, option, code):
    done = run(REQUEST, options=("--map", option))
    assert done.code == 2
    assert not (place / "out").exists()
    with pytest.raises(ParameterError) as raised:
        ctxbench.from_file("log.jsonl", ctxbench.catalog(REQUEST["tools"]), names=dict([option.split("=")]))
    assert raised.value.args[0].code == code


def test_a_field_of_logs_is_refused_for_evals(place, cli):
    (place / "evals.jsonl").write_text(json.dumps({"query": "file a bug", "expected": ["mcp__tracker__create_issue"]}))
    (place / "tools.json").write_text(json.dumps(REQUEST["tools"]))
    done = cli("data", "import", "evals.jsonl", "-c", "tools.json", "--out", "out", "--map", "conversation=query")
    assert (done.code, (place / "out").exists()) == (2, False)
