"""Plots show the figures of the tables, to the last digit: what is drawn is read back from the artists."""

from __future__ import annotations

import doctest
import os
import pickle
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault("MPLBACKEND", "Agg")

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.colors import same_color
from matplotlib.figure import Figure

import ctxbench
from ctxbench.api import plots
from ctxbench.api.plots import NO_SERVER, confusion
from ctxbench.io.errors import ParameterError, UnknownNameError
from ctxbench.report.charts import COLOURS
from ctxbench.report.scores import score_groups

ROOT = Path(__file__).parents[2]
SMOKE = ROOT / "datasets" / "smoke"
CHEAP = {"embedder": "hashing", "counter": "chars/4"}


def offering(*names):
    return lambda request, items: [item["_id"] for item in items if item["name"] in names]


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CTXBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("CTXBENCH_OFFLINE", "1")
        patch.chdir(ROOT)
        yield


@pytest.fixture(autouse=True)
def figures():
    plt.switch_backend("Agg")
    before = mpl.rcParams.copy()
    yield
    plt.close("all")
    assert mpl.rcParams == before


@pytest.fixture(scope="module")
def res(cache):
    selectors = {"docs": "semantic/spec", "words": "bm25", "all": "everything"}
    return ctxbench.evaluate(SMOKE, selectors, baseline="words", **CHEAP)


PLANTED = ctxbench.dataset(
    [
        {"name": "issue", "server": "tracker"},
        {"name": "comment", "server": "tracker"},
        {"name": "send", "server": "mail"},
        {"name": "move", "server": "mail"},
        {"name": "R", "type": "rule", "text": "be kind"},
    ],
    [{"query": f"q{i}", "text": "any"} for i in range(4)] + [{"query": "q4", "text": "hi", "needs": "nothing"}],
    [
        {"query": "q0", "item": "issue"},
        {"query": "q1", "item": "issue"},
        {"query": "q1", "item": "comment", "grade": 1},
        {"query": "q2", "item": "send"},
        {"query": "q2", "item": "issue"},
        {"query": "q3", "item": "send"},
    ],
    name="planted",
)


@pytest.fixture(scope="module")
def both(cache):
    selectors = {"bm25": "bm25", "tools": offering("issue", "comment", "send", "cities"), "none": offering()}
    return ctxbench.evaluate([SMOKE, PLANTED], selectors, **CHEAP)


def line(ax, label):
    (found,) = [one for one in ax.lines if one.get_label() == label]
    return found


def at(ax, label):
    found = line(ax, label)
    return (*found.get_xdata(), *found.get_ydata())


def texts(labels):
    return [label.get_text() for label in labels]


# The trade-off.


def test_marks_and_intervals_are_the_figures_of_the_table(res):
    ax, frame = res.plot.trade_off(), res.to_frame(intervals=True)
    for name, row in frame.iterrows():
        x, y = row["tokens"], row["completeness"]
        assert at(ax, name) == (x, y)
        assert at(ax, f"_tokens of {name}") == (row["tokens low"], row["tokens high"], y, y)
        assert at(ax, f"_completeness of {name}") == (x, x, row["completeness low"], row["completeness high"])
    assert (ax.get_title(), ax.get_ylabel()) == ("smoke", "completeness, %")
    turned = res.plot.trade_off("R@5", "items")
    assert at(turned, "docs") == (frame.loc["docs", "R@5"], frame.loc["docs", "items"])
    assert (turned.get_xlabel().split("\n")[0], turned.get_ylabel()) == ("R@5, %", "items per query")


def test_the_baseline_has_a_shape_of_its_own_and_each_mark_a_colour_and_its_name(res):
    ax = res.plot.trade_off()
    assert {name: line(ax, name).get_marker() for name in res.selectors} == {"docs": "o", "words": "s", "all": "o"}
    colours = [line(ax, name).get_color() for name in res.selectors]
    assert colours == list(COLOURS[:3])
    assert texts(ax.texts) == ["docs", "words (baseline)", "all"]
    assert [label.xy for label in ax.texts] == [at(ax, name) for name in res.selectors]
    assert ax.get_legend() is None


