"""What PostgreSQL alone can do wrong: be away, be lost, be old, lack something; and what it cannot hold."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack

import numpy as np
import pytest

from ctxbench.io.errors import install_command
from ctxbench.search import text_index as module
from ctxbench.search.text_index import PostgresIndex
from ctxbench.search.words import TextIndexError
from tests.children import child
from tests.postgres_server import programs, running_server
from tests.search.test_text_index import file, matching


def execute(server, query, **changed):
    import psycopg

    with psycopg.connect(server.address, autocommit=True, **changed) as connection:
        found = connection.execute(query)
        return found.fetchall() if found.description else []


@pytest.fixture
def database(postgres, monkeypatch):
    """A database of this test's own, and how to name another user of it."""
    execute(postgres, "DROP DATABASE IF EXISTS own WITH (FORCE)")
    execute(postgres, "CREATE DATABASE own")
    monkeypatch.setenv("CTXBENCH_POSTGRES", f"{postgres.address} dbname=own")
    yield postgres
    execute(postgres, "DROP DATABASE own WITH (FORCE)")


def refused(match):
    return pytest.raises(TextIndexError, match=rf"^text_index:postgres: .*{match}")


def test_without_an_address(monkeypatch):
    monkeypatch.delenv("CTXBENCH_POSTGRES", raising=False)
    pytest.importorskip("psycopg")
    with refused("CTXBENCH_POSTGRES is not set; set it to a connection string"):
        PostgresIndex()


def test_with_an_address_that_is_none(monkeypatch):
    pytest.importorskip("psycopg")
    monkeypatch.setenv("CTXBENCH_POSTGRES", "password=secret x y")
    with refused("is not a connection string; write") as caught:
        PostgresIndex()
    assert "secret" not in str(caught.value)


def test_without_a_server(monkeypatch, tmp_path):
    pytest.importorskip("psycopg")
    monkeypatch.setenv("CTXBENCH_POSTGRES", f"host={tmp_path} dbname=x")
    with refused("does not answer: .*; start it, or fix the address"):
        PostgresIndex()


def test_without_psycopg():
    script = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from ctxbench.search.text_index import PostgresIndex\n"
        "try: PostgresIndex()\nexcept Exception as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == (f"text_index:postgres: psycopg is not installed; run: {install_command('postgres')}\n")


def test_an_older_server(database, monkeypatch):
    monkeypatch.setattr(module, "_OLDEST", 99)
    with refused("has no generated columns; use version 99 or newer"):
        PostgresIndex()
    assert execute(database, "SELECT to_regnamespace('ctxbench')", dbname="own") == [(None,)]


