from __future__ import annotations

import numpy as np
import pytest

from ctxbench import testing
from ctxbench.io.errors import ParameterError
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Query, Request
from ctxbench.pipelines.strategies.retrieve import Bm25, Bm25f, Fuzzy
from ctxbench.search.word_index import WordIndex
from ctxbench.search.words import FIELDS


@pytest.fixture
def resources():
    return testing.mock_resources()


def found(step, items: Catalog, *chunks: list[str], resources, **request) -> list[list[tuple[int, float]]]:
    """(item, score) of requests with these chunks, whose text is the chunks together."""
    requests = [Request(id=str(n), text=" ".join(row), **request) for n, row in enumerate(chunks)]
    batch = Batch.of(items, requests)
    table = step(Query.of_chunks(batch, chunks), resources)
    rows = [table.rows(row) for row in range(len(requests))]
    return [list(zip(table.item[row].tolist(), table.score[row].tolist(), strict=True)) for row in rows]


class TestBm25:
    ITEMS = Catalog([Item(type="rule", name=text) for text in ("apple pie", "apple", "banana", "apple pie")][:3])

    def test_items_that_share_a_word_are_ranked(self, resources):
        (got,) = found(Bm25(), self.ITEMS, ["an apple"], resources=resources)
        assert [item for item, _ in got] == [1, 0]  # the shorter text is nearer
        assert got[0][1] > got[1][1] > 0

    def test_a_blank_request_and_one_that_shares_no_word_find_nothing(self, resources):
        assert found(Bm25(), self.ITEMS, [""], ["fig"], [], resources=resources) == [[], [], []]

    def test_ties_keep_catalog_order_and_depth_counts_items(self, resources):
        items = Catalog([Item(type=kind, name="same words") for kind in ("rule", "reference", "file")])
        (got,) = found(Bm25(depth=2), items, ["words"], resources=resources)
        assert [item for item, _ in got] == [0, 1]

    def test_only_what_a_request_may_get(self, resources):
        got = found(Bm25(), self.ITEMS, ["apple"], resources=resources, available=(self.ITEMS[0].key,))
        assert [item for item, _ in got[0]] == [0]

    def test_what_a_request_may_not_see_moves_its_scores_unless_statistics_are_of_the_scope(self, resources):
        mine, others = (Item(type="memory", name=n, text="apple pie", user=n) for n in ("me", "her"))
        more = Catalog([mine, Item(type="memory", name="x", text="banana", user="me"), others])
        for step in (Bm25, Bm25f):
            before, after, alone = (
                found(step(statistics=of), items, ["apple"], resources=resources, user="me")
                for of, items in (("catalog", more[:2]), ("catalog", more), ("scope", more))
                for items in [Catalog(items)]
            )
            assert [item for item, _ in alone[0]] == [0]
            assert before == alone != after

    def test_what_a_request_sees_and_may_not_be_offered_counts_in_its_scope(self, resources):
        items = Catalog([Item(type="rule", name=text) for text in ("apple pie", "apple", "banana")])
        whole, less = (
            found(Bm25(statistics="scope"), items, ["apple"], resources=resources, **given)[0]
            for given in ({}, {"available": (items[0].key,)})
        )
        assert less == [row for row in whole if row[0] == 0]

    def test_what_no_search_may_offer_counts_in_no_scope(self, resources):
        items = [Item(type="rule", name=text) for text in ("apple pie", "apple", "banana")]
        said = Item(type="message", name="m", text="an apple a day", include="manual")
        for step in (Bm25, Bm25f):
            before, after = (
                found(step(statistics="scope"), Catalog(some), ["apple"], resources=resources)
                for some in (items, [*items, said])
            )
            assert before == after

    def test_requests_that_see_the_same_share_what_is_counted(self, resources, monkeypatch):
        counted, statistics = [], WordIndex._statistics
        monkeypatch.setattr(WordIndex, "_statistics", lambda self, mask: counted.append(mask) or statistics(self, mask))
        for step in (Bm25, Bm25f):
            found(step(statistics="scope"), self.ITEMS, ["apple"], ["banana"], ["pie"], resources=resources)
            assert len(counted) >= 3
            assert len(set(map(id, counted))) == 1
            counted.clear()

    def test_no_request_and_no_item(self, resources):
        assert found(Bm25(), self.ITEMS, resources=resources) == []
        assert found(Bm25(), Catalog([]), ["apple"], resources=resources) == [[]]

    def test_other_parameters_are_another_index(self, resources):
        ask = ["pie apple"]
        one, other, again = (
            found(step, self.ITEMS, ask, resources=resources) for step in (Bm25(), Bm25(k1=0.1), Bm25())
        )
        assert one == again != other

    def test_a_variant_that_scores_everything_finds_only_what_shares_a_word(self, resources):
        (got,) = found(Bm25(variant="bm25+"), self.ITEMS, ["an apple"], resources=resources)
        assert [item for item, _ in got] == [1, 0]

    def test_an_unknown_variant_is_an_error(self):
        with pytest.raises(ParameterError, match=r"variant must be one of lucene, robertson, bm25\+, got 'okapi'"):
            Bm25(variant="okapi")

    @pytest.mark.parametrize("given", [{"k1": -0.1}, {"b": 1.1}, {"b": -0.1}])
    def test_parameters_out_of_range_are_errors(self, given):
        with pytest.raises(ParameterError, match="k1 must be 0 or more and b 0 to 1"):
            Bm25(**given)

    def test_a_depth_below_one_is_an_error(self):
        with pytest.raises(ParameterError, match="depth must be 1 or more, got 0"):
            Bm25(depth=0)

    def test_identifiers_stems_and_servers_are_found_and_stop_words_are_not(self, resources):
        items = Catalog([Item(type="tool", server="git_hub", name="createIssues"), Item(type="tool", name="an_a")])
        asked = [["creating an issue"], ["a hub"]]
        strong = found(Bm25(), items, *asked, resources=resources)
        assert [[item for item, _ in row] for row in strong] == [[0], [0]]
        plain = found(Bm25(words="plain", stop=False, stem=False, server=False), items, *asked, resources=resources)
        assert [[item for item, _ in row] for row in plain] == [[1], [1]]

    def test_a_request_of_stop_words_alone_finds_what_is_made_of_them(self, resources):
        items = Catalog([Item(type="memory", name="what is it"), Item(type="memory", name="what is a memory")])
        got = found(Bm25(), items, ["What is it?"], ["to you"], resources=resources)
        assert [[item for item, _ in row] for row in got] == [[0], []]

    def test_a_chunk_counts_by_its_weight(self, resources):
        batch = Batch.of(self.ITEMS, [Request(id="1", text="banana pie")])
        alone = [found(Bm25(), self.ITEMS, [word], resources=resources)[0] for word in ("banana", "pie")]
        query = Query.of_chunks(batch, [["banana", "pie"]], weights=[[1.0, 0.25]])
        table = Bm25()(query, resources)
        assert dict(zip(table.item.tolist(), table.score.tolist(), strict=True)) == pytest.approx(
            {alone[0][0][0]: alone[0][0][1], alone[1][0][0]: alone[1][0][1] / 4}
        )


