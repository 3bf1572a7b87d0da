"""Sentences about a check: summary, conclusion, acceptance, and locations in files."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

from ctxbench.evaluation.metrics import Metric, parse_metric
from ctxbench.evaluation.statistics import Comparison
from ctxbench.gate.baseline import AcceptedFigures
from ctxbench.gate.results import (
    Cause,
    CauseGroup,
    CauseKind,
    Change,
    Check,
    FigureChange,
    Fix,
    Loosened,
    MetricVerdict,
    SelectorCheck,
    TokenChange,
    UnmetRequirement,
    Verdict,
    phrase_cause,
)
from ctxbench.gate.snapshots import shortened
from ctxbench.gate.verdict import server_reasons, undecided_text
from ctxbench.io.errors import count
from ctxbench.model.candidates import BEYOND_CHUNKS, NOT_CHOSEN
from ctxbench.report import wording
from ctxbench.report.document import Block, Bullets, Cell, Code, Quoted, Section, Table, Text

_NOWHERE = ("", 0)
_CONFIGURED = (CauseKind.PARAMETER, CauseKind.CODE, CauseKind.EXTERNAL)  # causes that lie in a selector, not in an item

Location: TypeAlias = tuple[str, int]
"""A file, relative to the repository, and its 1-based line; 0 = all of the file, ("", 0) = not known."""


def unknown_location(*_names: str) -> Location:
    """The location of what has no known location."""
    return _NOWHERE


@dataclass(frozen=True, kw_only=True)
class Locations:
    """Looks up the locations of what a check is about.

    Attributes:
        gate: the gate file; empty where there is none.
        selectors: lines of the gate file by the names of selectors.
        files: locations of selectors that stand in a file of their own, such as an agent file, likewise.
        external_file: the file that an external selector names, relative to the repository; empty where there is none.
        embedder: the line of the gate file that names the model; 0 = none does.
        gone: whether a file of a location is no longer there.
        item: the location of an item by dataset and id.
        query: that of a query, likewise.
        labels: that of a query's label of an item, or of its first one, by dataset, query and, if wanted, item.
    """

    gate: str = ""
    selectors: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, Location] = field(default_factory=dict)
    external_file: Callable[[str], str] = lambda _name: ""
    embedder: int = 0
    gone: Callable[[str], bool] = lambda _file: False
    item: Callable[[str, str], Location] = unknown_location
    query: Callable[[str, str], Location] = unknown_location
    labels: Callable[..., Location] = unknown_location

    def text(self, location: Location) -> str:
        """A location as `datasets/diary/corpus.jsonl:12`; the file alone where no line is known, which may be gone.

        Empty where no file is known.
        """
        file, line = location
        if file and not line and self.gone(file):
            return f"{file}, file is gone"
        return f"{file}:{line}" if file and line else file

    def in_gate(self, line: int) -> Location:
        """A line of the gate file; 0 = the file."""
        return (self.gate, line) if self.gate else _NOWHERE

    def of_cause(self, cause: Cause, dataset: str, selectors: Sequence[str]) -> Location:
        """The location of a cause: an edited file, a selector, the model, or the first item with a line or a file."""
        if cause.kind is CauseKind.MODEL:
            return self.in_gate(self.embedder)
        if cause.kind is CauseKind.EXTERNAL and (
            edited := next(filter(None, map(self.external_file, cause.subjects)), "")
        ):
            return edited, 0
        if cause.kind in _CONFIGURED:
            location = next((self.files[name] for name in selectors if name in self.files), _NOWHERE)
            line = next((self.selectors[name] for name in selectors if name in self.selectors), 0)
            return location if location[0] else self.in_gate(line)
        return self.of_items(cause.subjects or ([""] if cause.kind is not CauseKind.UNKNOWN else []), dataset)

    def of_items(self, items: Sequence[str], dataset: str) -> Location:
        """The location of the first of some items that has a line; else their file."""
        location = _NOWHERE
        for item in items:
            location = self.item(dataset, item)
            if location[1]:
                break
        return location

    def of_queries(self, check: SelectorCheck) -> Location:
        """The location of the first query that is relabelled, changed or removed."""
        for why, locate in (("relabelled", self.labels), ("changed", self.query), ("removed", self.query)):
            for query in check.left_out.get(why, ())[:1]:
                return locate(check.dataset, query)
        return _NOWHERE


NO_LOCATIONS = Locations()

LONGEST = 160  # characters of a request or an item that are quoted
_LONGEST_SENTENCE = 2000
_NAMED_IDS = 5  # ids that are named in a sentence
_LEAST = 0.0001  # of what is said of scores
CAUSE_VERDICTS = (Verdict.WORSE, Verdict.INCONCLUSIVE)  # of a metric that something is to blame for


def selector_name(check: SelectorCheck) -> str:
    """A selector with its dataset: `semantic on desk`."""
    return f"{selector_title(check)} on {check.dataset}"


def selector_title(check: SelectorCheck | AcceptedFigures) -> str:
    """A selector's name for people: `agent (= learned/normal, shipped)`."""
    return wording.selector_title(check.selector, check.shipped)