def test_an_agent_with_a_shipped_selector_is_called_so(cache, tmp_path):
    (tmp_path / "agent.yaml").write_text("{sources: {rules: .}, selector: bm25}")
    found = ctxbench.evaluate(SMOKE, {"agent": str(tmp_path / "agent.yaml"), "all": "everything"}, **CHEAP)
    title = "agent (= bm25, shipped)"
    assert f"{title} (baseline)" in texts(found.plot.trade_off().texts)
    assert title in found.plot.differences().get_xlabel()
    assert texts(found.plot.differences(baseline="all").get_yticklabels()) == [title]
    assert found.plot.scores("agent").get_title() == f"{title} on smoke"
    assert found.plot.confusion(selector="agent").get_title() == f"{title} on smoke"
    assert found.to_frame().index.tolist() == found.selectors == ["agent", "all"]
    assert title in repr(found)


# Differences.


def filled(ax, name):
    found = line(ax, name)
    return same_color(found.get_markerfacecolor(), found.get_color())


@pytest.mark.parametrize("metric", ["completeness", "tokens"])
def test_differences_are_those_of_the_table_in_the_order_of_the_run(res, metric):
    ax, frame = res.plot.differences(metric), res.to_frame(intervals=True)
    others = ["docs", "all"]
    assert texts(ax.get_yticklabels()) == others
    assert ax.yaxis_inverted()
    for place, name in enumerate(others):
        row, told = frame.loc[name], res.compare(name).set_index("metric").loc[metric]
        assert at(ax, name) == (row[f"{metric} difference"], place)
        ends = (row[f"{metric} difference low"], row[f"{metric} difference high"])
        assert at(ax, f"_{metric} of {name}") == (*ends, place, place)
        assert filled(ax, name) == (row[f"{metric} p"] <= 0.05)
        assert ax.texts[place].get_text() == f"{told['higher']} higher\n{told['lower']} lower"
        assert ax.texts[place].get_position()[1] == place
    assert {filled(ax, name) for name in others} == ({True, False} if metric == "completeness" else {True})
    zero = ax.lines[0]
    assert list(zero.get_xdata()) == [0.0, 0.0]
    assert ax.get_xlim()[0] < 0.0 < ax.get_xlim()[1]


def test_differences_from_another_baseline_are_those_of_compare(res):
    ax = res.plot.differences("completeness", baseline="docs")
    assert texts(ax.get_yticklabels()) == ["words", "all"]
    for place, name in enumerate(["words", "all"]):
        row = res.compare(name, "docs", metrics=["completeness"]).iloc[0]
        assert at(ax, name) == (row["difference"], place)
        assert at(ax, f"_completeness of {name}")[:2] == (row["low"], row["high"])
    assert ax.get_xlabel().startswith("difference in completeness, points\nfrom docs")
    recall = res.plot.differences("R@5")
    row = res.compare("docs", metrics=["R@5"]).iloc[0]
    assert at(recall, "docs") == (row["difference"], 0)
    assert at(recall, "_R@5 of docs")[:2] == (row["low"], row["high"])


def test_what_is_shown_together_is_corrected_together(cache):
    data = ctxbench.dataset(
        [{"name": "area"}, {"name": "mail"}],
        [{"query": f"q{i}", "text": f"any {i}"} for i in range(12)],
        [{"query": f"q{i}", "item": "area" if i < 6 else "mail"} for i in range(12)],
    )
    selectors = {"none": offering(), **dict.fromkeys("abc", offering("area")), "last": offering()}
    found = ctxbench.evaluate(data, selectors, baseline="last", **CHEAP)
    (row,) = found.compare("a", "none", metrics=["completeness"]).to_dict("records")
    assert (row["p"], row["significant"]) == (0.03125, True)
    alone = ctxbench.evaluate(data, {"none": offering(), "a": offering("area")}, baseline="a", **CHEAP)
    assert filled(alone.plot.differences(baseline="none"), "a")
    ax = found.plot.differences(baseline="none")
    assert [filled(ax, name) for name in "abc"] == [False] * 3  # 0.03125 is the least of four
    assert "\nhollow: not significant" in ax.get_xlabel()


