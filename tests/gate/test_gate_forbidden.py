"""Forbidden items in a check: judged without being named, and pinned where nothing else is labelled."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import yaml

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.files import write_dataset
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.gate.baseline import write_baseline
from ctxbench.gate.baseline_reader import read_baseline
from ctxbench.gate.gate import accept, check_gate
from ctxbench.gate.results import Verdict
from ctxbench.io.errors import InputError
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Request
from ctxbench.report.check_files import check_dict

TOOLS = Catalog(Item(type="tool", name=name, description=f"Does {name}.") for name in ("refund", "cancel", "track"))
KEY = {item.name: item.key for item in TOOLS}
ABOUT = {"licence": "Apache-2.0", "source": "Written for a test.", "labelling": "By hand."}
N = 12  # of each kind
PIN = {"must_not_include": [KEY["cancel"].id]}


def orders(negatives=("full", "only")) -> Dataset:
    """`full-n` requires refund, `only-n` has a negative alone, `bare-n` has no label at all."""
    ids = [f"{kind}-{n}" for kind in ("full", "only", "bare") for n in range(N)]
    labels = [Label(f"full-{n}", KEY["refund"], 2) for n in range(N)]
    labels += [Label(one, KEY["cancel"], 0) for one in ids if one.split("-")[0] in negatives]
    queries = [DatasetQuery(request=Request(id=one, text=f"request {one}"), split="test") for one in ids]
    return Dataset(name="orders", version="1", catalog=TOOLS, queries=tuple(queries), labels=tuple(labels), about=ABOUT)


@pytest.fixture(autouse=True)
def a_cache_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CTXBENCH_OFFLINE", "1")


@pytest.fixture
def gate(tmp_path):
    """Writes dataset, answers and gate file: `gate(extra item of each query, **gate settings)`; gives its path."""

    def write(extra="track", *, dataset=None, **settings):
        dataset = dataset or orders()
        write_dataset(dataset, tmp_path / "orders")
        rows = [
            {"query": query.id, "items": [{"id": KEY[name].id} for name in dict.fromkeys(["refund", extra])]}
            for query in dataset.queries
        ]
        (tmp_path / "mine.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        told = {
            "datasets": ["orders"],
            "selectors": [{"answers": "mine.jsonl", "name": "mine"}],
            "embedder": "hashing",
            "tokens": "chars/4",
            "gate": {"tolerance": {"tokens": "50%"}, **settings},
        }
        (tmp_path / "gate.yaml").write_text(yaml.safe_dump(told))
        return tmp_path / "gate.yaml"

    return write


def judged(check):
    return {one.metric: one for one in check.selectors[0].metrics}


def test_more_forbidden_items_are_worse(gate):
    accept(gate())
    assert check_gate(gate()).check.verdict is Verdict.SAME
    check = check_gate(gate("cancel")).check
    assert check.verdict is Verdict.WORSE
    found = judged(check)["forbidden_offered"]
    assert (found.base.value, found.head.value, found.base.n) == (0, 1, 2 * N)
    assert "forbidden_offered" in [one["metric"] for one in check_dict(check)["selectors"][0]["metrics"]]
    accept(gate("cancel"))
    assert check_gate(gate()).check.verdict is Verdict.BETTER


@pytest.mark.parametrize(("n", "verdict"), [(1, Verdict.SAME), (5, Verdict.INCONCLUSIVE)])
def test_a_few_queries_that_are_newly_offered_one_are_inconclusive(gate, monkeypatch, n, verdict):
    monkeypatch.setitem(globals(), "N", n)
    accept(gate(dataset=orders(["full"])))
    found = judged(check_gate(gate("cancel", dataset=orders(["full"]))).check)["forbidden_offered"]
    assert (found.base.value, found.head.value, found.verdict) == (0, 1, verdict)


def test_other_verdicts_do_not_depend_on_it(gate):
    """Neither on the metric nor on queries that have negatives alone."""
    found = []
    for negatives in (("full", "only"), ()):
        accept(gate(dataset=orders(negatives)))
        found.append(judged(check_gate(gate("cancel", dataset=orders(negatives))).check))
    assert set(found[0]) - set(found[1]) == {"forbidden_offered"}
    for name, other in found[1].items():
        assert repr(replace(found[0][name].comparison, left_out=0)) == repr(replace(other.comparison, left_out=0))
        assert (found[0][name].verdict, found[0][name].detectable) == (other.verdict, other.detectable)


def test_a_tolerance_of_it_may_be_set(gate):
    accept(gate(tolerance={"forbidden_offered": 0.99, "tokens": "50%"}))
    path = gate("cancel", tolerance={"forbidden_offered": 0.99, "tokens": "50%"})
    assert judged(check_gate(path).check)["forbidden_offered"].tolerance == 0.99


def test_a_baseline_without_values_of_it_says_so(gate):
    path = gate()
    accept(path)
    folder = path.parent / "gate.baseline"
    old = [
        replace(one, metrics={metric: v for metric, v in one.metrics.items() if metric.name != "forbidden_offered"})
        for one in read_baseline(folder)
    ]
    write_baseline(folder, old)
    check = check_gate(gate("cancel")).check
    assert "forbidden_offered" not in judged(check)
    assert any(
        "has no values of forbidden_offered, so it is not judged" in notice for notice in check.selectors[0].notices
    )
    assert check.verdict is Verdict.SAME


@pytest.mark.parametrize("query", ["full-1", "only-1", "bare-1"])
def test_a_pin_holds_whatever_else_is_labelled(gate, query):
    pins = [{"query": query, **PIN}]
    accept(gate(pins=pins, metrics=["completeness"]))
    assert not check_gate(gate(pins=pins, metrics=["completeness"])).check.selectors[0].pins
    check = check_gate(gate("cancel", pins=pins, metrics=["completeness"])).check
    assert [(one.query, one.about) for one in check.selectors[0].pins] == [(query, KEY["cancel"].id)]
    assert check.verdict is Verdict.WORSE


def test_a_pin_that_is_added_later_is_asked(gate):
    accept(gate("cancel"))
    check = check_gate(gate("cancel", pins=[{"query": "bare-2", **PIN}])).check
    assert [one.query for one in check.selectors[0].pins] == ["bare-2"]


def test_a_pin_on_no_query_is_refused(gate):
    accept(gate())
    with pytest.raises(InputError, match="no query 'only-99'"):
        check_gate(gate(pins=[{"query": "only-99", **PIN}]))
