from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest

from ctxbench import testing
from ctxbench.io.errors import ParameterError
from ctxbench.model.candidates import Origin
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Request, SessionItem
from ctxbench.model.selection import selections
from ctxbench.model.strategies import Merge
from ctxbench.pipelines.pipeline import Pipeline, PipelineError
from ctxbench.pipelines.strategies.retrieve import Bm25, Dense
from ctxbench.search.embedders import EmbedderIdentity, HashingEmbedder, Vectors
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import CharsCounter

FIRST = {"first": {"n": 1}}
BATCH = Batch.of(testing.mock_catalog(), testing.mock_requests())


def faults_of(spec) -> list[tuple[str, str]]:
    with pytest.raises(PipelineError) as caught:
        Pipeline.of(spec)
    return [(".".join(map(str, fault.path)), fault.message) for fault in caught.value.faults]


def only_fault_of(spec) -> tuple[str, str]:
    (fault,) = faults_of(spec)
    return fault


def chosen_ids(pipeline: Pipeline, batch: Batch, resources=None) -> list[list[str]]:
    outcome = pipeline.run(batch, resources or testing.mock_resources())
    return [[one.id for one in selection.chosen] for selection in selections(outcome.query, outcome.candidates)]


class TestSpecification:
    def test_what_is_not_given_has_its_default(self):
        described = Pipeline.of({"retrieve": "dense"}).describe()
        assert described == {
            "analyse": {"step": "analyse:sentences", "version": 1, "limit": 500, "rule": "original"},
            "retrieve": {
                "step": "retrieve:dense",
                "version": 1,
                "depth": 100,
                "original": False,
                "chunks": "paragraphs",
                "split_tools": False,
                "over_queries": "max",
                "over_chunks": "max",
                "top": None,
            },
            "refine": [],
            "format": {"step": "format:messages", "version": 1, "system": ""},
        }

    def test_a_step_is_a_name_or_one_name_with_its_parameters(self):
        specs = ["dense", {"dense": None}, {"dense": {}}, {"dense": {"depth": 100}}]
        made = [Pipeline.of({"retrieve": spec}).describe() for spec in specs]
        assert made == [made[0]] * 4

    @pytest.mark.parametrize(
        ("spec", "path", "message"),
        [
            ([], "", "must be a mapping of analyse, retrieve, refine, format, got []"),
            ({}, "", "a pipeline needs a retrieve stage"),
            ({"retrieve": "dense", "refien": []}, "refien", "a pipeline has no stage 'refien'; did you mean 'refine'"),
            ({"retrieve": "dense", 3: []}, "3", "a pipeline has no stage 3"),
            ({"retrieve": "dens"}, "retrieve", "unknown retrieve strategy 'dens'; did you mean 'dense'"),
            ({"retrieve": None}, "retrieve", "expected a name, or one name with its parameters"),
            ({"retrieve": {"dense": {}, "bm25": {}}}, "retrieve", "expected a name, or one name"),
            ({"retrieve": {"dense": [1]}}, "retrieve", "expected a name, or one name"),
            ({"retrieve": {"dense": {"dept": 5}}}, "retrieve.dense", "dense has no parameter 'dept'; did you mean"),
            ({"retrieve": {"dense": {5: 5}}}, "retrieve.dense", "dense has no parameter 5"),
            ({"retrieve": {"dense": {"depth": "5"}}}, "retrieve.dense", "depth must be a whole number, got '5'"),
            ({"retrieve": {"dense": {"depth": 0}}}, "retrieve.dense", "depth must be 1 or more, got 0"),
            ({"retrieve": "dense", "analyse": "dense"}, "analyse", "unknown analyse strategy 'dense'"),
            ({"retrieve": "dense", "refine": "first"}, "refine", "must be a list of steps, got 'first'"),
            ({"retrieve": "dense", "refine": ["frist"]}, "refine.0", "unknown refine strategy 'frist'; did you mean"),
            ({"retrieve": "dense", "refine": ["first", {"first": {"n": -1}}]}, "refine.1.first", "n must be 0 or more"),
            ({"retrieve": "dense", "format": "message"}, "format", "unknown format strategy 'message'; did you mean"),
        ],
    )  # fmt: skip
    def test_what_is_wrong_is_said_with_its_place(self, spec, path, message):
        found = only_fault_of(spec)
        assert found[0] == path
        assert found[1].startswith(message)

    def test_everything_wrong_is_said_at_once(self):
        spec = {"analyse": "x", "retrieve": "y", "refine": ["z", {"first": {"n": 1.5}}], "format": "w", "v": 1}
        assert [path for path, _ in faults_of(spec)] == [
            "v",
            "analyse",
            "retrieve",
            "refine.0",
            "refine.1.first",
            "format",
        ]

    @pytest.mark.parametrize("cut", [{"standard": {"topK": 11}}, {"first": {"n": 11}}])
    def test_a_step_cannot_look_beyond_what_is_found(self, cut):
        spec = {"retrieve": {"dense": {"depth": 10}}, "refine": [cut]}
        path, message = only_fault_of(spec)
        assert (path, message.key) == ("retrieve", "pipelines.depth-below-reach")
        spec["retrieve"]["dense"]["depth"] = 11
        assert Pipeline.of(spec)

    def test_the_shallowest_source_and_steps_inside_domains_count(self):
        merge = {"merge": {"a": {"dense": {"depth": 50}}, "b": {"bm25": {"depth": 9}}}}
        deep = [{"by_domain": {"tool": [{"first": {"n": 10}}], "*": []}}]
        assert only_fault_of({"retrieve": merge, "refine": deep})[1].startswith("ranks the best 9 items (depth)")

    def test_what_ranks_nothing_limits_nothing(self):
        assert Pipeline.of({"retrieve": "everything", "refine": [{"first": {"n": 1000}}]})