def opening_words(check: Check) -> str:
    """What the first line of a report begins with: a gate that was loosened, a baseline that was accepted anew."""
    clauses = []
    if check.loosened:
        clauses.append(f"the gate was loosened ({_first_texts(map(loosened_text, check.loosened))})")
    if (replaced := check.replacement) is not None:
        figures = [*map(_figure_text, replaced.figures)] or ["same figures"]
        looser = [f"looser: {loosened_text(setting)}" for setting in replaced.loosened]
        origin = f", in place of the one in {replaced.commit}" if replaced.commit else ""
        clauses.append(f"the baseline was accepted anew{origin} ({_first_texts([*looser, *figures])})")
    return "; ".join(clauses)


def loosened_text(setting: Loosened) -> str:
    """A loosened setting on one line, such as `tolerance of recall 0.01 -> 0.9`."""
    if setting.after:
        return f"{setting.setting} {setting.before} -> {setting.after}"
    return f"{setting.setting}: {setting.before} is gone"


def _figure_text(change: FigureChange) -> str:
    """A figure of a baseline that was accepted anew: `bm25 on desk: completeness 47.0% -> 27.9%`."""
    before, after = (_figure(change.metric, value) for value in (change.before, change.after))
    return f"{change.selector} on {change.dataset}: {change.metric} {before} -> {after}"


def _figure(name: str, value: float | None) -> str:
    if value is None:
        return "none"
    if name == "queries":
        return f"{value:,.0f}"
    metric = parse_metric(name)
    return f"{wording.number(metric, value)}{'%' if wording.unit(metric) == '%' else ''}"


def _first_texts(texts: Iterable[str]) -> str:
    """The first few texts, and how many more there are."""
    listed = [*texts]
    remainder = [f"{len(listed) - _NAMED_IDS:,} more"] if len(listed) > _NAMED_IDS else []
    return "; ".join([*listed[:_NAMED_IDS], *remainder])


def shared_notices(check: Check) -> tuple[str, ...]:
    """Notices that all of several selectors have, which need saying once; in their order."""
    first, *following = check.selectors or (None,)
    if first is None or not following:
        return ()
    return tuple(notice for notice in first.notices if all(notice in selector.notices for selector in following))


def nondeterministic_notes(selectors: Sequence[SelectorCheck]) -> Iterator[str]:
    """The notes that lost and gained items leave out nondeterministic queries, where others are counted."""
    for selector in selectors:
        if selector.counted and selector.nondeterministic > 0:
            queries = count(selector.n_with_requirements, "query", "queries")
            n = f"{selector.nondeterministic:,} of {queries} that need something"
            text = f"required items lost and gained of {selector_name(selector)} leave out {n}"
            yield f"{text}: answers differ between repeats"


def counts_tokens(judged: MetricVerdict) -> bool:
    """Whether a metric counts prompt tokens."""
    return parse_metric(judged.metric).declaration.unit == "tokens"


def p_value_note(check: SelectorCheck, judged: MetricVerdict) -> str:
    """`, p 0.031`; empty for a deterministic selector, since every difference is a fact."""
    return "" if check.deterministic else f", p {p_value(judged.comparison)}"


