from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench import testing
from ctxbench.io.errors import ParameterError, SelectorError
from ctxbench.model.candidates import Candidates, Origin, place_among
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Query, Request
from ctxbench.model.resources import Resources
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.pipelines.strategies.cut import Mmr, picked

PROPERTY = settings(max_examples=150, deadline=None, database=None, derandomize=True)
# Angles in degrees: the cosine of two items is that of the difference of their angles.
ANGLES = {"a": 0, "b": 0, "c": 60, "d": 90}


class Angles(Resources):
    """Resources whose vectors are directions in the plane, by text; they note what was embedded."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.kept_ = {}

    def vectors(self, texts, *, kind="query"):
        self.asked += texts
        angles = np.radians([ANGLES[text] for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)

    def get_or_create(self, key, make):
        return self.kept_.setdefault(key, make())


def query(*names: str, requests: int = 1) -> Query:
    catalog = Catalog([Item(type="tool", name=name) for name in names])  # a tool is one chunk: its name
    batch = Batch.of(catalog, [Request(id=str(n), text="x") for n in range(requests)])
    return Query.of_chunks(batch, [["x"]] * requests)


def table(scores: list[float], **given) -> Candidates:
    n = len(scores)
    given = {"item_chunk": np.zeros(n, dtype=np.int64), **given}
    return Candidates.build(1, np.zeros(n, dtype=np.int64), np.arange(n), score=np.array(scores), **given)


def names(step: Mmr, asked: Query, candidates: Candidates, resources: Angles | None = None) -> list[str]:
    after = step(asked, candidates, resources or Angles())
    return [asked.batch.catalog[int(item)].name for item in after.item[after.chosen]]


class TestMmr:
    @pytest.mark.parametrize(
        ("relevance", "n", "kept"),
        [
            (1.0, 2, ["a", "b"]),  # the ranking
            # a, then: b 0.5 x 0.9 - 0.5 x 1 = -0.05, c 0.5 x 0.6 - 0.5 x 0.5 = 0.05, d 0.5 x 0.2 - 0 = 0.1
            (0.5, 2, ["a", "d"]),
            # b 0.8 x 0.9 - 0.2 = 0.52, c 0.8 x 0.6 - 0.2 x 0.5 = 0.38, d 0.8 x 0.2 = 0.16
            (0.8, 2, ["a", "b"]),
            # b 0.6 x 0.9 - 0.4 = 0.14, c 0.6 x 0.6 - 0.4 x 0.5 = 0.16, d 0.6 x 0.2 = 0.12
            (0.6, 2, ["a", "c"]),
            # then b 0.14 as before, d 0.12 - 0.4 x cos 30 = -0.23
            (0.6, 3, ["a", "b", "c"]),
            (0.0, 2, ["a", "d"]),  # nothing counts for the first: the first of the ranking; then the least alike
            (0.5, 1, ["a"]),
            (0.5, 0, []),
            (0.5, 4, ["a", "b", "c", "d"]),
            (0.5, 9, ["a", "b", "c", "d"]),
        ],
    )
    def test_values_worked_by_hand(self, relevance, n, kept):
        step = Mmr(n=n, relevance=relevance)
        assert names(step, query("a", "b", "c", "d"), table([0.95, 0.9, 0.6, 0.2])) == kept

    def test_of_equal_values_the_first_in_the_catalog(self):
        assert names(Mmr(n=1), query("c", "d", "a"), table([0.5, 0.5, 0.5])) == ["c"]
        assert names(Mmr(n=2, relevance=0.5), query("a", "d", "d2"), table([0.5, 0.5, 0.5]), Twins()) == ["a", "d"]

    def test_what_is_not_picked_names_the_rule(self):
        after = Mmr(n=1)(query("a", "b"), table([0.9, 0.8]), Angles())
        assert [str(after.rules[out] or "") for out in after.out] == [
            "",
            "not among the n=1 picked for relevance and diversity (relevance=0.7)",
        ]

    def test_only_what_was_found_and_is_not_out_is_picked_from(self):
        candidates = table([math.nan, 0.9, 0.8, 0.7], origin=np.array([0, 1, 1, 2]))
        candidates = candidates.exclude(candidates.item == 1, "not this one")
        assert names(Mmr(n=0), query("a", "b", "c", "d"), candidates) == ["a", "d"]
        assert names(Mmr(n=1), query("a", "b", "c", "d"), candidates) == ["a", "c", "d"]

    def test_where_nothing_is_to_be_left_out_nothing_is_embedded(self):
        resources = Angles()
        assert names(Mmr(n=4), query("a", "b", "c", "d"), table([0.9, 0.8, 0.7, 0.6]), resources)
        assert names(Mmr(n=0), query("a", "b"), table([0.9, 0.8]), resources) == []
        assert resources.asked == []

    def test_no_request_and_no_row(self):
        empty = Query.of_chunks(Batch.of(Catalog([]), []), [])
        assert len(Mmr()(empty, Candidates.empty(0), Angles())) == 0
        assert len(Mmr()(query("a", requests=2), Candidates.empty(2), Angles())) == 0


class Twins(Angles):
    """As `Angles`, with another text in the direction of `d`."""

    def vectors(self, texts, *, kind="query"):
        return super().vectors([text[0] for text in texts], kind=kind)


class TestWhatStandsForAnItem:
    # The reference has two chunks: its name `a` and its text `d`; their mean is at 45 degrees.
    REFERENCE = Item(type="reference", name="a", text="d")
    OTHERS = tuple(Item(type="tool", name=name) for name in ("c", "d"))

    def kept(self, chunk: int, step: Mmr) -> list[str]:
        catalog = Catalog([self.REFERENCE, *self.OTHERS])
        asked = Query.of_chunks(Batch.of(catalog, [Request(id="q", text="x")]), [["x"]])
        return names(step, asked, table([0.9, 0.5, 0.5], item_chunk=np.array([chunk, 0, 0])))

    def test_the_chunk_that_gave_it_its_score(self):
        assert self.kept(0, Mmr(n=2, relevance=0.5)) == ["a", "d"]  # a at 0: c is at 60, d at 90
        assert self.kept(1, Mmr(n=2, relevance=0.5)) == ["a", "c"]  # a at 90: c is 30 off, d the same

    def test_where_no_chunk_did_the_mean_of_all(self):
        assert self.kept(-1, Mmr(n=2, relevance=0.5)) == ["a", "d"]  # at 45: c is 15 off, d 45

    def test_chunks_are_those_of_the_rule_that_is_named(self, monkeypatch):
        monkeypatch.setitem(ANGLES, "a\n\nd", 0)
        whole = Angles()
        catalog = Catalog([self.REFERENCE, *self.OTHERS])
        asked = Query.of_chunks(Batch.of(catalog, [Request(id="q", text="x")]), [["x"]])
        assert names(Mmr(n=2, relevance=0.5, chunks="whole"), asked, table([0.9, 0.5, 0.5]), whole) == ["a", "d"]
        assert whole.asked == ["a\n\nd", "c", "d"]

    def test_a_chunk_that_the_rule_does_not_know_is_an_error(self):
        with pytest.raises(SelectorError, match="item reference:a has no chunk 2 by 'paragraphs'; give chunks, "):
            self.kept(2, Mmr(n=2))

    def test_chunks_that_cancel_each_other_are_like_nothing(self, monkeypatch):
        monkeypatch.setitem(ANGLES, "e", 180)
        catalog = Catalog([Item(type="reference", name="a", text="e"), *self.OTHERS])
        asked = Query.of_chunks(Batch.of(catalog, [Request(id="q", text="x")]), [["x"]])
        candidates = table([0.9, 0.5, 0.4], item_chunk=np.array([-1, 0, 0]))
        assert names(Mmr(n=2, relevance=0.1), asked, candidates) == ["a", "c"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n": -1}, "n must be 0 or more, got -1"),
        ({"relevance": 1.1}, "relevance must be 0 to 1, got 1.1"),
        ({"relevance": math.nan}, "relevance must be 0 to 1, got nan"),
        ({"chunks": "paragraph"}, "chunks: unknown chunk strategy 'paragraph'; did you mean 'paragraphs'"),
    ],
)
def test_options_out_of_range_are_errors(given, message):
    with pytest.raises(ParameterError, match=message):
        Mmr(**given)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_with_relevance_1_it_is_the_first_n(n):
    batch = Batch.of(testing.mock_catalog(), testing.mock_requests())
    tables = [
        Pipeline.of({"retrieve": "dense", "refine": [refine]}).run(batch, testing.mock_resources()).candidates
        for refine in ({"mmr": {"n": n, "relevance": 1.0}}, {"first": {"n": n}})
    ]
    assert np.array_equal(tables[0].chosen, tables[1].chosen)


def test_it_offers_n_or_all_and_the_best_among_them():
    batch = Batch.of(testing.mock_catalog(), testing.mock_requests())
    table = Pipeline.of({"retrieve": "dense", "refine": [{"mmr": {"n": 3, "relevance": 0.2}}]}).run(
        batch, testing.mock_resources()
    ).candidates  # fmt: skip
    found = table.origin == Origin.SEARCH
    had = np.bincount(table.request[found], minlength=len(batch))
    has = np.bincount(table.request[found & table.chosen], minlength=len(batch))
    assert has.tolist() == np.minimum(had, 3).tolist()
    assert table.chosen[found & (place_among(table, found) == 0)].all()


@PROPERTY
@given(
    st.lists(st.tuples(st.sampled_from([0.2, 0.4, 0.8]), st.integers(0, 7)), min_size=1, max_size=8),
    st.sampled_from([0.0, 0.3, 0.5, 0.9, 1.0]),
)
def test_it_equals_the_paper_in_a_few_lines(rows, relevance):
    rows.sort(key=lambda row: -row[0])
    score = np.array([s for s, _ in rows])
    angle = np.radians([45.0 * n for _, n in rows])
    vectors = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    order: list[int] = []
    for _ in rows:
        value = {
            i: relevance * score[i]
            - (1 - relevance) * max((float((vectors[i] * vectors[j]).sum()) for j in order), default=0.0)
            for i in range(len(rows))
            if i not in order
        }
        order.append(max(value, key=lambda i: (value[i], -i)))
    for n in range(len(rows) + 1):  # n picked are the first n of all: what is picked does not depend on n
        assert picked(score, vectors, n=n, relevance=relevance).tolist() == order[:n]
