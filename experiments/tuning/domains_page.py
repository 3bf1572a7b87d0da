"""The page and the figure of `domains.py`: texts and drawings only, nothing is measured here."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from domains_types import (
    DEFAULTS_NAME,
    HELD,
    MODES,
    SHARED_BUDGET,
    TARGETS,
    C,
    Drawn,
    Measured,
    Page,
    T,
    Values,
)

from ctxbench.evaluation.statistics import Comparison
from ctxbench.report.charts import MEDIUM, Panel, Ring, Scale, line_charts
from ctxbench.report.wording import difference_interval, estimate_interval, number, signed, verdict
from ctxbench.selectors.selector import value_text

OF = {"base": "of the defaults'", "reachable": "of reachable"}
ONE_LINE, TWO_LINE = "one domain: best on the tuning split", "two domains: best on the tuning split"


def page_text(page: Page) -> str:
    """The page."""
    counted = " and ".join(f"{n:,}" for n in page.settings)
    lines = ["# A mode for tools and a mode for rules", "", answer(page), ""]
    lines += ["## A budget that both share", "", FIGURE, "", _text(WORDS), ""]
    lines += [
        _text(SHARED.format(settings=counted)),
        "",
        _text(BUDGETS_TEXT),
        "",
        *_budgets(page),
        "",
        _text(PRESETS_TEXT),
        "",
        *_presets(page),
        "",
    ]
    lines += ["## In words", "", *_verdict(page), "", "## A mode for each domain", "", MODES_TEXT, ""]
    lines += [*_modes(page), "", *_notes(page), "", _text(BY_MEAN), "", *_by_mean(page), ""]
    lines += ["## How it was made", "", METHOD, "", "## What does not hold", "", *_limits(page), ""]
    for split, rows in (("test", page.test), ("tuning", page.tuning)):
        lines += [f"## {SETTINGS[split]}", "", _text(SPLITS[split]), ""]
        for dataset in dict.fromkeys(row.dataset for row in rows):
            lines += [f"### {dataset}", "", *_measured([row for row in rows if row.dataset == dataset]), ""]
    lines += [f"## {COUNTERPARTS_TITLE}", "", _text(COUNTERPARTS), "", *_counterparts(page)]
    return "\n".join(lines).rstrip("\n") + "\n"


def answer(page: Page) -> str:
    """What a budget that both domains share is worth, as one sentence."""
    gains = [one.gain for one in page.budgets if one.gain is not None]
    better, worse = (sum(_tells(one, sign) for one in gains) for sign in (1.0, -1.0))
    datasets = " and ".join(dict.fromkeys(one.dataset for one in page.budgets))
    return (
        "**Where tools are cut apart from rules and references and both share a budget, more requests get all that "
        f"they require than with one ranking of all items for as many tokens at {better} of {len(page.budgets)} "
        f"budgets, and fewer at {worse}; the differences are {_span([one.difference for one in gains])} points (test "
        f"splits of {datasets}).**"
    )


def _verdict(page: Page) -> Iterator[str]:
    """What the tables say, in words."""
    gains = [one.gain for one in page.budgets if one.gain is not None]
    better, worse = (sum(_tells(one, sign) for one in gains) for sign in (1.0, -1.0))
    pay = "pay" if 2 * better > len(page.budgets) else "do not pay everywhere"
    yield from _point(
        f"**Two domains that share a budget {pay}.** At equal tokens what was best on the tuning split is more",
        f"complete on the test split than one domain at {better} of {len(page.budgets)} budgets, and less at {worse}",
        f"(significant); differences are {_span([one.difference for one in gains])} points. Tools cost few tokens, and",
        "one ranking of all items gives them little room.",
    )
    yield from _pairs(page)
    if (default := page.pairs.get("normal")) is not None:
        yield from _point(
            f"**Sensible default: {default}**, the cheapest pair that on the tuning split meets the policy `normal`",
            f"for whole requests. Test split: {_against_defaults(page, default)}.",
        )
    for name in page.shared:
        yield from _point(f"Preset `{name}`, test split: {_against_defaults(page, f'{SHARED_BUDGET}, {name}')}.")


def _limits(page: Page) -> Iterator[str]:
    """What does not hold, in words."""
    modes = page.modes.items()
    dearer = [" ".join(key) for key, one in modes if TARGETS[key[1]][1] == "base" and one.tokens > one.base[1]]
    yield from _point(
        "A mode that is relative to the specification's defaults can cost more than they do in its",
        f"domain ({', '.join(dearer) or 'none does'}), since with so few requests the bound lies far below the",
        "mean. And it asks for few tools, since the defaults meet few of the needs for tools.",
    )
    yield from _alone(page)
    rules = {name: [one.needs["rules"].value for one in rows] for name, rows in _by_name(page.test).items()}
    fewer = [
        name
        for name in page.shared
        if all(a < b for a, b in zip(rules[f"{SHARED_BUDGET}, {name}"], rules[DEFAULTS_NAME], strict=True))
    ]
    if fewer:
        yield from _point(
            f"The presets {' and '.join(f'`{name}`' for name in fewer)} buy tools with rules. Other requests",
            "are complete than with the specification's defaults, those that need tools; where no rule must be",
            "missed, take a pair of modes.",
        )


def _alone(page: Page) -> Iterator[str]:
    """What presets that are relative to the defaults keep of them on each dataset of the test split."""
    by_name = _by_name(page.test)
    told, short = [], False
    for name in page.shared:
        target, of = TARGETS[name]
        if of != "base":
            continue
        rows = zip(by_name[f"{SHARED_BUDGET}, {name}"], by_name[DEFAULTS_NAME], strict=True)
        shares = {row.dataset: row.complete.value / base.complete.value for row, base in rows}
        short |= any(share < target for share in shares.values())
        told.append(f"`{name}` {', '.join(f'{share:.2f} on {dataset}' for dataset, share in shares.items())}")
    if short:
        yield from _point(
            "The presets' targets are about both datasets together. Alone, on the test split, they",
            f"keep of the defaults' completeness: {'; '.join(told)}.",
        )


def _pairs(page: Page) -> Iterator[str]:
    """The nine pairs against one domain."""
    pairs = {name: rows for name, rows in _by_name(page.test).items() if name.startswith("rules ")}
    tools = {
        sign: {name.split()[-1] for name, rows in pairs.items() if any(_tells(row.gain, sign) for row in rows)}
        for sign in (1.0, -1.0)
    }
    if paying := " or ".join(name for name in MODES if name in tools[1.0] - tools[-1.0]):
        yield from _point(
            f"**A mode for each domain pays where that of tools is {paying}**; with others no pair is",
            "significantly more complete than one domain at equal tokens (test split).",
        )
    else:
        yield from _point("No mode of tools makes pairs that are significantly better than one domain only.")
    said: set[str] = set()
    for word, sign in (("More", 1.0), ("Less", -1.0)):
        for where, quantifier in (("both datasets", all), ("one of the datasets", any)):
            found = [name for name, rows in pairs.items() if quantifier(_tells(row.gain, sign) for row in rows)]
            found = [name for name in found if name not in said]
            if found:
                yield from _point(f"{word} complete than one domain at equal tokens on {where}: {'; '.join(found)}.")
            said |= set(found)
    if untold := [name for name in pairs if name not in said]:
        yield from _point(
            f"Not significantly different from one domain at equal tokens on either: {'; '.join(untold)}."
        )


def _point(*parts: str) -> list[str]:
    """A point of a list, wrapped."""
    return textwrap.wrap(
        "* " + " ".join(parts), 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _text(paragraph: str) -> str:
    """A paragraph, wrapped."""
    return textwrap.fill(" ".join(paragraph.split()), 120, break_long_words=False, break_on_hyphens=False)


def _against_defaults(page: Page, name: str) -> str:
    """Completeness, tokens and rules' needs of a setting beside those of the defaults, by dataset."""
    by_name = _by_name(page.test)
    told = []
    for row, base in zip(by_name[name], by_name[DEFAULTS_NAME], strict=True):
        own, other = (
            f"{number(C, one.complete.value)}% for {number(T, one.tokens.value)} tokens" for one in (row, base)
        )
        rules = " and ".join(number(C, one.needs["rules"].value) for one in (row, base))
        told.append(f"{row.dataset} {own}, the specification's defaults {other} (of the needs for rules {rules}%)")
    return "; ".join(told)


