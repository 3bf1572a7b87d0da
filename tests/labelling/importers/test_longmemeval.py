"""LongMemEval: what a made-up source becomes, what is seen at a question's date, and what is refused."""

from __future__ import annotations

import copy
import hashlib
import json

import numpy as np
import pytest

from ctxbench.datasets.dataset import split_of
from ctxbench.datasets.files import read_dataset, write_dataset
from ctxbench.datasets.lookup import import_dataset, import_own
from ctxbench.io.errors import InputError, StorageError
from ctxbench.labelling.benchmarks import LongMemEvalM, LongMemEvalOracle, LongMemEvalS

IMPORTERS = (LongMemEvalM, LongMemEvalOracle, LongMemEvalS)


def said(role, content, **more):
    return {"role": role, "content": content, **more}


DEGREE = {
    "question_id": "q1",
    "question_type": "single-session-user",
    "question": "Which degree do I have?",
    "answer": "Biology",
    "question_date": "2023/05/30 (Tue) 23:40",
    "haystack_dates": ["2023/05/21 (Sun) 03:58", "2023/05/20 (Sat) 02:21", "2023/06/01 (Thu) 00:05"],
    "haystack_session_ids": ["answer_1", "chat_7", "answer_1"],
    "haystack_sessions": [
        [said("user", "My degree is in biology.", has_answer=True), said("assistant", "Nice.", has_answer=False)],
        [said("user", "Hello!"), said("assistant", "")],
        [said("user", "As I said: biology.", has_answer=True)],
    ],
    "answer_session_ids": ["answer_1"],
}
PETS = {
    **DEGREE,
    "question_id": "q2",
    "question_type": "multi-session",
    "question": "How many pets do I have?",
    "answer": 2,
    "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 03:58"],
    "haystack_session_ids": ["chat_7", "answer_2"],
    "haystack_sessions": [
        [said("user", "I have a cat.", has_answer=True)],
        [said("user", "Any news?"), said("assistant", "Your dog is a beagle.", has_answer=True)],
    ],
}
MISSING = {**PETS, "question_id": "q2_abs", "question": "How many fish do I have?"}


@pytest.fixture
def make(made_up):
    def load(questions=(DEGREE, PETS, MISSING), importer=LongMemEvalOracle):
        text = questions if isinstance(questions, str) else json.dumps(list(questions))
        (file,) = importer.source.files
        return made_up(importer, {file.path: text}).load(*importer.provides)

    return load


@pytest.mark.parametrize("importer", IMPORTERS)
def test_each_file_is_a_dataset_of_its_own(make, importer):
    dataset = make(importer=importer)
    assert dataset.name == importer.source.name
    assert dataset.card["source"]["url"] == "https://huggingface.co/datasets/xiaowu0162/longmemeval"
    (file,) = importer.source.files
    assert dataset.card["source"]["sha256"].keys() == {file.path}


def test_a_file_of_ones_own_in_this_form_is_another_dataset(tmp_path):
    file = tmp_path / "mine.json"
    file.write_text(json.dumps([DEGREE, PETS]))
    with pytest.raises(StorageError) as caught:
        import_dataset("longmemeval-oracle", source=file)
    assert "`ctxbench data import longmemeval-oracle --from PLACE --own --out FOLDER`" in str(caught.value)
    first = import_own("longmemeval-oracle", file, called="mine")
    assert (first.name, [query.id for query in first.queries]) == ("mine", ["q1", "q2"])
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    page = "https://huggingface.co/datasets/xiaowu0162/longmemeval"
    assert first.card["source"] == {"form": page, "sha256": {"longmemeval_oracle.json": digest}}
    assert first.card["licence"] == "not stated in the files"
    assert first.card["notes"]["remarks"][0].startswith("Made of files in the form of the published ones, not of these")
    file.write_text(json.dumps([DEGREE]))
    second = import_own("longmemeval-oracle", file, called="mine")
    assert first.version.startswith("own-")
    assert second.version.startswith("own-")
    assert first.version != second.version
    unmarked = [
        [{"role": turn["role"], "content": turn["content"]} for turn in turns] for turns in DEGREE["haystack_sessions"]
    ]
    for rows in ([], [{**DEGREE, "haystack_sessions": unmarked}]):
        file.write_text(json.dumps(rows))
        with pytest.raises(InputError, match="no label could be read"):
            import_own("longmemeval-oracle", file, called="mine")
    file.write_text('[{"question_id": 3}]')
    with pytest.raises(InputError, match=r"'question_id' must be a text, got 3 .*mine\.json, line 1"):
        import_own("longmemeval-oracle", file, called="mine")


def test_files_come_from_the_hub_at_a_commit_whatever_serves_github():
    source = LongMemEvalS.source
    page = "https://huggingface.co/datasets/xiaowu0162/longmemeval"
    assert source.address("https://elsewhere.example") == f"{page}/resolve/{source.commit}"
    assert source.files[0].published == "longmemeval_s"


