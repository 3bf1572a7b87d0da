"""Pairs for a second labelling, and how far two labellings agree, from outside."""

from __future__ import annotations

import json

HEADER = "query-id\tcorpus-id\tscore\n"


def test_pairs_are_written_without_labels(cli, tiny, place):
    done = cli("data", "pool", tiny, "--share", "0.5", "--random", "2", "--embedder", "hashing", "--out", "pairs.jsonl")
    assert done.code == 0
    rows = [json.loads(line) for line in (place / "pairs.jsonl").read_text("utf-8").splitlines()]
    assert done.err.splitlines()[-1] == (
        f"{sum(len(row['items']) for row in rows)} pairs of {len(rows)} queries written to pairs.jsonl"
    )
    assert len(rows) == 5
    for row in rows:
        assert set(row) <= {"_id", "text", "history", "session", "scope", "items"}
        assert all(set(item) <= {"_id", "description", "text", "include"} for item in row["items"])
    assert cli("data", "pool", tiny, "--share", "2", "--embedder", "hashing", "--out", "x.jsonl").code == 2


def test_agreement_is_printed_with_every_difference(cli, place):
    (place / "a.tsv").write_text(f"{HEADER}q1\ttool:a\t2\nq1\ttool:b\t0\nq2\ttool:a\t0\nq2\ttool:b\t0\n", "utf-8")
    (place / "b.tsv").write_text(f"{HEADER}q1\ttool:a\t2\nq1\ttool:b\t0\nq2\ttool:a\t2\nq3\ttool:b\t0\n", "utf-8")
    done = cli("data", "agreement", "a.tsv", "b.tsv")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[:3] == [
        "3 pairs of 2 queries judged by both",
        "1 pair in a.tsv only: ignored",
        "1 pair in b.tsv only: ignored",
    ]
    # required: 2 of 3 agree; by chance 1/3 * 2/3 + 2/3 * 1/3 = 4/9; (6/9 - 4/9) / (5/9) = 0.4
    assert next(line for line in lines if line.startswith("required  ") and "0.4" in line).split()[1] == "0.400"
    assert lines[-2:] == ["  query  item  first second (0 irrelevant, 1 helpful, 2 required)", "  q2  tool:a  0 2"]
    assert any(line.startswith("kappa: agreement beyond chance; 1 = always") for line in lines)
    kappas = cli("data", "agreement", "a.tsv", "b.tsv", "--json").json["kappas"]
    assert [round(one["kappa"], 9) for one in kappas[:2]] == [0.4, 0.4]


def test_where_kappa_cannot_be_told_it_is_said_why(cli, place):
    for name in "ab":
        (place / f"{name}.tsv").write_text(f"{HEADER}q1\ttool:a\t2\n", "utf-8")
    done = cli("data", "agreement", "a.tsv", "b.tsv")
    assert "nan" not in done.out
    assert "- = undefined, as all answers are equal" in done.out


def test_labellings_of_other_pairs_are_one_message(cli, place):
    (place / "a.tsv").write_text(f"{HEADER}q1\ttool:a\t2\n", "utf-8")
    (place / "b.tsv").write_text(f"{HEADER}q9\ttool:a\t2\n", "utf-8")
    done = cli("data", "agreement", "a.tsv", "b.tsv")
    assert (done.code, done.out) == (2, "")
    assert "no pair of query and item in common" in done.err
