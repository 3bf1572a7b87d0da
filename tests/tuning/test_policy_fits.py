"""Fits that a policy asks for: made on the labels that decide, scored out of fold, and kept beside the presets."""

from __future__ import annotations

import pytest
import yaml

from ctxbench.io.errors import InputError
from ctxbench.pipelines.fits import read_calibrations
from ctxbench.tuning.inputs import open_tuning
from ctxbench.tuning.policy import read_policies
from ctxbench.tuning.preset_files import asks_for_fits, fit_selectors

POLICIES = {
    "normal": {"minimise": "tokens", "constraints": [{"metric": "completeness", "at_least": 0.9, "of": "base"}]}
}


@pytest.fixture
def opened(tmp_path):
    """Open a policy file with `fit: own` over some datasets."""

    def made(*datasets, selectors=("learned", {"selector": "learned", "name": "mine", "fit": "own"}), **given):
        path = tmp_path / "policy.yaml"
        data = {"selectors": list(selectors), "policies": POLICIES, "embedder": "hashing", "tokens": "chars/4", **given}
        path.write_text(yaml.safe_dump(data), encoding="utf-8")
        return open_tuning(read_policies(path), list(map(str, datasets)))

    return made


def quiet(*_):
    """Say nothing."""


def test_the_fit_is_of_the_labels_that_decide(opened, shop, tmp_path):
    ready = opened(shop)
    assert asks_for_fits(ready.file)
    file, notices = fit_selectors(ready, tmp_path / "presets", progress=quiet)
    assert not asks_for_fits(file)
    own = next(fit for fit in read_calibrations(tmp_path / "presets" / "fits" / "mine-shop.json").fits if fit.catalog)
    (query_set,) = (one.tuning_set for one in ready.datasets)
    assert (own.dataset, own.split, own.queries) == ("shop", query_set.split, len(query_set))
    held = f"mine-shop.json contains the texts of {len(own.values['requests'])} labelled requests"
    assert [held in notice for notice in notices] == [True]


def test_its_own_queries_are_scored_out_of_fold(opened, shop, tmp_path):
    ready = opened(shop)
    file, _ = fit_selectors(ready, tmp_path / "presets", progress=quiet)
    again = open_tuning(file, [str(shop)])
    shipped, mine = again.tunables
    query_set = again.datasets[0].tuning_set
    assert mine.rank(query_set).refitted
    assert not shipped.rank(query_set).refitted


def test_two_datasets_of_one_catalog_are_refused(opened, shop, other, tmp_path):
    with pytest.raises(InputError, match="shop and other have the same catalog"):
        fit_selectors(opened(shop, other), tmp_path / "presets", progress=quiet)


def test_a_selector_without_a_probability_is_refused_by_its_line(opened, shop, tmp_path):
    ready = opened(shop, selectors=["learned", {"selector": "bm25", "fit": "own"}])
    with pytest.raises(InputError, match=r"fit: own: selector 'bm25' has no step .*policy\.yaml, line \d+"):
        fit_selectors(ready, tmp_path / "presets", progress=quiet)


def test_another_word_than_own_is_refused(opened, shop):
    with pytest.raises(InputError, match="fit must be 'own', got 'mine'"):
        opened(shop, selectors=["learned", {"selector": "learned", "name": "mine", "fit": "mine"}])
