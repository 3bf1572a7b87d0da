"""A source that fails where somebody waits: what `select`, a session and a failed assertion say of it."""

from __future__ import annotations

import sys
import types

import pytest

from ctxbench import testing
from ctxbench.model import registry
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Request
from ctxbench.pytest_plugin.explanations import ask, report
from ctxbench.selectors.definitions import read_definition
from ctxbench.selectors.session import Agent, Session

STEPS = """
from dataclasses import dataclass, replace
import ctxbench as cb


@dataclass(frozen=True)
class Down(cb.Strategy):
    def __call__(self, query, resources):
        raise cb.SelectorError("no route to host")


@dataclass(frozen=True)
class Plan(cb.Strategy):
    def __call__(self, batch, resources):
        note = cb.Note("plan", "fell back", "no model answered; the whole text was taken")
        return replace(cb.Query.of_chunks(batch, [[one.text] for one in batch.requests]), notes=(note,))
"""
TOLD = "retrieve.wiki failed: no route to host; the other sources answered without it"
FELL_BACK = "plan fell back: no model answered; the whole text was taken"


@pytest.fixture
def down(place, monkeypatch):
    (place / "down_steps.py").write_text(STEPS)
    info = place / "down_steps-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: down_steps\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[ctxbench.retrieve]\ndown = down_steps:Down\n[ctxbench.analyse]\nplanner = down_steps:Plan\n"
    )
    monkeypatch.syspath_prepend(str(place))
    registry._plugins.cache_clear()
    (place / "down.yaml").write_text(
        "name: down\npipeline:\n  retrieve:\n    merge: {words: bm25, wiki: down}\n    seconds: 30\n"
    )
    (place / "plan.yaml").write_text("name: planned\npipeline: {analyse: planner, retrieve: bm25}\n")
    yield place
    sys.modules.pop("down_steps", None)
    registry._plugins.cache_clear()


def test_select_tells_it_and_a_run_does_not_go_on(down, cli, tiny):
    asked = ("select", "open an issue", "--catalog", tiny, "--selector", "down.yaml", "--embedder", "hashing")
    done = cli(*asked)
    assert (done.code, done.out.splitlines()[1]) == (0, TOLD), done.err
    (note,) = cli(*asked, "--json").json["trace"]
    assert (note["step"], note["kind"]) == ("retrieve.wiki", "failed")
    (down / "e.yaml").write_text(
        f"name: e\ndatasets: [{tiny}]\nembedder: hashing\nselectors:\n  - {{selector: down.yaml}}\n"
    )
    done = cli("run", "e.yaml")
    assert done.code != 0
    assert "no route to host" in done.err


def test_runs_keep_what_fell_back(down, cli, tiny):
    (down / "e.yaml").write_text(
        f"name: e\ndatasets: [{tiny}]\nembedder: hashing\nselectors:\n  - {{selector: plan.yaml}}\n"
    )
    assert (done := cli("run", "e.yaml")).code == 0, done.err
    (rows,) = (down / "runs/e").rglob("selections.jsonl")
    assert rows.read_text().count('"fell back"') == len(rows.read_text().splitlines())


def test_a_session_warns_and_answers(down):
    agent = Agent(
        catalog=Catalog([Item(type="rule", name="refunds", description="refund an order")]),
        selector=read_definition(down / "down.yaml"),
    )
    context = Session.start(agent, "c").request("refund", testing.mock_resources())
    assert context.warnings == (TOLD,)
    assert [one.id for one in context.selection.chosen] == ["rule:refunds"]


def test_a_failed_assertion_says_what_fell_back(down):
    from ctxbench.pytest_plugin import Setup, open_setup

    (down / "items.jsonl").write_text('{"_id": "rule:refunds", "description": "refund an order"}\n')
    opened = open_setup(Setup(catalog="items.jsonl", selector="plan.yaml", embedder="hashing"), down)
    asked = ask(opened, Request(id="q", text="refund"))
    assert FELL_BACK in [line.strip() for line in report("not offered", asked, []).splitlines()]
    assert isinstance(sys.modules["down_steps"], types.ModuleType)
