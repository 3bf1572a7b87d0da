from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench.io.errors import ParameterError, SelectorError
from ctxbench.model.candidates import SEARCHED, Candidates, Mode, Origin, Rule, add_expanded, order, reranked
from ctxbench.model.selection import concatenated, joined, stacked

PROPERTY = settings(max_examples=80, deadline=None, database=None, derandomize=True)
NAN = float("nan")


def table(n_requests: int, rows: list[tuple[int, int, float]], **given) -> Candidates:
    """A table of (request, item, score) rows, in any order."""
    request, item, score = ([row[i] for row in rows] for i in range(3))
    return Candidates.build(
        n_requests, np.array(request, dtype=np.int64), np.array(item, dtype=np.int64), score=np.array(score), **given
    )


def rows_of(candidates: Candidates) -> list[tuple[int, int, float]]:
    return list(zip(candidates.request.tolist(), candidates.item.tolist(), candidates.score.tolist(), strict=True))


@st.composite
def tables(draw, n_requests: int = 3, n_items: int = 6):
    """Rows with few distinct scores, so that there are ties."""
    keys = draw(st.sets(st.tuples(st.integers(0, n_requests - 1), st.integers(0, n_items - 1))))
    scores = draw(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 0.7]), min_size=len(keys), max_size=len(keys)))
    rows = [(*key, score) for key, score in zip(sorted(keys), scores, strict=True)]
    return draw(st.permutations(rows))


class TestOrder:
    def test_request_then_origin_then_score_then_catalog(self):
        request = np.array([1, 0, 0, 0, 0, 0])
        origin = np.array([0, 2, 1, 1, 1, 0])
        score = np.array([NAN, 0.9, 0.5, 0.7, 0.5, NAN])
        item = np.array([0, 1, 5, 3, 2, 4])
        # request 0: session (row 5), search 0.7 (row 3), tie at 0.5: item 2 (row 4) before 5 (row 2), expansion (row 1)
        assert order(request, origin, score, item).tolist() == [5, 3, 4, 2, 1, 0]

    def test_no_rows(self):
        none = np.empty(0, dtype=np.int64)
        assert order(none, none, none.astype(float), none).tolist() == []

    @PROPERTY
    @given(tables())
    def test_it_is_the_sort_by_the_tuple(self, rows):
        arrays = [np.array([row[i] for row in rows]) for i in range(3)]
        found = order(arrays[0].astype(int), np.ones(len(rows), dtype=int), arrays[2], arrays[1].astype(int))
        assert [rows[i] for i in found] == sorted(rows, key=lambda row: (row[0], -row[2], row[1]))


class TestBuild:
    def test_missing_columns_get_their_empty_value(self):
        made = table(1, [(0, 3, 0.5)])
        assert (made.origin[0], made.mode[0], made.out[0]) == (Origin.SEARCH, Mode.AGENT, 0)
        assert [getattr(made, name)[0] for name in ("chunk_rank", "query_chunk", "item_chunk", "via_item")] == [-1] * 4

    def test_requests_without_rows_are_there(self):
        made = table(4, [(1, 0, 0.1), (3, 0, 0.2)])
        assert made.start.tolist() == [0, 0, 1, 1, 2]
        assert [made.rows(row) for row in (0, 1)] == [slice(0, 0), slice(0, 1)]

    @PROPERTY
    @given(tables())
    def test_the_order_of_the_rows_given_does_not_matter(self, rows):
        made = table(3, rows)
        assert rows_of(made) == sorted(rows, key=lambda row: (row[0], -row[2], row[1]))
        assert made.start.tolist() == [sum(row[0] < n for row in rows) for n in range(4)]

    def test_further_columns_are_put_in_order_with_their_rows(self):
        made = table(1, [(0, 1, 0.2), (0, 2, 0.9)], chunk_rank=[5, 3], query_chunk=[7, 8])
        assert made.item.tolist() == [2, 1]
        assert made.chunk_rank.tolist() == [3, 5]
        assert made.query_chunk.tolist() == [8, 7]

    def test_an_unknown_column_is_an_error(self):
        with pytest.raises(ParameterError, match="no column scores"):
            table(1, [(0, 0, 0.1)], scores=[1])

    def test_a_score_that_is_no_number_is_an_error(self):
        with pytest.raises(SelectorError, match="item 4 of request 1 has a NaN score"):
            table(2, [(0, 1, 0.5), (1, 4, NAN)])

    def test_session_rows_need_no_score(self):
        assert len(table(1, [(0, 4, NAN)], origin=[Origin.SESSION])) == 1

    def test_shapes_that_do_not_agree_are_an_error(self):
        with pytest.raises(SelectorError, match=r"chunk_rank has shape \(2,\), expected \(1,\)"):
            Candidates(**{**_arrays(table(1, [(0, 0, 0.1)])), "chunk_rank": np.array([1, 2])})
        with pytest.raises(SelectorError, match="start must rise from 0 to 1"):
            Candidates(**{**_arrays(table(1, [(0, 0, 0.1)])), "start": np.array([0, 2])})

    def test_nothing_in_it_can_be_changed(self):
        made = table(1, [(0, 0, 0.1)]).with_columns(tokens=np.array([3.0]))
        for array in (made.item, made.score, made.start, made.columns["tokens"]):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0


