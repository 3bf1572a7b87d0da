"""`semantic-original` and the engine beside it against what the original engine answered (tests/fixtures/desk/)."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from ctxbench.io.errors import EmbeddingError, ParameterError
from ctxbench.model.items import Catalog, Item, ItemKey
from ctxbench.model.requests import Batch, Request
from ctxbench.model.selection import selections
from ctxbench.pipelines.pipeline import Pipeline, PipelineError
from ctxbench.search.embedders import EmbedderIdentity, ModelError, Vectors
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import open_counter
from ctxbench.selectors.definitions import definition
from tests.selectors import original_engine as original
from tests.selectors.original_engine import OriginalEngine

DESK = Path(__file__).parent.parent / "fixtures" / "desk"


def load(name):
    return json.loads((DESK / name).read_text("utf-8"))


def number(value):
    """JSON has no NaN and no infinity; the golden data writes them as `{"$number": "NaN"}`."""
    return float(value["$number"]) if isinstance(value, dict) else value


def item(row):
    server, description, text = row.get("serverName"), row.get("description") or "", row.get("text") or ""
    return Item(type=row["type"], name=row["name"], server=server, description=description, text=text)


ITEMS = [item(row) for row in load("items.json")["items"]]
EXTRAS = [item(row) for row in load("items.json")["extras"]]
QUERIES = {row["id"]: row["text"] for row in load("queries.json")}
OPTIONS = {row["id"]: {k: number(v) for k, v in row["options"].items()} for row in load("options.json")}
SENSIBLE = [row["id"] for row in load("options.json") if not row["odd"]]
ODD = [row["id"] for row in load("options.json") if row["odd"]]
EXPECTED = load("expected.json")
TABLE = dict(zip(load("embedding_texts.json"), np.load(DESK / "embeddings.npy"), strict=True))

GOLDEN = defaultdict(dict)  # option set: query: results
for case in EXPECTED["results"]:
    GOLDEN[case["options"]][case["query"]] = case["results"]

# What becomes of the option sets that no sane caller sends, given to the steps: the complaint, or None where the
# answer is the original's.
ODD_ANSWERS = {
    "x01": None,  # topK 0 is a cut like any other: no chunk is looked at, nothing is found
    "x02": "topK must be 0 or more, got -100",  # the original drops 100 chunks from the end
    "x03": "topK must be a whole number, got 2.7",  # the original rounds down
    "x04": "topN must be 0 or more, got -2",  # the original takes it for 0
    "x05": "topN must be a whole number, got 2.5",  # the original rounds down
    "x06": None,  # includeScore is a limit on scores, which may be below 0; all of the best topK are above it
    "x07": None,  # nor is 1.5 wrong as a limit: nothing reaches it, topN decides
    "x08": "topK must be a number, got NaN",  # the original finds nothing
    "x09": "topN must be a number, got NaN",  # the original finds only what reaches includeScore
    "x10": "includeScore must be a number, got NaN",  # the original finds nothing
    "x11": "topK must be a whole number, got inf",  # the original has no limit then; write a large number
    "x12": "topK must be a whole number, got None",  # the original takes its default; leave it out
    "x13": "topK must be a whole number, got '5'",  # the original reads the text as a number
    "x14": "standard has no parameter 'limit'",  # the original does not look at it: a slip would go unseen
}

# Outside the ranges of presets and sessions; as parameters of a step they are as good as any.
OUT_OF_RANGE = {"o17": "contextTopK must be 1 to 100, got 1000"}


class TableEmbedder:
    """Vectors from the golden table."""

    identity = EmbedderIdentity("desk", "1", "table", "float32", 384)

    def embed(self, texts, *, on_done=None):
        return np.array([TABLE[text] for text in texts], dtype=np.float32).reshape(-1, 384)


@pytest.fixture(scope="module")
def resources():
    return LocalResources(Vectors(TableEmbedder(), None), open_counter("chars/4"))


def preset_values(options):
    return {f"context{name[0].upper()}{name[1:]}": value for name, value in options.items()}


def with_cut(options):
    """The pipeline of `semantic-original` as it is shipped, but for a cut and a depth beyond the ranges of presets."""
    spec = definition("semantic-original").spec
    dense = {**spec["retrieve"]["dense"], "depth": 1000}
    return Pipeline.of({**spec, "retrieve": {"dense": dense}, "refine": [{"standard": options}]})


def answer(pipeline, queries, resources):
    """The answers to all queries at once: one list of (type, server, name, mode, score) a query."""
    catalog = Catalog(ITEMS)
    batch = Batch.of(catalog, [Request(id=query, text=QUERIES[query]) for query in queries])
    outcome = pipeline.run(batch, resources)
    chosen = selections(outcome.query, outcome.candidates)
    return {one.query: one.request_context(catalog)["items"] for one in chosen}


def differences(expected, found):
    """Everything in which two answers differ, by query; scores may differ by 1e-6."""
    return {query: (expected[query], found[query]) for query in expected if not same(expected[query], found[query])}


def same(expected, found):
    def names(rows):
        return [{key: value for key, value in row.items() if key != "similarityScore"} for row in rows]

    def scores(rows):
        return [row["similarityScore"] for row in rows]

    return names(found) == names(expected) and scores(found) == pytest.approx(scores(expected), abs=1e-6, rel=0)


def test_golden_data_holds_what_the_tests_rely_on():
    assert sum(len(GOLDEN[options]) for options in SENSIBLE) == 810
    assert sum(len(GOLDEN[options]) for options in ODD) == 112
    assert len(EXPECTED["special"]) == 27
    assert sum(len(group["calls"]) for group in EXPECTED["special"]) == 182
    assert [(row["type"], row.get("serverName"), row["name"]) for row in EXPECTED["offered_items"]] == [
        one.key for one in ITEMS
    ]


@pytest.mark.parametrize("options", SENSIBLE)
def test_sensible_cases_are_answered_as_by_the_original(options, resources):
    shipped = definition("semantic-original")
    if options in OUT_OF_RANGE:
        with pytest.raises(ParameterError, match=OUT_OF_RANGE[options]):
            shipped.values(None, preset_values(OPTIONS[options]))
        pipeline = with_cut(OPTIONS[options])
    else:
        pipeline = shipped.pipeline(shipped.values(None, preset_values(OPTIONS[options])))
    found = answer(pipeline, list(QUERIES), resources)
    assert len(GOLDEN[options]) == len(QUERIES)
    assert differences(GOLDEN[options], found) == {}, f"{options}: {OPTIONS[options]}"


@pytest.mark.parametrize("options", SENSIBLE)
def test_the_engine_answers_sensible_cases_as_the_original(options):
    engine = OriginalEngine(ITEMS, TABLE.__getitem__)
    found = {
        query: engine.search(QUERIES[query], EXPECTED["offered_items"], OPTIONS[options]) for query in GOLDEN[options]
    }
    assert differences(GOLDEN[options], found) == {}, f"{options}: {OPTIONS[options]}"


@pytest.mark.parametrize("options", [options for options in SENSIBLE if options not in OUT_OF_RANGE])
def test_semantic_with_its_margin_off_answers_them_alike(options, resources):
    shipped = definition("semantic")
    found = answer(shipped.pipeline(shipped.values("spec", preset_values(OPTIONS[options]))), QUERIES, resources)
    assert differences(GOLDEN[options], found) == {}, f"{options}: {OPTIONS[options]}"


def test_normal_is_the_defaults_of_the_documents(resources):
    shipped = definition("semantic-original")
    found = answer(shipped.pipeline(shipped.values("normal")), list(QUERIES), resources)
    assert differences(GOLDEN["o00"], found) == {}  # o00 is the empty set of options


def test_every_odd_option_set_has_its_place_in_the_table():
    assert list(ODD_ANSWERS) == ODD


@pytest.mark.parametrize("options", ODD)
def test_odd_options_are_errors_or_answered_alike(options, resources):
    complaint = ODD_ANSWERS[options]
    engine = OriginalEngine(ITEMS, TABLE.__getitem__)
    if complaint is None:
        assert differences(GOLDEN[options], answer(with_cut(OPTIONS[options]), GOLDEN[options], resources)) == {}
        found = {
            query: engine.search(QUERIES[query], EXPECTED["offered_items"], OPTIONS[options])
            for query in GOLDEN[options]
        }
        assert differences(GOLDEN[options], found) == {}
        return
    with pytest.raises(PipelineError) as raised:
        with_cut(OPTIONS[options])
    assert [(fault.path[:2], fault.message.partition(";")[0]) for fault in raised.value.faults] == [
        (("refine", 0), complaint)
    ]
    with pytest.raises(ParameterError) as refused:
        engine.search(QUERIES["q01"], EXPECTED["offered_items"], OPTIONS[options])
    assert str(refused.value).startswith(complaint)
    assert engine.embedded == []


@pytest.mark.parametrize("options", ODD)
def test_no_odd_option_can_be_set_in_a_preset_or_session(options):
    with pytest.raises(ParameterError, match=r"context\w+ must be|has no parameter 'contextLimit'"):
        definition("semantic-original").values(None, preset_values(OPTIONS[options]))


# Special calls: one agent a group, its calls one after the other.

# Calls that the original answers and the engine refuses: (group, place of the call): why, and the complaint.
REFUSED = {
    # Options that are a number hold no option; the original reads none from it and answers with its defaults.
    ("odd-options", 2): "options must be an object with topK, topN or includeScore, got 5",
}

# What the engine complains of where the original throws.
COMPLAINTS = {
    ("odd-queries", 0): (ParameterError, "a query must be a text, got None"),
    ("odd-queries", 1): (ParameterError, "a query must be a text, got None"),
    ("odd-queries", 2): (ParameterError, "a query must be a text, got 42"),
    ("odd-queries", 3): (ParameterError, "a query must be a text, got ['a', 'b']"),
    ("odd-items", 0): (ParameterError, "offered items must be a list of objects with type and name, got None"),
    ("odd-items", 1): (ParameterError, "offered items must be a list of objects with type and name, got [None]"),
    ("odd-items", 2): (ParameterError, "offered items must be a list of objects with type and name, got None"),
    ("odd-options", 0): (ParameterError, "options must be an object with topK, topN or includeScore, got None"),
    ("embedder-fails-on-the-query", 0): (EmbeddingError, "cannot embed 'Second sentence there.'"),
    ("wrong-vector-length", 0): (
        EmbeddingError,
        "vectors must have the same length: one of rule:incident-first-response has 3 dimensions",
    ),
}


class Model:
    """Vectors from the golden table, or by hand; refuses some texts."""

    def __init__(self, setup):
        self.failing = set(setup.get("embedder_fails_on", ()))
        self.table = dict(TABLE)
        for text, values in setup.get("vectors", {}).items():
            self.table[text] = np.zeros(384, dtype=np.float32)
            for dimension, value in values.items():
                self.table[text][int(dimension)] = value

    def __call__(self, text):
        if text in self.failing:
            raise EmbeddingError(f"cannot embed {text!r}")
        return self.table[text]


def engine_of(setup):
    model = Model(setup)
    engine = OriginalEngine([*ITEMS, *EXTRAS] if setup.get("with_extras") else ITEMS, model)
    for preset in setup.get("preset_embeddings", ()):
        given = [np.array(vector, dtype=np.float32) for vector in preset.get("vectors", ())]
        given += [TABLE[text] for text in preset.get("texts", ())]
        engine.vectors[ItemKey(preset["type"], None, preset["name"])] = given
    return engine, model


def missing(value):
    return isinstance(value, dict) and "$undefined" in value


def ask(engine, call):
    """One golden call. JavaScript's null and undefined are both None here; undefined options are left out."""
    query = None if missing(call["query"]) else call["query"]
    items = None if missing(call["items"]) else call["items"]
    raw = call["options"].get("$raw")
    if raw is None:
        return engine.search(query, items, {key: number(value) for key, value in call["options"].items()})
    return engine.search(query, items) if raw == "undefined" else engine.search(query, items, json.loads(raw))


