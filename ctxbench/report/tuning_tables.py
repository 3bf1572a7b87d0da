"""Tuning results in sentences and tables, and on the console."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ctxbench.datasets.queries import group_pairs
from ctxbench.evaluation.metrics import GroupMean, Metric, parse_metric
from ctxbench.evaluation.statistics import Comparison, Estimate, Interval
from ctxbench.io.errors import Message, count
from ctxbench.report import document
from ctxbench.report.document import Cell, Table, printable
from ctxbench.selectors.selector import Value, value_text
from ctxbench.tuning.policy import Policy
from ctxbench.tuning.results import (
    AS_RETURNED,
    DEFAULTS,
    EVERYTHING,
    FIXED,
    LEARNED_NORMAL,
    OF_ITS_RANKING,
    PRESET,
    RECOMMENDED,
    SPEC_DEFAULTS,
    TUNED,
    WITH_DEFAULTS,
    DatasetTuning,
    PolicyOutcome,
    SettingResult,
    Tuning,
)

COMPLETENESS, RECALL, TOKENS, ITEMS = (parse_metric(name) for name in ("completeness", "recall", "tokens", "items"))
TITLES = {"completeness": "completeness %", "recall": "recall %", "tokens": "prompt tokens", "items": "items"}
ROLES = {
    RECOMMENDED: "recommended",
    DEFAULTS: "the base, with which all is compared",
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


def metric_title(metric: Metric) -> str:
    """A metric as the head of a column, with its unit."""
    return TITLES.get(str(metric), f"{metric} %" if document.unit(metric) == "%" else str(metric))


def points(metric: Metric) -> str:
    """A metric with the unit of its differences."""
    return f"{metric}" if metric.declaration.scale == "amount" else f"{metric}, points"


def estimate_text(estimates: Mapping[str, Estimate], metric: Metric) -> str:
    """A mean with its interval, `93.1 (90.2-95.5)`; a dash where there is none."""
    if (estimate := estimates.get(str(metric))) is None or not estimate.n or not math.isfinite(estimate.value):
        return document.NONE
    return document.mean(metric, estimate)


def change_text(comparisons: Mapping[str, Comparison] | None, metric: Metric) -> tuple[str, ...]:
    """A difference with its interval and its significance; tokens as per cent of the baseline's mean."""
    if (
        (comparison := (comparisons or {}).get(str(metric))) is None
        or not comparison.n
        or not math.isfinite(comparison.difference)
        or (metric == TOKENS and comparison.base == 0)
    ):
        return (document.NONE,)
    if metric != TOKENS:
        value, interval = (
            document.signed(metric, comparison.difference),
            document.difference_interval(metric, comparison),
        )
    else:
        value, interval = (
            percent(comparison.difference / comparison.base),
            _shares(comparison.interval, comparison.base),
        )
    return f"{value} ({interval})", document.verdict(comparison)


def percent(share: float) -> str:
    """A signed share as `-41.2%`; 0 has no sign, and NaN is a dash."""
    if math.isnan(share):
        return document.NONE
    if math.isinf(share):
        return "\u221e" if share > 0 else f"{document.MINUS}\u221e"
    text = f"{share:+,.1%}"
    return (text if any(digit in text for digit in "123456789") else text[1:]).replace("-", document.MINUS)


def _shares(interval: Interval, base: float) -> str:
    ends = (percent(end / base).removesuffix("%") for end in (interval.low, interval.high))
    return f"{' to '.join(ends)}{'' if interval.holds else document.LOOSE}"


def setting_text(values: Mapping[str, Value]) -> str:
    """Parameters with their values."""
    return ", ".join(f"{name} {value_text(value)}" for name, value in values.items())


def choice_text(outcome: PolicyOutcome, chosen: SettingResult) -> str:
    """The chosen setting; where it misses its target on the test split, that the default is kept."""
    values = setting_text(chosen.values)
    text = f"{chosen.selector}: {values}" if values else chosen.selector
    if outcome.shipped:
        text = f"{outcome.shipped} as it ships ({text})"
    return text if outcome.recommended is not None else f"keep the default: {text} misses its target"


