"""Sentences about a check: summary, conclusion, acceptance, and locations in files."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

from ctxbench.datasets.queries import group_pairs
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
from ctxbench.gate.verdict import missed_text
from ctxbench.io.errors import count, first_few
from ctxbench.model.candidates import BEYOND_CHUNKS, NOT_CHOSEN
from ctxbench.report import document
from ctxbench.report.document import Block, Bullets, Cell, Quoted, Table

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
        folder: the one that commands run in, relative to the repository; empty = its root, or not known.
        selectors: lines of the gate file by the names of selectors.
        files: locations of selectors that stand in a file of their own, such as an agent file, likewise.
        external_file: the file that an external selector names, relative to the repository; empty where there is none.
        embedder: the line of the gate file that names the model; 0 = none does.
        minimums: the lines of the gate file that set minimums, by metric.
        gone: whether a file of a location is no longer there.
        left_out: why a file gives an agent no item, by dataset and file; empty where that is not known.
        item: the location of an item by dataset and id.
        query: that of a query, likewise.
        labels: that of a query's label of an item, or of its first one, by dataset, query and, if wanted, item.
    """

    gate: str = ""
    folder: str = ""
    selectors: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, Location] = field(default_factory=dict)
    external_file: Callable[[str], str] = lambda _name: ""
    embedder: int = 0
    minimums: Mapping[str, int] = field(default_factory=dict)
    gone: Callable[[str], bool] = lambda _file: False
    left_out: Callable[[str, str], str] = lambda _dataset, _file: ""
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
_LEAST = 0.0001  # of what is said of scores
ALLOW_REMOVED = "--allow-removed"  # the option that leaves out what was removed on purpose
CAUSE_VERDICTS = (Verdict.WORSE, Verdict.INCONCLUSIVE)  # of a metric that something is to blame for


def selector_name(check: SelectorCheck) -> str:
    """A selector with its dataset: `semantic on desk`."""
    return f"{selector_title(check)} on {check.dataset}"


def selector_title(check: SelectorCheck | AcceptedFigures) -> str:
    """A selector's name for people: `agent (= learned/normal, shipped)`."""
    return document.selector_title(check.selector, check.shipped)


def replacement_text(check: Check) -> str:
    """That the baseline was accepted anew: all looser settings, the first changed figures; empty where it was not."""
    if (replaced := check.replacement) is None:
        return ""
    looser = [f"looser: {loosened_text(setting)}" for setting in replaced.loosened]
    figures = [*_figure_texts(replaced.figures)] or ["same figures"]
    origin = f" since {replaced.commit}" if replaced.commit else ""
    return f"baseline replaced{origin} ({', '.join([*looser, first_few(figures)])})"


def loosened_text(setting: Loosened) -> str:
    """A loosened setting on one line, such as `tolerance of recall 0.01 -> 0.9`."""
    if setting.after:
        return f"{setting.setting} {setting.before} -> {setting.after}"
    return f"{setting.setting}: {setting.before} is gone"


def _figure_texts(figures: Sequence[FigureChange]) -> Iterator[str]:
    """The figures of a baseline that was accepted anew, a text for each selector; new and removed selectors last.

    Such as `bm25 on desk: completeness 47.0% -> 27.9%`, or `dense on desk is new`.
    """
    by_selector = group_pairs(((change.dataset, change.selector), change) for change in figures)
    whole = {key: change for key, changes in by_selector.items() for change in changes if change.metric == "queries"}
    states = {
        key: "new" if change.before is None else "removed"
        for key, change in whole.items()
        if None in (change.before, change.after)  # a selector that is in both has its queries in both
    }
    for (dataset, selector), changes in by_selector.items():
        if (dataset, selector) not in states:
            names = ("before", "after")
            texts = [
                f"{change.metric} {' -> '.join(_figure(change.metric, getattr(change, name)) for name in names)}"
                for change in changes
            ]
            yield f"{selector} on {dataset}: {', '.join(texts)}"
    yield from (f"{selector} on {dataset} is {state}" for (dataset, selector), state in states.items())


def _figure(name: str, value: float | None) -> str:
    if value is None:
        return "none"
    return f"{value:,.0f}" if name == "queries" else document.with_unit(parse_metric(name), value)


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


