"""Sessions over catalogs with items that a chat does not see: a chat names no workspace, no user and no time."""

from __future__ import annotations

from ctxbench import testing
from ctxbench.core.items import Catalog, Item
from ctxbench.session.agent import Agent
from ctxbench.session.session import Session

ITEMS = (
    Item(type="rule", name="bob", text="Only for Bob.", include="always", user="bob"),
    Item(type="rule", name="over", text="Was so.", include="always", until="2026-01-01"),
    Item(type="rule", name="all", text="Always so.", include="always"),
    Item(type="rule", name="found", description="refund an order"),
)


def test_a_session_holds_what_its_requests_see():
    session = Session.start(Agent(catalog=Catalog(ITEMS)), "c")
    assert [one.key.name for one in session.items] == ["all"]
    context = session.request("refund", testing.mock_resources())
    assert context.warnings == ()
    assert {one.id for one in context.selection.chosen} <= {"rule:all", "rule:found"}


def test_what_it_no_longer_sees_is_left_out_with_a_warning():
    session = Session.start(Agent(catalog=Catalog([Item(type="rule", name="over", include="always")])), "c")
    request, (warning,) = session.with_agent(Agent(catalog=Catalog(ITEMS))).asked("x")
    assert (request.session, "holds 'rule:over', but the agent no longer has it" in warning) == ((), True)
