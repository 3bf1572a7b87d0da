"""A check as workflow commands, which GitHub shows as annotations of the lines that were changed.

Source: "Workflow commands for GitHub Actions", and for what is escaped actions/toolkit, packages/core/src/command.ts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ctxbench.bench.metrics import parse_metric
from ctxbench.core.errors import Fault
from ctxbench.gate.model import Cause, CauseGroup, Check, PriceChange, SelectorCheck, Verdict
from ctxbench.gate.verdict import server_reasons, undecided_reason
from ctxbench.io.visible import count
from ctxbench.report import wording
from ctxbench.report.gate import check_texts
from ctxbench.report.gate.check_summary import metric_cause
from ctxbench.report.gate.places import Place, Places, unknown_place

MOST = 10  # errors, and as many warnings, that GitHub shows of a step
_LONGEST = 4000  # characters of a message; GitHub cuts what is much longer


@dataclass(frozen=True, kw_only=True)
class _Note:
    """One annotation.

    Attributes:
        error: whether the check fails for it.
        title: short.
        text: what is wrong.
        place: looked up only if the annotation is given, since files are read for it.
        column: 1-based; 0 = not known.
    """

    error: bool
    title: str
    text: str
    place: Callable[[], Place] = unknown_place
    column: int = 0


def workflow_commands(check: Check, *, places: Places | None = None, strict: bool = False) -> str:
    """Errors for what fails a check, warnings for the rest, most costly first; at most `MOST` of each.

    Args:
        check: what was found.
        places: where things stand.
        strict: whether `cannot tell` fails.

    Returns:
        One command a line; empty where there is nothing to say.
    """
    places = places or Places()
    facts = [*_pins(check, places), *_unmet(check, places), *_causes(check, strict, places)]
    loosened, refusals, servers = _loosened(check, places), _refusals(check, places), _servers(check, strict)
    notes = [*loosened, *refusals, *facts, *_metrics(check, strict, places), *servers, *_repriced(check, places)]
    return _commands([*notes, *_notices(check)], "the summary and in the log")


def refusal(faults: Sequence[Fault], *, file: Callable[[Path], str] = str) -> str:
    """The commands for a check that could not be made: an error a fault, at its place; at most `MOST`.

    Args:
        faults: what is wrong, never empty.
        file: names a file from the root of the repository; empty for one that is elsewhere.
    """

    def note(fault: Fault) -> _Note:
        named = "" if fault.path is None else file(Path(fault.path))
        return _Note(
            error=True,
            title="ctxbench check: cannot judge",
            text=fault.message if named else str(fault),
            place=lambda: (named, fault.line),
            column=fault.column if fault.line else 0,
        )

    return _commands([note(fault) for fault in faults], "the log")


def _commands(notes: Sequence[_Note], elsewhere: str) -> str:
    """Errors first; of either kind as many as are shown, the last of them how many more there are, and where."""
    lines = []
    for error in (True, False):
        of_kind = [note for note in notes if note.error is error]
        kept = of_kind if len(of_kind) <= MOST else of_kind[: MOST - 1]
        lines += [_command(note) for note in kept]
        if len(of_kind) > len(kept):
            more = f"{len(of_kind) - len(kept):,} more stand in {elsewhere} of this step"
            lines.append(_command(_Note(error=error, title="ctxbench check", text=more)))
    return "".join(f"{line}\n" for line in lines)


def _loosened(check: Check, places: Places) -> Iterator[_Note]:
    """The settings that are looser than the baseline's, and a baseline that was accepted anew."""
    for one in check.loosened:
        place = partial(places.in_gate, 1)
        yield _Note(error=True, title="the gate was loosened", text=check_texts.loosened_text(one), place=place)
    if check.replacement is not None:
        text = check_texts.opening_words(replace(check, loosened=()))
        yield _Note(error=False, title="baseline accepted anew", text=check_texts.sentence(text))


def _refusals(check: Check, places: Places) -> Iterator[_Note]:
    """What cannot be compared; selectors of one dataset that have the same reasons together."""
    found: dict[tuple[str, tuple[str, ...]], list[SelectorCheck]] = {}
    for one in check.selectors:
        if one.verdict is Verdict.NOT_COMPARABLE:
            found.setdefault((one.dataset, one.reasons), []).append(one)
    for (dataset, reasons), held in found.items():
        title = (
            f"{check_texts.first_ones([check_texts.selector_title(one) for one in held])} on {dataset}: not comparable"
        )
        yield _Note(error=True, title=title, text=" ".join(reasons), place=partial(places.of_queries, held[0]))


def _pins(check: Check, places: Places) -> Iterator[_Note]:
    for one in check.selectors:
        for pin in one.pins:
            place = partial(places.in_gate, pin.line)
            yield _Note(error=True, title=_title(one, f"pin, {pin.query}"), text=pin.message, place=place)


def _unmet(check: Check, places: Places) -> Iterator[_Note]:
    """What can no longer be offered, once a dataset: all its selectors lack it."""
    found = {(one.dataset, lacking.items): lacking for one in check.selectors for lacking in one.unmet}
    for (dataset, items), lacking in found.items():
        yield _Note(
            error=True,
            title=f"required item gone from {dataset}",
            text=check_texts.unmet_text(lacking),
            place=partial(_gone, places, items, lacking.queries[0], dataset),
        )


