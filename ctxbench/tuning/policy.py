"""Policy files, and the limits that a setting must keep.

* A constraint `of: base` is kept if the mean paired difference to the base, less `SAFETY_ERRORS` standard errors,
  reaches the target, since the best of many settings looks better than it is. Other constraints use the unfavourable
  end of their interval. Both have the same `room` if they limit shares; `USED_ROOM` of it is used.
* A maximised share must not be worse than the base's by the same test, if the base keeps the policy.
* Prompt tokens are at most `MAX_TOKENS` times the base's, unless the setting is significantly more complete.
* At least `MIN_KEPT` of the base's completeness is kept, also for the queries that need an item type; for a type that
  fewer than `FEW_LABELS` queries need, of the required items of this type.
* Another selector than the base's must be significantly better than that (`Ties`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar

import numpy as np
from pydantic import Field, PrivateAttr, WrapValidator

from ctxbench.evaluation.metrics import METRICS, Metric, parse_metric
from ctxbench.io.documents import YamlPath
from ctxbench.io.errors import Fault, Message, ParameterError, UnknownNameError, raise_faults
from ctxbench.io.files import read_text, readable
from ctxbench.io.rows import is_file_name
from ctxbench.model.arrays import BoolArray, FloatArray, IntArray
from ctxbench.model.formats import FileModel, NullAs, Source, Texts, load_file, parsed, raise_located, validate
from ctxbench.model.resources import EmbedderSpec
from ctxbench.search.embedders import embedder_text
from ctxbench.selectors.external import checked_options, external_name
from ctxbench.selectors.protocol import CallableBlock, ExternalBlock
from ctxbench.selectors.selector import EXTERNAL_KINDS, Value
from ctxbench.tuning.cut_families import POWERS, SweptSettings
from ctxbench.tuning.measures import COMPLETENESS, TOKENS, Measure, Pairing

T = TypeVar("T")
Of: TypeAlias = Literal["", "reachable", "base"]
FILLED = ("completeness", "recall", "direct_recall", "dependency_recall")  # best if everything is offered
SET_METRICS = tuple(
    name
    for name, declared in METRICS.items()
    if declared.compute is not None and not {"rankings", "pool", "model_use"} & {*declared.needs}
)
"""Names of the metrics of the offered items, which depend on the cut."""


SAME = 1e-12
"""Relative difference up to which two means are equal: the order of a sum can change them as much."""


def rounding_error(value: float) -> float:
    """The largest difference of two values that are equal up to rounding."""
    return SAME * max(1.0, abs(value))


def _metric(value: Any) -> Metric:
    """A metric of the offered items, by its name.

    Raises:
        ParameterError: it is no name, or the metric does not depend on the cut.
        UnknownNameError: no metric has this name.
    """
    if isinstance(value, Metric):
        return value
    if not isinstance(value, str):
        raise ParameterError(f"expected the name of a metric, got {value!r}")
    try:
        metric = parse_metric(value)
    except UnknownNameError:
        raise UnknownNameError("metric", value, SET_METRICS) from None
    if metric.name not in SET_METRICS:
        raise ParameterError(f"{metric} does not depend on the cut; expected one of {', '.join(SET_METRICS)}")
    return metric


def _file_name(value: Any) -> Any:
    """A name that can be the name of a file.

    Raises:
        ParameterError: it cannot.
    """
    if not isinstance(value, str) or not is_file_name(value):
        raise ParameterError(f"a name must not be empty, contain a slash or begin with a dot; got {value!r}")
    return value


SetMetric: TypeAlias = Annotated[Metric, parsed(_metric, str)]
FileName: TypeAlias = Annotated[str, parsed(_file_name, str)]


class Constraint(FileModel):
    """A bound that a mean must reach or stay below."""

    noun = "a constraint"
    metric: SetMetric = Field(description="A metric of the offered items, such as `completeness` or `tokens`.")
    at_least: float | None = Field(None, description="The lowest mean. Exactly one of at_least and at_most is given.")
    at_most: float | None = Field(None, description="The highest mean.")
    of: Of = Field(
        "",
        description="The unit of the bound. Empty: the mean itself. `reachable`: a share of the queries that the first "
        "20 items of the ranking make complete. `base`: a multiple of what the first selector of the file has with its "
        "defaults.",
    )

    @property
    def target(self) -> float:
        """The bound, in its unit."""
        return next(bound for bound in (self.at_least, self.at_most) if bound is not None)

    def __str__(self) -> str:
        key = {"": "tuning.limit", "reachable": "tuning.limit-of-reachable", "base": "tuning.limit-of-base"}[self.of]
        return Message(key, metric=self.metric, sign="<=" if self.at_least is None else ">=", target=self.target)

    @property
    def key(self) -> str:
        """The constraint in data, which stays as it is where messages change: `tokens <= 0.5 x the base's`."""
        unit = {"": "", "reachable": " of what is reachable at 20 items", "base": " x the base's"}[self.of]
        return f"{self.metric} {'<=' if self.at_least is None else '>='} {self.target:g}{unit}"

    @property
    def met_by_nothing(self) -> bool:
        """Whether offering nothing meets it."""
        return self.at_most is not None or self.at_least == 0 or self.metric.name == "abstention"

    @property
    def met_by_everything(self) -> bool:
        """Whether offering everything meets it, or comes closest."""
        return self.at_least is not None and (self.metric.name in FILLED or self.metric.declaration.scale == "amount")

    def faults(self, context: Any) -> Iterator[tuple[YamlPath, str]]:  # noqa: ARG002
        """A missing or second bound, and a target that no mean or end of an interval can reach."""
        if (self.at_least is None) == (self.at_most is None):
            yield ("at_most",), Message("tuning.constraint-bounds")
            return
        side, target = "at_most" if self.at_least is None else "at_least", self.target
        if self.of == "reachable" and self.metric.name != "completeness":
            yield ("of",), Message("tuning.reachable-completeness", metric=self.metric)
        if self.of == "base":
            is_right, expected = target > 0, "above 0"
        elif self.metric.declaration.scale == "amount":
            is_right, expected = target >= 0, "0 or more"
        elif side == "at_least":
            is_right, expected = 0 <= target < 1, "from 0 to below 1"
        else:
            is_right, expected = 0 < target <= 1, "above 0 to 1"
        if not is_right:
            yield (
                (side,),
                Message("tuning.constraint-target", side=side, metric=self.metric, expected=expected, target=target),
            )


class Policy(FileModel):
    """An objective under constraints. Its name is its key in the file, and the name of the preset."""

    noun = "a policy"
    about: str = Field("", description="One line about the policy.")
    minimise: SetMetric | None = Field(None, description="A metric of which less is better, such as `tokens`.")
    maximise: SetMetric | None = Field(None, description="A metric of which more is better, such as `completeness`.")
    constraints: Texts[Constraint] = Field((), description="Bounds that must all be met.")
    _name: str = PrivateAttr("")

    @classmethod
    def of(cls, name: str, **fields: Any) -> Policy:
        """A policy made in Python, of fields that are not checked."""
        return cls.model_construct(**fields).named(name)

    def named(self, name: str) -> Policy:
        """The same policy with a name."""
        self._name = name
        return self

    @property
    def name(self) -> str:
        """What the preset is called, for example `aggressive`."""
        return self._name

    @property
    def objective(self) -> Metric:
        """The metric that is minimised or maximised."""
        return next(metric for metric in (self.minimise, self.maximise) if metric is not None)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics of the objective and the constraints."""
        return tuple(dict.fromkeys([self.objective, *(constraint.metric for constraint in self.constraints)]))

    def faults(self, context: Any) -> Iterator[tuple[YamlPath, str]]:  # noqa: ARG002
        """A missing or second objective, one that nothing limits, and constraints that exclude each other."""
        if (self.minimise is None) == (self.maximise is None):
            yield ("maximise",), Message("tuning.policy-objective")
            return
        name, better = self.objective.name, self.objective.declaration.better
        aim = ("maximise" if self.minimise is None else "minimise",)
        if (self.minimise is None) != (better == "higher"):
            yield aim, Message("tuning.policy-direction", metric=name, better=better)
        elif self.minimise is not None and all(constraint.met_by_nothing for constraint in self.constraints):
            yield aim, Message("tuning.policy-allows-nothing")
        elif self.maximise is not None and (
            not self.constraints
            or (name in FILLED and all(constraint.met_by_everything for constraint in self.constraints))
        ):
            yield aim, Message("tuning.policy-allows-everything")
        for index, constraint in enumerate(self.constraints):
            for earlier in self.constraints[:index]:
                if (earlier.metric, earlier.of) == (constraint.metric, constraint.of):
                    lower, upper = sorted((constraint, earlier), key=lambda bound: bound.at_least is None)
                    is_repeated = (lower.at_least is None) == (upper.at_least is None)
                    if is_repeated or lower.target > upper.target:
                        key = "tuning.constraint-repeated" if is_repeated else "tuning.constraint-contradicted"
                        yield ("constraints", index), Message(key, constraint=constraint, earlier=earlier)