def _arrays(candidates: Candidates) -> dict[str, np.ndarray]:
    return {name: getattr(candidates, name) for name in ("start", *candidates.row_arrays())}


class TestMarked:
    def test_the_first_rule_that_meets_a_row_stays(self):
        made = table(1, [(0, 0, 0.9), (0, 1, 0.5), (0, 2, 0.1)])
        made = made.exclude(np.array([False, False, True]), "one").exclude(np.array([False, True, True]), "two")
        assert made.rules == (None, Rule("one"), Rule("two"))
        assert made.out.tolist() == [0, 2, 1]
        assert made.chosen.tolist() == [True, False, False]

    def test_a_rule_that_is_there_is_used_again(self):
        made = table(1, [(0, 0, 0.9), (0, 1, 0.5)]).exclude(np.array([True, False]), "one")
        again = made.exclude(np.array([False, True]), "one")
        assert again.rules == (None, Rule("one"))
        assert again.out.tolist() == [1, 1]

    def test_session_rows_are_never_marked(self):
        made = table(1, [(0, 0, NAN), (0, 1, 0.5)], origin=[Origin.SESSION, Origin.SEARCH])
        assert made.exclude(np.array([True, True]), "all out").out.tolist() == [0, 1]

    def test_the_table_that_was_marked_stays_as_it_was(self):
        made = table(1, [(0, 0, 0.9)])
        made.exclude(np.array([True]), "one")
        assert (made.out.tolist(), made.rules) == ([0], (None,))

    def test_rules_of_one_code_with_other_values_are_two(self):
        made = table(1, [(0, 0, 0.9), (0, 1, 0.5)]).exclude(np.array([True, False]), Rule.of("least", n=1))
        again = made.exclude(np.array([False, True]), Rule.of("least", n=2))
        assert again.rules == (None, Rule.of("least", n=1), Rule.of("least", n=2))

    def test_a_rule_without_a_code_is_an_error(self):
        with pytest.raises(ParameterError, match="needs a code"):
            table(1, [(0, 0, 0.9)]).exclude(np.array([True]), "")


class TestReordered:
    def test_new_scores_give_a_new_order_and_take_the_columns_along(self):
        made = table(2, [(0, 0, 0.9), (0, 1, 0.5), (1, 2, 0.5)]).with_columns(tokens=np.array([10.0, 11.0, 12.0]))
        again = made.reordered(score=np.array([0.1, 0.3, 0.2]))
        assert rows_of(again) == [(0, 1, 0.3), (0, 0, 0.1), (1, 2, 0.2)]
        assert again.columns["tokens"].tolist() == [11.0, 10.0, 12.0]


class TestTaken:
    @PROPERTY
    @given(tables(), st.data())
    def test_it_is_the_rows_over_the_same_requests(self, rows, data):
        made = table(3, rows).with_columns(place=np.arange(len(rows), dtype=float))
        kept = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))), dtype=bool)
        part = made.select_rows(kept)
        assert part.n_requests == 3
        assert rows_of(part) == [row for row, keep in zip(rows_of(made), kept, strict=True) if keep]
        assert part.columns["place"].tolist() == np.flatnonzero(kept).tolist()

    @PROPERTY
    @given(tables(), st.data())
    def test_parts_put_together_are_the_whole(self, rows, data):
        made = table(3, rows).exclude(
            np.array([score < 0.5 for *_, score in rows_of(table(3, rows))], dtype=bool), "low"
        )
        kept = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))), dtype=bool)
        again = concatenated([made.select_rows(~kept), made.select_rows(kept)])
        assert rows_of(again) == rows_of(made)
        assert again.start.tolist() == made.start.tolist()
        assert [str(again.rules[out] or "") for out in again.out] == [str(made.rules[out] or "") for out in made.out]


