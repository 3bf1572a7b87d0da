"""How far can `ctxbench check` be trusted: reports/gate.md (`make gate`).

False alarms, faults that were made on purpose, chance, causes of edits, and time. Some five minutes on two cores; the
first run embeds new texts, which takes some minutes more.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.append(str(Path(__file__).parents[1]))

import gate_chance
import gate_power
import pandas as pd
from gate_edits import edits, named
from gate_harmless import rerun, reruns, reword, rewordings
from gate_price import price
from gate_world import ALLOWANCES, ALLOWED_COLUMNS, OWN
from pages import Page, Picture, Tables, constrained_axes, run_page
from threadpoolctl import threadpool_limits

from ctxbench.gate.settings import ALLOWED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROCESSES = 2
ENOUGH, LARGE = 95, 300  # draws of 100 that must name a fault, at so many queries
DEMANDED = ("items dropped", "chunker", "rule replaced", "costly look-alikes", "static model")
"""The faults that must be named at 300 queries; the others are milder, or cost next to nothing."""
ALONE, TOGETHER = "rewordings", "all rewordings together"
RATIO, MEGABYTES, FALSE, RIGHT, LEVEL = 4.0, 300.0, 0.05, 0.9, 0.05
Job = tuple[str, Callable[..., list[dict[str, Any]]], tuple[Any, ...]]


def measure() -> Tables:
    """All tables, by two processes; what processes cost is taken when these are done."""
    began, jobs = time.perf_counter(), _jobs()
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name, _, _ in jobs}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, mp_context=context, initializer=threadpool_limits, initargs=(1,)) as pool:
        waiting = {pool.submit(function, *arguments): (name, arguments) for name, function, arguments in jobs}
        for done, _ in enumerate(as_completed(waiting), 1):
            if done % 20 == 0:
                sys.stderr.write(f"{time.perf_counter() - began:5.0f} s  {done} of {len(jobs)}\n")
        for future, (name, _) in waiting.items():
            rows[name] += future.result()
    tables = {name: pd.DataFrame(rows[name]) for name in rows}
    changes = tables["harmless"].groupby(["dataset", "change", "queries"], sort=False).sum()
    tables["harmless"] = changes.reset_index()
    defaults = defaults_of(tables)
    kept = {name: table.drop(columns=ALLOWED_COLUMNS, errors="ignore") for name, table in tables.items()}
    return {**kept, "defaults": defaults, "time": pd.DataFrame(price())}


def defaults_of(tables: Tables) -> pd.DataFrame:
    """What other shares of the queries in need that may lose a required item would call worse, a row for each."""
    faults, edits_table, harmless = (tables[name] for name in ("faults", "edits", "harmless"))
    alone = harmless[harmless["change"] == ALONE]
    whole, drawn = (alone[alone["queries"] == queries] for queries in ("all", str(LARGE)))
    large = faults[(faults["n"] == LARGE) & faults["fault"].isin(DEMANDED)]
    losing = edits_table[edits_table["lost"] > edits_table["gained"]]
    return pd.DataFrame(
        {
            "may_be_lost": share,
            "rewordings": whole["checks"].sum(),
            "rewordings_worse": whole[column].sum(),
            "draws_worse": drawn[column].sum() / drawn["checks"].sum(),
            "fault_rows": len(large),
            "fault_rows_named": (large[column] >= ENOUGH).sum(),
            "losing_edits": len(losing),
            "losing_edits_worse": losing[column].sum(),
        }
        for share, column in zip(ALLOWANCES, ALLOWED_COLUMNS, strict=True)
    )


def _jobs() -> list[Job]:
    """What takes longest comes first."""
    jobs: list[Job] = [("faults", gate_power.power, arguments) for arguments in gate_power.tasks(OWN)]
    jobs += [("chance", gate_chance.simulate, arguments) for arguments in gate_chance.tasks(["workbench"])]
    every = [(name, index) for name, rows in rewordings().items() for index in (*range(len(rows)), None)]
    jobs += [("harmless", reword, arguments) for arguments in every]
    jobs += [("edits", named, (index,)) for index in range(len(edits()))]
    ordered = sorted(reruns(), key=lambda arguments: arguments[1] != "threads")
    return jobs + [("harmless", rerun, arguments) for arguments in ordered]


# ---------------------------------------------------------------------------------------------------- the page


def page(tables: Tables) -> Page:
    """The page of these tables."""
    harmless, faults, edits_table = tables["harmless"], tables["faults"], tables["edits"]
    least = least_named(faults)
    named_faults = int((least[LARGE] >= ENOUGH).sum())
    again = harmless[harmless["dataset"].isin(OWN) & ~harmless["change"].isin([ALONE, TOGETHER])]
    alone = harmless[(harmless["change"] == ALONE) & (harmless["queries"] == "all")]
    right = int(edits_table["right"].sum())
    return Page(
        title="How far can `ctxbench check` be trusted?",
        answer=(
            f"It raised {again['worse'].sum() + alone['worse'].sum()} false alarms in "
            f"{again['checks'].sum() + alone['checks'].sum()} harmless changes, named {named_faults} of {len(least)} "
            f"planted faults at {LARGE} queries, and {right} of {len(edits_table)} causes of edits."
        ),
        picture=Picture(
            draw=partial(draw, least),
            alt="In how many of 100 draws each fault is named, with 30, 100 and 300 queries",
            width=560,
            height=380,
        ),
        table=rows(tables),
        notes=(
            """The picture: in how many of 100 draws a fault that was made on purpose is called worse with the right
            cause first, the least over datasets and selectors. The last three faults are mild or cost next to nothing
            here.""",
            _noise_note(tables["chance"]),
            _edits_note(edits_table),
            _defaults_note(tables["defaults"]),
        ),
        made="""`make gate`: a check with the defaults (completeness, recall and tokens; 0.25% of the queries in need,
        at least 1, may lose a required item net), of `semantic/spec` and of `semantic` with a
        tuned margin together on
        `workbench` (694 queries), `freight` (330) and, for tools, `bfcl-live` (1,053). Reruns: items or queries in
        another order, other threads, noise of 1e-6 on vectors or scores. Rewordings and edits are in
        `experiments/gate`. Edits were measured anew on 2026-11-29, the rest before that. A language model wrote
        workbench, freight, rewordings and edits; most queries that need an item here do not have it to lose. Time:
        median of 10 rounds, a check of `workbench` in turn with `python -c "import numpy"`.""",
    )


def least_named(faults: pd.DataFrame) -> pd.DataFrame:
    """In how many draws of each size a fault is named, the least over datasets and selectors; demanded faults first."""
    least = faults.groupby(["fault", "n"])["right"].min().unstack("n")
    milder = [name for name in least.index if name not in DEMANDED]
    return least.loc[[*DEMANDED, *sorted(milder, key=lambda name: -least.loc[name, LARGE])]]


def rows(tables: Tables) -> list[dict[str, str]]:
    """What was demanded, what was measured, and whether it holds."""
    harmless, faults, chance, edits_table = (tables[name] for name in ("harmless", "faults", "chance", "edits"))
    rewording = harmless["change"].isin([ALONE, TOGETHER])
    again, twins = (
        harmless[~rewording & (harmless["dataset"].isin(OWN) == plain)][["checks", "worse", "swapped"]].sum()
        for plain in (True, False)
    )
    alone = harmless[(harmless["change"] == ALONE) & (harmless["queries"] == "all")][["checks", "worse"]].sum()
    large = faults[(faults["n"] == LARGE) & faults["fault"].isin(DEMANDED)]
    good = int((large["right"] >= ENOUGH).sum())
    alike = chance[chance["base_chance"] == chance["head_chance"]]
    called = (alike["worse"] + alike["better"]).max()
    covered = chance.filter(like="_covered")
    right = int(edits_table["right"].sum())
    check = tables["time"].set_index("process")
    return [
        _row(
            "false alarms: reruns",
            "none of 200",
            f"{again['worse']:.0f} of {again['checks']:.0f}; with twins of the same score {twins['worse']:.0f} of "
            f"{twins['checks']:.0f}, though {twins['swapped']:,.0f} offers swap",
            again["worse"] == 0,
        ),
        _row(
            "false alarms: rewordings",
            f"at most {FALSE:.0%}",
            f"{alone['worse']} of {alone['checks']}",
            alone["worse"] <= FALSE * alone["checks"],
        ),
        _row(
            "five planted faults",
            f"named in {ENOUGH} of 100 draws of {LARGE} queries",
            f"{good} of {len(large)} rows",
            good == len(large),
        ),
        _row(
            "equal selectors called worse or better",
            f"at most {LEVEL:.0%}",
            f"{called:.1%} of 1,000 checks",
            called <= LEVEL,
        ),
        _row(
            "95% intervals hold the difference",
            "95%",
            f"{covered.min().min():.1%} to {covered.max().max():.1%}; more: [gate-intervals](gate-intervals.md)",
            bool((covered >= 0.93).all(axis=None)),
        ),
        _row("causes of edits", "nine of ten", f"{right} of {len(edits_table)}", right >= RIGHT * len(edits_table)),
        _row(
            "time, nothing changed",
            f"{RATIO:g} times importing numpy",
            f"{check.loc['unchanged', 'ratio']:.1f} times; if selectors are asked {check.loc['touched', 'ratio']:.1f}",
            check.loc["unchanged", "ratio"] <= RATIO,
        ),
        _row("memory", f"{MEGABYTES:g} MB", f"{check['megabytes'].max():.0f} MB", check["megabytes"].max() < MEGABYTES),
    ]


def _row(question: str, demanded: str, measured: str, holds: bool) -> dict[str, str]:
    return {"question": question, "demanded": demanded, "measured": measured, "holds": "yes" if holds else "**no**"}


def _noise_note(chance: pd.DataFrame) -> str:
    alike = chance[chance["base_chance"] == chance["head_chance"]]
    once, more = (alike[(alike["repeats"] == 1) == single]["loses_more_than_allowed"] for single in (True, False))
    return f"""Ask a selector that answers at random three times: with required items left out at random, on both sides
    alike, {once.min():.1%} to {once.max():.1%} of checks lose more than is allowed if it is asked once, at most
    {more.max():.1%} if it is asked three times."""


def _edits_note(edits_table: pd.DataFrame) -> str:
    wrong = edits_table[~edits_table["right"]]
    listed = "; ".join(f"`{row.edit}` ({row.named_first}, not {row.expected})" for row in wrong.itertuples(index=False))
    return f"""Edits are changes as pull requests would make them, by an author who had not seen how causes are found.
    Named wrongly: {listed or "none"}."""


def _defaults_note(defaults: pd.DataFrame) -> str:
    by_share = defaults.set_index("may_be_lost")
    shipped, none, twice = (by_share.loc[share] for share in (ALLOWED, 0.0, 2 * ALLOWED))
    return f"""Why {100 * ALLOWED:g}% may be lost: in draws of {LARGE} queries, {shipped["draws_worse"]:.1%} of
    rewordings are worse with it and {none["draws_worse"]:.1%} if nothing may be lost; of the edits that lose something,
    {shipped["losing_edits_worse"]:.0f} of {shipped["losing_edits"]:.0f} are worse with it and
    {twice["losing_edits_worse"]:.0f} with twice as much. It was chosen by these figures."""


def draw(least: pd.DataFrame, figure: Figure) -> None:
    """A row of dots for each fault, one for each number of queries."""
    axes = constrained_axes(figure)
    heights = range(len(least))
    axes.hlines(heights, least.min(axis=1), least.max(axis=1), color="0.85", linewidth=2, zorder=1)
    for n, colour in zip(least.columns, ("0.75", "#7fb2d9", "C0"), strict=True):
        axes.plot(least[n], heights, "o", color=colour, label=f"{n} queries", clip_on=False)
    axes.axvline(ENOUGH, color="0.6", linestyle="--", zorder=0)
    axes.set_yticks(heights, least.index)
    axes.invert_yaxis()
    axes.set_xlabel("of 100 draws, named")
    axes.grid(visible=False, axis="y")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)


if __name__ == "__main__":
    run_page("gate", measure, page, about=__doc__.splitlines()[0])
