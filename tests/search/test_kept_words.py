from __future__ import annotations

import hashlib
import random
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from ctxbench.model.items import Catalog, Item
from ctxbench.search import word_index
from ctxbench.search.word_index import MOST_FILES, Bm25fIndex, Bm25Index
from ctxbench.search.words import FIELDS, WordRule, field_words, words

RULES = [WordRule(), WordRule(split=True, stop=True, stem=True)]
ASKED = ("load the files", "parse parser parsing", "größe of a list", "server github")
WORDS = re.findall(
    r"\S+", "load loads file files parser parsing größe list listed readFile write_all the of \ud800 x 7"
)


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """Where words are kept, of however short texts."""
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(word_index, "LEAST", 2_000)
    return tmp_path / "words-1"


@pytest.fixture
def split(monkeypatch):
    """The names of the items that were split into words."""
    found: list[str] = []
    before = word_index.ItemReader.split
    monkeypatch.setattr(
        word_index.ItemReader,
        "split",
        lambda self, items: found.extend(item.name for item in items) or before(self, items),
    )
    return found


def file(n: int, draw: random.Random, **more) -> Item:
    return Item(type="file", name=f"f{n}.py", text=" ".join(draw.choices(WORDS, k=30)), **more)


def files(n: int, seed: int = 1) -> list[Item]:
    draw = random.Random(seed)
    return [file(number, draw) for number in range(n)]


def index(items, rule=RULES[1], **more) -> Bm25Index:
    return Bm25Index(Catalog(items), k1=1.5, b=0.75, rule=rule, **more)


def scores(one, counted=None) -> list[bytes]:
    """To the bit."""
    return [one.scores(text, counted=counted).tobytes() for text in ASKED] + [
        one.shares_word(text).tobytes() for text in ASKED
    ]


