"""What a catalog's kinds of items mean for labels from a log: what is said is what the import does."""

from __future__ import annotations

import json

import pytest

from ctxbench.labelling.trace_import import TraceSettings, TraceSource, import_traces
from ctxbench.labelling.trace_labels import kind_lines
from ctxbench.model.items import Catalog, Item

TOOLS = [Item(type="tool", server="s", name=name) for name in ("open", "close")]
RULE, MEMORY = Item(type="rule", name="style", text="x"), Item(type="memory", name="m", text="x")
OFF = [
    Item(type="rule", name="off", text="x", enabled=False),
    Item(type="rule", name="always", text="x", include="always"),
    Item(type="rule", name="by hand", text="x", include="manual"),
]


@pytest.fixture
def partly(tmp_path):
    """Whether a turn that was offered everything and called one tool is labelled partly."""

    def call(items):
        turn = {"conversation": "c", "text": "close it", "offered": "*", "called": ["close"]}
        (tmp_path / "log.jsonl").write_text(json.dumps(turn) + "\n")
        source = TraceSource(logs=(tmp_path / "log.jsonl",), catalog=Catalog(items))
        (query,) = import_traces(source, TraceSettings(name="x"), redact=None).dataset.queries
        return query.partly_labelled

    return call


@pytest.mark.parametrize("others", [[], OFF], ids=["tools", "with what no search offers"])
def test_over_tools_alone_what_was_not_called_is_not_needed(others, partly):
    first, second = kind_lines([*TOOLS, *others])
    assert first == (
        "What a request did not call counts as not needed where it was offered all that it may get: of what is "
        "searched, the catalog holds tools alone (2), so such a request can be labelled wholly."
    )
    assert second == "Elsewhere it counts as unknown, and the request is labelled partly or not at all."
    assert not partly([*TOOLS, *others])


def test_beside_other_items_what_was_not_called_is_unknown(partly):
    first, second = kind_lines([*TOOLS, RULE, MEMORY])
    assert first.startswith("What a request did not call counts as unknown, not as not needed: the catalog holds ")
    assert first.endswith(" 1 rule and 1 memory beside 2 tools, and no log shows when what is no tool is needed.")
    assert second.startswith("Only requests that may get tools alone can be labelled wholly")
    assert partly([*TOOLS, RULE, MEMORY])


def test_without_tools_no_catalog_of_tools_is_advised():
    (line,) = kind_lines([RULE, MEMORY, Item(type="memory", name="n", text="x")])
    assert "the catalog holds 1 rule and 2 memories and no tools, and no log shows when" in line


@pytest.mark.parametrize("items", [[], OFF], ids=["nothing", "what no search offers"])
def test_a_catalog_without_anything_to_offer_gives_no_whole_labels(items, partly):
    (line,) = kind_lines(items)
    assert line.startswith("What a request did not call counts as unknown, and no request is labelled wholly")
    assert partly([*items, Item(type="tool", name="close", include="always")])
