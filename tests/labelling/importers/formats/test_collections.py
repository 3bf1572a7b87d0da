"""Collections under any names of files and fields, documents as items, and the kinds of files."""

from __future__ import annotations

import gzip
import json
from types import SimpleNamespace

import pytest

from ctxbench.datasets.dataset import split_of
from ctxbench.io.errors import InputError
from ctxbench.labelling.conversion import ImportSettings, role_of
from ctxbench.labelling.import_files import import_files
from ctxbench.labelling.judgment_files import KINDS, import_collection, read_catalog_files
from ctxbench.labelling.sources import data_files, sample
from ctxbench.model.items import Catalog, Item

TEXTS = {"d1": "Refunds take five days.", "d2": "Parcels ship on Monday.", "d3": "We open at nine."}
QUESTIONS = {"q1": "how do refunds work?", "q2": "when do parcels ship?"}
LABELS = [("q1", "d1", 1), ("q2", "d2", 1), ("q2", "d3", 0)]
EXPECTED = [("q1", "d1", 2), ("q2", "d2", 2), ("q2", "d3", 0)]


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    ending = path.name.partition(".")[2]
    if isinstance(rows, str):
        path.write_text(rows)
    elif ending == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(rows), path)
    elif ending == "csv":
        lines = [list(rows[0]), *(row.values() for row in rows)]
        path.write_text("".join(",".join(map(str, line)) + "\n" for line in lines))
    elif ending == "jsonl.gz":
        path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    else:
        path.write_text(json.dumps(rows) if ending == "json" else "".join(json.dumps(row) + "\n" for row in rows))
    return path


def rows(fields, entries):
    return [dict(zip(fields.split(), entry, strict=True)) for entry in entries]


def labels_of(data):
    return [(label.query, label.item.name, label.grade) for label in data.labels]


def kind_of(path):
    values = [document.value for document in sample(path)]
    return next((kind.name for kind in KINDS if kind.matches(values)), None)


def options(**settings):
    names = settings.pop("names", {})
    return SimpleNamespace(settings=ImportSettings(**settings), names=names, server=None)


def items_of(*paths, **settings):
    kinds = {path: next(kind for kind in KINDS if kind.name == kind_of(path)) for path in paths}
    return [item for part in read_catalog_files(paths, kinds, options(**settings)) for item in part.items]


@pytest.mark.parametrize("ending", ["json", "jsonl", "jsonl.gz", "csv", "parquet"])
@pytest.mark.parametrize(
    ("documents", "queries", "labels"),
    [
        ("_id text", "_id text", "query-id corpus-id score"),
        ("doc_id passage", "query_id query", "query_id doc_id relevance"),
        ("docid contents", "qid question", "qid docid label"),
        ("passage_id text", "query_id text", "q_id passage_id score"),
    ],
)
def test_columns_under_many_names_in_every_form_of_file(tmp_path, ending, documents, queries, labels):
    write(tmp_path / f"a.{ending}", rows(documents, TEXTS.items()))
    write(tmp_path / f"b.{ending}", rows(queries, QUESTIONS.items()))
    write(tmp_path / f"c.{ending}", rows(labels, LABELS))
    data = import_collection(data_files([tmp_path])).dataset
    assert labels_of(data) == EXPECTED
    assert data.catalog.ids == ("reference:d1", "reference:d2", "reference:d3")
    assert [query.request.text for query in data.queries] == list(QUESTIONS.values())


def test_whole_numbers_are_ids_and_names_of_files_count_where_ids_do_not_tell(tmp_path):
    write(tmp_path / "corpus/train.jsonl", rows("id text", enumerate(TEXTS.values())))
    write(tmp_path / "queries/train.jsonl", rows("id text", enumerate(QUESTIONS.values())))
    write(tmp_path / "data/test-00000-of-00001.jsonl", rows("query_id doc_id score", [(0, 0, 1), (1, 1, 1.0)]))
    data = import_collection(data_files([tmp_path])).dataset
    assert labels_of(data) == [("0", "0", 2), ("1", "1", 2)]
    assert {query.split for query in data.queries} == {"test"}
    (tmp_path / "queries").rename(tmp_path / "x")
    (tmp_path / "corpus").rename(tmp_path / "y")
    with pytest.raises(InputError, match="whether it has queries or documents"):
        import_collection(data_files([tmp_path]))


