"""Base and head timed in turns: what is asked over which catalog, and what is said of what cannot be timed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ctxbench.bench.latency import clock
from ctxbench.bench.prepared import open_experiment
from ctxbench.core.errors import SelectorError
from ctxbench.core.pipeline import Pipeline
from ctxbench.gate import warm_latency
from ctxbench.gate.baseline import without_texts
from ctxbench.gate.check_settings import CheckSettings
from ctxbench.gate.checks import SnapshotPairs, check, pair_snapshots
from ctxbench.gate.flat_steps import rebuild_pipeline
from ctxbench.gate.model import Verdict
from ctxbench.gate.snapshot_sources import silent, take
from ctxbench.gate.warm_latency import add_latency, time_pair
from tests.experiment_files import read_experiment

TINY = Path(__file__).parents[1] / "fixtures" / "tiny"
EXPERIMENTS = Path(__file__).parents[2] / "experiments"
SELECTORS = """
  - {selector: semantic, preset: normal}
  - {selector: bm25, set: {n: 2}}
  - {selector: random, like: bm25}
"""


@pytest.fixture(autouse=True)
def a_cache_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CTXBENCH_OFFLINE", "1")


@pytest.fixture
def prepared(tmp_path):
    path = tmp_path / "e.yaml"
    told = f"datasets: [{TINY}]\nembedder: hashing\ntokens: chars/4\nmetrics: [completeness]\nselectors:{SELECTORS}"
    path.write_text(told, encoding="utf-8")
    return open_experiment(path)


@pytest.fixture
def resources(prepared):
    return prepared.resources()


@pytest.fixture
def taken(prepared, resources):
    """Snapshots of now, by name."""
    return {one.selector: one for one in take(prepared, resources=resources)}


@pytest.fixture
def asked(monkeypatch):
    """Every request is noted, and takes 1 ms over catalogs of the size given and 2 ms over all others."""
    found = []

    def ask(pipeline, catalog, request, *, resources, clock):
        found.append((len(catalog), request))
        clock.seconds["whole"] = 0.001 if len(catalog) == ask.size else 0.002

    ask.size = 0
    monkeypatch.setattr(clock, "ask", ask)
    found.append(ask)
    return found


def timed(base, head, resources, **given):
    return time_pair(base, head, **{"seed": 0, "resources": resources, "progress": silent, **given})


def edited(snapshot, item, **fields):
    """The snapshot as if an item had said something else."""
    fact = snapshot.items[item]
    row = {**fact.row, **fields}
    return replace(snapshot, items={**snapshot.items, item: replace(fact, hash="0" * 16, row=row)})


def lacking(snapshot, item):
    return replace(snapshot, items={name: fact for name, fact in snapshot.items.items() if name != item})


# --------------------------------------------------------------------------------------------------------------- real


def test_every_sample_of_both_sides_is_there(taken, resources):
    head = taken["semantic/normal"]
    found = timed(edited(head, next(iter(head.items)), description="Something else."), head, resources)
    n = len(head.queries)
    assert found.queries == tuple(head.queries)
    assert found.base.shape == found.head.shape == (n, warm_latency.ROUNDS)
    assert np.all(found.base > 0)
    assert np.all(found.head > 0)
    assert found.notices == ()


def test_latency_joins_the_check_of_every_pipeline(taken, resources):
    paired = pair_snapshots(list(taken.values()), list(taken.values()))
    settings = CheckSettings()
    found = check(paired, settings, name="g", base="b", head="h")
    told = []
    found = add_latency(found, paired.pairs, settings, resources=resources, progress=lambda text, *_: told.append(text))
    by = {one.selector: one for one in found.selectors}
    assert {name for name, one in by.items() if one.latency} == {"semantic/normal", "bm25"}
    assert "latency was not timed: it is not one pipeline" in by["random"].notices
    assert by["bm25"].latency.ratio > 0
    assert "latency, base, bm25 on tiny" in told


# ------------------------------------------------------------------------------------------------------ what is asked


def test_the_base_is_asked_over_its_own_catalog(taken, resources, asked):
    head = taken["bm25"]
    base = lacking(head, next(iter(head.items)))
    asked[0].size = n = len(base.items) + len(base.disabled)
    found = timed(base, head, resources)
    assert {size for size, _ in asked[1:]} == {n, n + 1}
    assert np.all(found.base == 0.001)
    assert np.all(found.head == 0.002)


def test_a_slower_head_is_worse(taken, resources, asked):
    head = taken["bm25"]
    base = lacking(head, next(iter(head.items)))
    asked[0].size = len(base.items) + len(base.disabled)
    pairs, settings = ((base, head),), CheckSettings()
    found = add_latency(
        check(SnapshotPairs(pairs), settings, name="g", base="b", head="h"),
        pairs,
        settings,
        resources=resources,
        progress=silent,
    )
    (one,) = found.selectors
    assert (one.verdict, one.latency.verdict, one.latency.ratio) == (Verdict.WORSE, Verdict.WORSE, pytest.approx(2.0))
    assert "a request takes 2.00 times as long as at the base" in one.reasons[0]


def test_at_most_as_many_are_drawn_by_the_seed(taken, resources, asked, monkeypatch):
    monkeypatch.setattr(warm_latency, "REQUESTS", 4)
    head = taken["bm25"]
    drawn = [timed(head, head, resources, seed=seed).queries for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert all(len(one) == 4 for one in drawn)
    order = list(head.queries)
    assert all([order.index(name) for name in one] == sorted(order.index(name) for name in one) for one in drawn)


def test_only_queries_asked_alike_on_both_sides_are_timed(taken, resources, asked):
    head = taken["bm25"]
    first, second, *rest = head.queries
    queries = {name: fact for name, fact in head.queries.items() if name != first}
    queries[second] = replace(queries[second], asked="0" * 16)
    assert timed(replace(head, queries=queries), head, resources).queries == tuple(rest)
    none = {name: replace(fact, asked="0" * 16) for name, fact in head.queries.items()}
    assert timed(replace(head, queries=none), head, resources) == "no query is asked alike on both sides"


def test_items_that_a_request_may_get_are_those_of_either_side(taken, resources, asked):
    head = taken["bm25"]
    limited = next(one.request for one in head.judged.queries if one.request.available)
    gone = limited.available[0].id
    timed(lacking(head, gone), head, resources)
    offers = {
        size: {len(one.available) for n, one in asked[1:] if n == size and one.id == limited.id}
        for size, _ in asked[1:]
    }
    n = len(limited.available)
    assert sorted(offers.items()) == [(size, {n - 1 + place}) for place, size in enumerate(sorted(offers))]


# -------------------------------------------------------------------------------------------------- what is not timed


def test_without_texts_both_are_timed_over_the_catalog_of_now(taken, resources, asked):
    head = taken["bm25"]
    base = without_texts(lacking(head, next(iter(head.items))))
    found = timed(base, head, resources)
    assert len({size for size, _ in asked[1:]}) == 1
    assert "both sides were timed over the catalog of now" in found.notices[0]
    assert timed(without_texts(head), head, resources).notices == ()  # nothing differs


def test_other_models_code_and_steps_are_said(taken, resources, asked):
    head = taken["semantic/normal"]
    base = replace(head, identity=replace(head.identity, embedder="other", versions={"code": "other"}))
    model, code = timed(base, head, resources).notices
    assert "with the model of now, not with other" in model
    assert "the code of ctxbench differs" in code
    pipeline = head.identity.selector["pipeline"]
    step = {**pipeline["retrieve"], "version": 99}
    older = {**head.identity.selector, "pipeline": {**pipeline, "retrieve": step}}
    (told,) = timed(replace(head, identity=replace(head.identity, selector=older)), head, resources).notices
    assert "steps of the base have other code" in told


def test_why_a_selector_is_not_timed_is_said(taken, resources):
    head = taken["bm25"]
    outside = replace(head, identity=replace(head.identity, outside=True))
    assert "selector outside" in timed(outside, outside, resources)
    for way, said in (
        ("answers", "its answers are read from a file"),
        ("callable", "it is a callable of your own"),
        ("command", "it is a command of your own"),
        ("url", "it is asked over HTTP"),
    ):
        own = replace(head, identity=replace(head.identity, outside=True, selector={"protocol": 1, way: "x"}))
        assert timed(own, own, resources).startswith(said)
        assert timed(own, head, resources).startswith(said)
        both = replace(own, identity=replace(own.identity, selector={"ranking": {}, "as many as": {way: "x"}}))
        assert timed(both, both, resources).startswith(said)
    pipeline = head.identity.selector["pipeline"]
    gone = {"pipeline": {**pipeline, "retrieve": {"step": "retrieve:no_longer", "version": 1}}}
    base = replace(head, identity=replace(head.identity, selector=gone), source="gate.baseline")
    assert timed(base, head, resources) == "the pipeline that gate.baseline describes cannot be made any more"
    assert timed(head, replace(head, judged=None), resources) == "this run has no dataset at hand"


def test_what_cannot_be_compared_is_not_timed(taken, resources, asked):
    head = taken["bm25"]
    pairs, settings = ((replace(head, queries={}, answers={}), head),), CheckSettings()
    found = check(SnapshotPairs(pairs), settings, name="g", base="b", head="h")
    assert found.verdict is Verdict.NOT_COMPARABLE
    (one,) = add_latency(found, pairs, settings, resources=resources, progress=silent).selectors
    assert (one.latency, one.notices, len(asked)) == (None, found.selectors[0].notices, 1)


# -------------------------------------------------------------------------------------------- descriptions read back


@pytest.mark.parametrize("name", ["presets", "baselines", "ablations"])
def test_selectors_of_experiments_are_read_back_from_what_they_say_of_themselves(resources, name):
    made = read_experiment(EXPERIMENTS / f"{name}.yaml").make_selectors(resources, {})
    described = [one.describe() for one in made.values()]
    pipelines = [one for one in described if "pipeline" in one]
    assert pipelines
    for one in pipelines:
        pipeline, as_described = rebuild_pipeline(one)
        assert as_described
        assert pipeline.describe() == one["pipeline"]


def test_merges_lists_of_analyses_and_domains_are_read_back():
    pipeline = Pipeline.of(
        {
            "analyse": ["sentences", {"history": {}}],
            "retrieve": {"merge": {"a": "dense", "b": "bm25"}},
            "refine": [
                {"rrf": {"k": 10}},
                {"by_domain": {"tool, rule": [{"first": {"n": 2}}], "*": [{"first": {"n": 1}}]}},
            ],
        }
    )
    assert rebuild_pipeline({"pipeline": pipeline.describe()}) == (pipeline, True)
    assert rebuild_pipeline({"command": "x"}) is None


def test_a_step_of_a_plugin_that_raises_while_it_is_timed_is_named(taken, resources, monkeypatch):
    def ask(*_arguments, **_named):
        raise RuntimeError("no such index")

    monkeypatch.setattr(clock, "ask", ask)
    head = taken["bm25"]
    with pytest.raises(RuntimeError, match="no such index"):  # a bug of ours keeps its traceback
        timed(head, head, resources)
    pipeline = head.identity.selector["pipeline"]
    theirs = {"pipeline": {**pipeline, "retrieve": {**pipeline["retrieve"], "code": "plugin.steps:Own 0123"}}}
    foreign = replace(head, identity=replace(head.identity, selector=theirs))
    with pytest.raises(SelectorError, match=r"'bm25' failed on the requests that were timed.*plugin\.steps:Own"):
        timed(foreign, foreign, resources)


def test_stores_are_not_asked_once_a_request_is_warm(taken, resources, prepared):
    counted = []

    class Counting(type(resources)):
        def vectors(self, texts):
            counted.append(len(texts))
            return super().vectors(texts)

    shared = Counting.__new__(Counting)
    vars(shared).update(vars(resources))
    head = taken["semantic/normal"]
    timed(head, head, shared)
    n = len(counted)
    assert n <= len(head.queries) + 1  # the items' chunks and each request's, for both sides and all rounds
