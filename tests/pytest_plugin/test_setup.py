"""What a setup names."""

from __future__ import annotations

import json
import re
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path

import pytest

from ctxbench.io.errors import UserError
from ctxbench.model.requests import Batch, Request
from ctxbench.pytest_plugin import Setup, open_setup
from ctxbench.pytest_plugin.explanations import ask
from ctxbench.selectors.definition import TunedPreset, definition_hash, parameter_texts
from ctxbench.selectors.definitions import definition, write_presets
from tests.pytest_plugin.plugin_cases import ONE


@pytest.mark.parametrize(
    ("setup", "said"),
    [
        (Setup(), "nothing says which catalog to select from"),
        (Setup(catalog="gone.jsonl"), "no catalog"),
        (Setup(catalog="items.jsonl", selector="semantic/norml"), "unknown preset 'norml' of selector 'semantic'"),
        (Setup(catalog="items.jsonl", selector="gone.yaml#x"), "cannot read .*gone.yaml"),
        (Setup(catalog="items.jsonl", embedder="hash"), "unknown embedder 'hash'; did you mean 'hashing'"),
        (Setup(catalog="items.jsonl", tokens="o20k"), "o20k"),
        (Setup(gate="gone.yaml"), "cannot read .*gone.yaml"),
    ],
)
def test_a_faulty_setup_says_what_is_wrong(root, setup, said):
    with pytest.raises(UserError, match=said):
        open_setup(setup, root)


def test_a_preset_is_named_behind_its_file(root):
    with_presets = "\n".join(
        [
            ONE.replace("n: 1", "n: $n"),
            "parameters:",
            "  n: {default: 1, range: [1, 3]}",
            "presets: {many: {set: {n: 3}}}",
        ]
    )
    (root / "own.yaml").write_text(with_presets)
    semantic = definition("semantic")
    preset = TunedPreset(
        set=semantic.in_force(semantic.values("normal")),
        selector="semantic",
        definition=definition_hash(semantic),
        parameters=parameter_texts(semantic),
    )
    write_presets(root / "tuned.yaml", tuned={"dataset": "desk"}, presets={"small": preset}, test_split="")
    base = Setup(catalog="items.jsonl", embedder="hashing")
    labels = {
        name: open_setup(replace(base, selector=name), root).label
        for name in ("own.yaml#many", "tuned.yaml#small", "semantic/normal", "")
    }
    assert labels == {
        "own.yaml#many": "one/many",
        "tuned.yaml#small": "tuned/small",
        "semantic/normal": "semantic/normal",
        "": "learned",
    }
    many = ask(open_setup(replace(base, selector="own.yaml#many"), root), Request(id="q", text="beta"))
    assert len(many.added) == 3


def test_the_page_lists_every_option(request):
    page = (Path(__file__).parents[2] / "experiments" / "gate" / "pytest.md").read_text("utf-8")
    names = [f"ctxbench_{field.name}" for field in fields(Setup)]
    assert re.findall(r"^\| `(ctxbench_\w+)` \|", page, re.MULTILINE) == names
    assert {request.config.getini(name) for name in names} == {""}  # all of them are ini options


@pytest.mark.parametrize("selector", ["bm25", {"callable": "own.py:select"}])
def test_an_agent_file_is_the_selector_and_the_catalog_where_none_is_named(root, selector):
    (root / "own.py").write_text("def select(request, items):\n    return [items[0]['_id']]\n")
    agent = {"name": "desk", "sources": {"rules": "."}, "include": {"otherwise": "agent"}, "selector": selector}
    (root / "agent.own.yaml").write_text(json.dumps(agent))
    (root / "AGENTS.md").write_text("Be kind to whoever asks.\n")
    opened = open_setup(Setup(selector="agent.own.yaml", embedder="hashing"), root)
    assert (opened.label, opened.catalog_name, opened.catalog.ids) == (
        "agent.own",
        "agent.own.yaml",
        ("rule:AGENTS.md",),
    )
    with closing(opened):
        assert not opened.selector.select(Batch.of(opened.catalog, [Request(id="q", text="be kind")])).errors
    as_catalog = open_setup(Setup(catalog="agent.own.yaml", embedder="hashing"), root)
    assert (as_catalog.label, as_catalog.selector.describe()) == ("agent.own", opened.selector.describe())
    given = open_setup(Setup(catalog="agent.own.yaml", selector="everything", embedder="hashing"), root)
    assert (given.label, given.catalog.ids) == ("everything", opened.catalog.ids)
    other = open_setup(Setup(catalog="items.jsonl", selector="agent.own.yaml", embedder="hashing"), root)
    assert (other.label, other.catalog_name) == ("agent.own", "items.jsonl")
