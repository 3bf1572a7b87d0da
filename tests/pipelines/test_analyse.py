from __future__ import annotations

import pytest

from ctxbench import testing
from ctxbench.io.errors import ParameterError
from ctxbench.model.items import Catalog
from ctxbench.model.requests import Batch, ChunkKind, Message, Request
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.pipelines.strategies.analyse import Clauses, History, Keywords, Sentences, ToolResults, Whole, Windows

OF_TEXT = [Sentences(), Sentences(rule="marked"), Clauses(), Windows(), Whole()]


def chunks(step, *texts: str) -> list[tuple[str, ...]]:
    batch = Batch.of(Catalog([]), [Request(id=str(n), text=text) for n, text in enumerate(texts)])
    query = step(batch, testing.mock_resources())
    return [query.chunks(row) for row in range(len(texts))]


def test_sentences_are_split_by_the_documents_rule():
    # the run of marks and the white space behind it are lost; marks at the very end stay
    assert chunks(Sentences(), "One two.  Three!? Four.", "e.g. 2.4") == [
        ("One two", "Three", "Four."), ("e.g", "2.4"),
    ]  # fmt: skip


def test_a_sentence_is_cut_at_the_limit():
    assert chunks(Sentences(), "a" * 501) == [("a" * 500,)]
    assert chunks(Sentences(limit=3), "abcdef. gh") == [("abc", "gh")]


def test_the_whole_text_is_one_chunk_untouched():
    text = " One two.  Three! "
    assert chunks(Whole(), text) == [(text,)]


@pytest.mark.parametrize("step", OF_TEXT)
def test_a_blank_request_has_no_chunk(step):
    assert chunks(step, "", " \n\ufeff\u00a0 ", "x") == [(), (), ("x",)]


def test_marks_alone_are_no_sentence_but_a_whole_text():
    assert chunks(Sentences(), "?! ") == [()]
    assert chunks(Whole(), "?! ") == [("?! ",)]


@pytest.mark.parametrize("step", OF_TEXT)
def test_no_request_has_no_chunk(step):
    assert chunks(step) == []


@pytest.mark.parametrize("step", OF_TEXT)
def test_requests_in_another_order_have_their_own_chunks(step):
    texts = ["one. two", "", "three"]
    assert chunks(step, *reversed(texts)) == list(reversed(chunks(step, *texts)))


@pytest.mark.parametrize("step", [Sentences, Clauses, ToolResults])
def test_a_limit_below_one_is_an_error(step):
    with pytest.raises(ParameterError, match="limit must be 1 or more, got 0"):
        step(limit=0)


def test_the_marked_rule_keeps_marks_and_abbreviations():
    assert chunks(Sentences(rule="marked"), "Ask Dr. Day, e.g. on v2.4. Then go!") == [
        ("Ask Dr. Day, e.g. on v2.4.", "Then go!"),
    ]  # fmt: skip
    assert chunks(Sentences(rule="marked", limit=6), "one two three") == [("one", "two", "three")]


def test_clauses_are_split_where_they_are_joined():
    assert chunks(Clauses(), "Find a flight; and then book a hotel.\n- buy milk") == [
        ("Find a flight", "book a hotel.", "buy milk"),
    ]  # fmt: skip
    assert chunks(Clauses(shortest=5), "Find a flight; and then book a hotel.") == [
        ("Find a flight; and then book a hotel.",),
    ]  # fmt: skip


def test_windows_overlap():
    assert chunks(Windows(size=3, overlap=1), "a b c d e") == [("a b c", "c d e")]
    assert chunks(Windows(size=3, overlap=2), "a b") == [("a b",)]
    assert chunks(Windows(size=3, overlap=2), " ") == [()]
    with pytest.raises(ParameterError, match="overlap must be 0 to 2, less than size, got 3"):
        Windows(size=3, overlap=3)


def analysed(step, **request):
    """(chunk, weight, kind) of one request."""
    query = step(Batch.of(Catalog([]), [Request(id="q", **request)]), testing.mock_resources())
    return list(zip(query.text, query.weight.tolist(), map(ChunkKind, query.kind.tolist()), strict=True))


TALK = (
    Message("user", "first. and more"), Message("assistant", "answer"), Message("user", "second"),
    Message("user", "?! "), Message("user", "third"),
)  # fmt: skip


