"""Tuning from Python is the tuning of the command: the same choice, the same figures, the same presets file."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
import types

import matplotlib as mpl
import numpy as np
import pytest

import ctxbench
from ctxbench.api.plots import TuningPlots
from ctxbench.io.documents import load_yaml
from ctxbench.io.errors import InputError, Message, ParameterError, UnknownNameError, UserError
from ctxbench.tuning.inputs import open_tuning
from ctxbench.tuning.policy import read_policies
from ctxbench.tuning.preset_files import write_presets_of
from ctxbench.tuning.tuner import tune
from tests.api.conftest import CHEAP, ROOT, SMOKE

WORKBENCH = ROOT / "datasets" / "workbench"
mpl.use("Agg")
FEWER = {"minimise": "tokens", "completeness": "0.5 of base", "sample": 60, "labels": "split"}
POLICIES = """
name: tune
selectors: [bm25]
policies:
  normal: {minimise: tokens, constraints: [{metric: completeness, at_least: 0.5, of: base}]}
embedder: hashing
tokens: chars/4
sample: 60
labels: split
"""


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CTXBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("CTXBENCH_OFFLINE", "1")
        return ctxbench.tune(WORKBENCH, "bm25", **FEWER, **CHEAP)


def test_what_is_found_is_what_the_command_finds(tuned, tmp_path):
    (tmp_path / "policies.yaml").write_text(POLICIES, encoding="utf-8")
    ready = open_tuning(read_policies(tmp_path / "policies.yaml"), [str(WORKBENCH)])
    command = tune(ready, command="")
    (one,), (other,) = tuned.found.datasets, command.datasets
    assert one.outcomes[0].chosen.values == other.outcomes[0].chosen.values
    figures = [{name: found.value for name, found in each.figures.items()} for each in other.results]
    frame = tuned.to_frame()
    assert frame["contender"].tolist() == [each.name for each in other.results]
    assert [{name: row[name] for name in found} for (_, row), found in zip(frame.iterrows(), figures, strict=True)] == (
        figures
    )
    assert tuned.save(tmp_path / "one.yaml")
    assert write_presets_of(other, ready, tmp_path / "other.yaml")
    (a, _), (b, _) = load_yaml(tmp_path / "one.yaml"), load_yaml(tmp_path / "other.yaml")
    assert a["presets"] == b["presets"]


def test_a_preset_is_a_selector_and_answers_as_it_was_measured(tuned):
    preset = tuned.presets["normal"]
    assert preset.recommended
    assert preset.advice in tuned.advice
    res = ctxbench.evaluate(WORKBENCH, {"default": "bm25", "tuned": preset}, split="test", sample=60, **CHEAP)
    row = tuned.to_frame().set_index("role").loc["recommended"]
    assert res.to_frame().loc["tuned", "tokens"] == row["tokens"]
    assert res.to_frame().loc["tuned", "completeness"] == row["completeness"]
    tools = ctxbench.catalog([{"name": "area", "description": "Area of a triangle"}, {"name": "mail"}])
    assert ctxbench.select("area of a triangle", tools, selector=preset, **CHEAP).ids == ["tool:area"]
    with pytest.raises(ParameterError, match="a preset holds its own parameters; leave n out"):
        ctxbench.select("area", tools, selector=preset, n=1, **CHEAP)


def test_shipped_presets_compete_unless_they_are_left_out(tuned):
    alone = ctxbench.tune(WORKBENCH, "bm25", shipped=False, **FEWER, **CHEAP)
    assert tuned.found.datasets[0].shipped
    assert not alone.found.datasets[0].shipped
    assert set(alone.front()["line"]) == {"bm25: front", "bm25: first n"}
    assert alone.presets["normal"].selector == "bm25"


def test_the_front_rises_and_holds_what_every_setting_gives(tuned):
    front = tuned.front()
    best = front[front["line"] == "bm25: front"]
    assert best["tokens"].is_monotonic_increasing
    assert best["completeness"].is_monotonic_increasing
    assert (best["completeness low"] <= best["completeness"]).all()
    assert {"bm25: front", "bm25: first n"} <= set(front["line"])


@pytest.mark.essential
def test_the_front_is_whole_and_nothing_lies_above_it(monkeypatch, tmp_path):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path))
    found = ctxbench.tune(WORKBENCH, "learned", **{**FEWER, "sample": 150}, **CHEAP)
    fronts = {name: rows for name, rows in found.front().groupby("line") if name.endswith(": front")}
    for rows in fronts.values():
        points = rows[["tokens", "completeness"]].to_numpy()
        assert (np.diff(points, axis=0) > 0).all(), "no row beats another"
    dataset = found.found.datasets[0]
    compared = [one for one in dataset.results if one.role in ("recommended", "preset", "defaults")]
    assert {"recommended", "preset", "defaults"} == {one.role for one in compared}
    axes = found.plot.front()
    drawn = {line.get_label(): (line.get_xdata(), line.get_ydata()) for line in axes.get_lines()}
    for one in compared:
        tokens, complete = one.tuning["tokens"].value, one.tuning["completeness"].value
        rows = fronts[f"{one.selector}: front"]
        affordable = rows[rows["tokens"] <= tokens * (1 + 1e-9)]
        assert affordable["completeness"].max() >= complete - 1e-9, "in the frame"
        xs, ys = drawn[f"{one.selector}: front"]
        assert np.interp(tokens, xs, ys) >= complete - 1e-9, "as it is drawn"


def test_it_shows_itself_as_advice_and_a_table(tuned, tmp_path):
    assert tuned.advice.startswith("normal: bm25 with")
    assert "<table" in tuned._repr_html_()
    assert "least prompt tokens" in repr(tuned)
    assert tuned.report(tmp_path / "report").read_text("utf-8").lstrip().startswith("<!doctype html>")


def test_the_advice_says_where_its_figures_are_of_the_requests_that_chose(tuned):
    assert "were chosen on" not in tuned.advice
    every = ctxbench.tune(WORKBENCH, "bm25", **{**FEWER, "labels": "all", "sample": 200}, **CHEAP)
    assert "were chosen on" in every.advice.splitlines()[-1]


def test_of_several_datasets_one_is_taken():
    found = ctxbench.tune([SMOKE, WORKBENCH], "bm25", minimise="tokens", completeness="0.9 of base", sample=20, **CHEAP)
    with pytest.raises(ParameterError, match=r"several datasets \(smoke, workbench\); take one, as in tuned.on"):
        _ = found.presets
    with pytest.raises(UnknownNameError, match="unknown dataset 'smok'; did you mean 'smoke'"):
        found.on("smok")
    assert found.on("workbench").presets["normal"].selector == "bm25"


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"minimise": "tokens", "completness": 0.9}, UnknownNameError, "did you mean 'completeness'"),
        ({"minimise": "tokens", "completeness": "x"}, ParameterError, "'0.98 of base' or '0.75 of reachable'; got 'x'"),
        ({"minimise": "tokens", "completeness": "1 of bse"}, InputError, "of must be 'reachable' or 'base', got 'bse'"),
        ({"minimise": "tokens"}, InputError, "the constraints allow to offer nothing"),
        ({}, InputError, "one of minimise and maximise"),
        ({"minimise": "tokens", "policies": {"a": {}}}, ParameterError, "belong to policies, which are given"),
        ({"minimise": "tokens", "completeness": 0.5, "labels": "al"}, InputError, "labels must be 'all' or 'split'"),
    ],
)
def test_what_cannot_be_tuned_is_said_at_once(given, error, message):
    with pytest.raises(error, match=message):
        ctxbench.tune(SMOKE, "bm25", **CHEAP, **given)


def test_a_fit_of_ones_own_is_left_to_the_command():
    with pytest.raises(ParameterError, match="run `ctxbench tune` for it"):
        ctxbench.tune(
            SMOKE, {"selector": "learned", "fit": "own"}, minimise="tokens", completeness="0.9 of base", **CHEAP
        )


def test_the_plot_of_the_front_is_drawn_of_its_frame(tuned):
    axes = tuned.plot.front()
    front = tuned.front()
    for line in axes.get_lines()[:2]:
        rows = front[front["line"] == line.get_label()]
        points = list(zip(line.get_xdata().tolist(), line.get_ydata().tolist(), strict=True))
        assert set(points) <= set(zip(rows["tokens"], rows["completeness"], strict=True))
    recommended = next(line for line in axes.get_lines() if line.get_label() == "recommended: normal")
    chosen = next(one for one in tuned.found.datasets[0].results if one.name == "normal")
    assert recommended.get_xdata() == [chosen.tuning["tokens"].value]
    with pytest.raises(UnknownNameError, match="unknown metric 'token'; did you mean 'tokens'"):
        tuned.plot.front(x="token")
    within, shown = tuned.plot.within(100, style="dark_background"), tuned.plot.front(style={"axes.facecolor": "black"})
    assert (within.get_xlabel(), within.get_ylabel()) == (axes.get_xlabel(), axes.get_ylabel())
    assert all(panel.get_facecolor() == (0.0, 0.0, 0.0, 1.0) for panel in (within, shown))
    assert axes.get_facecolor() == (1.0, 1.0, 1.0, 1.0)


def test_the_best_setting_within_a_limit_is_marked(tuned):
    front = tuned.front()
    line = front[front["line"] == front["line"][0]]
    limit = line["tokens"].median()
    best = line[line["tokens"] <= limit].sort_values("completeness").iloc[-1]
    axes = tuned.plot.within(limit)
    (marked,) = [drawn for drawn in axes.lines if drawn.get_marker() == "o"]
    assert (marked.get_xdata(), marked.get_ydata()) == ([best["tokens"]], [best["completeness"]])
    assert f"n {best['n']:.0f}" in axes.get_title()
    assert tuned.plot.within(line["tokens"].min() - 1).get_title() == ""


def test_a_slider_draws_the_front_at_its_value(tuned, monkeypatch):
    limits = []
    monkeypatch.setattr(TuningPlots, "within", lambda self, tokens, style: limits.append(tokens))
    widgets = types.SimpleNamespace(
        SelectionSlider=lambda options, value: (options, value), interact=lambda draw, tokens: draw(tokens[0][-1])
    )
    for module, position in ((widgets, -1), (None, "middle")):  # None: it is not installed
        monkeypatch.setitem(sys.modules, "ipywidgets", module)
        tuned.plot.slider()
        options = sorted({math.ceil(tokens) for tokens in tuned.found.datasets[0].traces[0].means["tokens"]})
        assert limits.pop() == (options[-1] if position == -1 else options[len(options) // 2])
    assert not limits


def test_what_is_found_together_has_no_line():
    together = ctxbench.tune([SMOKE, WORKBENCH], "bm25", together=True, **{**FEWER, "sample": 20}, **CHEAP).on(
        "together"
    )
    with pytest.raises(ParameterError, match="'together' has no line of settings"):
        together.plot.within(100)


def test_a_map_over_two_parameters():
    found = ctxbench.tune(WORKBENCH, "learned", **FEWER, **CHEAP)
    (outcome,) = found.found.datasets[0].outcomes
    heat = outcome.heat_maps[0]
    for x, y, means in ((heat.x, heat.y, heat.means["tokens"]), (heat.y, heat.x, heat.means["tokens"].T)):
        axes = found.plot.heat_map(x, y, metric="tokens")
        (cells,) = axes.collections
        assert cells.get_array().reshape(means.shape).tolist() == means.tolist()
        assert (axes.get_xlabel(), axes.get_ylabel()) == (x, y)
        assert len(axes.patches) == 2
    with pytest.raises(ParameterError, match="there is no map over margin and x; there are maps over"):
        found.plot.heat_map("margin", "x")
    with pytest.raises(UnknownNameError, match="unknown policy 'x'"):
        found.plot.heat_map(heat.x, heat.y, policy="x")


def test_requests_made_worse_are_listed(tuned):
    (outcome,) = tuned.found.datasets[0].outcomes
    frame = tuned.worse()
    assert frame["query"].tolist() == [one.query for one in outcome.worse]
    assert len(frame) > 0
    assert all(frame["missing"])


def test_a_preset_of_recorded_answers_is_no_selector(tmp_path):
    tools = [f"tool {place}" for place in range(6)]
    texts = [{"query": f"q{n}", "text": f"request {n}", "split": ("tuning", "test")[n % 2]} for n in range(40)]
    labels = [{"query": f"q{n}", "item": tools[n % 6]} for n in range(40)]
    data = ctxbench.dataset([{"name": name} for name in tools], texts, labels)
    rows = []
    for n in range(40):
        order = [f"tool:{tools[(n + place) % 6].replace(' ', '%20')}" for place in range(6)]
        ranking = [{"id": one, "score": 1 - place / 100} for place, one in enumerate(order)]
        rows.append(json.dumps({"query": f"q{n}", "items": ranking[:5], "ranking": ranking}))
    (tmp_path / "answers.jsonl").write_text("\n".join(rows) + "\n", "utf-8")
    found = ctxbench.tune(
        data, ctxbench.answers(tmp_path / "answers.jsonl"), minimise="tokens", completeness=0.5, **CHEAP
    )
    preset = found.presets["normal"]
    for use in (lambda: preset.pipeline, lambda: ctxbench.evaluate(data, {"p": preset}, **CHEAP)):
        with pytest.raises(ParameterError, match="was tuned on recorded answers, which only your own selector"):
            use()


def test_where_nothing_is_recommended_no_file_is_touched(tmp_path):
    found = ctxbench.tune(SMOKE, "bm25", minimise="tokens", completeness="0.9 of base", **CHEAP)
    assert not found.presets["normal"].recommended
    (tmp_path / "notes.ipynb").write_text("mine", "utf-8")
    assert not found.save(tmp_path / "notes.ipynb")
    assert (tmp_path / "notes.ipynb").read_text("utf-8") == "mine"


@pytest.mark.parametrize(
    ("selector", "given", "error", "message"),
    [
        (ctxbench.pipeline("bm25"), {}, ParameterError, "'pipeline' has no cut and no parameter to tune"),
        ({"mine": {"retrieve": "bm25"}}, {}, ParameterError, "'mine' has no cut and no parameter to tune"),
        (3, {}, ParameterError, "selector 'int' must be the name of a shipped one"),
        ("bm25", {"completeness": float("nan")}, InputError, "at_least must be a finite number, got nan"),
        ("bm25", {"embeder": "x"}, UnknownNameError, "unknown option or constraint 'embeder'; did you mean 'embedder'"),
    ],
)
def test_what_is_no_selector_or_number_is_said(selector, given, error, message):
    with pytest.raises(error, match=message):
        ctxbench.tune(SMOKE, selector, minimise="tokens", **{"completeness": 0.5, **given}, **CHEAP)


def test_numbers_of_numpy_are_numbers():
    given = {"minimise": "tokens", "completeness": np.float32(0.5), "seed": np.int64(3)}
    assert ctxbench.tune(SMOKE, {"selector": "bm25", "search": {"n": np.arange(1, 4)}}, **given, **CHEAP).advice


def test_a_policy_whose_name_is_a_number_is_a_fault():
    with pytest.raises(InputError, match=r"a name must not be empty.*got 1"):
        ctxbench.tune(SMOKE, "bm25", policies={1: {"minimise": "tokens"}}, **CHEAP)


# ------------------------------------------------------------------------------------------------- selectors of Python

WORDS = ("amber", "birch", "cedar", "delta", "ember", "flint", "grove", "heath")
AIM = {"minimise": "tokens", "completeness": "0.9 of base", **CHEAP}


@pytest.fixture(scope="module")
def words():
    """Forty-eight queries, each of one of eight numbers: the number of the tool that is required, which no text has."""
    tools = [{"name": name, "description": f"does {name}"} for name in WORDS]
    texts = [{"query": f"q{n}", "text": str(n % 8)} for n in range(48)]
    return ctxbench.dataset(tools, texts, [{"query": f"q{n}", "item": WORDS[n % 8]} for n in range(48)])


def third(request, items, k=8, shift=2):
    """The tool that is required comes third, or first where nothing is shifted."""
    return [items[(int(request["text"]) - shift + n) % 8]["_id"] for n in range(k)]


def scored(request, items, weight=0.25):
    """Scores that fall with the distance to the tool that is required, some of them equal."""
    named = int(request["text"])
    rows = [(item["_id"], 1 + weight * (n == named) - abs(n - named - named % 3) / 10) for n, item in enumerate(items)]
    return [{"id": name, "score": score} for name, score in rows]


def same_figures(data, tuned):
    """The preset is measured as tuning measured it."""
    preset = tuned.presets["normal"]
    assert preset.recommended
    row = tuned.to_frame().set_index("role").loc["recommended"]
    frame = ctxbench.evaluate(data, {"tuned": preset}, **CHEAP).to_frame()
    assert frame.loc["tuned", ["tokens", "completeness"]].tolist() == row[["tokens", "completeness"]].tolist()
    return preset


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"k": [1, 2, 3, 5]}, {"k": 3}),
        ({"k": (1, 8), "shift": [1, 2]}, {"k": 2, "shift": 1}),
        ({"shift": [2, 0]}, {"shift": 0, "n": 1}),
    ],
)
def test_the_best_values_of_a_function_are_found(words, parameters, expected):
    tuned = ctxbench.tune(words, {"mine": third}, parameters=parameters, trials=16, **AIM)
    preset = same_figures(words, tuned)
    offered = ctxbench.evaluate(words, {"tuned": preset}, **CHEAP).to_frame()
    best = ctxbench.evaluate(words, lambda_of(third, **expected), **CHEAP).to_frame()
    assert offered["tokens"].tolist() == best["tokens"].tolist()
    assert offered["completeness"].tolist() == [1.0]
    assert len(ctxbench.select("2", words, selector=preset, **CHEAP).ids) == expected.get("n", expected.get("k"))
    base = tuned.to_frame().set_index("role").loc["defaults"]
    whole = ctxbench.evaluate(words, {"mine": third}, **CHEAP).to_frame()
    assert base["tokens"] == whole.loc["mine", "tokens"], "the base is the function as it is"


@pytest.mark.parametrize(
    ("answer", "base", "is_said"),
    [
        (lambda rows: [row["id"] for row in rows], "mine, all that it returns", True),
        (lambda rows: rows, "mine, all that it returns", True),
        (lambda rows: {"items": rows[:1], "ranking": rows}, "mine, first 5 of its ranking", False),
    ],
)
def test_a_base_whose_answers_have_no_ranking_is_what_it_returns_and_said_to_be(words, answer, base, is_said):
    tuned = ctxbench.tune(words, {"mine": lambda request, items: answer(scored(request, items))}, **AIM)
    assert tuned.to_frame().set_index("role").loc["defaults", "contender"] == base
    assert (str(Message("tuning.base-without-ranking")) in " ".join(str(tuned).split())) is is_said


def test_limits_of_every_policy_that_exclude_a_budget_are_named(words):
    def last(request, items):
        """All tools; the one that is required comes last."""
        return [{"id": row["id"], "score": 2 - row["score"]} for row in scored(request, items)]

    aim = {name: value for name, value in AIM.items() if name not in ("minimise", "completeness")}
    tuned = ctxbench.tune(words, {"mine": last}, maximise="completeness", tokens=5, **aim)
    (outcome,) = tuned.found.datasets[0].outcomes
    assert "0.75 times the base's" in outcome.reason


def lambda_of(function, n=None, **values):
    return {"best": lambda request, items: function(request, items, **values)[:n]}


def test_cuts_of_a_function_are_swept_as_evaluating_each_of_them_finds(words):
    weights = [0.05, 0.25]
    tuned = ctxbench.tune(words, scored, parameters={"weight": weights}, **AIM)
    same_figures(words, tuned)
    front = tuned.front()
    front = front[front["line"] == "scored: front"]
    thresholds = sorted({row["score"] for w in weights for row in scored({"text": "2"}, ITEMS, w)})

    def cut(weight, n, threshold):
        def answer(request, items):
            rows = sorted(scored(request, items, weight), key=lambda row: -row["score"])
            return [row["id"] for place, row in enumerate(rows) if place < n or row["score"] >= threshold]

        return answer

    every = [(weight, n, low) for weight in weights for n in (0, 2) for low in [*thresholds[::2], 9.0]]
    frame = ctxbench.evaluate(words, {str(one): cut(*one) for one in every}, **CHEAP).to_frame()
    for tokens, complete in zip(frame["tokens"], frame["completeness"], strict=True):
        reached = front[front["tokens"] <= tokens * (1 + 1e-9)]["completeness"].max()
        assert reached >= complete - 1e-9, "no setting beats the front"
    settings = front.to_dict("records")
    assert len(settings) > 3
    again = {str(n): cut_of(setting) for n, setting in enumerate(settings)}
    frame = ctxbench.evaluate(words, again, **CHEAP).to_frame()
    for (_, row), setting in zip(frame.iterrows(), settings, strict=True):
        assert (row["tokens"], row["completeness"]) == (setting["tokens"], setting["completeness"])


def cut_of(setting):
    """A function that scores and cuts by itself, at a setting of the front."""

    def answer(request, items):
        weight = setting["weight"] if setting["weight"] == setting["weight"] else 0.25  # NaN: the default
        rows = sorted(scored(request, items, weight), key=lambda row: -row["score"])
        low, best = setting["includeScore"], rows[0]["score"]
        rows = [row for n, row in enumerate(rows) if row["score"] > 0 and (n < setting["topN"] or row["score"] >= low)]
        return [row["id"] for row in rows if (best - row["score"]) / best <= setting["margin"]]

    return answer


ITEMS = [{"_id": f"tool:{name}", "name": name} for name in WORDS]
DEFINITION = """
name: mine
parameters:
  b: {default: 0.75, range: [0.2, 0.9]}
  n: {default: 5, range: [0, 100]}
