from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench.io.errors import ParameterError, StorageError
from ctxbench.model.candidates import SEARCHED, Candidates, Mode, Origin
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Query, Request, SessionItem
from ctxbench.model.resources import Resources
from ctxbench.model.strategies import Step
from ctxbench.pipelines.pipeline import Pipeline, PipelineError
from ctxbench.pipelines.strategies.expand import Expansion
from ctxbench.search import graph
from ctxbench.search.graph import GraphSpec, make_graph, write_graph
from ctxbench.testing import check_step, mock_catalog, mock_requests, mock_resources
from ctxbench.testing.conformance import process_faults


class Angles(Resources):
    """Resources whose texts are angles in degrees: two texts are as similar as the cosine between them."""

    def __init__(self) -> None:
        mock = mock_resources()
        self.get_or_create, self.tokens, self.identity = mock.get_or_create, mock.tokens, mock.identity

    def vectors(self, texts, *, kind="query"):
        angle = np.radians([float(text.split()[-1]) for text in texts])
        return np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32).reshape(len(texts), 2)


def cosine(degrees: float) -> float:
    return float(np.cos(np.radians(degrees)))


def rules(*chunks: str, **changes: Mapping[str, Any]) -> Catalog:
    """One rule an argument: its chunks' angles, such as "10 90"; `i2={"include": "always"}` changes the third."""
    items = [Item(type="rule", name=str(i), text="\n\n".join(one.split())) for i, one in enumerate(chunks)]
    items = [replace(item, **changes.get(f"i{i}", {})) for i, item in enumerate(items)]
    # the first paragraph of a rule's search text is its name; without a chunk of its own the name is the angle
    return Catalog(
        [replace(i, name=f"{i.name} {i.text.split()[0]}", text="\n\n".join(i.text.split()[1:])) for i in items]
    )


def expanded(
    catalog: Catalog, step: Expansion, *, first: int = 1, resources: Any = None, **request: Any
) -> tuple[Query, Candidates]:
    """What `step` makes behind the first few of a search for 0 degrees."""
    batch = Batch.of(catalog, [Request(**{"id": "q", "text": "0", **request})])
    pipeline = Pipeline.of({"retrieve": "dense", "refine": [{"first": {"n": first}}]})
    pipeline = replace(pipeline, refine=(*pipeline.refine, Step("expand", "under test", step)))
    outcome = pipeline.run(batch, Angles() if resources is None else resources)
    return outcome.query, outcome.candidates


def added(table: Candidates) -> list[tuple[int, float, int, int, int]]:
    """Item, score, via, chunk of via and chunk of the item of what was brought in, in order."""
    rows = (table.mode == Mode.EXPANSION) & table.chosen
    columns = (table.item, np.round(table.score, 6), table.via_item, table.query_chunk, table.item_chunk)
    return list(zip(*(column[rows].tolist() for column in columns), strict=True))


def items(table: Candidates) -> list[int]:
    return [row[0] for row in added(table)]


