"""ToolLens: what a made-up source becomes, and the counts of the published data."""

from __future__ import annotations

import json

import pytest

from ctxbench.datasets.dataset import split_of
from ctxbench.labelling.benchmarks import ToolLens


def api(item_id, tool, name, *, required=(), optional=(), description="Do it, now."):
    lists = [json.dumps([{"name": n, "type": t, "description": "It."} for n, t in p]) for p in (required, optional)]
    text = f"category_name:Food, tool_name:{tool}, api_name:{name}, api_description:{description}, "
    text += f"required_params: {lists[0]}, optional_params: {lists[1]}, return_schema: {{}}"
    return {"_id": item_id, "title": "", "text": text, "metadata": {}}


def query(query_id, text="Dinner?"):
    return {"_id": query_id, "text": text, "metadata": {}}


CORPUS = [
    api("0", "Recipes", "Search", required=[("q", "STRING"), ("n", "NUMBER")], optional=[("day", "DATE (YYYY-MM-DD)")]),
    api("1", "Recipes", "/v1/list", description="First,\nsecond."),
    api("2", "Shops", "Search"),
]
QUERIES = [query("7"), query("5", "Shops?"), query("6")]
HEADER = "query-id\tcorpus-id\tscore\n"


def lines(rows):
    return "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)


@pytest.fixture
def make(made_up):
    def load(**changed):
        train = "7\t0\t1\n7\t1\t1\n7\t0\t1\n"
        files = {"corpus": CORPUS, "queries": QUERIES, "train": HEADER + train, "test": f"{HEADER}5\t1\t1\n5\t0\t1\n"}
        files |= changed
        return made_up(
            ToolLens,
            {
                "corpus.jsonl": lines(files["corpus"]),
                "queries.jsonl": lines(files["queries"]),
                "qrels/train.tsv": files["train"],
                "qrels/test.tsv": files["test"],
            },
        ).load("toollens")

    return load


def test_an_api_is_a_tool_with_a_schema_of_its_parameters(make):
    first, second, _ = make().catalog
    assert first.search_text == "Recipes Search: Do it, now."
    assert first.schema == {
        "type": "object",
        "properties": {
            "q": {"type": "string", "description": "It."},
            "n": {"type": "number", "description": "It."},
            "day": {"type": "string", "description": "It."},
        },
        "required": ["q", "n"],
    }
    assert first.metadata == {"id": "0", "category": "Food", "tool": "Recipes", "api": "Search"}
    assert second.id == "tool:Recipes%20%2Fv1%2Flist"
    assert second.description == "First,\nsecond."


def test_splits_are_the_publishers_and_repeated_rows_one_label(make, required):
    dataset = make()
    recipes = ["tool:Recipes%20Search", "tool:Recipes%20%2Fv1%2Flist"]
    assert required(dataset) == {"7": recipes, "5": recipes, "6": []}
    assert {q.id: q.split for q in dataset.queries} == {"7": "tuning", "5": "test", "6": split_of("6")}
    assert dataset.unlabelled == ("6",)


def test_counts_of_the_published_data(published):
    dataset = published(ToolLens).load("toollens")
    counts = dataset.counts
    assert (counts["items"], counts["queries"], counts["labels"]) == (464, 18_770, 44_865 + 4_987)
    assert counts["splits"] == {"tuning": 16_893, "test": 1_877}
    counted = dataset.card["notes"]["counted"]
    assert (counted["repeated label rows in test, collapsed"], dataset.unlabelled) == (23, ())
    assert counted["repeated label rows in tuning, collapsed"] == 170
    assert counted["different sets of required items in test"] == 457
    assert counted["sets of test that tuning has, too"] == 457
    sizes = [len(dataset.labels_of(query.id)) for query in dataset.queries if query.split == "test"]
    assert [sizes.count(n) for n in (1, 2, 3)] == [159, 326, 1_392]
    assert len({item.metadata["category"] for item in dataset.catalog}) == 19
    assert all(item.schema and item.description for item in dataset.catalog)
