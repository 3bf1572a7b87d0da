"""The advice of a tuning, one sentence for each policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ctxbench.bench.stats import Comparison
from ctxbench.report import wording
from ctxbench.report.tuning import tuning_texts
from ctxbench.report.tuning.tuning_texts import COMPLETENESS, TOKENS
from ctxbench.tuning.tuning_results import LEARNED_NORMAL, DatasetTuning, PolicyOutcome, SettingResult, Tuning


def answer(tuning: Tuning) -> str:
    """The result of a tuning in one sentence; empty without policies."""
    if len(tuning.datasets) == 1:
        dataset = tuning.datasets[0]
        clauses = [f"{_names(group)}: {_in_short(dataset, group[0])}" for group in dataset.same_advice()]
        return "; ".join(clauses) + "." * bool(clauses)
    by_policy: dict[str, list[tuple[DatasetTuning, PolicyOutcome]]] = {}
    for dataset in tuning.datasets:
        for outcome in dataset.outcomes:
            by_policy.setdefault(outcome.policy.name, []).append((dataset, outcome))
    return "; ".join(_over_datasets(name, several) for name, several in by_policy.items()) + "." * bool(by_policy)


def _names(outcomes: Sequence[PolicyOutcome]) -> str:
    return wording.listed([outcome.policy.name for outcome in outcomes])


def _in_short(dataset: DatasetTuning, outcome: PolicyOutcome) -> str:
    """`8.2% fewer prompt tokens, -0.3 points of completeness`; `advice` has all of it."""
    shortfall = _less_complete(dataset, outcome)
    if outcome.recommended is None:
        return f"keep the default{f', {shortfall}' * bool(shortfall)}"
    comparisons = outcome.against.get("defaults", {})
    tokens, complete = comparisons.get(str(TOKENS)), comparisons.get(str(COMPLETENESS))
    changes = [f"{_changed(tokens)[0]} prompt tokens"] if tokens is not None and tokens.n and tokens.base else []
    if complete is not None and complete.n:
        changes.append(f"{wording.signed(COMPLETENESS, complete.difference)} points of completeness")
    return ", ".join([*(changes or [setting(outcome)]), *filter(None, [shortfall])])


def _less_complete(dataset: DatasetTuning, outcome: PolicyOutcome) -> str:
    """By how much what is advised is less complete than `learned/normal`; empty where it is not."""
    gap = dataset.shortfall(outcome)
    if not gap:
        return ""
    points = wording.number(COMPLETENESS, gap)
    points = points if float(points) else "less than 0.1"
    is_default = ", the default" * (dataset.shipped[LEARNED_NORMAL] is dataset.default)
    return f"{points} points less complete than {LEARNED_NORMAL}{is_default}"


def _over_datasets(name: str, several: Sequence[tuple[DatasetTuning, PolicyOutcome]]) -> str:
    """For how many datasets another setting than the default is recommended, and what these change."""
    changes = [
        outcome.against["defaults"]
        for _, outcome in several
        if outcome.recommended is not None and "defaults" in outcome.against
    ]
    text = f"{name}: another setting than the default for {len(changes)} of {len(several)} datasets"
    tokens = [change["tokens"] for change in changes if "tokens" in change and change["tokens"].base]
    points = [
        change["completeness"].difference for change in changes if "completeness" in change and change["completeness"].n
    ]
    ranges = []
    if tokens:
        shares = [comparison.difference / comparison.base for comparison in tokens]
        ranges.append(f"{_range(shares, tuning_texts.percent)} prompt tokens")
    if points:
        ranges.append(f"{_range(points, partial(wording.signed, COMPLETENESS))} points of completeness")
    gaps = [gap for dataset, outcome in several if (gap := dataset.shortfall(outcome))]
    if gaps:
        up_to = wording.number(COMPLETENESS, max(gaps))
        ranges.append(f"on {len(gaps)} less complete than {LEARNED_NORMAL}, by up to {up_to} points")
    return f"{text} ({', '.join(ranges)})" if ranges else text


def _range(figures: Sequence[float], say: Callable[[float], str]) -> str:
    low, high = say(min(figures)), say(max(figures))
    return low if low == high else f"{low} to {high}"


def advice(dataset: DatasetTuning, outcome: PolicyOutcome) -> str:
    """What to do for one policy, such as to keep the default."""
    return _advice(dataset, (outcome,))


def all_advice(dataset: DatasetTuning) -> tuple[str, ...]:
    """What to do for every policy; policies that come to the same are named in one sentence."""
    return tuple(_advice(dataset, group) for group in dataset.same_advice())


def _advice(dataset: DatasetTuning, group: Sequence[PolicyOutcome]) -> str:
    """One sentence for policies that come to the same."""
    first = group[0]
    if first.recommended is not None:
        text = _offers(first)
        ends = [
            f"{_aims(outcome)}{_source_note(outcome) * (len(group) == 1)}"
            f"{_verdict_note(outcome, all_decide=dataset.all_decide)}"
            for outcome in group
        ]
    else:
        text = f"keep the default{_called(dataset)}"
        ends = [_why_default(outcome) for outcome in group]
    if shortfall := _less_complete(dataset, first):
        text += f"; it is {shortfall}{_cheaper(dataset, first)}"
    if len(group) == 1:
        return f"{_names(group)}: {text}{ends[0]}."
    opening = f"{_names(group)}: same recommendation: {text}"
    if len(set(ends)) == 1:
        return f"{opening}{ends[0]}."
    differing = (f"; {outcome.policy.name}: {end[2:]}" for outcome, end in zip(group, ends, strict=True) if end)
    return f"{opening}{''.join(differing)}."


def _why_default(outcome: PolicyOutcome) -> str:
    """Why the default is kept, or how many labels would decide."""
    if outcome.chosen is not None:
        missed = wording.listed(
            [verdict.text for verdict in outcome.verdicts if verdict.falls_short or verdict.met is False]
        )
        return f"; what was chosen, {setting(outcome)}, misses {missed} on the test split"
    if outcome.replaced is not None:
        tuned = _selector_with(outcome.replaced)
        return f"; what was chosen, {tuned}, is no more complete and costs no fewer prompt tokens"
    return f"; {outcome.reason.rstrip('.') if not outcome.answered else more_labels(outcome.needed)}"


def _cheaper(dataset: DatasetTuning, outcome: PolicyOutcome) -> str:
    """Whether `learned/normal`, more complete than the default that is kept, costs fewer prompt tokens, too."""
    if outcome.recommended is not None or dataset.default is None:
        return ""
    mine, theirs = (result.figures.get(str(TOKENS)) for result in (dataset.default, dataset.shipped[LEARNED_NORMAL]))
    if mine is None or theirs is None or not mine.value > theirs.value:
        return ""
    fewer = tuning_texts.percent((mine.value - theirs.value) / mine.value).lstrip("+")
    return f", which offers {fewer} fewer prompt tokens on these queries"


def more_labels(labels_needed: tuple[int, int] | None) -> str:
    """How many more labels would help, and to what."""
    if labels_needed is None:
        return "more labels are unlikely to help"
    fewest, largest = (wording.two_digits(count) for count in labels_needed)
    to = f" to {largest:,}" if largest > fewest else ""
    noun = f"request{'' if largest <= 1 else 's'}"
    return f"label about {fewest:,}{to} more {noun} to tell whether a setting meets the target"


def setting(outcome: PolicyOutcome) -> str:
    """What was chosen, with its values, as a sentence has it; a shipped preset by its name."""
    if outcome.chosen is None:
        return ""
    text = _selector_with(outcome.chosen)
    return f"{outcome.shipped} as it ships ({text})" if outcome.shipped else text


def _selector_with(chosen: SettingResult) -> str:
    values = tuning_texts.setting_text(chosen.values)
    return f"{chosen.selector} with {values}" if values else chosen.selector


def _called(dataset: DatasetTuning) -> str:
    return "" if dataset.default is None else f" ({dataset.default.name})"


def _offers(outcome: PolicyOutcome) -> str:
    """What it costs and keeps, against the default, and which tuned setting it beats."""
    comparisons = outcome.against.get("defaults", {})
    tokens, complete = comparisons.get(str(TOKENS)), comparisons.get(str(COMPLETENESS))
    text = setting(outcome)
    if tokens is not None and tokens.n and tokens.base:
        value, interval = _changed(tokens)
        text += f" offers {value} prompt tokens {interval}"
    if complete is not None and complete.n:
        interval = wording.difference_interval(COMPLETENESS, complete)
        text += f" at {wording.signed(COMPLETENESS, complete.difference)} points of completeness ({interval})"
    if outcome.replaced is not None:
        tuned = _selector_with(outcome.replaced)
        text += f"; it is at least as complete as {tuned}, which was chosen by tuning, for no more prompt tokens"
    return text


def _aims(outcome: PolicyOutcome) -> str:
    """By how much it betters what the policy is about, if that is neither completeness nor tokens."""
    comparisons = outcome.against.get("defaults", {})
    changes = [
        (metric, tuning_texts.change_text(comparisons, metric)[0]) for metric in tuning_texts.own_aim(outcome.policy)
    ]
    return "".join(f"; {tuning_texts.points(metric)} {change}" for metric, change in changes)


def _source_note(outcome: PolicyOutcome) -> str:
    """Of which stricter policy the setting is, if it is."""
    return f"; it is what {outcome.taken_from} takes, which asks no less" if outcome.taken_from else ""


def _changed(tokens: Comparison) -> tuple[str, str]:
    """By how many per cent tokens change, and the interval of that."""
    value, interval = tuning_texts.change_text({str(TOKENS): tokens}, TOKENS)[0].split(" ", 1)
    direction = "more" if tokens.difference > 0 else "fewer"
    return f"{value.lstrip('+' + wording.MINUS)} {direction}", interval


def _verdict_note(outcome: PolicyOutcome, *, all_decide: bool) -> str:
    """The verdicts in short; what is recommended met its targets on the queries that decided."""
    statuses = {verdict.status for verdict in outcome.verdicts}
    targets = "its target" if len(outcome.verdicts) == 1 else "its targets"
    if not statuses:
        return ""
    if "too few to say" in statuses:
        return f"; there are too few labels to say whether it holds {targets}"
    if "open" in statuses:
        label_counts = [
            verdict.needed for verdict in outcome.verdicts if verdict.status == "open" and verdict.needed is not None
        ]
        tell = (
            f"about {wording.two_digits(max(label_counts)):,} more labels would"
            if label_counts
            else "more labels hardly would"
        )
        if all_decide:
            return f"; the queries are too few to confirm that it holds {targets} ({tell})"
        return f"; it held {targets} on the tuning queries; the test queries are too few to confirm it ({tell})"
    return f"; it holds {targets}{' within 2 points' if 'holds within 2 points' in statuses else ''}"
