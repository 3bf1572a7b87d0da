"""`ctxbench data`: datasets by name and by folder."""

from __future__ import annotations

import json
import shutil

import pytest

from ctxbench.datasets.files import read_dataset
from ctxbench.labelling.sources import import_kinds

COUNTS = "12 items, 10 queries, 16 labels; 2 queries need nothing"


@pytest.fixture
def far(monkeypatch, tiny):
    """An importer of one dataset, `far`, which is the tiny one."""
    from ctxbench.datasets import lookup

    class Importer:
        provides = ("far",)
        version = "1"
        install = "pip install far"
        there = True

        def available(self):
            return self.there

        def load(self, name):
            return read_dataset(tiny)

    monkeypatch.setattr(lookup, "importers", lambda: {"far": Importer()})
    return Importer


def test_the_list_says_what_is_there_and_how_to_get_the_rest(cli, far, cache, tiny, monkeypatch):
    shutil.copytree(tiny, cache / "datasets" / "tiny")
    assert cli("data", "list").out == "far   importable     1\ntiny  cached         1\n"
    monkeypatch.setattr(far, "there", False)
    assert cli("data", "list").out == "far   not installed  1  (pip install far)\ntiny  cached         1\n"
    assert cli("data", "list").err == (
        "(cached: on this machine, ready to use; not installed: install the package in brackets first)\n"
    )
    assert cli("data", "list", "--json").json == [
        {"name": "far", "state": "not installed", "version": "1", "install": "pip install far"},
        {"name": "tiny", "state": "cached", "version": "1", "install": ""},
    ]


def test_the_list_works_on_a_machine_with_nothing(cli):
    done = cli("data", "list")
    assert done.code == 0
    assert done.out.split()[0] == "bfcl-live"
    shipped = {line.split()[0] for line in done.out.splitlines() if line.endswith("(comes with ctxbench)")}
    assert shipped == {"smoke", "workbench", "freight", "diary"}


def test_a_card_counts_conversations_of_items_and_of_queries(cli, tiny, place):
    assert cli("data", "show", tiny, "--json").json["conversations"] == {"items": 0, "queries": 1}
    shutil.copytree(tiny, place / "mine")
    path = place / "mine" / "queries.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    rows = [{name: value for name, value in row.items() if name not in ("conversation", "turn")} for row in rows]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    assert "conversations" not in cli("data", "show", "mine", "--json").json


def test_a_dataset_is_shown_by_its_card(cli, tiny):
    done = cli("data", "show", tiny)
    assert done.code == 0
    assert "name: tiny\n" in done.out
    assert "support: 4 items\n" in done.out
    assert f"hash: {read_dataset(tiny).hash}\n" in done.out
    card = cli("data", "show", tiny, "--json").json
    assert (card["name"], card["counts"]["queries"]) == ("tiny", 10)
    assert card["hash"] == read_dataset(tiny).hash
    assert len(card["scopes"]["support"]) == 4


def test_a_query_is_shown_with_its_labels(cli, tiny):
    assert cli("data", "show", tiny, "--query", "q04").out == (
        "q04 (tuning; alternatives)\n"
        "File a bug: the search page is empty.\n"
        "  required   tool:tracker:create_issue (direct, one of issue)\n"
        "  helpful    tool:tracker:search_issues (direct)\n"
        "  required   tool:forge:create_issue (direct, one of issue)\n"
    )
    assert cli("data", "show", tiny, "--query", "q05").out == (
        "q05 (tuning; nothing)\n"
        "Thanks, that is all for today!\n"
        "  irrelevant tool:weather:get_forecast (direct)\n"
        "  needs nothing\n"
    )
    row = cli("data", "show", tiny, "--query", "q02", "--json").json
    assert row["_id"] == "q02"
    assert row["labels"] == [{"id": "reference:release%20calendar", "grade": 2, "via": "direct", "alternatives": ""}]


def test_a_sound_dataset_is_valid(cli, tiny):
    done = cli("data", "validate", tiny)
    assert (done.code, done.out, done.err) == (0, f"{tiny}: valid; {COUNTS}\n", "")
    assert cli("data", "validate", tiny, "--json").json == {"dataset": str(tiny), "valid": True, "faults": []}


def test_all_faults_are_listed_at_once_with_line_and_column(cli, tiny, place):
    shutil.copytree(tiny, place / "mine")
    queries = (place / "mine" / "queries.jsonl").read_text("utf-8").splitlines()
    queries[2] = '{"_id": "q03", "text": }'
    queries.append('{"_id": "q02", "text": "again", "split": "tuning"}')
    (place / "mine" / "queries.jsonl").write_text("\n".join(queries))
    done = cli("data", "validate", "mine")
    assert (done.code, done.err) == (2, "")
    assert "malformed JSON: Expecting value (mine/queries.jsonl, line 3, column 24)\n" in done.out
    assert "query 'q02' occurs twice, first in line 2; ids must differ (mine/queries.jsonl, line 11)\n" in done.out
    assert done.out.endswith("mine: 2 faults\n")
    found = cli("data", "validate", "mine", "--json")
    assert found.code == 2
    assert found.json["valid"] is False
    assert [(fault["line"], fault["column"]) for fault in found.json["faults"]] == [(3, 24), (11, 0)]


