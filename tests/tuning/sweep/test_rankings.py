"""MeasuredRankings: values by length are those of the metrics' kernels."""

from __future__ import annotations

import numpy as np
import pytest

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.evaluation.answers import Labels
from ctxbench.evaluation.metrics import Metric
from ctxbench.io.errors import ParameterError
from ctxbench.model.candidates import Candidates, Origin
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Request, SessionItem
from ctxbench.tuning import measures as metric_values
from ctxbench.tuning.measures import Measure
from ctxbench.tuning.rankings import ExactValues, MeasuredRankings

ITEMS = [Item(type="tool", name=f"tool_{name}", server=server) for name, server in zip("abcdef", "xxyyzz", strict=True)]
CATALOG = Catalog(ITEMS)
TOKENS = np.array([1, 2, 4, 8, 16, 32])
NAN = np.nan


def labels_of(*queries) -> Labels:
    """A query for each pair: what the session holds, and grades by letter of the item."""
    item = dict(zip("abcdef", ITEMS, strict=True))
    dataset = Dataset(
        name="small",
        version="1",
        catalog=CATALOG,
        queries=tuple(
            DatasetQuery(
                request=Request(id=f"q{i}", text="?", session=tuple(SessionItem(item[one].key) for one in held)),
                split="tuning",
                needs_nothing=2 not in grades.values(),
            )
            for i, (held, grades) in enumerate(queries)
        ),
        labels=tuple(
            Label(f"q{i}", item[one].key, g) for i, (_, grades) in enumerate(queries) for one, g in grades.items()
        ),
    )
    return Labels.of(dataset, TOKENS)


def table_of(*rankings: str, held: tuple[str, ...] = ()) -> Candidates:
    """Rankings by letters of the items, best first; scores fall from 0.9 by 0.1."""
    rows = [
        (q, "abcdef".index(one), 0.9 - 0.1 * i, i, 1) for q, items in enumerate(rankings) for i, one in enumerate(items)
    ]
    rows += [(q, "abcdef".index(one), NAN, -1, 0) for q, items in enumerate(held) for one in items]
    request, item, score, rank, origin = (
        (np.array(one) for one in zip(*rows, strict=True)) if rows else [np.zeros(0, np.int64)] * 5
    )
    return Candidates.build(len(rankings), request, item, score=score, chunk_rank=rank, origin=origin)


def curve(rankings: MeasuredRankings, name: str, *, reachable: bool = False) -> list[list[float]]:
    """The values by query, one list for each length from 0 to the longest."""
    measure = Measure(Metric(name), reachable=reachable)
    lengths = range(int(rankings.sizes.max(initial=0)) + 1)
    return [rankings.values(measure, np.full(rankings.n_queries, length)).tolist() for length in lengths]


def measured_rankings(table: Candidates, labels: Labels, *names: str, **more) -> MeasuredRankings:
    return MeasuredRankings.of(table, labels, [Measure(Metric(name)) for name in names], **more)


def test_values_by_length_worked_by_hand():
    # q0 needs a and c; b is helpful, d unlabelled (a sibling of c by its server). q1 needs nothing.
    labels = labels_of(("", {"a": 2, "c": 2, "b": 1}), ("", {"e": 1}))
    rankings = measured_rankings(
        table_of("badc", "ef"),
        labels,
        *(
            "completeness",
            "recall",
            "tokens",
            "items",
            "precision",
            "same_server_confusions",
            "false_items",
            "abstention",
        ),
        "false_inclusion",
    )
    nan = pytest.approx(NAN, nan_ok=True)
    assert curve(rankings, "completeness") == [[0, nan], [0, nan], [0, nan], [0, nan], [1, nan]]
    assert curve(rankings, "recall") == [[0, nan], [0, nan], [0.5, nan], [0.5, nan], [1, nan]]
    assert curve(rankings, "tokens") == [[0, 0], [2, 16], [3, 48], [11, 48], [15, 48]]
    assert curve(rankings, "items") == [[0, 0], [1, 1], [2, 2], [3, 2], [4, 2]]
    assert curve(rankings, "precision") == [[0, nan], [1, nan], [1, nan], [2 / 3, nan], [3 / 4, nan]]
    assert [row[0] for row in curve(rankings, "same_server_confusions")] == [0, 0, 0, 1, 1]
    assert [row[1] for row in curve(rankings, "false_items")] == [0, 0, 1, 1, 1]
    assert [row[1] for row in curve(rankings, "false_inclusion")] == [0, 0, 1, 1, 1]
    assert [row[1] for row in curve(rankings, "abstention")] == [1, 0, 0, 0, 0]


