"""What the selector `codebase` finds of what changes took: reports/codebase.md (`make codebase`).

Of each repository the newest 300 changes become requests (`ctxbench data from-git`); measured is on the newest 40% of
them. Where some of the repositories are none that `codebase` was made on, the tables are of those alone, and of the
others one line. Names of folders are repositories; without any it is this project alone.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import fill
from typing import Any, TypeAlias

import numpy as np
from own_weights import OwnWeights, own_weights, section
from repo_map import RepoMaps

import ctxbench
from ctxbench.cli.common import run_script
from ctxbench.datasets.lookup import open_dataset
from ctxbench.evaluation.statistics import LEVEL, compare
from ctxbench.io.errors import count
from ctxbench.io.files import write_atomic
from ctxbench.labelling.git_history import DELETES, NAMED, NAMES_NOTHING
from ctxbench.model.arrays import BoolArray, FloatArray
from ctxbench.model.registry import build
from ctxbench.model.strategies import Merge, Step
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.pipelines.strategies.rank import Weighted
from ctxbench.selectors.definitions import definition

ROOT = Path(__file__).parents[2]
FOUND, COMPLETE, PRECISION, TOKENS = METRICS = ("recall", "completeness", "precision", "tokens")
BUDGETS = (1000, 2000, 4000, 8000, 16000, 32000)
SOURCES = ("words", "history", "paths", "changes")
MADE_ON = ("click", "requests", "pydantic", "ripgrep", "express", "gin", "this project")
LARGE = 400  # files
KINDS = "documentation as code"
BEHIND = "bm25, documentation behind"
FACTORS = {"documents": 0.3, "made": 0.2}  # as shipped
UNNAMED, DESCRIBED = "names no file", "describes its change"
MOST = 1_000_000  # tokens, where they are no matter


Views: TypeAlias = Sequence[Sequence["Figures"]]
"""The figures of files, and of definitions, by repository; of definitions only those that are measured in detail."""


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


def codebase(**values: Any) -> dict[str, Any]:
    """The shipped selector with other values."""
    return {"selector": "codebase", "set": {"tokens": MOST, **values}}


def at_budgets(view: str) -> dict[str, Any]:
    """Both at each budget, with as many items as fit; over definitions with the preset for them."""
    preset = {"preset": "definitions"} if view == "definitions" else {}
    return {
        f"{name} {tokens}": one
        for tokens in BUDGETS
        for name, one in (("bm25", words(tokens)), ("codebase", codebase(tokens=tokens, max_files=300) | preset))
    }


def added() -> dict[str, Any]:
    """The shipped selector with what it could have beside."""
    found = definition("codebase")
    own = found.pipeline(found.values(None, {"tokens": MOST}))
    merge, weighted = own.retrieve, own.refine[0]
    if not isinstance(merge, Merge) or not isinstance(weighted, Step) or not isinstance(weighted.call, Weighted):
        raise TypeError("codebase has no merge any more, or is not ranked by its weights")
    searches = {}
    for name, weight in (("symbol", 0.2), ("entry_points", 0.1)):
        search = Step("retrieve", name, build("retrieve", name, {"n": 300, "types": ["file", "chunk"]}))
        call = replace(
            weighted.call,
            weights={**weighted.call.weights, name: weight},
            lowest={**weighted.call.lowest, name: 0.0},
        )
        searches[f"`{name}`, weight {weight:g}"] = replace(
            own,
            retrieve=replace(merge, sources={**merge.sources, name: search}),
            refine=(replace(weighted, call=call), *own.refine[1:]),
        )
    planned = Pipeline.of({"analyse": ["whole", "intent", "plan"], "retrieve": "bm25"}).analyse
    eight = found.pipeline(found.values(None, {"tokens": MOST, "max_files": 8}))
    links = {
        f"two files by `{by}` in the place of the last two": replace(
            eight,
            refine=(*eight.refine, Step("expand", "code", build("expand", "code", {"by": by, "max_files": 2}))),
        )
        for by in ("imports", "references", "tests", "co_change", "pagerank")
    }
    return {**searches, "`plan`, by words": replace(own, analyse=planned), **links}


def measured(
    repository: Path, view: str, selectors: Mapping[str, Any], folder: Path, maps: RepoMaps | None = None
) -> Figures:
    """The figures of selectors, and of aider's maps where there are some, on the newest changes of a repository."""
    name = "this project" if repository == ROOT else repository.name.removesuffix(".git")
    out = folder / f"{name}-{view}".replace(" ", "-")
    command = [sys.executable, "-m", "ctxbench", "data", "from-git", str(repository), "--view", view, "--out", str(out)]
    subprocess.run(command, check=True)  # noqa: S603 - our own
    dataset = open_dataset(str(out))
    selectors = {**selectors, **(maps.answers(dataset, out, BUDGETS) if maps else {})}
    sys.stderr.write(f"{name}, {view}: {len(selectors)} selectors\n")
    found = ctxbench.evaluate(ctxbench.load(str(out)), dict(selectors), split="test", metrics=METRICS)
    frame = found.per_query()
    if len(failed := frame[frame["error"] != ""]):
        raise SystemExit(f"{failed.iloc[0]['selector']}: {failed.iloc[0]['error']}")
    asked = [query for query in dataset.queries if query.split == "test"]
    values = {}
    for selector in selectors:
        own = frame[frame["selector"] == selector].set_index("query").loc[[query.id for query in asked]]
        values[selector] = {metric: own[metric].to_numpy(dtype=np.float64) for metric in METRICS}
    sees = dataset.batch().eligible.row(len(dataset.queries) - 1)
    return Figures(name, int(np.count_nonzero(sees)), [query.tags for query in asked], values)


