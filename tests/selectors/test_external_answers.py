"""What an answer may say, the exact words for every one that is none, and how answers become candidates."""

from __future__ import annotations

import json
import math

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench.io.errors import SelectorError
from ctxbench.model.items import Catalog, Item, ItemKey
from ctxbench.model.requests import Batch, Request, SessionItem
from ctxbench.model.selection import selections
from ctxbench.selectors.protocol import AnswerReader, MalformedError, RawAnswer, dumps, loads, quoted, schema, table

CATALOG = Catalog(
    [
        Item(type="rule", name="always on", text="r", include="always"),
        Item(type="tool", server="s", name="a"),
        Item(type="tool", server="s", name="b"),
        Item(type="tool", server="s", name="c"),
        Item(type="tool", server="s", name="off", enabled=False),
        Item(type="reference", name="by hand", text="m", include="manual"),
    ]
)
RULE, A, B, C, OFF, HAND = CATALOG.ids

ONLY_AB = Request(id="q1", text="", available=(ItemKey("tool", "s", "a"), ItemKey("tool", "s", "b")))


def batch_of(*requests):
    return Batch.of(CATALOG, requests or [Request(id="q1", text="one")])


def read(answer, request=None, **reply):
    batch = batch_of(request or Request(id="q1", text="one"))
    return AnswerReader(batch).read(0, RawAnswer(answer=answer, **reply))


def rows(*ids):
    return [{"id": name} for name in ids]


def chosen_and_left(batch, answers):
    return [
        (
            [(o.id, o.score) for o in s.chosen if o.origin == "search"],
            [(o.id, o.score, str(o.rule)) for o in s.left_out],
        )
        for s in selections_of(batch, answers)
    ]


def selections_of(batch, answers):
    from ctxbench.model.requests import Query

    reader = AnswerReader(batch)
    read_all = {row: reader.read(row, RawAnswer(answer=answer)) for row, answer in answers.items()}
    return selections(Query.of_chunks(batch, [("x",)] * len(batch)), table(batch, read_all))


def test_scored_items_stand_in_the_one_order_and_ties_in_catalog_order():
    answer = {"query": "q1", "items": [{"id": C, "score": 1}, {"id": B, "score": 1.0}, {"id": A, "score": -2}]}
    assert chosen_and_left(batch_of(), {0: answer}) == [([(B, 1.0), (C, 1.0), (A, -2.0)], [])]
    read_one = read(answer)
    assert (read_one.ranked, read_one.score) == (False, (1.0, 1.0, -2.0))


def test_without_scores_the_order_given_is_the_order():
    answer = {"query": "q1", "items": rows(C, A)}
    assert chosen_and_left(batch_of(), {0: answer}) == [([(C, -1.0), (A, -2.0)], [])]
    assert read(answer).score is None


def test_what_is_ranked_and_not_chosen_is_out_by_a_rule():
    answer = {"query": "q1", "items": rows(A), "ranking": rows(B, A, C)}
    rule = "ranked by the selector, not chosen"
    assert chosen_and_left(batch_of(), {0: answer}) == [([(A, -2.0)], [(B, -1.0, rule), (C, -3.0, rule)])]


def test_unscored_items_take_the_scores_of_a_scored_ranking():
    answer = {"query": "q1", "items": rows(A), "ranking": [{"id": B, "score": 0.9}, {"id": A, "score": 0.5}]}
    rule = "ranked by the selector, not chosen"
    assert chosen_and_left(batch_of(), {0: answer}) == [([(A, 0.5)], [(B, 0.9, rule)])]
    same = {**answer, "items": [{"id": A, "score": 0.5}]}
    assert read(same) == read(answer)


def test_rows_stay_with_their_request_and_unanswered_requests_have_session_rows_only():
    batch = batch_of(Request(id="q1", text=""), Request(id="q2", text=""), Request(id="q3", text=""))
    answers = {2: {"query": "q3", "items": rows(B, A)}, 0: {"query": "q1", "items": rows(C), "ranking": rows(A, C)}}
    made = selections_of(batch, answers)
    assert [[(o.id, o.origin, o.mode) for o in s.chosen] for s in made] == [
        [(RULE, "session", "always"), (C, "search", "agent")],
        [(RULE, "session", "always")],
        [(RULE, "session", "always"), (B, "search", "agent"), (A, "search", "agent")],
    ]
    assert [[o.id for o in s.left_out] for s in made] == [[A], [], []]


