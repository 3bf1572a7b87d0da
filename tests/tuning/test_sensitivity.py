"""What is drawn around a setting: every point is what running the selector there gives."""

from __future__ import annotations

import numpy as np
import pytest

from ctxbench.evaluation.comparisons import grouped_estimate
from ctxbench.evaluation.metrics import evaluate, parse_metric
from ctxbench.io.workers import OptionalPool
from ctxbench.selectors.selector import PipelineSelector
from ctxbench.tuning.inputs import (
    FIRST,
    MAP_CELLS,
    MAPS,
    POINTS,
    RUNS,
    first_trace,
    front_traces,
    heat_maps,
    parameter_traces,
    trace,
)
from ctxbench.tuning.measures import Measure
from ctxbench.tuning.results import TUNING
from ctxbench.tuning.search import Base, Competitor, Search, run_searches

COMPLETE, TOKENS = parse_metric("completeness"), parse_metric("tokens")
SMALL = {"contextTopK": [20, 50], "contextTopN": [0, 1, 3, 5]}
SEMANTIC = {"selector": "semantic", "search": SMALL}
LEVEL = 0.9


@pytest.fixture
def competitor(ready):
    """A competitor on the tuning split."""

    def made(entry, **given):
        one = ready(entry, **given)
        return Competitor.of(one.tunables[0], one.datasets[0].query_sets[TUNING], one.file.policies.values()), one.file

    return made


def run(one, values):
    """Completeness and tokens by query of the whole selector."""
    query_set = one.query_set
    answers = query_set.answers(PipelineSelector("run", one.tunable.pipeline(values), query_set.resources))
    return evaluate([COMPLETE, TOKENS], query_set.labels.evidence(answers))


def test_every_point_of_a_slice_is_a_run_with_an_interval(competitor):
    one, _ = competitor({"selector": "semantic"})
    chosen = {"contextTopN": 2, "contextMargin": 0.4, "contextIncludeScore": 1.0}
    found = {each.name: each for each in parameter_traces(one, chosen, level=LEVEL)}
    assert list(found) == ["contextTopK", "contextTopN", "contextIncludeScore", "contextMargin"]
    margin = found["contextMargin"]
    assert len(margin.settings) <= POINTS
    assert margin.settings[0]["contextMargin"] == 0
    assert margin.settings[-1]["contextMargin"] == 1
    assert {"contextMargin": 0.4}.items() <= margin.settings[
        [s["contextMargin"] for s in margin.settings].index(0.4)
    ].items()
    for place in (0, 7, len(margin.settings) - 1):
        values = run(one, margin.settings[place])
        for metric in (COMPLETE, TOKENS):
            expected = grouped_estimate(
                values[metric], one.query_set.group, scale=metric.declaration.scale, level=LEVEL
            )
            assert margin.means[str(metric)][place] == pytest.approx(expected.value, rel=1e-12)
            assert margin.low[str(metric)][place] == pytest.approx(expected.interval.low, rel=1e-9)
            assert margin.high[str(metric)][place] == pytest.approx(expected.interval.high, rel=1e-9)


def test_a_margin_turned_up_offers_more(competitor):
    one, _ = competitor({"selector": "semantic"})
    found = {
        each.name: each for each in parameter_traces(one, {"contextTopN": 5, "contextIncludeScore": 1.0}, level=LEVEL)
    }
    assert (np.diff(found["contextMargin"].means["items"]) >= 0).all()
    assert (np.diff(found["contextTopN"].means["completeness"]) >= 0).all()
    assert (np.diff(found["contextIncludeScore"].means["items"]) <= 0).all()


def test_every_cell_of_a_heat_map_is_a_run(competitor):
    one, _ = competitor({"selector": "semantic", "set": {"contextTopK": 30, "contextIncludeScore": 1.0}})
    (heat,) = heat_maps(one, {"contextTopN": 4, "contextMargin": 0.3})
    assert (heat.y, heat.x) == ("contextTopN", "contextMargin")
    assert len(heat.xs) <= MAP_CELLS
    assert len(heat.ys) <= MAP_CELLS
    assert 4 in heat.ys
    assert 0.3 in heat.xs
    for row, column in ((0, 0), (2, 5), (len(heat.ys) - 1, len(heat.xs) - 1)):
        values = run(one, {"contextTopN": heat.ys[row], "contextMargin": heat.xs[column]})
        assert heat.means["completeness"][row, column] == pytest.approx(np.nanmean(values[COMPLETE]), rel=1e-12)
        assert heat.means["tokens"][row, column] == pytest.approx(np.nanmean(values[TOKENS]), rel=1e-12)


