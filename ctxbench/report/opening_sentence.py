"""What a run or a tuning says, in one sentence: what every report opens with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ctxbench.bench.metrics import Metric, parse_metric
from ctxbench.bench.summary import DatasetSummary, RunSummary
from ctxbench.report import wording

_NAMED = 4  # selectors, of which more would be no sentence
_BOUNDS = ("oracle", "everything", "random")  # what others lie between: nobody's choice
COMPLETENESS, TOKENS = parse_metric("completeness"), parse_metric("tokens")


def run_answer(summary: RunSummary) -> str:
    """How the selectors of a run stand beside the one that they are compared with; empty where none is compared.

    Over several datasets the selectors that are seldom less and often more complete stand first.
    """
    base = summary.compare_to
    several = len(summary.datasets) > 1
    names = [name for name in summary.manifest["selectors"] if name != base and name.split("/")[0] not in _BOUNDS]
    if several:
        names.sort(key=lambda name: _place(summary.datasets, name))
    tell = _on_several if several else _on_one
    told = {name: part for name in names if (part := tell(summary.datasets, name)) is not None}
    first = dict(list(told.items())[:_NAMED])
    parts = [f"{wording.named(name)} {part}" for name, part in first.items() if part]
    if alike := [wording.named(name) for name, part in first.items() if not part]:
        parts.append(f"for {wording.listed(alike)} no difference shows")
    if not parts:
        return ""
    more = [f"and {len(told) - _NAMED} more below"] if len(told) > _NAMED else []
    on = f", on {len(summary.datasets)} datasets" if several else ""
    rest = (
        " On the rest no difference shows." if several and any(_leaves_some(summary.datasets, n) for n in first) else ""
    )
    return f"Beside {wording.named(base)}{on}: {'; '.join([*parts, *more])}.{rest}"


def glance(summary: RunSummary) -> Iterator[tuple[str, ...]]:
    """A table of several datasets: a heading, then for each dataset completeness and tokens of every selector."""
    names = list(summary.manifest["selectors"])
    yield ("dataset", *names)
    for one in summary.datasets:
        found = {selector.selector: selector.estimates for selector in one.selectors}
        cells = [
            [wording.number(metric, found[name][str(metric)].value) for metric in (COMPLETENESS, TOKENS)]
            if name in found and {"completeness", "tokens"} <= found[name].keys()
            else [wording.NONE]
            for name in names
        ]
        yield (one.dataset, *(" / ".join(cell) for cell in cells))


def _on_one(datasets: Sequence[DatasetSummary], name: str) -> str | None:
    """By how much a selector differs on the one dataset; empty where no difference shows, None without a comparison."""
    against = next((one.against for one in datasets[0].selectors if one.selector == name), {})
    found = {key: one for key, one in against.items() if one.n}
    said = []
    for metric, what in ((COMPLETENESS, "points of completeness"), (TOKENS, "prompt tokens a query")):
        one = found.get(str(metric))
        if one is not None:
            doubt = "" if one.distinguishable else " (cannot be told apart)"
            said.append(f"{wording.signed(metric, one.difference)} {what}{doubt}")
    if not said:
        return None
    return " and ".join(said) if any(one.distinguishable for one in found.values()) else ""


def _on_several(datasets: Sequence[DatasetSummary], name: str) -> str | None:
    """On how many datasets a selector is more complete, and costs fewer tokens, and on how many less, beyond chance.

    Empty where it is nowhere, None where it was not compared.
    """
    more, less = _told(datasets, name, COMPLETENESS)
    dearer, cheaper = _told(datasets, name, TOKENS)
    if more is None:
        return None
    complete = _counted("is", "complete", more=more, less=less)
    return ", and ".join(filter(None, [complete, _counted("costs", "prompt tokens", fewer=cheaper, more=dearer)]))


def _counted(verb: str, what: str, **counts: int | None) -> str:
    """`is more complete on 5 and less on 4`; what is counted nowhere is not in it."""
    found = [(word, n) for word, n in counts.items() if n]
    parts = [f"{word}{'' if place else f' {what}'} on {n}" for place, (word, n) in enumerate(found)]
    return f"{verb} {' and '.join(parts)}" if parts else ""


def _leaves_some(datasets: Sequence[DatasetSummary], name: str) -> bool:
    """Whether a selector differs on some datasets, in completeness or in tokens, and on others not."""
    told = [sum(n or 0 for n in _told(datasets, name, metric)) for metric in (COMPLETENESS, TOKENS)]
    return any(told) and min(told) < len(datasets)


def _told(datasets: Sequence[DatasetSummary], name: str, metric: Metric) -> tuple[int | None, int | None]:
    """On how many datasets a metric is higher, and lower, beyond chance; None where it was compared on none."""
    found = [
        one.against[str(metric)]
        for dataset in datasets
        for one in dataset.selectors
        if one.selector == name and str(metric) in one.against and one.against[str(metric)].n
    ]
    if not found:
        return None, None
    higher, lower = (sum(one.distinguishable and sign * one.difference > 0 for one in found) for sign in (1, -1))
    return higher, lower


def _place(datasets: Sequence[DatasetSummary], name: str) -> tuple[int, int, int]:
    more, less = _told(datasets, name, COMPLETENESS)
    dearer, cheaper = _told(datasets, name, TOKENS)
    return less or 0, -(more or 0), (dearer or 0) - (cheaper or 0)
