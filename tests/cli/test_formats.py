"""`ctxbench data import beir | trec | autorag | run`."""

from __future__ import annotations

import json

import pytest

from ctxbench.cli import curate
from ctxbench.cli import data as formats
from ctxbench.datasets.files import read_dataset
from ctxbench.io.errors import InputError, ParameterError


@pytest.fixture
def how():
    def make(**given):
        defaults = {"name": None, "item_type": "reference", "grades": None, "licence": None, "version": None}
        return formats.settings(**{**defaults, **given})

    return make


@pytest.fixture
def exported(tiny, tmp_path, capsys):
    def write(form):
        curate.export(str(tiny), curate.ExportTargets(form, tmp_path / form, None, plain=True), as_json=False)
        capsys.readouterr()
        return tmp_path / form

    return write


def test_beir(exported, how, tmp_path, capsys):
    formats.import_beir(
        exported("beir"), how(name="back", grades="1=1,2=2", licence="MIT"), out=tmp_path / "out", as_json=False
    )
    out, err = capsys.readouterr()
    assert err == (
        "A document that the labels of a query do not name counts as not needed, whatever its --type (here reference); "
        "a query without a required document is unlabelled.\n"
    )
    assert out == (
        "unlabelled queries (no required document): 2 (q05, q10)\n"
        "dataset back: 10 queries (tuning 5, test 5), 15 labels over 12 items; 2 are unlabelled\n"
        f"written to {tmp_path / 'out'}\n"
    )
    data = read_dataset(tmp_path / "out")
    assert data.about["licence"] == "MIT"
    assert set(data.about["source"]["sha256"]) == {"corpus.jsonl", "queries.jsonl", "tuning.tsv", "test.tsv"}


def test_nothing_is_written_if_something_is_wrong(exported, how, tmp_path):
    with pytest.raises(InputError, match="the scores are graded"):
        formats.import_beir(exported("beir"), how(), out=tmp_path / "out", as_json=False)
    assert not (tmp_path / "out").exists()


def test_trec_qrels_by_split(exported, how, tmp_path, capsys):
    folder = exported("trec")
    qrels = [f"{split}={folder / 'qrels' / f'{split}.qrels'}" for split in ("tuning", "test")]
    files = {"queries": folder / "queries.jsonl", "corpus": folder / "corpus.jsonl"}
    formats.import_trec(qrels, how(grades="1=1,2=2"), **files, out=tmp_path / "out", as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["hash"] == read_dataset(tmp_path / "out").hash
    assert found["counted"]["unlabelled queries (no required document)"] == 2
    assert found["listed"]["unlabelled queries (no required document)"] == ["q05", "q10"]
    with pytest.raises(ParameterError, match="two files of qrels for split 'test'"):
        formats.import_trec([qrels[1], qrels[1]], how(), **files, out=tmp_path / "o", as_json=False)


def test_autorag(how, tmp_path, capsys):
    (tmp_path / "qa.jsonl").write_text('{"qid": "q", "query": "x", "retrieval_gt": [["a", "b"]]}\n')
    (tmp_path / "corpus.jsonl").write_text('{"doc_id": "a", "contents": "x"}\n{"doc_id": "b", "contents": "y"}\n')
    formats.import_autorag(
        tmp_path / "qa.jsonl", how(item_type="chunk"), corpus=tmp_path / "corpus.jsonl", out=tmp_path / "out",
        as_json=False,
    )  # fmt: skip
    data = read_dataset(tmp_path / "out")
    assert [(label.item.id, label.alternatives) for label in data.labels] == [
        ("chunk:a", "group 1"),
        ("chunk:b", "group 1"),
    ]
    assert data.name == tmp_path.name


def test_a_run_is_scored_as_answers(tiny, tmp_path, capfd, cli):
    run = tmp_path / "a.run"
    run.write_text("q01 Q0 rule:code%20review 1 2 t\nq01 Q0 tool:forge:get_pull_request 2 1 t\nqx Q0 a 1 1 t\n")
    formats.import_run(run, dataset=str(tiny), keep=2, out=tmp_path / "answers.jsonl", as_json=False)
    assert capfd.readouterr().out == (
        "queries not in the dataset: 1 (qx)\n"
        "queries not in the run: 9 (q02, q03, q04, ...)\n"
        f"10 answers, at most 2 items offered in each, written to {tmp_path / 'answers.jsonl'}\n"
    )
    done = cli("score", tmp_path / "answers.jsonl", "--dataset", tiny, "--tokens", "chars/4", "--json")
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("nothing_else", "said"),
    [(False, "Else that is unknown, and the request is unlabelled"), (True, "that should trigger none needs nothing")],
)
def test_triggers_say_whether_another_skill_is_needed(how, tmp_path, capsys, nothing_else, said):
    skill = tmp_path / "skills" / "pdf"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: pdf\ndescription: Merge files\n---\nDo it.\n")
    (skill / "trigger_eval.json").write_text('[{"query": "Merge these", "should_trigger": true}]')
    formats.import_triggers(
        tmp_path / "skills", how(item_type="skill"), nothing_else=nothing_else, out=tmp_path / "out", as_json=True
    )
    assert said in capsys.readouterr().err