def gain(base: Sequence[FloatArray], other: Sequence[FloatArray]) -> str:
    """The difference over all queries, those of each repository weighing alike, with its interval."""
    pairs = [(one[~np.isnan(one)], two[~np.isnan(one)]) for one, two in zip(base, other, strict=True)]
    weight = np.concatenate([np.full(len(one), 1 / (len(one) * len(pairs))) for one, _ in pairs])
    change = np.concatenate([two - one for one, two in pairs]) * weight * len(weight)
    found = compare(np.zeros(len(change)), change, scale="amount", alpha=1 - LEVEL)
    if not change.any():
        return "no request changed"
    return f"{found.difference:+.3f} ({found.interval.low:+.3f} to {found.interval.high:+.3f})"


def mean(figures: Sequence[Figures], selector: str, metric: str) -> float:
    """The mean of a metric over repositories."""
    return float(np.mean([np.nanmean(one.values[selector][metric]) for one in figures]))


def recall(figures: Sequence[Figures], selector: str, of: str = "") -> float:
    """The mean over repositories of the share that is found, for the queries of `Figures.rows`."""
    return float(np.mean([np.nanmean(one.recall(selector, of)) for one in figures]))


def paragraph(text: str) -> str:
    """A text in lines."""
    return fill(text, 120, break_long_words=False, break_on_hyphens=False)


def misses(files: Sequence[Figures]) -> float:
    """The share of what BM25 misses that `codebase` finds."""
    base, own = recall(files, "bm25"), recall(files, "codebase")
    return (own - base) / (1 - base)


def found_by(files: Sequence[Figures], of: str = "") -> str:
    """What BM25, BM25 with documentation behind, and `codebase` find."""
    base, behind, own = (f"{recall(files, name, of):.3f}" for name in ("bm25", BEHIND, "codebase"))
    return f"{base}, {behind} and {own}"


def row(name: str, files: Sequence[Figures], of: str = "") -> str:
    """A line of the table of repositories."""
    base, behind, own = ([one.recall(name, of) for one in files] for name in ("bm25", BEHIND, "codebase"))
    size = f"{files[0].n_items:,}" if len(files) == 1 else "-"
    cells = (
        size,
        f"{sum(map(len, own)):,}",
        *(f"{np.mean([np.nanmean(one) for one in some]):.3f}" for some in (base, behind, own)),
    )
    return f"| {name} | {' | '.join(cells)} | {gain(base, own)} | {gain(behind, own)} |"


def of_all(figures: Sequence[Figures], selector: str) -> list[FloatArray]:
    """The share of what each query needs that was offered, by repository."""
    return [one.recall(selector) for one in figures]


def budget_row(tokens: int, *views: Sequence[Figures]) -> str:
    """A line of the table of budgets."""
    cells = [
        f"{100 * mean(figures, f'{name} {tokens}', COMPLETE):.1f} | {mean(figures, f'{name} {tokens}', TOKENS):,.0f}"
        for figures in views
        for name in ("bm25", "codebase")
    ]
    return f"| {tokens:,} | {' | '.join(cells)} |"


