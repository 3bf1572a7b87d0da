"""The result of a run in one sentence, which opens every report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ctxbench.bench.metrics import Metric, parse_metric
from ctxbench.bench.summary import DatasetSummary, RunSummary
from ctxbench.report import wording

_NAMED = 4  # selectors, of which more would be no sentence
_BOUNDS = ("oracle", "everything", "random")  # what others lie between: nobody's choice
COMPLETENESS, TOKENS = parse_metric("completeness"), parse_metric("tokens")


def run_answer(summary: RunSummary) -> str:
    """How the selectors of a run compare with the baseline; empty where none is compared.

    Over several datasets the selectors that are seldom less and often more complete come first.
    """
    base = summary.compare_to
    several = len(summary.datasets) > 1
    names = [name for name in summary.manifest["selectors"] if name != base and name.split("/")[0] not in _BOUNDS]
    if several:
        names.sort(key=lambda name: _sort_key(summary.datasets, name))
    tell = _on_several if several else _on_one
    texts = {name: part for name in names if (part := tell(summary.datasets, name)) is not None}
    first = dict(list(texts.items())[:_NAMED])
    parts = [f"{wording.named(name)} {part}" for name, part in first.items() if part]
    if alike := [wording.named(name) for name, part in first.items() if not part]:
        parts.append(f"for {wording.listed(alike)} no difference shows")
    if not parts:
        return ""
    remainder = [f"and {len(texts) - _NAMED} more below"] if len(texts) > _NAMED else []
    on = f", on {len(summary.datasets)} datasets" if several else ""
    rest = (
        " On the rest no difference shows." if several and any(_leaves_some(summary.datasets, n) for n in first) else ""
    )
    return f"Beside {wording.named(base)}{on}: {'; '.join([*parts, *remainder])}.{rest}"


def glance(summary: RunSummary) -> Iterator[tuple[str, ...]]:
    """A table of several datasets: a heading, then for each dataset completeness and tokens of every selector."""
    names = list(summary.manifest["selectors"])
    yield ("dataset", *names)
    for dataset in summary.datasets:
        estimates = {selector.selector: selector.estimates for selector in dataset.selectors}
        cells = [
            [wording.number(metric, estimates[name][str(metric)].value) for metric in (COMPLETENESS, TOKENS)]
            if name in estimates and {"completeness", "tokens"} <= estimates[name].keys()
            else [wording.NONE]
            for name in names
        ]
        yield (dataset.dataset, *(" / ".join(cell) for cell in cells))


def _on_one(datasets: Sequence[DatasetSummary], name: str) -> str | None:
    """By how much a selector differs on the one dataset; empty where no difference shows, None without a comparison."""
    against = next((selector.against for selector in datasets[0].selectors if selector.selector == name), {})
    comparisons = {key: comparison for key, comparison in against.items() if comparison.n}
    clauses = []
    for metric, unit in ((COMPLETENESS, "points of completeness"), (TOKENS, "prompt tokens a query")):
        comparison = comparisons.get(str(metric))
        if comparison is not None:
            doubt = "" if comparison.distinguishable else " (cannot be told apart)"
            clauses.append(f"{wording.signed(metric, comparison.difference)} {unit}{doubt}")
    if not clauses:
        return None
    return " and ".join(clauses) if any(comparison.distinguishable for comparison in comparisons.values()) else ""


def _on_several(datasets: Sequence[DatasetSummary], name: str) -> str | None:
    """On how many datasets a selector is more complete, and costs fewer tokens, and on how many less, significantly.

    Empty where it is nowhere, None where it was not compared.
    """
    higher, lower = _count_significant(datasets, name, COMPLETENESS)
    dearer, cheaper = _count_significant(datasets, name, TOKENS)
    if higher is None:
        return None
    complete = _counted("is", "complete", more=higher, less=lower)
    return ", and ".join(filter(None, [complete, _counted("costs", "prompt tokens", fewer=cheaper, more=dearer)]))


def _counted(verb: str, noun: str, **counts: int | None) -> str:
    """`is more complete on 5 and less on 4`; what is counted nowhere is not in it."""
    nonzero = [(word, n) for word, n in counts.items() if n]
    parts = [f"{word}{'' if index else f' {noun}'} on {n}" for index, (word, n) in enumerate(nonzero)]
    return f"{verb} {' and '.join(parts)}" if parts else ""


def _leaves_some(datasets: Sequence[DatasetSummary], name: str) -> bool:
    """Whether a selector differs on some datasets, in completeness or in tokens, and on others not."""
    counts = [sum(n or 0 for n in _count_significant(datasets, name, metric)) for metric in (COMPLETENESS, TOKENS)]
    return any(counts) and min(counts) < len(datasets)


def _count_significant(datasets: Sequence[DatasetSummary], name: str, metric: Metric) -> tuple[int | None, int | None]:
    """On how many datasets a metric is significantly higher, and lower; None where it was compared on none."""
    comparisons = [
        selector.against[str(metric)]
        for dataset in datasets
        for selector in dataset.selectors
        if selector.selector == name and str(metric) in selector.against and selector.against[str(metric)].n
    ]
    if not comparisons:
        return None, None
    higher, lower = (
        sum(comparison.distinguishable and sign * comparison.difference > 0 for comparison in comparisons)
        for sign in (1, -1)
    )
    return higher, lower


def _sort_key(datasets: Sequence[DatasetSummary], name: str) -> tuple[int, int, int]:
    higher, lower = _count_significant(datasets, name, COMPLETENESS)
    dearer, cheaper = _count_significant(datasets, name, TOKENS)
    return lower or 0, -(higher or 0), (dearer or 0) - (cheaper or 0)