def default_text(outcome: PolicyOutcome) -> str:
    """Why the default is kept."""
    return f"keep the default: {outcome.reason.rstrip('.') or 'no setting is clearly better on these queries'}"


_STATUSES = ("missed", "open", "too few to say", "holds within 2 points", "holds")  # what matters most first


def target_text(outcome: PolicyOutcome) -> str:
    """Whether what is chosen keeps its policy, and what it would cost to know more: how many more labels."""
    if outcome.chosen is None:
        return more_labels(outcome.needed) if outcome.answered else document.NONE
    if not outcome.verdicts:
        return document.NONE if outcome.policy.constraints else "none to hold"
    status = min((verdict.status for verdict in outcome.verdicts), key=_STATUSES.index)
    return f"{status}; {_labels_would(outcome)} tell" if status == "open" else status


def _labels_would(outcome: PolicyOutcome) -> str:
    """How many more labels would decide the constraints that are open, without the verb."""
    numbers = [
        verdict.needed for verdict in outcome.verdicts if verdict.status == "open" and verdict.needed is not None
    ]
    return f"about {document.two_digits(max(numbers)):,} more labels would" if numbers else "more labels hardly would"


def policy_text(policy: Policy) -> str:
    """An objective under its constraints, as a sentence without its end."""
    objective = "prompt tokens" if policy.objective == TOKENS else policy.objective
    goal = f"{'least' if policy.minimise else 'most'} {objective}"
    constraints = [str(constraint) for constraint in policy.constraints]
    return f"{goal} with {document.listed(constraints)}" if constraints else f"{goal}, without constraints"


def intervals(outcome: PolicyOutcome) -> Iterator[Interval]:
    """Every interval that is shown of an outcome's recommendation."""
    if outcome.chosen is not None:
        for estimates in (outcome.chosen.tuning, outcome.chosen.test):
            yield from (estimate.interval for estimate in estimates.values())
    for compared in (*outcome.against.values(), outcome.ranking):
        yield from (comparison.interval for comparison in compared.values())


LOOSE = (
    f"{document.LOOSE} behind an interval: too few values, or too few that differ, for the interval to be relied on."
)


_PARAMETERS = {
    "at_most": "most items offered",
    "at_least": "fewest",
    "margin": "how far below the best score an item may lie",
    "threshold": "the lowest score that is offered",
}


def terms(tuning: Tuning) -> str:
    """What the words of the advice mean: parameters that it names, fixed k and base; empty without policies."""
    outcomes = [outcome for dataset in tuning.datasets for outcome in dataset.outcomes]
    named = {name for outcome in outcomes if outcome.chosen is not None for name in outcome.chosen.values}
    reasons = " ".join(outcome.reason for outcome in outcomes)
    constraints = [constraint for outcome in outcomes for constraint in outcome.policy.constraints]
    bases = dict.fromkeys(_base_text(dataset.default.name) for dataset in tuning.datasets if dataset.default)
    sentences = {
        **{f"{name}: {words}.": name in named or f" {name} " in reasons for name, words in _PARAMETERS.items()},
        "Fixed k: simply offer the first k of the base's ranking, with the best k.": any(
            outcome.against for outcome in outcomes
        ),
        "Reachable: what the first 20 items of the base's ranking would make complete.": any(
            constraint.of == "reachable" for constraint in constraints
        ),
        f"The base, or default, with which all is compared: {document.listed([*bases])}.": bases and outcomes,
        "What a selector of yours offers by its own cut is not compared.": any(
            dataset.default.name.endswith(OF_ITS_RANKING) for dataset in tuning.datasets if dataset.default
        ),
        Message("tuning.base-without-ranking"): any(
            dataset.default.name.endswith(AS_RETURNED) for dataset in tuning.datasets if dataset.default
        ),
    }
    return " ".join(sentence for sentence, applies in sentences.items() if applies)


