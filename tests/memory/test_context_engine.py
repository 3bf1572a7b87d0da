"""The memory engine over both stores: what is found, what is built, and how it fails."""

from __future__ import annotations

import pytest

from ctxbench.memory import ContextEngine, ContextOptions, EngineError, SearchOptions
from ctxbench.memory.memories import Memory, Relationship
from ctxbench.memory.sqlite_store import SqliteStore
from ctxbench.selectors.definitions import definition
from tests.memory.dict_store import DictStore

TEXTS = {
    "tyre": "Ana's front tyre went flat on the canal path.",
    "pump": "The bicycle pump is kept in the cellar.",
    "bread": "Ana buys rye bread on Fridays.",
    "tea": "Ben drinks green tea without sugar.",
}


def filled(store):
    for name in ("home", "work"):
        store.create_workspace(name)
    for day, (id_, content) in enumerate(TEXTS.items(), start=1):
        store.insert(
            Memory(
                id=id_,
                workspace="home",
                content=content,
                kind="event" if id_ == "tyre" else "fact",
                confidence=day / 5,
                created=f"2026-03-0{day}T09:00:00Z",
                conversation=f"c{day % 2}",
            )
        )
    store.insert(Memory(id="tyre", workspace="work", content="The tyre factory called about the flat rate."))
    store.relate(Relationship(workspace="home", source="tyre", target="pump", type="mended_with"))
    return store


@pytest.fixture(params=["dict", "sqlite"])
def store(request, tmp_path):
    made = filled(DictStore() if request.param == "dict" else SqliteStore(tmp_path / "memories.sqlite"))
    yield made
    made.close()


def engine_over(store, **given):
    return ContextEngine(store, **{"embedder": "hashing", "counter": "chars/4", **given})


@pytest.fixture
def engine(store):
    return engine_over(store)


def ids(found):
    return [result["memory"]["id"] for result in found.results()]


def test_the_best_memory_comes_first_with_similarity_and_rank(engine):
    found = engine.search("flat tyre", "home", SearchOptions(limit=2))
    first, second = found.results()
    assert first["memory"]["id"] == "tyre"
    assert first["memory"]["content"] == TEXTS["tyre"]
    assert (first["rank"], second["rank"]) == (1, 2)
    assert 0 < first["score"] <= 1
    assert first["memory"]["workspace_id"] == "home"
    assert found.selection.chosen[0].id == "memory:tyre%401"


def test_no_other_workspace_is_seen(engine):
    assert ids(engine.search("tyre factory flat rate", "work")) == ["tyre"]
    texts = engine.search("tyre factory flat rate", "home").contents
    assert not any("factory" in text for text in texts)


def test_a_search_by_the_texts_vector_finds_what_the_text_does(engine):
    options = SearchOptions(ranker="similarity")
    (vector,) = engine._vectors.get(["flat tyre"])
    assert ids(engine.search_by_vector(vector, "home", options)) == ids(engine.search("flat tyre", "home", options))


def test_many_searches_answer_as_one_by_one(engine):
    queries = ["flat tyre", "rye bread", "green tea"]
    together = engine.search_many(queries, "home", SearchOptions(limit=3))
    assert [one.results() for one in together] == [
        engine.search(query, "home", SearchOptions(limit=3)).results() for query in queries
    ]
    assert engine.searches == 6


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({"kinds": ("event",)}, {"tyre"}),
        ({"since": "2026-03-03"}, {"bread", "tea"}),
        ({"before": "2026-03-02"}, {"tyre"}),
        ({"confidence": 0.7}, {"tea"}),
        ({"conversation": "c0"}, {"pump", "tea"}),
        ({"time": "2026-03-02T12:00:00Z"}, {"tyre", "pump"}),
    ],
)
def test_options_restrict_a_search(engine, options, left):
    assert set(ids(engine.search("Ana's tea and tyre", "home", SearchOptions(**options)))) == left


def test_rankers_order_what_was_found(engine):
    for ranker, order in {
        "recency": ["tea", "bread", "pump", "tyre"],
        "confidence": ["tea", "bread", "pump", "tyre"],
    }.items():
        assert ids(engine.search("flat tyre", "home", SearchOptions(ranker=ranker))) == order
    assert ids(engine.search("flat tyre", "home", SearchOptions(ranker="recency", limit=1))) == ["tyre"]