class TestAnalyses:
    def test_the_chunks_of_all_by_request_in_order(self):
        spec = {"analyse": ["whole", "sentences"], "retrieve": "dense"}
        batch = Batch.of(
            BATCH.catalog, [Request(id="a", text="One. Two"), Request(id="b", text=" "), Request(id="c", text="Three")]
        )
        query = Pipeline.of(spec).run(batch, testing.mock_resources()).query
        assert [query.chunks(row) for row in range(3)] == [("One. Two", "One", "Two"), (), ("Three", "Three")]
        assert query.weight.tolist() == [1.0] * 5

    def test_one_in_a_list_answers_as_alone(self):
        alone, listed = (Pipeline.of({"analyse": a, "retrieve": "dense"}) for a in ("whole", ["whole"]))
        one, other = (pipeline.run(BATCH, testing.mock_resources()).candidates for pipeline in (alone, listed))
        assert one.score.tolist() == other.score.tolist() or np.array_equal(one.score, other.score, equal_nan=True)

    @pytest.mark.parametrize(
        ("spec", "path", "message"),
        [
            ([], "analyse", "the list of analyses is empty"),
            (["whole", "hole"], "analyse.1", "unknown analyse strategy 'hole'; did you mean 'whole'"),
        ],
    )
    def test_faults(self, spec, path, message):
        where, what = only_fault_of({"analyse": spec, "retrieve": "dense"})
        assert where == path
        assert what.startswith(message)


