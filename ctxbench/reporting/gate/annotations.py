"""A check as workflow commands, which GitHub shows as annotations of the lines that were changed.

Source: "Workflow commands for GitHub Actions", and for what is escaped actions/toolkit, packages/core/src/command.ts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ctxbench.evaluation.gate.model import Cause, CauseGroup, Change, Check, SelectorCheck, Verdict
from ctxbench.evaluation.metrics import parse_metric
from ctxbench.reporting import wording
from ctxbench.reporting.gate import texts

MOST = 10  # errors, and as many warnings, that GitHub shows of a step
_LONGEST = 4000  # characters of a message; GitHub cuts what is much longer
_NOWHERE = ("", 0)

Place: TypeAlias = tuple[str, int]
"""A file, relative to the repository, and its 1-based line; ("", 0) = not known."""


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where things stand.

    Attributes:
        gate: the gate file; empty where there is none.
        item: the place of an item by dataset and id.
    """

    gate: str = ""
    item: Callable[[str, str], Place] = lambda _dataset, _item: _NOWHERE


@dataclass(frozen=True, kw_only=True)
class _Note:
    """One annotation, not yet looked up.

    Attributes:
        error: whether the check fails for it.
        title: short.
        text: what is wrong.
        dataset, items: whose place is the annotation's, the first that has one.
        line: of the gate file; 0 = none.
    """

    error: bool
    title: str
    text: str
    dataset: str = ""
    items: Sequence[str] = ()
    line: int = 0


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
    judged = [*_metrics(check, strict), *_latency(check, strict)]
    notes = [*_refusals(check), *_pins(check), *_causes(check, strict), *judged, *_notices(check)]
    lines = []
    for error in (True, False):
        of_kind = [note for note in notes if note.error is error]
        kept = of_kind if len(of_kind) <= MOST else of_kind[: MOST - 1]
        lines += [_command(note, places) for note in kept]
        if len(of_kind) > len(kept):
            more = f"{len(of_kind) - len(kept):,} more stand in the summary and in the log of this step"
            lines.append(_command(_Note(error=error, title="ctxbench check", text=more), places))
    return "".join(f"{line}\n" for line in lines)


def refusal(message: str) -> str:
    """The one command for a check that could not be made; ends with a line feed."""
    return _command(_Note(error=True, title="ctxbench check: cannot judge", text=message), Places()) + "\n"


def _refusals(check: Check) -> Iterator[_Note]:
    for one in check.selectors:
        if one.verdict is Verdict.NOT_COMPARABLE:
            yield _Note(error=True, title=_title(one, "not comparable"), text=" ".join(one.reasons))


def _pins(check: Check) -> Iterator[_Note]:
    for one in check.selectors:
        for pin in one.pins:
            yield _Note(error=True, title=_title(one, f"pin, {pin.query}"), text=pin.message, line=pin.line)


def _causes(check: Check, strict: bool) -> Iterator[_Note]:
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
            dataset=dataset,
            items=cause.subjects,
        )


def _share(one: SelectorCheck, group: CauseGroup) -> str:
    """What a selector lost for a cause. A group may stand for several causes of one kind."""
    lost = {change.query for change in one.changes if change.lost and change.required and _kind(change, group)}
    losing = [query for query in group.queries if query in lost]
    mend = f"; to mend it: {group.mend}" if group.mend else ""
    return f"{one.selector} lost {group.lost:,} ({texts.some(losing)}){mend}"


def _kind(change: Change, group: CauseGroup) -> bool:
    return change.cause.kind is group.cause.kind


def _metrics(check: Check, strict: bool) -> Iterator[_Note]:
    told = {Verdict.WORSE: True, Verdict.CANNOT_TELL: strict}
    for one in check.selectors:
        for judged in one.metrics:
            if judged.verdict in told:
                metric = parse_metric(judged.metric)
                text = (
                    f"{texts.title(judged)} {texts.mean(metric, judged.base)} -> {texts.mean(metric, judged.head)}, "
                    f"difference {texts.difference(metric, judged.comparison)}, "
                    f"p {texts.p_value(judged.comparison)}, tolerance {texts.amount(metric, judged.tolerance)}"
                )
                title = _title(one, f"{judged.metric} {judged.verdict}")
                yield _Note(error=told[judged.verdict], title=title, text=text)


def _latency(check: Check, strict: bool) -> Iterator[_Note]:
    told = {Verdict.WORSE: True, Verdict.CANNOT_TELL: strict}
    for one in check.selectors:
        if one.latency is not None and one.latency.verdict in told:
            title = _title(one, f"latency {one.latency.verdict}")
            yield _Note(error=told[one.latency.verdict], title=title, text=texts.latency(one.latency))


def _notices(check: Check) -> Iterator[_Note]:
    for text in check.notices:
        yield _Note(error=False, title="ctxbench check", text=text)
    for one in check.selectors:
        for text in one.notices:
            yield _Note(error=False, title=_title(one, "notice"), text=text)


def _title(one: SelectorCheck, what: str) -> str:
    return f"{one.selector} on {one.dataset}: {what}"


def _command(note: _Note, places: Places) -> str:
    file, line = (places.gate, note.line) if note.line and places.gate else _NOWHERE
    for item in note.items:
        if line:
            break
        file, line = places.item(note.dataset, item)
    where = [f"file={_property(file)}", f"line={line}"] if file and line else []
    named = ",".join([*where, f"title={_property(texts.clipped(note.title))}"])
    return f"::{'error' if note.error else 'warning'} {named}::{_data(note.text[:_LONGEST])}"


def _data(text: str) -> str:
    """A message as a workflow command holds it."""
    return wording.named(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
