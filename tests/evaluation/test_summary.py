"""Summaries: every figure is computed again from the values by query, and comparisons are corrected together."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest

from ctxbench.evaluation.answers import Part, Slice
from ctxbench.evaluation.run_folder import FORMAT, HEADLINE, RunFolder, finite, summarise_run
from ctxbench.io.documents import dump_json
from ctxbench.io.errors import StorageError
from ctxbench.model.candidates import Candidates
from ctxbench.model.items import Catalog, Item

CATALOG = Catalog([Item(type="tool", name="a")])
NAN = math.nan


def finished(path, values, *, metrics=("completeness", "tokens"), compare_to=None, errors=(), **given):
    """A run folder: values by selector and metric, one dataset `d`."""
    folder = RunFolder(path)
    for selector, columns in values.items():
        n = len(next(iter(columns.values())))
        queries = tuple(f"q{i}" for i in range(n))
        answers = Slice(
            queries=queries,
            chunks=((),) * n,
            candidates=Candidates.empty(n),
            ranked=True,
            scored=True,
            errors={queries[i]: "failed" for i in errors},
            seconds=np.zeros(n),
        )
        part = Part(
            dataset="d",
            selector=selector,
            key="k",
            answers=answers,
            metrics={name: np.array(column, dtype=np.float64) for name, column in columns.items()},
            unavailable=given.get("unavailable", {}),
            notes=given.get("notes", {}),
        )
        folder.save(part, CATALOG)
    folder.write(
        "manifest.json",
        {
            "format": FORMAT,
            "experiment": {
                "name": "e",
                "about": "",
                "compare_to": compare_to or next(iter(values)),
                "seed": 0,
                "metrics": list(metrics),
            },
            "datasets": {"d": {"queries": n, "items": 1}},
            "selectors": {name: {} for name in values},
            "tokens": "chars/4",
        },
    )
    return folder


def only(folder):
    (dataset,) = summarise_run(folder).datasets
    return {one.selector: one for one in dataset.selectors}


def binomial_p(lower, higher):
    """McNemar's exact test: twice the smaller tail of a fair coin, at most 1."""
    n = lower + higher
    tail = sum(math.comb(n, k) for k in range(min(lower, higher) + 1))
    return float(min(Fraction(2 * tail, 2**n), Fraction(1)))


def test_the_means_are_those_of_the_queries_that_a_metric_applies_to(tmp_path):
    folder = finished(tmp_path, {"s": {"completeness": [1, 1, 0, NAN], "tokens": [10, 20, 30, 0]}})
    found = only(folder)["s"].estimates
    assert list(found) == ["completeness", "tokens"]
    complete, tokens = found["completeness"], found["tokens"]
    assert (complete.value, complete.n, complete.left_out) == (2 / 3, 3, 1)
    assert (tokens.value, tokens.n, tokens.left_out) == (15.0, 4, 0)


def test_the_interval_of_a_share_of_queries_is_wilsons(tmp_path):
    folder = finished(tmp_path, {"s": {"completeness": [1] * 45 + [0] * 5, "tokens": [1] * 50}})
    interval = only(folder)["s"].estimates["completeness"].interval
    z, n, p = NormalDist().inv_cdf(0.975), 50, 0.9
    centre, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    assert interval.low == pytest.approx((centre - half) / (1 + z * z / n), abs=1e-12)
    assert interval.high == pytest.approx((centre + half) / (1 + z * z / n), abs=1e-12)


