"""In how many items a word stands, as a request sees them."""

from __future__ import annotations

import math
import random

import numpy as np

from ctxbench import testing
from ctxbench.model.items import Catalog, Item
from ctxbench.search.words import DocumentFrequency, document_frequency


def file(name, text):
    return Item(type="file", name=str(name), text=text)


ITEMS = (file("a", "red red sea"), file("b", "Red"), file("c", "blue"))


def weights(found, visible, *words):
    return found.weights(words, np.array(visible, dtype=bool))


def test_only_what_is_visible_counts_and_each_item_once():
    found = DocumentFrequency(ITEMS)
    assert weights(found, [1, 1, 1], "red", "sea", "none") == {
        "red": math.log(4 / 3) + 1,
        "sea": math.log(4 / 2) + 1,
        "none": math.log(4 / 1) + 1,
    }
    assert weights(found, [1, 0, 1], "red", "sea") == {"red": math.log(3 / 2) + 1, "sea": math.log(3 / 2) + 1}
    assert weights(found, [0, 0, 0], "red") == {"red": 1.0}


def test_counts_that_are_carried_on_are_those_made_anew():
    draw = random.Random(5)
    items = [file(n, " ".join(draw.choices("abcdefgh", k=4))) for n in range(30)]
    kept = DocumentFrequency(items)
    visible = np.ones(30, dtype=bool)
    for _ in range(40):
        visible = visible.copy()
        visible[draw.sample(range(30), draw.choice([1, 2, 20]))] ^= True
        assert kept.weights("abcdefgh", visible) == DocumentFrequency(items).weights("abcdefgh", visible)


def test_a_catalog_that_grows_is_as_one_made_anew_and_the_old_stays():
    catalog, resources = Catalog(ITEMS[:2]), testing.mock_resources()
    before = document_frequency(catalog, resources)
    assert weights(before, [1, 1], "red", "blue") == {"red": 1.0, "blue": math.log(3) + 1}
    catalog.hash_of("prompt_text")
    after = document_frequency(catalog.extended([ITEMS[2]]), resources)
    other = document_frequency(catalog.extended([file("d", "green blue")]), resources)
    assert weights(after, [1, 1, 1], "red", "blue", "green") == weights(
        DocumentFrequency(ITEMS), [1, 1, 1], "red", "blue", "green"
    )
    assert weights(other, [1, 1, 1], "green") == {"green": math.log(4 / 2) + 1}
    assert weights(before, [1, 1], "red", "blue") == {"red": 1.0, "blue": math.log(3) + 1}
    assert document_frequency(catalog, resources) is before
