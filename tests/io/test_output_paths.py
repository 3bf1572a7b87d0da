from __future__ import annotations

import os
from pathlib import Path

import pytest

from ctxbench.io.cache import files_in, line_from, refuse_outputs, refuse_unwritable, row_with
from ctxbench.io.errors import ParameterError, StorageError


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("exp.yaml", "old.csv", "ds/queries.jsonl", "ds/qrels/test.tsv"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(name)
    os.link("ds/queries.jsonl", "linked")
    Path("there").symlink_to("ds")
    return tmp_path


INPUTS = {"the experiment": [Path("exp.yaml")], "the files of ds": [Path("ds/queries.jsonl"), Path("ds/qrels")]}


@pytest.mark.parametrize(
    ("outputs", "said"),
    [
        ({"--csv": "exp.yaml"}, "--csv exp.yaml would overwrite the experiment; name another file"),
        ({"--out": "./ds/../exp.yaml"}, "would overwrite the experiment"),
        ({"--csv": "ds/queries.jsonl"}, "--csv ds/queries.jsonl would overwrite the files of ds; name another file"),
        ({"--csv": "there/queries.jsonl"}, "would overwrite the files of ds"),
        ({"--csv": "linked"}, "would overwrite the files of ds"),
        ({"--out": "ds/qrels/test.tsv"}, "would overwrite the files of ds"),
        ({"--out": "ds/qrels/new.tsv"}, "--out ds/qrels/new.tsv would be among the files of ds"),
        ({"--markdown": "other.yaml"}, "--markdown other.yaml ends in .yaml, which is for files that ctxbench reads"),
        ({"--csv": "x", "--markdown": "./x"}, "--csv and --markdown name one file, x; name two"),
        ({"--csv": "ds"}, "ds is a folder, and --csv names a file; name one in it"),
    ],
)
def test_an_output_that_would_take_the_place_of_something_is_refused(outputs, said):
    with pytest.raises(ParameterError) as error:
        refuse_outputs({option: Path(path) for option, path in outputs.items()}, INPUTS)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("exp.yaml/x", "cannot write exp.yaml/x: exp.yaml is a file, no folder; name another place"),
        ("x" * 300, "File name too long; name another one"),
        ("loop/x", "Too many levels of symbolic links"),
    ],
)
def test_an_output_that_cannot_be_written_is_refused(path, said):
    Path("loop").symlink_to("loop")
    with pytest.raises(StorageError) as error:
        refuse_outputs({"--csv": Path(path)}, INPUTS)
    assert said in str(error.value)


def test_earlier_outputs_new_ones_and_devices_are_taken():
    for name in ("old.csv", "ds/figures.csv", "new/folder/x.csv", os.devnull):
        refuse_outputs({"--csv": Path(name), "--markdown": None}, INPUTS)
    refuse_outputs({"--out": Path("old.json")}, INPUTS)


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        (b"", True),
        (b'{"query": "q", "items": [], "more": 1}\nx', True),
        (b'{"query": "q"}\n', False),
        (b'["query", "items"]', False),
        (b"def select(request):\n", False),
        (b"\xff\xfe", False),
    ],
)
def test_only_what_the_command_wrote_is_replaced(text, taken):
    Path("there.jsonl").write_bytes(text)
    given = {"--out": Path("there.jsonl")}, INPUTS
    if taken:
        refuse_outputs(*given, may_replace={"--out": row_with("query", "items")})
    else:
        with pytest.raises(ParameterError) as error:
            refuse_outputs(*given, may_replace={"--out": row_with("query", "items")})
        said = "--out there.jsonl is there and is no earlier output of this command; name a new file"
        assert str(error.value) == said


def test_a_table_is_told_by_its_head():
    Path("old.csv").write_text("dataset,selector,metric\n")
    refuse_outputs({"--csv": Path("old.csv")}, INPUTS, may_replace={"--csv": line_from("dataset,selector,")})
    with pytest.raises(ParameterError, match="no earlier output"):
        refuse_outputs({"--csv": Path("old.csv")}, INPUTS, may_replace={"--csv": line_from("date,")})


def test_a_folder_needs_a_place_that_is_none_of_a_file():
    refuse_unwritable(Path("new/folder"), folder="a run")
    refuse_unwritable(Path("ds"), folder="a run")
    for name in ("exp.yaml", "exp.yaml/deep"):
        with pytest.raises(StorageError, match=r"^exp\.yaml is a file; a run needs a folder, name another one$"):
            refuse_unwritable(Path(name), folder="a run")


def test_what_is_hidden_is_none_of_the_files_of_a_folder(place):
    for name in (".lock", ".half.1-00000000.tmp/answers.zip", "ds/.gitignore"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("x")
    assert sorted(files_in(Path("ds"))) == [Path("ds/qrels/test.tsv"), Path("ds/queries.jsonl")]
    assert Path(".half.1-00000000.tmp/answers.zip") not in set(files_in(Path()))
