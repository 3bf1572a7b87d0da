"""Files whose labels cannot be read are refused; files without labels are requests to label."""

from __future__ import annotations

import json

import pytest

from ctxbench.io.errors import InputError, ParameterError
from ctxbench.labelling.judgment_files import answers_of_run, import_collection
from tests.labelling.importers.formats.golden_cases import import_triggers

DOCUMENTS = [{"_id": name, "doc_id": name, "text": "x", "contents": "x"} for name in "abc"]
QUERIES = [{"_id": "q1", "text": "one"}, {"_id": "q2", "text": "two"}]
HEADER = "query-id\tcorpus-id\tscore\n"


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(rows if isinstance(rows, str) else "".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


@pytest.fixture
def files(tmp_path):
    write(tmp_path / "corpus.jsonl", DOCUMENTS)
    write(tmp_path / "queries.jsonl", QUERIES)
    return tmp_path


def autorag(files, *groups):
    rows = [{"qid": f"q{n}", "query": "x", "retrieval_gt": group} for n, group in enumerate(groups)]
    return import_collection([files / "corpus.jsonl", write(files / "qa.jsonl", rows)])


def trec(files, qrels):
    write(files / "qrels/test.tsv", HEADER + "".join(f"{query}\t{doc}\t1\n" for query, doc in qrels))
    write(files / "qrels.txt", "".join(f"{query} 0 {doc} 1\n" for query, doc in qrels))
    return import_collection([files / name for name in ("corpus.jsonl", "queries.jsonl", "qrels.txt")])


@pytest.mark.parametrize("group", [[["gone"]], [["a", "b"], ["b", "c"]]])
def test_questions_of_which_no_document_can_be_a_label_are_refused(files, group):
    with pytest.raises(InputError, match="'retrieval_gt'"):
        autorag(files, group, [])
    assert autorag(files, group, [["a"]]).dataset.counts["unlabelled"] == 1
    assert autorag(files, [], []).dataset.labels == ()


def test_qrels_no_row_of_which_has_both_query_and_document_are_refused(files):
    rows = [("q1", "gone"), ("nobody", "a")]
    with pytest.raises(InputError, match=r"qrels\.txt"):
        trec(files, rows)
    with pytest.raises(InputError, match=r"test\.tsv"):
        import_collection([files / name for name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv")])
    assert len(trec(files, [*rows, ("q1", "a")]).dataset.labels) == 1
    assert trec(files, []).dataset.labels == ()


def test_skills_whose_trigger_evals_hold_no_request_are_refused(tmp_path):
    write(tmp_path / "pdf/SKILL.md", "---\nname: pdf\ndescription: x\n---\nbody\n")
    write(tmp_path / "pdf/trigger_eval.json", "[]")
    with pytest.raises(InputError, match="the file is empty"):
        import_triggers(tmp_path)


def test_a_run_that_ranks_no_document_for_a_query_of_the_dataset_is_refused(files):
    dataset = trec(files, [("q1", "a")]).dataset
    with pytest.raises(ParameterError, match="no document ranked"):
        answers_of_run({"q1": [("gone", 1.0)], "nobody": [("a", 1.0)]}, dataset, keep=5)