def test_an_empty_answer_chooses_nothing_and_an_empty_ranking_is_a_ranking():
    assert chosen_and_left(batch_of(), {0: {"query": "q1", "items": []}}) == [([], [])]
    assert not read({"query": "q1", "items": []}).ranked
    assert read({"query": "q1", "items": [], "ranking": []}).ranked


def test_only_items_of_include_mode_agent_may_be_offered():
    with pytest.raises(
        SelectorError, match=r"items\[0\] names 'reference:by%20hand', whose include mode is manual; offer"
    ):
        read({"query": "q1", "items": rows(HAND)})
    without_it = Request(id="q1", text="", session=())
    with pytest.raises(SelectorError, match="include mode is always; offer items"):
        read({"query": "q1", "items": [], "ranking": rows(RULE)}, without_it)
    removed = Request(id="q1", text="", removed=(ItemKey("tool", "s", "b"),))
    with pytest.raises(
        SelectorError, match=r"items\[0\] names 'tool:s:b', which the user removed from the session; no"
    ):
        read({"query": "q1", "items": rows(B)}, removed)


def test_whatever_an_answer_may_offer_a_search_may_offer():
    requests = [
        Request(id="q1", text=""),
        Request(id="q1", text="", session=()),
        Request(id="q1", text="", session=(SessionItem(ItemKey("tool", "s", "b")),)),
        Request(id="q1", text="", removed=(ItemKey("tool", "s", "b"), ItemKey("rule", None, "always on"))),
        ONLY_AB,
    ]
    for request in requests:
        eligible = batch_of(request).eligible[0]
        for position, name in enumerate(CATALOG.ids):
            try:
                offered = position in read({"query": "q1", "items": rows(name)}, request).chosen
            except SelectorError:
                offered = False
            assert offered == eligible[position], (request, name)


def test_an_item_of_the_session_fails_no_query_though_it_is_not_available():
    session = (SessionItem(ItemKey("reference", None, "by hand")),)
    request = Request(id="q1", text="", session=session, available=(ItemKey("tool", "s", "a"),))
    answer = read({"query": "q1", "items": rows(HAND, A)}, request)
    assert (answer.item, answer.chosen, answer.n_in_session) == ((1,), {1}, 1)


def test_what_the_session_holds_is_not_counted_twice():
    answer = read({"query": "q1", "items": rows(B, RULE, A), "ranking": rows(RULE, B, A, C)})
    assert (answer.item, answer.chosen, answer.n_in_session) == ((2, 1, 3), {1, 2}, 1)
    session = Request(id="q1", text="", session=(SessionItem(ItemKey("tool", "s", "b")),))
    only = read({"query": "q1", "items": [{"id": B, "score": 1}]}, session)
    assert (only.item, only.score, only.n_in_session) == ((), None, 1)


def test_optional_fields_may_be_null_and_metadata_is_ignored():
    answer = {"query": "q1", "items": rows(A), "ranking": None, "error": None, "build": None, "metadata": {"x": 1}}
    assert read({**answer, "ctxbench": 1}) == read({"query": "q1", "items": rows(A)})
    assert read({"query": "q1", "items": [], "build": "v7"}).build == "v7"


