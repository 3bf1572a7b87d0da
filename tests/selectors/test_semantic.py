"""`semantic`: what it does otherwise than the original, the documents' worked examples, and just-in-time indexing."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ctxbench import testing
from ctxbench.io.errors import EmbeddingError, InputError
from ctxbench.model.items import Catalog, Item, ItemKey
from ctxbench.model.requests import Batch, Message, Request, SessionItem
from ctxbench.model.selection import selections
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.search.embedders import EmbedderIdentity, ModelError, Vectors, VectorStore
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import open_counter
from ctxbench.selectors.definitions import definition
from ctxbench.testing.contract import answer_rows
from tests.selectors.original_engine import OriginalEngine

DIMENSIONS = 8


def vector(*values):
    """A unit vector that begins with `values`; what is missing to length 1 goes into the last dimension."""
    out = np.zeros(DIMENSIONS, dtype=np.float64)
    out[: len(values)] = values
    out[-1] = np.sqrt(max(0.0, 1.0 - out @ out))
    return out.astype(np.float32)


class Model:
    """Vectors by hand. A text that is not in the table has no direction in common with any query: it scores 0.

    Attributes:
        asked: the texts of each call, one list a call; the model would be loaded at the first.
        failing: texts that cannot be embedded.
    """

    identity = EmbedderIdentity("by hand", "1", "table", "float32", DIMENSIONS)

    def __init__(self, table):
        self.table = dict(table)
        self.asked = []
        self.failing = set()

    def embed(self, texts, *, on_done=None):
        self.asked.append(list(texts))
        out = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
        for position, text in enumerate(texts):
            if text in self.failing:
                raise EmbeddingError(f"no vector for {text!r}")
            out[position] = self.table.get(text, vector())
            if on_done is not None:
                on_done(position, out[position])
        return out

    def one(self, text):
        return self.embed([text])[0]

    @property
    def texts(self):
        return [text for call in self.asked for text in call]


def resources_of(model, store=None):
    return LocalResources(Vectors(model, store), open_counter("chars/4"))


def run(items, requests, model, *, selector="semantic", resources=None, **parameters):
    """Run a shipped selector; returns its outcome and pipeline."""
    shipped = definition(selector)
    pipeline = shipped.pipeline(shipped.values(None, parameters))
    batch = Batch.of(Catalog(items), requests)
    return pipeline.run(batch, resources or resources_of(model)), pipeline


def select(items, text, model, *, request=None, **given):
    """The selection for one request over all items."""
    outcome, _ = run(items, [request or Request(id="it", text=text)], model, **given)
    (one,) = selections(outcome.query, outcome.candidates)
    return one


def names(selection):
    return [ItemKey.parse(one.id).name for one in selection.chosen]


def rule(name, text="", **given):
    return Item(type="rule", name=name, text=text, **given)


def tool(server, name, description=""):
    return Item(type="tool", server=server, name=name, description=description)


def offered(*items):
    return [{"type": one.type, "name": one.name, "serverName": one.server} for one in items]


DEPLOY = rule("deploy", "Deploys start from the pipeline.\n\nRoll back before you ask.")
DEPLOY_CHUNKS = ["deploy", "Deploys start from the pipeline.", "Roll back before you ask."]
LINT = rule("lint", "Run the linter.")


# What `semantic` does otherwise than the original.


@pytest.mark.parametrize("text", ["", "   \n\t", "\ufeff", "?! "])
def test_a_request_without_a_chunk_embeds_nothing(text):
    model, originals = Model({}), Model({})
    assert select([DEPLOY, LINT], text, model).chosen == ()
    assert model.asked == []
    engine = OriginalEngine([DEPLOY, LINT], originals.one)
    assert engine.search(text, offered(DEPLOY, LINT)) == []
    assert engine.embedded == [*DEPLOY_CHUNKS, "lint", "Run the linter."]
    pipelines = Model({})
    assert select([DEPLOY, LINT], text, pipelines, selector="semantic-original").chosen == ()
    assert pipelines.texts == engine.embedded


def test_no_model_is_loaded_where_every_vector_is_stored(tmp_path):
    model = Model({"how to deploy": vector(1), "deploy": vector(0.9)})
    first = select(
        [DEPLOY], "how to deploy", model, resources=resources_of(model, VectorStore(model.identity, tmp_path))
    )
    assert model.texts == [*DEPLOY_CHUNKS, "how to deploy"]
    later = Model({})  # another process
    again = select(
        [DEPLOY], "how to deploy", later, resources=resources_of(later, VectorStore(later.identity, tmp_path))
    )
    assert again == first
    assert names(again) == ["deploy"]
    assert later.asked == []


@pytest.mark.parametrize(
    ("items", "request_of"),
    [
        ([], Request(id="it", text="deploy it")),
        ([DEPLOY], Request(id="it", text="deploy it", available=())),
        ([DEPLOY], Request(id="it", text="deploy it", session=(SessionItem(DEPLOY.key),))),
        ([rule("deploy", "text", include="manual")], Request(id="it", text="deploy it")),
        ([rule("deploy", "text", enabled=False)], Request(id="it", text="deploy it")),
    ],
    ids=["no items", "none available", "all in the session", "none found by search", "none enabled"],
)
@pytest.mark.parametrize("selector", ["semantic", "semantic-original"])
def test_no_model_is_loaded_where_nothing_may_be_found(items, request_of, selector):
    model = Model({})
    select(items, "", model, request=request_of, selector=selector)
    assert model.asked == []


@pytest.mark.parametrize("selector", ["semantic", "semantic-domains", "learned"])
def test_with_the_search_off_nothing_is_embedded_indexed_or_loaded(selector):
    class Unusable(LocalResources):
        def vectors(self, texts, *, kind="query"):
            raise AssertionError("a model would be loaded")

        def get_or_create(self, key, make):
            raise AssertionError(f"an index would be made: {key}")

    held = rule("tone", "Be kind.", include="always")
    request = Request(id="it", text="deploy it", session=(SessionItem(held.key),))
    resources = Unusable(Vectors(Model({}), None), open_counter("chars/4"))
    found = select(
        [DEPLOY, held],
        "",
        Model({}),
        request=request,
        selector=selector,
        resources=resources,
        contextSearchEnabled=False,
    )
    assert [(one.id, one.mode) for one in found.chosen] == [("rule:tone", "manual")]
    assert found.left_out == ()


@pytest.mark.parametrize("by", ["chunks", "graph", "both"])
def test_expansion_at_depth_0_computes_nothing_and_answers_as_if_it_were_off(by):
    items = [DEPLOY, LINT, rule("pipe", "Deploys start from the pipeline.")]
    given = {"contextExpansionEnabled": True, "contextExpansionDepth": 0}
    shipped = definition("semantic")
    batch = Batch.of(Catalog(items), [Request(id="it", text="deploy")])
    table = {"deploy": vector(1), "Deploys start from the pipeline.": vector(0.9)}
    answers, kept = [], []
    for values in (given, {"contextExpansionEnabled": False}, {**given, "contextExpansionDepth": 1}):
        pipeline = shipped.pipeline(
            shipped.with_defaults({"contextTopN": 1, "contextIncludeScore": 1.0, "contextExpansionBy": by, **values})
        )
        resources = resources_of(Model(table))
        outcome = pipeline.run(batch, resources)
        answers.append(
            answer_rows(outcome.query, outcome.candidates, pipeline.prompts(outcome, testing.mock_resources()))
        )
        kept.append(len(resources._values))
    assert answers[0] == answers[1] != answers[2]
    assert kept[0] == kept[1]
    assert by == "chunks" or kept[1] < kept[2]  # by chunks all that is needed is the index that the search has made


def test_a_token_budget_ends_the_list_and_leaves_the_session():
    items = [rule(name, f"{name} " * 8) for name in ("one", "two", "three")]
    held = rule("held", "text " * 100)
    table = {"go": vector(1)}
    table |= {item.name: vector(score) for item, score in zip(items, (0.9, 0.8, 0.75), strict=True)}
    request = Request(id="it", text="go", session=(SessionItem(held.key),))
    price = open_counter("chars/4").count(["a"], [items[0].prompt_text])[0]
    budget = {"contextTokenBudgetEnabled": True, "contextTokenBudget": int(2 * price + 2)}
    found = select([*items, held], "", Model(table), request=request, **budget)
    assert names(found) == ["held", "one", "two"]
    assert [(one.id, str(one.rule)) for one in found.left_out] == [
        ("rule:three", f"beyond the budget of tokens={budget['contextTokenBudget']}")
    ]


def test_sentences_go_to_the_model_in_one_call():
    model = Model({})
    resources = resources_of(model)
    select([LINT], "One. Two. Three. Four.", model, resources=resources)
    assert model.asked == [["lint", "Run the linter."], ["One", "Two", "Three", "Four."]]
    originals = Model({})
    engine = OriginalEngine([LINT], originals.one)
    engine.search("One. Two. Three. Four.", offered(LINT))
    assert originals.asked[2:] == [["One"], ["Two"], ["Three"], ["Four."]]


def test_a_text_is_embedded_once():
    shared = [rule("a", "Shared paragraph."), rule("b", "Shared paragraph.")]
    model, originals = Model({}), Model({})
    select(shared, "One. One. One.", model)
    assert model.asked == [["a", "Shared paragraph.", "b"], ["One", "One."]]
    engine = OriginalEngine(shared, originals.one)
    engine.search("One. One. One.", offered(*shared))
    assert engine.embedded == ["a", "Shared paragraph.", "b", "Shared paragraph.", "One", "One", "One."]


def test_an_edited_item_has_its_changed_chunks_embedded_again():
    edited = rule("deploy", "Deploys start from the pipeline.\n\nAsk before you roll back.")
    table = {
        "roll back?": vector(1),
        "Roll back before you ask.": vector(0.9),
        "Ask before you roll back.": vector(0.4),
    }
    model = Model(table)
    resources = resources_of(model)
    before = select([DEPLOY], "roll back?", model, resources=resources)
    assert before.chosen[0].score == pytest.approx(0.9)
    model.asked.clear()
    after = select([edited], "roll back?", model, resources=resources)
    assert after.chosen[0].score == pytest.approx(0.4)
    assert model.texts == ["Ask before you roll back."]

    originals = Model(table)
    engine = OriginalEngine([DEPLOY], originals.one)
    engine.search("roll back?", offered(DEPLOY))
    engine = OriginalEngine([edited], originals.one, vectors=engine.vectors)
    assert engine.search("roll back?", offered(edited))[0]["similarityScore"] == pytest.approx(0.9)  # of a text gone
    assert engine.embedded == ["roll back?"]


def test_names_with_colons_stay_apart():
    tools = [tool("a", "b:c"), tool("a:b", "c")]
    model = Model({"go": vector(1), "b:c": vector(0.6), "c": vector(0.8)})
    assert [one.id for one in select(tools, "go", model).chosen] == ["tool:a%3Ab:c", "tool:a:b%3Ac"]
    original = select(tools, "go", model, selector="semantic-original")
    assert [one.id for one in original.chosen] == ["tool:a%3Ab:c"]
    engine = OriginalEngine(tools, model.one)
    (found,) = engine.search("go", offered(*tools))
    assert (found["serverName"], found["name"]) == ("a:b", "c")


def test_a_chunk_that_cannot_be_embedded_is_an_error():
    items = [LINT, DEPLOY]
    table = {"roll back?": vector(1), "Roll back before you ask.": vector(0.9)}
    model = Model(table)
    model.failing = {"Deploys start from the pipeline."}
    resources = resources_of(model)
    with pytest.raises(EmbeddingError, match=r"'Deploys start from the pipeline\.', number 4 of 5 .* by by hand: "):
        select(items, "roll back?", model, resources=resources)
    model.failing.clear()
    model.asked.clear()
    assert names(select(items, "roll back?", model, resources=resources)) == ["deploy"]
    assert model.texts == ["Deploys start from the pipeline.", "Roll back before you ask.", "roll back?"]


def test_the_original_leaves_a_chunk_that_cannot_be_embedded_out():
    items = [DEPLOY, LINT]
    table = {"roll back?": vector(1), "Roll back before you ask.": vector(0.9), "deploy": vector(0.3)}
    model = Model(table)
    model.failing = {"Roll back before you ask."}
    found = select(items, "roll back?", model, selector="semantic-original")
    assert [one.score for one in found.chosen] == [pytest.approx(0.3)]
    engine = OriginalEngine(items, model.one)
    (same,) = engine.search("roll back?", offered(*items))
    assert same["similarityScore"] == found.chosen[0].score
    assert engine.logged_errors == ["Failed to generate embedding for chunk 2 of rule deploy:"]


def test_what_the_original_left_out_is_an_error_for_semantic_after_it():
    model = Model({"roll back?": vector(1), "deploy": vector(0.3)})
    model.failing = {"Roll back before you ask."}
    resources = resources_of(model)
    select([DEPLOY], "roll back?", model, selector="semantic-original", resources=resources)
    with pytest.raises(EmbeddingError, match="Roll back before you ask"):
        select([DEPLOY], "roll back?", model, resources=resources)


@pytest.mark.parametrize("selector", ["semantic", "semantic-original"])
@pytest.mark.parametrize("text", ["roll back?", " "])
def test_a_model_that_is_missing_is_an_error(selector, text):
    class Missing(Model):
        def embed(self, texts, *, on_done=None):
            self.asked.append(list(texts))
            raise ModelError("no model; install it")

    model = Missing({})
    if selector == "semantic" and not text.strip():
        assert select([DEPLOY], text, model, selector=selector).chosen == ()
        return
    with pytest.raises(ModelError, match="no model; install it"):
        select([DEPLOY], text, model, selector=selector)
    assert len(model.asked) == 1


def test_the_order_of_available_does_not_matter():
    items = [rule("one", "alike"), rule("two", "alike")]
    model = Model({"go": vector(1), "alike": vector(0.5)})
    keys = tuple(one.key for one in items)
    for available in (keys, keys[::-1], (*keys, keys[1], keys[1])):
        request = Request(id="it", text="go", available=available)
        assert names(select(items, "", model, request=request, contextTopK=2)) == ["one", "two"]
    engine = OriginalEngine(items, model.one)
    assert [row["name"] for row in engine.search("go", offered(*items[::-1]), {"topK": 2})] == ["two", "one"]
    twice = offered(items[1], items[1], items[0])
    assert [row["name"] for row in engine.search("go", twice, {"topK": 2})] == ["two"]


def test_an_unknown_item_is_an_error():
    gone = rule("gone")
    request = Request(id="it", text="go", available=(LINT.key, gone.key))
    model = Model({"go": vector(1), "lint": vector(0.5)})
    with pytest.raises(InputError, match="query 'it': available names 'rule:gone', which the catalog does not hold"):
        select([LINT], "", model, request=request)
    assert model.asked == []
    assert [row["name"] for row in OriginalEngine([LINT], model.one).search("go", offered(gone, LINT))] == ["lint"]


def test_an_item_far_below_the_best_is_left_out():
    items, model = scored([0.8, 0.6, 0.41, 0.39, 0.1, -0.2])
    assert names(select(items, "go", model, contextMargin=0.5)) == ["r0", "r1", "r2"]  # 0.8 less half of 0.8 is 0.4
    assert names(select(items, "go", model, contextMargin=0.0)) == ["r0"]
    found = select(items, "go", model, contextMargin=0.5, contextTopN=4)
    assert [(one.id, str(one.rule)) for one in found.left_out] == [
        ("rule:r3", "more than margin=0.5 of its score below the best"),
        ("rule:r4", "beyond the first topN=4 and its score is below includeScore=0.7"),
        ("rule:r5", "its score is not above 0"),
    ]
    assert names(select(items, "go", model, contextMargin=0.5, contextTopN=2)) == ["r0", "r1"]  # topN is reached first
    items, model = scored([0.9, 0.85, 0.75])
    assert names(select(items, "go", model, contextMargin=0.1)) == ["r0", "r1"]  # 0.75 would reach includeScore
    items, model = scored([0.75, 0.75])
    assert names(select(items, "go", model, contextMargin=0.0)) == ["r0", "r1"]  # ties with the best stay
    items, model = scored([-0.5, 0.0])
    assert names(select(items, "go", model, contextMargin=0.5)) == []


@pytest.mark.parametrize("seed", range(20))
def test_a_margin_of_one_leaves_every_selection_as_it_was(seed):
    rng = np.random.default_rng(seed)
    drawn = rng.choice([1.0, 0.9, 0.5, 1e-3, 1e-7, 1e-30, 0.0, -1e-3, -0.7], size=int(rng.integers(0, 130)))
    items, model = scored(drawn.tolist())
    given = {
        "contextTopK": int(rng.integers(1, 101)),
        "contextTopN": int(rng.integers(0, 51)),
        "contextIncludeScore": float(rng.choice([0.0, 1e-7, 0.5, 1.0])),
    }
    values = definition("semantic").values(None, given)
    spec = {key: value for key, value in definition("semantic").spec.items() if key != "search"}
    before = {**spec, "refine": [{"standard": {name[7].lower() + name[8:]: value for name, value in given.items()}}]}
    requests = [Request(id="1", text="go"), Request(id="2", text=" "), Request(id="3", text="nothing like it")]
    batch = Batch.of(Catalog(items), requests)
    one, other = (
        answer_rows(outcome.query, outcome.candidates, pipeline.prompts(outcome, testing.mock_resources()))
        for pipeline in (definition("semantic").pipeline(values), Pipeline.of(before))
        for outcome in [pipeline.run(batch, resources_of(model))]
    )
    assert one == other


# Just-in-time indexing.


def test_an_item_is_embedded_once():
    model = Model({})
    resources = resources_of(model)
    select([DEPLOY, LINT], "first", model, resources=resources)
    assert model.texts == [*DEPLOY_CHUNKS, "lint", "Run the linter.", "first"]
    model.asked.clear()
    select([DEPLOY, LINT], "second", model, resources=resources)
    assert model.texts == ["second"]
    model.asked.clear()
    select([DEPLOY, LINT, rule("new")], "second", model, resources=resources)
    assert model.texts == ["new"]


def test_only_items_that_a_request_with_a_chunk_may_get_are_embedded():
    items = [rule(name) for name in ("wanted", "other", "blank", "always")]
    items[3] = rule("always", include="always")
    requests = [
        Request(id="asks", text="go", available=(items[0].key, items[3].key)),
        Request(id="blank", text=" ", available=(items[2].key,)),
        Request(id="gets nothing", text="never embedded", available=()),
    ]
    model = Model({})
    run(items, requests, model)
    assert model.texts == ["wanted", "go"]


def test_items_are_indexed_one_search_after_the_other():
    items = [rule("a"), rule("b"), rule("c")]
    model = Model({"go": vector(1), "a": vector(0.5), "b": vector(0.6), "c": vector(0.7)})
    resources = resources_of(model)
    for place, expected in ((2, ["c"]), (0, ["a"]), (1, ["b"])):
        request = Request(id="it", text="go", available=(items[place].key,))
        assert names(select(items, "", model, request=request, resources=resources)) == expected
    assert model.texts == ["c", "go", "a", "b"]
    assert names(select(items, "go", model, resources=resources)) == ["c", "b", "a"]


# The documents' worked examples, with texts of our own and vectors by hand.


def test_search_texts_are_chunked_as_documented():
    filler = "x" * 300
    items = [
        Item(type="rule", name="Naming", description="How things are called", text="Use nouns."),
        Item(type="reference", name="Hosts", text="First paragraph.\n\nSecond paragraph."),
        tool("git", "commit", "Write a commit"),
        tool("git", "push"),
        Item(type="reference", name="Long", text=f"{filler}. {filler}. Short one. Last."),
    ]
    model = Model({})
    select(items, "go", model)
    assert model.asked[0] == [
        "Naming: How things are called",
        "Use nouns.",
        "Hosts",
        "First paragraph.",
        "Second paragraph.",
        "commit: Write a commit",
        "push",
        "Long",
        filler,  # 300 + 300 + 1 > 500; sentences of a paragraph over 500 lose their ends
        f"{filler} Short one Last.",
    ]


def test_the_defaults_are_those_of_the_documents():
    assert definition("semantic").values("spec") == {
        "contextSearchEnabled": True,
        "contextTopK": 20,
        "contextTopN": 5,
        "contextIncludeScore": 0.7,
        "contextMargin": 1.0,
        "contextExpansionEnabled": False,
        "contextExpansionDepth": 1,
        "contextExpansionBy": "chunks",
        "contextExpansionThreshold": 0.75,
        "contextExpansionTopN": 3,
        "contextExpansionGraphThreshold": 0.75,
        "contextExpansionGraphTopN": 3,
        "contextTokenBudgetEnabled": False,
        "contextTokenBudget": 2000,
    }
    assert definition("semantic").values("spec") == definition("semantic").values()


def scored(scores):
    """Rules r0, r1, ... of one chunk each, and a model in which they score so for the text `go`."""
    return [rule(f"r{place}") for place in range(len(scores))], Model(
        {"go": vector(1), **{f"r{place}": vector(score) for place, score in enumerate(scores)}}
    )


def test_topn_is_a_floor_and_high_scores_exceed_it():
    items, model = scored([0.75, 0.9, 0.71, 0.85, 0.8, 0.72, 0.69, 0.3])
    assert names(select(items, "go", model)) == ["r1", "r3", "r4", "r0", "r5", "r2"]  # six reach 0.7
    items, model = scored([0.75, 0.9, 0.69, 0.3, 0.1, 0.05])
    assert names(select(items, "go", model)) == ["r1", "r0", "r2", "r3", "r4"]  # two reach 0.7; filled up to five
    items, model = scored([0.75, 0.0, -0.2])
    assert names(select(items, "go", model)) == ["r0"]  # nothing that scores 0 or below fills up


def test_topk_counts_chunk_matches():
    crowd = rule("crowd", "\n\n".join(f"paragraph {n}" for n in range(19)))  # 20 chunks with its name
    table = {f"paragraph {n}": vector(0.8) for n in range(19)} | {"crowd": vector(0.8), "low": vector(0.5)}
    model = Model({"go": vector(1), **table})
    found = select([rule("low"), crowd], "go", model)
    assert names(found) == ["crowd"]
    assert [(one.id, str(one.rule)) for one in found.left_out] == [
        ("rule:low", "its best chunk is not among the best topK=20 chunks")
    ]
    assert names(select([rule("low"), crowd], "go", model, contextTopK=21)) == ["crowd", "low"]


def test_an_item_scores_as_its_best_chunk_under_the_best_sentence():
    guide = rule("guide", "about tokens\n\nabout errors")
    model = Model(
        {
            "How do I log in": vector(1),
            "And what if it fails?": vector(0, 1),
            "about tokens": vector(0.6, 0.1),
            "about errors": vector(0.2, 0.8),
        }
    )
    (one,) = select([guide], "How do I log in? And what if it fails?", model).chosen
    assert one.score == pytest.approx(0.8)
    assert (one.pair.query_chunk, one.pair.item_chunk) == (1, 2)  # chunk 0 is the name


def test_a_stronger_sentence_takes_all_places():
    scores = {"a1": (0.9,), "a2": (0.85,), "a3": (0.8,), "b1": (0, 0.75), "b2": (0, 0.7), "b3": (0, 0.65)}
    model = Model({"Ask one": vector(1), "Ask two.": vector(0, 1), **{n: vector(*v) for n, v in scores.items()}})
    found = select([rule(name) for name in scores], "Ask one. Ask two.", model, contextTopN=3, contextIncludeScore=0.8)
    assert names(found) == ["a1", "a2", "a3"]  # the documents' known issue, kept until a cut does better
    assert {one.pair.query_chunk for one in found.left_out} == {1}


# Agent, session and request: rule A and reference X are always there, B comes by hand, C and Y are found.
A = rule("Rule A", "text a", include="always", description="about a")
B = rule("Rule B", "text b", include="manual")
C = rule("Rule C", "text c", include="agent")
X = Item(type="reference", name="Reference X", text="text x", include="always")
Y = Item(type="reference", name="Reference Y", text="text y", include="agent")
FLOW = [A, B, C, X, Y]
LOGIN, ERRORS = "Where do I sign in?", "What happens on a fault?"
HELD = (SessionItem(A.key, "always"), SessionItem(X.key, "always"), SessionItem(B.key, "manual"))


def flow_model():
    # With topN 5 whatever scores above 0 fills up, so the item that is not found in each request scores 0 here.
    table = {LOGIN: vector(1), ERRORS: vector(0, 1), "text c": vector(0.92), "text y": vector(0, 0.87)}
    return Model(table | {"text a": vector(0.99), "text b": vector(0.99), "text x": vector(0, 0.99)})


def test_a_new_session_holds_what_is_always_included():
    found = select(FLOW, " ", flow_model())
    assert [(one.id, one.mode, one.score) for one in found.chosen] == [
        (A.id, "always", None),
        (X.id, "always", None),
    ]


def test_a_request_adds_what_it_finds_to_its_session():
    model = flow_model()
    requests = [Request(id="1", text=LOGIN, session=HELD), Request(id="2", text=ERRORS, session=HELD)]
    outcome, _ = run(FLOW, requests, model)
    first, second = selections(outcome.query, outcome.candidates)
    # The documents list a session in the order in which it was filled (A, X, B); the one order goes by the catalog.
    assert names(first) == ["Rule A", "Rule B", "Reference X", "Rule C"]
    assert names(second) == ["Rule A", "Rule B", "Reference X", "Reference Y"]
    assert [one.mode for one in first.chosen] == ["always", "manual", "always", "agent"]
    assert first.chosen[-1].score == pytest.approx(0.92)
    assert second.chosen[-1].score == pytest.approx(0.87)
    assert model.texts == ["Rule C", "text c", "Reference Y", "text y", LOGIN, ERRORS]  # nothing else is searched


def test_include_modes_decide_what_is_searched():
    named = {"go": vector(1)}
    items = [rule(mode, include=mode) for mode in ("agent", "always", "manual")]
    items += [rule("disabled", enabled=False), rule("taken", include="agent")]
    model = Model(named | {item.name: vector(0.9) for item in items})
    request = Request(id="it", text="go", session=(SessionItem(ItemKey("rule", None, "taken"), "manual"),))
    found = select(items, "", model, request=request)
    # A session that is given is taken as it is: an `always` item that was removed from it stays out.
    assert [(one.id, one.mode) for one in found.chosen] == [("rule:taken", "manual"), ("rule:agent", "agent")]
    assert model.texts == ["agent", "go"]


def test_the_request_context_is_stored_as_documented():
    search = tool("web", "search page", "text c")
    model = flow_model()
    model.table["search page: text c"] = vector(0.5)
    catalog = [*FLOW, search]
    context = select(catalog, "", model, request=Request(id="1", text=LOGIN, session=HELD)).request_context(
        Catalog(catalog)
    )
    for row in context["items"][3:]:
        row["similarityScore"] = round(row["similarityScore"], 6)
    assert json.loads(json.dumps(context)) == {
        "items": [
            {"type": "rule", "name": "Rule A", "includeMode": "always"},
            {"type": "rule", "name": "Rule B", "includeMode": "manual"},
            {"type": "reference", "name": "Reference X", "includeMode": "always"},
            {"type": "rule", "name": "Rule C", "includeMode": "agent", "similarityScore": 0.92},
            {
                "type": "tool",
                "name": "search page",
                "serverName": "web",
                "includeMode": "agent",
                "similarityScore": 0.5,
            },
        ]
    }


def test_messages_are_built_from_the_request_context():
    schema = {"type": "object", "properties": {"page": {"type": "string"}}}
    fetch = Item(type="tool", server="web", name="fetch", description="Get a page", schema=schema)
    model = flow_model()
    model.table["fetch: Get a page"] = vector(0.5)
    model.table["text y"] = vector(0.4)
    history = (Message("system", "an older prompt"), Message("user", "Hello."), Message("assistant", "Yes?"))
    outcome, pipeline = run([*FLOW, fetch], [Request(id="1", text=LOGIN, session=HELD, history=history)], model)
    (prompt,) = pipeline.prompts(outcome, testing.mock_resources())
    assert list(prompt.messages) == [
        ("user", "Hello."),
        ("assistant", "Yes?"),
        ("user", "Reference: text x"),
        ("user", "Reference: text y"),
        ("user", "Rule: text a"),
        ("user", "Rule: text b"),
        ("user", "Rule: text c"),
        ("user", LOGIN),
    ]
    assert list(prompt.tools) == [{"name": "fetch", "description": "Get a page", "inputSchema": schema}]
