"""What `semantic-domains` ships is what reports/presets-domains.md found."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from ctxbench.selectors.definitions import definition

REPORTS = Path(__file__).parents[2] / "reports"
SHIPPED = definition("semantic-domains")
MODES = ("aggressive", "normal", "conservative")
CUT = ("TopN", "IncludeScore", "Margin")


def table(name):
    return pd.read_csv(REPORTS / f"presets-domains-{name}.csv")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("domain", ["tools", "rules"])
def test_a_mode_has_the_values_that_were_chosen_for_its_domain(domain, mode):
    chosen = table("modes").set_index(["domain", "mode"]).loc[domain, mode]
    values = SHIPPED.parameters[f"{domain}Mode"].choices[mode]
    assert {name: values[f"{domain}{name}"] for name in CUT} == {name: chosen[f"{domain}{name}"] for name in CUT}
    assert chosen["contextTopK"] == SHIPPED.values()["contextTopK"]


@pytest.mark.parametrize("preset", MODES)
def test_a_preset_has_the_values_that_were_chosen_for_whole_requests(preset):
    chosen = table("presets").set_index("preset").loc[preset]
    names = ("contextTopK", *(f"{domain}{name}" for domain in ("tools", "rules") for name in CUT))
    assert {name: SHIPPED.presets[preset].get(name) for name in names} == {name: chosen[name] for name in names}


def test_the_defaults_are_the_pair_of_modes_that_meets_the_policy_for_the_fewest_tokens():
    settings, values = table("settings"), SHIPPED.values()
    assert set(settings[settings["default"]]["setting"]) == {
        f"rules {values['rulesMode']}, tools {values['toolsMode']}"
    }
