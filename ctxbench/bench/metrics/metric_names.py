"""Metrics as values: `str(metric)` is what `parse_metric` reads back. Declarations stand in `declared.py`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ctxbench.bench.metrics.declared import ALIASES, METRICS, Declaration
from ctxbench.bench.metrics.inputs import DEPTH
from ctxbench.core.errors import Fault, ParameterError, UnknownNameError, raise_faults

_FORM = re.compile(r"([A-Za-z_]+)(?:@([0-9]+))?")


@dataclass(frozen=True, order=True)
class Metric:
    """A metric with its cutoff. Equal, hashed and ordered by name and cutoff.

    Attributes:
        name: a key of `METRICS`.
        k: how many ranks are read, 1 to `DEPTH`; 0 = the whole ranking, or no ranking metric.

    Raises:
        UnknownNameError: no metric has this name.
        ParameterError: the cutoff is missing, not taken, or out of range.
    """

    name: str
    k: int = 0

    def __post_init__(self) -> None:
        if self.name not in METRICS:
            raise UnknownNameError("metric", self.name, METRICS)
        cutoff = self.declaration.cutoff
        if self.k == 0 and cutoff == "required":
            raise ParameterError(f"metric {self.name!r} needs a cutoff, as in '{self.name}@5'")
        if self.k != 0 and cutoff == "none":
            raise ParameterError(f"metric {self.name!r} takes no cutoff, got @{self.k}")
        if not 0 <= self.k <= DEPTH:
            raise ParameterError(f"the cutoff of metric {self.name!r} must be 1 to {DEPTH}, got {self.k}")

    def __str__(self) -> str:
        return f"{self.name}@{self.k}" if self.k else self.name

    @property
    def declaration(self) -> Declaration:
        """What is declared for the metric's name."""
        return METRICS[self.name]

    @property
    def parts(self) -> tuple[Metric, ...]:
        """The metrics whose values by query this one is made of: itself, or others if only a mean makes sense."""
        return tuple(Metric(name, self.k) for name in self.declaration.parts) or (self,)

    @property
    def ir_measures(self) -> str | None:
        """The name of the equal measure of ir-measures 0.4 where no alternatives are labelled; None = has none."""
        form = self.declaration.ir_measures
        if form is None:
            return None
        return f"{form}@{self.k}" if self.k else form


def parse_metric(text: str) -> Metric:
    """Read a metric as it is printed (`nDCG@10`, `completeness`) or by an alias (`COMP@5`, `recall_all@5`).

    Raises:
        UnknownNameError: no metric has this name; the message has the closest ones.
        ParameterError: the cutoff is missing, not taken, or out of range.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise UnknownNameError("metric", text, _shown())
    name = ALIASES.get(match[1], match[1])
    if name not in METRICS:
        cased = [known for known in METRICS if known.lower() == name.lower()]
        where = f"; did you mean {text.strip().replace(match[1], cased[0])!r}?" if cased else ""
        raise UnknownNameError("metric", text, _shown(), where=where)
    if match[2] is not None and int(match[2]) == 0:
        raise ParameterError(f"the cutoff of metric {name!r} must be 1 to {DEPTH}, got {match[2]}")
    return Metric(name, int(match[2] or 0))


def parse_metrics(texts: Sequence[str]) -> tuple[Metric, ...]:
    """Read several metrics, in order, one named twice (an alias counts) only once.

    Raises:
        InputError: with one fault for each text that is no metric.
    """
    found: dict[Metric, None] = {}
    faults = []
    for text in texts:
        try:
            found[parse_metric(text)] = None
        except (UnknownNameError, ParameterError) as error:
            faults.append(Fault(str(error)))
    raise_faults(faults, subject="metrics")
    return tuple(found)


def _shown() -> list[str]:
    """Every metric's name as it is written, `@k` where it needs a cutoff."""
    return [f"{name}@k" if METRICS[name].cutoff == "required" else name for name in METRICS]
