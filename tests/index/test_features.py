"""Features of candidates and requests: values worked by hand, and what they may not depend on."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from ctxbench import testing
from ctxbench.candidates import SEARCHED, Candidates
from ctxbench.index.features import (
    REQUEST,
    RETRIEVED,
    ROW,
    found_rows,
    request_features,
    request_vectors,
    row_features,
    values_in,
)
from ctxbench.items import Catalog, Item
from ctxbench.pipeline import Pipeline
from ctxbench.query import Query
from ctxbench.requests import Batch, Request

SCHEMA = {
    "type": "object",
    "properties": {"base": {"type": "number"}, "height": {"type": "number"}, "unit": {"type": "string"}},
    "required": ["base", "height"],
}
CATALOG = Catalog(
    [
        Item(type="tool", name="triangle_area", description="The area of a triangle.", schema=SCHEMA),
        Item(type="rule", name="tone", description="How to write.", text="Be brief."),
        Item(type="reference", name="prices", text="What a triangle costs."),
    ]
)


def asked(*texts: str) -> Query:
    batch = Batch.of(CATALOG, [Request(id=str(i), text=text) for i, text in enumerate(texts)])
    return Query.of_chunks(batch, [[text] if text else [] for text in texts])


def table(*scores: list[float], **given: np.ndarray) -> Candidates:
    request = np.repeat(np.arange(len(scores)), [len(own) for own in scores])
    item = np.concatenate([np.arange(len(own)) for own in scores]).astype(np.int64)
    return Candidates.build(len(scores), request, item, score=np.concatenate(scores), **given)


def features(query: Query, candidates: Candidates) -> list[dict[str, float]]:
    _, values = row_features(query, candidates, testing.mock_resources())
    return [dict(zip(ROW, row, strict=True)) for row in values.tolist()]


class TestRows:
    def test_scores_margins_and_places(self):
        rows = features(asked("zzz"), table([0.9, 0.5, 0.5]))
        assert [row["score"] for row in rows] == [0.9, 0.5, 0.5]
        assert [row["margin"] for row in rows] == pytest.approx([0.0, 0.4, 0.4])
        assert [row["place"] for row in rows] == pytest.approx([0.0, math.log(2), math.log(2)])  # a tie has one place

    def test_shared_words_count_by_how_few_items_have_them(self):
        (row, *_) = features(asked("triangles zzz"), table([0.9, 0.5, 0.4]))
        triangle, unknown = math.log(1 + (3 - 2 + 0.5) / 2.5), math.log(1 + 3.5 / 0.5)
        assert row["query_in_name"] == pytest.approx(triangle / (triangle + unknown))
        area = math.log(1 + (3 - 1 + 0.5) / 1.5)  # only the tool has it
        assert row["description_in_query"] == pytest.approx(triangle / (triangle + area))
        assert row["body_in_query"] == 0.0
        assert row["unknown_share"] == 0.5

    def test_slots_are_held_against_the_numbers_of_the_request(self):
        (one, rule, _) = features(asked("The area of a triangle with base 10 in cm"), table([0.9, 0.5, 0.4]))
        assert (one["tool"], one["rule"], rule["tool"], rule["rule"]) == (1, 0, 0, 1)
        assert one["parameters"] == pytest.approx(math.log(4))
        assert one["required"] == one["required_numbers"] == pytest.approx(math.log(3))
        assert one["numbers"] == pytest.approx(math.log(2))
        assert (one["numbers_lacking"], rule["numbers_lacking"]) == (1.0, 0.0)

    def test_quotes_capitals_and_questions(self):
        (row, *_) = features(asked("Send 'a b' to \"Ann\" in Oslo. Is Öl ok?"), table([0.9, 0.5, 0.4]))
        assert row["quoted"] == pytest.approx(math.log(3))
        assert row["capitalised"] == pytest.approx(math.log(2))  # Oslo; Is begins a sentence
        assert row["question"] == 1.0
        assert row["not_ascii"] == pytest.approx(1 / 38)

    def test_bm25_is_a_share_of_the_best_in_the_catalog(self):
        tool, _, prices = features(asked("area triangle"), table([0.9, 0.5, 0.4]))
        assert tool["bm25_share"] == 1.0
        assert 0 < prices["bm25_share"] < 1

    def test_they_do_not_depend_on_how_many_items_a_request_may_get(self):
        few = Batch.of(CATALOG, [Request(id="0", text="area", available=(CATALOG[0].key,))])
        alone = features(Query.of_chunks(few, [["area"]]), table([0.9]))
        assert alone[0] == features(asked("area"), table([0.9, 0.5, 0.4]))[0]

    def test_a_batch_equals_its_requests(self):
        texts = ("The area of 3 triangles", "", "tone")
        scores = [[0.9, 0.5, 0.4], [0.1, 0.1, 0.0], [0.2, 0.1, 0.05]]
        together = features(asked(*texts), table(*scores))
        alone = [row for text, own in zip(texts, scores, strict=True) for row in features(asked(text), table(own))]
        assert together == alone

    def test_nothing_found_has_no_rows(self):
        rows, values = row_features(asked("area"), Candidates.empty(1), testing.mock_resources())
        assert (rows.shape, values.shape) == ((0,), (0, len(ROW)))


class TestSlots:
    @pytest.mark.parametrize(
        ("text", "values"),
        [
            ("book a flight", 0),
            ("Book a flight from Paris to New York on Friday", 3),  # a name of two words is one
            ("i may fly on friday", 1),
            ("set it to 3.5 or 1,000", 2),
            ("find 'x y 7' and \"Z\"", 2),  # what is quoted counts once
            ("mail a@b.org tomorrow, see https://x.org", 3),
        ],
    )
    def test_values_are_counted(self, text, values):
        assert values_in(text) == values

    def test_they_are_held_against_the_required_parameters(self):
        tool, rule, _ = features(asked("with base 10"), table([0.9, 0.5, 0.4]))
        assert (tool["slots_lacking"], rule["slots_lacking"]) == (1.0, 0.0)
        assert (tool["slots_filled"], rule["slots_filled"]) == (pytest.approx(2 / 3), 1.0)

    def test_lengths_have_a_bend(self):
        (row, *_) = features(asked("one two three four five"), table([0.9, 0.5, 0.4]))
        assert row["words_over_4"] == pytest.approx(math.log(6) - math.log(5))
        assert row["words_over_9"] == 0.0


class TestFoundRows:
    def test_the_score_of_retrieval_counts_where_another_took_its_place(self):
        held = table([0.2, 0.1, 0.9]).with_columns(**{RETRIEVED: np.array([0.4, 0.7, 0.6])})
        rows, score = found_rows(held)  # the rows stand as items 2, 0, 1
        assert held.item[rows].tolist() == [0, 1, 2]
        assert score.tolist() == [0.7, 0.6, 0.4]

    def test_what_an_expansion_took_over_keeps_its_place_in_the_search(self):
        origin = np.array([1, 1, 2])
        column = np.array([np.nan, np.nan, 0.6])
        held = replace(table([0.9, 0.5, 0.3], origin=origin), columns={SEARCHED: column})
        rows, score = found_rows(held)
        assert held.item[rows].tolist() == [0, 2, 1]
        assert score.tolist() == [0.9, 0.6, 0.5]

    def test_sessions_and_what_only_an_expansion_found_are_no_rows(self):
        rows, _ = found_rows(table([0.9, 0.5, 0.3], origin=np.array([0, 1, 2])))
        assert rows.tolist() == [1]


class TestRequests:
    def test_the_best_row_and_the_largest_of_all(self):
        requests, values = request_features(asked("zzz", "", "prices of a triangle"), table([0.9], [], [0.8, 0.2, 0.1]),
                                            testing.mock_resources())  # fmt: skip
        assert requests.tolist() == [0, 2]
        row = dict(zip(REQUEST, values[1].tolist(), strict=True))
        assert row["best.score"] == 0.8
        assert row["best.tool"] == 1.0
        assert row["most.query_in_item"] == 1.0 > row["best.query_in_item"]  # the reference has both words

    def test_vectors_are_means_of_chunks(self):
        resources, query = testing.mock_resources(), asked("one", "two")
        two = replace(query, start=np.array([0, 2, 2]))
        vectors = resources.vectors(["one", "two"]).astype(np.float64)
        means = request_vectors(two, np.array([0, 1]), resources)
        assert means[0] == pytest.approx((vectors[0] + vectors[1]) / 2)
        assert not means[1].any()

    def test_without_a_chunk_nothing_is_embedded(self):
        resources = testing.mock_resources()
        assert request_vectors(asked(""), np.array([0]), resources).shape == (1, 0)
        assert resources.stats.embedded == 0

    def test_the_pipeline_of_the_mocks_gives_finite_numbers(self):
        batch = Batch.of(testing.mock_catalog(), testing.mock_requests())
        for retrieve in ("dense", "everything", {"merge": ["dense", "bm25"]}):
            resources = testing.mock_resources()
            outcome = Pipeline.of({"retrieve": retrieve}).run(batch, resources)
            _, values = row_features(outcome.query, outcome.candidates, resources)
            assert len(values)
            assert np.isfinite(values).all()
