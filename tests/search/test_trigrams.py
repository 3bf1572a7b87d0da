"""Trigrams: by hand, and as pg_trgm has them; similarity by both text indexes."""

from __future__ import annotations

import random
import threading
import tracemalloc

import numpy as np
import pytest

from ctxbench.search.text_index import Fts5Index, PostgresIndex, Stretches, TrigramIndex, TrigramSets, trigrams
from tests.search.test_text_index import file


def word_similarity(part, whole):
    return Stretches(whole).similarities([part], 0.0)[0]


def letters(text):
    """The trigrams of a text as letters."""
    mask = (1 << 21) - 1
    return ["".join(chr(one >> shift & mask) for shift in (42, 21, 0)) for one in trigrams(text).tolist()]


def test_a_word_has_two_blanks_before_and_one_behind():
    assert letters("Cat") == ["  c", " ca", "cat", "at "]
    assert letters("a_b") == ["  a", " a ", "  b", " b "]
    assert letters("éa") == ["  e", " ea", "ea "]
    assert letters("?!") == letters("") == []
    assert letters("the the") == ["  t", " th", "the", "he "] * 2


def test_sets_count_what_each_text_shares():
    sets = TrigramSets()
    sets.add(["cat", "", "cats"])
    sets.add(["dog"])
    assert sets.size.tolist() == [4, 0, 5, 4]
    asked = np.unique(trigrams("cat"))
    assert sets.shared(asked, limit=9).tolist() == [4, 0, 3, 0]
    assert sets.shared(np.unique(trigrams("zzz")), limit=9).tolist() == [0, 0, 0, 0]
    assert sets.shared(trigrams(""), limit=9).tolist() == [0, 0, 0, 0]


def test_a_long_text_is_read_whole_where_its_beginning_has_few_trigrams():
    sets = TrigramSets()
    few, many = "cat " * 600 + "dog", " ".join(f"w{n}" for n in range(900))
    sets.add([few, many])
    assert sets.shared(np.unique(trigrams("dog")), limit=8).tolist() == [4, 0]
    assert sets.size[0] == 8
    assert 8 < sets.size[1] < len(set(letters(many)))


def test_long_texts_are_compared_with_all_that_is_asked_at_once(monkeypatch):
    sets = TrigramSets()
    sets.add(["cat " * 600 + "dog", "?" * 3000, "cat", "dog " * 600, "cow " * 600])
    monkeypatch.setattr(np, "isin", None)  # takes ten times as long as they need, once a text
    asked = np.unique(trigrams("cat dog"))
    assert sets.shared(asked, limit=8).tolist() == [8, 0, 4, 4, 1]
    assert sets.shared(asked, limit=4).tolist() == [0, 0, 4, 4, 1]  # the first has 8
    assert sets.shared(trigrams(""), limit=8).tolist() == [0, 0, 0, 0, 0]


def test_similarity_of_a_stretch():
    # the manual's own: 4 trigrams of `word` are a stretch of `words`, and one is missing
    assert word_similarity(np.unique(trigrams("word")), trigrams("two words")) == pytest.approx(0.8)
    assert word_similarity(np.unique(trigrams("word")), trigrams("")) == 0.0
    assert word_similarity(np.unique(trigrams("word")), trigrams("say word twice")) == 1.0


TEXTS = [
    *(
        "",
        "src/cache.py",
        "cache",
        "caches and stores",
        "the cache in src/cache.py is stale",
        "a a b a",
        "wörd",
        "x1 x2",
    ),
    *("tests/search/test_words.py", "word", "two words", "words wordy word", "land of the words", "!?", "aaaa aaa aa"),
]


def test_similarities_are_those_of_pg_trgm(postgres):
    index = PostgresIndex()
    generator = random.Random(4)
    texts = [*TEXTS, *("".join(generator.choices("ab c", k=generator.randint(1, 14))) for _ in range(60))]
    pairs = [(one, other) for one in texts for other in generator.sample(texts, 20)]
    query = (
        "SELECT show_trgm(one), similarity(one, other), word_similarity(one, other) "
        "FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS pair (one, other, place) ORDER BY place"
    )
    found = []
    plain = [[text.replace("ö", "o") for text in side] for side in zip(*pairs, strict=True)]
    told = index._run(lambda one: one.execute(query, tuple(plain)).fetchall())
    for (one, other), (shown, similarity, by_word) in zip(pairs, told, strict=True):
        assert sorted(set(letters(one))) == sorted(shown)
        a, b = set(letters(one)), set(letters(other))
        assert similarity == pytest.approx(len(a & b) / len(a | b) if a | b else 0.0, abs=1e-7)
        best = word_similarity(np.unique(trigrams(one)), trigrams(other))
        assert best >= by_word - 1e-7
        found.append(best == pytest.approx(by_word, abs=1e-7))
    assert np.mean(found) > 0.95


def stretches(part, whole):
    """By all stretches: the greatest share of trigrams in both of those in either."""
    found = [set(whole[a:b]) for a in range(len(whole)) for b in range(a + 1, len(whole) + 1)]
    return max((len(part & one) / len(part | one) for one in found), default=0.0)


def test_the_best_of_all_stretches_counts():
    generator = random.Random(6)
    texts = ["".join(generator.choices("ab ", k=generator.randint(0, 12))) for _ in range(40)]
    for one in texts:
        for other in generator.sample(texts, 8):
            found = word_similarity(np.unique(trigrams(one)), trigrams(other))
            assert found == pytest.approx(stretches(set(letters(one)), letters(other)))


