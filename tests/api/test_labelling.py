"""Labels from Python are those of the commands: the same import, the same questions, the same doubts."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ctxbench
from ctxbench.cli.data import ImportRequest, import_any
from ctxbench.cli.label import review as review_command
from ctxbench.datasets.files import read_dataset
from ctxbench.datasets.layout import FOLDER, LOG, agent_of
from ctxbench.io.errors import InputError, ParameterError, StorageError, UnknownNameError, UserError
from tests.api.conftest import SMOKE

TWO = ["bm25", "dense"]
HASHING = {"embedder": "hashing"}
TOOLS = [
    {"name": "area", "description": "Area of a triangle"},
    {"name": "circle", "description": "Area of a circle"},
    {"name": "mail", "description": "Send a mail", "enabled": False},
    {"server": "a", "name": "find", "description": "Find a customer"},
    {"server": "b", "name": "find", "description": "Find a file"},
]
TURNS = [
    {"conversation": "c", "turn": 0, "text": "the area of a triangle", "offered": "*", "called": ["area"]},
    {"conversation": "c", "turn": 1, "text": "and of a circle", "offered": ["area"], "called": ["area"]},
    {"conversation": "d", "turn": 0, "text": "find Miller's file"},
]


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text("".join(f"{json.dumps(turn)}\n" for turn in TURNS))
    return path


@pytest.fixture
def mine(log, tmp_path):
    return ctxbench.from_file(log, ctxbench.catalog(TOOLS), out=tmp_path / "mine")


def test_logs_become_the_dataset_that_the_command_makes(log, mine, tmp_path):
    ctxbench.dataset(TOOLS, [{"query": "q", "text": "x"}], []).save(tmp_path / "tools")
    with pytest.raises(ParameterError, match="has no queries"):
        ctxbench.dataset(TOOLS, [], []).save(tmp_path / "none")
    request = ImportRequest(paths=[str(log)], catalog=str(tmp_path / "tools"), out=tmp_path / "other", name="mine")
    import_any(request, as_json=True)
    assert read_dataset(tmp_path / "other").hash == mine.dataset.hash
    assert mine.name == "mine"
    assert mine.dataset.unlabelled == ("c-1", "d-0")
    for items in (ctxbench.load(tmp_path / "tools"), str(tmp_path / "tools")):
        assert ctxbench.from_file([log], items, out=tmp_path / "mine").dataset.hash == mine.dataset.hash
    assert ctxbench.from_file(log, ctxbench.catalog(TOOLS), name="mine").dataset.hash == mine.dataset.hash
    everything = ctxbench.from_file(log, ctxbench.catalog(TOOLS), all_offered=True, redact=False)
    assert everything.dataset.hash != mine.dataset.hash


def test_a_dataset_over_an_agent_file_follows_it(log, tmp_path):
    (tmp_path / "tools.json").write_text(json.dumps([{"name": "area", "description": "x", "inputSchema": {}}]))
    (tmp_path / "agent.yaml").write_text("sources: {tools: [tools.json]}\n")
    made = ctxbench.from_file(log, tmp_path / "agent.yaml", out=tmp_path / "mine")
    assert [item.id for item in made.dataset.catalog] == ["tool:area"]
    assert agent_of(tmp_path / "mine").samefile(tmp_path / "agent.yaml")


def test_files_without_requests_are_no_dataset(tmp_path):
    (tmp_path / "tools.json").write_text(json.dumps([{"name": "area", "description": "x", "inputSchema": {}}]))
    with pytest.raises(ParameterError, match="catalog without requests"):
        ctxbench.from_file(tmp_path / "tools.json")
    (tmp_path / "evals.json").write_text(json.dumps([{"query": "a triangle", "expected": ["area"]}]))
    made = ctxbench.from_file([tmp_path / "tools.json", tmp_path / "evals.json"])
    assert made.labels["item"].tolist() == ["tool:area"]


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"history": -1}, ParameterError, "history must be 0 messages or more"),
        ({"name": "a/b"}, ParameterError, "a/b"),
        ({"redact": "no-such.yaml"}, StorageError, "no-such.yaml"),
        ({"histroy": 3}, ParameterError, "history"),
        ({"kind": "turn"}, UnknownNameError, "turns"),
    ],
)
def test_an_import_that_cannot_be_writes_nothing(log, tmp_path, given, error, said):
    with pytest.raises(error, match=said):
        ctxbench.from_file(log, ctxbench.catalog(TOOLS), out=tmp_path / "new", **given)
    with pytest.raises(StorageError, match="nowhere"):
        ctxbench.from_file(tmp_path / "nowhere.jsonl", ctxbench.catalog(TOOLS), out=tmp_path / "new")
    with pytest.raises(ParameterError, match="none of the 1 names of the log is in the catalog"):
        ctxbench.from_file(log, ctxbench.catalog([{"name": "other"}]), out=tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_answers_become_labels_and_figures(mine, tmp_path):
    with ctxbench.label(tmp_path / "mine", ["bm25", "everything"], **HASHING) as session:
        asked = []
        while (question := session.next()) is not None:
            asked.append(question.query)
            assert question.kind == "needed"
            if question.query == "c-1":
                assert question.known == ("tool:area",)
                assert question.history == ({"role": "user", "content": "the area of a triangle"},)
                session.answer(["circle"], helpful=["tool:a:find"], wrong=["area"])
            else:
                assert str(question) == 'd-0: what does "find Miller\'s file" need?'
                assert question.to_frame().columns.tolist() == ["item", "offered_by"]
                assert set(question.candidates) <= {item.id for item in mine.dataset.catalog}
                session.answer([])
        assert sorted(asked) == ["c-1", "d-0"]
        report = session.report().set_index("of")
        assert report.loc["everything", ["figure", "value"]].tolist() == ["completeness", 1.0]
        assert report["figure"].tolist() == ["completeness", "completeness", "difference"]
    made = ctxbench.load(tmp_path / "mine")
    labels = {(row.query, row.item): row.grade for row in made.labels.itertuples()}
    assert labels == {
        ("c-0", "tool:area"): 2,
        ("c-1", "tool:circle"): 2,
        ("c-1", "tool:a:find"): 1,
        ("c-1", "tool:area"): 0,
    }
    assert [query.id for query in made.dataset.queries if query.needs_nothing] == ["d-0"]
    assert made.dataset.unlabelled == ()


def test_an_answer_is_kept_when_it_is_given_and_can_be_taken_back(mine, tmp_path):
    session = ctxbench.label(tmp_path / "mine", ["bm25", "everything"], **HASHING)
    first = session.next()
    session.answer(None)
    assert session.next().query != first.query
    session.answer(["circle"])
    assert len((tmp_path / "mine" / FOLDER / LOG).read_text().splitlines()) == 3  # skipped; needed and done
    with pytest.raises(ParameterError, match="is being labelled by another session"):
        ctxbench.label(tmp_path / "mine", ["bm25", "everything"], **HASHING)
    second = session.undo()  # all of the answer: what is needed, and that this is all
    assert second != first.query
    again = session.next()
    assert again.query == second
    assert "tool:circle" not in again.known
    assert session.undo() == first.query
    assert session.undo() is None
    session.close()
    session.close()
    for call in (session.next, session.undo, lambda: session.answer([])):
        with pytest.raises(ParameterError, match="this session was closed"):
            call()
    with ctxbench.label(tmp_path / "mine", ["bm25", "everything"], **HASHING) as again:
        assert again.next() is not None


def test_alternatives_are_asked_for_and_answered_with_yes_or_no(tmp_path):
    tools = [
        {"server": "a", "name": "read_file", "description": "Read the contents of a file"},
        {"server": "b", "name": "read_file", "description": "Read the contents of a file"},
        {"name": "mail", "description": "Send a mail"},
    ]
    ctxbench.dataset(tools, [{"query": "q", "text": "read the file"}], []).save(tmp_path / "two")
    with ctxbench.label(tmp_path / "two", ["bm25", "everything"], **HASHING) as session:
        session.next()
        session.answer(["tool:a:read_file"])
        question = session.next()
        assert (question.kind, question.item, question.of) == ("alternative", "tool:b:read_file", "tool:a:read_file")
        assert str(question) == "q: 'read the file': would tool:b:read_file do as well as tool:a:read_file?"
        with pytest.raises(ParameterError, match=r"takes True or False, or None to skip it; got \['mail'\]"):
            session.answer(["mail"])
        with pytest.raises(ParameterError, match="helpful and wrong need the list"):
            session.answer(True, helpful=["mail"])
        session.answer(True)
    labels = ctxbench.load(tmp_path / "two").labels
    assert set(labels["item"]) == {"tool:a:read_file", "tool:b:read_file"}
    assert labels["alternatives"].nunique() == 1


@pytest.mark.parametrize(
    ("reply", "given", "error", "said"),
    [
        (["no-such"], {}, UnknownNameError, "unknown item 'no-such'"),
        (["find"], {}, ParameterError, "several items are called 'find'; name one by its id"),
        (["mail"], {}, ParameterError, "cannot need 'tool:mail': it may not get it"),
        (["area", "mail"], {}, ParameterError, "cannot need 'tool:mail'"),
        ("area", {}, ParameterError, "takes a list of items, or None to skip it; got 'area'"),
        (True, {}, ParameterError, "takes a list of items"),
        (None, {"wrong": ["area"]}, ParameterError, "helpful and wrong need the list"),
        ([], {"helpful": ["x"]}, UnknownNameError, "unknown item 'x'"),
    ],
)
def test_a_reply_that_is_none_keeps_nothing(mine, tmp_path, reply, given, error, said):
    with ctxbench.label(tmp_path / "mine", ["bm25", "everything"], **HASHING) as session:
        with pytest.raises(ParameterError, match="no question waits for an answer; call next first"):
            session.answer([])
        session.next()
        with pytest.raises(error, match=said):
            session.answer(reply, **given)
        assert not (tmp_path / "mine" / FOLDER / LOG).exists() or not (tmp_path / "mine" / FOLDER / LOG).read_text()


def test_what_cannot_be_labelled_is_said_and_left_unlocked(mine, tmp_path):
    with pytest.raises(ParameterError, match=r"nowhere is not the folder of a dataset"):
        ctxbench.label(tmp_path / "nowhere", **HASHING)
    for given in (["no-such"], {}):
        with pytest.raises(UserError):
            ctxbench.label(tmp_path / "mine", given, **HASHING)
    with ctxbench.label(tmp_path / "mine", TWO, **HASHING):
        pass


def test_doubts_are_those_of_the_command(capsys):
    found = ctxbench.review(SMOKE, TWO, **HASHING)
    review_command(str(SMOKE), selectors=TWO, patch=None, listed=False, embedder="hashing", as_json=True)
    told = json.loads(capsys.readouterr().out)
    frame = found.to_frame()
    assert len(frame) == len(told) > 0
    assert frame["severity"].tolist() == [one["severity"] for one in told]
    assert frame[["query", "item", "kind"]].to_numpy().tolist() == [[o["query"], o["item"], o["kind"]] for o in told]
    for name in TWO:
        assert [None if pd.isna(rank) else rank for rank in frame[name]] == [one["ranks"][name] for one in told]
    assert "<table" in found._repr_html_()
    assert repr(found) == f"Review(smoke: {len(told)} labels that bm25, dense contradict)"


def test_corrections_are_seen_at_once_and_written_as_a_patch(tmp_path, capsys):
    found = ctxbench.review(SMOKE, TWO, **HASHING)
    worst = found.to_frame().query("kind == 'first but not required'").iloc[0]
    found.regrade(worst["query"], worst["item"], 2)
    found.regrade(worst["query"], worst["item"], 1, why="helps")  # decided again
    labels = found.corrected.labels
    row = labels[(labels["query"] == worst["query"]) & (labels["item"] == worst["item"])]
    assert row["grade"].tolist() == [1]
    found.regrade(worst["query"], worst["item"], 2)
    ctxbench.evaluate(found.corrected, ["bm25"], embedder="hashing", counter="chars/4")
    assert found.save(tmp_path / "patch.jsonl") == 1
    with pytest.raises(ParameterError, match="is there already"):
        found.save(tmp_path / "patch.jsonl")
    from ctxbench.cli.label import apply_patch

    ctxbench.load(SMOKE).save(tmp_path / "copy")
    apply_patch(tmp_path / "copy", tmp_path / "patch.jsonl")
    applied, corrected = (
        {(row.query, row.item): row.grade for row in labels.itertuples()}
        for labels in (ctxbench.load(tmp_path / "copy").labels, found.corrected.labels)
    )
    assert applied == corrected
    assert capsys.readouterr().out == f"1 label changed in {tmp_path / 'copy'}\n"


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        (("nobody", "rule:Extensions", 2), UnknownNameError, "unknown query 'nobody'"),
        (("s001", "rule:Nothing", 2), UnknownNameError, "unknown item 'rule:Nothing'"),
        (("s001", "rule:Extensions", 3), ParameterError, "grade must be 2"),
        (("s001", "rule:Extensions", True), ParameterError, "grade must be 2"),
        (("s001", "rule:Extensions", 2.0), ParameterError, "grade must be 2"),
        (("s001", "tool:rooms:book", 2), InputError, "tool:rooms:book"),  # which the query may not get
    ],
)
def test_a_correction_that_is_none(given, error, said):
    found = ctxbench.review(SMOKE, TWO, **HASHING)
    with pytest.raises(error, match=said):
        found.regrade(*given)
    assert found.corrected.dataset.labels == found.data.dataset.labels
    found.regrade("s001", "rule:Extensions", np.int64(1))
    assert found.save(Path(tempfile.mkdtemp()) / "patch.jsonl") == 1


def test_one_selector_contradicts_nobody():
    with pytest.raises(ParameterError, match="needs two or more selectors"):
        ctxbench.review(SMOKE, ["bm25"], **HASHING)
    with pytest.raises(UserError):
        ctxbench.review("no-such-dataset", TWO, **HASHING)
    with pytest.raises((UnknownNameError, InputError)):
        ctxbench.review(SMOKE, ["bm25", "bm52"], **HASHING)


def test_a_dataset_in_memory_is_saved_whole_or_not_at_all(tmp_path):
    made = ctxbench.dataset(TOOLS, [{"query": "q", "text": "x"}], [{"query": "q", "item": "area"}])
    made.save(tmp_path / "made", licence="CC0-1.0", labelling="by hand")
    read = ctxbench.load(tmp_path / "made")
    assert read.dataset.hash == made.dataset.hash
    assert (read.dataset.about["licence"], read.dataset.about["source"]) == ("CC0-1.0", "not stated")
    with pytest.raises(ParameterError, match="holds another dataset"):
        ctxbench.dataset(TOOLS, [{"query": "q", "text": "y"}], []).save(tmp_path / "made")


def test_what_an_import_leaves_out_is_a_warning(tmp_path, caplog):
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps({"text": "the area", "offered": "*", "called": ["area", "unicorn"]}))
    ctxbench.from_file(path, ctxbench.catalog(TOOLS))
    assert any("unicorn" in record.getMessage() for record in caplog.records)
    caplog.clear()
    path.write_text(json.dumps({"text": "the area", "offered": "*", "called": ["area"]}))
    ctxbench.from_file(path, ctxbench.catalog(TOOLS))
    assert not caplog.records
