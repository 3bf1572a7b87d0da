from __future__ import annotations

import numpy as np
import pytest

from ctxbench import testing
from ctxbench.io.errors import ParameterError
from ctxbench.model.items import Catalog, Item
from ctxbench.search.chunking import DOCUMENTS, ItemChunking, Marked, SentenceRule, WindowRule
from ctxbench.search.dense import chunks_of, dense_index
from ctxbench.search.words import FieldText

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


@pytest.mark.parametrize(
    ("item", "name", "description"),
    [
        (
            Item(type="tool", server="git", name="createIssue", description="Open it. Now."),
            "create issue",
            "Open it. Now.",
        ),
        (Item(type="rule", name="code_review", text="Tests first."), "code review", None),
        (Item(type="skill", name="pdf", description=" \n", text="Merge."), "pdf", None),
        (Item(type="message", name="m1", text="Hello"), None, None),
        (Item(type="memory", name="m1", description="said", text="Hello"), None, None),
        (Item(type="file", name="a/b.py", text="a/b.py\nimport os"), None, None),  # its text has its path
        (Item(type="rule", name="?!", description="?"), None, "?"),
    ],
    ids=lambda value: value.id if isinstance(value, Item) else None,
)
def test_a_field_is_one_chunk_where_the_item_has_it(item, name, description):
    found = {field: FieldText(field=field)(item) for field in ("name", "description")}
    assert found == {
        field: () if text is None else (text,) for field, text in (("name", name), ("description", description))
    }


def test_a_file_is_named_by_its_path():
    item = Item(type="file", name="v2", title="src/issueList.py", text="import os")
    assert FieldText(field="name")(item) == ("src issue list py",)


def test_each_field_has_an_index_of_its_own():
    catalog, resources = Catalog([TOOL, RULE]), testing.mock_resources()
    rows = np.ones(2, dtype=np.bool_)
    matrices = [
        dense_index(catalog, resources, chunking=chunking).matrix(rows, resources.vectors).vectors
        for chunking in (FieldText(field="name"), FieldText(field="description"), DOCUMENTS)
    ]
    texts = [["send", "mail"], [TOOL.description, RULE.description], [*DOCUMENTS(TOOL), *DOCUMENTS(RULE)]]
    for vectors, expected in zip(matrices, texts, strict=True):
        np.testing.assert_array_equal(vectors, resources.vectors(expected))
