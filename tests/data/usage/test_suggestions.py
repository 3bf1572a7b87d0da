from __future__ import annotations

from dataclasses import replace

import pytest

from ctxbench.bench.stats.intervals import wilson
from ctxbench.core.errors import ParameterError
from ctxbench.core.items import Catalog, Item, ItemKey
from ctxbench.data.usage import EvidenceThreshold, Replies, count_usage, suggest_fewer_offers


@pytest.fixture
def suggest(catalog, replies, reply):
    """Suggestions after n replies of m conversations that reference nothing, for items of one mode."""

    def made(n, m=5, *, mode="agent", ids=("tool:web:fetch",), enough=None, tokens=None):
        given = [reply("Done.", offered=ids, conversation=f"c{i % m}") for i in range(n)]
        given = [replace(one, offered=dict.fromkeys(one.offered, mode)) for one in given]
        return suggest_fewer_offers(count_usage(replies(*given), tokens), catalog, enough)

    return made


class TestEnough:
    @pytest.mark.parametrize(("share", "needed"), [(0.1, 35), (0.05, 73), (0.5, 20), (0.01, 381)])
    def test_the_offers_needed_are_those_of_wilson_s_interval(self, share, needed):
        # 3.8415 x (1 - share) / share: 34.6, 73.0 (72.99), 3.8 (and at least 20), 380.3
        enough = EvidenceThreshold(share=share)
        assert enough.needed == needed
        assert wilson(0, needed).high <= share
        if needed > enough.offers:
            assert wilson(0, needed - 1).high > share

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"share": 0.0}, "share must lie between 0 and 1, got 0.0"),
            ({"share": 1.0}, "share must lie between 0 and 1, got 1.0"),
            ({"offers": 0}, "offers must be 1 or more, got 0"),
            ({"conversations": 0}, "conversations must be 1 or more, got 0"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, fields, message):
        with pytest.raises(ParameterError, match=message):
            EvidenceThreshold(**fields)


class TestSuggestions:
    def test_with_evidence_enough_one_is_made(self, suggest):
        found = suggest(35)
        (one,) = found.suggestions
        assert (one.key.id, one.action) == ("tool:web:fetch", "set its include mode to manual")
        assert one.why == "never called in 35 offers of 5 conversations"
        assert one.upper == pytest.approx(3.8415 / (35 + 3.8415), abs=1e-4)
        assert found.pending == ()

    def test_with_too_little_it_waits_and_says_for_what(self, suggest):
        (one,) = suggest(34).pending
        assert (one.more_offers, one.more_conversations) == (1, 0)
        (one,) = suggest(40, 3).pending
        assert (one.more_offers, one.more_conversations) == (0, 2)
        assert suggest(34).suggestions == ()

    @pytest.mark.parametrize(
        ("mode", "action"),
        [
            ("always", "set its include mode to agent"),
            ("manual", "remove it from the session"),
            ("agent", "set its include mode to manual"),
            ("expansion", "set its include mode to manual"),
        ],
    )
    def test_what_to_do_follows_from_how_it_came_in(self, suggest, mode, action):
        assert suggest(40, mode=mode).suggestions[0].action == action

    def test_where_no_file_says_how_the_catalog_does(self, suggest):
        found = suggest(40, mode="", ids=("rule:tone", "tool:web:fetch"))
        assert {one.key.id: one.action for one in found.suggestions} == {
            "rule:tone": "set its include mode to agent",
            "tool:web:fetch": "set its include mode to manual",
        }

    def test_of_what_is_no_tool_it_says_what_the_counts_cannot_show(self, suggest):
        (one,) = suggest(40, ids=("rule:tone",)).suggestions
        assert one.why.endswith(
            "never cited or quoted in 40 offers of 5 conversations; it may be followed without a word"
        )

    def test_what_is_referenced_once_is_not_suggested(self, catalog, replies, reply):
        given = [reply("Done.", called=["tool:web:fetch"] if i == 3 else [], conversation=str(i)) for i in range(99)]
        found = suggest_fewer_offers(count_usage(replies(*given)), catalog)
        assert "tool:web:fetch" not in {one.key.id for one in (*found.suggestions, *found.pending)}

    def test_tokens_saved_are_those_of_all_offers(self, suggest, catalog):
        tokens = {item.key: 7 for item in catalog}
        found = suggest(40, ids=("tool:web:fetch", "tool:mail:send"), tokens=tokens)
        assert [one.saved for one in found.suggestions] == [280, 280]
        assert found.saved == 560
        assert suggest(40).saved is None

    def test_where_a_text_is_not_known_nothing_is_said_of_it(self, reply):
        catalog = Catalog([Item(type="rule", name="tone"), Item(type="tool", name="fetch")])
        given = tuple(reply("Done.", offered=catalog.ids, conversation=f"c{i}") for i in range(40))
        found = suggest_fewer_offers(count_usage(Replies(replies=given, catalog=catalog)), catalog)
        assert [one.key.id for one in found.suggestions] == ["tool:fetch"]
        assert found.not_judged == (ItemKey("rule", None, "tone"),)

    def test_those_that_need_least_come_first(self, catalog, replies, reply):
        given = [reply("x", offered=["tool:web:fetch"], conversation=str(i)) for i in range(10)]
        given += [reply("x", offered=["tool:mail:send"], conversation=str(i)) for i in range(20)]
        found = suggest_fewer_offers(count_usage(replies(*given)), catalog)
        assert [(one.key.name, one.more_offers) for one in found.pending] == [("send", 15), ("fetch", 25)]

    def test_of_nothing_nothing_is_suggested(self, suggest):
        found = suggest(0)
        assert (found.suggestions, found.pending, found.saved) == ((), (), None)
