"""Reads the cuts that a definition writes, with the values that a sweep tries of each of their parameters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ctxbench.core.arrays import BoolArray
from ctxbench.core.errors import ParameterError
from ctxbench.core.items import Catalog
from ctxbench.selectors.definition import Definition
from ctxbench.selectors.parameters import Value
from ctxbench.steps.cut import Standard
from ctxbench.steps.cut_relative import Margin
from ctxbench.tuning.sweep.families import StandardMargin, ThresholdFamily
from ctxbench.tuning.sweep.measures import item_types
from ctxbench.tuning.sweep.threshold_lines import Counts, ThresholdSpan


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


def step_name(step: Any) -> tuple[str, Mapping[str, Any]]:
    """The name and the parameters of a step of a specification."""
    if isinstance(step, str):
        return step, {}
    name, written = next(iter(step.items()))
    return str(name), written if isinstance(written, Mapping) else {}


@dataclass(frozen=True, eq=False, kw_only=True)
class Domain:
    """Item types with a cut for them alone.

    Attributes:
        types: as `by_domain` names them; `*` = all that belong to no domain before.
        family: its cuts.
    """

    types: tuple[str, ...]
    family: StandardMargin | ThresholdFamily


def domain_items(catalog: Catalog, domains: Sequence[tuple[str, ...]]) -> tuple[BoolArray, ...]:
    """Which items belong to each domain, as `by_domain` deals them out; shape (n_items,) each."""
    types = item_types(catalog)
    free = np.ones(len(types), dtype=np.bool_)
    out = []
    for domain in domains:
        members = free & (np.isin(types, domain) | ("*" in domain))
        free &= ~members
        out.append(members)
    return tuple(out)


def domains_of(
    definition: Definition,
    *,
    topKs: Sequence[int],  # noqa: N803 - the documents' names
    topNs: Sequence[int],  # noqa: N803
    fixed: Mapping[str, Value] | None = None,
    search: Mapping[str, Sequence[Value]] | None = None,
) -> tuple[Domain, ...]:
    """The domains of a selector that refines by domain, with a cut `standard`, and maybe `margin`, in each.

    Args:
        definition: the selector.
        topKs, topNs: the values that are tried, of every domain.
        fixed: checked values of parameters that stay as they are, and with a choice those that it sets.
        search: by parameter, the whole numbers that are tried in place of those.

    Raises:
        ParameterError: its last step is no `by_domain` of such cuts.
    """
    values = definition.with_defaults(fixed or {})
    last = (definition.refining(values) or [None])[-1]
    blocks = last.get("by_domain") if isinstance(last, Mapping) else None
    if not isinstance(blocks, Mapping):
        raise ParameterError(f"selector {definition.name!r} has no by_domain as its last step")
    tried = search or {}
    reader = CutReader(
        definition=definition, values=values, fixed=fixed_names(definition, fixed or {}) - tried.keys(), search=tried
    )
    return tuple(
        Domain(
            types=tuple(part.strip() for part in str(key).split(",")),
            family=_family(reader, str(key), steps, topKs, topNs),
        )
        for key, steps in blocks.items()
    )


def _family(
    reader: CutReader,
    key: str,
    steps: Sequence[Any],
    topKs: Sequence[int],  # noqa: N803 - the documents' names
    topNs: Sequence[int],  # noqa: N803
) -> StandardMargin:
    """The cut of one domain."""
    named = dict(map(step_name, steps))
    if list(named) not in (["standard"], ["standard", "margin"]) or len(named) < len(steps):
        raise ParameterError(f"by_domain {key}: a cut that can be swept is standard, or standard and margin")
    cut, margin = named["standard"], named.get("margin")
    if margin is not None and (margin.get("of") != "ratio" or margin.get("at_least", 0) != 0):
        raise ParameterError(f"by_domain {key}: a margin that can be swept has of: ratio and at_least: 0")
    return reader.standard_margin(cut, margin, topKs=topKs, topNs=topNs)