pipeline:
  retrieve: {bm25: {b: $b}}
  refine: [{first: {n: $n}}]
"""


def test_a_pipeline_is_tuned_as_its_definition_in_yaml(tmp_path):
    (tmp_path / "mine.yaml").write_text(DEFINITION, "utf-8")
    aim = {"minimise": "tokens", "completeness": "0.5 of base", "trials": 4, **CHEAP}
    pipeline = ctxbench.pipeline("bm25", refine=[{"first": {"n": 5}}])
    mine = ctxbench.tune(SMOKE, {"mine": pipeline}, parameters={"bm25.b": [0.2, 0.5, 0.9]}, **aim)
    entry = {"selector": str(tmp_path / "mine.yaml"), "search": {"b": [0.2, 0.5, 0.9]}}
    theirs = ctxbench.tune(SMOKE, entry, **aim)
    fronts = [found.front().rename(columns={"bm25.b": "b"}) for found in (mine, theirs)]
    columns = ["line", "tokens", "completeness", "n", "b"]
    assert fronts[0][columns].to_dict("list").__repr__() == fronts[1][columns].to_dict("list").__repr__()
    assert {0.2, 0.5, 0.9} & set(fronts[0]["b"]), "the cuts are swept at every b"
    values = [dict(found.presets["normal"].values) for found in (mine, theirs)]
    assert values[0] == {"bm25.b" if name == "b" else name: value for name, value in values[1].items()}
    same_figures(SMOKE, mine)
    again = ctxbench.tune(SMOKE, mine.presets["normal"], **aim)
    assert again.to_frame().loc[0, "values"] == values[0], "a preset is the base of the next tuning"


def test_a_step_and_an_embedder_of_python_are_tuned(words):
    @dataclasses.dataclass(frozen=True)
    class Lift(ctxbench.Strategy):
        """Raises the scores of tools by their length."""

        weight: float = 5.0

        def __call__(self, query, candidates, resources):
            names = query.batch.catalog
            longer = np.array([len(names[int(item)].name) != 5 for item in candidates.item], dtype=float)
            return ctxbench.reranked(candidates, candidates.score - self.weight * (1 - longer))

    def embed(texts):
        named = [[text.count(word) + text.count(str(n)) + 0.1 for n, word in enumerate(WORDS)] for text in texts]
        return np.array(named)

    dense = {"dense": {"embedder": embed}}
    pipeline = ctxbench.pipeline(dense, refine=[ctxbench.step("rank", Lift()), {"first": {"n": 8}}])
    tuned = ctxbench.tune(words, pipeline, parameters={"lift.weight": (0.0, 1.0)}, trials=3, **AIM)
    assert same_figures(words, tuned).values["n"] == 1
    with pytest.raises(ParameterError, match="selector 'pipeline' was made in Python"):
        tuned.save("presets.yaml")


def test_a_setting_at_which_a_function_fails_is_left_out(words):
    def fails(request, items, k=3):
        if k == 2 and request["id"] == "q7":
            raise ValueError("no luck")
        return third(request, items, k)

    tuned = ctxbench.tune(words, fails, parameters={"k": [2, 3, 4]}, **AIM)
    notes = " ".join(tuned.found.datasets[0].notes)
    assert "fails with k 2 was left out" in notes
    assert "the first is 'q7': the callable raised ValueError: no luck" in notes
    fails.__defaults__ = (2,)
    with pytest.raises(InputError, match=r"'fails' with k 2, all labels of dataset .*; the first is 'q7'"):
        ctxbench.tune(words, fails, parameters={"k": [2]}, **AIM)


def test_the_page_of_a_setting_leaves_out_values_that_a_function_fails_at(words):
    def fails(request, items, weight=0.25):
        if weight > 1:
            raise ValueError("no luck")
        return scored(request, items, weight)

    tuned = ctxbench.tune(words, fails, parameters={"weight": [0.25, 2.0]}, **AIM)
    assert tuned.presets["normal"].selector == "fails"
    (outcome,) = tuned.found.datasets[0].outcomes
    varied = {trace.name: [setting[trace.name] for setting in trace.settings] for trace in outcome.slices}
    assert varied["weight"] == [0.25]
    assert len(varied["n" if "n" in varied else "topN"]) > 1


def test_two_steps_of_one_name_have_numbered_parameters():
    pipeline = ctxbench.pipeline("bm25", refine=[{"first": {"n": 3}}, {"first": {"n": 2}}])
    tuned = ctxbench.tune(SMOKE, {"mine": pipeline}, maximise="completeness", tokens=4000, trials=2, **CHEAP)
    assert tuned.ready.tunable("mine").definition.parameters.keys() == {"first.n", "first-2.n"}


@pytest.mark.parametrize(
    ("selector", "parameters", "message"),
    [
        (third, {"kk": [1]}, "unknown parameter of third 'kk'; did you mean 'k'"),
        (third, {"k": []}, "parameter 'k' has no values"),
        (third, {"k": (5, 1)}, r"parameter 'k': a range is a tuple of two numbers, the lower first; got \(5, 1\)"),
        (third, {"k": 3}, "parameter 'k': expected a list of values, or a tuple"),
        (third, {"k": [1, "two"]}, "parameter 'k': values must be numbers, texts, or true and false, all of one type"),
        (third, ["k"], "parameters must map names to lists of values"),
        (lambda request, items, n: [], {"n": [1]}, "parameter 'n' is a cut of every ranking"),
        ("bm25", {"kl": [1]}, "selector 'bm25' has no parameter 'kl'; did you mean 'k1'"),
        ("bm25", {"b": [0.5, 2.0]}, "b must be 0 to 1, got 2.0"),
        (ctxbench.pipeline("bm25"), {"bb": [0.5]}, "unknown parameter 'bb'; did you mean 'b'"),
        (ctxbench.pipeline("bm25"), {"b": [0.5, 2.0]}, "k1 must be 0 or more and b 0 to 1, got k1 1.5 and b 2.0$"),
        (
            ctxbench.pipeline({"merge": {"a": "bm25", "c": "bm25"}}, refine=["rrf"]),
            {"b": [0.5]},
            "several steps have a parameter 'b'; name one of a.b, c.b",
        ),
        ([third, "bm25"], {"k": [1]}, "parameters belong to one selector, and there are 2"),
        ({"selector": third, "serch": {}}, None, "unknown key of a selector 'serch'"),
    ],
)
def test_parameters_that_do_not_suit_are_said(words, selector, parameters, message):
    with pytest.raises(UserError, match=message):
        ctxbench.tune(words, selector, parameters=parameters, **AIM)


def test_a_preset_of_a_function_keeps_its_values_in_the_next_tuning(words):
    preset = ctxbench.tune(words, third, parameters={"shift": [0, 2]}, **AIM).presets["normal"]
    assert preset.values["shift"] == 0
    found = ctxbench.tune(words, {"again": preset}, parameters={"k": [8, 1]}, **AIM)
    base = found.to_frame().set_index("role").loc["defaults"]
    assert (base["tokens"], base["completeness"]) == (15.0, 1.0), "the first item alone, as the preset offers it"


def test_a_step_alone_is_tuned_as_the_pipeline_of_it():
    options = {"parameters": {"k1": [0.5, 1.5]}, "minimise": "tokens", "completeness": "0.9 of base", **CHEAP}
    step, whole = (
        ctxbench.tune(SMOKE, {"words": selector}, **options).front()
        for selector in (ctxbench.steps.bm25, ctxbench.pipeline("bm25"))
    )
    assert step.equals(whole)