def aider_rows(files: Sequence[Figures], definitions: Sequence[Figures]) -> str:
    """The section on aider's repo map; a note where it was not there."""
    if "aider" not in files[0].values:
        return "Not measured: `make codebase` is given no AIDER, a Python that has `aider-chat` installed."
    ten = recall(files, "aider")
    rows = "\n".join(
        f"| {tokens:,} | {100 * mean(files, f'aider names {tokens}', COMPLETE):.1f} | "
        f"{100 * mean(files, f'aider {tokens}', COMPLETE):.1f} | "
        f"{100 * mean(files, f'codebase {tokens}', COMPLETE):.1f} | "
        f"{100 * mean(definitions, f'aider {tokens}', COMPLETE):.1f} | "
        f"{100 * mean(definitions, f'codebase {tokens}', COMPLETE):.1f} |"
        for tokens in BUDGETS[1::2]
    )
    return f"""The first ten files of aider's repo map (aider-chat 0.86.2) hold {ten:.3f} of the changed files, those of
`codebase` {recall(files, "codebase"):.3f} ({gain(of_all(files, "aider"), of_all(files, "codebase"))}).
aider takes identifiers and file names from the message by its own functions. Its map shows names and signatures, for a
model that then asks for files: "named" is how often, in per cent, it names all changed files. To be offered they are
taken whole, files or definitions, in the map's order, until a budget is full.

| tokens | named | aider, files | `codebase`, files | aider, definitions | `codebase`, definitions |
|---:|---:|---:|---:|---:|---:|
{rows}"""


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


def targets(files: Sequence[Figures], took: float) -> str:
    """The rows of what document 003 asks for."""
    useful, offered = (mean(files, "shipped", metric) for metric in (PRECISION, TOKENS))
    lacking = 1 - mean(files, "shipped", COMPLETE)
    most = mean(files, f"codebase {BUDGETS[-1]}", COMPLETE)
    share, largest = offered / 32_000, max(files, key=lambda one: one.n_items)
    met = {True: "met", False: "not met"}
    return "\n".join(
        f"| {asked} | {found} | {said} |"
        for asked, found, said in (
            (
                "over 80% of the offered files are changed",
                f"{100 * useful:.0f}%",
                "met" if useful > 0.8 else "out of reach: ten are offered, and a change takes two",
            ),
            (
                "under 5% of the requests lack a file",
                f"{100 * lacking:.0f}%",
                f"{met[lacking < 0.05]}; with as many files as fit {100 - 100 * most:.0f}%",
            ),
            (
                "mean context under 50% of the budget",
                f"{100 * share:.0f}%",
                f"{met[share < 0.5]}: {offered:,.0f} tokens of 32,000; ten files are offered whole as far as they fit",
            ),
            (
                "under 3 s",
                f"{took:.1f} s",
                f"{met[took < 3]}: processor time of `ctxbench select` on {largest.name}, {largest.n_items:,} files",
            ),
            ("the model that plans costs nothing", "0", "met: none is asked"),
        )
    )


def chosen_on(made: Sequence[Figures], made_definitions: Sequence[Figures]) -> str:
    """What is said of the repositories that the selector was made on, where they are not what the tables show."""
    if not made:
        return ""
    whole, base, own = (
        100 * mean(figures, name, COMPLETE)
        for figures, name in ((made, "bm25 8000"), (made_definitions, "bm25 8000"), (made_definitions, "codebase 8000"))
    )
    told = (
        f"Of the newer requests of the repositories that it was made on {100 * misses(made):.0f}% of the misses are "
        f"found, and within 8,000 tokens all that was changed is offered for {own:.1f}% by definitions, {base:.1f}% by "
        f"BM25 over definitions, {whole:.1f}% by BM25 over whole files."
    )
    return f"\n{paragraph(told)}\n"


