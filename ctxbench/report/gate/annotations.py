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
from ctxbench.report.gate.places import Location, Locations, unknown_location

MOST = 10  # errors, and as many warnings, that GitHub shows of a step
_LONGEST = 4000  # characters of a message; GitHub cuts what is much longer


@dataclass(frozen=True, kw_only=True)
class _Note:
    """One annotation.

    Attributes:
        error: whether the check fails for it.
        title: short.
        text: what is wrong.
        location: looked up only if the annotation is given, since files are read for it.
        column: 1-based; 0 = not known.
    """

    error: bool
    title: str
    text: str
    location: Callable[[], Location] = unknown_location
    column: int = 0


def workflow_commands(check: Check, *, locations: Locations | None = None, strict: bool = False) -> str:
    """Errors for what fails a check, warnings for the rest, most costly first; at most `MOST` of each.

    Args:
        check: what was found.
        locations: looks up files and lines.
        strict: whether `cannot tell` fails.

    Returns:
        One command a line; empty where there is nothing to say.
    """
    locations = locations or Locations()
    facts = [*_pins(check, locations), *_unmet(check, locations), *_causes(check, strict, locations)]
    loosened, refusals, servers = _loosened(check, locations), _refusals(check, locations), _servers(check, strict)
    notes = [*loosened, *refusals, *facts, *_metrics(check, strict, locations), *servers, *_repriced(check, locations)]
    return _commands([*notes, *_notices(check)], "the summary and in the log")


def refusal(faults: Sequence[Fault], *, file: Callable[[Path], str] = str) -> str:
    """The commands for a check that could not be made: one error per fault, at its location; at most `MOST`.

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
            location=lambda: (named, fault.line),
            column=fault.column if fault.line else 0,
        )

    return _commands([note(fault) for fault in faults], "the log")


def _commands(notes: Sequence[_Note], elsewhere: str) -> str:
    """The commands, errors first, at most `MOST` of each kind; the last one counts those left out."""
    lines = []
    for error in (True, False):
        of_kind = [note for note in notes if note.error is error]
        visible = of_kind if len(of_kind) <= MOST else of_kind[: MOST - 1]
        lines += [_command(note) for note in visible]
        if len(of_kind) > len(visible):
            text = f"{len(of_kind) - len(visible):,} more stand in {elsewhere} of this step"
            lines.append(_command(_Note(error=error, title="ctxbench check", text=text)))
    return "".join(f"{line}\n" for line in lines)


def _loosened(check: Check, locations: Locations) -> Iterator[_Note]:
    """The settings that are looser than the baseline's, and a baseline that was accepted anew."""
    for setting in check.loosened:
        location = partial(locations.in_gate, 1)
        yield _Note(
            error=True, title="the gate was loosened", text=check_texts.loosened_text(setting), location=location
        )
    if check.replacement is not None:
        text = check_texts.opening_words(replace(check, loosened=()))
        yield _Note(error=False, title="baseline accepted anew", text=check_texts.sentence(text))


def _refusals(check: Check, locations: Locations) -> Iterator[_Note]:
    """What cannot be compared; selectors of one dataset that have the same reasons together."""
    by_reasons: dict[tuple[str, tuple[str, ...]], list[SelectorCheck]] = {}
    for selector in check.selectors:
        if selector.verdict is Verdict.NOT_COMPARABLE:
            by_reasons.setdefault((selector.dataset, selector.reasons), []).append(selector)
    for (dataset, reasons), selectors in by_reasons.items():
        titles = check_texts.first_ones([check_texts.selector_title(selector) for selector in selectors])
        title = f"{titles} on {dataset}: not comparable"
        yield _Note(
            error=True, title=title, text=" ".join(reasons), location=partial(locations.of_queries, selectors[0])
        )


def _pins(check: Check, locations: Locations) -> Iterator[_Note]:
    for selector in check.selectors:
        for pin in selector.pins:
            location = partial(locations.in_gate, pin.line)
            yield _Note(error=True, title=_title(selector, f"pin, {pin.query}"), text=pin.message, location=location)


def _unmet(check: Check, locations: Locations) -> Iterator[_Note]:
    """Requirements that can no longer be offered, once per dataset: all its selectors lack them."""
    requirements = {
        (selector.dataset, requirement.items): requirement
        for selector in check.selectors
        for requirement in selector.unmet
    }
    for (dataset, items), requirement in requirements.items():
        yield _Note(
            error=True,
            title=f"required item gone from {dataset}",
            text=check_texts.unmet_text(requirement),
            location=partial(_gone, locations, items, requirement.queries[0], dataset),
        )


def _gone(locations: Locations, items: Sequence[str], query: str, dataset: str) -> Location:
    """The location of an item that can no longer be offered; else of the label that requires it."""
    location = locations.of_items(items, dataset)
    return location if location[1] else locations.labels(dataset, query, items[0])


