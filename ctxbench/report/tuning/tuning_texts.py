"""A tuning as text: values, changes, settings and policies."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from ctxbench.bench.metrics import Metric, parse_metric
from ctxbench.bench.stats import Comparison, Estimate, Interval
from ctxbench.report import wording
from ctxbench.selectors.parameters import Value, value_text
from ctxbench.tuning.limits import Policy
from ctxbench.tuning.tuning_results import (
    DEFAULTS,
    DOCUMENTS_DEFAULTS,
    EVERYTHING,
    FIXED,
    OF_ITS_RANKING,
    PRESET,
    RECOMMENDED,
    TUNED,
    WITH_DEFAULTS,
    PolicyOutcome,
    SettingResult,
    Tuning,
)

COMPLETENESS, RECALL, TOKENS, ITEMS = (parse_metric(name) for name in ("completeness", "recall", "tokens", "items"))
TITLES = {"completeness": "completeness %", "recall": "recall %", "tokens": "prompt tokens", "items": "items"}
ROLES = {
    RECOMMENDED: "recommended",
    DEFAULTS: "the base, what all is held against",
    PRESET: "a preset as shipped",
    FIXED: "tuned fixed k",
    EVERYTHING: "all that may be offered",
    TUNED: "tuned; a shipped preset is better",
}
TUNING, TEST, ALL = "tuning", "test", "all"
SPLITS = {TUNING: "tuning split", TEST: "test split", ALL: "all labels"}


def own_aim(policy: Policy) -> tuple[Metric, ...]:
    """The objective of a policy, if it is neither completeness nor tokens, which are shown for every policy."""
    return () if policy.objective in (COMPLETENESS, TOKENS) else (policy.objective,)


NO_K = "no k keeps all limits and betters the default"


def policy_metrics(policies: Iterable[Policy]) -> tuple[Metric, ...]:
    """Completeness, tokens, and every other metric that the policies constrain or optimise, each once."""
    metrics = [
        metric
        for policy in policies
        for metric in (policy.objective, *(constraint.metric for constraint in policy.constraints))
    ]
    return tuple(dict.fromkeys([COMPLETENESS, TOKENS, *metrics]))


def title(metric: Metric) -> str:
    """A metric as the head of a column, with its unit."""
    return TITLES.get(str(metric), f"{metric} %" if wording.unit(metric) == "%" else str(metric))


def points(metric: Metric) -> str:
    """A metric with the unit of its differences."""
    return f"{metric}" if metric.declaration.scale == "amount" else f"{metric}, points"


def estimate_text(estimates: Mapping[str, Estimate], metric: Metric) -> str:
    """A mean with its interval, `93.1 (90.2-95.5)`; a dash where there is none."""
    estimate = estimates.get(str(metric))
    if estimate is None or not estimate.n or not math.isfinite(estimate.value):
        return wording.NONE
    return wording.mean(metric, estimate)


def change_text(comparisons: Mapping[str, Comparison] | None, metric: Metric) -> tuple[str, ...]:
    """A difference with its interval and its significance; tokens as per cent of the baseline's mean."""
    comparison = (comparisons or {}).get(str(metric))
    if (
        comparison is None
        or not comparison.n
        or not math.isfinite(comparison.difference)
        or (metric == TOKENS and comparison.base == 0)
    ):
        return (wording.NONE,)
    if metric != TOKENS:
        value, interval = wording.signed(metric, comparison.difference), wording.difference_interval(metric, comparison)
    else:
        value, interval = (
            percent(comparison.difference / comparison.base),
            _shares(comparison.interval, comparison.base),
        )
    return f"{value} ({interval})", wording.verdict(comparison)


def percent(share: float) -> str:
    """A signed share as `-41.2%`; 0 has no sign, and NaN is a dash."""
    if math.isnan(share):
        return wording.NONE
    if math.isinf(share):
        return "\u221e" if share > 0 else f"{wording.MINUS}\u221e"
    text = f"{share:+,.1%}"
    return (text if any(digit in text for digit in "123456789") else text[1:]).replace("-", wording.MINUS)


def _shares(interval: Interval, base: float) -> str:
    ends = (percent(end / base).removesuffix("%") for end in (interval.low, interval.high))
    return f"{' to '.join(ends)}{'' if interval.holds else wording.LOOSE}"


def optimism_text(metric: Metric, tuning: Estimate | None, test: Estimate | None) -> str:
    """How much higher the tuning split is than the test split; tokens as per cent of the test split's mean."""
    if tuning is None or test is None or not (math.isfinite(tuning.value) and math.isfinite(test.value)):
        return wording.NONE
    if metric != TOKENS:
        return wording.signed(metric, tuning.value - test.value)
    return percent((tuning.value - test.value) / test.value) if test.value else wording.NONE


