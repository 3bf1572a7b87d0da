"""Policies that limit `forbidden_offered`, on labels of which some are negatives alone."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

import ctxbench
from ctxbench.datasets.files import write_dataset
from ctxbench.datasets.queries import Label
from ctxbench.evaluation.metrics import parse_metric
from ctxbench.pipelines.fits import read_calibrations
from ctxbench.report.tuning_tables import all_results, console_table, estimate_text, results
from ctxbench.tuning.inputs import open_tuning
from ctxbench.tuning.policy import read_policies
from ctxbench.tuning.preset_files import fit_selectors
from ctxbench.tuning.results import rank_with_pipeline
from tests.tuning.conftest import SMALL, made

CHEAP = {"embedder": "hashing", "counter": "chars/4"}
LIMITED = {
    "normal": {
        "minimise": "tokens",
        "constraints": [
            {"metric": "completeness", "at_least": 0.5, "of": "base"},
            {"metric": "forbidden_offered", "at_most": 0.2},
        ],
    }
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Every second query has three forbidden items; of every sixth not all required ones are known."""
    whole, drawn = made(n=120), random.Random(5)
    labels = list(whole.labels)
    for number, query in enumerate(whole.queries):
        needed = {label.item for label in whole.labels_of(query.id)}
        spare = [item.key for item in whole.catalog if item.key not in needed]
        labels += [Label(query.id, key, 0) for key in drawn.sample(spare, 3) if number % 2]
    queries = [
        replace(query, partly_labelled=number % 6 == 1 and not query.needs_nothing)
        for number, query in enumerate(whole.queries)
    ]
    path = tmp_path_factory.mktemp("data") / "shop"
    write_dataset(replace(whole, queries=tuple(queries), labels=tuple(labels)), path)
    return path


def tuned(folder, **constraints):
    found = ctxbench.tune(
        str(folder),
        {"selector": "semantic", "search": SMALL},
        minimise="tokens",
        completeness="0.5 of base",
        labels="all",
        **CHEAP,
        **constraints,
    ).to_frame()
    return found.set_index("contender")


def test_the_figures_of_a_limited_setting_are_those_of_a_run(folder):
    found = tuned(folder, forbidden_offered=0.2)
    chosen = found.loc["normal"]
    assert chosen["forbidden_offered high"] <= 0.2 + 0.02
    ran = ctxbench.evaluate(folder, {"chosen": {"selector": "semantic", "set": dict(chosen["values"])}}, **CHEAP)
    for name in ("forbidden_offered", "completeness", "tokens"):
        assert ran.to_frame().loc["chosen", name] == pytest.approx(chosen[name], abs=1e-12), name


def test_a_limit_keeps_what_offers_more_forbidden_items_out(folder):
    loose, strict = (tuned(folder, forbidden_offered=most) for most in (0.9, 0.2))
    assert (
        loose.loc["specification's defaults", "forbidden_offered"]
        == strict.loc["specification's defaults", "forbidden_offered"]
        > 0.2
    )


def test_without_such_a_limit_nothing_depends_on_them(folder, tmp_path):
    from ctxbench.datasets.files import read_dataset

    write_dataset(read_dataset(folder).judged(), tmp_path / "shop")
    whole, judged = tuned(folder), tuned(tmp_path / "shop")
    assert whole.astype(str).equals(judged.astype(str))


def test_fits_do_not_learn_from_queries_that_are_known_in_part(policies, folder, tmp_path):
    """They are scored by a fit on all others."""
    entry = {"selector": "learned", "name": "mine", "fit": "own"}
    path = policies("learned", entry, policies=LIMITED, labels="")
    ready = open_tuning(read_policies(path), [str(folder)])
    (query_set,) = (one.tuning_set for one in ready.datasets)
    assert len(query_set) == 120
    file, _ = fit_selectors(ready, tmp_path / "presets", progress=lambda *_: None)
    own = next(fit for fit in read_calibrations(tmp_path / "presets" / "fits" / "mine-shop.json").fits if fit.catalog)
    assert own.queries == len(query_set.dataset.judged()) < 120
    mine = open_tuning(file, [str(folder)]).tunables[1]
    ranking = rank_with_pipeline(mine.head(mine.pipeline({})), query_set)
    assert ranking.refitted
    scores = ranking.answers.candidates.score
    assert np.isfinite(scores).all()


def test_reports_show_whether_contenders_keep_the_limit(folder):
    found = ctxbench.tune(
        str(folder),
        {"selector": "semantic", "search": SMALL},
        minimise="tokens",
        completeness="0.5 of base",
        forbidden_offered=0.2,
        labels="all",
        **CHEAP,
    ).found
    (dataset,) = found.datasets
    table = results(dataset, {})
    place = table.head.index("forbidden_offered %")
    shown = {row[0]: row[place] for row in table.rows}
    metric = parse_metric("forbidden_offered")
    assert place in table.numbers
    assert shown == {one.name: estimate_text(one.figures, metric) for one in all_results(dataset)}
    shipped = console_table(found).partition("as shipped")[2]
    assert all(estimate_text(one.figures, metric) in shipped for one in dataset.shipped.values())
    assert all(len(line) <= 80 for line in console_table(found).splitlines())
