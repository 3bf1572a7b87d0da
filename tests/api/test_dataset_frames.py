"""Datasets of frames and rows: what is given is read as a file's rows are, and every fault names its row."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ctxbench
from ctxbench.datasets.files import read_dataset
from ctxbench.io.errors import InputError, ParameterError, UserError

SMOKE = Path(__file__).parents[2] / "datasets" / "smoke"
ITEMS = [{"name": "area", "description": "Area of a triangle"}, {"name": "root", "server": "math"}]
QUERIES = [{"query": "q1", "text": "the area"}, {"query": "q2", "text": "hello", "needs": "nothing"}]
LABELS = [{"query": "q1", "item": "area"}]


def test_frames_hold_what_the_files_hold():
    found, files = ctxbench.load(SMOKE), read_dataset(SMOKE)
    assert found.dataset.hash == files.hash
    assert found.items["id"].tolist() == list(files.catalog.ids)
    assert found.items["description"].fillna("").tolist() == [item.description for item in files.catalog]
    assert found.queries["query"].tolist() == [query.id for query in files.queries]
    assert found.queries["text"].tolist() == [query.request.text for query in files.queries]
    told = [(label.query, label.item.id, label.grade, label.via, label.alternatives) for label in files.labels]
    assert list(found.labels.drop(columns="quote").itertuples(index=False, name=None)) == told
    assert repr(found) == "Dataset('smoke', '1', queries=30, items=24)"


def test_a_dataset_made_of_its_own_frames_is_the_same():
    files = ctxbench.load(SMOKE)
    queries = files.queries.drop(columns="scope").assign(available=available(files.dataset))
    again = ctxbench.dataset(files.items, queries, files.labels.replace("", None), name="smoke")
    assert again.dataset.catalog.hash == files.dataset.catalog.hash
    assert again.dataset.labels == tuple(plain(label) for label in files.dataset.labels)
    assert [query.request for query in again.dataset.queries] == [query.request for query in files.dataset.queries]


def available(dataset):
    return [None if one is None else [key.id for key in one] for one in (r.available for r in dataset.requests())]


def plain(label):
    from dataclasses import replace

    return replace(label, source="")


@pytest.mark.parametrize("form", [list, pd.DataFrame])
def test_rows_and_frames_are_as_good_as_files(form):
    made = ctxbench.dataset(form(ITEMS), form(QUERIES), form(LABELS))
    assert made.items["id"].tolist() == ["tool:area", "tool:math:root"]
    assert made.labels.to_dict("records") == [
        {"query": "q1", "item": "tool:area", "grade": 2, "via": "direct", "alternatives": "", "quote": ""}
    ]
    assert [query.needs_nothing for query in made.dataset.queries] == [False, True]
    assert [query.split for query in made.dataset.queries] == ["test", "test"]


def test_an_item_is_named_by_its_id_too_and_its_values_may_be_numpys():
    rows = pd.DataFrame(
        {"id": ["rule:R1", "rule:R2"], "priority": [np.int64(10), np.nan], "text": ["a", "b"], "name": ["R1", "R2"]}
    )
    made = ctxbench.catalog(rows)
    assert [(item.id, item.priority, item.text) for item in made] == [("rule:R1", 10, "a"), ("rule:R2", None, "b")]
    (named,) = ctxbench.catalog([{"name": "a", "schema": {"type": "object"}, "include": "always"}])
    assert (dict(named.schema), named.include) == ({"type": "object"}, "always")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"nam": "a"}], r"items, row 0.*'name' is missing|'name' is missing \(items, row 0\)"),
        ([{"name": "a", "descriptoin": "b"}], r"unknown field 'descriptoin'; did you mean 'description'\?"),
        ([{"name": "a"}, {"name": "a"}], r"item 'tool:a' occurs twice; identities must differ \(items, row 1\)"),
        ([{"name": "a", "type": "tol"}], r"item type must be one of|'_id'"),
        ([{"name": "a", "_id": "7"}], r"the id '7' is neither .*'tool:a'; leave the column out .*\(items, row 0\)"),
        ([{"name": "a", "created": "2026-02-01", "until": "2026-01-01"}], r"until .* is before created"),
    ],
)
def test_what_is_no_item_is_said_with_its_row(rows, message):
    with pytest.raises(InputError, match=message):
        ctxbench.catalog(rows)


def test_a_column_that_a_frame_lacks_is_named():
    with pytest.raises(InputError, match="queries: column 'text' is missing; the columns are query, txt"):
        ctxbench.dataset(ITEMS, pd.DataFrame([{"query": "q1", "txt": "a"}]), LABELS)
    with pytest.raises(InputError, match=r"'query' is missing \(labels, row 1\)"):
        ctxbench.dataset(
            ITEMS, QUERIES, pd.DataFrame([{"query": "q1", "item": "area"}, {"query": np.nan, "item": "area"}])
        )


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([{"query": "q1", "item": "ara"}], r"no item has the id or name 'ara' \(query 'q1'\); did you mean 'area' or"),
        ([{"query": "q9", "item": "area"}], "q9"),
        ([{"query": "q1", "item": "area", "grade": 3}], r"numbers 3.*grades=\{3: \"required\"\}"),
        ([{"query": "q1", "item": "area", "grade": "high"}], "high"),
        ([{"query": "q1", "item": "area", "grads": 1}], "unknown field 'grads'; did you mean 'grade'"),
        ([{"query": "q1", "item": "area", "quote": "Volume"}], "Volume"),
    ],
)
def test_what_is_no_label_is_said_with_its_query(labels, message):
    with pytest.raises(UserError, match=message):
        ctxbench.dataset(ITEMS, QUERIES, labels)


def test_one_name_of_two_items_is_told_apart_by_the_id():
    twins = [{"name": "read", "server": "a"}, {"name": "read", "server": "b"}]
    with pytest.raises(InputError, match=r"2 items have the name 'read' \(query 'q1'\); give the id"):
        ctxbench.dataset(twins, QUERIES, [{"query": "q1", "item": "read"}])
    assert ctxbench.dataset(twins, QUERIES, [{"query": "q1", "item": "tool:b:read"}]).labels["item"].tolist() == [
        "tool:b:read"
    ]


def test_of_a_file_of_qrels_it_is_said_how_to_read_it(tmp_path):
    (path := tmp_path / "qrels.trec").write_text("q1 0 area 1\n")
    with pytest.raises(ParameterError, match=r"qrels\.trec, line 1 must be .* `pd\.read_csv\(FILE"):
        ctxbench.dataset([{"name": "area"}], [{"query": "q1", "text": "area"}], path)


@pytest.mark.parametrize("rows", [{"name": "area"}, 3, ["area"]])
def test_what_is_no_table_is_refused(rows):
    with pytest.raises(ParameterError, match="must be a"):
        ctxbench.catalog(rows)


def test_what_was_given_is_left_as_it_was():
    frames = [pd.DataFrame(rows) for rows in (ITEMS, QUERIES, LABELS)]
    before = json.dumps([frame.to_dict("records") for frame in frames], default=str)
    ctxbench.dataset(*frames)
    assert json.dumps([frame.to_dict("records") for frame in frames], default=str) == before


@pytest.mark.parametrize("given", [None, 7, "abc", {"a": "b"}, [5], [("a", 1)], [("a",)], ["ab"]])
def test_results_of_tools_are_pairs_of_texts(given):
    tools = ctxbench.catalog([{"name": "area"}])
    with pytest.raises(ParameterError, match=r"tool_results.*\(tool name, text\)"):
        ctxbench.select("x", tools, selector="bm25", counter="chars/4", tool_results=given)


def test_what_is_computed_of_a_catalog_is_kept_with_it():
    told = []

    def embed(texts):
        told.extend(texts)
        return [[len(text), 1.0, 2.0] for text in texts]

    tools = ctxbench.catalog([{"name": name, "description": "of " + name} for name in ("area", "mail")])
    search = ctxbench.pipeline(retrieve={"dense": {"embedder": embed}}, refine=["first"])
    for text in ("one", "two"):
        assert len(ctxbench.select(text, tools, selector=search, counter="chars/4").ids) == 2
    (resources,) = tools.cache.values()
    assert [text for text in told if text.startswith("of") or ":" in text] == ["area: of area", "mail: of mail"]
    more = tools.extended(ctxbench.catalog([{"name": "wiki"}]))
    ctxbench.select("three", more, selector=search, counter="chars/4")
    assert list(more.cache.values()) == [resources]
    ctxbench.select("three", more, selector="bm25", embedder="hashing", counter="chars/4")
    assert len(more.cache) == 2


# ------------------------------------------------------------------------------------- frames of search programs


CORPUS = pd.DataFrame({"_id": ["d1", "d2", "d3"], "title": ["A", "B", ""], "text": ["alpha beta", "beta", "gamma"]})
TOPICS = pd.DataFrame({"_id": ["q1", "q2"], "text": ["alpha", "gamma"]})
QRELS = pd.DataFrame({"query-id": ["q1", "q2", "q2"], "corpus-id": ["d1", "d2", "d3"], "score": [1, 1, 2]})


def grades(made):
    return {(query, item): grade for query, item, grade in made.labels[["query", "item", "grade"]].values.tolist()}


def test_frames_of_hugging_face_are_taken_as_they_are():
    made = ctxbench.dataset(CORPUS.assign(url="u", metadata=[{"n": 1}] * 3), TOPICS.assign(title="t"), QRELS)
    first = made.dataset.catalog[0]
    assert (first.id, first.title, first.description, first.text) == ("reference:d1", "A", "A", "alpha beta")
    assert dict(first.metadata) == {"n": 1, "url": "u"}
    assert made.queries[["query", "text"]].values.tolist() == [["q1", "alpha"], ["q2", "gamma"]]
    assert grades(made) == {("q1", "reference:d1"): 1, ("q2", "reference:d2"): 1, ("q2", "reference:d3"): 2}


def test_a_title_that_repeats_the_id_is_not_searched_twice():
    (tool,) = ctxbench.catalog([{"_id": "area", "title": "area", "text": "Of a triangle.", "type": "tool"}])
    assert tool.search_text == "area: Of a triangle."


@pytest.mark.parametrize("document", ["_id", "id", "docno", "doc_id", "corpus-id", "docid"])
@pytest.mark.parametrize("query", ["_id", "id", "qid", "query_id", "query-id"])
def test_names_of_ids_need_no_renaming(document, query):
    labels = {"query_id": ["q1", "q2"], "doc_id": ["d1", "d3"], "relevance": [1, 1]}
    made = ctxbench.dataset(
        CORPUS.rename(columns={"_id": document}), TOPICS.rename(columns={"_id": query}), labels_of(labels)
    )
    assert grades(made) == {("q1", "reference:d1"): 2, ("q2", "reference:d3"): 2}


def labels_of(columns):
    return pd.DataFrame(columns)


@pytest.mark.parametrize(
    "columns",
    [
        ("query-id", "corpus-id", "score"),
        ("query_id", "doc_id", "relevance"),
        ("qid", "docno", "label"),
        ("q_id", "doc_id", "score"),
        ("query", "item", "grade"),
        ("query", "doc_id", "grade"),
    ],
)
def test_names_of_labels_need_no_renaming(columns):
    rows = [["q1", "d1", 2], ["q1", "d2", 1], ["q2", "d3", 0]]
    made = ctxbench.dataset(CORPUS, TOPICS, pd.DataFrame(rows, columns=columns))
    assert grades(made) == {("q1", "reference:d1"): 2, ("q1", "reference:d2"): 1, ("q2", "reference:d3"): 0}


def test_beside_an_id_the_column_query_is_the_text():
    topics = pd.DataFrame({"qid": ["1"], "query": ["where"]})
    labels = pd.DataFrame({"qid": ["1"], "query": ["where"], "docno": ["d1"], "label": [1]})
    made = ctxbench.dataset(CORPUS, topics, labels)
    assert made.queries[["query", "text"]].values.tolist() == [["1", "where"]]
    assert grades(made) == {("1", "reference:d1"): 2}


@pytest.mark.parametrize("name", ["_id", "id", "qid"])
def test_beside_an_id_the_column_topic_is_none(name):
    topics = pd.DataFrame({"topic": ["places"], name: ["1"], "text": ["where"]})
    labels = pd.DataFrame({"topic": ["places"], "query": ["1"], "docno": ["d1"], "label": [1]})
    made = ctxbench.dataset(CORPUS, topics, labels)
    assert made.queries[["query", "text"]].values.tolist() == [["1", "where"]]
    alone = topics[["text"]].assign(topic="1")  # TREC's name, where there is no other
    assert ctxbench.dataset(CORPUS, alone, labels).queries["query"].tolist() == ["1"]
    assert grades(made) == {("1", "reference:d1"): 2}


@pytest.mark.parametrize(
    ("items", "queries", "labels", "columns"),
    [
        (CORPUS.assign(docno="x"), TOPICS, QRELS, ["_id", "docno"]),
        (CORPUS, TOPICS.assign(qid="x"), QRELS, ["_id", "qid"]),
        (CORPUS, TOPICS.assign(query="x"), QRELS, ["query", "text"]),
        (CORPUS, TOPICS, QRELS.assign(relevance=1), ["relevance", "score"]),
        (CORPUS, TOPICS, QRELS.assign(docno="d1"), ["corpus-id", "docno"]),
    ],
)
def test_two_columns_for_one_field_are_an_error_that_names_them(items, queries, labels, columns):
    with pytest.raises(InputError) as caught:
        ctxbench.dataset(items, queries, labels)
    (fault,) = caught.value.faults
    assert all(column in fault.message for column in columns)


def test_ids_are_texts_in_all_frames_and_zeros_in_front_count():
    items = pd.DataFrame({"docno": [1, 2], "text": ["a", "b"]})
    queries = pd.DataFrame({"qid": np.array([7, 8], dtype=np.int32), "query": ["a", "b"]})
    labels = pd.DataFrame({"qid": [7.0, 8.0], "docno": ["1", "2"], "label": [1.0, 1.0]})
    assert grades(ctxbench.dataset(items, queries, labels)) == {("7", "reference:1"): 2, ("8", "reference:2"): 2}
    assert ctxbench.catalog([{"name": 1, "text": "a"}, {"name": "01", "text": "b"}]).ids == (
        "reference:1",
        "reference:01",
    )
    with pytest.raises(InputError, match="'01'"):
        ctxbench.dataset(items, queries, labels.assign(docno=["01", "2"]))


@pytest.mark.parametrize(
    ("row", "item_id"),
    [
        ({"name": "a"}, "tool:a"),
        ({"name": "a", "text": "b"}, "reference:a"),
        ({"name": "a", "text": "b", "description": "c"}, "tool:a"),
        ({"id": "a", "text": "b", "type": "rule"}, "rule:a"),
        ({"id": "a", "text": "b", "type": "bridge"}, "reference:a"),
        ({"id": "a", "name": "Paris", "text": "b"}, "reference:a"),
        ({"id": "rule:a", "name": "a", "text": "b"}, "rule:a"),
        ({"_id": "a", "name": "a", "description": "b", "type": "tool"}, "tool:a"),
    ],
)
def test_what_has_a_text_is_a_reference(row, item_id):
    assert ctxbench.catalog([row]).ids == (item_id,)


def test_numbers_become_grades_by_name():
    made = ctxbench.dataset(CORPUS, TOPICS, QRELS.assign(score=[3, 1, -1]), grades={3: "required", 1: 1})
    assert grades(made) == {("q1", "reference:d1"): 2, ("q2", "reference:d2"): 1, ("q2", "reference:d3"): 0}
    halves = QRELS.assign(score=["0.5", "1.0", "0"])
    assert list(grades(ctxbench.dataset(CORPUS, TOPICS, halves, grades={0.5: "helpful", 1: "required"})).values()) == [
        1,
        2,
        0,
    ]
    again = made.with_labels(QRELS.assign(score=5))
    assert set(grades(again).values()) == {2}


def test_binary_scores_are_required_and_binary_grades_are_what_they_say():
    assert set(grades(ctxbench.dataset(CORPUS, TOPICS, QRELS.assign(score=1))).values()) == {2}
    assert set(grades(ctxbench.dataset(CORPUS, TOPICS, QRELS.drop(columns="score"))).values()) == {2}
    assert set(
        grades(ctxbench.dataset(CORPUS, TOPICS, QRELS.rename(columns={"score": "grade"}).assign(grade=1))).values()
    ) == {1}


@pytest.mark.parametrize("scores", [[1, 2, 3], [0, 0, 0.5]])
def test_numbers_that_are_no_grades_need_a_mapping(scores):
    frame = QRELS.rename(columns={"score": "grade"}).assign(grade=scores)
    with pytest.raises(InputError, match=f"{max(scores):g}.*grades="):
        ctxbench.dataset(CORPUS, TOPICS, frame)
    with pytest.raises(InputError, match=f"{max(scores):g}.*grades="):
        ctxbench.dataset(CORPUS, TOPICS, frame, grades={17: "required"})


@pytest.mark.parametrize("mapping", [{1: "needed"}, {1: 3}, {"one": 2}, ["required"]])
def test_a_mapping_of_grades_is_checked(mapping):
    with pytest.raises(ParameterError, match="required, helpful or irrelevant"):
        ctxbench.dataset(CORPUS, TOPICS, QRELS, grades=mapping)


class Polars:
    """As a DataFrame of polars: its `to_dict` takes other arguments than that of pandas, and it yields columns."""

    def __init__(self, frame):
        self.columns, self._rows = list(frame), frame.to_dict("records")

    def to_dicts(self):
        return self._rows

    def to_dict(self, *, as_series):
        raise AssertionError(as_series)


class HuggingFace:
    """As a `datasets.Dataset`, which yields dicts."""

    def __init__(self, frame):
        self.column_names, self._rows = list(frame), frame.to_dict("records")

    def __iter__(self):
        return iter(self._rows)


def arrow(frame):
    return pytest.importorskip("pyarrow").Table.from_pandas(frame)


@pytest.mark.parametrize("form", [Polars, HuggingFace, arrow])
def test_frames_of_other_libraries(form):
    made = ctxbench.dataset(form(CORPUS), form(TOPICS), form(QRELS))
    assert made.dataset.hash == ctxbench.dataset(CORPUS, TOPICS, QRELS).dataset.hash
    with pytest.raises(InputError, match="'item' is missing; the columns are query-id, score"):
        ctxbench.dataset(form(CORPUS), form(TOPICS), form(QRELS[["query-id", "score"]]))


def test_of_a_dict_of_splits_one_is_to_be_chosen():
    with pytest.raises(ParameterError, match=r"queries .*train, test.*data\['train'\]"):
        ctxbench.dataset(CORPUS, {"train": HuggingFace(TOPICS), "test": HuggingFace(TOPICS)}, QRELS)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_tables_may_be_files(suffix, tmp_path):
    paths = []
    for name, frame in (("items", CORPUS), ("queries", TOPICS.assign(_id=["01", "2"])), ("qrels", QRELS)):
        frame = frame.replace({"query-id": {"q1": "01", "q2": "2"}})
        paths.append(tmp_path / f"{name}.{suffix}")
        if suffix == "parquet":
            pytest.importorskip("pyarrow")
            frame.to_parquet(paths[-1])
        elif suffix == "jsonl":
            frame.to_json(paths[-1], orient="records", lines=True)
        else:
            frame.to_csv(paths[-1], index=False, sep="\t" if suffix == "tsv" else ",")
    made = ctxbench.dataset(str(paths[0]), *paths[1:])
    assert grades(made) == {("01", "reference:d1"): 1, ("2", "reference:d2"): 1, ("2", "reference:d3"): 2}
    assert [item.text for item in made.dataset.catalog] == CORPUS["text"].tolist()


def test_a_file_that_is_not_there_or_has_a_fault_is_named_with_its_line(tmp_path):
    with pytest.raises(UserError, match=r"gone\.parquet"):
        ctxbench.catalog(tmp_path / "gone.parquet")
    (tmp_path / "qrels.csv").write_text("query-id,corpus-id,score\nq1,d1,1\nq1,d9,1\n", "utf-8")
    with pytest.raises(InputError, match=r"'d9'.*qrels\.csv, line 3"):
        ctxbench.dataset(CORPUS, TOPICS, tmp_path / "qrels.csv")


def test_an_empty_cell_of_a_csv_file_is_a_missing_value(tmp_path):
    (tmp_path / "items.csv").write_text("id,title,text\nd1,,a\nd2,B,\n", "utf-8")
    (tmp_path / "queries.csv").write_text("query,text,needs\nq1,a,\nq2,b,nothing\n", "utf-8")
    (tmp_path / "qrels.csv").write_text("query,item,grade\nq1,d1,\n", "utf-8")
    made = ctxbench.dataset(*(tmp_path / f"{name}.csv" for name in ("items", "queries", "qrels")))
    assert [(item.id, item.title, item.text) for item in made.dataset.catalog] == [
        ("reference:d1", "", "a"),
        ("reference:d2", "B", ""),
    ]
    assert [query.needs_nothing for query in made.dataset.queries] == [False, True]
    assert grades(made) == {("q1", "reference:d1"): 2}


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "items.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match="pip install"):
        ctxbench.catalog(tmp_path / "items.parquet")


def test_a_missing_score_among_scores_is_a_fault():
    items, queries = [{"name": "mail"}, {"name": "map"}], [{"query": "q", "text": "mail"}]
    labels = pd.DataFrame({"query": ["q", "q"], "item": ["mail", "map"], "score": [1.0, float("nan")]})
    with pytest.raises(InputError, match="row 1"):
        ctxbench.dataset(items, queries, labels)
    assert len(ctxbench.dataset(items, queries, labels.dropna()).labels) == 1


def test_queries_without_a_required_item_are_counted_in_a_warning(caplog):
    items, queries = [{"name": "area"}], [{"query": f"q{n}", "text": "area"} for n in range(3)]
    ctxbench.dataset(items, queries, [{"query": "q0", "item": "area"}])
    (warning,) = (record.msg for record in caplog.records)
    assert (warning.code, warning.values["n"], warning.values["queries"]) == ("CTX8593", 2, ["q1", "q2"])
    caplog.clear()
    ctxbench.dataset(items, queries, [])  # it is to be labelled
    ctxbench.dataset(items, [{**row, "needs": "nothing"} for row in queries[1:]], [])
    graded = [{"query": query, "item": "area", "grade": grade} for query, grade in (("q0", 2), ("q1", 1), ("q2", 1))]
    ctxbench.dataset(items, queries, graded)  # each has a use for it
    assert not caplog.records