class TestChunks:
    def test_what_is_near_a_chosen_item_is_brought_in_with_the_pair_that_led_there(self):
        catalog = rules("0 100", "70 110", "50", "200")
        _, table = expanded(catalog, Expansion(threshold=0.6))
        assert added(table) == [
            (1, pytest.approx(cosine(10), abs=1e-6), 0, 1, 1),
            (2, pytest.approx(cosine(50), abs=1e-6), 0, 0, 0),
        ]
        assert table.origin[table.via_item >= 0].tolist() == [Origin.EXPANSION] * 2

    def test_of_several_chosen_items_the_nearest_leads(self):
        _, table = expanded(rules("0", "30", "45"), Expansion(threshold=0.5), first=2)
        assert added(table) == [(2, pytest.approx(cosine(15), abs=1e-6), 1, 0, 0)]

    def test_a_tie_goes_to_the_first_item_and_leads_from_the_first(self):
        _, table = expanded(rules("0", "0", "40", "40", "-40"), Expansion(threshold=0.5, topN=1), first=2)
        assert [row[0:1] + row[2:] for row in added(table)] == [(2, 0, 0, 0)]

    def test_a_pair_at_the_threshold_is_in_and_one_below_is_out(self):
        catalog, at = rules("0", "30"), float(Angles().vectors(["30"])[0, 0])
        assert items(expanded(catalog, Expansion(threshold=at))[1]) == [1]
        assert items(expanded(catalog, Expansion(threshold=at + 1e-7))[1]) == []

    def test_top_n_is_a_hard_cap_each_pass(self):
        catalog = rules("0", "10", "20", "30", "40")
        assert items(expanded(catalog, Expansion(threshold=0.5, topN=2))[1]) == [1, 2]
        assert items(expanded(catalog, Expansion(threshold=0.5, topN=1, depth=3))[1]) == [1, 2, 3]

    def test_each_pass_leads_from_what_the_one_before_brought_in(self):
        # 40 degrees apart each: every pass reaches one further
        _, table = expanded(rules("0", "40", "80", "120", "160"), Expansion(threshold=0.75, topN=20, depth=3))
        assert [(row[0], row[2]) for row in added(table)] == [(1, 0), (2, 1), (3, 2)]
        assert sorted(table.origin[table.via_item >= 0].tolist()) == [2, 3, 4]

    def test_depth_beyond_the_last_item_changes_nothing(self):
        one, other = (expanded(rules("0", "10"), Expansion(depth=depth))[1] for depth in (1, 5))
        assert added(one) == added(other)

    def test_what_a_rule_had_kept_out_keeps_its_search_score_aside(self):
        _, table = expanded(rules("0", "30"), Expansion())
        row = int(np.flatnonzero(table.item == 1)[0])
        assert table.columns[SEARCHED][row] == pytest.approx(cosine(30))
        assert table.ranking()[1].tolist() == [0, 1]

    def test_only_agent_items_that_the_request_may_get_are_brought_in(self):
        catalog = rules(
            "0", "1", "2", "3", "4", "5", i1={"include": "manual"}, i2={"enabled": False}, i3={"include": "always"}
        )
        keys = [item.key for item in catalog]
        _, table = expanded(catalog, Expansion(topN=20), removed=(keys[4],))
        assert items(table) == [5]
        _, table = expanded(catalog, Expansion(topN=20), available=(keys[0], keys[4]))
        assert items(table) == [4]

    def test_session_items_lead_only_where_asked_for_and_in_the_first_pass(self):
        catalog = rules("0", "90", "100")
        session = (SessionItem(catalog[1].key),)
        assert items(expanded(catalog, Expansion(), session=session)[1]) == []
        _, table = expanded(catalog, Expansion(session=True), session=session)
        assert added(table) == [(2, pytest.approx(cosine(10), abs=1e-6), 1, 0, 0)]

    def test_a_blank_request_is_not_expanded_from_its_session(self):
        catalog = rules("0", "10")
        _, table = expanded(catalog, Expansion(session=True), session=(SessionItem(catalog[0].key),), text=" ")
        assert items(table) == []

    def test_nothing_chosen_brings_nothing_in_and_a_single_item_neither(self):
        assert items(expanded(rules("0", "10"), Expansion(), first=0)[1]) == []
        assert items(expanded(rules("0"), Expansion())[1]) == []
        assert len(expanded(Catalog([]), Expansion())[1]) == 0

    def test_off_is_the_table_as_it_was(self):
        query, table = expanded(rules("0", "10"), Expansion(enabled=False))
        assert Expansion(enabled=False, depth=0)(query, table, Angles()) is table
        assert Expansion(depth=0)(query, table, Angles()) is table
        assert [Expansion(enabled=on, depth=depth).off for on in (False, True) for depth in (0, 1)] == [True] * 3 + [
            False
        ]
        assert Expansion(depth=0).thresholds == {}
        assert SEARCHED not in table.columns


class TestWhatLeads:
    def test_heads_compare_first_chunks_alone(self):
        catalog = rules("0 90", "90 0", "20 180")
        assert items(expanded(catalog, Expansion(topN=1))[1]) == [1]
        assert added(expanded(catalog, Expansion(topN=1, heads=True))[1])[0][0] == 2

    def test_types_say_what_is_brought_in_and_leads_say_from_where(self):
        catalog = Catalog(
            [
                Item(type="tool", name="0"),
                Item(type="rule", name="1"),
                Item(type="tool", name="2"),
                Item(type="rule", name="3"),
            ]
        )
        assert items(expanded(catalog, Expansion(types=("rule",)), first=2)[1]) == [3]
        found = added(expanded(catalog, Expansion(leads=("tool",)), first=2)[1])
        assert [(row[0], row[2]) for row in found] == [(2, 0), (3, 0)]
        found = added(expanded(catalog, Expansion(leads=("tool",), types=("rule",), depth=3, topN=1), first=1)[1])
        assert [row[0] for row in found] == [1]  # a rule leads nowhere in the second pass

    def test_the_query_has_its_share_in_the_ranking_but_not_in_the_threshold(self):
        catalog = rules("20", "45", "-10")  # chosen: -10 degrees (item 2); 20 is 30 away from it, 45 is 55
        _, table = expanded(catalog, Expansion(threshold=0.5, query_weight=0.25))
        assert added(table) == [
            (0, pytest.approx(0.75 * cosine(30) + 0.25 * cosine(20), abs=1e-6), 2, 0, 0),
            (1, pytest.approx(0.75 * cosine(55) + 0.25 * cosine(45), abs=1e-6), 2, 0, 0),
        ]
        assert items(expanded(catalog, Expansion(threshold=0.6, query_weight=1.0))[1]) == [0]

    def test_ranking_by_the_query_alone_is_the_ranking_of_the_search(self):
        catalog = rules("0", "50", "-20", "30", "-40")
        _, table = expanded(catalog, Expansion(threshold=0.0, query_weight=1.0, topN=20))
        assert items(table) == [2, 3, 4, 1]
        assert [row[1] for row in added(table)] == pytest.approx([cosine(a) for a in (20, 30, 40, 50)], abs=1e-6)


