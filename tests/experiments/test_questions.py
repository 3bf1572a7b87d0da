"""The pages on open questions of the documents, from made-up figures and on what ships."""

from __future__ import annotations

import catalog_overlap
import item_kinds
import search_size
import tool_results

import ctxbench
from ctxbench.search.embedders import HashingEmbedder

WHERE = {"processor": "one", "usable_cores": 2, "load": 0.1}


def test_the_largest_size_that_answers_at_once_is_told():
    text = search_size.page({100: [1.0, 2.0, 3.0], 1000: [90.0], 10_000: [900.0]}, WHERE)
    assert text.splitlines()[2].startswith("**Comparing every vector serves up to 1,000 items: a request takes 90.0 ms")
    assert "| 100 | 2.0 | 3.0 | 10 |" in text
    assert "the most that were tried" in search_size.page({100: [1.0]}, WHERE)
    assert "more than 100 ms even for 100 items" in search_size.page({100: [200.0]}, WHERE)


def test_shares_of_what_is_taken_for_another_are_set_beside_those_of_the_others():
    rows = [
        catalog_overlap.Row("a", 9, 2, (6, 10), (1, 10)),
        catalog_overlap.Row("b", 9, 1, (2, 10), (3, 10)),
        catalog_overlap.Row("c", 9, 0, (9, 10), (0, 0)),
    ]
    text = catalog_overlap.page(rows)
    assert "on 1 of 2 datasets" in text
    assert "20% against 40% over all of them" in text  # the dataset without such items is left out
    assert "| a | 9 | 2 | 60% (31–83; 6 of 10) | 10% (2–40; 1 of 10) |" in text
    assert "| c | 9 | 0 | 90% (60–98; 9 of 10) | - |" in text


def test_items_that_are_taken_for_another_are_counted_apart():
    rows = [{"name": "fetch_a", "description": "Read the ledger of a client. Slow, and only for old accounts."}]
    rows += [{"name": "ledger", "description": "Read the ledger of a client."}]
    rows += [{"name": "mail", "description": "Send a letter by post."}]
    labels = [("q1", "tool:fetch_a"), ("q2", "tool:mail")]
    data = ctxbench.dataset(
        rows,
        [{"query": "q1", "text": "Read the ledger of a client, please."}, {"query": "q2", "text": "Send a letter."}],
        [{"query": query, "item": item, "grade": 2} for query, item in labels],
    )
    row = catalog_overlap.counted(data.dataset, HashingEmbedder().embed)
    assert row[2:] == (1, (1, 1), (0, 1))


def test_the_price_of_a_kind_is_what_its_offers_cost_for_each_needed_one():
    rows = [
        item_kinds.Row("d", name, kind, 10, offered, tokens, 8, found)
        for name in item_kinds.SELECTORS
        for kind, offered, tokens, found in (("tool", 20, 100, 4), ("rule", 10, 900, 2))
    ]
    text = item_kinds.page(rows)
    assert "with the shipped ranking 25 for a tool, 450 for a rule; with the specification's defaults 25" in text
    assert "There, rules take 90% of the tokens and are 33% of what is found." in text
    assert "| d | semantic/spec | tool | 2.00 | 10 | 4 of 8 (50%) | 20.0% | 25 |" in text


def test_rules_come_from_the_tuning_split_alone():
    dataset = ctxbench.load(tool_results.ROOT / "datasets" / "followups").dataset
    rules = tool_results.rules_of(dataset)
    seen = {name for query in dataset.queries if query.split == "tuning" for name, _ in query.request.tool_results}
    assert set(rules) <= seen
    assert "respond_to_hold" in rules["get_entry_status"]
