"""Every built-in strategy runs the conformance suite, and the suite finds each kind of fault where there is one."""

from __future__ import annotations

import dataclasses
import itertools
import subprocess
import sys

import numpy as np
import pytest

from ctxbench.io.errors import ParameterError, UnknownNameError, UserError
from ctxbench.model import registry
from ctxbench.model.candidates import Candidates
from ctxbench.model.items import ITEM_TYPES, Catalog
from ctxbench.model.requests import Batch
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.search.embedders import HashingEmbedder
from ctxbench.selectors.callable import CallableSource
from ctxbench.selectors.external import External
from ctxbench.selectors.selector import Answers, PipelineSelector
from ctxbench.testing import (
    ConformanceError,
    check_selector,
    check_step,
    conformance,
    mock_catalog,
    mock_requests,
    mock_resources,
)
from ctxbench.testing.conformance import process_faults
from ctxbench.testing.contract import MixingEmbedder, resized

KINDS = ("analyse", "retrieve", *registry.REFINE_KINDS, "format")
BUILT_IN = [(kind, name) for kind in KINDS for name in sorted(registry._BUILT_IN[kind])]
PARAMETERS = {
    "dense": [
        {"original": True},
        {"depth": 3},
        {"chunks": {"windows": {"size": 5, "overlap": 2}}, "split_tools": True},
        {"over_queries": "mean", "over_chunks": "top", "top": 2},
        {"bodies": True},
    ],
    "bm25": [
        {"k1": 0.0, "b": 1.0, "depth": 2},
        {"variant": "bm25+", "words": "plain", "stop": False, "stem": False, "server": False},
        {"variant": "robertson", "bodies": True},
        {"bodies": True, "parameters": True},
    ],
    "bm25f": [{"weights": {"name": 0.0}, "b": {"text": 0.0}, "k1": 0.0, "depth": 2}],
    "full_text": [
        {"n": 3, "types": ["rule", "reference", "file"]},
        {"words": "all", "of": "keywords", "types": ["file", "message"]},
    ],
    "similar": [
        {"n": 2, "threshold": 0.0, "types": ["rule", "reference", "file", "tool"]},
        {"measure": "word_similarity", "threshold": 0.1, "types": ["file", "tool"]},
    ],
    "fuzzy": [{"threshold": 0.0, "near": 0.0, "fields": ["name", "description"], "depth": 2}],
    "servers": [{"servers": 1}, {"servers": 2, "pool": "top", "top": 2, "depth": 3}, {"servers": 2, "pool": "mean"}],
    "random": [{"seed": 7, "depth": 3}],
    "thread": [{"n": 1}],
    "recent": [{"n": 1, "types": []}, {"n": 2, "types": ["tool", "file"]}],
    "standard": [{"topK": 3, "topN": 2, "includeScore": 0.1}, {"topK": 0}, {"topN": 0, "includeScore": -1.0}],
    "top_chunks": [{"topK": 3}, {"topK": 0}],
    "first": [{"n": 0}, {"n": 1}],
    "margin": [{"margin": 0.3, "of": "ratio", "at_least": 2, "at_most": 4}, {"margin": 0.0}, {"at_most": 0}],
    "gap": [{"at_least": 2, "at_most": 3}, {"at_most": 1}],
    "per_chunk": [{"minimum": 2, "displace": True}, {"minimum": 3, "above": 0.2}, {"minimum": 0}],
    "mmr": [{"n": 3, "relevance": 0.3}, {"relevance": 0.0}, {"n": 0}],
    "budget": [{"tokens": 60, "skip": True}, {"tokens": 40, "session": True}, {"tokens": 0}],
    "greedy": [{"tokens": 60, "reserved": 0, "after": 1, "stop_items": 1}, {"type_share": None, "stop_share": None}],
    "knapsack": [{"tokens": 60, "reserved": 20}, {"tokens": 5, "reserved": 0}],
    "excerpts": [{"characters": 30, "types": ["rule", "reference", "file"]}, {"characters": 1}],
    "outline": [{"tokens": 60, "n": 1}, {"tokens": 40, "n": 0, "per_token": 0.3}, {"tokens": 0}],
    "truncate": [{"tokens": 12}, {"tokens": 1}],
    "whole_file": [{"tokens": 60, "share": 0.1}, {"tokens": 60, "share": 1.0, "per_token": 0.5}, {"tokens": 0}],
    "rendered": [{"tokens": 40}, {"tokens": 5}, {"tokens": 0}],
    "rrf": [{"k": 0}],
    "features": [{"columns": ["retrieved.score", "item.tool", "request.words", "slots.filled", "sentence.fusion"]}],
    "linear": [
        {
            "weights": {
                "conversation.best": 0.2,
                "conversation.near": 0.1,
                "memory.half_life": 0.2,
                "memory.length": 0.1,
                "turn.near": 0.2,
                "turn.named": 0.1,
            }
        },
        {"weights": {"similarity.score": 1.0, "words.bm25_share": -0.5}},
        {"weights": {f"fields.{name}": 0.5 for name in ("name", "description", "bm25_share")}},
        {"weights": {f"fusion.{name}": 0.5 for name in ("score", "margin", "rank")}},
        {"weights": {f"assembly.{name}": 0.2 for name in ("tf", "tfidf", "keywords", "recency", "source", "uses")}},
    ],
    "file_kinds": [{"documents": 0.5, "tests": 2.0}],
    "price": [{"overhead": 1}, {"sure": 0.0}, {"sure": 1.25}],
    "weighted": [{"normalise": "z"}, {"weights": {"dense": 0.7, "bm25": 0.3}}],
    "sentences": [{"limit": 7}, {"rule": "marked"}],
    "clauses": [{"shortest": 1, "limit": 20}],
    "windows": [{"size": 20, "overlap": 9}],
    "plan": [{"planner": "scan"}],
    ("analyse", "history"): [{"turns": 1, "decay": 0.25, "rule": {"windows": {"size": 2, "overlap": 1}}}],
    ("retrieve", "history"): [{"commits": 1, "spread": 1.0, "types": ["file", "chunk"]}, {"n": 0}],
    "change": [{"n": 1, "half_life_days": 1.0}],
    "pattern": [{"n": 2, "types": ["chunk", "file"]}],
    "entry_points": [{"n": 1}],
    "matched": [{"by": ["dense"]}],
    "planned": [{"of": "names", "n": 1}, {"linked": 0.5, "entry": 0.0}],
    "code_words": [{"asking": 0.0, "forms": 0.5, "related": 0.0}],
    "symbol": [{"n": 1, "types": ["chunk"]}],
    "code": [
        {"by": "references", "depth": 2},
        *({"by": by} for by in ("tests", "co_change")),
        {"max_files": 0},
    ],
    "tool_results": [{"tools": ["create_issue"], "rule": "marked", "weight": 2.0, "limit": 1}],
    "expansion": [
        {"threshold": 0.2, "topN": 5, "depth": 2, "session": True},
        {"by": "graph", "graph_threshold": 0.2, "similarity": "mean"},
        {"by": "both", "threshold": 0.1, "graph_threshold": 0.1, "heads": True, "query_weight": 0.5, "types": ["rule"]},
        {"enabled": False},
    ],
    "tool_rules": [{"rules": {"*/create_issue": ["close_issue"]}, "agent": {"close_issue": []}, "when": "either"}],
    "links": [{"depth": 3, "types": ["about"]}, {"direction": "out"}, {"depth": 0}],
    "at_least": [{"threshold": -9.0, "at_least": 1, "at_most": 3}, {"threshold": 1.0}],
    "citations": [{"marks": False, "system": "Name your sources."}],
    "messages": [{"system": "Be kind."}],
    "template": [
        {"template": "detailed", "metadata": False, "system": "Be kind."},
        {"template": {"header": "#", "memoryFormat": "{{score}} {{type}} {{content}}", "includeMetadata": True}},
    ],
}