def unmet_text(requirement: UnmetRequirement) -> str:
    """On one line: `rule:a (disabled): required by 2 queries, offered to 1 before, nothing else would do (q1, q2)`."""
    n = count(len(requirement.queries), "query", "queries")
    clause = f"required by {n}, offered to {requirement.before or 'none'} before, and nothing else would do"
    return f"{' or '.join(requirement.items)} ({requirement.why}): {clause} ({first_ones(requirement.queries)})"


def token_change_text(change: TokenChange) -> str:
    """On one line: `tool:a:b costs 540 prompt tokens and cost 120 (schema edited): 4,200 more over 10 queries`."""
    amount = f"{abs(change.tokens):,} {'more' if change.tokens > 0 else 'less'}"
    over = count(len(change.queries), "query", "queries")
    costs = f"costs {change.head:,} prompt tokens and cost {change.base:,}"
    return f"{change.item} {costs} ({change.why}): {amount} over {over}"


def metric_title(judged: MetricVerdict) -> str:
    """A metric with what its numbers count: `completeness %`, `tokens`."""
    metric = parse_metric(judged.metric)
    return f"{metric} %" if wording.unit(metric) == "%" else str(metric)


def means(judged: MetricVerdict) -> str:
    """The means of both sides: `93.1 (90.2-95.5) -> 90.0 (87.1-92.4)`."""
    return " -> ".join(sides(judged))


def sides(judged: MetricVerdict) -> tuple[str, str]:
    """The means of baseline and now, with as many decimals as their difference has, so that they show it."""
    metric = parse_metric(judged.metric)
    _, _, decimals = wording.signed(metric, judged.comparison.difference).partition(".")
    mean = partial(wording.mean, metric, min_decimals=len(decimals) if judged.comparison.difference else 0)
    return mean(judged.base), mean(judged.head)


def difference(metric: Metric, comparison: Comparison) -> str:
    """A difference with its interval: `-3.1 (-6.0 to -1.9)`; the interval is left out where all values are equal."""
    value = wording.signed(metric, comparison.difference)
    interval = wording.difference_interval(metric, comparison)
    return f"{value} ({interval})" if interval and (comparison.higher or comparison.lower) else value


def p_value(comparison: Comparison) -> str:
    """The corrected p-value; a dash where nothing was compared."""
    if not comparison.n or not math.isfinite(comparison.p_holm):
        return wording.NONE
    return wording.p_text(comparison.p_holm, at_floor=comparison.p_holm_at_floor)


def size_text(metric: Metric, value: float | None) -> str:
    """A size in the unit of differences: `1.0 points`, `12 tokens`; a dash for None."""
    if value is None or not math.isfinite(value):
        return wording.NONE
    text = wording.number(metric, value)
    if value and not any(digit in text for digit in "123456789"):
        text = f"{value * (100 if wording.unit(metric) == '%' else 1):.2g}"
    return f"{text} {wording.points(metric)}".rstrip()


def score_text(change: Change) -> str:
    """The score and rank on both sides: `0.4512 -> 0.4321, rank 3 -> 8`; empty where neither side has any."""
    parts = []
    if change.base_score is not None or change.head_score is not None:
        parts.append(f"{_score(change.base_score)} -> {_score(change.head_score)}")
    if change.base_rank is not None or change.head_rank is not None:
        parts.append(f"rank {change.base_rank or 'none'} -> {change.head_rank or 'none'}")
    return ", ".join(parts)


def _score(value: float | None) -> str:
    return "none" if value is None else wording.named(f"{value:.4f}")


def exclusion_text(change: Change) -> str:
    """The rule that excludes an item on the side where it is excluded, and by how much it missed."""
    rule = str(change.rule or "the selector did not find it")
    if change.lost and change.cause.kind is CauseKind.GONE and change.item in change.cause.subjects:
        return "no longer in the catalog"
    if change.rule is not None and change.rule.code == BEYOND_CHUNKS:  # a rank counts items
        rule = f"{rule}, of which an item may have several"
    if change.rule is not None and change.rule.code == NOT_CHOSEN:
        rule = f"{rule}; only your selector knows why"
    if not change.missed_by:
        return rule
    missed = f"{change.missed_by:.4f}" if change.missed_by >= _LEAST else f"less than {_LEAST}"
    return f"{rule}; its score is {missed} too low"