@pytest.mark.parametrize("group", EXPECTED["special"], ids=[group["id"] for group in EXPECTED["special"]])
def test_special_calls_are_answered_as_by_the_original(group):
    engine, model = engine_of(group.get("setup", {}))
    for place, call in enumerate(group["calls"]):
        where = (group["id"], place)
        if call.get("clear_failures"):
            model.failing.clear()
        before = (len(engine.embedded), engine.agent_saves, len(engine.server_saves), len(engine.logged_errors))
        if where in REFUSED:
            with pytest.raises(ParameterError) as refused:
                ask(engine, call)
            assert str(refused.value) == REFUSED[where]
            assert before[0] == len(engine.embedded), where
            continue
        if "error" in call:
            kind, complaint = COMPLAINTS[where]
            with pytest.raises(kind) as raised:
                ask(engine, call)
            assert str(raised.value).startswith(complaint)
        else:
            found = ask(engine, call)
            assert same(call["results"], found), (where, call["results"], found)
        assert engine.embedded[before[0] :] == call["embedded"], where
        assert engine.agent_saves - before[1] == call["agent_saves"], where
        assert engine.server_saves[before[2] :] == call["server_saves"], where
        assert engine.logged_errors[before[3] :] == call.get("logged_errors", []), where


def test_every_complaint_and_refusal_belongs_to_a_call():
    calls = {(group["id"], place): call for group in EXPECTED["special"] for place, call in enumerate(group["calls"])}
    assert {where for where, call in calls.items() if "error" in call} == set(COMPLAINTS)
    assert {where for where in REFUSED if "results" in calls[where]} == set(REFUSED)


