"""Expansion on a cut: every threshold and topN from one run, equal to running the selector at each of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.evaluation.answers import Labels
from ctxbench.evaluation.metrics import evaluate, parse_metric, parse_metrics
from ctxbench.evaluation.runner import answered
from ctxbench.io.errors import ParameterError
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Request, SessionItem
from ctxbench.selectors.definition import Definition
from ctxbench.selectors.definitions import definition, read_definition
from ctxbench.selectors.selector import PipelineSelector
from ctxbench.testing import mock_resources
from ctxbench.tuning.measures import Measure
from ctxbench.tuning.setting_lines import SettingRunner
from ctxbench.tuning.tunables import ExpansionSweep, why_not_exact

METRICS = parse_metrics(
    ["completeness", "recall", "precision", "tokens", "total_tokens", "items", "same_server_confusions", "false_items"]
)
MEASURES = tuple(Measure(metric) for metric in METRICS)
COMPLETE, ITEMS = Measure(parse_metric("completeness")), Measure(parse_metric("items"))
WITHIN = Measure(parse_metric("completeness"), reachable=True)
SEMANTIC = definition("semantic")
ON = {"contextExpansionEnabled": True}
WORDS = ("issue", "label", "invoice", "court", "date", "mail", "tea", "step")
GRAPH = """
name: by-graph
parameters:
  n: {default: 2, range: [0, 9]}
  alike: {default: 0.5, range: [0.1, 0.9]}
  most: {default: 3, range: [1, 5]}
pipeline:
  retrieve: dense
  refine:
    - first: {n: $n}
    - expansion: {by: graph, similarity: SIMILARITY, graph_threshold: $alike, graph_topN: MOST}