def direction(change: Change) -> str:
    """The direction of a change: `out` or `in`."""
    return "out" if change.lost else "in"


def cause_text(cause: Cause) -> str:
    """A cause on one line: its kind, its phrase, and its subjects unless the phrase names them."""
    subjects = [subject for subject in cause.subjects if subject not in cause.detail]
    if not subjects or not cause.detail:
        return phrase_cause(cause, cause.detail or first_ones(subjects))
    return phrase_cause(cause, f"{cause.detail} ({first_ones(subjects)})")


def first_ones(ids: Sequence[str], limit: int = _NAMED_IDS) -> str:
    """The first ids, and how many more there are: `a, b and 3 more`."""
    if len(ids) <= limit + 1:
        return wording.listed(list(ids))
    return f"{', '.join(ids[:limit])} and {len(ids) - limit:,} more"


def summary_text(figures: AcceptedFigures) -> str:
    """What was accepted, on one line: `bm25 on desk: completeness 24.8%, 3,094 tokens a query, 694 queries`."""
    parts = []
    for metric, value in figures.metrics.items():
        unit, number = wording.unit(metric), wording.number(metric, value)
        if unit == "tokens" and str(metric) == unit:
            parts.append(f"{number} tokens a query")
        elif str(metric) == "total_tokens":
            parts.append(f"{number} with the session's")
        else:
            parts.append(f"{metric} {number}{unit if unit == '%' else f' {unit}'}".rstrip())
    parts += [count(figures.queries, "query", "queries"), *([] if figures.offered else ["nothing offered to any"])]
    return f"{selector_title(figures)} on {figures.dataset}: {', '.join(parts)}"


def id_with_text(check: SelectorCheck, name: str) -> Cell:
    """An id, with the text that belongs to it if there is one."""
    text = clipped(check.texts.get(name, ""))
    return (Quoted(name), Quoted(text)) if text else Quoted(name)


def clipped(text: str, limit: int = LONGEST) -> str:
    """A text on one line, cut behind a word where it is long; a word that is too long by itself is cut."""
    return shortened(" ".join(text[: 4 * limit].split()), limit, at_word=True)


def sentence(text: str) -> str:
    """A sentence on one line, cut where it is very long."""
    return clipped(text, _LONGEST_SENTENCE)


def without_texts(check: Check) -> Check:
    """The check with the texts of requests and items left out; ids stay, and may hold words."""

    def bare(fix: Fix) -> Fix:
        return replace(fix, quoted="")

    def strip(selector: SelectorCheck) -> SelectorCheck:
        return replace(
            selector,
            texts={},
            changes=tuple(replace(change, fix=bare(change.fix)) for change in selector.changes),
            causes=tuple(replace(group, fix=bare(group.fix)) for group in selector.causes),
            pins=tuple(replace(pin, fix=bare(pin.fix)) for pin in selector.pins),
        )

    return replace(check, selectors=tuple(map(strip, check.selectors)))


_PATH = re.compile(r"\b(analyse|retrieve|refine)\.([\w*,]+(?:\.\w+)*)")


def explained_words(
    selectors: Iterable[SelectorCheck], opening: Iterable[Block], sections: Sequence[Section]
) -> Iterator[Text]:
    """What words mean: those of the short form, then as a note those that the full form alone has.

    Args:
        selectors: that tell what their parameters do; one is explained where a value of it is told.
        opening, sections: of the document.
    """
    helps = {name: text for selector in selectors for name, text in selector.helps.items()}
    opened = [*_texts(opening, brief=False)]

    def explain(*, brief: bool) -> dict[str, str]:
        inner = [text for section in sections for text in _texts(section.blocks, brief=brief)]
        return dict(_explanations("\n".join([*opened, *inner]), helps))

    short, full = explain(brief=True), explain(brief=False)
    further = {name: text for name, text in full.items() if name not in short}
    for words, note in ((short, False), (further, True)):
        if words:
            yield Text("; ".join(f"{name}: {meaning.rstrip('.')}" for name, meaning in words.items()) + ".", note=note)