class TestGraph:
    CATALOG = rules("0 100", "70 110", "50", "200")

    def test_by_graph_is_by_chunks_looked_up(self):
        by_chunks = expanded(self.CATALOG, Expansion(threshold=0.6, topN=5))[1]
        by_graph = expanded(self.CATALOG, Expansion(by="graph", graph_threshold=0.6, graph_topN=5))[1]
        assert added(by_chunks) == added(by_graph)

    def test_mean_and_centroid_are_other_similarities(self):
        scores = [(cosine(70) + cosine(110) + cosine(30) + cosine(10)) / 4, (cosine(50) + cosine(50)) / 2]
        _, table = expanded(self.CATALOG, Expansion(by="graph", similarity="mean", graph_threshold=0.1))
        assert [row[1] for row in added(table)] == pytest.approx(sorted(scores, reverse=True), abs=1e-6)
        _, table = expanded(self.CATALOG, Expansion(by="graph", similarity="centroid", graph_threshold=0.1))
        assert added(table)[0][1] == pytest.approx(cosine(0), abs=1e-6)  # 50 lies in the middle of 0 and 100
        assert added(table)[0][0] == 2

    def test_both_have_limits_of_their_own_and_the_higher_score_holds(self):
        step = Expansion(by="both", threshold=0.9, topN=1, graph_threshold=0.3, graph_topN=2, similarity="mean")
        found = {row[0]: row for row in added(expanded(self.CATALOG, step)[1])}
        assert sorted(found) == [1, 2]
        assert found[1][1] == pytest.approx(cosine(10), abs=1e-6)  # by chunks; the graph has 0.46
        assert found[2][1] == pytest.approx(cosine(50), abs=1e-6)

    def test_neighbours_limit_what_is_known_of_an_item(self):
        catalog = rules("0", "10", "20", "30", i1={"include": "manual"})
        step = Expansion(by="graph", neighbours=2, graph_topN=5)
        assert items(expanded(catalog, step)[1]) == [2]

    def test_a_stored_graph_answers_as_one_made_in_memory_and_embeds_nothing_more(self, tmp_path):
        path = tmp_path / "graph.npz"
        write_graph(path, make_graph(self.CATALOG, Angles(), GraphSpec(threshold=0.2)))
        step = Expansion(by="graph", graph_threshold=0.6, graph=str(path))
        assert added(expanded(self.CATALOG, step)[1]) == added(expanded(self.CATALOG, replace(step, graph=""))[1])
        assert "catalog" in str(Step("expand", "expansion", step).describe()["content"])

    def test_a_stored_graph_is_read_once_until_the_file_is_another(self, tmp_path, monkeypatch):
        path, resources = tmp_path / "graph.npz", Angles()
        write_graph(path, make_graph(self.CATALOG, Angles(), GraphSpec(threshold=0.2)))
        step, metas = Expansion(by="graph", graph_threshold=0.6, graph=str(path)), []
        read = graph.read_meta
        monkeypatch.setattr(graph, "read_meta", lambda path: metas.append(path) or read(path))
        first = added(expanded(self.CATALOG, step, resources=resources)[1])
        n = len(metas)
        assert added(expanded(self.CATALOG, step, resources=resources)[1]) == first
        assert len(metas) == n
        write_graph(path, make_graph(self.CATALOG, Angles(), GraphSpec(threshold=0.75)))
        with pytest.raises(ParameterError, match=r"its threshold is 0\.75, expected at most 0\.6"):
            expanded(self.CATALOG, step, resources=resources)

    def test_a_stored_graph_that_does_not_fit_is_refused_before_it_is_read(self, tmp_path):
        path = tmp_path / "graph.npz"
        write_graph(path, make_graph(self.CATALOG, Angles(), GraphSpec(threshold=0.7)))
        other = Angles()
        other.identity = lambda resource: "another"
        step = Expansion(by="graph", graph=str(path))
        step.check(self.CATALOG, Angles())
        with pytest.raises(ParameterError, match=r"its catalog is .*, expected"):
            step.check(rules("0"), Angles())
        with pytest.raises(ParameterError, match="its embedder is"):
            step.check(self.CATALOG, other)
        with pytest.raises(ParameterError, match=r"its threshold is 0\.7, expected at most 0\.5"):
            expanded(self.CATALOG, replace(step, graph_threshold=0.5))
        with pytest.raises(StorageError, match="there is no relationship graph"):
            replace(step, graph=str(tmp_path / "none")).check(self.CATALOG, Angles())

    @settings(max_examples=80, deadline=None)
    @given(
        st.lists(st.lists(st.integers(0, 20), min_size=1, max_size=3), min_size=1, max_size=8),
        st.integers(0, 10),
        st.sampled_from([0.0, 0.5, 0.75, 0.95]),
        st.integers(1, 4),
        st.integers(1, 3),
        st.sampled_from([0.0, 0.4]),
        st.booleans(),
    )
    def test_by_graph_with_max_equals_by_chunks(self, chunks, below, threshold, top, depth, share, heads):
        catalog = rules(*(" ".join(str(18 * angle) for angle in one) for one in chunks))
        shared = {"depth": depth, "query_weight": share, "heads": heads}
        one = expanded(catalog, Expansion(threshold=threshold, topN=top, **shared), first=2)[1]
        lower = Expansion(by="graph", graph_threshold=threshold, graph_topN=top, **shared)
        assert added(one) == added(expanded(catalog, lower, first=2)[1])