def test_what_the_session_holds_is_in_every_length():
    labels = labels_of(("a", {"a": 2, "c": 2}), ("c", {"c": 2}))
    rankings = measured_rankings(
        table_of("bc", "d", held=("a", "c")), labels, "completeness", "recall", "tokens", "total_tokens", "precision"
    )
    assert curve(rankings, "completeness") == [[0, 1], [0, 1], [1, 1]]
    assert curve(rankings, "recall") == [[0.5, 1], [0.5, 1], [1, 1]]
    assert curve(rankings, "tokens") == [[0, 0], [2, 8], [6, 8]]
    assert curve(rankings, "total_tokens") == [[1, 4], [3, 12], [7, 12]]
    # nothing is to be added to q1, so that precision does not apply as long as nothing is
    assert curve(rankings, "precision")[0] == [0, pytest.approx(NAN, nan_ok=True)]
    assert curve(rankings, "precision")[2] == [0.5, 0]
    assert rankings.applies[Measure(Metric("precision"))] == 2
    assert rankings.exact[Measure(Metric("precision")), 0].gains.tolist() == [0, 0, 1]


def test_reachable_is_what_the_first_twenty_make_complete():
    labels = labels_of(("", {"c": 2}), ("", {"d": 2}), ("d", {"d": 2}), ("", {"a": 1}))
    measures = [Measure(Metric("completeness"), reachable=True), Measure(Metric("completeness"))]
    rankings = MeasuredRankings.of(table_of("abc", "abc", "", "a", held=("", "", "d")), labels, measures)
    assert rankings.reachable.tolist() == [True, False, True, False]
    nan = pytest.approx(NAN, nan_ok=True)
    assert curve(rankings, "completeness", reachable=True)[2:] == [[0, nan, 1, nan], [1, nan, 1, nan]]
    assert [rankings.applies[measure] for measure in measures] == [2, 3]
    # a cut of the rankings does not change what the whole ranking reaches
    assert rankings.select_items(np.zeros(7, dtype=bool)).reachable.tolist() == [True, False, True, False]


def test_the_twenty_first_item_is_out_of_reach():
    catalog = Catalog([Item(type="tool", name=f"t{i}") for i in range(21)])
    queries = tuple(DatasetQuery(request=Request(id=f"q{i}", text="?"), split="tuning") for i in range(2))
    wanted = (Label("q0", catalog[19].key, 2), Label("q1", catalog[20].key, 2))
    dataset = Dataset(name="many", version="1", catalog=catalog, queries=queries, labels=wanted)
    table = Candidates.build(
        2, np.repeat([0, 1], 21), np.tile(np.arange(21), 2), score=np.tile(np.linspace(1, 0.1, 21), 2)
    )
    measure = Measure(Metric("completeness"), reachable=True)
    rankings = MeasuredRankings.of(table, Labels.of(dataset, np.ones(21, dtype=np.int64)), [measure])
    assert rankings.reachable.tolist() == [True, False]
    assert rankings.values(measure, np.array([21, 21])).tolist() == [1.0, pytest.approx(NAN, nan_ok=True)]


def test_of_failed_queries_amounts_do_not_apply_and_shares_are_what_the_session_gives():
    labels = labels_of(("", {"a": 2}), ("", {"a": 2}), ("", {}))
    rankings = measured_rankings(
        table_of("a", "", ""), labels, *("completeness", "tokens", "abstention"), failed=np.array([False, True, True])
    )
    nan = pytest.approx(NAN, nan_ok=True)
    assert curve(rankings, "completeness") == [[0, 0, nan], [1, 0, nan]]
    assert curve(rankings, "tokens") == [[0, nan, nan], [1, nan, nan]]
    assert curve(rankings, "abstention") == [[nan, nan, nan], [nan, nan, nan]]


