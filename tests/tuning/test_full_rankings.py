"""What is found before it is cut: the same as running the selector, out of fold where a fit has seen the queries."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from ctxbench.evaluation.metrics import parse_metric
from ctxbench.io.errors import InputError, ParameterError
from ctxbench.model.candidates import Candidates, Origin
from ctxbench.model.requests import Batch
from ctxbench.pipelines.fits import read_calibrations, write_calibrations
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.selectors.external import FileSelector
from ctxbench.selectors.selector import PipelineSelector
from ctxbench.tuning.fit_examples import folds_of
from ctxbench.tuning.measures import Measure
from ctxbench.tuning.query_fits import fit
from ctxbench.tuning.rankings import MeasuredRankings
from ctxbench.tuning.results import OUT_OF_FOLD, TEST, TUNING, count_fit_datasets, is_fitted_on
from ctxbench.tuning.setting_lines import measure_answers
from ctxbench.tuning.tunables import ExternalRankings

ABSTAINING = """\
name: careful
parameters:
  n: {default: 3, range: [0, 50]}
pipeline:
  retrieve:
    dense: {depth: 100}
  refine:
    - abstain: {calibration: fits.json, threshold: 0.8}
    - first: {n: $n}
"""
SETTINGS = {
    "semantic": [
        {},
        {"contextTopK": 7, "contextTopN": 0, "contextIncludeScore": 0.3},
        {"contextTopN": 50, "contextIncludeScore": 1.0, "contextMargin": 0.25},
        {"contextExpansionEnabled": True, "contextExpansionThreshold": 0.2, "contextExpansionDepth": 2},
        {"contextExpansionEnabled": True, "contextExpansionDepth": 0},
        {"contextExpansionEnabled": True, "contextExpansionBy": "both", "contextExpansionGraphThreshold": 0.2},
        {"contextTokenBudgetEnabled": True, "contextTokenBudget": 150, "contextTopN": 20},
        {"contextSearchEnabled": False},
    ],
    "semantic-domains": [
        {},
        {"rulesTopN": 0, "toolsMargin": 0.2},
        {"toolsTopK": 4, "rulesExpansionEnabled": True, "rulesExpansionThreshold": 0.2},
    ],
    "bm25": [{"n": 0}, {"n": 4}, {"n": 4, "b": 0.1}],
    "hybrid": [{"n": 3}],
    "assembly": [{}, {"tokens": 700, "reserved": 600}, {"characters": 20}],
}


def same(one: Candidates, other: Candidates) -> None:
    """Equal to the bit, in every column."""
    for name in ("start", "item", "score", "chunk_rank", "origin", "mode", "query_chunk", "item_chunk", "via_item"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    np.testing.assert_array_equal(one.chosen, other.chosen)


@pytest.mark.parametrize(("name", "chosen"), [(name, one) for name, all_ in SETTINGS.items() for one in all_])
def test_finding_and_cutting_is_running_the_selector(ready, name, chosen):
    (tunable,), (opened,) = (one := ready(name)).tunables, one.datasets
    for query_set in opened.query_sets.values():
        cut = tunable.cut(tunable.rank(query_set, chosen), chosen, query_set)
        whole = query_set.answers(PipelineSelector("whole", tunable.pipeline(chosen), query_set.resources))
        same(cut.candidates, whole.candidates)
        assert (cut.queries, cut.ranked, cut.scored) == (whole.queries, True, True)


def test_the_first_n_is_what_a_cut_of_n_leaves(ready):
    (tunable,), (opened,) = (one := ready("dense")).tunables, one.datasets
    query_set = opened.query_sets[TUNING]
    found = tunable.rank(query_set)
    for n in (0, 3, 500):
        first, cut = tunable.first_items(found, n, query_set), tunable.cut(found, {"n": min(n, 100)}, query_set)
        same(first.candidates, cut.candidates)


def test_nothing_is_cut_of_what_is_found(ready):
    (tunable,), (opened,) = (one := ready("semantic")).tunables, one.datasets
    query_set = opened.query_sets[TUNING]
    found = tunable.rank(query_set).answers.candidates
    assert found.chosen.all()
    assert len(found) > 20 * len(query_set)


# ---------------------------------------------------------------------------------------------------------------- fits


def by_hand(query_set, tmp_path, text, what, seed=0):
    """Every query by a file fitted on the other folds alone, in a batch of its own."""
    fold = folds_of(query_set.groups, OUT_OF_FOLD)
    ids = [query.id for query in query_set.dataset.queries]
    rows = {}
    for one in range(OUT_OF_FOLD):
        seen = query_set.dataset.take([name for name, own in zip(ids, fold, strict=True) if own != one])
        unseen = query_set.dataset.take([name for name, own in zip(ids, fold, strict=True) if own == one])
        file = tmp_path / f"{one}.json"
        behind = Pipeline.of({"retrieve": {"dense": {"depth": 100}}})
        write_calibrations(file, [fit(what, seen, behind, query_set.resources, split="all")])
        step = {"probability": {"calibration": str(file)}}
        if what == "abstention":
            step = {"abstain": {"calibration": str(file), "threshold": 0.8}}
        pipeline = Pipeline.of({"retrieve": {"dense": {"depth": 100}}, "refine": [step]})
        table = pipeline.run(Batch.of(query_set.dataset.catalog, unseen.requests()), query_set.resources).candidates
        for place, query in enumerate(unseen.queries):
            own = table.request == place
            rows[query.id] = (table.item[own].tolist(), table.score[own].tolist(), table.chosen[own].tolist())
    return [rows[name] for name in ids]


@pytest.mark.parametrize(("what", "text"), [("probability", None), ("abstention", ABSTAINING)])
def test_queries_that_a_fit_has_seen_are_scored_by_fits_on_the_other_folds(ready, fitted, tmp_path, what, text):
    file = fitted(what=what, **({"text": text} if text else {}))
    (tunable,), (opened,) = (one := ready(file)).tunables, one.datasets
    query_set = opened.query_sets[TUNING]
    found = tunable.rank(query_set)
    assert found.refitted
    assert any(count > 1 for count in [query_set.groups.count(group) for group in query_set.groups]), (
        "groups stay together"
    )
    table, expected = found.answers.candidates, by_hand(query_set, tmp_path, text, what)
    for place, (items, scores, chosen) in enumerate(expected):
        own = table.request == place
        assert table.item[own].tolist() == items
        np.testing.assert_array_equal(table.score[own], scores)
        assert table.chosen[own].tolist() == chosen


def test_the_test_split_is_scored_by_the_fit_itself(ready, fitted):
    (tunable,), (opened,) = (one := ready(fitted())).tunables, one.datasets
    query_set = opened.query_sets[TEST]
    found = tunable.rank(query_set)
    assert not found.refitted
    head = tunable.head(tunable.pipeline({}))
    same(found.answers.candidates, head.run(query_set.batch, query_set.resources).candidates)
    assert len(set(np.round(found.answers.candidates.score, 6))) > 100


def test_out_of_fold_is_not_what_the_fit_says_of_its_own_queries(ready, fitted):
    (tunable,), (opened,) = (one := ready(fitted())).tunables, one.datasets
    query_set = opened.query_sets[TUNING]
    table = tunable.head(tunable.pipeline({})).run(query_set.batch, query_set.resources).candidates
    assert (table.score != tunable.rank(query_set).answers.candidates.score).any()


@pytest.mark.parametrize("split", ["test", "all"])
def test_a_fit_on_the_test_split_is_refused(ready, fitted, split):
    with pytest.raises(InputError, match="a step was fitted on queries of the test split") as caught:
        ready(fitted(split))
    (fault,) = caught.value.faults
    assert (fault.path.name, fault.line) == ("file.yaml", 3)


def test_finding_with_such_a_fit_fails(ready, fitted, tmp_path):
    started = ready(fitted())
    file = tmp_path / "fits.json"
    (own,) = read_calibrations(file).fits
    write_calibrations(file, [replace(own, split="test")])
    (tunable,), (opened,) = started.tunables, started.datasets
    fresh = tunable.definition.pipeline(tunable.values())
    assert is_fitted_on(fresh, opened.query_sets[TEST])
    with pytest.raises(ParameterError, match="fitted on the test split of dataset shop"):
        tunable.rank(opened.query_sets[TEST])


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        ({"dataset": "mill + shop", "catalog": ""}, False),  # fitted together with another: there is no fit without it
        ({"catalog": "aa" * 32}, True),  # before the catalog changed
    ],
)
def test_a_fit_that_carries_over_has_seen_its_queries_all_the_same(ready, fitted, tmp_path, change, counts):
    (opened,), file = ready(fitted()).datasets, tmp_path / "fits.json"
    (own,) = read_calibrations(file).fits
    values = {**own.values, "datasets": change.get("dataset", "shop").split(" + ")}
    carried = tmp_path / "carried.json"
    write_calibrations(carried, [replace(own, values=values, **change)])
    spec = {"retrieve": {"dense": {"depth": 100}}, "refine": [{"probability": {"calibration": str(carried)}}]}
    assert is_fitted_on(Pipeline.of(spec), opened.query_sets[TUNING]) == counts
    assert not is_fitted_on(Pipeline.of(spec), opened.query_sets[TEST])
    assert count_fit_datasets(Pipeline.of(spec), opened.query_sets[TUNING]) == (0 if counts else 2)
    assert count_fit_datasets(Pipeline.of(spec), opened.query_sets[TEST]) == 0
    write_calibrations(carried, [replace(own, values=values, split="all", **change)])
    assert is_fitted_on(Pipeline.of(spec), opened.query_sets[TEST])


def test_weights_of_a_fusion_may_have_seen_the_tuning_split_and_not_the_test_split(ready, fitted, tmp_path):
    (opened,), file = ready(fitted()).datasets, tmp_path / "fits.json"
    (own,) = read_calibrations(file).fits
    for split, seen in (("tuning", False), ("all", True), ("test", True)):
        write_calibrations(file, [replace(own, kind="weights", split=split)])
        refine = [{"weighted": {"calibration": str(file)}}]
        fused = Pipeline.of({"retrieve": {"merge": ["dense", "bm25f"]}, "refine": refine})
        assert is_fitted_on(fused, opened.query_sets[TEST]) == seen
        assert not is_fitted_on(fused, opened.query_sets[TUNING])


@pytest.mark.parametrize(
    ("split", "message"),
    [("tuning", "behind the first cut, or in a domain, was fitted"), ("test", "fitted on queries of the test split")],
)
@pytest.mark.parametrize("in_domain", [True, False])
def test_a_fit_behind_a_cut_or_in_a_domain_is_refused(ready, fitted, selector, split, message, in_domain):
    fitted(split)
    steps = [{"probability": {"calibration": "fits.json"}}, {"at_least": {"threshold": 0.1}}]
    refine = [{"by_domain": {"tool": steps}}] if in_domain else [{"first": {"n": 10}}, *steps]
    with pytest.raises(InputError, match=message):
        ready(selector(refine))


def test_a_fit_of_another_dataset_has_seen_nothing(ready, fitted, other):
    (tunable,), (opened,) = (one := ready(fitted(dataset=other))).tunables, one.datasets
    assert not tunable.rank(opened.query_sets[TUNING]).refitted


# ------------------------------------------------------------------------------------------------------------- answers


@pytest.fixture
def answers(ready, tmp_path):
    """Write a file of answers to all queries, changed by hand; returns its name."""

    def write(change=lambda number, row: row, name="mine"):
        (tunable,), (opened,) = (one := ready("dense")).tunables, one.datasets
        lines = []
        for query_set in opened.query_sets.values():
            table = tunable.rank(query_set).answers.candidates
            for place, query in enumerate(query_set.dataset.queries):
                own = np.flatnonzero(table.request == place)[:15]
                ranking = [
                    {"id": query_set.dataset.catalog[int(table.item[r])].id, "score": table.score[r]} for r in own
                ]
                row = {"query": query.id, "items": ranking[:2], "ranking": ranking}
                lines.append(change(len(lines), row))
        text = "".join(json.dumps(line) + "\n" for line in lines if line is not None)
        (tmp_path / f"{name}.jsonl").write_text(text)
        return f"{name}.jsonl"

    return write


def test_of_answers_the_ranking_is_taken_whatever_was_chosen(ready, answers, tmp_path):
    started = ready({"answers": answers()})
    (tunable,), (opened,) = started.tunables, started.datasets
    query_set = opened.query_sets[TUNING]
    found = tunable.rank(query_set).answers.candidates
    assert np.array_equal(np.diff(found.start), np.full(len(query_set), 15))
    assert found.chosen.all()
    cut = tunable.cut(tunable.rank(query_set), {"topN": 4, "includeScore": 1.0, "margin": 1.0}, query_set).candidates
    assert np.bincount(cut.request[cut.chosen]).max() == 4
    everything = tunable.cut(
        tunable.rank(query_set), {"topN": 0, "includeScore": -0.0, "margin": 1.0}, query_set
    ).candidates
    np.testing.assert_array_equal(everything.chosen, everything.score > 0)


def rescored(times, plus=0.0):
    def change(_, row):
        return {
            "query": row["query"],
            "items": [],
            "ranking": [{**one, "score": one["score"] * times + plus} for one in row["ranking"]],
        }

    return change


def test_scores_of_any_size_can_be_cut_by_a_margin(ready, answers):
    """Scores times a hundred: the same selections, where includeScore need not include anything."""
    tunables = []
    for times, name in ((1, "plain"), (100, "large")):
        one = ready({"answers": answers(rescored(times), name)})
        tunables.append((one.tunables[0], one.datasets[0].query_sets[TUNING]))
    plain, large = (one.values()["includeScore"] for one, _ in tunables)
    assert plain == 1.0
    assert 10 < large <= 101
    assert large == int(large)
    for values in ({"topN": 5, "margin": 0.3}, {"topN": 0, "margin": 1.0}):
        one, other = (
            tunable.cut(tunable.rank(query_set), values, query_set).candidates for tunable, query_set in tunables
        )
        np.testing.assert_array_equal(one.item[one.chosen], other.item[other.chosen])
        assert (one.chosen.sum() == 0) == (values["topN"] == 0)


def test_scores_below_0_are_refused(ready, answers):
    name = answers(rescored(1, -5.0))
    with pytest.raises(InputError, match=r"100% of the scores in `ranking` are 0 or less, but a cut only") as told:
        ready({"answers": name})
    assert told.value.faults[0].message.values["share"] == 1.0


def without(key):
    return lambda number, row: {name: value for name, value in row.items() if name != key} if number == 7 else row


def unscored(number, row):
    return {**row, "ranking": [{"id": one["id"]} for one in row["ranking"]], "items": []} if number == 7 else row


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("ranking"), "has no `ranking`"),
        (unscored, "has an item without `score`"),
        (lambda number, row: None if number == 7 else row, "1 of 120 queries have no usable answer; the first is 'q"),
        (lambda number, row: None if number < 9 else row, "9 of 120 queries have no usable answer"),
        (
            lambda number, row: {"query": row["query"], "error": "out of memory"} if number == 7 else row,
            "out of memory",
        ),
    ],
)
def test_answers_that_cannot_be_tuned_on_are_refused_at_once(ready, answers, change, message):
    name = answers(change)
    with pytest.raises(InputError) as caught:
        ready("semantic", {"answers": name})
    (fault,) = caught.value.faults
    assert message in fault.message
    assert fault.message.startswith("answers 'mine', tuning split of dataset shop: ")
    assert (fault.path.name, fault.line) == ("file.yaml", 4)


def test_answers_to_the_test_split_are_looked_at_too(ready, answers):
    name = answers(lambda number, row: None if number >= 230 else row)
    with pytest.raises(InputError, match="test split of dataset shop: 10 of 120 queries have no usable answer"):
        ready({"answers": name})


def test_a_selector_of_answers_says_what_is_wrong_by_itself(ready, answers, tmp_path):
    (opened,) = ready("dense").datasets
    with pytest.raises(InputError, match="no `ranking`"):
        ExternalRankings(FileSelector(tmp_path / answers(without("ranking")))).of(opened.query_sets[TUNING])


def test_a_sweep_behind_an_expansion_that_a_rank_step_follows_is_exact(ready, tmp_path):
    spec = {
        "name": "again",
        "parameters": {"n": {"default": 3, "range": [0, 50]}},
        "pipeline": {
            "retrieve": {"merge": [{"dense": {"depth": 50}}, {"bm25": {"depth": 50}}]},
            "refine": [{"expansion": {"threshold": 0.1, "topN": 20}}, "weighted", {"first": {"n": "$n"}}],
        },
    }
    (tmp_path / "again.yaml").write_text(json.dumps(spec))
    one = ready(str(tmp_path / "again.yaml"))
    (tunable,), (opened,) = one.tunables, one.datasets
    query_set = opened.query_sets[TUNING]
    found = tunable.rank(query_set)
    table = found.answers.candidates
    assert (table.origin > Origin.SEARCH).any()
    assert table.ranked.all()
    measures = [Measure(parse_metric(name)) for name in ("completeness", "tokens", "recall")]
    rankings = MeasuredRankings.of(table, query_set.labels, measures)
    for n in (0, 1, 3, 7, 20):
        run = query_set.answers(PipelineSelector("whole", tunable.pipeline({"n": n}), query_set.resources))
        same(tunable.cut(found, {"n": n}, query_set).candidates, run.candidates)
        length = np.minimum(n, np.diff(rankings.items.start))
        for measure, values in measure_answers(run.candidates, query_set.labels, measures).items():
            swept = rankings.tables[measure.metric][rankings.items.length_start[:-1] + length]
            np.testing.assert_allclose(swept[~np.isnan(values)], values[~np.isnan(values)], rtol=1e-12)
