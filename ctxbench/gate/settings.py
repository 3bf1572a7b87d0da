"""Gate files in YAML, the settings of a check, and protection from plugin code."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ctxbench.evaluation.experiment import EXPERIMENT_KEYS, Experiment, experiment_of
from ctxbench.evaluation.metrics import FORBIDDEN_OFFERED, Metric, parse_metric
from ctxbench.io.documents import YamlPath, line_of, load_mapping
from ctxbench.io.errors import CtxbenchError, Fault, ParameterError, SelectorError, UserError, raise_faults, suggest
from ctxbench.io.rows import YamlForm
from ctxbench.model.items import ITEM_TYPES, ItemKey
from ctxbench.selectors.callable import EndedError, confined, exit_held
from ctxbench.selectors.selector import PipelineSelector, Selector, SizeMatched

PRICES = ("tokens", "total_tokens")  # judged always: what is no longer searched may still be sent, and paid for
METRICS = ("completeness", "recall", *PRICES)  # judged where nothing else is asked
DEMANDS = ("must_include", "must_not_include", "at_most_items", "at_most_tokens")
PIN_KEYS = ("query", "tag", "dataset", "selector", *DEMANDS)
LEAST_CONFIDENCE, MOST_CONFIDENCE = 0.5, 0.999  # beyond it nearly nothing is ever judged worse
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

    def __post_init__(self) -> None:
        if not (math.isfinite(self.amount) and self.amount >= 0):
            raise ParameterError(f"a tolerance must be 0 or more, got {self.amount}")

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A demand on the offer of a query, or of every query with a tag, independent of metrics.

    Attributes:
        query, tag: one of them is given, the other is empty.
        must_include, must_not_include: item ids.
        at_most_items, at_most_tokens: of what is offered, session items not counted; None = any number.
        dataset, selector: where it holds; empty = wherever the query or the tag is, for every selector.
        line: where it stands in the gate file; 0 = in none.
    """

    query: str = ""
    tag: str = ""
    must_include: tuple[str, ...] = ()
    must_not_include: tuple[str, ...] = ()
    at_most_items: int | None = None
    at_most_tokens: int | None = None
    dataset: str = ""
    selector: str = ""
    line: int = 0

    def as_dict(self) -> dict[str, Any]:
        """As a gate file has it, without what it does not say."""
        values = {name: getattr(self, name) for name in PIN_KEYS}
        lists = {name: [*value] for name, value in values.items() if isinstance(value, tuple) and value}
        return {name: lists.get(name, value) for name, value in values.items() if value not in ("", (), None)}

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Pin:
        """The pin that `as_dict` wrote; see `CheckSettings.from_dict`."""
        query, tag, dataset, selector = (str(row.get(name, "")) for name in PIN_KEYS[:4])
        include, exclude = (tuple(map(str, row.get(name, ()))) for name in DEMANDS[:2])
        items, tokens = (None if row.get(name) is None else int(row[name]) for name in DEMANDS[2:])
        return cls(
            query=query,
            tag=tag,
            dataset=dataset,
            selector=selector,
            must_include=include,
            must_not_include=exclude,
            at_most_items=items,
            at_most_tokens=tokens,
        )

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
        bare = replace(self, must_include=(), must_not_include=(), at_most_items=None, at_most_tokens=None)
        yield from (replace(bare, must_include=(item,)) for item in self.must_include)
        yield from (replace(bare, must_not_include=(item,)) for item in self.must_not_include)
        if self.at_most_items is not None:
            yield replace(bare, at_most_items=self.at_most_items)
        if self.at_most_tokens is not None:
            yield replace(bare, at_most_tokens=self.at_most_tokens)