WEIGHTS = [{}, {"similarity": 0.7, "recency": 0.2, "confidence": 0.1}, {"similarity": 0, "recency": 0}]


@pytest.mark.parametrize("by", ["text", "vector"])
@pytest.mark.parametrize("weights", WEIGHTS)
def test_the_ranking_of_the_specification_is_its_formula(engine, weights, by):
    options = SearchOptions(ranker="spec", settings=weights, time="2026-03-06T09:00:00Z")
    if by == "text":
        found = engine.search("flat tyre", "home", options)
    else:
        vector = engine._vectors.get(["flat tyre"])[0]
        found = engine.search_by_vector(vector, "home", options)
    w = {"similarity": 1, "recency": 1, "confidence": 1, **weights}
    age = dict(zip(TEXTS, (5, 4, 3, 2), strict=True))  # days
    cosine = {one["id"]: one["scores"]["retrieved.score"] for one in found.explained()}
    assert {one["memory"]["id"]: one["score"] for one in found.results()} == pytest.approx(
        {id_: max(value, 0) for id_, value in cosine.items()}, abs=1e-6
    )
    expected = {
        result["memory"]["id"]: w["similarity"] * cosine[result["memory"]["id"]]
        + w["recency"] / (1 + age[result["memory"]["id"]])
        + w["confidence"] * result["memory"]["confidence"]
        for result in found.results()
    }
    assert {one["id"]: one["ranking"] for one in found.explained()} == pytest.approx(expected, abs=1e-6)
    assert ids(found) == sorted(expected, key=expected.__getitem__, reverse=True)


def test_only_the_most_similar_are_ranked_by_the_specification(engine):
    (nearest,) = ids(engine.search("flat tyre", "home", SearchOptions(ranker="similarity", limit=1)))
    assert ids(engine.search("flat tyre", "home", SearchOptions(ranker="spec", limit=1))) == [nearest]


@pytest.mark.parametrize("settings", [{"recensy": 1}, {"recency": 11}, {"recency": "much"}, [1]])
def test_unknown_and_wrong_weights_are_refused(engine, settings):
    with pytest.raises(EngineError) as error:
        engine.search("flat tyre", "home", SearchOptions(ranker="spec", settings=settings))
    assert error.value.type == "validation_error"


def by_length(results):
    return [-len(one["memory"]["content"]) for one in results]


def newest_first(results):
    """As the specification's example of a custom ranker: the results in another order."""
    return sorted(results, key=lambda result: result["memory"]["created_at"], reverse=True)


@pytest.mark.parametrize(
    ("ranker", "order"),
    [(by_length, sorted(TEXTS, key=lambda id_: len(TEXTS[id_]))), (newest_first, ["tea", "bread", "pump", "tyre"])],
)
def test_a_ranker_is_registered_or_given_inline(engine, ranker, order):
    engine.register_ranker("mine", ranker)
    assert ids(engine.search("flat tyre", "home", SearchOptions(ranker="mine"))) == order
    assert ids(engine.search("flat tyre", "home", SearchOptions(ranker=ranker))) == order


def test_a_template_is_given_inline(engine):
    code = {"name": "code-focused", "header": "# Context\n\n", "memoryFormat": "## {{type}}\n{{content}}\n"}
    built = engine.build("flat tyre", "home", ContextOptions(template=code, limit=1))
    assert built.context == f"# Context\n\n## event\n{TEXTS['tyre']}\n"
    assert built.template == "code-focused"
    with pytest.raises(EngineError, match="contnt") as error:
        engine.build("flat tyre", "home", ContextOptions(template={"memory_format": "{{contnt}}"}))
    assert error.value.type == "validation_error"
    with pytest.raises(EngineError, match="memory_format is missing") as error:
        engine.build("flat tyre", "home", ContextOptions(template={}))
    assert error.value.type == "validation_error"


