"""Settings run on what is kept of the steps before: equal to running the whole selector, and nothing done twice."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.evaluation.answers import Labels
from ctxbench.evaluation.metrics import evaluate, parse_metric, parse_metrics
from ctxbench.evaluation.runner import answered
from ctxbench.io.errors import ParameterError
from ctxbench.model.resources import Resources
from ctxbench.pipelines.pipeline import PipelineError
from ctxbench.selectors.definition import Definition
from ctxbench.selectors.definitions import definition, read_definition
from ctxbench.selectors.selector import PipelineSelector
from ctxbench.testing import mock_catalog, mock_requests, mock_resources
from ctxbench.tuning import setting_lines
from ctxbench.tuning.measures import Measure
from ctxbench.tuning.setting_lines import OutputCache, SettingRunner, draw_settings, setting_line, value_range

CATALOG = mock_catalog()
FINDABLE = [item.key for item in CATALOG if item.enabled and item.include == "agent"]
METRICS = parse_metrics(
    ["completeness", "recall", "precision", "tokens", "total_tokens", "items", "same_server_confusions"]
)
MEASURES = tuple(Measure(metric) for metric in METRICS)
COMPLETE = Measure(parse_metric("completeness"))
WITHIN = Measure(parse_metric("completeness"), reachable=True)
SEMANTIC = definition("semantic")
EXPANDED = {"contextExpansionEnabled": True, "contextExpansionThreshold": 0.3}


def labelled(seed: int) -> Labels:
    """The mock requests with random labels: some need nothing, some have alternatives."""
    rng = np.random.default_rng(seed)
    queries, labels = [], []
    for number, request in enumerate(mock_requests()):
        may = [key for key in FINDABLE if request.available is None or key in request.available]
        needed = rng.permutation(len(may))[: int(rng.integers(0, 4))].tolist()
        request = replace(request, id=f"q{number}")
        queries.append(DatasetQuery(request=request, split="tuning", needs_nothing=not needed))
        labels += [
            Label(request.id, may[item], 2, alternatives="a" if len(needed) > 2 and place < 2 else "")
            for place, item in enumerate(needed)
        ]
    dataset = Dataset(name="mock", version="1", catalog=CATALOG, queries=tuple(queries), labels=tuple(labels))
    return Labels.of(dataset, mock_resources().tokens(CATALOG))


LABELS = labelled(1)


def runner(labels: Labels = LABELS, selector: Definition = SEMANTIC, measures=MEASURES, **fixed) -> SettingRunner:
    return SettingRunner(
        selector, labels.dataset.batch(), resources=mock_resources(), labels=labels, measures=measures, **fixed
    )


def by_running(labels: Labels, values, selector: Definition = SEMANTIC) -> dict[Measure, np.ndarray]:
    """The whole selector, from scratch."""
    made = PipelineSelector("x", selector.pipeline(selector.with_defaults(values)), mock_resources())
    found = evaluate(METRICS, labels.evidence(answered(made, labels.dataset.batch())))
    return {Measure(metric): values for metric, values in found.items()}


def same(one, other) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[key], other[key], equal_nan=True) for key in one)


# ----------------------------------------------------------------------------------------------- equal to the selector


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 50),
    st.lists(
        st.fixed_dictionaries(
            {
                "contextTopK": st.integers(1, 100),
                "contextTopN": st.integers(0, 8),
                "contextIncludeScore": st.floats(0, 1),
                "contextExpansionEnabled": st.booleans(),
                "contextExpansionDepth": st.integers(1, 4),
                "contextExpansionThreshold": st.floats(0, 1),
                "contextExpansionTopN": st.integers(1, 6),
            }
        ),
        min_size=1,
        max_size=5,
    ),
)
def test_every_setting_is_as_if_the_selector_ran_alone(seed, drawn_settings):
    labels = labelled(seed)
    with mock.patch.object(setting_lines, "MEMORY", 20_000):  # so little that outputs are dropped all the time
        runs = runner(labels)
    for values in [*drawn_settings, *drawn_settings[::-1]]:
        assert same(runs.values(values), by_running(labels, values))


def test_steps_that_re_rank_skip_or_cut_at_gaps_are_run(tmp_path):
    path = tmp_path / "odd.yaml"
    path.write_text(
        "name: odd\nparameters:\n  budget: {default: 60, range: [0, 500]}\n"
        "  relevance: {default: 0.5, range: [0.0, 1.0]}\n"
        "pipeline:\n  retrieve: dense\n  refine:\n    - mmr: {relevance: $relevance, n: 8}\n    - gap: {at_most: 6}\n"
        "    - budget: {tokens: $budget, skip: true}\n",
        "utf-8",
    )
    odd = read_definition(path)
    runs = runner(selector=odd)
    for values in ({"budget": 0}, {"budget": 90, "relevance": 0.1}, {"relevance": 1.0}, {}):
        assert same(runs.values(values), by_running(LABELS, values, odd))


def test_within_reach_are_the_queries_that_the_first_twenty_of_the_ranking_make_complete():
    values = {"contextTopN": 2, "contextIncludeScore": 1.0}
    runs = runner(measures=(COMPLETE, WITHIN))
    found = runs.values(values)
    made = PipelineSelector("x", SEMANTIC.pipeline(SEMANTIC.with_defaults(values)), mock_resources())
    comp = evaluate([parse_metric("Comp@20")], LABELS.evidence(answered(made, LABELS.dataset.batch())))
    reach = comp[parse_metric("Comp@20")] == 1.0
    assert 0 < reach.sum() < len(reach)
    assert np.isnan(found[WITHIN][~reach]).all()
    assert found[WITHIN][reach].tolist() == found[COMPLETE][reach].tolist()


def test_lines_hold_exact_sums_in_the_order_asked():
    asked = ({"contextTopN": 4}, {"contextTopN": 1}, {**EXPANDED, "contextExpansionDepth": 2}, {"contextTopN": 4})
    lines = runner().lines(asked)
    assert [line.values for line in lines] == list(asked)
    for line, values in zip(lines, asked, strict=True):
        expected = by_running(LABELS, values)
        assert (len(line), line.axis, line.values_at(0)) == (1, "", values)
        for measure in MEASURES:
            applies = expected[measure][~np.isnan(expected[measure])]
            assert line.n[measure] == len(applies)
            assert line.sums[measure].tolist() == [math.fsum(applies.tolist())]
            if measure != COMPLETE:
                assert line.squares[measure].tolist() == [math.fsum((applies**2).tolist())]
                assert line.cubes[measure].tolist() == [math.fsum((applies**3).tolist())]
        assert COMPLETE not in line.squares, "of yes and no the sum says it all"


def test_a_line_of_no_queries_is_empty_sums():
    line = setting_line({}, {COMPLETE: np.array([np.nan, np.nan])})
    assert (line.n[COMPLETE], line.sums[COMPLETE].tolist()) == (0, [0.0])


def test_another_order_gives_the_same_bytes():
    asked = [{"contextTopN": n, **EXPANDED, "contextExpansionDepth": depth} for n in (1, 5) for depth in (1, 2, 3)]
    one = {str(line.values): line for line in runner().lines(asked)}
    other = {str(line.values): line for line in runner().lines(asked[::-1])}
    for key, line in one.items():
        assert all(line.sums[m].tobytes() == other[key].sums[m].tobytes() for m in MEASURES)


# ------------------------------------------------------------------------------------------------------ nothing twice


class Counted(Resources):
    """Resources that count what is asked of them."""

    def __init__(self) -> None:
        self.mock, self.asked = mock_resources(), Counter()
        self.get_or_create, self.tokens, self.identity = self.mock.get_or_create, self.mock.tokens, self.mock.identity

    def vectors(self, texts, *, kind="query"):
        self.asked["vectors"] += 1
        return self.mock.vectors(texts, kind=kind)


def test_what_stands_before_the_first_step_that_differs_runs_once():
    resources = Counted()
    runs = SettingRunner(SEMANTIC, LABELS.dataset.batch(), resources=resources, labels=LABELS, measures=MEASURES)
    runs.values({"contextTopN": 1})
    before = resources.asked["vectors"]
    for n in range(2, 9):
        runs.values({"contextTopN": n})
    assert before > 0
    assert resources.asked["vectors"] == before, "the search ran once"
    assert runs.runs == 8


def test_no_selection_is_measured_twice(monkeypatch):
    from ctxbench.tuning import setting_lines as reuse

    calls = []
    real = reuse.measure_answers
    monkeypatch.setattr(reuse, "measure_answers", lambda *args: calls.append(1) or real(*args))
    runs = runner()
    first = runs.values({"contextTopN": 3, "contextIncludeScore": 1.0})
    assert runs.values({"contextIncludeScore": 1.0, "contextTopN": 3}) is first, "the same setting"
    assert runs.values({"contextTopN": 3, "contextIncludeScore": 0.9999999}) is first, "another with the same items"
    assert (runs.runs, len(runs._values_by_offer), len(calls)) == (2, 1, 1)


def test_the_same_items_shown_in_part_are_another_selection(tmp_path):
    path = tmp_path / "cut.yaml"
    path.write_text(
        "name: cut\nparameters:\n  characters: {default: 100, range: [1, 1000]}\n"
        "pipeline:\n  retrieve: dense\n  refine:\n    - first: {n: 5}\n"
        "    - excerpts: {characters: $characters, types: [rule, reference, file, message]}\n",
        "utf-8",
    )
    cut = read_definition(path)
    runs = runner(selector=cut)
    for values in ({"characters": 10}, {"characters": 40}, {"characters": 1000}):
        assert same(runs.values(values), by_running(LABELS, values, cut))
    assert len(runs._values_by_offer) == 3


def test_a_setting_that_cannot_be_built_is_told_before_any_runs(tmp_path):
    path = tmp_path / "odd.yaml"
    text = "name: odd\nparameters:\n  n: {default: 1, range: [-5, 5]}\n"
    path.write_text(f"{text}pipeline: {{retrieve: dense, refine: [{{first: {{n: $n}}}}]}}\n", "utf-8")
    odd, resources = read_definition(path), Counted()
    runs = SettingRunner(odd, LABELS.dataset.batch(), resources=resources, labels=LABELS, measures=MEASURES)
    with pytest.raises(PipelineError, match="n must be 0 or more, got -1"):
        runs.lines([{"n": 1}, {"n": -1}])
    assert not resources.asked


def test_what_was_used_longest_ago_is_dropped_first():
    kept = OutputCache(limit=100)
    kept["a"], kept["b"] = np.zeros(5), np.zeros(5)
    assert (kept.bytes, len(kept), kept["a"].shape) == (80, 2, (5,))
    kept["c"] = np.zeros(5)
    assert (list(kept), "b" in kept, kept.bytes) == (["a", "c"], False, 80)
    kept["d"] = np.zeros(500)
    assert (list(kept), kept.bytes) == (["d"], 4000), "the last one stays whatever its size"
    del kept["d"]
    assert (list(kept), kept.bytes) == ([], 0)


# ------------------------------------------------------------------------------------------------------- what to try


def test_a_small_space_is_tried_whole_the_last_parameter_changing_fastest():
    found = draw_settings(
        SEMANTIC, {"contextTopN": (1, 2), "contextIncludeScore": (0.5, 1)}, fixed={"contextTopK": 30}, trials=4, seed=0
    )
    assert [(one["contextTopK"], one["contextTopN"], one["contextIncludeScore"]) for one in found] == [
        (30, 1, 0.5),
        (30, 1, 1.0),
        (30, 2, 0.5),
        (30, 2, 1.0),
    ]


def test_settings_that_are_the_same_to_the_selector_are_tried_once():
    search = {"contextExpansionEnabled": (False, True), "contextExpansionDepth": (1, 2, 3), "contextTopN": (1, 1)}
    found = draw_settings(SEMANTIC, search, trials=100, seed=0)
    assert found == (
        {"contextExpansionEnabled": False, "contextTopN": 1},
        {"contextExpansionEnabled": True, "contextExpansionDepth": 1, "contextTopN": 1},
        {"contextExpansionEnabled": True, "contextExpansionDepth": 2, "contextTopN": 1},
        {"contextExpansionEnabled": True, "contextExpansionDepth": 3, "contextTopN": 1},
    )


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 40))
def test_a_large_space_is_drawn_from_by_the_seed_without_repeats(seed, trials):
    search = {
        name: value_range(SEMANTIC.parameters[name]) for name in ("contextTopK", "contextTopN", "contextIncludeScore")
    }
    found = draw_settings(SEMANTIC, search, trials=trials, seed=seed)
    assert found == draw_settings(SEMANTIC, search, trials=trials, seed=seed)
    assert len({tuple(one.items()) for one in found}) == len(found) == trials
    for one in found:
        assert SEMANTIC.values(overrides=one) == SEMANTIC.with_defaults(one)


def test_another_seed_draws_others():
    search = {"contextTopK": value_range(SEMANTIC.parameters["contextTopK"]), "contextTopN": tuple(range(51))}
    assert draw_settings(SEMANTIC, search, trials=9, seed=1) != draw_settings(SEMANTIC, search, trials=9, seed=2)


def test_nothing_to_search_is_the_one_setting_given():
    assert draw_settings(SEMANTIC, {}, fixed={"contextTopN": 3}, trials=5, seed=0) == ({"contextTopN": 3},)


def test_the_values_of_a_whole_range():
    assert value_range(SEMANTIC.parameters["contextTopN"]) == tuple(range(51))
    decimals = value_range(SEMANTIC.parameters["contextIncludeScore"])
    assert (decimals[0], decimals[1], decimals[700], decimals[-1], len(decimals)) == (0.0, 0.001, 0.7, 1.0, 1001)
    assert value_range(SEMANTIC.parameters["contextExpansionEnabled"]) == (False, True)
    assert value_range(definition("semantic-domains").parameters["toolsMode"]) == (
        "aggressive",
        "normal",
        "conservative",
    )


@pytest.mark.parametrize(
    ("search", "changes", "message"),
    [
        ({"contextTopN": (99,)}, {}, "contextTopN must be 0 to 50, got 99"),
        ({"topM": (1,)}, {}, "no parameter 'topM'"),
        ({"contextTopN": (1,)}, {"fixed": {"contextTopK": 0}}, "contextTopK must be 1 to 100, got 0"),
        ({"contextTopN": (1,)}, {"trials": 0}, "trials must be 1 or more, got 0"),
        ({"contextExpansionDepth": (1, 2)}, {}, "contextExpansionDepth: searched, but without effect"),
    ],
)
def test_a_search_that_makes_no_sense_is_refused(search, changes, message):
    with pytest.raises(ParameterError, match=message):
        draw_settings(SEMANTIC, search, **{"trials": 3, "seed": 0, **changes})


def test_depth_0_is_drawn_once_and_is_as_off():
    search = {"contextExpansionEnabled": [False, True], "contextExpansionDepth": [0, 1], "contextExpansionTopN": [1, 2]}
    found = draw_settings(SEMANTIC, search, trials=20, seed=0)
    assert found == (
        {"contextExpansionEnabled": False},
        {"contextExpansionEnabled": True, "contextExpansionDepth": 1, "contextExpansionTopN": 1},
        {"contextExpansionEnabled": True, "contextExpansionDepth": 1, "contextExpansionTopN": 2},
    )