class TestConcatenated:
    def test_rules_and_columns_of_all_are_kept(self):
        left = table(1, [(0, 0, 0.2)]).exclude(np.array([True]), "left").with_columns(a=np.array([1.0]))
        right = table(1, [(0, 1, 0.9), (0, 2, 0.1)]).exclude(np.array([False, True]), "right")
        made = concatenated([left, right.with_columns(b=np.array([2.0, 3.0]))])
        assert made.item.tolist() == [1, 0, 2]
        assert [str(made.rules[out] or "") for out in made.out] == ["", "left", "right"]
        assert np.array_equal(made.columns["a"], [NAN, 1.0, NAN], equal_nan=True)
        assert np.array_equal(made.columns["b"], [2.0, NAN, 3.0], equal_nan=True)

    def test_other_requests_are_an_error(self):
        with pytest.raises(SelectorError, match="different requests"):
            concatenated([table(1, []), table(2, [])])

    def test_nothing_and_nothing(self):
        assert concatenated([Candidates.empty(2), Candidates.empty(2)]).start.tolist() == [0, 0, 0]


class TestJoined:
    def test_an_item_of_two_sources_stands_once_with_its_best_score(self):
        left = table(1, [(0, 0, 0.2), (0, 1, 0.9)], chunk_rank=[1, 0])
        right = table(1, [(0, 0, 0.5), (0, 2, 0.4)], chunk_rank=[0, 1], query_chunk=[3, 4])
        made = joined({"left": left, "right": right})
        assert rows_of(made) == [(0, 1, 0.9), (0, 0, 0.5), (0, 2, 0.4)]
        assert np.array_equal(made.columns["left"], [0.9, 0.2, NAN], equal_nan=True)
        assert np.array_equal(made.columns["right"], [NAN, 0.5, 0.4], equal_nan=True)
        assert made.chunk_rank.tolist() == [0, 0, 1]
        assert made.query_chunk.tolist() == [-1, 3, 4]

    def test_the_pair_is_that_of_the_best_source_that_tells_one(self):
        words = table(1, [(0, 0, 9.0), (0, 1, 8.0)], item_chunk=[0, 0])
        near = table(1, [(0, 0, 0.5), (0, 2, 0.4)], query_chunk=[3, 4], item_chunk=[1, 2])
        nearer = table(1, [(0, 0, 0.7), (0, 2, 0.1)], query_chunk=[5, 6], item_chunk=[7, 8])
        made = joined({"words": words, "near": near, "nearer": nearer})
        assert rows_of(made) == [(0, 0, 9.0), (0, 1, 8.0), (0, 2, 0.4)]
        assert made.query_chunk.tolist() == [5, -1, 4]
        assert made.item_chunk.tolist() == [7, 0, 2]

    def test_of_equal_scores_the_first_source_wins(self):
        parts = {name: table(1, [(0, 0, 0.5)], query_chunk=[place]) for place, name in enumerate("ab")}
        assert joined(parts).query_chunk.tolist() == [0]
        assert joined(dict(reversed(parts.items()))).query_chunk.tolist() == [1]

    def test_rules_and_columns_of_the_sources_are_kept(self):
        left = table(1, [(0, 0, 0.2)]).exclude(np.array([True]), "left").with_columns(tokens=np.array([7.0]))
        right = table(1, [(0, 1, 0.9)]).exclude(np.array([True]), "right")
        made = joined({"l": left, "r": right})
        assert [str(made.rules[out] or "") for out in made.out] == ["right", "left"]
        assert np.array_equal(made.columns["l.tokens"], [NAN, 7.0], equal_nan=True)

    def test_sources_that_found_nothing(self):
        made = joined({"a": Candidates.empty(2), "b": Candidates.empty(2)})
        assert made.start.tolist() == [0, 0, 0]
        assert list(made.columns) == ["a", "b"]

    @PROPERTY
    @given(tables(), tables())
    def test_it_is_the_outer_join_of_dictionaries(self, one, other):
        made = joined({"one": table(3, one), "other": table(3, other)})
        left, right = ({row[:2]: row[2] for row in rows} for rows in (one, other))
        best = {key: max(left.get(key, -2.0), right.get(key, -2.0)) for key in left | right}
        expected = sorted(((*key, score) for key, score in best.items()), key=lambda row: (row[0], -row[2], row[1]))
        assert rows_of(made) == expected
        for name, source in (("one", left), ("other", right)):
            wanted = [source.get(row[:2], NAN) for row in expected]
            assert np.array_equal(made.columns[name], wanted, equal_nan=True)


