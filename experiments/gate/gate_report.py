"""The page of `measure.py`: every bar, what was measured, and what does not hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gate_chance import CHANCE, OTHER, SIMULATED
from gate_chance import Cell as Simulated
from gate_edits import NOTHING, Named
from gate_harmless import DRAWS as REWORDED_DRAWS
from gate_harmless import EMBEDDED, NS, RERUNS, SIZE, TWINNED, Found, Rerun, rewordings
from gate_page import bold, share, table, text
from gate_power import DRAWS, Cell, Power
from gate_price import ROUNDS, Price
from gate_verdict import Bar, Counts, answer, bars, least
from gate_world import ALLOWANCES, OWN

from ctxbench.gate.results import Verdict
from ctxbench.gate.settings import ALLOWED

ENOUGH = 95  # of 100 draws
FALSE = 0.05  # of rewordings that may be called worse
LEVEL = 0.05  # nominal, of metrics called worse or better by chance
RIGHT = 9  # of ten edits
RATIO, MEGABYTES = 4.0, 300.0
# What the gate must name at 300 queries; the other faults are beside them, milder or as written more literally.
ASKED = ("items dropped", "chunker", "rule replaced", "costly look-alikes", "static model")
DEFAULT = f"{100 * ALLOWED:g}%"
APART = ("False alarms: reruns", "Power, every fault", "Causes of edits", "Other defaults")
Drawn = Mapping[int, Sequence[Found]]


@dataclass(frozen=True, eq=False, kw_only=True)
class Measured:
    """All that was measured.

    Attributes:
        reruns: by what was run again.
        rewordings: by dataset and place; None = all of the dataset together. Over all queries, and over draws.
        power, chance, edits: in order.
        price: of a process.
    """

    reruns: Mapping[Rerun, Found]
    rewordings: Mapping[tuple[str, int | None], tuple[Found, Drawn]]
    power: Sequence[Power]
    chance: Sequence[Simulated]
    edits: Sequence[Named]
    price: Price

    def alone(self, *datasets: str) -> list[tuple[Found, Drawn]]:
        """Rewordings applied alone, of these datasets."""
        return [row for (own, place), row in self.rewordings.items() if own in datasets and place is not None]


def page(found: Measured) -> str:
    """The whole of it: what is read, then the sections of `APART`."""
    several: list[Bar] = []
    sections: Sequence[Callable[[Measured, list[Bar]], Iterator[str]]] = (
        _reruns,
        _rewordings,
        _power,
        _chance,
        _edits,
        _price,
        _defaults,
    )
    parts = {section: "\n".join(section(found, several)).rstrip() for section in sections}
    read = [parts[one] for one in (_rewordings, _chance, _price)]
    apart = [parts[one] for one in (_reruns, _power, _edits, _defaults)]
    shown = answer(counts(found), queries=max(NS), enough=ENOUGH, draws=DRAWS)
    opening = "\n".join(["# What the gate is worth", "", shown, "", *bars(several), *text(BARS)]).rstrip()
    power = "\n".join(["## Power", "", *text(POWER), *least(_rights(found), ASKED)]).rstrip()
    made = "\n".join(["## How it was made", "", *text(MADE)]).rstrip()
    limits = "\n".join(["## What this does not say", "", *text(LIMITS)]).rstrip()
    return "\n\n".join([opening, power, *read, made, limits, *apart]) + "\n"


def counts(found: Measured) -> Counts:
    """What the answer says."""
    plain = [row for one, row in found.reruns.items() if one.dataset in OWN]
    single = found.alone(*OWN)
    good = [cell.right >= ENOUGH * cell.draws / 100 for _, _, cell in _asked(found)]
    kinds = [min(rights[max(NS)]) >= ENOUGH for rights in _rights(found).values() if max(NS) in rights]
    return Counts(
        reruns=(sum(row.worse for row in plain), len(plain)),
        rewordings=(sum(row.worse for row, _ in single), len(single)),
        power=(sum(good), len(good)),
        kinds=(sum(kinds), len(kinds)),
        edits=(sum(one.right for one in found.edits), len(found.edits)),
        ratio=found.price.unchanged.ratio,
    )


def _asked(found: Measured) -> Iterator[tuple[Power, str, Cell]]:
    """The cases that the bar of power is about."""
    for one in found.power:
        for (selector, n), cell in one.cells.items():
            if n == max(NS) and one.fault in ASKED:
                yield one, selector, cell


def _rights(found: Measured) -> dict[str, dict[int, list[int]]]:
    """In how many draws each fault is named, by size."""
    rights: dict[str, dict[int, list[int]]] = {}
    for one in found.power:
        for (_, n), cell in one.cells.items():
            rights.setdefault(one.fault, {}).setdefault(n, []).append(cell.right)
    return rights


# ---------------------------------------------------------------------------------------------- false alarms


def _reruns(found: Measured, verdict: list[Bar]) -> Iterator[str]:
    plain = [row for one, row in found.reruns.items() if one.dataset in OWN]
    twins = [row for one, row in found.reruns.items() if one.dataset not in OWN]
    worse, other = sum(row.worse for row in plain), sum(map(_otherwise, plain))
    verdict.append(
        Bar(
            asked="False alarms, reruns",
            bar="none of 200 worse",
            found=f"{worse} of {len(plain)} worse, {other} not called the same",
            held=not worse and len(plain) >= 200,
            beside=f"where every tool has a twin of the same score, {sum(row.worse for row in twins)} of {len(twins)} "
            f"more are worse, though {sum(row.swapped for row in twins):,} offers differ by a swap.",
        )
    )
    yield "## False alarms: reruns"
    yield ""
    yield from text(
        "What ships was accepted, run again with a change that should make no difference, and checked. Order: items or "
        "queries shuffled. Threads: 1 to 4 of the linear algebra; "
        f"{EMBEDDED[1]} of {EMBEDDED[0]} embed all texts anew, on one thread and on two. Noise: every number of every "
        f"vector, or every score of a search, is off by up to {SIZE:g}, evenly. As these datasets have no ties that "
        "matter, every tool of freight was given a twin, word for word, on another server: whichever of the two stands "
        "first is offered. `changed` and `swaps` count offers of both selectors over all reruns."
    )
    head = ["dataset", "change", "reruns", "worse", "not the same", "changed", "swaps"]
    rows = []
    for name, what in dict.fromkeys((one.dataset, one.what) for one in _in_order(found.reruns)):
        own = [row for one, row in found.reruns.items() if (one.dataset, one.what) == (name, what)]
        counts = [
            len(own),
            sum(row.worse for row in own),
            sum(map(_otherwise, own)),
            sum(row.changed for row in own),
            sum(row.swapped for row in own),
        ]
        rows.append([name, what, *map(str, counts)])
    yield from table(head, rows)


def _drawn_worse(draws: Drawn) -> str:
    return f"{sum(one.worse for one in draws[max(NS)])} of {len(draws[max(NS)])}"


def _otherwise(row: Found) -> bool:
    """Whether a selector is not called the same."""
    return any(one is not Verdict.SAME for one in row.verdicts)


def _in_order(several: Iterable[Rerun]) -> list[Rerun]:
    datasets = [*OWN, TWINNED]
    return sorted(several, key=lambda one: (datasets.index(one.dataset), list(RERUNS).index(one.what), one.number))


def _rewordings(found: Measured, verdict: list[Bar]) -> Iterator[str]:
    single = found.alone(*OWN)
    worse = sum(row.worse for row, _ in single)
    together = {name: found.rewordings[name, None] for name in rewordings()}
    verdict.append(
        Bar(
            asked="False alarms, rewordings",
            bar=f"at most {FALSE:.0%} of 50 worse",
            found=f"{worse} of {len(single)} worse",
            held=worse <= FALSE * len(single),
            beside="all of a dataset together: "
            + ", ".join(f"{name} {'/'.join(row.verdicts)}" for name, (row, _) in together.items())
            + f"; in draws of {max(NS)} queries, "
            + ", ".join(f"{_drawn_worse(draws)} of {name} worse" for name, (_, draws) in together.items())
            + ".",
        )
    )
    yield "## False alarms: neutral rewordings"
    yield ""
    yield from text(
        "The rewordings of `rewordings.yaml`, written by hand by the author of this page, each of an item that queries "
        "require. `changed`: rewordings that change what any query is offered. `net lost`: required items lost more "
        "than gained by either selector, the most of all. Draws: each rewording is also checked on "
        f"{REWORDED_DRAWS} draws of {', '.join(map(str, NS))} queries; the share of those in which a selector is worse."
    )
    head = ["dataset", "applied", "rewordings", "changed", "lost", "gained", "net lost", "worse"]
    rows = []
    for name in rewordings():
        for what, some in (
            (
                "each alone",
                [row for (own, place), row in found.rewordings.items() if own == name and place is not None],
            ),
            ("all together", [found.rewordings[name, None]]),
        ):
            cells = [
                str(len(some) if what == "each alone" else len(rewordings()[name])),
                str(sum(bool(row.changed) for row, _ in some)) if what == "each alone" else "-",
                str(sum(row.lost for row, _ in some)),
                str(sum(row.gained for row, _ in some)),
                str(max(max(row.net) for row, _ in some)),
                str(sum(row.worse for row, _ in some)),
            ]
            by_n = [
                share(sum(one.worse for _, draws in some for one in draws[n]) / sum(len(draws[n]) for _, draws in some))
                for n in NS
            ]
            rows.append([name, what, *cells, *by_n])
    yield from table([*head, *(f"draws of {n}" for n in NS)], rows)


# ---------------------------------------------------------------------------------------------- power


def _power(found: Measured, verdict: list[Bar]) -> Iterator[str]:
    at = max(NS)
    missed = [
        f"{one.fault}, {one.dataset}, {selector} ({cell.right})"
        for one, selector, cell in _asked(found)
        if cell.right < ENOUGH * cell.draws / 100
    ]
    good, every = counts(found).power
    verdict.append(
        Bar(
            asked="Power",
            bar=f"at n = {at}, worse with the right cause first in at least {ENOUGH} of {DRAWS} draws",
            found=f"{good} of {every} rows of the five faults",
            held=not missed,
            beside=f"below it are {'; '.join(missed)}." if missed else "",
        )
    )
    wrong = {
        kind: sum(cell.other.get(kind, 0) for one in found.power for cell in one.cells.values())
        for kind in sorted({kind for one in found.power for cell in one.cells.values() for kind in cell.other})
    }
    worse = sum(cell.worse for one in found.power for cell in one.cells.values())
    yield "## Power, every fault"
    yield ""
    yield from text(
        f"Each fault is made once over all queries; {DRAWS} draws of n queries, groups whole, are then checked with "
        "the defaults. A cell says in how many draws the selector is worse / worse with the right cause first (median "
        "of the required items lost net). Bold: below the bar at the size that it is for. Changes and causes are found "
        "once over all queries and restricted to a draw; "
        f"{sum(one.agreed for one in found.power)} of {sum(one.compared for one in found.power)} draws that were also "
        "checked from the beginning came to the same."
    )
    yield from text(
        f"Of {worse:,} draws that were called worse, over all sizes, the first cause was another one in "
        f"{sum(wrong.values()):,}"
        + (f" ({', '.join(f'{kind} {count}' for kind, count in wrong.items())})." if wrong else ".")
    )
    yield from text(
        "The bar applies to five faults: items dropped, chunker, rule replaced, costly look-alikes and static "
        "model. Others stand beside them. Copies of the tool that most queries need cost next to nothing here, as the "
        "selectors do not offer it where it is needed (workbench, freight), or offer it first whatever is added "
        "(bfcl-live): nothing that should be called worse. No rule of freight is needed by ten queries; on bfcl-live, "
        "which has no rules, it is a tool's description. Where a draw holds certain queries, their groups come with "
        "them, so that a small draw may consist of little else."
    )
    for name in dict.fromkeys(one.fault for one in found.power):
        yield f"### {name.capitalize()}"
        yield ""
        own = [one for one in found.power if one.fault == name]
        for one in own:
            yield from text(f"{one.dataset}: {one.about}.")
        head = ["dataset", "selector", *(f"n = {n}" for n in NS), "all queries: verdict, net lost, first cause"]
        rows = []
        for one in own:
            for selector, (said, net, first) in one.whole.items():
                cells = [_shown(one.cells.get((selector, n)), asked=n == at and name in ASKED) for n in NS]
                rows.append([one.dataset, selector, *cells, f"{said}, {net}, {first}"])
        yield from table(head, rows)


def _shown(cell: Cell | None, *, asked: bool) -> str:
    if cell is None:
        return "-"
    shown = f"{cell.worse} / {cell.right} ({cell.net:g})"
    return bold(shown, unless=not asked or cell.right >= ENOUGH * cell.draws / 100)


# ---------------------------------------------------------------------------------------------- chance


def _chance(found: Measured, verdict: list[Bar]) -> Iterator[str]:
    same = [one for one in found.chance if one.chance == CHANCE]
    most = max(one.worse + one.better for one in same)
    once = [one.by_facts for one in same if one.repeats == 1]
    again = [one.by_facts for one in same if one.repeats > 1]
    verdict.append(
        Bar(
            asked="Type I error",
            bar=f"at most {LEVEL:.0%} after correction",
            found=f"metrics of two selectors that answer alike are called worse or better in at most {share(most)} of "
            f"{SIMULATED:,} checks",
            held=most <= LEVEL,
            beside=f"but a noisy selector that is asked once loses more items than are allowed in {share(min(once))} "
            f"to {share(max(once))} of checks; asked three times on either side, in at most {share(max(again))}.",
        )
    )
    covered = [value for one in found.chance for value in one.covered.values()]
    verdict.append(
        Bar(
            asked="Intervals of differences",
            bar="",
            found=f"95% intervals held the true difference in {share(min(covered))} to {share(max(covered))} of checks",
        )
    )
    yield "## By chance: type I error, and coverage of intervals"
    yield ""
    yield from text(
        "Two selectors outside that answer as `semantic/normal` and `semantic/spec` on workbench, but leave every "
        f"required item out with chance {CHANCE:g} each time that they are asked; both sides of a check alike. Queries "
        "are drawn in whole groups with replacement. `any worse`, `any better`: share of checks in which one metric of "
        "either selector is (3 metrics, 2 selectors, Holm-corrected; tokens with the session's differ as those without "
        "do, and are no comparison of their own). By metric: how often it is called either. "
        "`items lost`: share of selectors that lose more than is allowed, a rule that has no test behind it and "
        "leaves out queries that answer otherwise from time to time, which only repeats can show."
    )
    names = list(found.chance[0].single)
    head = ["n", "asked", "any worse", "any better", *names, "items lost"]
    rows = [
        [
            str(one.n),
            _times(one.repeats),
            bold(share(one.worse), unless=one.worse + one.better <= LEVEL),
            bold(share(one.better), unless=one.worse + one.better <= LEVEL),
            *(share(one.single[name]) for name in names),
            bold(share(one.by_facts), unless=one.by_facts <= LEVEL),
        ]
        for one in same
    ]
    yield from table(head, rows)
    yield from text(
        "How often the 95% interval of the difference that a check prints holds the true one, for the same selectors, "
        f"and where the head leaves items out with chance {OTHER:g}. Bold: below 93%. More datasets, chances and "
        "shapes, and whether what is called detectable is detected: [gate-intervals.md](gate-intervals.md)."
    )
    rows = [
        [
            f"{one.n}",
            _times(one.repeats),
            "none" if one.chance == CHANCE else f"{CHANCE:g} -> {one.chance:g}",
            *(bold(share(one.covered[name]), unless=one.covered[name] >= 0.93) for name in names),
        ]
        for one in found.chance
    ]
    yield from table(["n", "asked", "difference", *names], rows)


def _times(repeats: int) -> str:
    return "once" if repeats == 1 else f"{repeats} times"


# ---------------------------------------------------------------------------------------------- edits


def _edits(found: Measured, verdict: list[Bar]) -> Iterator[str]:
    right = sum(one.right for one in found.edits)
    verdict.append(
        Bar(
            asked="Causes of edits",
            bar="nine of ten right",
            found=f"{right} of {len(found.edits)}, {share(right / len(found.edits))}",
            held=right >= RIGHT / 10 * len(found.edits),
        )
    )
    yield "## Causes of edits"
    yield ""
    yield from text(
        "The edits of `edits.yaml`, by an author who had not seen how causes are found, accepted before and checked "
        "after, with labels carried to the new catalog as `ctxbench data rebase` does. Right: the first cause is of "
        "the expected kind and names an item or a parameter that is expected (a model needs no name); for `nothing`, "
        "no query is offered anything else. Where labels are lost because their item can no longer be offered, their "
        "queries are left out (`--allow-removed`); without it such a check ends with exit code 2. "
        "The first time that these edits were measured, 10 of 12 were right; that an item which is disabled counts as "
        "gone came after that, so that the edit which disables one is no longer a blind test."
    )
    head = ["edit", "expected", "named first", "right", "verdict", "lost / gained", "labels lost"]
    rows = [
        [
            one.name,
            _cause(one.expected[0], one.expected[1]),
            _cause(one.found[0], one.found[1], one.found[2]),
            "yes" if one.right else "**no**",
            one.verdict,
            f"{one.lost} / {one.gained}",
            str(one.lost_labels),
        ]
        for one in found.edits
    ]
    yield from table(head, rows)


def _cause(kind: str, subjects: Sequence[str], detail: str = "") -> str:
    if kind == NOTHING:
        return kind
    named = ", ".join(f"`{one}`" for one in subjects[:2]) + (
        f" and {len(subjects) - 2} more" if len(subjects) > 2 else ""
    )
    about = f" ({detail})" if detail and len(detail) < 60 else ""
    return f"{kind}: {named}{about}"


# ---------------------------------------------------------------------------------------------- price, defaults


def _price(found: Measured, verdict: list[Bar]) -> Iterator[str]:
    one, alike = found.price, found.price.unchanged
    most = max(alike.megabytes, one.touched.megabytes)
    verdict += [
        Bar(
            asked="Price in time",
            bar=f"nothing changed, at most {RATIO:g} times a process that imports numpy",
            found=f"{alike.ratio:.1f} times",
            held=alike.ratio <= RATIO,
            beside=f"where selectors are asked, {one.touched.ratio:.1f} times.",
        ),
        Bar(asked="Price in memory", bar=f"under {MEGABYTES:g} MB", found=f"{most:.0f} MB", held=most < MEGABYTES),
    ]
    yield "## The price"
    yield ""
    yield from text(
        "`ctxbench check` on workbench, one selector, vectors in the baseline and none elsewhere, beside `python -c "
        f"'import numpy'`, in turns, {ROUNDS} rounds after two to warm up, at a load of {one.load:.1f} here. "
        f"Medians: {alike.seconds:.2f} s with nothing changed, where no selector is asked, {one.touched.seconds:.2f} s "
        f"with one more byte in the queries, where it is, {one.numpy:.2f} s for numpy; ratios are medians of those of "
        "single rounds. `pytest tests/benchmarks/test_gate.py --benchmark-only -s` takes it again; "
        "tests/cli/test_check_light.py holds that neither onnxruntime nor pandas nor scipy.stats is imported."
    )


def _defaults(found: Measured, verdict: list[Bar]) -> Iterator[str]:
    del verdict
    at = max(NS)
    yield "## Other defaults"
    yield ""
    yield from text(
        f"How many required items a selector may lose net where a gate file says nothing: {DEFAULT} of the queries "
        "that need something, at least 1. What other shares would do (at least 1 as well; `none`: not a single one): "
        f"rewordings called worse over all queries, and in draws of {at}; all rewordings of a dataset together in such "
        f"draws; rows of the five faults that reach {ENOUGH} of {DRAWS} draws at n = {at} (worse, whatever cause comes "
        "first); and edits that lose something net which are called worse. The default was chosen by this table, so "
        "that what is said above of rewordings, faults and edits is no test of it on other data."
    )
    losing = [one for one in found.edits if one.loss.net > 0]
    single, together = found.alone(*OWN), [found.rewordings[name, None] for name in OWN]
    cells = [cell for one in found.power for (_, n), cell in one.cells.items() if n == at and one.fault in ASKED]
    rows = [
        [
            ("none" if not part else f"{100 * part:g}%") + (" (default)" if part == ALLOWED else ""),
            f"{sum(_worse(row, part) for row, _ in single)} of {len(single)}",
            _share_worse(single, at, part),
            _share_worse(together, at, part),
            f"{sum(cell.allowing[part] >= ENOUGH * cell.draws / 100 for cell in cells)} of {len(cells)}",
            f"{sum(one.loss.worse(part) for one in losing)} of {len(losing)}",
        ]
        for part in ALLOWANCES
    ]
    head = ["may be lost", "rewordings", f"draws of {at}", "all together, draws", "faults", "edits that lose"]
    yield from table(head, rows)


def _share_worse(several: Sequence[tuple[Found, Drawn]], n: int, part: float) -> str:
    draws = [one for _, drawn in several for one in drawn[n]]
    return share(sum(_worse(row, part) for row in draws) / len(draws))


def _worse(row: Found, part: float) -> bool:
    return any(one.worse(part) for one in row.losses)


BARS = """A bar is what was demanded of the gate. A rerun, a rewording or a selector is *worse* if a check says so,
which then fails. Queries are requests with labels; n is how many of them a check has."""
POWER = f"""In how many of {DRAWS} draws of n queries a fault that was made on purpose is called worse with the right
cause named first: the least over datasets and selectors. Five faults have a bar; the others are milder, or cost next to
nothing here."""
MADE = f"""Made by `python experiments/gate/measure.py` (`make gate`). A check is that of `ctxbench check` with the
defaults: completeness, recall and tokens (with what the session holds, and without) are judged, and {DEFAULT} of the
queries that need something (at least 1) may lose a required item net. Selectors are `semantic/normal` and
`semantic/spec`, both in one check, on `workbench` (694 queries), `freight` (330) and, for tools, `bfcl-live`
(1,053); baselines are written and read back."""
LIMITS = """These selectors offer on workbench and freight little more than a third of what is required, so that most of
the queries that need an item do not have it to lose. A language model wrote workbench, freight, the rewordings and the
edits; nobody's production catalog is among the data."""
