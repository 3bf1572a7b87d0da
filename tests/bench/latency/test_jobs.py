from __future__ import annotations

import json
from pathlib import Path

import pytest

from ctxbench.bench.latency.jobs import read_items, read_request, spec_of, write_items
from ctxbench.core.items import Catalog, Item
from ctxbench.core.pipeline import Pipeline
from ctxbench.core.requests import Message, Request, SessionItem
from ctxbench.selectors.definitions import definition, shipped

CATALOG = Catalog(
    [
        Item(type="tool", name="get_weather", description="Tells the weather of a city.", schema={"type": "object"}),
        Item(type="tool", name="send_mail", server="post", description="Sends a letter to one person."),
        Item(type="rule", name="tone", description="How to write.", text="Be brief.\n\nBe kind to all readers."),
    ]
)


@pytest.mark.parametrize("name", shipped())
def test_a_pipeline_is_rebuilt_from_its_specification(name: str) -> None:
    found = definition(name)
    pipeline = found.pipeline(found.values())
    spec = json.loads(json.dumps(spec_of(pipeline)))
    assert Pipeline.of(spec) == pipeline


def test_combinators_are_rebuilt() -> None:
    pipeline = Pipeline.of(
        {
            "analyse": ["sentences", {"history": {"turns": 2}}],
            "retrieve": {"merge": {"near": {"dense": {"depth": 30}}, "words": "bm25"}},
            "refine": [{"by_domain": {"tool": [{"first": {"n": 2}}], "rule, reference": [], "*": []}}],
        }
    )
    assert Pipeline.of(spec_of(pipeline)) == pipeline


def test_items_and_requests_arrive_as_they_were_sent(tmp_path: Path) -> None:
    write_items(CATALOG, tmp_path / "items.jsonl")
    assert tuple(read_items(tmp_path / "items.jsonl")) == tuple(CATALOG)
    assert read_items(tmp_path / "items.jsonl").hash == CATALOG.hash
    request = Request(
        id="q",
        text="t",
        history=(Message("user", "hello"),),
        session=(SessionItem(CATALOG[2].key, "always"),),
        explicit=(CATALOG[1].key,),
        tool_results=(("get_weather", "rain"),),
        turn=2,
    )
    assert read_request(json.loads(json.dumps(request.as_dict()))) == request