def tools(*names: str, **item) -> Catalog:
    return Catalog([Item(type="tool", name=name, **item) for name in names])


class TestBm25f:
    def test_names_are_found_by_their_parts_and_by_the_whole(self, resources):
        items = tools("createIssue", "create_label", "send")
        asked = [["create an issue"], ["CREATE_ISSUE"], ["createissue"], ["sending"]]
        first = [row[:1] for row in found(Bm25f(), items, *asked, resources=resources)]
        assert [[item for item, _ in row] for row in first] == [[0], [0], [0], []]

    def test_a_parameter_is_found_by_name_and_description(self, resources):
        schema = {"properties": {"dueDate": {"description": "deadline of the issue"}}}
        items = Catalog([Item(type="tool", name="a", schema=schema), Item(type="tool", name="b")])
        got = found(Bm25f(), items, ["due date"], ["deadline"], resources=resources)
        assert [[item for item, _ in row] for row in got] == [[0], [0]]
        assert found(Bm25f(weights={"parameters": 0.0}), items, ["deadline"], resources=resources) == [[]]

    def test_a_name_weighs_more_than_a_description(self, resources):
        items = Catalog(
            [Item(type="tool", name="a", description="apple"), Item(type="tool", name="apple", description="b")]
        )
        (got,) = found(Bm25f(), items, ["apple"], resources=resources)
        assert [item for item, _ in got] == [1, 0]
        (got,) = found(Bm25f(weights={"name": 0.5}), items, ["apple"], resources=resources)
        assert [item for item, _ in got] == [0, 1]

    def test_fields_that_are_not_named_keep_their_defaults(self):
        step = Bm25f(weights={"text": 1.0}, b={"name": 0.0})
        assert step.weights == {"server": 3.0, "name": 3.0, "description": 1.0, "parameters": 1.0, "text": 1.0}
        assert step.b == {"server": 0.3, "name": 0.0, "description": 0.75, "parameters": 0.75, "text": 0.75}

    def test_blank_requests_no_request_and_no_item(self, resources):
        items = tools("apple")
        assert found(Bm25f(), items, [""], ["fig"], [], resources=resources) == [[], [], []]
        assert found(Bm25f(), items, resources=resources) == []
        assert found(Bm25f(), Catalog([]), ["apple"], resources=resources) == [[]]

    def test_ties_keep_catalog_order_and_depth_and_scope_hold(self, resources):
        items = Catalog([Item(type=kind, name="same words") for kind in ("rule", "reference", "file")])
        (got,) = found(Bm25f(depth=2), items, ["words"], resources=resources)
        assert [item for item, _ in got] == [0, 1]
        (got,) = found(Bm25f(), items, ["words"], resources=resources, available=(items[2].key,))
        assert [item for item, _ in got] == [2]

    def test_other_parameters_are_another_index(self, resources):
        items = Catalog([Item(type="rule", name="apple", text="apple pie pie")])
        steps = (Bm25f(), Bm25f(k1=0.5), Bm25f(weights={"text": 2.0}), Bm25f(b={"name": 1.0}), Bm25f())
        scores = [found(step, items, ["apple pie"], resources=resources)[0][0][1] for step in steps]
        assert scores[0] == scores[-1]
        assert len(set(scores)) == 3  # one item: its lengths are the means, so b changes nothing

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"weights": {"titel": 1.0}}, "weights: no field is called 'titel'"),
            ({"weights": {"name": -1.0}}, "weights: name must be 0 or more, got -1.0"),
            ({"weights": {"name": "3"}}, "weights: name must be 0 or more, got '3'"),
            ({"weights": {"name": True}}, "weights: name must be 0 or more, got True"),
            ({"weights": {"name": float("nan")}}, "weights: name must be 0 or more, got nan"),
            ({"weights": dict.fromkeys(FIELDS, 0)}, "must not all be 0"),
            ({"b": {"text": 1.5}}, "b: text must be 0 to 1, got 1.5"),
            ({"k1": -0.1}, "k1 must be 0 or more, got -0.1"),
            ({"depth": 0}, "depth must be 1 or more, got 0"),
        ],
    )
    def test_parameters_out_of_range_are_errors(self, given, said):
        with pytest.raises(ParameterError, match=said):
            Bm25f(**given)