class TestStacked:
    def test_requests_stand_one_behind_the_other(self):
        left = table(2, [(1, 0, 0.2)]).exclude(np.array([True]), "left")
        right = table(1, [(0, 5, 0.9), (0, 1, 0.1)]).exclude(np.array([False, True]), "right")
        made = stacked([left, right])
        assert rows_of(made) == [(1, 0, 0.2), (2, 5, 0.9), (2, 1, 0.1)]
        assert [str(made.rules[out] or "") for out in made.out] == ["left", "", "right"]

    def test_nothing_stacked_is_a_table_of_no_requests(self):
        assert (stacked([]).n_requests, len(stacked([]))) == (0, 0)


class TestTheTableItself:
    def rows(self, **given):
        n = len(given["item"])
        none = np.full(n, -1, dtype=np.int64)
        columns = dict.fromkeys(Candidates.row_arrays(), none) | {
            "out": none + 1,
            "origin": none + 2,
            "shown_from": none + 1,
        }
        return Candidates(start=np.array([0, n]), **(columns | given))

    def test_an_item_stands_once(self):
        with pytest.raises(SelectorError, match="item 7 of request 0 is there twice"):
            self.rows(item=np.array([7, 7]), score=np.array([0.5, 0.4]))

    def test_rows_out_of_order_are_refused(self):
        with pytest.raises(SelectorError, match="item 7 of request 0 is out of order"):
            self.rows(item=np.array([8, 7]), score=np.array([0.5, 0.5]))
        assert len(self.rows(item=np.array([8, 7]), score=np.array([0.5, 0.4]))) == 2

    def test_a_row_of_no_request_is_refused(self):
        with pytest.raises(SelectorError, match="a row is of request 5, but there are 2"):
            Candidates.build(2, np.array([5]), np.array([0]), score=np.array([1.0]))

    def test_the_callers_arrays_stay_writable(self):
        score = np.array([0.5])
        table = self.rows(item=np.array([8]), score=score)
        assert score.flags.writeable
        assert not table.score.flags.writeable


