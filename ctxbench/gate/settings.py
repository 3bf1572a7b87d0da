"""Gate files in YAML, the settings of a check, and protection from plugin code."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from ctxbench.evaluation.experiment import Experiment, ExperimentFields, experiment_of
from ctxbench.evaluation.metrics import FORBIDDEN_OFFERED, Metric, parse_metric
from ctxbench.io.documents import YamlPath, line_of, load_mapping
from ctxbench.io.errors import (
    CtxbenchError,
    Fault,
    Message,
    ParameterError,
    SelectorError,
    UserError,
    raise_faults,
    suggest,
)
from ctxbench.model.formats import FileModel, Given, Source, Texts, field_names, parsed, validate
from ctxbench.model.items import ITEM_TYPES, ItemKey
from ctxbench.selectors.callable import EndedError, confined, exit_held
from ctxbench.selectors.selector import PipelineSelector, Selector, SizeMatched

PRICES = ("tokens", "total_tokens")  # judged always: what is no longer searched may still be sent, and paid for
METRICS = ("completeness", "recall", *PRICES)  # judged where nothing else is asked
DEMANDS = ("must_include", "must_not_include", "at_most_items", "at_most_tokens")
LEAST_CONFIDENCE, MOST_CONFIDENCE = 0.5, 0.999  # above it hardly any change is judged worse
ALLOWED = 0.0025  # share of the queries in need that may lose one required item net; see reports/gate.md


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The largest difference of two means that counts as the same.

    Attributes:
        amount: in the unit of the metric, or a share of the base's mean; >= 0.
        relative: whether it is a share of the base's mean.
    """

    amount: float
    relative: bool = False

    def __str__(self) -> str:
        return f"{self.amount * 100:g}%" if self.relative else f"{self.amount:g}"

    @classmethod
    def default(cls, metric: Metric) -> Tolerance:
        """The default of a metric: 0.01 for yes/no and shares, 5% of the base's mean for amounts."""
        return cls(0.05, relative=True) if metric.declaration.scale == "amount" else cls(0.01)

    @property
    def as_json(self) -> float | dict[str, float]:
        """The amount, or the share as `{"share": 0.05}`."""
        return {"share": self.amount} if self.relative else self.amount

    @classmethod
    def from_json(cls, value: Any) -> Tolerance:
        """The tolerance that `as_json` wrote."""
        return cls(value["share"], relative=True) if isinstance(value, Mapping) else cls(value)

    def of(self, base: float) -> float:
        """The tolerance in the unit of the metric, given the mean of the base."""
        return self.amount * abs(base) if self.relative else self.amount


def _list_faults(model: FileModel, *names: str) -> Iterator[tuple[YamlPath, str]]:
    """Faults of fields that must be lists without repetitions, and not empty where they are given."""
    for name in names:
        entries = getattr(model, name)
        if name in model.model_fields_set and not entries:
            yield (name,), Message("gate.empty-list", field=name)
        yield from (
            ((name, index), Message("gate.named-twice", field=name, name=entry))
            for index, entry in enumerate(entries)
            if entry in entries[:index]
        )


def _item_id(value: object) -> str:
    """The id of an item as catalogs have it; any other text is reported once the items are known."""
    try:
        key = ItemKey.parse(str(value))
    except UserError:
        return str(value)
    if key.type not in ITEM_TYPES:
        raise ParameterError(Message("gate.unknown-item-type", item=value, hint=suggest(key.type, ITEM_TYPES)))
    return key.id


_FILLED = r"\S"
_ItemIds: TypeAlias = Texts[Annotated[str, parsed(_item_id, str)]]