def _by_name(rows: Sequence[Measured]) -> dict[str, list[Measured]]:
    found: dict[str, list[Measured]] = {}
    for row in rows:
        found.setdefault(row.name, []).append(row)
    return found


def _tells(found: Comparison | None, sign: float) -> bool:
    return found is not None and found.significant and sign * found.difference > 0


def _span(values: Sequence[float]) -> str:
    return f"{signed(C, min(values))} to {signed(C, max(values))}"


def _modes(page: Page) -> Iterator[str]:
    head = ["mode", "asked for", "bound", "needs met %", "tokens", "topN", "includeScore", "margin", "test split"]
    rows = []
    for (domain, name), one in page.modes.items():
        asked = f"{one.asked:g} {OF[TARGETS[name][1]]}" + (f", lowered to {one.target:g}" * (one.target < one.asked))
        cells = [f"**{domain} {name}**", asked, f"{one.bound:.3f}", number(C, one.complete), number(T, one.tokens)]
        rows.append([*cells, *_cut(domain, one.values), _reached(page, domain, name, one.target)])
    for domain in HELD:
        complete, tokens = page.modes[domain, "normal"].base
        rows.append([f"{domain}, specification's defaults", "", "", number(C, complete), number(T, tokens), *("",) * 4])
    return _table(head, rows)


