"""`ctxbench score`: a file of answers."""

from __future__ import annotations

import json

import pytest

IDS = ("q01", "q02", "q03", "q04", "q05", "q06", "q07", "q08", "q09", "q10")


@pytest.fixture
def answers(place):
    """Write a file of answers: `given` by query, nothing offered for the others."""

    def write(given=None, *, ids=IDS, name="mine.jsonl"):
        rows = [{"query": one, "items": (given or {}).get(one, [])} for one in ids]
        path = place / name
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        return path

    return write


def test_answers_are_scored_beside_shipped_selectors(cli, answers, tiny, tmp_path):
    given = {"q02": [{"id": "reference:release%20calendar"}], "q03": [{"id": "reference:release%20calendar"}]}
    done = cli(
        "score", answers(given), "--dataset", tiny, "--compare-to", "bm25", "--compare-to", "everything", "--json"
    )
    assert done.code == 0
    assert done.err == "3 selector runs made, 0 reused; 0 texts embedded, no model loaded\n"
    selectors = done.json["datasets"]["tiny"]["selectors"]
    assert list(selectors) == ["mine", "bm25", "everything"]
    assert done.json["experiment"]["compare_to"] == "mine"
    # 8 queries need something: q02 and q03 have it, and q09's item is held by its session
    assert "0.375" in json.dumps(selectors["mine"])
    assert list((tmp_path / "tmp").iterdir()) == []  # nothing stays behind


def test_the_table_is_on_stdout(cli, answers, tiny):
    done = cli("score", answers(), "-d", tiny)
    assert "\n\ntiny: 10 queries, 12 items\n" in done.out
    assert "mine (baseline)" in done.out


def test_only_the_queries_of_a_split_are_scored(cli, answers, tiny):
    done = cli("score", answers(), "-d", tiny, "--split", "test", "--json")
    assert done.json["experiment"]["split"] == "test"
    assert done.json["datasets"]["tiny"]["queries"] < len(IDS)
    assert "test" in cli("score", answers(), "-d", tiny, "--split", "tset").err


def test_answers_that_are_all_empty_are_told(cli, answers, tiny):
    said = "warning: every answer of mine on tiny is empty"
    assert said in cli("score", answers(), "-d", tiny).err
    given = {"q02": [{"id": "reference:release%20calendar"}]}
    assert said not in cli("score", answers(given, name="mine.jsonl"), "-d", tiny).err