class Pin(FileModel):
    """A demand on the offer of a query, or of every query with a tag, independent of metrics."""

    noun = "a pin"
    query: str = Field(default="", pattern=_FILLED, description="Id of the query; either this or `tag` is needed.")
    tag: str = Field(default="", pattern=_FILLED, description="Tag of the queries; either this or `query` is needed.")
    dataset: str = Field(default="", pattern=_FILLED, description="Name of the dataset; all datasets by default.")
    selector: str = Field(default="", pattern=_FILLED, description="Name of the selector; all selectors by default.")
    must_include: _ItemIds = Field(default=(), description="Ids of items that must be offered.")
    must_not_include: _ItemIds = Field(default=(), description="Ids of items that must not be offered.")
    at_most_items: Given[int] = Field(default=None, ge=0, description="Largest number of items offered.")
    at_most_tokens: Given[int] = Field(default=None, ge=0, description="Largest number of prompt tokens offered.")
    _line: int = 0

    @property
    def line(self) -> int:
        """The line in the gate file; 0 = in none."""
        return self._line

    def at(self, line: int) -> Pin:
        """This pin at a line of a gate file."""
        pin = self.model_copy()
        pin._line = line  # noqa: SLF001 (of the same class)
        return pin

    def faults(self, context: Any) -> Iterator[tuple[YamlPath, str]]:
        """See `FileModel.faults`; the context is the names of the selectors that a pin may name, if known."""
        if bool(self.query) == bool(self.tag):
            yield (), Message("gate.pin-query-or-tag")
        if not any(getattr(self, name) not in ((), None) for name in DEMANDS):
            yield (), Message("gate.pin-without-demand", demands=DEMANDS)
        if self.selector and context and self.selector not in context:
            yield (
                ("selector",),
                Message("gate.pin-unknown-selector", selector=self.selector, hint=suggest(self.selector, context)),
            )
        yield from _list_faults(self, *DEMANDS[:2])
        yield from (
            ((), Message("gate.pin-contradiction", item=item))
            for item in sorted({*self.must_include} & {*self.must_not_include})
        )

    def as_dict(self) -> dict[str, Any]:
        """The fields that are set, as in a gate file."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def covers(self, pin: Pin, renamed: Mapping[str, str]) -> bool:
        """Whether this pin demands all that another one does, wherever that one holds.

        Args:
            pin: the pin that must not be weakened.
            renamed: ids of items that go on under another id, old to new.
        """
        same_queries = (self.query, self.tag) == (pin.query, pin.tag)
        as_wide = self.dataset in ("", pin.dataset) and self.selector in ("", pin.selector)
        item_sets = {*self.must_include}, {*self.must_not_include}
        pin_items = pin.must_include, pin.must_not_include
        named = all(
            item in item_set or renamed.get(item) in item_set
            for item_set, items in zip(item_sets, pin_items, strict=True)
            for item in items
        )
        limits = (
            (self.at_most_items, pin.at_most_items),
            (self.at_most_tokens, pin.at_most_tokens),
        )
        limited = all(before is None or (limit is not None and limit <= before) for limit, before in limits)
        return same_queries and as_wide and named and limited

    def demands(self) -> Iterator[Pin]:
        """This pin as pins of one demand each."""
        bare = dict.fromkeys(DEMANDS[:2], ()) | dict.fromkeys(DEMANDS[2:])
        for name in DEMANDS[:2]:
            yield from (self.model_copy(update={**bare, name: (item,)}) for item in getattr(self, name))
        yield from (
            self.model_copy(update={**bare, name: limit})
            for name in DEMANDS[2:]
            if (limit := getattr(self, name)) is not None
        )


def _level(value: object) -> float:
    """A mean that must be reached, above 0 and at most 1: a number, or per cent as a text."""
    level = _per_cent(value) if isinstance(value, str) else _number(value)
    if not 0 < level <= 1:
        raise ParameterError(Message("gate.minimum-value", value=value))
    return level


class Minimum(FileModel):
    """A mean of a metric that a selector must reach on every dataset, whatever the baseline."""

    noun = "a minimum"
    value: Annotated[float, parsed(_level, float | str)] = Field(description="The mean, such as `0.9` or `90%`.")
    by: Literal["value", "lower"] = Field(
        default="value", description="What must reach it: the mean, or the lower end of its interval."
    )

    def __str__(self) -> str:
        return f"{self.value:g}{' by lower' * (self.by == 'lower')}"

    def implies(self, minimum: Minimum) -> bool:
        """Whether another one is reached wherever this one is: the lower end is never above the mean."""
        return self.value >= minimum.value and (self.by == "lower" or minimum.by == "value")


@dataclass(frozen=True, eq=False, kw_only=True)
class CheckSettings:
    """The settings of a check.

    Attributes:
        metrics: judged, in order; see `judged`.
        tolerances: by metric; `Tolerance.default` for those that are missing.
        confidence: 1 - alpha of tests and the level of intervals, above `LEAST_CONFIDENCE`, at most `MOST_CONFIDENCE`.
        max_lost_required: how many more required items a selector may lose on a dataset than it gains; None = one for
            every 400 queries that need something, at least 1.
        repeats: how often each query is put to an external selector, 1 to 100.
        minimums: by metric, which need not be one of `metrics`.
        accepted_minimums: further ones, of the baseline, which those of `minimums` do not imply.
        pins: in the order of the file.
        allow_removed: leave out queries that are gone, changed or relabelled instead of refusing to judge, and let
            required items be gone (`unmet`).
        seed: of resampling.
    """

    metrics: tuple[Metric, ...] = field(default_factory=lambda: tuple(map(parse_metric, METRICS)))
    tolerances: Mapping[Metric, Tolerance] = field(default_factory=dict)
    confidence: float = 0.95
    max_lost_required: int | None = None
    repeats: int = 1
    minimums: Mapping[Metric, Minimum] = field(default_factory=dict)
    accepted_minimums: Mapping[Metric, Minimum] = field(default_factory=dict)
    pins: tuple[Pin, ...] = ()
    allow_removed: bool = False
    seed: int = 0

    def judged(self, measured: Collection[Metric]) -> tuple[Metric, ...]:
        """The metrics to judge: those named, and `forbidden_offered` where it is among the `measured`."""
        return tuple(dict.fromkeys([*self.metrics, *([FORBIDDEN_OFFERED] * (FORBIDDEN_OFFERED in measured))]))

    @property
    def measured(self) -> tuple[Metric, ...]:
        """The metrics that are named, judged or with a minimum."""
        return tuple(dict.fromkeys([*self.metrics, *self.minimums]))

    def tolerance(self, metric: Metric) -> Tolerance:
        """The tolerance of a metric; `total_tokens` has that of `tokens` by default."""
        if (tolerance := self.tolerances.get(metric)) is None and str(metric) in PRICES:
            tolerance = self.tolerances.get(parse_metric(PRICES[0]))
        return tolerance or Tolerance.default(metric)

    def allowed(self, in_need: int) -> int:
        """How many more required items may be lost than gained, given how many queries need something."""
        return max(1, math.floor(ALLOWED * in_need)) if self.max_lost_required is None else self.max_lost_required

    def as_dict(self) -> dict[str, Any]:
        """All that decides a verdict, with defaults filled in, as a baseline keeps it."""
        unnamed = [metric for metric in (FORBIDDEN_OFFERED,) if metric not in self.metrics]
        minimums = {str(metric): minimum.model_dump() for metric, minimum in self.minimums.items()}
        return {
            "metrics": {str(metric): self.tolerance(metric).as_json for metric in self.metrics},
            "not_named": {str(metric): self.tolerance(metric).as_json for metric in unnamed},
            "confidence": self.confidence,
            "max_lost_required": self.max_lost_required,
            "repeats": self.repeats,
            "seed": self.seed,
            "pins": [pin.as_dict() for pin in self.pins],
            **({"at_least": minimums} if minimums else {}),  # older baselines have none
        }

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> CheckSettings:
        """The settings that `as_dict` wrote; a `LookupError`, `TypeError` or `ValueError` for anything else."""
        rows = {**row["metrics"], **row["not_named"]}
        max_lost = row["max_lost_required"]
        return cls(
            metrics=tuple(map(parse_metric, row["metrics"])),
            tolerances={parse_metric(name): Tolerance.from_json(value) for name, value in rows.items()},
            confidence=float(row["confidence"]),
            max_lost_required=None if max_lost is None else int(max_lost),
            repeats=int(row["repeats"]),
            minimums={parse_metric(name): Minimum(**value) for name, value in {**row.get("at_least", {})}.items()},
            pins=tuple(map(Pin.model_validate, row["pins"])),
            seed=int(row["seed"]),
        )


_PER_CENT = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*%")
GATE = "gate"  # the name of a baseline without a gate file


def _judged_metric(text: object) -> Metric:
    """A metric that can be judged: one with values by query."""
    if not isinstance(text, str):
        raise ParameterError(Message("gate.metric-name", value=text))
    metric = parse_metric(text)
    if metric.declaration.scale == "bits":
        raise ParameterError(
            Message("gate.metric-without-values", metric=metric, parts=" or ".join(map(str, metric.parts)))
        )
    return metric


def _metric_name(text: object) -> str:
    _judged_metric(text)
    return str(text)


def _minimum_metric(text: object) -> str:
    """The name of a metric that can have a minimum."""
    if (metric := _judged_metric(text)).declaration.better == "lower":
        raise ParameterError(Message("gate.minimum-of-cost", metric=metric))
    return str(text)


def _tolerance(value: object) -> Tolerance:
    size = _per_cent(value) if isinstance(value, str) else _number(value)
    if not 0 <= size < math.inf:
        raise ParameterError(Message("gate.tolerance-value", value=value))
    return Tolerance(size, relative=isinstance(value, str))


def _per_cent(value: str) -> float:
    """The share of a text such as `5%`; NaN for anything else."""
    match = _PER_CENT.fullmatch(value.strip())
    return float(match[1]) / 100 if match else math.nan


def _number(value: object) -> float:
    """A number of YAML; NaN for any other value, and infinity for a whole number too large for a float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _baseline_folder(value: object) -> str:
    if not isinstance(value, str) or Path(value).name in ("", "..") or "\0" in value:
        raise ParameterError(Message("gate.baseline-folder", value=value))
    return value


