"""The presets of `semantic` are those that the sweep chooses; how it chooses, by hand."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from ctxbench.selectors.definitions import definition

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script():
    """The script as a module; modules beside it have names that other scripts use, too."""
    path, modules = list(sys.path), set(sys.modules)
    sys.path.insert(0, str(ROOT / "experiments" / "tuning"))
    try:
        import three_numbers
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            if str(ROOT / "experiments") in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]
    return three_numbers


def table(name):
    return pd.read_csv(ROOT / "reports" / f"{name}.csv", keep_default_na=False, na_values=["nan"])


def test_the_shipped_presets_are_those_that_were_chosen(script):
    presets = script.chosen_on_all(table("three-numbers-choice"))
    assert list(presets) == ["aggressive", "normal", "conservative"]
    for name, setting in presets.items():
        values = definition("semantic").values(name)
        assert setting == (values["contextTopK"], values["contextTopN"], values["contextIncludeScore"])


def side(script, family, complete, tokens, default=0.5):
    """A dataset on which the settings of topN 0, 1, ... have these figures, whatever topK and includeScore are."""
    sweep = np.full((2, len(script.TOP_K), len(script.TOP_N), len(script.INCLUDE)), np.nan)
    sweep[:, :, : len(complete)] = np.array([complete, tokens])[:, None, :, None]
    half = SimpleNamespace(family=family, default=(np.array([default]), np.array([1.0])))
    return SimpleNamespace(half=half, sweep=sweep)


def test_an_aim_takes_the_most_complete_or_the_cheapest(script):
    sides = [side(script, "a", [0.1, 0.4, 0.5, 0.6], [0.2, 0.6, 1.0, 2.5])]
    chosen = {name: script.choose(sides, aim, script.FREE["topN"]) for name, aim in script.AIMS.items()}
    assert chosen == {"aggressive": (20, 1, 1.0), "normal": (20, 2, 1.0), "conservative": (20, 2, 1.0)}


def test_of_equals_the_setting_with_the_fewest_tokens_is_chosen(script):
    sides = [side(script, "a", [0.1, 0.5, 0.5], [0.2, 0.6, 0.5])]
    assert script.choose(sides, script.Aim(tokens=2.0), script.FREE["topN"]).top_n == 2


def test_families_weigh_the_same_whatever_the_number_of_their_datasets(script):
    many = [side(script, "a", [0.6, 0.2], [0.5, 1.0]) for _ in range(3)]
    one = side(script, "b", [0.2, 0.8], [0.5, 1.0])
    assert script.weights([*many, one]).tolist() == pytest.approx([1 / 6, 1 / 6, 1 / 6, 1 / 2])
    assert script.choose([*many, one], script.Aim(tokens=1.0), script.FREE["topN"]).top_n == 1


def test_gains_are_pooled_by_dataset_or_by_family(script):
    rows = pd.DataFrame({"family": ["a", "a", "b"], "gain": [1.0, 3.0, 8.0], "low": [0.0, 2.0, 6.0]})
    rows["high"] = 2 * rows.gain - rows.low
    assert script.pool(rows) == pytest.approx((4.0, 4.0 - 6**0.5 / 3, 4.0 + 6**0.5 / 3))
    half = (0.25**2 + 0.25**2 + 1) ** 0.5
    assert script.pool(rows, by_family=True) == pytest.approx((5.0, 5.0 - half, 5.0 + half))


def choices(low):
    """Gains of a setting with more numbers, with this lower end on tuning splits."""
    every = {"preset": "normal", "dataset": "d", "family": "a", "tuning_gain": 1.0, "tuning_high": 2.0 - low}
    return pd.DataFrame(
        [{**every, "free": "topN", "tuning_low": 0.0}, {**every, "free": "topN and includeScore", "tuning_low": low}]
    )


@pytest.mark.parametrize(("low", "free"), [(-0.5, "topN"), (0.5, "topN and includeScore")])
def test_a_number_differs_only_where_that_is_significant(script, low, free):
    assert script.free_numbers(choices(low)) == {"normal": free}


def test_causes_of_misses_make_all_of_them():
    rows = table("misses")
    some = rows[rows.misses > 0]
    assert len(some) >= 20
    assert (some.over_20 + some.cut + some.excluded).tolist() == pytest.approx([1.0] * len(some), abs=1e-5)
