"""What tuning advises, one sentence for each policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ctxbench.bench.stats import Comparison
from ctxbench.report import wording
from ctxbench.report.tuning import tuning_texts
from ctxbench.report.tuning.tuning_texts import COMPLETENESS, TOKENS
from ctxbench.tuning.tuning_results import DatasetTuning, PolicyOutcome, SettingResult, Tuning


def answer(tuning: Tuning) -> str:
    """What tuning came to, in one sentence; empty where there was no policy."""
    found: dict[str, list[PolicyOutcome]] = {}
    for dataset in tuning.datasets:
        for outcome in dataset.outcomes:
            found.setdefault(outcome.policy.name, []).append(outcome)
    if len(tuning.datasets) == 1:
        return "; ".join(_in_short(name, one) for name, (one,) in found.items()) + "." * bool(found)
    return "; ".join(_over_datasets(name, several) for name, several in found.items()) + "." * bool(found)


def _in_short(name: str, outcome: PolicyOutcome) -> str:
    """`normal: 8.2% fewer prompt tokens, -0.3 points of completeness`; `advice` has all of it."""
    if outcome.recommended is None:
        return f"{name}: keep the default"
    found = outcome.against.get("defaults", {})
    tokens, complete = found.get(str(TOKENS)), found.get(str(COMPLETENESS))
    said = [f"{_changed(tokens)[0]} prompt tokens"] if tokens is not None and tokens.n and tokens.base else []
    if complete is not None and complete.n:
        said.append(f"{wording.signed(COMPLETENESS, complete.difference)} points of completeness")
    return f"{name}: {', '.join(said) or setting(outcome.recommended)}"


def _over_datasets(name: str, several: Sequence[PolicyOutcome]) -> str:
    """For how many datasets another setting than the default is recommended, and what these change."""
    changes = [one.against["defaults"] for one in several if one.recommended is not None and "defaults" in one.against]
    said = f"{name}: another setting than the default for {len(changes)} of {len(several)} datasets"
    tokens = [one["tokens"] for one in changes if "tokens" in one and one["tokens"].base]
    points = [one["completeness"].difference for one in changes if "completeness" in one and one["completeness"].n]
    ranges = []
    if tokens:
        ranges.append(f"{_range([one.difference / one.base for one in tokens], tuning_texts.percent)} prompt tokens")
    if points:
        ranges.append(f"{_range(points, partial(wording.signed, COMPLETENESS))} points of completeness")
    return f"{said} ({', '.join(ranges)})" if ranges else said


def _range(figures: Sequence[float], say: Callable[[float], str]) -> str:
    low, high = say(min(figures)), say(max(figures))
    return low if low == high else f"{low} to {high}"


def advice(dataset: DatasetTuning, outcome: PolicyOutcome) -> str:
    """What to do for one policy, such as to keep the default."""
    name = outcome.policy.name
    if outcome.recommended is not None:
        said = f"{_offers(outcome, outcome.recommended)}{_taken(outcome)}"
        return f"{name}: {said}{_holds(outcome, all_decide=dataset.all_decide)}."
    kept = f"{name}: keep the default{_called(dataset)}"
    if outcome.chosen is not None:
        missed = wording.listed([one.text for one in outcome.verdicts if one.falls_short or one.met is False])
        return f"{kept}; what was chosen, {setting(outcome.chosen)}, misses {missed} on the test split."
    if not outcome.answered:
        return f"{kept}; {outcome.reason.rstrip('.')}."
    return f"{kept}; {more(outcome.needed)}."


def more(needed: tuple[int, int] | None) -> str:
    """How many more labels would help, and to what."""
    if needed is None:
        return "more labels are unlikely to help"
    fewest, most = (wording.two_digits(one) for one in needed)
    to = f" to {most:,}" if most > fewest else ""
    what = f"request{'' if most <= 1 else 's'}"
    return f"label about {fewest:,}{to} more {what} to tell whether a setting meets the target"


def setting(chosen: SettingResult) -> str:
    """A selector with its values, as a sentence has it."""
    values = tuning_texts.setting_text(chosen.values)
    return f"{chosen.selector} with {values}" if values else chosen.selector


def _called(dataset: DatasetTuning) -> str:
    return "" if dataset.default is None else f" ({dataset.default.name})"


def _offers(outcome: PolicyOutcome, chosen: SettingResult) -> str:
    """What it costs and keeps, against the default."""
    found = outcome.against.get("defaults", {})
    tokens, complete = found.get(str(TOKENS)), found.get(str(COMPLETENESS))
    said = setting(chosen)
    if tokens is not None and tokens.n and tokens.base:
        value, interval = _changed(tokens)
        said += f" offers {value} prompt tokens {interval}"
    if complete is not None and complete.n:
        interval = wording.difference_interval(COMPLETENESS, complete)
        said += f" at {wording.signed(COMPLETENESS, complete.difference)} points of completeness ({interval})"
    for metric in tuning_texts.own_aim(outcome.policy):
        said += f"; {tuning_texts.points(metric)} {tuning_texts.change_text(found, metric)[0]}"
    return said


def _taken(outcome: PolicyOutcome) -> str:
    """Of which stricter policy the setting is, if it is."""
    return f"; it is what {outcome.taken_from} takes, which asks no less" if outcome.taken_from else ""


def _changed(tokens: Comparison) -> tuple[str, str]:
    """By how many per cent tokens change, and the interval of that."""
    value, interval = tuning_texts.change_text({str(TOKENS): tokens}, TOKENS)[0].split(" ", 1)
    way = "more" if tokens.difference > 0 else "fewer"
    return f"{value.lstrip('+' + wording.MINUS)} {way}", interval


def _holds(outcome: PolicyOutcome, *, all_decide: bool) -> str:
    """What the verdicts come to; what is recommended has held on the queries that decided."""
    said = {one.status for one in outcome.verdicts}
    targets = "its target" if len(outcome.verdicts) == 1 else "its targets"
    if not said:
        return ""
    if "too few to say" in said:
        return f"; there are too few labels to say whether it holds {targets}"
    if "open" in said:
        needed = [one.needed for one in outcome.verdicts if one.status == "open" and one.needed is not None]
        tell = f"about {wording.two_digits(max(needed)):,} more labels would" if needed else "more labels hardly would"
        if all_decide:
            return f"; the queries are too few to confirm that it holds {targets} ({tell})"
        return f"; it held {targets} on the tuning queries; the test queries are too few to confirm it ({tell})"
    return f"; it holds {targets}{' within 2 points' if 'holds within 2 points' in said else ''}"