def test_turns_are_memories_of_their_questions_workspace_by_time(make):
    first, second, *rest = make().catalog
    assert (first.type, first.kind, first.name, first.text) == ("memory", "turn", "q1/chat_7/1", "Hello!")
    assert (first.workspace, first.conversation) == ("q1", "q1/chat_7")
    assert (first.created, second.created) == ("2023-05-20T02:21:00", "2023-05-20T02:21:01")
    assert (first.metadata, second.metadata) == ({"speaker": "user"}, {"speaker": "assistant"})
    assert [item.name for item in rest[:4]] == ["q1/answer_1/1", "q1/answer_1/2", "q1/answer_1~2/1", "q2/chat_7/1"]
    assert first.search_text == "Hello!"


def test_marked_turns_are_required_and_later_ones_leave_a_question_labelled_in_part(make, required):
    dataset = make()
    assert required(dataset) == {
        "q1": ["memory:q1%2Fanswer_1%2F1"],
        "q2": ["memory:q2%2Fchat_7%2F1", "memory:q2%2Fanswer_2%2F2"],
        "q2_abs": [],
    }
    assert [query.partly_labelled for query in dataset.queries] == [True, False, False]
    assert dataset.unlabelled == ("q1",)
    assert dataset.card["notes"]["counted"] == {
        "questions published": 3,
        "questions that need nothing": 1,
        "questions without a marked turn": 0,
        "questions with late marked turns": 1,
        "sessions with a repeated id": 1,
    }


def test_what_the_history_does_not_answer_needs_nothing_and_stays_with_its_twin(make):
    _, pets, missing = make().queries
    assert missing.needs_nothing
    assert not pets.needs_nothing
    assert missing.tags == ("multi-session", "abstention")
    assert pets.group == missing.group == "q2"
    assert pets.split == missing.split == split_of("q2")


def test_a_question_sees_its_own_history_up_to_its_date(make):
    dataset = make()
    visible = np.stack([dataset.batch().eligible[row] for row in range(3)])
    assert [item.name for item in dataset.catalog][:5][4] == "q1/answer_1~2/1"
    assert visible[0].tolist() == [True] * 4 + [False] * 7
    assert visible[1].tolist() == [False] * 5 + [True] * 3 + [False] * 3
    assert dataset.queries[0].request.time == "2023-05-30T23:40:00"


def test_what_is_made_is_written_and_read_again(make, tmp_path):
    dataset = make()
    write_dataset(dataset, tmp_path / "made")
    read = read_dataset(tmp_path / "made")
    assert (read.card, read.hash) == (dataset.card, dataset.hash)


def test_a_question_without_a_marked_turn_is_unlabelled(make):
    plain = {**PETS, "haystack_sessions": [[said("user", "Hi.")], [said("user", "Bye.", has_answer=None)]]}
    dataset = make([plain])
    assert dataset.unlabelled == ("q2",)
    assert dataset.card["notes"]["counted"]["questions without a marked turn"] == 1


def changed(name, value, *place):
    question = copy.deepcopy(PETS)
    target = question[name] if place else question
    for step in place[:-1]:
        target = target[step]
    target[place[-1] if place else name] = value
    return [question]


@pytest.mark.parametrize(
    ("questions", "fault"),
    [
        ("{}", r"expected a JSON list of questions .*longmemeval_oracle\.json, line 1"),
        ("[\n3]", r"entry 0 must be an object.*longmemeval_oracle\.json, line 2"),
        ([PETS, PETS], "question_id 'q2' occurs 2 times; expected once"),
        (changed("question_id", None), "field 'question_id' is missing"),
        (changed("question", 3), "field 'question' must be a text, got 3"),
        (changed("question_type", ""), "field 'question_type' must not be empty"),
        (changed("question_date", "30 May"), "'q2', question_date must have the form .*, got '30 May'"),
        (changed("question_date", "2023/02/30 (Thu) 10:00"), "question_date must have the form"),
        (changed("haystack_sessions", []), r"haystack_sessions must have the same length, got \[0, 2\]"),
        (changed("haystack_sessions", {}), r"field 'haystack_sessions' must be a list, got \{\}"),
        (changed("haystack_dates", 5, 0), "question 'q2', session 'chat_7', date must have the form .*, got 5"),
        (changed("haystack_session_ids", 7, 0), "question 'q2', session 7 must be a text with a list of turns"),
        (changed("haystack_sessions", "x", 0), "session 'chat_7' must be a text with a list of turns, got 'x'"),
        (changed("haystack_sessions", "x", 0, 0), r"'chat_7', turn 1 must have role .*, got 'x' \(.*json, line 1\)"),
        (changed("haystack_sessions", "tool", 1, 1, "role"), "session 'answer_2', turn 2 must have role"),
        (changed("haystack_sessions", None, 1, 0, "content"), "session 'answer_2', turn 1 must have role"),
        (changed("haystack_sessions", "yes", 0, 0, "has_answer"), r"turn 1 must have .*has_answer \(true or false\)"),
    ],
)
def test_json_of_another_form_is_refused_with_its_place(make, questions, fault):
    with pytest.raises(InputError, match=f"(?s){fault}"):
        make(questions)
