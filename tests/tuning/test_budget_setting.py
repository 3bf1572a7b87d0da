"""A budget of tokens on requests without labels: prices worked by hand, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from ctxbench import testing
from ctxbench.datasets.lookup import open_dataset
from ctxbench.io.errors import InputError, ParameterError, UserError
from ctxbench.model.candidates import Candidates
from ctxbench.model.requests import Batch
from ctxbench.selectors.definitions import definition
from ctxbench.selectors.protocol import request_rows
from ctxbench.tuning.preset_files import MAX_REQUESTS, Prices, budget_setting, read_requests, sample_requests

# two requests; tokens of items 0 to 3
TOKENS = np.array([10, 20, 40, 80])


def prices(*scores: list[float], ceiling: int = 100) -> Prices:
    request = np.repeat(np.arange(len(scores)), [len(own) for own in scores])
    item = np.concatenate([np.arange(len(own)) for own in scores]).astype(np.int64)
    table = Candidates.build(len(scores), request, item, score=np.concatenate(scores))
    return Prices.of_table(table, TOKENS, ceiling=ceiling)


class TestPrices:
    def test_what_a_setting_costs(self):
        held = prices([5.0, 4.0, 1.0], [3.0, 2.5])
        assert held.tokens(1, -20.0) == 10.0
        assert held.tokens(3, -20.0) == (10 + 20 + 40 + 10 + 20) / 2
        assert held.tokens(3, 4.0) == (10 + 20 + 10) / 2
        assert held.items(3, 4.0) == 1.5
        assert held.tokens(3, 20.0) == 10.0  # the best item of a request is offered whatever it scores

    def test_a_cap_comes_before_a_threshold(self):
        held = prices([5.0, 4.0, 1.0], [3.0, 2.5])
        # two items each cost 30 on average, so that a cap of 2 reaches it, and one more
        at_most, threshold = held.setting_within(20.0)
        assert at_most == 3
        assert 2.5 < threshold <= 4.0
        assert held.tokens(at_most, threshold) == 20.0

    def test_the_threshold_is_within_its_range(self):
        held = prices([5.0, -7.0, -30.0])
        at_most, threshold = held.setting_within(1000.0)
        assert -20.0 <= threshold <= -7.0
        assert held.tokens(at_most, threshold) == 10 + 20

    def test_the_budget_is_never_exceeded(self):
        held = prices([5.0, 4.0, 1.0, 0.5], [3.0, 2.5, 2.4, 2.3])
        for budget in range(10, 160, 7):
            assert held.tokens(*held.setting_within(float(budget))) <= budget

    def test_more_than_all_there_is(self):
        held = prices([5.0, 4.0], [3.0])
        assert held.tokens(*held.setting_within(1000.0)) == (10 + 20 + 10) / 2

    def test_equal_scores_are_offered_together_or_not_at_all(self):
        held = prices([5.0, 4.0, 4.0])
        assert held.tokens(*held.setting_within(69.0)) == 10.0
        assert held.tokens(*held.setting_within(70.0)) == 70.0

    def test_below_one_item_is_refused(self):
        with pytest.raises(ParameterError, match=r"a budget of 9 tokens is below one item: .* costs 10 on average"):
            prices([5.0, 4.0]).setting_within(9.0)

    def test_the_least_budget_that_is_named_is_enough(self):
        some = replace(prices([5.0], [3.0]), cost=np.array([10, 11]))
        with pytest.raises(ParameterError, match="costs 11 on average"):
            some.setting_within(10.0)
        assert some.tokens(*some.setting_within(11.0)) == 10.5

    def test_nothing_found_is_refused(self):
        with pytest.raises(ParameterError, match="no item is found for any of the requests"):
            prices([]).setting_within(50.0)

    def test_tokens_by_request_have_the_mean_that_a_setting_costs(self):
        held = prices([5.0, 4.0, 1.0], [3.0, 2.5], [])
        assert held.by_request(3, 4.0).tolist() == [30.0, 10.0, 0.0]
        assert held.by_request(3, 4.0).mean() == held.tokens(3, 4.0)

    def test_the_mean_on_other_requests_is_as_uncertain_as_its_standard_error_says(self):
        held = prices(*[[5.0, 4.9], [5.0, 1.0]] * 20)
        assert held.by_request(2, 2.0).tolist() == [30.0, 10.0] * 20
        assert held.uncertainty(2, 2.0) == pytest.approx(1.959964 * 10.0 / np.sqrt(40) / 20.0)
        assert held.uncertainty(2, 0.0) == 0.0  # all cost the same

    @pytest.mark.parametrize(("times", "most"), [(20, 2), (60, 3)])
    def test_fewer_items_are_allowed_where_requests_would_cost_too_unevenly(self, times, most):
        """The mean of 40 such requests is uncertain by 15%, that of 120 by 9%."""
        held = prices(*[[5.0, 4.9, 4.8], [5.0, 1.0, 1.0]] * times)
        setting = held.setting_within(20.0)
        assert setting[0] == most
        assert held.tokens(*setting) == 20.0


class TestSetting:
    def batch(self):
        return Batch.of(testing.mock_catalog(), testing.mock_requests())

    def test_it_costs_at_most_the_budget_when_it_is_run(self):
        learned, resources, batch = definition("learned"), testing.mock_resources(), self.batch()
        found = budget_setting(learned, learned.values(), batch, resources, tokens=60.0)
        table = learned.pipeline(found.values).run(batch, resources).candidates
        cost = resources.tokens(batch.catalog)[table.item]
        spent = cost[table.chosen & (table.origin == 1)].sum() / len(batch)
        assert spent == pytest.approx(found.tokens)
        assert spent <= 60.0
        assert found.interval.low < found.tokens < found.interval.high
        assert not found.interval.holds  # too few requests
        assert found.needed > len(batch)

    def test_another_cut_is_refused(self):
        bm25 = definition("bm25")
        with pytest.raises(ParameterError, match="as `learned`; selector 'bm25' does not"):
            budget_setting(bm25, bm25.values(), self.batch(), testing.mock_resources(), tokens=60.0)


class TestRequests:
    def test_a_line_each(self, tmp_path):
        (tmp_path / "r.txt").write_text("one\n\ntwo\n", encoding="utf-8")
        assert [request.text for request in read_requests(str(tmp_path / "r.txt"))] == ["one", "two"]

    def test_json_lines(self, tmp_path):
        rows = [{"text": "one", "_id": "a"}, {"text": "two"}]
        (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        assert [request.text for request in read_requests(str(tmp_path / "r.jsonl"))] == ["one", "two"]

    def test_what_export_writes_for_a_command(self, tmp_path):
        dataset = open_dataset("smoke")
        path = tmp_path / "r.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in request_rows(dataset)), encoding="utf-8")
        assert [one.text for one in read_requests(str(path))] == [query.request.text for query in dataset.queries]

    def test_an_id_is_not_proposed_as_the_text(self, tmp_path):
        (tmp_path / "r.jsonl").write_text('{"query": "q1", "question": "what is open?"}\n', encoding="utf-8")
        with pytest.raises(InputError, match="got 'query', 'question'; rename 'question' to `text`"):
            read_requests(str(tmp_path / "r.jsonl"))

    def test_a_row_without_a_text_is_named(self, tmp_path):
        (tmp_path / "r.jsonl").write_text('{"text": "one"}\n{"query": "two"}\n', encoding="utf-8")
        with pytest.raises(InputError, match="expected an object with `text`"):
            read_requests(str(tmp_path / "r.jsonl"))

    def test_equal_faults_are_one_with_the_field_that_may_be_the_text(self, tmp_path):
        row = '{"query": "two", "expected": []}\n'
        (tmp_path / "r.jsonl").write_text('{"text": "one"}\n' + 3 * row + '{"text": 3}\n', encoding="utf-8")
        with pytest.raises(InputError) as caught:
            read_requests(str(tmp_path / "r.jsonl"))
        first, second = caught.value.faults
        assert (first.line, second.line) == (2, 5)
        assert first.message.endswith("got 'query', 'expected'; rename 'query' to `text`; the same in 2 more lines")
        assert second.message == "expected an object with `text`, got text 3"

    def test_an_empty_file_is_refused(self, tmp_path):
        (tmp_path / "r.txt").write_text("\n", encoding="utf-8")
        with pytest.raises(InputError, match="no request"):
            read_requests(str(tmp_path / "r.txt"))

    def test_what_is_not_there_is_refused(self, tmp_path):
        with pytest.raises(UserError, match=r"there is no file and no dataset '.*none.txt'; expected a text file"):
            read_requests(str(tmp_path / "none.txt"))

    def test_of_many_some_are_drawn_evenly(self):
        many = sample_requests(list(range(3 * MAX_REQUESTS)))
        assert (len(many), many[:2], many[-1]) == (MAX_REQUESTS, [0, 3], 3 * MAX_REQUESTS - 3)