WRONG = [
    ("no object", [A], f"an answer must be an object with query and items, got ['{A}']"),
    ("unknown key", {"query": "q1", "items": [], "rankings": []}, "an answer has no key 'rankings'; did you mean"),
    ("version", {"ctxbench": 2, "query": "q1", "items": []}, "ctxbench must be 1, the version of the protocol, got 2"),
    ("other query", {"query": "q2", "items": []}, "the answer is for query 'q2'"),
    ("no query", {"items": []}, "the answer is for query None"),
    ("reported", {"query": "q1", "error": "index is empty"}, "the selector reported an error: index is empty"),
    ("reported, items too", {"query": "q1", "error": "e", "items": []}, "the selector reported an error: e"),
    ("error no text", {"query": "q1", "error": ""}, "error must be a text that is not empty, or be left out, got ''"),
    ("build no text", {"query": "q1", "items": [], "build": 7}, "build must be a text that is not empty, or be left"),
    ("no items", {"query": "q1"}, "the answer has no items; choose nothing with an empty list"),
    (
        "items no list",
        {"query": "q1", "items": {"id": A}},
        "items must be a list of {id, score}, got {'id': 'tool:s:a'}",
    ),
    ("items a text", {"query": "q1", "items": A}, "items must be a list of {id, score}, got 'tool:s:a'"),
    ("row no object", {"query": "q1", "items": [A]}, "items[0] must be an object with id, and score if there is one"),
    ("row key", {"query": "q1", "items": [{"id": A, "scor": 1}]}, "items[0] has an unknown key; did you mean 'score'?"),
    ("no id", {"query": "q1", "items": [{"score": 1}]}, "items[0] needs the id of an item, got None"),
    ("id no text", {"query": "q1", "items": [{"id": 3}]}, "items[0] needs the id of an item, got 3"),
    (
        "unknown id",
        {"query": "q1", "items": rows(A, "tool:s:zz")},
        "items[1] has id 'tool:s:zz', which the catalog does not hold; expected type:name or type:server:name, such as",
    ),
    ("name for id", {"query": "q1", "items": rows("b")}, f"the catalog does not hold; did you mean {B!r}?"),
    ("server.name", {"query": "q1", "items": rows("s.b")}, f"the catalog does not hold; did you mean {B!r}?"),
    ("not encoded", {"query": "q1", "items": rows("rule:always on")}, f"does not hold; did you mean {RULE!r}?"),
    ("disabled", {"query": "q1", "items": rows(OFF)}, f"items[0] names {OFF!r}, which is not enabled; it cannot be"),
    ("twice", {"query": "q1", "items": rows(A, B, A)}, f"items[0] and items[2] are the same item {A!r}; name an item"),
    ("too many", {"query": "q1", "items": [], "ranking": rows(*[A] * 7)}, "ranking has 7 rows, but the catalog has 6"),
    (
        "mixed",
        {"query": "q1", "items": [{"id": A, "score": 1}, {"id": B}]},
        "items mixes rows with and without a score",
    ),
    ("mixed late", {"query": "q1", "items": [{"id": A}, {"id": B, "score": 1}]}, "mixes rows with and without a score"),
    (
        "NaN",
        {"query": "q1", "items": [{"id": A, "score": math.nan}]},
        f"the score of items[0] ({A!r}) is nan; expected a",
    ),
    ("infinite", {"query": "q1", "items": [{"id": A, "score": -math.inf}]}, "is -inf; expected a finite number"),
    ("huge", {"query": "q1", "items": [{"id": A, "score": 10**400}]}, "is inf; expected a finite number"),
    ("text score", {"query": "q1", "items": [{"id": A, "score": "0.5"}]}, "is '0.5'; expected a finite number"),
    ("true score", {"query": "q1", "items": [{"id": A, "score": True}]}, "is True; expected a finite number"),
    (
        "null score",
        {"query": "q1", "items": [{"id": A, "score": None}]},
        "is null; expected a finite number, or no score",
    ),
    (
        "chosen, not ranked",
        {"query": "q1", "items": rows(A), "ranking": rows(B)},
        f"item {A!r} is chosen but is not in ranking; a ranking holds all chosen items",
    ),
    (
        "two scores",
        {"query": "q1", "items": [{"id": A, "score": 1}], "ranking": [{"id": A, "score": 2}]},
        f"item {A!r} has score 1.0 in items and 2.0 in ranking; expected the same",
    ),
    (
        "ranking without scores",
        {"query": "q1", "items": [{"id": A, "score": 1}], "ranking": rows(A)},
        "items have scores and ranking has none; give ranking the scores too",
    ),
]