class TestHistory:
    def test_the_last_turns_of_the_user_weigh_less_the_older_they_are(self):
        assert analysed(History(turns=4), text="now", history=TALK) == [
            ("first", 0.0625, ChunkKind.HISTORY), ("and more", 0.0625, ChunkKind.HISTORY),
            ("second", 0.125, ChunkKind.HISTORY), ("third", 0.5, ChunkKind.HISTORY),
        ]  # fmt: skip

    def test_a_turn_without_chunks_counts_as_a_turn(self):
        assert analysed(History(turns=2), text="now", history=TALK) == [("third", 0.5, ChunkKind.HISTORY)]

    def test_without_decay_all_weigh_alike(self):
        assert [weight for _, weight, _ in analysed(History(decay=1.0), text="", history=TALK)] == [1.0, 1.0]

    def test_messages_are_split_by_the_rule(self):
        step = History(turns=9, rule={"windows": {"size": 1, "overlap": 0}})
        assert [chunk for chunk, _, _ in analysed(step, text="now", history=TALK)] == [
            "first.", "and", "more", "second", "?!", "third",
        ]  # fmt: skip

    def test_without_history_there_is_no_chunk(self):
        assert analysed(History(), text="now") == []
        assert analysed(History(), text="now", history=(Message("assistant", "hello"),)) == []

    def test_a_weight_that_is_too_small_for_a_number_makes_no_chunk(self):
        long = tuple(Message("user", f"message {n}") for n in range(400))
        weights = [weight for _, weight, _ in analysed(History(turns=400, decay=0.01), text="", history=long)]
        assert 0 < len(weights) < 400
        assert min(weights) > 0

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"turns": 0}, "turns must be 1 or more, got 0"),
            ({"decay": 0.0}, "decay must be above 0 and at most 1, got 0"),
            ({"decay": 1.5}, "decay must be above 0 and at most 1, got 1.5"),
            ({"rule": "sentence"}, "rule: unknown chunk strategy 'sentence'"),
        ],
    )
    def test_what_is_out_of_range_is_an_error(self, parameters, message):
        with pytest.raises(ParameterError, match=message):
            History(**parameters)


RESULTS = (("read", "One.\n\nTwo."), ("list", "three"), ("read", " "), ("read", "four"))


class TestToolResults:
    def test_results_of_all_tools_or_of_those_that_are_named(self):
        kind = ChunkKind.TOOL_RESULT
        assert analysed(ToolResults(), text="x", tool_results=RESULTS) == [
            ("One.", 1.0, kind), ("Two.", 1.0, kind), ("three", 1.0, kind), ("four", 1.0, kind),
        ]  # fmt: skip
        found = analysed(ToolResults(tools=("list", "gone"), weight=0.5), text="x", tool_results=RESULTS)
        assert found == [("three", 0.5, kind)]

    def test_the_first_chunks_are_taken(self):
        found = analysed(ToolResults(limit=3, rule="whole"), text="x", tool_results=RESULTS)
        assert [chunk for chunk, _, _ in found] == ["One.\n\nTwo.", "three", "four"]
        assert len(analysed(ToolResults(limit=1), text="x", tool_results=RESULTS)) == 1

    def test_without_results_there_is_no_chunk(self):
        assert analysed(ToolResults(), text="x") == []

    def test_what_is_out_of_range_is_an_error(self):
        with pytest.raises(ParameterError, match="weight must be above 0, got 0"):
            ToolResults(weight=0.0)
        with pytest.raises(ParameterError, match="rule must be a rule by name"):
            ToolResults(rule={"marked": {}, "whole": {}})


def test_analyses_together_make_all_kinds_of_chunks():
    pipeline = Pipeline.of(
        {
            "analyse": ["sentences", {"history": {"turns": 1}}, {"tool_results": {"tools": ["list"]}}],
            "retrieve": "dense",
        }
    )
    batch = Batch.of(Catalog([]), [Request(id="q", text="now. go", history=TALK, tool_results=RESULTS)])
    query = pipeline.analyse.call(batch, testing.mock_resources())
    assert query.text == ("now", "go", "third", "three")
    assert query.kind.tolist() == [0, 0, 1, 2]


def keywords(*texts: str) -> tuple[tuple[str, ...], ...]:
    batch = Batch.of(Catalog([]), [Request(id=str(n), text=text) for n, text in enumerate(texts)])
    query = Keywords()(batch, testing.mock_resources())
    assert query.text == ()
    return query.keywords


def test_keywords_are_words_of_more_than_three_letters_that_are_no_stop_words():
    # `pay` has three, `from` and `what` are stop words, `Refund` comes twice
    assert keywords("What REFUND do I pay from the Öffnungszeiten refund", "", "pay") == (
        ("refund", "öffnungszeiten"), (), (),
    )  # fmt: skip


def test_punctuation_is_taken_off_a_keyword_but_stays_within():
    assert keywords('"invoices?" (src/a.py), user\'s _name_ ...!') == (("invoices", "src/a.py", "user's", "name"),)
    assert keywords("pay!! not?") == ((),)  # of three letters without it


def test_keywords_stand_beside_the_chunks_of_another_analysis():
    pipeline = Pipeline.of({"analyse": ["whole", "keywords"], "retrieve": "nothing"})
    batch = Batch.of(Catalog([]), [Request(id="q", text="Late invoices")])
    query = pipeline.run(batch, testing.mock_resources()).query
    assert (query.chunks(0), query.keywords) == (("Late invoices",), (("late", "invoices"),))
