"""Should tools be cut apart from rules and references: reports/presets-domains.md (`make domains`).

All is chosen on the tuning splits of workbench and freight; the test splits are read once, for the tables. The modes
and presets of `semantic-domains` come from here.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.append(str(Path(__file__).parents[1]))

import numpy as np
import pandas as pd
from domains_case import (
    DEFAULTS,
    DOMAINS,
    FAMILY,
    MODES,
    ONE,
    TARGETS,
    TOPKS,
    TWO,
    Case,
    Fronts,
    Values,
    documents,
    domains,
    held_by,
    mean_tokens,
    optimum_of,
)
from dots import gain_cell
from pages import Page, Picture, Tables, constrained_axes, kept_tables, run_page

from ctxbench.evaluation.metrics import Metric
from ctxbench.evaluation.statistics import Comparison, correct
from ctxbench.io.files import cache_dir
from ctxbench.search.embedders import Vectors, VectorStore, open_embedder
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import open_counter
from ctxbench.tuning.cut_families import CommonLine, sweep_common
from ctxbench.tuning.measures import COMPLETENESS, TOKENS
from ctxbench.tuning.policy import Constraint, Policy
from ctxbench.tuning.search import Optimum
from ctxbench.tuning.setting_lines import setting_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DATASETS = ("workbench", "freight")
BUDGETS = (0.25, 0.5, 1.0, 2.0)  # times the tokens of the specification's defaults
LOWER = 0.05  # a target that no setting meets is lowered by so much, again and again
SPEC = "specification's defaults, one domain"
Row = dict[str, Any]


def measure() -> Tables:
    """Budgets that both domains share, and the modes, presets and pairs of modes that were chosen."""
    embedder, counter = open_embedder("minilm"), open_counter("o200k", cache=cache_dir())
    resources = LocalResources(Vectors(embedder, VectorStore(embedder.identity)), counter)
    tuning, test = ([Case.of(name, split, resources) for name in DATASETS] for split in ("tuning", "test"))
    by_topK = {topK: [*modes(topK, tuning)] for topK in TOPKS}  # noqa: N806
    topK = min(TOPKS, key=lambda depth: choosing_key(by_topK[depth]))  # noqa: N806
    chosen = {(row["domain"], row["mode"]): row for row in by_topK[topK]}
    pairs: dict[str, Values] = {
        f"rules {rules}, tools {tools}": {**chosen["rules", rules]["values"], **chosen["tools", tools]["values"]}
        for rules in MODES
        for tools in MODES
    }
    fronts = [Fronts.of(case) for case in tuning]
    presets = by_policy(tuning, [values for front in fronts for values in front.two])
    of_pairs = by_policy(tuning, list(pairs.values()))
    default = next(name for name, values in pairs.items() if values == of_pairs["normal"])
    settings = {**pairs, **presets}
    return {
        "": pd.DataFrame(budget_rows(fronts, tuning, test)),
        "modes": pd.DataFrame({**row, **row["values"]} for row in by_topK[topK]).drop(columns="values"),
        "presets": pd.DataFrame({"preset": name, **values} for name, values in presets.items()),
        "settings": pd.DataFrame(setting_rows(settings, tuning, test)).assign(
            default=lambda rows: rows.setting == default
        ),
    }


# ------------------------------------------------------------------------------------------- on the tuning split


def modes(topK: int, cases: Sequence[Case]) -> Iterator[Row]:  # noqa: N803 - documents' name
    """The setting of each domain alone that a policy asks for, its target lowered until one meets it."""
    for index, domain in enumerate(DOMAINS):
        rankings = [case.of_domain(index) for case in cases]
        base, base_tokens = documents(cases, index)
        for name in MODES:
            demanded, of = TARGETS[name]
            target, best = demanded, None
            while best is None:
                optimum = optimum_of(name, target, base)
                sweep_common(domains([topK])[index].family, rankings, [optimum])
                best, target = optimum.best, round(target - LOWER, 2)
            row: Row = {"domain": domain, "mode": name, "of": of, "demanded": demanded, "met": round(target + LOWER, 2)}
            row |= {"needs_met": best.means[COMPLETENESS], "tokens": best.means[TOKENS]}
            yield row | {"spec_needs_met": base, "spec_tokens": base_tokens, "values": best.rounded}


def choosing_key(rows: Sequence[Row]) -> tuple[float, float]:
    """What topK is chosen by: by how much targets had to be lowered, then the geometric mean of tokens."""
    lowered = round(sum(row["demanded"] - row["met"] for row in rows), 6)
    return lowered, sum(math.log(row["tokens"]) for row in rows)


def by_policy(cases: Sequence[Case], settings: Sequence[Values]) -> dict[str, Values]:
    """Of some settings of both domains the one that each policy asks for, of whole requests; none where none meets."""
    base = documents(cases)[0]
    optima = {name: optimum_of(name, TARGETS[name][0], base) for name in MODES}
    for values in settings:
        lines = CommonLine.of([setting_line(values, case.shared.by_query(values)) for case in cases])
        for optimum in optima.values():
            optimum.add_settings(lines)
    return {name: optimum.best.rounded for name, optimum in optima.items() if optimum.best is not None}


def counterpart(tokens: float, cases: Sequence[Case]) -> Values:
    """The setting of one domain that is most complete for at most so many tokens."""
    limit = Constraint(metric=Metric("tokens"), at_most=tokens)
    aim = Policy.of("counterpart", maximise=COMPLETENESS.metric, constraints=(limit,))
    optimum = held_by(Optimum(aim), mean=True)
    sweep_common(FAMILY, [case.rankings for case in cases], [optimum])
    if optimum.best is None:
        raise RuntimeError(f"offering nothing costs more than {tokens} tokens")
    return optimum.best.rounded


# --------------------------------------------------------------------------------------------- on the test split


def setting_rows(settings: Mapping[str, Values], tuning: Sequence[Case], test: Sequence[Case]) -> list[Row]:
    """Each setting of two domains on the test split, compared with one domain at its tokens; and the defaults."""
    rows, gains = [], {}
    for name, values in {SPEC: DEFAULTS, **settings}.items():
        selector = ONE if name == SPEC else TWO
        base = None if name == SPEC else counterpart(mean_tokens(tuning, TWO, values), tuning)
        for case in test:
            offered = case.offered(selector, values)
            by_query = case.values(offered)
            needs = {
                f"{domain}_needs_met": float(np.nanmean(case.values(offered, index)[COMPLETENESS]))
                for index, domain in enumerate(DOMAINS)
            }
            if base is not None:
                gains[len(rows)] = case.against(by_query, base).comparison
            row = {"setting": name, "dataset": case.side.dataset.name}
            row |= {"complete": float(np.nanmean(by_query[COMPLETENESS])), "tokens": float(by_query[TOKENS].mean())}
            rows.append({**row, **needs})
    return _with_gains(rows, gains)


def budget_rows(fronts: Sequence[Fronts], tuning: Sequence[Case], test: Sequence[Case]) -> list[Row]:
    """For each budget the best of both fronts on the tuning split, and both at as many tokens on the test split."""
    rows, gains = [], {}
    for front, before, after in zip(fronts, tuning, test, strict=True):
        spent, means = mean_tokens([before], ONE, DEFAULTS), front.means(before)
        for times in BUDGETS:
            one, two = (int(np.flatnonzero(tokens <= times * spent)[-1]) for tokens, _ in means)
            result = after.against(after.shared.by_query(front.two[two]), front.one[one])
            gains[len(rows)] = result.comparison
            row = {"dataset": after.side.dataset.name, "times": times, "budget": times * spent, "tokens": result.tokens}
            rows.append({**row, "one_domain": result.base, "two_domains": result.complete})
    return _with_gains(rows, gains)


def _with_gains(rows: Sequence[Row], gains: Mapping[int, Comparison | None]) -> list[Row]:
    """Rows with their gains over one domain, p-values corrected over all of them."""
    corrected = correct({index: gain for index, gain in gains.items() if gain is not None})
    return [
        row
        if (gain := corrected.get(index)) is None
        else {
            **row,
            "difference": gain.difference,
            "low": gain.interval.low,
            "high": gain.interval.high,
            "p": gain.p_holm,
            "significant": gain.significant,
        }
        for index, row in enumerate(rows)
    ]


# ---------------------------------------------------------------------------------------------------- the page


def page(tables: Tables) -> Page:
    """The page of these tables."""
    budgets, settings = tables[""], tables["settings"]
    better = int((budgets["significant"] & (budgets["difference"] > 0)).sum())
    default = settings[settings["default"]]
    return Page(
        title="Should tools be cut apart from rules and references?",
        answer=(
            f"Only if you stay with `semantic`: two domains gain {100 * budgets['difference'].min():.0f} to "
            f"{100 * budgets['difference'].max():.0f} points at equal tokens, at {better} of {len(budgets)} budgets. "
            "Otherwise take `learned`."
        ),
        picture=Picture(
            draw=partial(draw, budgets),
            alt="Completeness of one domain and of two at eight budgets",
            width=520,
            height=340,
        ),
        table=[
            {
                "dataset": row.dataset,
                "budget": f"{row.times:g} x",
                "tokens": f"{row.tokens:,.0f}",
                "one domain": f"{row.one_domain:.1%}",
                "two domains": f"{row.two_domains:.1%}",
                "gain, points": gain_cell(row),
            }
            for _, row in budgets.iterrows()
        ],
        notes=(
            """A domain is a kind of item that is cut alone: tools, or rules with references. One domain is one ranking
            of all items, cut once. Budgets are mean prompt tokens relative to the specification's defaults. Each is
            the best of all settings on the tuning split, compared on the test split at equal tokens; bold is
            significant.""",
            f"""`semantic-domains` ships the pair of modes {_code(default["setting"].iloc[0])}:
            {_pair(default, settings)}. Its presets choose for whole requests; `aggressive` and `normal` buy tools with
            rules. Where no rule may be missed, take a pair of modes.""",
            f"""`learned/conservative` cuts one ranking, and is more complete than that pair for fewer tokens:
            {_learned()} ([learned](learned.md)). Take `semantic-domains` only if you stay with `semantic`.""",
        ),
        made="""`make domains`: the ranking of `semantic` on workbench and freight. Chosen on both tuning splits: topK
        20, 30, 50, 100 x topN 0 to 50 x every includeScore or margin, in each domain and every pair of these. A mode
        has the fewest tokens with 0.9 (`aggressive`) or 0.98 (`normal`) of the needs that the defaults meet, or 0.9 of
        what is reachable (`conservative`), by the low end of a 95% interval; a target that nothing meets is lowered. p
        is Holm-corrected.""",
    )


def _code(pair: str) -> str:
    return ", ".join(" ".join([domain, f"`{mode}`"]) for domain, mode in map(str.split, pair.split(", ")))


def _pair(default: pd.DataFrame, settings: pd.DataFrame) -> str:
    spec = settings[settings["setting"] == SPEC].set_index("dataset")
    return "; ".join(
        f"{row.dataset} {row.complete:.1%} for {row.tokens:,.0f} tokens, the specification's defaults "
        f"{spec.loc[row.dataset, 'complete']:.1%} for {spec.loc[row.dataset, 'tokens']:,.0f}, {gain_cell(row)} points "
        "above one domain at equal tokens"
        for _, row in default.iterrows()
    )


def _learned() -> str:
    presets = kept_tables("learned")["presets"]
    rows = presets[presets["dataset"].isin(DATASETS) & (presets["preset"] == "conservative")]
    return "; ".join(f"{row.dataset} {row.complete:.1%} for {row.tokens:,.0f} tokens" for row in rows.itertuples())


def draw(budgets: pd.DataFrame, figure: Figure) -> None:
    """A line from one domain to two for each budget."""
    axes = constrained_axes(figure)
    heights = range(len(budgets))
    axes.hlines(heights, 100 * budgets["one_domain"], 100 * budgets["two_domains"], color="0.8", linewidth=3, zorder=1)
    for column, label, colour in (("one_domain", "one domain", "0.5"), ("two_domains", "two domains", "C0")):
        axes.plot(100 * budgets[column], heights, "o", color=colour, label=label)
    axes.set_yticks(heights, [f"{row.dataset}, {row.times:g} x" for row in budgets.itertuples(index=False)])
    axes.invert_yaxis()
    axes.set_xlabel("% of requests with all that they require")
    axes.grid(visible=False, axis="y")
    axes.legend(frameon=False, loc="upper right")


if __name__ == "__main__":
    run_page("presets-domains", measure, page, about=__doc__.splitlines()[0])
