"""Features of a request as a whole, and the mean vector of its chunks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ctxbench import testing
from ctxbench.model.candidates import Candidates
from ctxbench.model.requests import Batch
from ctxbench.pipelines.feature_families import REQUEST, request_features, request_vectors
from ctxbench.pipelines.pipeline import Pipeline
from tests.pipelines.feature_cases import asked, table


class TestFeatures:
    def test_the_best_row_and_the_largest_of_all(self):
        query, found = asked("zzz", "", "prices of a triangle"), table([0.9], [], [0.8, 0.2, 0.1])
        requests, values = request_features(query, found, testing.mock_resources())
        assert requests.tolist() == [0, 2]
        row = dict(zip(REQUEST, values[1].tolist(), strict=True))
        assert row["best.retrieved.score"] == 0.8
        assert row["best.item.tool"] == 1.0
        assert row["most.words.query_in_item"] == 1.0 > row["best.words.query_in_item"]  # the reference has both words
        assert row["least.slots.lacking"] == 0.0 < row["best.slots.lacking"]

    def test_the_best_is_that_of_retrieval_whatever_the_order_is_now(self):
        query, resources = asked("prices"), testing.mock_resources()
        found = table([0.8, 0.2, 0.1])
        turned = table([0.1, 0.2, 0.8]).with_columns(**{"retrieved.score": np.array([0.1, 0.2, 0.8])})
        _, one = request_features(query, found, resources)
        _, other = request_features(query, turned, resources)
        assert turned.item.tolist() == [2, 1, 0]
        assert one.tolist() == other.tolist()

    def test_nothing_found_has_no_features(self):
        requests, values = request_features(asked("x", "y"), Candidates.empty(2), testing.mock_resources())
        assert (requests.shape, values.shape) == ((0,), (0, len(REQUEST)))

    def test_a_batch_equals_its_requests(self):
        batch, pipeline = Batch.of(testing.mock_catalog(), testing.mock_requests()), Pipeline.of({"retrieve": "dense"})
        resources = testing.mock_resources()
        outcome = pipeline.run(batch, resources)
        requests, values = request_features(outcome.query, outcome.candidates, resources)
        assert np.isfinite(values).all()
        for request, own in zip(requests.tolist(), values.tolist(), strict=True):
            alone = pipeline.run(batch.take([request]), resources)
            assert request_features(alone.query, alone.candidates, resources)[1].tolist() == [own]


class TestVectors:
    def test_they_are_means_of_chunks(self):
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