@pytest.mark.parametrize(
    ("ranker", "said"),
    [
        (lambda results: [1.0], r"4 numbers, one per item; got an array of shape \(1,\)"),
        (lambda results: [1.0, float("nan"), *[1.0] * 2], "got nan for item 2"),
        (lambda results: [dict(one) for one in results], "<lambda> failed for query 'query 1': TypeError"),
        (lambda results: 1 / 0, "<lambda> failed for query 'query 1': ZeroDivisionError"),
    ],
)
def test_a_ranker_that_fails_is_an_error(engine, ranker, said):
    engine.register_ranker("odd", ranker)
    with pytest.raises(EngineError, match=said) as error:
        engine.search("flat tyre", "home", SearchOptions(ranker="odd"))
    assert error.value.type == "search_error"


def test_relationships_bring_in_what_a_result_is_related_to(engine):
    options = SearchOptions(limit=1, relationships=True)
    (found,) = engine.search("flat tyre", "home", options).results()
    (related,) = found["relationships"]
    assert related["memory"]["id"] == "pump"
    assert (related["relationship"], related["depth"], related["path"]) == ("mended_with", 1, ["tyre", "pump"])


def test_an_updated_memory_is_found_in_its_last_version_and_the_earlier_as_of_then(store, engine):
    store.update("home", "tea", at="2026-04-01T00:00:00Z", content="Ben drinks black tea with milk.")
    assert "black tea" in engine.search("what tea does Ben drink", "home", SearchOptions(limit=1)).contents[0]
    then = SearchOptions(limit=1, time="2026-03-20T00:00:00Z")
    assert "green tea" in engine.search("what tea does Ben drink", "home", then).contents[0]


def test_as_of_an_earlier_time_what_was_related_then_is(store, engine):
    store.update("home", "pump", content="The pump was lent to Eva.", at="2026-03-20")
    for time, version in (("2026-03-19", 1), ("2026-03-20", 2)):
        found = engine.search("flat tyre", "home", SearchOptions(limit=1, relationships=True, time=time)).results()
        assert [(one["memory"]["id"], one["memory"]["version"]) for one in found[0]["relationships"]] == [
            ("pump", version)
        ]


def test_what_a_search_may_not_see_moves_no_score(store, engine):
    """How rare a word is, too, is counted over what is seen: nobody learns of others' memories by the scores."""
    then = SearchOptions(time="2026-03-10T09:00:00Z", user="ana")

    before = engine.search("flat tyre", "home", then).explained()
    assert "turn.near" in before[0]["scores"]
    for n in range(5):
        store.insert(Memory(id=f"ben{n}", workspace="home", content="A flat tyre, again.", user="ben"))
        store.insert(Memory(id=f"late{n}", workspace="home", content="Flat, flat, flat.", created="2026-03-20"))
    store.update("home", "tea", content="Ben's tyre is flat.")  # only now
    assert engine.search("flat tyre", "home", then).explained() == before


