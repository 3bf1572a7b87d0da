"""Fits by file: every text is of four characters a token, so that budgets are sums to read off."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench.io.errors import ParameterError
from ctxbench.model.candidates import Candidates, Mode, Origin, part_of, text_shown
from ctxbench.model.items import Catalog, Item, ItemKey
from ctxbench.model.requests import Batch, Request, SessionItem, whole_texts
from ctxbench.model.selection import concatenated, session_rows
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.pipelines.strategies.pack import SHARE, Budget, Excerpts, Outline, WholeFile
from ctxbench.selectors.selector import PipelineSelector
from ctxbench.testing import check_selector, mock_resources

PROPERTY = settings(max_examples=150, deadline=None, database=None, derandomize=True)


def item(name: str, tokens: int, **more) -> Item:
    """A chunk `path::name`, or a file, of so many tokens."""
    path, _, part = name.partition("::")
    return Item(type="chunk" if part else "file", name=name, title=path, text="x" * (4 * tokens), **more)


TREE = (
    item("a.py", 5),  # the outline of a.py; bodies of 10 + 20 + 10 tokens
    item("a.py::f", 10),
    item("a.py::g", 20),
    item("a.py::h", 10),
    item("b.py", 4),
    item("b.py::k", 30),
    item("notes.md", 12),
)


def fitted(step, *chosen: str, tree=TREE, cut=(), session=None, **more):
    """The table behind a step; what is chosen scores 1, 1/2, 1/3 ..."""
    catalog = Catalog(tree)
    held = None if session is None else tuple(SessionItem(key) for key in session)
    batch = Batch.of(catalog, [Request(id="q", text="x", session=held, **more)])
    places = np.array([[one.name for one in tree].index(name) for name in chosen], dtype=np.int64)
    score = 1.0 / (1.0 + np.arange(len(places)))
    table = Candidates.build(1, np.zeros(len(places), dtype=np.int64), places, score=score)
    table = table.exclude(np.isin(table.item, [[one.name for one in tree].index(name) for name in cut]), "cut")
    return step(whole_texts(batch), concatenated([session_rows(batch), table]), mock_resources())


def offered(step, *chosen: str, tree=TREE, **more) -> list[str]:
    """What is offered, in order, that of the session aside."""
    table = fitted(step, *chosen, tree=tree, **more)
    return [tree[one].name for one in table.item[table.chosen & (table.origin != Origin.SESSION)].tolist()]


class TestWholeFile:
    @pytest.mark.parametrize(
        ("tokens", "share", "expected"),
        [
            (70, 0.5, ["a.py::g", "b.py::k", "a.py::f", "a.py::h"]),  # 20 of 40: half; 20 + 20 more, then 30
            (69, 0.5, ["a.py::g", "a.py::f", "a.py::h"]),  # the rest goes before the next, which does not fit then
            (39, 0.5, ["a.py::g"]),  # the rest, 20, does not fit into 19, nor do the 30
            (70, 0.51, ["a.py::g", "b.py::k"]),
            (70, 1.0, ["a.py::g", "b.py::k"]),
        ],
    )
    def test_the_rest_of_a_file_comes_in_once_the_share_is_chosen(self, tokens, share, expected):
        assert offered(WholeFile(tokens, share), "a.py::g", "b.py::k") == expected

    def test_what_came_in_tells_what_led_to_it_and_the_share(self):
        table = fitted(WholeFile(70, 0.25), "b.py::k", "a.py::f")
        rows = np.flatnonzero(table.mode == Mode.EXPANSION)
        assert [TREE[one].name for one in table.item[rows].tolist()] == ["a.py::g", "a.py::h"]
        assert {TREE[one].name for one in table.via_item[rows].tolist()} == {"a.py::f"}
        assert table.score[rows].tolist() == [0.5, 0.5]
        assert table.columns[SHARE][rows].tolist() == [0.25, 0.25]  # 10 of 40
        assert np.isnan(table.columns[SHARE][table.mode != Mode.EXPANSION]).all()

    def test_what_a_cut_left_out_comes_back_and_what_is_chosen_stays_where_it_stands(self):
        table = fitted(WholeFile(40, 0.25), "a.py::f", "a.py::h", "a.py::g", cut=["a.py::g"])
        assert [TREE[one].name for one in table.item[table.chosen].tolist()] == ["a.py::f", "a.py::h", "a.py::g"]
        assert table.origin.tolist() == [Origin.SEARCH, Origin.SEARCH, Origin.EXPANSION]

    def test_what_does_not_fit_says_so_and_smaller_items_still_come(self):
        table = fitted(WholeFile(22, 1.0), "a.py::f", "b.py::k", "notes.md")
        assert [TREE[one].name for one in table.item[table.chosen].tolist()] == ["a.py::f", "notes.md"]
        assert str(table.rules[table.out[1]]) == "beyond the budget of tokens=22"

    def test_by_score_for_each_token_the_cheap_come_first(self):
        chosen = ["b.py::k", "notes.md", "a.py"]  # 1 of 30, 1/2 of 12, 1/3 of 5 tokens: 0.033, 0.042, 0.067
        assert offered(WholeFile(30, 1.0), *chosen) == ["b.py::k"]
        assert offered(WholeFile(30, 1.0, per_token=1.0), *chosen) == ["notes.md", "a.py"]
        assert offered(WholeFile(30, 1.0, per_token=0.1), *chosen) == ["b.py::k"]  # 1 / 30 ** 0.1 = 0.71, 0.39

    def test_the_session_counts_for_the_share_and_not_for_the_budget(self):
        session = [ItemKey("chunk", None, "a.py::f")]
        assert offered(WholeFile(30, 0.5), "a.py::h", session=session) == ["a.py::h", "a.py::g"]  # 10 + 10 of 40
        assert offered(WholeFile(30, 0.5), "a.py::h") == ["a.py::h"]

    def test_what_a_request_may_not_get_stays_out(self):
        assert offered(WholeFile(90, 0.25), "a.py::f", removed=(ItemKey("chunk", None, "a.py::g"),)) == [
            *("a.py::f", "a.py::h")
        ]

    def test_only_what_is_there_at_the_time_is_of_a_file(self):
        tree = (*TREE[:2], replace(TREE[2], until="2026-01-02"), replace(TREE[3], created="2026-01-02"))
        for day, expected in (("2026-01-01", ["a.py::f"]), ("2026-01-03", ["a.py::f", "a.py::h"])):
            assert offered(WholeFile(90, 0.5), "a.py::f", tree=tree, time=day) == expected  # 10 of 30, then of 20

    def test_nothing_chosen_nothing_offered(self):
        assert offered(WholeFile()) == []


class TestOutline:
    @pytest.mark.parametrize(
        ("tokens", "n", "expected"),
        [
            (60, 9, ["a.py::f", "b.py::k", "a.py::h"]),  # 10 + 30 + 10
            (49, 9, ["a.py::f", "b.py::k", "a.py"]),  # 9 left: the outline of 5 in the place of 10
            (44, 9, ["a.py::f", "b.py::k"]),  # 4 left
            (39, 9, ["a.py::f", "b.py", "a.py::h"]),  # 29 left: the outline of 4 in the place of 30
            (60, 1, ["a.py::f", "b.py", "a.py"]),
            (60, 0, ["a.py", "b.py"]),  # once a file
            (0, 0, []),
        ],
    )
    def test_what_is_too_long_or_far_down_gives_way_to_the_outline_of_its_file(self, tokens, n, expected):
        assert sorted(offered(Outline(tokens, n), "a.py::f", "b.py::k", "a.py::h")) == sorted(expected)

    def test_the_trace_tells_why(self):
        table = fitted(Outline(20, 1), "a.py::f", "b.py::k", "b.py", "a.py::h", "a.py::g")
        rules = {TREE[one].name: table.rules[out] for one, out in zip(table.item, table.out, strict=True)}
        assert str(rules["b.py::k"]) == (
            "its file's outline stands for it, as it is beyond the first n=1, or too long for tokens=20"
        )
        assert [rules["b.py"], rules["a.py"], rules["a.py::h"].code, rules["a.py::g"].code] == [
            *(None, None, "outlined", "outlined")
        ]
        brought = table.item.tolist().index(0)
        assert TREE[table.via_item[brought]].name == "a.py::h"
        assert table.score[brought] == 0.25
        assert table.mode.tolist().count(Mode.EXPANSION) == 1  # b.py was found itself

    def test_what_has_no_outline_stays_whole_if_it_fits(self):
        assert offered(Outline(12, 0), "notes.md", "b.py") == ["notes.md"]
        assert offered(Outline(11, 0), "notes.md", "b.py") == ["b.py"]

    def test_an_outline_that_the_session_holds_is_not_sent_again(self):
        session = [ItemKey("file", None, "a.py")]
        assert offered(Outline(99, 0), "a.py::f", "b.py::k", session=session) == ["b.py"]

    def test_of_a_whole_file_the_head_is_shown(self):
        pytest.importorskip("tree_sitter_python")
        head = 'c.py\n\n"""Colours."""\n\nimport os\n\n'
        tree = (Item(type="file", name="c.py", text=f"{head}def mix(x):\n    return {'x' * 80}\n"),)
        table = fitted(Outline(99, 0), "c.py", tree=tree)
        text = text_shown(tree[0], part_of(table, 0))
        assert text == f"{head} …"
        assert int(table.tokens[0]) == -(-len(text) // 4)
        assert fitted(Outline(99, 1), "c.py", tree=tree).shown_to.tolist() == [-1]
        assert not fitted(Outline(int(table.tokens[0]) - 1, 1), "c.py", tree=tree).chosen.any()

    def test_a_file_without_anything_before_its_definitions_stays_whole(self):
        pytest.importorskip("tree_sitter_python")
        tree = (Item(type="file", name="c.py", text="def mix(x):\n    return x\n"),)
        assert fitted(Outline(99, 0), "c.py", tree=tree).shown_to.tolist() == [-1]

    def test_nothing_chosen_nothing_offered(self):
        assert offered(Outline()) == []


@PROPERTY
@given(
    st.permutations([one.name for one in TREE]),
    st.integers(0, len(TREE)),
    st.integers(0, 100),
    st.sampled_from([0.1, 0.5, 1.0]),
    st.sampled_from([0.0, 0.4]),
)
def test_the_budget_is_never_exceeded_and_every_item_is_offered_once(names, n, tokens, share, per_token):
    for step in (WholeFile(tokens, share, per_token), Outline(tokens, n // 2, per_token)):
        found = offered(step, *names[:n])
        assert len(set(found)) == len(found)
        assert sum(len(one.text) // 4 for one in TREE if one.name in found) <= tokens


@pytest.mark.parametrize("fit", [{"whole_file": {"tokens": 70, "share": 0.2}}, {"outline": {"tokens": 25, "n": 0}}])
def test_they_conform_over_definitions(fit):
    words = ("colours", "mix paint", "shade of paint", "paint brush", "walls", "wall paper", "notes on paint")
    tree = [replace(one, text=f"{text} {one.text}") for one, text in zip(TREE, words, strict=True)]
    requests = [Request(id=f"q{n}", text=text) for n, text in enumerate(("mix paint", "paper", "", "brush shade", "x"))]
    spec = {"retrieve": {"bm25": {"depth": 3}}, "refine": [{"first": {"n": 2}}, fit]}
    pipeline, catalog = Pipeline.of(spec), Catalog(tree)
    assert Origin.EXPANSION in pipeline.run(Batch.of(catalog, requests), mock_resources()).candidates.origin
    check_selector(PipelineSelector("it", pipeline, mock_resources()), catalog=catalog, requests=requests)


def test_an_excerpt_that_a_step_before_left_out_costs_what_is_shown_of_it():
    tree = [replace(item("a.py::f", 100), text="f" * 396), replace(item("a.py::g", 100), text="g" * 400)]
    catalog = Catalog(tree)
    query, resources = whole_texts(Batch.of(catalog, [Request(id="q", text="f")])), mock_resources()
    table = Candidates.build(1, np.zeros(2, dtype=np.int64), np.arange(2), score=np.array([1.0, 0.5]))
    table = Excerpts(399, types=("chunk",))(query, table, resources)
    table = Budget(100)(query, table, resources)
    found = WholeFile(199, 0.4)(query, table, resources)
    texts = [text_shown(tree[found.item[row]], part_of(found, row)) for row in np.flatnonzero(found.chosen).tolist()]
    assert int(resources.text_tokens(texts).sum()) <= 199


@pytest.mark.parametrize(
    ("step", "given", "said"),
    [
        (WholeFile, {"share": 0.0}, "share must be above 0"),
        (WholeFile, {"tokens": -1}, "tokens must be"),
        (Outline, {"n": -1}, "n must be"),
        (Outline, {"per_token": 1.5}, "per_token must be"),
    ],
)
def test_parameters_out_of_range_are_refused(step, given, said):
    with pytest.raises(ParameterError, match=said):
        step(**given)
