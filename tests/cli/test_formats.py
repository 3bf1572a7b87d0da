"""`ctxbench data import` of collections, evals, trigger evals and rankings; the first word may name the kind."""

from __future__ import annotations

import json

import pytest

from ctxbench.datasets.files import read_dataset


@pytest.fixture
def exported(tiny, cli):
    def write(form):
        assert cli("data", "export", tiny, "--format", form, "--out", form, "--plain").code == 0
        return form

    return write


def test_beir(exported, cli, place):
    options = ["--out", "out", "--name", "back", "--grades", "1=1,2=2", "--licence", "MIT"]
    done = cli("data", "import", "beir", exported("beir"), *options)
    assert done.err == (
        "A document that the labels of a query do not name counts as not needed, whatever its --type (here reference); "
        "a query without a required document is unlabelled.\n"
    )
    lines = done.out.splitlines()
    assert [line.rpartition(" ")[2] for line in lines[:2]] == ["documents)", "beir)"]
    assert lines[2].startswith("out: 10 requests (tuning 5, test 5), 13 labels, 2 forbidden items, 0 offered sets ")
    assert lines[2].endswith(" over 12 items; 8 labelled in full, 0 in part, 2 not at all")
    assert lines[3] == "unlabelled queries (no required document): 2 (q05, q10)"
    assert lines[-1].startswith("next: ")
    data = read_dataset(place / "out")
    assert (data.name, data.about["licence"]) == ("back", "MIT")
    assert set(data.about["source"]["sha256"]) == {"corpus.jsonl", "queries.jsonl", "tuning.tsv", "test.tsv"}


def test_nothing_is_written_if_something_is_wrong(exported, cli, place):
    done = cli("data", "import", exported("beir"), "--out", "out")
    assert (done.code, done.out) == (2, "")
    assert "the scores are graded" in done.err
    assert not (place / "out").exists()


def test_trec_qrels_by_split(exported, cli, place):
    done = cli("data", "import", exported("trec"), "--grades", "1=1,2=2", "--out", "out", "--json")
    assert done.json["hash"] == read_dataset(place / "out").hash
    assert done.json["counts"]["splits"] == {"tuning": 5, "test": 5}
    assert done.json["counted"]["unlabelled queries (no required document)"] == 2
    assert done.json["listed"]["unlabelled queries (no required document)"] == ["q05", "q10"]


def test_autorag(cli, place):
    (place / "qa.jsonl").write_text('{"qid": "q", "query": "x", "retrieval_gt": [["a", "b"]]}\n')
    (place / "corpus.jsonl").write_text('{"doc_id": "a", "contents": "x"}\n{"doc_id": "b", "contents": "y"}\n')
    assert cli("data", "import", "autorag", "qa.jsonl", "corpus.jsonl", "--type", "chunk", "--out", "out").code == 0
    data = read_dataset(place / "out")
    assert [(label.item.id, label.alternatives) for label in data.labels] == [
        ("chunk:a", "group 1"),
        ("chunk:b", "group 1"),
    ]


def test_a_run_is_scored_as_answers(tiny, place, cli):
    (place / "a.run").write_text(
        "q01 Q0 rule:code%20review 1 2 t\nq01 Q0 tool:forge:get_pull_request 2 1 t\nqx Q0 a 1 1 t\n"
    )
    done = cli("data", "import", "run", "a.run", "-d", tiny, "--keep", "2", "--out", "answers.jsonl")
    assert done.out == (
        "queries not in the dataset: 1 (qx)\n"
        "queries not in the run: 9 (q02, q03, q04, ...)\n"
        "10 answers, at most 2 items offered in each, written to answers.jsonl\n"
    )
    done = cli("score", "answers.jsonl", "--dataset", tiny, "--tokens", "chars/4", "--json")
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("options", "said"),
    [([], "Else that is unknown, and the request is unlabelled"), (["--nothing-else"], "should trigger none needs")],
)
def test_triggers_say_whether_another_skill_is_needed(cli, place, options, said):
    skill = place / "skills" / "pdf"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: pdf\ndescription: Merge files\n---\nDo it.\n")
    (skill / "trigger_eval.json").write_text('[{"query": "Merge these", "should_trigger": true}]')
    assert said in cli("data", "import", "triggers", "skills", "--out", "out", "--json", *options).err


