from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ctxbench.model.candidates import Candidates, Mode, Origin
from ctxbench.model.items import Catalog, Item
from ctxbench.model.selection import concatenated, joined
from ctxbench.model.strategies import PerType, Step
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.search.chunking import DOCUMENTS, ItemChunking, Marked, WholeRule, WindowRule
from ctxbench.selectors.explain import Chunkings

CATALOG = Catalog(
    [
        Item(type="rule", name="mail", text="Be brief. Be kind.\n\nSign."),
        Item(type="tool", name="send", description="Send it. Now."),
    ]
)
REQUEST = ("first chunk", "second chunk")


def row(item: int, score: float, **given) -> Candidates:
    return Candidates.build(
        1, np.array([0]), np.array([item]), score=np.array([score]), **{k: np.array([v]) for k, v in given.items()}
    )


def of(retrieve) -> Chunkings:
    """As the steps say it, and as it is read back from what they were described as."""
    pipeline = Pipeline.of({"retrieve": retrieve, "refine": ["standard"]})
    found = Chunkings.of(pipeline)
    assert Chunkings.described({"pipeline": pipeline.describe()}) == found
    return found


def test_the_pair_is_told_in_the_chunks_that_were_searched():
    table = row(0, 0.5, query_chunk=1, item_chunk=2)
    assert of("dense").pair(CATALOG, REQUEST, table, 0) == ("second chunk", "Sign.")
    assert of({"dense": {"chunks": "marked"}}).pair(CATALOG, REQUEST, table, 0) == ("second chunk", "Be kind.")
    tool = row(1, 0.5, query_chunk=0, item_chunk=0)
    assert of({"dense": {"chunks": "marked"}}).pair(CATALOG, REQUEST, tool, 0)[1] == "send: Send it. Now."
    split = {"dense": {"chunks": "marked", "split_tools": True}}
    assert of(split).pair(CATALOG, REQUEST, tool, 0)[1] == "send: Send it."


def test_where_an_item_led_here_the_first_text_is_a_chunk_of_that_item():
    brought = row(1, 0.9, origin=Origin.EXPANSION, mode=Mode.EXPANSION, via_item=0, query_chunk=2, item_chunk=0)
    assert of({"dense": {"chunks": "whole"}}).pair(CATALOG, REQUEST, brought, 0) == ("Sign.", "send: Send it. Now.")


def test_a_row_without_a_pair_has_no_texts():
    assert of("bm25").pair(CATALOG, REQUEST, row(0, 3.0, item_chunk=0), 0) == ("", "")


def test_behind_a_merge_the_pair_is_that_of_the_source_with_the_best_score():
    spec = {"merge": {"a": {"dense": {"chunks": "whole"}}, "b": {"dense": {"chunks": "marked"}}}}
    chunkings = of(spec)
    assert chunkings.distinct == (ItemChunking(WholeRule()), ItemChunking(Marked()), DOCUMENTS)
    for a, b, text in ((0.4, 0.6, "Sign."), (0.6, 0.4, CATALOG[0].search_text), (0.5, 0.5, CATALOG[0].search_text)):
        table = joined({"a": row(0, a, query_chunk=0, item_chunk=0), "b": row(0, b, query_chunk=1, item_chunk=3)})
        assert chunkings.pair(CATALOG, REQUEST, table, 0)[1] == text
    only_b = joined({"a": Candidates.empty(1), "b": row(0, 0.1, query_chunk=1, item_chunk=3)})
    assert chunkings.pair(CATALOG, REQUEST, only_b, 0) == ("second chunk", "Sign.")


def test_sources_that_split_alike_need_no_column():
    chunkings = of({"merge": {"a": "dense", "b": {"dense": {"depth": 50}}, "c": "bm25"}})
    assert chunkings.distinct == (DOCUMENTS,)
    table = concatenated([row(0, 0.5, query_chunk=0, item_chunk=1)])
    assert chunkings.used(table).tolist() == [0]
    assert chunkings.used(Candidates.empty(2)).tolist() == []


def test_an_expansion_that_splits_items_itself_is_read_inside_domains_too():
    step = {"step": "expand:other", "chunks": {"windows": {"size": 2, "overlap": 0}}, "split_tools": False}
    domains = {"step": "by_domain", "domains": [["rule", [step]], ["*", []]]}
    retrieve = Pipeline.of({"retrieve": "dense"}).describe()["retrieve"]
    for refine in ([step], [domains]):
        found = Chunkings.described({"pipeline": {"retrieve": retrieve, "refine": refine}})
        assert found.expansion == ItemChunking(WindowRule(2, 0))
        assert found.sources == {"": DOCUMENTS}


def test_an_expansion_is_asked_inside_domains_too():
    class Other:
        chunking = ItemChunking(WholeRule())

    step, plain = Step("expand", "other", Other), Pipeline.of({"retrieve": "dense"})
    for refine in ((step,), (PerType({("rule",): (step,), ("*",): ()}),)):
        assert Chunkings.of(replace(plain, refine=refine)) == Chunkings({"": DOCUMENTS}, Other.chunking)


@pytest.mark.parametrize("description", [{}, {"pipeline": {"retrieve": {"step": "retrieve:bm25"}, "refine": []}}])
def test_what_says_nothing_of_chunks_splits_as_the_documents_do(description):
    assert Chunkings.described(description).distinct == (DOCUMENTS,)