SAFETY_ERRORS = 2.6  # standard errors of a paired difference
MAX_TOKENS, MIN_KEPT, FEW_LABELS = 1.5, 0.75, 10
_ROOM, _ROOM_OF_BASE = 0.02, 0.1  # the room is this share, or this part of the base's completeness if that is less
USED_ROOM = 0.75  # part of the room that a choice may use, since it is worse than it looks (reports/regret.md)


def measure_of(constraint: Constraint) -> Measure:
    """The mean that a constraint is about."""
    return Measure(constraint.metric, constraint.of == "reachable")


def policy_measures(policies: Collection[Policy]) -> dict[Measure, int]:
    """The measures of policies, and the highest power of their values that must be summed.

    Completeness and tokens are always first, since ties are broken by them. Intervals need powers: those of shares need
    squares, those of amounts squares and cubes. Differences to the base need none.
    """
    measures = {COMPLETENESS: 1, TOKENS: 1}
    for policy in policies:
        measures.setdefault(Measure(policy.objective), 1)
        for constraint in policy.constraints:
            measure = measure_of(constraint)
            powers = 1 if constraint.of == "base" else POWERS[constraint.metric.declaration.scale]
            measures[measure] = max(measures.get(measure, 1), powers)
    return measures


def paired_measures(policies: Collection[Policy]) -> tuple[Measure, ...]:
    """The measures with paired differences to the base: completeness, constraints of the base, maximised objectives."""
    from_policy = (
        measure_of(constraint) for policy in policies for constraint in policy.constraints if constraint.of == "base"
    )
    aims = (Measure(policy.objective) for policy in policies if not policy.minimise)
    return tuple(dict.fromkeys([COMPLETENESS, *from_policy, *aims]))


