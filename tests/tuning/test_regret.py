"""What the experiment on following the advice of `tune` sums up, by hand."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "experiments" / "tuning" / "regret.py"


@pytest.fixture(scope="module")
def regret():
    spec = importlib.util.spec_from_file_location("regret", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["regret"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["regret"]


def team(regret, dataset="a", labels=50, saved=0.0, attainable=0.0, harm=""):
    usual = {"recommended": saved != 0, "counts": attainable >= 0.02}
    return regret.Team(dataset=dataset, labels=labels, saved=saved, attainable=attainable, harm=harm, **usual)


def test_every_dataset_weighs_the_same(regret):
    teams = [team(regret, saved=0.2, attainable=0.4), team(regret, attainable=0.4), team(regret, attainable=0.4)]
    teams.append(team(regret, "b", saved=0.1, attainable=0.2, harm="incomplete"))
    sums = regret.summed(teams)
    assert sums["harm"].tolist() == ["", "incomplete"]
    row = regret.by_labels(sums).loc[50]
    assert row["recommended"] == pytest.approx((1 / 3 + 1) / 2)
    assert (row["harmed"], row["datasets"]) == (0.5, 2)
    assert row["attained"] == pytest.approx((0.2 / 3 + 0.1) / (0.4 + 0.2))


def test_a_team_with_too_little_to_save_counts_for_harm_alone(regret):
    teams = [team(regret, saved=-0.5, attainable=0.01, harm="dear"), team(regret, saved=0.1, attainable=0.1)]
    row = regret.by_labels(regret.summed(teams)).loc[50]
    assert (row["harmed"], row["attained"]) == (0.5, 1.0)


def test_what_cannot_be_saved_is_left_out(regret):
    sums = regret.summed([team(regret), team(regret, "b", saved=0.1, attainable=0.2)])
    assert regret.by_labels(sums).loc[50, "attained"] == pytest.approx(0.5)
