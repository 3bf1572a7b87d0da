"""Is the gate worth having? False alarms, power, chance, causes and price, measured. Writes reports/gate.md.

Run from the project's folder: `python experiments/gate/measure.py`; some five minutes on two cores. Draws and noise
have fixed seeds, so that the page is the same every time, but for what a process costs. The first run embeds new texts,
which takes some minutes more.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

import gate_chance
import gate_power
from gate_edits import edits, named
from gate_harmless import rerun, reruns, reword, rewordings
from gate_price import price
from gate_report import APART, Measured, page
from gate_world import HERE, OWN
from threadpoolctl import threadpool_limits

from ctxbench.cli.common import run_script
from ctxbench.report.pages import write_parted

PROCESSES = 2
Job = tuple[str, Callable[..., Any], tuple[Any, ...]]


def main() -> None:
    """Make the page."""
    began, done = time.perf_counter(), dict[tuple[str, tuple[Any, ...]], Any]()
    jobs = _jobs()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, mp_context=context, initializer=threadpool_limits, initargs=(1,)) as pool:
        waiting = {pool.submit(function, *given): (part, given) for part, function, given in jobs}
        for one in as_completed(waiting):
            part, given = waiting[one]
            done[part, given] = one.result()
            if part != "reruns" or len(done) % 50 == 0:
                passed = time.perf_counter() - began
                print(f"{passed:4.0f} s  {len(done)} of {len(jobs)}: {part} {given}", file=sys.stderr)  # noqa: T201
    by = {part: {given: done[name, given] for name, _, given in jobs if name == part} for part, _, _ in jobs}
    measured = Measured(
        reruns={given[0]: found for given, found in by["reruns"].items()},
        rewordings=by["rewordings"],
        power=list(by["power"].values()),
        chance=list(by["chance"].values()),
        edits=[by["edits"][place,] for place in range(len(edits()))],
        price=price(),
    )
    write_parted(HERE.parents[1] / "reports" / "gate.md", page(measured), APART)
    print(f"{time.perf_counter() - began:4.0f} s", file=sys.stderr)  # noqa: T201


def _jobs() -> list[Job]:
    """What takes longest comes first."""
    found: list[Job] = [("power", gate_power.power, given) for given in gate_power.tasks(OWN)]
    found += [("chance", gate_chance.simulate, given) for given in gate_chance.tasks(["workbench"])]
    every = [(name, place) for name, rows in rewordings().items() for place in (*range(len(rows)), None)]
    found += [("rewordings", reword, given) for given in every]
    found += [("edits", _edited, (place,)) for place in range(len(edits()))]
    ordered = sorted(reruns(), key=lambda one: one.what != "threads")
    return found + [("reruns", rerun, (one,)) for one in ordered]


def _edited(place: int) -> Any:
    return named(edits()[place])


if __name__ == "__main__":
    run_script(main)
