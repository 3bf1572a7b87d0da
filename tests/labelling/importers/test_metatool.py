"""MetaTool: what a made-up source becomes, and the counts of the published one."""

from __future__ import annotations

import pytest

from ctxbench.datasets.dataset import split_of
from ctxbench.datasets.files import read_dataset, write_dataset
from ctxbench.labelling.benchmarks import MetaTool

TOOLS = '{"weather": "Now.",\n"news": "Today.",\n"Finance": "Prices."}'
ROWS = """Query,Tool
Is it warm?,weather
"What, then, is
""new""?",news
is IT  warm?,news
Is it warm?,weather
Shares of [topic] in the Finance pages?,Finance
"""
PAIRS = '[{"query": "Shares and news?", "tool": ["news", "Finance"]},\n {"query": "b", "tool": ["weather", "news"]}]'


@pytest.fixture
def make(made_up):
    def load(name="metatool-single", **changed):
        files = {"rows": ROWS, "pairs": PAIRS, "tools": TOOLS, "merged": '{"Finance": "Prices."}', **changed}
        return made_up(
            MetaTool,
            {
                "all_clean_data.csv": files["rows"],
                "multi_tool_query_golden.json": files["pairs"],
                "plugin_des.json": files["tools"],
                "big_tool_des.json": files["merged"],
            },
        ).load(name)

    return load


def test_rows_of_one_text_are_one_query_whose_tools_are_alternatives(make, required):
    dataset = make()
    assert required(dataset) == {
        "s0": ["tool:weather|tool:news"],  # rows 0, 2 and 3: case and blanks aside one text
        "s1": ["tool:news"],
        "s4": ["tool:Finance"],
    }
    assert [query.request.text for query in dataset.queries][1] == 'What, then, is\n"new"?'
    assert dataset.unlabelled == ()


def test_both_tools_of_a_pair_are_required(make, required):
    dataset = make("metatool-multi")
    assert required(dataset) == {"m0": ["tool:news", "tool:Finance"], "m1": ["tool:weather", "tool:news"]}
    assert {query.id: query.tags for query in dataset.queries} == {"m0": ("plugin", "merged-tool"), "m1": ("plugin",)}


@pytest.mark.parametrize(
    ("name", "queries", "labels"),
    [("metatool-single", 20_542, 20_556), ("metatool-multi", 497, 994)],
)
def test_counts_of_the_published_data(published, tmp_path, name, queries, labels):
    dataset = published(MetaTool).load(name)
    counts = dataset.counts  # 20,542 distinct texts ignoring case; 14 more labels than texts
    assert (counts["items"], counts["queries"], counts["labels"]) == (199, queries, labels)
    assert all(query.split == split_of(query.id) for query in dataset.queries)
    assert (counts["unlabelled"], counts["needs_nothing"]) == (0, 0)
    if name == "metatool-multi":
        write_dataset(dataset, tmp_path / name)
        assert read_dataset(tmp_path / name).card == dataset.card
        assert len({label.item for label in dataset.labels}) == 15  # only these occur as labels
        return
    counted = dataset.card["notes"]["counted"]
    assert (counted["rows"], counted["rows merged into another"]) == (20_614, 72)
    assert (counted["texts of several rows"], counted["texts of several rows that name different tools"]) == (57, 12)
    assert counted["queries with an unfilled slot such as [topic]"] == 166
    assert counted["queries that hold the name of their tool"] == 762  # 3.7 %
    assert {label.source for label in dataset.labels} == {"publisher"}


def test_a_query_as_published(published, required):
    dataset = published(MetaTool).load("metatool-single")
    # first data row of the file, read by eye
    assert dataset.queries[0].request.text == "Can I find academic research papers on this topic?"
    assert dataset.queries[0].tags == ("merged-tool",)
    assert required(dataset)["s0"] == ["tool:ResearchHelper"]
    several = {groups[0] for groups in required(dataset).values() if "|" in groups[0]}
    assert "tool:lsongai|tool:WeatherTool" in several  # in the order of the catalog