@dataclass(frozen=True, eq=False, kw_only=True)
class CheckSettings:
    """The settings of a check.

    Attributes:
        metrics: judged, in order; see `judged`.
        tolerances: by metric; `Tolerance.default` for those that are missing.
        confidence: 1 - alpha of tests and the level of intervals, above `LEAST_CONFIDENCE`, at most `MOST_CONFIDENCE`.
        max_lost_required: how many more required items a selector may lose on a dataset than it gains; None = one for
            every 400 queries that need something, at least 1.
        repeats: how often every query is asked of an external selector, 1 to 100.
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
    pins: tuple[Pin, ...] = ()
    allow_removed: bool = False
    seed: int = 0

    def judged(self, measured: Collection[Metric]) -> tuple[Metric, ...]:
        """The metrics to judge: those named, and `forbidden_offered` where it is among the `measured`."""
        added = [FORBIDDEN_OFFERED] * (FORBIDDEN_OFFERED in measured)
        return tuple(dict.fromkeys([*self.metrics, *added]))

    def tolerance(self, metric: Metric) -> Tolerance:
        """The tolerance of a metric; `total_tokens` has that of `tokens` by default."""
        tolerance = self.tolerances.get(metric)
        if tolerance is None and str(metric) in PRICES:
            tolerance = self.tolerances.get(parse_metric(PRICES[0]))
        return tolerance or Tolerance.default(metric)

    def allowed(self, in_need: int) -> int:
        """How many more required items may be lost than gained, given how many queries need something."""
        return max(1, math.floor(ALLOWED * in_need)) if self.max_lost_required is None else self.max_lost_required

    def as_dict(self) -> dict[str, Any]:
        """All that decides a verdict, with defaults filled in, as a baseline keeps it."""
        unnamed = [metric for metric in (FORBIDDEN_OFFERED,) if metric not in self.metrics]
        return {
            "metrics": {str(metric): self.tolerance(metric).as_json for metric in self.metrics},
            "not_named": {str(metric): self.tolerance(metric).as_json for metric in unnamed},
            "confidence": self.confidence,
            "max_lost_required": self.max_lost_required,
            "repeats": self.repeats,
            "seed": self.seed,
            "pins": [pin.as_dict() for pin in self.pins],
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
            pins=tuple(map(Pin.from_dict, row["pins"])),
            seed=int(row["seed"]),
        )


# Each selector is compared with its baseline, so there is no other to compare it with.
_KEYS = (*(key for key in EXPERIMENT_KEYS if key != "compare_to"), "baseline", "gate")
_GATE_KEYS = ("metrics", "tolerance", "confidence", "max_lost_required", "repeats", "pins")
_PER_CENT = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*%")
_MOST_REPEATS = 100
GATE = "gate"  # what a baseline is called after where there is no file


@dataclass(frozen=True, eq=False)
class GateFile:
    """A gate file: what is checked, and the baseline to compare with.

    Attributes:
        path: the file.
        experiment: what is run; its metrics are those that the gate judges.
        baseline: the folder of the baseline; it need not be there.
        settings: what the check goes by.
    """

    path: Path
    experiment: Experiment
    baseline: Path
    settings: CheckSettings


def read_gate(path: Path) -> GateFile:
    """Read a gate file and check it whole.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: anything in it is wrong: all faults, with their lines.
    """
    gate, faults = examine_gate(path)
    raise_faults(faults)
    return gate


def examine_gate(path: Path) -> tuple[GateFile, list[Fault]]:
    """Read what can be read of a gate file, and list what is wrong in it, by line.

    With faults, it holds what is right in the file, so that what it names can be checked as well.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: it is no YAML, or no mapping.
    """
    data, lines = load_mapping(path, description="a gate file", keys=_KEYS)
    experiment, faults = experiment_of(data, lines, path, noun="a gate file", keys=_KEYS)
    names = () if faults else tuple(spec.name for spec in experiment.selectors)  # with faults, some may be missing
    reader = _GateReader(path, lines, faults, selectors=names)
    settings = reader.settings(data, experiment.seed)
    gate = GateFile(
        path=path,
        experiment=replace(experiment, metrics=tuple(map(str, settings.metrics))),
        baseline=path.parent / reader.baseline(data),
        settings=settings,
    )
    return gate, sorted(faults, key=lambda fault: fault.line)


@dataclass
class _GateReader(YamlForm):
    """Reads what a gate file has besides an experiment, and collects faults.

    Attributes:
        selectors: names that pins may use; empty = not known.
    """

    selectors: tuple[str, ...] = field(default=(), kw_only=True)

    def baseline(self, data: Mapping[str, Any]) -> str:
        default = f"{Path(self.path or GATE).stem}.baseline"
        folder = self.text(data, "baseline", default)
        if Path(folder).name in ("", "..") or "\0" in folder:
            self.fault(f"baseline must name a folder of its own, such as {default}; got {folder!r}", "baseline")
            return default
        return folder

    def settings(self, data: Mapping[str, Any], seed: int) -> CheckSettings:
        gate = data.get("gate", {})
        if not isinstance(gate, Mapping):
            self.fault(f"gate is a mapping of {', '.join(_GATE_KEYS)}; got {gate!r}", "gate")
            gate = {}
        self.refuse_unknown(gate, _GATE_KEYS, "gate", "gate")
        selectors = data.get("selectors", [])
        for index, entry in enumerate(selectors if isinstance(selectors, list) else []):
            if isinstance(entry, Mapping) and "repeats" in entry:
                message = "in a gate file, repeats stands once, under gate:, and holds for every selector of yours"
                self.fault(message, "selectors", index, "repeats")
        metrics = self._metrics(data, gate)
        return CheckSettings(
            metrics=metrics,
            tolerances=self._tolerances(gate, metrics),
            max_lost_required=self._count(gate, "gate", "max_lost_required"),
            pins=self._pins(gate),
            seed=seed,
            **{name: value for name, value in self._numbers(gate) if value is not None},
        )

    # ------------------------------------------------------------------------------------------ metrics

    def _metrics(self, data: Mapping[str, Any], gate: Mapping[str, Any]) -> tuple[Metric, ...]:
        """Those of the gate; else those at the top of the file; else the default. And always what an offer costs."""
        if "metrics" in data and "metrics" in gate:
            message = "metrics stand twice, here and at the top of the file; a check judges one list: leave one out"
            self.fault(message, "gate", "metrics")
        where = ("gate", "metrics") if "metrics" in gate else ("metrics",)
        entries = gate.get("metrics", data.get("metrics", list(METRICS)))
        if not isinstance(entries, list) or not entries:
            if where != ("metrics",):  # else the experiment has said so
                self.fault(f"metrics must be a list of names, got {entries!r}", *where)
            entries = list(METRICS)
        metrics: dict[Metric, None] = {}
        for index, text in enumerate(entries):
            metric = self._metric(text, *where, index)
            if metric is not None and metric in metrics:
                self.fault(f"metrics name {metric} twice", *where, index)
            elif metric is not None:
                metrics[metric] = None
        return tuple(dict.fromkeys([*metrics, *map(parse_metric, PRICES if metrics else METRICS)]))

    def _metric(self, text: Any, *where: str | int) -> Metric | None:
        """A metric that can be judged: one with values by query."""
        if not isinstance(text, str):
            self.fault(f"a metric is a name such as completeness, got {text!r}", *where)
            return None
        metric = self.attempt(partial(parse_metric, text), *where)
        if metric is not None and metric.declaration.scale == "bits":
            parts = " or ".join(str(part) for part in metric.parts)
            message = f"{metric} has no values by query, so that no difference of it can be tested"
            self.fault(f"{message}; judge what it is made of: {parts}", *where)
            return None
        return metric

    def _tolerances(self, gate: Mapping[str, Any], metrics: Sequence[Metric]) -> dict[Metric, Tolerance]:
        entries = gate.get("tolerance", {})
        if not isinstance(entries, Mapping):
            message = "tolerance maps metrics to how large a difference may be, as in {completeness: 0.01, tokens: 5%}"
            self.fault(f"{message}; got {entries!r}", "gate", "tolerance")
            return {}
        tolerances = {}
        for name, value in entries.items():
            where = ("gate", "tolerance", name)
            metric, tolerance = self._metric(name, *where), self._tolerance(value, *where)
            if metric is not None and metric not in (*metrics, FORBIDDEN_OFFERED):
                names = [str(judged) for judged in metrics]
                self.fault(f"tolerance is of {metric}, which is not judged{suggest(str(metric), names)}", *where)
            elif metric is not None and metric in tolerances:
                self.fault(f"tolerance names {metric} twice", *where)
            elif metric is not None and tolerance is not None:
                if tolerance.amount >= 1 and (tolerance.relative or metric.declaration.scale != "amount"):
                    message = f"a tolerance of {value} would never be exceeded by {metric}"
                    self.fault(f"{message}; expected less than 1, such as 0.01, or less than 100%", *where)
                tolerances[metric] = tolerance
        return tolerances

    def _tolerance(self, value: Any, *where: str | int) -> Tolerance | None:
        size = _per_cent(value) if isinstance(value, str) else _number(value)
        if 0 <= size < math.inf:
            return Tolerance(size, relative=isinstance(value, str))
        message = (
            "a tolerance is a number, 0 or more, in the unit of the metric, or per cent of the baseline's mean as in 5%"
        )
        self.fault(f"{message}; got {value!r}", *where)
        return None

    # ------------------------------------------------------------------------------------------ numbers

    def _numbers(self, gate: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Settings that are numbers, by name; None where the default holds."""
        expected = f"above {LEAST_CONFIDENCE} and at most {MOST_CONFIDENCE}, as in 0.95; got"
        yield (
            "confidence",
            self._fitting(
                gate,
                ("gate", "confidence"),
                lambda value: LEAST_CONFIDENCE < _number(value) <= MOST_CONFIDENCE,
                expected,
            ),
        )
        fits = partial(_is_whole, at_least=1, at_most=_MOST_REPEATS)
        expected = f"a whole number from 1 to {_MOST_REPEATS}, got"
        yield "repeats", self._fitting(gate, ("gate", "repeats"), fits, expected)

    def _fitting(self, entry: Mapping[str, Any], where: YamlPath, fits: Callable[[Any], bool], expected: str) -> Any:
        """The value of a key, the last of its path; None where nothing is said, or what does not fit: a fault."""
        value = entry.get(str(where[-1]))
        if where[-1] not in entry or fits(value):
            return value
        self.fault(f"{where[-1]} must be {expected} {value!r}", *where)
        return None

    def _count(self, entry: Mapping[str, Any], *where: str | int) -> int | None:
        """A number of items or tokens; None if nothing is said."""
        number: int | None = self._fitting(
            entry, where, partial(_is_whole, at_least=0), "a whole number, 0 or more, got"
        )
        return number

    # ------------------------------------------------------------------------------------------ pins

    def _pins(self, gate: Mapping[str, Any]) -> tuple[Pin, ...]:
        entries = gate.get("pins", [])
        if not isinstance(entries, list):
            self.fault(f"pins must be a list, got {entries!r}", "gate", "pins")
            return ()
        read = (self._pin(entry, ("gate", "pins", index)) for index, entry in enumerate(entries))
        return tuple(pin for pin in read if pin is not None)

    def _pin(self, entry: Any, where: YamlPath) -> Pin | None:
        if not isinstance(entry, Mapping):
            self.fault(f"a pin is a mapping of {', '.join(PIN_KEYS)}; got {entry!r}", *where)
            return None
        before = len(self.faults)
        self.refuse_unknown(entry, PIN_KEYS, "a pin", *where)
        for key in PIN_KEYS[:4]:
            if key in entry and not (isinstance(entry[key], str) and entry[key].strip()):
                self.fault(f"{key} must be a text that is not empty, got {entry[key]!r}", *where, key)
        misspelt = any(key not in PIN_KEYS for key in entry)  # which explains what is missing
        if ("query" in entry) == ("tag" in entry) and not (misspelt and "query" not in entry):
            got = "both" if "query" in entry else "neither"
            self.fault(f"a pin needs one of query and tag, got {got}", *where)
        if not any(key in entry for key in DEMANDS) and not misspelt:
            self.fault(f"a pin demands nothing; give it at least one of {', '.join(DEMANDS)}", *where)
        include, exclude = (self._ids(entry, key, where) for key in DEMANDS[:2])
        for item in sorted({*include} & {*exclude}):
            self.fault(f"{item} must be included and must not be included; no answer does both", *where)
        items, tokens = (self._count(entry, *where, key) for key in DEMANDS[2:])
        selector = entry.get("selector", "")
        if isinstance(selector, str) and selector and self.selectors and selector not in self.selectors:
            message = f"a pin names no selector of this file: {selector!r}{suggest(selector, self.selectors)}"
            self.fault(message, *where, "selector")
        if len(self.faults) > before:
            return None
        return Pin(
            **{key: entry.get(key, "") for key in PIN_KEYS[:4]},
            must_include=include,
            must_not_include=exclude,
            at_most_items=items,
            at_most_tokens=tokens,
            line=line_of(self.lines, where),
        )

    def _ids(self, entry: Mapping[str, Any], key: str, where: YamlPath) -> tuple[str, ...]:
        """Item ids, put in the form that catalogs have them in; what is none is refused once items are known."""
        values = entry.get(key, [])
        if not isinstance(values, list) or (key in entry and not values):
            self.fault(f"{key} must list item ids such as rule:code%20review, got {values!r}", *where, key)
            return ()
        ids: list[str] = []
        for index, value in enumerate(values):
            try:
                parsed = ItemKey.parse(str(value))
            except UserError:
                name = str(value)  # of an item, perhaps
            else:
                name = parsed.id
                if parsed.type not in ITEM_TYPES:
                    message = f"{key}: {value!r} is of no known type{suggest(parsed.type, ITEM_TYPES)}"
                    self.fault(message, *where, key, index)
                    continue
            if name in ids:
                self.fault(f"{key} names {name} twice", *where, key, index)
            else:
                ids.append(name)
        return tuple(ids)