_Minimum: TypeAlias = Annotated[
    Minimum,
    parsed(lambda value: value if isinstance(value, Mapping) else {"value": value}, float | str | Minimum),
]
_Metrics: TypeAlias = Texts[Annotated[Metric, parsed(_judged_metric, str)]]


class GateSection(FileModel):
    """The settings of a check, under `gate:`."""

    noun = "gate"
    metrics: _Metrics = Field(default=(), description="Metrics to judge, by default those of the file.")
    tolerance: dict[
        Annotated[str, parsed(_metric_name, str)], Annotated[Tolerance, parsed(_tolerance, float | str)]
    ] = Field(
        default_factory=dict,
        description="By metric, the largest difference that counts as the same: a number, or a share as in `5%`.",
    )
    confidence: float = Field(
        default=CheckSettings.confidence, gt=LEAST_CONFIDENCE, le=MOST_CONFIDENCE, description="1 - alpha of the tests."
    )
    max_lost_required: Given[int] = Field(
        default=None,
        ge=0,
        description="How many more required items may be lost than gained; by default 1 for every 400 queries.",
    )
    repeats: int = Field(default=1, ge=1, le=100, description="How often each query is put to an external selector.")
    at_least: dict[Annotated[str, parsed(_minimum_metric, str)], _Minimum] = Field(
        default_factory=dict,
        description="By metric, the mean that every selector must reach on every dataset, whatever the baseline.",
    )
    pins: Texts[Pin] = Field(default=(), description="Demands on the offers of single queries.")

    def faults(self, context: Any) -> Iterator[tuple[YamlPath, str]]:  # noqa: ARG002 (of the base)
        """See `FileModel.faults`."""
        yield from _list_faults(self, "metrics")
        for setting in ("tolerance", "at_least"):
            first: dict[Metric, str] = {}
            for name in getattr(self, setting):
                if first.setdefault(metric := parse_metric(name), name) != name:
                    yield (setting, name), Message("gate.named-twice", field=setting, name=metric)
        for name, tolerance in self.tolerance.items():
            metric = parse_metric(name)
            about = metric.declaration
            if tolerance.amount >= 1 and (about.better == "higher" if tolerance.relative else about.scale != "amount"):
                yield ("tolerance", name), Message("gate.tolerance-too-large", tolerance=tolerance, metric=metric)