def unmet_text(requirement: UnmetRequirement, where: str = "") -> str:
    """On one line: `rule:a (disabled): required by 2 queries (q1 and q2); no accepted alternative`.

    Args:
        requirement: of a dataset.
        where: what follows the queries, such as ` on desk`.
    """
    queries = f"{_counted_queries(requirement.queries)}{where}"
    return f"{' or '.join(requirement.items)} ({requirement.why}): required by {queries}; no accepted alternative"


def token_change_text(change: TokenChange) -> str:
    """On one line: `tool:a:b costs 540 prompt tokens and cost 120 (schema edited): 4,200 more over 10 queries`."""
    amount = f"{abs(change.tokens):,} {'more' if change.tokens > 0 else 'less'}"
    over = count(len(change.queries), "query", "queries")
    costs = f"costs {change.head:,} prompt tokens and cost {change.base:,}"
    return f"{change.item} {costs} ({change.why}): {amount} over {over}"


def metric_title(judged: MetricVerdict) -> str:
    """A metric with what its numbers count: `completeness %`, `tokens`."""
    metric = parse_metric(judged.metric)
    return f"{metric} %" if document.unit(metric) == "%" else str(metric)


def means(judged: MetricVerdict) -> str:
    """The means of both sides: `93.1 (90.2-95.5) -> 90.0 (87.1-92.4)`."""
    return " -> ".join(sides(judged))


def sides(judged: MetricVerdict) -> tuple[str, str]:
    """The means of baseline and now, with as many decimals as their difference has, so that they show it."""
    mean = partial(document.mean, parse_metric(judged.metric), min_decimals=_decimals(judged))
    return mean(judged.base), mean(judged.head)


def difference(metric: Metric, comparison: Comparison) -> str:
    """A difference with its interval: `-3.1 (-6.0 to -1.9)`; the interval is left out where all values are equal."""
    value = document.signed(metric, comparison.difference)
    interval = document.difference_interval(metric, comparison)
    return f"{value} ({interval})" if interval and (comparison.higher or comparison.lower) else value


def p_value(comparison: Comparison) -> str:
    """The corrected p-value; a dash where nothing was compared."""
    if not comparison.n or not math.isfinite(comparison.p_holm):
        return document.NONE
    return document.p_text(comparison.p_holm, at_floor=comparison.p_holm_at_floor)


def size_text(metric: Metric, value: float | None) -> str:
    """A size in the unit of differences: `1.0 points`, `12 tokens`; a dash for None."""
    if value is None or not math.isfinite(value):
        return document.NONE
    text = document.number(metric, value)
    if value and not any(digit in text for digit in "123456789"):
        text = f"{value * (100 if document.unit(metric) == '%' else 1):.2g}"
    return f"{text} {document.points(metric)}".rstrip()


def score_text(change: Change) -> str:
    """The score and rank on both sides: `0.4512 -> 0.4321, rank 3 -> 8`; empty where neither side has any."""
    parts = []
    if change.base_score is not None or change.head_score is not None:
        parts.append(f"{_score(change.base_score)} -> {_score(change.head_score)}")
    if change.base_rank is not None or change.head_rank is not None:
        parts.append(f"rank {change.base_rank or 'none'} -> {change.head_rank or 'none'}")
    return ", ".join(parts)


def _score(value: float | None) -> str:
    return "none" if value is None else document.named(f"{value:.4f}")


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
    return f"{rule}; the lowest offered score is {missed} higher"


def direction(change: Change) -> str:
    """The direction of a change: `out` or `in`."""
    return "out" if change.lost else "in"


def cause_text(cause: Cause) -> str:
    """A cause on one line: its kind, its phrase, and its subjects unless the phrase names them."""
    subjects = [subject for subject in cause.subjects if subject not in cause.detail]
    if not subjects or not cause.detail:
        return phrase_cause(cause, cause.detail or first_few(subjects))
    return phrase_cause(cause, f"{cause.detail} ({first_few(subjects)})")


def summary_text(figures: AcceptedFigures) -> str:
    """What was accepted, on one line: `bm25 on desk: completeness 24.8%, 3,094 tokens a query, 694 queries`."""
    parts = []
    for metric, value in figures.metrics.items():
        unit, number = document.unit(metric), document.number(metric, value)
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


def explained_words(selectors: Iterable[SelectorCheck], blocks: Iterable[Block]) -> str:
    """What the parameters and metrics mean that blocks name; empty where none needs an explanation."""
    helps = {name: text for selector in selectors for name, text in selector.helps.items()}
    words = dict(_explanations("\n".join(_texts(blocks)), helps))
    return "; ".join(f"{name}: {meaning.rstrip('.')}" for name, meaning in words.items()) + "." * bool(words)


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
        yield path.group(), f"its position in the selector's pipeline, from the stage `{stage}`"


