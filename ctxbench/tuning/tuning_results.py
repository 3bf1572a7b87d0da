"""Results of tuning as data: everything that presets files and reports say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ctxbench.bench.equal_tokens import AtTokens
from ctxbench.bench.metrics import GroupMean
from ctxbench.bench.stats import Comparison, Estimate
from ctxbench.core.arrays import FloatArray
from ctxbench.selectors.parameters import Value
from ctxbench.tuning.limits import SAME, Policy

# Roles of settings
RECOMMENDED, DEFAULTS, PRESET, FIXED, EVERYTHING = "recommended", "defaults", "preset", "fixed", "everything"
TUNED = "tuned"  # what was chosen of the tuned settings, and a shipped preset beats
LEARNED_NORMAL = "learned/normal"  # what ships for those who tune nothing
# what the base is called behind the selector's name, or in place of it
DOCUMENTS_DEFAULTS, WITH_DEFAULTS, OF_ITS_RANKING = "documents' defaults", ", defaults", " of its ranking"
# what a trace is called behind the selector's name; of one that is not tuned the front is of its shipped presets
FRONT, PRESETS, FIRST_ITEMS = ": front", ": presets", ": first n"
Status: TypeAlias = Literal["holds", "holds within 2 points", "open", "missed", "too few to say"]
TOGETHER = "together"
"""What the setting for all datasets is called, in the place of a dataset."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SettingResult:
    """One setting of one selector, measured by running it.

    Attributes:
        name: the name in tables, unique in its dataset: a policy's name for what is recommended for it,
            `documents' defaults`, `semantic/normal`, `semantic, first 4`, `everything`.
        role: one of the roles above.
        selector: as the policy file calls it.
        values: by parameter name, those that have an effect.
        tuning: estimates by metric name on the tuning set: the tuning split, or all labels.
        test: those on the test split; empty where all labels decide.
    """

    name: str
    role: str
    selector: str
    values: Mapping[str, Value]
    tuning: Mapping[str, Estimate]
    test: Mapping[str, Estimate]

    @property
    def figures(self) -> Mapping[str, Estimate]:
        """The figures that count: those of the test split, or of all labels where these decide."""
        return self.test or self.tuning


@dataclass(frozen=True, eq=False, kw_only=True)
class Trace:
    """Settings along which one thing rises, with means and intervals on the tuning set: a line of a figure.

    Attributes:
        name: what rises, as a legend says it: `semantic: front`, `semantic: first n`, or a parameter's name.
        settings: the values of each point, as a table or a tooltip shows them, length n_points.
        means: by metric name, shape (n_points,).
        low, high: ends of the 95% interval of each mean, by metric name, shape (n_points,).
    """

    name: str
    settings: tuple[Mapping[str, Value], ...]
    means: Mapping[str, FloatArray]
    low: Mapping[str, FloatArray]
    high: Mapping[str, FloatArray]


