"""BFCL: what a made-up source becomes, and the counts of the real one where its wheel is installed."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.files import read_dataset, write_dataset
from ctxbench.io.errors import StorageError, UnknownNameError
from ctxbench.labelling import published
from ctxbench.labelling.published import BFCL

needs_wheel = pytest.mark.skipif(not BFCL().available(), reason=f"the source is not installed: {BFCL.install}")


def function(name: str, description: str, kind: str = "dict") -> dict[str, Any]:
    return {"name": name, "description": description, "parameters": {"type": kind, "properties": {}}}


def entry(query_id: str, text: str | list[tuple[str, str]], *functions: dict[str, Any]) -> dict[str, Any]:
    turns = [("user", text)] if isinstance(text, str) else text
    return {"id": query_id, "question": [[{"role": r, "content": c} for r, c in turns]], "function": list(functions)}


MULTIPLE = [
    entry("live_multiple_0-0-0", "How  warm is it?", function("weather", "Now."), function("news", "Today.")),
    entry("live_multiple_1-0-1", "Is it warm", function("weather", "Now."), function("news", "Today.")),
    entry(
        "live_multiple_2-1-0",
        [("system", "Be brief."), ("user", "Any news?")],
        function("weather", "Later."),
        function("news", "Today.", "object"),
    ),
    entry("live_multiple_3-2-0", "how warm IS it?", function("weather", "Now."), function("stocks", "Prices.")),
]
CALLED = ["weather", "weather", "news", "stocks"]
IRRELEVANCE = [
    entry("live_irrelevance_0-0-0", "Sing!", function("mail", "Send.")),
    entry("live_irrelevance_1-1-0", [("user", "hi"), ("assistant", "Hello!"), ("user", "bye")]),
]
SIMPLE = [
    entry("simple_python_0", "Add 1 and 2.", function("add", "Sum.")),
    entry("simple_python_1", "Add 3 and 4.", function("add", "Sum of two.")),
]


def source(folder: Path) -> BFCL:
    """An importer over a folder like the wheel's, with the digests that the files have."""
    answers = [{"id": e["id"], "ground_truth": [{name: {"x": [1]}}]} for e, name in zip(MULTIPLE, CALLED, strict=True)]
    simple = [{"id": e["id"], "ground_truth": [{"add": {}}, {"add": {}}]} for e in SIMPLE]
    rows = {
        "BFCL_v4_simple_python.json": SIMPLE,
        "BFCL_v4_live_multiple.json": MULTIPLE,
        "BFCL_v4_live_irrelevance.json": IRRELEVANCE,
        "possible_answer/BFCL_v4_simple_python.json": simple,
        "possible_answer/BFCL_v4_live_multiple.json": answers[::-1],  # joined by id, not by line
    }
    (folder / "possible_answer").mkdir(parents=True)
    for name, content in rows.items():
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in content))
    digests = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in rows}
    return BFCL(folder, sha256=digests)


def required(dataset: Dataset) -> dict[str, list[str]]:
    return {query.id: [label.item.id for label in dataset.labels_of(query.id)] for query in dataset.queries}


def test_the_first_definition_of_a_name_stands_for_all(tmp_path: Path) -> None:
    dataset = source(tmp_path / "data").load("bfcl-live")
    assert dataset.catalog.ids == ("tool:weather", "tool:news", "tool:stocks")
    assert [item.description for item in dataset.catalog] == ["Now.", "Today.", "Prices."]
    assert dataset.catalog[1].schema == {"type": "dict", "properties": {}}
    assert all(query.request.available is None for query in dataset.queries)
    assert required(dataset) == {
        "live_multiple_0-0-0": ["tool:weather"],
        "live_multiple_1-0-1": ["tool:weather"],
        "live_multiple_2-1-0": ["tool:news"],
        "live_multiple_3-2-0": ["tool:stocks"],
    }


def test_listed_queries_get_the_very_definitions_listed_with_them(tmp_path: Path) -> None:
    dataset = source(tmp_path / "data").load("bfcl-live-listed")
    texts = {
        query.id: [dataset.catalog[dataset.catalog.position(k)].description for k in query.request.available or ()]
        for query in dataset.queries
    }
    assert texts == {
        "live_multiple_0-0-0": ["Now.", "Today."],
        "live_multiple_1-0-1": ["Now.", "Today."],
        "live_multiple_2-1-0": ["Later.", "Today."],
        "live_multiple_3-2-0": ["Now.", "Prices."],
        "live_irrelevance_0-0-0": ["Send."],
        "live_irrelevance_1-1-0": [],
    }
    assert len(dataset.catalog) == 6
    (news,) = required(dataset)["live_multiple_2-1-0"]
    assert dataset.catalog[dataset.catalog.position(news)].schema == {"type": "object", "properties": {}}
    assert [query.id for query in dataset.queries if query.needs_nothing] == [e["id"] for e in IRRELEVANCE]
    assert dataset.batch().eligible.counts().tolist() == [2, 2, 2, 2, 1, 0]
    assert dataset.unlabelled == ()


