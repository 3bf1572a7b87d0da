from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from ctxbench import testing
from ctxbench.io.errors import InputError, ParameterError, UnknownNameError
from ctxbench.model import registry
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch
from ctxbench.pipelines.pipeline import Pipeline, PipelineError
from ctxbench.search.embedders import HashingEmbedder, Vectors
from ctxbench.search.resources import LocalResources, TextVectors, TokenCounts
from ctxbench.search.tokens import CharsCounter, open_counter
from ctxbench.selectors.selector import PipelineSelector

CATALOG = Catalog([Item(type="rule", name="a", text="four"), Item(type="file", name="b", text="12345")])


class Counter(CharsCounter):
    def __init__(self) -> None:
        self.asked = 0

    def count(self, ids, texts):
        self.asked += 1
        return super().count(ids, texts)


@pytest.fixture
def resources():
    return LocalResources(Vectors(HashingEmbedder(), None), Counter())


def test_vectors_are_the_embedders(resources):
    assert resources.vectors(["x", "y", "x"]).tolist() == HashingEmbedder().embed(["x", "y", "x"]).tolist()
    assert resources.vectors([]).shape == (0, 256)
    assert resources.stats.embedded == 2


def test_tokens_are_those_of_the_prompt_text_and_counted_once(resources):
    for _ in range(2):
        assert resources.tokens(CATALOG).tolist() == [3, 2]  # "Rule: four" has 10 characters, "12345" five
    assert resources._named["tokens"]._counter.asked == 1
    assert resources.tokens(Catalog([])).tolist() == []


def test_what_is_kept_is_made_once(resources):
    made = []
    assert [resources.get_or_create(("k", 1), lambda: made.append(1) or len(made)) for _ in range(3)] == [1, 1, 1]
    assert resources.get_or_create(("k", 2), lambda: "other") == "other"
    assert resources.get_or_create(("none",), lambda: None) is None


def test_identities_are_those_of_embedder_and_counter(resources):
    assert resources.identity("embedder") == HashingEmbedder().identity.key
    assert resources.identity("tokens") == "chars/4"


@pytest.mark.parametrize("ask", ["get", "identity"])
def test_an_unknown_name_names_the_known_ones(resources, ask):
    with pytest.raises(
        UnknownNameError,
        match=r"unknown resource 'token'; did you mean 'tokens'\? Known: chat, embedder, index, ollama, text_index",
    ):
        getattr(resources, ask)("token")


def test_values_by_name_are_what_the_accessors_use(resources):
    assert resources.get("embedder")(["x"]).tolist() == resources.vectors(["x"]).tolist()
    assert resources.get("tokens")(CATALOG) is resources.tokens(CATALOG)


def test_tokens_are_counted_for_what_was_added(resources):
    texts = []
    real = resources._named["tokens"]._counter.count
    resources._named["tokens"]._counter.count = lambda ids, given: texts.append(given) or real(ids, given)
    catalog = CATALOG
    assert resources.tokens(catalog).tolist() == [3, 2]
    catalog = catalog.extended([Item(type="file", name="c", text="1")])
    assert resources.tokens(catalog).tolist() == [3, 2, 1]
    assert texts == [["Rule: four", "12345"], ["1"]]
    assert resources.tokens(Catalog([replace(item, include="manual") for item in catalog])).tolist() == [3, 2, 1]
    assert len(texts) == 2


def test_tokens_are_counted_for_what_is_needed_alone(resources):
    texts = []
    real = resources._named["tokens"]._counter.count
    resources._named["tokens"]._counter.count = lambda ids, given: texts.append(given) or real(ids, given)
    assert resources.tokens(CATALOG, np.array([1, 1]))[1] == 2
    assert resources.tokens(CATALOG, np.array([1]))[1] == 2
    assert texts == [["12345"]]


def test_what_a_file_of_counts_lacks_is_told_whatever_is_needed(tmp_path):
    (tmp_path / "counts.json").write_text('{"file:c": 3}')
    resources = LocalResources(Vectors(HashingEmbedder(), None), open_counter(f"file:{tmp_path / 'counts.json'}"))
    with pytest.raises(InputError, match=r"rule:a[\s\S]*file:b"):
        resources.tokens(Catalog([*CATALOG, Item(type="file", name="c", text="x")]), np.array([2]))


def test_token_counts_cannot_be_changed(resources):
    with pytest.raises(ValueError, match="read-only"):
        resources.tokens(Catalog([Item(type="rule", name="a", text="one two")]))[0] = 999


