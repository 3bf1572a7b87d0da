"""Where scores lie beside thresholds of every kind: of all items, of a domain, relative, of an expansion."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from ctxbench.model.candidates import Mode, add_expanded
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.report.run_charts import scores
from ctxbench.report.scores import Bound, ScoreGroup, bounds_of, score_groups, threshold_of


def about(*refine: Any) -> dict[str, Any]:
    """What a manifest says of a pipeline with these steps."""
    pipeline = Pipeline.of({"retrieve": "dense", "refine": list(refine)})
    return {"values": {}, "description": {"pipeline": pipeline.describe()}}


def standard(score: float, floor: int = 5) -> dict[str, Any]:
    return {"standard": {"topN": floor, "includeScore": score}}


@pytest.fixture
def groups(made_run):
    """The groups of the desk's scored selector, were its steps these."""

    def made(*refine: Any) -> tuple[ScoreGroup, ...]:
        part = made_run.folder.load("desk", "semantic/normal")
        return score_groups(made_run.datasets["desk"], [part], {"semantic/normal": about(*refine)})

    return made


class TestBounds:
    def test_each_step_says_its_own(self):
        assert bounds_of(about(standard(0.6, 2), {"margin": {"margin": 0.25, "at_least": 1}}, "gap", "per_chunk")) == (
            Bound(quantity="score", label="includeScore", setting=0.6, value=0.6, floor=2),
            Bound(quantity="difference", label="margin", setting=0.25, value=-0.25, floor=1),
        )
        assert bounds_of(about({"margin": {"margin": 0.25, "of": "ratio"}}, {"per_chunk": {"above": 0.2}})) == (
            Bound(quantity="ratio", label="margin", setting=0.25, value=0.75),
            Bound(quantity="score", label="above", setting=0.2, value=0.2),
        )

    def test_an_expansion_has_one_for_each_way_and_none_while_it_is_off(self):
        both = {"expansion": {"by": "both", "threshold": 0.5, "graph_threshold": 0.6}}
        assert bounds_of(about(both)) == (
            Bound(quantity="expansion", label="threshold", setting=0.5, value=0.5),
            Bound(quantity="expansion", label="graph_threshold", setting=0.6, value=0.6),
        )
        assert bounds_of(about({"expansion": {"enabled": False}})) == ()
        assert bounds_of(about({"expansion": {"query_weight": 0.5}})) == ()  # mixed scores are no similarities

    def test_a_margin_of_the_whole_best_score_behind_a_standard_cut_is_off(self):
        def of(margin: float) -> dict[str, Any]:
            return {"margin": {"margin": margin, "of": "ratio", "at_most": 100}}

        score = Bound(quantity="score", label="includeScore", setting=0.6, value=0.6)
        assert bounds_of(about(standard(0.6, 0), of(1.0))) == (score,)
        ratio = Bound(quantity="ratio", label="margin", setting=0.75, value=0.25)
        assert bounds_of(about(standard(0.6, 0), of(0.75))) == (score, ratio)
        domains = {"tool": [standard(0.6, 0), of(0.75)], "*": [standard(0.6, 0), of(1.0)]}
        assert bounds_of(about({"by_domain": domains})) == (score, replace(ratio, types=("tool",)))

    def test_that_of_a_domain_is_held_against_its_types(self):
        domains = {"tool": [standard(0.5, 3)], "rule, reference": [standard(0.6)], "*": [{"first": {"n": 2}}]}
        assert bounds_of(about({"by_domain": domains})) == (
            Bound(quantity="score", label="includeScore", setting=0.5, value=0.5, floor=3, types=("tool",)),
            Bound(quantity="score", label="includeScore", setting=0.6, value=0.6, floor=5, types=("rule", "reference")),
        )

    def test_the_last_domain_is_of_all_types_that_are_left(self):
        (tools, others) = bounds_of(about({"by_domain": {"tool": [standard(0.5)], "*": [standard(0.6)]}}))
        assert tools.types == ("tool",)
        assert others.types == ("rule", "reference", "skill", "file", "chunk", "message", "memory")

    def test_what_all_domains_share_is_one_of_all_items_without_a_floor(self):
        domains = {"tool": [standard(0.5, 3), {"per_chunk": {"above": 0.1}}], "*": [standard(0.5, 2)]}
        assert bounds_of(about({"by_domain": domains})) == (
            Bound(quantity="score", label="includeScore", setting=0.5, value=0.5),
            Bound(quantity="score", label="above", setting=0.1, value=0.1, types=("tool",)),
        )

    def test_a_domain_in_a_domain_has_the_types_of_both(self):
        inner = {"by_domain": {"rule": [standard(0.4)], "*": ["gap"]}}
        assert [one.types for one in bounds_of(about({"by_domain": {"rule,tool": [inner], "*": ["gap"]}}))] == [
            ("rule",)
        ]

    @pytest.mark.parametrize(
        "refine", [[{"step": "cut:gone", "version": 1}], [{"step": "cut:first", "gone": 1}], [{"step": "other"}], []]
    )
    def test_a_step_that_is_not_known_here_has_none(self, refine):
        assert bounds_of({"description": {"pipeline": {"refine": refine}}}) == ()

    def test_a_selector_of_somebody_elses_has_none(self):
        assert bounds_of({**about(standard(0.6)), "external": True}) == ()
        assert bounds_of({}) == ()

    @pytest.mark.parametrize(
        ("refine", "value"),
        [
            ([standard(0.6), {"margin": {"margin": 0.2}}], 0.6),  # a relative one is no score
            ([standard(0.6), {"per_chunk": {"above": 0.2}}], None),  # two
            ([{"by_domain": {"tool": [standard(0.5)], "*": ["gap"]}}], None),  # of some items only
        ],
    )
    def test_one_score_that_always_includes(self, refine, value):
        assert threshold_of(about(*refine)) == value