def test_a_name_is_checked_where_it_is_and_imported_first(cli, far, cache, place):
    done = cli("data", "validate", "far")
    assert (done.code, done.out) == (0, f"{cache / 'datasets' / 'far'}: valid; {COUNTS}\n")
    assert done.err.startswith("dataset far: 10 queries over 12 items imported to ")
    again = cli("data", "validate", "far")
    assert (again.code, again.out, again.err) == (0, done.out, "")
    (cache / "datasets" / "far" / "queries.jsonl").write_text("{\n", "utf-8")
    damaged = cli("data", "validate", "far")
    assert (damaged.code, damaged.out) == (0, done.out)
    assert damaged.err.startswith("dataset far: damaged in the cache: queries.jsonl, importing ")


def test_a_dataset_is_imported_into_the_cache_or_copied(cli, far, cache, place):
    done = cli("data", "import", "far")
    assert (done.code, done.out) == (0, "")
    assert done.err == f"dataset far: 10 queries over 12 items imported to {cache / 'datasets' / 'far'}\n"
    copied = cli("data", "import", "far", "--out", "copy")
    assert copied.err == "dataset far: 10 queries over 12 items copied to copy\n"
    assert cli("data", "validate", "copy").code == 0
    assert cli("data", "list").out == "far  cached         1\n"


def test_an_import_that_is_nearly_called_so_is_suggested(cli, far):
    done = cli("data", "import", "goldn", "evals.jsonl", "-c", "ds", "--out", "o")
    assert (done.code, done.err) == (
        2,
        "error: no import 'goldn'; did you mean golden? See `ctxbench data import --help`\n",
    )


def test_a_folder_that_holds_something_else_is_not_written_over(cli, far, place):
    (place / "mine").mkdir()
    (place / "mine" / "letter.txt").write_text("dear")
    done = cli("data", "import", "far", "--out", "mine")
    assert done.code == 2
    assert [path.name for path in (place / "mine").iterdir()] == ["letter.txt"]


def test_a_source_that_is_missing_is_named_with_the_command_that_installs_it(cli, far, monkeypatch):
    monkeypatch.setattr(far, "there", False)
    for words in (("import", "far"), ("show", "far"), ("validate", "far")):
        done = cli("data", *words)
        assert (done.code, done.out) == (2, "")
        assert done.err.endswith("its source is not installed: pip install far\n")


def test_unknown_names_suggest_the_closest(cli, tiny):
    assert "did you mean 'bfcl-simple'" in cli("data", "import", "bfcl-simpel").err
    assert "did you mean 'bfcl-simple'" in cli("data", "show", "bfcl-simpel").err
    assert "'bfcl-simple'" in cli("data", "import", "bfcl").err.partition("?")[0]
    assert "did you mean 'bfcl-simple'" in cli("data", "validate", "bfcl-simpel").err
    done = cli("data", "show", tiny, "--query", "q1")
    assert done.code == 2
    assert "did you mean 'q10' or 'q01'" in done.err


def test_a_folder_below_datasets_is_suggested_before_any_name(cli, tiny, place):
    shutil.copytree(tiny, place / "datasets" / "bfcl")
    for said in ("bfcl", "bfcll", "datasets/bfcll"):
        for words in (("show",), ("validate",), ("label",)):
            done = cli("data", *words, said)
            assert done.code == 2
            assert "; did you mean 'datasets/bfcl'?" in done.err, done.err
            assert "bfcl-simple'" not in done.err
    done = cli("data", "label", "datasets/nope")
    assert done.err.startswith("error: datasets/nope is not the folder of a dataset; copy a named")
    assert "import datasets/nope" not in done.err


def test_unknown_kinds_and_fields_list_all_there_are(cli, place):
    (place / "e.jsonl").write_text('{"query": "q", "expected": []}\n')
    done = cli("data", "import", "e.jsonl", "--as", "csv", "--dry-run")
    assert (done.code, [name for name in import_kinds() if name not in done.err]) == (2, [])
    turned = cli("data", "import", "e.jsonl", "--map", "question=query", "--dry-run")
    assert (turned.code, "did you mean query=question?" in turned.err) == (2, True)
    assert "query, " in cli("data", "import", "e.jsonl", "--map", "question=q", "--dry-run").err


def test_json_of_every_command_is_one_document(cli, tiny):
    for words in (("list",), ("show", tiny), ("show", tiny, "--query", "q01"), ("validate", tiny)):
        assert json.loads(cli("data", *words, "--json").out) is not None


def test_an_import_never_replaces_another_dataset(cli, tiny, tmp_path):
    mine = shutil.copytree(tiny, tmp_path / "mine")
    done = cli("data", "import", "bfcl-simple", "--out", mine)
    if "not installed" in done.err:
        pytest.skip("bfcl-eval is not installed")
    assert done.code == 2
    assert "holds another dataset, which would be lost" in done.err
    assert (mine / "corpus.jsonl").read_bytes() == (tiny / "corpus.jsonl").read_bytes()
    assert cli("data", "import", "bfcl-simple", "--out", tmp_path / "new").code == 0
    assert cli("data", "import", "bfcl-simple", "--out", tmp_path / "new").code == 0  # itself it may replace
