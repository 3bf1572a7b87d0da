"""What a dataset is said to hold."""

from __future__ import annotations

import json

import pytest

from ctxbench.datasets.queries import Label
from ctxbench.labelling import curation
from ctxbench.labelling.curation import Spread, dataset_stats
from ctxbench.search.embedders import HashingEmbedder
from ctxbench.search.tokens import CharsCounter, open_counter


def test_the_tiny_dataset_is_described(tiny):
    found = dataset_stats(tiny, CharsCounter())
    assert found.labels["grade"] == {"required": 11, "helpful": 2, "irrelevant": 3}
    assert found.labels["via"] == {"direct": 15, "dependency": 1}
    assert found.labels["source"] == {"as the card says": 16}
    assert found.spreads["labels per query"] == Spread(9, 16, 16 / 9, 1, 2.0, 3.0, 3)
    # q01 and q06 require two items; the two alternatives of q04 count once
    assert found.spreads["required per query"].total == 10
    assert found.spreads["chunks per item"].most == 3
    prices = [(len(item.prompt_text) + 3) // 4 for item in tiny.catalog]
    assert found.spreads["tokens per item (chars/4)"].total == sum(prices)
    assert sum(tokens for _, tokens in found.tokens_by["type"].values()) == sum(prices)
    assert sum(items for items, _ in found.tokens_by["server"].values()) == 12
    assert found.largest[0][1] == max(prices)
    assert found.never_required == (
        "rule:answer%20in%20english",
        "tool:tracker:search_issues",
        "tool:weather:get_forecast_daily",
    )
    assert found.unlabelled == ()
    assert {row.tag: row.required for row in found.tags}["two items"] == 2.0
    json.dumps(found.as_dict(), allow_nan=False)


def test_sources_unlabelled_and_partly_labelled_are_counted(make):
    data = make.dataset(
        ["a", "b"],
        [
            make.query("q1", tags=("x",)),
            make.query("q2", tags=("x",)),
            make.query("q3", tags=("x",), partly_labelled=True),
        ],
        [Label("q1", make.key("a"), 2, source="trace"), Label("q3", make.key("b"), 2, source="person")],
    )
    found = dataset_stats(data, CharsCounter())
    assert found.labels["source"] == {"person": 1, "trace": 1}
    assert found.unlabelled == ("q2", "q3")
    (row,) = found.tags
    assert (row.queries, row.unlabelled, row.needs_nothing, row.required) == (3, 2, 0, 1.0)


def test_near_duplicates_say_whether_servers_differ(make):
    items = [make.tool("open", "a ticket now", server=s) for s in ("one", "two")] + [make.tool("rain", "of today")]
    data = make.dataset(items, [make.query("q")], [Label("q", items[0].key, 2)])
    near = dataset_stats(data, CharsCounter()).near
    assert near.pairs == (("tool:one:open", "tool:two:open", 1.0, True),)
    assert (near.groups, near.items, near.across, near.threshold) == (1, 2, 1, 0.7)
    dense = dataset_stats(data, CharsCounter(), embed=HashingEmbedder().embed).near
    assert [pair[:2] for pair in dense.pairs] == [("tool:one:open", "tool:two:open")]
    assert "vectors" in dense.method


def test_a_catalog_too_large_to_compare_says_so(make, monkeypatch):
    monkeypatch.setattr(curation, "MOST_COMPARED", 1)
    near = dataset_stats(make.dataset(["a", "b"], [make.query("q")], []), CharsCounter()).near
    assert near.pairs == ()
    assert near.skipped.startswith("2 items")


def test_a_file_of_counts_prices_items_and_queries_are_counted_by_characters(make, tmp_path):
    (tmp_path / "counts.json").write_text('{"tool:s:a": 7}')
    data = make.dataset(["a"], [make.query("q", "12345")], [("q", "a", 2)])
    found = dataset_stats(data, open_counter(f"file:{tmp_path / 'counts.json'}"))
    assert found.largest == (("tool:s:a", 7),)
    assert found.spreads["tokens per query (chars/4)"].total == 2


def test_no_numbers_have_no_spread():
    assert Spread.of([]) == Spread(0, 0, 0.0, 0, 0.0, 0.0, 0)
    assert Spread.of([4]).mean == pytest.approx(4)
