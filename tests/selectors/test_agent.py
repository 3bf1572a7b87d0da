from __future__ import annotations

import pytest

from ctxbench.catalogs.agent_file import tool_modes
from ctxbench.io.errors import InputError, ParameterError
from ctxbench.model.items import Catalog, Item
from ctxbench.selectors.definitions import definition, read_definition
from ctxbench.selectors.session import Agent


def modes(catalog):
    return {item.id: item.include for item in catalog}


class TestToolModes:
    CATALOG = Catalog(
        [
            Item(type="tool", server="web", name="fetch", include="manual"),
            Item(type="tool", server="web", name="search"),
            Item(type="tool", server="mail", name="send"),
            Item(type="tool", name="clock"),
            Item(type="rule", name="tone", include="agent"),
        ]
    )

    def test_the_tool_s_own_goes_over_its_server_s_and_that_over_always(self):
        made = tool_modes(self.CATALOG, tools={"tool:web:search": "manual"}, servers={"web": "agent"})
        assert modes(made) == {
            "tool:web:fetch": "agent",
            "tool:web:search": "manual",
            "tool:mail:send": "always",
            "tool:clock": "always",
            "rule:tone": "agent",
        }

    def test_without_any_mode_tools_are_always_in(self):
        assert set(modes(tool_modes(self.CATALOG, tools={}, servers={})).values()) == {"always", "agent"}

    def test_all_that_is_wrong_is_said_at_once(self):
        with pytest.raises(ParameterError) as caught:
            tool_modes(self.CATALOG, tools={"tool:web:serch": "agent"}, servers={"wep": "agent", "web": "sometimes"})
        message = str(caught.value)
        assert "no tool 'tool:web:serch'; did you mean 'tool:web:search'" in message
        assert "no tool is of server 'wep'; did you mean 'web'" in message
        assert "include mode of web must be one of always, manual, agent, got 'sometimes'" in message


class TestAgent:
    def test_settings_that_are_not_given_are_the_selector_s_defaults(self, agent):
        assert dict(agent.settings) == {**definition("semantic").values(), "contextTopN": 1}

    def test_a_preset_gives_settings(self, items):
        chosen = definition("semantic")
        agent = Agent(catalog=Catalog(items), settings=chosen.presets["aggressive"])
        assert dict(agent.settings) == chosen.values("aggressive")

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"contextTopK": 0}, "contextTopK must be 1 to 100, got 0"),
            ({"contextTopK": 101}, "contextTopK must be 1 to 100, got 101"),
            ({"contextTopN": 51}, "contextTopN must be 0 to 50, got 51"),
            ({"contextIncludeScore": 1.5}, "contextIncludeScore must be 0 to 1, got 1.5"),
            ({"contextTopM": 3}, "has no parameter 'contextTopM'; did you mean 'contextTopN'"),
        ],
    )
    def test_a_setting_out_of_range_is_refused(self, items, settings, message):
        with pytest.raises(ParameterError, match=message):
            Agent(catalog=Catalog(items), settings=settings)

    def test_settings_cannot_be_written(self, agent):
        with pytest.raises(TypeError):
            agent.settings["contextTopN"] = 2

    def test_a_change_gives_a_new_agent(self, agent):
        edited = agent.changed("rule:A", text="Be blunt.").without("rule:B").with_item(Item(type="rule", name="D"))
        assert [item.id for item in edited.catalog] == ["rule:A", "rule:C", "reference:X", "reference:Y", "rule:D"]
        assert edited.item("rule:A").text == "Be blunt."
        assert agent.item("rule:A").text == "Be kind."
        assert edited.item("rule:B") is None

    def test_what_is_not_there_cannot_be_changed(self, agent):
        for change in (lambda: agent.changed("rule:Z", text="x"), lambda: agent.without("rule:Z")):
            with pytest.raises(ParameterError, match="no item 'rule:Z' in the catalog"):
                change()
        with pytest.raises(InputError, match="identities must differ"):
            agent.with_item(Item(type="rule", name="A"))

    def test_the_system_prompt_is_the_agent_s_else_the_selector_s(self, items, tmp_path):
        path = tmp_path / "mine.yaml"
        path.write_text("name: mine\npipeline:\n  retrieve: dense\n  format: {messages: {system: Be exact.}}\n")
        own = read_definition(path)
        assert Agent(catalog=Catalog(items), selector=own).messages.system == "Be exact."
        assert Agent(catalog=Catalog(items), selector=own, system="Be kind.").messages.system == "Be kind."
