"""TREC's qrels and runs."""

from __future__ import annotations

from pathlib import Path

import ir_measures
import pytest

import ctxbench
from ctxbench.datasets.files import read_dataset, write_dataset
from ctxbench.io.documents import dump_jsonl
from ctxbench.io.errors import InputError, ParameterError, StorageError
from ctxbench.io.rows import read_run
from ctxbench.labelling.conversion import ImportSettings
from ctxbench.labelling.judgment_files import answers_of_run, import_collection
from ctxbench.selectors.external import FileSource

TINY = Path(__file__).parents[3] / "fixtures" / "tiny"


def import_trec(qrels, *, queries, corpus, settings=None):
    return import_collection([corpus, queries, *qrels.values()], kind="trec", settings=settings)


@pytest.fixture
def files(tmp_path):
    def write(**texts):
        given = {
            "queries.tsv": "1\tone\n2\ttwo words\n",
            "corpus.jsonl": '{"id": "d1", "contents": "text one"}\n{"docno": "d2", "title": "T", "text": "x"}\n',
            "test.qrels": "1 0 d1 1\n1 Q0 d2 0\n2\t0\td2\t1\n",
        }
        for name, text in {**given, **texts}.items():
            (tmp_path / name).write_text(text, "utf-8")
        return tmp_path

    return write


def imported(root, qrels=None, corpus="corpus.jsonl", queries="queries.tsv", **given):
    qrels = qrels or {"": root / "test.qrels"}
    return import_trec(qrels, queries=root / queries, corpus=root / corpus, **given)


def test_qrels_queries_and_documents_become_a_dataset(files):
    data = imported(files()).dataset
    assert [(q.id, q.request.text, q.split) for q in data.queries] == [
        ("1", "one", "test"),  # as the file of qrels is named
        ("2", "two words", "test"),
    ]
    assert [(i.query, i.item.id, i.grade) for i in data.labels] == [
        ("1", "reference:d1", 2),
        ("1", "reference:d2", 0),
        ("2", "reference:d2", 2),
    ]


def test_qrels_may_be_of_several_splits(files):
    root = files(**{"dev.qrels": "2 0 d1 1\n", "test.qrels": "1 0 d1 1\n"})
    data = imported(root, {"dev": root / "dev.qrels", "test": root / "test.qrels"}).dataset
    assert [q.split for q in data.queries] == ["test", "tuning"]


def test_documents_in_tab_separated_lines(files):
    root = files(**{"corpus.tsv": "d1\ttext one\nd2\tT\tx\n"})
    assert imported(root, corpus="corpus.tsv").dataset.catalog.hash == imported(root).dataset.catalog.hash


def test_graded_relevance_is_mapped(files):
    root = files(**{"test.qrels": "1 0 d1 2\n1 0 d2 1\n2 0 d2 -2\n"})
    with pytest.raises(InputError, match="the scores are graded"):
        imported(root)
    found = imported(root, settings=ImportSettings(grades={1: 1, 2: 2}))
    assert [i.grade for i in found.dataset.labels] == [2, 1, 0]
    assert found.counts["labels with negative scores"] == 1
    assert found.dataset.unlabelled == ("2",)


def test_faults_have_file_and_line(files):
    root = files(
        **{
            "queries.tsv": "1\tone\n2\n1\tagain\n",
            "corpus.tsv": "d1\n",
            "test.qrels": "1 0 d1\n1 0 d1 yes\n",
        }
    )
    with pytest.raises(InputError) as caught:
        imported(root, corpus="corpus.tsv")
    assert [(Path(f.path).name, f.line) for f in caught.value.faults] == [
        ("corpus.tsv", 1),
        ("queries.tsv", 2),
        ("queries.tsv", 3),
        ("test.qrels", 1),
        ("test.qrels", 2),
    ]
    assert "expected 4 fields (query_id, iteration, doc_id, score) separated by blanks, got 3" in str(caught.value)
    with pytest.raises(StorageError, match=r"gone\.qrels"):
        imported(root, {"": root / "gone.qrels"})
    with pytest.raises(InputError, match=r"but no labels"):
        import_trec({}, queries=files() / "queries.tsv", corpus=root / "corpus.jsonl")


