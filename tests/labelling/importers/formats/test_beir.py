"""BEIR folders: what is resolved by which rule, and what is said of faulty files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ctxbench.datasets.dataset import split_of
from ctxbench.datasets.files import read_dataset, write_dataset
from ctxbench.io.errors import InputError, ParameterError, StorageError
from ctxbench.labelling.conversion import PASSED_OVER, ImportSettings, read_grades
from ctxbench.labelling.import_files import ImportOptions, import_files
from ctxbench.labelling.judgment_files import export_dataset, import_collection
from ctxbench.labelling.sources import data_files

TOOLLENS = Path(__file__).parents[4] / ".." / "shared" / "data" / "toollens"
TINY = Path(__file__).parents[3] / "fixtures" / "tiny"
HEADER = "query-id\tcorpus-id\tscore\n"


def import_beir(folder, settings=None):
    files = [path for path in data_files([Path(folder)]) if path.name != "SOURCE.md"]
    return import_collection(files, kind="beir", settings=settings)


@pytest.fixture
def folder(tmp_path):
    """Write a BEIR folder; ids are as wild as they are found."""

    def write(*, corpus=None, queries=None, **qrels):
        root = tmp_path / "My set (v1.0)"
        (root / "qrels").mkdir(parents=True, exist_ok=True)
        corpus = corpus or [
            {"_id": "MED-10", "title": "Statins", "text": "Lower the risk.", "metadata": {"year": 2009}},
            {"_id": "doc 2/ü", "text": "Untitled."},
            {"_id": 7, "title": None, "text": "Seven."},
        ]
        queries = queries or [{"_id": "q1", "text": "one"}, {"_id": "q 2", "text": "two"}, {"_id": "q3", "text": ""}]
        for name, rows in (("corpus", corpus), ("queries", queries)):
            text = rows if isinstance(rows, str | bytes) else "".join(json.dumps(row) + "\n" for row in rows)
            (root / f"{name}.jsonl").write_bytes(text if isinstance(text, bytes) else text.encode())
        for split, text in (qrels or {"test": "q1\tMED-10\t1\n"}).items():
            (root / "qrels" / f"{split}.tsv").write_bytes(text if isinstance(text, bytes) else (HEADER + text).encode())
        return root

    return write


def faults_of(root, settings=None):
    with pytest.raises(InputError) as caught:
        import_beir(root, settings)
    return [(Path(fault.path).name, fault.line, fault.message) for fault in caught.value.faults]


def test_tags_of_queries_stay_and_other_fields_are_counted(folder):
    queries = [
        {"_id": "q1", "text": "one", "tags": ["x", "y"], "metadata": {"k": 1}, "note": "n"},
        {"_id": "q2", "text": "two", "tags": "x", "metadata": {}},
    ]
    found = import_beir(folder(queries=queries))
    assert [query.tags for query in found.dataset.queries] == [("x", "y"), ()]
    assert sorted(found.ids["ignored fields"]) == ["metadata", "note", "tags"]


def test_a_query_of_which_a_required_document_is_missing_is_partly_labelled_and_not_unlabelled(folder):
    found = import_beir(folder(test="q1\tMED-10\t1\nq1\tgone\t1\nq 2\tgone\t1\n"))
    assert found.counts["partly labelled queries (missing documents)"] == 1
    assert found.ids["unlabelled queries (no required document)"] == ["q%202", "q3"]


@pytest.mark.parametrize("is_export", [False, True])
def test_a_dataset_is_named_after_the_folder_that_it_is_written_to_unless_it_is_an_export(is_export, folder, tmp_path):
    root = folder()
    if is_export:
        export_dataset(read_dataset(TINY), root := tmp_path / "export", form="beir")
    imported = import_files([root], options=ImportOptions(folder=tmp_path / "theirs"))
    assert imported.dataset.name == ("tiny" if is_export else "theirs")


def test_documents_become_items_and_one_score_means_required(folder, tmp_path):
    found = import_beir(folder(test="q1\tMED-10\t1\nq1\tdoc 2/ü\t0\nq 2\t7\t1\n"))
    data = found.dataset
    assert data.name == "My-set-v1.0"
    assert data.catalog.ids == ("reference:MED-10", "reference:doc%202%2F%C3%BC", "reference:7")
    assert data.catalog[0].search_text == "MED-10: Statins\n\nLower the risk."
    assert [(i.query, i.item.name, i.grade, i.source) for i in data.labels] == [
        ("q1", "MED-10", 2, "publisher"),
        ("q1", "doc 2/ü", 0, "publisher"),
        ("q%202", "7", 2, "publisher"),
    ]
    assert data.unlabelled == ("q3",)
    assert [query.split for query in data.queries] == ["test", "test", split_of("q3")]
    assert found.counts["percent-encoded query ids"] == 1
    assert found.lines() == [
        "unlabelled queries (no required document): 1 (q3)",
        "percent-encoded query ids: 1 (q 2)",
    ]
    write_dataset(data, tmp_path / "out")
    assert read_dataset(tmp_path / "out").hash == data.hash


def test_a_tool_is_called_by_its_title_and_searched_by_title_and_text(folder):
    data = import_beir(folder(), ImportSettings(type="tool")).dataset
    assert data.catalog[0].search_text == "Statins: Lower the risk."
    assert data.catalog.ids == ("tool:Statins", "tool:doc%202%2F%C3%BC", "tool:7")
    assert [label.item.id for label in data.labels] == ["tool:Statins"]


def test_a_tool_whose_title_is_its_id_is_called_by_it(folder):
    rows = [{"_id": "MED-10", "title": "MED-10", "text": "Lower the risk."}]
    data = import_beir(folder(corpus=rows), ImportSettings(type="tool")).dataset
    assert [item.search_text for item in data.catalog] == ["MED-10: Lower the risk."]


def test_a_tool_keeps_its_server_and_schema_and_its_id_where_titles_repeat(folder):
    schema = {"type": "object", "properties": {"q": {}}}
    rows = [
        {"_id": "MED-10", "title": "search", "text": "Pages.", "server": "wiki", "inputSchema": schema},
        {"_id": "2", "title": "search", "text": "People.", "server": "crm", "schema": schema},
        {"_id": "3", "title": "find", "text": "A."},
        {"_id": "4", "title": "find", "text": "B."},
        {"_id": "5", "title": "3", "text": "C."},
    ]
    catalog = import_beir(folder(corpus=rows), ImportSettings(type="tool")).dataset.catalog
    assert catalog.ids == ("tool:wiki:search", "tool:crm:search", "tool:3", "tool:4", "tool:5")
    assert [item.schema for item in catalog[:3]] == [schema, schema, None]
    assert catalog[2].search_text == "3: find: A."


def test_an_id_in_the_metadata_that_the_id_of_a_tool_replaces_is_counted(folder):
    rows = [{"_id": name, "title": f"t{name}", "text": "x", "metadata": {"id": "2"}} for name in ("MED-10", "2")]
    imported = import_beir(folder(corpus=rows), ImportSettings(type="tool"))
    assert [item.metadata["id"] for item in imported.dataset.catalog] == ["MED-10", "2"]
    assert imported.ids[PASSED_OVER] == ["metadata.id"]


def test_a_corpus_of_tools_reads_alike_in_another_program(tmp_path):
    """Title and text of every line are what we search: name and description."""
    data = read_dataset(TINY)
    write_dataset(data, tmp_path / "out")
    rows = [json.loads(line) for line in (tmp_path / "out" / "corpus.jsonl").read_text("utf-8").splitlines()]
    tools = [(row, item) for row, item in zip(rows, data.catalog, strict=True) if item.type == "tool"]
    assert tools
    assert all((row["title"], row["text"]) == (item.title or item.name, item.description) for row, item in tools)
    assert read_dataset(tmp_path / "out").hash == data.hash


def test_train_and_dev_are_tuning_and_other_splits_keep_their_names(folder):
    rows = [{"_id": f"q{i}", "text": "t"} for i in range(1, 6)]
    label = "q{}\tMED-10\t1\n"
    root = folder(
        queries=rows,
        train=label.format(1),
        dev=label.format(2),
        TEST=label.format(3),
        extra=label.format(4),
        test=label.format(5),
    )
    found = import_beir(root)
    assert found.ids["splits joined as tuning"] == ["dev", "train"]
    splits = {query.id: query.split for query in found.dataset.queries}
    assert splits == {"q1": "tuning", "q2": "tuning", "q3": "test", "q4": "extra", "q5": "test"}


def test_a_query_of_several_splits_is_tuning_and_counted(folder):
    found = import_beir(folder(train="q1\tMED-10\t1\n", test="q1\t7\t1\nq1\tMED-10\t1\n"))
    assert found.dataset.queries[0].split == "tuning"
    assert len(found.dataset.labels) == 2
    assert found.counts["queries labelled in several splits"] == 1
    assert found.counts["splits joined as tuning"] == 0
    assert found.counts["repeated label rows"] == 1


def test_graded_scores_need_a_mapping(folder):
    root = folder(test="q1\tMED-10\t2\nq1\t7\t1\nq 2\t7\t3\nq 2\tMED-10\t-1\n")
    ((_, _, message),) = faults_of(root)
    assert "the scores are graded: 1 (1 labels), 2 (1 labels), 3 (1 labels)" in message
    assert message.endswith("for example --grades 1=1,2=1,3=2")
    assert "scores 3 are not in the mapping" in faults_of(root, ImportSettings(grades={1: 1, 2: 2}))[0][2]
    found = import_beir(root, ImportSettings(grades=read_grades("1=1,2=2,3=2")))
    assert [(i.item.name, i.grade) for i in found.dataset.labels] == [("MED-10", 2), ("7", 1), ("MED-10", 0), ("7", 2)]
    assert found.counts["labels with negative scores"] == 1


def test_what_is_not_there_is_counted_and_makes_no_figure(folder):
    found = import_beir(folder(test="q1\tgone\t1\nq1\tMED-10\t1\nq 2\tgone\t1\nlost\tMED-10\t1\nlost\t7\t1\n"))
    assert found.counts["labels for missing documents"] == 2
    assert found.counts["labels for missing queries"] == 2
    assert found.ids["partly labelled queries (missing documents)"] == ["q1"]
    assert found.dataset.unlabelled == ("q1", "q%202", "q3")
    assert found.dataset.queries[0].partly_labelled
    assert len(found.dataset) == 3
    assert found.dataset.about["notes"] == {"counted": dict(found.counts)}


def test_a_gone_document_that_is_irrelevant_costs_nothing(folder):
    found = import_beir(folder(test="q1\tgone\t0\nq1\tMED-10\t1\n"))
    assert "q1" not in found.dataset.unlabelled


def test_quoted_ids_are_read_as_csv_reads_them(folder):
    rows = [{"_id": 'a "b"', "text": "t"}]
    found = import_beir(folder(corpus=rows, test='q1\t"a ""b"""\t1\n'))
    assert found.dataset.labels[0].item.name == 'a "b"'


