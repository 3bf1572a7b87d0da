"""Latency beside quality for the strategies of an ablation, as Markdown of its own: its figures never repeat."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ablation import Ablation
from warm_requests import WarmRequests

from ctxbench.evaluation.metrics import parse_metric
from ctxbench.evaluation.runner import Quantiles
from ctxbench.report import wording

_COMPLETE = parse_metric("completeness")


def latency_report(
    ablation: Ablation, found: WarmRequests, *, dataset: str, requests: int, machine: Mapping[str, Any], blas: list[Any]
) -> str:
    """Make the page.

    Args:
        ablation: for the quality beside.
        found: the measurement.
        dataset: what was asked.
        requests: how many of its requests.
        machine, blas: what it was measured on.
    """
    first = next(iter(found.request.values()))
    cores = f"{machine.get('usable_cores')} of {machine.get('cores')} cores"
    threads = ", ".join(f"{one['internal_api']} {one['num_threads']} threads" for one in blas) or "no BLAS"
    load = "" if machine.get("load") is None else f", load {machine['load']:.1f} at the start"
    lines = ["# Ablations: latency beside quality", "", answer(found, dataset=dataset, base=ablation.base), ""]
    lines += [
        *_table(ablation, found, dataset),
        "",
        "## What the columns say",
        "",
        *_columns(ablation.base, dataset),
        "",
    ]
    lines += ["## How it was made", ""]
    lines += [f"* {note}" for note in _notes(found, first, dataset=dataset, requests=requests)]
    lines += [f"* {machine.get('processor') or machine.get('architecture')}, {cores}, {threads}{load}."]
    return "\n".join(lines) + "\n"


def answer(found: WarmRequests, *, dataset: str, base: str) -> str:
    """How long strategies take, as one sentence."""
    taken = sorted((one.p50, name) for name, one in found.request.items())
    (least, first), (most, last) = taken[0], taken[-1]
    new = "" if found.embedding is None else (
        f"; a request that is new takes {_ms(found.embedding.p50)} ms more for each part of it that is embedded"
    )  # fmt: skip
    return (
        f"**Of {len(taken)} strategies, a request of `{dataset}` takes {_ms(least)} ms with the fastest, `{first}`, "
        f"{_ms(found.request[base].p50)} ms with the specification's defaults, and {_ms(most)} ms with the slowest, "
        f"`{last}`{new}.**"
    )


def _columns(base: str, dataset: str) -> Iterator[str]:
    yield "* ms: median milliseconds of a request, behind it the 95th percentile."
    yield f"* times the base: as a multiple of `{base}`, the specification's defaults."
    yield "* chunks: the parts that a request is split into, each of which is embedded, on average."
    yield "* ms if new: with the embedding of these chunks."
    yield (
        f"* points: difference in completeness (requests that were offered every required item, in %) at equal tokens "
        f"from `{base}`, on `{dataset}` and over all datasets ([ablations.md](ablations.md))."
    )


def _notes(found: WarmRequests, first: Quantiles, *, dataset: str, requests: int) -> Iterator[str]:
    """What was measured."""
    yield "`make ablations` measures this again. Other runs give other times."
    yield (
        f"{requests} requests of `{dataset}`, asked one at a time, over and over (n = {first.n} a strategy), all "
        "strategies in turns, each with an index of its own. A request is timed from its resolution to its prompt in "
        "a warm process, with all vectors stored."
    )
    if found.embedding is not None:
        one = found.embedding
        yield (
            f"A request that is new costs the embedding of its chunks besides: {_ms(one.p50)} ms a chunk (median of "
            f"{one.n} whole requests); the column *ms if new* adds that for the mean number of chunks."
        )


def _table(ablation: Ablation, found: WarmRequests, dataset: str) -> Iterator[str]:
    here = next(one for one in ablation.datasets if one.summary.dataset == dataset)
    overall = {one.strategy: one.difference for one in ablation.standings()}
    yield f"| strategy | ms | times the base | chunks | ms if new | points, {dataset} | points, all |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    base = found.request[ablation.base].p50
    for name, one in sorted(found.request.items(), key=lambda item: (item[1].p50, item[0])):
        at = None if name == ablation.base else here.at_tokens[name].comparison
        chunks = found.chunks[name]
        new = one.p50 + chunks * (found.embedding.p50 if found.embedding else 0.0)
        cells = [
            f"**{name}**" if name == ablation.base else name,
            f"{_ms(one.p50)} ({_ms(one.p95)})",
            f"{one.p50 / base:.2f}",
            f"{chunks:.1f}",
            _ms(new),
            wording.NONE if at is None else wording.signed(_COMPLETE, at.difference),
            wording.NONE if name not in overall else wording.signed(_COMPLETE, overall[name]),
        ]
        yield f"| {' | '.join(cells)} |"


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.2f}"
