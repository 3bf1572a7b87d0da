"""A selector written beside the fit that it reads."""

from __future__ import annotations

import json
import shutil

import pytest

from ctxbench.io.errors import ParameterError
from ctxbench.pipelines.fits import SHIPPED, open_calibrations, write_calibrations
from ctxbench.selectors.definitions import definition, read_definition
from ctxbench.tuning.preset_files import fitted_index, write_fitted


@pytest.fixture
def fits(tmp_path):
    write_calibrations(tmp_path / "mine.json", open_calibrations(SHIPPED).fits)
    return tmp_path / "mine.json"


def test_it_is_the_same_but_for_the_fit(fits):
    path = write_fitted(definition("learned"), fits)
    assert path == fits.with_suffix(".yaml")
    made, shipped = read_definition(path), definition("learned")
    assert made.presets == shipped.presets
    assert made.values() == shipped.values()
    step = made.pipeline(made.values()).refine[fitted_index(made.written, "probability")]
    assert step.call.calibration == str(fits)


def test_a_preset_becomes_the_defaults(fits):
    made = read_definition(write_fitted(definition("learned"), fits, "conservative"))
    assert made.values() == definition("learned").values("conservative")


def test_it_moves_with_its_fit(fits, tmp_path):
    path = write_fitted(definition("learned"), fits)
    (tmp_path / "moved").mkdir()
    for one in (path, fits):
        shutil.move(one, tmp_path / "moved" / one.name)
    assert read_definition(tmp_path / "moved" / path.name).name == "mine"


def test_a_selector_without_a_probability_is_refused(fits):
    with pytest.raises(ParameterError, match="selector 'bm25' has no step `probability`"):
        write_fitted(definition("bm25"), fits)


def test_fits_that_are_called_yaml_are_refused(fits, tmp_path):
    with pytest.raises(ParameterError, match=r"name the fit \.json"):
        write_fitted(definition("learned"), tmp_path / "mine.yaml")


def test_the_shipped_fit_says_what_it_was_fitted_on():
    (fit,) = open_calibrations(SHIPPED).fits
    assert json.loads(json.dumps(fit.values["datasets"])) == fit.dataset.split(" + ")