def _is_whole(value: Any, *, at_least: int, at_most: float = math.inf) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and at_least <= value <= at_most


def _per_cent(value: Any) -> float:
    """The share of a text such as `5%`; NaN for anything else."""
    match = _PER_CENT.fullmatch(value.strip()) if isinstance(value, str) else None
    return float(match[1]) / 100 if match else math.nan


def _number(value: Any) -> float:
    """A number of YAML; NaN for what is none, and infinity for a whole number that no float holds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def plugin_steps(selector: Selector) -> tuple[str, ...]:
    """Module and class of every step of a selector that is not of ctxbench, sorted."""
    if isinstance(selector, SizeMatched):
        return tuple(sorted({*plugin_steps(selector.ranking), *plugin_steps(selector.like)}))
    codes = [step.code for step in selector.pipeline.steps()] if isinstance(selector, PipelineSelector) else []
    return tuple(sorted({code.partition(" ")[0] for code in codes if code}))


@contextlib.contextmanager
def guard_plugins(selector: str, foreign: Sequence[str], *, on: str) -> Iterator[None]:
    """Run a selector; if it has steps of plugins, send what is printed to standard error and name them in errors.

    Args:
        selector: its name.
        foreign: its steps that are not of ctxbench.
        on: what it is asked, for messages.

    Raises:
        SelectorError: anything is raised where steps of plugins take part, a wish to end the process among it; else
            what is raised is a bug of ours, and keeps its traceback.
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
    """Run a whole check, and make it an error if other code ends the process.

    Code of others runs at more places than where a selector is asked: where plugins are imported and steps are made,
    in threads that they started, on the way out. An exit code of theirs would be read as a verdict.

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