def parameters_of(kind, name):
    """Other parameters to try; two kinds may have a strategy of one name."""
    return PARAMETERS.get((kind, name), PARAMETERS.get(name, []))


NEEDED = {"tool_rules": {"rules": {"create_issue": ["close_issue"]}}}  # what has no default
BEHIND = {"price": "random", "file_kinds": "random"}  # what reads scores of 0 or more stands behind such
OF_FILES = ("probability", "abstain")  # need a fit; tests/pipelines/test_calibrated.py makes one and runs the suite
ASKING = ("llm",)  # needs a server; tests/pipelines/test_llm.py starts one and runs the suite
OF_DATASETS = ("run",)  # ranks the items of one dataset, which mock catalogs lack; tests/api/test_runs.py
ELSEWHERE = (*OF_FILES, *ASKING, *OF_DATASETS)


@pytest.mark.essential
@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, name in BUILT_IN if name not in ELSEWHERE])
def test_built_in_strategies_conform(kind, name):
    check_step(kind, name, NEEDED.get(name), retrieve=BEHIND.get(name, "dense"), processes=0)


def test_built_in_strategies_answer_alike_in_new_processes():
    tasks = [
        (kind, name, parameters, BEHIND.get(name, "dense"))
        for kind, name in BUILT_IN
        if name not in ELSEWHERE
        for parameters in [NEEDED.get(name, {}), *parameters_of(kind, name)]
    ]
    assert list(process_faults(tasks)) == []


