"""Does a cut for tools and another for rules pay? Makes reports/presets-domains.md and its figure.

Run from the project's folder: `python experiments/tuning/domains.py`. All is chosen on the tuning splits of workbench
and freight; the test splits are read once, for the tables and the row of the figure that say so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from domains_case import DEFAULTS, FAMILY, ONE, ROOT, TOPKS, TWO, Case, Fronts, documents, domains, mean_tokens
from domains_page import APART, page_figure, page_text
from domains_types import (
    DEFAULTS_NAME,
    HELD,
    MODES,
    SHARED_BUDGET,
    TARGETS,
    Budgeted,
    Drawn,
    Measured,
    Mode,
    Page,
    Values,
    held_by,
    optimum_of,
    unit_of,
)

from ctxbench.cli.common import run_script
from ctxbench.evaluation.metrics import Metric
from ctxbench.evaluation.statistics import LEVEL, Comparison, compare, correct, estimate, holm
from ctxbench.io.files import cache_dir, write_atomic
from ctxbench.report.pages import write_parted
from ctxbench.search.embedders import Vectors, VectorStore, open_embedder
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import open_counter
from ctxbench.selectors.definition import Definition
from ctxbench.tuning.cut_families import CommonLine, sweep_common
from ctxbench.tuning.measures import COMPLETENESS, TOKENS, Measure
from ctxbench.tuning.policy import Constraint, Policy
from ctxbench.tuning.search import Optimum
from ctxbench.tuning.setting_lines import setting_line

DATASETS = ("workbench", "freight")
BUDGETS = (0.25, 0.5, 1.0, 2.0)  # times the tokens of the specification's defaults
LOWER = 0.05  # a target that no setting meets is lowered by so much, again and again


# ------------------------------------------------------------------------------------------- on the tuning split


def mode(name: str, which: int, topK: int, cases: Sequence[Case], by: str) -> Mode:  # noqa: N803 - documents' name
    """The setting of one domain alone that a policy asks for, its target lowered until one meets it."""
    rankings = [case.of_domain(which) for case in cases]
    base = documents(cases, which)
    asked, _ = TARGETS[name]
    target, found = asked, None
    while found is None:
        optimum = optimum_of(name, target, base[0], by)
        sweep_common(domains([topK])[which].family, rankings, [optimum])
        found, target = optimum.best, round(target - LOWER, 2)
    return Mode(
        asked=asked,
        target=round(target + LOWER, 2),
        values=found.rounded,
        complete=found.means[COMPLETENESS],
        tokens=found.means[TOKENS],
        bound=next(iter(found.bounds.values())) / unit_of(name, base[0]),
        base=base,
        queries=[one.applies[COMPLETENESS] for one in rankings],
    )


def modes(topK: int, cases: Sequence[Case], by: str = "bound") -> dict[tuple[str, str], Mode]:  # noqa: N803
    """Every mode, by domain and name."""
    return {(domain, name): mode(name, which, topK, cases, by) for which, domain in enumerate(HELD) for name in MODES}


def reached(name: str, values: Values, cases: Sequence[Case], which: int | None = None) -> tuple[float, float, float]:
    """What a policy is about at a setting, as it counts: the mean with the ends of its interval."""
    if which is None:
        by_query = [case.shared.by_query(values) for case in cases]
    else:
        family = domains([int(values["contextTopK"])])[which].family
        by_query = [family.by_query(case.of_domain(which), values) for case in cases]
    lines = CommonLine.of([setting_line(values, one) for one in by_query])
    about = Measure(COMPLETENESS.metric, TARGETS[name][1] == "reachable")
    unit = 1.0 if about.reachable else documents(cases, which)[0]
    (low,), (high,) = lines.bounds(about, np.zeros(1, dtype=np.int64), level=LEVEL)
    return float(lines.means(about)[0]) / unit, float(low) / unit, float(high) / unit


def choosing_key(found: Mapping[tuple[str, str], Mode]) -> tuple[float, float]:
    """What topK is chosen by: by how much targets had to be lowered, then the geometric mean of tokens."""
    lowered = round(sum(one.asked - one.target for one in found.values()), 6)
    return lowered, sum(math.log(one.tokens) for one in found.values())


def by_policy(cases: Sequence[Case], settings: Sequence[Values]) -> dict[str, Values]:
    """Of some settings of both domains the one that each policy asks for, of whole requests; none where none meets."""
    base = documents(cases)[0]
    optima = {name: optimum_of(name, TARGETS[name][0], base) for name in MODES}
    for values in settings:
        lines = CommonLine.of([setting_line(values, case.shared.by_query(values)) for case in cases])
        for optimum in optima.values():
            optimum.add_settings(lines)
    return {name: one.best.rounded for name, one in optima.items() if one.best is not None}


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


@dataclass(frozen=True, eq=False)
class Arm:
    """A setting to be measured, and that of one domain that it is compared with; None = it is not."""

    selector: Definition
    values: Values
    base: Values | None = None


def measure(cases: Sequence[Case], arms: Mapping[str, Arm]) -> list[Measured]:
    """Every arm on every dataset; comparisons of one kind are corrected together."""
    first = [case.values(case.offered(ONE, DEFAULTS))[COMPLETENESS] for case in cases]
    rows: list[Measured] = []
    gains: dict[int, Comparison] = {}
    groups: dict[int, float] = {}
    for name, arm in arms.items():
        for case, base in zip(cases, first, strict=True):
            offered = case.offered(arm.selector, arm.values)
            found = case.values(offered)
            needs = [estimate(case.values(offered, which)[COMPLETENESS], scale="yes/no") for which in range(len(HELD))]
            at = case.against(found, arm.base) if arm.base is not None else None
            if at is not None and at.comparison is not None:
                gains[len(rows)], groups[len(rows)] = at.comparison, at.p_groups
            row = Measured(
                name=name,
                dataset=case.side.dataset.name,
                complete=estimate(found[COMPLETENESS], scale="yes/no"),
                tokens=estimate(found[TOKENS], scale="amount"),
                needs=dict(zip(HELD, needs, strict=True)),
                defaults=compare(base, found[COMPLETENESS], scale="yes/no") if arm.selector is TWO else None,
            )
            rows.append(row)
    told = correct({place: row.defaults for place, row in enumerate(rows) if row.defaults is not None})
    gained = correct(gains)
    by_group = dict(zip(groups, holm(list(groups.values())).tolist(), strict=True))
    return [
        replace(row, defaults=told.get(place), gain=gained.get(place), p_groups=by_group.get(place))
        for place, row in enumerate(rows)
    ]


def budgeted(
    fronts: Sequence[Fronts], seen: Sequence[Drawn], tuning: Sequence[Case], test: Sequence[Case]
) -> list[Budgeted]:
    """For each budget the best of both fronts on the tuning split, and both at as many tokens on the test split."""
    made: list[Budgeted] = []
    for own, drawn, before, after in zip(fronts, seen, tuning, test, strict=True):
        spent = mean_tokens([before], ONE, DEFAULTS)
        for times in BUDGETS:
            budget = times * spent
            one, two = (int(np.flatnonzero(side[0] <= budget)[-1]) for side in (drawn.one, drawn.two))
            at = after.against(after.shared.by_query(own.two[two]), own.one[one])
            made.append(
                Budgeted(
                    dataset=drawn.dataset,
                    times=times,
                    budget=budget,
                    tuning=(float(drawn.one[1][one]), float(drawn.two[1][two])),
                    test=at,
                    gain=at.comparison,
                )
            )
    gains = correct({place: row.gain for place, row in enumerate(made) if row.gain is not None})
    return [replace(row, gain=gains.get(place)) for place, row in enumerate(made)]


def main() -> None:
    """Write the page and its figure."""
    embedder, counter = open_embedder("minilm"), open_counter("o200k", cache=cache_dir())
    resources = LocalResources(Vectors(embedder, VectorStore(embedder.identity)), counter)
    tuning = [Case.of(name, "tuning", resources) for name in DATASETS]
    by_topK = {topK: modes(topK, tuning) for topK in TOPKS}  # noqa: N806
    topK = min(TOPKS, key=lambda one: choosing_key(by_topK[one]))  # noqa: N806
    chosen = by_topK[topK]
    pairs: dict[str, Values] = {
        f"rules {rules}, tools {tools}": {**chosen["rules", rules].values, **chosen["tools", tools].values}
        for rules in MODES
        for tools in MODES
    }
    fronts = [Fronts.of(case) for case in tuning]
    shared = by_policy(tuning, [values for own in fronts for values in own.two])
    of_pairs = by_policy(tuning, list(pairs.values()))
    two = {**pairs, **{f"{SHARED_BUDGET}, {name}": values for name, values in shared.items()}}
    arms = {DEFAULTS_NAME: Arm(ONE, DEFAULTS)}
    arms |= {
        name: Arm(TWO, values, counterpart(mean_tokens(tuning, TWO, values), tuning)) for name, values in two.items()
    }
    before = [own.drawn(case) for own, case in zip(fronts, tuning, strict=True)]
    seen = measure(tuning, arms)
    test = [Case.of(name, "test", resources) for name in DATASETS]
    after = [own.drawn(case) for own, case in zip(fronts, test, strict=True)]
    page = Page(
        topK=topK,
        topKs={one: choosing_key(found) for one, found in by_topK.items()},
        modes=chosen,
        by_mean=modes(topK, tuning, "mean"),
        shared=shared,
        pairs={name: next(pair for pair, own in pairs.items() if own == values) for name, values in of_pairs.items()},
        reached={key: reached(key[1], one.values, test, HELD.index(key[0])) for key, one in chosen.items()}
        | {("both", name): reached(name, values, test) for name, values in shared.items()},
        settings=[own.settings for own in fronts],
        counterparts={name: arm.base for name, arm in arms.items() if arm.base is not None},
        tuning=seen,
        test=measure(test, arms),
        budgets=budgeted(fronts, before, tuning, test),
    )
    folder = ROOT / "reports" / "presets-domains"
    drawn = page_figure([*before, *after], {"tuning": page.tuning, "test": page.test})
    write_atomic(folder / "completeness.svg", drawn)
    write_parted(folder.with_suffix(".md"), page_text(page), APART)


if __name__ == "__main__":
    run_script(main)