def test_the_runs_comparisons_are_corrected_as_in_its_table(cache):
    data = ctxbench.dataset(
        [{"name": "area"}, {"name": "mail"}, {"name": "none"}],
        [{"query": f"q{i}", "text": f"any {i}"} for i in range(12)],
        [{"query": f"q{i}", "item": "area" if i < 6 else "mail"} for i in range(12)],
    )
    found = ctxbench.evaluate(data, {"none": offering("none"), "a": offering("area")}, **CHEAP)
    assert found.to_frame(intervals=True).loc["a", "completeness p"] == 0.0625  # of two, the other of which is tokens
    assert not filled(found.plot.differences(), "a")
    assert filled(found.plot.differences(baseline="a"), "none")  # of one


# Scores.


def bars(ax, label):
    (found,) = [one for one in ax.containers if one.get_label() == label]
    return found.patches


def counted(left, counts):
    return [(x, n) for x, n in zip(left, counts, strict=True) if n]


def test_histograms_are_those_of_the_report(res):
    ax = res.plot.scores("docs")
    (group,) = score_groups(res.datasets["smoke"], [res._part("smoke", "docs")], res.summary.manifest["selectors"])
    up, down = bars(ax, "required items"), bars(ax, "best item that is not required (downward)")
    idle = bars(ax, "best item of a query that needs nothing")
    left = group.edges[:-1].tolist()
    assert [(one.get_x(), one.get_height()) for one in up] == counted(left, group.required)
    assert [(one.get_x(), -one.get_height()) for one in down] == counted(left, group.not_required)
    found = [(one.get_x(), -one.get_y(), -one.get_height()) for one in idle]
    assert found == [(x, n, m) for x, n, m in zip(left, group.not_required, group.idle, strict=True) if m]
    assert up[0].get_gid() == f"told:0 to 0.02: {group.required[0]} of the required items"
    assert sum(group.required) > 10
    assert sum(group.idle) > 0
    assert ax.get_ylim()[0] < -max(map(sum, zip(group.not_required, group.idle, strict=True)))
    assert ax.get_title() == "docs on smoke"


def test_a_threshold_is_a_line_and_its_label_stands_above_the_bars(res):
    ax = res.plot.scores("docs")
    assert at(ax, "_includeScore 0.7")[:2] == (0.7, 0.7)
    assert texts(ax.texts) == ["includeScore 0.7"]
    ax.figure.draw_without_rendering()
    top = max(one.get_window_extent().y1 for one in bars(ax, "required items"))
    assert ax.texts[0].get_window_extent().y0 >= top
    assert ax.get_legend().get_window_extent().y0 >= top
    words = res.plot.scores()  # the baseline
    assert (words.get_title(), texts(words.texts)) == ("words on smoke", [])
    assert not [one for one in words.lines if one.get_linestyle() == "--"]


def test_a_selector_without_scores_says_so(res, both):
    with pytest.raises(
        ParameterError, match="selector 'all' does not give items of dataset 'smoke' scores that differ"
    ):
        res.plot.scores("all")
    with pytest.raises(ParameterError, match="selector 'none' does not give"):
        both.plot.scores("none")
    found = ctxbench.evaluate(PLANTED, {"none": offering(), "tools": offering("issue")}, **CHEAP)
    with pytest.raises(ParameterError, match="no selector gives items of dataset 'planted' scores"):
        found.plot.scores()
    found = ctxbench.evaluate(SMOKE, {"none": offering(), "bm25": "bm25"}, **CHEAP)
    assert found.plot.scores().get_title() == "bm25 on smoke"
    assert plt.get_fignums() == [1]


# What comes along.


def cells(ax):
    (mesh,) = ax.collections
    return mesh.get_array().reshape(mesh.get_coordinates().shape[0] - 1, -1)


def test_a_cell_is_the_share_of_what_else_was_offered(both):
    ax = both.plot.confusion(selector="tools", dataset="planted")
    # q0: comment, send; q1 (comment is helpful): send; q2 (needs both): comment; q3: issue, comment
    assert texts(ax.get_yticklabels()) == ["tracker (3)", "mail (2)"]
    assert texts(ax.get_xticklabels()) == ["tracker", "mail"]
    assert cells(ax).tolist() == [[2 / 4, 2 / 4], [3 / 3, 0.0]]
    assert [(text.get_position(), text.get_text()) for text in ax.texts] == [
        ((0.5, 0.5), "50"),
        ((1.5, 0.5), "50"),
        ((0.5, 1.5), "100"),
    ]
    assert ax.yaxis_inverted()
    assert ax.get_title() == "tools on planted"


