"""Both text indexes: one suite, what each adds of its own, and every kind of difference between them."""

from __future__ import annotations

import math
import random
import re
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from ctxbench.io.errors import UnknownNameError
from ctxbench.model.items import Item
from ctxbench.search.resources import TextIndexes
from ctxbench.search.text_index import TOKENIZER, Fts5Index, PostgresIndex, StemMarks, _prefix
from ctxbench.search.words import FUNCTION_WORDS, composed, phrases, separated

ROOT = Path(__file__).parents[2]


def file(path, text, **given):
    return Item(type="file", name=path, text=text, **given)


@pytest.fixture
def postgres_index(postgres):
    return PostgresIndex()


@pytest.fixture(params=["fts5", "postgres"])
def index(request):
    return Fts5Index() if request.param == "fts5" else request.getfixturevalue("postgres_index")


@pytest.fixture
def both(postgres_index):
    return Fts5Index(), postgres_index


def matching(index, files, words, *, every=False):
    """The paths of the files that match."""
    rows = index.rows(files)
    scores = index.scores(words, rows, match_all=every)
    assert (scores >= 0).all()
    return [one.name for one, score in zip(files, scores, strict=True) if score > 0]


# rows


def test_equal_path_and_text_share_a_row_and_nothing_is_added_twice(index):
    first = index.rows([file("a.py", "one"), file("b.py", "one"), file("a.py", "two"), file("a.py", "one", user="eve")])
    assert len(set(first.tolist())) == 3
    assert first[0] == first[3]
    again = index.rows([file("a.py", "two"), file("c.py", "new"), file("a.py", "one")])
    assert [again[0], again[2]] == [first[2], first[0]]
    assert again[1] not in first


def test_the_path_is_the_title_where_there_is_one(index):
    versions = [file("notes.md@1", "x", title="notes.md"), file("notes.md@2", "x", title="notes.md")]
    rows = index.rows([*versions, file("notes.md", "x")])
    assert len(set(rows.tolist())) == 1


def test_no_items_no_rows_no_words(index):
    rows = index.rows([])
    assert rows.shape == (0,)
    assert index.scores(["a1"], rows, match_all=False).shape == (0,)
    assert index.similar("a1", rows, measure="similarity", threshold=0.3).shape == (0,)
    assert index.marks([], ["a1"]) == []
    some = index.rows([file("a.py", "")])
    for words in ([], ["the", "and"], ["?!", ""]):
        assert index.scores(words, some, match_all=False).tolist() == [0.0]
        assert index.scores(words, some, match_all=True).tolist() == [0.0]
        assert index.marks(["the cat?!"], words) == [[]]