def _base_text(name: str) -> str:
    """What the base is, from its name in tables."""
    if name == SPEC_DEFAULTS:
        return f"semantic with the {name}"
    if name.endswith(OF_ITS_RANKING):
        selector, _, first = name.removesuffix(OF_ITS_RANKING).rpartition(", ")
        return f"the {first} that {selector} ranks"
    if name.endswith(AS_RETURNED):
        return f"all that {name.removesuffix(AS_RETURNED)} returns"
    return f"{name.removesuffix(WITH_DEFAULTS)} with its defaults" if name.endswith(WITH_DEFAULTS) else name


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
    return f"{document.P_WORDS}; up to {max(alphas):g} counts. {document.RAISED} (Methods: {methods}.)"


def short_text(text: str, limit: int) -> str:
    """A text on one line, of at most `limit` characters."""
    line = document.on_one_line(text)
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}\u2026"


def answer(tuning: Tuning) -> str:
    """What to take for one policy, what it is compared with and its price, without values; empty without policies.

    The policy is `normal`, else the first for which a setting is recommended, else the first.
    """
    by_policy = group_pairs((outcome.policy.name, (dataset, outcome)) for dataset, outcome in outcomes(tuning))
    if not by_policy:
        return ""
    names = [name for name, pairs in by_policy.items() if any(outcome.recommended for _, outcome in pairs)]
    name = "normal" if "normal" in by_policy else next(iter(names or by_policy))
    if len(tuning.datasets) > 1:
        return f"{_over_datasets(name, by_policy[name])}."
    ((dataset, outcome),) = by_policy[name]
    (group,) = (group for group in dataset.same_advice() if outcome in group)
    if outcome.recommended is None:
        return _advice(dataset, group)
    chosen = outcome.chosen
    short = outcome.shipped or (chosen and f"{chosen.selector}{' as tuned' * bool(chosen.values)}") or ""
    comparison = _more_complete(dataset, outcome)
    return f"{policy_names(group)}: {_winner(dataset, outcome, short)}.{comparison and f' {comparison}.'}"


def _winner(dataset: DatasetTuning, outcome: PolicyOutcome, chosen: str) -> str:
    """What to choose for a policy, named `chosen`, compared with the default, without the end of the sentence."""
    name = dataset.default.name if dataset.default is not None else "the default"
    if outcome.recommended is None:
        return f"keep the default ({name})"
    complete, tokens = ([means] if (means := _means(outcome, metric)) else [] for metric in (COMPLETENESS, TOKENS))
    return document.winner_sentence(chosen, _base_text(name), complete, tokens) if complete else chosen


def _means(outcome: PolicyOutcome, metric: Metric) -> document.Means | None:
    """A metric of what is chosen and of the default."""
    return document.Means.of(outcome.against.get("defaults", {}).get(str(metric)))


def policy_names(outcomes: Sequence[PolicyOutcome]) -> str:
    """The names of policies that come to the same."""
    return document.listed([outcome.policy.name for outcome in outcomes])


def _more_complete(dataset: DatasetTuning, outcome: PolicyOutcome) -> str:
    """By how much `learned/normal` is more complete than what is advised, and at how many tokens; empty if it is not.

    A warning where their intervals do not overlap. Empty also where it is the default, which the advice compares with.
    """
    gap, advised = dataset.shortfall(outcome), dataset.advised(outcome)
    if not gap or advised is None or (dataset.shipped[LEARNED_NORMAL] is dataset.default and outcome.recommended):
        return ""
    figures, points = dataset.shipped[LEARNED_NORMAL].figures, document.number(COMPLETENESS, gap)
    is_separate = advised.figures["completeness"].interval.high < figures["completeness"].interval.low
    text = f"{LEARNED_NORMAL} is {points if float(points) else 'less than 0.1'} points more complete"
    tokens = figures.get(str(TOKENS))
    return (
        f"{'Warning: ' * is_separate}{text}{f' at {document.with_unit(TOKENS, tokens.value)} tokens' if tokens else ''}"
    )


