"""Tuning in parts, in this process and in others: the same results, whoever sweeps."""

from __future__ import annotations

import pickle
from dataclasses import fields, is_dataclass

import numpy as np
import pytest

from ctxbench.io import workers
from ctxbench.io.workers import OptionalPool, Pool, Workers
from ctxbench.report.tuning_document import write_report
from ctxbench.tuning import rankings
from ctxbench.tuning.tuner import tune
from tests.tuning.conftest import AGGRESSIVE

MARGIN = {"selector": "semantic", "search": {"contextTopK": [5, 20], "contextTopN": [0, 3]}}
BUDGET = {
    "name": "budget",
    "selector": "semantic",
    "set": {"contextTokenBudgetEnabled": True},
    "search": {"contextTopK": [5, 20], "contextTopN": [2], "contextTokenBudget": [150, 400]},
}
HEADS = {"name": "bm25", "selector": "bm25", "search": {"b": [0.2, 0.8]}}
DOMAINS = {"selector": "semantic-domains", "search": {"contextTopK": [50], "toolsTopN": [0, 2], "rulesTopN": [0, 1]}}
POLICIES = {
    "aggressive": AGGRESSIVE,
    "most": {"maximise": "completeness", "constraints": [{"metric": "tokens", "at_most": 0.5, "of": "base"}]},
    "hard": {"minimise": "items", "constraints": [{"metric": "precision", "at_least": 0.99}]},
    "near": {"minimise": "tokens", "constraints": [{"metric": "completeness", "at_least": 0.97}]},
}
FEW = {"policies": POLICIES, "shipped": False, "trials": 2}


class PicklingPool(Pool):
    """Runs units in this process, the last first, from and to bytes."""

    def run(self, function, units):
        sent = [pickle.dumps(unit) for unit in units]
        for index in reversed(range(len(units))):
            yield index, pickle.loads(pickle.dumps(function(pickle.loads(sent[index]))))

    def close(self):
        pass


@pytest.fixture
def pickling(monkeypatch):
    monkeypatch.setattr(workers, "open_pool", PicklingPool)
    rankings.published.cache_clear()
    return OptionalPool(Workers(jobs=3))


def plain(value):
    """A result as lists and texts, which compare by value."""
    if is_dataclass(value):
        return [(field.name, plain(getattr(value, field.name))) for field in fields(value)]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return [(plain(key), plain(entry)) for key, entry in value.items()]
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return str(value)


@pytest.mark.parametrize("selectors", [(MARGIN, BUDGET), (HEADS, MARGIN), (MARGIN, DOMAINS), ("learned", MARGIN)])
def test_parts_give_what_the_whole_gives(ready, selectors, pickling):
    whole, parts = (tune(ready(*selectors, **FEW), command="c", pool=pool) for pool in (None, pickling))
    assert plain(parts) == plain(whole)
    assert {outcome.recommended is None for outcome in whole.datasets[0].outcomes} == {False, True}


def test_parts_of_a_common_setting_give_what_the_whole_gives(ready, shop, other, pickling):
    whole, parts = (
        tune(ready(MARGIN, datasets=[shop, other], **FEW, together=True), command="c", pool=pool)
        for pool in (None, pickling)
    )
    assert plain(parts) == plain(whole)


@pytest.mark.rest
def test_processes_write_the_same_report(ready, tmp_path):
    pages = {}
    for jobs in (1, 2):
        with OptionalPool(Workers(jobs=jobs)) as pool:
            tuned = tune(ready(MARGIN, **FEW), command="c", pool=pool)
            written = write_report(tuned, tmp_path / str(jobs), pool)
        pages[jobs] = [(path.name, path.read_bytes()) for path in written]
    assert pages[1] == pages[2]


def test_small_work_starts_no_process(ready, monkeypatch, tmp_path):
    monkeypatch.setattr(workers, "open_pool", lambda *_: pytest.fail("a pool was opened"))
    monkeypatch.setattr(workers, "cores", lambda: 8)
    with OptionalPool(Workers()) as pool:
        tune(ready(), command="c", pool=pool)