"""


def catalog(rng: np.random.Generator) -> Catalog:
    """Rules of one to three words out of eight, duplicates among them, so that scores are tied."""
    texts = [" ".join(rng.choice(WORDS, size=rng.integers(1, 4)).tolist()) for _ in range(14)]
    return Catalog([Item(type="rule", name=f"r{i}", text=f"{text}\n\n{texts[-1]}") for i, text in enumerate(texts)])


def labelled(seed: int) -> Labels:
    rng = np.random.default_rng(seed)
    items = catalog(rng)
    keys = [item.key for item in items]
    queries, labels = [], []
    for number in range(int(rng.integers(1, 9))):
        held = tuple(SessionItem(keys[place]) for place in rng.permutation(14)[: rng.integers(0, 3)])
        may = None if rng.random() < 0.7 else tuple(keys[place] for place in sorted(rng.permutation(14)[:9]))
        held = tuple(one for one in held if may is None or one.key in may)
        text = " ".join(rng.choice(WORDS, size=rng.integers(0, 4)).tolist())
        request = Request(id=f"q{number}", text=text, session=held, available=may)
        needed = [key for key in keys if (may is None or key in may) and rng.random() < 0.15]
        queries.append(DatasetQuery(request=request, split="tuning", needs_nothing=not needed))
        labels += [
            Label(request.id, key, 2, alternatives="a" if len(needed) > 2 and place < 2 else "")
            for place, key in enumerate(needed)
        ]
    dataset = Dataset(name="words", version="1", catalog=items, queries=tuple(queries), labels=tuple(labels))
    return Labels.of(dataset, mock_resources().tokens(items))


def runner(labels: Labels, selector: Definition = SEMANTIC, measures=MEASURES) -> SettingRunner:
    return SettingRunner(selector, labels.dataset.batch(), resources=mock_resources(), labels=labels, measures=measures)


def by_running(labels: Labels, selector: Definition, values) -> dict[Measure, np.ndarray]:
    made = PipelineSelector("x", selector.pipeline(selector.with_defaults(values)), mock_resources())
    found = evaluate(METRICS, labels.evidence(answered(made, labels.dataset.batch())))
    return {Measure(metric): values for metric, values in found.items()}


def lines_of(swept: ExpansionSweep, topNs):
    """The lines of some topNs; all of them without any."""
    return [
        line
        for line, limit in zip(swept.lines(), swept.parameters.topNs, strict=True)
        if topNs is None or limit in topNs
    ]


def hold(swept: ExpansionSweep, labels: Labels, selector: Definition, *, topNs) -> None:
    """Compare every setting of every line with the selector run at just that setting, and at a shorter decimal."""
    for line in lines_of(swept, topNs):
        assert len(set(line.thresholds.tolist())) == len(line)
        for place in range(len(line)):
            values = line.values_at(place)
            assert selector.values(overrides=values) == selector.with_defaults(values), "it is within its range"
            expected = by_running(labels, selector, values)
            short = by_running(labels, selector, line.rounded_values(place))
            for measure in MEASURES:
                assert np.array_equal(short[measure], expected[measure], equal_nan=True)
                n = int((~np.isnan(expected[measure])).sum())
                assert n == (line.applies[measure][place] if measure in line.applies else line.n[measure])
                for power, sums in ((1, line.sums), (2, line.squares), (3, line.cubes)):
                    if measure in sums:
                        assert sums[measure][place] == pytest.approx(np.nansum(expected[measure] ** power), rel=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 4), st.integers(1, 30), st.sampled_from([(1,), (1, 2), (2, 5, 20)]))
def test_every_threshold_and_limit_is_as_if_the_selector_ran_there(seed, first, top_k, limits):
    labels = labelled(seed)
    values = {**ON, "contextTopN": first, "contextTopK": top_k, "contextIncludeScore": 0.9}
    swept = ExpansionSweep.of(runner(labels), values, labels=labels, measures=MEASURES)
    hold(swept, labels, SEMANTIC, topNs=limits)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["max", "mean", "centroid"]), st.sampled_from(["$most", "2"]))
def test_a_graph_is_swept_within_the_range_of_its_threshold(tmp_path_factory, seed, similarity, most):
    path = tmp_path_factory.mktemp("graph") / "by-graph.yaml"
    text = GRAPH.replace("SIMILARITY", similarity).replace("MOST", most)
    path.write_text(text if most == "$most" else text.replace("  most: {default: 3, range: [1, 5]}\n", ""), "utf-8")
    selector, labels = read_definition(path), labelled(seed)
    swept = ExpansionSweep.of(runner(labels, selector), {"n": 2}, labels=labels, measures=MEASURES)
    assert swept.parameters.topNs == ((1, 2, 3, 4, 5) if most == "$most" else (2,))
    hold(swept, labels, selector, topNs=None if most == "2" else (1, 4))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 4), st.sampled_from([(1,), (2, 5)]))
def test_the_graph_of_semantic_is_swept_by_its_own_limits(seed, first, limits):
    labels = labelled(seed)
    values = {**ON, "contextExpansionBy": "graph", "contextTopN": first, "contextIncludeScore": 0.9}
    swept = ExpansionSweep.of(runner(labels), values, labels=labels, measures=MEASURES)
    assert (swept.parameters.threshold, swept.parameters.topN) == (
        "contextExpansionGraphThreshold",
        "contextExpansionGraphTopN",
    )
    hold(swept, labels, SEMANTIC, topNs=limits)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["chunks", "graph", "both"]))
def test_depth_0_is_as_if_it_were_not_enabled_and_runs_once(seed, by):
    labels = labelled(seed)
    work = runner(labels)
    off = work.values({"contextExpansionEnabled": False})
    zero = work.values({**ON, "contextExpansionDepth": 0, "contextExpansionBy": by})
    assert zero is off
    assert (work.runs, len(work._values_by_offer)) == (1, 1)
    expected = by_running(labels, SEMANTIC, {**ON, "contextExpansionDepth": 0, "contextExpansionBy": by})
    for measure in MEASURES:
        assert np.array_equal(zero[measure], expected[measure], equal_nan=True)


def one_line(**changes):
    """A request for r0 over three rules; r1 and r2 share half and a third of its words."""
    items = Catalog(
        [
            Item(type="rule", name="a", text="tea"),
            Item(type="rule", name="b", text="tea court"),
            Item(type="rule", name="c", text="tea court date"),
        ]
    )
    request = Request(id="q", text="tea", **changes)
    query = DatasetQuery(request=request, split="tuning")
    labels = (Label("q", items[1].key, 2),)
    dataset = Dataset(name="three", version="1", catalog=items, queries=(query,), labels=labels)
    return Labels.of(dataset, np.array([10, 200, 3000]))


def test_thresholds_fall_from_the_end_of_the_range_through_every_score():
    labels = one_line()
    values = {**ON, "contextTopN": 1, "contextIncludeScore": 1.0}
    swept = ExpansionSweep.of(runner(labels), values, labels=labels, measures=MEASURES)
    (line,) = lines_of(swept, [2])
    assert line.axis == "contextExpansionThreshold"
    assert line.values == {**values, "contextExpansionTopN": 2}
    assert (line.thresholds[0], len(line)) == (1.0, 3)
    assert swept.score[0].tolist() == line.thresholds[1:].tolist(), "best first"
    assert line.sums[ITEMS].tolist() == [1, 2, 3]
    assert sorted(np.diff(line.sums[Measure(parse_metric("tokens"))]).tolist()) == [200, 3000]
    (one,) = lines_of(swept, [1])
    assert one.sums[ITEMS].tolist() == [1, 2], "the second one never comes in, so nothing changes at its score"


def test_within_reach_is_told_by_the_ranking_of_the_search():
    labels = one_line()
    values = {**ON, "contextTopN": 1, "contextIncludeScore": 1.0}
    swept = ExpansionSweep.of(runner(labels, measures=(WITHIN,)), values, labels=labels, measures=(WITHIN,))
    (line,) = lines_of(swept, [20])
    assert (line.n[WITHIN], line.sums[WITHIN][0], line.sums[WITHIN][-1]) == (1, 0.0, 1.0)


def test_where_nothing_is_chosen_nothing_is_brought_in():
    labels = one_line()
    values = {**ON, "contextTopN": 0, "contextIncludeScore": 1.0, "contextTopK": 1}
    labels = replace(
        labels,
        dataset=replace(
            labels.dataset,
            queries=tuple(replace(query, request=replace(query.request, text="")) for query in labels.dataset.queries),
        ),
    )
    swept = ExpansionSweep.of(runner(labels), values, labels=labels, measures=MEASURES)
    assert swept.score.shape == (1, 0)
    for line in swept.lines():
        assert (line.thresholds.tolist(), line.sums[ITEMS].tolist(), line.n[COMPLETE]) == ([1.0], [0.0], 1)


def test_no_query_at_all():
    labels = one_line()
    labels = Labels.of(labels.dataset.take(()), labels.item_tokens)
    swept = ExpansionSweep.of(runner(labels), ON, labels=labels, measures=MEASURES)
    line = next(swept.lines())
    assert (line.n[COMPLETE], line.sums[COMPLETE].tolist(), len(line)) == (0, [0.0], 1)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({}, "expansion is off"),
        ({**ON, "contextExpansionDepth": 0}, "expansion is off"),
        ({**ON, "contextExpansionBy": "both"}, "by: both"),
        ({**ON, "contextTokenBudgetEnabled": True}, "the last step is not an expansion"),
        ({**ON, "contextSearchEnabled": False}, "the last step is not an expansion"),
        ({**ON, "contextExpansionDepth": 2}, "2 passes"),
    ],
)
def test_what_one_run_cannot_tell_is_refused(values, reason):
    assert reason in why_not_exact(SEMANTIC, values)
    labels = one_line()
    with pytest.raises(ParameterError, match=reason):
        ExpansionSweep.of(runner(labels), values, labels=labels, measures=MEASURES)


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ("[{first: {n: $n}}]", "the last step is not an expansion"),
        ("[{first: {n: $n}}, expansion, {budget: {tokens: 10}}]", "the last step is not an expansion"),
        ("[{first: {n: $n}}, expansion, expansion]", "another expansion"),
        ("[{first: {n: $n}}, {expansion: {by: both}}]", "by: both"),
        ("[{first: {n: $n}}, {expansion: {query_weight: 0.5}}]", "query_weight"),
        ("[{first: {n: $n}}, {expansion: {by: graph, graph: some-file}}]", "graph file"),
        ("[{first: {n: $n}}, expansion]", "fixes threshold"),
        ("[{first: {n: $n}}, {expansion: {by: graph}}]", "fixes graph_threshold"),
        ("[{by_domain: {'*': [{first: {n: $n}}, expansion]}}]", "the last step is not an expansion"),
    ],
)
def test_why_one_run_is_not_enough(tmp_path, steps, reason):
    path = tmp_path / "one.yaml"
    head = "name: one\nparameters:\n  n: {default: 2, range: [0, 9]}\npipeline:\n  retrieve: dense\n"
    path.write_text(f"{head}  refine: {steps}\n", "utf-8")
    assert reason in why_not_exact(read_definition(path), {})
