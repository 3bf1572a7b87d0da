from __future__ import annotations

import random

import pytest

from ctxbench.core.items import ItemKey
from ctxbench.data.usage import count_usage

FETCH, SEND, TONE = ItemKey.parse("tool:web:fetch"), ItemKey.parse("tool:mail:send"), ItemKey.parse("rule:tone")


def rows(usage):
    return {item.key.id: (item.offered, item.referenced) for item in usage.items}


def test_offers_and_references_by_item(replies, reply):
    both = ["tool:web:fetch", "rule:tone"]
    usage = count_usage(
        replies(
            reply("By the tone rule.", offered=both, time="2026-03-23T09:30:00+00:00"),
            reply("Done.", offered=both, called=["tool:web:fetch", "tool:web:fetch"]),
            reply("Done.", offered=["rule:tone"], conversation="c2"),
        )
    )
    assert rows(usage) == {"rule:tone": (3, 1), "tool:web:fetch": (2, 1)}
    assert (usage.replies, usage.conversations) == (3, 2)
    tone = next(item for item in usage.items if item.key == TONE)
    assert (tone.conversations, tone.modes) == (2, {"agent": 3})
    (one,) = tone.evidence
    assert (one.kind, one.text, one.time) == ("name", "tone rule", "2026-03-23T09:30:00+00:00")
    assert tone.as_dict()["share"] == pytest.approx(1 / 3)


def test_a_reply_without_words_counts_for_tools_only(replies, reply):
    """Nothing can be cited in it, so a log without texts says nothing against rules and references."""
    both = ["tool:web:fetch", "rule:tone"]
    usage = count_usage(replies(*(reply(text, offered=both) for text in ("", " \n", "Done."))))
    assert rows(usage) == {"tool:web:fetch": (3, 0), "rule:tone": (1, 0)}


def test_tokens_unused_are_those_of_offers_without_a_reference(replies, reply, catalog):
    tokens = {item.key: 10 * (place + 1) for place, item in enumerate(catalog)}
    given = [reply("Done.", called=["tool:web:fetch"] if i == 0 else []) for i in range(4)]
    usage = count_usage(replies(*given), tokens)
    assert {item.key: item.tokens_unused for item in usage.items}[FETCH] == 50 * 3
    assert [item.tokens_unused for item in usage.items] == sorted((i.tokens_unused for i in usage.items), reverse=True)


def test_without_tokens_those_unused_most_often_come_first_and_ties_by_id(replies, reply):
    usage = count_usage(replies(reply("Done.", called=["tool:mail:send"]), reply("Done.", offered=["tool:mail:send"])))
    assert [item.key.id for item in usage.items] == sorted(item.key.id for item in usage.items)
    assert all(item.tokens_unused is None for item in usage.items)


def test_replies_that_do_not_say_what_was_offered_are_counted_apart(replies, reply):
    from dataclasses import replace

    usage = count_usage(replies(replace(reply("the tone rule"), offered=None), reply("no", offered=[])))
    assert (usage.items, usage.replies, usage.without_offers) == ((), 1, 1)


def test_calls_of_what_was_not_offered_and_unknown_names_are_counted_apart(replies, reply):
    usage = count_usage(
        replies(
            reply("x", offered=["rule:tone"], called=["tool:web:fetch"], unknown=("zap", "zap")),
            reply("x", offered=["rule:tone"], called=["tool:web:fetch"], unknown=("zap",)),
        )
    )
    assert usage.not_offered == {FETCH: 2}
    assert usage.unknown == {"zap": 2}
    assert rows(usage) == {"rule:tone": (2, 0)}


def test_no_replies_count_nothing(replies):
    usage = count_usage(replies())
    assert (usage.items, usage.replies, usage.as_dict()["items"]) == ((), 0, [])


def test_the_order_of_offers_does_not_matter(catalog, replies, reply):
    ids = list(catalog.ids)
    expected = count_usage(replies(reply("the tone rule"))).as_dict()
    for seed in range(5):
        random.Random(seed).shuffle(ids)
        assert count_usage(replies(reply("the tone rule", offered=ids))).as_dict() == expected
