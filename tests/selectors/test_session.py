"""Agent, session, request: the life cycle of the documents, and what edits of the agent do to an open session."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ctxbench.io.errors import EmbeddingError, ParameterError
from ctxbench.model.items import Catalog, Item, ItemKey
from ctxbench.model.requests import Message, SessionItem
from ctxbench.selectors.definitions import definition
from ctxbench.selectors.session import Agent, Session

AUTH, ERROR = "How do I authenticate?", "What is the error handling?"


def offered(context):
    return {one.id: one.mode for one in context.selection.chosen}


class TestFlowExampleOfTheDocuments:
    def test_a_new_session_holds_what_is_always_in(self, agent):
        held = Session.start(agent, "c1").items
        assert [(item.key.id, item.mode) for item in held] == [("rule:A", "always"), ("reference:X", "always")]

    def test_what_is_added_by_hand_is_manual_whatever_its_include_mode(self, agent):
        session = Session.start(agent, "c1").add("rule:B").add("rule:C")
        assert [(i.key.id, i.mode) for i in session.items[2:]] == [("rule:B", "manual"), ("rule:C", "manual")]

    def test_each_request_gets_the_session_and_what_is_found_for_it_alone(self, session, resources):
        first, second = session.request(AUTH, resources), session.request(ERROR, resources)
        held = {"rule:A": "always", "rule:B": "manual", "reference:X": "always"}
        assert offered(first) == {**held, "rule:C": "agent"}
        assert offered(second) == {**held, "reference:Y": "agent"}
        assert (first.warnings, first.failure) == ((), None)

    def test_the_order_is_session_in_catalog_order_then_what_was_found(self, session, resources):
        assert session.request(AUTH, resources).ids == ("rule:A", "rule:B", "reference:X", "rule:C")

    def test_the_context_is_the_documents_json(self, session, resources):
        rows = session.request(AUTH, resources).as_dict()["items"]
        assert rows[:3] == [
            {"type": "rule", "name": "A", "includeMode": "always"},
            {"type": "rule", "name": "B", "includeMode": "manual"},
            {"type": "reference", "name": "X", "includeMode": "always"},
        ]
        assert {**rows[3], "similarityScore": 0} == {
            "type": "rule",
            "name": "C",
            "includeMode": "agent",
            "similarityScore": 0,
        }

    def test_messages_come_from_the_request_context(self, session, resources):
        history = [Message("user", "Hello"), Message("assistant", "Hello!")]
        prompt = session.request(AUTH, resources, history=history).prompt
        assert prompt.messages == [
            ("system", "You are helpful."),
            ("user", "Hello"),
            ("assistant", "Hello!"),
            ("user", "Reference: The glossary."),
            ("user", "Rule: Be kind."),
            ("user", "Rule: Write short sentences."),
            ("user", "Rule: How to authenticate: send the token."),
            ("user", AUTH),
        ]

    def test_tools_that_were_found_arrive(self, resources):
        tool = Item(type="tool", server="web", name="fetch", description="Fetch a page.", schema={"type": "object"})
        prompt = Session.start(Agent(catalog=Catalog([tool])), "c1").request("fetch a page", resources).prompt
        assert prompt.tools == [
            {"name": "fetch", "description": "Fetch a page.", "inputSchema": {"type": "object"}},
        ]

    def test_nothing_is_written_back(self, session, resources):
        before = session.as_dict()
        session.request(AUTH, resources)
        assert session.as_dict() == before


class TestAddAndRemove:
    def test_a_removed_item_stays_removed_also_for_the_search(self, session, resources):
        without = session.add("rule:C").remove("rule:C")
        assert "rule:C" not in without
        assert "rule:C" not in offered(without.request(AUTH, resources))
        assert offered(session.request(AUTH, resources))["rule:C"] == "agent"

    def test_added_again_it_is_manual(self, session, resources):
        again = session.remove("rule:A").add("rule:A")
        assert offered(again.request(AUTH, resources))["rule:A"] == "manual"
        assert again.removed == ()

    def test_a_change_gives_a_new_session(self, session):
        session.remove("rule:A")
        assert "rule:A" in session
        assert session.removed == ()

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda s: s.add("rule:B"), "'rule:B' is in the session already .mode manual.; nothing to add"),
            (lambda s: s.add("rule:A"), "'rule:A' is in the session already .mode always.; nothing to add"),
            (lambda s: s.add("rule:Z"), "no item 'rule:Z' in the catalog"),
            (lambda s: s.add("Z"), "'Z' is no item id"),
            (lambda s: s.remove("rule:C"), "'rule:C' is not in the session, which has rule:A, reference:X, rule:B"),
            (lambda s: s.remove("rule:Z"), "'rule:Z' is not in the session"),
            (lambda s: s.remove("rule:A").remove("rule:A"), "'rule:A' was removed from the session"),
        ],
    )
    def test_what_changes_nothing_is_refused(self, session, change, message):
        with pytest.raises(ParameterError, match=message):
            change(session)

    def test_what_is_disabled_is_not_in_a_new_session_and_cannot_be_added(self, agent):
        edited = agent.changed("rule:A", enabled=False)
        session = Session.start(edited, "c1")
        assert "rule:A" not in session
        with pytest.raises(ParameterError, match="'rule:A' is not enabled; enable it in the agent"):
            session.add("rule:A")

    def test_items_that_contradict_each_other_are_refused(self, agent):
        one = SessionItem(ItemKey("rule", None, "A"))
        with pytest.raises(ParameterError, match="has rule:A twice, or in it and removed"):
            Session(id="c1", agent=agent, items=(one, one))
        with pytest.raises(ParameterError, match="has rule:A twice, or in it and removed"):
            Session(id="c1", agent=agent, items=(one,), removed=(one.key,))


class TestSettings:
    def test_they_are_copied_from_the_agent_and_overridden_for_the_session_alone(self, agent, resources):
        session = Session.start(agent, "c1").with_settings(contextTopN=2)
        assert (session.settings["contextTopN"], agent.settings["contextTopN"]) == (2, 1)
        assert {"rule:C", "reference:Y"} <= set(offered(session.request(AUTH, resources)))

    def test_a_session_may_start_with_other_settings(self, agent):
        assert Session.start(agent, "c1", settings={"contextTopN": 0}).settings["contextTopN"] == 0

    def test_other_defaults_of_the_agent_are_for_new_sessions(self, items):
        old, new = (Agent(catalog=Catalog(items), settings={"contextTopN": n}) for n in (1, 7))
        assert Session.start(old, "c1").with_agent(new).settings["contextTopN"] == 1
        assert Session.start(new, "c2").settings["contextTopN"] == 7

    def test_ranges_are_those_of_the_selector(self, session):
        for name, one in definition("semantic").parameters.items():
            for end in one.ends:
                assert session.with_settings(**{name: end}).settings[name] == end
        with pytest.raises(ParameterError, match=r"contextTopK must be 1 to 100, got 0.*contextTopN must be 0 to 50"):
            session.with_settings(contextTopK=0, contextTopN=99)

    def test_a_mode_of_a_domain_sets_its_numbers_and_single_ones_go_over_it(self, items):
        agent = Agent(catalog=Catalog(items), selector=definition("semantic-domains"))
        session = Session.start(agent, "c1").with_settings(rulesMode="conservative")
        assert (session.settings["rulesTopN"], session.settings["toolsTopN"]) == (20, agent.settings["toolsTopN"])
        session = session.with_settings(rulesTopN=9)
        assert (session.settings["rulesMode"], session.settings["rulesTopN"]) == ("conservative", 9)
        assert session.add("rule:B").settings == session.settings


class TestExpansion:
    @pytest.fixture
    def wide(self, agent):
        """A session in which what resembles the found rule C comes with it."""
        tool = Item(type="tool", server="web", name="token", description="Send the token, to authenticate.")
        settings = {"contextExpansionEnabled": True, "contextExpansionThreshold": 0.5, "contextExpansionTopN": 1}
        return Session.start(agent.with_item(tool), "c1", settings=settings)

    def test_what_is_brought_in_has_its_mode_and_is_for_this_request_alone(self, wide, resources):
        context = wide.request("How to authenticate", resources)
        assert offered(context) == {
            "rule:A": "always",
            "reference:X": "always",
            "rule:C": "agent",
            "tool:web:token": "expansion",
        }
        assert context.as_dict()["items"][-1]["includeMode"] == "expansion"
        assert [tool["name"] for tool in context.prompt.tools] == ["token"]
        assert "tool:web:token" not in wide

    def test_nothing_that_was_removed_is_brought_in(self, wide, resources):
        without = wide.add("tool:web:token").remove("tool:web:token")
        assert "tool:web:token" not in offered(without.request("How to authenticate", resources))

    def test_it_is_off_unless_the_session_or_the_agent_enables_it(self, wide, resources):
        narrow = wide.with_settings(contextExpansionEnabled=False)
        assert "tool:web:token" not in offered(narrow.request("How to authenticate", resources))
        assert narrow.settings["contextExpansionThreshold"] == 0.5  # kept for when it is enabled again

    def test_depth_0_is_off(self, wide, resources):
        narrow = wide.with_settings(contextExpansionDepth=0)
        assert "tool:web:token" not in offered(narrow.request("How to authenticate", resources))
        assert narrow.settings["contextExpansionEnabled"] is True

    def test_it_goes_by_a_graph_too(self, wide, resources):
        by_graph = wide.with_settings(contextExpansionBy="graph", contextExpansionGraphThreshold=0.9)
        assert "tool:web:token" not in offered(by_graph.request("How to authenticate", resources))
        by_graph = by_graph.with_settings(contextExpansionGraphThreshold=0.5)
        assert offered(by_graph.request("How to authenticate", resources))["tool:web:token"] == "expansion"


class TestSearchOff:
    """The agent, or a session, may have no search: nothing is embedded, and what the session holds is offered."""

    @pytest.fixture
    def no_model(self, broken):
        return broken(RuntimeError("a model would be loaded"))

    def test_only_what_the_session_holds_is_offered(self, session, no_model):
        context = session.with_settings(contextSearchEnabled=False).request(AUTH, no_model)
        assert offered(context) == {"rule:A": "always", "reference:X": "always", "rule:B": "manual"}
        assert (context.failure, context.warnings) == (None, ())

    def test_a_session_takes_it_from_its_agent_and_may_turn_it_on(self, agent, resources, no_model):
        silent = replace(agent, settings={"contextSearchEnabled": False})
        session = Session.start(silent, "c1")
        assert "rule:C" not in offered(session.request(AUTH, no_model))
        assert "rule:C" in offered(session.with_settings(contextSearchEnabled=True).request(AUTH, resources))

    def test_other_settings_are_kept_for_when_it_is_on_again(self, session):
        off = session.with_settings(contextTopN=2, contextSearchEnabled=False, contextTopK=7)
        assert (off.settings["contextTopN"], off.settings["contextTopK"]) == (2, 7)


class TestTokenBudget:
    def test_it_bounds_what_is_found_and_never_the_session(self, session, resources):
        assert "rule:C" in offered(session.request(AUTH, resources))
        tight = session.with_settings(contextTokenBudgetEnabled=True, contextTokenBudget=1)
        assert offered(tight.request(AUTH, resources)) == {
            "rule:A": "always",
            "reference:X": "always",
            "rule:B": "manual",
        }


class TestFailingSearch:
    @pytest.mark.parametrize("error", [EmbeddingError("no model was found"), RuntimeError("out of luck")])
    def test_it_leaves_what_the_session_holds_and_a_warning(self, session, broken, error):
        context = session.request(AUTH, broken(error))
        assert offered(context) == {"rule:A": "always", "rule:B": "manual", "reference:X": "always"}
        (warning,) = context.warnings
        assert warning.startswith("the search failed, so only the items of the session are offered")
        assert str(error) in warning
        assert context.failure is error
        assert context.prompt.messages[-1] == ("user", AUTH)

    def test_ctrl_c_is_no_failing_search(self, session, broken):
        with pytest.raises(KeyboardInterrupt):
            session.request(AUTH, broken(KeyboardInterrupt()))

    def test_where_nothing_could_be_found_nothing_is_searched(self, agent, broken):
        resources = broken(RuntimeError())
        session = Session.start(agent, "c1").add("rule:C").add("reference:Y")
        assert session.request(AUTH, resources).warnings == ()
        assert resources.asked == 0

    def test_a_session_of_nothing_is_no_failure(self, resources):
        context = Session.start(Agent(catalog=Catalog([])), "c1").request(AUTH, resources)
        assert (context.ids, context.warnings) == ((), ())
        assert context.prompt.messages == [("user", AUTH)]

    def test_a_blank_request_gets_the_session(self, session, resources):
        assert set(offered(session.request(" ", resources))) == {"rule:A", "rule:B", "reference:X"}


class TestEditsOfTheAgent:
    def test_an_edited_item_is_sent_as_it_is_now(self, session, agent, resources):
        edited = session.with_agent(agent.changed("rule:A", text="Be blunt."))
        assert ("user", "Rule: Be blunt.") in edited.request(AUTH, resources).prompt.messages

    @pytest.mark.parametrize(
        ("edit", "why"),
        [
            (lambda agent: agent.without("rule:B"), "the agent no longer has it"),
            (lambda agent: agent.changed("rule:B", enabled=False), "it is not enabled"),
        ],
    )
    def test_one_that_is_gone_or_disabled_is_left_out_with_a_warning_and_may_come_back(
        self, session, agent, resources, edit, why
    ):
        now = session.with_agent(edit(agent))
        context = now.request(AUTH, resources)
        assert "rule:B" not in offered(context)
        assert context.warnings == (f"session 'c1' holds 'rule:B', which is left out: {why}",)
        assert offered(now.with_agent(agent).request(AUTH, resources))["rule:B"] == "manual"
        assert "rule:B" not in now.remove("rule:B")

    def test_a_removed_one_that_is_gone_and_comes_back_stays_removed(self, session, agent, resources):
        without = session.add("rule:C").remove("rule:C").with_agent(agent.without("rule:C"))
        assert "rule:C" not in offered(without.request(AUTH, resources))
        assert "rule:C" not in offered(without.with_agent(agent).request(AUTH, resources))

    def test_another_include_mode_changes_nothing_for_what_is_held_or_removed(self, session, agent, resources):
        held = session.with_agent(agent.changed("rule:A", include="agent"))
        assert offered(held.request(AUTH, resources))["rule:A"] == "always"
        removed = session.remove("rule:A").with_agent(agent.changed("rule:A", include="agent"))
        assert "rule:A" not in offered(removed.request("Be kind.", resources))

    def test_elsewhere_it_counts_at_once(self, session, agent, resources):
        manual = session.with_agent(agent.changed("rule:C", include="manual"))
        assert "rule:C" not in offered(manual.request(AUTH, resources))
        found = Session.start(agent, "c1").with_agent(agent.changed("rule:B", include="agent"))
        assert offered(found.request("Write short sentences.", resources))["rule:B"] == "agent"

    def test_one_that_becomes_always_enters_new_sessions_only(self, session, agent, resources):
        edited = agent.changed("rule:C", include="always")
        assert "rule:C" not in offered(session.with_agent(edited).request(AUTH, resources))
        assert offered(Session.start(edited, "c2").request(AUTH, resources))["rule:C"] == "always"

    def test_a_new_item_is_found_at_once(self, session, agent, resources):
        edited = agent.with_item(Item(type="reference", name="Z", text="The weather in spring."))
        assert "reference:Z" in offered(session.with_agent(edited).request("The weather in spring.", resources))

    def test_another_selector_must_know_the_settings(self, session, items):
        with pytest.raises(ParameterError, match="has no parameter 'contextTopK'"):
            session.with_agent(Agent(catalog=Catalog(items), selector=definition("everything")))


def test_a_session_without_an_id_is_refused_before_a_reply_could_be_lost(agent):
    with pytest.raises(ParameterError, match="a session needs an id"):
        Session.start(agent, "")