def kept_measures(types: Mapping[str, BoolArray]) -> tuple[Measure, ...]:
    """The measure that must be kept for each item type: completeness of its queries, or required items of a rare type.

    A type that all queries with requirements require is left out, since its completeness is the completeness.

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
        measure: the limited measure.
        sign: 1 for at least, -1 for at most.
        target: in the unit of the measure.
        unit: the unit of the text, in that of the measure: the base's mean, or `reach_ratio`; 1 for the mean itself.
        room: by how much the unfavourable end may miss the target if a constraint nearly holds.
        by: the value that is compared with the target: the `paired` difference to the base, an `interval`, or the
            `mean`.
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
        """The limit of a constraint.

        Args:
            constraint: of a policy.
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
        """Whether a value misses the target by no more than the room; False for NaN."""
        return self.sign * (value - self.target) >= -(self.room + rounding_error(self.target))

    def is_reached(self, values: FloatArray) -> BoolArray:
        """Whether values reach the target less the used room; False for NaN."""
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
    """The room of a share: 2 points, or a tenth of the base's completeness if that is less."""
    return min(_ROOM, _ROOM_OF_BASE * base.get(COMPLETENESS, 0.0))


def reach_ratio(base: BoolArray, competitor: BoolArray) -> float:
    """How many times as many queries the base's ranking makes complete within reach as another selector's ranking.

    All selectors have the same target: a share of the queries that the base reaches. Completeness is measured on the
    queries that the selector's own ranking reaches, since a cut can complete no others. So their share must be higher
    for a selector that reaches fewer queries than the base.

    Args:
        base, competitor: the queries that the first items of either ranking make complete, shape (n_queries,).
    """
    is_reached = int(competitor.sum())
    return int(base.sum()) / is_reached if is_reached else 1.0


