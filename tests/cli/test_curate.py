"""`ctxbench data stats | split | diff | rebase | export`: what is printed, written and returned."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ctxbench.cli import curate
from ctxbench.datasets.files import read_dataset
from ctxbench.datasets.layout import read_weights, write_weights
from ctxbench.io.errors import ParameterError
from ctxbench.labelling.answer_log import KeyPress, state_of
from ctxbench.labelling.sampling import Queue
from ctxbench.labelling.session import opened
from ctxbench.selectors.protocol import catalog_message, dumps, request_messages


def splitting(**given):
    return curate.Splitting(**{"by": "hash", "share": None, "folds": 0, "version": None, **given})


def rebasing(catalog, **given):
    return curate.Rebasing(**{"catalog": str(catalog), "renames": None, "accept": False, "version": None, **given})


@pytest.fixture
def changed(tiny, tmp_path):
    """The tiny dataset over a catalog with one item on another server, one gone, one changed and one new."""
    folder = Path(shutil.copytree(tiny, tmp_path / "changed"))
    rows = [json.loads(line) for line in (folder / "corpus.jsonl").read_text("utf-8").splitlines()]
    for row in rows:
        if row["_id"] == "tool:tracker:create_issue":
            row |= {"_id": "tool:bugs:create_issue", "server": "bugs"}
        if row["_id"] == "tool:weather:get_forecast":
            row["description"] += " Also tomorrow's."
    rows = [row for row in rows if row["_id"] != "reference:release%20calendar"]
    rows.append({"_id": "tool:new:create_issue", "description": "Create an issue in a project of the new tracker."})
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return folder / "corpus.jsonl"


def test_stats_are_for_people_or_for_programs(tiny, capsys):
    curate.stats(str(tiny), tokens="chars/4", threshold=0.3, embedder=None, list_all=False, as_json=False)
    out = capsys.readouterr().out
    for line in (
        "tiny 1 (75c974685585)",
        "items    12 (3 reference, 3 rule, 6 tool)",
        "queries  10 (tuning 5, test 5)",
        "  grade    required 11, helpful 2, irrelevant 3",
        "  0.65  tool:tracker:create_issue  tool:forge:create_issue  (two servers)",
        "items never required: 3 of 12",
    ):
        assert line in out.splitlines(), line
    curate.stats(str(tiny), tokens="chars/4", threshold=None, embedder=None, list_all=False, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["counts"]["queries"] == 10
    assert found["near_duplicates"]["threshold"] == 0.7
    assert len(found["never_required"]) == 3


def test_stats_by_vectors_need_a_model_only_then(tiny, capsys):
    curate.stats(str(tiny), tokens="chars/4", threshold=0.1, embedder="hashing", list_all=True, as_json=False)
    out = capsys.readouterr().out
    assert "similarity of the meaning, up to 1 (cosine of mean vectors), at least 0.1" in out
    assert "more (--all)" not in out


def test_a_split_is_shown_written_to_a_folder_or_in_place(tiny, tmp_path, capsys):
    folder = Path(shutil.copytree(tiny, tmp_path / "d"))
    before = read_dataset(folder).hash
    curate.split(str(folder), splitting(), out=None, in_place=False, as_json=False)
    assert capsys.readouterr().out == (
        "split   queries before  queries now  of them judged  groups\n"
        "tuning               5            4               4       4\n"
        "test                 5            6               6       5\n"
        "5 queries moved to another split\n"
        "nothing was written; add --out FOLDER or --in-place\n"
    )
    assert read_dataset(folder).hash == before
    curate.split(str(folder), splitting(folds=2), out=tmp_path / "folds", in_place=False, as_json=True)
    assert json.loads(capsys.readouterr().out)["written"] == str(tmp_path / "folds")
    assert read_dataset(tmp_path / "folds").split_names == ("fold-1", "fold-2")
    curate.split(str(folder), splitting(version="2"), out=None, in_place=True, as_json=False)
    assert read_dataset(folder).version == "2"
    assert read_dataset(folder).counts["splits"] == {"tuning": 4, "test": 6}


def labelled(tiny, folder):
    """A copy of the tiny dataset in which one question was answered; its log, queue and weights."""
    shutil.copytree(tiny, folder)
    with opened(folder) as found:
        query = next(query for query in found.dataset.queries if query.id == "q05")
        before = state_of(found.dataset, query).as_row()
        found.log.add(KeyPress(number=1, kind="nothing", query="q05", before=before))
    Queue(selectors=("bm25",), seed=0, strata=()).write(folder / "labelling" / "queue.json")
    write_weights(folder, {"q05": 2.5}, {"q05": 0})
    return folder


def files_of(folder):
    return {path.name: path.read_bytes() for path in (folder / "labelling").iterdir()}


def test_a_split_takes_what_labelling_left_along(tiny, tmp_path, capsys):
    folder, out = labelled(tiny, tmp_path / "d"), tmp_path / "out"
    names = ["labelling/answers.jsonl", "labelling/queue.json", "labelling/weights.jsonl"]
    for _ in range(2):  # an earlier copy is replaced
        curate.split(str(folder), splitting(), out=out, in_place=False, as_json=False)
        assert f"copied: {', '.join(names)}" in capsys.readouterr().out.splitlines()
        assert files_of(out) == files_of(folder)
    with opened(out) as found:
        assert [answer.query for answer in found.log.answers] == ["q05"]
        assert found.notes == []
        found.log.add(KeyPress(number=2, kind="nothing", query="q10"))
    before = files_of(out)
    curate.split(str(folder), splitting(), out=out, in_place=False, as_json=False)
    assert f"not copied, because the folder already holds answers: {', '.join(names)}" in capsys.readouterr().out
    assert files_of(out) == before
    before = files_of(folder)
    curate.split(str(folder), splitting(), out=None, in_place=True, as_json=True)
    assert json.loads(capsys.readouterr().out)["labelling"] == {"carried": [], "left_out": []}
    assert files_of(folder) == before


def test_a_rebase_takes_the_weights_along_and_says_that_answers_stay_behind(tiny, changed, tmp_path, capsys):
    folder, out = labelled(tiny, tmp_path / "d"), tmp_path / "out"
    curate.rebase(str(folder), rebasing(changed), out=out, list_all=False, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert "copied: labelling/weights.jsonl" in lines
    left = "labelling/answers.jsonl, labelling/queue.json"
    assert f"not copied, because they describe the old catalog: {left}" in lines
    assert read_weights(out) == read_weights(folder) == {"q05": 2.5}
    assert list(files_of(out)) == ["weights.jsonl"]
    curate.rebase(str(folder), rebasing(changed), out=out, list_all=False, as_json=True)
    assert json.loads(capsys.readouterr().out)["labelling"] == {
        "carried": ["labelling/weights.jsonl"],
        "left_out": left.split(", "),
    }
    curate.rebase(str(folder), rebasing(changed), out=None, list_all=False, as_json=True)
    assert json.loads(capsys.readouterr().out)["labelling"] is None


def test_a_dataset_with_items_of_its_own_must_say_its_catalog_and_one_folder(tiny, tmp_path):
    with pytest.raises(ParameterError, match="has no agent file; name the changed catalog with --catalog FILE"):
        curate.rebase(str(tiny), replace(rebasing(tiny), catalog=None), out=None, list_all=False, as_json=False)
    with pytest.raises(ParameterError, match="--out and --in-place exclude each other"):
        curate.rebase(str(tiny), rebasing(tiny), out=tmp_path / "o", in_place=True, list_all=False, as_json=False)
    with pytest.raises(ParameterError, match="write a cached dataset to another folder with --out"):
        curate.rebase("bfcl-simple", rebasing(tiny), out=None, in_place=True, list_all=False, as_json=False)


def test_rebase_tells_of_another_order(tiny, tmp_path, capsys):
    rows = (Path(tiny) / "corpus.jsonl").read_text("utf-8").splitlines(keepends=True)
    (tmp_path / "corpus.jsonl").write_text("".join(rows[::-1]), "utf-8")
    curate.rebase(str(tiny), rebasing(tmp_path / "corpus.jsonl"), out=None, list_all=False, as_json=False)
    expected = "common items have another order, which decides ties"
    assert expected in capsys.readouterr().out.splitlines()


def test_what_is_frozen_or_cached_is_not_split_in_place(tiny, tmp_path):
    folder = Path(shutil.copytree(tiny, tmp_path / "d"))
    card = (folder / "dataset.yaml").read_text("utf-8")
    (folder / "dataset.yaml").write_text(f"{card}frozen: {read_dataset(tiny).hash}\n", "utf-8")
    with pytest.raises(ParameterError, match="is frozen"):
        curate.split(str(folder), splitting(), out=None, in_place=True, as_json=False)
    with pytest.raises(ParameterError, match="write a cached dataset to another folder"):
        curate.split("bfcl-simple", splitting(), out=None, in_place=True, as_json=False)
    with pytest.raises(ParameterError, match="exclude each other"):
        curate.split(str(folder), splitting(), out=tmp_path / "x", in_place=True, as_json=False)


def test_diff_ends_like_diff(tiny, tmp_path, capsys):
    assert curate.diff(str(tiny), str(tiny), list_all=False, as_json=False) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "equal"
    curate.split(str(tiny), splitting(), out=tmp_path / "other", in_place=False, as_json=False)
    capsys.readouterr()
    assert curate.diff(str(tiny), str(tmp_path / "other"), list_all=False, as_json=False) == 1
    assert capsys.readouterr().out == (
        "a: tiny 1 75c974685585\nb: tiny 1 a6fb8fc25f76\n\nsplits: 5 queries moved\n"
        "  q02: tuning -> test\n  q03: tuning -> test\n  q05: tuning -> test\n  q09: test -> tuning\n"
        "  q10: test -> tuning\n"
    )
    assert curate.diff(str(tiny), str(tmp_path / "other"), list_all=False, as_json=True) == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["equal"]
    assert len(found["splits"]) == 5


def test_rebase_reports_and_writes(tiny, changed, tmp_path, capsys):
    curate.rebase(str(tiny), rebasing(changed), out=None, list_all=False, as_json=False)
    out = capsys.readouterr().out
    for line in (
        "  tool:tracker:create_issue -> tool:bugs:create_issue (same content on another server)",
        "  q06  tool:tracker:create_issue  grade 2, gone: partly labelled",
        "  scope support: tool:tracker:create_issue (gone)",
        "queries unlabelled now, which metrics ignore: 3",
        "nothing was written; add --out FOLDER or --in-place",
    ):
        assert line in out.splitlines(), line
    renames = tmp_path / "renames.yaml"
    renames.write_text("tool:tracker:create_issue: tool:bugs:create_issue\n")
    how = rebasing(changed, renames=renames, version="2")
    curate.rebase(str(tiny), how, out=tmp_path / "out", list_all=False, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["items"]["renamed"] == [
        {"old": "tool:tracker:create_issue", "new": "tool:bugs:create_issue", "how": "given"}
    ]
    assert found["items"]["gone"] == ["reference:release%20calendar"]
    assert found["queries"]["now_unlabelled"] == ["q02", "q03"]
    assert read_dataset(tmp_path / "out").hash == found["hash"]
    assert read_dataset(tmp_path / "out").version == "2"


def test_a_faulty_file_of_renames_has_lines(tiny, changed, tmp_path):
    renames = tmp_path / "renames.yaml"
    renames.write_text("tool:a: tool:b\nnothing: tool:b\ntool:c: 7\n")
    with pytest.raises(Exception, match=r"'nothing' is no item id.*line 2\)\n.*line 3\)"):
        curate.rebase(str(tiny), rebasing(changed, renames=renames), out=None, list_all=False, as_json=False)
    renames.write_text("tool:tracker:create_issue: tool:bugs:create_issue\ntool:no:one: tool:bugs:create_issue\n")
    with pytest.raises(Exception, match=r"the dataset has no 'tool:no:one'.* \(.*renames.yaml, line 2\)"):
        curate.rebase(str(tiny), rebasing(changed, renames=renames), out=None, list_all=False, as_json=False)
    renames.write_text("- a\n")
    with pytest.raises(Exception, match="expected a mapping from old to new item ids"):
        curate.rebase(str(tiny), rebasing(changed, renames=renames), out=None, list_all=False, as_json=False)


def test_a_split_limits_the_export_and_the_requests(tiny, tmp_path, capsys):
    targets = curate.ExportTargets("trec", tmp_path / "out", tmp_path / "requests.jsonl", split="tuning")
    curate.export(str(tiny), targets, as_json=True)
    expected = read_dataset(tiny).split("tuning").queries
    assert json.loads(capsys.readouterr().out)["queries"] == len(expected)
    asked = [json.loads(line).get("query") for line in (tmp_path / "requests.jsonl").read_text("utf-8").splitlines()]
    assert [query for query in asked if query] == [query.id for query in expected]


def test_export_says_what_the_format_cannot_hold(tiny, tmp_path, capsys):
    curate.export(str(tiny), curate.ExportTargets("beir", tmp_path / "out", None), as_json=False)
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "12 items, 10 queries, labels in qrels: tuning 8, test 7"
    assert out[1].startswith("data that the format lacks, written to `metadata`")
    assert "  2 labels that are alternatives" in out
    assert out[-1] == f"written to {tmp_path / 'out'}"
    curate.export(str(tiny), curate.ExportTargets("trec", tmp_path / "out", None, plain=True), as_json=True)
    assert json.loads(capsys.readouterr().out)["not_held"]["named scopes"] == 1


def test_requests_are_the_lines_that_a_command_reads(tiny, tmp_path, capsys):
    path = tmp_path / "requests.jsonl"
    curate.export(str(tiny), curate.ExportTargets(None, None, path), as_json=False)
    assert capsys.readouterr().out == f"the catalog and 10 requests for commands written to {path}\n"
    batch = read_dataset(tiny).batch()
    sent = [catalog_message(batch, 0, "items"), *(one for _, one in request_messages(batch, range(10), "items"))]
    assert path.read_text("ascii").splitlines() == list(map(dumps, sent))


def test_requests_that_see_different_items_follow_a_catalog_each(tmp_path, capsys):
    path = tmp_path / "requests.jsonl"
    curate.export("diary", curate.ExportTargets(None, None, path), as_json=False)
    rows = [json.loads(line) for line in path.read_text("ascii").splitlines()]
    asked = [row for row in rows if "query" in row]
    said = f"{len(rows) - len(asked)} catalogs and {len(asked)} requests"
    assert capsys.readouterr().out.startswith(said)
    diary = read_dataset(Path(__file__).parents[2] / "datasets" / "diary")
    whose = {query.id: query.request.workspace for query in diary.queries}
    told = None
    for row in rows:
        if "items" in row:
            told = row
            continue
        assert row["catalog"] == told["catalog"]
        assert {item.get("workspace") for item in told["items"]} <= {None, whose[row["query"]]}
    assert {row["query"] for row in asked} == set(whose)


def test_requests_may_say_what_each_may_be_offered(tiny, tmp_path):
    path = tmp_path / "requests.jsonl"
    curate.export(str(tiny), curate.ExportTargets(None, None, path, may_offer=True), as_json=False)
    _, *rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    dataset = read_dataset(tiny)
    batch = dataset.batch()
    assert [row["query"] for row in rows] == [query.id for query in dataset.queries]
    for number, row in enumerate(rows):
        may = [item.id for item, yes in zip(dataset.catalog, batch.eligible[number], strict=True) if yes]
        assert row["may_offer"] == may
        held = batch.session_item[batch.session_start[number] : batch.session_start[number + 1]]
        assert row.get("session", []) == [dataset.catalog[position].id for position in held]
    assert len({len(row["may_offer"]) for row in rows}) > 1
    assert any("session" in row for row in rows)
    with pytest.raises(ParameterError, match="--may-offer needs --requests FILE"):
        curate.export(str(tiny), curate.ExportTargets("beir", tmp_path / "out", None, may_offer=True), as_json=False)
    with pytest.raises(ParameterError, match="--out needs a format; add --format beir"):
        curate.export(str(tiny), curate.ExportTargets(None, tmp_path / "out", tmp_path / "r"), as_json=False)


@pytest.mark.parametrize(
    "what",
    [
        curate.ExportTargets(None, None, None),
        curate.ExportTargets("beir", None, None),
        curate.ExportTargets("beir", None, Path("requests.jsonl")),
    ],
)
def test_an_export_says_what_is_to_be_written(tiny, what):
    with pytest.raises(ParameterError, match="nothing to write; add --format"):
        curate.export(str(tiny), what, as_json=False)


def test_a_run_goes_with_a_format(tiny, tmp_path):
    what = curate.ExportTargets(None, None, tmp_path / "requests.jsonl", run=tmp_path)
    with pytest.raises(ParameterError, match="need --format and --out"):
        curate.export(str(tiny), what, as_json=False)


def test_what_is_written_takes_no_other_dataset_s_place(tiny, changed, tmp_path):
    hand = Path(shutil.copytree(tiny, tmp_path / "hand"))
    for label in (hand / "qrels").glob("*.tsv"):
        label.write_text(label.read_text("utf-8").replace("\t1\tdirect", "\t0\tdirect"), "utf-8")
    card = (hand / "dataset.yaml").read_text("utf-8")
    (hand / "dataset.yaml").write_text(card[: card.index("counts:")] + card[card.index("scopes:") :], "utf-8")
    before = read_dataset(hand).hash
    with pytest.raises(ParameterError, match="holds another dataset, which would be lost"):
        curate.split(str(tiny), splitting(folds=2), out=hand, in_place=False, as_json=False)
    with pytest.raises(ParameterError, match="holds another dataset, which would be lost"):
        curate.rebase(str(tiny), rebasing(changed), out=hand, list_all=False, as_json=False)
    assert read_dataset(hand).hash == before


def test_a_split_takes_what_a_log_offered_along(tiny, tmp_path, capsys):
    folder = Path(shutil.copytree(tiny, tmp_path / "log"))
    (folder / "exposure.jsonl").write_text('{"query": "q01"}\n', "utf-8")
    curate.split(str(folder), splitting(), out=tmp_path / "new", in_place=False, as_json=False)
    assert (tmp_path / "new" / "exposure.jsonl").read_bytes() == (folder / "exposure.jsonl").read_bytes()
    assert "copied: exposure.jsonl" in capsys.readouterr().out
