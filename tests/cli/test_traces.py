"""`ctxbench data import traces`: what it prints and writes."""

from __future__ import annotations

import json

import pytest

from ctxbench.cli.data import import_traces
from ctxbench.datasets.files import read_dataset
from ctxbench.datasets.layout import read_exposures
from ctxbench.io.errors import InputError, ParameterError, StorageError
from ctxbench.labelling.trace_import import TraceSettings

TURN = {
    "conversation": "c",
    "messages": [{"role": "user", "content": "File a bug, and write to anna@corp.example."}],
    "offered": ["tracker.create_issue"],
    "called": ["tracker.create_issue"],
}


@pytest.fixture
def run(place, tiny, capsys):
    """Import turns over the catalog of the tiny dataset into `out`."""

    def call(*turns, redact=True, as_json=False, renames=None, **options):
        log, out = place / "log.jsonl", place / "out"
        log.write_text("".join(json.dumps(turn) + "\n" for turn in turns))
        given = {"name": None, "licence": None, "history": 20, "all_offered": False} | options
        settings = TraceSettings.of_folder(out, **given)
        how = {"settings": settings, "renames": renames, "redact": redact, "as_json": as_json}
        import_traces([log], catalog=str(tiny), out=out, **how)
        return capsys.readouterr()

    return call


def test_the_report_says_what_was_made_and_what_to_do_next(run, place):
    out, err = run(TURN)
    lines = out.splitlines()
    assert "out: 1 request: 1 labelled in part; 1 label, 0% from" in lines[0]
    assert "redacted: 1 mail; read a sample before you share the texts" in lines
    assert lines[-1].endswith(f"ctxbench data label {place / 'out'} --minutes 20")
    assert err.startswith(
        "Items that were not called count as unknown: the catalog has 1 rule item, 3 reference items, 5 tool items, "
    )
    dataset = read_dataset(place / "out")
    assert (dataset.name, len(dataset), len(dataset.catalog)) == ("out", 1, 12)
    assert dataset.queries[0].request.text == "File a bug, and write to <mail-1>."
    assert set(read_exposures(place / "out")) == {"c-0"}


def test_a_log_without_calls_is_so_many_requests_to_label(run, place):
    turn = {name: value for name, value in TURN.items() if name not in ("called", "offered")}
    assert run(turn).out.startswith("1 request: 1 unlabelled; 0 labels")
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
    found = json.loads(run(TURN, as_json=True).out)
    assert found["labels"] == {"labels_full": 0, "labels_partial": 1, "share_full": 0.0}
    assert found["next"].startswith("ctxbench data label ")
    assert found["redaction"] == {"mail": {"distinct": 1, "replaced": 1}}


def test_redaction_is_off_only_if_asked(run, place):
    assert "redaction was off" in run(TURN, redact=False).out
    assert "anna@corp.example" in read_dataset(place / "out").queries[0].request.text


def test_what_the_catalog_means_for_labels_is_said_before_a_log_is_read(place, capsys):
    (place / "tools.jsonl").write_text(
        '{"_id": "tool:a:b", "description": "x"}\n{"_id": "tool:a:c", "include": "manual"}\n'
    )
    settings = TraceSettings.of_folder(place / "out", name="x", licence=None, history=20, all_offered=False)
    (place / "log.jsonl").write_text("{}\n{")
    with pytest.raises(InputError, match=r"log\.jsonl"):
        import_traces(
            [place / "log.jsonl"],
            catalog=str(place / "tools.jsonl"),
            out=place / "out",
            settings=settings,
            redact=True,
            as_json=True,
        )
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Tools that were not called count as not needed if ")
    assert "(1 in the catalog)" in err
    assert not (place / "out").exists()


def test_an_item_goes_by_the_names_that_it_had_when_the_log_was_written(run, place):
    turn = TURN | {"offered": ["mcp__tracker__file_bug"], "called": [{"server": "tracker", "name": "file_bug"}]}
    renames = place / "renames.yaml"
    renames.write_text("tool:tracker:file_bug: tool:tracker:create_issue\n")
    run(turn, renames=renames)
    assert [label.item.id for label in read_dataset(place / "out").labels] == ["tool:tracker:create_issue"]
    renames.write_text("tool:tracker:file_bug: tool:tracker:create_isue\n")
    wrong = "the catalog has no 'tool:tracker:create_isue'; did you mean 'tool:tracker:create_issue'?"
    with pytest.raises(ParameterError, match=wrong.replace("?", r"\?")):
        run(turn, renames=renames)


def test_own_patterns_come_from_a_file(run, place):
    (place / "own.yaml").write_text("patterns: [{kind: word, pattern: bug}]\nwithout: [mail]\n")
    run(TURN, redact=place / "own.yaml")
    assert read_dataset(place / "out").queries[0].request.text == "File a <word-1>, and write to anna@corp.example."


def test_a_dataset_that_is_no_import_is_kept(run, place, tiny):
    import shutil

    shutil.copytree(tiny, place / "out")
    with pytest.raises(ParameterError, match="another dataset, which would be lost"):
        run(TURN)
    assert read_dataset(place / "out").name == "tiny"


def test_a_missing_catalog_is_an_error(place):
    settings = TraceSettings.of_folder(place / "out", name="x", licence=None, history=20, all_offered=False)
    (place / "log.jsonl").write_text(json.dumps(TURN))
    with pytest.raises(StorageError, match="no catalog 'nowhere'"):
        import_traces(
            [place / "log.jsonl"], catalog="nowhere", out=place / "out", settings=settings, redact=True, as_json=False
        )
    assert not (place / "out").exists()


def test_names_come_from_the_folder_or_an_option(place):
    def name(folder, given=None):
        return TraceSettings.of_folder(place / folder, name=given, licence="mine", history=3, all_offered=True)

    assert name("my logs (1)").name == "my-logs-1"
    assert name("x", "given").name == "given"
    assert (name("x").licence, name("x").history, name("x").assume_full) == ("mine", 3, True)
    with pytest.raises(ParameterError, match="--name"):
        name("x", "a b")