def test_golden_says_that_what_is_not_expected_is_not_needed(how, tiny, tmp_path, capsys):
    (tmp_path / "evals.jsonl").write_text('{"query": "review it", "expected": ["rule:code%20review"]}\n')
    given = {"catalog": str(tiny), "as_json": False}
    formats.import_golden(tmp_path / "evals.jsonl", how(item_type="tool"), out=tmp_path / "out", **given)
    assert capsys.readouterr().err.startswith("An item that `expected` does not name counts as not needed, ")
    (tmp_path / "evals.jsonl").write_text('{"query": "review it", "expected": ["no such"]}\n')
    with pytest.raises(InputError, match="is not in the catalog"):
        formats.import_golden(tmp_path / "evals.jsonl", how(item_type="tool"), out=tmp_path / "other", **given)
    assert capsys.readouterr().err == ""


def test_golden_again_replaces_what_it_made_unless_somebody_has_labelled(how, tiny, tmp_path, capsys):
    evals, out = tmp_path / "evals.jsonl", tmp_path / "out"

    def imported(query):
        evals.write_text(json.dumps({"query": query, "expected": ["rule:code%20review"]}))
        formats.import_golden(evals, how(item_type="tool"), catalog=str(tiny), out=out, as_json=False)
        return capsys.readouterr().out.splitlines()[-1]

    assert imported("review it") == f"written to {out}"
    assert imported("check it") == f"written to {out}, in place of what an earlier import of the file made"
    assert [query.request.text for query in read_dataset(out).queries] == ["check it"]
    (out / "labelling").mkdir()
    (out / "labelling" / "answers.jsonl").write_text("{}\n")
    with pytest.raises(ParameterError, match=r"holds answers of `data label` .* name another folder, or delete it"):
        imported("review it")
    assert [query.request.text for query in read_dataset(out).queries] == ["check it"]


def test_golden_reads_fields_under_the_names_that_map_says(how, tiny, tmp_path, capsys):
    evals, out = tmp_path / "evals.jsonl", tmp_path / "out"
    evals.write_text(json.dumps({"words": "review it", "wanted": ["rule:code%20review"], "no": 7}))
    given = {"catalog": str(tiny), "out": out, "as_json": False}
    with pytest.raises(InputError, match=r"did you mean 'words'\? Name it with --map query=words"):
        formats.import_golden(evals, how(item_type="tool"), **given)
    with pytest.raises(ParameterError, match="'name' is no field of an eval"):
        formats.import_golden(evals, how(item_type="tool"), names="name=words", **given)
    formats.import_golden(evals, how(item_type="tool"), names="query=words, expected=wanted,id=no", **given)
    (label,) = read_dataset(out).labels
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
    source = ("--corpus", "corpus.jsonl") if kind == "autorag" else ("-c", "cat")
    done = cli("data", "import", kind, "evals.jsonl", *source, "--out", "made")
    assert done.code == 0
    assert done.out.startswith(f"0 labels: {n} request{'s' if n > 1 else ''} to label\n")


def test_a_file_whose_labels_cannot_be_read_writes_nothing(cli, place):
    lines(place / "corpus.jsonl", [{"doc_id": "a", "contents": "x"}])
    lines(place / "qa.jsonl", [{"qid": "q1", "query": "x", "retrieval_gt": [["gone"]]}])
    done = cli("data", "import", "autorag", "qa.jsonl", "--corpus", "corpus.jsonl", "--out", "made")
    assert (done.code, done.out) == (2, "")
    assert not (place / "made").exists()
