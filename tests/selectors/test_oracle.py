"""The oracle offers what the labels require, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ctxbench import testing
from ctxbench.io.errors import ParameterError
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Request, SessionItem
from ctxbench.selectors.definitions import find_definition
from ctxbench.selectors.selector import Oracle

ITEMS = Catalog(
    [
        Item(type="tool", name="long", description="a description of many words " * 9),
        Item(type="tool", name="short"),
        Item(type="tool", name="twin!"),  # as many letters as `short`
        Item(type="rule", name="other", text="Other."),
    ]
)
LONG, SHORT, TWIN, OTHER = (item.key for item in ITEMS)


def oracle(**required) -> Oracle:
    return Oracle("oracle", testing.mock_resources(), required=required)


def offered(selector: Oracle, *requests: Request) -> list[list[int]]:
    table = selector.select(Batch.of(ITEMS, requests)).candidates
    found = table.origin > 0
    return [table.item[table.rows(row)][found[table.rows(row)]].tolist() for row in range(len(requests))]


def test_every_requirement_is_met_and_of_alternatives_by_the_cheapest_the_first_of_equals():
    assert offered(oracle(q=((LONG, SHORT), (OTHER,))), Request(id="q", text="x")) == [[1, 3]]
    assert offered(oracle(q=((TWIN, SHORT),)), Request(id="q", text="x")) == [[1]]


def test_what_a_request_cannot_get_is_not_offered():
    asked = oracle(q=((SHORT, LONG), (OTHER,)), r=((OTHER,),))
    requests = (Request(id="q", text="x", available=(LONG,)), Request(id="r", text="x", available=()))
    assert offered(asked, *requests) == [[0], []]
    assert offered(oracle(q=((Item(type="tool", name="gone").key,),)), Request(id="q", text="x")) == [[]]


def test_what_the_session_holds_is_met_already():
    held = Request(id="q", text="x", session=(SessionItem(LONG, "manual"),))
    selector = oracle(q=((SHORT, LONG), (OTHER,)))
    assert offered(selector, held) == [[3]]
    answers = selector.select(Batch.of(ITEMS, [held]))
    assert answers.candidates.item.tolist() == [0, 3], "the session's items stand in front"
    assert (answers.ranked, answers.scored) == (True, True)


def test_a_request_that_needs_nothing_gets_nothing_and_no_request_is_no_error():
    assert offered(oracle(q=()), Request(id="q", text="")) == [[]]
    assert offered(oracle()) == []


def test_without_labels_it_says_that_it_needs_them():
    with pytest.raises(ParameterError, match="works only in an experiment over labelled datasets"):
        Oracle("oracle", testing.mock_resources()).select(Batch.of(ITEMS, [Request(id="q", text="x")]))
    with pytest.raises(ParameterError, match="no labels of query 'other'"):
        offered(oracle(q=()), Request(id="other", text="x"))
    with pytest.raises(ParameterError, match="works only in an experiment over labelled datasets"):
        find_definition("oracle")


def test_it_conforms():
    requests = testing.mock_requests()
    keys = [item.key for item in testing.mock_catalog()]
    required = {one.id: (tuple(keys[:2]), (keys[-1],)) for one in requests}
    alone = Oracle("oracle", testing.mock_resources())
    testing.check_selector(replace(alone, required=required), requests=requests)
    assert alone.describe() == replace(alone, required=required).describe(), (
        "labels are the dataset's, not the selector's"
    )


def test_scores_are_equal_so_that_the_catalog_orders():
    table = oracle(q=((OTHER,), (SHORT,))).select(Batch.of(ITEMS, [Request(id="q", text="x")])).candidates
    assert table.item.tolist() == [1, 3]
    assert np.array_equal(table.score, [1.0, 1.0])
