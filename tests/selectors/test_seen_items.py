"""Sessions over catalogs with items that a chat does not see: a chat names no workspace, no user and no time."""

from __future__ import annotations

import pytest

from ctxbench import testing
from ctxbench.io.errors import ParameterError
from ctxbench.model.formats import Source
from ctxbench.model.items import Catalog, Item
from ctxbench.selectors.conversations import Exchange, compare, read_exchange, read_session, rebuild, write_session
from ctxbench.selectors.definitions import read_definition
from ctxbench.selectors.session import Agent, Session

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
    request, (warning,) = session.with_agent(Agent(catalog=Catalog(ITEMS))).build_request("x")
    assert (request.session, "holds 'rule:over', which is left out: the agent no longer has it" in warning) == (
        (),
        True,
    )


def test_a_chat_of_a_user_holds_and_takes_what_is_theirs():
    agent = Agent(catalog=Catalog(ITEMS))
    bobs = Session.start(agent, "c", user="bob")
    assert [one.key.name for one in bobs.items] == ["bob", "all"]
    assert bobs.remove("rule:bob").add("rule:bob").request("x", testing.mock_resources()).warnings == ()


@pytest.mark.parametrize("absent", ["rule:bobs", "rule:bob"])
def test_what_is_hidden_is_as_if_it_were_not_there(absent):
    session = Session.start(Agent(catalog=Catalog(ITEMS)), "c")
    with pytest.raises(ParameterError) as error:
        session.add(absent)
    assert str(error.value).startswith(f"no item {absent!r} in the catalog")
    assert "rule:bob'" not in str(error.value).replace(f"item {absent!r}", "")


def test_whose_a_chat_is_is_stored_with_it_and_its_replies(tmp_path):
    agent = Agent(catalog=Catalog(ITEMS))
    session = Session.start(agent, "c", user="bob", workspace="w")
    write_session(session, tmp_path / "session.json")
    assert read_session(tmp_path / "session.json", agent) == session
    exchange = Exchange.of(session.request("refund", testing.mock_resources()), "Done.")
    row = exchange.as_row()
    assert (row["user"], row["workspace"]) == ("bob", "w")
    assert read_exchange(row, Source(), {}) == (exchange, [])
    assert compare(exchange, agent, testing.mock_resources()).same


def test_a_part_that_was_sent_is_rebuilt(tmp_path):
    items = [Item(type="memory", name="long", text="refund an order today")]
    steps = "[{first: {n: 1}}, {truncate: {tokens: 5}}]"
    (tmp_path / "short.yaml").write_text(f"name: short\npipeline: {{retrieve: dense, refine: {steps}}}\n")
    agent = Agent(catalog=Catalog(items), selector=read_definition(tmp_path / "short.yaml"))
    context = Session.start(agent, "c").request("refund", testing.mock_resources())
    assert context.prompt.messages[0] == ("user", "refund an order …")
    exchange = Exchange.of(context, "Done.")
    again, faults = read_exchange(exchange.as_row(), Source(), {})
    assert (again, faults) == (exchange, [])
    assert rebuild(again, agent).same