def test_faults_are_said_of_the_files_that_they_stand_in(files):
    root = files(**{"dev.qrels": "1 0 d1 2\n", "test.qrels": "1 0 d1\n2 0 d1 1\n"})
    both = f"{root / 'dev.qrels'}, {root / 'test.qrels'}"
    with pytest.raises(InputError) as caught:
        imported(root)
    assert caught.value.subject == str(root / "test.qrels")
    (root / "test.qrels").write_text("2 0 d1 1\n")
    with pytest.raises(InputError, match="the scores are graded") as caught:
        imported(root, {"dev": root / "dev.qrels", "test": root / "test.qrels"})
    assert caught.value.subject == both
    assert [fault.path for fault in caught.value.faults] == [both]


RUN = "q1 Q0 d1 1 0.5 t\nq1 Q0 d3 2 0.5 t\nq1 Q0 d2 9 0.75 t\nq2 Q0 d1 1 -1e-3 t\n"


def test_a_run_is_ordered_by_score_and_ties_as_trec_eval_does(tmp_path):
    path = tmp_path / "a.run"
    path.write_text(RUN)
    assert read_run(path) == {"q1": [("d2", 0.75), ("d3", 0.5), ("d1", 0.5)], "q2": [("d1", -0.001)]}
    # ir-measures (by pytrec_eval) sees d3 before d1 as well: relevant d1 is third
    qrels = [ir_measures.Qrel("q1", "d1", 1)]
    (found,) = ir_measures.iter_calc([ir_measures.RR], qrels, ir_measures.read_trec_run(str(path)))
    assert found.value == pytest.approx(1 / 3)


def test_scores_of_a_run_are_compared_as_32_bit_numbers(tmp_path):
    (path := tmp_path / "a.run").write_text("q1 Q0 d1 1 10.00000002 t\nq1 Q0 d2 2 10.00000001 t\nq1 Q0 d3 3 -1e300 t\n")
    assert read_run(path) == {"q1": [("d2", 10.00000001), ("d1", 10.00000002), ("d3", -1e300)]}
    qrels, run = [ir_measures.Qrel("q1", "d1", 1)], ir_measures.read_trec_run(str(path))
    assert ir_measures.calc_aggregate([ir_measures.RR], qrels, run) == {ir_measures.RR: 0.5}


def test_a_faulty_run_is_refused(tmp_path):
    path = tmp_path / "a.run"
    path.write_text(RUN + "q3 Q0 d1 1 0.5\nq1 Q0 d1 4 0.1 t\nq3 Q0 d1 1 nan t\nq3 Q0 d1 1 x t\n")
    with pytest.raises(InputError) as caught:
        read_run(path)
    assert [fault.line for fault in caught.value.faults] == [5, 6, 7, 8]
    assert "expected 6 fields" in str(caught.value)
    path.write_text("\n")
    with pytest.raises(InputError, match="the file is empty"):
        read_run(path)


def test_a_run_becomes_answers_that_score_reads(tmp_path):
    data = read_dataset(TINY)
    run = {"q01": [("rule:code%20review", 2.0), ("create_issue", 1.5), ("release calendar", 1.0)], "qx": [("a", 1.0)]}
    answers, odd = answers_of_run(run, data, keep=1)
    assert answers[0] == {
        "query": "q01",
        "items": [{"id": "rule:code%20review", "score": 2.0}],
        "ranking": [
            {"id": "rule:code%20review", "score": 2.0},
            {"id": "reference:release%20calendar", "score": 1.0},
        ],
    }
    assert odd["documents not in the dataset"] == ["q01 create_issue"]  # two servers have one
    assert odd["queries not in the dataset"] == ["qx"]
    assert len(odd["queries not in the run"]) == 9
    assert len(answers) == 10
    path = tmp_path / "answers.jsonl"
    path.write_text(dump_jsonl(answers), "utf-8")
    assert FileSource(path).unknown(query.id for query in data.queries) == ()
    with pytest.raises(ParameterError, match="keep must be 0 or more"):
        answers_of_run(run, data, keep=-1)


