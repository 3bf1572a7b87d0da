"""Agreement of two labellings: closed forms, and pairs that give nothing away."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ctxbench.datasets.files import read_dataset
from ctxbench.datasets.queries import Label
from ctxbench.io.errors import InputError, ParameterError
from ctxbench.labelling.pools import make_pool, open_selectors
from ctxbench.labelling.review import agreement, kappa, pooled_pairs, read_labelling, sample_queries
from ctxbench.model.items import ItemKey
from ctxbench.testing import mock_resources

TINY = Path(__file__).parents[2] / "fixtures" / "tiny"


def labels(*grades: int, queries: int = 1) -> list[Label]:
    """Item i of query i % queries has the i-th grade."""
    return [Label(f"q{i % queries}", ItemKey("tool", None, f"t{i}"), grade) for i, grade in enumerate(grades)]


class TestKappa:
    def test_two_raters_of_fifty_cases(self):
        # both yes 20, both no 15: observed 35/50; by chance .5 * .6 + .5 * .4 = .5; kappa (.7 - .5) / .5
        assert kappa(np.array([[20, 5], [10, 15]]), np.eye(2)) == pytest.approx((0.7, 0.5, 0.4))

    def test_the_example_of_cohen_1960(self):
        # proportions of 200 cases: .25 .13 .12 / .12 .02 .16 / .03 .15 .02: observed .29, by chance .35
        table = np.array([[50, 26, 24], [24, 4, 32], [6, 30, 4]])
        assert kappa(table, np.eye(3)) == pytest.approx((0.29, 0.35, (0.29 - 0.35) / 0.65))

    def test_linear_weights_by_hand(self):
        # margins 7 1 2 and 6 2 2; grades one apart agree by half
        table = np.array([[6, 1, 0], [0, 0, 1], [0, 1, 1]])
        weights = np.array([[1, 0.5, 0], [0.5, 1, 0.5], [0, 0.5, 1]])
        observed = (6 + 0 + 1 + 0.5 * (1 + 1 + 1)) / 10
        chance = (7 * 6 + 1 * 2 + 2 * 2 + 0.5 * (7 * 2 + 1 * 6 + 1 * 2 + 2 * 2)) / 100
        assert kappa(table, weights) == pytest.approx((observed, chance, (observed - chance) / (1 - chance)))

    def test_nothing_and_one_answer_alone_have_no_kappa(self):
        assert np.isnan(kappa(np.zeros((2, 2)), np.eye(2))).all()
        assert np.isnan(kappa(np.array([[9, 0], [0, 0]]), np.eye(2))[2])


def test_two_labellings_are_compared_on_what_both_judged():
    first = [*labels(2, 0, 1, 0, queries=2), Label("alone", ItemKey("tool", None, "x"), 2)]
    second = labels(2, 0, 2, 0, 1, queries=2)
    found = agreement(first, second)
    assert (found.queries, found.pairs, found.only_first, found.only_second) == (2, 4, 1, 1)
    assert found.table.tolist() == [[2, 0, 0], [0, 0, 1], [0, 0, 1]]
    assert found.disagreements == (("q0", ItemKey("tool", None, "t2"), 1, 2),)
    required, relevant, _ = found.kappas
    # required: 3 of 4 agree; by chance 1/4 * 2/4 + 3/4 * 2/4 = 1/2
    assert (required.question, required.observed, required.expected, required.value) == ("required", 0.75, 0.5, 0.5)
    assert (relevant.question, relevant.value) == ("required or helpful", 1.0)
    assert required.low <= required.value <= required.high


def test_the_interval_narrows_with_queries():
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 3, size=900)
    other = np.where(rng.random(900) < 0.85, truth, rng.integers(0, 3, size=900))
    few = agreement(labels(*truth[:60], queries=12), labels(*other[:60], queries=12)).kappas[0]
    many = agreement(labels(*truth, queries=180), labels(*other, queries=180)).kappas[0]
    assert few.high - few.low > 2 * (many.high - many.low) > 0
    assert agreement(labels(*truth, queries=180), labels(*other, queries=180)).kappas[0] == many  # seeded


def test_labellings_without_a_common_pair_are_refused():
    with pytest.raises(ParameterError, match="no pair of query and item in common"):
        agreement(labels(2), [Label("other", ItemKey("tool", None, "t0"), 2)])


def test_a_share_of_queries_is_drawn_in_their_order_and_always_the_same():
    ids = [f"q{i}" for i in range(50)]
    drawn = sample_queries(ids, share=0.2)
    assert len(drawn) == 10
    assert list(drawn) == [query for query in ids if query in drawn]
    assert set(sample_queries(ids[::-1], share=0.2)) == set(drawn)
    assert set(sample_queries(ids, share=0.2, seed=1)) != set(drawn)
    assert len(sample_queries(ids[:7], share=0.2)) == 2  # rounded up
    for share in (0.0, 1.5):
        with pytest.raises(ParameterError, match="share must be above 0 and at most 1"):
            sample_queries(ids, share=share)


def test_pairs_are_the_best_of_each_ranking_what_is_labelled_and_some_at_random(monkeypatch, tmp_path):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path))
    dataset = read_dataset(TINY)
    pool = make_pool(dataset, open_selectors(["bm25", "dense"], mock_resources()), exposures={})
    queries = [query.id for query in dataset.queries][:4]
    pairs = pooled_pairs(pool, queries, depth=2, random=1)
    assert list(dict.fromkeys(pair.query for pair in pairs)) == queries
    for query in queries:
        mine = [pair for pair in pairs if pair.query == query]
        items = [pair.item for pair in mine]
        assert len(set(items)) == len(items)
        row = pool.row[query]
        best = {dataset.catalog[i].key for one in pool.offers for i in one.ranking[row][:2]}
        labelled = {label.item for label in dataset.labels_of(query)}
        drawn = {pair.item for pair in mine if pair.sources == ("random",)}
        assert set(items) == best | labelled | drawn
        assert len(drawn) <= 1
        assert not drawn & (best | labelled)
        for pair in mine:
            assert ("labelled" in pair.sources) == (pair.item in labelled)
    assert pooled_pairs(pool, queries, depth=2, random=1) == pairs
    by_source = [pair.sources[0] for pair in pairs]
    assert by_source != sorted(by_source)  # their order gives nothing away


def test_a_file_of_labels_names_every_fault(tmp_path):
    path = tmp_path / "second.tsv"
    path.write_text("query-id\tcorpus-id\tscore\nq1\ttool:a\t2\nq1\ttool:a\t0\nq1\ttool:b\t3\nq1\ttool:c\n", "utf-8")
    with pytest.raises(InputError) as caught:
        read_labelling(path)
    assert [(fault.line, fault.message[:40]) for fault in caught.value.faults] == [
        (3, "'tool:a' is labelled for query 'q1' in l"),
        (4, "score must be 0 irrelevant, 1 helpful or"),
        (5, "expected 3 fields separated by tabs, got"),
    ]
    path.write_text("query-id\tcorpus-id\tscore\nq1\ttool:a\t2\n", "utf-8")
    assert read_labelling(path) == (Label("q1", ItemKey("tool", None, "a"), 2),)
