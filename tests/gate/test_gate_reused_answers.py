"""Selectors are not asked where nothing that decides an answer has changed, and are asked wherever anything has."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from ctxbench.datasets.files import read_dataset
from ctxbench.gate import baseline as module
from ctxbench.gate.baseline import inputs_of, reuse_answers, write_baseline
from ctxbench.gate.baseline_reader import read_baseline
from ctxbench.gate.gate import accept, check_gate
from ctxbench.gate.results import Verdict
from ctxbench.gate.settings import read_gate
from ctxbench.io.errors import InputError, StorageError
from ctxbench.report.check_files import check_dict
from tests.selectors.test_external_http import Endpoint

TINY = Path(__file__).parents[1] / "fixtures" / "tiny"
BM25 = {"selector": "bm25", "set": {"n": 3}}


@pytest.fixture(autouse=True)
def a_cache_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CTXBENCH_OFFLINE", "1")


class Gate:
    """A gate file over a copy of the tiny dataset, accepted."""

    def __init__(self, folder):
        self.path = folder / "gate.yaml"
        self.data = folder / "data"
        shutil.copytree(TINY, self.data)
        self.told = {"datasets": ["data"], "selectors": [BM25], "embedder": "hashing", "tokens": "chars/4"}

    def write(self, **fields):
        self.told |= fields
        self.path.write_text(yaml.safe_dump(self.told))

    def accepted(self, **fields):
        self.write(**fields)
        accept(self.path)
        return self

    @property
    def reused(self):
        """Whether a check would ask no selector."""
        file = read_gate(self.path)
        return reuse_answers(file, read_baseline(file.baseline)) is not None

    def check(self):
        return check_gate(self.path).check


@pytest.fixture
def gate(tmp_path):
    return Gate(tmp_path)


def comparable(check):
    """All that is said of a check, but for whether anything was asked."""
    told = check_dict(check)
    for one in told["selectors"]:
        del one["reused"]
    return told


# ----------------------------------------------------------------------------------------------------- nothing changed


SELECTORS = {
    "bm25": [BM25],
    "two": [BM25, {"selector": "random", "set": {"n": 2}}],
    "dense": [{"selector": "semantic", "preset": "normal"}],
}


@pytest.mark.parametrize("selectors", SELECTORS.values(), ids=SELECTORS)
def test_what_is_reused_is_what_would_be_answered(gate, monkeypatch, selectors):
    gate.accepted(selectors=selectors, gate={"pins": [{"query": "q01", "at_most_items": 1}]})
    reused = gate.check()
    assert all(one.reused for one in reused.selectors)
    monkeypatch.setattr("ctxbench.gate.gate.reuse_answers", lambda file, bases: None)
    asked = gate.check()
    assert not any(one.reused for one in asked.selectors)
    assert comparable(reused) == comparable(asked)


def test_nothing_is_asked(gate, monkeypatch):
    gate.accepted()
    monkeypatch.setattr("ctxbench.gate.snapshot_sources.ask", lambda *_, **__: pytest.fail("asked"))
    assert gate.check().verdict is Verdict.SAME


def test_datasets_and_selectors_stand_in_the_order_of_the_gate_file(gate):
    second = gate.data.with_name("second")
    shutil.copytree(gate.data, second)
    card = second / "dataset.yaml"
    card.write_text(card.read_text().replace("name: tiny", "name: other"))
    two = [BM25, {"selector": "random", "set": {"n": 2}}]
    gate.accepted(datasets=["data", "second"], selectors=two)
    gate.write(datasets=["second", "data"], selectors=two[::-1])
    file = read_gate(gate.path)
    found = reuse_answers(file, read_baseline(file.baseline))
    assert [(one.dataset, one.selector) for one in found.snapshots] == [
        ("other", "random"),
        ("other", "bm25"),
        ("tiny", "random"),
        ("tiny", "bm25"),
    ]
    assert found.references == {"other": "second", "tiny": "data"}


def test_settings_of_the_gate_are_judged_by_without_asking(gate):
    gate.accepted()
    gate.write(gate={"pins": [{"query": "q01", "at_most_items": 0}]})
    assert gate.reused
    assert gate.check().verdict is Verdict.WORSE


def test_a_pin_of_a_query_that_is_not_asked_says_why_without_asking_selectors(gate, monkeypatch):
    gate.accepted(split="test")
    gate.write(gate={"pins": [{"query": "q01", "at_most_items": 3}]})
    monkeypatch.setattr("ctxbench.gate.snapshot_sources.take", None)
    with pytest.raises(InputError, match="query q01 is in dataset tiny, but in the unused split tuning"):
        gate.check()


def test_one_selector_of_the_baseline_alone_can_be_reused(gate):
    gate.accepted(selectors=SELECTORS["two"])
    gate.write(selectors=[BM25])
    assert gate.reused
    missing = gate.check().selectors[1]
    assert missing.verdict is Verdict.NOT_COMPARABLE


def test_a_baseline_without_texts_is_reused(gate):
    gate.write()
    accept(gate.path, texts=False)
    assert gate.reused


def test_damaged_vectors_are_noticed_before_they_are_needed(gate):
    gate.write(selectors=SELECTORS["dense"])
    accept(gate.path, vectors=True)
    path = gate.path.with_name("gate.baseline") / "vectors.npz"
    assert gate.check().verdict is Verdict.SAME
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StorageError, match=r"vectors\.npz is damaged"):
        gate.check()


# ---------------------------------------------------------------------------------------------------- anything changed


@pytest.mark.parametrize("name", ["dataset.yaml", "corpus.jsonl", "queries.jsonl", "qrels/tuning.tsv"])
def test_a_byte_of_the_dataset_has_it_asked(gate, name):
    gate.accepted()
    path = gate.data / name
    path.write_bytes(path.read_bytes() + b"\n")
    assert not gate.reused


def test_a_file_that_came_to_the_labels_has_it_asked(gate):
    gate.accepted()
    shutil.copy(next((gate.data / "qrels").glob("*.tsv")), gate.data / "qrels" / "another.tsv")
    assert not gate.reused


def test_a_file_beside_the_dataset_does_not(gate):
    gate.accepted()
    (gate.data / "NOTES.md").write_text("guide")
    assert gate.reused


CHANGED = {
    "parameter": {"selectors": [{"selector": "bm25", "set": {"n": 4}}]},
    "selector": {"selectors": [{"selector": "semantic", "preset": "normal", "name": "bm25"}]},
    "another": {"selectors": [BM25, {"selector": "random", "set": {"n": 2}}]},
    "split": {"split": "test"},
    "sample": {"sample": 3},
    "tokens": {"tokens": "o200k"},
    "metric": {"metrics": ["nDCG@10"]},
}


@pytest.mark.parametrize("fields", CHANGED.values(), ids=CHANGED)
def test_what_else_decides_an_answer_has_it_asked(gate, fields):
    gate.accepted()
    gate.write(**fields)
    assert not gate.reused


def test_the_model_has_it_asked_where_it_is_used(gate):
    gate.accepted(selectors=SELECTORS["dense"])
    gate.write(embedder="minilm")
    assert not gate.reused


def test_the_seed_counts_where_it_draws_a_sample(gate):
    gate.accepted(seed=1)
    gate.write(seed=2)
    assert gate.reused
    gate.accepted(sample=3)
    gate.write(seed=3)
    assert not gate.reused


def test_other_versions_have_it_asked(gate, monkeypatch):
    gate.accepted()
    now = module.versions()
    for name in now:
        monkeypatch.setattr(module, "versions", lambda name=name: {**now, name: "another"})
        assert not gate.reused


def test_a_selector_outside_is_asked_each_time(gate, tmp_path):
    (tmp_path / "own.py").write_text("def select(request, items):\n    return []\n")
    gate.accepted(selectors=[BM25, {"callable": "own.py:select", "name": "own"}])
    assert not gate.reused


def test_steps_of_plugins_have_it_asked(gate, monkeypatch):
    gate.accepted()
    monkeypatch.setattr(module, "plugin_steps", lambda selector: ("theirs:Step",))
    assert not gate.reused


def test_a_dataset_by_name_is_opened(gate, tmp_path):
    folder = tmp_path / "cache" / "datasets" / "tiny"
    shutil.copytree(TINY, folder)
    gate.accepted(datasets=["tiny"])
    assert not gate.reused
    assert gate.check().verdict is Verdict.SAME


def test_a_baseline_that_says_nothing_of_its_inputs_is_asked(gate):
    gate.accepted()
    head = gate.path.with_name("gate.baseline") / "baseline.json"
    told = json.loads(head.read_text())
    assert told["datasets"]["tiny"]["inputs"] == inputs_of(read_gate(gate.path).experiment, "data")
    file = read_gate(gate.path)
    bases = [replace(one, inputs="") for one in read_baseline(file.baseline)]
    write_baseline(file.baseline, bases)
    assert "inputs" not in json.loads(head.read_text())["datasets"]["tiny"]
    assert not gate.reused


def test_a_dataset_written_to_while_it_is_read_is_not_taken_for_known(gate, monkeypatch):
    from ctxbench.gate import snapshot_sources

    real = snapshot_sources.take

    def writes(*args, **given):
        (gate.data / "queries.jsonl").write_bytes((gate.data / "queries.jsonl").read_bytes() + b"\n")
        return real(*args, **given)

    monkeypatch.setattr(snapshot_sources, "take", writes)
    gate.accepted()
    assert not gate.reused


def test_a_dataset_that_cannot_be_read_is_left_to_who_says_so(gate):
    gate.accepted()
    (gate.data / "queries.jsonl").unlink()
    assert not gate.reused


# ------------------------------------------------------------------------------------------------ selectors of the user


@pytest.fixture
def service(gate):
    """An endpoint with a build id that never changes, which offers the first tools of the catalog."""
    service, names = Endpoint(), ["tracker:create_issue", "tracker:search_issues", "forge:create_issue"]

    def offer(body):
        ((query, request),) = ((row["query"], row["request"]) for row in body["requests"])
        ids = [name for name in service.offered if name in request.get("available", service.offered)]
        return 200, {"answers": [{"query": query, "items": [{"id": name} for name in ids]}], "build": "v1"}

    service.offered, service.get, service.post = (
        [f"tool:{name}" for name in names],
        lambda: (200, {"build": "v1"}),
        offer,
    )
    yield service
    service.stop()


def test_a_service_is_asked_by_every_check_and_for_every_repeat_whatever_its_build_id(gate, service):
    n_queries = len(read_dataset(gate.data).judged().queries)
    gate.accepted(selectors=[{"url": service.url, "name": "mine"}], gate={"repeats": 2})
    assert len(service.posts) == 2 * n_queries
    check = gate.check()
    assert (check.verdict, len(service.posts)) == (Verdict.SAME, 4 * n_queries)
    assert not any("standard deviation" in notice for selector in check.selectors for notice in selector.notices)
    service.offered = []
    assert (gate.check().verdict, len(service.posts)) == (Verdict.WORSE, 6 * n_queries)
