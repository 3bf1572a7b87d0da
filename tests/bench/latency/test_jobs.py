from __future__ import annotations

import json
from pathlib import Path

from ctxbench.bench.latency.trial_inputs import read_items, read_request, write_items
from ctxbench.core.items import Catalog, Item
from ctxbench.core.requests import Message, Request, SessionItem

CATALOG = Catalog(
    [
        Item(type="tool", name="get_weather", description="Tells the weather of a city.", schema={"type": "object"}),
        Item(type="tool", name="send_mail", server="post", description="Sends a letter to one person."),
        Item(type="rule", name="tone", description="How to write.", text="Be brief.\n\nBe kind to all readers."),
    ]
)


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