# Special calls that a request can express are answered by the pipeline itself: a catalog in the order of the list, a
# request that may get those items. The rest (an item twice, items unknown, vectors brought along, no text, no list)
# ctxbench refuses or cannot say.
BY_PIPELINE = {
    "only-rules",
    "only-references",
    "only-tools",
    "one-item",
    "zero-items",
    "reversed-order",
    "shuffled-order",
    "tie-cut",
    "colliding-tool-keys",
    "embedder-fails-on-one-item-chunk",
    "embedder-fails-on-every-chunk-of-an-item",
}


@pytest.mark.parametrize("group", [g for g in EXPECTED["special"] if g["id"] in BY_PIPELINE], ids=lambda g: g["id"])
def test_special_calls_that_a_request_can_express_are_answered_by_the_pipeline(group):
    known = {one.key: one for one in [*ITEMS, *EXTRAS]}
    model = Model(group.get("setup", {}))

    class Embedder(TableEmbedder):
        def embed(self, texts, *, on_done=None):
            return np.array([model(text) for text in texts], dtype=np.float32).reshape(-1, 384)

    resources = LocalResources(Vectors(Embedder(), None), open_counter("chars/4"))
    for call in group["calls"]:
        if call["query"] is None:
            continue  # a request's text is a text
        if call.get("clear_failures"):
            model.failing.clear()
        offered = [known[ItemKey(i["type"], i.get("serverName"), i["name"])] for i in call["items"]]
        catalog = Catalog(offered)
        batch = Batch.of(catalog, [Request(id="it", text=call["query"])])
        outcome = with_cut(call["options"]).run(batch, resources)
        (found,) = selections(outcome.query, outcome.candidates)
        assert same(call["results"], found.request_context(catalog)["items"]), (call, found)