def _texts(blocks: Iterable[Block]) -> Iterator[str]:
    """The texts of blocks, headings of tables among them."""
    for block in blocks:
        if isinstance(block, Bullets):
            yield from block.texts
        elif isinstance(block, Table):
            yield from block.head
            for row in block.rows:
                yield from (cell if isinstance(cell, str) else " ".join(cell) for cell in row)


def is_acceptable(check: Check) -> bool:
    """Whether a new baseline would give another outcome: none makes a pin hold, or asks a server."""
    if check.loosened:
        return True
    if check.verdict is Verdict.SAME:
        return bool(always_on_changes(check)) or any(selector.left_out.get("new") for selector in check.selectors)
    if check.verdict is Verdict.INCONCLUSIVE:
        return any(selector.verdict is Verdict.INCONCLUSIVE and not selector.outdated for selector in check.selectors)
    return check.verdict is not Verdict.WORSE or any(map(_is_worse_without_pins, check.selectors))


def label_advice(
    renamed: Mapping[str, str], likely: Mapping[str, str], *, dataset: str, agent: str = "", captured: bool = False
) -> str:
    """What to do about labels that name items which the catalog lacks, as a clause.

    Args:
        renamed: old ids to new, of items that go on under another id; empty = there are none.
        likely: the same of items that may go on under another id.
        dataset: its folder or its name, for the command.
        agent: the agent file that it is over, so that it can be carried to what that has now; empty = it is over none.
        captured: whether the agent's servers were asked anew, which another machine has to do as well.
    """
    options = ["--renames", "renames.yaml"] if renamed or likely else []
    arguments = [dataset, *options, "--in-place"] if options or agent else []
    certain, uncertain = (", ".join(f"`{old}: {new}`" for old, new in ids.items()) for ids in (renamed, likely))
    lines = ", ".join(filter(None, [certain, f"if they are the same items {uncertain}" if uncertain else ""]))
    commands = [["data", "capture", "--agent", agent]] if agent and captured else []
    commands.append(["data", "rebase", *arguments])
    command = " && ".join(shlex.join(["ctxbench", *words]) for words in commands)
    return f"update the labels (`{command}`{f'; renames.yaml: {lines}' if options else ''}) or put the items back"


def pin_advice(check: Check) -> str:
    """What to do about broken pins; empty if all pins hold."""
    pins = [pin for selector in check.selectors for pin in selector.pins]
    lines = [f"{line:,}" for line in sorted({pin.line for pin in pins} - {0})]
    where = f"{check.name}, line{'s' * (len(lines) > 1)} {first_few(lines)}" if lines else check.name
    return f"Broken pin: fix the selection, or change the pin ({where})" if pins else ""


def _is_worse_without_pins(check: SelectorCheck) -> bool:
    """Whether a selector is worse for something else than its pins and minimums, which no new baseline changes."""
    if check.verdict is not Verdict.WORSE:
        return False
    facts = bool(check.unmet) or check.lost - check.gained > check.allowed
    return not (check.pins or check.missed) or facts or any(metric.verdict is Verdict.WORSE for metric in check.metrics)


_NAMED_IDS_BRIEFLY = 3  # ids that a line of the short form names
_N_LOSSES, _N_CAUSES = 4, 3  # lines and causes of the short form
_LARGE_LOSS = 0.1  # of a share, 10 points


def answer(check: Check) -> str:
    """The first line of a report: the verdict with its main reason, or how much was checked and found the same."""
    ranked = ranked_selectors(check)
    if check.loosened:
        return f"{check.verdict}: the gate was loosened ({first_few([*map(loosened_text, check.loosened)])})"
    if not ranked:
        return f"{check.verdict}: no selector was compared"
    if check.verdict is Verdict.SAME:
        return f"{check.verdict}: {_size(ranked)}; {_changes_text(ranked)}{_unasked_text(ranked)}"
    return f"{check.verdict}: {selector_name(ranked[0])}: {_main_reason(ranked[0])}"


def ranked_selectors(check: Check) -> list[SelectorCheck]:
    """The selectors of a check, the worst verdict first."""
    return sorted(check.selectors, key=lambda selector: selector.verdict.severity)