class TestGroups:
    def test_a_margin_is_held_against_what_is_missing_to_the_best(self, groups):
        (relative, whole) = groups({"margin": {"margin": 0.25}})
        assert (relative.title, whole.title) == ("distance to the best score of the same query", "")
        assert (len(relative.thresholds), len(whole.thresholds)) == (1, 0)
        # required: create_issue 0, Schema .716 - .9, query .55 - .65, the hostile one 0
        # others: Unranked .7 - .9, create_issue .6 - .65, weather .2 - .81; idle ones have no distance to show
        assert (sum(relative.required), sum(relative.not_required), sum(relative.idle)) == (4, 3, 0)
        assert relative.thresholds[0].text == "margin 0.25"
        assert relative.thresholds[0].sentence == (
            "4 of 6 required items are within it, and so is the best item that is not needed in 2 of 3 queries that "
            "need something."
        )

    def test_a_ratio_is_held_against_the_share_of_the_best(self, groups):
        (relative, _) = groups({"margin": {"margin": 0.2, "of": "ratio"}})
        # required: 1, .716 / .9 = .796, .55 / .65 = .846, 1; others: .7 / .9 = .778, .6 / .65 = .923, .2 / .81 = .247
        assert relative.title == "score as a share of the best of the query"
        assert relative.thresholds[0].sentence.startswith("3 of 6 required items are within it, and so is the best")
        assert "in 1 of 3 queries" in relative.thresholds[0].sentence

    def test_that_of_a_domain_stands_beside_the_scores_of_its_items(self, groups):
        (tools, whole) = groups({"by_domain": {"tool": [standard(0.6, 0)], "*": ["gap"]}})
        assert (tools.title, whole.title) == ("tool", "")
        # required tools: create_issue .9, query .55, the hostile one .81; that of q6 is no candidate
        assert (sum(tools.required), sum(tools.not_required), sum(tools.idle)) == (3, 3, 1)
        assert tools.thresholds[0].sentence == (
            "The best score of a query is at least 0.6 in 3 of 6 queries; 2 of 4 required items score so high, and so "
            "does the best item of 0 of 2 queries that need nothing."
        )
        assert tools.sentences == ("1 required item not among the candidates, and so without a score here.",)
        assert sum(whole.required) == 4

    def test_a_domain_without_candidates_has_no_chart(self, groups):
        assert [one.title for one in groups({"by_domain": {"memory": [standard(0.6)], "*": ["gap"]}})] == [""]

    def test_a_chart_has_a_line_for_each(self, groups):
        (group,) = groups(standard(0.7, 2), {"per_chunk": {"above": 0.2}})
        ax = Figure().subplots()
        scores(ax, group)
        assert [label.get_text() for label in ax.texts] == ["above 0.2", "includeScore 0.7"]
        assert ax.texts[0].xy[1] > ax.texts[1].xy[1]


def test_an_expansion_is_held_against_the_scores_of_what_it_brought_in(made_run):
    part = made_run.folder.load("desk", "semantic/normal")
    at = {item.name: position for position, item in enumerate(made_run.datasets["desk"].catalog)}
    table = add_expanded(
        part.answers.joined().candidates,
        np.array([0, 0, 1]),
        np.array([at["API"], at["weather"], at["query"]]),  # query had been found, and stood out
        score=np.array([0.8, 0.76, 0.9]),
        origin=np.full(3, 2),
        mode=np.full(3, int(Mode.EXPANSION)),
        via_item=np.array([at["Schema"], at["Schema"], at["drop"]]),
    )
    part = replace(part, answers=replace(part.answers.joined(), candidates=table))
    described = {"semantic/normal": about(standard(0.7, 2), "expansion")}
    whole, brought = score_groups(made_run.datasets["desk"], [part], described)
    assert brought.title == "score of what expansions brought in"
    assert (sum(brought.required), sum(brought.not_required), sum(brought.idle)) == (2, 1, 0)
    assert [one.text for one in brought.thresholds] == ["threshold 0.75"]
    assert brought.thresholds[0].sentence == (
        "Items were brought in for 2 of 6 queries; 2 of 6 required items are among them."
    )
    # the search's scores are those from before: query .55 and weather .3 stand in it with them
    assert whole.required[27] == 1  # bins of 0.02
    assert sum(whole.required) == 4


def test_it_is_said_how_bars_beside_a_line_are_read(groups):
    (relative, whole) = groups({"margin": {"margin": 0.25, "at_least": 1}})
    assert relative.reading == "Blue left of the line was cut; orange right of it was offered needlessly."
    assert whole.reading == ""
    assert "At least" not in relative.thresholds[0].sentence  # the best item is within any margin
    (floored, _) = groups({"margin": {"margin": 0.25, "at_least": 3}})
    assert floored.thresholds[0].sentence.endswith(
        ". At least 3 items are offered, however low they score, where so many are found."
    )
    assert "was cut, but for items that are offered however low they score" in floored.reading