def test_vectors_are_taken_along_to_an_engine_of_edited_items():
    rule = Item(type="rule", name="oncall", description="Out of hours rota", text="Escalate")
    edited = Item(type="rule", name="oncall", description="Who works the night shift?", text="Escalate")
    offered = [{"type": "rule", "name": "oncall"}]
    before = OriginalEngine([rule], TABLE.__getitem__)
    score = before.search("Who works the night shift?", offered)[0]["similarityScore"]
    after = OriginalEngine([edited], TABLE.__getitem__, vectors=before.vectors)
    assert after.search("Who works the night shift?", offered)[0]["similarityScore"] == score
    assert after.embedded == ["Who works the night shift?"]


def random_agent(rng):
    """Items, vectors and a query of three sentences that are full of ties, copies and names that read alike."""
    pool = rng.normal(size=(7, 384))
    pool = (pool / np.linalg.norm(pool, axis=1, keepdims=True)).astype(np.float32)
    paragraphs = [f"paragraph {n}" for n in range(9)]
    items = [
        Item(type=kind, name=f"name {n}", text="\n\n".join(rng.choice(paragraphs, size=rng.integers(1, 5))))
        for kind in ("rule", "reference")
        for n in range(rng.integers(0, 5))
    ]
    items += [Item(type="tool", server=s, name=n) for s, n in (("s", "y:x"), ("s:y", "x"), ("s", "x"), ("t", "x"))]
    rng.shuffle(items)
    texts = [*paragraphs, *(one.name for one in items), "Ask one", "Ask two", "Ask three"]
    table = {text: pool[rng.integers(len(pool))] for text in texts}
    return items, table, ". ".join(["Ask one", "Ask two", "Ask three"][: rng.integers(0, 4)])


