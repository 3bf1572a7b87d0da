"""Files of fits: what is written is read back, and whatever does not suit is an error that names both sides."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ctxbench import testing
from ctxbench.calibrations import Fit, behind, calibration_faults, read_calibrations, write_calibrations
from ctxbench.errors import InputError, ParameterError, StorageError
from ctxbench.items import Catalog
from ctxbench.pipeline import Pipeline
from ctxbench.stages import ByDomain, Step
from ctxbench.steps.calibrated import Abstain, Probability

RESOURCES = testing.mock_resources()
CATALOG = testing.mock_catalog()
DENSE = Pipeline.of({"retrieve": "dense"})
FIT = Fit(
    what="probability",
    dataset="one",
    dataset_hash="d",
    catalog=CATALOG.hash,
    embedder=RESOURCES.identity("embedder"),
    behind=behind(DENSE),
    split="tuning",
    queries=7,
    values={"features": 1, "intercept": 0.5, "weights": {"score": 2.0}},
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
        other = replace(FIT, what="abstention")
        write_calibrations(path, [other])
        write_calibrations(path, [replace(FIT, queries=9)])
        assert [(fit.what, fit.queries) for fit in read_calibrations(path).fits] == [
            ("probability", 9),
            ("abstention", 7),
        ]

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
            (lambda data: data.update(format=2), "its format is 2, this version reads 1"),
            (lambda data: data["fits"].append(3), "fit 1: expected an object, got 3"),
            (lambda data: data["fits"][0].pop("catalog"), "fit 0: it lacks catalog"),
            (lambda data: data["fits"][0].update(colour=1), "fit 0: it has no colour"),
            (lambda data: data["fits"][0].update(queries=True), "queries must be of type int, got True"),
            (lambda data: data["fits"][0].update(what="luck"), "what must be one of probability, abstention, weights"),
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
    def test_the_fit_of_the_catalog_is_found(self, path):
        assert read_calibrations(path).fit("probability", CATALOG, RESOURCES) == FIT

    def test_another_catalog_is_an_error_that_names_those_there_are(self, path):
        other = Catalog(list(CATALOG)[1:])
        with pytest.raises(ParameterError, match=f"no probability fit for this catalog of {len(other)} items") as error:
            read_calibrations(path).fit("probability", other, RESOURCES)
        assert f"one ({CATALOG.hash[:12]})" in str(error.value)

    def test_another_model_is_an_error_that_names_both(self, path):
        write_calibrations(path, [replace(FIT, embedder="another")])
        with pytest.raises(ParameterError, match="made with the embedder another, and this is") as error:
            read_calibrations(path).fit("probability", CATALOG, RESOURCES)
        assert RESOURCES.identity("embedder") in str(error.value)


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
        assert ", and here stands " in fault

    def test_a_probability_in_front_is_no_other_pipeline_to_abstention(self, path):
        write_calibrations(path, [replace(FIT, what="abstention")])
        silent = Step("cut", "abstain", Abstain(str(path)))
        assert calibration_faults(self.pipeline(path, {"retrieve": "dense"}, silent), CATALOG) == []

    def test_a_domain_shows_a_part_of_the_ranking(self, path):
        step = Step("rank", "probability", Probability(str(path)))
        inside = replace(DENSE, refine=(ByDomain({("*",): (ByDomain({("*",): (step,)}),)}),))
        (fault,) = calibration_faults(inside, CATALOG)
        assert "probability stands inside by_domain" in fault