def test_a_context_is_rendered_by_its_template(engine):
    built = engine.build("flat tyre", "home", ContextOptions(limit=1))
    assert built.context == f"Relevant context from past conversations:\n\n- {TEXTS['tyre']}\n"
    said = built.as_dict()
    assert (said["template"], said["truncated"], said["counter"]) == ("chat", False, "chars/4")
    assert said["tokenCount"] == -(-len(built.context) // 4)
    detailed = engine.build("flat tyre", "home", ContextOptions(limit=1, template="detailed")).context
    assert "[event]" in detailed
    assert "confidence: 0.2" in detailed


def test_what_is_given_out_can_be_changed_without_changing_what_is_kept(store, engine):
    said = {"tags": ["sweet"]}
    store.insert(Memory(id="honey", workspace="home", content="A jar of honey.", metadata=said))
    engine.search("honey", "home").results()[0]["memory"]["metadata"]["tags"].append("sticky")
    assert store.catalog("home")[-1].metadata == {"tags": ["sweet"]}
    store.catalog("home")[-1].metadata["tags"].append("sticky")
    assert store.get("home", "honey").metadata == {"tags": ["sweet"]}


def test_what_was_found_is_told_in_a_line(engine):
    assert repr(engine.search("green tea", "home", SearchOptions(limit=1))) == "FoundMemories(['tea'])"
    assert repr(engine.build("green tea", "home", ContextOptions(limit=1))) == "BuiltContext(['tea'])"


@pytest.mark.parametrize("budget", range(1, 80, 7))
def test_the_budget_is_never_exceeded_and_what_it_kept_out_is_told(engine, budget):
    built = engine.build("flat tyre", "home", ContextOptions(budget=budget))
    assert built.tokens <= budget
    assert built.truncated == (budget < 57)
    assert 0 <= built.preview()["budgetUsed"] <= 100


def test_a_preview_is_the_build_and_tells_scores(engine):
    options = ContextOptions(limit=3)
    built, preview = engine.build("flat tyre", "home", options), engine.preview("flat tyre", "home", options)
    assert preview.as_dict() == built.as_dict()
    said = preview.preview()
    assert said["memoryIds"] == ids(built)
    assert list(said["rankingScores"].values()) == sorted(said["rankingScores"].values(), reverse=True)


def test_a_context_of_a_vector(engine):
    (vector,) = engine._vectors.get(["flat tyre"])
    assert TEXTS["tyre"] in engine.build_by_vector(vector, "home").context


def test_a_template_of_ones_own(engine):
    engine.register_template("plain", {"memory_format": "* {{content}}", "separator": "; "})
    built = engine.build("flat tyre", "home", ContextOptions(limit=2, template="plain"))
    assert built.context.startswith(f"* {TEXTS['tyre']}; * ")
    assert built.template == "plain"


def test_a_memory_is_never_expanded(store, engine):
    store.insert(Memory(id="odd", workspace="home", content="The flat tyre costs {{score}} crowns."))
    assert "{{score}} crowns" in engine.build("flat tyre costs", "home").context


@pytest.mark.parametrize(
    ("call", "type_", "says"),
    [
        (lambda e: e.search("tyre", "hoem"), "validation_error", "home"),
        (lambda e: e.search("  ", "home"), "validation_error", "blank"),
        (lambda e: e.search("tyre", "home", SearchOptions(ranker="recent")), "validation_error", "recency"),
        (lambda e: e.search("tyre", "home", SearchOptions(since="soon")), "validation_error", "ISO 8601"),
        (lambda e: e.search("tyre", "home", SearchOptions(time="soon")), "validation_error", "ISO 8601"),
        (lambda e: e.search_by_vector([0.5, 0.5], "home"), "validation_error", "2 dimensions"),
        (lambda e: e.search_by_vector([float("nan")] * 256, "home"), "validation_error", "vector"),
        (lambda e: e.build("tyre", "home", ContextOptions(template="chats")), "template_not_found", "chat"),
        (lambda e: e.register_template("x", {"memory_format": "{{text}}"}), "validation_error", "content"),
        (lambda e: e.register_ranker("default", len), "validation_error", "default"),
    ],
)
def test_what_is_wrong_is_told_by_its_type(engine, call, type_, says):
    with pytest.raises(EngineError, match=says) as error:
        call(engine)
    assert error.value.type == type_


def test_an_embedder_of_other_dimensions_is_refused(store):
    with pytest.raises(EngineError, match="256 dimensions, expected 384") as error:
        engine_over(store, dimensions=384)
    assert error.value.type == "validation_error"


def test_an_embedder_that_fails_is_no_empty_answer(store):
    def fails(texts):
        raise RuntimeError("no power")

    with pytest.raises(EngineError, match="no power") as error:
        engine_over(store, embedder=fails).search("tyre", "home")
    assert error.value.type == "embedding_error"


def test_a_store_that_fails_is_no_empty_answer(tmp_path):
    store = filled(SqliteStore(tmp_path / "memories.sqlite"))
    engine = engine_over(store)
    store.close()
    (tmp_path / "memories.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(EngineError) as error:
        engine.search("tyre", "home")
    assert error.value.type == "storage_error"


def test_what_is_in_the_context_is_among_its_memories_also_where_what_led_to_it_is_left_out(engine):
    options = ContextOptions(limit=1, relationships=True, ranker="recency", budget=23)
    built = engine.build("flat tyre", "home", options)
    assert TEXTS["pump"] in built.context  # the newer one, which a relationship brought in
    assert TEXTS["tyre"] not in built.context
    assert ids(built) == built.preview()["memoryIds"] == ["pump"]
    assert built.truncated


@pytest.mark.parametrize("given", [{"limit": 0}, {"limit": 101}, {"depth": 6}, {"depth": 0}])
def test_options_out_of_range_are_validation_errors(given):
    with pytest.raises(EngineError, match=next(iter(given))) as error:
        SearchOptions(**given)
    assert error.value.type == "validation_error"


@pytest.mark.parametrize("ranker", ["default", "similarity", "recency"])
def test_as_many_are_found_as_may_be_asked_for(store, ranker):
    store.insert_many(Memory(id=f"m{n}", workspace="work", content=f"Note {n} on tyres.") for n in range(120))
    found = engine_over(store).search("tyres", "work", SearchOptions(limit=100, ranker=ranker))
    assert len(found.results()) == 100


ODD = {
    "kinds": ["fact", ("fact", 1), None],
    "limit": ["3", None, 2.5, True],
    "depth": [None, "2"],
    "time": [20250101],
    "since": [2025],
    "relationships": ["no", None],
    "user": [5],
    "conversation": [7],
    "confidence": ["high", float("nan")],
    "ranker": [None],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in ODD.items() for value in values])
@pytest.mark.parametrize("options", [SearchOptions, ContextOptions])
def test_options_of_another_type_are_validation_errors(options, name, value):
    with pytest.raises(EngineError, match=f"{name} must be") as error:
        options(**{name: value})
    assert error.value.type == "validation_error"


def test_a_list_of_kinds_is_one_too(engine):
    assert ids(engine.search("flat tyre", "home", SearchOptions(kinds=["event"]))) == ["tyre"]


def test_a_budget_of_nothing_is_a_validation_error():
    with pytest.raises(EngineError, match="budget") as error:
        ContextOptions(budget=0)
    assert error.value.type == "validation_error"


def test_a_template_of_ones_own_cannot_take_the_name_of_another(engine):
    with pytest.raises(EngineError, match="chat") as error:
        engine.register_template("chat", {"memory_format": "{{content}}"})
    assert error.value.type == "validation_error"


def test_vectors_that_were_made_before_are_made_by_no_search(engine, store, tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "vectors"))
    engine, told = engine_over(store), []
    engine.progress = lambda *n: told.append(n)
    assert engine.embed("home") == len(TEXTS)
    assert told[-1] == (len(TEXTS), len(TEXTS))
    assert engine.embed("home") == 0
    engine.search("flat tyre", "home")
    assert engine._resources.stats.embedded == len(TEXTS)