def test_all_selectors_are_compared_with_one_and_corrected_together(tmp_path):
    base = [1] * 20 + [0] * 20
    worse = [0] * 12 + [1] * 8 + [0] * 20  # 12 lost
    better = [1] * 20 + [1] * 4 + [0] * 16  # 4 won
    tokens = [100] * 40
    values = {
        "base": {"completeness": base, "tokens": tokens},
        "worse": {"completeness": worse, "tokens": tokens},
        "better": {"completeness": better, "tokens": tokens},
    }
    found = only(finished(tmp_path, values))
    assert found["base"].against == {}
    lost, won = found["worse"].against["completeness"], found["better"].against["completeness"]
    assert (lost.difference, lost.lower, lost.higher, lost.p) == (-0.3, 12, 0, binomial_p(12, 0))
    assert (won.difference, won.lower, won.higher, won.p) == (0.1, 0, 4, binomial_p(0, 4))
    assert [one.against["tokens"].p for one in (found["worse"], found["better"])] == [1.0, 1.0]
    # Holm over four: p of 12 : 0 times 4, that of 4 : 0 times 3, and 1 stays 1
    assert lost.p_holm == pytest.approx(4 * 2 / 2**12)
    assert won.p_holm == pytest.approx(3 * 2 / 2**4)
    assert (lost.significant, won.significant) == (True, False)


def test_the_correction_is_over_all_selectors(tmp_path):
    base = {"completeness": [1] * 30, "tokens": [5] * 30}
    lost = {"completeness": [0] * 7 + [1] * 23, "tokens": [5] * 30}
    alone = only(finished(tmp_path / "a", {"base": base, "x": lost}))["x"].against["completeness"]
    assert alone.p_holm == pytest.approx(2 * 2 / 2**7)  # times two: tokens are the other comparison
    three = only(finished(tmp_path / "b", {"base": base, "x": lost, "y": lost, "z": lost}))["x"].against["completeness"]
    assert three.p_holm == pytest.approx(6 * 2 / 2**7)
    assert (alone.significant, three.significant) == (True, False)


def test_compare_to_names_the_base(tmp_path):
    values = {"a": {"completeness": [1, 0], "tokens": [1, 1]}, "b": {"completeness": [1, 1], "tokens": [3, 1]}}
    folder = finished(tmp_path, values, compare_to="b")
    found = only(folder)
    assert summarise_run(folder).compare_to == "b"
    assert found["b"].against == {}
    assert found["a"].against["completeness"].difference == -0.5
    assert found["a"].against["tokens"].difference == -1.0


def test_pairs_with_a_value_on_one_side_only_are_left_out(tmp_path):
    values = {
        "a": {"completeness": [1, NAN, 0, NAN], "tokens": [1, 1, 1, 1]},
        "b": {"completeness": [0, 1, NAN, NAN], "tokens": [1, 1, 1, 1]},
    }
    against = only(finished(tmp_path, values))["b"].against["completeness"]
    assert (against.n, against.left_out, against.difference) == (1, 3, -1.0)


def test_without_a_common_query_there_is_no_comparison_and_no_correction_for_it(tmp_path):
    values = {
        "a": {"completeness": [1, NAN] * 8, "tokens": [1] * 16},
        "b": {"completeness": [NAN, 1] * 8, "tokens": [2] * 16},
    }
    against = only(finished(tmp_path, values))["b"].against
    assert list(against) == ["tokens"]
    assert against["tokens"].p_holm == against["tokens"].p


def test_only_the_headline_is_compared(tmp_path):
    values = {name: {"completeness": [1, 0], "tokens": [1, 2], "RR": [0.5, 1]} for name in "ab"}
    assert tuple(only(finished(tmp_path, values, metrics=["completeness", "tokens", "RR"]))["b"].against) == HEADLINE


def test_a_headline_metric_that_was_not_asked_for_is_not_compared(tmp_path):
    values = {name: {"tokens": [1, 2], "recall": [0.5, 1]} for name in "ab"}
    found = only(finished(tmp_path, values, metrics=["recall", "tokens"]))["b"]
    assert list(found.against) == ["tokens"]
    assert list(found.estimates) == ["recall", "tokens"]


def test_one_selector_alone_is_compared_with_nobody(tmp_path):
    assert only(finished(tmp_path, {"a": {"completeness": [1], "tokens": [1]}}))["a"].against == {}