class GateFields(FileModel):
    """The fields of a gate file besides those of an experiment."""

    noun = "a gate file"
    metrics: _Metrics = Field(default=(), description="Metrics to judge.")
    baseline: Annotated[str, parsed(_baseline_folder, str)] = Field(
        default="", description="Folder of the baseline, by default `NAME.baseline` in the folder of NAME.yaml."
    )
    gate: GateSection = Field(default_factory=GateSection, description="Settings of the check.")

    def faults(self, context: Any) -> Iterator[tuple[YamlPath, str]]:  # noqa: ARG002 (of the base)
        """See `FileModel.faults`."""
        yield from _list_faults(self, "metrics")
        if self.metrics and self.gate.metrics:
            yield ("gate", "metrics"), Message("gate.metrics-twice")
        for name in self.gate.tolerance:
            if parse_metric(name) not in (*self.judged, FORBIDDEN_OFFERED):
                hint = suggest(name, map(str, self.judged))
                yield ("gate", "tolerance", name), Message("gate.tolerance-not-judged", metric=name, hint=hint)

    @property
    def judged(self) -> tuple[Metric, ...]:
        """The metrics of the gate, else those at the top of the file, else the default; always with token counts."""
        named = self.gate.metrics or self.metrics
        return tuple(dict.fromkeys([*named, *map(parse_metric, PRICES if named else METRICS)]))