def test_every_candidate_is_explained_by_its_scores_and_what_left_it_out(engine):
    first, *others = engine.search("flat tyre", "home", SearchOptions(limit=1)).explained()
    assert (first["id"], first["rule"]) == ("tyre", None)
    assert {"bm25", "dense", "similarity.score", "turn.near"} <= first["scores"].keys()
    assert all(one["rule"] == "beyond the first n=1" for one in others)
    assert [one["ranking"] for one in others] == sorted((one["ranking"] for one in others), reverse=True)


def test_the_default_ranker_is_the_selector_memory_whatever_the_memories_lack(store, engine):
    store.create_workspace("bare")
    for id_, content in TEXTS.items():
        store.insert(Memory(id=id_, workspace="bare", content=content))
    found = engine.search("flat tyre", "bare")
    assert ids(found)[0] == "tyre"
    shipped = definition("memory")
    weights = shipped.pipeline(shipped.values()).refine[0].call.weights
    assert set(weights) <= set(found.outcome.candidates.columns)
    assert all(0 <= result["score"] <= 1 for result in found.results())


def test_a_vector_without_a_text_is_ranked_by_similarity_alone(engine):
    (vector,) = engine._vectors.get(["flat tyre"])
    by_vector = engine.search_by_vector(vector, "home")
    assert ids(by_vector) == ids(engine.search("flat tyre", "home", SearchOptions(ranker="similarity")))
    scores = {one["memory"]["id"]: one["score"] for one in by_vector.results()}
    assert list(scores.values()) == sorted(scores.values(), reverse=True)
    newest = engine.search_by_vector(vector, "home", SearchOptions(ranker="recency"))
    assert ids(newest) == ["tea", "bread", "pump", "tyre"]
    assert {one["memory"]["id"]: one["score"] for one in newest.results()} == scores