def test_threads_add_and_search_side_by_side(index):
    files = [file(f"f{n}.py", f"word{n} shared") for n in range(40)]
    found, faults = [], []

    def work(part):
        try:
            rows = index.rows(files[part::4])
            found.append((index.scores(["shared"], rows, match_all=False) > 0).sum())
        except BaseException as error:  # noqa: BLE001 - told by the test
            faults.append(error)

    threads = [threading.Thread(target=work, args=(part,)) for part in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(timeout=120)
    assert faults == []
    assert found == [10, 10, 10, 10]
    assert len(set(index.rows(files).tolist())) == 40


# scores

FILES = [
    file("src/cache.py", "A cache of answers. Reading a cached answer is quick."),
    file("src/store.py", "Files are stored; config.yaml says where."),
    file("config/yaml.md", "The yaml of a config is read."),
    file("cache.md", "Nothing of it here."),
    file("other.md", "Words alone."),
]


@pytest.mark.parametrize(
    ("words", "every", "found"),
    [
        (["cache"], False, ["src/cache.py", "cache.md"]),
        (["caching", "stores"], False, ["src/cache.py", "src/store.py", "cache.md"]),
        (["cache", "answers"], True, ["src/cache.py"]),
        (["the", "cache", "of", "answers"], True, ["src/cache.py"]),  # function words are not asked for
        (["config.yaml"], False, ["src/store.py", "config/yaml.md"]),  # a phrase
        (["yaml.says"], False, ["src/store.py"]),
        (["config", "yaml"], True, ["src/store.py", "config/yaml.md"]),
        (["src/cache.py"], False, ["src/cache.py"]),
        (["PY"], False, ["src/cache.py", "src/store.py"]),
        (["absent"], False, []),
        (["cache", "absent"], True, []),
    ],
)
def test_matches(index, words, every, found):
    assert matching(index, FILES, words, every=every) == found


@pytest.mark.parametrize(
    "word",
    [
        *("AND", "OR", "NOT", "NEAR", "NEAR(", "a1*", '"a1', "a1'", "a1;", "(a1", "a1:", "{path}:", "-a1", "^a1"),
        *("a1\0", "!", "a1&", "|", "<->", "a1:*", "%s", "%(a)s", "\\", "$$", "\ud83d", "\x01", "\x02"),
    ],
)
def test_words_that_are_query_syntax_find_what_they_say(index, word):
    files = [file("x", f"first {word} last"), file("y", "something else")]
    expected = ["x"] if phrases([word]) else []
    assert matching(index, files, [word]) == expected
    assert matching(index, files, ["first", word], every=True) == ["x"]
    text = f"first {word} last"
    assert len(index.marks([text], ["last", word])[0]) == 1 + len(expected)


def test_a_path_counts_more_than_the_content(index):
    rows = index.rows([file("notes.md", "the cache of all"), file("cache.md", "the notes of all")])
    content, path = index.scores(["cache"], rows, match_all=False)
    assert path > content > 0


def test_files_of_others_move_no_score(index):
    rows = index.rows(FILES)
    before = [index.scores(words, rows, match_all=False) for words in (["cache"], ["config", "yaml"], ["config.yaml"])]
    index.rows([file(f"secret{n}.py", "cache config.yaml " * n) for n in range(1, 30)])
    after = [index.scores(words, rows, match_all=False) for words in (["cache"], ["config", "yaml"], ["config.yaml"])]
    assert [one.tolist() for one in before] == [one.tolist() for one in after]
    fresh = Fts5Index() if isinstance(index, Fts5Index) else index
    assert fresh.scores(["cache"], fresh.rows(FILES), match_all=False).tolist() == before[0].tolist()


def test_rows_are_scored_in_the_order_asked_repeats_too(index):
    rows = index.rows(FILES)
    scores = index.scores(["cache", "config"], rows, match_all=False)
    if isinstance(index, PostgresIndex):  # by FTS5, repeats are counted
        assert (
            index.scores(["cache", "config"], rows[[3, 0, 3, 2]], match_all=False).tolist()
            == scores[[3, 0, 3, 2]].tolist()
        )
    assert index.scores(["cache", "config"], rows[::-1], match_all=False).tolist() == scores[::-1].tolist()


def brute(files, words):
    """BM25 by counting words, k1 1.2 and b 0.75, for files whose words have no endings; a path's words count ten."""
    split = [(composed(one.name).split(), composed(one.text).split()) for one in files]
    mean = sum(len(path) + len(text) for path, text in split) / len(files)
    out = []
    for path, text in split:
        total = 0.0
        for word in words:
            n = sum(word in (*a, *b) for a, b in split)
            often = 10 * path.count(word) + text.count(word)
            rarity = math.log(1 + (len(files) - n + 0.5) / (n + 0.5))
            total += rarity * often * 2.2 / (often + 1.2 * (0.25 + 0.75 * (len(path) + len(text)) / mean))
        out.append(total)
    return out


def test_fts5_scores_are_bm25_counted_over_the_rows_asked_about():
    generator = random.Random(3)
    letters = [f"q{one}" for one in "bcdfghjk"]
    files = [
        file(f"{generator.choice(letters)}/{n}", " ".join(generator.choices(letters, k=generator.randint(0, 60))))
        for n in range(60)
    ]
    index = Fts5Index()
    for first in range(0, 60, 7):  # words are asked for while rows are added
        seen = files[: first + 7]
        rows = index.rows(seen)
        among = [n for n in range(len(seen)) if n % 3]
        scores = index.scores(letters[:3], rows[among], match_all=False)
        assert scores == pytest.approx(brute([seen[n] for n in among], letters[:3]), rel=1e-12)


def test_how_often_a_row_holds_a_word_is_what_the_table_of_fts5_says():
    files = [file(str(path), path.read_text("utf-8")) for path in sorted((ROOT / "ctxbench").rglob("*.py"))[:150]]
    index = Fts5Index()
    index.rows(files[:100])
    index._db.execute("CREATE VIRTUAL TABLE held USING fts5vocab(files, instance)")
    of_word = "SELECT doc, sum(CASE col WHEN 'path' THEN 10 ELSE 1 END) FROM held WHERE term = ? GROUP BY doc"
    asked = ["file", "cache", "self", "return", "token", "py", "test", "select", "item", "ctxbench", "absent"]
    for _ in range(2):  # as it is asked for first, and carried on over rows that were added
        for word in asked:
            held = index._holding((word,))
            counts = index._db.execute(of_word, ({"cache": "cach"}.get(word, word),)).fetchall()  # stems
            assert list(zip(held.row.tolist(), held.often.tolist(), strict=True)) == counts
        index.rows(files[100:])
    assert max(index._holding(("self",)).often) > 50
    assert len(index._holding(("ctxbench",)).row) == 150  # in every path: rarer than 1e-6, as FTS5 has it


def test_words_asked_last_are_kept_up_to_a_number_of_rows(monkeypatch):
    index = Fts5Index()
    rows = index.rows([file(f"{n}", "aa bb cc") for n in range(10)])
    monkeypatch.setattr("ctxbench.search.text_index._KEPT", 20)
    expected = index.scores(["aa", "bb", "cc"], rows, match_all=True)
    assert list(index._postings) == [("bb",), ("cc",)]
    assert index.scores(["aa", "bb", "cc"], rows, match_all=True).tolist() == expected.tolist()
    assert index._n_rows == 20


def test_words_that_many_rows_hold_are_looked_up_when_these_are_added(monkeypatch):
    files = [file(f"{n}.py", f"shared {'rows' if n % 3 else 'files'} happily w{n}") for n in range(30)]
    plain, asked = Fts5Index(), Fts5Index._holding
    monkeypatch.setattr("ctxbench.search.text_index._MANY", 20)
    found = []
    monkeypatch.setattr(Fts5Index, "_holding", lambda self, phrase: found.append(phrase) or asked(self, phrase))
    index = Fts5Index()
    among = index.rows(files)
    assert sorted(found) == [("file",), ("happili",), ("py",), ("row",), ("share",)]
    index.rows([file("more.py", "rows")])
    assert len(found) == 5  # a few more wait until somebody asks
    rows = np.array([0, 4, 4, 29])
    for words in (["shared"], ["row", "w4"], ["happy", "files", "sharing"], ["w29"]):
        for every in (False, True):
            expected = plain.scores(words, plain.rows(files)[rows], match_all=every)
            np.testing.assert_array_equal(index.scores(words, among[rows], match_all=every), expected)


def test_a_process_ends_while_a_search_goes_on():
    program = """
import threading, time
from ctxbench.model.items import Item
from ctxbench.search.text_index import Fts5Index
index = Fts5Index()
rows = index.rows([Item(type="file", name=str(n), text="word " * 2000 + str(n)) for n in range(400)])
def search():
    while True:
        index._postings.clear()
        index.scores(["word"], rows, match_all=False)
for _ in range(2):
    threading.Thread(target=search, daemon=True).start()
time.sleep(0.2)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_interrupted_leaves_no_row_behind(index, monkeypatch):
    def failing(text):
        if text == "broken":
            raise KeyboardInterrupt
        return composed(text)

    with monkeypatch.context() as patched:
        patched.setattr("ctxbench.search.text_index.composed", failing)
        with pytest.raises(KeyboardInterrupt):
            index.rows([file("interrupted.py", "whole"), file("b.py", "broken")])
    other = index.rows([file("later.py", "interrupted")])
    assert (index.scores(["interrupted"], other, match_all=False) > 0).all()
    assert matching(index, [file("interrupted.py", "whole"), file("b.py", "broken")], ["whole"]) == ["interrupted.py"]


# marks


def test_marks_stand_in_the_text_as_it_is(index):
    text = "Stored FILES: the store's café, Cafés and caf\u00e9."
    found = index.marks([text, "nothing", "stores"], ["storing", "cafe"])
    assert [[text[a:b] for a, b in found[0]], found[1]] == [["Stored", "store", "café", "Cafés", "café"], []]
    assert found[2] == [(0, 6)]


def test_a_long_text_of_many_matches_is_marked_in_seconds():
    text = "the cache of naïve files, " * 100_000  # 2.6 MB; as one piece it takes half a minute
    begin = time.perf_counter()
    ((*marks,),) = Fts5Index().marks([text], ["cache", "naive"])
    assert time.perf_counter() - begin < 8
    places = [found.span() for found in re.finditer("cache|naïve", text)]
    assert marks == places


def test_marks_survive_blanks_long_words_and_what_looks_like_a_mark(index):
    text = "  \n\tcache\x01\x02 <b>cache</b> " + "x" * 3000 + " cache &amp; " + "y" * 600 + "\0cache  \n"
    found = index.marks([text], ["cache"])[0]
    assert [text[a:b] for a, b in found] == ["cache"] * 4


def test_a_text_that_is_marked_again_for_the_same_words_is_not_searched_again(monkeypatch):
    index, asked, search = Fts5Index(), [], StemMarks._of_text
    monkeypatch.setattr(
        StemMarks, "_of_text", lambda self, text, to: asked.append(text.strip()) or search(self, text, to)
    )
    first = index.marks(["a cat", "a dog"], ["cat"])
    first[0].append((3, 4))  # whoever asks may change what they are given
    assert index.marks(["a dog", "cats", "a cat", "cats"], ["cat"]) == [[], [(0, 4)], [(2, 5)], [(0, 4)]]
    assert index.marks(["a cat", "a dog"], ["dog"]) == [[], [(2, 5)]]
    assert index.marks(["a cat"], ["cat"]) == [[(2, 5)]]
    assert asked == ["a cat", "a dog", "cats", "a cat", "a dog", "a cat"]  # no more than the last words' are kept


def highlighted(texts, words):
    """Where FTS5 itself marks any of some words in each text."""
    with closing(sqlite3.connect(":memory:")) as db:
        return _highlighted(db, texts, words)


def _highlighted(db, texts, words):
    db.execute(f"CREATE VIRTUAL TABLE marked USING fts5(content, {TOKENIZER})")
    db.executemany("INSERT INTO marked (rowid, content) VALUES (?, ?)", enumerate(map(separated, texts)))
    asked = " OR ".join(f'"{" ".join(phrase)}"' for phrase in phrases(words))
    query = "SELECT rowid, highlight(marked, 0, '\x01', '\x02') FROM marked WHERE marked MATCH ?"
    found = [[] for _ in texts]
    for row, text in db.execute(query, (asked,)) if asked else ():
        at, open_ = 0, 0
        for char in text:
            if char == "\x01":
                open_ = at
            elif char == "\x02":
                found[row].append((open_, at))
            else:
                at += 1
    db.close()
    return found


def test_marks_are_those_of_fts5_in_files_of_this_project():
    generator, index = random.Random(22), Fts5Index()
    paths = sorted(path for folder in ("ctxbench", "tests", "reports") for path in (ROOT / folder).rglob("*.[pm][yd]"))
    texts = [path.read_text("utf-8") for path in generator.sample(paths, 150)]
    said = [words for text in texts if len(words := text.split()) > 9]
    n_marks = 0
    for _ in range(40):
        words = [*generator.choice(said)[:5], *(generator.choice(generator.choice(said)) for _ in range(5))]
        some = [text[generator.randrange(len(text) + 1) :] for text in generator.sample(texts, 20)]
        found = index.marks(some, words)
        assert found == highlighted(some, words)
        n_marks += sum(map(len, found))
    assert n_marks > 5_000


@pytest.mark.parametrize(
    "alphabet", ["ab s", "eéèE\u0301 d", "aийИ\u0306 s_", "lbites ye"], ids=["plain", "é", "й", "-ble"]
)
def test_marks_are_those_of_fts5_in_drawn_texts(alphabet):
    generator, index = random.Random(23), Fts5Index()
    for _ in range(400):
        texts = ["".join(generator.choices(alphabet, k=generator.randrange(40))) for _ in range(5)]
        words = ["".join(generator.choices(alphabet, k=generator.randrange(1, 9))) for _ in range(4)]
        words = [word for word in words if all(part[0].isalnum() for part in separated(word).split())]  # no bare accent
        assert index.marks(texts, words) == highlighted(texts, words), (texts, words)


def test_every_word_begins_with_what_is_kept_of_its_stem():
    paths = (path for folder in ("ctxbench", "tests", "reports", "datasets") for path in (ROOT / folder).rglob("*.*"))
    read = (path.read_text("utf-8") for path in paths if path.suffix in (".py", ".md", ".jsonl"))
    words = {word for text in read for word in separated(text).split() if word.isascii()}
    endings = (
        "able ability ibility bility ational ied ies ingly iveness ization bling ated izing ably y e es eed ing logy"
    )
    words |= {word[:length] + end for word in sorted(words)[::20] for length in (3, 5) for end in endings.split()}
    marks = StemMarks()
    marks._learn(words)
    assert [(word, stem) for word, stem in marks._stem.items() if not word.startswith(_prefix(stem))] == []
    assert len(words) > 40_000


def test_many_words_at_once(index):
    rows = index.rows([file("a.py", "w7 w99"), file("b.py", "w100000")])
    words = [f"w{n}" for n in range(3000)]
    assert (index.scores(words, rows, match_all=False) > 0).tolist() == [True, False]
    assert index.marks(["w7 w99 w100000"], words) == [[(0, 2), (3, 6)]]


# differences


def test_match_sets_are_alike_over_files_of_this_project(both):
    generator = random.Random(21)
    paths = sorted(path for folder in ("ctxbench", "tests", "reports") for path in (ROOT / folder).rglob("*.[pm][yd]"))
    files = [file(path.relative_to(ROOT).as_posix(), path.read_text("utf-8")) for path in generator.sample(paths, 400)]
    rows = [index.rows(files) for index in both]
    shares = []
    for n in range(200):
        words = generator.choice(files).text.split() or ["x"]
        first = generator.randrange(len(words))
        some = words[first : first + generator.randint(1, 6)]
        one, other = (index.scores(some, row, match_all=n % 2 == 0) > 0 for index, row in zip(both, rows, strict=True))
        either = (one | other).sum()
        shares.append(1.0 if either == 0 else (one & other).sum() / either)
    assert np.mean(shares) >= 0.97  # 0.9 is what must hold
    assert np.mean(np.equal(shares, 1.0)) >= 0.9


@pytest.mark.parametrize(
    "text",
    [
        *("foo.py", "a/b.py", "user@example.org", "https://example.org/x?y=1", "v1.2.3", "-5", "3.14", "1e-5"),
        *("snake_case", "kebab-case-name", "don't", "O'Neil", "<b>bold</b>", "&amp;", "C:\\x", "a.b.c", "x=1"),
        *("0x1F", "007", "2nd", "files2s"),
    ],
)
def test_what_postgresql_takes_for_one_word_is_split_in_both(both, text):
    """Its parser knows hosts, files, versions, numbers with signs, tags, entities and hyphened words."""
    files = [file("q", f"first {text} last"), file("r", "else")]
    for word in (text, *composed(text).split()):
        expected = ["q"] if phrases([word]) else []
        assert [matching(index, files, [word]) for index in both] == [expected, expected]


@pytest.mark.parametrize(
    ("said", "asked", "by_fts5", "by_postgres"),
    [
        ("ties", "tie", [], ["x"]),  # Porter: ti, tie; Snowball: tie
        ("on", "one", ["x"], []),  # Porter: on
        ("generate", "general", ["x"], []),  # Porter: gener
        ("skies", "sky", [], ["x"]),  # an exception of Snowball's
        ("dying", "die", [], ["x"]),  # an exception of Snowball's
        ("news", "new", ["x"], []),  # likewise
        ("university", "universe", ["x"], ["x"]),
    ],
)
def test_difference_porter_and_snowball(both, said, asked, by_fts5, by_postgres):
    files = [file("x", said)]
    assert [matching(index, files, [asked]) for index in both] == [by_fts5, by_postgres]


def test_difference_a_number_with_an_exponent_is_a_word_of_its_own_in_postgresql(both):
    """Of a hash such as 12e5ab its parser makes a number and a word; who asks for the whole finds it in both."""
    files = [file("x", "commit 12e5ab")]
    assert [matching(index, files, ["12e5ab"]) for index in both] == [["x"], ["x"]]
    assert [matching(index, files, ["ab"]) for index in both] == [[], ["x"]]


def test_difference_words_of_over_500_characters_are_not_searched_by_postgresql(both):
    for n, found in ((500, ["x"]), (501, [])):
        files = [file("x", f"some {'z' * n}")]
        assert [matching(index, files, ["z" * n]) for index in both] == [["x"], found]


def test_difference_marks_of_a_phrase(both):
    text = "yaml: config.yaml"
    found = [[text[a:b] for a, b in index.marks([text], ["config.yaml"])[0]] for index in both]
    assert found == [["config.yaml"], ["yaml", "config", "yaml"]]


def test_difference_a_phrase_from_path_to_content(both):
    files = [file("src/last", "first word")]
    assert [matching(index, files, ["last.first"]) for index in both] == [[], ["src/last"]]


def test_function_words_are_those_of_postgresql(postgres_index):
    query = "SELECT word, ts_lexize('english_stem', word) = '{}' FROM unnest(%s::text[]) AS word"
    words = [*sorted(FUNCTION_WORDS), "cache", "please", "x"]
    told = dict(postgres_index._run(lambda one: one.execute(query, (words,)).fetchall()))
    assert {word for word, stop in told.items() if stop} == FUNCTION_WORDS


def test_an_unknown_index_is_named_with_the_known_ones():
    with pytest.raises(UnknownNameError, match=r"unknown text index 'fts4'; did you mean 'fts5'\?"):
        TextIndexes(None, "fts4")
