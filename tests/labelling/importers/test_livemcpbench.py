"""LiveMCPBench: the three ways to resolve tool names, and the counts of the published data."""

from __future__ import annotations

import json

import pytest

from ctxbench.datasets.files import read_dataset, write_dataset
from ctxbench.labelling.benchmarks import LiveMCPBench


def server(key, *tools, **more):
    listed = [{"name": name, "description": f"Do {name}.", "inputSchema": {"type": "object"}} for name in tools]
    return {"name": key.title(), "category": "Files", "tools": {key: {"server_name": key, "tools": listed}}, **more}


def task(task_id, *names, **more):
    listed = "\n".join(f"{i}. {name}" for i, name in enumerate(names, start=1))
    return {
        "task_id": task_id,
        "Question": f"Do {task_id}.",
        "category": "Office",
        "Annotator Metadata": {"Tools": listed, "Number of tools": "9"},
        **more,
    }


SERVERS = [server("disk", "read", "write"), server("cloud", "write", "list files")]
TASKS = [
    task("clean", "read", "list files", "read"),
    task("shared", "read", "write"),
    task("half", "read", "gone"),
    task("lost", "gone"),
]


@pytest.fixture
def make(made_up):
    def load(name="livemcpbench", *, servers=SERVERS, tasks=TASKS):
        texts = [value if isinstance(value, str) else json.dumps(value) for value in (servers, tasks)]
        return made_up(LiveMCPBench, {"tools.json": texts[0], "all_annotations.json": texts[1]}).load(name)

    return load


@pytest.mark.parametrize(
    ("name", "shared", "half"),
    [
        ("livemcpbench", ["tool:disk:read", "tool:disk:write|tool:cloud:write"], ["tool:disk:read"]),
        ("livemcpbench-expand", ["tool:disk:read", "tool:disk:write", "tool:cloud:write"], ["tool:disk:read"]),
        ("livemcpbench-unique", [], []),
    ],
)
def test_a_name_of_several_tools_is_resolved_by_the_rule_of_the_dataset(make, required, name, shared, half):
    dataset = make(name)
    clean = ["tool:disk:read", "tool:cloud:list%20files"]
    assert required(dataset) == {"clean": clean, "shared": shared, "half": half, "lost": []}
    assert dataset.unlabelled == (("shared", "half", "lost") if name == "livemcpbench-unique" else ("half", "lost"))
    assert {query.id for query in dataset.queries if "unresolved" in query.tags} == {"half", "lost"}


def test_a_tool_keeps_its_server_description_and_schema(make):
    (item,) = [item for item in make().catalog if item.id == "tool:cloud:list%20files"]
    assert (item.search_text, item.schema) == ("list files: Do list files.", {"type": "object"})
    assert item.metadata == {"server_title": "Cloud", "category": "Files"}


def test_a_tool_without_description_is_kept(make):
    servers = json.loads(json.dumps(SERVERS).replace('"Do read."', "null"))
    dataset = make(servers=servers)
    assert dataset.catalog[0].search_text == "read"


@pytest.mark.parametrize(
    ("name", "labelled", "labels"),
    [("livemcpbench-unique", 67, 175), ("livemcpbench", 90, 282), ("livemcpbench-expand", 90, 282)],
)
def test_counts_of_the_published_data(published, tmp_path, name, labelled, labels):
    dataset = published(LiveMCPBench).load(name)
    assert (len(dataset.catalog), len(dataset), len(dataset.judged())) == (527, 95, labelled)
    assert len(dataset.labels) == labels  # expand: mean 3.00 of 94 tasks, 4 of which need a tool that is not there
    counted = dataset.card["notes"]["counted"]
    assert (counted["label names"], counted["label names of one tool"]) == (256, 222)
    assert counted["label names of tools on several servers"] == 29
    assert counted["label names of no tool"] == 5
    assert (counted["tool names on several servers"], counted["tools without description"]) == (13, 19)
    write_dataset(dataset, tmp_path / name)
    read = read_dataset(tmp_path / name)
    assert (read.card, read.hash, read.queries, read.labels) == (
        dataset.card,
        dataset.hash,
        dataset.queries,
        dataset.labels,
    )


def test_a_task_as_published(published, required):
    dataset = published(LiveMCPBench).load("livemcpbench")
    # the first task of the file and its list of tools, read by eye
    assert dataset.queries[0].id == "0e3287cb-c0ff-4d2a-8c3d-d8833014a7b0"
    assert dataset.queries[0].tags == ("office",)
    assert [name.rsplit(":", 1)[1] for name in required(dataset)[dataset.queries[0].id]] == [
        "get-weread-rank",
        "generate_word_cloud_chart",
        "create_document",
        "add_paragraph",
        "add_picture",
        "convert_to_pdf",
    ]
    assert "de75630e-b91e-4cc7-85b1-5d02c2455392" in dataset.unlabelled  # its only name is of no tool
    assert (len(dataset.unlabelled), dataset.counts["partly_labelled"]) == (5, 4)
    alternatives = {group for groups in required(dataset).values() for group in groups if "|" in group}
    names = {frozenset(item.rsplit(":", 1)[1] for item in group.split("|")) for group in alternatives}
    ambiguous = ("write_file", "search_papers", "fetch", "list_directory", "read_file", "add_table")
    assert names == {frozenset([name]) for name in ambiguous}