def test_everything_wrong_is_said_at_once_with_file_and_line(folder):
    root = folder(
        corpus='{"_id": "a", "text": "x"}\n{"_id": "a", "text": "y"}\n{"text": "z"}\n{"_id": "b"}\n{"_id": "c"\n',
        queries=b'{"_id": "q1", "text": "x"}\n{"_id": "q1", "text": "y"}\n{"_id": "q2", "text": "\xff"}\n[]\n',
        test="q1\ta\nq1\ta\tone\nq1\ta\t1\nq1\ta\t0\n",
        dev=b"query-id\tcorpus-id\nq1\ta\t1\n",
        train=b"",
    )
    found = faults_of(root)
    assert [(name, line) for name, line, _ in found] == [
        *[("corpus.jsonl", line) for line in (2, 3, 4, 5)],
        *[("queries.jsonl", line) for line in (2, 3, 4)],
        ("dev.tsv", 2),
        *[("test.tsv", line) for line in (2, 3)],
        ("test.tsv", 5),
    ]
    messages = [message for _, _, message in found]
    for expected in (
        "occurs twice, first in line 1",
        "no id: expected a text in a field such as id",
        "no text",
        "malformed JSON",
        "invalid UTF-8",
        "expected an object",
        "expected 2 fields as in the header, got 3",
        "expected 3 fields as in the header, got 2",
        "a score must be a whole number, got 'one'",
        "have score 0 here and 1 in test.tsv, line 4; correct one of them",
    ):
        assert any(expected in message for message in messages), expected


