"""What evals call their fields, and requests that stand in them more than once."""

from __future__ import annotations

import pytest

from ctxbench.io.errors import InputError, ParameterError
from ctxbench.labelling.conversion import PASSED_OVER
from ctxbench.labelling.evals import AGAIN
from tests.labelling.importers.formats.golden_cases import CATALOG, faults_of, import_golden, labels_of, write


@pytest.mark.parametrize(
    ("query", "own_id"),
    [
        ("userMessage", "caseId"),
        ("user_message", "case_id"),
        ("utterance", "testId"),
        ("task", "test_id"),
        ("instruction", "evalId"),
    ],
)
def test_other_names_of_the_request_and_the_id_are_read(tmp_path, query, own_id):
    row = {query: "refund 17", own_id: "c-1", "expectedTools": ["refund_order"]}
    found = import_golden(write(tmp_path / "e.jsonl", [row]), CATALOG)
    assert labels_of(found) == [("c-1", "tool:shop:refund_order", 2, "")]
    assert found.dataset.queries[0].request.text == "refund 17"
    assert found.counts[PASSED_OVER] == 0


def test_another_name_counts_only_where_none_of_the_first_names_is_there(tmp_path):
    row = {"query": "refund 17", "task": "chat", "id": "a", "caseId": "b", "expected": []}
    found = import_golden(write(tmp_path / "e.jsonl", [row]), CATALOG)
    assert [(one.id, one.request.text) for one in found.dataset.queries] == [("a", "refund 17")]
    assert found.ids[PASSED_OVER] == ["caseId", "task"]


def test_a_file_whose_requests_have_no_known_name_is_one_fault_with_the_field_that_is_meant(tmp_path):
    rows = [{"caseId": str(n), "kind": "chat", "theWords": f"refund {n}", "expected": ["refunds"]} for n in range(41)]
    ((line, said),) = faults_of(write(tmp_path / "e.jsonl", rows))
    assert line == 0
    assert said.startswith(
        "no record has a field for the request, only 'caseId', 'kind', 'theWords', 'expected'; did you mean "
        "'theWords'? Name it with --map query=theWords, or rename it to one of query"
    )
    rows = [{**row, "usrMessage": "a text"} for row in rows]
    assert "did you mean 'usrMessage'?" in faults_of(write(tmp_path / "e.jsonl", rows))[0][1]
    assert (
        "only 'expected'. Name it with --map query=FIELD"
        in (faults_of(write(tmp_path / "e.jsonl", [{"expected": ["refunds"]}]))[0][1])
    )


def test_fields_are_read_under_the_names_that_they_are_mapped_to(tmp_path):
    rows = [{"in": {"words": "refund 17"}, "input": "x", "want": ["refund_order"], "n": 7, "for": "tuning"}]
    names = {"query": "in.words", "expected": "want", "id": "n", "split": "for"}
    found = import_golden(write(tmp_path / "e.jsonl", rows), CATALOG, names=names)
    assert labels_of(found) == [("7", "tool:shop:refund_order", 2, "")]
    assert found.dataset.queries[0].request.text == "refund 17"
    assert found.dataset.queries[0].split == "tuning"
    assert found.ids[PASSED_OVER] == ["input"]


def test_a_mapping_that_finds_nothing_is_a_fault_with_the_nearest_field(tmp_path):
    path = write(tmp_path / "e.jsonl", [{"words": "refund 17", "expected": []}, {"expected": []}])
    with pytest.raises(
        InputError, match="'query' is mapped to 'wrds', which no record has a value for; did you mean 'words'"
    ):
        import_golden(path, CATALOG, names={"query": "wrds"})
    with pytest.raises(InputError, match=r"field 'words' is missing; .* line 2"):
        import_golden(path, CATALOG, names={"query": "words"})
    with pytest.raises(ParameterError, match="the field that is mapped"):
        import_golden(path, CATALOG, names={"ask": "words"})


def test_equal_requests_are_told_and_are_one_group_in_one_split(tmp_path):
    rows = [{"id": f"q{n}", "query": f"refund {n % 20}", "expected": ["refunds"]} for n in range(40)]
    found = import_golden(write(tmp_path / "e.jsonl", rows), CATALOG)
    split = {query.id: query.split for query in found.dataset.queries}
    assert {query.id: query.group for query in found.dataset.queries} == {f"q{n}": f"q{n % 20}" for n in range(40)}
    assert all(split[f"q{n}"] == split[f"q{n + 20}"] for n in range(20))
    assert found.counts[AGAIN] == 20
    assert f"{AGAIN}: 20 (lines 1 and 21, lines 2 and 22, lines 3 and 23, ...)" in found.lines()
    alone = import_golden(write(tmp_path / "e.jsonl", rows[:20]), CATALOG)
    assert {query.id: query.split for query in alone.dataset.queries} == {f"q{n}": split[f"q{n}"] for n in range(20)}
    assert alone.counts[AGAIN] == 0


def test_equal_requests_follow_the_split_that_one_of_them_states(tmp_path):
    rows = [{"query": "a", "expected": []}, {"query": "a", "expected": [], "split": "later"}]
    found = import_golden(write(tmp_path / "e.jsonl", rows), CATALOG)
    assert [query.split for query in found.dataset.queries] == ["later", "later"]
    rows[0]["split"] = "tuning"
    ((line, message),) = faults_of(write(tmp_path / "e.jsonl", rows))
    assert (line, message.values) == (2, {"line": 1, "split": "later", "first": "tuning"})