def _over_datasets(name: str, several: Sequence[tuple[DatasetTuning, PolicyOutcome]]) -> str:
    """On how many datasets a setting is better than the default for one policy, and what these offer."""
    winners = [outcome for _, outcome in several if outcome.recommended is not None]
    text = f"{name}: a setting is better than the default on {len(winners)} of {len(several)} datasets"
    complete, tokens = ([m for w in winners if (m := _means(w, metric))] for metric in (COMPLETENESS, TOKENS))
    if complete:
        text += f", where {document.winner_sentence('it', 'the default', complete, tokens)}"
    if gaps := [gap for dataset, outcome in several if (gap := dataset.shortfall(outcome))]:
        points_less = document.number(COMPLETENESS, max(gaps))
        text += f"; on {len(gaps)} it is less complete than {LEARNED_NORMAL}, by up to {points_less} points"
    return text


def advice(dataset: DatasetTuning, outcome: PolicyOutcome) -> str:
    """What to do for one policy, such as to keep the default."""
    return _advice(dataset, (outcome,))


def all_advice(dataset: DatasetTuning) -> tuple[str, ...]:
    """What to do for every policy; policies that come to the same are named in one sentence."""
    return tuple(_advice(dataset, group) for group in dataset.same_advice())


def _advice(dataset: DatasetTuning, group: Sequence[PolicyOutcome]) -> str:
    """One sentence for policies that come to the same."""
    first = group[0]
    text = "; ".join(filter(None, [_winner(dataset, first, setting(first)), _more_complete(dataset, first)]))
    if first.recommended is not None:
        text += _replaced_text(first)
        source = f"; the setting of {first.taken_from}, which is stricter" if first.taken_from else ""
        ends = [
            f"{_aims(outcome)}{source if len(group) == 1 else ''}"
            f"{_verdict_note(outcome, all_decide=dataset.all_decide)}"
            for outcome in group
        ]
    else:
        ends = [_why_default(outcome) for outcome in group]
    opening = f"{policy_names(group)}: {text}"
    if len(set(ends)) == 1:
        return f"{opening}{ends[0]}."
    differing = (f"; {outcome.policy.name}: {end[2:]}" for outcome, end in zip(group, ends, strict=True) if end)
    return f"{opening}{''.join(differing)}."


def _why_default(outcome: PolicyOutcome) -> str:
    """Why the default is kept, or how many labels would decide."""
    if outcome.chosen is not None:
        missed = document.listed(
            [verdict.text for verdict in outcome.verdicts if verdict.falls_short or verdict.met is False]
        )
        return f"; what was chosen, {setting(outcome)}, misses {missed} on the test split"
    if outcome.tied_with:
        labels = outcome.needed and f"; {more_labels(outcome.needed, question='whether it is')}"
        return f"; {outcome.reason}{labels or ''}"
    if outcome.replaced is not None:
        return f"; what was chosen, {_selector_with(outcome.replaced)}, is no more complete and costs no fewer tokens"
    return f"; {outcome.reason.rstrip('.') if not outcome.answered else more_labels(outcome.needed)}"


def more_labels(labels_needed: tuple[int, int] | None, *, question: str = "whether a setting meets the target") -> str:
    """How many more labels would help, and to what."""
    if labels_needed is None:
        return "more labels are unlikely to help"
    fewest, largest = (document.two_digits(count) for count in labels_needed)
    to = f" to {largest:,}" if largest > fewest else ""
    noun = f"request{'' if largest <= 1 else 's'}"
    return f"label about {fewest:,}{to} more {noun} to tell {question}"


def setting(outcome: PolicyOutcome) -> str:
    """What was chosen, with its values, as a sentence has it; a shipped preset by its name."""
    if outcome.chosen is None:
        return ""
    text = _selector_with(outcome.chosen)
    return f"{outcome.shipped} as it ships ({text})" if outcome.shipped else text


def _selector_with(chosen: SettingResult) -> str:
    values = setting_text(chosen.values)
    return f"{chosen.selector} with {values}" if values else chosen.selector