class TestMerge:
    def test_a_source_is_named_by_its_strategy_or_by_hand(self):
        of_list = Pipeline.of({"retrieve": {"merge": ["dense", {"bm25": {"k1": 2.0}}]}}).retrieve
        of_names = Pipeline.of({"retrieve": {"merge": {"dense": "dense", "bm25": {"bm25": {"k1": 2.0}}}}}).retrieve
        assert of_list == of_names
        assert isinstance(of_list, Merge)
        assert of_list.sources["bm25"].call == Bm25(k1=2.0)

    @pytest.mark.parametrize(
        ("retrieve", "refine", "path", "message"),
        [
            (
                {"merge": ["dense", "bm25"]},
                [{"weighted": {"weights": {"dense": 0.5, "bm52": 0.5}}}],
                "refine.0.weighted",
                "names the sources bm52, dense, but the retriever has bm25, dense",
            ),
            (
                "dense",
                [{"by_domain": {"tool": [{"weighted": {"weights": {"dense": 1.0}}}], "*": []}}],
                "refine.0.by_domain.tool.0.weighted",
                "names the sources dense, but the retriever has none",
            ),
        ],
    )
    def test_a_step_names_the_sources_that_there_are(self, retrieve, refine, path, message):
        assert only_fault_of({"retrieve": retrieve, "refine": refine}) == (path, message)

    @pytest.mark.parametrize(
        "refine",
        [
            [FIRST, "expansion", "rrf"],
            [{"by_domain": {"*": ["expansion"]}}, FIRST, {"weighted": {}}],
            ["expansion", {"by_domain": {"tool": ["rrf"], "*": []}}],
        ],
    )
    def test_a_rank_step_may_stand_behind_an_expansion(self, refine):
        assert Pipeline.of({"retrieve": {"merge": ["dense", "bm25"]}, "refine": refine})

    def test_one_domain_may_expand_where_another_ranks(self):
        domains = {"tool": ["expansion"], "*": ["rrf"]}
        assert Pipeline.of({"retrieve": {"merge": ["dense", "bm25"]}, "refine": [{"by_domain": domains}]})

    @pytest.mark.parametrize("name", ["a.b", "searched", ""])
    def test_a_source_is_not_called_as_what_columns_are_read_by(self, name):
        path, message = only_fault_of({"retrieve": {"merge": {name: "bm25", "dense": "dense"}}})
        assert path == f"retrieve.merge.{name}"
        assert message.startswith(f"a source cannot be called {name!r}")

    def test_the_same_source_twice_needs_names(self):
        twice = [{"bm25": {"k1": 1.0}}, {"bm25": {"k1": 2.0}}, "dense"]
        path, message = only_fault_of({"retrieve": {"merge": twice}})
        assert (path, message) == ("retrieve.merge", "two sources are called 'bm25'; write `name: retriever` for each")
        assert Pipeline.of({"retrieve": {"merge": {"one": twice[0], "two": twice[1]}}})

    @pytest.mark.parametrize("merge", [{"merge": ["dense"]}, {"merge": []}, {"merge": "dense"}])
    def test_it_needs_two_sources(self, merge):
        assert only_fault_of({"retrieve": merge}) == (
            "retrieve.merge", "merge needs at least two retrievers, as a list or by name",
        )  # fmt: skip

    def test_a_wrong_source_is_named(self):
        found = faults_of({"retrieve": {"merge": {"a": "dens", "b": {"bm25": {"k1": -1.0}}}}})
        assert [path for path, _ in found] == ["retrieve.merge.a", "retrieve.merge.b.bm25"]

    def test_each_source_is_a_column_and_the_best_score_counts(self):
        alone = {
            name: Pipeline.of({"retrieve": name}).run(BATCH, testing.mock_resources()) for name in ("dense", "bm25")
        }
        table = Pipeline.of({"retrieve": {"merge": ["dense", "bm25"]}}).run(BATCH, testing.mock_resources()).candidates
        found = table.origin == Origin.SEARCH
        for name, outcome in alone.items():
            scores = dict(_scores(outcome.candidates))
            keys = list(zip(table.request[found].tolist(), table.item[found].tolist(), strict=True))
            wanted = [scores.get(key, np.nan) for key in keys]
            assert np.array_equal(table.columns[name][found], wanted, equal_nan=True)
        best = np.fmax(table.columns["dense"], table.columns["bm25"])[found]
        assert np.array_equal(table.score[found], best)

    def test_sources_in_another_order_are_another_step(self):
        one, other = (
            Pipeline.of({"retrieve": {"merge": {name: name for name in names}}})
            for names in (("dense", "bm25"), ("bm25", "dense"))
        )
        assert one.describe() != other.describe()
        memo: dict = {}
        for pipeline in (one, other):
            pipeline.run(BATCH, testing.mock_resources(), memo=memo)
        assert len(memo) == 3  # one analysis and two retrievals


