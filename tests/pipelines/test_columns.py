"""Columns by name: how they come into a table, whatever else is in the batch, and families of others."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from ctxbench import testing
from ctxbench.io.errors import UnknownNameError
from ctxbench.model import registry
from ctxbench.model.candidates import Candidates
from ctxbench.model.items import Catalog, ItemKey
from ctxbench.model.requests import Batch
from ctxbench.pipelines.features import (
    LABELLED,
    TEXT,
    FeatureInput,
    column_names,
    families_of,
    family,
    feature_rows,
    resources_of,
    with_features,
)
from ctxbench.pipelines.pipeline import Pipeline
from tests.pipelines.feature_cases import asked, table

PLAIN = tuple(name for name in column_names() if name not in LABELLED)  # the others need a fit
RETRIEVERS = ("dense", "everything", {"merge": ["dense", "bm25"]})
SCORES = table([0.9, 0.5, 0.4])


@dataclass(frozen=True)
class Length:
    """How long an item's name is. Source: ours."""

    columns: ClassVar[tuple[str, ...]] = ("name", "twice")
    uses: ClassVar[tuple[str, ...]] = ("tokens",)
    calls: ClassVar[list[int]] = []

    def __call__(self, found: FeatureInput) -> np.ndarray:
        """One column and its double."""
        self.calls.append(len(found))
        names = [len(found.query.batch.catalog[item].name) for item in found.item.tolist()]
        return np.array(names, dtype=np.float64)[:, None] * [1.0, 2.0]


@pytest.fixture
def plugin(monkeypatch):
    """A family from outside."""
    monkeypatch.setitem(registry._BUILT_IN["feature"], "length", f"{__name__}:Length")
    Length.calls.clear()
    return Length


def by_item(batch: Batch, retrieve: object, columns: tuple[str, ...]) -> dict[tuple[str, ItemKey], list[float]]:
    """The features of all that is found, by request and item."""
    resources = testing.mock_resources()
    outcome = Pipeline.of({"retrieve": retrieve}).run(batch, resources)
    found, values = feature_rows(outcome.candidates, columns, outcome.query, resources)
    request = outcome.candidates.request[found.rows]
    keys = [(batch.ids[one], batch.catalog[item].key) for one, item in zip(request, found.item, strict=True)]
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, values.tolist(), strict=True))


SIGNED = {
    "similarity.score": 1,
    "fields.name": 1,
    "fields.description": 1,
    "fusion.score": 2.5,
}  # and their largest size


class TestNames:
    def test_families_and_columns(self):
        names = column_names()
        assert set(TEXT) < set(names)
        assert len(set(names)) == len(names)
        assert {name.partition(".")[0] for name in names} == set(registry.names("feature"))

    def test_those_that_carry_over_say_nothing_of_an_item_or_a_request_alone(self):
        assert {name.partition(".")[0] for name in TEXT} == {"similarity", "words", "sentence", "fields", "fusion"}

    def test_resources_are_those_of_the_families(self):
        assert resources_of(["words.bm25", "item.tool"]) == ()
        assert resources_of(["words.bm25", "sentence.rank", "similarity.score"]) == ("embedder",)
        assert list(families_of(["words.bm25", "item.tool", "words.bm25_share"])) == ["words", "item"]

    @pytest.mark.parametrize(
        ("column", "close"),
        [
            ("words.bm26", "words.bm25"),
            ("similarity.scores", "similarity.score"),
            ("sentences.rank", "sentence.rank"),
            ("score", None),
            ("", None),
            ("words", None),
            ("words.", None),
        ],
    )
    def test_an_unknown_one_names_the_closest(self, column, close):
        with pytest.raises(UnknownNameError, match=f"unknown feature '{column}'") as error:
            families_of(["words.bm25", column])
        assert close is None or f"did you mean '{close}'" in str(error.value)

    def test_an_unknown_family_is_an_error(self):
        with pytest.raises(UnknownNameError, match="luck"):
            family("luck")


