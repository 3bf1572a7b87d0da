"""Every faulty file of `tests/faulty` ends a command with one error that names the fault, and nothing is written.

Where an error is meant to change, `python -m tests.faulty.record` shows the difference and records it.
"""

from __future__ import annotations

import json

import pytest

from ctxbench.cli.app import main
from tests.faulty.cases import FACTS, environment, read_cases, run

CASES = read_cases()
RECORDED = {row.pop("id"): row for row in map(json.loads, FACTS.read_text("utf-8").splitlines())}
THROUGH_THE_COMMAND_LINE = [case for case in CASES if RECORDED[case.id]["error"] == "InputError"][::60]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def test_every_case_is_recorded_once():
    assert [case.id for case in CASES] == list(RECORDED)
    assert len(CASES) >= 300


@pytest.mark.parametrize("file_format", sorted({case.id.partition("/")[0] for case in CASES}))
def test_each_error_is_the_recorded_one(file_format, tmp_path, cache):
    found = {}
    for case in CASES:
        if case.id.startswith(f"{file_format}/"):
            folder = tmp_path / case.id.partition("/")[2]
            folder.mkdir()
            found[case.id] = run(case, folder, cache)
    assert found == {id_: facts for id_, facts in RECORDED.items() if id_ in found}


def test_nothing_is_written_where_a_file_is_faulty():
    assert [id_ for id_, facts in RECORDED.items() if facts["error"] != "none" and "written" in facts] == []


@pytest.mark.parametrize("case", THROUGH_THE_COMMAND_LINE, ids=lambda case: case.id)
def test_a_command_ends_with_two_and_one_message(case, tmp_path, cache, monkeypatch, capfd):
    case.write(tmp_path, cache)
    monkeypatch.chdir(tmp_path)
    with environment(cache), pytest.raises(SystemExit) as ended:
        main(list(case.command))
    out, err = capfd.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert err.lower().count("error: ") == 1
