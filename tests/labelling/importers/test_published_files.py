"""Published files: found, checked, read with the line of every fault; and imported from a folder of the user's."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from ctxbench.datasets.lookup import (
    SourceText,
    import_dataset,
    import_own,
    json_entries,
    list_datasets,
    open_dataset,
    text_key,
)
from ctxbench.io.errors import Fault, InputError, ParameterError, StorageError, UnknownNameError
from ctxbench.labelling.benchmarks import (
    LiveMCPBench,
    LoCoMo,
    LongMemEvalM,
    LongMemEvalOracle,
    LongMemEvalS,
    MetaTool,
    ToolLens,
)

ALL = (LiveMCPBench, LoCoMo, LongMemEvalM, LongMemEvalOracle, LongMemEvalS, MetaTool, ToolLens)
PLAIN = {
    "all_clean_data.csv": "Query,Tool\nIs it warm?,weather\n",
    "multi_tool_query_golden.json": '[{"query": "Warm news?", "tool": ["weather", "news"]}]',
    "plugin_des.json": '{"weather": "Now.", "news": "Today."}',
    "big_tool_des.json": "{}",
}

# Version, and the start of a SHA-256 over items, queries and what they require: a change of it needs another version.
MADE = {
    "livemcpbench": ("2025-08-18-a928e57d-2", "9fe3aa1a1387"),
    "livemcpbench-expand": ("2025-08-18-a928e57d-2", "5b439cc42197"),
    "livemcpbench-unique": ("2025-08-18-a928e57d-2", "2f6ac6b97f37"),
    "locomo": ("2024-08-12-3eb6f2c5-2", "9193b4baccab"),
    "locomo-answerable": ("2024-08-12-3eb6f2c5-2", "8e6c1f2af780"),
    "locomo-observations": ("2024-08-12-3eb6f2c5-2", "6ce02ce9053b"),
    "locomo-memory": ("2024-08-12-3eb6f2c5-2", "2ef6a293d5cc"),
    "metatool-multi": ("2024-03-22-35e81bb7-1", "9135731e4e32"),
    "metatool-single": ("2024-03-22-35e81bb7-1", "9249b7dcdca3"),
    "toollens": ("2024-11-06-bbec292c-1", "91cfbdd21113"),
}


def source(text: str) -> SourceText:
    return SourceText(Path("given.json"), text)


@pytest.mark.parametrize("importer", ALL)
def test_nothing_is_available_on_a_machine_with_nothing(importer, cache):
    assert not importer().available()
    assert importer.install == f"ctxbench data fetch {importer.source.name}"
    with pytest.raises(StorageError, match=f"no such file; get it with `{importer.install}`$"):
        importer().load(importer.provides[0])
    assert not cache.exists()


@pytest.mark.parametrize("importer", ALL)
def test_a_version_names_date_commit_and_revision(importer):
    date, commit, revision = importer.version.rsplit("-", 2)
    assert date == importer.source.date
    assert importer.source.commit.startswith(commit)
    assert int(revision) == importer.revision
    assert len(importer.source.commit) == 40
    assert all(len(file.sha256) == 64 for file in importer.source.files)


def test_files_are_found_where_fetch_puts_them_and_in_a_clone(made_up, cache, tmp_path):
    importer = made_up(MetaTool, PLAIN)
    for place in ("path", "published"):
        for file in MetaTool.source.files:
            target = tmp_path / place / getattr(file, place)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(PLAIN[file.path])
        dataset = importer.with_folder(tmp_path / place).load("metatool-single")
        assert dataset.catalog.ids == (
            "tool:weather",
            "tool:news",
        )
    (tmp_path / "published" / "dataset" / "plugin_des.json").unlink()
    assert not importer.with_folder(tmp_path / "published").available()
    (cache / "sources").mkdir(parents=True)
    (tmp_path / "path").rename(cache / "sources" / "metatool")
    assert MetaTool().available()


def test_a_changed_file_is_refused_with_both_digests(made_up, tmp_path):
    importer = made_up(MetaTool, PLAIN)
    changed = tmp_path / "made-up" / "plugin_des.json"
    changed.write_text('{"weather": "Now!", "news": "Today."}')
    found = hashlib.sha256(changed.read_bytes()).hexdigest()
    expected = hashlib.sha256(PLAIN["plugin_des.json"].encode()).hexdigest()
    with pytest.raises(StorageError) as caught:
        importer.load("metatool-single")
    message = str(caught.value)
    assert f"{changed} is not the published file: its SHA-256 is {found}, expected {expected}" in message
    assert "dataset/plugin_des.json of HowieHwong/MetaTool at commit 35e81bb" in message


def test_own_files_are_refused_where_the_labels_were_looked_up_in_the_published_ones(tmp_path):
    with pytest.raises(ParameterError, match="metatool is read from the published files alone"):
        import_own("metatool-single", tmp_path, called="mine")
    with pytest.raises(ParameterError, match="dataset bfcl-live is not read from a folder"):
        import_own("bfcl-live", tmp_path, called="mine")
    with pytest.raises(UnknownNameError, match="unknown dataset to import 'mine'"):
        import_own("mine", tmp_path, called="mine")


def test_a_missing_file_is_named(made_up, tmp_path):
    importer = made_up(MetaTool, PLAIN)
    (tmp_path / "made-up" / "big_tool_des.json").unlink()
    assert not importer.available()
    with pytest.raises(StorageError, match=r"cannot read .*big_tool_des\.json: no such file; get it with"):
        importer.load("metatool-single")


def test_a_file_that_is_not_utf8_is_reported_with_its_line(made_up):
    importer = made_up(MetaTool, {**PLAIN, "all_clean_data.csv": b"Query,Tool\nIs it w\xe4rm?,weather\n"})
    with pytest.raises(InputError, match=r"invalid UTF-8.*all_clean_data\.csv, line 2, column 8"):
        importer.load("metatool-single")


def test_unknown_names_list_the_datasets_of_the_source(made_up):
    with pytest.raises(UnknownNameError, match="did you mean 'metatool-single'"):
        made_up(MetaTool, PLAIN).load("metatool-singel")


def test_entries_of_a_list_have_the_line_they_start_in():
    faults: list[Fault] = []
    text = '\n[\n  {"a": "x\\n]"},\n\n  {"a":\n "y"}, {"a": "z"}, 5\n]\n'
    rows = list(json_entries(source(text), faults, expected="things"))
    assert [(row.data["a"], row.line) for row in rows] == [("x\n]", 3), ("y", 5), ("z", 6)]
    assert [str(fault) for fault in faults] == ["entry 3 must be an object, one of things (given.json, line 6)"]
    assert list(json_entries(source("[ ]"), faults, expected="things")) == []


@pytest.mark.parametrize("text", ["{}", '"x"', "3"])
def test_json_of_another_shape_is_refused(text):
    with pytest.raises(InputError, match=r"expected a JSON list of things \(given\.json, line 1\)"):
        list(json_entries(source(text), [], expected="things"))
    with pytest.raises(InputError, match="malformed JSON"):
        list(json_entries(source("[{]"), [], expected="things"))


def test_texts_are_compared_without_case_and_blanks():
    assert text_key(" Is  it\nWARM? ") == text_key("is it warm?") == "is it warm?"


@pytest.mark.essential
@pytest.mark.parametrize(
    ("importer", "name"), [(importer, name) for importer in ALL for name in importer.provides if name in MADE]
)
def test_what_is_made_of_the_published_files_changes_only_with_the_version(published, required, importer, name):
    dataset = published(importer).load(name)
    needed = required(dataset)
    queries = [[q.id, q.request.text, q.split, q.scope, q.partly_labelled, *needed[q.id]] for q in dataset.queries]
    made = json.dumps([[item.as_row() for item in dataset.catalog], queries])
    assert (dataset.version, hashlib.sha256(made.encode()).hexdigest()[:12]) == MADE[name]


# ---------------------------------------------------------------------------------------------- the store


def test_a_dataset_that_is_not_fetched_says_the_command_and_nothing_is_contacted(monkeypatch):
    monkeypatch.setattr("socket.socket", None)  # whoever opens one fails
    with pytest.raises(StorageError, match="ctxbench data fetch locomo"):
        open_dataset("locomo")
    installed = ("bfcl", "diary", "freight", "smoke", "workbench")
    states = {row.name: row.state for row in list_datasets() if not row.name.startswith(installed)}
    assert set(states.values()) == {"not fetched"}
    assert set(states) >= {"livemcpbench-unique", "locomo", "metatool-multi", "metatool-single", "toollens"}


def test_a_dataset_is_imported_from_a_folder_and_then_opened_from_the_cache(published):
    importer = published(LiveMCPBench)
    said: list[str] = []
    first = import_dataset("livemcpbench-unique", source=importer._folder, notify=said.append)
    assert "95 queries over 527 items imported to" in said[0]
    assert open_dataset("livemcpbench-unique").hash == first.hash


def test_only_what_reads_files_is_imported_from_a_folder(tmp_path):
    with pytest.raises(ParameterError, match=r"bfcl-live is not read from a folder; .*: ctxbench data fetch bfcl"):
        import_dataset("bfcl-live", source=tmp_path)
    with pytest.raises(StorageError, match=r"corpus\.jsonl: no such file; get it with `ctxbench data fetch"):
        import_dataset("toollens", source=tmp_path / "none")