def _gone(places: Places, items: Sequence[str], query: str, dataset: str) -> Place:
    """Where an item stands that can no longer be offered; else the label that requires it."""
    found = places.of_items(items, dataset)
    return found if found[1] else places.labels(dataset, query, items[0])


def _causes(check: Check, strict: bool, places: Places) -> Iterator[_Note]:
    """Lost items by cause; equal causes of several selectors together."""
    failing = {Verdict.WORSE} | ({Verdict.CANNOT_TELL} if strict else set())
    found: dict[tuple[str, Cause], list[tuple[SelectorCheck, CauseGroup]]] = {}
    for one in check.selectors:
        for group in one.causes:
            if group.lost:
                found.setdefault((one.dataset, group.cause), []).append((one, group))
    ranked = sorted(found.items(), key=lambda entry: -sum(group.lost - group.gained for _, group in entry[1]))
    for (dataset, cause), groups in ranked:
        shares = ". ".join(_share(one, group) for one, group in groups)
        yield _Note(
            error=any(one.lost_verdict in failing for one, _ in groups),
            title=f"{count(sum(group.lost for _, group in groups), 'required item')} lost on {dataset}",
            text=f"{check_texts.sentence(check_texts.cause_text(cause))}. {shares}.",
            place=partial(places.of_cause, cause, dataset, [one.selector for one, _ in groups]),
        )


def _share(one: SelectorCheck, group: CauseGroup) -> str:
    """What a selector lost for a cause. A group may stand for several causes of one kind."""
    lost = {
        change.query
        for change in one.changes
        if change.lost and change.required and change.cause.kind is group.cause.kind
    }
    losing = [query for query in group.queries if query in lost]
    remedy = f"; to mend it: {group.remedy}" if group.remedy else ""
    return f"{check_texts.selector_title(one)} lost {group.lost:,} ({check_texts.first_ones(losing)}){remedy}"


def _metrics(check: Check, strict: bool, places: Places) -> Iterator[_Note]:
    """Metrics that fail or may; at the place of what is to blame for it, if that is known."""
    told = {Verdict.WORSE: True, Verdict.CANNOT_TELL: strict}
    for one in check.selectors:
        for judged in one.metrics:
            if judged.verdict not in told:
                continue
            metric, group = parse_metric(judged.metric), metric_cause(one, judged)
            text = (
                f"{check_texts.metric_title(judged)} {check_texts.means(judged)}, "
                f"difference {check_texts.difference(metric, judged.comparison)}"
                f"{check_texts.p_value_note(one, judged)}, "
                f"tolerance {check_texts.size_text(metric, judged.tolerance)}"
            )
            if judged.verdict is Verdict.CANNOT_TELL:
                text += f"; {undecided_reason(judged, deterministic=one.deterministic)}"
            yield _Note(
                error=told[judged.verdict],
                title=_title(one, f"{judged.metric} {judged.verdict}"),
                text=text if group is None else f"{text}; {check_texts.sentence(check_texts.cause_text(group.cause))}",
                place=unknown_place
                if group is None
                else partial(places.of_cause, group.cause, one.dataset, [one.selector]),
            )


def _servers(check: Check, strict: bool) -> Iterator[_Note]:
    """Servers whose tools may differ from those captured, each once."""
    for reason in dict.fromkeys(reason for one in check.selectors for reason in server_reasons(one.outdated)):
        error = strict and check.verdict is Verdict.CANNOT_TELL
        yield _Note(error=error, title="ctxbench check: server not asked", text=reason)


def _repriced(check: Check, places: Places) -> Iterator[_Note]:
    """Items that cost more where tokens decide, each at its line, what adds most first; once a dataset."""
    found: dict[tuple[str, str], PriceChange] = {}
    for one in check.selectors:
        if any(
            check_texts.counts_tokens(judged) and judged.verdict in check_texts.CAUSE_VERDICTS for judged in one.metrics
        ):
            for item in one.repriced:
                found.setdefault((one.dataset, item.item), item)
    for (dataset, name), item in sorted(found.items(), key=lambda entry: -entry[1].tokens):
        if item.tokens > 0:
            place = partial(places.item, dataset, name)
            yield _Note(
                error=False, title=f"item dearer on {dataset}", text=check_texts.price_change_text(item), place=place
            )


def _notices(check: Check) -> Iterator[_Note]:
    shared = check_texts.shared_notices(check)
    for text in (*check.notices, *shared):
        yield _Note(error=False, title="ctxbench check", text=text)
    for one in check.selectors:
        for text in one.notices:
            if text not in shared:
                yield _Note(error=False, title=_title(one, "notice"), text=text)


def _title(one: SelectorCheck, what: str) -> str:
    return f"{check_texts.selector_name(one)}: {what}"


def _command(note: _Note) -> str:
    file, line = note.place()
    where = [f"file={_property(file)}"] if file else []
    where += [f"{name}={value}" for name, value in (("line", line), ("col", note.column)) if file and value]
    named = ",".join([*where, f"title={_property(check_texts.clipped(note.title))}"])
    return f"::{'error' if note.error else 'warning'} {named}::{_data(wording.with_loose_legend(note.text)[:_LONGEST])}"


def _data(text: str) -> str:
    """A message as a workflow command holds it."""
    return wording.named(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
