"""Tables of what tuning found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from ctxbench.bench.metrics import GroupMean
from ctxbench.bench.stats import Comparison
from ctxbench.io.visible import count
from ctxbench.report import wording
from ctxbench.report.document import Cell, Table
from ctxbench.report.tuning import tuning_texts
from ctxbench.report.tuning.tuning_texts import ALL, COMPLETENESS, ITEMS, RECALL, SPLITS, TEST, TITLES, TOKENS, TUNING
from ctxbench.tuning.tuning_results import PRESET, DatasetTuning, PolicyOutcome, SettingResult, Tuning

MANY = 20  # so many requests made worse are named


def summary(tuning: Tuning) -> Table:
    """What is recommended on each dataset for each policy, and what it is worth."""
    head = (
        "dataset",
        "policy",
        "completeness %",
        "prompt tokens",
        "recommended",
        "constraints",
        "figures of",
        "tokens against the base's defaults",
        "completeness against the base's defaults, points",
        "against tuned fixed k",
        "completeness against first n at equal tokens, points",
    )

    def row(dataset: DatasetTuning, outcome: PolicyOutcome) -> tuple[Cell, ...]:
        if outcome.chosen is None:
            cells = (*([wording.NONE] * 2), tuning_texts.default_text(outcome))
            return (*cells, *([wording.NONE] * (len(head) - 2 - len(cells))))
        figures = [tuning_texts.estimate_text(outcome.chosen.figures, metric) for metric in (COMPLETENESS, TOKENS)]
        changes = [
            tuning_texts.change_text(outcome.against.get("defaults"), metric) for metric in (TOKENS, COMPLETENESS)
        ]
        changes += [_against_fixed(outcome), tuning_texts.change_text(_at_equal_tokens(outcome), COMPLETENESS)]
        choice = (tuning_texts.choice_text(outcome, outcome.chosen), tuning_texts.constraints_text(outcome))
        return (*figures, *choice, SPLITS[reported_split(dataset)], *changes)

    rows = _rows(tuning, row)
    names = list(head)
    if len(tuning.datasets) == 1:  # of which the page is: figures come first
        names.insert(3, names.pop(0))
    if len({reported_split(dataset) for dataset in tuning.datasets}) == 1:  # the page says above which
        names.remove("figures of")
    body = tuple(tuple(row[head.index(name)] for name in names) for row in rows)
    numbers = frozenset(names.index(TITLES[name]) for name in ("completeness", "tokens"))
    return Table("What is recommended", tuple(names), body, numbers)


def _against_fixed(outcome: PolicyOutcome) -> tuple[str, ...]:
    """Changes in tokens and completeness against the tuned fixed number of items."""
    if outcome.fixed is None:
        return (tuning_texts.NO_K,)
    comparisons = outcome.against.get("fixed")
    named = (("tokens", TOKENS), ("points", COMPLETENESS))
    return tuple(f"{name} {', '.join(tuning_texts.change_text(comparisons, metric))}" for name, metric in named)


def _at_equal_tokens(outcome: PolicyOutcome) -> Mapping[str, Comparison]:
    comparison = None if outcome.at_tokens is None else outcome.at_tokens.comparison
    return {} if comparison is None else {str(COMPLETENESS): comparison}


def optimism(tuning: Tuning) -> Table | None:
    """Figures of the tuning split and of the test split; None where no test split was read."""

    def row(_dataset: DatasetTuning, outcome: PolicyOutcome) -> tuple[Cell, ...] | None:
        if outcome.chosen is None or not outcome.chosen.test:
            return None
        cells: list[Cell] = []
        for metric in (COMPLETENESS, TOKENS):
            cells += [tuning_texts.estimate_text(side, metric) for side in (outcome.chosen.tuning, outcome.chosen.test)]
            sides = (side.get(str(metric)) for side in (outcome.chosen.tuning, outcome.chosen.test))
            cells.append(tuning_texts.optimism_text(metric, *sides))
        return tuple(cells)

    rows = _rows(tuning, row)
    titles = [f"{TITLES[str(m)]}, {column}" for m in (COMPLETENESS, TOKENS) for column in (TUNING, TEST, "optimism")]
    if not rows:
        return None
    head = ("dataset", "policy", *titles)
    return Table("Tuning split and test split", head, tuple(rows), frozenset(range(2, len(head))))


def gains(tuning: Tuning) -> Table | None:
    """The gain of a better ranking and that of a better cut; None where nothing is recommended."""

    def row(_dataset: DatasetTuning, outcome: PolicyOutcome) -> tuple[Cell, ...] | None:
        if outcome.chosen is None or not outcome.against:
            return None
        parts = (outcome.ranking, outcome.against.get("fixed_own"), outcome.against.get("fixed"))
        changes = [tuning_texts.change_text(part, metric) for part in parts for metric in (TOKENS, COMPLETENESS)]
        if not outcome.ranking and outcome.fixed is not None and outcome.chosen.selector == outcome.fixed.selector:
            changes[:2] = [("the same ranking",), (wording.NONE,)]
        ks = [result.name if result else tuning_texts.NO_K for result in (outcome.fixed, outcome.fixed_own)]
        return (*ks, *changes)

    rows = _rows(tuning, row)
    head = ["dataset", "policy", "fixed k of the base's ranking", "fixed k of the chosen ranking"]
    for name in ("ranking", "cut", "both"):
        head += [f"by {name}: tokens", f"by {name}: completeness, points"]
    return Table("Gain by ranking and gain by cut", tuple(head), tuple(rows)) if rows else None


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
    return f"{group.group}: {wording.number(COMPLETENESS, group.mean.value)} of {queries}"


def policies(tuning: Tuning) -> Table:
    """What each policy asks for; the same on all datasets."""
    by_name = {outcome.policy.name: outcome.policy for _, outcome in outcomes(tuning)}
    rows = tuple((policy.name, policy.about, tuning_texts.policy_text(policy)) for policy in by_name.values())
    return Table("Policies", ("policy", "about", "asks for"), rows)


def results(dataset: DatasetTuning, tags: Mapping[str, str]) -> Table:
    """Every setting with its figures; the tags are those of the figure."""
    metrics = tuning_texts.policy_metrics(outcome.policy for outcome in dataset.outcomes)
    first, last = [metric for metric in metrics if metric not in (RECALL, ITEMS)], (RECALL, ITEMS)
    rows: list[tuple[str, ...]] = []
    for result in all_results(dataset):
        role = tuning_texts.ROLES[result.role]
        if result.role != PRESET and (
            ships := [name for name, preset in dataset.shipped.items() if preset.name == result.name]
        ):
            role += f"; {ships[0]} as shipped"
        description = ": ".join(filter(None, (role, tuning_texts.setting_text(result.values))))
        named = (result.name, tags.get(result.name, ""), description)
        for split, estimates in ((ALL if dataset.all_decide else TUNING, result.tuning), (TEST, result.test)):
            if estimates:
                before, after = (
                    [tuning_texts.estimate_text(estimates, metric) for metric in side] for side in (first, last)
                )
                name, mark, about = named
                rows.append((name, *before, split, mark, *after, about))
                named = ("", "", "")
    before, after = ([tuning_texts.title(metric) for metric in side] for side in (first, last))
    head = ("contender", *before, "split", "mark", *after, "what it is")
    numbers = frozenset(map(head.index, (*before, *after)))
    return Table(f"Contenders on {dataset.dataset}", head, tuple(rows), numbers)


def all_results(dataset: DatasetTuning) -> Sequence[SettingResult]:
    """The measured settings of a dataset, and those that its outcomes name besides, each name once.

    What is recommended for several policies is one setting, with the names of all.
    """
    by_name = {result.name: result for result in dataset.results}
    for outcome in dataset.outcomes:
        for result in (outcome.chosen, outcome.fixed, outcome.fixed_own):
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
    rows: list[tuple[Cell, ...]] = []
    for dataset in tuning.datasets:
        for group in dataset.same_advice():
            named_cells = [
                (outcome.policy.name, cells) for outcome in group if (cells := make(dataset, outcome)) is not None
            ]
            if named_cells:
                rows.append((dataset.dataset, ", ".join(name for name, _ in named_cells), *_merged(named_cells)))
    return rows


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
    for dataset in tuning.datasets:
        for outcome in dataset.outcomes:
            yield dataset, outcome
