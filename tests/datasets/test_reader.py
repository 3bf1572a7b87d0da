"""A dataset is read from its folder with every fault, each with its file and line."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ctxbench.datasets.files import read_dataset, validate
from ctxbench.io.errors import InputError, StorageError
from tests.datasets.dataset_cases import TINY, edit

CORPUS, QUERIES, CARD, TEST, TUNING = (
    "corpus.jsonl",
    "queries.jsonl",
    "dataset.yaml",
    "qrels/test.tsv",
    "qrels/tuning.tsv",
)


def faults_of(folder: Path) -> list[str]:
    """The faults as `file:line:column message`, which is how a reader looks for them."""
    return [f"{Path(f.path or '').relative_to(folder)}:{f.line}:{f.column} {f.message}" for f in validate(folder)]


def test_tiny_is_valid_and_holds_one_of_everything() -> None:
    assert validate(TINY) == []
    dataset = read_dataset(TINY)
    assert {item.type for item in dataset.catalog} == {"rule", "reference", "tool"}
    assert {item.include for item in dataset.catalog} == {"always", "manual", "agent"}
    assert {label.grade for label in dataset.labels} == {0, 1, 2}
    assert any(label.via == "dependency" for label in dataset.labels)
    assert any(label.alternatives for label in dataset.labels)
    assert any(query.needs_nothing for query in dataset.queries)


def test_order_of_rows_and_line_ends_do_not_change_the_hash(folder: Path) -> None:
    for path in (folder / "queries.jsonl", folder / "qrels" / "test.tsv"):
        head, *rows = path.read_text(encoding="utf-8").splitlines()
        keep = [head] if path.suffix == ".tsv" else []
        moved = rows[::-1] if keep else [*rows[::-1], head]
        path.write_bytes(("\ufeff" + "\r\n".join([*keep, *moved])).encode())
    assert read_dataset(folder).hash == read_dataset(TINY).hash


def test_renames_are_pairs_of_item_ids(folder: Path) -> None:
    card = folder / CARD
    lines = card.read_text(encoding="utf-8").rstrip("\n").splitlines()
    card.write_text("\n".join([*lines, "renames:", "  tool:a: tool:b", "  nothing: tool:b", "  tool:c: [7]", ""]))
    what = "field 'renames': expected `old id: new id`, got"
    assert faults_of(folder) == [
        f"dataset.yaml:{len(lines) + 3}:0 {what} 'nothing'",
        f"dataset.yaml:{len(lines) + 4}:0 {what} [7]",
    ]


def test_qrels_of_three_columns_are_beirs(folder: Path) -> None:
    path = folder / "qrels" / "test.tsv"
    rows = [line.split("\t")[:3] for line in path.read_text().splitlines()]
    path.write_text("\n".join("\t".join(row) for row in rows))
    edit(folder / "dataset.yaml", "  dependency: 1", "  dependency: 0")
    assert {label.via for label in read_dataset(folder).labels} == {"direct"}


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        (CORPUS, '"priority":110', '"priority":', ["corpus.jsonl:2:263 malformed JSON: Expecting value"]),
        (CORPUS, '"priority":110', '"prio":110', ["corpus.jsonl:2:0 unknown field 'prio'; did you mean 'priority'"]),
        (
            CORPUS,
            '"priority":110',
            '"priority":"110"',
            ["corpus.jsonl:2:0 field 'priority' must be a whole number, got '110'"],
        ),
        (
            CORPUS,
            '"priority":110',
            '"priority":true',
            ["corpus.jsonl:2:0 field 'priority' must be a whole number, got True"],
        ),
        (CORPUS, '"priority":110', '"priority":NaN', ["corpus.jsonl:2:263 NaN is no JSON number"]),
        (CORPUS, '"priority":110', '"name":"code review"', ["corpus.jsonl:2:252 key 'name' occurs twice"]),
        (
            CORPUS,
            '"include":"manual"',
            '"include":"never"',
            ["corpus.jsonl:3:0 field 'include' must be one of always, manual"],
        ),
        (CORPUS, '"enabled":false', '"enabled":0', ["corpus.jsonl:12:0 field 'enabled' must be true or false, got 0"]),
        (
            CORPUS,
            '"name":"no secrets"',
            '"name":"secrets"',
            ["corpus.jsonl:3:0 field 'name' is 'secrets', but _id 'rule:no%20secrets' says 'no secrets'"],
        ),
        (CORPUS, '"_id":"rule:no%20secrets",', "", ["corpus.jsonl:3:0 field '_id' is missing"]),
        (
            CORPUS,
            '"_id":"rule:no%20secrets"',
            '"_id":"rule:no secrets"',
            ["corpus.jsonl:3:0 field '_id' is 'rule:no secrets'; percent-encoded it must be"],
        ),
        (
            CORPUS,
            '"_id":"rule:no%20secrets"',
            '"_id":"secrets"',
            ["corpus.jsonl:3:0 field '_id': 'secrets' is no item id"],
        ),
        (
            CORPUS,
            '{"_id":"rule:no%20secrets"',
            '{"_id":"rule:code%20review"',
            [
                "corpus.jsonl:3:0 field 'name' is 'no secrets', but _id 'rule:code%20review' says 'code review'",
                "corpus.jsonl:3:0 item 'rule:code%20review' occurs twice, first in line 2",
                "queries.jsonl:9:0 query 'q09' (session) names item 'rule:no%20secrets', which is not in corpus.js",
            ],
        ),
        (
            QUERIES,
            '"_id":"q02"',
            '"_id":"q01"',
            [
                "queries.jsonl:2:0 query 'q01' occurs twice, first in line 1",
                "qrels/tuning.tsv:4:0 label of 'reference:release%20calendar' for query 'q02' is for a query that ",
            ],
        ),
        (
            QUERIES,
            '"split":"tuning","tags":["two items"]',
            '"tags":["two items"]',
            ["queries.jsonl:1:0 field 'split' is missing"],
        ),
        (
            QUERIES,
            '"scope":"support"',
            '"scope":"suport"',
            ["queries.jsonl:8:0 query 'q08' has scope 'suport', which dataset.yaml does not define; did you mea"],
        ),
        (
            QUERIES,
            '"scope":"support"',
            '"scope":"support","available":[]',
            ["queries.jsonl:8:0 fields 'available' and 'scope' exclude each other"],
        ),
        (
            QUERIES,
            '"needs":"nothing","available"',
            '"needs":"something","available"',
            ["queries.jsonl:10:0 field 'needs' must be one of nothing, got 'something'"],
        ),
        (
            QUERIES,
            '"mode":"manual"',
            '"mode":"agent"',
            [
                "queries.jsonl:9:0 field 'session', entry 1: a session item's mode is always or manual",
                "qrels/test.tsv:8:0 query 'q09' requires",  # which the session no longer holds
            ],
        ),
        (
            QUERIES,
            '"role":"assistant",',
            "",
            ['queries.jsonl:7:0 field \'history\', entry 2: expected {"role", "content"}, both texts'],
        ),
        (
            QUERIES,
            '"role":"assistant"',
            '"role":"asistant"',
            ["queries.jsonl:7:0 field 'history', entry 2: a message's role is one of system, developer, user"],
        ),
        (
            QUERIES,
            '"turn":1',
            '"turn":-1',
            ["queries.jsonl:7:0 field 'turn' must be 0 or more"],
        ),
        (QUERIES, '"turn":1', '"time":"soon"', ["queries.jsonl:7:0 field 'time': must be ISO 8601"]),
        (QUERIES, '"text":"What is 17 times 23?",', "", ["queries.jsonl:10:0 field 'text' is missing"]),
        (
            QUERIES,
            '"tool:forge:create_issue"]',
            '"tool:forge:create"]',
            ["queries.jsonl:10:0 query 'q10' (available) names item 'tool:forge:create', which is not in corpus"],
        ),
        (
            QUERIES,
            '"tool:forge:create_issue"]',
            '"x"]',
            ["queries.jsonl:10:0 field 'available', entry 2: 'x' is no item id"],
        ),
        (QUERIES, '"tags":["scope"]', '"tags":"scope"', ["queries.jsonl:8:0 field 'tags' must be a list, got 'scope'"]),
        (
            TEST,
            "query-id\tcorpus-id\tscore\tvia\talternatives\n",
            "",
            ["qrels/test.tsv:1:0 the first line must be the header"],
        ),
        (TEST, "score\tvia\t", "score\twhy\t", ["qrels/test.tsv:1:0 the first line must be the header"]),
        (
            TEST,
            "q07\ttool:weather:get_forecast\t2\tdirect\t",
            "q07\ttool:weather:get_forecast",
            ["qrels/test.tsv:5:0 expected 3 to 5 fields separated by tabs, got 2"],
        ),
        (
            TEST,
            "q07\ttool:weather:get_forecast\t2\tdirect\t",
            "q07 tool:weather:get_forecast 2",
            ["qrels/test.tsv:5:0 expected 3 to 5 fields separated by tabs, got 1"],
        ),
        (
            TEST,
            "get_forecast\t2",
            "get_forecast\t3",
            ["qrels/test.tsv:5:0 score must be 0 irrelevant, 1 helpful or 2 required, got '3'"],
        ),
        (
            TEST,
            "get_forecast\t2",
            "get_forecast\tyes",
            ["qrels/test.tsv:5:0 score must be 0 irrelevant, 1 helpful or 2 required, got 'yes'"],
        ),
        (
            TEST,
            "2\tdependency",
            "2\tindirect",
            ["qrels/test.tsv:2:0 label of 'reference:project%20keys' for query 'q06' has via 'indirect'"],
        ),
        (
            TEST,
            "q08\ttool:tracker:search_issues\t1",
            "q08\treference:guides%2Fon%20call\t1",
            ["qrels/test.tsv:7:0 label of 'reference:guides%2Fon%20call' for query 'q08' occurs twice, first in"],
        ),
        (
            TEST,
            "q08\ttool:tracker:search_issues\t1",
            "q08\ttool:weather:get_forecast\t2",
            ["qrels/test.tsv:7:0 query 'q08' requires 'tool:weather:get_forecast', which is not available to it"],
        ),
        (
            TEST,
            "q07\t",
            "q17\t",
            ["qrels/test.tsv:5:0 label of 'tool:weather:get_forecast' for query 'q17' is for a query that is no"],
        ),
        (
            TEST,
            "q07\t",
            "q03\t",
            ["qrels/test.tsv:5:0 label for query 'q03', which is in split 'tuning'; move it to tuning.tsv"],
        ),
        (
            TUNING,
            "q05\ttool:weather:get_forecast\t0",
            "q05\ttool:weather:get_forecast\t2",
            ["qrels/tuning.tsv:10:0 label of 'tool:weather:get_forecast' for query 'q05' says required, but the"],
        ),
        (
            TUNING,
            "search_issues\t1\tdirect\t",
            "search_issues\t1\tdirect\tissue",
            ["qrels/tuning.tsv:8:0 label of 'tool:tracker:search_issues' for query 'q04' has alternatives 'issu"],
        ),
        (CARD, "name: tiny", "name tiny", ["dataset.yaml:3:1 malformed YAML"]),
        (CARD, "name: tiny", "name: tiny set", ["dataset.yaml:2:0 a dataset's name must be letters"]),
        (
            CARD,
            "licence:",
            "license:",
            [
                "dataset.yaml:1:0 field 'licence' is missing",
                "dataset.yaml:4:0 unknown field 'license'; did you mean 'licence'",
            ],
        ),
        (CARD, "version: '1'", "version: 1", ["dataset.yaml:3:0 field 'version' must be a text, got 1"]),
        (CARD, "format: 1", "format: 2", ["dataset.yaml:1:0 field 'format' must be one of 1, got 2"]),
        (CARD, "queries: 10", "queries: 11", ["dataset.yaml:13:0 counts says queries: 11, but the files hold 10"]),
        (CARD, "  queries: 10", "  querys: 10", ["dataset.yaml:13:0 unknown count 'querys'; did you mean 'queries'"]),
        (
            CARD,
            "  - tool:tracker:create_issue",
            "  - tool:tracker:create",
            ["dataset.yaml:26:0 scope 'support' names item 'tool:tracker:create', which"],
        ),
        (
            CARD,
            "  - tool:tracker:create_issue",
            "  - 5",
            ["dataset.yaml:26:0 field 'support', entry 1: expected an item id, got 5"],
        ),
    ],
)
def test_a_fault_is_found_where_it_is(folder: Path, file: str, old: str, new: str, expected: list[str]) -> None:
    edit(folder / file, old, new)
    found = faults_of(folder)
    assert len(found) == len(expected), found
    for message, start in zip(found, expected, strict=True):
        assert message.startswith(start), found


def test_invalid_utf8_is_placed_and_hides_nothing_else(folder: Path) -> None:
    for file in (CORPUS, QUERIES, TEST):
        path = folder / file
        path.write_bytes(path.read_bytes() + b"\xff\xfe\n")
    found = faults_of(folder)
    assert [message.split(" ")[0] for message in found] == [
        "corpus.jsonl:13:1",
        "queries.jsonl:11:1",
        "qrels/test.tsv:9:1",
    ]


def test_merge_conflicts_and_other_encodings_of_labels_are_told_once(folder: Path) -> None:
    whole = (folder / TEST).read_text(encoding="utf-8")
    header, *rows = whole.splitlines(keepends=True)
    (folder / TEST).write_text("".join([header, "<<<<<<< HEAD\n", *rows, "=======\n", ">>>>>>> other\n"]))
    assert [message.partition(":")[2][:22] for message in faults_of(folder)] == ["2:0 a merge conflict: k"[:22]]
    (folder / TEST).write_text(whole, encoding="utf-16")
    assert faults_of(folder) == ["qrels/test.tsv:1:0 the file is UTF-16; save it as UTF-8"]


def test_a_folder_of_labels_that_cannot_be_read_is_told_as_such(folder: Path) -> None:
    shutil.rmtree(folder / "qrels")
    (folder / "qrels").write_text("")
    said = "qrels cannot be read: it is a file; expected a folder of labels"
    assert [message.partition(" ")[2] for message in faults_of(folder)] == [said]


def test_known_queries_are_listed_once_and_known_items_never(folder: Path) -> None:
    path = folder / TEST
    path.write_text(path.read_text().replace("create_issue", "create_isue").replace("q07\t", "q77\t"))
    found = faults_of(folder)
    assert not [message for message in found if "Known: reference" in message]
    assert sum("did you mean 'tool:" in message for message in found) == 2
    assert sum("Known: q01" in message for message in found) == 1


def test_faults_of_all_files_come_at_once_in_order(folder: Path) -> None:
    edit(folder / TEST, "get_forecast\t2", "get_forecast\t3")
    edit(folder / TUNING, "q05\t", "q55\t")
    edit(folder / QUERIES, '"turn":1', '"turn":-1')
    edit(folder / CORPUS, '"enabled":false', '"enabled":0')
    edit(folder / CARD, "version: '1'\n", "")
    with pytest.raises(InputError) as caught:
        read_dataset(folder)
    places = [(Path(f.path or "").name, f.line) for f in caught.value.faults]
    assert places == [
        ("dataset.yaml", 1),
        ("corpus.jsonl", 12),
        ("queries.jsonl", 7),
        ("test.tsv", 5),
        ("tuning.tsv", 10),
    ]
    assert str(caught.value).splitlines()[0] == f"dataset {folder}: 5 faults"
    assert list(caught.value.faults) == validate(folder)


def test_an_unreadable_row_does_not_make_what_refers_to_it_wrong(folder: Path) -> None:
    edit(folder / CORPUS, '{"_id":"rule:code%20review"', '{_id:"rule:code%20review"')
    edit(folder / QUERIES, '{"_id":"q06"', '{_id:"q06"')
    assert [message.split(" ")[0] for message in faults_of(folder)] == ["corpus.jsonl:2:2", "queries.jsonl:6:2"]


@pytest.mark.parametrize(
    ("remove", "expected"),
    [
        (CARD, ["dataset.yaml:0:0 dataset.yaml is missing"]),
        (CORPUS, ["corpus.jsonl:0:0 corpus.jsonl is missing"]),
        (QUERIES, ["queries.jsonl:0:0 queries.jsonl is missing"]),
        (TEST, ["qrels/test.tsv:0:0 qrels/test.tsv is missing, but queries are in split 'test'"]),
    ],
)
@pytest.mark.parametrize("empty", [False, True])
def test_missing_and_empty_files(folder: Path, remove: str, expected: list[str], *, empty: bool) -> None:
    (folder / remove).unlink()
    if empty:
        (folder / remove).touch()
        faults = {CARD: f"{CARD}:1:0 expected a mapping", TEST: f"{TEST}:1:0 the first line must be the header"}
        expected = [faults.get(remove, f"{remove}:0:0 the file is empty")]
    found = faults_of(folder)
    assert len(found) == 1, found
    assert found[0].startswith(expected[0])


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
@pytest.mark.parametrize("name", [CARD, CORPUS, QUERIES, TEST])
def test_a_pipe_or_a_folder_in_place_of_a_file_is_a_fault(folder: Path, name: str) -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)
    assert [found.split(";")[0] for found in faults_of(folder)] == [f"{name}:0:0 {Path(name).name} is a pipe"]
    (folder / name).unlink()
    (folder / name).mkdir()
    assert [found.split(";")[0] for found in faults_of(folder)] == [f"{name}:0:0 {Path(name).name} is a folder"]


def test_of_many_labels_that_occur_twice_a_few_are_told_and_the_rest_is_counted(folder: Path) -> None:
    path = folder / TEST
    header, first, *others = path.read_text().splitlines()
    path.write_text("\n".join([header, first, *others, *[first] * 50_000, ""]))
    found = faults_of(folder)
    line = len(others) + 3
    assert len(found) == 21
    assert found[0] == (
        f"qrels/test.tsv:{line}:0 label of 'reference:project%20keys' for query 'q06' occurs twice, first in "
        "test.tsv, line 2"
    )
    assert found[-1] == f"qrels/test.tsv:{line + 20}:0 49,980 more labels occur twice, the first of them in this line"
    with pytest.raises(
        InputError, match=r"line 2 .*\n  49,980 more labels occur twice, the first of them in this line \("
    ):
        read_dataset(folder)


def test_labels_of_a_split_that_no_query_is_of(folder: Path) -> None:
    (folder / "qrels" / "tset.tsv").write_text("query-id\tcorpus-id\tscore\n")
    assert faults_of(folder) == [
        "qrels/tset.tsv:0:0 no query is in split 'tset'; did you mean 'test'? Known: test, tuning"
    ]


def test_no_such_folder(tmp_path: Path) -> None:
    for read in (read_dataset, validate):
        with pytest.raises(StorageError, match="no such folder"):
            read(tmp_path / "none")


def test_a_group_of_alternatives_needs_two_members(folder: Path) -> None:
    lines = (folder / TEST).read_text().splitlines()
    row = next(i for i, line in enumerate(lines) if line.split("\t")[2:5] == ["2", "direct", ""])
    lines[row] += "tool:gh:rollout"  # what a reader might take the column for
    (folder / TEST).write_text("\n".join(lines) + "\n")
    (found,) = faults_of(folder)
    assert "is the only one of its group of alternatives 'tool:gh:rollout'" in found
    assert found.startswith(f"qrels/test.tsv:{row + 1}:0 ")


def test_a_text_may_be_null(folder: Path) -> None:
    edit(folder / QUERIES, '"text":"What is 17 times 23?"', '"text":null')
    assert faults_of(folder) == []
