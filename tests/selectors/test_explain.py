"""One request explained: the winning pair of texts of what is in, the rule for what stayed out."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ctxbench.io.errors import InputError
from ctxbench.model.candidates import Rule
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Request, SessionItem
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.search.dense import chunks_of
from ctxbench.search.embedders import HashingEmbedder, Vectors
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import CharsCounter
from ctxbench.selectors.definitions import definition
from ctxbench.selectors.explain import explain

CALENDAR = Item(
    type="reference",
    name="calendar",
    description="Dates",
    text="The spring release is frozen in March.\n\nThe autumn release follows in October.",
)
LANGUAGE = Item(type="rule", name="language", text="Answer in English.", include="always")
FREEZE = Item(type="tool", name="freeze", server="ci", description="Freeze a release", schema={"type": "object"})
WEATHER = Item(type="tool", name="forecast", server="w", description="Weather of a city")
RETIRED = Item(type="tool", name="retired", description="Freeze a release", enabled=False)
CATALOG = Catalog([CALENDAR, LANGUAGE, FREEZE, WEATHER, RETIRED])


@pytest.fixture
def resources():
    return LocalResources(Vectors(HashingEmbedder(), None), CharsCounter())


def explained(resources, text, *, selector="semantic", given=None, **request):
    found = definition(selector)
    pipeline = found.pipeline(found.values(None, given))
    return explain(pipeline, CATALOG, Request(id="r", text=text, **request), resources)


def test_the_winning_pair_is_given_as_texts(resources):
    text = "When does it follow in October?\nSay it in short: the autumn release."
    found = explained(resources, text, given={"contextTopN": 1, "contextIncludeScore": 1.0})
    session, calendar = found.chosen
    assert (session.item, session.offered.origin, session.item_chunk) == (LANGUAGE, "session", "")
    assert calendar.item is CALENDAR
    assert calendar.item_chunk == "The autumn release follows in October."
    assert calendar.query_chunk in found.chunks
    words = calendar.query_chunk, calendar.item_chunk
    left, right = resources.vectors(words).astype(np.float64)
    assert calendar.offered.score == pytest.approx(float(left @ right), abs=1e-12)


def test_the_pair_is_told_in_the_chunks_that_were_searched(resources):
    spec = {"retrieve": {"dense": {"chunks": {"windows": {"size": 4, "overlap": 0}}}}, "refine": [{"first": {"n": 1}}]}
    found = explain(Pipeline.of(spec), CATALOG, Request(id="r", text="frozen in March"), resources)
    assert found.chosen[1].item is CALENDAR
    assert found.chosen[1].item_chunk == "release is frozen in"


def test_bm25_tells_the_matched_words_as_they_were_asked_with_their_shares(resources):
    freeze, calendar = explained(resources, "Releases to freeze in October", selector="bm25").chosen[1:3]
    assert (set(freeze.words), set(calendar.words)) == ({"releases", "freeze"}, {"releases", "october"})
    assert [sum(entry.words.values()) for entry in (freeze, calendar)] == pytest.approx([1.0, 1.0])
    assert list(freeze.words) == ["freeze", "releases"]  # the rarer word gives more
    assert freeze.as_dict()["words"] == freeze.words
    assert "shares" not in freeze.as_dict()


def test_hybrid_tells_what_each_of_its_features_gives(resources):
    found = explained(resources, "freeze the release", selector="hybrid", given={"n": 1}).chosen[1]
    assert found.item is FREEZE
    assert set(found.shares) == {"similarity.score", "fields.bm25_share", "fields.name", "fields.description"}
    assert sum(map(abs, found.shares.values())) == pytest.approx(1.0)
    assert found.shares["fields.bm25_share"] == pytest.approx(0.5 / found.offered.score)  # the best by words
    assert set(found.words) == {"freeze", "release"}


def test_where_the_score_is_no_sum_nothing_is_told_of_it(resources):
    found = explained(resources, "freeze the release").chosen[1]
    assert (found.shares, found.words, found.factor) == ({}, {}, 1.0)


def test_where_an_item_led_here_its_name_and_its_chunk_are_given(resources):
    spec = {
        "retrieve": {"dense": {"chunks": {"windows": {"size": 4, "overlap": 0}}}},
        "refine": [{"first": {"n": 1}}, {"expansion": {"threshold": 0.2, "topN": 1}}],
    }
    found = explain(Pipeline.of(spec), CATALOG, Request(id="r", text="frozen in March"), resources)
    _, calendar, brought = found.chosen
    assert (calendar.item, brought.item) == (CALENDAR, FREEZE)
    assert (brought.offered.mode, brought.offered.via) == ("expansion", CALENDAR.id)
    # an expansion compares the documents' chunks, however the search split items; both share the word "release"
    assert brought.query_chunk in chunks_of(CALENDAR)
    assert "release" in brought.query_chunk
    assert brought.item_chunk == "freeze: Freeze a release"
    row = brought.as_dict()
    assert (row["via"], row["pair"]["query_chunk"]) == (CALENDAR.id, brought.query_chunk)


def test_what_stayed_out_has_its_rule_the_nearest_first(resources):
    found = explained(resources, "freeze the release", given={"contextTopN": 1, "contextIncludeScore": 1.0})
    assert [one.item.name for one in found.chosen] == ["language", "freeze"]
    out = found.left_out
    assert out[0].item is CALENDAR
    assert {one.offered.rule for one in out} <= {Rule.of("topN", topN=1, includeScore=1.0), Rule.of("positive")}
    scores = [one.offered.score for one in out]
    assert scores == sorted(scores, reverse=True)
    assert {one.item.name for one in (*found.chosen, *out)} == {"calendar", "language", "freeze", "forecast"}


def test_tokens_are_those_of_the_prompt_texts(resources):
    found = explained(resources, "freeze the release", given={"contextTopN": 1, "contextIncludeScore": 1.0})
    assert [one.tokens for one in found.chosen] == [(len(i.prompt_text) + 3) // 4 for i in (LANGUAGE, FREEZE)]
    assert found.prompt_tokens == sum(one.tokens for one in found.chosen if one.offered.origin != "session")
    assert found.total_tokens == sum(one.tokens for one in found.chosen)


def test_eligible_counts_what_a_search_may_offer(resources):
    assert explained(resources, "release").eligible == 3  # neither the retired nor the one the session holds
    assert explained(resources, "release", available=(FREEZE.key,)).eligible == 1
    assert explained(resources, "release", session=(SessionItem(FREEZE.key),)).eligible == 2


def test_the_prompt_is_what_the_model_would_be_sent(resources):
    found = explained(resources, "freeze the release", given={"contextTopN": 1, "contextIncludeScore": 1.0})
    assert found.prompt.messages[-1] == ("user", "freeze the release")
    assert [tool["name"] for tool in found.prompt.tools] == ["freeze"]


def test_a_blank_request_offers_what_the_session_holds(resources):
    found = explained(resources, " \n ")
    assert found.chunks == ()
    assert [one.item for one in found.chosen] == [LANGUAGE]
    assert found.left_out == ()


def test_a_selector_without_chunks_of_the_request_has_no_pairs(resources):
    found = explained(resources, "freeze the release", selector="bm25", given={"n": 1})
    assert [one.item.name for one in found.chosen] == ["language", "freeze"]
    assert all(one.query_chunk == one.item_chunk == "" for one in found.chosen)
    assert found.left_out[0].item is CALENDAR
    assert str(found.left_out[0].offered.rule) == "beyond the first n=1"


def test_as_json_it_names_texts_instead_of_places_and_shows_only_the_nearest(resources):
    found = explained(resources, "freeze the release", given={"contextTopN": 1, "contextIncludeScore": 1.0})
    row = found.as_dict(near=1)
    assert json.loads(json.dumps(row, allow_nan=False)) == row
    assert len(row["left_out"]) == 1
    session, chosen = row["items"]
    assert "pair" not in session
    assert "score" not in session
    assert chosen["pair"] == {"query_chunk": "freeze the release", "item_chunk": "freeze: Freeze a release"}
    assert row["request_context"]["items"][1] == {
        "type": "tool", "name": "freeze", "serverName": "ci", "includeMode": "agent",
        "similarityScore": chosen["score"],
    }  # fmt: skip
    assert (row["eligible"], row["chunks"]) == (3, ["freeze the release"])


def test_no_item_that_stayed_out_is_shown_if_none_is_asked_for(resources):
    assert explained(resources, "freeze the release").as_dict(near=0)["left_out"] == []


def test_an_item_that_the_catalog_lacks_is_an_error(resources):
    with pytest.raises(InputError, match="available names 'tool:gone', which the catalog does not hold"):
        explained(resources, "x", available=(Item(type="tool", name="gone").key,))


def test_an_empty_catalog_is_explained(resources):
    pipeline = definition("semantic").pipeline(definition("semantic").values())
    found = explain(pipeline, Catalog([]), Request(id="r", text="freeze"), resources)
    assert (found.chosen, found.left_out, found.eligible, found.prompt_tokens) == ((), (), 0, 0)