@pytest.mark.parametrize(
    ("kind", "name", "parameters"),
    [(kind, name, parameters) for kind, name in BUILT_IN for parameters in parameters_of(kind, name)],
)
def test_built_in_strategies_conform_with_other_parameters(kind, name, parameters, monkeypatch):
    hosts = conformance._hosts  # each strategy is behind all of them with its defaults
    monkeypatch.setattr(conformance, "_hosts", lambda *arguments: dict(itertools.islice(hosts(*arguments).items(), 1)))
    check_step(kind, name, parameters, retrieve=BEHIND.get(name, "dense"), processes=0)


def test_every_built_in_with_parameters_is_checked_with_others_than_its_own():
    with_parameters = [name for kind, name in BUILT_IN if dataclasses.fields(registry.find(kind, name))]
    given = {name if isinstance(name, str) else name[1] for name in PARAMETERS}
    assert set(with_parameters) == {*given, *ELSEWHERE}


@pytest.mark.parametrize("retrieve", ["bm25", "random", {"merge": ["dense", "bm25"]}])
def test_cuts_conform_behind_every_retriever(retrieve):
    check_step("cut", "standard", {"includeScore": 0.3}, retrieve=retrieve, processes=0)
    check_step("cut", "matched", {"by": ["bm25"]}, retrieve=retrieve, processes=0)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("rrf", {"k": 10}),
        ("weighted", {}),
        ("weighted", {"weights": {"dense": 0.7, "bm25": 0.3}}),
        ("weighted", {"weights": {"dense": 0, "bm25": 1}, "normalise": "z"}),
        ("weighted", {"normalise": "theoretical", "lowest": {"dense": -1, "bm25": 0}}),
    ],
)
def test_fusion_conforms_behind_several_retrievers(name, parameters):
    check_step("rank", name, parameters, retrieve={"merge": ["dense", "bm25"]}, processes=0)


class TestMocks:
    def test_the_catalog_has_every_type_mode_and_a_tie(self):
        catalog = mock_catalog()
        assert {item.type for item in catalog} == {*ITEM_TYPES} - {
            "skill"
        }  # one more tie, and the first 20 chunks differ
        assert {item.include for item in catalog} == {"always", "manual", "agent"}
        assert not all(item.enabled for item in catalog)
        texts = [item.search_text for item in catalog]
        assert len(set(texts)) == len(texts) - 2
        assert max(map(len, texts)) > 1000
        assert not all(text.isascii() for text in texts)

    def test_the_requests_have_blanks_scopes_sessions_and_repeats(self):
        batch = Batch.of(mock_catalog(), mock_requests())
        counts = dict(zip(batch.ids, batch.eligible.counts().tolist(), strict=True))
        assert counts["nothing available"] == 0
        assert counts["one item"] == 1
        assert counts["scope"] == 3
        texts = [request.text for request in batch.requests]
        assert texts[0] == texts[1]
        assert "" in texts
        assert any(request.session for request in batch.requests)

    def test_they_are_made_anew_and_equal(self):
        assert mock_catalog().hash == mock_catalog().hash
        assert mock_requests() == mock_requests()
        assert mock_resources() is not mock_resources()


def test_the_suite_needs_no_pytest():
    code = "import sys, ctxbench.testing; sys.exit('pytest' in sys.modules or 'hypothesis' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 0


