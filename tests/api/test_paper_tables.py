"""Tables for papers: their structure, and the comparisons that their marks stand for."""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np
import pytest
from scipy import stats as scipy_stats

import ctxbench
from ctxbench.evaluation.statistics import holm
from ctxbench.io.errors import ParameterError, UnknownNameError
from tests.api.conftest import CHEAP, SMOKE

METRICS = ["completeness", "tokens", "R@5", "BoR@5"]


@pytest.fixture
def res():
    ranked = ctxbench.pipeline("bm25", refine=[{"first": {"n": 2}}])
    same = ctxbench.pipeline("bm25", refine=[{"first": {"n": 2}}])
    selectors = {"all": "everything", "words_&_more": ranked, "docs": "semantic/spec", "[same]": same}
    return ctxbench.evaluate(SMOKE, selectors, baseline="docs", metrics=METRICS, **CHEAP)


def small(name):
    items = [{"name": "area"}, {"name": "mail"}]
    queries = [{"query": f"q{n}", "text": "area"} for n in range(30)]
    return ctxbench.dataset(items, queries, [{"query": f"q{n}", "item": "area"} for n in range(30)], name=name)


def latex_rows(text):
    """The cells of the table by the first one."""
    body = text.split("\\midrule\n")[1].split("\\bottomrule")[0]
    rows = [re.split(r" (?<!\\)& ", line.removesuffix(" \\\\")) for line in body.splitlines()]
    return {row[0]: row[1:] for row in rows}


def test_stars_are_what_is_significant_after_correction_over_the_whole_table(res):
    frame = res.compare(baseline="docs", metrics=METRICS).set_index(["selector", "metric"])
    rows = latex_rows(res.to_latex(METRICS, bold=None))
    names = {"all": "all", r"words\_\&\_more": "words_&_more", "docs": "docs", "{[}same]": "[same]"}
    assert list(rows) == list(names)
    for row, name in names.items():
        marks = ["$^{*}$" in cell for cell in rows[row]]
        expected = [
            (name, metric) in frame.index and bool(frame.loc[(name, metric), "significant"]) for metric in METRICS
        ]
        assert marks == expected
    assert any(frame["significant"])
    assert not all(frame["significant"])
    note = res.to_markdown(METRICS).split("\n\n")[1]
    assert f"all {len(frame)} comparisons" in note
    assert "BoR@5" in note, "it has no values by query"
    assert "*" not in res.to_latex(METRICS, stars=False, bold=None)