def test_golden_says_that_what_is_not_expected_is_not_needed(tiny, cli, place):
    (place / "evals.jsonl").write_text('{"query": "review it", "expected": ["rule:code%20review"]}\n')
    done = cli("data", "import", "golden", "evals.jsonl", "-c", tiny, "--out", "out")
    assert done.err.startswith("An item that the expected ones of a request do not name counts as not needed, ")
    assert read_dataset(place / "out").about["source"]["path"] == "../evals.jsonl"
    (place / "evals.jsonl").write_text('{"query": "review it", "expected": ["no such"]}\n')
    assert "is not in the catalog" in cli("data", "import", "evals.jsonl", "-c", tiny, "--out", "other").err
    assert not (place / "other").exists()


def test_golden_again_replaces_what_it_made_unless_somebody_has_labelled(tiny, cli, place):
    evals, out = place / "evals.jsonl", place / "out"

    def imported(query):
        evals.write_text(json.dumps({"query": query, "expected": ["rule:code%20review"]}))
        return cli("data", "import", "golden", "evals.jsonl", "-c", tiny, "--out", "out", "--json")

    assert imported("review it").json["replaced"] is False
    assert imported("check it").json["replaced"] is True
    assert [query.request.text for query in read_dataset(out).queries] == ["check it"]
    (out / "labelling").mkdir()
    (out / "labelling" / "answers.jsonl").write_text("{}\n")
    done = imported("review it")
    assert done.code == 2
    assert "holds answers of `data label`" in done.err
    assert [query.request.text for query in read_dataset(out).queries] == ["check it"]


def test_golden_reads_fields_under_the_names_that_map_says(tiny, cli, place):
    (place / "evals.jsonl").write_text(json.dumps({"words": "review it", "wanted": ["rule:code%20review"], "no": 7}))
    command = ["data", "import", "golden", "evals.jsonl", "-c", tiny, "--out", "out"]
    assert "--map query=words,expected=wanted" in cli(*command).err
    assert "'wrods'" in cli(*command, "--map", "wrods=words").err
    assert cli(*command, "--map", "query=words, expected=wanted,id=no").code == 0
    (label,) = read_dataset(place / "out").labels
    assert (label.query, label.item.id) == ("7", "rule:code%20review")


def lines(path, rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")


@pytest.mark.parametrize(
    ("kind", "rows", "n"),
    [
        ("golden", [{"query": "refund 17"}, {"query": "hello", "expected": None}], 2),
        ("golden", [{"query": "refund 17", "tools": [{"name": "a", "description": "x"}]}], 1),
        ("autorag", [{"qid": "q1", "query": "x", "retrieval_gt": []}], 1),
    ],
)
def test_a_file_without_labels_is_so_many_requests_to_label(cli, place, kind, rows, n):
    lines(place / "evals.jsonl", rows)
    lines(place / "corpus.jsonl", [{"doc_id": "a", "contents": "x"}])
    (place / "tools.json").write_text(json.dumps([{"name": "a", "description": "x", "inputSchema": {}}]))
    assert cli("data", "import", "tools", "tools.json", "--out", "cat").code == 0
    source = ["corpus.jsonl"] if kind == "autorag" else ["-c", "cat"]
    done = cli("data", "import", kind, "evals.jsonl", *source, "--out", "made")
    assert done.code == 0
    assert f"made: {n} request{'s' if n > 1 else ''} (" in done.out
    assert ", 0 labels, " in done.out
    assert done.out.splitlines()[-1] == "next: `ctxbench data label made --minutes 20`"


def test_a_file_whose_labels_cannot_be_read_writes_nothing(cli, place):
    lines(place / "corpus.jsonl", [{"doc_id": "a", "contents": "x"}])
    lines(place / "qa.jsonl", [{"qid": "q1", "query": "x", "retrieval_gt": [["gone"]]}])
    done = cli("data", "import", "autorag", "qa.jsonl", "corpus.jsonl", "--out", "made")
    assert (done.code, done.out) == (2, "")
    assert not (place / "made").exists()
