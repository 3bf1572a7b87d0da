"""What is shown of items: parts of prompt texts, their price, and what they are worth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench import testing
from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.evaluation.answers import Labels, Slice
from ctxbench.evaluation.metrics import evaluate, parse_metric
from ctxbench.io.errors import ParameterError, SelectorError
from ctxbench.model.candidates import (
    MARK,
    Candidates,
    Origin,
    add_expanded,
    between_characters,
    holding,
    quoted,
    text_shown,
)
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Query, Request
from ctxbench.model.selection import concatenated, joined, selections, stacked
from ctxbench.model.strategies import Step, Strategy
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.search.tokens import CharsCounter, open_counter

COUNTERS = [open_counter(name) for name in ("o200k", "chars/4")]
PROPERTY = settings(max_examples=150, deadline=None, database=None, derandomize=True)
RULE = Item(type="rule", name="style", text="Write plain words. Say who does what.")  # sent as "Rule: Write ..."
TOOL = Item(type="tool", name="search", description="Search the web.")
NAMES = ["completeness", "recall", "precision", "tokens", "total_tokens", "same_server_confusions", "false_inclusion"]
RANKING = ["nDCG@10", "R@5", "RR@10", "AP@10", "Comp@5", "P@5", "Success@1"]


class TestTheText:
    def test_a_cut_end_carries_the_mark(self):
        assert text_shown(RULE, None) == "Rule: Write plain words. Say who does what."
        assert text_shown(RULE, (0, 24)) == "Rule: Write plain words. …"
        assert text_shown(RULE, (25, 43)) == "… Say who does what."
        assert text_shown(RULE, (6, 11)) == "… Write …"
        assert text_shown(RULE, (0, 43)) == text_shown(RULE, None)

    @pytest.mark.parametrize("shown", [(0, 44), (5, 5), (7, 3), (-1, 4)])
    def test_a_part_that_there_is_not_is_refused(self, shown):
        with pytest.raises(ParameterError, match=r"rule:style, whose prompt text has 43"):
            text_shown(RULE, shown)

    def test_a_tool_is_sent_whole(self):
        with pytest.raises(ParameterError, match="a tool is sent whole, or not at all"):
            text_shown(TOOL, (0, 10))
        assert text_shown(TOOL, (0, len(TOOL.prompt_text))) == TOOL.prompt_text

    def test_a_part_ends_between_characters(self):
        item = Item(type="memory", name="m", text="cafe\u0301 👍🏽 ok")
        with pytest.raises(ParameterError, match="shows memory:m from 0 to 4, but 4 lies within the character"):
            text_shown(item, (0, 4))
        assert text_shown(item, (0, 5)) == "cafe\u0301 …"

    @pytest.mark.parametrize("text", ["e\u0301", "👍🏽", "👩\u200d👧", "🇫🇷", "\r\n", "❤\ufe0f", "कि"])
    def test_what_a_reader_takes_for_one_character_stays_whole(self, text):
        assert [between_characters(text, place) for place in range(1, len(text))] == [False] * (len(text) - 1)
        assert between_characters(text, 0)
        assert between_characters(text, len(text))

    def test_two_flags_may_be_parted(self):
        assert [between_characters("🇫🇷🇩🇪", place) for place in range(5)] == [True, False, True, False, True]

    def test_a_quote_is_found_whatever_its_blanks(self):
        assert quoted("one\n  two three", "one two")
        assert not quoted("one two", "onetwo")
        assert not quoted("a.b", "axb")


def two(**given):
    """A table of two items for one request."""
    none = np.zeros(2, dtype=np.int64)
    return Candidates.build(1, none, np.arange(2), score=np.array([0.9, 0.8]), **given)


class TestTheTable:
    def test_all_is_shown_unless_something_else_is_said(self):
        table = two()
        assert table.shows_all.all()
        assert table.prices(np.array([7, 9])).tolist() == [7, 9]

    def test_a_part_has_a_price_of_its_own(self):
        table = two().showing(np.array([False, True]), np.array([2]), np.array([5]), np.array([3]))
        assert table.prices(np.array([7, 9])).tolist() == [7, 3]
        assert table.shows_all.tolist() == [True, False]

    @pytest.mark.parametrize(
        ("given", "what"),
        [
            ({"shown_from": np.array([0, 4])}, "shows a part without an end"),
            ({"shown_to": np.array([-1, 4])}, "shows a part without tokens"),
        ],
    )
    def test_half_a_part_is_refused(self, given, what):
        with pytest.raises(SelectorError, match=f"item 1 of request 0 {what}"):
            two(**given)

    def test_parts_travel_with_their_rows(self):
        table = two().showing(np.array([True, False]), np.array([0]), np.array([5]), np.array([3]))
        other = Candidates.build(1, np.zeros(1, dtype=np.int64), np.array([2]), score=np.array([0.95]))
        for made in (concatenated([table, other]), joined({"a": table, "b": other}), stacked([table, other])):
            place = made.item.tolist().index(0)
            assert [int(getattr(made, name)[place]) for name in ("shown_from", "shown_to", "tokens")] == [0, 5, 3]
            assert made.shows_all.sum() == 2

    def test_an_expansion_takes_a_part_over(self):
        table = two().showing(np.array([False, True]), np.array([0]), np.array([5]), np.array([3]))
        table = table.exclude(np.array([False, True]), "later")
        given = {"score": np.array([0.7]), "origin": np.array([2])}
        made = add_expanded(table, np.zeros(1, dtype=np.int64), np.array([1]), **given)
        assert made.prices(np.array([7, 9])).tolist() == [7, 3]

    def test_selections_say_what_is_shown(self):
        catalog = Catalog([RULE, replace(RULE, name="other")])
        query = Query.of_chunks(Batch.of(catalog, [Request(id="q", text="x")]), [["x"]])
        table = two().showing(np.array([True, False]), np.array([0]), np.array([5]), np.array([3]))
        (selection,) = selections(query, table)
        part, whole = (one.as_dict() for one in selection.chosen)
        assert (part["shown"], part["tokens"]) == ([0, 5], 3)
        assert not {"shown", "tokens"} & whole.keys()


@dataclass(frozen=True)
class Shows(Strategy):
    """Shows what it is told of every item."""

    start: int = 0
    end: int = 4

    def __call__(self, query, candidates, resources):
        rows = np.ones(len(candidates), dtype=np.bool_)
        return candidates.showing(rows, np.full(len(rows), self.start), np.full(len(rows), self.end), rows * 1)


class TestPipelines:
    @pytest.mark.parametrize(("start", "end"), [(0, 99), (3, 3), (0, 5)])
    def test_a_part_that_there_is_not_names_step_query_and_item(self, start, end):
        pipeline = Pipeline.of({"retrieve": "everything", "refine": [{"first": {"n": 1}}]})
        pipeline = replace(pipeline, refine=(*pipeline.refine, Step("pack", "shows", Shows(start, end))))
        catalog = Catalog([Item(type="memory", name="m", text="cafe\u0301s")])
        batch = Batch.of(catalog, [Request(id="q7", text="x")])
        if end == 5:  # behind the accent
            pipeline.run(batch, testing.mock_resources())
            pipeline = replace(pipeline, refine=(Step("pack", "shows", Shows(0, 4)),))
        with pytest.raises(SelectorError, match=r"shows: for query 'q7' it shows .*memory:m"):
            pipeline.run(batch, testing.mock_resources())

    def test_what_a_retriever_shows_is_held_to_the_text_too(self):
        @dataclass(frozen=True)
        class Excerpts(Strategy):
            def __call__(self, query, resources):
                none = np.zeros(1, dtype=np.int64)
                return Candidates.build(1, none, none, score=np.ones(1), shown_to=none + 99, tokens=none)

        pipeline = replace(Pipeline.of({"retrieve": "bm25"}), retrieve=Step("retrieve", "excerpts", Excerpts()))
        batch = Batch.of(Catalog([RULE]), [Request(id="q7", text="x")])
        with pytest.raises(SelectorError, match="excerpts: for query 'q7' it shows characters 0 to 99 of rule:style"):
            pipeline.run(batch, testing.mock_resources())


TEXTS = ["alpha beta gamma", "delta epsilon", "zeta", "eta theta iota kappa"]


@st.composite
def worlds(draw):
    """A dataset with quotes, and a table of what was chosen of it, every row shown whole."""
    n = draw(st.integers(2, 4))
    items = [Item(type="memory", name=f"m{i}", text=TEXTS[i]) for i in range(n)]
    queries, labels = [], []
    for q in range(draw(st.integers(1, 3))):
        grades = [draw(st.sampled_from([None, 0, 1, 2])) for _ in items]
        for item, grade in zip(items, grades, strict=True):
            if grade is not None:
                quote = draw(st.sampled_from(["", item.text.split()[0], item.text.split()[-1]])) if grade == 2 else ""
                labels.append(Label(f"q{q}", item.key, grade, quote=quote))
        request = Request(id=f"q{q}", text="x")
        queries.append(DatasetQuery(request=request, split="test", needs_nothing=2 not in grades))
    dataset = Dataset(
        name="d", version="1", catalog=Catalog(items), queries=tuple(queries), labels=tuple(labels), about={}
    )
    rows = [(q, i) for q in range(len(queries)) for i in range(n) if draw(st.booleans())]
    request, item = np.array(rows, dtype=np.int64).reshape(-1, 2).T
    score = np.array([draw(st.integers(1, 3)) / 4 for _ in rows])
    origin = np.array([draw(st.sampled_from([Origin.SESSION, *[Origin.SEARCH] * 3])) for _ in rows], dtype=np.int64)
    table = Candidates.build(
        len(queries), request, item, score=np.where(origin == Origin.SESSION, np.nan, score), origin=origin
    )
    return dataset, table


def values(dataset: Dataset, table: Candidates) -> dict[str, list[float]]:
    """What an answer is worth by every metric."""
    catalog = dataset.catalog
    tokens = CharsCounter().count(catalog.ids, [item.prompt_text for item in catalog])
    ids = tuple(query.id for query in dataset.queries)
    answers = Slice(
        queries=ids,
        chunks=tuple(("x",) for _ in ids),
        candidates=table,
        ranked=True,
        scored=True,
        errors={},
        seconds=np.zeros(len(ids)),
    )
    metrics = [parse_metric(name) for name in (*NAMES, *RANKING)]
    found = evaluate(metrics, Labels.of(dataset, tokens).evidence(answers))
    return {str(metric): np.nan_to_num(value, nan=-1).tolist() for metric, value in found.items()}


class TestWorth:
    @PROPERTY
    @given(worlds())
    def test_a_row_shown_whole_is_worth_what_it_was(self, world):
        dataset, table = world
        texts = [dataset.catalog[item].prompt_text for item in table.item.tolist()]
        ends, tokens = np.array([len(text) for text in texts]), np.array([(len(text) + 3) // 4 for text in texts])
        every = np.ones(len(table), dtype=np.bool_)
        shown = table.showing(every, np.zeros_like(ends), ends, tokens) if len(table) else table
        assert values(dataset, shown) == values(dataset, table)

    @PROPERTY
    @given(worlds())
    def test_a_part_without_the_quote_is_worth_nothing(self, world):
        """As much as an item that is labelled as irrelevant; and what it costs is what the part does."""
        dataset, table = world
        rows = np.ones(len(table), dtype=np.bool_)
        one = rows * 1
        shown = table.showing(rows, one, one * 2, one * 5) if len(table) else table  # the second letter
        found = values(dataset, shown)
        assert found["total_tokens"] == [5 * n for n in np.diff(table.start).tolist()]
        absent = values(dataset, table.select_rows(~rows))
        for name in ("completeness", "recall", *RANKING):
            assert found[name] == absent[name], name
        assert max(found["precision"], default=0) <= 0

    @PROPERTY
    @given(worlds())
    def test_a_part_with_the_quote_is_worth_the_whole(self, world):
        dataset, table = world
        quotes = {(label.query, label.item): label.quote for label in dataset.labels}
        keys = [
            (f"q{r}", dataset.catalog[i].key) for r, i in zip(table.request.tolist(), table.item.tolist(), strict=True)
        ]
        part = np.array([bool(quotes.get(key)) for key in keys], dtype=np.bool_)
        spans = []
        for key in (key for key, wanted in zip(keys, part, strict=True) if wanted):
            text = dataset.catalog[dataset.catalog.position(key[1].id)].prompt_text
            spans.append((text.index(quotes[key]), text.index(quotes[key]) + len(quotes[key])))
        ends = np.array(spans, dtype=np.int64).reshape(-1, 2)
        found = values(dataset, table.showing(part, ends[:, 0], ends[:, 1], ends[:, 1] * 0 + 1))
        whole = values(dataset, table)
        assert {name: value for name, value in found.items() if "tokens" not in name} == {
            name: value for name, value in whole.items() if "tokens" not in name
        }

    def test_what_has_no_label_needs_no_quote(self):
        catalog = Catalog([RULE])
        table = Candidates.build(1, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), score=np.ones(1))
        table = table.showing(np.ones(1, dtype=np.bool_), np.array([0]), np.array([11]), np.array([3]))
        rows = np.array([0, 0, 0])
        assert holding(catalog, table, rows, ["Write", "plain", ""]).tolist() == [True, False, False]


class TestTruncate:
    def resources(self, counter):
        return SimpleNamespace(
            tokens=lambda catalog, items=None: counter.count(catalog.ids, [item.prompt_text for item in catalog]),
            text_tokens=lambda texts: counter.count(texts, texts),
        )

    def cut(self, most, *items, counter=None, session=None):
        from ctxbench.pipelines.strategies.pack import Truncate

        catalog = Catalog(items)
        query = Query.of_chunks(Batch.of(catalog, [Request(id="q", text="x")]), [["x"]])
        n = len(items)
        table = Candidates.build(1, np.zeros(n, dtype=np.int64), np.arange(n), score=1 - np.arange(n) / 100)
        return Truncate(most)(query, table, self.resources(counter or CharsCounter()))

    def test_a_text_ends_with_a_word(self):
        table = self.cut(5, RULE)  # 20 characters: "Rule: Write plain …" has 19, with the next word 26
        assert (int(table.shown_to[0]), int(table.tokens[0])) == (17, 5)
        assert text_shown(RULE, (0, 17)) == "Rule: Write plain …"

    def test_short_texts_and_tools_stay_as_they_are(self):
        table = self.cut(11, RULE, TOOL)
        assert table.shows_all.all()
        assert table.chosen.all()

    def test_a_long_word_is_cut_within_but_not_within_a_character(self):
        item = Item(type="memory", name="m", text="e\u0301" * 30)
        table = self.cut(4, item)
        assert int(table.shown_to[0]) == 14

    def test_a_word_that_is_joined_to_its_blank_is_not_cut_there(self):
        item = Item(type="memory", name="m", text="ab\u200d cd ef gh ij kl")
        table = self.cut(2, item)  # 8 characters: the joiner before the first blank belongs to it
        assert text_shown(item, (0, int(table.shown_to[0]))) == "ab\u200d cd …"

    def test_what_has_no_room_for_a_character_stays_out(self):
        family = Item(type="memory", name="m", text="👩\u200d👩\u200d👧\u200d👦" * 9)
        table = self.cut(1, family)
        assert not table.chosen[0]
        assert str(table.rules[1]) == "not one character of it fits into tokens=1"

    @PROPERTY
    @given(st.text(min_size=1, max_size=200), st.integers(1, 12), st.sampled_from(COUNTERS))
    def test_a_part_never_costs_more_than_is_allowed_or_the_whole_and_the_mark(self, text, most, counter):
        item = Item(type="memory", name="m", text=text)
        table = self.cut(most, item, counter=counter)
        whole, mark = counter.count(["", ""], [item.prompt_text, f" {MARK}"]).tolist()
        price = int(table.prices(np.array([whole]))[0])
        if table.chosen[0]:
            assert price <= most
            assert price <= whole + mark
            end = int(table.shown_to[0])
            assert price == int(counter.count([""], [text_shown(item, None if end < 0 else (0, end))])[0])
