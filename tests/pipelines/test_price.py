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
from ctxbench.model.strategies import Step
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.pipelines.strategies.rank import PROBABILITY_COLUMN, WAIVED, Price

CATALOG = Catalog([Item(type="tool", name=name) for name in ("one", "two", "three", "four")])
COSTS = (50, 150, 50, 0)


class Costs:
    """Token counts that are given."""

    def tokens(self, catalog: Catalog, items=None) -> np.ndarray:
        assert catalog is CATALOG
        return np.array(COSTS, dtype=np.int64)


def priced(
    *scores: list[float], overhead: int = 50, sure: float | None = None, origin: list[int] | None = None
) -> Candidates:
    """Items 0, 1, ... of each request with these probabilities, priced."""
    requests = [Request(id=str(i), text="x") for i in range(len(scores))]
    query = Query.of_chunks(Batch.of(CATALOG, requests), [["x"]] * len(scores))
    columns = {} if origin is None else {"origin": np.array(origin)}
    request = np.repeat(np.arange(len(scores)), [len(row) for row in scores])
    item = np.concatenate([np.arange(len(row)) for row in scores]).astype(np.int64)
    score = np.concatenate(scores).astype(np.float64)
    table = Candidates.build(len(scores), request, item, score=score, **columns)
    return Price(overhead, sure)(query, table, Costs())


def by_item(values: np.ndarray, table: Candidates) -> list[float]:
    return values[np.argsort(table.item)].tolist()


def by_request(values: np.ndarray, table: Candidates) -> list[list[float]]:
    return [values[table.rows(request)].tolist() for request in range(table.n_requests)]


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