def _cut(domain: str, values: Values) -> list[str]:
    return [value_text(values[f"{domain}{key}"]) for key in ("TopN", "IncludeScore", "Margin")]


def _reached(page: Page, domain: str, name: str, target: float) -> str:
    """What a policy came to on the test split, and whether that is the target, within the interval, or missed."""
    mean, low, high = page.reached[domain, name]
    word = "met" if low >= target else "met within its interval" if high >= target else "**missed**"
    return f"{mean:.2f} ({low:.2f} to {high:.2f}), {word}"


def _notes(page: Page) -> Iterator[str]:
    told = "; ".join(f"{topK}: {lowered:.2f} and {logs:.2f}" for topK, (lowered, logs) in page.topKs.items())
    yield from _point(
        f"contextTopK is one value for both domains and all modes, **{page.topK}**: that for which targets had to be",
        f"lowered least, then that with the least sum of logarithms of tokens ({told}).",
    )
    needs = (f"{' and '.join(map(str, page.modes[domain, 'normal'].queries))} need {domain}" for domain in HELD)
    yield from _point(f"Of the requests of workbench and freight {', '.join(needs)} (tuning split).")
    for (domain, name), one in page.modes.items():
        if one.target < one.asked:
            yield from _point(
                f"**{domain} {name}: by the bound no setting meets {one.asked:g}, at any topK.** topK counts chunks",
                "of both domains, so that what stands behind the first 100 of them is out of reach of every cut. The",
                f"target was lowered in steps of 0.05 until a setting met it, to {one.target:g}.",
            )


def _by_mean(page: Page) -> Iterator[str]:
    rows = [
        [
            *(f"{domain} {name}", f"{one.target:g} {OF[TARGETS[name][1]]}"),
            *(number(C, one.complete), number(T, one.tokens), *_cut(domain, one.values)),
        ]
        for (domain, name), one in page.by_mean.items()
    ]
    return _table(["mode", "met", "needs met %", "tokens", "topN", "includeScore", "margin"], rows)


def _budgets(page: Page) -> Iterator[str]:
    head = ["dataset", "budget", "tuning: one %", "tuning: two %", "test: tokens", "test: one %", "test: two %", "gain"]
    rows = []
    for one in page.budgets:
        cells = [one.dataset, f"{one.budget:,.0f} ({one.times:g} x)", *(number(C, each) for each in one.tuning)]
        cells += [number(T, one.test.tokens), number(C, one.test.base), number(C, one.test.complete)]
        rows.append([*cells, _gain(one.gain)])
    return _table(head, rows)


def _presets(page: Page) -> Iterator[str]:
    head = ["preset", "topK", *(f"{domain} {key}" for domain in HELD for key in ("topN", "includeScore", "margin"))]
    rows = []
    for name in MODES:
        if (values := page.shared.get(name)) is None:
            rows.append([name, "no setting meets the policy", *("",) * 6, "", page.pairs.get(name, "none")])
            continue
        cut = [cell for domain in HELD for cell in _cut(domain, values)]
        held = _reached(page, "both", name, TARGETS[name][0])
        rows.append([f"**{name}**", value_text(values["contextTopK"]), *cut, held, page.pairs.get(name, "none")])
    return _table([*head, "test split", "cheapest pair of modes"], rows)


def _measured(rows: Sequence[Measured]) -> Iterator[str]:
    head = ["setting", "complete %", "tokens", "tools' needs %", "rules' needs %"]
    head += ["against the defaults", "against one domain at equal tokens", "p by group"]
    out = []
    for row in rows:
        cells = [row.name, f"{number(C, row.complete.value)} ({estimate_interval(C, row.complete)})"]
        cells += [number(T, row.tokens.value), *(number(C, row.needs[domain].value) for domain in HELD)]
        cells += [_gain(row.defaults), _gain(row.gain), "" if row.p_groups is None else f"{row.p_groups:.4f}"]
        out.append(cells)
    return _table(head, out)


def _counterparts(page: Page) -> Iterator[str]:
    keys = ("contextTopK", "contextTopN", "contextIncludeScore", "contextMargin")
    rows = [[name, *(value_text(values[key]) for key in keys)] for name, values in page.counterparts.items()]
    return _table(["two domains", "topK", "topN", "includeScore", "margin"], rows)


