"""Steps that price ask for the tokens of what they need alone, and never read those of another item."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ctxbench.model.candidates import Candidates
from ctxbench.model.items import Catalog, Item, ItemKey
from ctxbench.model.requests import Batch, Request, SessionItem, whole_texts
from ctxbench.model.selection import concatenated, session_rows
from ctxbench.pipelines.strategies.pack import Budget, Outline, Truncate, WholeFile
from ctxbench.pipelines.strategies.rank import Price
from ctxbench.search.resources import TokenCounts
from ctxbench.testing import mock_resources

STEPS = [
    Budget(60),
    Budget(60, skip=True),
    Budget(60, session=True),
    Truncate(9),
    Price(),
    WholeFile(60, share=0.5),
    WholeFile(60, share=1.0, per_token=0.3),
    Outline(60, n=1),
]
SENTINEL = 10**12


@pytest.fixture
def asked(monkeypatch):
    """The items whose tokens are asked for; of all others they are told to be too many for any budget."""
    found: list[int] = []
    count = TokenCounts.__call__

    def poisoned(self, catalog, items=None):
        known = count(self, catalog, items)
        needed = np.arange(len(catalog)) if items is None else items
        found.extend(needed.tolist())
        out = np.full(len(catalog), SENTINEL, dtype=np.int64)
        out[needed] = known[needed]
        return out

    def switch(on: bool) -> list[int]:
        monkeypatch.setattr(TokenCounts, "__call__", poisoned if on else count)
        return found

    return switch


def drawn(draw: random.Random):
    """A batch of two requests over some files with definitions, and candidates of which some are cut."""
    items = []
    for n in range(8):
        path = f"m{n}.py"
        items.append(Item(type="file", name=path, text=f"{path}\n\n{'word ' * draw.randrange(30)}"))
        items += [
            Item(type="chunk", name=f"{path}::f{part}", title=path, text=f"{path}\n\n{'code ' * draw.randrange(30)}")
            for part in range(draw.randrange(4))
        ]
    catalog = Catalog(items)
    others = [place for place, one in enumerate(items) if one.name != "m4.py"]
    held = (SessionItem(ItemKey("file", None, "m4.py")),)
    batch = Batch.of(catalog, [Request(id="a", text="x", session=held), Request(id="b", text="x")])
    item = [one for _ in range(2) for one in draw.sample(others, k=4)]
    score = [draw.random() for _ in item]
    table = Candidates.build(2, np.repeat([0, 1], 4), np.array(item), score=np.array(score))
    table = table.exclude(np.array([draw.random() < 0.3 for _ in item]), "cut")
    return whole_texts(batch), concatenated([session_rows(batch), table])


def told(table: Candidates) -> list[tuple]:
    columns = (table.request, table.item, table.chosen, table.score, table.shown_from, table.shown_to, table.tokens)
    return [tuple(map(repr, row)) for row in zip(*(column.tolist() for column in columns), strict=True)]


@pytest.mark.parametrize("step", STEPS, ids=repr)
def test_prices_of_other_items_are_neither_asked_for_nor_read(step, asked):
    draw, most = random.Random(3), 0
    for _ in range(40):
        query, table = drawn(draw)
        asked(False)
        expected = told(step(query, table, mock_resources()))
        found = asked(True)
        found.clear()
        assert told(step(query, table, mock_resources())) == expected
        paths = {query.batch.catalog[place].path for place in table.item.tolist()}
        assert {query.batch.catalog[place].path for place in found} <= paths
        most = max(most, len(query.batch.catalog) - len(set(found)))
    assert most > 3  # some were not asked for
