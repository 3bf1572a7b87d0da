"""Which files and definitions do changes need, and who finds them? Measures reports/codebase.md (`make codebase`).

Of each repository the newest 300 changes become requests (`ctxbench data from-git`); measured is on the newest 40% of
them. With `--page` the page is written again from its kept tables.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

sys.path.append(str(Path(__file__).parents[1]))

import numpy as np
import pandas as pd
from own_weights import OwnWeights, advice, own_weights
from pages import Page, Picture, Tables, keep_tables, kept_tables, write_page
from repo_map import RepoMaps

import ctxbench
from ctxbench.cli.common import run_script
from ctxbench.datasets.lookup import open_dataset
from ctxbench.evaluation.statistics import LEVEL, compare
from ctxbench.io.console import say
from ctxbench.labelling.git_history import DELETES, NAMED, NAMES_NOTHING
from ctxbench.model.arrays import BoolArray, FloatArray
from ctxbench.model.registry import build
from ctxbench.model.strategies import Merge, Step
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.pipelines.strategies.rank import Weighted
from ctxbench.report.charts import COLOURS
from ctxbench.report.pages import axes_at
from ctxbench.selectors.definitions import definition

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "codebase"
FOUND, COMPLETE, PRECISION, TOKENS, ITEMS = METRICS = ("recall", "completeness", "precision", "tokens", "items")
BUDGETS = (1000, 2000, 4000, 8000, 16000, 32000)
SOURCES = ("words", "history", "paths", "plan", "names", "changes")
LARGE = 400  # files
KINDS, WORDS = "documentation as code", "other words of code"
BEHIND = "bm25, documentation behind"
FACTORS = {"documents": 0.3, "made": 0.2}  # as shipped
UNNAMED, DESCRIBED = "names no file", "describes its change"
MOST = 1_000_000  # tokens, where they are no matter
SKIPPED = (
    "skipped: reports/codebase.md is measured on clones of the repositories in experiments/codebase/repositories.txt; "
    "name their folders, or give --page"
)
AIDER_NOW = "aider's repo map: its first ten files hold {aider:.1%} of the changed files."
AIDER = (
    "aider's repo map (aider-chat 0.86.2), measured on 2026-11-28 by the labels of then: its first ten files hold "
    "20.8% of the changed files; taken whole within 8,000 tokens they are complete for 6.0% of the requests."
)
NOTES = """\
The share of the changed files among the ten that are offered. "Behind": documentation and generated files, which no \
label requires, behind code, by the factors of `codebase`.
**Focused.** `codebase/focused` finds {kept:.2f} of what the default finds. In the mean over requests a change takes \
{focused_precision:.0%} of its files, {codebase_precision:.0%} of the default's.
**Within 8,000 tokens** all that was changed is offered for {codebase_definitions:.0%} of the requests by \
`codebase/definitions`, {codebase_files:.0%} by whole files, {bm25_definitions:.0%} by BM25 over definitions, \
{bm25_files:.0%} over files ({detailed_repositories:.0f} repositories, as for the next two).
**What each part pays**, in what is found: {parts}. `plan`, `names` and the other words of code pay nothing on \
commits; they find the examples of document 003.
**Weights fitted to one repository**: {weights}.
**What document 003 asks for**, ten files within 32,000 tokens: of the offered files {codebase_precision:.0%} are \
changed (80% is out of reach: ten are offered, a change takes two); {requests_that_lack_a_file:.0%} of the requests \
lack a file (asked: 5%); {budget:.0%} of the budget is used (50%); {seconds:.1f} s of processor time for \
`ctxbench select` on the largest of these repositories (3 s); no model is asked. Its two worked examples are \
[found](../ctxbench/decisions.md#the-examples-of-codebase).
{aider}""".splitlines()
MADE = (
    "Requests are messages of commits of {n} repositories, without links, numbers and trailers, each asked of the tree "
    "just before; needed is what the commit changed, documentation apart. Measured on the newest 40% of 300 changes "
    "each; repositories count alike, intervals are of 95%. All choices were made on the older requests of six others "
    "(click, requests, pydantic, ripgrep, express, gin), but for one rule that repositories.txt names. BM25 is over "
    "path and content, identifiers split, words "
    'counted over the tree. `make codebase REPOSITORIES="FOLDER ..."` takes clones of '
    "[repositories.txt](../experiments/codebase/repositories.txt); without any it is skipped."
)


@dataclass(frozen=True)
class Figures:
    """What selectors find in one view of one repository.

    Attributes:
        name: of the repository.
        n_items: files, or files and definitions, that its last request sees.
        tags: of each query.
        values: by selector, the metrics of every query, shape (n_queries,) each.
    """

    name: str
    n_items: int
    tags: Sequence[Collection[str]]
    values: Mapping[str, Mapping[str, FloatArray]]

    def rows(self, of: str = "") -> BoolArray:
        """Which queries count, shape (n_queries,): all, those of `UNNAMED`, or those of `DESCRIBED`."""
        left_out = {"": set(), UNNAMED: {NAMED}, DESCRIBED: {DELETES, NAMES_NOTHING}}[of]
        return np.array([left_out.isdisjoint(tags) for tags in self.tags], dtype=np.bool_)

    def recall(self, selector: str, of: str = "") -> FloatArray:
        """The share of what each query needs that was offered, shape (n_rows,)."""
        return self.values[selector][FOUND][self.rows(of)]


def words(tokens: int = MOST, n: int = 300, kinds: Mapping[str, float] | None = None) -> Any:
    """The baseline: BM25 over path and content, identifiers split, words counted over what a request sees.

    Args:
        tokens, n: the most that is offered.
        kinds: factors of `file_kinds`.
    """
    search = {"bm25": {"depth": 300, "statistics": "scope"}}
    order = [{"file_kinds": kinds}] if kinds else []
    return ctxbench.pipeline(search, refine=[*order, {"first": {"n": n}}, {"budget": {"tokens": tokens, "skip": True}}])


def codebase(preset: str = "", **values: Any) -> dict[str, Any]:
    """The shipped selector with other values."""
    return {"selector": "codebase", **({"preset": preset} if preset else {}), "set": {"tokens": MOST, **values}}


def at_budgets(view: str) -> dict[str, Any]:
    """Both at each budget, with as many items as fit; over definitions with the preset for them."""
    preset = "definitions" if view == "definitions" else ""
    return {
        f"{name} {tokens}": selector
        for tokens in BUDGETS
        for name, selector in (
            ("bm25", words(tokens)),
            ("codebase", codebase(preset, tokens=tokens, max_files=300)),
        )
    }


def _pipeline(**values: Any) -> Pipeline:
    shipped = definition("codebase")
    return shipped.pipeline(shipped.values(None, {"tokens": MOST, **values}))


def without() -> dict[str, Any]:
    """The shipped selector without each of its parts."""
    parts: dict[str, Any] = {f"`{name}`": codebase("", **{name: 0.001 if name == "words" else 0.0}) for name in SOURCES}
    plain = replace(_pipeline(), analyse=Pipeline.of({"analyse": "whole", "retrieve": "bm25"}).analyse)
    return {**parts, WORDS: plain, KINDS: codebase(documents=1.0, made=1.0)}


def added() -> dict[str, Any]:
    """The shipped selector with what it could have beside."""
    pipeline = _pipeline()
    merge, weighted = pipeline.retrieve, pipeline.refine[0]
    if not isinstance(merge, Merge) or not isinstance(weighted, Step) or not isinstance(weighted.call, Weighted):
        raise TypeError("codebase has no merge any more, or is not ranked by its weights")
    searches = {}
    for name, weight in (("symbol", 0.2), ("entry_points", 0.1)):
        search = Step("retrieve", name, build("retrieve", name, {"n": 300, "types": ["file", "chunk"]}))
        weights, lowest = {**weighted.call.weights, name: weight}, {**weighted.call.lowest, name: 0.0}
        searches[f"`{name}`, weight {weight:g}"] = replace(
            pipeline,
            retrieve=replace(merge, sources={**merge.sources, name: search}),
            refine=(
                replace(weighted, call=replace(weighted.call, weights=weights, lowest=lowest)),
                *pipeline.refine[1:],
            ),
        )
    eight = _pipeline(max_files=8)
    links = {
        f"two files by `{by}` in the place of the last two": replace(
            eight,
            refine=(*eight.refine, Step("expand", "code", build("expand", "code", {"by": by, "max_files": 2}))),
        )
        for by in ("imports", "references", "tests", "co_change")
    }
    return {**searches, **links}


def measured(
    repository: Path, view: str, selectors: Mapping[str, Any], folder: Path, maps: RepoMaps | None = None
) -> Figures:
    """The figures of selectors, and of aider's maps where there are some, on the newest changes of a repository."""
    name = repository.name.removesuffix(".git")
    out = folder / f"{name}-{view}"
    command = [sys.executable, "-m", "ctxbench", "data", "from-git", str(repository), "--view", view, "--out", str(out)]
    subprocess.run(command, check=True)  # noqa: S603 - our own
    dataset = open_dataset(str(out))
    selectors = {**selectors, **(maps.answers(dataset, out, BUDGETS) if maps else {})}
    say(f"{name}, {view}: {len(selectors)} selectors", err=True)
    frame = ctxbench.evaluate(ctxbench.load(str(out)), dict(selectors), split="test", metrics=METRICS).per_query()
    if len(failed := frame[frame["error"] != ""]):
        raise SystemExit(f"{failed.iloc[0]['selector']}: {failed.iloc[0]['error']}")
    queries = [query for query in dataset.queries if query.split == "test"]
    values = {}
    for selector in selectors:
        rows = frame[frame["selector"] == selector].set_index("query").loc[[query.id for query in queries]]
        values[selector] = {metric: rows[metric].to_numpy(dtype=np.float64) for metric in METRICS}
    visible = dataset.batch().eligible.row(len(dataset.queries) - 1)
    return Figures(name, int(np.count_nonzero(visible)), [query.tags for query in queries], values)


Measured: TypeAlias = tuple[Figures, Figures | None, OwnWeights | None]
"""The figures of one repository by files and by definitions, and what weights of its own find."""


def measure_repository(repository: Path, *, folder: Path, aider: str | None, detailed: Collection[Path]) -> Measured:
    """Measure one repository.

    Args:
        repository: a clone; may be bare.
        folder: for its datasets.
        aider: the Python to ask for maps, if any.
        detailed: the repositories of all tables; any other takes a tenth of the time.
    """
    maps = RepoMaps(aider, repository, folder / f"{repository.name}-tree") if aider else None
    ten = {"bm25": words(n=10), BEHIND: words(n=10, kinds=FACTORS), "codebase": codebase()}
    ten |= {"focused": codebase("focused"), "shipped": {"selector": "codebase"}}
    if repository not in detailed:
        return measured(repository, "files", ten, folder), None, None
    ten |= {f"without {name}": selector for name, selector in without().items()}
    files = measured(repository, "files", {**ten, **added(), **at_budgets("files")}, folder, maps)
    weights = own_weights(folder / f"{files.name}-files")
    return files, measured(repository, "definitions", at_budgets("definitions"), folder, maps), weights


def mean(figures: Sequence[Figures], selector: str, metric: str) -> float:
    """The mean of a metric over repositories."""
    return float(np.mean([np.nanmean(repository.values[selector][metric]) for repository in figures]))


def recall(figures: Sequence[Figures], selector: str, of: str = "") -> float:
    """The mean over repositories of the share that is found, for the queries of `Figures.rows`."""
    return float(np.mean([np.nanmean(repository.recall(selector, of)) for repository in figures]))


def gain(base: Sequence[FloatArray], other: Sequence[FloatArray]) -> dict[str, float]:
    """The difference over all queries, those of each repository weighing alike, with its interval."""
    pairs = [(left[~np.isnan(left)], right[~np.isnan(right)]) for left, right in zip(base, other, strict=True)]
    weight = np.concatenate([np.full(len(left), 1 / (len(left) * len(pairs))) for left, _ in pairs])
    change = np.concatenate([right - left for left, right in pairs]) * weight * len(weight)
    result = compare(np.zeros(len(change)), change, scale="amount", alpha=1 - LEVEL)
    return {"difference": result.difference, "low": result.interval.low, "high": result.interval.high}


def seconds(repository: Path) -> float:
    """The processor time of a whole `ctxbench select` in a new process, of what is on disk already; median of 3."""
    text = "let the parser report where a value came from"
    command = [sys.executable, "-m", "ctxbench", "select", text, "--catalog", str(repository), "--selector", "codebase"]
    took = []
    for _ in range(4):
        before = os.times()  # of the clock, what else runs would take a part
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own
        after = os.times()
        took.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return float(np.median(took[1:]))


def tables_of(results: Sequence[Measured], took: float) -> Tables:
    """The tables of the page; the selection of the largest detailed repository took so many seconds."""
    files, definitions = [result[0] for result in results], [result[1] for result in results if result[1]]
    detailed = [result[0] for result in results if result[1]]
    found = partial(_found, detailed)
    parts = [{"part": f"without {name}", **found(f"without {name}")} for name in without()]
    parts += [{"part": f"with {name}", **found(name)} for name in added()]
    budgets = [
        {"view": view, "selector": name, "tokens": tokens, "complete": mean(figures, selector, COMPLETE)}
        | {"offered": mean(figures, selector, TOKENS)}
        for view, figures in (("files", detailed), ("definitions", definitions))
        for name in ("bm25", "codebase", *(("aider",) if "aider" in detailed[0].values else ()))
        for tokens in BUDGETS
        if (selector := f"{name} {tokens}") in figures[0].values
    ]
    weights = [result[2] for result in results if result[2]]
    facts = [
        {"fact": "requests that lack a file", "value": 1 - mean(files, "shipped", COMPLETE)},
        {"fact": "tokens offered", "value": mean(files, "shipped", TOKENS)},
        {"fact": "seconds", "value": took},
        {"fact": "detailed repositories", "value": float(len(detailed))},
    ]
    if "aider" in detailed[0].values:
        facts.append({"fact": "aider", "value": recall(detailed, "aider")})
    return {
        "": pd.DataFrame(_repository_rows(files, detailed)),
        "parts": pd.DataFrame(parts),
        "budgets": pd.DataFrame(budgets),
        "weights": pd.DataFrame(advice(weights, gain)),
        "facts": pd.DataFrame(facts),
    }


def _found(figures: Sequence[Figures], selector: str) -> dict[str, float]:
    """What is found in another way, and how it differs from `codebase`."""
    whole, other = ([repository.recall(name) for repository in figures] for name in ("codebase", selector))
    return {"found": recall(figures, selector), **gain(whole, other)}


def _repository_rows(files: Sequence[Figures], detailed: Sequence[Figures]) -> Iterator[dict[str, Any]]:
    """What is found by repository, and in the mean."""
    large = [repository for repository in files if repository.n_items > LARGE]
    groups: list[tuple[str, Sequence[Figures], str]] = [(repository.name, [repository], "") for repository in files]
    groups += [(f"mean of {len(files)}", files, ""), ("without tagged changes", files, DESCRIBED)]
    groups += [("naming no changed file", files, UNNAMED), (f"mean of the {len(detailed)} detailed", detailed, "")]
    groups += [(f"mean of {len(large)} over {LARGE} files", large, "")] if large else []
    for name, figures, of in groups:
        base, behind, own = (
            [repository.recall(selector, of) for repository in figures] for selector in ("bm25", BEHIND, "codebase")
        )
        row = {"repository": name, "files": figures[0].n_items if len(figures) == 1 else 0}
        row |= {"requests": sum(map(len, own))}
        for selector in ("bm25", BEHIND, "codebase", "focused"):
            row[selector] = recall(figures, selector, of)
        for selector in ("codebase", "focused"):
            row |= {f"{selector}_precision": mean(figures, selector, PRECISION)}
            row |= {f"{selector}_items": mean(figures, selector, ITEMS)}
        for label, other in (("over_bm25", base), ("over_behind", behind)):
            row |= {f"{label}_{part}": value for part, value in gain(other, own).items()}
        yield row


def page(tables: Tables) -> Page:
    """The page of these tables."""
    rows = tables[""]
    mean_row = rows[rows["repository"].str.fullmatch(r"mean of \d+")].iloc[0]
    n = int(mean_row["repository"].rpartition(" ")[2])
    answer = (
        f"Take `codebase`: ten files hold {mean_row['codebase']:.1%} of what a change took, BM25's "
        f"{mean_row['bm25']:.1%}. For less context, `codebase/focused`: {mean_row['focused']:.1%} in "
        f"{mean_row['focused_items']:.1f} files."
    )
    return Page(
        title="Which code does a change need?",
        answer=answer,
        picture=Picture(
            draw=partial(_draw, tables),
            alt="Left: share of changed files found by BM25, BM25 with documentation behind code, and codebase, by "
            "repository. Right: requests of which everything is offered within a token budget",
        ),
        table=[_table_row(row) for _, row in rows.iterrows()],
        notes=_notes(tables, mean_row),
        made=MADE.format(n=n),
    )


def _table_row(row: pd.Series) -> dict[str, str]:
    """A line of the page's table."""
    more = f"{row['over_behind_difference']:+.3f} ({row['over_behind_low']:+.3f} to {row['over_behind_high']:+.3f})"
    return {
        "repository": row["repository"],
        "files": f"{row['files']:,}" if row["files"] else "-",
        "requests": f"{row['requests']:,}",
        "BM25": f"{row['bm25']:.3f}",
        "BM25, behind": f"{row[BEHIND]:.3f}",
        "`codebase`": f"{row['codebase']:.3f}",
        "more than BM25, behind": more.replace("-", "−"),
        "`focused`: found, of its files changed": f"{row['focused']:.3f}, {row['focused_precision']:.0%}",
    }


def _notes(tables: Tables, mean_row: pd.Series) -> list[str]:
    """What the columns mean, and what else was found."""
    facts = dict(zip(tables["facts"]["fact"], tables["facts"]["value"], strict=True))
    complete = tables["budgets"].set_index(["view", "selector", "tokens"])["complete"]
    values = dict(mean_row) | {name.replace(" ", "_"): value for name, value in facts.items()}
    values |= {"kept": mean_row["focused"] / mean_row["codebase"], "parts": _gains(tables["parts"])}
    values |= {"weights": _gains(tables["weights"]), "budget": facts["tokens offered"] / BUDGETS[-1]}
    values |= {
        f"{selector}_{view}": complete[view, selector, 8000]
        for selector in ("bm25", "codebase")
        for view in ("files", "definitions")
    }
    values["aider"] = AIDER_NOW.format(**facts) if "aider" in facts else AIDER
    return [note.format(**values) for note in NOTES]


def _gains(rows: pd.DataFrame) -> str:
    """Each row as the text of its first column and its change with the interval."""
    texts = (
        f"{row.iloc[0]} {row['difference']:+.3f} ({row['low']:+.3f} to {row['high']:+.3f})"
        for _, row in rows.iterrows()
    )
    return "; ".join(texts).replace("-0.", "−0.")


def _draw(tables: Tables, figure: Figure) -> None:
    rows = tables[""][tables[""]["files"] > 0].iloc[::-1]
    left, right = axes_at(figure, 90, 34, 280, 330), axes_at(figure, 450, 34, 290, 330)
    names = (("bm25", "BM25"), (BEHIND, "BM25, behind"), ("codebase", "codebase"))
    left.hlines(rows["repository"], rows["bm25"], rows["codebase"], color="#888888", linewidth=1)
    for (name, label), colour, marker in zip(names, COLOURS, ("o", "D", "^"), strict=False):
        left.plot(rows[name], rows["repository"], marker, color=colour, label=label, markersize=7)
    left.set_xlabel("share of changed files found")
    budgets = tables["budgets"]
    for (selector, view), colour in zip(
        (("bm25", "files"), ("bm25", "definitions"), ("codebase", "files"), ("codebase", "definitions")),
        (COLOURS[0], COLOURS[0], COLOURS[2], COLOURS[2]),
        strict=True,
    ):
        line = budgets[(budgets["selector"] == selector) & (budgets["view"] == view)]
        name = f"{'BM25' if selector == 'bm25' else selector}, {view}"
        style = "-" if view == "definitions" else "--"
        right.plot(line["tokens"], line["complete"], style, marker="o", color=colour, label=name, markersize=5)
    right.set_xscale("log", base=2)
    right.set_xticks(BUDGETS, [f"{tokens // 1000}k" for tokens in BUDGETS])
    right.set_xlabel("token budget")
    right.set_title("all that was changed is offered", fontsize=12)
    left.legend(frameon=False, fontsize=11, ncols=3, loc="lower center", bbox_to_anchor=(0.42, 1.0), handletextpad=0.2)
    right.legend(frameon=False, fontsize=11)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)


def main() -> None:
    """Measure and keep the tables, then write the page."""
    options = argparse.ArgumentParser()
    options.add_argument("repositories", nargs="*", type=Path)
    options.add_argument("--first-table", nargs="*", type=Path, default=[], help="more repositories, for it alone")
    options.add_argument("--aider", metavar="PYTHON", help="of an environment that has aider-chat installed")
    options.add_argument("--page", action="store_true", help="write the page again from the kept tables")
    arguments = options.parse_args()
    detailed = [folder.absolute() for folder in arguments.repositories]
    if not detailed and not arguments.page:
        say(SKIPPED)
        return
    if not arguments.page:
        with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(os.cpu_count()) as pool:
            task = partial(measure_repository, folder=Path(folder), aider=arguments.aider, detailed=detailed)
            more = [folder.absolute() for folder in arguments.first_table]
            results = list(pool.map(task, [*detailed, *more]))
        largest = max(zip(results, detailed, strict=False), key=lambda pair: pair[0][0].n_items)[1]
        keep_tables(NAME, tables_of(results, seconds(largest)))
    write_page(NAME, page(kept_tables(NAME)))


if __name__ == "__main__":
    run_script(main)