def _replaced_text(outcome: PolicyOutcome) -> str:
    """The tuned setting that a shipped preset beats, or the selector that is tied; empty where there is none."""
    tie = f"; {outcome.tied_with} is not significantly better by {outcome.policy.objective}" * bool(outcome.tied_with)
    if outcome.replaced is None or outcome.replaced.selector == outcome.tied_with:
        return tie
    return f"{tie}; it is at least as complete as the tuned {_selector_with(outcome.replaced)}, for no more tokens"


def _aims(outcome: PolicyOutcome) -> str:
    """By how much it betters what the policy is about, if that is neither completeness nor tokens."""
    comparisons = outcome.against.get("defaults", {})
    return "".join(f"; {points(metric)} {change_text(comparisons, metric)[0]}" for metric in own_aim(outcome.policy))


def _verdict_note(outcome: PolicyOutcome, *, all_decide: bool) -> str:
    """The verdicts in short; what is recommended met its targets on the queries that decided."""
    statuses = {verdict.status for verdict in outcome.verdicts}
    targets = "its target" if len(outcome.verdicts) == 1 else "its targets"
    if not statuses:
        return ""
    if "too few to say" in statuses:
        return f"; there are too few labels to say whether it holds {targets}"
    if "open" in statuses:
        tell = _labels_would(outcome)
        if all_decide:
            return f"; the queries are too few to confirm that it holds {targets} ({tell})"
        return f"; it held {targets} on the tuning queries; the test queries are too few to confirm it ({tell})"
    return f"; it holds {targets}{' within 2 points' if 'holds within 2 points' in statuses else ''}"


MANY = 20  # so many requests made worse are named


def presets(tuning: Tuning) -> Table:
    """What is recommended on each dataset for each policy, what it is worth, and what it would cost to know more."""
    named = ("dataset", "preset") if len(tuning.datasets) > 1 else ("preset",)
    head = (*named, "setting", "completeness %", "prompt tokens", "difference from the default", "target")

    def row(_dataset: DatasetTuning, outcome: PolicyOutcome) -> tuple[Cell, ...]:
        if outcome.chosen is None:
            return (default_text(outcome), *([document.NONE] * 3), target_text(outcome))
        figures = [estimate_text(outcome.chosen.figures, metric) for metric in (COMPLETENESS, TOKENS)]
        changes = _differences(outcome.against.get("defaults"))
        return (choice_text(outcome, outcome.chosen), *figures, changes, target_text(outcome))

    rows = tuple(cells[2 - len(named) :] for cells in _rows(tuning, row))
    numbers = frozenset(map(head.index, ("completeness %", "prompt tokens")))
    return Table("What is recommended", head, rows, numbers, key=len(named), stacked=True)


def compared(tuning: Tuning) -> Table | None:
    """What is recommended, compared with a fixed number of items; None where nothing is."""

    def row(dataset: DatasetTuning, outcome: PolicyOutcome) -> tuple[Cell, ...] | None:
        if outcome.chosen is None:
            return None
        fixed = (NO_K,) if outcome.fixed is None else _differences(outcome.against.get("fixed"))
        return (SPLITS[reported_split(dataset)], fixed, change_text(_at_equal_tokens(outcome), COMPLETENESS))

    head = ("dataset", "policy", "figures of", "against tuned fixed k", "points against first n at equal tokens")
    rows = tuple(_rows(tuning, row))
    return Table("Compared with a fixed number of items", head, rows) if rows else None


def _differences(comparisons: Mapping[str, Comparison] | None) -> tuple[str, ...]:
    """Changes in tokens and in completeness."""
    return (
        f"tokens {', '.join(change_text(comparisons, TOKENS))}",
        f"points {', '.join(change_text(comparisons, COMPLETENESS))}",
    )


def _at_equal_tokens(outcome: PolicyOutcome) -> Mapping[str, Comparison]:
    comparison = None if outcome.at_tokens is None else outcome.at_tokens.comparison
    return {} if comparison is None else {str(COMPLETENESS): comparison}