def _main_reason(check: SelectorCheck) -> str:
    """Why a selector has its verdict, in counts and means; its first reason where these do not tell."""
    counted = check.lost - check.gained > check.allowed or (check.gained and check.verdict is Verdict.BETTER)
    lost, n_unmet = count(check.lost, "required item"), len(check.unmet)
    facts = {
        f"{lost} lost, {check.gained:,} gained (allowed: {check.allowed:,})": counted,
        f"{count(n_unmet, 'required item')} can no longer be offered": n_unmet,
        f"{count(len(check.pins), 'pin')} broken": check.pins,
    }
    clauses = [
        *(clause for clause, applies in facts.items() if applies),
        *map(missed_text, check.missed),
        *(
            f"{judged.metric} {_mean(judged, judged.base.value)} -> {_mean(judged, judged.head.value)}"
            for judged in check.metrics
            if judged.verdict is check.verdict
        ),
    ]
    judges = check.verdict not in (Verdict.NOT_COMPARABLE, Verdict.SAME)
    is_sure = not (check.outdated or any(change.lost for change in check.item_changes))
    return "; ".join(clauses) if clauses and judges and is_sure else check.reasons[0].rstrip(".")


def _mean(judged: MetricVerdict, value: float) -> str:
    """A mean of a metric with its unit, with as many decimals as the difference has: `27.5%`."""
    return document.with_unit(parse_metric(judged.metric), value, min_decimals=_decimals(judged))


def _decimals(judged: MetricVerdict) -> int:
    """How many decimals the difference of a metric has; 0 where there is none."""
    difference = judged.comparison.difference
    return len(document.signed(parse_metric(judged.metric), difference).partition(".")[2]) if difference else 0


def _size(selectors: Sequence[SelectorCheck]) -> str:
    """How much was checked: `2 datasets, 3 selectors, 1,204 queries`."""
    queries = {selector.dataset: selector.compared for selector in selectors}
    names = {selector.selector for selector in selectors}
    n = count(sum(queries.values()), "query", "queries")
    return f"{count(len(queries), 'dataset')}, {count(len(names), 'selector')}, {n}"


def _changes_text(selectors: Sequence[SelectorCheck]) -> str:
    """What changed although the verdict is `same`."""
    if n := sum(len(selector.changes) for selector in selectors):
        return f"{count(n, 'change')} of what is offered, no loss beyond the tolerances{_detectable_text(selectors)}"
    return "no item moved" if any(selector.differs for selector in selectors) else "nothing changed"


def _detectable_text(selectors: Sequence[SelectorCheck]) -> str:
    """From where a loss is significant, if that takes a large one: of the metric that needs the largest."""
    sizes = {judged.metric: judged.detectable or 0.0 for selector in selectors for judged in selector.metrics}
    shares = [name for name in sizes if parse_metric(name).declaration.scale in ("yes/no", "share")]
    metric = max(shares, key=sizes.__getitem__, default="")
    if not metric or sizes[metric] < _LARGE_LOSS:
        return ""
    size = size_text(parse_metric(metric), sizes[metric])
    return f" (on so few queries, a loss of {metric} is significant from about {size})"


def _unasked_text(selectors: Sequence[SelectorCheck]) -> str:
    names = dict.fromkeys(server.name for selector in selectors for server in selector.servers)
    return f"; servers not asked: {first_few([*names])}" if names else ""


def other_verdicts(check: Check) -> str:
    """What a short report tells besides its first line: other verdicts, a new baseline, what is not judged."""
    further = [selector for selector in ranked_selectors(check)[1:] if selector.verdict is not Verdict.SAME]
    names = group_pairs((selector.verdict, selector_name(selector)) for selector in further)
    clauses = [f"{verdict}: {first_few(titles, _NAMED_IDS_BRIEFLY)}" for verdict, titles in names.items()]
    text = f"also {'; '.join(clauses)}" if clauses else ""
    new = {selector.dataset: ids for selector in check.selectors if (ids := selector.left_out.get("new"))}
    not_judged = [f"new on {dataset}, not judged: {_counted_queries(queries)}" for dataset, queries in new.items()]
    return "; ".join(filter(None, [replacement_text(check), text, *not_judged, *check.unjudged]))


