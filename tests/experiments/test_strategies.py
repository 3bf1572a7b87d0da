"""The table of strategies: complete, not stale, and every docstring has what it must have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from table import KINDS, described, strategies, table

from ctxbench.io.errors import ParameterError
from ctxbench.model import registry

FILE = Path(__file__).parents[2] / "experiments" / "strategies.md"


@pytest.mark.parametrize("kind", KINDS)
def test_every_docstring_has_summary_empty_case_cost_and_source(kind):
    lacking = []
    for name in registry.names(kind):
        try:
            described(kind, name, registry.find(kind, name))
        except ParameterError as error:
            lacking.append(str(error))
    assert lacking == []


def test_the_table_is_not_stale():
    assert FILE.read_text("utf-8") == table(strategies()), "run `make strategies`"


def test_every_strategy_that_a_pipeline_can_name_has_one_line():
    rows = [line for line in FILE.read_text("utf-8").splitlines() if line.startswith("| `")]
    for kind in ("analyse", "retrieve", *registry.REFINE_KINDS, "format"):
        for name in registry.names(kind):
            if registry.find(kind, name).__module__.startswith("ctxbench."):
                assert [row for row in rows if row.startswith(f"| `{name}` |")], (kind, name)
    assert len(rows) == len(strategies())


@dataclass(frozen=True)
class Whole:
    """Cut in half | or less.

    Attributes:
        share: of the ranking,
            0 to 1.
        names, weights: one each.
        other, text: for nothing.

    Ties stay together. Empty in, empty out. Cost: a sort, at most.
    Source: ours; see `there`.
    """

    share: float = 0.5
    names: tuple[str, ...] = ("a", "b")
    weights: Mapping[str, float] = field(default_factory=lambda: {"x": 1.0})
    other: int | None = None
    text: str = ""


@dataclass(frozen=True)
class Needing:
    """Needs a value.

    Attributes:
        n: any.

    Nothing found, nothing offered. Source: ours. Cost: none.
    """

    n: int


def test_a_docstring_is_read_by_its_words(monkeypatch):
    monkeypatch.setitem(registry._BUILT_IN["cut"], "whole", f"{__name__}:Whole")
    found = described("cut", "whole", Whole)
    assert (found.summary, found.cost, found.source) == (
        "Cut in half | or less.",
        "a sort, at most",
        "ours; see `there`",
    )
    assert found.empty == "Empty in, empty out."
    assert found.parameters == (
        ("share", "0.5"), ("names", "[a, b]"), ("weights", "{x: 1.0}"), ("other", "null"), ("text", "''"),
    )  # fmt: skip
    assert found.meanings == {
        "share": "of the ranking, 0 to 1.",
        "names, weights": "one each.",
        "other, text": "for nothing.",
    }
    lines = table([found]).splitlines()
    assert lines[-7:] == [
        r"| `whole` | Cut in half \| or less. | a sort, at most |",
        "",
        "### `whole`",
        "",
        "* `share: 0.5`: of the ranking, 0 to 1.",
        "* `names: [a, b]`, `weights: {x: 1.0}`: one each.",
        "* `other: null`, `text: ''`: for nothing.",
    ]


def test_a_parameter_that_must_be_given_has_no_default():
    assert described("cut", "needing", Needing).parameters == (("n", ""),)
    assert described("cut", "needing", Needing).cost == "none"


@dataclass(frozen=True)
class Silent:
    n: int = 1


@dataclass(frozen=True)
class Halting:
    """Cut somewhere.

    Source: ours.
    """


def test_what_a_docstring_lacks_is_named():
    with pytest.raises(
        ParameterError, match=r"cut strategy 'silent' \(Silent\) lacks: summary, Empty case, Cost, Source, parameter n;"
    ):
        described("cut", "silent", Silent)
    with pytest.raises(ParameterError, match=r"lacks: Empty case, Cost; it needs a summary"):
        described("cut", "halting", Halting)


def test_no_strategies_make_no_table():
    assert "|" not in table([])
