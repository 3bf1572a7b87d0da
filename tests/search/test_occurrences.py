from __future__ import annotations

import random

import numpy as np

from ctxbench.search.word_index import CatalogWords, Occurrences, TextHolders, new_numbers

EMPTY = np.zeros(0, dtype=np.int64)


def of_texts(texts: list[list[str]], fields: int = 1) -> Occurrences:
    numbers = new_numbers()
    return Occurrences.of_texts(([numbers[word] for word in text] for text in texts), numbers, fields=fields)


def rows(made: Occurrences) -> dict[str, list[tuple[int, int, int]]]:
    """Item, field and count by word."""
    whole = list(zip(made.item.tolist(), made.field.tolist(), made.count.tolist(), strict=True))
    return {word: whole[made.of(word)] for word in made.word}


def drawn(draw: random.Random, n: int) -> list[list[str]]:
    return [draw.choices("abcdef", k=draw.randrange(4)) for _ in range(n)]


def test_rows_stand_by_word_then_by_item_then_by_field():
    made = of_texts([["pear", "apple", "pear"], [], ["apple"], ["pear"]], fields=2)
    assert rows(made) == {"pear": [(0, 0, 2), (1, 1, 1)], "apple": [(0, 0, 1), (1, 0, 1)]}
    assert made.of("fig") == slice(0, 0)


def test_no_text_and_no_word():
    for texts in ([], [[]]):
        made = of_texts(texts)
        assert (made.start.tolist(), made.item.tolist()) == ([0], [])
        assert rows(made.renumbered(np.zeros(len(texts), dtype=np.int64))) == {}
        assert rows(made.extended(of_texts([["fig"]]).shifted_by(len(texts)))) == {"fig": [(len(texts), 0, 1)]}


def test_those_of_further_items_stand_behind_those_of_their_word():
    first, second = of_texts([["pear", "apple"]]), of_texts([["apple"] * 2, ["fig", "pear"]])
    whole = first.extended(second.shifted_by(1))
    assert rows(whole) == {"pear": [(0, 0, 1), (2, 0, 1)], "apple": [(0, 0, 1), (1, 0, 2)], "fig": [(2, 0, 1)]}
    assert list(whole.word) == ["pear", "apple", "fig"]
    assert rows(first) == {"pear": [(0, 0, 1)], "apple": [(0, 0, 1)]}


def test_items_taken_from_others_are_as_if_their_texts_had_been_read():
    draw = random.Random(4)
    for _ in range(200):
        texts, fields = drawn(draw, 6), draw.choice([1, 2])
        items = draw.sample(range(6 // fields), k=draw.randrange(6 // fields + 1))
        taken = of_texts(texts, fields=fields).renumbered(np.array(items, dtype=np.int64))
        anew = of_texts([texts[item * fields + n] for item in items for n in range(fields)], fields=fields)
        assert {word: found for word, found in rows(taken).items() if found} == rows(anew)


def test_the_last_texts_may_hold_no_word():
    made = of_texts([["a"], [], [], []])
    assert rows(made.renumbered(np.array([3, 0]))) == {"a": [(1, 0, 1)]}
    assert rows(made.renumbered(np.array([3]))) == {"a": []}


def of_items(made: CatalogWords) -> dict[str, list[tuple[int, ...]]]:
    return {word: list(zip(*(part.tolist() for part in made.of(word)), strict=True)) for word in "abcdef"}


def test_items_read_in_parts_are_as_if_read_at_once():
    draw = random.Random(6)
    for _ in range(200):
        fields, held, made = draw.choice([1, 2]), [], CatalogWords((TextHolders(of_texts([]), EMPTY),))
        for _ in range(6):
            texts = drawn(draw, draw.randrange(4) * fields)  # some of which no item holds, and some several
            of = draw.choices(range(len(texts) // fields), k=draw.randrange(4)) if texts else []
            part = TextHolders(of_texts(texts, fields=fields), np.array(of, dtype=np.int64))
            made = made.extended(CatalogWords((part,)), len(held) // fields)
            held += [texts[one * fields + n] for one in of for n in range(fields)]
            whole = TextHolders(of_texts(held, fields=fields), np.arange(len(held) // fields))
            assert of_items(made) == of_items(CatalogWords((whole,)))


def test_parts_stay_few_as_a_catalog_grows():
    one = CatalogWords((TextHolders(of_texts([["a"]]), np.zeros(1, dtype=np.int64)),))
    made = one
    for n in range(1, 200):
        made = made.extended(one, n)
        assert len(made.parts) <= 8
    assert made.of("a")[0].tolist() == list(range(200))