class TestParameters:
    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"depth": 6}, "depth must be 0 to 5, got 6"),
            ({"threshold": 1.5}, r"threshold must be 0 to 1, got 1\.5"),
            ({"threshold": -0.1}, "threshold must be 0 to 1"),
            ({"topN": 0}, "topN must be 1 to 20, got 0"),
            ({"topN": 21}, "topN must be 1 to 20, got 21"),
            ({"by": "graph", "graph_threshold": 2}, "graph_threshold must be 0 to 1"),
            ({"by": "graph", "graph_topN": 0}, "graph_topN must be 1 to 20"),
            ({"by": "graph", "neighbours": 0}, "neighbours must be 1 or more"),
            ({"query_weight": 1.1}, "query_weight must be 0 to 1"),
            ({"types": ("tol",)}, "no item type is called 'tol'.*tool"),
            ({"leads": ("rul",)}, "leads: no item type"),
            ({"graph_topN": 4}, "graph_topN does nothing with by: chunks"),
            ({"similarity": "mean"}, "similarity does nothing with by: chunks"),
            ({"graph": "g.npz"}, "graph does nothing with by: chunks"),
            ({"by": "graph", "threshold": 0.5}, "threshold does nothing with by: graph"),
        ],
    )
    def test_what_cannot_be_is_said(self, wrong, message):
        with pytest.raises(ParameterError, match=message):
            Expansion(**wrong)

    def test_a_pipeline_says_it_before_anything_runs(self):
        with pytest.raises(PipelineError, match="by must be one of 'chunks', 'graph', 'both'"):
            Pipeline.of({"retrieve": "dense", "refine": [{"expansion": {"by": "magic"}}]})


EXPANSIONS = [
    {},
    {"enabled": False, "depth": 0},
    {"depth": 0},
    {"threshold": 0.2, "topN": 5, "depth": 2, "session": True},
    {"by": "graph", "graph_threshold": 0.2},
    {"by": "graph", "similarity": "centroid", "graph_threshold": 0.2, "leads": ["tool"]},
    {"by": "both", "threshold": 0.3, "topN": 20, "graph_threshold": 0.2, "graph_topN": 20, "similarity": "mean"},
    {"threshold": 0.2, "heads": True, "query_weight": 0.5, "types": ["rule", "reference"]},
    {"threshold": 0.2, "query_weight": 1.0},
]


@pytest.mark.parametrize("parameters", EXPANSIONS, ids=str)
def test_expansion_conforms(parameters):
    check_step("expand", "expansion", parameters, processes=0)


def test_expansion_answers_alike_in_new_processes():
    assert list(process_faults([("expand", "expansion", one, "dense") for one in EXPANSIONS])) == []


def test_a_batch_with_both_steps_equals_its_requests_one_by_one():
    refine = [
        {"first": {"n": 2}},
        {"expansion": {"threshold": 0.2, "depth": 2}},
        {"tool_rules": {"rules": {"send": ["c"]}}},
    ]
    pipeline = Pipeline.of({"retrieve": "dense", "refine": refine})
    catalog, requests = mock_catalog(), mock_requests()
    whole = pipeline.run(Batch.of(catalog, requests), mock_resources()).candidates
    for row, request in enumerate(requests):
        alone = pipeline.run(Batch.of(catalog, [request]), mock_resources()).candidates
        for name in whole.row_arrays():
            np.testing.assert_array_equal(getattr(whole, name)[whole.rows(row)], getattr(alone, name), err_msg=name)