# What each class of the module does wrong, by the kind it is registered as: (class, parameters) -> what is said.
BAD = """
from dataclasses import dataclass, field, replace
from typing import ClassVar
import numpy as np
from ctxbench.model.candidates import Candidates, add_expanded
from ctxbench.model.requests import Query
from ctxbench.model.selection import Prompt
from ctxbench.pipelines.strategies.cut import First
from ctxbench.pipelines.strategies.retrieve import Dense, Everything

CALLS = []

def scored(query, score):
    request, item = np.nonzero(query.batch.eligible)
    scores = [float(score(r, i)) for r, i in zip(request, item)]
    return Candidates.build(len(query.batch), request, item, score=np.array(scores))

@dataclass(frozen=True)
class Good:
    margin: float = 0.1
    def __call__(self, query, candidates, resources):
        best = np.full(candidates.n_requests, -np.inf)
        np.fmax.at(best, candidates.request, np.where(candidates.chosen, candidates.score, -np.inf))
        return candidates.exclude(candidates.score < best[candidates.request] - self.margin, "beyond the margin")

@dataclass(frozen=True)
class Drops:
    def __call__(self, query, candidates, resources):
        return candidates.select_rows(candidates.item % 2 == 0)

@dataclass(frozen=True)
class Unmarks:
    def __call__(self, query, candidates, resources):
        return replace(candidates, out=np.zeros(len(candidates), dtype=np.int64))

@dataclass(frozen=True)
class Rescores:
    def __call__(self, query, candidates, resources):
        return candidates.reordered(score=candidates.score / 2)

@dataclass(frozen=True)
class MarksSession:
    def __call__(self, query, candidates, resources):
        return replace(candidates, out=np.ones(len(candidates), dtype=np.int64), rules=("", "all out"))

@dataclass(frozen=True)
class Unordered:
    def __call__(self, query, candidates, resources):
        return replace(candidates, score=-candidates.score)

@dataclass(frozen=True)
class MeanOfBatch:
    def __call__(self, query, candidates, resources):
        mean = np.nanmean(candidates.score) if np.isfinite(candidates.score).any() else 0.0
        return candidates.exclude(candidates.score < mean, "below the mean")

@dataclass(frozen=True)
class CatalogPlace:
    def __call__(self, query, candidates, resources):
        return candidates.exclude(candidates.item > 3, "late in the catalog")

@dataclass(frozen=True)
class Remembers:
    def __call__(self, query, candidates, resources):
        CALLS.append(1)
        return candidates.exclude(candidates.score < len(CALLS) / 1000, "asked too often")

@dataclass(frozen=True)
class Undeclared:
    def __call__(self, query, candidates, resources):
        tokens = resources.tokens(query.batch.catalog)
        return candidates.exclude(tokens[candidates.item] > 50, "too long")

@dataclass(frozen=True)
class KeptForAll:
    uses: ClassVar[tuple[str, ...]] = ("tokens",)
    def __call__(self, query, candidates, resources):
        tokens = resources.get_or_create("my tokens", lambda: resources.tokens(query.batch.catalog))
        return candidates.exclude(tokens[candidates.item] > 50, "too long")

@dataclass(frozen=True)
class ChangesMetadata:
    def __call__(self, query, candidates, resources):
        for item in query.batch.catalog:
            item.metadata["seen"] = True
        return candidates

@dataclass(frozen=True)
class ChangesScores:
    def __call__(self, query, candidates, resources):
        candidates.score[:] = 0
        return candidates

@dataclass(frozen=True)
class Raises:
    def __call__(self, query, candidates, resources):
        return candidates.exclude(candidates.item == candidates.item[0], "first")

@dataclass
class NotFrozen:
    n: int = 1
    def __call__(self, query, candidates, resources):
        return candidates

@dataclass(frozen=True)
class CallsItVersion:
    version: int = 1
    def __call__(self, query, candidates, resources):
        return candidates

@dataclass(frozen=True)
class Forgets:
    n: int = 1
    def __post_init__(self):
        object.__setattr__(self, "n", self.n + 1)
    def __call__(self, query, candidates, resources):
        return candidates

@dataclass(frozen=True)
class Hashes:
    def __call__(self, query, resources):
        ids = query.batch.catalog.ids
        return scored(query, lambda request, item: hash(ids[item]) % 1000)

@dataclass(frozen=True)
class OffersAll:
    def __call__(self, query, resources):
        n, items = len(query.batch), len(query.batch.catalog)
        request, item = np.repeat(np.arange(n), items), np.tile(np.arange(items), n)
        return Candidates.build(n, request, item, score=np.ones(n * items))

@dataclass(frozen=True)
class Infinite:
    def __call__(self, query, resources):
        return scored(query, lambda request, item: np.inf)

@dataclass(frozen=True)
class MarksOut:
    def __call__(self, query, resources):
        table = scored(query, lambda request, item: 1.0)
        return table.exclude(table.item == 1, "not one")

@dataclass(frozen=True)
class BadPair:
    def __call__(self, query, resources):
        table = scored(query, lambda request, item: 1.0)
        return replace(table, query_chunk=np.full(len(table), 9))

@dataclass(frozen=True)
class ForgetsRequests:
    def __call__(self, batch, resources):
        return Query.of_chunks(batch, [[request.text] for request in batch.requests[1:]])

@dataclass(frozen=True)
class EmptyChunks:
    def __call__(self, batch, resources):
        return Query.of_chunks(batch, [[request.text] for request in batch.requests])

@dataclass(frozen=True)
class AddsRows:
    def __call__(self, query, candidates, resources):
        return Everything()(query, resources)

@dataclass(frozen=True)
class Reopens:
    def __call__(self, query, candidates, resources):
        return replace(candidates, out=np.zeros_like(candidates.out))

def led(query, candidates, n, score):
    rows = [(q, i, score(k)) for q in range(len(query.batch)) for k, i in enumerate([
        i for i in np.flatnonzero(query.batch.eligible[q])
        if i not in candidates.item[candidates.rows(q)][candidates.chosen[candidates.rows(q)]]][:n])]
    request, item, scores = np.array(rows, dtype=float).reshape(-1, 3).T
    return request.astype(int), item.astype(int), {
        "score": scores.astype(float), "origin": np.full(len(rows), 2), "mode": np.full(len(rows), 3)}

@dataclass(frozen=True)
class Reorders:
    def __call__(self, query, candidates, resources):
        request, item, given = led(query, candidates, 1, lambda place: 1.0)
        table = add_expanded(candidates, request, item, **given)
        return table.reordered(score=1.0 - table.score)

@dataclass(frozen=True)
class ScoresByPlace:
    def __call__(self, query, candidates, resources):
        request, item, given = led(query, candidates, 12, lambda place: 1.0 - place / 20)
        return add_expanded(candidates, request, item, **given)

@dataclass(frozen=True)
class SendsAll:
    def __call__(self, query, candidates, resources):
        rows = [candidates.item[candidates.rows(n)] for n in range(len(query.batch))]
        return [Prompt([("user", query.batch.catalog[int(i)].prompt_text) for i in row], []) for row in rows]

@dataclass(frozen=True)
class SendsObjects:
    def __call__(self, query, candidates, resources):
        return [Prompt([("user", request.text)], [{"schema": {1, 2}}]) for request in query.batch.requests]
"""
CASES = [
    ("cut", "Drops", "rows are marked, never dropped"),
    ("cut", "Unmarks", "a row that was out must keep the rule that met it first"),
    ("cut", "Rescores", "a cut step must not change score"),
    ("cut", "MarksSession", "session rows must be the session's items with their modes, all chosen"),
    ("rank", "Unordered", "is out of order"),
    ("cut", "MeanOfBatch", "one by one: request"),
    ("cut", "CatalogPlace", "items shuffled: request"),
    ("cut", "Remembers", "has another answer"),
    ("cut", "Undeclared", "it uses tokens; declare that in `uses`"),
    ("cut", "KeptForAll", "all items, items shuffled"),
    ("cut", "ChangesMetadata", "it changed what it was given"),
    ("cut", "ChangesScores", "read-only"),
    ("cut", "Raises", "no request: IndexError"),
    ("cut", "NotFrozen", "NotFrozen must be a frozen dataclass"),
    ("cut", "CallsItVersion", "a parameter must not be called version"),
    ("cut", "Forgets", "a step built again from its description is another one"),
    ("retrieve", "OffersAll", "an item that the request may not get, or that the session holds, is offered"),
    ("retrieve", "Infinite", "a score is not finite"),
    ("retrieve", "MarksOut", "a retriever marks nothing out"),
    ("retrieve", "BadPair", "query_chunk must be -1 or a place from 0 on"),
    ("analyse", "ForgetsRequests", "start must be CSR starts"),
    ("analyse", "EmptyChunks", "a chunk must be a text that is not empty"),
    ("pack", "AddsRows", "only an expand step may add rows"),
    ("expand", "AddsRows2", "a row that was added must have an expansion origin"),
    ("expand", "Reopens", "a row that was out must keep the rule that met it first"),
    ("expand", "Reorders", "an expand step must keep the order of the rows"),
    ("expand", "ScoresByPlace", "all items, items shuffled: request"),
    ("format", "SendsAll", "what was left out must not reach the prompt"),
    ("format", "SendsObjects", "must be JSON"),
]


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """An installed distribution with the strategies above, each registered under its name in small letters."""
    extra = "\nclass AddsRows2(AddsRows):\n    pass\n"
    (tmp_path / "bad_strategies.py").write_text(BAD + extra)
    lines = ["[ctxbench.cut]", "good = bad_strategies:Good", "[ctxbench.retrieve]", "hashes = bad_strategies:Hashes"]
    for kind, name, _ in CASES:
        lines += [f"[ctxbench.{kind}]", f"{name.lower()} = bad_strategies:{name}"]
    info = tmp_path / "bad_strategies-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bad_strategies\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    registry._plugins.cache_clear()
    yield
    sys.modules.pop("bad_strategies", None)
    registry._plugins.cache_clear()


