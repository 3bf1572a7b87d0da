from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench import testing
from ctxbench.io.errors import ParameterError
from ctxbench.model.candidates import Candidates, Origin
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Message, Query, Request, SessionItem
from ctxbench.pipelines.pipeline import Pipeline, PipelineError
from ctxbench.pipelines.strategies.pack import Budget

PROPERTY = settings(max_examples=200, deadline=None, database=None, derandomize=True)
SESSION, SEARCH, EXPANSION = int(Origin.SESSION), int(Origin.SEARCH), int(Origin.EXPANSION)


class Counted:
    """Resources that count tokens as they are told."""

    def __init__(self, *tokens: int) -> None:
        self._tokens = np.array(tokens, dtype=np.int64)

    def tokens(self, catalog, items=None):
        assert len(catalog) == len(self._tokens)
        return self._tokens


def offered(step: Budget, tokens: list[int], *requests: list[int], out: tuple[int, ...] = ()) -> list[list[int]]:
    """What is offered of items 0, 1, ... that cost `tokens`; each request holds as many, with these origins."""
    catalog = Catalog([Item(type="rule", name=str(n)) for n in range(len(tokens))])
    query = Query.of_chunks(
        Batch.of(catalog, [Request(id=str(n), text="x") for n in range(len(requests))]), [["x"]] * len(requests)
    )
    origin = np.array([one for origins in requests for one in origins], dtype=np.int64)
    item = np.concatenate([np.arange(len(origins)) for origins in requests]).astype(np.int64)
    candidates = Candidates.build(
        len(requests),
        np.repeat(np.arange(len(requests)), [len(origins) for origins in requests]),
        item,
        score=np.where(origin == SESSION, np.nan, 1 - item / 100),
        origin=origin,
    )
    after = step(query, candidates.exclude(np.isin(candidates.item, out), "not this one"), Counted(*tokens))
    return [after.item[rows][after.chosen[rows]].tolist() for rows in map(after.rows, range(len(requests)))]


@pytest.mark.parametrize(
    ("tokens", "given", "kept"),
    [
        ([30, 20, 50, 10], {"tokens": 100}, [0, 1, 2]),  # 100 are spent, exactly
        ([30, 20, 50, 10], {"tokens": 99}, [0, 1]),  # 50 do not fit and end the list
        ([30, 20, 50, 10], {"tokens": 99, "skip": True}, [0, 1, 3]),
        ([30, 20, 50, 0], {"tokens": 50}, [0, 1]),  # what ended the list ends it for items without tokens, too
        ([30, 20, 50, 0], {"tokens": 50, "skip": True}, [0, 1, 3]),
        ([30, 20], {"tokens": 0}, []),
        ([0, 20], {"tokens": 0}, [0]),
        ([130, 20], {"tokens": 100}, []),  # nothing is forced in
        ([130, 20], {"tokens": 100, "skip": True}, [1]),
    ],
)
def test_items_are_offered_in_order_as_long_as_they_fit(tokens, given, kept):
    assert offered(Budget(**given), tokens, [SEARCH] * len(tokens)) == [kept]


@pytest.mark.parametrize("skip", [False, True])
class TestRows:
    def test_expansions_count_behind_what_was_found(self, skip):
        assert offered(Budget(tokens=60, skip=skip), [20, 20, 20, 20], [SEARCH, SEARCH, EXPANSION, EXPANSION + 1]) == [
            [0, 1, 2]
        ]

    def test_the_session_stays_and_counts_where_that_is_said(self, skip):
        origins = [SESSION, SESSION, SEARCH, EXPANSION]
        assert offered(Budget(tokens=60, skip=skip), [40, 10, 10, 50], origins) == [[0, 1, 2, 3]]
        assert offered(Budget(tokens=60, skip=skip, session=True), [40, 10, 10, 50], origins) == [[0, 1, 2]]
        assert offered(Budget(tokens=10, skip=skip, session=True), [40, 10, 0, 50], origins) == [[0, 1]]

    def test_what_is_out_already_costs_nothing(self, skip):
        assert offered(Budget(tokens=40, skip=skip), [30, 20, 20], [SEARCH] * 3, out=(0,)) == [[1, 2]]

    def test_each_request_has_a_budget_of_its_own(self, skip):
        requests = [SEARCH, SEARCH], [], [SESSION, SEARCH], [SEARCH]
        assert offered(Budget(tokens=30, skip=skip), [20, 20], *requests) == [[0], [], [0, 1], [0]]

    def test_no_request(self, skip):
        query = Query.of_chunks(Batch.of(Catalog([]), []), [])
        assert Budget(skip=skip)(query, Candidates.empty(0), Counted()).n_requests == 0


