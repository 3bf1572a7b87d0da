"""What tuning found on a dataset, as data: everything that the presets file and the report say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ctxbench.arrays import FloatArray
from ctxbench.evaluation.equal_tokens import AtTokens
from ctxbench.evaluation.metrics import GroupMean
from ctxbench.evaluation.stats import Comparison, Estimate
from ctxbench.evaluation.tuning.policies import Policy
from ctxbench.selectors.parameters import Value

# Contenders' roles
RECOMMENDED, DEFAULTS, PRESET, FIXED, EVERYTHING = "recommended", "defaults", "preset", "fixed", "everything"
TOGETHER = "together"
"""What the setting for all datasets is called, in the place of a dataset."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Contender:
    """One setting of one selector, measured by running it.

    Attributes:
        name: what tables call it, unique in its dataset: a policy's name for what is recommended for it,
            `documents' defaults`, `semantic/normal`, `semantic, first 4`, `everything`.
        role: one of the roles above.
        selector: as the policy file calls it.
        values: by parameter name, those that have an effect.
        tuning, test: estimates by metric name on either split; `test` is empty where the split was not read.
    """

    name: str
    role: str
    selector: str
    values: Mapping[str, Value]
    tuning: Mapping[str, Estimate]
    test: Mapping[str, Estimate]


@dataclass(frozen=True, eq=False, kw_only=True)
class Trace:
    """Settings along which one thing is turned up, with means and bands on the tuning split: a line of a figure.

    Attributes:
        name: what is turned up, as a legend says it: `semantic: front`, `semantic: first n`, or a parameter's name.
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
class Heat:
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
class Worse:
    """A request that the defaults made complete and what is recommended does not (test split).

    Attributes:
        query: its id.
        text: of the request, shortened.
        missing: ids of required items that are no longer offered.
    """

    query: str
    text: str
    missing: tuple[str, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """What one policy came to on a dataset.

    Attributes:
        policy: as read.
        chosen: what is recommended; None where nothing is.
        reason: why nothing is recommended, as a sentence; empty where something is.
        needed: how many queries would be needed to recommend, None = not known or not wanting.
        settings: how many settings were compared exactly for this policy.
        tried: how many were run because a parameter of theirs breaks the prefix rule.
        bounds: on the tuning split, for each constraint its text, and the bound that was held against it.
        met: on the test split, by text of the constraint: True where its interval reaches the target.
        fixed: the first k items of the base selector's ranking, k tuned by the same policy; None = none meets it.
        fixed_own: the same of the chosen selector's ranking.
        against: paired comparisons on the test split of `chosen` with "defaults", "fixed" and "fixed_own", by that
            key and metric name (completeness, tokens, items), Holm-corrected over the dataset.
        at_tokens: on the test split, `chosen` against the first n items of the base's ranking at its own prompt tokens;
            None where queries failed.
        ranking: gain by a better ranking: `fixed_own` against `fixed`, by metric name, on the test split.
        heats: heat maps around what is chosen.
        slices: sensitivity: one trace a parameter, all others as chosen.
        worst_scope, worst_server: on the test split, of at least 10 queries each; None where there are fewer than two.
        worse: requests of the test split made worse, in order of the dataset.
        nested: estimates by metric name of the whole procedure by nested cross-validation on the tuning split, each
            query under a setting chosen without its fold; empty where there were enough queries to do without.
    """

    policy: Policy
    chosen: Contender | None
    reason: str = ""
    needed: int | None = None
    settings: int = 0
    tried: int = 0
    bounds: Mapping[str, float] = field(default_factory=dict)
    met: Mapping[str, bool] = field(default_factory=dict)
    fixed: Contender | None = None
    fixed_own: Contender | None = None
    against: Mapping[str, Mapping[str, Comparison]] = field(default_factory=dict)
    at_tokens: AtTokens | None = None
    ranking: Mapping[str, Comparison] = field(default_factory=dict)
    heats: tuple[Heat, ...] = ()
    slices: tuple[Trace, ...] = ()
    worst_scope: GroupMean | None = None
    worst_server: GroupMean | None = None
    worse: tuple[Worse, ...] = ()
    nested: Mapping[str, Estimate] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, kw_only=True)
class DatasetTuning:
    """One dataset.

    Attributes:
        dataset, version, hash: which one.
        items: in the catalog.
        queries: by split (`tuning`, `test`), how many were measured.
        of: by split, how many could have been; more where a sample was.
        tokens: name of the token counter.
        contenders: references and recommendations, measured on both splits: the documents' defaults, today's
            presets, tuned fixed k, everything, and what is recommended.
        traces: fronts and first-n curves of every selector on the tuning split.
        outcomes: one a policy, in the order of the file.
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
    contenders: tuple[Contender, ...]
    traces: tuple[Trace, ...]
    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Tuning:
    """All of a `ctxbench tune`.

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
