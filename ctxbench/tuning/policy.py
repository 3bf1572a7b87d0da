"""Policies in YAML, and the constraints that a setting must keep.

* A constraint `of: base` is kept if the mean paired difference to the base less `SAFETY_ERRORS` standard errors reaches
  the target, since the best of many settings looks better than it is. Other constraints use the unfavourable end of
  their interval. Both have the same `room`, if they are about shares; `USED_ROOM` of it is used.
* A maximised share is no worse than the base's, likewise, if the base keeps the policy.
* Prompt tokens are at most `MAX_TOKENS` times the base's, unless the setting is significantly more complete.
* At least `MIN_KEPT` of the base's completeness is kept, also for the queries that need an item type; for a type that
  fewer than `FEW_LABELS` queries need, of the required items of this type.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from ctxbench.evaluation.metrics import METRICS, Metric, parse_metric
from ctxbench.io.documents import YamlPath, line_of, load_mapping
from ctxbench.io.errors import Fault, InputError, Message, ParameterError, UnknownNameError, suggest
from ctxbench.io.files import read_text, readable
from ctxbench.io.rows import YamlForm, is_file_name
from ctxbench.model.arrays import BoolArray, FloatArray, IntArray
from ctxbench.selectors.external import checked_options, external_name
from ctxbench.selectors.selector import EXTERNAL_KINDS, Value
from ctxbench.tuning.cut_families import POWERS, SweptSettings
from ctxbench.tuning.measures import COMPLETENESS, TOKENS, Measure

Of: TypeAlias = Literal["", "reachable", "base"]
FILLED = ("completeness", "recall", "direct_recall", "dependency_recall")  # best where everything is offered


SAME = 1e-12
"""Relative difference up to which two means are equal: the order of adding up may change them so far."""


def rounding_error(value: float) -> float:
    """How much two values that are equal up to rounding may differ."""
    return SAME * max(1.0, abs(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """A bound that a mean must reach or stay below.

    Attributes:
        metric: a set metric.
        at_least, at_most: the target; exactly one is given.
        of: empty: the mean itself; `reachable`: a share of what the first 20 items of the base's ranking make complete,
            compared with the queries that the first 20 of a selector's own ranking do; `base`: a multiple of what
            the base, the first selector of the file, has with its defaults.
    """

    metric: Metric
    at_least: float | None = None
    at_most: float | None = None
    of: Of = ""

    @property
    def target(self) -> float:
        """The bound; of a constraint `of` something, its share or multiple."""
        return float(next(bound for bound in (self.at_least, self.at_most) if bound is not None))

    def __str__(self) -> str:
        key = {"": "tuning.limit", "reachable": "tuning.limit-of-reachable", "base": "tuning.limit-of-base"}[self.of]
        return Message(key, metric=self.metric, sign="<=" if self.at_least is None else ">=", target=self.target)

    @property
    def met_by_nothing(self) -> bool:
        """Whether offering nothing meets it."""
        return self.at_most is not None or self.at_least == 0 or self.metric.name == "abstention"

    @property
    def met_by_everything(self) -> bool:
        """Whether offering everything meets it, or comes as near as anything does."""
        return self.at_least is not None and (self.metric.name in FILLED or self.metric.declaration.scale == "amount")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """An objective under constraints.

    Attributes:
        name: what the preset is called, for example `aggressive`.
        about: one line.
        objective: a set metric.
        minimise: whether less of it is better.
        constraints: all must be met.
    """

    name: str
    about: str
    objective: Metric
    minimise: bool
    constraints: tuple[Constraint, ...] = ()

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics of the objective and the constraints."""
        return tuple(dict.fromkeys([self.objective, *(constraint.metric for constraint in self.constraints)]))


SAFETY_ERRORS = 2.6  # standard errors of a paired difference
MAX_TOKENS, MIN_KEPT, FEW_LABELS = 1.5, 0.75, 10
_ROOM, _ROOM_OF_BASE = 0.02, 0.1  # points, and share of the base's completeness: the lesser one is the room
USED_ROOM = 0.75  # of the room, when choosing: what is chosen by few labels is worse than it looks (reports/regret.md)


def measure_of(constraint: Constraint) -> Measure:
    """The mean that a constraint is about."""
    return Measure(constraint.metric, constraint.of == "reachable")


