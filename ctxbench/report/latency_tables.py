"""Latency as tables: one request, by step, as the catalog grows, indexing, and beside the documents' figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ctxbench.bench.latency import PARTS_OF_A_STEP, STATES, WHOLE, LatencyResult, Summary, needed_for
from ctxbench.io.console import show_tables
from ctxbench.io.files import write_atomic
from ctxbench.io.json_files import dump_json
from ctxbench.io.visible import count, one_line
from ctxbench.report.table_parts import dim_notes, empty_table
from ctxbench.report.wording import NONE

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_SHORT = {
    "cold": "new process,\nnothing stored",
    "restarted": "new process,\nitems stored",
    "restarted_cached": "new process,\nquery stored",
    "new": "warm,\nquery new",
    "cached": "warm,\nquery stored",
}
_NAME = 24  # characters of a row's name that stay on one line
_PERCENTILES = (
    f"A percentile is shown where at least one sample is expected beyond it: p95 from {needed_for(95)} samples, "
    f"p99 from {needed_for(99)}. Rounds: the lowest and the highest median of a round."
)
_COLD = "A new process finds the model's files in the system's file cache, which is not emptied."
_STEPS = (
    "Medians of parts need not add up to the median of the whole. Inside a step, search is all but vectors: product, "
    "pooling, order. Between steps, the keys of shared steps are made (once a catalog its hash)."
)
_GROWN = "Sizes above the catalog's own are made of variations of its items, the same each time."
_DOCUMENTS = "The documents do not name their machine: their figures are for orientation, and no verdict is drawn."


@dataclass(frozen=True, slots=True)
class LatencySection:
    """One table as texts.

    Attributes:
        title: its heading.
        columns: headings of columns; the first is the row's name.
        rows: as many cells as there are columns.
        notes: sentences below it.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def latency_sections(result: LatencyResult) -> tuple[LatencySection, ...]:
    """The five tables of a result; times are milliseconds, memory MiB."""
    return (_one_request(result), _by_step(result), _growth(result), _indexing(result), _documents(result))


def latency_heading(result: LatencyResult) -> tuple[str, ...]:
    """What was measured, with what, on which machine: one line each."""
    machine, versions = result.machine, result.machine.get("versions", {})
    cores = f"{machine.get('usable_cores')} of {count(int(machine.get('cores') or 0), 'core')}"
    memory = f"{machine['memory_mib']:,} MiB" if machine.get("memory_mib") else "memory unknown"
    threads = sorted({f"{lib['internal_api']} {lib['num_threads']} threads" for lib in machine.get("blas", [])})
    shown = [f"{name} {versions[name]}" for name in ("ctxbench", "python", "numpy", "onnxruntime") if name in versions]
    asked = "" if result.requests["from"] == "given" else " made from the items' descriptions"
    subject = f"Latency of {result.name}, {result.embedder['model']}"
    catalog = f"catalog of {count(result.catalog['items'], 'item')} ({result.catalog['hash'][:12]})"
    load = "" if machine.get("load") is None else f" at a load of {machine['load']:.1f}"
    rounds = f"{count(int(result.settings['repeats']), 'round')} of all configurations in turns"
    return (
        f"{subject}, {catalog}, {count(result.requests['n'], 'request')}{asked}",
        f"{machine.get('processor') or machine.get('architecture')}, {cores}, {memory}, {machine.get('system')}",
        ", ".join([*shown, *threads]),
        f"{rounds}, each in fresh processes, started {result.started}{load}",
    )


def latency_json(result: LatencyResult) -> str:
    """The result as JSON with every sample; ends with a line end."""
    return dump_json(result.as_dict()) + "\n"


def write_latency(result: LatencyResult, path: Path) -> None:
    """Write `latency_json` to a file, whole or not at all.

    Raises:
        StorageError: it cannot be written.
    """
    write_atomic(path, latency_json(result))


def print_latency(result: LatencyResult, file: IO[str] | None = None, *, width: int | None = None) -> None:
    """Print all tables, at once.

    Args:
        result: of `measure`.
        file: standard output if None.
        width: columns; None asks the terminal (80 where there is none).
    """
    show_tables(lambda _: latency_tables(result), file=file, width=width)


def latency_tables(result: LatencyResult) -> list[RenderableType]:
    """What `print_latency` prints: the heading, then each section's title, table and notes."""
    from rich.text import Text

    parts: list[RenderableType] = [Text(one_line(line)) for line in latency_heading(result)]
    for section in latency_sections(result):
        parts += [Text(), Text(section.title, style="bold"), _table(section)]
        parts += dim_notes(section.notes)
    return parts


