from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ctxbench.io.errors import ParameterError
from ctxbench.model.candidates import Candidates, Mode, Origin
from ctxbench.model.items import Catalog, Item, ItemKey
from ctxbench.model.requests import Batch, Query, Request, SessionItem
from ctxbench.model.selection import concatenated, session_rows
from ctxbench.pipelines.strategies.expand import ToolRules
from ctxbench.testing import check_step, mock_resources


def tools(*names: str, **changes: Mapping[str, Any]) -> Catalog:
    """Tools as `server/name`; `i2={"include": "manual"}` changes the third."""
    made = [
        Item(type="tool", server=one.rpartition("/")[0], name=one.rpartition("/")[2], description=one) for one in names
    ]
    return Catalog([replace(item, **changes.get(f"i{i}", {})) for i, item in enumerate(made)])


class TestToolRules:
    CATALOG = tools("fs/read_file", "fs/write_file", "code/search_code", "old/write_file")

    def led(
        self, step: ToolRules, catalog: Catalog = CATALOG, *, first: int = 1, **request: Any
    ) -> list[tuple[int, int]]:
        batch = Batch.of(catalog, [Request(**{"id": "q", "text": "create_issue", **request})])
        chosen = np.arange(len(catalog)) < first
        rows = np.flatnonzero(chosen & batch.eligible[0])
        table = Candidates.build(1, np.zeros(len(rows), np.int64), rows, score=np.linspace(0.9, 0.5, len(rows)))
        table = concatenated([session_rows(batch), table])
        table = step(Query.of_chunks(batch, [["text"]]), table, mock_resources())
        added = (table.mode == Mode.EXPANSION) & table.chosen
        assert set(table.score[added].tolist()) <= {1.0}
        assert set(table.origin[added].tolist()) <= {Origin.EXPANSION}
        return list(zip(table.item[added].tolist(), table.via_item[added].tolist(), strict=True))

    def test_a_rule_brings_in_the_tools_it_names_on_whatever_server(self):
        assert self.led(ToolRules({"read_file": ["write_file", "search_code"]})) == [(1, 0), (2, 0), (3, 0)]

    @pytest.mark.parametrize(
        ("left", "right", "expected"),
        [
            ("fs/read_file", "fs/write_file", [1]),
            ("*/read_file", "*/write_file", [1, 3]),
            ("fs/*", "old/*", [3]),
            ("old/read_file", "fs/write_file", []),
            ("read", "write_file", []),
        ],
    )
    def test_names_with_a_server_and_wildcards(self, left, right, expected):
        assert [item for item, _ in self.led(ToolRules({left: [right]}))] == expected

    def test_servers_and_names_may_hold_slashes(self):
        catalog = tools("a/b/c", "d")
        assert self.led(ToolRules({"a/b/c": ["d"]}), catalog) == [(1, 0)]
        assert self.led(ToolRules({"a/b/*": ["d"]}), catalog) == [(1, 0)]

    def test_of_several_tools_that_lead_the_first_is_named(self):
        step = ToolRules({"read_file": ["search_code"], "fs/write_file": ["search_code"]})
        assert self.led(step, first=2) == [(2, 0)]

    def test_no_rule_leads_further(self):
        assert self.led(ToolRules({"read_file": ["fs/write_file"], "write_file": ["search_code"]})) == [(1, 0)]

    def test_the_agents_rules_stand_over_those_for_everyone(self):
        general = {"read_file": ["write_file"], "search_code": ["read_file"]}
        assert self.led(ToolRules(general, agent={"read_file": ["search_code"]})) == [(2, 0)]
        assert self.led(ToolRules(general, agent={"read_file": []})) == []
        assert self.led(ToolRules(general, agent={"write_file": ["search_code"]})) == [(1, 0), (3, 0)]

    def test_results_lead_where_asked_for(self):
        rule = {"read_file": ["fs/write_file"], "search_code": ["old/write_file"], "gone": ["search_code"]}
        results = (("search_code", "text"),)
        assert self.led(ToolRules(rule), tool_results=results) == [(1, 0)]
        assert self.led(ToolRules(rule, when="result"), tool_results=results) == [(3, 2)]
        assert self.led(ToolRules(rule, when="either"), tool_results=results) == [(1, 0), (3, 2)]
        assert self.led(ToolRules(rule, when="result"), tool_results=(("code/search_code", ""),)) == [(3, 2)]

    def test_a_result_of_a_tool_that_the_catalog_lacks_leads_from_nowhere(self):
        assert self.led(ToolRules({"gone": ["search_code"]}, when="result"), tool_results=(("gone", ""),)) == [(2, -1)]

    def test_tools_of_the_session_lead_where_asked_for(self):
        step, session = ToolRules({"search_code": ["fs/write_file"]}), (SessionItem(self.CATALOG[2].key),)
        assert self.led(step, session=session) == []
        assert self.led(replace(step, session=True), session=session) == [(1, 2)]

    def test_only_what_a_search_might_offer_is_brought_in(self):
        catalog = tools("fs/read_file", "a/t", "b/t", "c/t", "d/t", i1={"include": "manual"}, i2={"enabled": False})
        step = ToolRules({"read_file": ["t", "read_file"]})
        assert self.led(step, catalog, removed=(ItemKey("tool", "c", "t"),)) == [(4, 0)]

    def test_names_that_a_catalog_lacks_do_nothing(self):
        step = ToolRules({"read_file": ["write_fil", "search_code"], "fs/none": ["x/*"]})
        assert self.led(step) == [(2, 0)]
        step.check(self.CATALOG, mock_resources())

    def test_a_catalog_that_no_rule_fits_is_refused(self):
        with pytest.raises(ParameterError, match=r"no tool called 'write_fil'; did you mean 'write_file'"):
            ToolRules({"read_file": ["write_fil"]}).check(self.CATALOG, mock_resources())
        with pytest.raises(ParameterError, match="no tool called 'tool:fs:read_file'"):
            ToolRules({"tool:fs:read_file": ["write_file"]}).check(self.CATALOG, mock_resources())

    def test_the_tool_of_a_result_need_not_be_in_the_catalog(self):
        ToolRules({"elsewhere": ["write_file"]}, when="result").check(self.CATALOG, mock_resources())

    def test_no_tool_and_no_request_bring_nothing_in(self):
        step = ToolRules({"read_file": ["write_file"]})
        assert self.led(step, Catalog([Item(type="rule", name="read_file")])) == []
        empty = Batch.of(self.CATALOG, [])
        assert len(step(Query.of_chunks(empty, []), Candidates.empty(0), mock_resources())) == 0

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"rules": {}}, "there is no rule"),
            ({"rules": {"a": []}}, "there is no rule"),
            ({"rules": {"a": ["b"]}, "agent": {"a": []}}, "there is no rule"),
            ({"rules": {"a": "b"}}, "rules must map a tool's name to a list of names, .* got 'a': 'b'"),
            ({"rules": {"a": [""]}}, "rules must map"),
            ({"rules": {"a": ["b"]}, "agent": {1: ["b"]}}, "agent must map"),
            ({"rules": ["a"]}, "rules must map"),
            ({"rules": {"a": ["b"]}, "when": "result", "session": True}, "session does nothing with when: result"),
        ],
    )
    def test_what_is_no_rule_is_said(self, wrong, message):
        with pytest.raises(ParameterError, match=message):
            ToolRules(**wrong)

    @pytest.mark.parametrize(
        "parameters",
        [
            {"rules": {"create_issue": ["close_issue", "tracker/*"]}},
            {"rules": {"*/create_issue": ["send"]}, "agent": {"a:b/c": ["a/*"]}, "when": "either", "session": True},
            {"rules": {"create_issue": ["close_issue"]}, "when": "result"},
        ],
        ids=str,
    )
    def test_it_conforms(self, parameters):
        check_step("expand", "tool_rules", parameters, processes=0)