def test_a_run_is_kept_where_it_is_asked_for(cli, answers, tiny, place):
    done = cli("score", answers(), "--dataset", tiny, "--out", "kept")
    assert done.err.endswith("report: kept/report.html (open it in a browser)\n")
    assert cli("report", "kept").out == done.out
    again = cli("score", "mine.jsonl", "--dataset", tiny, "--out", "kept")
    assert again.err.startswith("0 selector runs made, 1 reused;")


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ((), "stopped: nothing is half-written\n"),
        (("--out", "kept"), "stopped: nothing is half-written, and the same command goes on from here\n"),
    ],
    ids=["temporary", "kept"],
)
def test_ctrl_c_says_that_the_command_goes_on_only_where_a_folder_is_kept(cli, answers, tiny, monkeypatch, out, said):
    def stop(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("ctxbench.evaluation.runner.run", stop)
    done = cli("score", answers(), "--dataset", tiny, *out)
    assert (done.code, done.out, done.err) == (130, "", said)


def test_queries_that_nobody_asked_are_said(cli, answers, tiny):
    done = cli("score", answers(ids=(*IDS, "q77", "q78")), "--dataset", tiny)
    assert done.code == 0
    assert "q77" in done.out
    assert "q78" in done.out


def test_answers_to_unlabelled_queries_are_not_called_absent(cli, place):
    tool = {"name": "refund", "description": "Refund.", "inputSchema": {}}
    (place / "tools.json").write_text(json.dumps([tool]))
    evals = [{"id": "a", "query": "refund 17", "expected": ["refund"]}, {"id": "b", "query": "who are you?"}]
    (place / "evals.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in evals))
    answers = [{"query": query, "items": []} for query in "abz"]
    (place / "answers.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in answers))
    assert cli("data", "import", "tools", "tools.json", "--out", "cat").code == 0
    assert cli("data", "import", "golden", "evals.jsonl", "-c", "cat", "--out", "ds").code == 0
    done = cli("score", "answers.jsonl", "-d", "ds", "--json")
    (selector,) = done.json["datasets"]["ds"]["selectors"].values()
    assert selector["notes"]["first_unlabelled"] == ["b"]
    assert selector["notes"]["first_not_asked_for"] == ["z"]


def test_queries_without_an_answer_are_errors_and_said(cli, answers, tiny):
    done = cli("score", answers(ids=IDS[:7]), "--dataset", tiny)
    assert done.code == 0
    warning = done.err.splitlines()[0]
    assert warning.startswith(
        "warning: tiny, mine: 3 queries failed and count as nothing offered; first query 'q08' and 2 more: "
    )
    assert warning.endswith("; --out keeps a folder with all of them")
    assert "mine failed on 3 of 10 queries" in " ".join(done.out.split())


def test_the_same_mistake_in_many_lines_is_one_reason(cli, answers, tiny):
    path = answers()
    first, *others = path.read_text().splitlines()
    path.write_text("\n".join([first, *(line.replace('"items"', '"item"') for line in others)]))
    done = cli("score", path, "--dataset", tiny)
    warning, *rest = done.err.splitlines()
    assert "9 queries failed" in warning
    assert "first query 'q02' and 8 more: an answer has no key 'item'; did you mean 'items'?" in warning
    assert "line 2)" in warning
    assert not any(line.startswith("  query") for line in rest)


def test_an_empty_file_is_said_to_be_empty_and_nothing_else(cli, tiny, place):
    for text in ("", "\n", "[]"):
        (place / "none.jsonl").write_text(text)
        done = cli("score", "none.jsonl", "--dataset", tiny)
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert done.err.startswith("error: the file is empty; expected lines such as ")


def test_a_score_that_is_no_number_is_an_error_of_its_query(cli, answers, tiny, place):
    path = answers()
    text = path.read_text().replace(
        '{"query": "q03", "items": []}',
        '{"query": "q03", "items": [{"id": "tool:tracker:create_issue", "score": NaN}]}',
    )
    path.write_text(text)
    done = cli("score", path, "--dataset", tiny)
    warning = done.err.splitlines()[0]
    assert warning.startswith(
        "warning: tiny, mine: 1 query failed and count as nothing offered; first query 'q03': the score"
    )
    assert "expected a finite number" in warning
    assert "line 3" in warning


def test_tokens_are_counted_as_asked(cli, answers, tiny):
    done = cli("score", answers(), "--dataset", tiny, "--tokens", "chars/4")
    assert "counted by chars/4" in " ".join(done.out.split())


def test_what_is_wrong_is_said_with_the_closest_names(cli, answers, tiny):
    path = answers()
    for words, message in [
        (("--dataset", "bfcl-simpel"), "did you mean 'bfcl-simple'"),
        (("--dataset", tiny, "--compare-to", "semantic/norml"), "did you mean 'normal'"),
        (("--dataset", tiny, "--tokens", "o20k"), "did you mean 'o200k'"),
        (("--dataset", tiny, "--tokens", "file:/"), "cannot read the token counts '/'"),
        (("--dataset", tiny, "--compare-to", "mine"), "two selectors would have one name"),
    ]:
        done = cli("score", path, *words)
        assert (done.code, done.out) == (2, "")
        assert message in done.err
        assert f"({path})" not in done.err, "the fault is not in the answers"


def test_each_answer_that_is_wrong_is_told_and_missing_ones_once(cli, answers, tiny):
    given = {"q03": [{"id": "track_parcel"}], "q05": [{"id": "release calendar"}]}
    done = cli("score", answers(given, ids=("q03", "q05", "q06")), "--dataset", tiny)
    first, *others = done.err.splitlines()[:3]
    assert "9 queries failed" in first
    assert "first query 'q01' and 6 more: mine.jsonl has no answer to this query; it has 3 answers" in first
    assert others[0].startswith(
        "  query 'q03': items[0] has id 'track_parcel', which the catalog does not hold; expected"
    )
    assert "expected type:name or type:server:name, such as 'rule:answer%20in%20english'" in others[0]
    assert others[1].startswith("  query 'q05': items[0] has id 'release calendar'")
    assert "does not hold; did you mean 'reference:release%20calendar'?" in others[1]