def _causes(check: Check, strict: bool, locations: Locations) -> Iterator[_Note]:
    """Lost items by cause; equal causes of several selectors together."""
    failing = {Verdict.WORSE} | ({Verdict.CANNOT_TELL} if strict else set())
    by_cause: dict[tuple[str, Cause], list[tuple[SelectorCheck, CauseGroup]]] = {}
    for selector in check.selectors:
        for group in selector.causes:
            if group.lost:
                by_cause.setdefault((selector.dataset, group.cause), []).append((selector, group))
    ranked = sorted(by_cause.items(), key=lambda entry: -sum(group.lost - group.gained for _, group in entry[1]))
    for (dataset, cause), groups in ranked:
        shares = ". ".join(_share(selector, group) for selector, group in groups)
        yield _Note(
            error=any(selector.lost_verdict in failing for selector, _ in groups),
            title=f"{count(sum(group.lost for _, group in groups), 'required item')} lost on {dataset}",
            text=f"{check_texts.sentence(check_texts.cause_text(cause))}. {shares}.",
            location=partial(locations.of_cause, cause, dataset, [selector.selector for selector, _ in groups]),
        )


def _share(check: SelectorCheck, group: CauseGroup) -> str:
    """The items that a selector lost by a cause. A group may cover several causes of one kind."""
    lost = {
        change.query
        for change in check.changes
        if change.lost and change.required and change.cause.kind is group.cause.kind
    }
    losing = [query for query in group.queries if query in lost]
    remedy = f"; to mend it: {group.remedy}" if group.remedy else ""
    return f"{check_texts.selector_title(check)} lost {group.lost:,} ({check_texts.first_ones(losing)}){remedy}"


def _metrics(check: Check, strict: bool, locations: Locations) -> Iterator[_Note]:
    """Metrics that fail or may fail, at the location of their cause, if that is known."""
    is_error = {Verdict.WORSE: True, Verdict.CANNOT_TELL: strict}
    for selector in check.selectors:
        for judged in selector.metrics:
            if judged.verdict not in is_error:
                continue
            metric, group = parse_metric(judged.metric), metric_cause(selector, judged)
            text = (
                f"{check_texts.metric_title(judged)} {check_texts.means(judged)}, "
                f"difference {check_texts.difference(metric, judged.comparison)}"
                f"{check_texts.p_value_note(selector, judged)}, "
                f"tolerance {check_texts.size_text(metric, judged.tolerance)}"
            )
            if judged.verdict is Verdict.CANNOT_TELL:
                text += f"; {undecided_reason(judged, deterministic=selector.deterministic)}"
            yield _Note(
                error=is_error[judged.verdict],
                title=_title(selector, f"{judged.metric} {judged.verdict}"),
                text=text if group is None else f"{text}; {check_texts.sentence(check_texts.cause_text(group.cause))}",
                location=unknown_location
                if group is None
                else partial(locations.of_cause, group.cause, selector.dataset, [selector.selector]),
            )


def _servers(check: Check, strict: bool) -> Iterator[_Note]:
    """Servers whose tools may differ from those captured, each once."""
    for reason in dict.fromkeys(reason for selector in check.selectors for reason in server_reasons(selector.outdated)):
        error = strict and check.verdict is Verdict.CANNOT_TELL
        yield _Note(error=error, title="ctxbench check: server not asked", text=reason)


def _repriced(check: Check, locations: Locations) -> Iterator[_Note]:
    """Items that cost more tokens where tokens decide, each at its line, the largest change first; once per dataset."""
    price_changes: dict[tuple[str, str], PriceChange] = {}
    for selector in check.selectors:
        if any(
            check_texts.counts_tokens(judged) and judged.verdict in check_texts.CAUSE_VERDICTS
            for judged in selector.metrics
        ):
            for item in selector.repriced:
                price_changes.setdefault((selector.dataset, item.item), item)
    for (dataset, name), item in sorted(price_changes.items(), key=lambda entry: -entry[1].tokens):
        if item.tokens > 0:
            location = partial(locations.item, dataset, name)
            yield _Note(
                error=False,
                title=f"item dearer on {dataset}",
                text=check_texts.price_change_text(item),
                location=location,
            )


def _notices(check: Check) -> Iterator[_Note]:
    shared = check_texts.shared_notices(check)
    for text in (*check.notices, *shared):
        yield _Note(error=False, title="ctxbench check", text=text)
    for selector in check.selectors:
        for text in selector.notices:
            if text not in shared:
                yield _Note(error=False, title=_title(selector, "notice"), text=text)


def _title(check: SelectorCheck, subject: str) -> str:
    return f"{check_texts.selector_name(check)}: {subject}"


def _command(note: _Note) -> str:
    file, line = note.location()
    where = [f"file={_property(file)}"] if file else []
    where += [f"{name}={value}" for name, value in (("line", line), ("col", note.column)) if file and value]
    named = ",".join([*where, f"title={_property(check_texts.clipped(note.title))}"])
    return f"::{'error' if note.error else 'warning'} {named}::{_data(wording.with_loose_legend(note.text)[:_LONGEST])}"


def _data(text: str) -> str:
    """A message as a workflow command holds it."""
    return wording.named(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