class TestFuzzy:
    def test_typing_errors_are_allowed_for(self, resources):
        items = tools("create_issue", "close_issue", "send_mail")
        (got,) = found(Fuzzy(), items, ["creat an isue"], resources=resources)
        assert [item for item, _ in got] == [0, 1]

    def test_only_what_is_above_the_threshold_is_found(self, resources):
        items = tools("create issue", "x")
        assert found(Fuzzy(threshold=0.5), items, ["issue"], resources=resources) == [[]]  # half of the name: 0.5
        assert found(Fuzzy(threshold=0.49), items, ["issue"], resources=resources) == [[(0, 0.5)]]

    def test_descriptions_count_where_asked(self, resources):
        items = tools("x", description="open issue")
        assert found(Fuzzy(), items, ["open issue"], resources=resources) == [[]]
        assert found(Fuzzy(fields=("name", "description")), items, ["open issue"], resources=resources) == [[(0, 1.0)]]

    def test_a_chunk_counts_by_its_weight(self, resources):
        items = tools("issue", "mail")
        batch = Batch.of(items, [Request(id="1", text="")])
        query = Query.of_chunks(batch, [["issue mail", "mail"]], weights=[[0.5, 1.0]])
        table = Fuzzy()(query, resources)
        assert (table.item.tolist(), table.score.tolist()) == ([1, 0], [1.0, 0.5])

    def test_blank_requests_no_request_and_no_item(self, resources):
        items = tools("apple")
        assert found(Fuzzy(), items, [""], ["fig"], [], resources=resources) == [[], [], []]
        assert found(Fuzzy(), items, resources=resources) == []
        assert found(Fuzzy(), Catalog([]), ["apple"], resources=resources) == [[]]

    def test_ties_keep_catalog_order_and_depth_and_scope_hold(self, resources):
        items = Catalog([Item(type=kind, name="same words") for kind in ("rule", "reference", "file")])
        (got,) = found(Fuzzy(depth=2), items, ["words same"], resources=resources)
        assert [item for item, _ in got] == [0, 1]
        (got,) = found(Fuzzy(), items, ["words same"], resources=resources, available=(items[2].key,))
        assert [item for item, _ in got] == [2]

    def test_many_requests_score_as_each_alone(self, resources):
        items = tools("create_issue", "send_mail")
        asked = [[text] for n in range(200) for text in (f"creat isue {n}", f"mial {n}")]
        assert found(Fuzzy(), items, *asked, resources=resources)[-2:] == found(
            Fuzzy(), items, *asked[-2:], resources=resources
        )

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"threshold": 1.5}, "threshold must be 0 to 1, got 1.5"),
            ({"near": -0.1}, "near must be 0 to 1, got -0.1"),
            ({"fields": ()}, "fields must be some of name, description"),
            ({"fields": ("text",)}, "fields must be some of name, description, got \\['text'\\]"),
            ({"depth": 0}, "depth must be 1 or more, got 0"),
        ],
    )
    def test_parameters_out_of_range_are_errors(self, given, said):
        with pytest.raises(ParameterError, match=said):
            Fuzzy(**given)


def test_plain_weights_change_no_bit_of_bm25(resources):
    items = tools("apple pie", "apple", "banana")
    batch = Batch.of(items, [Request(id="1", text="")])
    one, other = (Bm25()(Query.of_chunks(batch, chunks), resources) for chunks in ([["apple pie"]], [["apple", "pie"]]))
    assert np.array_equal(one.score, other.score)
