"""Answers from a file: which lines are answers, what is missing, what is reported."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest

from ctxbench.io.errors import InputError, SelectorError, StorageError
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Request
from ctxbench.selectors.explain import ask_own
from ctxbench.selectors.external import FileSelector

CATALOG = Catalog([Item(type="tool", name=name) for name in "abc"])
A, B, C = CATALOG.ids


def batch_of(*ids):
    return Batch.of(CATALOG, [Request(id=name, text=name) for name in ids])


def lines(*answers):
    return "".join(json.dumps(answer) + "\n" for answer in answers)


def answer(query, *ids):
    return {"query": query, "items": [{"id": name} for name in ids]}


def test_a_file_answers_by_query_whatever_its_order(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text("\ufeff" + lines(answer("q2", B)) + "\n   \n" + lines(answer("q1", A, C)).rstrip("\n"), "utf-8")
    selector = FileSelector(path)
    made = selector.select(batch_of("q1", "q2"))
    assert selector.name == "mine"
    assert (made.errors, made.ranked, made.scored) == ({}, False, False)
    assert made.candidates.request.tolist() == [0, 0, 1]
    assert made.candidates.item.tolist() == [0, 2, 1]
    assert np.isnan(made.seconds).all()
    assert made.query.text == ("q1", "q2")


def test_a_list_of_answers_is_read_as_lines_of_them(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps([answer("q1", A), answer("q2", B)], indent=2), "utf-8")
    made = FileSelector(path).select(batch_of("q1", "q2"))
    assert (made.errors, made.candidates.item.tolist()) == ({}, [0, 1])


def test_a_query_that_is_not_answered_is_its_own_error(tmp_path):
    (tmp_path / "a.jsonl").write_text(lines(answer("q1", A)))
    made = FileSelector("a.jsonl", base=tmp_path).select(batch_of("q0", "q1"))
    assert made.errors == {0: "query 'q0': a.jsonl has no answer to this query; it has 1 answer"}
    assert made.candidates.request.tolist() == [1]


def test_a_faulty_answer_is_an_error_with_its_line(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        lines(answer("q1", A)) + '{"query": "q2", "items": [{"id": "tool:a", "score": NaN}]}'
    )
    made = FileSelector("a.jsonl", base=tmp_path).select(batch_of("q1", "q2"))
    assert made.errors == {
        1: "query 'q2': the score of items[0] ('tool:a') is nan; expected a finite number (a.jsonl, line 2)"
    }


def test_all_malformed_lines_are_reported_at_once_with_line_and_column(tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_bytes(
        b'{"query": "q1", "items": []}\n'
        b'{"query": "q2" "items": []}\n'
        b'{"query": "q1", "items": []}\n'
        b"[1]\n"
        b'{"items": []}\n'
        b'{"query": 7}\n'
        b'{"query": "\xff"}\n'
        b'{"query": "q3", "query": "q4"}\n'
    )
    with pytest.raises(InputError) as caught:
        FileSelector(path)
    assert [(fault.line, fault.column) for fault in caught.value.faults] == [
        (2, 16), (3, 0), (4, 1), (5, 1), (6, 1), (7, 12), (8, 0),
    ]  # fmt: skip
    messages = [fault.message for fault in caught.value.faults]
    assert messages[0].startswith("not JSON: Expecting ',' delimiter; expected one JSON object per line")
    assert messages[1] == "query 'q1' is answered twice, first in line 1; keep one of the two"
    assert messages[2] == "expected an answer {query, items}, got [1]"
    assert messages[3] == "query must be the id of a query, a text; got None"
    assert messages[4] == "query must be the id of a query, a text; got 7"
    assert "invalid UTF-8" in messages[5]
    assert "holds the key 'query' twice" in messages[6]
    assert f"({path}, line 2, column 16)" in str(caught.value)


def test_a_missing_file_and_a_folder_are_errors(tmp_path):
    with pytest.raises(StorageError, match=r"cannot read .*none\.jsonl: No such file"):
        FileSelector(tmp_path / "none.jsonl")
    with pytest.raises(StorageError, match="it is a folder"):
        FileSelector(tmp_path)


@pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="pipes of a shell")
def test_a_pipe_is_an_error_as_it_would_be_empty_the_second_time():
    reading, writing = os.pipe()
    try:
        with pytest.raises(StorageError, match="it is a pipe; expected a file"):
            FileSelector(f"/dev/fd/{reading}")
    finally:
        os.close(reading)
        os.close(writing)


def test_an_empty_file_is_refused(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("")
    with pytest.raises(InputError, match=r"^the file is empty; expected lines such as"):
        FileSelector(path)


def test_answers_to_unknown_queries_are_reported(tmp_path):
    (tmp_path / "a.jsonl").write_text(lines(answer("q9", A), answer("q1", A), answer("q8", A)))
    selector = FileSelector("a.jsonl", base=tmp_path)
    assert selector.unknown(["q1", "q2"]) == ("q9", "q8")
    selector.select(batch_of("q1"))
    assert selector.notes["answers_not_asked_for"] == 2
    assert selector.notes["first_not_asked_for"] == ["q9", "q8"]
    selector.select(batch_of("q8", "q9"))
    assert selector.notes == {"without_ranking": 3, "without_scores": 3}


def test_the_description_is_the_content_and_no_absolute_path(tmp_path):
    text = lines(answer("q1", A))
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.jsonl").write_text(text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    inside = FileSelector("sub/a.jsonl", base=tmp_path).describe()
    assert inside == {"protocol": 1, "answers": "sub/a.jsonl", "sha256": digest, "repeats": 1}
    outside = FileSelector(tmp_path / "sub" / "a.jsonl", base=tmp_path / "other").describe()
    assert outside["answers"] == "a.jsonl"


def test_ranked_and_scored_are_those_of_all_answers(tmp_path):
    ranking = {"query": "q1", "items": [{"id": A, "score": 1}], "ranking": [{"id": A, "score": 1}]}
    empty = {"query": "q2", "items": [], "ranking": []}
    (tmp_path / "a.jsonl").write_text(lines(ranking, empty, answer("q3", B)))
    selector = FileSelector("a.jsonl", base=tmp_path)
    both = selector.select(batch_of("q1", "q2"))
    assert (both.ranked, both.scored) == (True, True)
    mixed = selector.select(batch_of("q1", "q3"))
    assert (mixed.ranked, mixed.scored) == (False, False)
    assert mixed.candidates.score.tolist() == [1.0, -1.0]  # each as if it stood alone
    with_error = selector.select(batch_of("q1", "q7"))
    assert (with_error.ranked, with_error.scored, list(with_error.errors)) == (True, True, [1])


def test_a_file_without_a_single_answer_is_refused_with_what_an_answer_is(tmp_path):
    (tmp_path / "a.jsonl").write_text(lines({"query": "q1", "text": "a"}, {"id": 1}))
    with pytest.raises(InputError) as caught:
        FileSelector("a.jsonl", base=tmp_path)
    (fault,) = caught.value.faults
    assert fault.message.startswith("no line is an answer: none has 'items' or 'ranking', they have 'query', 'text'")
    assert 'expected lines such as {"query": "q1", "items": [{"id": ' in fault.message
    assert "golden" not in fault.message
    (tmp_path / "a.jsonl").write_text(lines({"query": "q1", "error": "down"}))
    assert FileSelector("a.jsonl", base=tmp_path).select(batch_of("q1")).errors


@pytest.mark.parametrize("name", ["expected", "expectedTools", "must_include", "mustNotUse", "forbidden", "tools"])
def test_evals_that_are_given_as_answers_are_told_as_such(tmp_path, name):
    (tmp_path / "evals.jsonl").write_text(lines({"query": "refund 17", name: ["a"]}))
    with pytest.raises(InputError, match=r"run `ctxbench data import FILE .*evals\.jsonl"):
        FileSelector("evals.jsonl", base=tmp_path)


def test_an_id_that_is_nearly_one_of_the_catalog_is_proposed(tmp_path):
    catalog = Catalog([Item(type="tool", server="crm", name="delete_invoice", description="x")])
    path = tmp_path / "a.jsonl"
    path.write_text(lines(answer("q1", "tool:crm:delete_invoices")))
    errors = FileSelector(path).select(Batch.of(catalog, [Request(id="q1", text="x")])).errors
    assert "does not hold; did you mean 'tool:crm:delete_invoice'?" in errors[0]


def test_a_file_of_answers_is_not_asked_for_a_new_request(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(lines(answer("q1", A)))
    with pytest.raises(SelectorError, match="is a file of answers, which answers no new request; name what wrote it"):
        ask_own(FileSelector(path), batch_of("select"), resources=None)
