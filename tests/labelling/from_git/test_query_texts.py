"""Texts of issues and pull requests in the place of messages."""

from __future__ import annotations

import json

import pytest

from ctxbench.catalogs.git_history import GitRepository, LineCommit, QueryTexts, read_query_texts
from ctxbench.io.errors import InputError, ParameterError
from ctxbench.labelling.git_history import CommitRules, HistorySettings, history_dataset
from tests.checkout import written


def text_for(message, texts):
    commit = LineCommit(sha="0123456789abcdef" * 3, parents=(), time=0, author="A", message=message, changes=())
    return texts.of(commit)


TEXTS = QueryTexts({"0123456ffff": "other"}, {12: "twelve", 13: "thirteen"})


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        ("Let it be (#12)", "twelve"),
        ("Merge pull request #13 from a/b\n\nLet it be", "thirteen"),
        ("Let it be\n\nFixes #12", "twelve"),
        ("Let it be\n\nresolves: gh-13, see (#12)", "thirteen"),
        ("Go on with (#7) (#13)\n\nfixes #12", "thirteen"),
        ("Go on (#7)\n\nfixes #12", "twelve"),
        ("See #12 and prefix#12", None),
        ("Let it be (#120)", None),
    ],
)
def test_the_first_number_that_a_message_closes_tells_the_text(message, wanted):
    assert text_for(message, TEXTS) == wanted


def test_a_commit_s_own_text_goes_before_its_numbers():
    assert text_for("Let it be (#12)", QueryTexts({"0123456": "own"}, {12: "twelve"})) == "own"


def test_bad_rows_are_told_all_at_once(tmp_path):
    path = tmp_path / "texts.jsonl"
    rows = (
        {"number": 1, "text": "a"},
        {"number": 1, "text": "b"},
        {"commit": "xyz", "text": "c"},
        {"commit": "0123456", "number": 2, "text": "d"},
        {"text": "e"},
        {"number": "3", "text": ""},
        {"number": 4, "txt": "f"},
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + "no JSON\n")
    with pytest.raises(InputError) as caught:
        read_query_texts(path)
    said = str(caught.value).split("\n")
    for line, wanted in (
        (2, "1 occurs twice"),
        (3, "must be a hash of 7 hex digits or more, got 'xyz'"),
        (4, "expected either 'commit' (a hash) or 'number'"),
        (5, "expected either 'commit'"),
        (6, "field 'text' must not be empty"),
        (7, "unknown field 'txt'"),
        (8, ""),
    ):
        assert any(f"line {line}" in one and wanted in one for one in said), (line, said)


def test_queries_have_the_texts_and_commits_their_messages(tmp_path):
    checkout = written(
        tmp_path / "repo",
        (
            ("Begin", {"a.py": "1\n"}),
            ("Make it two (#5)", {"a.py": "2\n"}),
            ("Revert it (#5)", {"a.py": "1\n"}),
            ("Make it three (#6)", {"a.py": "3\n"}),
        ),
    )
    rules = CommitRules(texts=QueryTexts(numbers={5: "It is one.\n\nIt should be two, see https://a.example/5"}))
    repository = GitRepository(checkout.root)
    dataset, choice = history_dataset(repository, HistorySettings(rules=rules), notify=lambda *_: None)
    assert [query.request.text for query in dataset.queries] == [
        "It is one.\n\nIt should be two,",
        "Make it three",
    ]
    assert choice.out == {"reverts": 1}
    assert [item.text for item in dataset.catalog if item.type == "message"] == ["Begin", "Make it two", "Revert it"]


def test_two_rows_of_one_commit_are_told(tmp_path):
    path = tmp_path / "texts.jsonl"
    path.write_text('{"commit": "0123456", "text": "a"}\n{"commit": "0123456789", "text": "b"}\n')
    with pytest.raises(InputError, match="0123456 is the beginning of 0123456789; expected one row per commit"):
        read_query_texts(path)


def test_texts_of_no_commit_are_an_error_and_others_are_counted(tmp_path):
    root = written(tmp_path / "repo", (("Begin", {"a.py": "1\n"}), ("Make it two (#5)", {"a.py": "2\n"}))).root

    def made(texts):
        settings = HistorySettings(rules=CommitRules(texts=texts))
        return history_dataset(GitRepository(root), settings, notify=lambda *_: None)[0].about["source"]

    assert made(QueryTexts({"0123456": "none"}, {5: "five"}))["texts_used"] == 1
    assert "texts_used" not in made(QueryTexts())
    with pytest.raises(ParameterError, match="none of the 2 texts belongs to one of the 2 newest commits"):
        made(QueryTexts({"0123456": "none"}, {6: "six"}))
