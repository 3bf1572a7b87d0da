"""Tables of what tuning found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ctxbench.bench.metrics import GroupMean
from ctxbench.bench.stats import Comparison
from ctxbench.io.visible import count
from ctxbench.report import wording
from ctxbench.report.document import Cell, Table
from ctxbench.report.tuning import tuning_texts
from ctxbench.report.tuning.tuning_texts import ALL, COMPLETENESS, ITEMS, RECALL, SPLITS, TEST, TITLES, TOKENS, TUNING
from ctxbench.tuning.tuning_results import DatasetTuning, PolicyOutcome, SettingResult, Tuning

MANY = 20  # so many requests made worse are named
_SHOWN = (COMPLETENESS, TOKENS, RECALL, ITEMS)


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
    rows: list[tuple[Cell, ...]] = []
    for dataset, outcome in outcomes(tuning):
        start = (dataset.dataset, outcome.policy.name)
        if outcome.chosen is None:
            kept = (*([wording.NONE] * 2), tuning_texts.default_text(outcome))
            rows.append((*start, *kept, *([wording.NONE] * (len(head) - len(start) - len(kept)))))
            continue
        figures = [tuning_texts.estimate_text(outcome.chosen.figures, metric) for metric in (COMPLETENESS, TOKENS)]
        changes = [
            tuning_texts.change_text(outcome.against.get("defaults"), metric) for metric in (TOKENS, COMPLETENESS)
        ]
        changes += [_against_fixed(outcome), tuning_texts.change_text(_at_equal_tokens(outcome), COMPLETENESS)]
        choice = (tuning_texts.choice_text(outcome, outcome.chosen), tuning_texts.constraints_text(outcome))
        rows.append((*start, *figures, *choice, SPLITS[reported_split(dataset)], *changes))
    names = list(head)
    if len(tuning.datasets) == 1:  # of which the page is: figures come first
        names.insert(3, names.pop(0))
    if len({reported_split(dataset) for dataset in tuning.datasets}) == 1:  # the page says above which
        names.remove("figures of")
    told = tuple(tuple(row[head.index(name)] for name in names) for row in rows)
    numbers = frozenset(names.index(TITLES[name]) for name in ("completeness", "tokens"))
    return Table("What is recommended", tuple(names), told, numbers)


def _against_fixed(outcome: PolicyOutcome) -> tuple[str, ...]:
    """Changes in tokens and completeness against the tuned fixed number of items."""
    if outcome.fixed is None:
        return ("no k keeps what the policy asks",)
    found = outcome.against.get("fixed")
    named = (("tokens", TOKENS), ("points", COMPLETENESS))
    return tuple(f"{name} {', '.join(tuning_texts.change_text(found, metric))}" for name, metric in named)


def _at_equal_tokens(outcome: PolicyOutcome) -> Mapping[str, Comparison]:
    found = None if outcome.at_tokens is None else outcome.at_tokens.comparison
    return {} if found is None else {str(COMPLETENESS): found}


def optimism(tuning: Tuning) -> Table | None:
    """Figures of the tuning split beside those of the test split; None where no test split was read."""
    rows = []
    for dataset, outcome in outcomes(tuning):
        if outcome.chosen is None or not outcome.chosen.test:
            continue
        row = [dataset.dataset, outcome.policy.name]
        for metric in (COMPLETENESS, TOKENS):
            row += [tuning_texts.estimate_text(side, metric) for side in (outcome.chosen.tuning, outcome.chosen.test)]
            sides = (side.get(str(metric)) for side in (outcome.chosen.tuning, outcome.chosen.test))
            row.append(tuning_texts.optimism_text(metric, *sides))
        rows.append(tuple(row))
    titles = [f"{TITLES[str(m)]}, {what}" for m in (COMPLETENESS, TOKENS) for what in (TUNING, TEST, "optimism")]
    if not rows:
        return None
    head = ("dataset", "policy", *titles)
    return Table("Tuning split and test split", head, tuple(rows), frozenset(range(2, len(head))))


def gains(tuning: Tuning) -> Table | None:
    """The gain of a better ranking and that of a better cut; None where nothing is recommended."""
    rows: list[tuple[Cell, ...]] = []
    for dataset, outcome in outcomes(tuning):
        if outcome.chosen is None or not outcome.against:
            continue
        parts = (outcome.ranking, outcome.against.get("fixed_own"), outcome.against.get("fixed"))
        changes = [tuning_texts.change_text(part, metric) for part in parts for metric in (TOKENS, COMPLETENESS)]
        if not outcome.ranking and outcome.fixed is not None and outcome.chosen.selector == outcome.fixed.selector:
            changes[:2] = [("the same ranking",), (wording.NONE,)]
        ks = [one.name if one else "none keeps what the policy asks" for one in (outcome.fixed, outcome.fixed_own)]
        rows.append((dataset.dataset, outcome.policy.name, *ks, *changes))
    head = ["dataset", "policy", "fixed k of the base's ranking", "fixed k of the chosen ranking"]
    for name in ("ranking", "cut", "both"):
        head += [f"by {name}: tokens", f"by {name}: completeness, points"]
    return Table("Gain by ranking and gain by cut", tuple(head), tuple(rows)) if rows else None


def worst(tuning: Tuning) -> Table | None:
    """The scope and the server with the lowest completeness; None where there are no groups large enough."""
    rows = [
        (dataset.dataset, outcome.policy.name, _group(outcome.worst_scope), _group(outcome.worst_server))
        for dataset, outcome in outcomes(tuning)
        if outcome.worst_scope is not None or outcome.worst_server is not None
    ]
    head = ("dataset", "policy", "worst scope: completeness %", "worst server: completeness %")
    return Table("Worst scope and worst server", head, tuple(rows)) if rows else None


def _group(found: GroupMean | None) -> str:
    if found is None:
        return "fewer than two groups of 10 queries"
    queries = count(found.mean.n, "query", "queries")
    return f"{found.group}: {wording.number(COMPLETENESS, found.mean.value)} of {queries}"


def policies(tuning: Tuning) -> Table:
    """What each policy asks for; the same on all datasets."""
    found = {outcome.policy.name: outcome.policy for _, outcome in outcomes(tuning)}
    rows = tuple((one.name, one.about, tuning_texts.policy_text(one)) for one in found.values())
    return Table("Policies", ("policy", "about", "asks for"), rows)


def results(dataset: DatasetTuning, tags: Mapping[str, str]) -> Table:
    """Every setting with its figures; the tags are those of the figure."""
    rows: list[tuple[str, ...]] = []
    for one in all_results(dataset):
        what = ": ".join(filter(None, (tuning_texts.ROLES[one.role], tuning_texts.setting_text(one.values))))
        named = (one.name, tags.get(one.name, ""), what)
        for split, found in ((ALL if dataset.all_decide else TUNING, one.tuning), (TEST, one.test)):
            if found:
                complete, tokens, *others = (tuning_texts.estimate_text(found, metric) for metric in _SHOWN)
                name, mark, about = named
                rows.append((name, complete, tokens, split, mark, *others, about))
                named = ("", "", "")
    complete, tokens, *others = (TITLES[str(metric)] for metric in _SHOWN)
    head = ("contender", complete, tokens, "split", "mark", *others, "what it is")
    return Table(f"Contenders on {dataset.dataset}", head, tuple(rows), frozenset({1, 2, 5, 6}))


def all_results(dataset: DatasetTuning) -> Sequence[SettingResult]:
    """The measured settings of a dataset, and those that its outcomes name besides, each name once."""
    found = {one.name: one for one in dataset.results}
    for outcome in dataset.outcomes:
        for one in (outcome.chosen, outcome.fixed, outcome.fixed_own):
            if one is not None:
                found.setdefault(one.name, one)
    return tuple(found.values())


def worse_requests(outcome: PolicyOutcome) -> Table:
    """The first requests that the defaults made complete and what is recommended does not."""
    rows = tuple((one.query, one.text, ", ".join(one.missing)) for one in outcome.worse[:MANY])
    return Table(f"Requests made worse by {outcome.policy.name}", ("query", "request", "no longer offered"), rows)


def reported_split(dataset: DatasetTuning) -> str:
    """The split that figures are read from."""
    return ALL if dataset.all_decide else TEST


def outcomes(tuning: Tuning) -> Iterator[tuple[DatasetTuning, PolicyOutcome]]:
    """Every outcome with its dataset, in order."""
    for dataset in tuning.datasets:
        for outcome in dataset.outcomes:
            yield dataset, outcome
