from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ctxbench.datasets.queries import Label
from ctxbench.io.errors import InputError
from ctxbench.labelling.answer_log import AnswerLog, KeyPress, active, apply_answers, state_before
from ctxbench.labelling.session import PromptAnswer


def labels(dataset, query):
    return {label.item.name: (label.grade, label.alternatives, label.source) for label in dataset.labels_of(query)}


def query(dataset, name):
    return next(query for query in dataset.queries if query.id == name)


@pytest.fixture
def answered(make_pool, make_session):
    """Answer the first prompts with given replies; returns pool, log and the id of the first query."""

    def run(*replies, **pool_options):
        pool = make_pool(**pool_options)
        session = make_session(pool)
        first = session.next().query
        for reply in replies:
            session.answer(session.next(), reply)
        return pool, session.log, first

    return run


def test_done_confirms_what_was_called_and_completes_the_query(answered):
    pool, log, first = answered(PromptAnswer("done"))
    made = apply_answers(pool.dataset, log.answers).dataset
    assert not query(made, first).partly_labelled
    assert labels(made, first) == {"send_mail": (2, "", "person")}
    assert len(made.judged()) == 1


def test_needed_alone_leaves_the_query_partly_labelled(answered):
    pool, log, first = answered(PromptAnswer("needed", 4))
    made = apply_answers(pool.dataset, log.answers).dataset
    assert query(made, first).partly_labelled
    assert labels(made, first)["add_event"] == (2, "", "person")


def test_needed_of_a_query_without_labels_does_not_complete_it(answered):
    pool, log, first = answered(PromptAnswer("needed", 4), labels=[], partly=False)
    made = apply_answers(pool.dataset, log.answers).dataset
    assert query(made, first).partly_labelled
    assert made.unlabelled == pool.dataset.unlabelled


def test_a_wrong_call_is_struck_and_nothing_more_means_nothing(answered):
    pool, log, first = answered(PromptAnswer("wrong", 3), PromptAnswer("done"))
    made = apply_answers(pool.dataset, log.answers).dataset
    assert query(made, first).needs_nothing
    assert labels(made, first) == {"send_mail": (0, "", "person")}


def test_yes_makes_alternatives(answered):
    # forge's create_issue is needed, `wide` offers tracker's create_issue instead: that is asked right after
    pool, log, first = answered(PromptAnswer("needed", 1), PromptAnswer("done"), PromptAnswer("alternative", yes=True))
    made = apply_answers(pool.dataset, log.answers).dataset
    group = {label.item.server for label in made.labels_of(first) if label.alternatives}
    assert group == {"tracker", "forge"}


def test_applying_again_changes_nothing_and_any_part_may_be_in_already(answered):
    pool, log, first = answered(PromptAnswer("needed", 4), PromptAnswer("done"))
    whole = apply_answers(pool.dataset, log.answers)
    assert apply_answers(whole.dataset, log.answers).changed == ()
    part = apply_answers(pool.dataset, log.answers[:1]).dataset
    assert apply_answers(part, log.answers).dataset.hash == whole.dataset.hash
    assert pool.dataset.labels_of(first)[0].source == "trace"  # the dataset given is not changed


def test_taking_back_restores_what_was_there_before(make_pool, make_session):
    pool = make_pool()
    session = make_session(pool)
    first = session.next().query
    session.answer(session.next(), PromptAnswer("done"))
    applied = apply_answers(pool.dataset, session.log.answers).dataset
    assert session.undo().kind == "done"
    assert session.next().query == first
    assert active(session.log.answers) == []
    assert apply_answers(applied, session.log.answers).dataset.hash == pool.dataset.hash
    assert session.undo() is None


def quoting(pool):
    """The pool with each of its labels quoting the beginning of its item."""
    text = {item.key: item.prompt_text[:12] for item in pool.dataset.catalog}
    labels = tuple(replace(label, quote=text[label.item]) for label in pool.dataset.labels)
    return replace(pool, dataset=replace(pool.dataset, labels=labels))


def test_what_a_label_quotes_is_kept_through_answers_and_their_log(make_pool, make_session, tmp_path):
    pool = quoting(make_pool())
    session = make_session(pool)
    first = session.next().query
    before = {label.item: label.quote for label in pool.dataset.labels_of(first)}
    assert all(before.values())
    session.answer(session.next(), PromptAnswer("needed", 4))
    session.answer(session.next(), PromptAnswer("done"))
    read = tuple(KeyPress.from_row(json.loads(json.dumps(answer.as_row()))) for answer in session.log.answers)
    made = apply_answers(pool.dataset, read)
    assert {one.item: one.quote for one in made.dataset.labels_of(first) if one.item in before} == before
    while session.undo() is not None:
        pass
    assert apply_answers(made.dataset, session.log.answers).dataset.hash == pool.dataset.hash


def test_a_log_that_was_written_without_quotes_is_read():
    row = {"labels": [["tool:a", 2, "direct", "", "trace"], ["tool:b", 2, "direct", "", "trace", "so"]]}
    answer = KeyPress.from_row({"n": 1, "kind": "done", "query": "q", "before": row})
    assert [label.quote for label in state_before(answer).labels] == ["", "so"]


def test_what_others_changed_since_is_left_alone(answered):
    pool, log, first = answered(PromptAnswer("done"))
    key = pool.dataset.catalog[5].key
    edited = replace(pool.dataset, labels=(*pool.dataset.labels, Label(first, key, 1)))
    applied = apply_answers(edited, log.answers)
    assert applied.left == (first,)
    assert applied.dataset.hash == edited.hash
    gone = pool.dataset.take(q.id for q in pool.dataset.queries if q.id != first)
    assert apply_answers(gone, log.answers).gone == (first,)


def test_a_last_line_cut_short_is_dropped_and_told(tmp_path, answered):
    _, log, _ = answered(PromptAnswer("needed", 4), PromptAnswer("done"))
    path = tmp_path / "answers.jsonl"
    kept = AnswerLog(path)
    for answer in log.answers:
        kept.add(answer)
    whole = path.read_bytes()
    for cut in range(1, len(whole.splitlines()[-1]) + 1):
        path.write_bytes(whole[:-cut])
        again = AnswerLog(path)
        assert len(again.answers) == 1
        assert "cut short" in again.repaired or whole[:-cut].endswith(b"\n")
        assert path.read_bytes().endswith(b"\n")
    path.write_bytes(whole)
    assert AnswerLog(path).answers == log.answers
    assert AnswerLog(path).repaired == ""


def test_lines_that_are_no_answers_are_all_named(tmp_path, answered):
    _, log, _ = answered(PromptAnswer("done"))
    path = tmp_path / "answers.jsonl"
    row = json.dumps(log.answers[0].as_row())
    path.write_text(f'{row}\n{{"kind": "maybe"}}\nnonsense\n[1]\n')
    with pytest.raises(InputError) as caught:
        AnswerLog(path)
    assert [fault.line for fault in caught.value.faults] == [2, 3, 4]