def page(shown: Views, made: Views, took: float) -> str:
    """The report.

    Args:
        shown: the figures of files and of definitions that the tables have.
        made: those of repositories that the selector was made on, where they are others.
        took: seconds of processor time of a selection in a new process.
    """
    files, definitions = shown
    detailed = [one for one in files if "shipped" in one.values]
    base, own = recall(files, "bm25"), recall(files, "codebase")
    n_queries = sum(len(one.tags) for one in files)
    whole, large = of_all(detailed, "codebase"), [one for one in files if one.n_items > LARGE]
    parts = "\n".join(
        f"| {name} | {recall(detailed, f'without {name}'):.3f} | {gain(whole, of_all(detailed, f'without {name}'))} |"
        for name in without()
    )
    more = "; ".join(f"{name} {gain(whole, of_all(detailed, name))}" for name in added())
    complete = [
        mean(figures, name, COMPLETE)
        for figures, name in ((definitions, "codebase 8000"), (detailed, "bm25 8000"), (definitions, "bm25 8000"))
    ]
    worst = min(files, key=lambda one: recall([one], "codebase"))
    answer = (
        f"**Take `codebase`: its ten files hold {100 * own:.1f}% of the files that a change took "
        f"({100 * recall([worst], 'codebase'):.1f}% in the worst repository, {worst.name}), those of BM25 "
        f"{100 * base:.1f}%, of BM25 with documentation behind code {100 * recall(files, BEHIND):.1f}%. Within 8,000 "
        f"tokens, by definitions, it offers all that was changed for {100 * complete[0]:.0f}% of the changes of "
        f"{count(len(detailed), 'repository', 'repositories')}, BM25 by whole files for {100 * complete[1]:.0f}%.**"
    )
    head = "| tokens | BM25, files | offered | `codebase`, files | offered |"
    head += " BM25, definitions | offered | `codebase`, definitions | offered |"
    rows = [row(one.name, [one]) for one in files]
    rows += [row(f"mean of {len(files)}", files), row("without tagged changes", files, DESCRIBED)]
    below = f"all {len(files)}"
    if len(detailed) < len(files):
        below = ", ".join(one.name for one in detailed)
        rows.append(row(f"mean of the {len(detailed)} below", detailed))
    if made[0]:
        rows.append(row(f"mean of {len(made[0])} that it was made on", made[0]))
    table, budgets = "\n".join(rows), "\n".join(budget_row(tokens, detailed, definitions) for tokens in BUDGETS)
    n_tagged = [sum(tag in tags for one in files for tags in one.tags) for tag in (DELETES, NAMES_NOTHING)]
    found = (
        "BM25 offers documentation that no label can require. Behind code, by the factors of `codebase`, it is the "
        f"fairer comparison; of what plain BM25 misses `codebase` finds {100 * misses(files):.0f}%. Tagged are "
        f"{n_tagged[0]} changes that only delete and {n_tagged[1]} whose message has no word of the changed paths and "
        f"lines ([tags](../datasets/repositories.md)). Of requests that name no file which they change the three find "
        f"{found_by(files, UNNAMED)}."
    )
    if large:
        found += f" In the {len(large)} trees of over {LARGE} files {found_by(large)}."
    unseen = "named before anything was measured on them; nothing was chosen on them"
    if not set(MADE_ON).isdisjoint(one.name for one in files):
        unseen = "not all unseen"
    of = count(len(files), "repository", "repositories")
    about = (
        "Each request is the message of a commit, without links, numbers and trailers; it is asked of the tree as it "
        "was just before. What it needs are the files, or the definitions, that the commit changed; documentation "
        f"among them does not count. {n_queries:,} requests of {of}, {unseen}: the newest 40% of 300 changes each. "
        "What is chosen was chosen on the older requests of six (click, requests, pydantic, ripgrep, express, gin). "
        'Intervals are of 95%; repositories count alike. Made with `make codebase REPOSITORIES="FOLDER ..."`, of '
        "clones of those that [repositories.txt](../experiments/codebase/repositories.txt) names; without any it is "
        "this project alone. BM25 is over path and content, identifiers split at case and underscores, words counted "
        "over the tree that is asked."
    )
    return f"""# Which code does a change need?

{answer}

{paragraph(about)}

## Files

The share of the changed files among the ten that are offered. "Behind": documentation and generated files behind code.

| | files | requests | BM25 | BM25, behind | `codebase` | more than BM25 | than BM25, behind |
|---|---:|---:|---:|---:|---:|---:|---:|
{table}

{paragraph(found)}
{chosen_on(*made)}
## What each part pays

The tables from here on are of {below}.

The same without one of them; the change is to all. Documentation counts 0.3 in the ranking, files that a program writes
0.2; as no label here requires either, what that pays is what it can pay at most.

| without | found | change |
|---|---:|---:|
{parts}

{paragraph(f"With more: {more}. What pays nothing, or little for the parsing of a whole tree, is off.")}

## Files or definitions, within a budget

Complete (in per cent) is a request of which all changed files, or all changed definitions, are offered whole; a changed
line outside of any definition needs the outline of its file. As many items are offered as fit; over definitions by the
preset `codebase/definitions`. Within 8,000 tokens its definitions are {complete[0] / complete[1]:.2f} times as often
complete as whole files by BM25, {complete[0] / complete[2]:.2f} times as often as definitions by BM25.

{head}
|---:|---:|---:|---:|---:|---:|---:|---:|---:|
{budgets}

## aider's repo map

{aider_rows(detailed, definitions)}

## What document 003 asks for

As it is shipped: ten files, within 32,000 tokens.

| | found | |
|---|---:|---|
{targets(detailed, took)}
"""


