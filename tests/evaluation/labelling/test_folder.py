from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ctxbench.errors import ParameterError
from ctxbench.evaluation.datasets.files import read_dataset, write_dataset
from ctxbench.evaluation.labelling.folder import opened
from ctxbench.evaluation.labelling.predict import Predictor
from ctxbench.evaluation.labelling.session import Reply


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
            session.answer(session.next(), Reply("done"))
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
        session.answer(prompt, Reply("done"))  # and no save
    assert len(read_dataset(folder).judged()) == 0
    with (folder / "labelling" / "answers.jsonl").open("a") as log:
        log.write('{"n": 2, "kin')
    with opened(folder) as work:
        assert len(work.dataset.judged()) == 1
        assert "cut short" in work.notes[0]
        assert "1 queries answered earlier" in work.notes[1]
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
        with pytest.raises(ParameterError, match="was drawn to narrow wide"):
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
    with pytest.raises(ParameterError, match="no folder of a dataset"), opened(tmp_path):
        pass
