"""An ablation as Markdown: verdicts first, then every figure by dataset. The same run gives the same text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from ablation import Ablation, DatasetAblation, Standing, recommended

from ctxbench.evaluation.comparisons import AtTokens
from ctxbench.evaluation.metrics import parse_metric
from ctxbench.evaluation.run_folder import SelectorSummary
from ctxbench.evaluation.statistics import Comparison
from ctxbench.io.errors import count
from ctxbench.report import wording
from ctxbench.report.pages import titles
from ctxbench.report.run_tables import pipeline_text, reads_a_fit, stage_text, stages_of
from ctxbench.selectors.selector import value_text

_COMPLETE = parse_metric("completeness")
TEST, TUNING, RULE = "Test split", "Verdicts on the tuning split", "What goes on to the test split"
PLAINLY = {  # what strategies do that may be the best
    "cut/probability 0.1": "offer what is needed with a probability of 0.1 or more, by a fit to labels",
    "cut/probability 0.03": "offer what is needed with a probability of 0.03 or more, by a fit to labels",
    "rank/probability": "offer the five items that are most probably needed, by a fit to labels",
    "learned/normal": "the shipped ranking",
    "retrieval/weighted": "add up the scores of a search by meaning and of one by words",
    "retrieval/rrf": "add up the ranks of a search by meaning and of one by words",
}
BY_QUERY = "\u2020"  # a dagger
FITTED = "; fitted on these labels, so judge it by the test split"
_FIGURES = ("recall", "dependency_recall", "tokens", "items", "nDCG@10", "abstention")


def ablation_report(
    tuning: Ablation, test: Ablation | None = None, *, also: Sequence[Ablation] = (), figure: str
) -> str:
    """Make the report.

    Args:
        tuning: all strategies, on the split that they may be chosen on.
        test: what was recommended, on the split that nothing was chosen on; None = not run yet.
        also: ablations of strategies that need something which only some datasets have, each told on its own.
        figure: the name of the SVG that stands beside the report.
    """
    standings = tuning.standings()
    chosen = recommended(standings, datasets=len(tuning.datasets))
    lines = ["# Ablations: which strategy pays", "", answer(tuning if test is None else test), ""]
    if test is not None:
        lines += [f"## {TEST}", "", *_standings(test, test.standings()), "", *_test(test, chosen), ""]
        lines += [*_drawn(figure), "", f"## {RULE}", "", *_rule(chosen), ""]
    lines += ["## What the words mean", "", *_words(tuning), ""]
    lines += ["## How it was made", "", *_conditions(tuning), "", "## What this does not say", "", *_limits(), ""]
    lines += [f"## {TUNING}", ""]
    lines += [*_reading(tuning), "", *([*_drawn(figure), ""] if test is None else [])]
    lines += [*_standings(tuning, standings), ""]
    if test is None:
        lines += [f"## {RULE}", "", *_rule(chosen), ""]
    else:
        lines += ["## Every figure, test split", "", *_figures(test), ""]
    for other in also:
        asked = other.run.manifest["experiment"]
        name, about = (wording.named(str(asked[key])) for key in ("name", "about"))
        lines += [f"## {name}", "", about, "", *_standings(other, other.standings()), "", *_figures(other), ""]
    lines += ["## Every figure, tuning split", "", *_figures(tuning), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def long_sections(text: str) -> list[str]:
    """The sections of the report that go apart; the verdicts on the tuning split only where there are later ones."""
    found = titles(text)
    return [one for one in found[found.index(TUNING) :] if TEST in found or one not in (TUNING, RULE)]


def answer(ablation: Ablation) -> str:
    """What the standings say, as one sentence: the best of all, and the best that is fitted to no labels."""
    standings, selectors = ablation.standings(), ablation.run.manifest["selectors"]
    if not standings:
        return "**Nothing was compared with the specification's defaults.**"
    reach, best = len(ablation.datasets), standings[0]
    said = (
        f"**Of {count(len(standings), 'change', 'changes')} to the specification's defaults, each compared with them "
        f"at as many prompt tokens, {_told(best)} pays most: it makes {_gain(best, reach)}"
    )
    plain = next((one for one in standings if not reads_a_fit(selectors[one.strategy]["description"])), None)
    if plain is not None and plain != best:
        said += f"; of the changes that are fitted to no labels, {_told(plain)}: {_gain(plain, reach)}"
    return f"{said}.**"


def _told(one: Standing) -> str:
    return f"`{one.strategy}`" + (f" ({PLAINLY[one.strategy]})" if one.strategy in PLAINLY else "")


def _gain(one: Standing, reach: int) -> str:
    worse = f"on {len(one.worse)}" if one.worse else "on none"
    mean = "" if math.isnan(one.difference) else f", {wording.signed(_COMPLETE, one.difference)} points on average"
    return f"more requests complete on {len(one.better)} of {reach} datasets and fewer {worse}{mean}"


def change(ablation: Ablation, strategy: str) -> str:
    """What a strategy does otherwise than the base: its steps in the stages that differ."""
    selectors = ablation.run.manifest["selectors"]
    base, own = (stages_of(selectors[name]["description"]) for name in (ablation.base, strategy))
    stages = (stage for stage in ("analyse", "retrieve", "refine", "format") if base.get(stage) != own.get(stage))
    return "; ".join(f"{stage} {stage_text(own.get(stage))}" for stage in stages)


def _conditions(ablation: Ablation) -> Iterator[str]:
    """How, and what all figures were measured on."""
    yield "* `make ablations` makes this page. A run that was stopped goes on."
    yield f"* {wording.named(str(ablation.run.manifest['experiment']['about']))}"
    manifest = ablation.run.manifest
    asked = manifest["experiment"]
    model = manifest["embedder"]
    base = manifest["selectors"][ablation.base]
    values = ", ".join(f"{key} {value_text(value)}" for key, value in base["values"].items())
    yield f"* The base is `{ablation.base}` ({values}): {pipeline_text(base['description'])}."
    yield f"* Embeddings: {model['model']}, {model['backend']}. Prompt tokens are those of `{manifest['tokens']}`."
    if asked.get("sample"):
        yield (
            f"* At most {asked['sample']:,} queries a dataset are asked, groups (paraphrases, one conversation) whole, "
            f"drawn by a hash with seed {asked['seed']}."
        )
    yield ""
    yield _row(["dataset", "queries", "in groups", "need nothing", "items", "content"])
    yield _row(["---", "---:", "---:", "---:", "---:", "---"])
    for one in ablation.datasets:
        about = manifest["datasets"][one.summary.dataset]
        needing = one.summary.selectors[0].estimates["completeness"]
        queries = f"{one.summary.queries:,} of {one.summary.of:,}"
        counts = [f"{n:,}" for n in (one.groups, needing.left_out, one.summary.items)]
        yield _row([one.summary.dataset, queries, *counts, about["hash"][:12]])


def _drawn(figure: str) -> Iterator[str]:
    yield f"![difference in completeness at equal tokens, by strategy and dataset]({figure})"
    yield ""
    yield "Every strategy on the tuning split: a row a strategy, a column a dataset, points of completeness."


def _words(ablation: Ablation) -> Iterator[str]:
    yield (
        "* A request is *complete* if every item that it requires was offered. *Completeness* is the share of such "
        "requests; a point is one in a hundred."
    )
    yield f"* *The base* is `{ablation.base}`, the specification's defaults. A *strategy* changes one thing of it."
    yield (
        "* *At equal tokens*: the base offers more items or fewer, until it costs as many prompt tokens on average as "
        "the strategy. More items are no merit then, and fewer no fault."
    )
    yield (
        "* *Better* and *worse*: the difference on the same requests is significant (p of at most 0.05, "
        "Holm-corrected over the strategies of a dataset)."
    )
    yield (
        f"* {BY_QUERY} behind a dataset: its queries tell the two apart, but its groups (paraphrases, one "
        "conversation), taken as wholes, do not (p above 0.05, not corrected)."
    )
    yield "* *The mean* is over all datasets, each counting once, significant or not: it sorts, and decides nothing."


def _limits() -> Iterator[str]:
    yield (
        "Queries of one group are no independent witnesses. Intervals are each of one difference alone. A strategy was "
        "tried in one or two settings, and another setting may do better. And a difference that is not significant is "
        "not shown to be none: its interval says how large it may be."
    )


def _reading(ablation: Ablation) -> Iterator[str]:
    reach = len(ablation.datasets)
    yield (
        "**At equal tokens** a strategy is compared with the base with its own topN turned (0 to 100, topK in "
        "proportion) until it offers as many tokens on average; between two settings it is the one or the other by "
        "lot. More items are no merit then, and fewer no fault. Differences are paired on the same queries; *better* "
        "and *worse* are significant at p of at most 0.05, Holm-corrected over the "
        f"{len(ablation.strategies)} strategies of a dataset. The mean is that over the {reach} datasets, each "
        "counting once, significant or not: it sorts, and decides nothing."
    )
    yield ""
    yield (
        "What this does not say: queries of one group (paraphrases, one conversation) are no independent witnesses. "
        f"{BY_QUERY} behind a dataset says that its queries tell the two apart, but its groups taken as wholes do not "
        "(p above 0.05, not corrected). Intervals are each of one difference alone. A strategy was tried in one or "
        "two settings, and another setting may do better. And a difference that is not significant is not shown to be "
        "none: its interval says how large it may be."
    )


def _standings(ablation: Ablation, standings: Iterable[Standing]) -> Iterator[str]:
    yield _row(["strategy", "what is changed", "better on", "worse on", "mean, points", "verdict"])
    yield _row(["---", "---", "---", "---", "---:", "---"])
    for one in standings:
        yield _row(
            [
                one.strategy,
                f"`{change(ablation, one.strategy)}`",
                _datasets(one.better, one.loose),
                _datasets(one.worse, one.loose),
                wording.signed(_COMPLETE, one.difference),
                f"{verdict_text(one, len(ablation.datasets))}{FITTED * _fitted_here(ablation, one.strategy)}",
            ]
        )


def _datasets(names: Sequence[str], loose: Sequence[str]) -> str:
    return ", ".join(f"{name}{BY_QUERY * (name in loose)}" for name in names) or wording.NONE


def _fitted_here(ablation: Ablation, strategy: str) -> bool:
    """Whether the strategy was fitted on the labels of the very split that it is measured on."""
    asked, described = ablation.run.manifest["experiment"], ablation.run.manifest["selectors"][strategy]["description"]
    return asked.get("split") != "test" and reads_a_fit(described)


def verdict_text(standing: Standing, datasets: int) -> str:
    """A standing in words."""
    counts = [(name, len(found)) for name, found in (("better", standing.better), ("worse", standing.worse)) if found]
    if not counts:
        said = "at equal tokens not significant on any dataset"
    else:
        said = " and ".join(f"{name} on {n}" for name, n in counts)
        said = f"at equal tokens {said} of {datasets}"
    if standing.beyond:
        said += f"; spends more than the base's whole curve on {len(standing.beyond)}"
    return said


def _rule(chosen: Iterable[str]) -> Iterator[str]:
    yield (
        "By rule, made before the figures: of each family (the word before the slash) the best, sorted as above, if it "
        "is better on more datasets than it is worse; and whatever is better on at least a third of the datasets and "
        "worse on none."
    )
    yield ""
    named = [f"`{name}`" for name in chosen]
    yield f"That is {wording.listed(named)}." if named else "Nothing does."


def _figures(ablation: Ablation) -> Iterator[str]:
    """Every figure of every dataset."""
    for place, one in enumerate(ablation.datasets):
        yield from [""] * bool(place)
        yield from _dataset(ablation, one, "###")


def _test(test: Ablation, chosen: Iterable[str]) -> Iterator[str]:
    """How the final table came about."""
    yield wording.named(str(test.run.manifest["experiment"]["about"]))
    yield ""
    yield f"Holm's correction is over the {count(len(test.strategies), 'strategy', 'strategies')} here."
    other = sorted(set(chosen) ^ set(test.strategies))
    if other:
        yield ""
        yield f"The run on the test split and the rule differ in {wording.listed([f'`{name}`' for name in other])}."


def _dataset(ablation: Ablation, one: DatasetAblation, level: str) -> Iterator[str]:
    """Every figure of one dataset."""
    summary = one.summary
    split = str(ablation.run.manifest["experiment"].get("split") or "")
    yield f"{level} {wording.named(summary.dataset)}{f', {split}' if split else ''}"
    yield ""
    shown = [name for name in _FIGURES if _known(summary.selectors, name)]
    yield _row(
        [
            "strategy",
            "completeness %",
            "against the base",
            *map(_title, shown),
            "base at these tokens %",
            "at equal tokens",
        ]
    )
    yield _row(["---", "---:", "---", *("---:" for _ in shown), "---:", "---"])
    for selector in summary.selectors:
        is_base = selector.selector == ablation.base
        name = f"**{selector.selector}**" if is_base else selector.selector
        found = selector.estimates["completeness"]
        own = f"{wording.number(_COMPLETE, found.value)} ({wording.estimate_interval(_COMPLETE, found)})"
        cells = [_number(selector, metric) for metric in shown]
        plain = _compared(selector.against.get("completeness"))
        at = None if is_base else one.at_tokens[selector.selector]
        yield _row([name, own, wording.NONE if is_base else plain, *cells, _base_at(at), _at(at)])
    yield ""
    yield f"* {'; '.join(_counts(summary.selectors, shown))}."
    tests = sorted({c.test for s in summary.selectors for c in s.against.values()})
    yield (
        f"* Against the base at the sizes as they are: {wording.listed(tests)}, Holm-corrected over completeness and "
        f"tokens of {len(one.at_tokens)} strategies. At equal tokens: sign flips, Holm-corrected over the strategies."
    )


def _known(selectors: Iterable[SelectorSummary], name: str) -> bool:
    return any(name in one.estimates and one.estimates[name].n for one in selectors)


def _title(name: str) -> str:
    metric = parse_metric(name)
    return f"{name}{' %' if wording.unit(metric) == '%' else ''}"


def _number(selector: SelectorSummary, name: str) -> str:
    found = selector.estimates.get(name)
    return wording.NONE if found is None or not found.n else wording.number(parse_metric(name), found.value)


def _counts(selectors: Iterable[SelectorSummary], shown: Iterable[str]) -> Iterator[str]:
    """Over how many queries each metric is."""
    by_n: dict[int, list[str]] = {}
    first = next(iter(selectors))
    for name in ("completeness", *shown):
        if name in first.estimates:
            by_n.setdefault(first.estimates[name].n, []).append(name)
    for n, names in by_n.items():
        yield f"n = {n:,} for {wording.listed(names)}"


def _compared(found: Comparison | None) -> str:
    if found is None:
        return wording.NONE
    signed, interval = wording.signed(_COMPLETE, found.difference), wording.difference_interval(_COMPLETE, found)
    return f"{signed} ({interval}), {wording.verdict(found)}"


def _base_at(found: AtTokens | None) -> str:
    return wording.NONE if found is None else wording.number(_COMPLETE, found.base)


def _at(found: AtTokens | None) -> str:
    if found is None:
        return wording.NONE
    return "more than the base's whole curve" if found.comparison is None else _compared(found.comparison)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(wording.named(' '.join(cell.split())).replace('|', chr(92) + '|') for cell in cells)} |"