class _GateExperiment(ExperimentFields):
    """The experiment in a gate file. It has no `compare_to`: each selector is compared with its baseline."""

    noun = "a gate file"
    baseline: Any = None
    gate: Any = None


class GateDefinition(GateFields, _GateExperiment):  # type: ignore[misc]  # metrics are read as such
    """A gate file: an experiment, the folder of its baseline, and the settings of the check."""


@dataclass(frozen=True, eq=False)
class GateFile:
    """A gate file: what is checked, and the baseline to compare with.

    Attributes:
        path: the file.
        experiment: what is run; its metrics are those that the gate judges.
        baseline: the folder of the baseline, which may not exist yet.
        settings: of the check.
    """

    path: Path
    experiment: Experiment
    baseline: Path
    settings: CheckSettings


def read_gate(path: Path) -> GateFile:
    """Read a gate file and check it completely.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: anything in it is wrong: all faults, with their lines.
    """
    gate, faults = examine_gate(path)
    raise_faults(faults)
    return gate


def examine_gate(path: Path) -> tuple[GateFile, list[Fault]]:
    """Read a gate file, and list what is wrong in it, by line.

    With faults in its settings, those are the default, so that the experiment can be checked as well.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: it is no YAML, or no mapping.
    """
    data, lines = load_mapping(path, description="a gate file", keys=field_names(_GateExperiment))
    experiment, faults = experiment_of(data, lines, path, model=_GateExperiment)
    names = () if faults else tuple(spec.name for spec in experiment.selectors)  # with faults, some may be missing
    source = Source(path, lines)
    metrics = data.get("metrics")  # the experiment reports other values
    rest = {name: data[name] for name in ("baseline", "gate") if name in data}
    rest |= {"metrics": metrics} if isinstance(metrics, list) and metrics else {}
    fields, wrong = validate(GateFields, rest, source, context=names)
    selectors = data.get("selectors", [])
    wrong += [
        source.fault(Message("gate.repeats-of-selector"), "selectors", index, "repeats")
        for index, entry in enumerate(selectors if isinstance(selectors, list) else [])
        if isinstance(entry, Mapping) and "repeats" in entry
    ]
    fields = fields or GateFields()
    section = fields.gate
    settings = replace(
        _judging(fields),
        confidence=section.confidence,
        max_lost_required=section.max_lost_required,
        repeats=section.repeats,
        minimums={parse_metric(name): minimum for name, minimum in section.at_least.items()},
        pins=tuple(pin.at(line_of(lines, ("gate", "pins", index))) for index, pin in enumerate(section.pins)),
        seed=experiment.seed,
    )
    gate = GateFile(
        path=path,
        experiment=replace(experiment, metrics=tuple(map(str, settings.measured))),
        baseline=path.parent / (fields.baseline or f"{path.stem}.baseline"),
        settings=settings,
    )
    return gate, sorted([*faults, *wrong], key=lambda fault: fault.line)


