"""What the page says of items that are shown in part, and of what was late, failed or fell back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ctxbench.evaluation.metrics import parse_metric
from ctxbench.model.candidates import Note
from ctxbench.report.run_page import dataset_payload
from ctxbench.report.run_tables import column_words, note_text
from tests.report.conftest import MadeRun, make_run, manifest

NOTE = Note("plan", "fell back", "no model answered; the keywords were taken", query="q1")


@pytest.fixture
def run(tmp_path: Path) -> MadeRun:
    """A run of which the first query is shown the beginning of what it requires, beside a note."""
    made = make_run(tmp_path)
    part, dataset = made.folder.load("desk", "semantic/normal"), made.datasets["desk"]
    whole = part.answers.joined()
    table = whole.candidates
    rows = (table.request == 0) & (table.item == dataset.catalog.position("reference:Schema"))
    assert (rows & table.chosen).sum() == 1
    shown = table.showing(rows, np.array([0]), np.array([9]), np.array([4])).noted(NOTE)
    made.folder.save(replace(part, answers=replace(whole, candidates=shown)), dataset.catalog)
    made.folder.write("manifest.json", manifest(made.datasets))
    return made


def test_a_part_has_its_price_and_does_not_meet_what_it_does_not_hold(run: MadeRun) -> None:
    dataset = run.datasets["desk"]
    parts = [run.folder.load("desk", "semantic/normal")]
    (selector,) = dataset_payload(dataset, parts, run.tokens["desk"])["selectors"]
    before = make_run(run.folder.path / "other").folder.load("desk", "semantic/normal")
    (whole,) = dataset_payload(dataset, [before], run.tokens["desk"])["selectors"]
    assert (whole["missed"][0], selector["missed"][0]) == (0, 1)
    spent = int(run.tokens["desk"][dataset.catalog.position("reference:Schema")])
    assert whole["tokens"][0] - selector["tokens"][0] == spent - 4
    assert (whole["trace"], selector["trace"]) == ({}, {"0": [str(NOTE)]})


@pytest.mark.rest  # needs Chromium
def test_the_page_says_what_is_shown_and_what_fell_back(browser: Any, run: MadeRun) -> None:
    page = browser.new_page()
    trouble: list[str] = []
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.goto(run.write().as_uri() + "#desk/semantic%2Fnormal/q1")
    texts = [" ".join(text.split()) for text in page.locator(".requirement").all_inner_texts()]
    assert texts[0].startswith("missed reference Schema rank 2, score 0.7160 Only a part of it is shown, without what")
    row = page.locator(".offered tr", has_text="Schema").first.inner_text()
    assert "shown in part: characters 1 to 9, without what the query needs" in row
    assert row.split()[-1] == "4"
    assert page.locator(".offered").get_by_text(str(NOTE)).count() == 1
    assert trouble == []
    page.close()


def test_what_a_selector_says_of_its_answers_is_said_in_words():
    told = {"without_ranking": 400, "from_cache": 1, "builds": ["by hand"], "own": 3}
    assert [note_text(name, value) for name, value in told.items()] == [
        "400 queries without a ranking, which have no ranking metrics",
        "1 answer kept from before",
        "builds that answered: by hand",
        "own 3",
    ]
    left = {"answers_not_asked_for": 2, "first_not_asked_for": ["q77", "q78"]}
    assert [note_text(name, value) for name, value in left.items()] == [
        "2 answers to queries that the dataset does not have",
        "first of these q77 and q78",
    ]


def test_columns_are_explained_that_of_several_k_once():
    titles = {"complete": "completeness", "Comp@1": "Comp@1", "Comp@5": "Comp@5"}
    columns = [(title, parse_metric(name)) for title, name in titles.items()]
    assert column_words(columns) == (
        "Complete: share of queries whose required items were all offered, or in the session. Comp@k: share of queries "
        "whose required items are all among the first k ranks, or in the session."
    )
    assert "the first 5 ranks" in column_words(columns[2:])
    assert column_words([]) == ""