def limits_of(policy: Policy, base: Mapping[Measure, float], *, reach: float = 1.0) -> tuple[Limit, ...]:
    """All limits that a setting must keep to be recommended for a policy, the policy's constraints first.

    Args:
        policy: the policy.
        base: means of the base by measure, with those of `kept_measures`; a missing mean sets no limit.
        reach: see `reach_ratio`.

    Raises:
        ParameterError: the base has no mean of a metric of a constraint `of: base`.
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
    """Whether a constraint of the policy includes a limit on the same mean."""
    return any(
        (policy_limit.measure, policy_limit.sign, policy_limit.by) == (limit.measure, limit.sign, "paired")
        and limit.sign * policy_limit.end >= limit.sign * limit.target
        for policy_limit in from_policy
        if math.isnan(limit.complete)
    )


class SelectorEntry(FileModel):
    """A selector as the file names it. Whether it exists is checked when it is opened."""

    noun = "a selector"
    selector: str = Field(default="", min_length=1, description="A shipped name, or the path of a definition.")
    name: FileName = Field(default="", description="The name in tables, unique in the file.")
    set: dict[str, Value] = Field(default={}, description="Values of parameters that are fixed.")
    search: dict[str, Annotated[Texts[Value], Field(min_length=1)]] = Field(
        default={}, description="By parameter, the values that are tried, if not all."
    )
    fit: Literal["", "own"] = Field(default="", description="`own`: fit its probability to the labels that decide.")
    _external: Mapping[str, Any] = PrivateAttr({})

    @classmethod
    def of_external(cls, name: str, options: Mapping[str, Any], search: Mapping[str, Any]) -> SelectorEntry:
        """The entry of an external selector, with the options that it has in an experiment."""
        entry = cls(name=name, search=dict(search)) if search else cls(name=name)
        entry._external = options  # noqa: SLF001 - of this class
        return entry

    @property
    def external(self) -> Mapping[str, Any]:
        """The options of an external selector, paths relative to the file; empty for others."""
        return self._external

    def faults(self, context: Any) -> Iterator[tuple[YamlPath, str]]:  # noqa: ARG002
        """Values that are listed twice, or both set and searched."""
        for parameter, values in self.search.items():
            for index, value in enumerate(values):
                if value in values[:index]:
                    yield ("search", parameter, index), f"search: {parameter} has {value!r} twice"
            if parameter in self.set:
                yield ("search", parameter), Message("tuning.set-and-searched", parameter=parameter)


def _read_entry(value: Any, read: Callable[[Any], SelectorEntry]) -> SelectorEntry:
    """An entry of the list of selectors: a name, a mapping, or an external selector with its options."""
    if isinstance(value, str):
        value = {"selector": value}
    if not isinstance(value, Mapping):
        return read(value)
    search: Any = {}
    if "callable" in value and "search" in value:
        search = read({"name": "callable", "search": value["search"]}).search
        value = {key: content for key, content in value.items() if key != "search"}
    kinds = [kind for kind in ("selector", *EXTERNAL_KINDS) if kind in value]
    if len(kinds) != 1:
        got = [*value] or ["nothing"]
        raise_located("selectors", [((), Message("tuning.selector-kind", kinds=EXTERNAL_KINDS, got=got))])
    if kinds != ["selector"]:
        kind, options, wrong = checked_options(value)
        if kind in options and not options[kind]:
            wrong.append(f"{kind} must not be empty")
        raise_located("selectors", [((), message) for message in wrong])
        return SelectorEntry.of_external(external_name(kind, options), value, search)
    source = value["selector"]
    if not isinstance(source, str) or not source:
        return read(value)
    is_path = source.endswith((".yaml", ".yml"))
    return read({"name": PurePath(source).stem if is_path else source.partition("/")[0], **value})


class TunedCallable(CallableBlock):
    """A Python callable that is tuned."""

    search: dict[str, Annotated[Texts[Value], Field(min_length=1)]] = Field(
        {}, description="By parameter of the function, behind the request and the items, the values that are tried."
    )


Entry: TypeAlias = Annotated[
    SelectorEntry,
    WrapValidator(_read_entry, json_schema_input_type=str | SelectorEntry | TunedCallable | ExternalBlock),
]


class PolicyFile(FileModel):
    """The content of a policy file: what is tuned, and how."""

    noun = "a policy file"
    name: FileName = Field("", description="The name of the report; by default that of the file.")
    about: str = Field("", description="One line about the file.")
    selectors: Texts[Entry] = Field(
        min_length=1,
        description="What is tuned: shipped names, paths of definitions, or external selectors. The first is the base.",
    )
    policies: dict[FileName, Policy] = Field(min_length=1, description="Policies by name.")
    embedder: Annotated[str, parsed(embedder_text, str | EmbedderSpec)] = Field(
        "minilm", description="An embedder, such as `minilm`, or a mapping of `name` and options."
    )
    tokens: str = Field("o200k", description="A token counter, such as `o200k` or `chars/4`.")
    seed: int = Field(0, ge=0, lt=2**32, description="Seed of random search, resampling and the sample.")
    sample: Annotated[int, Field(ge=1), NullAs(0)] = Field(
        0, description="How many queries per split are drawn; by default all."
    )
    labels: Literal["", "all", "split"] = Field(
        "",
        description="Which labels decide: `all`, or `split`: those of the tuning split, and the test split is read "
        "once. By default all if there are few, or if a split is missing.",
    )
    trials: int = Field(64, ge=1, description="Settings that are run per selector for parameters that are not swept.")
    confidence: float = Field(0.95, gt=0.5, lt=1, description="Level of the intervals of constraints.")
    together: bool = Field(False, description="Whether to choose one setting for all datasets as well.")
    shipped: bool = Field(True, description="Whether shipped presets compete with the selectors.")
    _source: Source = PrivateAttr(Source())
    _hash: str = PrivateAttr("")

    def faults(self, context: Any) -> Iterator[tuple[YamlPath, str]]:  # noqa: ARG002
        """Selectors of one name."""
        names = [entry.name for entry in self.selectors]
        for index, name in enumerate(names):
            if name in names[:index]:
                yield ("selectors", index), Message("tuning.selector-twice", name=name)

    def model_post_init(self, context: Any) -> None:  # noqa: ARG002
        """Name the policies."""
        for name, policy in self.policies.items():
            policy.named(name)

    def read_from(self, source: Source, *, name: str, digest: str) -> PolicyFile:
        """The same content with its origin: its lines, the default name, and the SHA-256 of the file."""
        file = self.model_copy(update={"name": self.name or name})
        file._source, file._hash = source, digest  # noqa: SLF001 - of this class
        return file

    def with_policies(self, policies: Sequence[Policy]) -> PolicyFile:
        """The same file with other policies."""
        return self.model_copy(update={"policies": {policy.name: policy for policy in policies}})

    @property
    def source(self) -> Source:
        """The path of the file and its lines; nothing if it was made in Python."""
        return self._source

    @property
    def path(self) -> Path | None:
        """The file; None if it was made in Python."""
        return None if self._source.path is None else Path(self._source.path)

    @property
    def hash(self) -> str:
        """The SHA-256 of the file."""
        return self._hash

    @property
    def base(self) -> Path:
        """The folder that paths are relative to."""
        return Path() if self.path is None else self.path.parent

    def fault(self, message: str, *location: str | int) -> Fault:
        """A fault at a path of the file."""
        return self._source.fault(message, *location)

    def entry_fault(self, name: str, message: str, *location: str | int) -> Fault:
        """A fault of a selector, by its name."""
        index = next((index for index, entry in enumerate(self.selectors) if entry.name == name), 0)
        return self.fault(message, "selectors", index, *location)


def read_policies(path: Path) -> PolicyFile:
    """Read a policy file and check it whole.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: anything in it is wrong: all faults, with their lines.
    """
    file, source = load_file(PolicyFile, readable(path, repeatedly=True))
    return file.read_from(source, name=path.stem, digest=hashlib.sha256(read_text(path).encode("utf-8")).hexdigest())


def policies_of(data: Mapping[str, Any], *, name: str, digest: str = "") -> PolicyFile:
    """Make a policy file from data that is made in Python.

    Args:
        data: as in the file.
        name: the default name.
        digest: of the data.

    Raises:
        InputError: anything in it is wrong: all faults.
    """
    file, faults = validate(PolicyFile, data, Source())
    raise_faults(faults)
    assert file is not None  # noqa: S101 (there would be a fault)
    return file.read_from(Source(), name=name, digest=digest)


@dataclass(frozen=True, eq=False)
class Ties(Generic[T]):
    """Decides ties between selectors: another selector than the base's must be significantly better than that.

    The best of many settings looks better than it is. On other requests, a selector that was not significantly better
    is as likely to be worse.

    Attributes:
        base: the name of the base's selector.
        gain: by how much the objective of a policy is better at one setting than at another: the mean paired
            difference, above 0 if it is better, and its standard error.
        errors: how many standard errors the difference must be above 0.
    """

    base: str
    gain: Callable[[Policy, T, T], tuple[float, float]]
    errors: float = SAFETY_ERRORS

    def is_better(self, policy: Policy, setting: T, compared: T) -> bool:
        """Whether the objective of a setting is significantly better than that of another; False for NaN."""
        gain, error = self.gain(policy, setting, compared)
        return gain - self.errors * error > rounding_error(gain)


def mean_gain(policy: Policy, parts: Sequence[tuple[FloatArray, FloatArray, IntArray]]) -> tuple[float, float]:
    """The gain of `Ties`: on one dataset, or the mean over several; there of amounts that of their logarithms.

    Args:
        policy: its objective is compared.
        parts: of each dataset, values by query of a setting and of what it is compared with, and groups of queries,
            each of shape (n_queries,).
    """
    measure, gains, errors = Measure(policy.objective), [], []
    for values, compared, group in parts:
        pairing = Pairing(base={measure: compared}, group=group)
        means, of_means = pairing.differences({measure: values})[measure].errors()
        gain, error = float(means[0]), float(of_means[0])
        if len(parts) > 1 and policy.objective.declaration.scale == "amount":
            unit = 1.0 + float(np.nanmean(compared))
            gain, error = math.log1p(gain / unit), error / unit
        gains.append(-gain if policy.minimise else gain)
        errors.append(error)
    return float(np.mean(gains)), math.hypot(*errors) / len(parts)