def faults_of(kind, name, parameters=None, **given) -> tuple[str, ...]:
    with pytest.raises(ConformanceError) as caught:
        check_step(kind, name, parameters, **given)
    return caught.value.faults


class TestFaultsOfSteps:
    def test_a_strategy_of_somebody_else_that_holds_all_passes(self, plugin):
        check_step("cut", "good", {"margin": 0.2})

    @pytest.mark.parametrize(("kind", "name", "said"), CASES)
    def test_each_kind_of_fault_is_found(self, plugin, kind, name, said):
        found = faults_of(kind, name.lower(), processes=0)
        assert any(said in fault for fault in found), "\n".join(found)

    def test_another_hash_seed_is_found_out(self, plugin):
        found = faults_of("retrieve", "hashes")
        assert any("PYTHONHASHSEED" in fault and "has another answer" in fault for fault in found)

    def test_the_error_names_the_strategy_and_all_faults(self, plugin):
        with pytest.raises(ConformanceError) as caught:
            check_step("cut", "drops", processes=0)
        first, *others = str(caught.value).splitlines()
        assert first == f"cut strategy 'drops' does not conform, {len(caught.value.faults)} faults:"
        assert [line.strip() for line in others] == [
            line.strip() for line in "\n".join(caught.value.faults).splitlines()
        ]
        assert isinstance(caught.value, UserError | AssertionError)

    def test_an_exception_keeps_its_cause(self, plugin):
        with pytest.raises(ConformanceError) as caught:
            check_step("cut", "raises", processes=0)
        assert isinstance(caught.value.__cause__, IndexError)

    def test_what_is_not_registered_or_wrongly_set_is_an_error_of_its_own(self):
        with pytest.raises(UnknownNameError):
            check_step("cut", "frist")
        with pytest.raises(ParameterError):
            check_step("cut", "first", {"n": -1})