def _explanations(text: str, helps: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if re.search(r"\btotal_tokens\b", text):
        yield "tokens", "of what the selector adds to a prompt"
        yield "total_tokens", "with what the session holds"
    for name, words in helps.items():
        pattern = re.escape(name)
        if re.search(
            rf"\b(?:raise|lower|set|and) {pattern} (?:back )?to |(?<![\w.]){pattern} \S+ -> |(?<![\w.]){pattern}=", text
        ):
            yield name, words
    if path := _PATH.search(text):
        stage, _ = path.groups()
        yield path.group(), f"where it stands in the selector's pipeline, from its stage `{stage}` on"


def _texts(blocks: Iterable[Block], *, brief: bool) -> Iterator[str]:
    """The texts of blocks, headings of tables among them; of the short form alone if `brief`."""
    for block in blocks:
        if isinstance(block, Bullets):
            yield from block.texts
        elif isinstance(block, Text):
            yield block.text
        elif isinstance(block, Table) and (block.brief or not brief):
            yield from block.head
            for row in block.rows:
                yield from (cell if isinstance(cell, str) else " ".join(cell) for cell in row)


_SHOWN = 5  # lines of the gate file that are named


def is_acceptable(check: Check) -> bool:
    """Whether a new baseline would give another outcome: none makes a pin hold, or asks a server."""
    if check.loosened:
        return True
    if check.verdict is Verdict.SAME:
        return any(selector.left_out.get("new") for selector in check.selectors)
    if check.verdict is Verdict.INCONCLUSIVE:
        return any(selector.verdict is Verdict.INCONCLUSIVE and not selector.outdated for selector in check.selectors)
    return check.verdict is not Verdict.WORSE or any(map(_is_worse_without_pins, check.selectors))


def label_advice(renamed: Mapping[str, str], dataset: str, *, over_agent: bool = False) -> str:
    """What to do about labels that name items which the catalog lacks, as a clause.

    Args:
        renamed: old ids to new, of items that go on under another id; empty = there are none.
        dataset: what opens it: its folder or its name.
        over_agent: whether it is over an agent file, so that it can be carried to what that has now.
    """
    must = "labels must fit the catalog again"
    if not renamed:
        command = shlex.join(["ctxbench", "data", "rebase", *([dataset, "--in-place"] if over_agent else [])])
        drops = " drops those of what is gone" if over_agent else ""
        return f"{must} (`{command}`{drops}, or put back what is gone or can no longer be offered)"
    command = shlex.join(["ctxbench", "data", "rebase", dataset, "--renames", "renames.yaml", "--in-place"])
    lines = [f"`{old}: {new}`" for old, new in renamed.items()]
    noun = "line" if len(lines) == 1 else "lines"
    return f"{must} (`{command}`; renames.yaml has the {noun} {first_ones(lines, _SHOWN)})"


def pin_advice(check: Check) -> str:
    """What to do about pins that do not hold; empty if all hold."""
    pins = [pin for selector in check.selectors for pin in selector.pins]
    if not pins:
        return ""
    lines = [f"{line:,}" for line in sorted({pin.line for pin in pins} - {0})]
    location = (
        f"{check.name}, line{'' if len(lines) == 1 else 's'} {first_ones(lines, _SHOWN)}" if lines else check.name
    )
    verb = "a broken pin stays broken" if len(pins) == 1 else "broken pins stay broken"
    return f"{verb} whatever is accepted: change or take out the pin ({location}), or fix the selection"


def _is_worse_without_pins(check: SelectorCheck) -> bool:
    """Whether a selector is worse for something else than its pins."""
    if check.verdict is not Verdict.WORSE:
        return False
    facts = bool(check.unmet) or check.lost - check.gained > check.allowed
    return not check.pins or facts or any(metric.verdict is Verdict.WORSE for metric in check.metrics)


_NAMED_ITEMS = 3  # lost items, and selectors, that are named
_LONGEST = 250  # characters of a reason and a cause
_ENDS = ("; ", ", but ", " (", ": ")  # where a reason or a cause that is longer may end, the best first
_LARGE = 5  # times the tolerance: a difference that is told in short even where it does not decide
_LONGEST_FIX = 250  # characters, with its price; one that is longer stands below only
_MEANT = {Verdict.BETTER: "so that the gain is held", Verdict.NOT_COMPARABLE: "if what differs is meant"}


def summary_sentences(
    selectors: Sequence[SelectorCheck], accept: str = "", *, first: str = "", pins: str = ""
) -> tuple[str, ...]:
    """Summarise a check in a few sentences; none where all is the same and no required item was lost.

    Servers that were not asked are named in any case.

    Args:
        selectors: what is worst first.
        accept: the command that would make the head the baseline; empty where there is none, or it would not help.
        first: what must be done before that; empty = nothing.
        pins: what to do about those that do not hold; empty where all hold.
    """
    return tuple(_sentences(selectors, accept, first=first, pins=pins))


def loss_note(selectors: Sequence[SelectorCheck]) -> str:
    """The end of a sentence about a good verdict: required items that were lost all the same; empty if none was."""
    n = sum(selector.lost for selector in selectors)
    if not n:
        return ""
    gained = sum(selector.gained for selector in selectors)
    also = f" and {gained:,} gained" if gained else ""
    return f", though {count(n, 'required item was', 'required items were')} lost{also}: {_lost(selectors)}"


def _sentences(selectors: Sequence[SelectorCheck], accept: str, *, first: str, pins: str) -> Iterator[str]:
    differ = [selector for selector in selectors if selector.verdict is not Verdict.SAME]
    losing = [selector for selector in selectors if selector.lost]
    if differ:
        worst, *further = differ
        left = len(worst.reasons) - 1
        note = f"; {count(left, 'more reason')} below" if left else ""
        yield f"{selector_name(worst)}: {_first_reason(worst.reasons[0])}{note}"
        if large := _large_undecided(worst):
            yield sentence(f"not told either way: {large}")
        if further:
            yield sentence(f"also {_by_verdict(further)}")
    if losing:
        yield f"lost: {_lost(losing)}"
    costliest = costliest_cause(selectors)
    if costliest is not None:
        cause, fix, of = costliest
        is_single = len({group.cause for selector in selectors for group in selector.causes}) == 1
        named = differ[0] if differ else selectors[0]
        selector_note = "" if of is named else f" ({selector_name(of)})"
        text = f"{'cause' if is_single else 'most costly cause'}{selector_note}: {_clipped(cause_text(cause))}"
        yield (f"{text}; to fix it: {fix}" if fix and len(fix) <= _LONGEST_FIX else text)  # half a fix is none
    reasons = differ[0].reasons[:1] if differ else ()
    servers = dict.fromkeys(reason for selector in selectors for reason in server_reasons(selector.servers))
    yield from (sentence(reason) for reason in servers if reason not in reasons)
    if pins:
        yield pins
    if differ and accept:
        why = _MEANT.get(differ[0].verdict, "if it is meant")
        yield f"to accept it, {why}: {f'{first}, then ' if first else ''}{accept}"


def _first_reason(reason: str) -> str:
    """A reason; of one that is too long only the part before its colon."""
    clipped = _clipped(reason)
    opening, colon, _ = reason.partition(": ")
    return f"{opening}, as told below" if clipped != reason and colon and _clipped(opening) == opening else clipped


def _by_verdict(selectors: Sequence[SelectorCheck]) -> str:
    """Selectors by verdict: `worse: a on d and b on d; better: c on d`."""
    names = wording.grouped((selector.verdict, selector_name(selector)) for selector in selectors)
    return "; ".join(f"{verdict}: {first_ones(titles, _NAMED_ITEMS)}" for verdict, titles in names.items())


def _lost(selectors: Sequence[SelectorCheck]) -> str:
    """Items with the queries that lost them, in whichever selector, what most lost first."""
    lost = [change for check in selectors for change in check.changes if change.lost and change.required]
    by_item = wording.grouped(dict.fromkeys((change.item, change.query) for change in lost))
    ranked = sorted(by_item.items(), key=lambda entry: -len(entry[1]))
    items = [f"{item} ({first_ones(queries, _NAMED_ITEMS)})" for item, queries in ranked]
    return sentence(first_ones(items, _NAMED_ITEMS))


def losses_by_cause(
    selectors: Iterable[SelectorCheck],
) -> dict[tuple[str, Cause], list[tuple[SelectorCheck, CauseGroup]]]:
    """The selectors that lost required items, by dataset and cause, each with its group of that cause."""
    losing = [(selector, group) for selector in selectors for group in selector.causes if group.lost]
    return wording.grouped(((selector.dataset, group.cause), (selector, group)) for selector, group in losing)


def costliest_cause(selectors: Sequence[SelectorCheck]) -> tuple[Cause, str, SelectorCheck] | None:
    """The most costly cause over all selectors, with its suggested fix and its selector; None where none is known.

    The fix is that of one selector on one dataset: of the worst that lost something by this cause.
    Most required items lost net; of equals, the first of the worst selector. Where nothing required was lost, or tokens
    alone decided on the worst selector, what is to blame for the metric that decided.
    """
    by_cause = losses_by_cause(() if selectors and tokens_decided(selectors[0]) else selectors)
    if by_cause:
        (_, cause), losing = min(
            by_cause.items(), key=lambda entry: sum(group.gained - group.lost for _, group in entry[1])
        )
        alike = [entry for (_, group_cause), entries in by_cause.items() if group_cause == cause for entry in entries]
        first = [entry for entry in alike if entry[0] is selectors[0]]  # the one that is told of, where it has a fix
        fixes = [entry for entry in (*first, *losing) if entry[1].fix]
        check, group = (fixes or first or losing)[0]
        return cause, str(group.fix), check
    for selector in selectors:
        for judged in selector.metrics:
            blame = metric_cause(selector, judged)
            if blame is not None and judged.verdict is selector.verdict and judged.verdict in CAUSE_VERDICTS:
                return blame.cause, str(blame.fix), selector
    return None


def tokens_decided(check: SelectorCheck) -> bool:
    """Whether a verdict is what it is for nothing but prompt tokens."""
    facts = check.pins or check.unmet or check.lost - check.gained > check.allowed
    judged = [
        metric for metric in check.metrics if metric.verdict in CAUSE_VERDICTS and metric.verdict is check.verdict
    ]
    return not facts and bool(judged) and all(map(counts_tokens, judged))


def metric_cause(check: SelectorCheck, judged: MetricVerdict) -> CauseGroup | None:
    """The cause that did most to a metric: to tokens the one that adds most, else the first; None where none is.

    What new items add is less by what they pushed out, which they replace.
    """
    if counts_tokens(judged):
        return max(check.causes, key=lambda group: group.tokens + _replaced_tokens(group, check.causes), default=None)
    return next((group for group in check.causes if group.lost or group.gained or group.others), None)


def _replaced_tokens(group: CauseGroup, groups: Sequence[CauseGroup]) -> int:
    """The tokens, 0 or less, of what was pushed out by the new items of a group; 0 for groups of other causes."""
    if group.cause.kind is not CauseKind.NEW:
        return 0
    new = set(group.cause.subjects)
    pushed = (candidate for candidate in groups if candidate.cause.kind is CauseKind.CROWDED)
    return sum(
        candidate.tokens
        for candidate in pushed
        if new.issuperset(candidate.cause.subjects) and candidate.cause.subjects
    )


def _large_undecided(check: SelectorCheck) -> str:
    """The largest inconclusive difference for the worse, with the reason; empty if none is large or not yet named."""
    reason = check.reasons[0] if check.reasons else ""
    undecided = [metric for metric in check.metrics if metric.verdict is Verdict.INCONCLUSIVE]
    left = [metric for metric in undecided if not reason.startswith(f"{metric.metric} ")]
    largest = max(left, key=_in_tolerances, default=None)
    if largest is None or _in_tolerances(largest) <= _LARGE:
        return ""
    return undecided_text(largest, deterministic=check.deterministic)


def _in_tolerances(judged: MetricVerdict) -> float:
    """The size of a difference, in tolerances of its metric."""
    return abs(judged.comparison.difference) / judged.tolerance if judged.tolerance else math.inf


def _clipped(text: str) -> str:
    """A reason or a cause that is very long, up to the end of a part of it; cut behind a word where no part ends."""
    if len(text) <= _LONGEST:
        return clipped(text, _LONGEST)
    parts = (text[:_LONGEST].rpartition(end)[0] for end in _ENDS)
    clause = next((part for part in parts if part and part.count("(") == part.count(")")), "")
    return clause or clipped(text, _LONGEST)


@dataclass(frozen=True)
class Speech:
    """How to address the reader of a check.

    Attributes:
        whole_in: what gives all of it where rows are left out.
        removed: the option that leaves out what is gone.
        codes: whether exit codes are told.
    """

    whole_in: tuple[str, ...] = ("--json", "--markdown FILE")
    removed: str = "--allow-removed"
    codes: bool = True

    def code(self, text: str) -> str:
        """` (exit code 1)`, where exit codes are shown."""
        return f" (exit code {text})" if self.codes else ""


COMMAND, PYTHON = Speech(), Speech(("`changes()`",), "`allow_removed=True`", codes=False)


def conclusion(check: Check, *, strict: bool, accept: str, first: str, speech: Speech) -> Iterator[Block]:
    """The verdict in a sentence, and how to accept it; the arguments are those of `check_document.document`."""
    how = f"{first}, then accept it" if first else "accept it"
    unmet = any(selector.unmet for selector in check.selectors)
    if check.loosened:
        text = f"The gate was loosened{speech.code('2')}: put its settings and pins back ({check.name})."
        text, offer = f"{text} The verdict goes by those of the baseline.", "If they are meant"
    elif check.verdict is Verdict.NOT_COMPARABLE:
        text, offer = f"It cannot be judged{speech.code('2')}: fix what is said above.", "If what differs is meant"
        left_out = {why for selector in check.selectors for why, queries in selector.left_out.items() if queries}
        if left_out & {"removed", "changed", "relabelled"}:
            text += f" Queries that are gone or were relabelled on purpose are left out with {speech.removed}."
    elif check.verdict is Verdict.WORSE:
        text, rest = f"It is worse{speech.code('1')}.", "it"
        if unmet:
            text += f" Required items are gone; if they were removed on purpose, add {speech.removed}: the check then "
            text += "does not fail for that alone."
        if pins := pin_advice(check):
            text, rest = f"{text} {pins[0].upper()}{pins[1:]}.", "the rest"
        groups = [group for selector in check.selectors for group in selector.causes]
        has_fix = unmet or any(group.fix and group.fix.possible for group in groups)
        offer = f"Fix {rest} as said above, or, if it is meant" if has_fix else "If it is meant"
    elif check.verdict is Verdict.INCONCLUSIVE:
        fails = check.exit_code(strict=True)
        code = speech.code(f"{fails} for --strict" if strict else f"0, with --strict {fails}")
        outdated = any(selector.outdated for selector in check.selectors)
        advice = "ask the servers named above again, or fix them" if outdated else "more queries would tell"
        text, offer = f"The check is inconclusive{code}: {advice}.", "If the change is meant"
    elif check.verdict is Verdict.BETTER:
        text, offer = f"It is better{speech.code('0')}{loss_note(check.selectors)}.", "To hold the gain"
    else:
        new = any(selector.left_out.get("new") for selector in check.selectors)
        text = f"Nothing got worse{speech.code('0')}{loss_note(check.selectors)}."
        offer = "To take new queries in" if new else ""
    yield Text(f"{text} {offer}, {how}:" if accept and offer else text)
    yield from _commands(accept, first)


def _commands(accept: str, first: str) -> Iterator[Block]:
    """The command that accepts, or what must be done before there is one."""
    if accept:
        yield Code(accept)
    elif first:
        yield Text(f"`ctxbench run` and `ctxbench check --accept` stop with this dataset: {first}.")
