"""What the pages on open questions of the documents count, from made-up figures and on what ships."""

from __future__ import annotations

import catalog_overlap
import item_kinds
import pandas as pd
import search_size
import tool_results

import ctxbench
from ctxbench.search.embedders import HashingEmbedder


def times(**medians):
    rows = [
        {"items": size, "median_ms": median, "p95_ms": 2.0, "specification_ms": 1.0} for size, median in medians.items()
    ]
    frame = pd.DataFrame(rows).assign(processor="a", cores=2, load=0.1)
    return {"": frame.assign(items=frame["items"].str.removeprefix("n").astype(int))}


def test_the_answer_names_the_largest_size_that_is_fast_enough():
    assert search_size.page(times(n100=1.0, n1000=90.0, n10000=900.0)).answer.startswith("Up to 1,000 items: ")
    assert "the most tried" in search_size.page(times(n100=1.0)).answer
    assert search_size.page(times(n100=200.0)).answer.startswith("No size is fast enough")


def test_confused_items_are_counted_apart():
    items = [{"name": "fetch_a", "description": "Read the ledger of a client. Slow, and only for old accounts."}]
    items += [{"name": "ledger", "description": "Read the ledger of a client."}]
    items += [{"name": "mail", "description": "Send a letter by post."}]
    labels = [("q1", "tool:fetch_a"), ("q2", "tool:mail")]
    data = ctxbench.dataset(
        items,
        [{"query": "q1", "text": "Read the ledger of a client, please."}, {"query": "q2", "text": "Send a letter."}],
        [{"query": query, "item": item, "grade": 2} for query, item in labels],
    )
    row = catalog_overlap.counts(data.dataset, HashingEmbedder().embed)
    expected = {"confused": 1, "clear_first": 1, "clear_pairs": 1, "confused_first": 0, "confused_pairs": 1}
    assert {name: row[name] for name in expected} == expected


def test_datasets_without_confused_items_do_not_decide():
    rows = [("a", 6, 10, 1, 10), ("b", 2, 10, 3, 10), ("c", 9, 10, 0, 0)]
    columns = ["dataset", *(f"{name}_{part}" for name in ("clear", "confused") for part in catalog_overlap.PARTS)]
    page = catalog_overlap.page({"": pd.DataFrame(rows, columns=columns).assign(items=9, confused=1)})
    assert page.answer.startswith("Not everywhere, on 1 of 2 datasets: confused items come first for 20%")
    assert page.answer.endswith("the others for 40%.")


def test_the_cost_of_a_type_is_what_its_offers_cost_for_each_needed_item():
    rows = [("tool", 100, 4), ("rule", 900, 2), ("reference", 0, 0)]
    frame = pd.DataFrame(
        {"selector": name, "type": type_, "tokens": tokens, "needed_offered": hits, "needed": 2 * hits}
        for name in item_kinds.SELECTORS
        for type_, tokens, hits in (*rows, ("tool", 20, 1))  # of another dataset
    ).assign(queries=10, offered=20)
    costs = item_kinds.both_datasets(frame)["cost"]
    assert costs.loc["tool"].tolist() == [24, 24]
    assert costs.loc["rule"].tolist() == [450, 450]
    assert "reference" not in costs.index.get_level_values("type")  # not needed


def test_rules_come_from_the_tuning_split_alone():
    dataset = ctxbench.load(tool_results.DATA).dataset
    rules = tool_results.rules_of(dataset)
    seen = {name for query in dataset.queries if query.split == "tuning" for name, _ in query.request.tool_results}
    assert set(rules) <= seen
    assert "respond_to_hold" in rules["get_entry_status"]
