from __future__ import annotations

import json

import pytest

from ctxbench.core.items import Catalog, Item, ItemKey
from ctxbench.data.usage import Replies, Reply

FRIDAY = "Never merge on a Friday afternoon without a second pair of eyes on it."


@pytest.fixture
def catalog():
    return Catalog(
        [
            Item(type="rule", name="tone", text="Be brief. Say what is known, and no more than it.", include="always"),
            Item(type="rule", name="code review", text=FRIDAY, include="manual"),
            Item(type="reference", name="api-v2", text="Errors have a code, a message and a place where to read on."),
            Item(type="reference", name="release_notes", text="What is new."),
            Item(type="tool", server="web", name="fetch", description="Fetch a page."),
            Item(type="tool", server="mail", name="send", description="Send a mail."),
        ]
    )  # fmt: skip


@pytest.fixture
def reply(catalog):
    """A reply that was offered everything, or what is named."""

    def made(text="", *, called=(), offered=None, asked="What now?", conversation="c1", **fields):
        keys = [item.key for item in catalog] if offered is None else [ItemKey.parse(one) for one in offered]
        return Reply(
            conversation=conversation,
            where="c.jsonl, line 1",
            user_messages=(asked,),
            text=text,
            offered=dict.fromkeys(keys, "agent"),
            called=tuple(map(ItemKey.parse, called)),
            **fields,
        )

    return made


@pytest.fixture
def replies(catalog):
    def made(*all_of_them):
        return Replies(replies=all_of_them, catalog=catalog)

    return made


@pytest.fixture
def write(tmp_path):
    """Write JSON lines; returns the path."""

    def made(name, *rows):
        path = tmp_path / name
        path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
        return path

    return made
