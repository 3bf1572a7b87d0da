"""Stored conversations from Python: what each reply came from."""

from __future__ import annotations

import pytest

import ctxbench
from ctxbench.io.errors import ParameterError, StorageError, UnknownNameError
from ctxbench.model.items import Catalog, Item
from ctxbench.selectors.conversations import ConversationStore, Exchange, Held, content_hash

A, B = Item(type="rule", name="a", text="Be kind."), Item(type="tool", name="fetch", server="web")


@pytest.fixture
def stored(tmp_path):
    store = ConversationStore(tmp_path / "chats.jsonl")
    held = (Held(A.key, "always", None, content_hash(A)), Held(B.key, "agent", 0.75, content_hash(B)))
    store.append(Exchange(conversation="one", text="hello", reply="hi", selector="semantic", settings={"n": 3}))
    store.append(Exchange(conversation="one", text="get it", reply="<here>", calls=("fetch",), context=held))
    return store.path


def test_every_reply_is_a_row_and_shows_what_it_came_from(stored):
    found = ctxbench.conversation(stored)
    assert repr(found) == f"Conversation(id={found.id!r}, n_exchanges={len(found.exchanges)})"
    assert found.to_frame()[["reply", "text", "said", "items"]].values.tolist() == [
        [1, "hello", "hi", 0], [2, "get it", "<here>", 2],
    ]  # fmt: skip
    context = found.context()
    assert context[["item", "mode", "called"]].values.tolist() == [
        ["rule:a", "always", False], ["tool:web:fetch", "agent", True],
    ]  # fmt: skip
    assert context["score"].isna().tolist() == [True, False]
    assert found.context(1).empty
    shown = found.show()
    assert [line.strip() for line in repr(shown).splitlines()[-8:]] == [
        *("Rules", "a [Always]", "", "References", "none", "", "Tools", "web. • fetch [Agent - 0.75, called]"),
    ]  # fmt: skip
    assert "&lt;here&gt;" in shown._repr_html_()
    assert "semantic with n 3" in repr(found.show(1))


def test_a_reply_is_shown_in_columns_with_priorities_servers_and_badges(tmp_path):
    """As the example of the specification, "Request Context Modal"."""
    items = [
        Item(type="rule", name="File Operations", text="x", priority=3, description="How files are <read>."),
        Item(type="rule", name="Unnumbered", text="x"),
        Item(type="rule", name="Authentication Rules", text="x", priority=1),
        Item(type="rule", name="Zero", text="x", priority=0),
        Item(type="reference", name="Database Schema", text="x", priority=2),
        Item(type="tool", name="query", server="database"),
        Item(type="tool", name="read_file", server="filesystem"),
        Item(type="tool", name="alone"),
        Item(type="memory", name="tea", text="x"),
    ]
    modes = [("agent", 0.874), ("always", None), ("always", None), ("manual", None), ("agent", 0.92)]
    modes += [("agent", 0.85), ("manual", None), ("expansion", 0.8), ("explicit", None)]
    held = tuple(
        Held(item.key, mode, score, "old" if item.name == "query" else content_hash(item))
        for item, (mode, score) in zip(items, modes, strict=True)
    )
    store = ConversationStore(tmp_path / "chats.jsonl")
    store.append(Exchange(conversation="one", text="x", reply="y", calls=("read_file",), context=held))
    shown = ctxbench.conversation(store.path, items=Catalog(items)).show()
    assert {title: list(map(str, column)) for title, column in shown.columns.items()} == {
        "Rules": [
            "000 • Zero [Manual]",
            "001 • Authentication Rules [Always]",
            "003 • File Operations [Agent - 0.87]",
            "Unnumbered [Always]",
        ],
        "References": ["002 • Database Schema [Agent - 0.92]"],
        "Tools": [
            "alone [Expansion - 0.80]",
            "database. • query [Agent - 0.85, edited]",
            "filesystem. • read_file [Manual, called]",
        ],
        "Others": ["memory • tea [Explicit]"],
    }
    page = shown._repr_html_()
    assert "How files are &lt;read&gt;." in page
    assert page.count("Agent - ") == 3


def test_with_the_items_it_tells_what_was_edited_since(stored):
    edited = Catalog([Item(type="rule", name="a", text="Be quick.")])
    assert ctxbench.conversation(stored, items=edited).context()["since"].tolist() == ["edited", "gone"]
    assert ctxbench.conversation(stored, items=Catalog([A, B])).context()["since"].tolist() == ["same", "same"]


def test_of_several_conversations_one_is_named(stored):
    ConversationStore(stored).append(Exchange(conversation="two", text="x", reply="y"))
    with pytest.raises(ParameterError, match="holds 2 conversations; name one by `id`: one, two"):
        ctxbench.conversation(stored)
    with pytest.raises(UnknownNameError, match="unknown conversation 'tow'; did you mean 'two'"):
        ctxbench.conversation(stored, "tow")
    assert ctxbench.conversation(stored, "two").to_frame()["said"].tolist() == ["y"]


def test_what_is_not_there_is_said(stored, tmp_path):
    with pytest.raises(StorageError, match=r"no file .*none"):
        ctxbench.conversation(tmp_path / "none")
    for reply in (0, 3, -3):
        with pytest.raises(ParameterError, match=f"has replies 1 to 2, or -1 for the last; got {reply}"):
            ctxbench.conversation(stored).show(reply)
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(ParameterError, match=r"holds no conversation$"):
        ctxbench.conversation(tmp_path / "empty.jsonl")


def test_a_name_that_several_tools_have_or_a_rule_has_is_no_call_of_theirs(tmp_path):
    items = [Item(type="tool", name="read", server=server) for server in ("a", "b")]
    items += [Item(type="tool", name="send"), Item(type="rule", name="send")]
    held = tuple(Held(item.key, "agent", 0.5, content_hash(item)) for item in items)
    store = ConversationStore(tmp_path / "chats.jsonl")
    store.append(Exchange(conversation="one", text="x", reply="y", calls=("read", "send"), context=held))
    found = ctxbench.conversation(store.path, items="datasets/smoke")
    assert found.context().query("called")["item"].tolist() == ["tool:send"]
    assert set(found.context()["since"]) == {"gone"}
    with pytest.raises(UnknownNameError, match="unknown conversation '1'"):
        ctxbench.conversation(store.path, 1)
    with pytest.raises(ParameterError, match=r"has replies 1 to 1.*got 1\.5"):
        found.context(1.5)