def losses(check: Check) -> list[str]:
    """What was lost, a line each: required items that are gone, minimums, pins, items by the queries that lost them.

    A loss that several selectors have on a dataset is listed once, as the worst of them has it. Where several datasets
    are checked, each line names its dataset.
    """
    gone: dict[tuple[str, ...], str] = {}
    missed: list[str] = []
    pins: dict[tuple[str, ...], str] = {}
    ends = {selector.dataset: f" on {selector.dataset}" for selector in check.selectors}
    ends = ends if len(ends) > 1 else {}
    for selector in ranked_selectors(check):
        dataset, end = selector.dataset, ends.get(selector.dataset, "")
        for requirement in selector.unmet:
            gone.setdefault((dataset, *requirement.items), unmet_text(requirement, end))
        missed += [f"{text.code} {selector_name(selector)}: {text}" for text in map(missed_text, selector.missed)]
        for pin in selector.pins:
            line = f" on line {pin.line}" if pin.line else ""
            pins.setdefault((dataset, pin.query, pin.pin), f"pin{line}: {pin.query}{end}: {pin.message}")
    pairs = group_pairs(((dataset, item), query) for dataset, item, query in _lost(check))
    by_item = sorted(pairs.items(), key=lambda entry: -len(entry[1]))
    gone_items = {(dataset, item) for dataset, *items in gone for item in items}
    lost = [
        f"{item}: lost for {_counted_queries(queries)}{ends.get(name, '')}"
        for (name, item), queries in by_item
        if (name, item) not in gone_items
    ]
    return _first_lines([*gone.values(), *missed, *pins.values(), *lost])


def n_lost(check: Check) -> int:
    """How many required items were lost over all queries; one that several selectors lost on a dataset counts once."""
    return len(_lost(check))


def _lost(check: Check) -> dict[tuple[str, str, str], None]:
    """The required items that were lost: dataset, item and query, each once, in their order."""
    return {
        (selector.dataset, change.item, change.query): None
        for selector in check.selectors
        for change in selector.changes
        if change.lost and change.required
    }


def always_on_changes(check: Check) -> list[str]:
    """The always-on items that are gone, no longer always-on or edited, a line each."""
    texts = (change.text for selector in check.selectors for change in selector.item_changes if change.always)
    return _first_lines([*dict.fromkeys(texts)])


def removed_items(check: Check) -> str:
    """The other removed items that no label requires, on one line; empty where there are none."""
    changes = (change for selector in check.selectors for change in selector.item_changes if not change.always)
    return first_few([*dict.fromkeys(change.item for change in changes)])


def problems(check: Check) -> list[str]:
    """Why selectors cannot be compared besides the first reason, and what notices say; nothing for other verdicts."""
    refused = [selector for selector in ranked_selectors(check) if selector.verdict is Verdict.NOT_COMPARABLE]
    reasons = [f"{selector_name(selector)}: {reason}" for selector in refused for reason in selector.reasons]
    notices = [notice for selector in refused for notice in selector.notices]
    return _first_lines([*dict.fromkeys([*reasons[1:], *check.notices, *notices])] if refused else [])


def _first_lines(lines: Sequence[str]) -> list[str]:
    """As many lines as the short form has room for; the last counts those left out."""
    n_left = len(lines) - _N_LOSSES
    return [*map(sentence, lines if n_left <= 0 else [*lines[: _N_LOSSES - 1], f"and {n_left + 1:,} more"])]


def _counted_queries(queries: Sequence[str]) -> str:
    """How many queries, and the first of them: `2 queries (q1 and q2)`."""
    return f"{count(len(queries), 'query', 'queries')} ({first_few(queries, _NAMED_IDS_BRIEFLY)})"


def causes(check: Check, locations: Locations, *, details: str = "") -> list[str]:
    """The main causes with file, line and code, and with their suggested fix on a second line; the last counts others.

    Args:
        check: what was found.
        locations: of what it is about.
        details: the option that shows all causes; empty = there is none.
    """
    texts, found = [], main_causes(ranked_selectors(check))
    for selector, group in found[:_N_CAUSES]:
        location = locations.of_cause(group.cause, selector.dataset, [selector.selector])
        where, is_gone = locations.text(location), group.cause.kind is CauseKind.GONE
        why = locations.left_out(selector.dataset, location[0]) if is_gone and location[0] else ""
        counts = ", ".join(f"{n:,} {word}" for n, word in ((group.lost, "lost"), (group.gained, "gained")) if n)
        phrase = "; ".join(filter(None, [cause_text(group.cause), why]))
        cause = f"{group.cause.code} {phrase}{f' ({counts})' if counts else ''}".lstrip()
        lines = [f"{where}: {cause}" if where else cause, f"fix: {group.fix}" if group.fix else ""]
        texts.append("\n".join(map(sentence, filter(None, lines))))
    n_more = len(found) - _N_CAUSES
    return [*texts, f"and {count(n_more, 'more cause')}{details and f': {details}'}"] if n_more > 0 else texts