def apart(items, make=index, **more) -> list[bytes]:
    """The scores of items that are read where nothing was kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_index, "LEAST", 10**9)
        return scores(make(items, **more))


def test_only_what_is_new_is_split(folder, split):
    items = files(20)
    index(items)
    assert len(split) == 20
    assert len(list(folder.iterdir())) == 1
    split.clear()
    index(items)
    assert split == []
    index([*items[:5], file(5, random.Random(9)), *items[6:]])
    assert split == ["f5.py"]


def test_little_is_neither_looked_for_nor_kept(folder):
    index(files(1))
    assert not folder.exists()


@pytest.mark.parametrize("rule", RULES)
def test_scores_are_those_of_words_that_were_never_kept(folder, rule):
    draw = random.Random(5)
    now = files(30)
    for step in range(60):
        for change in range(draw.choice([0, 1, 1, 12])):
            kind = draw.choice(["change", "add", "take", "twin", "move"])
            place = draw.randrange(len(now))
            if kind == "change":
                now[place] = replace(now[place], text=file(0, draw).text)
            elif kind == "add":
                now.insert(place, file(1000 + step * 20 + change, draw))
            elif kind == "twin":  # of an item that says the same
                now.append(Item(type="rule", name=f"t{step}-{change}", text=now[place].text))
            elif kind == "move":
                now.insert(draw.randrange(len(now)), now.pop(place))
            elif len(now) > 10:
                now.pop(place)
        counted = np.array([draw.random() < 0.7 for _ in now])
        kept = index(now, rule=rule)
        assert scores(kept) == apart(now, rule=rule)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(word_index, "LEAST", 10**9)
            assert scores(kept, counted) == scores(index(now, rule=rule), counted)
    assert 1 <= len(list(folder.iterdir())) <= MOST_FILES


def test_extended_catalogs_servers_and_bodies(folder):
    draw = random.Random(2)
    tools = [
        Item(type="tool", server="github", name=f"tool{n}", description=" ".join(draw.choices(WORDS, k=20)))
        for n in range(10)
    ]
    skills = [
        Item(type="skill", name=f"s{n}", description="list", text=" ".join(draw.choices(WORDS, k=20))) for n in range(9)
    ]
    items = [*tools, *skills, *files(10)]
    for more in ({}, {"server": True}, {"bodies": True}, {"server": True, "bodies": True, "variant": "bm25+"}):
        for _ in range(2):
            assert scores(index(items, **more)) == apart(items, **more)
    first = Catalog(items[:20])
    for _ in range(2):
        whole = Bm25Index(first, k1=1.5, b=0.75, rule=RULES[1]).extended(first.extended(items[20:]))
        assert scores(whole) == apart(items)


def test_fields_are_kept_as_well(folder, split):
    draw = random.Random(3)
    items = [file(n, draw, description=" ".join(draw.choices(WORDS, k=5))) for n in range(20)]
    ones, flat = dict.fromkeys(FIELDS, 1.0), dict.fromkeys(FIELDS, 0.5)

    def fields(items, weights=ones):
        made = Bm25fIndex(Catalog(items), weights=weights, b=flat, k1=1.2)
        return type(
            "Asked",
            (),
            {
                "scores": lambda _, text, counted: made.scores(dict.fromkeys(words(text), 1.0)),
                "shares_word": lambda _, text: made.shares_word(words(text)),
            },
        )()

    for weights in (ones, {**ones, "name": 0.0}):
        for _ in range(2):
            assert scores(fields(items, weights)) == apart(items, fields, weights=weights)
    split.clear()
    fields(items)
    assert split == []


def test_what_was_said_is_not_kept(folder, split):
    draw = random.Random(6)
    said = [Item(type="memory", name=f"m{n}", text="secret " * 99) for n in range(5)]
    said += [Item(type="message", name="m", text="secret " * 99), file(9, draw, user="ann")]
    said += [replace(file(10, draw), name="of a store", text="secret " * 99, workspace="w")]  # it may be told to forget
    commit = Item(type="message", kind="commit", name="c", text="fix the parser", include="manual")
    items = [*said, *files(9), commit]
    index(items)
    (path,) = folder.iterdir()
    assert b"pars\n" in path.read_bytes()
    assert b"secret" not in path.read_bytes()
    split.clear()
    assert scores(index(items)) == apart(items)
    assert set(split[: len(said)]) == {item.name for item in said}


@pytest.mark.parametrize("damage", [b"", b"nothing", "cut", "bit", "folder"])
def test_damaged_files_are_made_again(folder, caplog, damage):
    items = files(20)
    index(items)
    (path,) = folder.iterdir()
    data = path.read_bytes()
    if damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        bit = bytearray(data)
        bit[len(data) // 2] ^= 4
        path.write_bytes({"cut": data[:-9], "bit": bytes(bit)}.get(damage, damage))
    assert scores(index(items)) == apart(items)
    assert "computed again" in caplog.text
    if damage != "folder":
        assert path.read_bytes() == data


def test_arrays_of_a_file_are_mapped_and_aligned(folder):
    for n in range(20, 30):
        index(files(n, seed=n))
    for path in folder.iterdir():
        kept = word_index.KeptWords.unpacked(word_index.map_sealed(path))
        arrays = [kept.length, *(getattr(kept.occurrences, name) for name in ("start", "item", "field", "count"))]
        assert all(array.flags.aligned and not array.flags.owndata for array in arrays)


def test_where_nothing_can_be_written_all_is_split(folder, split):
    folder.write_text("in the way")
    for _ in range(2):
        assert scores(index(files(20))) == apart(files(20))
    assert len(split) == 80


def test_readers_and_writers_side_by_side(folder):
    catalogs = [files(20)[:place] + files(20, seed)[place:] for seed in (1, 2, 3) for place in (0, 10, 18)]
    expected = [apart(items) for items in catalogs]
    with ThreadPoolExecutor(6) as pool:
        found = pool.map(lambda n: scores(index(catalogs[n % 9])), range(90), timeout=60)
        assert list(found) == [expected[n % 9] for n in range(90)]


def test_files_are_few_and_those_unused_go(folder):
    for seed in range(MOST_FILES + 5):
        index(files(20, seed + 10))
    assert len(list(folder.iterdir())) == MOST_FILES


def test_files_hold_no_more_than_twice_their_catalog_and_no_words_that_are_gone(folder):
    items = files(40)
    for seed in range(30):  # a quarter changes each time, and brings a word of its own
        items[:10] = [replace(one, text=f"{one.text} own{seed}") for one in files(10, seed)]
        index(items, rule=RULES[0])
        newest = max(folder.iterdir(), key=lambda one: one.stat().st_mtime_ns)
        held = word_index.KeptWords.unpacked(word_index.map_sealed(newest))
        assert len(held.digests) <= 80
        assert len([word for word in held.occurrences.word if word.startswith("own")]) <= 5
        assert (np.diff(held.occurrences.start) > 0).all()


def test_the_form_goes_up_with_the_words():
    """Words that were kept are taken for those of the rules as they are: if this fails, raise `_FORM`, and the hash."""
    text = "The URLs of HTTPServer2's create_issue, Größe naïve ÉCOLE 猫が; status parsing libraries 0x1F don't ﬁle ǅ"
    held = [
        WordRule(*rule).words(text) for rule in ((False,) * 3, (True, False, False), (False, True, True), (True,) * 3)
    ]
    item = Item(
        type="tool",
        server="git-hub",
        name="getX",
        description=text,
        schema={"properties": {"aB": {"description": text}}},
    )
    held.append(field_words(item))
    found = hashlib.sha256(repr(held).encode()).hexdigest()[:16]
    assert (word_index._FORM, found) == ("4", "b7c5989d67ad2bbc")
