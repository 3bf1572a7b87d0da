from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ctxbench.cli.label import apply_patch
from ctxbench.datasets.files import read_dataset, write_dataset
from ctxbench.datasets.layout import read_weights
from ctxbench.datasets.queries import Label
from ctxbench.io.errors import ParameterError
from ctxbench.labelling.pools import Predictor
from ctxbench.labelling.review import regraded, write_patch
from ctxbench.labelling.session import PromptAnswer, opened


@pytest.fixture
def place(tmp_path, make_pool):
    """A dataset's folder, and its pool."""
    pool = make_pool(60)
    write_dataset(pool.dataset, tmp_path / "log")
    return tmp_path / "log", pool


def session_of(work, pool, **options):
    return work.session(Predictor(replace(pool, dataset=work.dataset)), **options)


def test_answers_are_in_the_files_at_the_end_and_weights_beside_them(place):
    folder, pool = place
    with opened(folder) as work:
        session = session_of(work, pool)
        for _ in range(4):
            session.answer(session.next(), PromptAnswer("done"))
        assert len(work.save(session).changed) == 4
    assert len(read_dataset(folder).judged()) == 4
    rows = [json.loads(line) for line in (folder / "labelling" / "weights.jsonl").read_text().splitlines()]
    assert len(rows) == 4
    assert set(rows[0]) == {"query", "stratum", "weight"}


def test_answers_of_a_session_that_was_killed_are_in_the_files_at_the_next_start(place):
    folder, pool = place
    with opened(folder) as work:
        session = session_of(work, pool)
        prompt = session.next()
        session.answer(prompt, PromptAnswer("done"))  # and no save
    assert len(read_dataset(folder).judged()) == 0
    with (folder / "labelling" / "answers.jsonl").open("a") as log:
        log.write('{"n": 2, "kin')
    with opened(folder) as work:
        assert len(work.dataset.judged()) == 1
        assert "cut short" in work.notes[0]
        assert "1 query answered earlier" in work.notes[1]
        again = session_of(work, pool)
        assert again.answers == 1
        assert again.next().query != prompt.query
    assert len(read_dataset(folder).judged()) == 1


def test_the_sample_is_drawn_once(place):
    folder, pool = place
    with opened(folder) as work:
        queue = session_of(work, pool, focus=("wide",)).queue
    with opened(folder) as work:
        assert session_of(work, pool).queue == queue
        with pytest.raises(ParameterError, match="was drawn for wide"):
            session_of(work, pool, focus=("narrow",))


def test_a_frozen_dataset_is_refused(place):
    folder, pool = place
    dataset = pool.dataset
    write_dataset(replace(dataset, about={**dataset.about, "frozen": dataset.hash}), folder)
    with pytest.raises(ParameterError, match=r"is frozen.*copy the folder"), opened(folder):
        pass


def test_two_sessions_do_not_label_the_same_folder(place):
    folder, _ = place
    with opened(folder), pytest.raises(ParameterError, match="another session"), opened(folder):
        pass


def test_what_is_no_folder_of_a_dataset_is_refused(tmp_path):
    with pytest.raises(ParameterError, match="not the folder of a dataset"), opened(tmp_path):
        pass


def answered(folder, pool, n=4):
    with opened(folder) as work:
        session = session_of(work, pool)
        for _ in range(n):
            session.answer(session.next(), PromptAnswer("done"))
        work.save(session)
    return session


def test_weights_add_up_to_the_queries_that_are_there(place):
    folder, pool = place
    with opened(folder) as work:
        session = session_of(work, pool)
        drawn = session.queue.strata
        for _ in range(60):
            session.answer(session.next(), PromptAnswer("done"))
    gone = {drawn[0].queries[0], drawn[0].queries[-1]}
    dataset = read_dataset(folder)
    smaller = replace(
        dataset,
        queries=tuple(query for query in dataset.queries if query.id not in gone),
        labels=tuple(label for label in dataset.labels if label.query not in gone),
    )
    write_dataset(smaller, folder)
    rows = [place for place, query in enumerate(dataset.queries) if query.id not in gone]
    offers = tuple(
        replace(
            one,
            offered=tuple(one.offered[i] for i in rows),
            ranking=tuple(one.ranking[i] for i in rows),
            scores=tuple(one.scores[i] for i in rows),
        )
        for one in pool.offers
    )
    with opened(folder) as work:
        session = session_of(work, replace(pool, offers=offers))
        work.save(session)
    assert sum(read_weights(folder).values()) == pytest.approx(58)


def test_a_lost_sample_is_told(place):
    folder, pool = place
    answered(folder, pool)
    (folder / "labelling" / "queue.json").unlink()
    with opened(folder) as work, pytest.raises(ParameterError, match=r"queue\.json is missing.*restore a copy"):
        session_of(work, pool)


def test_labels_changed_by_other_means_win_in_the_figures_too(place):
    folder, pool = place
    query = answered(folder, pool).log.answers[0].query
    dataset = read_dataset(folder)
    other = [label for label in dataset.labels if label.query != query]
    write_dataset(replace(dataset, labels=(*other, Label(query, dataset.catalog[5].key, 2, source="x"))), folder)
    with opened(folder) as work:
        assert "left unchanged" in work.notes[0]
        assert session_of(work, pool).sample().answered[query].complete == (False, False)


def test_what_was_written_during_a_session_stays(place):
    folder, pool = place
    with opened(folder) as work:
        session = session_of(work, pool)
        query = session.next().query
        session.answer(session.next(), PromptAnswer("done"))
        dataset = read_dataset(folder)
        untouched = next(q.id for q in dataset.queries if q.id != query)
        added = Label(untouched, dataset.catalog[5].key, 1, source="x")
        write_dataset(replace(dataset, labels=(*dataset.labels, added)), folder)
        work.save(session)
    assert added in read_dataset(folder).labels_of(untouched)
    assert len(read_dataset(folder).judged()) == 1


def test_a_patch_waits_for_the_end_of_a_session(place):
    folder, pool = place
    dataset, patch = pool.dataset, folder.parent / "patch.jsonl"
    write_patch(regraded(dataset, "q0", dataset.catalog[3].key, 1), patch)
    with opened(folder), pytest.raises(ParameterError, match="another session"):
        apply_patch(folder, patch)
    apply_patch(folder, patch)
    assert read_dataset(folder).labels_of("q0")[0].grade == 1
    assert "59 trace (98.3%), 1 review (1.7%)" in read_dataset(folder).about["labelling"]


def test_the_card_says_how_many_labels_come_from_where(place):
    folder, pool = place
    about = {**pool.dataset.about, "labelling": "From logs. Nobody has looked at the labels.", "notes": {"a": 1}}
    write_dataset(replace(pool.dataset, about=about), folder)
    answered(folder, pool, 15)
    card = read_dataset(folder).about
    assert card["labelling"] == (
        "From logs. Since then people have labelled: of 60 labels now, by source: 45 trace (75.0%), 15 person (25.0%). "
        "Of 60 queries, 15 are labelled in full (0 of them need nothing), 45 in part."
    )
    sources = {"person": {"labels": 15, "share": 0.25}, "trace": {"labels": 45, "share": 0.75}}
    assert card["notes"] == {"a": 1, "label_sources": sources}
    before = (folder / "dataset.yaml").read_bytes()
    with opened(folder) as work:
        work.save()
    assert (folder / "dataset.yaml").read_bytes() == before
    answered(folder, pool, 3)
    assert read_dataset(folder).about["labelling"].count("Since then") == 1
    assert "18 person (30.0%)" in read_dataset(folder).about["labelling"]