@pytest.mark.parametrize(
    ("path", "split"),
    [
        ("qrels/train.tsv", "tuning"),
        ("qrels/extra.tsv", "extra"),
        ("default/dev.tsv", "tuning"),
        ("default/test-00000-of-00002.tsv", "test"),
        ("validation/labels.tsv", "tuning"),
        ("labels.tsv", split_of("q1")),
    ],
)
def test_a_split_is_named_by_the_file_or_folder_of_labels(tmp_path, path, split):
    write(tmp_path / "corpus.jsonl", rows("_id text", TEXTS.items()))
    write(tmp_path / "queries.jsonl", rows("_id text", list(QUESTIONS.items())[:1]))
    write(tmp_path / path, "query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    assert [query.split for query in import_collection(data_files([tmp_path])).dataset.queries] == [split]


@pytest.mark.parametrize(
    "labels",
    [
        {"relevant_docs": {"q1": ["d1"], "q2": "d2"}},
        {"qrels": {"q1": {"d1": 1}, "q2": {"d2": 1}}},
        {"qrels": [{"query-id": "q1", "corpus-id": "d1"}, {"query-id": "q2", "corpus-id": "d2", "score": "1"}]},
    ],
)
def test_a_collection_in_one_file(tmp_path, labels):
    corpus = {**TEXTS, "d3": {"title": "Hours", "text": TEXTS["d3"]}}
    path = write(tmp_path / "val_dataset.json", {"queries": QUESTIONS, "corpus": corpus, **labels, "mode": "text"})
    assert kind_of(path) == "qa-corpus"
    data = import_collection([path]).dataset
    assert labels_of(data) == [("q1", "d1", 2), ("q2", "d2", 2)]
    assert (data.name, data.catalog[2].title) == ("val_dataset", "Hours")


def test_qrels_of_ranx_and_lines_without_a_header(tmp_path):
    ranx = write(tmp_path / "ranx.json", {"q1": {"d1": 1}, "q2": {"d2": 1, "d3": 0}})
    trec = write(tmp_path / "trec.txt", "q1 0 d1 1\nq2\t0\td2\t1\nq2 Q0 d3 0\n")
    texts = [write(tmp_path / f"{n}.tsv", "".join(f"{name}\t{text}\n" for name, text in part.items()))
             for n, part in enumerate((QUESTIONS, TEXTS))]  # fmt: skip
    assert (kind_of(ranx), kind_of(trec), kind_of(texts[0])) == ("beir", "trec", "documents")
    for path in (ranx, trec):
        assert labels_of(import_collection([*texts, path]).dataset) == EXPECTED


def test_objects_by_id_are_rows(tmp_path):
    corpus = write(tmp_path / "corpus.json", {name: {"title": "T", "text": text} for name, text in TEXTS.items()})
    queries = write(tmp_path / "queries.json", QUESTIONS)
    qrels = write(tmp_path / "qrels.json", {"q1": {"d1": 1}, "q2": {"d2": 1, "d3": 0}})
    assert labels_of(import_collection([corpus, queries, qrels]).dataset) == EXPECTED
    (item,) = items_of(write(tmp_path / "one.json", [{"title": "A title", "text": "Some text"}]))
    assert (item.name, item.text) == ("A title", "Some text")


def test_pairs_name_documents_by_their_text(tmp_path):
    texts = list(TEXTS.values())
    triplets = rows(
        "anchor positive negative", [("a", texts[0], texts[2]), ("a", texts[1], texts[2]), ("b", *texts[1:])]
    )
    data = import_collection([write(tmp_path / "t.jsonl", triplets)]).dataset
    assert [item.text for item in data.catalog] == [texts[0], texts[2], texts[1]]
    assert [label.grade for label in data.labels] == [2, 0, 2, 0, 2]
    passages = {"query": "a", "query_id": 7, "positive_passages": [{"docid": "d1", "title": "T", "text": "x"}],
                "negative_passages": [{"docid": "d2", "text": "y"}]}  # fmt: skip
    assert labels_of(import_collection([write(tmp_path / "p.jsonl", [passages])]).dataset) == [
        ("7", "d1", 2),
        ("7", "d2", 0),
    ]


def test_labels_may_name_items_of_a_catalog(tmp_path):
    catalog = Catalog([Item(type="skill", name=name) for name in TEXTS] + [Item(type="rule", name="d3")])
    labels = [("q1", "d1"), ("q2", "skill:d2"), ("q2", "d3")]
    paths = [
        write(tmp_path / "q.jsonl", rows("_id text", QUESTIONS.items())),
        write(tmp_path / "l.csv", rows("query_id doc_id", labels)),
    ]
    found = import_collection(paths, catalog)
    assert labels_of(found.dataset) == [("q1", "d1", 2), ("q2", "d2", 2)]
    assert found.ids["labels for names of several items"] == ["q2 d3"]  # a skill and a rule
    with pytest.raises(InputError, match="queries, labels, but no documents"):
        import_collection(paths)


def test_unknown_fields_are_named_by_the_user(tmp_path):
    paths = [write(tmp_path / "a.jsonl", [{"meta": {"key": name}, "inhalt": text} for name, text in TEXTS.items()]),
             write(tmp_path / "b.jsonl", rows("frage_id frage", QUESTIONS.items())),
             write(tmp_path / "qrels.jsonl", rows("frage_id treffer", [("q1", "d1")]))]  # fmt: skip
    items = read_catalog_files(
        paths[:1],
        {paths[0]: next(k for k in KINDS if k.name == "documents")},
        options(names={"id": "meta.key", "text": "inhalt"}),
    )
    assert [item.name for item in items[0].items] == list(TEXTS)


def test_tags_may_stand_in_any_field_of_a_query(tmp_path):
    documents, labels = write(tmp_path / "a.jsonl", [{"_id": "d1", "text": "x"}]), tmp_path / "c.jsonl"
    write(labels, rows("query-id corpus-id score", [("q1", "d1", 1)]))
    queries = write(tmp_path / "b.jsonl", [{"_id": "q1", "text": "y", "metadata": {"domain": "shop"}}])
    imported = import_collection([documents, queries, labels], kind="beir", names={"tags": "metadata.domain"})
    assert [query.tags for query in imported.dataset.queries] == [("shop",)]


@pytest.mark.parametrize(
    ("row", "name", "metadata"),
    [
        ({"chunk_link": "d1", "chunk_heading": "T", "text": "x"}, "d1", {}),
        ({"chunk_id": 3, "doc_id": "a", "body": "x", "title": "T"}, "3", {"doc_id": "a"}),
        ({"page_content": "x", "metadata": {"source": "a.md", "title": "T"}}, "a.md", {"source": "a.md", "title": "T"}),
        (
            {"lc": 1, "kwargs": {"page_content": "x", "metadata": {"id": "i", "title": "T"}}},
            "i",
            {"id": "i", "title": "T"},
        ),
        ({"id_": "n", "text": "x", "embedding": [1.0], "metadata": {"title": "T"}}, "n", {"title": "T"}),
        (
            {"url": "https://a/b", "heading": "T", "content": "x", "lines": [1, 2]},
            "https://a/b",
            {"url": "https://a/b", "lines": [1, 2]},
        ),
    ],
)
def test_documents_of_many_programs_become_items(tmp_path, row, name, metadata):
    (item,) = items_of(write(tmp_path / "list.json", [row]), type="chunk")
    assert (item.type, item.name, item.title, item.text, item.metadata) == ("chunk", name, "T", "x", metadata)


def test_items_of_a_catalog_stay_what_they_are(tmp_path):
    rows_ = [Item(type="skill", name="pdf", description="Merge.", text="Do it.").as_row()]
    assert [item.id for item in items_of(write(tmp_path / "corpus.jsonl", rows_))] == ["skill:pdf"]
    write(tmp_path / "queries.jsonl", rows("_id text", QUESTIONS.items()))
    write(tmp_path / "qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\tskill:pdf\t2\n")
    write(tmp_path / "dataset.yaml", "name: x\n")
    with pytest.raises(InputError, match="a dataset of ctxbench"):
        import_files([tmp_path])


def test_the_file_and_lines_of_a_chunk_are_kept(tmp_path):
    loc = {"lines": {"from": 3, "to": 9}}
    chunks = [
        {"id": "a", "text": "x", "metadata": {"file_path": "a.py", "start_line": 1, "end_line": 2}},
        {"id": "b", "pageContent": "x", "metadata": {"source": "b.md", "loc": loc}},
    ]
    items = items_of(write(tmp_path / "l.jsonl", chunks))
    assert items[0].metadata == {"path": "a.py", "file_path": "a.py", "start_line": 1, "end_line": 2}
    assert items[1].metadata == {"lines": [3, 9], "source": "b.md", "loc": loc}


def test_chunks_of_one_source_are_numbered_and_stores_are_read(tmp_path):
    chunks = [{"page_content": text, "metadata": {"source": "a.md"}} for text in TEXTS.values()]
    assert [item.name for item in items_of(write(tmp_path / "l.jsonl", chunks))] == ["a.md#1", "a.md#2", "a.md#3"]
    store = {"docstore/data": {name: {"__data__": {"text": text}, "__type__": "1"} for name, text in TEXTS.items()}}
    assert [item.name for item in items_of(write(tmp_path / "docstore.json", store))] == list(TEXTS)
    with pytest.raises(InputError, match="document 'd1' occurs twice, first in line 1"):
        items_of(write(tmp_path / "twice.jsonl", rows("doc_id text", [("d1", "x"), ("d1", "y")])))


def test_rules_and_skills_in_any_folder(tmp_path):
    rule = write(tmp_path / "guides/style.md", "---\nglobs: **/*.py\ndescription: Style\n---\nUse ruff.\n")
    skill = write(tmp_path / "pdf/info.md", "---\nname: pdf\ndescription: Merges: files, pages\n---\nDo it.\n")
    write(tmp_path / "AGENTS.md", "# Always\nNote: be kind.\n")
    write(tmp_path / "README.md", "# A project\nSome text.\n")
    assert (kind_of(rule), kind_of(skill)) == ("rules", "skills")
    found = import_files([tmp_path])
    items = {item.id: item.include for part in found.parts for item in part.items}
    assert items == {"rule:AGENTS.md": "always", "rule:guides%2Fstyle.md": "agent", "skill:pdf": "agent"}
    assert [path.name for path in found.plan.skipped] == ["README.md"]
    (only,) = import_files([tmp_path / "guides"]).parts
    assert [item.name for item in only.items] == ["style.md"]


@pytest.mark.parametrize(
    "values",
    [
        [],
        [None],
        [3],
        ["text"],
        [[]],
        [{}],
        [{"role": "user", "id": "1", "content": "x"}],
        [{"messages": [{"role": "user", "content": "x"}], "tools": [{"name": "a", "inputSchema": {}}]}],
        [{"id": [1], "text": {"a": 1}}],
        [{"query": "x", "expected": ["a"], "tools": [{"name": "a", "description": "b"}]}],
        [{"front_matter": {"a": 1}, "text": "x"}],
        [{"q": {}}],
        [{"documents": [1, None]}],
        [{"queries": 1, "relevant_docs": 2}],
        [{"train": {"loss": 0.5}}],
        [{"Command": "run it", "Happens": "an error", "Should": "work well"}],
        [{"name": "a", "version": "1", "description": "a package"}],
    ],
)
def test_other_files_are_of_no_kind(values):
    matching = [kind.name for kind in KINDS if kind.matches(values)]
    assert matching in ([], ["qa-corpus"], ["documents"]), matching
    assert isinstance(role_of(values), str)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("set.json", {"queries": 1, "corpus": [], "relevant_docs": {"q": [{"a": 1}]}}),
        ("set.json", {"queries": {"q": 3}, "corpus": {"d": None}, "relevant_docs": [[1]]}),
        ("set.json", {"queries": ["x"], "corpus": {"d": "t"}, "qrels": {"q": {"d": "many"}}}),
        ("pairs.jsonl", [{"query": ["x"], "positive": 7, "negative": [None, {"text": 3}]}]),
        ("groups.jsonl", [{"query": "x", "qid": None, "retrieval_gt": {"a": 1}}]),
        ("qrels.json", {"q": {"d": 1.5, "e": True}}),
        ("qrels.jsonl", [{"query_id": {}, "doc_id": [], "score": []}]),
        ("a.csv", "query_id,doc_id,score\nq,d,1e9999\n"),
        (
            "corpus.jsonl",
            [{"_id": "", "text": "x"}, {"_id": True, "text": []}, {"_id": 10**400, "text": "x", "metadata": []}],
        ),
    ],
)
def test_odd_values_are_faults(tmp_path, name, content):
    with pytest.raises(InputError):
        import_collection([write(tmp_path / name, content)])
