"""Reads the cuts that a definition writes, with the values that a sweep tries of each of their parameters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ctxbench.selectors.definition import Definition
from ctxbench.selectors.parameters import Value
from ctxbench.steps.cut import Margin, Standard
from ctxbench.tuning.sweep.families import Counts, StandardMargin, ThresholdSpan


@dataclass(frozen=True, eq=False, kw_only=True)
class CutReader:
    """Reads parameters of cuts as a definition writes them: as values, or as `$name` of a selector's parameter.

    Attributes:
        definition: of the selector.
        values: of all its parameters, where nothing is tuned.
        fixed: the parameters that keep their value.
        search: by parameter, the whole numbers that are tried, where they are not all.
    """

    definition: Definition
    values: Mapping[str, Value]
    fixed: Collection[str]
    search: Mapping[str, Sequence[Value]]

    def value(self, written: Any) -> Any:
        """The value where nothing is tuned."""
        name = parameter_name(written)
        return self.values[name] if name else written

    def counts(self, written: Any, tried: Sequence[int] = ()) -> Counts:
        """A whole number, with those that are tried; without any, all of its range."""
        name = parameter_name(written)
        if not name or name in self.fixed:
            return Counts(name, (int(self.value(written)),))
        own = self.definition.parameters[name]
        return Counts(name, tuple(map(int, self.search.get(name) or tried or range(int(own.low), int(own.high) + 1))))

    def span(self, written: Any) -> ThresholdSpan:
        """A threshold, with its range."""
        name = parameter_name(written)
        if not name or name in self.fixed:
            return ThresholdSpan.fixed(name, float(self.value(written)))
        own = self.definition.parameters[name]
        return ThresholdSpan(name, float(own.low), float(own.high))

    def standard_margin(
        self,
        cut: Mapping[str, Any],
        margin: Mapping[str, Any] | None,
        *,
        topKs: Sequence[int] = (),  # noqa: N803 - the documents' names
        topNs: Sequence[int] = (),  # noqa: N803
    ) -> StandardMargin:
        """The step `standard`, and the step `margin` behind it, if there is one."""
        return StandardMargin(
            topK=self.counts(cut.get("topK", Standard.topK), topKs),
            topN=self.counts(cut.get("topN", Standard.topN), topNs),
            includeScore=self.span(cut.get("includeScore", Standard.includeScore)),
            margin=None if margin is None else self.span(margin.get("margin", Margin.margin)),
            at_most=100 if margin is None else int(self.value(margin.get("at_most", Margin.at_most))),
        )


def fixed_names(definition: Definition, fixed: Collection[str]) -> frozenset[str]:
    """The parameters that have a value, and those that a choice among them sets."""
    return frozenset({*fixed, *(name for one in fixed for name in definition.parameters[one].sets)})


def parameter_name(written: Any) -> str:
    """The parameter that a value in a specification stands for; empty if it is a value itself."""
    return written[1:] if isinstance(written, str) and written.startswith("$") else ""