class TestSure:
    """Item 1 costs 200 with the overhead, items 0 and 2 cost 100, item 3 costs 50."""

    LEAD = math.log(7 / 3) - math.log(6 / 4)  # log odds of 0.7 less those of 0.6

    def test_an_item_that_leads_by_the_bound_comes_first_whatever_it_costs(self):
        after = priced([0.6, 0.7, 0.5], sure=self.LEAD - 1e-9)
        assert after.item.tolist() == [1, 0, 2]
        assert after.columns[WAIVED].tolist() == [1.0, 0.0, 0.0]
        assert after.chunk_rank.tolist() == [0, 1, 2]
        assert 0 < after.score[0] - after.score[1] < 1e-4  # just above what would be first at its price
        assert after.columns[PROBABILITY_COLUMN].tolist() == [0.7, 0.6, 0.5]

    def test_the_others_keep_their_scores(self):
        plain, after = priced([0.6, 0.7, 0.5]), priced([0.6, 0.7, 0.5], sure=self.LEAD - 1e-9)
        assert by_item(after.score, after)[::2] == by_item(plain.score, plain)[::2]

    def test_below_the_bound_the_price_counts(self):
        plain, after = priced([0.6, 0.7, 0.5]), priced([0.6, 0.7, 0.5], sure=self.LEAD + 1e-9)
        assert after.item.tolist() == plain.item.tolist() == [0, 1, 2]
        assert after.score.tolist() == plain.score.tolist()
        assert after.columns[WAIVED].tolist() == [0.0, 0.0, 0.0]

    def test_the_bound_itself_is_enough(self):
        lead = (math.log(0.625) - math.log1p(-0.625)) - (math.log(0.5) - math.log1p(-0.5))
        assert priced([0.5, 0.625], sure=lead).columns[WAIVED].tolist() == [1.0, 0.0]
        assert priced([0.5, 0.625], sure=np.nextafter(lead, np.inf)).columns[WAIVED].tolist() == [0.0, 0.0]

    def test_an_item_that_is_first_at_its_price_has_nothing_waived(self):
        plain, after = priced([0.9, 0.2, 0.2]), priced([0.9, 0.2, 0.2], sure=0.5)
        assert after.score.tolist() == plain.score.tolist()
        assert after.columns[WAIVED].tolist() == [0.0, 0.0, 0.0]

    def test_of_items_that_are_as_likely_none_leads(self):
        after = priced([0.4, 0.9, 0.9], sure=0.1)
        assert after.item.tolist() == [2, 1, 0]  # the cheaper of both
        assert after.columns[WAIVED].tolist() == [0.0, 0.0, 0.0]

    def test_with_a_bound_of_0_none_of_those_leads_that_are_as_likely(self):
        after = priced([0.4, 0.9, 0.9], sure=0.0)
        assert after.item.tolist() == priced([0.4, 0.9, 0.9]).item.tolist()
        assert after.columns[WAIVED].tolist() == [0.0, 0.0, 0.0]

    def test_a_single_item_leads_and_has_nothing_waived(self):
        plain, after = priced([0.2]), priced([0.2], sure=20.0)
        assert (after.score.tolist(), after.columns[WAIVED].tolist()) == (plain.score.tolist(), [0.0])

    def test_each_request_has_its_own_leader(self):
        after = priced([0.6, 0.7], [0.7, 0.6], [], [0.3, 0.9, 0.2], [0.5], sure=self.LEAD - 1e-9)
        assert by_request(after.item, after) == [[1, 0], [0, 1], [], [1, 0, 2], [0]]
        assert by_request(after.columns[WAIVED], after) == [[1.0, 0.0], [0.0, 0.0], [], [0.0, 0.0, 0.0], [0.0]]

    def test_a_batch_equals_its_requests(self):
        requests = [[0.6, 0.7], [0.7, 0.6, 0.1, 0.1], [0.3, 0.9, 0.2], [0.5], [0.999, 0.9999, 1.0, 0.0]]
        whole = priced(*requests, sure=0.4)
        for row, scores in enumerate(requests):
            alone = priced(scores, sure=0.4)
            assert alone.score.tobytes() == whole.score[whole.rows(row)].tobytes()
            assert alone.item.tolist() == whole.item[whole.rows(row)].tolist()
            assert alone.columns[WAIVED].tolist() == whole.columns[WAIVED][whole.rows(row)].tolist()

    def test_session_items_neither_lead_nor_are_led(self):
        after = priced([math.nan, 0.7, 0.6], origin=[0, 1, 1], sure=self.LEAD - 1e-9)
        assert by_item(after.columns[WAIVED], after)[1:] == [1.0, 0.0]
        assert np.isnan(by_item(after.columns[WAIVED], after)[0])
        assert math.isnan(by_item(after.score, after)[0])

    def test_nothing_found_has_no_leader(self):
        assert priced([], sure=1.0).columns[WAIVED].tolist() == []

    def test_without_a_bound_nothing_is_waived_and_there_is_no_column(self):
        after = priced([0.001, 0.999])
        assert WAIVED not in after.columns
        assert Price() == Price(50, None)

    def test_what_was_stored_before_there_was_a_bound_is_described_as_it_was(self):
        assert "sure" not in Step("rank", "price", Price()).describe()
        assert Step("rank", "price", Price(sure=1.25)).describe()["sure"] == 1.25

    @pytest.mark.parametrize("sure", [-0.1, math.nan])
    def test_a_bound_below_0_is_refused(self, sure):
        with pytest.raises(ParameterError, match=f"sure must be 0 or more, got {sure}"):
            Price(sure=sure)


@pytest.mark.parametrize("overhead", [0, -1])
def test_an_overhead_below_1_is_refused(overhead):
    with pytest.raises(ParameterError, match=f"overhead must be 1 or more, got {overhead}"):
        Price(overhead)


def test_it_declares_the_tokens():
    assert Price().uses == ("tokens",)


@pytest.mark.parametrize("parameters", [{}, {"overhead": 1}, {"sure": 0.1}])
def test_it_conforms_behind_scores_from_0_to_1(parameters):
    testing.check_step("rank", "price", parameters, retrieve="random", processes=0)