def test_a_metric_without_a_fast_form_is_computed_at_every_length(monkeypatch):
    labels = labels_of(("f", {"a": 2, "c": 2, "b": 1, "e": 0}), ("", {}))
    names = ("completeness", "recall", "tokens", "precision", "same_server_confusions", "false_inclusion", "unlabelled")
    fast = measured_rankings(table_of("baedc", "ef", held=("f",)), labels, *names)
    for kinds in ("ADDITIVE", "AVERAGES", "STEPWISE"):
        monkeypatch.setattr(metric_values, kinds, set())
        monkeypatch.setattr("ctxbench.tuning.rankings." + kinds, set(), raising=False)
    slow = measured_rankings(table_of("baedc", "ef", held=("f",)), labels, *names)
    for name in names:
        np.testing.assert_array_equal(curve(slow, name), curve(fast, name))


def test_what_is_marked_out_is_no_part_of_a_ranking():
    table = table_of("abc")
    rankings = measured_rankings(
        table.exclude(table.item == 1, "not this one"), labels_of(("", {"c": 2})), "completeness"
    )
    assert (rankings.items.item.tolist(), rankings.chunk_rank.tolist()) == ([0, 2], [0, 2])
    assert curve(rankings, "completeness") == [[0], [0], [1]]


def test_parts_of_the_queries_keep_their_values():
    labels = labels_of(("", {"a": 2}), ("", {"b": 2}), ("", {}))
    whole = measured_rankings(table_of("ab", "ab", "c"), labels, "completeness", "tokens")
    part = whole.select_queries(np.array([False, True, True]))
    assert part.items.query.tolist() == [1, 2]
    assert curve(part, "tokens") == [row[1:] for row in curve(whole, "tokens")]
    assert curve(part, "completeness")[2][0] == 1
    assert curve(whole.select_queries(np.zeros(3, dtype=bool)), "tokens") == [[]]


def test_no_query_and_no_item():
    none = measured_rankings(table_of(), labels_of(), "completeness", "tokens")
    assert (none.n_queries, none.sizes.tolist(), curve(none, "tokens")) == (0, [], [[]])
    empty = measured_rankings(table_of("", ""), labels_of(("", {"a": 2}), ("", {})), "completeness", "tokens")
    assert curve(empty, "tokens") == [[0, 0]]


def test_what_cannot_be_swept_is_refused():
    labels = labels_of(("", {"a": 2}))
    expanded = Candidates.build(
        1, np.zeros(1, np.int64), np.zeros(1, np.int64), score=np.ones(1), origin=np.full(1, Origin.EXPANSION)
    )
    with pytest.raises(ParameterError, match="expanded items are not part of a ranking"):
        measured_rankings(expanded, labels, "tokens")


class TestExactValues:
    """Values as whole numbers."""

    RANKINGS = measured_rankings(table_of("ab", "c"), labels_of(("", {}), ("", {})), "tokens")

    def exact(self, *values: float) -> ExactValues:
        return ExactValues.of(np.array(values, dtype=np.float64), self.RANKINGS.items)

    def test_counts_stay_what_they_are(self):
        exact = self.exact(0, 1, 3, 5, 7)  # lengths 0 to 2 of the one, 0 and 1 of the other
        assert (exact.scale, exact.levels.tolist(), exact.gains.tolist()) == (1, [0, 1, 3, 5, 7], [1, 2, 2])

    def test_shares_are_off_by_less_than_a_float_tells(self):
        exact = self.exact(0, 1 / 3, 1, 1 / 7, 1)
        assert exact.scale == 2.0**61  # the largest values of both add up to 2
        np.testing.assert_allclose(exact.levels / exact.scale, [0, 1 / 3, 1, 1 / 7, 1], rtol=1e-16)

    def test_large_powers_fit(self):
        exact = self.exact(0, 1e10, 1e20, 0, 1e20)
        np.testing.assert_allclose(exact.levels / exact.scale, [0, 1e10, 1e20, 0, 1e20], rtol=1e-8)
        assert exact.levels.max() < 2**62

    def test_where_a_measure_does_not_apply_it_counts_for_nothing(self):
        assert self.exact(NAN, 1, 1, NAN, NAN).levels.tolist() == [0, 1, 1, 0, 0]