class TestTheWholePrompt:
    """`frame`: system prompt, history, session and the user's message count, as they are rendered."""

    def asked(self, tokens, *, skip=False, system="Be kind.", session=()):
        catalog = Catalog([Item(type="memory", name=str(n), text="x" * 4 * n) for n in (4, 9, 2, 3)])
        request = Request(
            id="q",
            text="hello you",
            history=(Message("user", "hi there"),),
            session=tuple(SessionItem(catalog[n].key) for n in session),
        )
        budget = {"budget": {"tokens": tokens, "skip": skip, "frame": True}}
        spec = {"retrieve": "everything", "refine": [budget], "format": {"messages": {"system": system}}}
        batch = Batch.of(catalog, [request, Request(id="other", text="")])
        pipeline, resources = Pipeline.of(spec), testing.mock_resources()
        outcome = pipeline.run(batch, resources)
        table = outcome.candidates
        assert (pipeline.prompts(outcome, resources)[0].messages[0] == ("system", system)) == bool(system)
        rows = table.rows(0)
        return table.item[rows][table.chosen[rows]].tolist()

    @pytest.mark.parametrize(
        ("tokens", "kept"), [(6, []), (7, []), (11, [0]), (19, [0]), (20, [0, 1]), (25, [0, 1, 2, 3])]
    )
    def test_the_frame_of_seven_tokens_counts(self, tokens, kept):  # 2 + 2 + 3, and items of 4, 9, 2 and 3
        assert self.asked(tokens) == kept

    def test_smaller_ones_behind_may_fit(self):
        assert self.asked(16, skip=True) == [0, 2, 3]
        assert self.asked(15, skip=True) == [0, 2]

    def test_another_frame_leaves_other_room(self):
        assert self.asked(9, system="") == [0]
        assert self.asked(9, system="Be kind.") == []

    def test_what_the_session_holds_counts_and_stays(self):
        assert self.asked(19, session=[1]) == [1]
        assert self.asked(20, session=[1]) == [1, 0]

    def test_it_cannot_stand_in_a_domain_which_sees_a_part_of_the_prompt(self):
        inner = {"by_domain": {"tool": [{"budget": {"frame": True}}], "*": []}}
        with pytest.raises(PipelineError, match=r"by_domain.tool: a step that counts the whole prompt sees only"):
            Pipeline.of({"retrieve": "bm25", "refine": [inner]})

    def test_session_is_counted_already(self):
        with pytest.raises(ParameterError, match="leave session out"):
            Budget(frame=True, session=True)

    def test_what_the_format_renders_decides_what_is_kept_of_the_step(self):
        catalog = Catalog([Item(type="memory", name=str(n), text="x" * 16) for n in range(3)])
        batch, resources = Batch.of(catalog, [Request(id="q", text="hello you")]), testing.mock_resources()
        memo, offered_with = {}, {}
        for system in ("", "x" * 32):
            steps = [{"budget": {"tokens": 12, "frame": True}}]
            spec = {"retrieve": "everything", "refine": steps, "format": {"messages": {"system": system}}}
            table = Pipeline.of(spec).run(batch, resources, memo=memo).candidates
            offered_with[system] = int(table.chosen.sum())
        assert list(offered_with.values()) == [2, 0]


def test_what_does_not_fit_names_the_budget():
    batch = Batch.of(testing.mock_catalog(), testing.mock_requests()[:1])
    spec = {"retrieve": "dense", "refine": [{"first": {"n": 9}}, {"budget": {"tokens": 50}}]}
    table = Pipeline.of(spec).run(batch, testing.mock_resources()).candidates
    assert set(map(str, table.rules[1:])) == {"beyond the first n=9", "beyond the budget of tokens=50"}


def test_a_negative_budget_is_an_error():
    with pytest.raises(ParameterError, match="tokens must be 0 or more, got -1"):
        Budget(tokens=-1)


@PROPERTY
@given(
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from([SESSION, SEARCH, EXPANSION])), max_size=9),
    st.integers(0, 120),
    st.booleans(),
    st.booleans(),
)
def test_it_equals_a_loop_and_never_exceeds_the_budget(rows, tokens, skip, session):
    rows.sort(key=lambda row: row[1])  # items stand in the one order
    costs, origins = [cost for cost, _ in rows], [origin for _, origin in rows]
    held = sum(cost for cost, origin in rows if origin == SESSION)
    left, expected = tokens - (held if session else 0), []
    for item, (cost, origin) in enumerate(rows):
        if origin == SESSION:
            expected.append(item)
        elif cost <= left:
            left -= cost
            expected.append(item)
        elif not skip:
            left = -1
    step = Budget(tokens=tokens, skip=skip, session=session)
    (kept,) = offered(step, costs, origins)
    assert kept == expected
    added = sum(costs[item] for item in kept if origins[item] != SESSION)
    assert added + (held if session else 0) <= tokens or added == 0


@PROPERTY
@given(st.lists(st.integers(0, 40), max_size=9), st.integers(0, 120), st.integers(0, 40))
def test_a_larger_budget_never_offers_less_unless_it_skips(costs, tokens, more):
    (few,) = offered(Budget(tokens=tokens), costs, [SEARCH] * len(costs))
    (many,) = offered(Budget(tokens=tokens + more), costs, [SEARCH] * len(costs))
    assert few == many[: len(few)] == list(range(len(few)))