class TestTables:
    def test_columns_are_added_and_nothing_else_changes(self):
        after = with_features(SCORES, ["words.bm25", "item.tool"], asked("area"), testing.mock_resources())
        assert list(after.columns) == ["words.bm25", "item.tool"]
        assert after.score.tolist() == SCORES.score.tolist()
        assert after.item.tolist() == [0, 1, 2]
        assert not SCORES.columns

    def test_the_session_has_none(self):
        mixed = table([0.9, 0.5, 0.3], origin=np.array([0, 1, 2]))
        after = with_features(mixed, ["item.rule"], asked("area"), testing.mock_resources())
        np.testing.assert_array_equal(np.isnan(after.columns["item.rule"]), [True, False, False])
        found = with_features(mixed, ["item.rule"], asked("area"), testing.mock_resources(), expanded=False)
        np.testing.assert_array_equal(np.isnan(found.columns["item.rule"]), [True, False, True])

    def test_what_was_brought_in_since_is_filled_in(self, plugin):
        held = SCORES.with_columns(**{"length.name": np.array([7.0, np.nan, 9.0])})
        after = with_features(held, ["length.name"], asked("area"), testing.mock_resources())
        assert after.columns["length.name"].tolist() == [7.0, 4.0, 9.0]

    def test_columns_that_stand_already_are_not_made_again(self, plugin):
        held = SCORES.with_columns(**{"length.name": np.array([7.0, 8.0, 9.0])})
        query, resources = asked("area"), testing.mock_resources()
        assert with_features(held, ["length.name"], query, resources) is held
        assert plugin.calls == []
        after = with_features(held, ["length.twice", "length.name"], query, resources)
        assert after.columns["length.name"].tolist() == [7.0, 8.0, 9.0]
        assert after.columns["length.twice"].tolist() == [26.0, 8.0, 12.0]  # triangle_area, tone, prices
        assert plugin.calls == [3]

    def test_no_column_is_no_change(self):
        assert with_features(SCORES, [], asked("area"), testing.mock_resources()) is SCORES
        _, values = feature_rows(SCORES, [], asked("area"), testing.mock_resources())
        assert values.shape == (3, 0)

    def test_nothing_found_has_no_rows(self):
        found, values = feature_rows(Candidates.empty(1), PLAIN, asked("area"), testing.mock_resources())
        assert (len(found), values.shape) == (0, (0, len(PLAIN)))

    def test_values_stand_in_the_order_that_was_asked_for(self):
        columns = ("item.rule", "words.bm25", "item.tool")
        _, values = feature_rows(SCORES, columns, asked("area"), testing.mock_resources())
        assert values[:, 0].tolist() == [0.0, 1.0, 0.0]
        assert values[:, 2].tolist() == [1.0, 0.0, 0.0]


class TestPlugins:
    def test_a_family_of_a_plugin_is_read_by_name_like_ours(self, plugin):
        assert {"length.name", "length.twice"} < set(column_names())
        assert resources_of(["words.bm25", "length.name"]) == ("tokens",)
        _, values = feature_rows(SCORES, ["length.name", "item.tool"], asked("area"), testing.mock_resources())
        assert values.tolist() == [[13.0, 1.0], [4.0, 0.0], [6.0, 0.0]]

    def test_without_the_plugin_its_columns_are_unknown(self):
        with pytest.raises(UnknownNameError, match=r"unknown feature 'length\.name'"):
            families_of(["length.name"])


class TestEqualities:
    @pytest.mark.parametrize("retrieve", RETRIEVERS)
    def test_a_batch_equals_its_requests_to_the_bit(self, retrieve):
        """Also where requests have other numbers of sentences: from none to dozens."""
        batch = Batch.of(testing.mock_catalog(), testing.mock_requests())
        whole = by_item(batch, retrieve, PLAIN)
        assert len(whole) > 50
        alone = {}
        for row in range(len(batch)):
            alone |= by_item(batch.take([row]), retrieve, PLAIN)
        assert alone == whole

    @pytest.mark.parametrize("retrieve", RETRIEVERS)
    @pytest.mark.parametrize("seed", [0, 1])
    def test_the_order_of_items_and_requests_does_not_matter(self, retrieve, seed):
        catalog, requests = testing.mock_catalog(), testing.mock_requests()
        drawn = random.Random(seed)
        mixed = Batch.of(
            Catalog(drawn.sample(list(catalog), len(catalog))), drawn.sample(list(requests), len(requests))
        )
        assert by_item(mixed, retrieve, PLAIN) == by_item(Batch.of(catalog, requests), retrieve, PLAIN)

    @pytest.mark.parametrize("retrieve", RETRIEVERS)
    def test_they_are_finite_and_in_their_ranges(self, retrieve):
        batch = Batch.of(testing.mock_catalog(), testing.mock_requests())
        values = np.array(list(by_item(batch, retrieve, PLAIN).values()))
        assert np.isfinite(values).all()
        named = dict(zip(PLAIN, values.T, strict=True))
        for name, column in named.items():
            if "_in_" in name or name.endswith(("share", "filled")):
                assert ((column >= 0) & (column <= 1)).all(), name
            elif name not in (*SIGNED, "retrieved.score"):
                assert (column >= 0).all(), name
        assert (named["sentence.fusion"] <= 2).all()
        for name, most in SIGNED.items():
            assert (np.abs(named[name]) <= most + 1e-6).all(), name