def test_where_nothing_else_was_offered_the_row_is_empty(both):
    ax = both.plot.confusion(by="type", selector="none", dataset="planted")
    assert texts(ax.get_yticklabels()) == ["tool (4)"]
    assert cells(ax).mask.all()
    assert not ax.texts


@pytest.mark.parametrize("by", ["server", "type"])
@pytest.mark.parametrize("selector", ["words", "all"])
def test_the_counts_are_those_of_every_candidate(res, by, selector):
    data = res.datasets["smoke"]
    group = {item.id: getattr(item, by) or NO_SERVER for item in data.catalog}
    counts, queries = Counter(), Counter()
    for query in data.queries:
        needed = {group[label.item.id] for label in data.labels_of(query.id) if label.grade == 2}
        queries.update(needed)
        told = res.explain(query.id, selector)
        extra = told[told["offered"] & (told["origin"] != "session") & ~(told["grade"] > 0)]
        counts.update((one, group[item]) for one in needed for item in extra["item"])
    table = confusion(data, res._part("smoke", selector), by)
    assert dict(zip(table.required, table.queries, strict=True)) == queries
    assert table.queries == tuple(sorted(table.queries, reverse=True))
    found = {(a, b): int(table.counts[i, j]) for i, a in enumerate(table.required) for j, b in enumerate(table.extras)}
    assert {pair: n for pair, n in found.items() if n} == counts
    assert np.nansum(table.shares, axis=1).tolist() == pytest.approx([1.0] * len(table.required))


def test_of_many_groups_the_least_are_one(cache):
    items = [{"name": f"t{i}", "server": f"s{i:02}"} for i in range(30)]
    asked = [{"query": f"q{i}-{n}", "text": "any"} for i in range(25) for n in range(3 if i < 19 else 1)]
    labels = [{"query": one["query"], "item": f"t{one['query'][1:].split('-')[0]}"} for one in asked]
    labels += [{"query": "q19-0", "item": "t20"}]  # needs two of those put together, and counts once
    found = ctxbench.evaluate(ctxbench.dataset(items, asked, labels), {"all": "everything"}, **CHEAP)
    ax = found.plot.confusion()
    assert texts(ax.get_xticklabels()) == [*(f"s{i:02}" for i in range(19)), "11 others"]
    assert texts(ax.get_yticklabels()) == [*(f"s{i:02} (3)" for i in range(19)), "11 others (6)"]
    assert cells(ax)[0].tolist() == pytest.approx([0.0, *[3 / 87] * 18, 33 / 87])
    assert cells(ax)[19].tolist() == pytest.approx([*[6 / 173] * 19, 59 / 173])


def test_what_is_offered_where_nothing_is_needed_counts_nowhere(cache):
    def chatty(request, items):
        return [item["_id"] for item in items if item["name"] == ("R" if request["text"] == "hi" else "comment")]

    found = ctxbench.evaluate(PLANTED, {"chatty": chatty}, **CHEAP)
    assert texts(found.plot.confusion(by="type").get_xticklabels()) == ["tool"]
    assert texts(found.plot.confusion().get_xticklabels()) == ["tracker", "mail"]


def test_what_groups_items_is_named(res, both):
    with pytest.raises(UnknownNameError, match=r"unknown grouping 'sever'; did you mean 'server'"):
        res.plot.confusion(by="sever")
    tools = ctxbench.dataset([{"name": "area"}], [{"query": "q", "text": "a"}], [{"query": "q", "item": "area"}])
    found = ctxbench.evaluate(tools, {"all": "everything"}, **CHEAP)
    assert not plt.get_fignums()
    assert texts(found.plot.confusion().get_yticklabels()) == [f"{NO_SERVER} (1)"]


# Several datasets, axes and errors.

KINDS = {"trade_off": {}, "differences": {}, "scores": {"selector": "bm25"}, "confusion": {"by": "type"}}


# A heat map over two parameters.


