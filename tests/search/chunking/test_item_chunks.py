from __future__ import annotations

import pytest

from ctxbench.io.errors import ParameterError
from ctxbench.model.items import Item
from ctxbench.search.chunking import DOCUMENTS, ItemChunking, Marked, SentenceRule, WindowRule
from ctxbench.search.dense import chunks_of

TOOL = Item(type="tool", name="send", description=" Send it. Now. ")
RULE = Item(type="rule", name="mail", description="How to write.", text="Be brief. Be kind.\n\nSign.")


def test_the_documents_split_rules_into_paragraphs_and_leave_tools_whole():
    assert DOCUMENTS(RULE) == ("mail: How to write.", "Be brief. Be kind.", "Sign.")
    assert DOCUMENTS(TOOL) == ("send:  Send it. Now. ",)
    assert chunks_of(RULE) == DOCUMENTS(RULE)


def test_a_rule_splits_all_but_tools_unless_it_is_told_to():
    assert ItemChunking(Marked())(RULE) == ("mail: How to write.", "Be brief.", "Be kind.", "Sign.")
    assert ItemChunking(Marked())(TOOL) == ("send:  Send it. Now. ",)
    assert ItemChunking(Marked(), split_tools=True)(TOOL) == ("send:  Send it.", "Now.")


def test_an_item_has_at_least_one_chunk():
    marks = Item(type="rule", name="?!")
    assert Marked()(marks.search_text) == []
    assert ItemChunking(Marked())(marks) == ("?!",)
    assert ItemChunking(SentenceRule())(Item(type="rule", name="! ")) == ("! ",)


def test_a_chunking_is_read_from_the_description_of_a_retriever():
    described = {"step": "retrieve:dense", "chunks": {"windows": {"size": 9, "overlap": 3}}, "split_tools": True}
    assert ItemChunking.described(described) == ItemChunking(WindowRule(9, 3), split_tools=True)
    assert ItemChunking.described({"step": "retrieve:dense", "chunks": "paragraphs", "split_tools": False}) == DOCUMENTS
    assert ItemChunking.described({"step": "retrieve:bm25"}) is None
    with pytest.raises(ParameterError, match="chunks: unknown chunk strategy"):
        ItemChunking.described({"chunks": "gone", "split_tools": False})