def policy_measures(policies: Sequence[Policy]) -> dict[Measure, int]:
    """What must be measured to choose by some policies, and up to which power its values must be summed.

    Completeness and tokens come first and are always there: ties are broken by them. 1 = the sum is enough; 2 and 3:
    an interval for a share needs squares, one for an amount squares and cubes. Differences to the base need none.
    """
    measures = {COMPLETENESS: 1, TOKENS: 1}
    for policy in policies:
        measures.setdefault(Measure(policy.objective), 1)
        for constraint in policy.constraints:
            measure = measure_of(constraint)
            powers = 1 if constraint.of == "base" else POWERS[constraint.metric.declaration.scale]
            measures[measure] = max(measures.get(measure, 1), powers)
    return measures


def paired_measures(policies: Sequence[Policy]) -> tuple[Measure, ...]:
    """The measures whose differences to the base are wanted: completeness, those of constraints, what is maximised."""
    from_policy = (
        measure_of(constraint) for policy in policies for constraint in policy.constraints if constraint.of == "base"
    )
    aims = (Measure(policy.objective) for policy in policies if not policy.minimise)
    return tuple(dict.fromkeys([COMPLETENESS, *from_policy, *aims]))


def kept_measures(types: Mapping[str, BoolArray]) -> tuple[Measure, ...]:
    """What must be kept of each item type: by the queries that need it, or of a rare one by its required items.

    A type that all queries in need require is left out, since what is kept of it is what is kept at all.

    Args:
        types: by item type, the queries that require an item of it, shape (n_queries,); see `queries_by_type`.
    """
    in_need = np.logical_or.reduce([*types.values()]) if types else np.empty(0, dtype=np.bool_)
    return tuple(
        Measure(Metric("items") if queries.sum() < FEW_LABELS else COMPLETENESS.metric, required_type=name)
        for name, queries in types.items()
        if 0 < queries.sum() < in_need.sum()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A bound on a mean, with its target as a number.

    Attributes:
        text: the limit in messages.
        measure: what it is about.
        sign: 1 for at least, -1 for at most.
        target: in the unit of the measure.
        unit: what the text counts in, in that of the measure: the base's mean, or how many times as much the base
            reaches; 1 where it is about the mean itself.
        room: how far beyond the target the unfavourable end lies at most where a constraint nearly holds.
        by: what is compared with the target: the `paired` difference to the base, an `interval`, or the `mean`.
        base: the base's mean, for paired differences.
        complete: the base's completeness; a setting that is significantly more complete need not reach the target;
            NaN = it must.
        from_policy: whether the policy sets it.
    """

    text: str
    measure: Measure
    sign: int
    target: float
    unit: float = 1.0
    room: float = 0.0
    by: Literal["paired", "interval", "mean"] = "interval"
    base: float = math.nan
    complete: float = math.nan
    from_policy: bool = True

    @classmethod
    def of(cls, constraint: Constraint, base: Mapping[Measure, float], *, reach: float = 1.0) -> Limit:
        """The limit of a constraint, with its target as a multiple of the base's mean where it is one.

        Args:
            constraint: as the policy has it.
            base: means of the base; without its completeness there is no room.
            reach: see `reach_ratio`; the target of what is reachable is multiplied by it.

        Raises:
            ParameterError: the base has no mean of the metric.
        """
        measure, unit = measure_of(constraint), 1.0
        base_mean = base.get(Measure(constraint.metric), math.nan)
        if constraint.of == "base":
            if math.isnan(base_mean):
                raise ParameterError(f"{constraint}: the base has no {constraint.metric}")
            unit = base_mean
        elif constraint.of == "reachable":
            unit = reach
        return cls(
            text=str(constraint),
            measure=measure,
            sign=1 if constraint.at_least is not None else -1,
            target=constraint.target * unit,
            unit=unit,
            room=room_of(base) if constraint.metric.declaration.scale != "amount" else 0.0,
            by="paired" if constraint.of == "base" else "interval",
            base=base_mean,
        )

    def in_text_unit(self, value: float) -> float:
        """A mean, or an end of its interval, in the unit of the text."""
        if self.unit == 0:
            return 0.0 if value == 0 else math.copysign(math.inf, value)
        return value / self.unit

    @property
    def end(self) -> float:
        """The value that the unfavourable end must reach, with room for rounding."""
        return self.target - self.sign * (USED_ROOM * self.room + rounding_error(self.target))

    def is_near(self, value: float) -> bool:
        """Whether a value is no further beyond the target than the room; NaN is not."""
        return self.sign * (value - self.target) >= -(self.room + rounding_error(self.target))

    def is_reached(self, values: FloatArray) -> BoolArray:
        """Whether values reach the target less the used room; NaN does not."""
        return self.sign * values >= self.sign * self.end

    def mean_reaches(self, settings: SweptSettings) -> BoolArray:
        """Where the means reach the target, shape (n_settings,)."""
        reached = settings.mean_reaches(self.measure, self.sign, self.end)
        return reached if math.isnan(self.complete) else reached | settings.mean_reaches(COMPLETENESS, 1, self.complete)

    def ends(self, settings: SweptSettings, indices: IntArray, *, level: float, times: float = 1.0) -> FloatArray:
        """The values compared with the target at some indices, if there were `times` as many queries."""
        if self.by == "paired":
            mean, error = settings.differences(self.measure, indices, times=times)
            return self.base + mean - self.sign * SAFETY_ERRORS * error
        if self.by == "interval":
            low, high = settings.bounds(self.measure, indices, level=level, times=times)
            return low if self.sign > 0 else high
        means = settings.means(self.measure, indices)
        if math.isnan(self.complete):
            return means
        gain, error = settings.differences(COMPLETENESS, indices, times=times)
        return np.where(gain - SAFETY_ERRORS * error > 0, np.minimum(means, self.target), means)


def room_of(base: Mapping[Measure, float]) -> float:
    """How far beyond its target a share nearly holds it: 2 points, or a tenth of what the base has if that is less."""
    return min(_ROOM, _ROOM_OF_BASE * base.get(COMPLETENESS, 0.0))


def reach_ratio(base: BoolArray, competitor: BoolArray) -> float:
    """How many times as many queries the base's ranking makes complete within reach as another selector's.

    What is reachable is what the base reaches, so that all selectors have the same target. It is compared with the
    queries that the selector's own ranking reaches, since its cut can win no other query: their share must be
    higher where it reaches less than the base, and may be lower where it reaches more.

    Args:
        base, competitor: the queries that the first items of either ranking make complete, shape (n_queries,).
    """
    is_reached = int(competitor.sum())
    return int(base.sum()) / is_reached if is_reached else 1.0


def limits_of(policy: Policy, base: Mapping[Measure, float], *, reach: float = 1.0) -> tuple[Limit, ...]:
    """All that a setting must keep to be recommended for a policy, the policy's own constraints first.

    Args:
        policy: whose.
        base: means of the base by measure, those of `kept_measures` among them; what is missing sets no limit.
        reach: see `reach_ratio`.

    Raises:
        ParameterError: the base has no mean of a metric that a constraint relates to it.
    """
    from_policy = tuple(Limit.of(constraint, base, reach=reach) for constraint in policy.constraints)
    general_limits = [
        Limit(
            text=Message("tuning.limit-of-base", metric=measure, sign=">=", target=MIN_KEPT),
            measure=measure,
            sign=1,
            target=MIN_KEPT * mean,
            unit=mean,
            by="mean",
            from_policy=False,
        )
        for measure, mean in base.items()
        if (measure == COMPLETENESS or measure.required_type) and not math.isnan(mean)
    ]
    if TOKENS in base and COMPLETENESS in base:
        general_limits.append(
            Limit(
                text=Message("tuning.limit-tokens", target=MAX_TOKENS),
                measure=TOKENS,
                sign=-1,
                target=MAX_TOKENS * base[TOKENS],
                unit=base[TOKENS],
                by="mean",
                complete=base[COMPLETENESS],
                from_policy=False,
            )
        )
    return (*from_policy, *(limit for limit in general_limits if not _implied(limit, from_policy)))


def no_worse_limit(measure: Measure, base: Mapping[Measure, float]) -> Limit:
    """The limit that a maximised share is not significantly worse than the base's, except for the room."""
    base_mean = base[measure]
    return Limit(
        text=f"{measure} >= the base's",
        measure=measure,
        sign=1,
        target=base_mean,
        unit=base_mean,
        room=room_of(base),
        by="paired",
        base=base_mean,
        from_policy=False,
    )


def _implied(limit: Limit, from_policy: Sequence[Limit]) -> bool:
    """Whether what the policy asks is no less than a limit on the same mean."""
    return any(
        (policy_limit.measure, policy_limit.sign, policy_limit.by) == (limit.measure, limit.sign, "paired")
        and limit.sign * policy_limit.end >= limit.sign * limit.target
        for policy_limit in from_policy
        if math.isnan(limit.complete)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorEntry:
    """A selector as the file names it, checked in form; whether it exists is checked when it is opened.

    Attributes:
        name: the name in tables, unique in the file.
        selector: a shipped name, or a definition's path relative to the file; empty for an external one.
        external: how to ask an external one for its scored rankings, as `external_from_config` reads it, paths
            relative to the policy file; empty for a selector.
        set: values of parameters that are given.
        search: by parameter, the values that are tried, where they are not all.
        fit: `own`: its probability is fitted to the labels that decide; empty = it is used as it is.
        where: its path in the file, for faults found later.
    """

    name: str
    selector: str = ""
    external: Mapping[str, Any] = field(default_factory=dict)
    set: Mapping[str, Value] = field(default_factory=dict)
    search: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    fit: Literal["", "own"] = ""
    where: YamlPath = ()


_KEYS = (
    *("name", "about", "selectors", "policies", "embedder", "tokens", "seed", "sample", "labels", "trials"),
    *("confidence", "together"),
)
_POLICY_KEYS = ("about", "minimise", "maximise", "constraints")
_CONSTRAINT_KEYS = ("metric", "at_least", "at_most", "of")
_ENTRY_KINDS = ("selector", *EXTERNAL_KINDS)
_ENTRY_KEYS = ("selector", "name", "set", "search", "fit")
T = TypeVar("T")
Labels: TypeAlias = Literal["", "all", "split"]
SET_METRICS = tuple(
    name
    for name, declared in METRICS.items()
    if declared.compute is not None and not {"rankings", "pool", "model_use"} & {*declared.needs}
)
"""Names of the metrics of what is offered, which a cut changes."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PolicyFile:
    """The content of a policy file: what is tuned, and how.

    Attributes:
        name: of the report; a valid file name.
        about: what it is for; may be empty.
        path: the file; None where it was made in Python.
        base: the folder that its paths are relative to.
        selectors: competitors, at least one; the first is the base.
        policies: in order, at least one.
        embedder, tokens: names as `open_embedder` and `open_counter` read them.
        seed: of random search, resampling and the sample.
        sample: how many queries a split at most; 0 = all.
        labels: which decide: `all`, or `split`: those of the tuning split, and the test split is read once; empty = all
            where there are few, or no two splits.
        trials: settings tried for parameters that break the prefix rule, a selector and policy; >= 1.
        confidence: level of the intervals that constraints are met by, above 0.5 and below 1.
        together: whether one setting for all datasets is looked for as well.
        lines: the line of everything in the file by its path, for faults found later.
        hash: SHA-256 of the file.
    """

    name: str
    about: str
    path: Path | None
    base: Path
    selectors: tuple[SelectorEntry, ...]
    policies: tuple[Policy, ...]
    embedder: str
    tokens: str
    seed: int
    sample: int
    labels: Labels
    trials: int
    confidence: float
    together: bool
    lines: Mapping[YamlPath, int]
    hash: str

    def fault(self, message: str, *where: str | int) -> Fault:
        """Something wrong at a path of the file."""
        return Fault(message, self.path, line_of(self.lines, where))


def read_policies(path: Path) -> PolicyFile:
    """Read a policy file and check it whole.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: anything in it is wrong: all faults, with their lines.
    """
    data, lines = load_mapping(readable(path, repeatedly=True), description="a policy file", keys=_KEYS)
    return policies_of(
        data, lines=lines, path=path, name=path.stem, digest=hashlib.sha256(read_text(path).encode("utf-8")).hexdigest()
    )


def policies_of(
    data: Mapping[str, Any], *, lines: Mapping[YamlPath, int], path: Path | None, name: str, digest: str
) -> PolicyFile:
    """Make a policy file from its data, checked whole.

    Args:
        data: the file, read as YAML; or as one would write it, from Python.
        lines: the line of everything in it.
        path: the file; None = there is none.
        name: the default name.
        digest: its SHA-256.

    Raises:
        InputError: anything in it is wrong: all faults, with their lines.
    """
    reader = _PolicyReader(path, lines, [])
    reader.refuse_unknown(data, _KEYS, "a policy file")
    file = PolicyFile(
        name=reader.name(data, name),
        about=reader.text(data, "about", ""),
        path=path,
        base=Path() if path is None else path.parent,
        selectors=reader.selectors(data.get("selectors")),
        policies=reader.policies(data.get("policies")),
        embedder=reader.text(data, "embedder", "minilm"),
        tokens=reader.text(data, "tokens", "o200k"),
        seed=reader.seed(data),
        sample=reader.sample(data),
        labels=reader.checked(data, "labels", "", lambda value: value in ("", "all", "split"), "all or split,"),
        trials=reader.checked(
            data, "trials", 64, lambda value: type(value) is int and value >= 1, "a whole number from 1 on,"
        ),
        confidence=reader.checked(
            data,
            "confidence",
            0.95,
            lambda value: _is_number(value) and 0.5 < value < 1,
            "above 0.5 and below 1, as in 0.95;",
        ),
        together=reader.checked(data, "together", False, lambda value: isinstance(value, bool), "true or false,"),
        lines=lines,
        hash=digest,
    )
    if reader.faults:
        raise InputError(sorted(reader.faults, key=lambda fault: fault.line))
    return file


@dataclass
class _PolicyReader(YamlForm):
    """Reads the parts of a policy file and collects faults."""

    def checked(
        self, data: Mapping[str, Any], key: str, default: T, is_good: Callable[[Any], bool], expected: str
    ) -> T:
        value: T = data.get(key, default)
        if not is_good(value):
            self.fault(f"{key} must be {expected} got {value!r}", key)
        return value  # of a file with faults nothing is used

    def selectors(self, entries: Any) -> tuple[SelectorEntry, ...]:
        if not isinstance(entries, list) or not entries:
            self.fault("selectors must be a list with at least one selector", "selectors")
            return ()
        by_name: dict[str, SelectorEntry] = {}
        for index, entry in enumerate(entries):
            selector = self._selector({"selector": entry} if isinstance(entry, str) else entry, ("selectors", index))
            if selector is not None:
                if selector.name in by_name:
                    self.fault(f"two selectors are called {selector.name!r}; give one another `name`", *selector.where)
                by_name.setdefault(selector.name, selector)
        return tuple(by_name.values())

    def _selector(self, entry: Any, where: YamlPath) -> SelectorEntry | None:
        if not isinstance(entry, Mapping):
            self.fault(f"a selector is a name or a mapping, got {entry!r}", *where)
            return None
        kinds = [kind for kind in _ENTRY_KINDS if kind in entry]
        if len(kinds) != 1:
            got = ", ".join(entry) or "none"
            self.fault(f"a selector needs exactly one of {', '.join(_ENTRY_KINDS)}; got {got}", *where)
            return None
        if kinds[0] != "selector":
            return self._outside(entry, where)
        before = len(self.faults)
        self.refuse_unknown(entry, _ENTRY_KEYS, "an entry with 'selector'", *where)
        for key in ("selector", "name"):
            if key in entry and not (isinstance(entry[key], str) and entry[key].strip()):
                self.fault(f"{key} must be a text that is not empty, got {entry[key]!r}", *where, key)
        set_values, search = self._values(entry, "set", where), self._search(entry, where)
        for key in [key for key in search if key in set_values]:
            self.fault(f"search: set gives {key} a value already; leave it out of one", *where, "search", key)
        fit = entry.get("fit", "")
        if "fit" in entry and fit != "own":
            self.fault(f"fit must be own, or be left out, got {fit!r}", *where, "fit")
        if len(self.faults) > before:
            return None
        source = entry["selector"]
        stem = PurePath(source).stem if source.endswith((".yaml", ".yml")) else source.partition("/")[0]
        if (name := self._file_name(entry.get("name", stem), where)) is None:
            return None
        return SelectorEntry(name=name, selector=source, set=set_values, search=search, fit=fit, where=where)

    def _outside(self, entry: Mapping[str, Any], where: YamlPath) -> SelectorEntry | None:
        """An external selector, with the options that it has in an experiment."""
        kind, options, wrong = checked_options(entry)
        if kind in options and not options[kind]:
            wrong.append(f"{kind} must not be empty")
        for message in wrong:
            self.fault(message, *where)
        if wrong:
            return None
        name = self._file_name(external_name(kind, options), where)
        return None if name is None else SelectorEntry(name=name, external=entry, where=where)

    def _file_name(self, name: str, where: YamlPath) -> str | None:
        """The name of a selector, if it is a valid file name."""
        if is_file_name(name):
            return name
        self.fault(
            f"a selector's name must do for a file: not empty, no slash, no dot in front; got {name!r}; give it "
            "another `name`",
            *where,
        )
        return None

    def _values(self, entry: Mapping[str, Any], key: str, where: YamlPath) -> Mapping[str, Any]:
        values = entry.get(key, {})
        if isinstance(values, Mapping):
            return values
        self.fault(f"{key} must map parameters to values, got {values!r}", *where, key)
        return {}

    def _search(self, entry: Mapping[str, Any], where: YamlPath) -> dict[str, tuple[Value, ...]]:
        searched = {}
        for key, several in self._values(entry, "search", where).items():
            if not isinstance(several, list) or not several:
                self.fault(f"search: {key} must list the values to try, got {several!r}", *where, "search", key)
                continue
            for index, value in enumerate(several):
                if value in several[:index]:
                    self.fault(f"search: {key} names {value!r} twice", *where, "search", key, index)
            searched[key] = tuple(several)
        return searched

    def policies(self, entries: Any) -> tuple[Policy, ...]:
        if not isinstance(entries, Mapping) or not entries:
            self.fault("policies must map names to policies, at least one", "policies")
            return ()
        return tuple(policy for name, entry in entries.items() if (policy := self._policy(name, entry)) is not None)

    def _policy(self, name: str, entry: Any) -> Policy | None:
        where, before = ("policies", name), len(self.faults)
        if not isinstance(name, str) or not is_file_name(name):
            self.fault(
                f"a policy's name must do for a file: not empty, no slash, no dot in front; got {name!r}", *where
            )
        if not isinstance(entry, Mapping):
            self.fault(f"a policy is a mapping of {', '.join(_POLICY_KEYS)}; got {entry!r}", *where)
            return None
        self.refuse_unknown(entry, _POLICY_KEYS, "a policy", *where)
        about = entry.get("about", "")
        if not isinstance(about, str):
            self.fault(f"about must be a text, got {about!r}", *where, "about")
        aims = [key for key in ("minimise", "maximise") if key in entry]
        objective = None
        if len(aims) != 1 and (aims or len(self.faults) == before):
            got = " and ".join(aims) or "neither"
            self.fault(f"a policy needs one of minimise and maximise, got {got}", *where, *aims[1:])
        elif aims:
            objective = self._metric(entry[aims[0]], *where, aims[0])
        constraints = self._constraints(entry.get("constraints", []), where)
        if objective is None or len(self.faults) > before:
            return None
        policy = Policy(
            name=name, about=about, objective=objective, minimise=aims == ["minimise"], constraints=constraints
        )
        self._check_aim(policy, *where, aims[0])
        self._check_constraints(policy, *where, "constraints")
        return policy

    def _metric(self, text: Any, *where: str | int) -> Metric | None:
        """A metric of what is offered."""
        if not isinstance(text, str):
            self.fault(f"{where[-1]} must name a metric, got {text!r}", *where)
            return None
        try:
            metric = parse_metric(text)
        except UnknownNameError:
            message = f"unknown metric {text!r}{suggest(text, SET_METRICS)}"
        except ParameterError as error:
            message = str(error)
        else:
            if metric.name in SET_METRICS:
                return metric
            of_model = "model_use" in metric.declaration.needs
            read = "what the selector's own model cost" if of_model else "read off the ranking"
            message = f"{metric} is {read}, which no cut changes; expected one of {', '.join(SET_METRICS)}"
        self.fault(message, *where)
        return None

    def _constraints(self, entries: Any, policy: YamlPath) -> tuple[Constraint, ...]:
        if not isinstance(entries, list):
            self.fault(f"constraints must be a list, got {entries!r}", *policy, "constraints")
            return ()
        return tuple(
            constraint
            for index, entry in enumerate(entries)
            if (constraint := self._constraint(entry, (*policy, "constraints", index))) is not None
        )

    def _constraint(self, entry: Any, where: YamlPath) -> Constraint | None:
        if not isinstance(entry, Mapping):
            self.fault(f"a constraint is a mapping of {', '.join(_CONSTRAINT_KEYS)}; got {entry!r}", *where)
            return None
        before = len(self.faults)
        self.refuse_unknown(entry, _CONSTRAINT_KEYS, "a constraint", *where)
        if "of" in entry and entry["of"] not in ("reachable", "base"):
            self.fault(f"of must be reachable or base, got {entry['of']!r}", *where, "of")
        metric = None
        if "metric" in entry:
            metric = self._metric(entry["metric"], *where, "metric")
        else:
            self.fault("a constraint needs a metric", *where)
        sides = [key for key in ("at_least", "at_most") if key in entry]
        if len(sides) != 1:
            got = "neither" if not sides else "both; make two constraints of it"
            self.fault(f"a constraint needs one of at_least and at_most, got {got}", *where, *sides[1:])
        elif not _is_number(entry[sides[0]]):
            self.fault(f"{sides[0]} must be a number, got {entry[sides[0]]!r}", *where, sides[0])
        if metric is None or len(self.faults) > before:
            return None
        of, target = entry.get("of", ""), float(entry[sides[0]])
        constraint = Constraint(
            metric=metric,
            at_least=target if sides == ["at_least"] else None,
            at_most=target if sides == ["at_most"] else None,
            of=of,
        )
        self._check_target(constraint, target, where, sides[0])
        return constraint if len(self.faults) == before else None

    def _check_target(self, constraint: Constraint, target: float, where: YamlPath, side: str) -> None:
        """Check that a mean, or the end of an interval, can reach the target."""
        scale = constraint.metric.declaration.scale
        if constraint.of == "reachable" and constraint.metric.name != "completeness":
            self.fault(f"of: reachable is a share of completeness; {constraint.metric} has none", *where, "of")
        if constraint.of == "base":
            if target <= 0:
                self.fault(f"{side} of the base is a multiple and must be above 0, got {target:g}", *where, side)
        elif scale != "amount" and not 0 <= target <= 1:
            self.fault(f"{constraint.metric} is a share: {side} must be 0 to 1, got {target:g}", *where, side)
        elif target < 0:
            self.fault(f"{constraint.metric} counts: {side} must be 0 or more, got {target:g}", *where, side)
        elif scale != "amount" and target == (1 if side == "at_least" else 0):
            end = "low" if target else "high"
            self.fault(f"the {end} end of an interval is never {target:g}; give another {side}", *where, side)

    def _check_aim(self, policy: Policy, *where: str | int) -> None:
        """Check that some constraint limits the objective."""
        name, better = policy.objective.name, policy.objective.declaration.better
        if policy.minimise != (better == "lower"):
            wrong, right = ("minimise", "maximise") if policy.minimise else ("maximise", "minimise")
            self.fault(f"{name} is better {better}; {right} it, not {wrong}", *where)
        elif policy.minimise and all(constraint.met_by_nothing for constraint in policy.constraints):
            self.fault(
                "no constraint asks for anything, so that nothing would be offered; say what must be kept, such as "
                "completeness at_least 0.9",
                *where,
            )
        elif not policy.minimise and not policy.constraints:
            outcome = "everything would be offered" if name in FILLED else f"nothing stands against {name}"
            self.fault(f"without a constraint {outcome}; give a limit, such as tokens at_most 4000", *where)
        elif name in FILLED and all(constraint.met_by_everything for constraint in policy.constraints):
            self.fault(
                "no constraint sets a limit, so that everything would be offered; give one, such as tokens at_most "
                "4000",
                *where,
            )

    def _check_constraints(self, policy: Policy, *where: str | int) -> None:
        """Check that constraints on one metric neither contradict nor repeat each other."""
        for index, constraint in enumerate(policy.constraints):
            for earlier in [
                earlier
                for earlier in policy.constraints[:index]
                if (earlier.metric, earlier.of) == (constraint.metric, constraint.of)
            ]:
                lower = next((limit.at_least for limit in (constraint, earlier) if limit.at_least is not None), None)
                upper = next((limit.at_most for limit in (constraint, earlier) if limit.at_most is not None), None)
                if lower is None or upper is None:
                    self.fault(f"{constraint} and {earlier} limit the same; leave the weaker one out", *where, index)
                elif lower > upper:
                    self.fault(f"{constraint} contradicts {earlier}", *where, index)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