def test_a_collection_that_is_not_whole_is_refused(folder, tmp_path):
    with pytest.raises(StorageError, match="no such file"):
        import_beir(tmp_path / "nothing")
    root = folder()
    (root / "corpus.jsonl").unlink()
    with pytest.raises(InputError, match="queries, labels, but no documents"):
        import_beir(root)
    root = folder()
    shutil.rmtree(root / "qrels")
    with pytest.raises(InputError, match="queries, documents, but no labels"):
        import_beir(root)


@pytest.mark.parametrize("text", ["", "1", "1=3", "a=1", "1=1,1=2", "1=1,"])
def test_a_mapping_of_grades_is_checked(text):
    with pytest.raises(ParameterError, match="score=grade"):
        read_grades(text)


def test_settings_are_checked():
    for wrong in ({"type": "doc"}, {"name": "a b"}, {"grades": {1: 3}}):
        with pytest.raises(ParameterError):
            ImportSettings(**wrong)


@pytest.mark.skipif(not TOOLLENS.is_dir(), reason="the data of ToolLens is not here")
def test_toollens_is_a_beir_folder():
    found = import_beir(TOOLLENS, ImportSettings(type="tool"))
    assert found.dataset.counts["splits"] == {"tuning": 16_893, "test": 1_877}
    assert found.counts["repeated label rows"] == 23 + 170
    assert len(found.dataset.labels) == 4_987 + 44_865
    assert found.dataset.unlabelled == ()
    assert sum(n for what, n in found.counts.items() if what != "repeated label rows") == 0


def test_an_id_of_any_length_is_read(folder):
    ((name, _, message),) = faults_of(folder(test=f'q1\t"{"x" * 140_000}"\t1\n'))
    assert name == "test.tsv"
    assert message.startswith("none of the 1 documents that labels name is in the corpus")
