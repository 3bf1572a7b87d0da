"""The selector `learned`: what it offers without a label, and what it never does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ctxbench.datasets.lookup import importers
from ctxbench.model.candidates import Candidates, Origin
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Request
from ctxbench.pipelines import fits as calibrations
from ctxbench.pipelines.features import RETRIEVED, VERSION
from ctxbench.pipelines.fits import SHIPPED, open_calibrations
from ctxbench.pipelines.strategies.rank import PROBABILITY_COLUMN, WAIVED
from ctxbench.selectors.definitions import definition
from ctxbench.testing import mock_catalog, mock_requests, mock_resources
from ctxbench.tuning.query_fits import columns_of

LEARNED = definition("learned")
CATALOG = mock_catalog()
DATASETS = Path(__file__).parents[2] / "datasets"
FILE = Path(calibrations.__file__).parents[1] / "selectors" / "shipped" / "learned.json"


def run(batch: Batch, preset: str | None = None, **values: float) -> Candidates:
    pipeline = LEARNED.pipeline(LEARNED.values(preset, values))
    return pipeline.run(batch, mock_resources()).candidates


def asked(*texts: str, catalog: Catalog = CATALOG) -> Batch:
    return Batch.of(catalog, [Request(id=str(i), text=text) for i, text in enumerate(texts)])


def found(table: Candidates, request: int = 0) -> list[str]:
    """What the search found that is offered, best first."""
    rows = np.flatnonzero(table.chosen & (table.origin == Origin.SEARCH) & (table.request == request))
    return [CATALOG[item].id for item in table.item[rows].tolist()]


class TestBatch:
    @pytest.mark.parametrize("preset", [None, *LEARNED.presets])
    def test_a_batch_equals_its_requests_to_the_bit(self, preset):
        batch = Batch.of(CATALOG, mock_requests())
        whole = run(batch, preset)
        for request in range(len(batch)):
            alone, rows = run(batch.take([request]), preset), whole.rows(request)
            for name in ("item", "score", "chunk_rank", "origin", "chosen"):
                np.testing.assert_array_equal(getattr(alone, name), getattr(whole, name)[rows], err_msg=name)
            for name, column in whole.columns.items():
                np.testing.assert_array_equal(alone.columns[name], column[rows], err_msg=name)

    def test_columns_say_how_it_came_to_its_order(self):
        table = run(asked("Open a new issue with the label bug"))
        assert {RETRIEVED, PROBABILITY_COLUMN, WAIVED} <= set(table.columns)
        searched = table.origin == Origin.SEARCH
        probability = table.columns[PROBABILITY_COLUMN][searched]
        assert ((probability >= 0) & (probability <= 1)).all()
        assert (np.diff(table.score[searched]) <= 0).all()


class TestSizes:
    @pytest.mark.parametrize("threshold", LEARNED.parameters["threshold"].ends)
    def test_a_budget_of_one_item_is_kept(self, threshold):
        batch = Batch.of(CATALOG, mock_requests())
        table = run(batch, threshold=threshold, at_least=1, at_most=1)
        searched = table.origin == Origin.SEARCH
        count = np.bincount(table.request[searched & table.chosen], minlength=len(batch))
        some = np.bincount(table.request[searched], minlength=len(batch)) > 0
        assert count.tolist() == some.astype(int).tolist()

    @pytest.mark.parametrize(
        "text",
        [
            "कल सुबह दिल्ली के लिए एक टिकट बुक करें और मुझे मौसम बताएं",
            "明天早上订一张去北京的票",
            "zzyzx qwfp arst",
            "?! ... !",
            "🚀🚀🚀",
            "ж" * 3000,
        ],
    )
    @pytest.mark.parametrize("preset", [None, *LEARNED.presets])
    def test_a_request_that_it_does_not_understand_gets_no_more_than_any_other(self, text, preset):
        table = run(asked(text), preset)
        assert np.isfinite(table.score[table.origin == Origin.SEARCH]).all()
        assert len(found(table)) <= LEARNED.values(preset)["at_most"]
        assert len(found(run(asked(text), preset, at_most=2))) <= 2

    @pytest.mark.parametrize("text", ["", " \t\n\u00a0 "])
    @pytest.mark.parametrize("preset", [None, *LEARNED.presets])
    def test_an_empty_request_is_offered_nothing(self, text, preset):
        assert found(run(asked(text), preset)) == []

    def test_nothing_available_and_no_item(self):
        none = Batch.of(CATALOG, [Request(id="0", text="Open an issue", available=())])
        assert found(run(none)) == []
        assert len(run(asked("Open an issue", catalog=Catalog([])))) == 0

    def test_a_single_item_is_offered(self):
        (item,) = [one for one in CATALOG if one.name == "close_issue"]
        table = run(asked("Close the issue", catalog=Catalog([item])))
        assert table.item[table.chosen].tolist() == [0]

    @pytest.mark.parametrize("preset", [None, *LEARNED.presets])
    def test_every_preset_offers_at_least_one_and_at_most_ten(self, preset):
        values = LEARNED.values(preset)
        assert values["at_least"] == 1
        assert 1 <= values["at_most"] <= 10


class TestOrder:
    @pytest.mark.parametrize(
        ("text", "first"),
        [
            ("Open a new issue with the label bug", "create_issue"),
            ("Close an issue that is done", "close_issue"),
        ],
    )
    def test_what_is_meant_stands_first(self, text, first):
        table = run(asked(text))
        (best, *_) = table.item[(table.origin == Origin.SEARCH) & table.chosen]
        assert CATALOG[best].name == first

    def test_of_two_as_likely_the_cheaper_stands_first(self):
        table = run(asked("When are the invoices paid?"))
        rule, reference = (
            next(i for i, item in enumerate(CATALOG) if (item.type, item.name) == (kind, "invoices"))
            for kind in ("rule", "reference")
        )  # the reference holds the text twice
        places = {item: place for place, item in enumerate(table.item.tolist())}
        assert places[rule] < places[reference]

    def test_the_likeliest_by_far_stands_first_whatever_it_costs(self):
        """The costs of the mock catalog differ too little, so that one item gets a long schema that is not searched."""
        schema = {"properties": {"label": {"enum": ["word"] * 20_000}}}
        long = Item(type="tool", server="s", name="close_issue", description="Close an issue", schema=schema)
        batch = asked("Close an issue", catalog=Catalog([*(item for item in CATALOG if item.name != long.name), long]))
        first = {}
        for sure in LEARNED.parameters["sure"].ends:
            table = run(batch, sure=sure)
            best = int(np.flatnonzero((table.origin == Origin.SEARCH) & table.chosen)[0])
            first[sure] = (batch.catalog[table.item[best]].name, table.columns[WAIVED][best])
        assert first[0.0] == ("close_issue", 1.0)
        assert first[20.0][0] != "close_issue"
        assert first[20.0][1] == 0.0

    def test_another_order_of_items_changes_nothing(self):
        scores = []
        for items in ([*CATALOG], [*CATALOG][::-1]):
            batch = asked("Close the issue. Be brief.", catalog=Catalog(items))
            table = run(batch)
            searched = table.origin == Origin.SEARCH
            keys = [batch.catalog[item].key for item in table.item[searched].tolist()]
            scores.append(dict(zip(keys, table.score[searched].tolist(), strict=True)))
        assert scores[0] == scores[1]


class TestFit:
    def test_it_is_small_and_names_its_datasets(self):
        assert FILE.stat().st_size < 8 * 1024
        (fit,) = open_calibrations(SHIPPED).fits
        assert (fit.kind, fit.catalog, fit.split) == ("probability", "", "tuning")
        named = fit.values["datasets"]
        assert fit.dataset == " + ".join(named)
        assert len(set(named)) == len(named) >= 8
        assert set(named) <= {*importers(), *(one.name for one in DATASETS.iterdir())}

    def test_it_has_seen_tuning_queries_only_and_many(self):
        (fit,) = open_calibrations(SHIPPED).fits
        assert fit.queries > 1000

    def test_its_columns_are_among_those_of_a_fit_to_labels(self):
        """Only then does such a fit start from its weights."""
        (fit,) = open_calibrations(SHIPPED).fits
        assert set(fit.values["columns"]) <= set(columns_of(requests=False))
        assert fit.values["features"] == VERSION

    def test_the_lead_that_was_fitted_is_the_default(self):
        (fit,) = open_calibrations(SHIPPED).fits
        assert LEARNED.values()["sure"] == fit.values["sure"]

    def test_it_was_made_behind_what_it_stands_behind(self):
        (fit,) = open_calibrations(SHIPPED).fits
        pipeline = LEARNED.pipeline(LEARNED.values())
        places = [step.name for step in pipeline.refine]
        assert fit.behind == calibrations.describe_context(pipeline, places.index("probability"))

    def test_it_is_plain_json_without_a_path(self):
        text = FILE.read_text("utf-8")
        assert set(json.loads(text)) == {"format", "fits"}
        assert "/work" not in text
        assert "/home" not in text