def sized(k, n):
    return {"selector": "semantic", "set": {"contextTopK": k, "contextTopN": n}}


@pytest.fixture(scope="module")
def sizes(cache):
    selectors = {f"{k}, {n}": sized(k, n) for k, n in ((5, 1), (5, 3), (20, 3), (20, 1), (20, 5))}
    return ctxbench.evaluate([SMOKE, PLANTED], {**selectors, "words": "bm25"}, **CHEAP)


def test_a_cell_of_a_heat_map_is_the_mean_of_its_selector(sizes):
    axes = sizes.plot.heat_map("contextTopN", "contextTopK", metric="tokens")
    frame = sizes.to_frame()["tokens"]
    for ax, dataset in zip(axes, ("smoke", "planted"), strict=True):
        assert ax.get_title() == f"tokens on {dataset}"
        assert (texts(ax.get_xticklabels()), texts(ax.get_yticklabels())) == (["1", "3", "5"], ["5", "20"])
        values = ax.collections[0].get_array().reshape(2, 3)
        assert values.mask.tolist() == [[False, False, True], [False, False, False]]
        named = [frame[dataset, name] for name in ("5, 1", "5, 3", "20, 1", "20, 3", "20, 5")]
        assert values.compressed().tolist() == named


def test_a_heat_map_needs_a_selector_for_each_pair_of_values(sizes, cache):
    with pytest.raises(ParameterError, match="no selector of the run has values of both 'contextTopN' and 'n'"):
        sizes.plot.heat_map("contextTopN", "n")
    with pytest.raises(UnknownNameError, match="unknown metric 'token'; did you mean 'tokens'"):
        sizes.plot.heat_map("contextTopN", "contextTopK", metric="token")
    twice = ctxbench.evaluate(SMOKE, {"a": sized(5, 1), "b": sized(5, 1)}, **CHEAP)
    with pytest.raises(ParameterError, match="two of the selectors a, b have the same 'contextTopN'"):
        twice.plot.heat_map("contextTopN", "contextTopK")


@pytest.mark.parametrize("kind", ["trade_off", "differences", "confusion"])
def test_several_datasets_are_small_multiples(both, kind):
    axes = getattr(both.plot, kind)(**KINDS[kind])
    assert isinstance(axes, np.ndarray)
    assert axes.shape == (2,)
    titles = ["bm25 on smoke", "bm25 on planted"] if kind == "confusion" else ["smoke", "planted"]
    assert [one.get_title() for one in axes] == titles
    assert axes[0].figure is axes[1].figure
    assert len(axes[0].figure.axes) == 2
    if kind == "trade_off":
        frame = both.to_frame()
        for one, name in zip(axes, ("smoke", "planted"), strict=True):
            assert at(one, "tools") == tuple(frame.loc[(name, "tools"), ["tokens", "completeness"]])


@pytest.mark.parametrize("kind", KINDS)
def test_axes_that_are_given_take_one_dataset(both, kind):
    ax = Figure().subplots()
    with pytest.raises(ParameterError, match="`ax` takes one dataset of smoke, planted; say which by `dataset`"):
        getattr(both.plot, kind)(ax=ax, **KINDS[kind])
    assert not ax.has_data()
    assert getattr(both.plot, kind)(ax=ax, dataset="smoke", **KINDS[kind]) is ax
    assert "smoke" in ax.get_title()
    with pytest.raises(UnknownNameError, match="unknown dataset 'smok'; did you mean 'smoke'"):
        getattr(both.plot, kind)(dataset="smok", **KINDS[kind])
    assert not plt.get_fignums()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_drawn_takes_its_ink_from_the_axes(both, kind):
    with plt.style.context("dark_background"):
        ax = plt.subplots()[1]
    getattr(both.plot, kind)(ax=ax, dataset="smoke", **KINDS[kind])
    if kind == "confusion":
        return
    inks = [*ax.texts, *(() if ax.get_legend() is None else ax.get_legend().get_texts())]
    assert inks
    assert all(same_color(text.get_color(), "white") for text in inks)
    assert not any(same_color(one.get_color(), "black") for one in ax.lines)
    hollow = [one for one in ax.lines if one.get_label() in both.selectors and not filled(ax, one.get_label())]
    assert all(same_color(one.get_markerfacecolor(), "black") for one in hollow)


