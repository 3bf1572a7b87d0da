"""What `semantic-domains` ships is what reports/presets-domains.md recommends."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctxbench.selectors.definitions import definition

PAGE = Path(__file__).parents[2] / "reports" / "presets-domains.md"
FOUND = definition("semantic-domains")
MODES = ("aggressive", "normal", "conservative")
CUT = ("TopN", "IncludeScore", "Margin")


def row(head: str) -> list[str]:
    """The cells behind the head of a row of the page, the first one that has it."""
    line = next(line for line in PAGE.read_text().splitlines() if line.startswith(f"| **{head}** |"))
    return [cell.strip() for cell in line.strip("|").split("|")[1:]]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("domain", ["tools", "rules"])
def test_a_mode_has_the_values_that_were_chosen_for_its_domain(domain, mode):
    _asked, _bound, _needs, _tokens, *cut, _on_test = row(f"{domain} {mode}")
    chosen = FOUND.parameters[f"{domain}Mode"].choices[mode]
    assert [chosen[f"{domain}{name}"] for name in CUT] == [float(cell) for cell in cut]


@pytest.mark.parametrize("preset", MODES)
def test_a_preset_has_the_values_that_were_chosen_for_whole_requests(preset):
    cells = row(preset)
    names = ("contextTopK", *(f"{domain}{name}" for domain in ("tools", "rules") for name in CUT))
    assert {name: FOUND.presets[preset].get(name) for name in names} == {
        name: float(cell) for name, cell in zip(names, cells, strict=False)
    }


def test_the_defaults_are_the_pair_of_modes_that_the_page_calls_sensible():
    text = " ".join(PAGE.read_text().split())
    values = FOUND.values()
    pair = f"rules {values['rulesMode']}, tools {values['toolsMode']}"
    assert f"**Sensible default: {pair}**" in text
    assert f"contextTopK is one value for both domains and all modes, **{values['contextTopK']}**" in text