def settings_of(metrics: Sequence[str], tolerance: Mapping[str, float | str]) -> CheckSettings:
    """The settings of a gate file with these metrics and tolerances, and defaults.

    Raises:
        InputError: a metric is unknown, or a tolerance is none.
    """
    data = {"metrics": metrics, "tolerance": tolerance}
    fields, faults = validate(GateFields, {"gate": {name: value for name, value in data.items() if value}}, Source())
    raise_faults(faults, subject="check")
    return _judging(fields or GateFields())


def _judging(fields: GateFields) -> CheckSettings:
    tolerances = {parse_metric(name): tolerance for name, tolerance in fields.gate.tolerance.items()}
    return CheckSettings(metrics=fields.judged, tolerances=tolerances)


def plugin_steps(selector: Selector) -> tuple[str, ...]:
    """Module and class of every step of a selector that is not of ctxbench, sorted."""
    if isinstance(selector, SizeMatched):
        return tuple(sorted({*plugin_steps(selector.ranking), *plugin_steps(selector.like)}))
    codes = [step.code for step in selector.pipeline.steps()] if isinstance(selector, PipelineSelector) else []
    return tuple(sorted({code.partition(" ")[0] for code in codes if code}))


@contextlib.contextmanager
def guard_plugins(selector: str, foreign: Sequence[str], *, on: str) -> Iterator[None]:
    """Run a selector; if it has steps of plugins, redirect printed output to standard error and name them in errors.

    Args:
        selector: its name.
        foreign: its steps that are not of ctxbench.
        on: the queries, for messages.

    Raises:
        SelectorError: a selector with steps of plugins raised any error, or tried to end the process. Other errors are
            bugs of ctxbench, and keep their traceback.
    """
    if not foreign:
        yield
        return
    try:
        with confined():
            yield
    except (CtxbenchError, KeyboardInterrupt):
        raise
    except BaseException as error:  # a step that ends the process would end it with its own verdict
        raise SelectorError(
            f"selector {selector!r} failed on {on}{_error_text(error)}; it has steps that are not of ctxbench "
            f"({', '.join(foreign)}): fix or update their package, or leave the selector out"
        ) from error


def _error_text(error: BaseException) -> str:
    """An error as text to follow the words `failed on ...`."""
    if isinstance(error, EndedError):
        return f": {error}"
    return f" with {type(error).__name__}: {error}" if str(error) else f" with {type(error).__name__}"


@contextlib.contextmanager
def guard_exit() -> Iterator[None]:
    """Run a whole check, and raise an error if other code ends the process.

    Code of plugins also runs when it is imported, in threads, and at exit. Its exit code would be read as a verdict.

    Raises:
        SelectorError: `os._exit` or `sys.exit` was called inside, or what is neither an error nor Ctrl-C was raised.
    """
    try:
        with exit_held():
            yield
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise SelectorError(
            f"code that is not of ctxbench ended the check{_error_text(error)}; fix or update the package of the "
            "plugin or of the selector that it belongs to, or leave it out"
        ) from error
