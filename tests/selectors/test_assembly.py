"""The selector `assembly`: what document 002 asks of the whole of it."""

from __future__ import annotations

import pytest

from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Request
from ctxbench.model.selection import selections
from ctxbench.selectors.definitions import definition
from ctxbench.testing import mock_resources

SHIPPED = definition("assembly")


def offered(items, request, *, preset=None, **values):
    """What one request is offered: ids, best first."""
    pipeline, resources = SHIPPED.pipeline(SHIPPED.values(preset, values)), mock_resources()
    outcome = pipeline.run(Batch.of(Catalog(items), [request]), resources)
    (found,) = selections(outcome.query, outcome.candidates)
    return [one.id for one in found.chosen], pipeline.prompts(outcome, resources)[0]


def file(name, text="How the server is set up.", **facts):
    return Item(type="file", name=name, text=text, **facts)


@pytest.mark.parametrize("preset", [None, "spec", "embeddings"])
def test_of_equal_texts_the_reference_ranks_first(preset):
    files = [file(name) for name in ("a.md", "b.md", "c.md")]
    request = Request(id="q", text="server setup", explicit=(files[2].key,))
    assert offered(files, request, preset=preset)[0][0] == "file:c.md"


@pytest.mark.parametrize("preset", [None, "spec", "embeddings"])
def test_every_source_brings_what_it_is_for_and_nobody_elses(preset):
    said = {"type": "message", "text": "We set it up on Monday.", "conversation": "t", "kind": "user"}
    items = [
        file("notes/named.md", "Something else.", include="manual"),
        file("found.md"),
        file("open.md", "Nothing of it."),
        file("other.md", user="ben"),
        file("unasked.md", "Nothing at all."),
        Item(name="m1", user="ana", **said),
        Item(name="m2", user="ben", **said),
    ]
    named, _, recent, *_ = (item.key for item in items)
    request = Request(id="q", text="server setup", user="ana", conversation="t", explicit=(named,), recent=(recent,))
    assert sorted(offered(items, request, preset=preset)[0]) == [
        "file:found.md",
        "file:notes%2Fnamed.md",
        "file:open.md",
        "message:m1",
    ]


def test_the_text_cites_what_is_offered_within_the_budget():
    files = [file(f"{n}.md", f"server {n} " * 40) for n in range(20)]
    ids, prompt = offered(files, Request(id="q", text="server"), tokens=300, reserved=100)
    assert 0 < len(ids) < 20
    assert prompt.context.count("[fil-") == len(ids)
    assert mock_resources().text_tokens([prompt.context])[0] <= 200