class Wrapped:
    """A selector that answers as a good one does, but for one thing."""

    name = "wrapped"

    def __init__(self, change=lambda answers: answers, name="wrapped") -> None:
        pipeline = Pipeline.of({"retrieve": "dense", "refine": [{"first": {"n": 2}}]})
        self.inner = PipelineSelector("inner", pipeline, mock_resources())
        self.change, self.name = change, name
        self.asked = 0

    def describe(self):
        return {"wrapped": 1}

    def select(self, batch: Batch) -> Answers:
        self.asked += 1
        return self.change(self.inner.select(batch))


def marked(answers: Answers, rows) -> Answers:
    return dataclasses.replace(answers, candidates=answers.candidates.exclude(rows, "not now"))


def named(request, items):
    """A user's own selector: the ids of at most three items whose name the request holds, in the catalog's order."""
    held = {one["id"] for one in request.get("session", [])}
    may = {*request.get("available", [item["_id"] for item in items])} - held
    words = request["text"].lower().split()
    found = [item["_id"] for item in items if item["_id"] in may and item.get("include", "agent") == "agent"]
    return [id_ for id_ in found if any(word in id_ for word in words)][:3]


class TestFaultsOfSelectors:
    def test_an_outside_selector_passes_though_it_gives_no_scores(self):
        check_selector(External(CallableSource(named), name="named"))

    def test_an_outside_selector_that_offers_what_it_must_not_is_found(self):
        with pytest.raises(ConformanceError, match="request 'plain' failed"):
            check_selector(External(CallableSource(lambda request, items: ["rule:gone"]), name="gone"))

    def test_a_good_one_passes_on_other_items_too(self):
        check_selector(Wrapped())
        check_selector(Wrapped(), catalog=mock_catalog(), requests=mock_requests()[:3])

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            (lambda a: dataclasses.replace(a, errors={0: "timed out"}), "request 'plain' failed: timed out"),
            (lambda a: dataclasses.replace(a, seconds=np.zeros(99)), "seconds has shape (99,)"),
            (lambda a: dataclasses.replace(a, candidates=Candidates.empty(1)), "the table has 1 requests"),
            (lambda a: marked(a, a.candidates.request > 0), "one by one"),
            (
                lambda a: dataclasses.replace(a, candidates=a.candidates.select_rows(a.candidates.origin > 0)),
                "session rows",
            ),
        ],
    )
    def test_each_kind_of_fault_is_found(self, change, said):
        with pytest.raises(ConformanceError) as caught:
            check_selector(Wrapped(change))
        assert any(said in fault for fault in caught.value.faults), caught.value

    def test_an_answer_that_changes_from_call_to_call_is_found(self):
        selector = Wrapped()
        selector.change = lambda a: marked(a, a.candidates.item == selector.asked % 7)
        with pytest.raises(ConformanceError, match="asked twice"):
            check_selector(selector)

    def test_a_description_that_is_no_json_or_changes_is_found(self):
        selector = Wrapped()
        selector.describe = lambda: {"steps": {1, 2}, "asked": selector.asked}
        with pytest.raises(ConformanceError, match="it must be JSON") as caught:
            check_selector(selector)
        assert "description: it changes by use" in caught.value.faults

    def test_a_selector_needs_a_name(self):
        with pytest.raises(ConformanceError, match="name must be a text"):
            check_selector(Wrapped(name=""))