def _scores(table):
    found = table.origin == Origin.SEARCH
    keys = zip(table.request[found].tolist(), table.item[found].tolist(), strict=True)
    return zip(keys, table.score[found].tolist(), strict=True)


class TestByDomain:
    def test_each_domain_has_its_own_cut(self):
        spec = {
            "retrieve": "dense",
            "refine": [{"by_domain": {"tool": [{"first": {"n": 2}}], "rule, reference": [FIRST], "*": []}}],
        }
        batch = BATCH.take([0])
        outcome = Pipeline.of(spec).run(batch, testing.mock_resources())
        whole = Pipeline.of({"retrieve": "dense"}).run(batch, testing.mock_resources()).candidates
        assert np.array_equal(outcome.candidates.item, whole.item)
        (selection,) = selections(outcome.query, outcome.candidates)
        chosen = Counter(one.id.split(":")[0] for one in selection.chosen if one.origin == "search")
        ranked = [batch.catalog[item].type for item in whole.item[whole.origin == Origin.SEARCH]]
        others = sum(kind not in ("tool", "rule", "reference") for kind in ranked)
        assert chosen["tool"] == 2
        assert chosen["rule"] + chosen["reference"] == 1
        assert sum(chosen.values()) == 3 + others
        first_tool = next(one for one in selection.left_out if one.id.startswith("tool"))
        assert str(first_tool.rule) == "beyond the first n=2"

    def test_session_items_pass_through(self):
        spec = {
            "retrieve": "dense",
            "refine": [{"by_domain": {"tool": [{"first": {"n": 0}}], "*": [{"first": {"n": 0}}]}}],
        }
        row = BATCH.ids.index("session")
        (ids,) = chosen_ids(Pipeline.of(spec), BATCH.take([row]))
        assert sorted(ids) == ["rule:by%20hand", "rule:twin", "tool:tracker:create_issue"]

    def test_a_domain_sees_the_session_items_of_its_types(self):
        catalog = Catalog([Item(type=kind, name=name) for kind in ("rule", "tool") for name in ("tea", "tea too")])
        session = (SessionItem(catalog[0].key),)
        batch = Batch.of(catalog, [Request(id="q", text="tea", session=session)])

        def chosen(*steps):
            spec = {"retrieve": "dense", "refine": [{"by_domain": {"rule": [*steps], "*": [*steps]}}]}
            return chosen_ids(Pipeline.of(spec), batch, testing.mock_resources())[0]

        leads = {"expansion": {"threshold": 0.1, "session": True}}
        assert sorted(chosen({"first": {"n": 0}}, leads)) == ["rule:tea", "rule:tea%20too"]
        budget = {"tokens": 3, "session": True}  # each rule is 2 tokens, and the session holds one of them
        assert testing.mock_resources().tokens(catalog)[:2].tolist() == [2, 2]
        assert [one for one in chosen({"budget": budget}) if one.startswith("rule")] == ["rule:tea"]

    def test_a_session_item_of_no_domain_is_none_of_their_business(self):
        catalog = Catalog([Item(type="rule", name="a"), Item(type="tool", name="b")])
        batch = Batch.of(
            catalog, [Request(id="q", text="b", session=(SessionItem(catalog[0].key),), available=(catalog[1].key,))]
        )
        pipeline = Pipeline.of({"retrieve": "dense", "refine": [{"by_domain": {"tool": [FIRST]}}]})
        assert chosen_ids(pipeline, batch, testing.mock_resources()) == [["rule:a", "tool:b"]]

    def test_a_type_in_no_domain_is_an_error(self):
        pipeline = Pipeline.of({"retrieve": "everything", "refine": [{"by_domain": {"tool": []}}]})
        with pytest.raises(ParameterError, match="chunk, file, memory, message, reference, rule belong to no domain"):
            pipeline.run(BATCH, testing.mock_resources())

    def test_a_domain_may_hold_domains(self):
        inner = {"by_domain": {"rule": [{"first": {"n": 1}}], "reference": [{"first": {"n": 0}}]}}
        spec = {
            "retrieve": "dense",
            "refine": [{"by_domain": {"rule, reference": [inner], "*": [{"first": {"n": 0}}]}}],
        }
        (ids,) = chosen_ids(Pipeline.of(spec), BATCH.take([BATCH.ids.index("empty session")]))
        assert ids == ["rule:twin"]

    @pytest.mark.parametrize(
        ("domains", "path", "message"),
        [
            ([], "refine.0.by_domain", "must map item types"),
            ({}, "refine.0.by_domain", "must map item types"),
            ({"tols": []}, "refine.0.by_domain.tols", "no item type is called 'tols'; did you mean 'tool'"),
            ({"tool": None}, "refine.0.by_domain.tool", "must be a list of steps, got None"),
            ({"tool": [{"first": {"n": "x"}}]}, "refine.0.by_domain.tool.0.first", "n must be a whole number, got 'x'"),
            ({"tool, rule": [], "rule": []}, "refine.0.by_domain.rule", "'rule' belongs to an earlier domain"),
            ({"*": [], "rule": []}, "refine.0.by_domain.rule", "'rule' belongs to an earlier domain"),
        ],
    )
    def test_what_is_wrong_is_said_with_its_place(self, domains, path, message):
        found = only_fault_of({"retrieve": "dense", "refine": [{"by_domain": domains}]})
        assert found[0] == path
        assert found[1].startswith(message)

    def test_nothing_and_one(self):
        pipeline = Pipeline.of({"retrieve": "dense", "refine": [{"by_domain": {"*": [{"first": {"n": 1}}]}}]})
        assert chosen_ids(pipeline, Batch.of(Catalog([]), [Request(id="q", text="x")])) == [[]]
        one = Catalog([Item(type="rule", name="x")])
        assert chosen_ids(pipeline, Batch.of(one, [Request(id="q", text="x")])) == [["rule:x"]]