@dataclass(frozen=True, eq=False, kw_only=True)
class MeanGrid:
    """Means over two parameters, all others as recommended: a heat map.

    Attributes:
        x, y: the parameters.
        xs, ys: their values.
        means: by metric name, shape (len(ys), len(xs)).
    """

    x: str
    y: str
    xs: tuple[Value, ...]
    ys: tuple[Value, ...]
    means: Mapping[str, FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorseRequest:
    """A request that the defaults made complete and what is recommended does not.

    Attributes:
        query: its id.
        text: of the request, shortened.
        missing: ids of required items that are no longer offered.
    """

    query: str
    text: str
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintVerdict:
    """Whether a constraint holds on some queries.

    Attributes:
        text: the constraint.
        status: `holds`: the unfavourable end of what is likely is at the target or better; `holds within 2 points`: it
            is within the room of a share, which is less where the base is complete on fewer than a fifth; `missed`: the
            favourable end is below the target; `open`: neither; `too few to say`: fewer than 20 queries.
        value, low, high: the mean and what is likely, as the constraint counts.
        n: how many queries it is about.
        needed: about how many more would settle it; None = it is settled, or more are unlikely to.
        falls_short: whether the mean itself is beyond the room.
    """

    text: str
    status: Status
    value: float
    low: float
    high: float
    n: int
    needed: int | None = None
    falls_short: bool = False

    @property
    def met(self) -> bool | None:
        """Whether it holds; None = it cannot be said."""
        return {"holds": True, "holds within 2 points": True, "missed": False}.get(self.status)


def fall_short(verdicts: Iterable[ConstraintVerdict]) -> bool:
    """Whether some constraint is missed, so that the default is kept."""
    return any(verdict.falls_short or verdict.met is False for verdict in verdicts)


@dataclass(frozen=True, eq=False, kw_only=True)
class PolicyOutcome:
    """What one policy came to on a dataset. All but `bounds` is of the test split, or of all labels where these decide.

    Attributes:
        policy: as read.
        chosen: what was found better than the default; None where nothing was.
        reason: why the default is kept, as a sentence without its end; empty where something is recommended.
        needed: about how many more labels would do to recommend something, from and to; None = more are unlikely to
            help, or something is recommended.
        answered: whether the labels can say anything of the policy at all.
        taken_from: the stricter policy whose setting `chosen` is; empty where this policy's own limits came to it.
        shipped: the shipped preset that `chosen` is, as `learned/normal`; empty where it is none.
        replaced: the tuned setting that a shipped preset, or the default as it ships, beats in completeness and prompt
            tokens, and that is therefore not recommended.
        settings: how many settings were compared exactly for this policy.
        tried: how many were run because a parameter of theirs breaks the prefix rule.
        bounds: on the tuning set, by text of each constraint the bound that was compared with its target.
        verdicts: of the constraints, without those whose metric applies to no query.
        fixed: the first k items of the base selector's ranking, k tuned by the same policy; None = no k keeps all
            limits (see `limits`, some hold for every policy) and betters the default.
        fixed_reason: why there is no such k, as a sentence without its end; empty where there is one.
        fixed_own: the same of the chosen selector's ranking.
        against: paired comparisons of `chosen` with "defaults", "fixed" and "fixed_own", by that
            key and metric name (completeness, tokens, items, the objective), Holm-corrected over the dataset.
        at_tokens: `chosen` compared with the first n items of the base's ranking at its own prompt tokens;
            None where queries failed.
        ranking: gain by a better ranking: `fixed_own` compared with `fixed`, by metric name.
        heat_maps: around what is chosen.
        slices: sensitivity: one trace per parameter, all others as chosen.
        worst_scope, worst_server: of at least 10 queries each; None where there are fewer than two.
        worse: requests made worse, in order of the dataset.
    """

    policy: Policy
    chosen: SettingResult | None
    reason: str = ""
    needed: tuple[int, int] | None = None
    answered: bool = True
    taken_from: str = ""
    shipped: str = ""
    replaced: SettingResult | None = None
    settings: int = 0
    tried: int = 0
    bounds: Mapping[str, float] = field(default_factory=dict)
    verdicts: tuple[ConstraintVerdict, ...] = ()
    fixed: SettingResult | None = None
    fixed_reason: str = ""
    fixed_own: SettingResult | None = None
    against: Mapping[str, Mapping[str, Comparison]] = field(default_factory=dict)
    at_tokens: AtTokens | None = None
    ranking: Mapping[str, Comparison] = field(default_factory=dict)
    heat_maps: tuple[MeanGrid, ...] = ()
    slices: tuple[Trace, ...] = ()
    worst_scope: GroupMean | None = None
    worst_server: GroupMean | None = None
    worse: tuple[WorseRequest, ...] = ()

    @property
    def recommended(self) -> SettingResult | None:
        """What is recommended: what was found better, unless the queries that are read say that it falls short."""
        return None if fall_short(self.verdicts) else self.chosen


@dataclass(frozen=True, eq=False, kw_only=True)
class DatasetTuning:
    """What tuning found on one dataset.

    Attributes:
        dataset, version, hash: which one.
        items: in the catalog.
        queries: by split, how many were measured: `tuning` and `test`, or `all` where all labels decide.
        of: by split, how many could have been; more where a sample was.
        tokens: name of the token counter.
        results: references and recommendations, measured on all that was asked: the specification's defaults, shipped
            presets, tuned fixed k, everything, and what is recommended.
        traces: fronts and first-n curves of every selector on the tuning set.
        shipped: the shipped presets that competed, by name; the default itself where it is one of them.
        outcomes: one per policy, in the order of the file.
        notes: what a reader must know, as sentences: which parameters broke the prefix rule and how many settings
            were tried instead, that the test split was read once, samples.
    """

    dataset: str
    version: str
    hash: str
    items: int
    queries: Mapping[str, int]
    of: Mapping[str, int]
    tokens: str
    results: tuple[SettingResult, ...]
    traces: tuple[Trace, ...]
    outcomes: tuple[PolicyOutcome, ...]
    notes: tuple[str, ...] = ()
    shipped: Mapping[str, SettingResult] = field(default_factory=dict)

    @property
    def all_decide(self) -> bool:
        """Whether all labels decide, so that no unread split is left."""
        return "test" not in self.queries

    @property
    def default(self) -> SettingResult | None:
        """The setting that is kept where nothing is recommended."""
        return next((result for result in self.results if result.role == DEFAULTS), None)

    def advised(self, outcome: PolicyOutcome) -> SettingResult | None:
        """The advice for a policy: what is recommended, or the default."""
        return outcome.recommended or self.default

    def shortfall(self, outcome: PolicyOutcome) -> float:
        """By how much what is advised is less complete than `learned/normal`, as a share; 0 where it is not, or NaN."""
        advised, reference = self.advised(outcome), self.shipped.get(LEARNED_NORMAL)
        if advised is None or reference is None:
            return 0.0
        completeness = [result.figures.get("completeness") for result in (reference, advised)]
        if completeness[0] is None or completeness[1] is None:
            return 0.0
        gap = completeness[0].value - completeness[1].value
        return gap if gap > SAME else 0.0

    def same_advice(self) -> tuple[tuple[PolicyOutcome, ...], ...]:
        """The outcomes, with those of policies that come to the same advice together, in the order of the first."""
        groups: dict[object, list[PolicyOutcome]] = {}
        for outcome in self.outcomes:
            chosen = outcome.chosen
            key = (outcome.recommended is None, chosen and (chosen.selector, tuple(chosen.values.items())))
            groups.setdefault(key, []).append(outcome)
        return tuple(map(tuple, groups.values()))


@dataclass(frozen=True, eq=False, kw_only=True)
class Tuning:
    """The results of a `ctxbench tune` on all datasets.

    Attributes:
        name, about: of the policy file.
        command: the line that repeats it.
        seed: of random search, resampling and folds.
        embedder: its identity in words.
        datasets: one each; where the file says `together`, the last one is called `together` and has the same values
            for all datasets.
    """

    name: str
    about: str
    command: str
    seed: int
    embedder: str
    datasets: tuple[DatasetTuning, ...]