def main_causes(selectors: Sequence[SelectorCheck]) -> list[tuple[SelectorCheck, CauseGroup]]:
    """The causes to tell first, each with a selector that has it, preferably one with a suggested fix.

    Those of lost required items, most items lost net first. Where nothing required was lost, or tokens alone decided on
    the worst selector, what is to blame for the metric that decided.
    """
    if by_cause := losses_by_cause(() if selectors and tokens_decided(selectors[0]) else selectors):
        costliest = sorted(by_cause.values(), key=lambda groups: sum(group.gained - group.lost for _, group in groups))
        return [next((pair for pair in pairs if pair[1].fix), pairs[0]) for pairs in costliest]
    for selector in selectors:
        for judged in selector.metrics:
            blame = metric_cause(selector, judged)
            if blame is not None and judged.verdict is selector.verdict and judged.verdict in CAUSE_VERDICTS:
                return [(selector, blame)]
    return []


def next_steps(check: Check, *, accept: str, first: str, removed: str) -> list[str]:
    """What to do next, a sentence each.

    Args:
        check: what was found.
        accept: the command that accepts the head as the baseline; empty = there is none.
        first: what must be done before that; empty = nothing.
        removed: the option that leaves out what was removed on purpose.
    """
    verdict, is_refused = check.verdict, check.verdict is Verdict.NOT_COMPARABLE and not check.loosened
    left_out = {why for selector in check.selectors for why, queries in selector.left_out.items() if queries}
    pins, before = pin_advice(check), f"{first}, then " if first else ""
    purposes = {Verdict.BETTER: "To keep the gain"}
    if not always_on_changes(check):
        purposes[Verdict.SAME] = "To include the new queries"
    purpose = "If the change is intended" if check.loosened else purposes.get(verdict, "If the change is intended")
    steps = {
        _first_step(check): True,
        f"Queries removed or relabelled on purpose: leave them out with {removed}.": is_refused
        and left_out & {"removed", "changed", "relabelled"},
        f"Items removed on purpose: add {removed}.": any(selector.unmet for selector in check.selectors),
        "Below a minimum: improve the selection; a new baseline does not change that.": any(
            selector.missed for selector in check.selectors
        ),
        f"{pins}.": pins,
        f"{purpose}, {before}accept it:": accept,
        f"Before this dataset is used again, {first}.": first and not accept,
    }
    return [step for step, applies in steps.items() if step and applies]


def _first_step(check: Check) -> str:
    """What a verdict asks for first; empty if it asks for nothing."""
    if check.loosened:
        return f"Restore the settings and pins of {check.name}; the verdict is by those of the baseline."
    if check.verdict is Verdict.NOT_COMPARABLE:
        return "Nothing was judged: fix the problem above."
    if check.verdict is Verdict.INCONCLUSIVE:
        outdated = [server for selector in check.selectors for server in selector.outdated]
        if any(server.error for server in outdated):
            return "Correct the servers that did not answer, for the reason above, and check again."
        command = shlex.join(["ctxbench", "check", check.name, "--recapture"])
        if outdated:
            return f"Ask the servers again: `{command}`."
        verdicts = {metric.verdict for selector in check.selectors for metric in selector.metrics}
        verdicts |= {selector.lost_verdict for selector in check.selectors}
        return "Label more queries to decide it." if Verdict.INCONCLUSIVE in verdicts else ""
    groups = (group for selector in check.selectors for group in selector.causes)
    can_fix = any(group.fix and group.fix.possible and group.lost for group in groups)
    return "Apply the suggested fix." if can_fix and check.verdict is Verdict.WORSE else ""


def losses_by_cause(
    selectors: Iterable[SelectorCheck],
) -> dict[tuple[str, Cause], list[tuple[SelectorCheck, CauseGroup]]]:
    """The selectors that lost required items, by dataset and cause, each with its group of that cause."""
    losing = [(selector, group) for selector in selectors for group in selector.causes if group.lost]
    return group_pairs(((selector.dataset, group.cause), (selector, group)) for selector, group in losing)


def tokens_decided(check: SelectorCheck) -> bool:
    """Whether a verdict is what it is for nothing but prompt tokens."""
    facts = check.pins or check.missed or check.unmet or check.lost - check.gained > check.allowed
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
