from __future__ import annotations

from dataclasses import replace

import pytest

from ctxbench.datasets.queries import Label
from ctxbench.io.errors import ParameterError
from ctxbench.labelling.answer_log import AnswerLog
from ctxbench.labelling.session import LabellingSession, PromptAnswer
from ctxbench.model.items import Catalog


def finish(session, reply="done", n=1):
    for _ in range(n):
        session.answer(session.next(), PromptAnswer(reply))


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
    session.answer(first, PromptAnswer("needed", 4))
    again = session.next()
    assert (again.query, again.known) == (first.query, (3, 4))
    session.answer(again, PromptAnswer("done"))
    assert session.next().query != first.query
    assert session.through(first.query)


def test_an_item_like_a_needed_one_is_asked_about_where_it_decides(make_pool, make_session):
    session = make_session(make_pool())
    first = session.next().query
    session.answer(session.next(), PromptAnswer("needed", 1))
    session.answer(session.next(), PromptAnswer("done"))
    prompt = session.next()
    assert (prompt.query, prompt.kind, prompt.item, prompt.of) == (first, "alternative", 0, 1)
    with pytest.raises(ParameterError, match="takes alternative"):
        session.answer(prompt, PromptAnswer("done"))
    session.answer(prompt, PromptAnswer("alternative", yes=False))
    assert session.through(first)
    known = session.sample().answered[first]
    assert known.complete == (False, False)


def always(pool, *places):
    """The pool with some items of mode `always`."""
    catalog = Catalog(
        replace(item, include="always") if place in places else item for place, item in enumerate(pool.dataset.catalog)
    )
    return replace(pool, dataset=replace(pool.dataset, catalog=catalog))


def test_what_every_prompt_holds_is_not_asked_about(make_pool, make_session):
    pool = always(make_pool(), 0, 2)  # all offer 2, `narrow` does not offer 0: its prompt is without it
    session = make_session(pool)
    assert {candidate.item for candidate in session.next().candidates} == {0, 4}
    assert (pool.always_items, pool.always_offered(0)) == ({0, 2}, {2})
    session.answer(session.next(), PromptAnswer("needed", 2))  # found by a search
    assert session.next().known == (3, 2)


def test_what_would_do_as_well_as_an_item_of_every_prompt_is_not_asked(make_pool, make_session):
    made = make_pool(1)
    held = tuple(replace(one, offered=tuple(items | {1} for items in one.offered)) for one in made.offers)
    labels = (Label("q0", made.dataset.catalog[1].key, 2, source="trace"),)
    pool = always(replace(made, dataset=replace(made.dataset, labels=labels), offers=held, exposures={}), 1)
    session = make_session(pool)
    session.answer(session.next(), PromptAnswer("done"))
    assert session.next() is None


def test_an_item_of_every_prompt_that_may_stand_for_a_needed_one_is_asked_about_for_the_figures(
    make_pool, make_session
):
    held = tuple(replace(one, offered=tuple(items | {0} for items in one.offered)) for one in make_pool(3).offers)
    labels = [Label(f"q{i}", make_pool().dataset.catalog[1].key, 2, source="trace") for i in range(3)]
    session = make_session(always(replace(make_pool(3, partly=False, labels=labels), offers=held), 0))
    prompt = session.next()
    assert (prompt.kind, prompt.item, prompt.of) == ("alternative", 0, 1)
    session.answer(prompt, PromptAnswer("alternative", yes=True))
    assert session.sample().answered[prompt.query].complete == (True, True)


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
    session.answer(first, PromptAnswer("skip"))
    assert session.queue.stratum_of()[session.next().query] == stratum
    assert session.next().query != first.query


def test_a_new_session_over_the_same_log_goes_on(tmp_path, make_pool, make_session):
    pool, path = make_pool(), tmp_path / "answers.jsonl"
    session = make_session(pool, log=AnswerLog(path))
    finish(session, n=5)
    session.answer(session.next(), PromptAnswer("needed", 4))
    prompt = session.next()
    again = LabellingSession(session.predictor, session.queue, AnswerLog(path))
    assert again.next() == prompt
    assert again.answers == 6
    assert len(again.sample().answered) == 5
    assert again.report().completeness == session.report().completeness