def gains(tuning: Tuning) -> Table | None:
    """The gain of a better ranking and that of a better cut; None where nothing is recommended."""

    def row(_dataset: DatasetTuning, outcome: PolicyOutcome) -> tuple[Cell, ...] | None:
        if outcome.chosen is None or not outcome.against:
            return None
        parts = (outcome.ranking, outcome.against.get("fixed_of_selector"), outcome.against.get("fixed"))
        changes = [change_text(part, metric) for part in parts for metric in (TOKENS, COMPLETENESS)]
        if not outcome.ranking and outcome.fixed is not None and outcome.chosen.selector == outcome.fixed.selector:
            changes[:2] = [("the same ranking",), (document.NONE,)]
        return (*(result.name if result else NO_K for result in (outcome.fixed, outcome.fixed_of_selector)), *changes)

    rows = _rows(tuning, row)
    head = (
        "dataset",
        "policy",
        "fixed k of the base's ranking",
        "fixed k of the chosen ranking",
        *(
            f"by {name}: {figure}"
            for name in ("ranking", "cut", "both")
            for figure in ("tokens", "completeness, points")
        ),
    )
    return Table("Gain by ranking and gain by cut", head, tuple(rows)) if rows else None


def worst(tuning: Tuning) -> Table | None:
    """The scope and the server with the lowest completeness; None where there are no groups large enough."""

    def row(_dataset: DatasetTuning, outcome: PolicyOutcome) -> tuple[Cell, ...] | None:
        groups = (outcome.worst_scope, outcome.worst_server)
        return None if groups == (None, None) else tuple(map(_group, groups))

    rows = _rows(tuning, row)
    head = ("dataset", "policy", "worst scope: completeness %", "worst server: completeness %")
    return Table("Worst scope and worst server", head, tuple(rows)) if rows else None


def _group(group: GroupMean | None) -> str:
    if group is None:
        return "fewer than two groups of 10 queries"
    queries = count(group.mean.n, "query", "queries")
    return f"{group.group}: {document.number(COMPLETENESS, group.mean.value)} of {queries}"


def policies(tuning: Tuning) -> Table:
    """What each policy asks for; the same on all datasets."""
    by_name = {outcome.policy.name: outcome.policy for _, outcome in outcomes(tuning)}
    rows = tuple((policy.name, policy.about, policy_text(policy)) for policy in by_name.values())
    return Table("Policies", ("policy", "about", "asks for"), rows)


def results(dataset: DatasetTuning, tags: Mapping[str, str]) -> Table:
    """Every setting with its figures; the tags are those of the figure."""
    metrics = policy_metrics(outcome.policy for outcome in dataset.outcomes)
    first, last = [metric for metric in metrics if metric not in (RECALL, ITEMS)], (RECALL, ITEMS)
    rows: list[tuple[str, ...]] = []
    for result in all_results(dataset):
        role = ROLES[result.role]
        if result.role != PRESET and (
            ships := [name for name, preset in dataset.shipped.items() if preset.name == result.name]
        ):
            role += f"; {ships[0]} as shipped"
        named = (result.name, tags.get(result.name, ""), ": ".join(filter(None, (role, setting_text(result.values)))))
        for split, estimates in ((ALL if dataset.all_decide else TUNING, result.tuning), (TEST, result.test)):
            if estimates:
                before, after = ([estimate_text(estimates, metric) for metric in side] for side in (first, last))
                name, mark, about = named
                rows.append((name, *before, split, mark, *after, about))
                named = ("", "", "")
    before, after = ([metric_title(metric) for metric in side] for side in (first, last))
    head = ("contender", *before, "split", "mark", *after, "what it is")
    return Table(f"Contenders on {dataset.dataset}", head, tuple(rows), frozenset(map(head.index, (*before, *after))))


def all_results(dataset: DatasetTuning) -> Sequence[SettingResult]:
    """The measured settings of a dataset, and those that its outcomes name besides, each name once.

    What is recommended for several policies is one setting, with the names of all.
    """
    by_name = {result.name: result for result in dataset.results}
    for outcome in dataset.outcomes:
        for result in (outcome.chosen, outcome.fixed, outcome.fixed_of_selector):
            if result is not None:
                by_name.setdefault(result.name, result)
    for first, *following in dataset.same_advice():
        if following and first.chosen is not None:
            names = [outcome.policy.name for outcome in (first, *following)]
            by_name[names[0]] = replace(first.chosen, name=", ".join(names))
            by_name = {name: result for name, result in by_name.items() if name not in names[1:]}
    return tuple(by_name.values())


