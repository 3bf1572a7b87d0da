"""A check as a document: in short on at most 25 lines, and in full with every metric, cause and changed item."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from ctxbench.evaluation.metrics import parse_metric
from ctxbench.gate.baseline_rows import GATE
from ctxbench.gate.results import Change, Check, SelectorCheck, Verdict
from ctxbench.gate.verdict import server_reasons
from ctxbench.io.errors import SHOWN, count, faults_of, first_few
from ctxbench.report import check_texts
from ctxbench.report.check_texts import (
    ALLOW_REMOVED,
    NO_LOCATIONS,
    Locations,
    explained_words,
    is_acceptable,
    ranked_selectors,
    tokens_decided,
)
from ctxbench.report.document import (
    LOOSE_LEGEND,
    NONE,
    P_WORDS,
    Block,
    Bullets,
    Cell,
    Code,
    Document,
    Quoted,
    Section,
    Table,
    Text,
    Weight,
    has_loose,
    mean,
    number,
)

MORE = "Details: --verbose. Everything: --markdown FILE."
_P = (
    f"{P_WORDS}, corrected for all metrics of the check. A deterministic selector has no p-value: each of its "
    f"differences is a fact."
)
_LEGEND = "Detectable: the smallest loss that this number of queries shows in four of five checks."
_STYLES = {Verdict.BETTER: "green", Verdict.SAME: "green", Verdict.INCONCLUSIVE: "yellow"}  # else red
_SELDOM = ("left out", "swaps")
_SHOWN, _FEW = 10, 5  # rows that a console shows of losses, and of what is for information
_NEXT = "Next: "
_LINES = 6  # of the short form, for all causes and likewise for all fixes


_CHECK = Document(
    title="",
    kicker="ctxbench check",
    level=2,
    whole_in=("--output-format json", "--markdown FILE"),
    unit="selectors",
    n_lines=2,
    style="bold red",
)


def summary(
    check: Check,
    *,
    accept: str = "",
    first: str = "",
    locations: Locations = NO_LOCATIONS,
    removed: str = ALLOW_REMOVED,
    more: str = MORE,
) -> Document:
    """Make the short report of a check: one line where nothing changed, else losses, causes, fixes and next step.

    Args:
        check: what was found.
        accept: the command that would make the head the baseline; empty where there is none, or it would fail.
        first: what must be done before that; empty = nothing.
        locations: looks up files and lines.
        removed: the option that leaves out what was removed on purpose.
        more: where the rest is.
    """
    accept = accept if is_acceptable(check) else ""
    problems, losses = check_texts.problems(check), check_texts.losses(check)
    causes = check_texts.causes(check, locations, details="--verbose" if more == MORE else "")
    per_cause = max(1, _LINES // (2 * len(causes))) if causes else 0
    n = check_texts.n_lost(check)
    always_on, removed_items = check_texts.always_on_changes(check), check_texts.removed_items(check)
    parts = [
        ("Problems", problems, 1),
        ("Always-on items that changed", always_on, 1),
        ("Removed items that no label requires", [removed_items] if removed_items else [], 1),
        (f"Losses: {count(n, 'required item')}" if n else "Losses", () if problems else losses, 1),
        ("Causes and suggested fixes", causes, per_cause),
    ]
    sections = [Section(title, (Bullets(tuple(texts), n_lines),)) for title, texts, n_lines in parts if texts]
    steps = check_texts.next_steps(check, accept=accept, first=first, removed=removed)
    about = check_texts.other_verdicts(check)
    closing: list[Block] = [Text(f"{_NEXT}{' '.join(steps)}", n_lines=3 if about else 5)] if steps else []
    closing += [Code(accept)] if accept else []
    closing += [Text(more)] if more and (sections or closing or about) else []
    return replace(
        _CHECK,
        title=check_texts.answer(check),
        about=about,
        sections=tuple(sections),
        closing=tuple(closing),
        n_lines=6 if check.verdict is Verdict.NOT_COMPARABLE else 2,
        style=f"bold {_STYLES.get(check.verdict, 'red')}",
    )


def uncut(document: Document) -> Document:
    """The document with all lines of its texts, for a log: it has no terminal whose height counts."""
    sections = tuple(replace(section, blocks=tuple(map(_uncut, section.blocks))) for section in document.sections)
    return replace(document, n_lines=0, sections=sections, closing=tuple(map(_uncut, document.closing)))


def _uncut(block: Block) -> Block:
    return replace(block, n_lines=0) if isinstance(block, Text | Bullets) else block


def document(check: Check, *, accept: str = "", first: str = "", locations: Locations = NO_LOCATIONS) -> Document:
    """Make the full report of a check, with the short one at its beginning; the arguments are those of `summary`.

    Markdown shows the short one, and folds the rest.
    """
    ranked = ranked_selectors(check)
    short = summary(check, accept=accept, first=first, locations=locations, more="")
    shared = check_texts.shared_notices(check)
    differ = {selector.differs for selector in ranked}
    if len(ranked) > 1 and len(differ) == 1 and (difference := differ.pop()):
        shared = (*shared, f"what differs: {difference}")
    servers = dict.fromkeys(reason for selector in ranked for reason in server_reasons(selector.servers))
    notices = [*servers, *check.notices, *shared, *_reuse_notice(ranked)]
    notices += check_texts.nondeterministic_notes(ranked)
    overview: list[Block] = [_verdicts(ranked)] if ranked else []
    overview += [Bullets(tuple(map(check_texts.sentence, notices)))] if notices else []
    gate, folder = locations.gate or check.name, locations.folder
    sections = [Section(f"{gate}: {check.head} compared with {check.base}", tuple(overview))]
    sections += [_section(selector, shared, locations) for selector in ranked]
    next_step: list[Section] = []
    if short.closing:
        text, *command = short.closing
        steps = Text(text.text.removeprefix(_NEXT)) if isinstance(text, Text) else text
        next_step = [Section("Next", (steps, *command))]
    first_sections = (*short.sections, *next_step)
    where = f"Run the commands in `{folder}`." if folder and first_sections else ""
    return replace(
        short,
        kicker=short.kicker if gate == GATE else f"{short.kicker} {gate}",
        about=" ".join(filter(None, [where, short.about])),
        sections=(*first_sections, *sections),
        closing=tuple(_legends(check, sections)),
        n_unfolded=len(first_sections),
    )


def refusal(name: str, error: Exception) -> Document:
    """Make the document of a check that could not be made: its faults, one per line, at most `SHOWN`.

    Args:
        name: of what was to be checked.
        error: why it could not be.
    """
    faults = faults_of(error)
    lines = [str(fault) for fault in faults[:SHOWN]]
    lines += [f"and {len(faults) - SHOWN:,} more"] if len(faults) > SHOWN else []
    title = f"cannot judge: {name}" + (f", {len(faults):,} faults" if len(faults) > 1 else "")
    advice = Text("Nothing was judged: correct these faults and check again.")
    return replace(_CHECK, title=title, opening=(Bullets(tuple(map(check_texts.sentence, lines))),), closing=(advice,))


def _reuse_notice(selectors: list[SelectorCheck]) -> Iterator[str]:
    """One notice for all selectors whose answers are those of the baseline."""
    if names := [check_texts.selector_name(selector) for selector in selectors if selector.reused]:
        all_of_them = "no selector was asked again" if len(names) > 1 else f"{names[0]} was not asked again"
        subject = all_of_them if len(names) == len(selectors) else f"not asked again: {first_few(names)}"
        yield f"{subject}: nothing that decides the answers has changed since the baseline was accepted"


def _verdicts(selectors: list[SelectorCheck]) -> Table:
    """One row per selector and dataset; seldom counts have a column only where one is not 0."""
    counts = [_counts(selector) for selector in selectors]
    names = [name for name in counts[0] if name not in _SELDOM or any(row[name] for row in counts)]
    rows = []
    for check, figures in zip(selectors, counts, strict=True):
        judged = check.verdict is not Verdict.NOT_COMPARABLE
        numbers = [_count_text(check, name, figures[name]) if judged else NONE for name in names]
        rows.append((str(check.verdict), Quoted(check.dataset), Quoted(check_texts.selector_title(check)), *numbers))
    return Table(
        title="Verdicts",
        head=("verdict", "dataset", "selector", *names),
        rows=tuple(rows),
        numbers=frozenset(range(3, 3 + len(names))),
        weight=Weight.VERDICT,
        key=3,
        joined=True,
    )


def _count_text(check: SelectorCheck, name: str, count: int) -> str:
    """A count; what was counted on no query is not 0."""
    if check.counted or name not in ("required lost", "gained"):
        return f"{count:,}"
    return f"not counted ({check.nondeterministic:,} nondeterministic)" if name == "required lost" else NONE


def _counts(check: SelectorCheck) -> dict[str, int]:
    """Queries compared, left out, and different by ties alone; required items lost, gained, and allowed to be lost."""
    return {
        "queries": check.compared,
        "left out": sum(map(len, check.left_out.values())),
        "swaps": len(check.swaps),
        "required lost": check.lost,
        "gained": check.gained,
        "losses allowed": check.allowed,
    }


def _section(check: SelectorCheck, shared: Collection[str], locations: Locations) -> Section:
    """The section of a selector, without the notices in `shared`."""
    differs = f"what differs: {check.differs}"
    reasons = [*check.reasons, *([differs] if check.differs and differs not in shared else [])]
    blocks: list[Block] = [Bullets(tuple(map(check_texts.sentence, reasons)))]
    blocks += [table for table in _tables(check, locations) if table.rows]
    notices = [notice for notice in check.notices if notice not in shared]
    blocks += [Bullets(tuple(map(check_texts.sentence, notices)))] if notices else []
    return Section(f"{check.verdict}: {check_texts.selector_name(check)}", tuple(blocks))


def _tables(check: SelectorCheck, locations: Locations) -> Iterator[Table]:
    lost = [change for change in check.changes if change.required and change.lost]
    gained = [change for change in check.changes if change.required and not change.lost]
    optional = [change for change in check.changes if not change.required]
    yield _pins(check)
    yield _minimums(check)
    yield _unmet(check, locations)
    yield _metrics(check)
    yield _causes(check, locations)
    yield _token_changes(check, locations)
    yield _changes(check, f"Required items lost: {len(lost):,}", lost)
    yield _changes(check, f"Required items gained: {len(gained):,}", gained, weight=Weight.DETAIL)
    yield _changes(check, f"Optional items that moved: {len(optional):,}", optional, weight=Weight.DETAIL)


def _metrics(check: SelectorCheck) -> Table:
    p = [] if check.deterministic else ["p"]
    head = ("metric", "verdict", "baseline", "now", "difference", *p, "tolerance", "detectable", "queries")
    rows = []
    for judged in check.metrics:
        metric = parse_metric(judged.metric)
        rows.append(
            (
                check_texts.metric_title(judged),
                str(judged.verdict),
                *check_texts.sides(judged),
                check_texts.difference(metric, judged.comparison),
                *([check_texts.p_value(judged.comparison)] if p else []),
                check_texts.size_text(metric, judged.tolerance),
                check_texts.size_text(metric, judged.detectable),
                f"{judged.comparison.n:,}",
            )
        )
    return Table(
        title="Metrics",
        head=head,
        rows=tuple(rows),
        numbers=frozenset(range(2, len(head))),
        weight=Weight.VERDICT,
        key=2,
        joined=True,
    )


def _pins(check: SelectorCheck) -> Table:
    return Table(
        title=f"Broken pins: {len(check.pins):,}",
        head=("query", "pin", "line", "problem"),
        rows=tuple(
            (
                check_texts.id_with_text(check, pin.query),
                check_texts.sentence(pin.pin),
                f"{pin.line}" if pin.line else NONE,
                check_texts.sentence(pin.message),
            )
            for pin in check.pins
        ),
        n_shown=_SHOWN,
        stacked=True,
    )


def _minimums(check: SelectorCheck) -> Table:
    return Table(
        title="Minimums",
        head=("metric", "minimum", "now", "at least", "by", "queries"),
        rows=tuple(
            (
                f"{verdict.metric} %",
                "missed" if verdict.missed else "reached",
                mean(parse_metric(verdict.metric), verdict.estimate),
                number(parse_metric(verdict.metric), verdict.minimum.value),
                "lower end of the interval" if verdict.minimum.by == "lower" else "value",
                f"{verdict.estimate.n:,}",
            )
            for verdict in check.minimums
        ),
        numbers=frozenset({2, 3, 5}),
        weight=Weight.VERDICT,
        key=2,
    )


def _unmet(check: SelectorCheck, locations: Locations) -> Table:
    return _without_empty_places(
        Table(
            title=f"Required items that can no longer be offered: {len(check.unmet):,}",
            head=("item", "where", "reason", "queries"),
            rows=tuple(
                (
                    check_texts.sentence(" or ".join(requirement.items)),
                    locations.text(locations.of_items(requirement.items, check.dataset)),
                    requirement.why,
                    f"{len(requirement.queries):,} ({first_few(requirement.queries)})",
                )
                for requirement in check.unmet
            ),
            n_shown=_SHOWN,
            stacked=True,
            joined=True,
        )
    )


def _token_changes(check: SelectorCheck, locations: Locations) -> Table:
    """The table of items whose token count changed; details, unless tokens decide the verdict."""
    decides = any(
        check_texts.counts_tokens(judged) and judged.verdict in check_texts.CAUSE_VERDICTS for judged in check.metrics
    )
    return _without_empty_places(
        Table(
            title=f"Items with another token count: {len(check.token_changes):,}",
            head=("item", "where", "prompt tokens", "edit", "queries", "tokens added"),
            rows=tuple(
                (
                    Quoted(item.item),
                    locations.text(locations.item(check.dataset, item.item)),
                    f"{item.base:,} -> {item.head:,}",
                    item.why,
                    f"{len(item.queries):,}",
                    f"{item.tokens:+,}",
                )
                for item in check.token_changes
            ),
            numbers=frozenset({2, 4, 5}),
            weight=Weight.COST if decides else Weight.DETAIL,
            n_shown=_SHOWN if decides else _FEW,
            joined=True,
        )
    )


def _without_empty_places(table: Table) -> Table:
    """The table without its column `where` if that is empty in every row."""
    at = table.head.index("where")
    if any(row[at] for row in table.rows):
        return table
    return replace(
        table,
        head=(*table.head[:at], *table.head[at + 1 :]),
        rows=tuple((*row[:at], *row[at + 1 :]) for row in table.rows),
        numbers=frozenset(n - (n > at) for n in table.numbers),
    )


def _changes(check: SelectorCheck, title: str, changes: list[Change], *, weight: Weight = Weight.COST) -> Table:
    """The table of some changes, with suggested fixes, and with the direction if there are both."""
    fix = any(change.fix for change in changes)
    both_directions = len({change.lost for change in changes}) > 1
    head = (
        "query",
        "item",
        *(["direction"] if both_directions else []),
        "excluded before by" if not both_directions and any(not change.lost for change in changes) else "excluded by",
        "score",
        "cause",
        *(["fix"] if fix else []),
    )
    rows: list[tuple[Cell, ...]] = []
    for change in changes:
        when = f"{'now' if change.lost else 'before'}, " if both_directions else ""
        rows.append(
            (
                check_texts.id_with_text(check, change.query),
                Quoted(change.item),
                *([check_texts.direction(change)] if both_directions else []),
                f"{when}{check_texts.exclusion_text(change)}",
                check_texts.score_text(change),
                check_texts.sentence(check_texts.cause_text(change.cause)),
                *([check_texts.sentence(str(change.fix))] if fix else []),
            )
        )
    return Table(
        title=title,
        head=head,
        rows=tuple(rows),
        weight=weight,
        n_shown=_SHOWN if weight is Weight.COST else _FEW,
        key=3 if both_directions else 2,
        stacked=True,
        joined=weight is Weight.DETAIL,
    )


def _causes(check: SelectorCheck, locations: Locations) -> Table:
    by_cost = sorted(check.causes, key=lambda group: -group.tokens)
    causes = tuple(by_cost) if tokens_decided(check) else check.causes  # tokens may be the cost
    return _without_empty_places(
        Table(
            title=f"Causes, most costly first: {len(causes):,}",
            head=(
                "cause",
                "where",
                "lost",
                "gained",
                "optional items moved",
                "prompt tokens added",
                "queries",
                "fix",
            ),
            rows=tuple(
                (
                    check_texts.sentence(check_texts.cause_text(group.cause)),
                    locations.text(locations.of_cause(group.cause, check.dataset, [check.selector])),
                    f"{group.lost:,}",
                    f"{group.gained:,}",
                    f"{group.others:,}",
                    f"{group.tokens:+,}" if group.tokens else "0",
                    f"{len(group.queries):,} ({first_few(group.queries)})",
                    check_texts.sentence(str(group.fix)),
                )
                for group in causes
            ),
            numbers=frozenset({2, 3, 4, 5}),
            n_shown=_SHOWN,
            stacked=True,
            joined=True,
        )
    )


def _legends(check: Check, sections: list[Section]) -> Iterator[Block]:
    """What the words and figures of the full report mean."""
    if words := explained_words(check.selectors, [block for section in sections for block in section.blocks]):
        yield Text(words)
    if judged := [selector for selector in check.selectors if selector.metrics]:
        chance = [] if all(selector.deterministic for selector in judged) else [_P]
        cells = (str(cell) for selector in judged for row in _metrics(selector).rows for cell in row)
        loose = [f"{LOOSE_LEGEND}."] if any(map(has_loose, cells)) else []
        yield Text(" ".join([*chance, _LEGEND, *loose]))
