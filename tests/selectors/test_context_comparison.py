"""Stored request contexts today: the messages again, and what would be chosen now."""

from __future__ import annotations

import pytest

from ctxbench.io.errors import EmbeddingError, ParameterError
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Message
from ctxbench.selectors.conversations import ConversationStore, Exchange, compare, rebuild
from ctxbench.selectors.definitions import definition
from ctxbench.selectors.session import Agent, Session

AUTH = "How do I authenticate?"


@pytest.fixture
def context(session, resources):
    return session.request(AUTH, resources, history=[Message("user", "Hello"), Message("assistant", "Hello!")])


@pytest.fixture
def stored(context, tmp_path):
    """An exchange that has been on disk."""
    store = ConversationStore(tmp_path / "c.jsonl")
    store.append(Exchange.of(context, "Send the token."))
    return ConversationStore(store.path).exchanges()[0]


class TestRebuild:
    def test_with_nothing_changed_the_messages_are_those_that_were_sent(self, stored, context, agent):
        rebuilt = rebuild(stored, agent)
        assert rebuilt.prompt == context.prompt
        assert rebuilt.as_dict() == {
            "same": True,
            "edited": [],
            "gone": [],
            "disabled": [],
            "system_changed": False,
        }

    def test_what_was_edited_is_named_and_sent_as_it_is_now(self, stored, agent):
        rebuilt = rebuild(stored, agent.changed("rule:A", text="Be blunt."))
        assert (rebuilt.same, rebuilt.edited) == (False, ("rule:A",))
        assert ("user", "Rule: Be blunt.") in rebuilt.prompt.messages

    def test_a_description_that_only_a_search_sees_is_an_edit_though_the_messages_are_the_same(self, stored, agent):
        rebuilt = rebuild(stored, agent.changed("rule:C", description="About tokens."))
        assert (rebuilt.same, rebuilt.edited) == (True, ("rule:C",))

    def test_what_is_gone_is_named_and_not_in(self, stored, agent):
        rebuilt = rebuild(stored, agent.without("rule:B"))
        assert (rebuilt.same, rebuilt.gone) == (False, ("rule:B",))
        assert "Rule: Write short sentences." not in dict(map(reversed, rebuilt.prompt.messages))

    def test_what_is_disabled_is_named_and_in_as_it_was_sent(self, stored, agent):
        rebuilt = rebuild(stored, agent.changed("rule:B", enabled=False))
        assert (rebuilt.same, rebuilt.disabled) == (True, ("rule:B",))

    def test_another_include_mode_changes_nothing(self, stored, agent):
        rebuilt = rebuild(stored, agent.changed("rule:C", include="manual"))
        assert (rebuilt.same, rebuilt.edited) == (True, ())

    def test_another_system_prompt_is_said(self, stored, items):
        rebuilt = rebuild(stored, Agent(catalog=Catalog(items), system="You are terse."))
        assert (rebuilt.same, rebuilt.system_changed, rebuilt.edited) == (False, True, ())

    def test_other_items_and_another_order_of_the_catalog_change_nothing(self, stored, items):
        more = Catalog([Item(type="rule", name="new"), *reversed(items)])
        assert rebuild(stored, Agent(catalog=more, system="You are helpful.")).same


class TestCompare:
    def test_with_nothing_changed_the_selector_chooses_the_same(self, stored, agent, resources):
        found = compare(stored, agent, resources)
        assert found.same
        assert found.as_dict() == {"same": True, "came": [], "went": [], "moved": []}

    def test_an_edited_item_has_another_score(self, stored, agent, resources):
        (moved,) = compare(stored, agent.changed("rule:C", text="How to authenticate."), resources).moved
        assert moved.id == "rule:C"
        assert moved.before[0] == moved.now[0] == "agent"
        assert moved.before[1] != moved.now[1]

    def test_a_better_item_comes_and_the_one_found_before_goes_by_its_rule(self, stored, agent, resources):
        found = compare(stored, agent.with_item(Item(type="rule", name="D", text=AUTH)), resources)
        assert [(one.id, one.before, one.now[0]) for one in found.came] == [("rule:D", None, "agent")]
        (went,) = found.went
        assert (went.id, went.now) == ("rule:C", None)
        assert went.why.startswith("beyond the first topN=1 and its score is below includeScore=0.7")

    @pytest.mark.parametrize(
        ("edit", "id_", "why"),
        [
            (lambda agent: agent.without("rule:A"), "rule:A", "the agent no longer has it"),
            (lambda agent: agent.changed("rule:A", enabled=False), "rule:A", "it is not enabled"),
            (lambda agent: agent.changed("rule:C", include="manual"), "rule:C", "its include mode is manual"),
        ],
    )
    def test_what_cannot_be_offered_any_more_says_why(self, stored, agent, resources, edit, id_, why):
        went = {one.id: one.why for one in compare(stored, edit(agent), resources).went}
        assert went[id_] == why

    def test_the_settings_are_those_of_then(self, stored, items, resources):
        now = Agent(catalog=Catalog(items), settings={"contextTopN": 5}, system="You are helpful.")
        assert compare(stored, now, resources).same

    def test_what_was_removed_then_is_removed_now(self, agent, resources):
        session = Session.start(agent, "c1").add("rule:C").remove("rule:C")
        made = Exchange.of(session.request(AUTH, resources), "So.")
        assert compare(made, agent, resources).same

    def test_another_selector_is_no_comparison(self, stored, items, resources):
        other = Agent(catalog=Catalog(items), selector=definition("everything"))
        with pytest.raises(ParameterError, match="selected by 'semantic', and the agent has 'everything'"):
            compare(stored, other, resources)

    def test_a_failing_search_is_an_error_here(self, stored, agent, broken):
        with pytest.raises(EmbeddingError, match="no model"):
            compare(stored, agent, broken(EmbeddingError("no model")))