def test_the_last_message_is_the_text_and_the_others_are_history(tmp_path: Path) -> None:
    dataset = source(tmp_path / "data").load("bfcl-live-listed")
    requests = {request.id: request for request in dataset.requests()}
    assert requests["live_multiple_2-1-0"].text == "Any news?"
    assert [(m.role, m.content) for m in requests["live_multiple_2-1-0"].history] == [("system", "Be brief.")]
    assert requests["live_irrelevance_1-1-0"].text == "bye"
    assert [m.role for m in requests["live_irrelevance_1-1-0"].history] == ["user", "assistant"]


def test_same_texts_and_same_lists_are_one_group_in_both_live_datasets(tmp_path: Path) -> None:
    importer = source(tmp_path / "data")
    first = "live_multiple_0-0-0"  # 1 shares its list with 0, 3 its text with 0; lists of the two files differ
    groups = {query.id: query.group for query in importer.load("bfcl-live-listed").queries}
    assert groups == {
        "live_multiple_0-0-0": first,
        "live_multiple_1-0-1": first,
        "live_multiple_2-1-0": "live_multiple_2-1-0",
        "live_multiple_3-2-0": first,
        "live_irrelevance_0-0-0": "live_irrelevance_0-0-0",
        "live_irrelevance_1-1-0": "live_irrelevance_1-1-0",
    }
    assert {query.id: query.group for query in importer.load("bfcl-live").queries}.items() <= groups.items()


def test_simple_queries_of_one_function_are_one_group_and_its_calls_one_label(tmp_path: Path) -> None:
    dataset = source(tmp_path / "data").load("bfcl-simple")
    assert [query.group for query in dataset.queries] == ["add", "add"]
    assert required(dataset) == {"simple_python_0": ["tool:add"], "simple_python_1": ["tool:add"]}


def test_a_changed_source_is_refused_with_what_was_expected(tmp_path: Path) -> None:
    importer = source(tmp_path / "data")
    path = tmp_path / "data" / "BFCL_v4_simple_python.json"
    path.write_text(path.read_text() + "\n")
    with pytest.raises(StorageError, match=r"its SHA-256 is \w{64}, expected \w{64}; run: ctxbench data fetch bfcl"):
        importer.load("bfcl-simple")
    path.unlink()
    with pytest.raises(StorageError, match=r"cannot read .*No such file"):
        importer.load("bfcl-simple")
    assert len(importer.load("bfcl-live")) == 4


def test_unknown_names_and_a_missing_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'bfcl-live'"):
        source(tmp_path / "data").load("bfcl-life")
    assert not BFCL(tmp_path / "none").available()
    monkeypatch.setattr(published, "bfcl_folder", lambda: None)
    assert not BFCL().available()
    with pytest.raises(StorageError, match="ctxbench data fetch bfcl"):
        BFCL().load("bfcl-simple")


@needs_wheel
@pytest.mark.parametrize(
    ("name", "queries", "items", "nothing", "labels"),
    [
        ("bfcl-simple", 400, 370, 0, 400),  # the counts that the task of these datasets names
        ("bfcl-live", 1053, 457, 0, 1053),
        ("bfcl-live-listed", 1937, 1571, 884, 1053),  # 1053 + 884 lines; 1571 definitions of 700 names
    ],
)
def test_counts_of_the_published_data(
    tmp_path: Path, name: str, queries: int, items: int, nothing: int, labels: int
) -> None:
    dataset = BFCL().load(name)
    counts = dataset.counts
    assert (counts["queries"], counts["items"], counts["needs_nothing"]) == (queries, items, nothing)
    assert (counts["labels"], counts["required"], counts["unlabelled"]) == (labels, labels, 0)
    write_dataset(dataset, tmp_path / name)
    read = read_dataset(tmp_path / name)
    assert (read.hash, read.card, read.queries, read.labels) == (
        dataset.hash,
        dataset.card,
        dataset.queries,
        dataset.labels,
    )
    assert "bfcl_eval" not in sys.modules


@needs_wheel
def test_a_query_as_published() -> None:
    dataset = BFCL().load("bfcl-live-listed")
    query = dataset.queries[0]
    # first line of BFCL_v4_live_multiple.json and of its possible_answer, read by eye
    assert query.id == "live_multiple_0-0-0"
    assert query.request.text.startswith("update my latte to a large size with coconut milk")
    assert [key.name for key in query.request.available or ()] == ["ChaFod", "ChaDri.change_drink"]
    assert required(dataset)[query.id] == ["tool:ChaDri.change_drink"]
    empty = [q.id for q in dataset.queries if q.request.available == ()]
    assert empty == [f"live_irrelevance_{120 + i}-9-{i}" for i in range(4)]