def _table(section: LatencySection) -> Table:
    from rich.text import Text

    table = empty_table()
    longest = max((len(row[0]) for row in section.rows), default=0)
    table.add_column(section.columns[0], no_wrap=longest <= _NAME, overflow="fold", vertical="bottom")
    for column in section.columns[1:]:
        table.add_column(column, justify="right", overflow="fold", vertical="bottom")
    for row in section.rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    return table


def _one_request(result: LatencyResult) -> LatencySection:
    rows = []
    for state, said in STATES.items():
        whole = result.of(state)
        if whole is None:
            continue
        process = result.of_process(state)
        rows.append((said, f"{whole.n:,}", *_spread(whole), _rounds(whole), _ms(_median(process))))
    return LatencySection(
        f"One request, {count(result.reference, 'item')}, ms",
        ("", "n", "p50", "p95", "p99", "rounds", "with start of process"),
        tuple(rows),
        (_PERCENTILES, _COLD),
    )


def _by_step(result: LatencyResult) -> LatencySection:
    states = [state for state in STATES if result.of(state) is not None]
    tail = "new" in states
    rows = []
    for part in result.parts():
        found = {state: result.of(state, part) for state in states}
        if not any(found.values()):
            continue
        step, _, inside = part.partition(" / ")
        name = f"  {inside}" if inside in PARTS_OF_A_STEP else "whole request" if part == WHOLE else step
        cells = [_ms(_median(one)) for one in found.values()]
        if tail:
            new = found["new"]
            cells.append(_ms(new.p95 if new else None))
        rows.append((name, *cells))
    columns = ("", *(_SHORT[state] for state in states), *(["warm,\nquery new, p95"] if tail else []))
    return LatencySection(
        f"By step, {count(result.reference, 'item')}, median ms",
        columns,
        tuple(rows),
        (_STEPS,),
    )


def _growth(result: LatencyResult) -> LatencySection:
    states = ("cold", "restarted_cached", "new", "cached")
    rows = []
    for size in result.sizes:
        found = [result.of(state, size=size) for state in states]
        peak = result.peak("warm", size)
        rows.append((f"{size:,} items", *(_ms(_median(one)) for one in found), _number(_median(peak))))
    return LatencySection(
        "As the catalog grows, whole request, median ms",
        ("", *(_SHORT[state] for state in states), "peak MiB, warm"),
        tuple(rows),
        (_GROWN,) if result.sizes[-1] > result.catalog["items"] else (),
    )


def _indexing(result: LatencyResult) -> LatencySection:
    rows = []
    for size in result.sizes:
        chunk, first, peak = result.indexing(size), result.of("cold", size=size), result.peak("cold", size)
        rate = _number(1 / chunk.p50) if chunk else NONE
        whole = _ms(chunk.p50 * result.indexed(size)) if chunk else NONE
        cells = (_ms(_median(chunk)), rate, whole, _ms(_median(first)), _number(_median(peak)))
        rows.append((f"{size:,} items", f"{result.indexed(size):,}", *cells))
    load, ready = result.model_load(), result.ready()
    notes = [f"A process is ready after {_ms(_median(ready))} ms (interpreter, imports, pipeline)."]
    if load is not None:
        notes.append(f"The model is loaded {_ms(load.p50)} ms after the first text is asked for (n = {load.n}).")
    return LatencySection(
        "Indexing and first search on an empty store, median ms",
        ("", "chunks", "ms a chunk", "texts a second", "indexing", "first search", "peak MiB"),
        tuple(rows),
        tuple(notes),
    )


def _documents(result: LatencyResult) -> LatencySection:
    rows = []
    for row in result.beside():
        ours = row.ours
        ratio = f"{ours.p50 / row.documents_s:.2f}" if ours else NONE
        cells = (_ms(row.documents_s), _ms(_median(ours)), f"{ours.n:,}" if ours else NONE, ratio)
        rows.append((f"{row.what} ({row.note})" if row.note else row.what, *cells))
    return LatencySection(
        "Beside the documents' figures, ms",
        ("", "documents", "ours, p50", "n", "ours / documents"),
        tuple(rows),
        (_DOCUMENTS,),
    )


def _spread(found: Summary) -> Sequence[str]:
    return (_ms(found.p50), _ms(found.p95), _ms(found.p99))


def _rounds(found: Summary) -> str:
    return f"{_ms(found.low)} to {_ms(found.high)}" if found.rounds > 1 else NONE


def _median(found: Summary | None) -> float | None:
    return found.p50 if found else None


def _ms(seconds: float | None) -> str:
    """Milliseconds to three digits or so."""
    if seconds is None:
        return NONE
    value = seconds * 1e3
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:,.0f}"