def test_answers_store_their_stratum(make_pool, make_session):
    session = make_session(make_pool(60), split=False)
    finish(session, n=4)
    assert {answer.stratum for answer in session.log.answers} == {0}
    assert session.sample().weights() == {answer.query: 15 for answer in session.log.answers}


def test_answering_everything_is_exact(make_pool, make_session):
    session = make_session(make_pool(40))
    while (prompt := session.next()) is not None and prompt.kind == "needed":
        session.answer(prompt, PromptAnswer("done"))
    report = session.report()
    assert [(f.low, f.value, f.high) for f in report.completeness] == [(1.0, 1.0, 1.0), (0.5, 0.5, 0.5)]
    assert [(f.low, f.value, f.high) for f in report.differences] == [(0.5, 0.5, 0.5)]
    assert set(report.labels_to_halve_interval.values()) == {0}


def test_a_reply_needs_an_item_of_the_catalog(make_pool, make_session):
    session = make_session(make_pool())
    with pytest.raises(ParameterError, match="needs an item of the catalog"):
        session.answer(session.next(), PromptAnswer("needed", 99))
    assert session.answers == 0


def test_what_a_query_may_not_get_cannot_be_needed(make_pool, make_session):
    pool = make_pool(4)
    keys = [item.key for item in pool.dataset.catalog]
    queries = tuple(replace(q, request=replace(q.request, available=tuple(keys[:4]))) for q in pool.dataset.queries)
    session = make_session(replace(pool, dataset=replace(pool.dataset, queries=queries)))
    with pytest.raises(ParameterError, match="cannot need 'tool:calendar:add_event'"):
        session.answer(session.next(), PromptAnswer("needed", 4))
    assert session.can_need("q0", 2)


def test_a_dataset_without_open_queries_has_nothing_to_ask(make_pool, make_session):
    catalog = make_pool().dataset.catalog
    session = make_session(make_pool(4, partly=False, labels=[Label(f"q{i}", catalog[3].key, 2) for i in range(4)]))
    assert session.next() is None
    assert [figure.width for figure in session.report().completeness] == [0, 0]


def test_skipped_queries_count_both_ways_and_are_told(make_pool, make_session):
    session = make_session(make_pool(60), split=False)
    for number in range(40):
        session.answer(session.next(), PromptAnswer("done" if number % 2 else "skip"))
    report = session.report()
    assert (report.queries, report.unsure) == (20, 20)
    wide = report.completeness[0]
    assert wide.value == 1.0  # all that was answered
    assert wide.low < 0.5  # 20 of 40 may be incomplete
    answered = make_session(make_pool(60), split=False)
    finish(answered, n=20)
    assert answered.report().completeness[0].low > 0.8


def test_what_was_skipped_is_asked_again_at_the_end_once(make_pool, make_session):
    session = make_session(make_pool(5))
    skipped = {session.next().query}
    session.answer(session.next(), PromptAnswer("skip"))
    finish(session, n=4)
    again = session.next()
    assert {again.query} == skipped
    session.answer(again, PromptAnswer("done"))
    assert session.report().unsure == 0
    session.undo()
    session.answer(session.next(), PromptAnswer("skip"))
    assert session.next() is None or session.next().kind == "alternative"
    assert LabellingSession(session.predictor, session.queue, session.log).next().query in skipped


def test_an_alternative_that_cannot_be_said_stays_unknown(make_pool, make_session):
    session = make_session(make_pool(3))
    query = session.next().query
    session.answer(session.next(), PromptAnswer("needed", 1))
    session.answer(session.next(), PromptAnswer("done"))
    prompt = session.next()
    made = session.answer(prompt, PromptAnswer("skip"))
    assert (made.kind, made.yes) == ("alternative", None)
    assert "yes" not in made.as_row()
    assert session.next().query != query
    known = session.sample().answered[query]
    assert (known.complete, known.upper_bound) == ((False, False), (True, False))  # `wide` offers the item in doubt
    finish(session, n=2)
    again = session.next()
    assert (again.query, again.item, again.of) == (query, prompt.item, prompt.of)
    session.answer(again, PromptAnswer("alternative", yes=True))
    assert session.sample().answered[query].complete == (True, False)