@pytest.mark.parametrize("seed", range(20))
def test_engine_and_pipeline_agree_on_random_agents(seed):
    rng = np.random.default_rng(seed)
    items, table, query = random_agent(rng)

    class Embedder(TableEmbedder):
        def embed(self, texts, *, on_done=None):
            return np.array([table[text] for text in texts], dtype=np.float32).reshape(-1, 384)

    catalog = Catalog(items)
    resources = LocalResources(Vectors(Embedder(), None), open_counter("chars/4"))
    engine = OriginalEngine(items, table.__getitem__)
    offered = [{"type": i.type, "name": i.name, **({"serverName": i.server} if i.server else {})} for i in items]
    for _ in range(4):
        options = {"topK": int(rng.integers(0, 25)), "topN": int(rng.integers(0, 9)), "includeScore": 0.05}
        outcome = with_cut(options).run(Batch.of(catalog, [Request(id="it", text=query)]), resources)
        (found,) = selections(outcome.query, outcome.candidates)
        expected = engine.search(query, offered, options)
        assert same(expected, found.request_context(catalog)["items"]), (options, expected, found)


def test_every_documented_difference_names_its_test():
    named = re.findall(r"\b[a-z]+(?:_[a-z]+){3,}\b", original.__doc__)
    sources = [Path(__file__).with_name(name).read_text("utf-8") for name in ("test_original.py", "test_semantic.py")]
    defined = {name for source in sources for name in re.findall(r"^def test_(\w+)\(", source, re.MULTILINE)}
    assert len(named) == 12
    assert set(named) <= defined


def test_a_missing_model_is_no_failure_of_a_chunk():
    def embed(text):
        raise ModelError("no model; install it")

    engine = OriginalEngine(ITEMS, embed)
    with pytest.raises(ModelError, match="no model; install it"):
        engine.search("search", [{"type": "rule", "name": "oncall"}])
    assert (engine.vectors, engine.logged_errors) == ({}, [])


def test_an_engine_without_items_answers_nothing():
    engine = OriginalEngine([], TABLE.__getitem__)
    assert engine.search("search", [{"type": "rule", "name": "oncall"}, {"type": "tool", "name": "x"}]) == []
    assert (engine.embedded, engine.agent_saves) == ([], 0)


def test_an_item_that_is_not_named_by_a_text_is_unknown():
    engine = OriginalEngine(ITEMS, TABLE.__getitem__)
    assert engine.search("search", [{"type": "rule", "name": ["oncall"]}, {"type": "rule"}, {}]) == []


def test_every_sentence_is_asked_for_although_the_first_fails():
    model = Model({"embedder_fails_on": ["One"]})
    engine = OriginalEngine(ITEMS, model)
    with pytest.raises(EmbeddingError, match="cannot embed 'One'"):
        engine.search("One. One. One.", [{"type": "rule", "name": "oncall"}])
    assert engine.embedded[-3:] == ["One", "One", "One."]


def test_an_answer_that_differs_is_seen_as_different():
    row = {"type": "rule", "name": "a", "includeMode": "agent", "similarityScore": 0.5}
    other = {**row, "name": "b"}
    assert same([row, other], [row, {**other, "similarityScore": 0.5000009}])
    assert not same([row, other], [other, row])
    assert not same([row, other], [row])
    assert not same([row], [{**row, "similarityScore": 0.500002}])
    assert not same([row], [{**row, "serverName": "s"}])


def test_the_pipeline_of_the_original_is_marked_as_such():
    assert definition("semantic-original").spec["retrieve"]["dense"]["original"] is True
    assert "original" not in definition("semantic").spec["retrieve"]["dense"]