def without() -> dict[str, Any]:
    """The shipped selector without each of its parts."""
    names = {f"`{name}`": {name: 0.001 if name == "words" else 0.0} for name in SOURCES}
    return {name: codebase(**values) for name, values in {**names, KINDS: {"documents": 1.0, "made": 1.0}}.items()}


Measured: TypeAlias = tuple[Figures, Figures | None, OwnWeights | None]
"""The figures of one repository by files and by definitions, and what weights of its own find."""


def of_repository(repository: Path, *, folder: Path, aider: str | None, detailed: bool = True) -> Measured:
    """Measure one repository.

    Args:
        repository: see `main`.
        folder: for its datasets.
        aider: the Python to ask for maps, if any.
        detailed: for all tables; else for the first, which takes a tenth of the time.
    """
    maps = RepoMaps(aider, repository, folder / f"{repository.name}-tree") if aider else None
    ten = {"bm25": words(n=10), BEHIND: words(n=10, kinds=FACTORS), "codebase": codebase()}
    if not detailed:
        return measured(repository, "files", ten, folder), None, None
    ten |= {"shipped": {"selector": "codebase"}, **{f"without {name}": one for name, one in without().items()}}
    files = measured(repository, "files", {**ten, **added(), **at_budgets("files")}, folder, maps)
    own = own_weights(folder / f"{files.name}-files".replace(" ", "-"))
    return files, measured(repository, "definitions", at_budgets("definitions"), folder, maps), own


def shown_of(repositories: Sequence[Path]) -> Sequence[Path]:
    """Those that the tables are of: the ones that the selector was not made on, or all where there are no such."""
    others = [one for one in repositories if one != ROOT and one.name.removesuffix(".git") not in MADE_ON]
    return others or repositories


def report(repositories: Sequence[Path], found: Sequence[Measured]) -> str:
    """The whole page."""
    shown, pairs = shown_of(repositories), list(zip(repositories, found, strict=True))
    own, made = ([each for one, each in pairs if (one in shown) == is_shown] for is_shown in (True, False))
    views = [([files for files, *_ in some], [parts for _, parts, _ in some if parts]) for some in (own, made)]
    largest = max((pair for pair in pairs if pair[1][1]), key=lambda pair: pair[1][0].n_items)[0]
    weights = section([weights for *_, weights in found if weights], gain)
    return f"{page(views[0], views[1], seconds(largest))}\n{weights}"


def main() -> int:
    """Measure and write the page."""
    options = argparse.ArgumentParser()
    options.add_argument("repositories", nargs="*", type=Path)
    options.add_argument("--first-table", nargs="*", type=Path, default=[], help="more repositories, for it alone")
    options.add_argument("--aider", metavar="PYTHON", help="of an environment that has aider-chat installed")
    given = options.parse_args()
    detailed = [one.absolute() for one in given.repositories] or [ROOT]
    repositories = [*detailed, *(one.absolute() for one in given.first_table)]
    shown = shown_of(repositories)
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(os.cpu_count()) as pool:
        asked = [
            pool.submit(
                of_repository,
                one,
                folder=Path(folder),
                aider=given.aider if one in shown else None,
                detailed=one in detailed,
            )
            for one in repositories
        ]
        found = [one.result() for one in asked]
    write_atomic(ROOT / "reports" / "codebase.md", report(repositories, found))
    return 0


if __name__ == "__main__":
    run_script(main)
