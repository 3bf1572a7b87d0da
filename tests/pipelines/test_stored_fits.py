"""Files of fits: what is written is read back, and whatever does not suit is an error that names both sides."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from ctxbench import testing
from ctxbench.io.errors import InputError, ParameterError, StorageError
from ctxbench.model.items import Catalog
from ctxbench.model.strategies import PerType, Step
from ctxbench.pipelines.features import VERSION
from ctxbench.pipelines.fits import (
    SHIPPED,
    Calibrations,
    Fit,
    calibration_faults,
    describe_context,
    fit_notices,
    in_front,
    open_calibrations,
    read_calibrations,
    write_calibrations,
)
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.pipelines.strategies.cut import Abstain
from ctxbench.pipelines.strategies.rank import Price, Probability

RESOURCES = testing.mock_resources()
CATALOG = testing.mock_catalog()
DENSE = Pipeline.of({"retrieve": "dense"})
FIT = Fit(
    kind="probability",
    dataset="one",
    dataset_hash="d",
    catalog=CATALOG.hash,
    embedder=RESOURCES.identity("embedder"),
    behind=describe_context(DENSE),
    split="tuning",
    queries=7,
    values={"features": VERSION, "intercept": 0.5, "columns": {"retrieved.score": [2.0, 0.0, 1.0, 1.0]}},
)


@pytest.fixture
def path(tmp_path):
    write_calibrations(tmp_path / "fits.json", [FIT])
    return tmp_path / "fits.json"


class TestFile:
    def test_what_is_written_is_read_back(self, path):
        read = read_calibrations(path)
        assert read.fits == (FIT,)
        assert read.kinds() == ("probability",)

    def test_fits_are_added_and_replaced_by_kind_and_catalog(self, path):
        other = replace(FIT, kind="abstention")
        write_calibrations(path, [other])
        write_calibrations(path, [replace(FIT, queries=9)])
        assert [(fit.kind, fit.queries) for fit in read_calibrations(path).fits] == [
            ("probability", 9),
            ("abstention", 7),
        ]

    def test_who_writes_at_the_same_time_loses_no_fit(self, tmp_path):
        names = [f"d{number}" for number in range(8)]
        new = [replace(FIT, dataset=name, catalog=f"{number:064x}") for number, name in enumerate(names)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda fit: write_calibrations(tmp_path / "fits.json", [fit]), new))
        assert [fit.dataset for fit in read_calibrations(tmp_path / "fits.json").fits] == names
        assert [file.name for file in tmp_path.iterdir()] == ["fits.json"]

    def test_an_edit_shows_in_its_content(self, path):
        before = read_calibrations(path).content
        write_calibrations(path, [replace(FIT, queries=9)])
        assert read_calibrations(path).content != before

    def test_two_fits_for_one_catalog_are_refused_with_both_names(self, tmp_path):
        with pytest.raises(ParameterError, match="one and two have the same catalog"):
            write_calibrations(tmp_path / "f.json", [FIT, replace(FIT, dataset="two")])
        assert not (tmp_path / "f.json").exists()

    def test_a_missing_file_says_what_makes_one(self, tmp_path):
        with pytest.raises(StorageError, match="ctxbench calibrate"):
            read_calibrations(tmp_path / "none.json")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda data: data.pop("fits"), "no file of fits"),
            (lambda data: data.update(format=1), "the format is 1, and this version reads 2"),
            (lambda data: data["fits"].append(3), "fit 1: expected the fields "),
            (lambda data: data["fits"][0].pop("catalog"), "fit 0: expected the fields "),
            (lambda data: data["fits"][0].update(colour=1), "fit 0: expected the fields .*, colour"),
            (lambda data: data["fits"][0].update(queries=True), "queries must be of type int, got True"),
            (lambda data: data["fits"][0].update(kind="luck"), "kind must be one of probability, abstention, weights"),
            (lambda data: data["fits"].append(data["fits"][0]), "two fits of one kind for one catalog"),
        ],
    )
    def test_what_is_wrong_in_it_is_named(self, path, change, message):
        data = json.loads(path.read_text("utf-8"))
        change(data)
        path.write_text(json.dumps(data), encoding="utf-8")
        with pytest.raises(InputError, match=message):
            read_calibrations(path)


class TestLookUp:
    OTHER = Catalog(list(CATALOG)[1:])

    @pytest.fixture
    def held(self, tmp_path):
        """Write fits of these catalogs, by the name of their dataset, and read them."""

        def written(**catalogs: str) -> Calibrations:
            fits = [replace(FIT, dataset=name, catalog=catalog) for name, catalog in catalogs.items()]
            write_calibrations(tmp_path / "several.json", fits)
            return read_calibrations(tmp_path / "several.json")

        return written

    @pytest.mark.parametrize(
        ("catalogs", "name"),
        [
            ({"one": CATALOG.hash}, "one"),
            ({"one": "aa", "two": CATALOG.hash}, "two"),
            ({"one": "aa", "two": CATALOG.hash, "all": ""}, "two"),
            ({"one": "aa", "two": "bb", "all": ""}, "all"),  # none of the catalog: the one of several
            ({"one": "aa", "all": ""}, "one"),  # a fit of one's own carries over
            ({"one": "aa"}, "one"),  # the only one
            ({"all": ""}, "all"),
        ],
    )
    def test_that_of_the_catalog_then_the_only_own_one_then_the_pooled_one(self, held, catalogs, name):
        assert held(**catalogs).fit("probability", CATALOG).dataset == name

    def test_which_of_several_is_meant_cannot_be_told(self, held):
        with pytest.raises(ParameterError, match="no probability fit for this catalog of") as error:
            held(one="aa", two="bb").fit("probability", CATALOG)
        assert "it has fits for: one (aa), two (bb); make one with `ctxbench calibrate" in str(error.value)

    def test_fits_of_another_kind_do_not_count(self, path):
        with pytest.raises(ParameterError, match="it has fits for: none; make one with"):
            read_calibrations(path).fit("abstention", CATALOG)

    def test_exactly_that_of_the_catalog_is_found(self, path):
        assert read_calibrations(path).exact_fit("probability", CATALOG, RESOURCES) == FIT

    def test_exactly_another_catalog_is_an_error_that_names_those_there_are(self, path):
        message = f"no probability fit for this catalog of {len(self.OTHER)} items"
        with pytest.raises(ParameterError, match=message) as error:
            read_calibrations(path).exact_fit("probability", self.OTHER, RESOURCES)
        assert f"one ({CATALOG.hash[:12]})" in str(error.value)

    def test_a_pooled_one_is_not_exact(self, held):
        with pytest.raises(ParameterError, match="no probability fit for this catalog"):
            held(all="").exact_fit("probability", CATALOG, RESOURCES)

    def test_exactly_another_model_is_an_error_that_names_both(self, path):
        write_calibrations(path, [replace(FIT, embedder="another")])
        with pytest.raises(ParameterError, match="made with the embedder another, and this is") as error:
            read_calibrations(path).exact_fit("probability", CATALOG, RESOURCES)
        assert RESOURCES.identity("embedder") in str(error.value)

    def test_a_fit_says_what_it_is_of(self):
        assert str(FIT) == f"probability of one (catalog {CATALOG.hash[:12]}, 7 queries)"
        assert str(replace(FIT, catalog="")) == "probability of one (several catalogs, 7 queries)"


class TestShipped:
    def test_it_is_opened_by_its_name_and_once(self):
        one = open_calibrations(SHIPPED)
        assert one is open_calibrations("shipped")
        assert str(one.path) == "shipped"
        assert [(fit.kind, fit.catalog) for fit in one.fits] == [("probability", "")]

    def test_any_other_name_is_a_file(self, path, tmp_path):
        assert open_calibrations(str(path)).fits == (FIT,)
        with pytest.raises(StorageError, match="ctxbench calibrate"):
            open_calibrations(str(tmp_path / "learned"))


class TestInFront:
    def test_up_to_the_first_step_that_reads_such_a_fit(self):
        whole = Pipeline.of({"retrieve": "dense", "refine": ["features", "probability", "price", "margin"]})
        front = in_front(whole, "probability")
        assert [step.name for step in front.refine] == ["features"]
        assert (front.analyse, front.retrieve) == (whole.analyse, whole.retrieve)

    def test_whole_where_there_is_none(self):
        whole = Pipeline.of({"retrieve": "dense", "refine": ["probability", "margin"]})
        assert in_front(whole, "abstention") is whole
        assert in_front(DENSE, "probability") is DENSE

    def test_combinators_are_no_such_step(self):
        spec = {"retrieve": "dense", "refine": [{"by_domain": {"tool": ["probability"]}}, "margin"]}
        whole = Pipeline.of(spec)
        assert in_front(whole, "probability") is whole


class TestNotices:
    def test_where_everything_suits_there_is_none(self, path):
        spec = {"retrieve": "dense", "refine": [{"probability": {"calibration": str(path)}}, "margin"]}
        assert fit_notices(Pipeline.of(spec), CATALOG, RESOURCES) == []
        assert fit_notices(DENSE, CATALOG, RESOURCES) == []

    def test_each_names_its_step(self, path):
        write_calibrations(path, [replace(FIT, embedder="another", catalog="aa" * 32, dataset="two")])
        kept = json.loads(path.read_text("utf-8"))
        kept["fits"] = [fit for fit in kept["fits"] if fit["dataset"] == "two"]
        path.write_text(json.dumps(kept), encoding="utf-8")
        probability = {"probability": {"calibration": str(path)}}
        for refine in ([probability], [{"by_domain": {"*": [probability]}}]):
            pipeline = Pipeline.of({"retrieve": "dense", "refine": refine})
            of_embedder, of_catalog = fit_notices(pipeline, CATALOG, RESOURCES)
            assert of_embedder.startswith("probability: the fit of two was made with the embedder another, and")
            assert of_catalog.startswith("probability: the fit of two was made for another catalog (aaaaaaaaaaaa, ")


class TestPlace:
    def pipeline(self, path, spec, *more):
        base = Pipeline.of(spec)
        step = Step("rank", "probability", Probability(str(path)))
        return replace(base, refine=(*base.refine, step, *more))

    def test_behind_what_it_was_fitted_behind_nothing_is_wrong(self, path):
        assert calibration_faults(self.pipeline(path, {"retrieve": "dense"}), CATALOG) == []

    def test_cuts_in_front_change_nothing(self, path):
        assert calibration_faults(self.pipeline(path, {"retrieve": "dense", "refine": ["standard"]}), CATALOG) == []

    @pytest.mark.parametrize(
        ("spec", "stage"),
        [
            ({"analyse": "whole", "retrieve": "dense"}, "analyse"),
            ({"retrieve": {"dense": {"depth": 50}}}, "retrieve"),
            ({"retrieve": "dense", "refine": ["rrf"]}, "rank"),
        ],
    )
    def test_another_pipeline_is_an_error_that_names_both(self, path, spec, stage):
        (fault,) = calibration_faults(self.pipeline(path, spec), CATALOG)
        assert f"was made behind {stage} " in fault
        assert ", and here it is behind " in fault

    def test_a_fit_of_another_catalog_was_made_behind_anything(self, path):
        other = Catalog(list(CATALOG)[1:])
        assert calibration_faults(self.pipeline(path, {"analyse": "whole", "retrieve": "dense"}), other) == []

    def test_features_and_a_price_are_no_other_pipeline(self, path):
        spec = {"retrieve": "dense", "refine": ["features"]}
        assert calibration_faults(self.pipeline(path, spec, Step("rank", "price", Price())), CATALOG) == []

    def test_the_shipped_fit_may_stand_behind_anything(self):
        spec = {"analyse": "whole", "retrieve": "bm25", "refine": ["probability"]}
        assert calibration_faults(Pipeline.of(spec), CATALOG) == []

    def test_a_probability_in_front_is_no_other_pipeline_to_abstention(self, path):
        write_calibrations(path, [replace(FIT, kind="abstention")])
        silent = Step("cut", "abstain", Abstain(str(path)))
        assert calibration_faults(self.pipeline(path, {"retrieve": "dense"}, silent), CATALOG) == []

    def test_a_domain_shows_a_part_of_the_ranking(self, path):
        step = Step("rank", "probability", Probability(str(path)))
        inside = replace(DENSE, refine=(PerType({("*",): (PerType({("*",): (step,)}),)}),))
        (fault,) = calibration_faults(inside, CATALOG)
        assert "probability is inside by_domain" in fault