PLUGIN = """
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
from ctxbench.model.candidates import Candidates

made = []

class Glossary:
    \'\'\'Words that an item must have, near to which the embedder finds another.\'\'\'
    words = ("issue",)

    def __init__(self, resources):
        self.resources = resources

    @property
    def identity(self):
        return f"glossary {\' \'.join(self.words)}, {self.resources.identity(\'embedder\')}"

    @property
    def value(self):
        made.append(self.words)
        return set(self.words), self.resources.vectors(self.words)

class Broken(Glossary):
    @property
    def value(self):
        raise ValueError("no words")

@dataclass(frozen=True)
class ByGlossary:
    \'\'\'Items whose name holds a word of the glossary.\'\'\'
    uses: ClassVar[tuple[str, ...]] = ("glossary",)

    def __call__(self, query, resources):
        words, _ = resources.get("glossary")
        held = np.array([any(word in item.name for word in words) for item in query.batch.catalog], dtype=bool)
        request, item = np.nonzero(query.batch.eligible & held)
        return Candidates.build(len(query.batch), request, item, score=np.ones(len(item)))

@dataclass(frozen=True)
class Silent(ByGlossary):
    uses: ClassVar[tuple[str, ...]] = ()

@dataclass(frozen=True)
class Lost(ByGlossary):
    uses: ClassVar[tuple[str, ...]] = ("glosary",)
"""
BATCH = Batch.of(testing.mock_catalog(), testing.mock_requests())


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """A package with the resource `glossary` and steps that use it; its module."""
    (tmp_path / "glossaries.py").write_text(PLUGIN)
    info = tmp_path / "glossaries-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: glossaries\nVersion: 1.0\n")
    steps = "by_glossary = glossaries:ByGlossary\nsilent = glossaries:Silent\nlost = glossaries:Lost\n"
    named = "glossary = glossaries:Glossary\nbroken = glossaries:Broken\ngone = glossaries:Gone\n"
    (info / "entry_points.txt").write_text(f"[ctxbench.resource]\n{named}[ctxbench.retrieve]\n{steps}")
    monkeypatch.syspath_prepend(tmp_path)
    registry._plugins.cache_clear()
    yield registry.importlib.import_module("glossaries")
    sys.modules.pop("glossaries", None)
    registry._plugins.cache_clear()


class TestPlugin:
    def test_it_is_made_when_it_is_asked_for_and_once(self, plugin, resources):
        assert resources.identity("glossary") == f"glossary issue, {HashingEmbedder().identity.key}"
        assert plugin.made == []
        words, vectors = resources.get("glossary")
        assert (words, vectors.shape) == ({"issue"}, (1, 256))
        assert resources.get("glossary")[1] is vectors
        assert plugin.made == [("issue",)]

    def test_a_step_asks_for_it_by_name(self, plugin, resources):
        found = Pipeline.of({"retrieve": "by_glossary"}).run(BATCH, resources).candidates
        assert {BATCH.catalog[int(place)].name for place in found.item[found.origin > 0]} == {
            item.name for item in BATCH.catalog if item.include == "agent" and "issue" in item.name
        }

    def test_its_identity_is_part_of_what_a_steps_output_is_kept_under(self, plugin, resources, monkeypatch):
        memo: dict = {}
        pipeline = Pipeline.of({"retrieve": "by_glossary"})
        first = pipeline.run(BATCH, resources, memo=memo).candidates
        again = LocalResources(Vectors(HashingEmbedder(), None), CharsCounter())
        assert pipeline.run(BATCH, again, memo=memo).candidates is first
        monkeypatch.setattr(plugin.Glossary, "words", ("pull",))
        other = LocalResources(Vectors(HashingEmbedder(), None), CharsCounter())
        assert pipeline.run(BATCH, other, memo=memo).candidates is not first
        assert plugin.made == [("issue",), ("pull",)]

    def test_its_identity_is_part_of_a_selectors_description(self, plugin, resources):
        described = PipelineSelector("mine", Pipeline.of({"retrieve": "by_glossary"}), resources).describe()
        assert described["identities"] == {"glossary": resources.identity("glossary")}

    def test_a_step_that_does_not_say_what_it_uses_fails_the_conformance_suite(self, plugin):
        testing.check_step("retrieve", "by_glossary", {})
        with pytest.raises(AssertionError, match="it uses glossary; declare that in `uses`"):
            testing.check_step("retrieve", "silent", {})

    def test_a_step_that_uses_what_nobody_brings_is_refused_before_anything_runs(self, plugin):
        with pytest.raises(PipelineError, match=r"retrieve: unknown resource 'glosary'; did you mean 'glossary'\?"):
            Pipeline.of({"retrieve": "lost"})

    def test_what_it_raises_is_a_fault_that_names_it(self, plugin, resources):
        with pytest.raises(ParameterError, match=r"resource 'broken' \(glossaries:Broken\) cannot be made: ValueE"):
            resources.get("broken")
        with pytest.raises(ParameterError, match=r"resource 'gone' \(glossaries:Gone\) cannot be imported: Attrib"):
            resources.identity("gone")

    def test_it_cannot_take_a_name_that_is_taken(self, plugin, tmp_path, resources):
        path = tmp_path / "glossaries-1.0.dist-info" / "entry_points.txt"
        path.write_text("[ctxbench.resource]\ntokens = glossaries:Glossary\n")
        registry._plugins.cache_clear()
        with pytest.raises(ParameterError, match="two resources are called 'tokens'"):
            resources.identity("glossary")
        assert resources.identity("tokens") == "chars/4"


def test_the_two_that_are_always_there_are_registered():
    assert registry.find("resource", "embedder") is TextVectors
    assert registry.find("resource", "tokens") is TokenCounts
    assert {"embedder", "tokens"} <= set(registry.names("resource"))
