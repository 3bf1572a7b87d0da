"""Fits of the step `linear`: what they hold, that the step reads them, and what they are worth on queries unseen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ctxbench import testing
from ctxbench.datasets.queries import Label
from ctxbench.evaluation.metrics import evaluate, mean, parse_metric
from ctxbench.io.errors import ParameterError
from ctxbench.model.arrays import Evidence, OfferedItems, Rankings
from ctxbench.pipelines.fits import describe_context, read_calibrations, write_calibrations
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.tuning import linear_fits
from ctxbench.tuning.linear_fits import fit_columns, linear_index, parse_objective
from tests.tuning.fits.fit_cases import dataset, query, words_dataset

RR = parse_metric("RR")
WRONG = {"similarity.score": 0.0, "words.bm25_share": -1.0}  # what has the words of a request comes last


def pipeline(**linear) -> Pipeline:
    return Pipeline.of({"retrieve": "dense", "refine": [{"linear": linear}, {"first": {"n": 3}}]})


@pytest.fixture(scope="module")
def data():
    return words_dataset()


@pytest.fixture(scope="module")
def resources():
    return testing.mock_resources()


def test_weights_are_fitted_within_a_token_count(data, resources):
    budget = int(np.median(resources.tokens(data.catalog, np.arange(len(data.catalog)))))
    fit, figures = fit_columns(data, pipeline(weights=WRONG), resources, parse_objective(f"R@{budget}tokens"), folds=4)
    assert fit.values["metric"] == figures.as_dict()["metric"] == f"R@{budget}tokens"
    assert fit.values["before"] < fit.values["value"] <= 1.0
    wide, _ = fit_columns(data, pipeline(weights=WRONG), resources, parse_objective("R@99999tokens"))
    assert wide.values["before"] == wide.values["value"] == 1.0  # everything fits


def measured(made, one: Pipeline, resources, metric: str = "RR") -> float:
    """The mean of a metric of a pipeline, by the ordinary metrics."""
    start, item = one.run(made.batch(), resources).candidates.ranking()
    none = np.empty(0, dtype=np.int64)
    nothing = OfferedItems(start=np.zeros_like(start), item=none, origin=none)
    evidence = Evidence(judgments=made.judgments, offered=nothing, rankings=Rankings(start=start, item=item))
    parsed = parse_metric(metric)
    return mean(evaluate([parsed], evidence)[parsed]).value


def test_the_step_reads_the_fit_and_reaches_what_it_promises(data, resources, tmp_path):
    fit, figures = fit_columns(data, pipeline(weights=WRONG), resources, RR)
    assert figures is None
    assert (fit.kind, fit.dataset, fit.queries, fit.catalog) == ("linear", "made", 24, data.catalog.hash)
    assert fit.behind == describe_context(pipeline(weights=WRONG), 0)
    assert list(fit.values["weights"]) == list(WRONG)
    assert fit.values["before"] == measured(data, pipeline(weights=WRONG), resources) < fit.values["value"]
    write_calibrations(tmp_path / "fits.json", [fit])
    (read,) = read_calibrations(tmp_path / "fits.json").fits
    assert read == fit
    fitted = pipeline(calibration=str(tmp_path / "fits.json"))
    assert measured(data, fitted, resources) == fit.values["value"]
    again, _ = fit_columns(data, fitted, resources, RR)
    assert again.values["before"] == fit.values["value"]
    assert again.behind == fit.behind


@pytest.mark.parametrize("metric", ["RR", "R@2", "nDCG@4"])
def test_labels_judged_as_trec_eval_does_are_fitted_to(metric, data, resources):
    first, rest = data.labels[:8], data.labels[8:]
    irrelevant = Label("none0", data.catalog[0].key, 0)  # trec_eval measures this query, too: its value is 0
    helpful = [replace(label, grade=1) for label in first]
    judged = replace(data, labels=(*helpful, *rest, irrelevant)).judged_by("trec")
    fit, _ = fit_columns(judged, pipeline(weights=WRONG), resources, parse_metric(metric))
    everything = Pipeline.of({"retrieve": "dense", "refine": [{"linear": {"weights": fit.values["weights"]}}]})
    assert measured(judged, everything, resources, metric) == pytest.approx(fit.values["value"])


def test_folds_measure_on_queries_that_were_not_fitted_on(data, resources):
    _, figures = fit_columns(data, pipeline(weights=WRONG), resources, RR, folds=4)
    assert (figures.folds, figures.groups, figures.compared.n) == (4, 16, 16)
    assert figures.compared.base == measured(data, pipeline(weights=WRONG), resources) < figures.compared.other
    assert figures.as_dict()["gain"]["value"] == figures.compared.difference
    with pytest.raises(ParameterError, match="folds must be 2 to the number of groups, which is 16, got 17"):
        fit_columns(data, pipeline(weights=WRONG), resources, RR, folds=17)


def test_the_last_step_outside_of_domains_is_fitted():
    one = {"linear": {"weights": WRONG}}
    assert linear_index(Pipeline.of({"retrieve": "dense"})) is None
    assert linear_index(Pipeline.of({"retrieve": "dense", "refine": [{"first": {"n": 9}}, one]})) == 1
    assert linear_index(Pipeline.of({"retrieve": "dense", "refine": [one, {"first": {"n": 9}}, one]})) == 2


def test_faults_are_named(data, resources):
    with pytest.raises(ParameterError, match="for a selector with a step `linear`"):
        fit_columns(data, Pipeline.of({"retrieve": "dense"}), resources, RR)
    with pytest.raises(ParameterError, match=r"weights are fitted by nDCG, R, .*, got completeness"):
        fit_columns(data, pipeline(weights=WRONG), resources, parse_metric("completeness"))
    idle = dataset([query("a", "nice day", needs_nothing=True)], [])
    with pytest.raises(ParameterError, match="RR applies to no query"):
        fit_columns(idle, pipeline(weights=WRONG), resources, RR)


def test_a_weight_of_nothing_has_no_sign(data, resources, monkeypatch):
    found = linear_fits.fit_linear
    monkeypatch.setattr(
        linear_fits, "fit_linear", lambda *a, **k: replace(found(*a, **k), weights=np.array([-0.0, 1.0]))
    )
    fit, _ = fit_columns(data, pipeline(weights=WRONG), resources, RR)
    assert [f"{value:g}" for value in fit.values["weights"].values()] == ["0", "1"]