def test_the_best_of_a_column_is_bold_with_all_that_look_the_same(res):
    rows = latex_rows(res.to_latex(METRICS, stars=False))
    bold = {name: [r"\textbf{" in cell for cell in cells] for name, cells in rows.items()}
    assert bold == {
        "all": [True, False, False, False],
        r"words\_\&\_more": [False, True, True, True],
        "docs": [False] * 4,
        "{[}same]": [False, True, True, True],
    }
    assert rows["all"][2:] == ["-", "-"], "everything gives no ranking"
    lines = res.to_markdown(METRICS, stars=False).splitlines()
    assert len({line.count(" | ") for line in lines[:6]}) == 1
    assert [line.count("**") // 2 for line in lines[2:6]] == [sum(bold[name]) for name in bold]


def test_how_labels_were_judged_is_below_the_table():
    plain, trec = (
        ctxbench.evaluate(SMOKE, ["bm25"], judged=judged, **CHEAP).to_markdown(bold=None) for judged in ("", "trec")
    )
    assert "trec_eval" in trec
    assert "trec_eval" not in plain


def test_queries_that_means_leave_out_and_failures_are_below_the_table():
    queries = [{"query": f"q{n}", "text": "area", **({"needs": "nothing"} if n > 3 else {})} for n in range(6)]
    labels = [{"query": f"q{n}", "item": "area"} for n in range(4)]
    data = ctxbench.dataset([{"name": "area"}, {"name": "mail"}], queries, labels)

    def fails(request, _items):
        if request["id"] == "q0":
            raise ValueError("down")
        return ["tool:area"]

    results = ctxbench.evaluate(data, {"bm25": "bm25", "fails": fails}, **CHEAP)
    for text in (results.to_latex(), results.to_markdown(), repr(results)):
        assert "4 of 6 for completeness" in text
        assert "5 to 6 of 6 for tokens" in text
        assert text.count("down" if text == repr(results) else "failed on 1 of 6 queries") == 1
    assert "applies to" not in ctxbench.evaluate(small("a"), ["bm25"], **CHEAP).to_latex(["completeness"])


def test_several_datasets_are_groups_of_columns_and_one_family():
    selectors = {"all": "everything", "first": ctxbench.pipeline("bm25", refine=[{"first": {"n": 1}}])}
    both = ctxbench.evaluate([small("a_b"), small("c")], selectors, baseline="first", **CHEAP)
    text = both.to_latex(["completeness", "tokens"], intervals=True, caption=r"Mean $\pm$", label="tab:x")
    assert r"\multicolumn{2}{c}{a\_b} & \multicolumn{2}{c}{c} \\" in text
    assert r"\cmidrule(lr){2-3} \cmidrule(lr){4-5}" in text
    assert r"\begin{tabular}{lrrrr}" in text
    assert r"\caption{Mean $\pm$}" in text
    assert r"\label{tab:x}" in text
    for name in ("table", "tabular"):
        assert text.count(rf"\begin{{{name}}}") == text.count(rf"\end{{{name}}}") == 1
    assert {len(cells) for cells in latex_rows(text).values()} == {4}
    assert all(text.count("{") == text.count("}") for text in (text, both.to_latex()))
    frame = both.to_frame(intervals=True)
    compared = both.compare("all", metrics=["completeness", "tokens"]).set_index(["dataset", "metric"])
    assert frame.loc[("c", "all"), "tokens p"] == compared.loc[("c", "tokens"), "p"]
    alone = ctxbench.evaluate(small("c"), selectors, baseline="first", **CHEAP).to_frame(intervals=True)
    assert frame.loc[("c", "all"), "tokens p"] == pytest.approx(2 * alone.loc["all", "tokens p"])


def test_all_pairs_are_compared_and_corrected_together_with_effect_sizes(res):
    frame = res.compare(metrics=["tokens", "R@5"])
    pairs = set(combinations(res.selectors, 2))
    assert {frozenset(pair) for pair in zip(frame["selector"], frame["baseline"], strict=True)} == set(
        map(frozenset, pairs)
    )
    ranked = len(list(combinations(["words_&_more", "docs", "[same]"], 2)))
    assert frame["metric"].value_counts().to_dict() == {"tokens": len(pairs), "R@5": ranked}
    assert set(frame.loc[frame["selector"] == "docs", "baseline"]) == set(), "the baseline of the run comes first"
    uncorrected = [
        res.compare(row["selector"], row["baseline"], metrics=[row["metric"]])["p"].iloc[0]
        for row in frame.to_dict("records")
    ]
    assert frame["p"].tolist() == holm(uncorrected).tolist()
    values = res.per_query().pivot(index="query", columns="selector", values="tokens")
    for row in frame[frame["metric"] == "tokens"].to_dict("records"):
        away = values[row["selector"]] - values[row["baseline"]]
        if away.any():
            assert row["effect_size"] == pytest.approx(away.mean() / away.std(ddof=1))
            t = scipy_stats.ttest_rel(values[row["selector"]], values[row["baseline"]]).statistic
            assert row["effect_size"] == pytest.approx(t / np.sqrt(len(away)))
        else:
            assert (row["effect_size"], row["p"]) == (0.0, 1.0)
    one = res.compare("all", metrics=["tokens"])
    assert "selector" not in one
    assert one["effect_size"].iloc[0] > 0


def test_more_queries_are_needed_for_a_smaller_difference_and_as_many_for_the_observed_one(res):
    observed = res.compare("all", metrics=["tokens"])
    (difference,) = observed["difference"]
    planned = [res.compare("all", metrics=["tokens"], needed_for=part * difference) for part in (1, 0.1, 0.01)]
    numbers = [frame["needed"].iloc[0] for frame in planned]
    assert numbers[0] == observed["needed"].iloc[0]
    assert numbers[0] < numbers[1] < numbers[2]
    assert planned[2].drop(columns="needed").equals(observed.drop(columns="needed"))


def test_large_effects_are_significant_in_a_large_table():
    first = ctxbench.pipeline("bm25", refine=[{"first": {"n": 1}}])
    found = ctxbench.evaluate(small("c"), {"first": first, "all": "everything"}, **CHEAP)
    p = found.compare("all", metrics=["tokens"])["p"].iloc[0]
    assert max(holm([p, *[1.0] * 1000])) == 1.0
    assert holm([p, *[1.0] * 1000])[0] < 0.05


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"metrics": ["R@9"]}, UnknownNameError),
        ({"metrics": "R@9"}, UnknownNameError),
        ({"baseline": "doc"}, UnknownNameError),
        ({"bold": "most"}, UnknownNameError),
        ({"metrics": []}, ParameterError),
        ({"metrics": 3}, ParameterError),
    ],
)
def test_what_a_table_cannot_show_is_told(res, given, error):
    for table in (res.to_latex, res.to_markdown):
        with pytest.raises(error):
            table(**given)


def test_a_comparison_without_values_says_whose_are_missing(res):
    with pytest.raises(ParameterError) as raised:
        res.compare("all", metrics=["R@5"])
    assert raised.value.args[0].values == {"selector": "all", "metric": "R@5", "dataset": "smoke"}
    with pytest.raises(UnknownNameError):
        res.compare(metrics=["R@9"])
    assert res.to_markdown("tokens") == res.to_markdown(["tokens"])
