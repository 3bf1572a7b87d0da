from __future__ import annotations

from dataclasses import replace

import pytest

from ctxbench.errors import ParameterError
from ctxbench.evaluation.datasets.labels import Label
from ctxbench.evaluation.labelling.answers import AnswerLog
from ctxbench.evaluation.labelling.session import Reply, Session


def finish(session, reply="done", n=1):
    for _ in range(n):
        session.answer(session.next(), Reply(reply))


def test_a_prompt_shows_what_was_called_and_what_may_be_needed_beside_it(make_pool, make_session):
    prompt = make_session(make_pool()).next()
    assert prompt.kind == "needed"
    assert prompt.known == (3,)
    assert {candidate.item for candidate in prompt.candidates} == {0, 2, 4}
    offered = {candidate.item: candidate.offered_by for candidate in prompt.candidates}
    assert (offered[0], offered[2], offered[4]) == (("wide",), ("wide", "narrow"), ())


def test_the_same_query_is_asked_until_nothing_more_is_needed(make_pool, make_session):
    session = make_session(make_pool())
    first = session.next()
    session.answer(first, Reply("needed", 4))
    again = session.next()
    assert (again.query, again.known) == (first.query, (3, 4))
    session.answer(again, Reply("done"))
    assert session.next().query != first.query
    assert session.through(first.query)


def test_an_item_like_a_needed_one_is_asked_about_where_it_decides(make_pool, make_session):
    session = make_session(make_pool())
    first = session.next().query
    session.answer(session.next(), Reply("needed", 1))
    session.answer(session.next(), Reply("done"))
    prompt = session.next()
    assert (prompt.query, prompt.kind, prompt.item, prompt.of) == (first, "alternative", 0, 1)
    with pytest.raises(ParameterError, match="takes alternative"):
        session.answer(prompt, Reply("done"))
    session.answer(prompt, Reply("alternative", yes=False))
    assert session.through(first)
    known = session.sample().answered[first]
    assert known.complete == (False, False)


def test_a_log_labelled_wholly_still_asks_what_would_do_as_well(make_pool, make_session):
    catalog = make_pool().dataset.catalog
    pool = make_pool(3, partly=False, labels=[Label(f"q{i}", catalog[1].key, 2, source="trace") for i in range(3)])
    session = make_session(pool)
    assert session.next().kind == "alternative"
    by_hand = make_pool(3, partly=False, labels=[Label(f"q{i}", catalog[1].key, 2) for i in range(3)])
    assert make_session(by_hand).unsettled() == []


def test_skipped_queries_give_their_turn_to_the_next_of_their_stratum(make_pool, make_session):
    session = make_session(make_pool())
    first = session.next()
    stratum = session.queue.stratum_of()[first.query]
    session.answer(first, Reply("skip"))
    assert session.queue.stratum_of()[session.next().query] == stratum
    assert session.next().query != first.query


def test_a_new_session_over_the_same_log_goes_on(tmp_path, make_pool, make_session):
    pool, path = make_pool(), tmp_path / "answers.jsonl"
    session = make_session(pool, log=AnswerLog(path))
    finish(session, n=5)
    session.answer(session.next(), Reply("needed", 4))
    prompt = session.next()
    again = Session(session.predictor, session.queue, AnswerLog(path))
    assert again.next() == prompt
    assert again.answers == 6
    assert len(again.sample().answered) == 5
    assert again.report().completeness == session.report().completeness


def test_answers_store_stratum_and_weight(make_pool, make_session):
    session = make_session(make_pool(60), split=False)
    finish(session, n=4)
    assert [answer.weight for answer in session.log.answers] == [60, 30, 20, 15]
    assert {answer.stratum for answer in session.log.answers} == {0}


def test_answering_everything_is_exact(make_pool, make_session):
    session = make_session(make_pool(40))
    while (prompt := session.next()) is not None and prompt.kind == "needed":
        session.answer(prompt, Reply("done"))
    report = session.report()
    assert [(f.low, f.value, f.high) for f in report.completeness] == [(1.0, 1.0, 1.0), (0.5, 0.5, 0.5)]
    assert [(f.low, f.value, f.high) for f in report.differences] == [(0.5, 0.5, 0.5)]
    assert set(report.halving.values()) == {0}


def test_a_reply_needs_an_item_of_the_catalog(make_pool, make_session):
    session = make_session(make_pool())
    with pytest.raises(ParameterError, match="needs an item of the catalog"):
        session.answer(session.next(), Reply("needed", 99))
    assert session.answers == 0


def test_what_a_query_may_not_get_cannot_be_needed(make_pool, make_session):
    pool = make_pool(4)
    keys = [item.key for item in pool.dataset.catalog]
    queries = tuple(replace(q, request=replace(q.request, available=tuple(keys[:4]))) for q in pool.dataset.queries)
    session = make_session(replace(pool, dataset=replace(pool.dataset, queries=queries)))
    with pytest.raises(ParameterError, match="cannot need 'tool:calendar:add_event'"):
        session.answer(session.next(), Reply("needed", 4))
    assert session.can_need("q0", 2)


def test_a_dataset_without_open_queries_has_nothing_to_ask(make_pool, make_session):
    catalog = make_pool().dataset.catalog
    session = make_session(make_pool(4, partly=False, labels=[Label(f"q{i}", catalog[3].key, 2) for i in range(4)]))
    assert session.next() is None
    assert [figure.width for figure in session.report().completeness] == [0, 0]