def setting_text(values: Mapping[str, Value]) -> str:
    """Parameters with their values."""
    return ", ".join(f"{name} {value_text(value)}" for name, value in values.items())


def selector_text(chosen: SettingResult) -> str:
    """A selector with its values."""
    values = setting_text(chosen.values)
    return f"{chosen.selector}: {values}" if values else chosen.selector


def choice_text(outcome: PolicyOutcome, chosen: SettingResult) -> str:
    """The chosen setting; where it misses its target on the test split, that the default is kept."""
    text = selector_text(chosen)
    if outcome.shipped:
        text = f"{outcome.shipped} as it ships ({text})"
    return text if outcome.recommended is not None else f"keep the default: {text} misses its target"


def default_text(outcome: PolicyOutcome) -> str:
    """Why the default is kept."""
    return f"keep the default: {outcome.reason.rstrip('.') or 'no setting is clearly better on these queries'}"


def constraints_text(outcome: PolicyOutcome) -> str:
    """The verdicts on the constraints."""
    if not outcome.policy.constraints:
        return "none to hold"
    if outcome.chosen is None or not outcome.verdicts:
        return wording.NONE
    if len(outcome.verdicts) == 1:
        return outcome.verdicts[0].status
    return "; ".join(f"{verdict.text}: {verdict.status}" for verdict in outcome.verdicts)


def policy_text(policy: Policy) -> str:
    """An objective under its constraints, as a sentence without its end."""
    goal = f"{'least' if policy.minimise else 'most'} {_plain(str(policy.objective))}"
    constraints = [str(constraint) for constraint in policy.constraints]
    return f"{goal} with {wording.listed(constraints)}" if constraints else f"{goal}, without constraints"


def _plain(metric: str) -> str:
    return {"tokens": "prompt tokens"}.get(metric, metric)


def intervals(outcome: PolicyOutcome) -> Iterator[Interval]:
    """Every interval that is shown of an outcome's recommendation."""
    if outcome.chosen is not None:
        for estimates in (outcome.chosen.tuning, outcome.chosen.test):
            yield from (estimate.interval for estimate in estimates.values())
    for compared in (*outcome.against.values(), outcome.ranking):
        yield from (comparison.interval for comparison in compared.values())


LOOSE = f"{wording.LOOSE} behind an interval: too few values, or too few that differ, for the interval to be relied on."


_PARAMETERS = {
    "at_most": "most items offered",
    "at_least": "fewest",
    "margin": "how far below the best score an item may lie",
}


def terms(tuning: Tuning) -> str:
    """What the words of the advice mean: parameters that it names, fixed k and base; empty without policies."""
    outcomes = [outcome for dataset in tuning.datasets for outcome in dataset.outcomes]
    named = {name for outcome in outcomes if outcome.chosen is not None for name in outcome.chosen.values}
    reasons = " ".join(outcome.reason for outcome in outcomes)
    sentences = [f"{name}: {words}." for name, words in _PARAMETERS.items() if name in named or f" {name} " in reasons]
    if any(outcome.against for outcome in outcomes):
        sentences.append("Fixed k: simply offer the first k of the base's ranking, with the best k.")
    if any(constraint.of == "reachable" for outcome in outcomes for constraint in outcome.policy.constraints):
        sentences.append("Reachable: what the first 20 items of the base's ranking would make complete.")
    bases = dict.fromkeys(_base_text(dataset.default.name) for dataset in tuning.datasets if dataset.default)
    if bases and outcomes:
        sentences.append(f"Base, or default, what all is held against: {wording.listed([*bases])}.")
    return " ".join(sentences)


def _base_text(name: str) -> str:
    """What the base is, from its name in tables."""
    if name == DOCUMENTS_DEFAULTS:
        return f"semantic with the {name}"
    if name.endswith(OF_ITS_RANKING):
        selector, _, first = name.rpartition(", ")
        return f"{selector}, the {first}, not what it offers itself"
    if name.endswith(WITH_DEFAULTS):
        return f"{name.removesuffix(WITH_DEFAULTS)} with its defaults"
    return name


def p_words(tuning: Tuning) -> str:
    """The meaning of a p-value, with its method; empty where none is shown."""
    alphas = {
        comparison.alpha
        for dataset in tuning.datasets
        for outcome in dataset.outcomes
        for compared in outcome.against.values()
        for comparison in compared.values()
    }
    if not alphas:
        return ""
    methods = "query by query, groups together; Holm's correction over the comparisons of a dataset"
    return f"{wording.P_WORDS}; up to {max(alphas):g} counts. {wording.RAISED} (Methods: {methods}.)"


def short_text(text: str, limit: int) -> str:
    """A text on one line, of at most `limit` characters."""
    line = wording.on_one_line(text)
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}\u2026"