@pytest.mark.parametrize(("answer", "message"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_an_answer_that_is_none_is_an_error_that_names_query_fault_and_expectation(answer, message):
    with pytest.raises(SelectorError) as caught:
        read(answer)
    assert str(caught.value).startswith("query 'q1': ")
    assert message in str(caught.value)


def test_an_item_that_is_not_available_to_the_request_is_an_error():
    assert read({"query": "q1", "items": rows(B)}, ONLY_AB).chosen == {2}
    with pytest.raises(SelectorError, match=r"items\[1\] names 'tool:s:c', which is not available to this request"):
        read({"query": "q1", "items": rows(B, C)}, ONLY_AB)
    with pytest.raises(SelectorError, match=r"ranking\[0\] names 'tool:s:c', which is not available"):
        read({"query": "q1", "items": [], "ranking": rows(C)}, ONLY_AB)


def test_an_error_says_where_the_answer_stands():
    with pytest.raises(SelectorError, match=r"^query 'q1': items must be .* \(answers.jsonl, line 3\)$"):
        read({"query": "q1", "items": 1}, where="answers.jsonl, line 3")
    with pytest.raises(SelectorError, match=r"^query 'q1': no answer within 1 s$"):
        read(None, error="no answer within 1 s")


def test_numpy_scores_of_a_callable_are_numbers():
    answer = read({"query": "q1", "items": ({"id": A, "score": np.float32(0.5)}, {"id": B, "score": np.int64(2)})})
    assert answer.score == (0.5, 2.0)


def test_an_answer_is_not_changed_by_being_read():
    answer = {"query": "q1", "items": rows(A, RULE), "ranking": rows(RULE, A)}
    before = json.dumps(answer)
    read(answer)
    assert json.dumps(answer) == before


# -- the published schema agrees with the check wherever a schema can know -------------------------------------------

BY_CATALOG = {"unknown id", "name for id", "server.name", "not encoded", "disabled", "twice", "too many"}
BEYOND_A_SCHEMA = BY_CATALOG | {
    "other query", "mixed", "mixed late", "huge", "chosen, not ranked", "two scores", "ranking without scores",
    "NaN", "infinite", "reported", "reported, items too",
}  # fmt: skip


def valid(value, definition="answer"):
    whole = schema()
    jsonschema.Draft202012Validator.check_schema(whole)
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{definition}", "$defs": whole["$defs"]}).is_valid(value)


@pytest.mark.parametrize("case", [case for case in WRONG if case[0] not in BEYOND_A_SCHEMA], ids=lambda case: case[0])
def test_the_schema_refuses_what_the_check_refuses(case):
    assert not valid(case[1])


@pytest.mark.parametrize(
    "answer",
    [
        {"query": "q1", "items": []},
        {"query": "q1", "items": rows(A), "ranking": rows(A, B)},
        {"query": "q1", "items": [{"id": A, "score": 1.5}], "build": "x", "ctxbench": 1, "metadata": [1]},
        {"query": "q1", "items": rows(A), "ranking": None, "error": None, "build": None},
    ],
)
def test_the_schema_allows_what_the_check_allows(answer):
    assert valid(answer)
    jsonschema.validate(answer, schema())
    assert read(answer).n_in_session == 0


values = st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from([A, B, ""]))
row_values = st.one_of(values, st.fixed_dictionaries({}, optional={"id": values, "score": values, "x": values}))
answers = st.fixed_dictionaries(
    {"query": st.just("q1")},
    optional={
        "items": st.one_of(values, st.lists(row_values, max_size=2)),
        "ranking": st.one_of(values, st.lists(row_values, max_size=2)),
        "build": values,
        "ctxbench": values,
    },
)


@settings(database=None, deadline=None, derandomize=True, max_examples=400)
@given(answers)
def test_whatever_the_check_allows_the_schema_allows_and_nothing_else_is_raised(answer):
    try:
        read(answer)
    except SelectorError:
        return
    assert valid(answer)


# -- JSON ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        (b'{"query": "q1",}', "not JSON: ", 16),
        (b'{"a": "\xff"}', "not UTF-8", 8),
        (b'{"a": 1, "a": 2}', "an object holds the key 'a' twice", 0),
        (b'{"a": 1, "a": 2, %s}' % b",".join(b'"%d": 0' % n for n in range(200_000)), "holds the key 'a' twice", 0),
        (b"[" * 100_000, "nested too deep", 0),
        (b"1" * 5000, "not JSON that can be read: a number has more than 4300 digits$", 0),
        (b"", "not JSON: Expecting value", 1),
    ],
)
def test_what_is_no_json_is_refused_in_words(text, message, column):
    with pytest.raises(MalformedError, match=message) as caught:
        loads(text)
    assert caught.value.column in (column, 15)  # the trailing comma's place differs between versions of Python


def test_a_number_that_json_has_not_is_never_sent():
    with pytest.raises(SelectorError, match="NaN or infinite"):
        dumps({"x": math.nan})
    assert dumps({"x": "\ud83d é\n"}) == '{"x":"\\ud83d \\u00e9\\n"}'


def test_what_is_nested_too_deep_to_be_shown_is_quoted_in_words():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert quoted(deep) == "a list that is nested too deep to be shown"


def test_long_texts_are_quoted_in_part():
    assert quoted("ab") == "'ab'"
    assert quoted("x" * 500) == f"'{'x' * 200}' and 300 characters more"