def _rows(
    tuning: Tuning, make: Callable[[DatasetTuning, PolicyOutcome], tuple[Cell, ...] | None]
) -> list[tuple[Cell, ...]]:
    """Dataset, policies and cells of every recommendation; policies that come to the same share a row.

    Args:
        tuning: of which.
        make: the cells of an outcome; None = it has no row.
    """
    return [
        (dataset.dataset, ", ".join(name for name, _ in named_cells), *_merged(named_cells))
        for dataset in tuning.datasets
        for group in dataset.same_advice()
        if (
            named_cells := [
                (outcome.policy.name, cells) for outcome in group if (cells := make(dataset, outcome)) is not None
            ]
        )
    ]


def _merged(rows: Sequence[tuple[str, tuple[Cell, ...]]]) -> tuple[Cell, ...]:
    """The cells of policies that come to the same: where they differ each names its policy."""
    cells: list[Cell] = []
    for column in zip(*(row for _, row in rows), strict=True):
        texts = [", ".join([cell] if isinstance(cell, str) else cell) for cell in column]
        all_equal = len(set(texts)) == 1
        cells.append(
            column[0] if all_equal else tuple(f"{name}: {text}" for (name, _), text in zip(rows, texts, strict=True))
        )
    return tuple(cells)


def worse_requests(outcome: PolicyOutcome) -> Table:
    """The first requests that the defaults made complete and what is recommended does not."""
    rows = tuple((request.query, request.text, ", ".join(request.missing)) for request in outcome.worse[:MANY])
    return Table(f"Requests made worse by {outcome.policy.name}", ("query", "request", "no longer offered"), rows)


def reported_split(dataset: DatasetTuning) -> str:
    """The split that figures are read from."""
    return ALL if dataset.all_decide else TEST


def outcomes(tuning: Tuning) -> Iterator[tuple[DatasetTuning, PolicyOutcome]]:
    """Every outcome with its dataset, in order."""
    yield from ((dataset, outcome) for dataset in tuning.datasets for outcome in dataset.outcomes)


_WIDTH = 80
_ASIDE, _COLUMN = 15, 26  # of the names of rows, and of a split's figures
ALL_DECIDE = (
    "Figures are of the same requests that the values were chosen on, of every split: none are left to test them on "
    "(`labels: split` leaves the test split out)."
)


def console_table(tuning: Tuning, *, plain: bool = False) -> str:
    """The recommendations in 80 columns; ends with a line feed.

    Args:
        tuning: what was found.
        plain: whether the terminal lacks Unicode, so that signs must be plain.
    """
    lines = [*_wrapped(answer(tuning), 0, 2), "", *_wrapped(terms(tuning), 0, 2), ""] if answer(tuning) else []
    for dataset in tuning.datasets:
        lines += _wrapped(_heading(dataset), 0, 2)
        if dataset.all_decide:
            lines += _wrapped(ALL_DECIDE, 2, 2)
        for group in dataset.same_advice():
            lines += [*_outcome(dataset, group), ""]
        if dataset.shipped:
            lines += [*_shipped(dataset), ""]
    if tuning.datasets:
        legend = [p_words(tuning), LOOSE if any(map(document.has_loose, lines)) else ""]
        lines += [*_wrapped(" ".join(filter(None, legend)), 0, 2), ""] if any(legend) else []
    return "\n".join(printable(line, plain) for line in lines or ["No policy was tuned for.", ""])


def _heading(dataset: DatasetTuning) -> str:
    counts = [f"{n:,}" if split == ALL else f"{n:,} {split}" for split, n in dataset.queries.items()]
    queries = "query" if [*dataset.queries.values()] == [1] else "queries"
    size = f"{document.listed(counts) or 'no'} {queries}, {count(dataset.items, 'item')}"
    return f"{dataset.dataset}: {size}, tokens by {dataset.tokens}"