def test_a_database_of_another_encoding(database, monkeypatch):
    execute(database, "DROP DATABASE IF EXISTS latin")
    execute(database, "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    monkeypatch.setenv("CTXBENCH_POSTGRES", f"{database.address} dbname=latin")
    with refused("encoded in LATIN1; use one that was created with ENCODING 'UTF8'"):
        PostgresIndex()


def test_who_may_not_make_the_schema_uses_the_one_that_is_there(database, monkeypatch):
    execute(database, "DROP ROLE IF EXISTS guest")
    execute(database, "CREATE ROLE guest LOGIN")
    guest = f"{database.address} dbname=own user=guest"
    monkeypatch.setenv("CTXBENCH_POSTGRES", guest)
    with refused("cannot be prepared: permission denied for database own; a role that may do so must create"):
        PostgresIndex()
    monkeypatch.setenv("CTXBENCH_POSTGRES", f"{database.address} dbname=own")
    PostgresIndex()
    execute(database, "GRANT USAGE ON SCHEMA ctxbench TO guest", dbname="own")
    execute(database, "GRANT SELECT, INSERT ON ctxbench.files TO guest", dbname="own")
    monkeypatch.setenv("CTXBENCH_POSTGRES", guest)
    assert matching(PostgresIndex(), [file("a", "one")], ["one"]) == ["a"]
    execute(database, "DROP OWNED BY guest", dbname="own")


def test_pg_trgm_that_is_not_to_be_had_leaves_nothing_behind(database, monkeypatch):
    monkeypatch.setattr(module, "_TRIGRAMS", "CREATE EXTENSION pg_trgm SCHEMA ctxbench VERSION 'none'")
    with refused('cannot be prepared: extension "pg_trgm" has no .*; a role that may do so .* pg_trgm'):
        PostgresIndex()
    assert execute(database, "SELECT to_regnamespace('ctxbench')", dbname="own") == [(None,)]


def test_pg_trgm_that_is_there_is_used_wherever_it_is(database):
    execute(database, 'CREATE SCHEMA "Ext"; CREATE EXTENSION pg_trgm SCHEMA "Ext"', dbname="own")
    index = PostgresIndex()
    rows = index.rows([file("word", "")])
    assert index.similar("word", rows, measure="similarity", threshold=0.3).tolist() == [1.0]


def test_a_connection_that_was_lost_is_made_anew(database):
    index, files = PostgresIndex(), [file("a", "one")]
    rows = index.rows(files)
    execute(database, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'own'")
    assert index.rows(files).tolist() == rows.tolist()
    assert (index.scores(["one"], rows, match_all=False) > 0).all()


def test_a_server_that_goes_away_is_told_and_may_come_back(postgres_server, monkeypatch):
    with running_server(programs()) as server:
        monkeypatch.setenv("CTXBENCH_POSTGRES", server.address)
        index, files = PostgresIndex(), [file("a", "one")]
        rows = index.rows(files)
        server.stop()
        with refused("does not answer"):
            index.scores(["one"], rows, match_all=False)
        with refused("does not answer"):
            index.rows([file("b", "two")])
        server.start()
        assert (index.scores(["one"], rows, match_all=False) > 0).all()


def test_a_fault_in_the_middle_adds_nothing(database, monkeypatch):
    index = PostgresIndex()
    stored = module._stored
    monkeypatch.setattr(module, "_TOGETHER", 2)
    monkeypatch.setattr(module, "_stored", lambda path, text: (path, None, None) if path == "e" else stored(path, text))
    with refused("the database failed: null value"):
        index.rows([file(one, "text") for one in "abcdef"])
    assert execute(database, "SELECT count(*) FROM ctxbench.files", dbname="own") == [(0,)]


def test_two_come_first_at_once(database):
    script = (
        "from ctxbench.search.text_index import PostgresIndex\n"
        "from ctxbench.model.items import Item\n"
        "files = [Item(type='file', name=f'{n}', text='word') for n in range(300)]\n"
        "print(len(set(PostgresIndex().rows(files).tolist())))"
    )
    with ExitStack() as ends:
        command = [sys.executable, "-c", script]
        several = [ends.enter_context(child(command, stdout=subprocess.PIPE, text=True)) for _ in range(3)]
        assert [one.communicate(timeout=120)[0] for one in several] == ["300\n"] * 3
    assert execute(database, "SELECT count(*) FROM ctxbench.files", dbname="own") == [(300,)]


@pytest.mark.parametrize("name", ["letters", "noise", "wide"])
def test_a_file_of_5_mb(postgres, name):
    words = {
        "letters": [f"word{n % 3000}" for n in range(600_000)],
        "noise": [f"{n:x}q{n * 7919:x}" for n in range(400_000)],  # 5 MB of words that differ
        "wide": [f"ж{n % 1000}ж" * 20 for n in range(80_000)],
    }[name]
    files = [file("large.txt", " ".join(words)), file("small.txt", "else")]
    assert len(files[0].text.encode()) > 5_000_000
    index = PostgresIndex()
    assert matching(index, files, words[:3], every=True) == ["large.txt"]
    if name != "noise":  # of that the first words that PostgreSQL has room for
        assert matching(index, files, words[-3:], every=True) == ["large.txt"]
    assert matching(index, files, ["large.txt"]) == ["large.txt"]


def test_a_binary_file(postgres):
    binary = np.random.default_rng(1).bytes(100_000).decode("latin-1") + "\0\ud800 needle"
    assert matching(PostgresIndex(), [file("a.bin", binary)], ["needle"]) == ["a.bin"]
