"""Bodies of skills and parameters of tools are searched where a retriever is asked to."""

from __future__ import annotations

import pytest

from ctxbench import testing
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Request
from ctxbench.model.strategies import Step
from ctxbench.pipelines.pipeline import Chunkings, Pipeline
from ctxbench.pipelines.strategies.cut import Mmr
from ctxbench.pipelines.strategies.retrieve import Bm25, Dense

CATALOG = Catalog(
    [
        Item(type="skill", name="pdf", description="Work with documents", text="Rotate pages.\n\nMerge two scans."),
        Item(type="skill", name="sheets", description="Work with tables", text="Sum a column."),
        Item(type="tool", server="s", name="rotate", description="Turn a picture"),
    ]
)
BATCH = Batch.of(CATALOG, [Request(id="q", text="merge scans")])


def found(retrieve, resources=None):
    pipeline = Pipeline.of({"analyse": "whole", "retrieve": retrieve, "refine": []})
    table = pipeline.run(BATCH, resources or testing.mock_resources()).candidates
    return pipeline, table, [CATALOG[item].name for item in table.item.tolist()]


def test_words_of_a_body_are_found_only_where_bodies_are_searched():
    assert found("bm25")[2] == []
    assert found({"bm25": {"bodies": True}})[2] == ["pdf"]


def test_the_winning_chunk_may_be_one_of_the_body():
    resources = testing.mock_resources()
    pipeline, table, names = found({"dense": {"bodies": True}}, resources)
    assert names[0] == "pdf"
    chunks = Chunkings.of(pipeline)
    assert chunks == Chunkings.described({"pipeline": pipeline.describe()})
    assert chunks.pair(CATALOG, ("merge scans",), table, 0) == ("merge scans", "Merge two scans.")
    _, plain, _ = found("dense", resources)  # with the same resources: neither index is taken for the other
    (row,) = (plain.item == 0).nonzero()[0]
    assert table.score[0] > plain.score[row]
    assert plain.item_chunk[row] == 0


@pytest.mark.parametrize("step", [Dense, Bm25, Mmr])
def test_what_was_stored_before_there_were_bodies_is_described_as_it_was(step):
    kind = "select" if step is Mmr else "retrieve"
    assert "bodies" not in Step(kind, step.__name__.lower(), step()).describe()
    assert Step(kind, step.__name__.lower(), step(bodies=True)).describe()["bodies"] is True


def test_a_catalog_that_grows_by_a_body_has_an_index_that_knows_it():
    resources = testing.mock_resources()
    grown = CATALOG.extended([Item(type="skill", name="scan", description="Use a scanner", text="Merge.")])
    changed = Catalog(
        [Item(type="skill", name="pdf", description="Work with documents", text="Nothing."), *CATALOG[1:]]
    )
    for retrieve in ({"bm25": {"bodies": True}}, {"dense": {"bodies": True, "depth": 2}}):
        pipeline = Pipeline.of({"analyse": "whole", "retrieve": retrieve, "refine": []})
        tables = [
            pipeline.run(Batch.of(one, list(BATCH.requests)), resources).candidates for one in (CATALOG, grown, changed)
        ]
        fresh = [
            pipeline.run(Batch.of(one, list(BATCH.requests)), testing.mock_resources()).candidates
            for one in (CATALOG, grown, changed)
        ]
        for one, other in zip(tables, fresh, strict=True):
            assert one.item.tolist() == other.item.tolist()
            assert one.score.tolist() == other.score.tolist()


def test_mmr_splits_items_as_the_retriever_does():
    from ctxbench.io.errors import SelectorError

    def refined(**given):
        spec = {"analyse": "whole", "retrieve": {"dense": {"bodies": True}}, "refine": [{"mmr": {"n": 1, **given}}]}
        return Pipeline.of(spec).run(BATCH, testing.mock_resources())

    assert refined(bodies=True).candidates.chosen.sum() == 1
    with pytest.raises(SelectorError, match=r"has no chunk 2 by 'paragraphs'; give chunks, split_tools and bodies"):
        refined()


SCHEMA = {
    "description": "of the whole",
    "properties": {
        "dueDate": {"type": "string", "description": "When the invoice is paid", "enum": ["never"]},
        "who": {"items": {"properties": {"team": {"description": "Its nickname"}}}},
    },
}
TOOLS = Catalog(
    [
        Item(type="tool", server="s", name="plan", description="Make a plan", schema=SCHEMA),
        Item(type="tool", server="s", name="invoice", description="Send an invoice"),
        Item(type="skill", name="pdf", description="Work with documents", text="Name the team."),
    ]
)


def names_found(text, catalog=TOOLS, resources=None, **options):
    pipeline = Pipeline.of({"analyse": "whole", "retrieve": {"bm25": options}, "refine": []})
    batch = Batch.of(catalog, [Request(id="q", text=text)])
    table = pipeline.run(batch, resources or testing.mock_resources()).candidates
    return [catalog[item].name for item in table.item.tolist()]


@pytest.mark.parametrize("text", ["due", "date", "paid", "nickname", "team"])
def test_words_of_parameters_are_found_only_where_parameters_are_searched(text):
    assert names_found(text) == []
    assert names_found(text, parameters=True) == ["plan"]


@pytest.mark.parametrize("text", ["whole", "never", "string"])
def test_other_parts_of_a_schema_are_not_searched(text):
    assert names_found(text, parameters=True) == []


def test_bodies_and_parameters_are_searched_each_for_itself():
    resources = testing.mock_resources()  # with the same resources: no index is taken for another
    assert names_found("team", resources=resources) == []
    assert names_found("team", resources=resources, bodies=True) == ["pdf"]
    assert names_found("team", resources=resources, parameters=True) == ["plan"]
    assert names_found("team", resources=resources, bodies=True, parameters=True) == ["pdf", "plan"]


def test_a_description_of_a_parameter_moves_the_rank_of_its_tool():
    assert names_found("invoice") == ["invoice"]
    assert names_found("invoice", parameters=True) == ["invoice", "plan"]  # the shorter text first


def test_without_parameters_nothing_changes_and_nothing_is_described():
    assert Bm25() == Bm25(parameters=False)
    assert "parameters" not in Step("retrieve", "bm25", Bm25()).describe()
    assert Step("retrieve", "bm25", Bm25(parameters=True)).describe()["parameters"] is True


def test_a_catalog_that_grows_by_a_parameter_has_an_index_that_knows_it():
    resources = testing.mock_resources()
    old = Catalog(list(TOOLS)[1:])
    assert names_found("nickname", old, resources, parameters=True) == []
    assert names_found("nickname", old.extended([TOOLS[0]]), resources, parameters=True) == ["plan"]
    other = Item(type="tool", server="s", name="plan", description="Make a plan", schema={"properties": {"nick": {}}})
    changed = Catalog([other, *old])
    assert names_found("nickname", changed, resources, parameters=True) == []
    assert names_found("nick", changed, resources, parameters=True) == ["plan"]


def test_bm25_conforms_with_parameters():
    testing.check_step("retrieve", "bm25", {"parameters": True}, processes=0)
