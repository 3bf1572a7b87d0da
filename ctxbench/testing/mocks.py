"""A small catalog, requests over it, and resources without a model: what the conformance checks run on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ctxbench.core.items import Catalog, Item, ItemKey
from ctxbench.core.requests import Message, Request, SessionItem
from ctxbench.embedding.hashing import HashingEmbedder
from ctxbench.embedding.vectors import Vectors
from ctxbench.index.resources import LocalResources
from ctxbench.text.tokens import CharsCounter

_LONG = (
    "Invoices are paid within thirty days of the date they bear. A reminder goes out after that, a second one ten "
    "days later, and the third names the court! Is the sum disputed? Then the clock stops until both sides agree. "
) * 4
_SCHEMA = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "labels": {"type": "array", "items": {"type": "string"}}},
    "required": ["title"],
}


def mock_catalog() -> Catalog:
    """Items of every type and include mode: exact duplicates, long and non-English texts, names with colons."""
    tools = [
        Item(type="tool", server=server, name=name, description=text, schema=_SCHEMA)
        for server, name, text in (
            ("tracker", "create_issue", "Open a new issue in a project, with a title and labels."),
            ("backup", "create_issue", "Open a new issue in a project, with a title and labels."),
            ("tracker", "close_issue", "Close an issue that is done."),
            ("tracker", "list_issues", "List the issues of a project, newest first."),
            ("a:b", "c", "A server whose name holds a colon."),
            ("a", "b:c", "A tool whose name holds a colon."),
            ("mail", "send", ""),
        )
    ]
    rules = [
        Item(
            type="rule", name="tone", description="How to write.", text="Be brief. Say what is known.", include="always"
        ),
        Item(type="rule", name="code review", description="What a review looks at.", text="Tests first, then names."),
        Item(type="rule", name="invoices", description="When to pay invoices.", text=_LONG, priority=200),
        Item(type="rule", name="twin", text="Dates are written year first."),
        Item(type="reference", name="twin", text="Dates are written year first."),
        Item(type="rule", name="by hand", text="Only for the release week: no issue is closed.", include="manual"),
        Item(type="rule", name="switched off", text="Open an issue for everything.", enabled=False),
    ]
    references = [
        Item(type="reference", name="invoices", description="Terms of payment.", text=f"{_LONG}\n\n{_LONG}"),
        Item(type="reference", name="Öffnungszeiten", text="Werktags von 9 bis 17 Uhr geöffnet; 土曜日は休みです。"),
        Item(
            type="reference",
            name="🚀 launch/plan",
            text="Step one 🚀.\n \nStep two: e\u0301t\u00e9.\n\n\n\nStep three.",
        ),
        Item(type="reference", name="three", text="one\n\none\n\none"),
    ]
    mixed = [
        Item(type="file", name="src/issue.py", text="class Issue:\n\n    def close(self) -> None: ..."),
        Item(type="chunk", name="src/issue.py#2", text="def close(self) -> None: ..."),
        Item(type="message", name="m1", text="Please close the issue when the invoice is paid.", conversation="c1"),
        Item(type="memory", name="likes tea", text="Prefers tea to coffee."),
    ]
    return Catalog([*tools, *rules, *references, *mixed])


def mock_requests() -> tuple[Request, ...]:
    """Requests over `mock_catalog`: blank ones, scopes down to nothing, sessions, repeats, long and odd texts."""
    twin, tracker = ItemKey("rule", None, "twin"), ItemKey("tool", "tracker", "create_issue")
    backup, hand = ItemKey("tool", "backup", "create_issue"), ItemKey("rule", None, "by hand")
    file, off = ItemKey("file", None, "src/issue.py"), ItemKey("rule", None, "switched off")
    texts = {
        "plain": "Open a new issue with the label bug",
        "again": "Open a new issue with the label bug",
        "sentences": "When are invoices paid? Close the issue! And be brief. Wann ist geöffnet?",
        "empty": "",
        "blank": " \t\n\u00a0 ",
        "marks": "?! ... !",
        "nothing shared": "zzyzx",
        "item text": "create_issue: Open a new issue in a project, with a title and labels.",
        "unicode": "🚀 Step two: été, 土曜日は休みです",
        "half a character": "launch \ud83d",
        "long": _LONG * 3,
    }
    requests = [Request(id=name, text=text) for name, text in texts.items()]
    ask = "Open a new issue. Dates are written year first."
    return (
        *requests,
        Request(id="scope", text=ask, available=(tracker, backup, twin)),
        Request(id="one item", text=ask, available=(backup,)),
        Request(id="nothing available", text=ask, available=()),
        Request(id="empty session", text=ask, session=()),
        Request(id="session", text=ask, session=(SessionItem(tracker), SessionItem(hand), SessionItem(twin, "always"))),
        Request(
            id="conversation",
            text="And close it again",
            history=(Message("user", "Open an issue"), Message("assistant", "Done: number 7.")),
            explicit=(tracker, hand, off),
            recent=(backup, tracker, file),
            uses=((backup, 3), (tracker, 0)),
            tool_results=(("create_issue", '{"number": 7}'),),
            user="ann",
            workspace="one",
            conversation="c1",
            turn=1,
            time="2026-01-31T09:30:00Z",
        ),
    )


def mock_resources() -> LocalResources:
    """Hashing embeddings kept in memory, and a token a started four characters; nothing is read or written."""
    return LocalResources(Vectors(HashingEmbedder(), None), CharsCounter())


def requests_within(catalog: Catalog, requests: Iterable[Request]) -> tuple[Request, ...]:
    """The requests without the items that the catalog lacks, so that they can be put to any part of a catalog."""

    def present(keys: Iterable[ItemKey]) -> tuple[ItemKey, ...]:
        return tuple(key for key in keys if catalog.find(key) is not None)

    return tuple(
        replace(
            request,
            explicit=present(request.explicit),
            recent=present(request.recent),
            uses=tuple(use for use in request.uses if catalog.find(use[0]) is not None),
            available=None if request.available is None else present(request.available),
            session=None
            if request.session is None
            else tuple(item for item in request.session if catalog.find(item.key) is not None),
        )
        for request in requests
    )
