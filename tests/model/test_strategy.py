"""The base class of strategies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

from ctxbench.io.errors import ParameterError
from ctxbench.model.strategies import Strategy


def test_a_parameter_that_hides_what_a_strategy_says_needs_a_default():
    with pytest.raises(ParameterError, match="Deep: a parameter without a default cannot be called 'depth'"):

        @dataclass(frozen=True)
        class Deep(Strategy):
            depth: int


def test_one_with_a_default_and_a_class_variable_are_fine():
    @dataclass(frozen=True)
    class Deep(Strategy):
        most: int
        depth: int = 7
        uses: ClassVar[tuple[str, ...]] = ("embedder",)

    assert (Deep(3).depth, Deep(3).uses) == (7, ("embedder",))