def test_the_order_of_ties_is_kept_in_answers(files, tmp_path):
    documents = [f"d{number}" for number in range(1, 10)]
    root = files(
        **{"corpus.tsv": "".join(f"{name}\tabout {name}\n" for name in documents), "test.qrels": "1 0 d7 1\n2 0 d2 1\n"}
    )
    data = imported(root, corpus="corpus.tsv").dataset
    write_dataset(data, tmp_path / "data")
    path = tmp_path / "ties.run"
    path.write_text("".join(f"{query} Q0 {name} 1 1.0 t\n" for query in "12" for name in documents))
    run = read_run(path)
    answers, _ = answers_of_run(run, data, keep=5)
    (tmp_path / "answers.jsonl").write_text(dump_jsonl(answers), "utf-8")
    systems = {"run": ctxbench.answers(path), "answers": ctxbench.answers(tmp_path / "answers.jsonl")}
    res = ctxbench.evaluate(tmp_path / "data", systems, metrics=["nDCG@10"], counter="chars/4")
    qrels = [ir_measures.Qrel("1", "d7", 1), ir_measures.Qrel("2", "d2", 1)]
    scored = [ir_measures.ScoredDoc(query, *pair) for query, pairs in run.items() for pair in pairs]
    expected = ir_measures.calc_aggregate([ir_measures.nDCG @ 10], qrels, scored)[ir_measures.nDCG @ 10]
    assert res.to_frame()["nDCG@10"].tolist() == pytest.approx([expected, expected])


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (
            {"x1": [("create_issue", 1.0)]},
            "none of the 1 queries of the run is in the dataset tiny: 'x1'; the dataset tiny has 'q01',",
        ),
        (
            {"q01": [("d1", 1.0), ("d2", 0.5)]},
            "none of the 2 ranked documents of the run is in the dataset tiny: 'd1' and 'd2'; ",
        ),
    ],
)
def test_a_run_of_another_dataset_is_refused(run, message):
    with pytest.raises(ParameterError, match=message):
        answers_of_run(run, read_dataset(TINY), keep=1)


@pytest.mark.parametrize(
    ("qrels", "message"),
    [
        (
            "q1 0 d1 1\nq2 0 d1 1\n",
            "none of the 2 queries that labels name is in the file of queries: 'q1' and 'q2'; the file of",
        ),
        ("1 0 x1 1\n", "none of the 1 documents that labels name is in the corpus: 'x1'; the corpus has 'd1' and 'd2'"),
    ],
)
def test_labels_of_other_queries_or_documents_are_refused(files, qrels, message):
    with pytest.raises(InputError, match=message):
        imported(files(**{"test.qrels": qrels}))


def test_files_of_the_same_name_are_told_apart_in_the_card(files):
    root = files()
    for split, line in (("dev", "2 0 d1 1\n"), ("test", "1 0 d1 1\n")):
        (root / split).mkdir()
        (root / split / "qrels.txt").write_text(line)
    qrels = {split: root / split / "qrels.txt" for split in ("dev", "test")}
    found = imported(root, qrels).dataset.about["source"]["sha256"]
    assert set(found) == {"corpus.jsonl", "queries.tsv", "dev/qrels.txt", "test/qrels.txt"}


def test_ids_of_a_collection_whose_tools_are_named_by_title_still_name_them(files, tmp_path):
    """Runs, answers and labels of other programs have the published ids."""
    corpus = '{"id": "d1", "title": "area", "text": "x"}\n{"id": "d2", "title": "root", "text": "y"}\n'
    root = files(**{"corpus.jsonl": corpus, "a.run": "1 Q0 d2 1 2.5 t\n1 Q0 d1 2 0.5 t\n"})
    data = imported(root, settings=ImportSettings(type="tool")).dataset
    assert data.catalog.ids == ("tool:area", "tool:root")
    answers, _ = answers_of_run(read_run(root / "a.run"), data, keep=1)
    assert answers[0] == {"query": "1", "items": [{"id": "tool:root", "score": 2.5}], "ranking": answers[0]["ranking"]}
    labels = [{"query": "1", "item": "d1"}]
    named = ctxbench.dataset(data.catalog, [{"query": "1", "text": "one"}], labels)
    results = ctxbench.evaluate(named, {"run": ctxbench.answers(root / "a.run")}, metrics=["RR"], counter="chars/4")
    assert results.to_run("run")["doc_id"].tolist() == ["tool:root", "tool:area"]
    assert results.to_frame()["RR"].tolist() == [0.5]
    with pytest.raises(ParameterError, match="has 'tool:area' and 'tool:root'"):
        answers_of_run({"1": [("d9", 1.0)]}, data, keep=1)
