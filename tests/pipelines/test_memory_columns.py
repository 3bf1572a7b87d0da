"""Features of what was said: values worked by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from ctxbench import testing
from ctxbench.model.candidates import Candidates
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Query, Request
from ctxbench.pipelines.features import FeatureInput, column_names, with_features
from ctxbench.search.word_index import bm25_index
from ctxbench.search.words import WordRule

AROUND = ("conversation.item", "conversation.best", "conversation.answers", "conversation.near")
AGE = ("memory.recency", "memory.half_life")
DAYS = 30


def said(name, text, day, *, chat="c", **more):
    more = {"conversation": chat, "created": f"2026-01-{day:02d}", **more}
    return Item(type="memory", name=name, text=text, **more)


# in the catalog not in the order of time, and another conversation in between
CHAT = Catalog(
    [
        said("d", "Blue it is.", 4),
        said("a", "Good morning.", 1),
        said("x", "A red bicycle.", 2, chat="other"),
        said("c", "Which colour has the bicycle?", 3),
        said("b", "My bicycle is new.", 2),
        said("alone", "A bicycle.", 2, conversation=None, created=None, confidence=0.4),
    ]
)
D, A, X, C, B, ALONE = range(6)


def rows(*columns, catalog=CHAT, resources=None, only=None, **asked):
    """The columns of all items that the request may see, by position."""
    request = Request(id="q", **{"text": "bicycle colour", **asked})
    batch = Batch.of(catalog, [request])
    items = np.flatnonzero(batch.visible[0]) if only is None else np.array(only)
    table = Candidates.build(1, np.zeros_like(items), items, score=np.ones(len(items)))
    resources = resources or testing.mock_resources()
    made = with_features(table, columns, Query.of_chunks(batch, [[request.text]]), resources)
    values = zip(*(made.columns[name].tolist() for name in columns), strict=True)
    return dict(zip(made.item.tolist(), values, strict=True))


def bm25(text="bicycle colour", catalog=CHAT):
    rule = WordRule(split=True, stop=True, stem=True)
    return bm25_index(catalog, testing.mock_resources(), k1=1.5, b=0.75, rule=rule, server=True).scores(text)


def test_an_item_stands_among_those_of_its_conversation_in_order_of_time():
    fits, found = bm25(), rows(*AROUND)
    assert fits[C] > fits[B] > 0 == fits[A] == fits[D]
    assert found[A] == (0.0, fits[C], 0.0, fits[C])
    assert found[B] == (fits[B], fits[C], 0.0, fits[C])
    assert found[C] == (fits[C], fits[C], 0.0, fits[B])
    assert found[D] == (0.0, fits[C], fits[C], fits[C])  # what stands before it is a question
    assert found[X] == (fits[X], fits[X], 0.0, 0.0)
    assert found[ALONE] == (fits[ALONE], fits[ALONE], 0.0, 0.0)


def test_turns_are_ranked_with_those_around_them():
    fits, resources = bm25(), testing.mock_resources()
    columns = ("turn.share", "turn.near", "turn.asked", "turn.named")
    found = rows("similarity.score", *columns, resources=resources)
    score = {item: row[0] for item, row in found.items()}
    share = {item: fits[item] / max(fits) for item in found}
    assert {item: row[1] for item, row in found.items()} == share
    power = {item: math.exp(10 * (score[item] + 0.5 * share[item])) for item in found}
    likely = {item: value / sum(power.values()) for item, value in power.items()}
    near = {item: row[2] for item, row in found.items()}
    assert near[D] == pytest.approx(likely[C] + likely[B] / 2 + likely[A] / 4)
    assert near[B] == pytest.approx(likely[A] + likely[C] + likely[D] / 2)
    assert (near[X], near[ALONE]) == (0.0, 0.0)
    assert {item: row[3] for item, row in found.items() if row[3]} == {D: score[C]}  # what stands before it asks
    assert rows(*columns, only=[D])[D][1:] == (0.0, 0.0, 0.0)  # neighbours count if the search found them


def test_a_request_names_who_speaks_by_the_first_name():
    speakers = ("Ada Lovelace", "Finn", "", None)
    items = [
        said(f"{n}", "Hello.", n + 1, metadata={"speaker": one} if one is not None else {})
        for n, one in enumerate(speakers)
    ]

    def named(text):
        return [row[0] for row in rows("turn.named", catalog=Catalog(items), text=text).values()]

    assert named("What is Ada's name?") == [1.0, 0.0, 0.0, 0.0]
    assert named("Do ADA and finn agree?") == [1.0, 1.0, 0.0, 0.0]
    assert named("Who is Lovelace?") == [0.0] * 4


@pytest.mark.parametrize(
    ("speaker", "text", "is_named"),
    [
        (None, "None of them came?", False),
        ("The assistant", "What did the plumber say?", False),
        ("Élodie Martin", "Where does ELODIE live?", True),
        ("Elodie", "Where does É\u0301lodie live?".replace("É", "E"), True),
        ("José", "What does JOSÉ like?", True),
        ("Ann", "Where is Annapolis?", False),
        ("7", "What was in 2017?", False),
        ("田中", "田中さんはどこに住んでいますか", True),
        ("田中", "山田さんはどこに住んでいますか", False),
    ],
)
def test_first_names_are_compared_as_words_are(speaker, text, is_named):
    catalog = Catalog([said("a", "Hello.", 1, metadata={"speaker": speaker})])
    assert list(rows("turn.named", catalog=catalog, text=text).values()) == [(float(is_named),)]


def test_without_a_word_or_a_text_turns_have_no_share():
    assert {row[0] for row in rows("turn.share", text="zzz").values()} == {0.0}
    assert np.isfinite(list(rows("turn.share", "turn.near", text="").values())).all()


def test_near_looks_three_items_away_and_no_further():
    chat = Catalog([said(f"{n}", "bicycle" if n == 4 else "nothing", n + 1) for n in range(9)])
    near = [row[0] > 0 for row in rows("conversation.near", catalog=chat).values()]
    assert near == [False, True, True, True, False, True, True, True, False]


def test_what_the_search_did_not_find_counts_all_the_same():
    assert rows(*AROUND, only=[D]) == {D: rows(*AROUND)[D]}


def test_what_the_request_may_not_see_does_not_count():
    seen = (A, X, B, ALONE)  # the question comes later
    then = Catalog([CHAT[place] for place in seen])
    fit = dict(zip(seen, bm25(catalog=then), strict=True))[B]
    found = rows(*AROUND, time="2026-01-02T12:00:00")
    assert found == dict(zip(seen, rows(*AROUND, catalog=then).values(), strict=True))
    assert found[B] == (fit, fit, 0.0, 0.0)
    hidden = Catalog([replace(item, workspace="w") if item.name == "c" else item for item in CHAT])
    fit = bm25(catalog=Catalog(item for item in CHAT if item.name != "c"))[B - 1]
    assert rows(*AROUND, catalog=hidden)[D] == (0.0, fit, 0.0, fit)  # b stands before d then
    assert rows(*AROUND, catalog=hidden, workspace="w")[D][2] == bm25()[C]


def test_of_one_time_the_catalog_s_order_counts():
    chat = Catalog([said("2", "nothing", 1), said("1", "bicycle?", 1)])
    assert [row[0] > 0 for row in rows("conversation.answers", catalog=chat).values()] == [False, False]
    chat = Catalog([said("1", "bicycle?", 1), said("2", "nothing", 1)])
    assert [row[0] > 0 for row in rows("conversation.answers", catalog=chat).values()] == [False, True]


def test_a_question_may_stand_in_quotes():
    chat = Catalog([said("1", 'Bo said, "A bicycle?"', 1), said("2", "Yes.", 2), said("3", "No.", 3)])
    assert [row[0] > 0 for row in rows("conversation.answers", catalog=chat).values()] == [False, True, False]


def test_items_of_no_conversation_count_by_themselves():
    notes = Catalog([Item(type="memory", name=text, text=text) for text in ("bicycle", "tea")])
    (fit, other), found = bm25(catalog=notes), rows(*AROUND, catalog=notes)
    assert list(found.values()) == [(fit, fit, 0.0, 0.0), (other, other, 0.0, 0.0)]


def test_age_is_counted_from_the_time_of_the_request():
    found = rows(*AGE, time="2026-01-31")
    assert found[A] == (1 / 31, 0.5)  # 30 days
    assert found[D] == (1 / 28, 0.5 ** (27 / DAYS))
    assert found[ALONE] == (0.0, 0.0)


def test_without_a_time_age_is_counted_from_the_newest_item_that_is_seen():
    found = rows(*AGE)
    assert found[D] == (1.0, 1.0)
    assert found[A] == (1 / 4, 0.5 ** (3 / DAYS))
    newer = CHAT.extended([said("new", "Hidden.", 31, workspace="w")])
    assert rows(*AGE, catalog=newer) == found
    timeless = Catalog([Item(type="memory", name="a", text="x")])
    assert rows(*AGE, catalog=timeless) == {0: (0.0, 0.0)}


def test_confidence_that_is_not_said_is_full():
    assert {item: row[0] for item, row in rows("memory.confidence").items()} == {**dict.fromkeys(range(5), 1.0), 5: 0.4}


def test_length_is_the_logarithm_of_the_number_of_words():
    assert rows("memory.length")[C] == (math.log(6),)


def test_a_catalog_that_grew_is_read_like_a_new_one():
    resources, grown = testing.mock_resources(), Catalog(CHAT[:3])
    columns = [*AROUND, *AGE, "memory.length", "memory.confidence", "turn.share", "turn.near", "turn.asked"]
    rows(*columns, catalog=grown, resources=resources)
    assert rows(*columns, catalog=grown.extended(CHAT[3:]), resources=resources) == rows(*columns)


def test_a_batch_gives_the_bits_of_one_request_by_itself():
    columns = [one for one in column_names() if one.partition(".")[0] in ("conversation", "memory", "turn")]
    texts = ["bicycle colour", "", "Ann rides", "blue morning bicycle", "which?"]
    requests = [
        Request(id=str(n), text=text, time=f"2026-01-{2 + n:02d}T07:00:00.123456") for n, text in enumerate(texts)
    ]
    resources = testing.mock_resources()

    def values(some):
        batch = Batch.of(CHAT, some)
        items = [np.flatnonzero(row) for row in batch.visible]
        request = np.repeat(np.arange(len(some)), [len(own) for own in items])
        table = Candidates.build(len(some), request, np.concatenate(items), score=np.ones(len(request)))
        query = Query.of_chunks(batch, [[one.text] if one.text else [] for one in some])
        made = with_features(table, columns, query, resources)
        assert len(FeatureInput.of(query, made, resources)) == len(table)
        return np.stack([made.columns[name] for name in columns], axis=1)

    whole = values(requests)
    assert np.isfinite(whole).all()
    assert whole.tobytes() == np.concatenate([values([one]) for one in requests]).tobytes()
