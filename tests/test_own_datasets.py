"""The datasets that ship: frozen, as large and as hard as they claim, and their agreement is reproduced from files."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.files import read_dataset
from ctxbench.labelling.benchmarks import LiveMCPBench, LoCoMo, MetaTool, ToolLens
from ctxbench.labelling.review import agreement, read_labelling
from ctxbench.search.embedders import Vectors, VectorStore, open_embedder
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import open_counter
from ctxbench.selectors.definitions import definition
from ctxbench.selectors.selector import PipelineSelector

ROOT = Path(__file__).parents[1] / "datasets"
SHARED = ROOT.parents[1] / "shared" / "data"
FROZEN = {
    "diary": "aca2bd1fdce127b90e5c5ee4c108affd8ede6295abf24c41843c2d9c2f9bd224",
    "followups": "600f27781f01035959e3a86050ca6e082490dd4258327d1b8ea51ac35b96fd52",
    "freight": "5ab20aa2b99ae78e2de99a8a6c5613b8403a0624b22571ef102eb0e26138dda9",
    "skills": "16eaad77f3a73f910de7119a3be75eab8cd46d07b32910b2c2780f55dafba1bb",
    "smoke": "ac1276031680aac729b06baed9b55b1505d7446732495fc735e7a3bcea1a1301",
    "threads": "02fec03920eaf90d04a275112a3f5498504516414c4df338787d45f7183d3092",
    "workbench": "4a41e8bc7c7d59fb6efbc09095188b56662559fdfcec84bba1ec804f45cc1a72",
}
LARGE = ("workbench", "freight")


@pytest.fixture(scope="module", params=LARGE)
def large(request) -> Dataset:
    return read_dataset(ROOT / request.param)


@pytest.fixture(scope="module", params=[*LARGE, "diary", "skills"])
def twice(request) -> Dataset:
    """One that was labelled twice, in part."""
    return read_dataset(ROOT / request.param)


@pytest.fixture(scope="module")
def workbench() -> Dataset:
    return read_dataset(ROOT / "workbench")


def test_nothing_ships_unfrozen_and_what_is_frozen_is_pinned_here():
    folders = sorted(path.parent.name for path in ROOT.glob("*/dataset.yaml"))
    assert folders == sorted(FROZEN)
    assert {name: read_dataset(ROOT / name).card.get("frozen") for name in folders} == FROZEN


def test_every_card_says_that_a_model_wrote_and_labelled_it():
    for name in FROZEN:
        about = read_dataset(ROOT / name).about
        assert "language model wrote" in about["source"]
        assert "language model" in about["labelling"]
        assert "no person has judged a label" in about["labelling"]


def test_followups_have_a_tools_result_each_and_the_catalog_of_freight():
    followups, freight = read_dataset(ROOT / "followups"), read_dataset(ROOT / "freight")
    assert followups.catalog.hash == freight.catalog.hash
    assert len(followups) >= 60
    assert all(query.request.tool_results for query in followups.queries)
    assert {query.tags for query in followups.queries} == {("says-nothing",), ("request-says",), ("nothing",)}
    assert all(query.needs_nothing == (query.tags == ("nothing",)) for query in followups.queries)


def test_skills_have_bodies_of_all_lengths_and_requests_that_share_no_word_with_what_is_indexed():
    skills = read_dataset(ROOT / "skills")
    words = {
        kind: [len(item.text.split()) for item in skills.catalog if item.type == kind] for kind in ("skill", "rule")
    }
    assert len(words["skill"]) >= 90
    assert len(words["rule"]) >= 10
    assert min(words["skill"]) < 100
    assert sorted(words["skill"])[-10] > 600
    assert max(words["skill"]) > 2_000
    assert len(skills) >= 240
    tags = Counter(tag for query in skills.queries for tag in query.tags)
    assert min(tags["indirect"], 2 * tags["rule"], 4 * tags["several"], 8 * tags["nothing"]) >= 100
    assert skills.unlabelled == ()
    for query in skills.queries:
        required = {label.item for label in skills.labels_of(query.id) if label.grade == 2}
        indexed = " ".join(f"{item.name} {item.description}" for item in skills.catalog if item.key in required)
        shared = words_of(query.request.text) & words_of(indexed)
        assert query.needs_nothing == ("nothing" in query.tags) == (not required)
        assert ("several" in query.tags) == (sum(item.type == "skill" for item in required) > 1)
        assert ("rule" in query.tags) == any(item.type == "rule" for item in required)
        assert "indirect" not in query.tags or not shared


def words_of(text: str) -> set[str]:
    """Words of five letters or more, in lower case, that say what a text is about."""
    return set(re.findall(r"[a-z]{5,}", text.lower())) - {"people", "things"}


def test_workbench_is_as_large_as_it_claims(workbench):
    catalog = workbench.catalog
    assert len(catalog) >= 250
    assert len({item.server for item in catalog if item.server}) >= 12
    assert {item.type for item in catalog} == {"rule", "reference", "tool"}
    assert {item.include for item in catalog} == {"always", "manual", "agent"}
    assert sum(item.schema is not None for item in catalog if item.type == "tool") >= 200
    words = [len(item.text.split()) for item in catalog if item.type != "tool"]
    assert min(words) < 25
    assert max(words) > 1_000
    tags = Counter(tag for query in workbench.queries for tag in query.tags)
    assert len(workbench) >= 500
    assert sum(query.needs_nothing for query in workbench.queries) >= 60
    assert tags["dependency"] >= 120
    assert {"short", "long", "vague", "misleading", *(f"topics-{n}" for n in range(1, 5))} <= set(tags)
    assert len(workbench.scopes) == 3
    assert set(Counter(query.scope for query in workbench.queries)) == {None, *workbench.scopes}
    assert workbench.unlabelled == ()


def test_the_second_domain_is_at_least_half_the_size_and_shares_no_item(workbench):
    freight = read_dataset(ROOT / "freight")
    assert 2 * len(freight.catalog) >= 250
    assert 2 * len(freight) >= 500
    assert not {item.key for item in freight.catalog} & {item.key for item in workbench.catalog}
    assert not {item.server for item in freight.catalog if item.server} & {item.server for item in workbench.catalog}


def test_paraphrases_are_three_with_the_same_labels_in_one_split(large):
    groups = defaultdict(list)
    for query in large.queries:
        if "paraphrase" in query.tags:
            groups[query.group].append(query)
    assert len(groups) >= {"workbench": 60, "freight": 30}[large.name]
    for members in groups.values():
        assert len(members) == 3
        assert len({query.split for query in members}) == 1
        assert len({query.request.text for query in members}) == 3
        needed = [
            sorted((label.item, label.via) for label in large.labels_of(query.id) if label.grade == 2)
            for query in members
        ]
        assert needed[0] == needed[1] == needed[2]


def test_tags_say_what_a_query_is(large):
    for query in large.queries:
        labels = large.labels_of(query.id)
        assert ("dependency" in query.tags) == any(label.via == "dependency" for label in labels)
        assert ("nothing" in query.tags) == query.needs_nothing
        assert query.request.history or "follow-up" not in query.tags
        required = {label.alternatives or label.item.id for label in labels if label.grade == 2}
        assert len(required) <= 8
        assert len(query.request.text.split()) < 8 or "short" not in query.tags


def test_the_agreement_is_that_of_the_files_and_every_disagreement_is_settled_in_writing(twice):
    folder = ROOT / twice.name / "agreement"
    first, second = (read_labelling(folder / f"{name}.tsv") for name in ("first", "second"))
    found = agreement(first, second)
    assert (found.only_first, found.only_second) == (0, 0)
    assert found.queries >= len(twice) / 5
    assert found.kappas[0].low > 0.6  # required or not: substantial by Landis and Koch
    header, *rows = (folder / "settled.tsv").read_text("utf-8").splitlines()
    assert header.split("\t") == ["query-id", "corpus-id", "first", "second", "settled", "reason"]
    settled = {tuple(row.split("\t")[:2]): row.split("\t")[2:] for row in rows}
    assert len(settled) == len(rows)
    assert set(settled) == {(query, item.id) for query, item, _, _ in found.disagreements}
    final = {(label.query, label.item.id): label.grade for label in twice.labels}
    for query, item, a, b in found.disagreements:
        one, other, grade, reason = settled[query, item.id]
        assert (one, other) == (str(a), str(b))
        assert final[query, item.id] == int(grade)
        assert len(reason) > 20
    for label in first:
        if (label.query, label.item.id) not in settled:
            assert final[label.query, label.item.id] == label.grade


def missed(dataset: Dataset, name: str) -> tuple[list[tuple[str, str]], float, int]:
    """Requirements that the first five of a selector's ranking do not meet, of queries with at most five.

    Returns:
        The (query, group) of each dependency that is missed; the share of requirements missed; how many there are.
    """
    embedder = open_embedder("minilm")
    resources = LocalResources(Vectors(embedder, VectorStore(embedder.identity)), open_counter("chars/4"))
    shipped = definition(name)
    selector = PipelineSelector(name, shipped.pipeline(shipped.values(None, {"n": 5})), resources)
    table = selector.select(dataset.batch()).candidates
    dependencies, lacking, total = [], 0, 0
    for row, query in enumerate(dataset.queries):
        rows = table.rows(row)
        offered = {dataset.catalog[int(item)].key for item in table.item[rows][table.chosen[rows]]}
        groups = defaultdict(list)
        for label in dataset.labels_of(query.id):
            if label.grade == 2:
                groups[label.alternatives or label.item.id].append(label)
        if not groups or len(groups) > 5:
            continue
        for group, labels in groups.items():
            met = any(label.item in offered for label in labels)
            total += 1
            lacking += not met
            if labels[0].via == "dependency" and not met:
                dependencies.append((query.id, group))
    return dependencies, lacking / total, total


def test_workbench_is_as_hard_as_it_claims(workbench, tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path))
    by_words, words_miss, total = missed(workbench, "bm25")
    by_vectors, vectors_miss, _ = missed(workbench, "dense")
    assert total > 500
    assert words_miss >= 0.15
    assert vectors_miss >= 0.15
    cases = sum(
        len({label.alternatives or label.item.id for label in labels if label.via == "dependency" and label.grade == 2})
        for query in workbench.queries
        if (labels := workbench.labels_of(query.id))
        and len({label.alternatives or label.item.id for label in labels if label.grade == 2}) <= 5
    )
    assert len(set(by_words) & set(by_vectors)) >= cases / 2


def test_the_agreement_that_is_claimed_is_the_one_of_the_files(twice):
    folder = ROOT / twice.name / "agreement"
    found = agreement(*(read_labelling(folder / f"{name}.tsv") for name in ("first", "second")))
    lines = (ROOT / "available.md").read_text("utf-8").splitlines()
    (row,) = [line for line in lines if line.startswith(f"| `{twice.name}` | ")]
    required, _, linear = found.kappas
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1] == f"{found.pairs:,} of {found.queries} queries"
    assert cells[2] == f"{required.value:.3f} ({required.low:.3f} to {required.high:.3f})"
    assert cells[3] == f"{linear.value:.3f}"


def content_of_baselines() -> dict[str, str]:
    """The content hash by dataset that the tables of `reports/three-numbers.md` and `memory.md` were made on."""
    reports = ROOT.parent / "reports"
    made = re.findall(r"^([\w.-]+),([0-9a-f]{12})$", (reports / "three-numbers-data.csv").read_text(), re.MULTILINE)
    return dict(made + re.findall(r"Data: ([\w-]+) .*, content `([0-9a-f]{12})`", (reports / "memory.md").read_text()))


def test_the_baselines_were_made_on_the_datasets_that_ship():
    made = content_of_baselines()
    assert {name: made[name] for name in LARGE} == {name: FROZEN[name][:12] for name in LARGE}


@pytest.mark.parametrize("importer", [LiveMCPBench, LoCoMo, MetaTool, ToolLens], ids=lambda one: one.__name__)
def test_the_baselines_were_made_on_what_importers_make(importer):
    folder = SHARED / importer.source.name
    if not folder.is_dir():
        pytest.skip(f"the published files of {importer.source.name} are not beside the checkout")
    made = content_of_baselines()
    measured = [name for name in importer.provides if name in made]
    assert {name: importer(folder).load(name).hash[:12] for name in measured} == {name: made[name] for name in measured}
