"""The step `price`: log odds less the log of the price, worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ctxbench import testing
from ctxbench.io.errors import ParameterError
from ctxbench.model.candidates import Candidates
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Query, Request
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.pipelines.strategies.rank import PROBABILITY_COLUMN, Price

CATALOG = Catalog([Item(type="tool", name=name) for name in ("one", "two", "three", "four")])
COSTS = (50, 150, 50, 0)


class Costs:
    """Token counts that are given."""

    def tokens(self, catalog: Catalog, items=None) -> np.ndarray:
        assert catalog is CATALOG
        return np.array(COSTS, dtype=np.int64)


def priced(scores: list[float], *, overhead: int = 50, origin: list[int] | None = None) -> Candidates:
    query = Query.of_chunks(Batch.of(CATALOG, [Request(id="0", text="x")]), [["x"]])
    n = len(scores)
    given = {} if origin is None else {"origin": np.array(origin)}
    table = Candidates.build(1, np.zeros(n, np.int64), np.arange(n), score=np.array(scores, np.float64), **given)
    return Price(overhead)(query, table, Costs())


def by_item(values: np.ndarray, table: Candidates) -> list[float]:
    return values[np.argsort(table.item)].tolist()


def test_log_odds_less_the_log_of_the_price():
    after = priced([0.8, 0.8, 0.5, 0.5])
    assert by_item(after.score, after) == pytest.approx(
        [math.log(4) - math.log(100), math.log(4) - math.log(200), -math.log(100), -math.log(50)], abs=1e-12
    )
    assert by_item(after.columns[PROBABILITY_COLUMN], after) == [0.8, 0.8, 0.5, 0.5]


def test_the_likely_for_its_price_comes_first():
    after = priced([0.6, 0.7, 0.5, 0.3])
    # 1.5 / 100 = 0.015; 7/3 / 200 = 0.0117; 1 / 100 = 0.01; 3/7 / 50 = 0.0086
    assert after.item.tolist() == [0, 1, 2, 3]
    assert np.exp(after.score).tolist() == pytest.approx([0.015, 7 / 600, 0.01, 3 / 350])
    assert after.chunk_rank.tolist() == [0, 1, 2, 3]


def test_a_cheaper_item_overtakes_a_likelier_one():
    after = priced([0.6, 0.7, 0.5, 0.4])
    # 0.015, 0.0117, 0.01; 2/3 / 50 = 0.0133
    assert after.item.tolist() == [0, 3, 1, 2]
    assert after.chunk_rank.tolist() == [0, 1, 2, 3]
    assert after.columns[PROBABILITY_COLUMN].tolist() == [0.6, 0.4, 0.7, 0.5]


def test_the_overhead_says_how_much_the_price_counts():
    dear = priced([0.7, 0.75], overhead=1_000_000)
    assert dear.item.tolist() == [1, 0]
    assert priced([0.7, 0.75], overhead=1).item.tolist() == [0, 1]


def test_ties_keep_catalog_order():
    after = priced([0.5, 0.2, 0.5])
    assert after.item.tolist() == [0, 2, 1]
    assert after.score[0] == after.score[1]


def test_certain_ones_are_finite_and_stand_at_the_ends():
    after = priced([1.0, 0.999999, 0.0, 1e-9])
    assert after.item.tolist() == [0, 1, 3, 2]
    assert np.isfinite(after.score).all()
    assert after.columns[PROBABILITY_COLUMN].tolist() == [1.0, 0.999999, 1e-9, 0.0]
    assert after.score[3] == pytest.approx(math.log(1e-15) - math.log(100), rel=1e-9)


def test_equally_certain_ones_go_by_price():
    assert priced([1.0, 1.0, 1.0, 1.0]).item.tolist() == [3, 0, 2, 1]
    assert priced([0.0, 0.0, 0.0, 0.0]).item.tolist() == [3, 0, 2, 1]


def test_session_items_stay_as_they_are_and_expansions_are_priced():
    after = priced([math.nan, 0.5, 0.5], origin=[0, 1, 2])
    assert (sorted(after.item.tolist()), after.tier.tolist()) == ([0, 1, 2], [0, 1, 1])
    assert after.score[after.item == 1].tolist() == pytest.approx([-math.log(200)], rel=1e-12)
    assert np.isnan(after.columns[PROBABILITY_COLUMN]).tolist() == [True, False, False]


def test_nothing_found_is_nothing_priced():
    after = priced([])
    assert (len(after), after.columns[PROBABILITY_COLUMN].tolist()) == (0, [])


@pytest.mark.parametrize("wrong", [1.5, -0.25])
def test_a_score_that_is_no_probability_is_an_error(wrong):
    with pytest.raises(ParameterError, match=f"price needs a probability as score, got {wrong}; put `probability`"):
        priced([0.5, wrong])


def test_twice_is_an_error():
    pipeline = Pipeline.of({"retrieve": "random", "refine": ["price", "price"]})
    with pytest.raises(ParameterError, match="price needs a probability as score, got -"):
        pipeline.run(Batch.of(testing.mock_catalog(), testing.mock_requests()), testing.mock_resources())


@pytest.mark.parametrize("overhead", [0, -1])
def test_an_overhead_below_1_is_refused(overhead):
    with pytest.raises(ParameterError, match=f"overhead must be 1 or more, got {overhead}"):
        Price(overhead)


def test_it_declares_the_tokens():
    assert Price().uses == ("tokens",)


@pytest.mark.parametrize("parameters", [{}, {"overhead": 1}])
def test_it_conforms_behind_scores_from_0_to_1(parameters):
    testing.check_step("rank", "price", parameters, retrieve="random", processes=0)