def test_other_selectors_bound_what_they_leave_undecided(make_pool, make_session):
    """An answered query stays in the sample, though a new selector offers what nobody was asked about."""
    pool = make_pool(20)
    session = make_session(pool, split=False)
    for _ in range(6):
        session.answer(session.next(), PromptAnswer("needed", 1))
        session.answer(session.next(), PromptAnswer("done"))
        session.answer(session.next(), PromptAnswer("alternative", yes=False))
    catalog = pool.dataset.catalog
    taken = replace(pool.offers[0], name="new", offered=(frozenset({0, 3}),) * 20)
    log = session.log
    log.answers = [answer for answer in log.answers if answer.kind != "alternative"]  # as if it had not been offered
    other = make_session(replace(pool, offers=(taken, pool.offers[1])), log=log)
    again = LabellingSession(other.predictor, session.queue, log)
    sample = again.sample()
    assert len(sample.strata[0]) == 20
    assert len(sample.answered) == 6
    assert {known.upper_bound for known in sample.answered.values()} == {(True, False)}
    assert again.report().unsure == 6
    assert again.next().kind == "alternative"
    assert catalog[again.next().item].key == catalog[0].key


def test_whether_a_query_is_sampled_is_decided_by_what_was_known_before_its_answers(make_pool, make_session):
    catalog = make_pool().dataset.catalog
    labels = [Label(f"q{i}", catalog[1].key, 2, source="trace") for i in range(12)]
    pool = make_pool(12, partly=False, labels=labels)
    session = make_session(pool, split=False)  # `wide` offers an item like the needed one
    for _ in range(5):
        session.answer(session.next(), PromptAnswer("alternative", yes=True))
    blind = replace(pool.offers[0], name="blind", offered=(frozenset({2}),) * 12)
    later = replace(pool, offers=(blind, pool.offers[1]))
    again = LabellingSession(make_session(later).predictor, session.queue, session.log)
    sample = again.sample()  # no query is open for these selectors
    assert (len(sample.census), sum(map(len, sample.strata)), len(sample.answered)) == (12, 0, 0)
    assert again.report().completeness[0].width == 0


def test_labels_of_the_dataset_win_over_answers_that_do_not_count(make_pool, make_session):
    pool = make_pool(10)
    session = make_session(pool, split=False)
    query = session.next().query
    finish(session, n=3)
    keys = [item.key for item in pool.dataset.catalog]
    labels = [label for label in pool.dataset.labels if label.query != query]
    dataset = replace(
        pool.dataset,
        labels=(*labels, Label(query, keys[5], 2, source="review")),
        queries=tuple(replace(q, partly_labelled=q.partly_labelled and q.id != query) for q in pool.dataset.queries),
    )
    changed = make_session(replace(pool, dataset=dataset)).predictor
    again = LabellingSession(changed, session.queue, session.log, left=[query])
    sample = again.sample()
    assert sample.answered[query].complete == (False, False)  # nobody offers it; by the answers, `wide` was complete
    assert len(sample.strata[0]) == 10


def test_an_item_that_left_the_catalog_does_not_stop_labelling(make_pool, make_session):
    pool = make_pool(10)
    session = make_session(pool, split=False)
    query = session.next().query
    session.answer(session.next(), PromptAnswer("needed", 4))
    session.answer(session.next(), PromptAnswer("done"))
    finish(session, n=2)
    items = [item for place, item in enumerate(pool.dataset.catalog) if place != 4]
    rankings = [replace(one, ranking=((3, 2),) * 10, scores=((0.9, 0.8),) * 10) for one in pool.offers]
    smaller = replace(pool, dataset=replace(pool.dataset, catalog=Catalog(items)), offers=tuple(rankings))
    again = LabellingSession(make_session(smaller).predictor, session.queue, session.log)
    assert again.state(query).required[0].item == items[3].key
    assert not again.through(query)
    assert again.next().query != query
    assert again.report().unsure == 1