def test_a_case_without_an_item_to_offer_is_run_too():
    check_selector(Wrapped(), catalog=Catalog([]), requests=())


class TestGrownCatalogs:
    def test_a_smaller_catalog_is_spread_and_links_lead_within_it(self):
        catalog = mock_catalog()
        for n_items in (1, 4, len(catalog)):
            part = resized(catalog, n_items)
            assert len(part) == n_items
            assert {item.key for item in part} <= {item.key for item in catalog}
            assert part.facts is not None  # which reads the links

    def test_a_larger_catalog_has_made_items_of_the_words_of_its_own_and_each_again_in_one_that_is_larger_still(self):
        catalog = mock_catalog()
        n_items = 10 * len(catalog)
        larger = resized(catalog, n_items)
        assert tuple(larger)[: len(catalog)] == tuple(catalog)
        assert tuple(resized(catalog, n_items + 5))[:n_items] == tuple(larger)
        words = {word for item in catalog for word in f"{item.description} {item.text}".split()}
        made = tuple(larger)[len(catalog) :]
        assert {word for item in made for word in f"{item.description} {item.text}".split()} <= words
        assert len({item.description for item in made}) > len({item.description for item in catalog})

    def test_known_texts_have_their_vectors_and_others_a_mixture(self, tmp_path, monkeypatch):
        monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path))
        model = HashingEmbedder()
        mixing = MixingEmbedder(model, ["red apple", "green pear"])
        vectors = mixing.embed(["green pear", "never seen", "red apple"])
        assert np.array_equal(vectors[[0, 2]], model.embed(["green pear", "red apple"]))
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)
        assert not np.allclose(vectors[1], model.embed(["never seen"])[0])
        assert np.array_equal(vectors, mixing.embed(["green pear", "never seen", "red apple"]))