def test_of_many_parameters_neighbours_are_paired(competitor):
    one, _ = competitor("semantic-domains")
    found = heat_maps(one, {"toolsTopN": 2, "rulesTopN": 1})
    assert len(found) == MAPS
    assert ("toolsTopN", "toolsIncludeScore") in {(heat.y, heat.x) for heat in found}


def test_what_must_be_run_has_fewer_points_and_no_maps(competitor):
    one, _ = competitor({"selector": "semantic", "set": {"contextExpansionEnabled": True}, "search": SMALL})
    chosen = {"contextExpansionThreshold": 0.5, "contextTopN": 2}
    found = {each.name: each for each in parameter_traces(one, chosen, level=LEVEL)}
    assert heat_maps(one, chosen) == ()
    assert len(found["contextExpansionThreshold"].settings) <= RUNS
    assert [each["contextTopK"] for each in found["contextTopK"].settings] == [20, 50], "those that are listed"
    place = len(found["contextExpansionThreshold"].settings) // 2
    values = run(one, found["contextExpansionThreshold"].settings[place])
    assert found["contextExpansionThreshold"].means["tokens"][place] == pytest.approx(values[TOKENS].mean(), rel=1e-12)


def test_what_is_given_or_part_of_the_ranking_is_not_turned(competitor):
    one, _ = competitor({"selector": "bm25", "search": {"b": [0.2, 0.8]}})
    found = {each.name: [s[each.name] for s in each.settings] for each in parameter_traces(one, {"n": 3}, level=LEVEL)}
    assert set(found) == {"b", "n"}, "k1 is neither swept nor searched"
    assert found["b"] == sorted({0.2, 0.8, one.tunable.values()["b"]})
    plain, _ = competitor("bm25")
    assert [each.name for each in parameter_traces(plain, {"n": 3}, level=LEVEL)] == ["n"]


def test_the_first_n_items(competitor):
    one, _ = competitor(SEMANTIC)
    found = first_trace(one, level=LEVEL)
    assert [setting["n"] for setting in found.settings] == list(FIRST)
    assert found.means["items"][:3].tolist() == [0, 1, 2]
    assert found.means["completeness"][0] == 0
    assert found.name == "semantic: first n"


def test_a_front_rises_in_both(competitor):
    one, file = competitor(SEMANTIC)
    base = Base.of(one, file.policies.values())
    (found,) = run_searches([Search(one.with_base(base), file, base)], OptionalPool())
    (front,) = front_traces([found], level=LEVEL, pool=OptionalPool())
    assert len(front.settings) == len(found.front) > POINTS, "none is left out"
    assert (np.diff(front.means["tokens"]) > 0).all()
    assert (np.diff(front.means["completeness"]) > 0).all()
    values = run(one, front.settings[4])
    assert front.means["completeness"][4] == pytest.approx(np.nanmean(values[COMPLETE]), rel=1e-12)


def test_a_measure_that_applies_to_no_query_has_no_mean(competitor, shop, tmp_path):
    from dataclasses import replace

    from ctxbench.datasets.files import read_dataset, write_dataset

    dataset = read_dataset(shop)
    bare = tuple(replace(query, needs_nothing=True) for query in dataset.queries)
    write_dataset(replace(dataset, name="bare", queries=bare, labels=()), tmp_path / "bare")
    policy = {"minimise": "false_items", "constraints": [{"metric": "tokens", "at_least": 1}]}
    one, _ = competitor("dense", datasets=[tmp_path / "bare"], policies={"least": policy})
    found = trace(one, "n", [{"n": 1}], level=LEVEL)
    assert np.isnan(found.means["completeness"][0])
    assert not np.isnan(found.means["tokens"][0])
    assert Measure(TOKENS) in one.rankings.measures
