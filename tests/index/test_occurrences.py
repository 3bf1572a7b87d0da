from __future__ import annotations

import random

import numpy as np

from ctxbench.index.occurrences import Occurrences


def rows(made: Occurrences) -> dict[str, list[tuple[int, int, int]]]:
    """Item, field and count by word."""
    whole = list(zip(made.item.tolist(), made.field.tolist(), made.count.tolist(), strict=True))
    return {word: whole[made.of(word)] for word in made.word}


def drawn(draw: random.Random, n: int) -> list[list[str]]:
    return [draw.choices("abcdef", k=draw.randrange(4)) for _ in range(n)]


def test_rows_stand_by_word_then_by_item_then_by_field():
    made = Occurrences.of_texts([["pear", "apple", "pear"], [], ["apple"], ["pear"]], fields=2)
    assert rows(made) == {"pear": [(0, 0, 2), (1, 1, 1)], "apple": [(0, 0, 1), (1, 0, 1)]}
    assert made.of("fig") == slice(0, 0)


def test_no_text_and_no_word():
    for texts in ([], [[]]):
        made = Occurrences.of_texts(texts)
        assert (made.start.tolist(), made.item.tolist()) == ([0], [])
        assert rows(made.taken(np.zeros(len(texts), dtype=np.int64))) == {}
        assert rows(made.extended(Occurrences.of_texts([["fig"]]).behind(len(texts)))) == {"fig": [(len(texts), 0, 1)]}


def test_those_of_further_items_stand_behind_those_of_their_word():
    first, second = Occurrences.of_texts([["pear", "apple"]]), Occurrences.of_texts([["apple"] * 2, ["fig", "pear"]])
    whole = first.extended(second.behind(1))
    assert rows(whole) == {"pear": [(0, 0, 1), (2, 0, 1)], "apple": [(0, 0, 1), (1, 0, 2)], "fig": [(2, 0, 1)]}
    assert list(whole.word) == ["pear", "apple", "fig"]
    assert rows(first) == {"pear": [(0, 0, 1)], "apple": [(0, 0, 1)]}


def test_items_taken_from_others_are_as_if_their_texts_had_been_read():
    draw = random.Random(4)
    for _ in range(200):
        texts, fields = drawn(draw, 6), draw.choice([1, 2])
        items = draw.choices(range(6 // fields), k=draw.randrange(8))
        taken = Occurrences.of_texts(texts, fields=fields).taken(np.array(items, dtype=np.int64))
        anew = Occurrences.of_texts([texts[item * fields + n] for item in items for n in range(fields)], fields=fields)
        assert {word: found for word, found in rows(taken).items() if found} == rows(anew)
