"""Latency beside quality for the strategies of an ablation, as Markdown of its own: its figures never repeat."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ablation import Ablation

from ctxbench.bench.latency import Summary
from ctxbench.bench.latency.in_turns import InTurns
from ctxbench.bench.metrics import parse_metric
from ctxbench.reporting import wording

_COMPLETE = parse_metric("completeness")


def latency_report(
    ablation: Ablation, found: InTurns, *, dataset: str, requests: int, machine: Mapping[str, Any], blas: list[Any]
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
    lines = ["# Ablations: latency beside quality", ""]
    lines += [f"* {note}" for note in _notes(found, first, dataset=dataset, requests=requests, base=ablation.base)]
    lines += [f"* {machine.get('processor') or machine.get('architecture')}, {cores}, {threads}{load}.", ""]
    return "\n".join([*lines, *_table(ablation, found, dataset)]) + "\n"


def _notes(found: InTurns, first: Summary, *, dataset: str, requests: int, base: str) -> Iterator[str]:
    """What was measured, and what stands beside it."""
    yield (
        f"{requests} requests of `{dataset}`, asked one at a time in {first.rounds} rounds (n = {first.n} a strategy), "
        "all strategies in turns, each with an index of its own. A request is timed from its resolution to its "
        "prompt in a warm process, with all vectors stored."
    )
    if found.embedding is not None:
        one = found.embedding
        yield (
            f"A request that is new costs the embedding of its chunks besides: {_ms(one.p50)} ms a chunk (median of "
            f"{one.n} whole requests); the column *ms if new* adds that for the mean number of chunks."
        )
    yield (
        f"Quality: difference in completeness at equal tokens from `{base}`, in points, on `{dataset}` and over all "
        "datasets (ablations.md)."
    )
    yield "Milliseconds are medians, behind them the lowest and the highest median of a round. Other runs give others."


def _table(ablation: Ablation, found: InTurns, dataset: str) -> Iterator[str]:
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
            f"{_ms(one.p50)} ({_ms(one.low)}{wording.DASH}{_ms(one.high)})",
            f"{one.p50 / base:.2f}",
            f"{chunks:.1f}",
            _ms(new),
            wording.NONE if at is None else wording.signed(_COMPLETE, at.difference),
            wording.NONE if name not in overall else wording.signed(_COMPLETE, overall[name]),
        ]
        yield f"| {' | '.join(cells)} |"


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.2f}"