def test_what_is_above_a_threshold_is_told_as_without_one():
    generator = random.Random(7)
    texts = ["".join(generator.choices("abcdefgh  ", k=generator.randint(1, 60))) for _ in range(40)]
    for one in texts:
        for other in generator.sample(texts, 6):
            part, whole = np.unique(trigrams(one)), other + one[:20] + other
            best = stretches(set(letters(one)), letters(whole))
            for threshold in (0.1, 0.3, 0.6, 1.0):
                found = Stretches(trigrams(whole)).similarities([part], threshold)[0]
                assert found == pytest.approx(best) if best > threshold else found <= threshold


def test_a_long_message_takes_no_more_room_for_all_its_stretches():
    whole = trigrams("the test of the cache " * 1000)  # 16,000 trigrams that the name holds: all pairs take 2 GB
    tracemalloc.start()
    try:
        assert Stretches(whole).similarities([np.unique(trigrams("test/the_cache.py"))], 0.3)[0] > 0.7
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_many_paths_at_once_take_little_room_and_are_compared_as_each_alone():
    index, text = TrigramIndex(), "the test of the cache " * 300 + "and more of the same"
    paths = [f"test/{n}/the_cache.py" for n in range(500)]
    index.similar([(paths[0], "")], text, measure="word_similarity", threshold=0.3)
    tracemalloc.start()
    try:
        found = index.similar([(path, "") for path in paths], text, measure="word_similarity", threshold=0.3)
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()
    alone = [Stretches(trigrams(text)).similarities([np.unique(trigrams(path))], 0.3)[0] for path in paths[:20]]
    assert found[:20].astype(np.float32).tolist() == np.array(alone, dtype=np.float32).tolist()


def test_words_are_found_while_names_are_compared(monkeypatch):
    index, done = Fts5Index(), threading.Event()
    rows = index.rows(FILES)

    def slow(*_, **__):
        assert done.wait(20)
        return np.zeros(len(FILES))

    monkeypatch.setattr(index._trigrams, "similar", slow)
    comparing = threading.Thread(target=index.similar, args=("x", rows), kwargs={"measure": "", "threshold": 0})
    comparing.start()
    searching = threading.Thread(target=index.scores, args=(["stale"], rows), kwargs={"match_all": False})
    searching.start()
    searching.join(10)
    found = not searching.is_alive()
    done.set()
    comparing.join(timeout=120)
    assert found


def test_difference_pg_trgm_may_overlook_the_best_stretch(postgres):
    """It never takes a beginning back that it has left for a later one."""
    one, other = "cats do core", "do at dog cat at core"
    ((told,),) = PostgresIndex()._run(lambda db: db.execute("SELECT word_similarity(%s, %s)", (one, other)).fetchall())
    assert told == pytest.approx(9 / 17)
    assert word_similarity(np.unique(trigrams(one)), trigrams(other)) == pytest.approx(10 / 17)


FILES = [
    file("src/cache.py", "x" * 30),
    file("other.md", "the cache in src/cache.py is stale"),
    file("notes/deep.md", ""),
    file("long.md", "the cache in src/cache.py is stale " * 100),  # 3,500 characters with few trigrams
    file("longer.md", " ".join(f"w{n}" for n in range(2000))),
    file("src/cache_test.py", "z"),
]


@pytest.mark.parametrize("measure", ["similarity", "word_similarity"])
@pytest.mark.parametrize("threshold", [0.0, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("text", ["src/cache.py", "the cache in src/cache.py is stale", "?", "", "deep notes", "'; --"])
def test_both_indexes_find_the_same_similarities(postgres, measure, threshold, text):
    found = []
    for index in (Fts5Index(), PostgresIndex()):
        rows = np.concatenate([index.rows(FILES[:3]), index.rows(FILES[3:])])
        index.rows([file("mine/cache.py", text)])  # a row that is not asked about
        found.append(index.similar(text, rows, measure=measure, threshold=threshold).tolist())
    assert found[0] == found[1]
    assert all(value == 0 or value > threshold for value in found[0])


def test_the_greater_similarity_of_path_and_content_counts():
    index = Fts5Index()
    rows = index.rows(FILES)
    found = index.similar("the cache in src/cache.py is stale", rows, measure="similarity", threshold=0.3)
    a, b = set(letters("src/cache.py")), set(letters("the cache in src/cache.py is stale"))
    by_path = len(a & b) / len(a | b)
    assert by_path > 0.3
    assert found[:4] == pytest.approx([by_path, 1.0, 0.0, 1.0], abs=1e-7)
    assert len(set(index.similar("zz", rows[[2, 2]], measure="similarity", threshold=0.0).tolist())) == 1


def test_a_similarity_at_the_threshold_is_not_above_it():
    index = Fts5Index()
    rows = index.rows([file("word", ""), file("wort", "")])  # `  w`, ` wo`, `wor` of 5 and 5: 3 / 7
    at = float(np.float32(3 / 7))
    assert index.similar("word", rows, measure="similarity", threshold=at).tolist() == [1.0, 0.0]
    assert index.similar("word", rows, measure="similarity", threshold=0.42).tolist() == [1.0, at]