class Counting(HashingEmbedder):
    """The hashing embedder, counting the texts it is asked for; the model's name can be chosen."""

    def __init__(self, model: str = "hashing") -> None:
        super().__init__()
        self._identity = EmbedderIdentity(model, "1", "ctxbench", "float32", 256)
        self.texts: Counter[str] = Counter()

    def embed(self, texts, *, on_done=None):
        self.texts.update(texts)
        return super().embed(texts, on_done=on_done)


@pytest.fixture
def retrievals(monkeypatch):
    """How often the dense retriever ran."""
    seen: list[Batch] = []
    real = Dense.__call__

    def counted(self, query, resources):
        seen.append(query.batch)
        return real(self, query, resources)

    monkeypatch.setattr(Dense, "__call__", counted)
    return seen


def with_cut(n: int, **dense) -> Pipeline:
    return Pipeline.of({"retrieve": {"dense": dense}, "refine": [{"first": {"n": n}}]})


class TestSharedPrefixes:
    def test_pipelines_that_differ_in_their_cut_embed_and_score_once(self, retrievals):
        embedder = Counting()
        resources = LocalResources(Vectors(embedder, None), CharsCounter())
        memo: dict = {}
        shared = [with_cut(n).run(BATCH, resources, memo=memo).candidates for n in (1, 2, 3)]
        assert len(retrievals) == 1
        assert set(embedder.texts.values()) == {1}
        alone = [with_cut(n).run(BATCH, testing.mock_resources()).candidates for n in (1, 2, 3)]
        for one, other in zip(shared, alone, strict=True):
            assert one.rules == other.rules
            for name in ("start", *one.row_arrays()):
                assert np.array_equal(getattr(one, name), getattr(other, name), equal_nan=name == "score"), name

    def test_without_a_memo_nothing_is_shared(self, retrievals):
        resources = testing.mock_resources()
        for _ in range(2):
            with_cut(1).run(BATCH, resources)
        assert len(retrievals) == 2

    def test_what_differs_is_never_shared(self, retrievals):
        memo: dict = {}
        resources = testing.mock_resources()
        with_cut(1).run(BATCH, resources, memo=memo)
        catalog = Catalog([dataclasses.replace(BATCH.catalog[0], description="edited"), *BATCH.catalog[1:]])
        request = dataclasses.replace(BATCH.requests[0], available=(BATCH.catalog[0].key,))
        others = [
            (with_cut(1), Batch.of(catalog, BATCH.requests), resources),
            (with_cut(1), BATCH.take(range(len(BATCH) - 1)), resources),
            (with_cut(1), Batch.of(BATCH.catalog, [request, *BATCH.requests[1:]]), resources),
            (with_cut(1), BATCH, LocalResources(Vectors(Counting("other"), None), CharsCounter())),
            (with_cut(1, depth=99), BATCH, resources),
            (dataclasses.replace(with_cut(1), analyse=Pipeline.of({"retrieve": "dense", "analyse": "whole"}).analyse),
             BATCH, resources),
        ]  # fmt: skip
        for count, (pipeline, batch, used) in enumerate(others, start=2):
            pipeline.run(batch, used, memo=memo)
            assert len(retrievals) == count

    def test_what_is_equal_is_shared_though_it_was_built_anew(self, retrievals):
        memo: dict = {}
        with_cut(1).run(BATCH, testing.mock_resources(), memo=memo)
        again = Batch.of(testing.mock_catalog(), testing.mock_requests())
        with_cut(1).run(again, testing.mock_resources(), memo=memo)
        assert len(retrievals) == 1

    def test_a_new_version_of_a_step_is_not_shared(self, retrievals, monkeypatch):
        memo: dict = {}
        with_cut(1).run(BATCH, testing.mock_resources(), memo=memo)
        monkeypatch.setattr(Dense, "version", 2, raising=False)
        with_cut(1).run(BATCH, testing.mock_resources(), memo=memo)
        assert len(retrievals) == 2

    def test_domains_in_another_order_are_another_step(self):
        def made(*names: str) -> dict:
            domains = {name: [{"first": {"n": 1}}] for name in names}
            return Pipeline.of({"retrieve": "dense", "refine": [{"by_domain": domains}]}).describe()

        assert made("tool", "rule")["refine"][0]["domains"] == list(
            reversed(made("rule", "tool")["refine"][0]["domains"])
        )


def test_the_key_of_a_batch_is_that_of_its_contents():
    assert BATCH.key == Batch.of(testing.mock_catalog(), testing.mock_requests()).key
    assert BATCH.key != BATCH.take([1, 0, *range(2, len(BATCH))]).key
    assert BATCH.take([]).key != Batch.of(Catalog([]), []).key


def test_a_session_stands_before_what_is_found():
    outcome = Pipeline.of({"retrieve": "dense"}).run(BATCH, testing.mock_resources())
    (selection,) = selections(outcome.query, outcome.candidates)[:1]
    assert [(one.id, one.mode, one.score) for one in selection.chosen[:1]] == [("rule:tone", "always", None)]
    assert {one.origin for one in selection.chosen[1:]} == {"search"}


def test_prompts_are_those_of_the_outcome():
    pipeline = with_cut(1)
    outcome = pipeline.run(BATCH, testing.mock_resources())
    prompts = pipeline.prompts(outcome, testing.mock_resources())
    assert len(prompts) == len(BATCH)
    assert prompts[0].messages == [("user", "Rule: Be brief. Say what is known."), ("user", BATCH.requests[0].text)]
    assert [tool["name"] for tool in prompts[0].tools] == ["create_issue"]