class TestBroughtIn:
    """What an expansion adds: request 0 found items 3 (0.9), 1 (0.5) and 2 (0.4), and a rule keeps 1 and 2 out."""

    FOUND = table(2, [(0, 3, 0.9), (0, 1, 0.5), (0, 2, 0.4), (1, 4, 0.3)], chunk_rank=np.array([0, 1, 2, 0]))
    CUT = FOUND.exclude(np.array([False, True, True, False]), "beyond the first")

    def grown(self, rows: list[tuple[int, int, float]], before: Candidates = CUT) -> Candidates:
        request, item, score = (np.array([row[i] for row in rows]) for i in range(3))
        n = len(rows)
        return add_expanded(
            before,
            request.astype(np.int64),
            item.astype(np.int64),
            score=score.astype(np.float64),
            origin=np.full(n, Origin.EXPANSION),
            mode=np.full(n, Mode.EXPANSION),
            via_item=np.full(n, 3),
        )

    def test_a_new_item_comes_behind_the_search(self):
        grown = self.grown([(0, 0, 0.95)])
        assert rows_of(grown) == [(0, 3, 0.9), (0, 1, 0.5), (0, 2, 0.4), (0, 0, 0.95), (1, 4, 0.3)]
        assert grown.chosen.tolist() == [True, False, False, True, True]
        assert grown.via_item.tolist() == [-1, -1, -1, 3, -1]
        assert np.isnan(grown.columns[SEARCHED]).all()

    def test_a_row_kept_out_is_taken_over_and_stands_behind_what_was_found(self):
        grown = self.grown([(0, 2, 0.8), (0, 0, 0.7)])
        assert rows_of(grown) == [(0, 3, 0.9), (0, 1, 0.5), (0, 2, 0.8), (0, 0, 0.7), (1, 4, 0.3)]
        assert grown.chosen.tolist() == [True, False, True, True, True]
        assert grown.chunk_rank.tolist() == [0, 1, 2, -1, 0]
        np.testing.assert_equal(grown.columns[SEARCHED], [NAN, NAN, 0.4, NAN, NAN])
        start, items = grown.ranking()
        assert (start.tolist(), items.tolist()) == ([0, 4, 5], [3, 1, 2, 0, 4])

    def test_the_ranking_of_a_table_without_expansion_is_its_search_rows(self):
        start, items = self.CUT.ranking()
        assert (start.tolist(), items.tolist()) == ([0, 3, 4], [3, 1, 2, 4])

    def test_a_second_pass_keeps_what_the_first_put_aside(self):
        grown = self.grown([(0, 1, 0.6)], self.grown([(0, 2, 0.8)]))
        assert sorted(grown.columns[SEARCHED][~np.isnan(grown.columns[SEARCHED])].tolist()) == [0.4, 0.5]
        assert grown.ranking()[1].tolist() == [3, 2, 1, 4]

    def test_a_rank_step_puts_what_was_brought_in_among_the_rest(self):
        grown = self.grown([(0, 0, 0.95), (0, 2, 0.8)])
        ranked = reranked(grown, grown.score)
        assert rows_of(ranked) == [(0, 0, 0.95), (0, 3, 0.9), (0, 2, 0.8), (0, 1, 0.5), (1, 4, 0.3)]
        assert ranked.ranking()[1].tolist() == [0, 3, 2, 1, 4]
        assert ranked.ranked.all()
        assert ranked.chunk_rank.tolist() == [0, 1, 2, 3, 0]
        assert ranked.origin.tolist() == [2, 1, 2, 1, 1]

    def test_a_session_stands_first_whatever_is_ranked(self):
        grown = self.grown([(0, 0, 0.95)])
        held = concatenated([grown, Candidates.build(2, np.array([1]), np.array([5]), origin=np.array([0]))])
        ranked = reranked(held, np.arange(6.0))
        assert ranked.item.tolist() == [0, 2, 1, 3, 5, 4]
        assert ranked.tier.tolist() == [1, 1, 1, 1, 0, 1]
        assert ranked.ranking()[1].tolist() == [0, 2, 1, 3, 4]

    @pytest.mark.parametrize(("tier", "origin"), [(0, Origin.SEARCH), (1, Origin.SESSION)])
    def test_only_the_session_stands_in_its_tier(self, tier, origin):
        score = np.array([NAN if origin == Origin.SESSION else 0.5])
        with pytest.raises(SelectorError, match="item 3 of request 0 has the wrong tier"):
            Candidates.build(
                1, np.array([0]), np.array([3]), score=score, origin=np.array([origin]), tier=np.array([tier])
            )

    def test_other_columns_stay_with_their_rows(self):
        before = self.CUT.with_columns(bm25=np.array([4.0, 3.0, 2.0, 1.0]))
        np.testing.assert_equal(self.grown([(0, 2, 0.8), (0, 0, 0.1)], before).columns["bm25"], [4.0, 3.0, 2.0, NAN, 1])

    def test_nothing_brought_in_adds_the_column_alone(self):
        none = np.empty(0, dtype=np.int64)
        grown = add_expanded(self.CUT, none, none, score=none.astype(float))
        assert rows_of(grown) == rows_of(self.CUT)
        assert np.isnan(grown.columns[SEARCHED]).all()
        assert add_expanded(grown, none, none, score=none.astype(float)) is grown

    @PROPERTY
    @given(tables(), st.data())
    def test_what_was_not_taken_over_keeps_its_order_and_no_item_is_lost(self, rows, data):
        before = table(3, rows)
        before = before.exclude(np.arange(len(before)) % 2 == 0, "every second")
        free = sorted(
            {(r, i) for r in range(3) for i in range(6)}
            - {(r, i) for (r, i, _), chosen in zip(rows_of(before), before.chosen, strict=True) if chosen}
        )
        new = data.draw(st.lists(st.sampled_from(free), unique=True)) if free else []
        grown = self.grown([(r, i, 0.25) for r, i in new], before) if new else before
        stays = [row[:2] for row in rows_of(before) if row[:2] not in set(new)]
        assert [row[:2] for row in rows_of(grown) if row[:2] not in set(new)] == stays
        assert {row[:2] for row in rows_of(grown)} == {row[:2] for row in rows_of(before)} | set(new)
        assert int(grown.chosen.sum()) == int(before.chosen.sum()) + len(new)


def test_promoted_rows_are_chosen_again():
    cut = table(1, [(0, 0, 0.9), (0, 1, 0.8)]).exclude(np.array([True, True]), "out")
    assert cut.promoted(np.array([False, True])).chosen.tolist() == [False, True]
