"""A check as workflow commands, which GitHub shows as annotations of the lines that were changed.

Source: "Workflow commands for GitHub Actions", and for what is escaped actions/toolkit, packages/core/src/command.ts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias

from ctxbench.errors import Fault
from ctxbench.evaluation.gate.model import Cause, CauseGroup, CauseKind, Change, Check, SelectorCheck, Verdict
from ctxbench.evaluation.metrics import parse_metric
from ctxbench.reporting import wording
from ctxbench.reporting.gate import texts
from ctxbench.reporting.gate.short import blamed

MOST = 10  # errors, and as many warnings, that GitHub shows of a step
_LONGEST = 4000  # characters of a message; GitHub cuts what is much longer
_NOWHERE = ("", 0)
_CONFIGURED = (CauseKind.PARAMETER, CauseKind.CODE, CauseKind.OUTSIDE)  # causes that lie in a selector, not in an item

Place: TypeAlias = tuple[str, int]
"""A file, relative to the repository, and its 1-based line; 0 = all of the file, ("", 0) = not known."""


def _nowhere(_dataset: str, _name: str) -> Place:
    return _NOWHERE


def _unknown() -> Place:
    return _NOWHERE


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where things stand.

    Attributes:
        gate: the gate file; empty where there is none.
        selectors: lines of the gate file by the names of selectors.
        embedder: the line of the gate file that names the model; 0 = none does.
        item: the place of an item by dataset and id.
        query: that of a query, likewise.
        labels: that of the first label of a query, likewise.
    """

    gate: str = ""
    selectors: Mapping[str, int] = field(default_factory=dict)
    embedder: int = 0
    item: Callable[[str, str], Place] = _nowhere
    query: Callable[[str, str], Place] = _nowhere
    labels: Callable[[str, str], Place] = _nowhere

    def in_gate(self, line: int) -> Place:
        """A line of the gate file; 0 = the file."""
        return (self.gate, line) if self.gate else _NOWHERE

    def of_cause(self, cause: Cause, dataset: str, selectors: Sequence[str]) -> Place:
        """Where what was changed stands: a selector, the model, or the first item that has a line, else their file."""
        if cause.kind is CauseKind.MODEL:
            return self.in_gate(self.embedder)
        if cause.kind in _CONFIGURED:
            return self.in_gate(next((self.selectors[name] for name in selectors if name in self.selectors), 0))
        found = _NOWHERE
        for item in cause.subjects or ([""] if cause.kind is not CauseKind.UNKNOWN else []):
            found = self.item(dataset, item)
            if found[1]:
                break
        return found

    def of_queries(self, check: SelectorCheck) -> Place:
        """Where the first query stands that is asked or labelled otherwise, or could."""
        for why, place in (("relabelled", self.labels), ("changed", self.query), ("removed", self.query)):
            for query in check.left_out.get(why, ())[:1]:
                return place(check.dataset, query)
        return _NOWHERE


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
    place: Callable[[], Place] = _unknown
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
    judged = [*_metrics(check, strict, places), *_latency(check, strict)]
    notes = [*_refusals(check, places), *_pins(check, places), *_causes(check, strict, places), *judged]
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


def _refusals(check: Check, places: Places) -> Iterator[_Note]:
    """What cannot be compared; selectors of one dataset that have the same reasons together."""
    found: dict[tuple[str, tuple[str, ...]], list[SelectorCheck]] = {}
    for one in check.selectors:
        if one.verdict is Verdict.NOT_COMPARABLE:
            found.setdefault((one.dataset, one.reasons), []).append(one)
    for (dataset, reasons), held in found.items():
        title = f"{texts.some([one.selector for one in held])} on {dataset}: not comparable"
        yield _Note(error=True, title=title, text=" ".join(reasons), place=partial(places.of_queries, held[0]))


def _pins(check: Check, places: Places) -> Iterator[_Note]:
    for one in check.selectors:
        for pin in one.pins:
            place = partial(places.in_gate, pin.line)
            yield _Note(error=True, title=_title(one, f"pin, {pin.query}"), text=pin.message, place=place)


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
        yield _Note(
            error=any(one.lost_verdict in failing for one, _ in groups),
            title=f"{wording.count(sum(group.lost for _, group in groups), 'required item')} lost on {dataset}",
            text=f"{texts.sentence(texts.cause(cause))}. {'. '.join(_share(one, group) for one, group in groups)}.",
            place=partial(places.of_cause, cause, dataset, [one.selector for one, _ in groups]),
        )


def _share(one: SelectorCheck, group: CauseGroup) -> str:
    """What a selector lost for a cause. A group may stand for several causes of one kind."""
    lost = {change.query for change in one.changes if change.lost and change.required and _kind(change, group)}
    losing = [query for query in group.queries if query in lost]
    mend = f"; to mend it: {group.mend}" if group.mend else ""
    return f"{one.selector} lost {group.lost:,} ({texts.some(losing)}){mend}"


def _kind(change: Change, group: CauseGroup) -> bool:
    return change.cause.kind is group.cause.kind


def _metrics(check: Check, strict: bool, places: Places) -> Iterator[_Note]:
    """Metrics that fail or may; at the place of what is to blame for it, if that is known."""
    told = {Verdict.WORSE: True, Verdict.CANNOT_TELL: strict}
    for one in check.selectors:
        for judged in one.metrics:
            if judged.verdict not in told:
                continue
            metric, group = parse_metric(judged.metric), blamed(one, judged)
            text = (
                f"{texts.title(judged)} {texts.mean(metric, judged.base)} -> {texts.mean(metric, judged.head)}, "
                f"difference {texts.difference(metric, judged.comparison)}, "
                f"p {texts.p_value(judged.comparison)}, tolerance {texts.amount(metric, judged.tolerance)}"
            )
            yield _Note(
                error=told[judged.verdict],
                title=_title(one, f"{judged.metric} {judged.verdict}"),
                text=text if group is None else f"{text}; {texts.sentence(texts.cause(group.cause))}",
                place=_unknown if group is None else partial(places.of_cause, group.cause, one.dataset, [one.selector]),
            )


def _latency(check: Check, strict: bool) -> Iterator[_Note]:
    told = {Verdict.WORSE: True, Verdict.CANNOT_TELL: strict}
    for one in check.selectors:
        if one.latency is not None and one.latency.verdict in told:
            title = _title(one, f"latency {one.latency.verdict}")
            yield _Note(error=told[one.latency.verdict], title=title, text=texts.latency(one.latency))


def _notices(check: Check) -> Iterator[_Note]:
    shared = texts.shared_notices(check)
    for text in (*check.notices, *shared):
        yield _Note(error=False, title="ctxbench check", text=text)
    for one in check.selectors:
        for text in one.notices:
            if text not in shared:
                yield _Note(error=False, title=_title(one, "notice"), text=text)


def _title(one: SelectorCheck, what: str) -> str:
    return f"{texts.named(one)}: {what}"


def _command(note: _Note) -> str:
    file, line = note.place()
    where = [f"file={_property(file)}"] if file else []
    where += [f"{name}={value}" for name, value in (("line", line), ("col", note.column)) if file and value]
    named = ",".join([*where, f"title={_property(texts.clipped(note.title))}"])
    return f"::{'error' if note.error else 'warning'} {named}::{_data(note.text[:_LONGEST])}"


def _data(text: str) -> str:
    """A message as a workflow command holds it."""
    return wording.named(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
