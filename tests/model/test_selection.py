from __future__ import annotations

import numpy as np
import pytest

from ctxbench.model.candidates import Candidates, Mode, Origin, Rule
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Query, Request
from ctxbench.model.selection import Offered, Pair, Selection, origin_name, selections

TOO_FAR = Rule.of("too far", limit=0.3)
CATALOG = Catalog(
    [
        Item(type="rule", name="held", include="always"),
        Item(type="tool", server="s", name="a b"),
        Item(type="reference", name="c"),
        Item(type="rule", name="d"),
    ]
)


def answered() -> tuple[Selection, ...]:
    batch = Batch.of(CATALOG, [Request(id="none", text="", session=()), Request(id="q", text="x")])
    table = Candidates.build(
        2,
        np.array([1, 1, 1, 1]),
        np.array([0, 1, 2, 3]),
        score=np.array([np.nan, 0.75, 0.5, 0.25]),
        origin=np.array([Origin.SESSION, Origin.SEARCH, Origin.EXPANSION + 1, Origin.SEARCH]),
        mode=np.array([Mode.ALWAYS, Mode.AGENT, Mode.EXPANSION, Mode.AGENT]),
        query_chunk=np.array([-1, 0, -1, -1]),
        item_chunk=np.array([-1, 0, 2, 0]),
        via_item=np.array([-1, -1, 1, -1]),
    )
    return selections(Query.of_chunks(batch, [[], ["x"]]), table.exclude(table.score == 0.25, TOO_FAR))


def test_every_item_in_has_its_provenance_and_every_item_out_its_rule():
    assert answered()[1] == Selection(
        query="q",
        chosen=(
            Offered(id="rule:held", score=None, mode="always", origin="session"),
            Offered(id="tool:s:a%20b", score=0.75, mode="agent", origin="search", pair=Pair(0, 0)),
            Offered(id="reference:c", score=0.5, mode="expansion", origin="expansion", via="tool:s:a%20b"),
        ),
        left_out=(Offered(id="rule:d", score=0.25, mode="agent", origin="search", rule=TOO_FAR),),
    )


def test_a_request_without_candidates_has_an_empty_selection():
    assert answered()[0] == Selection(query="none", chosen=(), left_out=())


def test_half_a_pair_is_no_pair():
    assert answered()[1].left_out[0].pair is None


def test_the_request_context_is_that_of_the_documents():
    assert answered()[1].request_context(CATALOG) == {
        "items": [
            {"type": "rule", "name": "held", "includeMode": "always"},
            {"type": "tool", "name": "a b", "serverName": "s", "includeMode": "agent", "similarityScore": 0.75},
            {"type": "reference", "name": "c", "includeMode": "expansion", "similarityScore": 0.5},
        ]
    }


def test_the_json_of_a_candidate_leaves_out_what_is_empty():
    chosen, (out,) = answered()[1].chosen, answered()[1].left_out
    assert chosen[0].as_dict() == {"id": "rule:held", "mode": "always", "origin": "session"}
    assert chosen[1].as_dict() == {
        "id": "tool:s:a%20b", "score": 0.75, "mode": "agent", "origin": "search", "pair": [0, 0],
    }  # fmt: skip
    assert chosen[2].as_dict()["via"] == "tool:s:a%20b"
    assert out.as_dict()["rule"] == "too far (limit=0.3)"
    assert out.as_dict()["exclusion_rule"] == {"code": "too far", "values": {"limit": 0.3}}


@pytest.mark.parametrize(("origin", "name"), [(0, "session"), (1, "search"), (2, "expansion"), (5, "expansion")])
def test_every_expansion_pass_has_one_name(origin, name):
    assert origin_name(origin) == name