def _outcome(dataset: DatasetTuning, group: Sequence[PolicyOutcome]) -> Iterator[str]:
    """The figures of policies that come to the same."""
    for outcome in group:
        yield from _wrapped(f"{outcome.policy.name}: {policy_text(outcome.policy)}", 2, 4)
    outcome, chosen = group[0], group[0].chosen
    if chosen is None:
        reasons = group_pairs((f"{default_text(member)}; {target_text(member)}", member) for member in group)
        for reason, members in reasons.items():
            names = f"{policy_names(members)}: " if len(reasons) > 1 else ""
            yield from _wrapped(f"{names}{reason.removesuffix(f'; {document.NONE}')}", 4, 6)
        return
    yield from _wrapped(f"{choice_text(outcome, chosen)}{_replaced_text(outcome)}", 4, 6)
    splits = {ALL: chosen.tuning} if dataset.all_decide else {TUNING: chosen.tuning, TEST: chosen.test}
    aims = tuple(dict.fromkeys(metric for member in group for metric in own_aim(member.policy)))
    metrics = policy_metrics(member.policy for member in group)
    titles = {metric_title(metric): metric for metric in (*aims, *metrics)}
    aside = max(_ASIDE, *(len(title) + 1 for title in titles))
    yield f"    {'':<{aside}}{''.join(f'{SPLITS[split]:<{_COLUMN}}' for split in splits)}".rstrip()
    for title, metric in titles.items():
        sides = (estimate_text(estimates, metric) for estimates in splits.values())
        yield f"    {title:<{aside}}{''.join(f'{side:<{_COLUMN}}' for side in sides)}".rstrip()
    if not outcome.against:
        return
    yield from _compared("against the base's defaults", outcome, "defaults", aims)
    fixed = {member.fixed.name if member.fixed else member.fixed_reason: member for member in group}
    for member in fixed.values():
        suffix = f" of {member.policy.name}" * (len(fixed) > 1)
        if member.fixed is not None:
            yield from _compared(f"against tuned fixed k{suffix}", member, "fixed", aims)
        else:
            yield from _wrapped(f"tuned fixed k{suffix}: {member.fixed_reason or NO_K}", 4, 6)
    for member in group:
        suffix = f" of {member.policy.name}" * (len(group) > 1)
        split = SPLITS[reported_split(dataset)]
        yield from _wrapped(f"target{suffix}, {split}: {target_text(member)}", 4, 6)


def _compared(title: str, outcome: PolicyOutcome, key: str, aims: Sequence[Metric]) -> Iterator[str]:
    """Changes against one other setting."""
    yield f"    {title}"
    compared = outcome.against.get(key)
    yield from _wrapped(f"prompt tokens {', '.join(change_text(compared, TOKENS))}", 6, 8)
    for metric in (COMPLETENESS, *aims):
        yield from _wrapped(f"{points(metric)} {', '.join(change_text(compared, metric))}", 6, 8)


def _shipped(dataset: DatasetTuning) -> Iterator[str]:
    """The presets that competed as they ship."""
    width = max(map(len, dataset.shipped)) + 2
    metrics = policy_metrics(outcome.policy for outcome in dataset.outcomes)
    yield f"  presets as shipped, {SPLITS[reported_split(dataset)]}"
    for pair in (metrics[start : start + 2] for start in range(0, len(metrics), 2)):  # no third column fits
        yield f"    {'':<{width}}{''.join(f'{metric_title(metric):<{_COLUMN}}' for metric in pair)}".rstrip()
        for name, result in dataset.shipped.items():
            figures = (f"{estimate_text(result.figures, metric):<{_COLUMN}}" for metric in pair)
            is_default = ", the default" * (result is dataset.default and TOKENS in pair)
            yield f"    {name:<{width}}{''.join(figures).rstrip()}{is_default}"


def _wrapped(text: str, first: int, rest: int) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=" " * first, subsequent_indent=" " * rest) or [""]
