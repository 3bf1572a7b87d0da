"""What a catalog's kinds of items mean for labels from a log."""

from __future__ import annotations

import json

import pytest

from ctxbench.labelling.trace_import import TraceSettings, TraceSource, import_traces
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
    assert not partly([*TOOLS, *others])


def test_beside_other_items_what_was_not_called_is_unknown(partly):
    assert partly([*TOOLS, RULE, MEMORY])


@pytest.mark.parametrize("items", [[], OFF], ids=["nothing", "what no search offers"])
def test_a_catalog_without_anything_to_offer_gives_no_whole_labels(items, partly):
    assert partly([*items, Item(type="tool", name="close", include="always")])