def _gain(found: Comparison | None) -> str:
    if found is None:
        return ""
    text = f"{signed(C, found.difference)} ({difference_interval(C, found)}), {verdict(found)}"
    return f"**{text}**" if found.significant else text


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def page_figure(drawn: Sequence[Drawn], measured: Mapping[str, Sequence[Measured]]) -> str:
    """Completeness over tokens, a row a split and a column a dataset."""
    panels = []
    for one in drawn:
        lines = {name: (side[0], 100 * side[1]) for name, side in ((ONE_LINE, one.one), (TWO_LINE, one.two))}
        rows = [row for row in measured[one.split] if row.dataset == one.dataset]
        rings = [_ring(row) for row in rows]
        right = 1.1 * max(ring.x for ring in rings)
        top = max(max(100 * float(side[1][side[0] <= right].max()) for side in (one.one, one.two)) * 1.05, 10.0)
        x, y = Scale("mean prompt tokens", 0, right), Scale("completeness %", 0, top)
        panels.append(Panel(f"{one.dataset}, {one.split} split", lines, x, y, rings))
    return line_charts(panels, columns=2, size=MEDIUM)


def _ring(row: Measured) -> Ring:
    """The mark of a setting."""
    x, y = row.tokens.value, 100 * row.complete.value
    if row.defaults is None:
        return Ring(row.name, x, y, tag="D", name=row.name, shape="diamond")
    initials = "".join(part.split()[-1][0].upper() for part in row.name.split(", "))
    if row.name.startswith(SHARED_BUDGET):
        return Ring(row.name, x, y, tag=f"S{initials[-1]}", name=row.name, shape="triangle")
    return Ring(row.name, x, y, tag=initials, name=row.name)


SETTINGS = {"test": "All settings, test split", "tuning": "All settings, tuning split"}
COUNTERPARTS_TITLE = "Counterparts of one domain"
APART = (*SETTINGS.values(), COUNTERPARTS_TITLE)
WORDS = """A *domain* is a kind of item that is cut on its own: tools, or rules with references; *one domain* is one
ranking of all items, cut once. A *budget* is what a request costs on average, in prompt tokens. Columns in %: requests
that were offered all that they require. A *gain* is the difference in points, with its 95% interval; bold is
significant at p of 0.05."""
METHOD = """`python experiments/tuning/domains.py` (`make domains`) makes this page. `semantic-domains` is the selector
that cuts tools, and rules with references, each on its own, with a mode for either.

* Data: the tuning splits of workbench and freight, which have both kinds of items, together; each weighs the same. All
  values and counterparts are chosen there. The test splits were read once, when all was chosen.
* Ranking: that of `semantic` (MiniLM, sentences against chunks, the best chunk counts). Only the cut differs: topK,
  then topN and includeScore, or a margin to the best score (includeScore 1: topN alone; margin 1: no margin).
* Every setting was compared exactly: topK 20, 30, 50 and 100 x topN 0 to 50 x every includeScore and every margin, in
  each domain; and for the shared budget every pair of these.
* Completeness counts the requests that got all they require; needs of a domain, those that got all that they require
  of it. Tokens are prompt tokens (o200k), also of requests that need nothing. Differences are in points, with 95%
  intervals, paired by request; p is Holm-corrected over its column in both datasets, bold is significant at 0.05.
  `p by group` is that of the comparison before it where paraphrases of one request count as one."""
MODES_TEXT = """Each domain alone, as if there were no other: the fewest tokens of it with so much of its needs met.
`aggressive`: 0.9 of what the specification's defaults (20 / 5 / 0.7 over all items) meet, `normal`: 0.98 of it,
`conservative`: 0.9 of what the first 20 items of the domain reach. The low end of the 95% interval must reach the
target. These are the modes of `semantic-domains`. The last column is what came of it on the test split."""
BY_MEAN = (
    "With the mean in place of the bound modes are smaller, and as likely as not short of their targets elsewhere:"
)
SHARED = """The best split of a budget over both domains, against the best cut of one ranking, on whole requests:
{settings} pairs of settings in workbench and freight, all compared. Lines are what nothing beats on the tuning
split of the dataset, measured on both splits; the upper row is therefore too good for both lines."""
FIGURE = "![completeness over prompt tokens](presets-domains/completeness.svg)"
BUDGETS_TEXT = """Budgets are multiples of what the specification's defaults cost on the tuning split. On the test split
one domain is compared with two at the tokens that two cost there."""
PRESETS_TEXT = """The three policies of the modes below, here for whole requests, on both datasets together and by
the bound: the cheapest of all settings on the lines of two domains above. These are the presets of
`semantic-domains`; they set topN, includeScore and margin themselves. The last column is the cheapest of the nine
pairs of modes by the same policy."""
SPLITS = {
    "test": """One domain at equal tokens: the setting that is most complete for as many tokens on the tuning split,
    turned up or down until it costs the same.""",
    "tuning": "What was chosen from; the p-values are no evidence here.",
}
COUNTERPARTS = "One domain, most complete for as many tokens on both tuning splits together:"