def test_what_a_selector_lacks_is_said(tmp_path):
    values = {"a": {"completeness": [1, 0], "tokens": [1, 2]}}
    given = {"unavailable": {"RR": "it returned no ranking"}, "notes": {"unstable": 2}}
    found = only(finished(tmp_path, values, metrics=["completeness", "tokens", "RR"], errors=[1], **given))["a"]
    assert list(found.estimates) == ["completeness", "tokens"]
    assert found.unavailable == {"RR": "it returned no ranking"}
    assert (found.errors, found.queries, found.notes) == (1, 2, {"unstable": 2})


def test_a_metric_that_applies_to_no_query_is_null_in_json_and_nothing_is_nan(tmp_path):
    values = {name: {"completeness": [NAN, NAN], "tokens": [1, 2], "abstention": [1, 0]} for name in "ab"}
    metrics = ["completeness", "tokens", "abstention"]
    folder = finished(tmp_path, values, metrics=metrics)
    text = dump_json(summarise_run(folder).as_dict(), indent=2)  # which refuses NaN and infinity
    found = json.loads(text)["datasets"]["d"]
    assert (found["queries"], found["items"]) == (2, 1)
    complete = found["selectors"]["a"]["metrics"]["completeness"]
    assert (complete["value"], complete["n"], complete["left_out"]) == (None, 0, 2)
    assert found["selectors"]["b"]["metrics"]["tokens"]["value"] == 1.5
    assert list(found["selectors"]["b"]["against"]) == ["tokens"]


@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_queries_make_no_trouble(n, tmp_path):
    values = {name: {"completeness": [1] * n, "tokens": list(range(n))} for name in "ab"}
    summary = summarise_run(finished(tmp_path, values))
    again = json.loads(dump_json(summary.as_dict()))
    assert again["datasets"]["d"]["selectors"]["a"]["queries"] == n


def test_the_summary_of_the_same_folder_is_the_same(tmp_path):
    chance = np.random.default_rng(3)
    values = {
        name: {"completeness": chance.integers(0, 2, 60).tolist(), "tokens": chance.integers(1, 900, 60).tolist()}
        for name in "abc"
    }
    folder = finished(tmp_path, values)
    assert summarise_run(folder).as_dict() == summarise_run(folder).as_dict()


def test_a_part_that_is_missing_or_damaged_is_an_error(tmp_path):
    folder = finished(tmp_path, {name: {"completeness": [1], "tokens": [1]} for name in "ab"})
    (tmp_path / "d" / "b" / "metrics.jsonl").write_text("")
    with pytest.raises(StorageError, match="run the experiment again"):
        summarise_run(folder)
    (tmp_path / "d" / "b" / "part.json").unlink()
    with pytest.raises(StorageError, match=r"cannot read .*part\.json"):
        summarise_run(folder)
    (tmp_path / "manifest.json").unlink()
    with pytest.raises(StorageError, match="expected the folder of a finished run"):
        summarise_run(folder)


@pytest.mark.parametrize(("value", "expected"), [(1.5, 1.5), (NAN, None), (math.inf, None), (np.float64(2), 2.0)])
def test_finite(value, expected):
    assert finite(value) == expected


def test_the_worst_scope_is_named_where_scopes_are_large_enough(tmp_path):
    values = {"s": {"completeness": [1.0] * 10 + [1.0] * 7 + [0.0] * 4 + [0.0] * 9, "tokens": [1.0] * 30}}
    folder = finished(tmp_path, values)
    manifest = folder.read("manifest.json")
    # 10 of 10, 7 of 11, and 0 of 9: the last is worst, but has fewer than ten queries
    scopes = {"a": list(range(10)), "b": list(range(10, 21)), "c": list(range(21, 30))}
    manifest["datasets"]["d"]["scopes"] = scopes
    folder.write("manifest.json", manifest)
    worst = only(folder)["s"].worst_scope
    assert worst is not None
    assert (worst.group, worst.mean.n, worst.mean.value) == ("b", 11, pytest.approx(7 / 11))
    manifest["datasets"]["d"]["scopes"] = {"a": scopes["a"], "c": scopes["c"]}
    folder.write("manifest.json", manifest)
    assert only(folder)["s"].worst_scope is None