@pytest.mark.parametrize("kind", KINDS)
def test_the_size_is_the_users_and_a_figure_can_be_pickled(both, kind):
    with mpl.rc_context({"figure.figsize": (9.0, 3.0)}):
        ax = getattr(both.plot, kind)(dataset="smoke", **KINDS[kind])
    assert kind == "confusion" or ax.figure.get_size_inches()[0] == 9.0
    again = pickle.loads(pickle.dumps(ax.figure))
    again.canvas.draw()
    assert texts(again.axes[0].texts) == texts(ax.texts)


def test_a_trade_off_without_tokens_names_its_default():
    res = ctxbench.evaluate(SMOKE, ["bm25", "random"], metrics=["nDCG@10", "R@5"], **CHEAP)
    with pytest.raises(ParameterError, match=r"tokens was not measured; name it in evaluate\(metrics"):
        res.plot.trade_off(y="nDCG@10")
    assert res.plot.trade_off(x="R@5", y="nDCG@10").get_xlabel() == "R@5, %"


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        ("trade_off", {"x": "token"}, r"unknown metric 'token'; did you mean 'tokens'"),
        ("trade_off", {"y": "R@9"}, r"unknown metric 'R@9'"),
        ("differences", {"metric": "complete"}, r"unknown metric 'complete'"),
        ("differences", {"baseline": "doc"}, r"unknown baseline 'doc'; did you mean 'docs'"),
        ("scores", {"selector": "doc"}, r"unknown selector 'doc'; did you mean 'docs'"),
        ("confusion", {"selector": "doc"}, r"unknown selector 'doc'; did you mean 'docs'"),
    ],
)
def test_names_that_are_unknown_are_told(res, kind, given, message):
    with pytest.raises(UnknownNameError, match=message):
        getattr(res.plot, kind)(**given)
    assert not plt.get_fignums()


@pytest.mark.parametrize("style", ["dark_background", {"axes.facecolor": "black"}])
@pytest.mark.parametrize("kind", ["trade_off", "differences", "scores", "confusion"])
def test_a_style_is_of_one_plot(res, kind, style):
    draw = getattr(res.plot, kind)
    axes = draw(style=style)
    assert same_color(axes.get_facecolor(), "black")
    assert not same_color(draw().get_facecolor(), "black")


def test_settings_that_a_backend_makes_stay_after_a_plot_with_a_style(tmp_path):
    backend = """
import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg as FigureCanvas
mpl.interactive(True)
mpl.rcParams["figure.dpi"] = 42
"""
    code = """
import matplotlib as mpl
from ctxbench.api.plots import new_axes, styled
with styled("ggplot"):
    new_axes(1)
print(mpl.is_interactive(), mpl.rcParams["figure.dpi"], mpl.rcParams["axes.grid"])
"""
    (tmp_path / "like_a_notebook.py").write_text(backend, "utf-8")
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])
    env = {**os.environ, "MPLBACKEND": "module://like_a_notebook", "PYTHONPATH": paths}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60, env=env)
    assert done.stdout.split() == ["True", "42.0", "False"]


@pytest.mark.parametrize("style", ["no-such-style", {"lines.width": 1}, {"lines.linewidth": "x"}, 3])
def test_what_is_no_style_is_told(res, style):
    with pytest.raises(ParameterError) as raised:
        res.plot.trade_off(style=style)
    assert raised.value.args[0].key == "api.style"
    assert not plt.get_fignums()


def test_a_selector_alone_has_nothing_to_differ_from(cache):
    found = ctxbench.evaluate(SMOKE, ["bm25"], **CHEAP)
    with pytest.raises(ParameterError, match="no selector can be compared with 'bm25' on completeness"):
        found.plot.differences()
    assert texts(found.plot.trade_off().texts) == ["bm25"]


def test_the_examples_of_docstrings_are_true():
    ran = doctest.testmod(plots, extraglobs={"ctxbench": ctxbench})
    assert ran.attempted >= 8
    assert ran.failed == 0


def test_matplotlib_is_loaded_by_the_first_plot_alone():
    code = "import sys, ctxbench.api.evaluation; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "False"
