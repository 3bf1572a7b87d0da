"""A check as JSON, GitHub annotations, GitLab's code quality report and JUnit XML.

Sources: "Workflow commands for GitHub Actions" and actions/toolkit, packages/core/src/command.ts (annotations); "Code
Quality" in GitLab's documentation; junit-10.xsd of Jenkins' xunit plugin (JUnit). Times are 0, so that equal checks
give equal bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ctxbench.datasets.queries import group_pairs
from ctxbench.evaluation.metrics import parse_metric
from ctxbench.evaluation.run_folder import comparison_dict, estimate_dict, finite
from ctxbench.gate.baseline import AcceptedFigures
from ctxbench.gate.results import (
    Cause,
    CauseGroup,
    Change,
    Check,
    MetricVerdict,
    MinimumVerdict,
    PinFailure,
    SelectorCheck,
    TokenChange,
    Verdict,
    whole_detail,
)
from ctxbench.gate.verdict import missed_text, server_reasons, undecided_reason
from ctxbench.io.errors import SHOWN, Fault, count, faults_of, first_few, message_code
from ctxbench.report import check_texts, document
from ctxbench.report.check_texts import NO_LOCATIONS, Location, Locations, metric_cause, unknown_location

FORMAT = 1


def check_dict(check: Check, *, strict: bool = False, locations: Locations = NO_LOCATIONS) -> dict[str, Any]:
    """A check in JSON's types; what has no finite value is None. `error` is None unless it could not be made.

    Args:
        check: what was found.
        strict: whether `inconclusive` fails, for the exit code.
        locations: looks up files and lines.
    """
    return {
        "format": FORMAT,
        "name": locations.gate or check.name,
        "base": check.base,
        "head": check.head,
        "baseline": check.baseline,
        "verdict": str(check.verdict),
        "exit_code": check.exit_code(strict=strict),
        "notices": list(check.notices),
        "unjudged": list(check.unjudged),
        "loosened": [asdict(setting) for setting in check.loosened],
        "replacement": None if check.replacement is None else asdict(check.replacement),
        "selectors": [_selector(selector, locations) for selector in check.selectors],
        "error": None,
    }


def summary_dict(figures: AcceptedFigures) -> dict[str, Any]:
    """What was accepted of a selector on a dataset; a mean of nothing is None."""
    return {
        "dataset": figures.dataset,
        "selector": figures.selector,
        "shipped": figures.shipped,
        "queries": figures.queries,
        "offered": figures.offered,
        "metrics": {str(metric): finite(value) for metric, value in figures.metrics.items()},
    }


def pin_dict(failure: PinFailure) -> dict[str, Any]:
    """A pin that does not hold in JSON's types."""
    fields = asdict(failure)
    del fields["fix"]
    return {**fields, "fix": str(failure.fix)}


def minimum_dict(verdict: MinimumVerdict) -> dict[str, Any]:
    """Whether a minimum is reached, in JSON's types; `code` and `message` are empty if it is."""
    message = missed_text(verdict) if verdict.missed else ""
    return {
        "metric": verdict.metric,
        "at_least": verdict.minimum.value,
        "by": verdict.minimum.by,
        "missed": verdict.missed,
        "now": estimate_dict(verdict.estimate),
        "code": message_code(message),
        "message": message,
    }


def refusal_dict(name: str, error: Exception) -> dict[str, Any]:
    """A check that could not be made, in the form of one that was, with what is wrong as `error`.

    Args:
        name: of what was to be checked.
        error: why it could not be.
    """
    return {
        **check_dict(Check(name=name, base="", head="", selectors=())),
        "error": {"message": str(error), "faults": [_fault(fault) for fault in faults_of(error)]},
    }


def _fault(fault: Fault) -> dict[str, Any]:
    """A fault; parts of its location that are unknown are None."""
    return {
        "message": fault.message,
        "file": None if fault.path is None else Path(fault.path).as_posix(),
        "line": fault.line or None,
        "column": fault.column or None,
    }


def _selector(check: SelectorCheck, locations: Locations) -> dict[str, Any]:
    return {
        "dataset": check.dataset,
        "selector": check.selector,
        "shipped": check.shipped,
        "verdict": str(check.verdict),
        "reasons": list(check.reasons),
        "notices": list(check.notices),
        "differs": check.differs,
        "renamed": dict(check.renamed),
        "successors": dict(check.successors),
        "reused": check.reused,
        "servers": [
            {**asdict(server), "changed": list(server.changed), "unverified": list(server.unverified)}
            for server in check.servers
        ],
        "compared": check.compared,
        "left_out": {why: list(ids) for why, ids in check.left_out.items()},
        "lost": check.lost,
        "gained": check.gained,
        "n_with_requirements": check.n_with_requirements,
        "nondeterministic": check.nondeterministic,
        "allowed": check.allowed,
        "deterministic": check.deterministic,
        "metrics": [_metric(metric, deterministic=check.deterministic) for metric in check.metrics],
        "minimums": [minimum_dict(minimum) for minimum in check.minimums],
        "pins": [pin_dict(pin) for pin in check.pins],
        "unmet": [
            {
                "items": list(requirement.items),
                "why": requirement.why,
                "queries": list(requirement.queries),
                **_location(locations.of_items(requirement.items, check.dataset)),
            }
            for requirement in check.unmet
        ],
        "causes": [
            {**_group(group), **_location(locations.of_cause(group.cause, check.dataset, [check.selector]))}
            for group in check.causes
        ],
        "token_changes": [
            {**asdict(item), "tokens": item.tokens, **_location(locations.item(check.dataset, item.item))}
            for item in check.token_changes
        ],
        "item_changes": [
            {**asdict(change), **_location(locations.item(check.dataset, change.item))} for change in check.item_changes
        ],
        "changes": [_change(change) for change in check.changes],
        "swaps": list(check.swaps),
        "texts": dict(check.texts),
    }


def _location(location: Location) -> dict[str, Any]:
    """A file and a line; what is not known of them is None."""
    file, line = location
    return {"file": file or None, "line": line or None}


def _metric(judged: MetricVerdict, *, deterministic: bool) -> dict[str, Any]:
    """A metric's verdict; p-values of a deterministic selector are None, since every difference is a fact."""
    compared = comparison_dict(judged.comparison)
    if deterministic:
        compared |= {"p": None, "p_floor": None, "p_holm": None, "p_holm_at_floor": None}
    for name in ("better_on", "worse_on"):  # which of both is better is the metric's to say
        del compared[name]
    comparison = judged.comparison
    return {
        "metric": judged.metric,
        "verdict": str(judged.verdict),
        "base": estimate_dict(judged.base),
        "head": estimate_dict(judged.head),
        "comparison": {
            **compared,
            "left_out": comparison.left_out,
            "higher_on": comparison.higher,
            "lower_on": comparison.lower,
            "equal_on": comparison.equal,
            "alpha": comparison.alpha,
        },
        "tolerance": finite(judged.tolerance),
        "detectable": None if judged.detectable is None else finite(judged.detectable),
    }


def _cause(cause: Cause) -> dict[str, Any]:
    return {
        "cause": str(cause.kind),
        "code": cause.code,
        "subjects": list(cause.subjects),
        "detail": whole_detail(cause),
        "values": dict(cause.values),
    }


def _group(group: CauseGroup) -> dict[str, Any]:
    return {
        **_cause(group.cause),
        "lost": group.lost,
        "gained": group.gained,
        "other_changes": group.others,
        "tokens": group.tokens,
        "queries": list(group.queries),
        "fix": str(group.fix),
        "fix_code": group.fix.code,
    }


def _change(change: Change) -> dict[str, Any]:
    def number(value: float | None) -> float | None:
        return None if value is None else finite(value)

    return {
        "query": change.query,
        "item": change.item,
        "direction": check_texts.direction(change),
        "required": change.required,
        "excluded_by": "" if change.rule is None else str(change.rule),
        "exclusion_rule": None if change.rule is None else change.rule.as_dict(),
        "missed_by": number(change.missed_by),
        "base": {"score": number(change.base_score), "rank": change.base_rank},
        "head": {"score": number(change.head_score), "rank": change.head_rank},
        **_cause(change.cause),
        "fix": str(change.fix),
        "fix_code": change.fix.code,
    }


MOST = 10  # errors, and as many warnings, that GitHub shows of a step
_LONGEST = 4000  # characters of a message; GitHub cuts what is much longer


@dataclass(frozen=True, kw_only=True)
class _Note:
    """One annotation.

    Attributes:
        error: whether the check fails for it.
        title: short.
        text: what is wrong.
        kind: of what is wrong, for a code quality report.
        subject: what it is about, without counts, so that it is the same after an edit elsewhere; empty = the title.
        location: looked up only if the annotation is given, since files are read for it.
        column: 1-based; 0 = not known.
    """

    error: bool
    title: str
    text: str
    kind: str = "notice"
    subject: str = ""
    location: Callable[[], Location] = unknown_location
    column: int = 0


def workflow_commands(check: Check, *, locations: Locations = NO_LOCATIONS, strict: bool = False) -> str:
    """Errors for what fails a check, warnings for the rest, most costly first; at most `MOST` of each.

    Args:
        check: what was found.
        locations: looks up files and lines.
        strict: whether `inconclusive` fails.

    Returns:
        One command a line; empty where there is nothing to say.
    """
    return _commands([*_notes(check, locations, strict=strict)], "the summary and in the log")


def code_quality(check: Check, *, locations: Locations = NO_LOCATIONS, strict: bool = False) -> str:
    """The annotations of `workflow_commands`, all of them, as GitLab's code quality report.

    Its fingerprints are the same in the next report if the same is wrong, whatever the counts and the line.

    Args:
        check: what was found.
        locations: looks up files and lines.
        strict: whether `inconclusive` fails.

    Returns:
        JSON on one line, which ends with a line feed.
    """
    return _quality(_notes(check, locations, strict=strict), locations.gate or check.name)


def refusal_quality(faults: Sequence[Fault], *, gate: str, file: Callable[[Path], str] = str) -> str:
    """The code quality report of a check that could not be made.

    Args:
        faults: what is wrong, never empty.
        gate: the file of what is not known to be in any.
        file: names a file from the root of the repository; empty for one that is elsewhere.
    """
    return _quality([_fault_note(fault, file) for fault in faults], gate)


def notice_command(title: str, text: str) -> str:
    """The command for a notice."""
    return f"::notice title={_property(title)}::{_data(text)}\n"


def _quality(notes: Iterable[_Note], gate: str) -> str:
    rows, counts = [], Counter[str]()
    for note in notes:
        file, line = note.location()
        file = file or gate  # GitLab drops what has no file
        name = f"{note.kind}\n{file}\n{note.subject or note.title}"
        counts[name] += 1
        fingerprint = hashlib.sha256(f"{name}\n{counts[name]}".encode("utf-8", "replace")).hexdigest()
        text = document.with_loose_legend(f"{check_texts.clipped(note.title)}: {note.text}"[:_LONGEST])
        rows.append(
            {
                "check_name": f"ctxbench {note.kind}",
                "description": document.on_one_line(text),
                "fingerprint": fingerprint,
                "severity": "major" if note.error else "minor",
                "location": {"path": file, "lines": {"begin": line or 1}},
            }
        )
    return f"{json.dumps(rows)}\n"


def _notes(check: Check, locations: Locations, *, strict: bool) -> Iterator[_Note]:
    """Errors for what fails a check, warnings for the rest, most costly first."""
    yield from _loosened(check, locations)
    yield from _refusals(check, locations)
    yield from _minimum_notes(check, locations)
    yield from _pin_notes(check, locations)
    yield from _unmet_notes(check, locations)
    yield from _causes(check, strict, locations)
    yield from _metric_notes(check, strict, locations)
    yield from _servers(check, strict)
    yield from _always_on_notes(check, strict, locations)
    yield from _token_changes(check, locations)
    yield from _notices(check)


def refusal_commands(faults: Sequence[Fault], *, file: Callable[[Path], str] = str) -> str:
    """The commands for a check that could not be made: one error per fault, at its location; at most `MOST`.

    Args:
        faults: what is wrong, never empty.
        file: names a file from the root of the repository; empty for one that is elsewhere.
    """
    return _commands([_fault_note(fault, file) for fault in faults], "the log")


def _fault_note(fault: Fault, file: Callable[[Path], str]) -> _Note:
    named = "" if fault.path is None else file(Path(fault.path))
    return _Note(
        error=True,
        title="ctxbench check: cannot judge",
        text=fault.message if named else str(fault),
        kind="fault",
        subject=fault.message,
        location=lambda: (named, fault.line),
        column=fault.column if fault.line else 0,
    )


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
        yield _Note(
            error=True,
            title="the gate was loosened",
            text=check_texts.loosened_text(setting),
            kind="loosened gate",
            subject=setting.setting,
            location=partial(locations.in_gate, 1),
        )
    if check.replacement is not None:
        text = check_texts.sentence(check_texts.replacement_text(check))
        yield _Note(error=False, title="baseline replaced", text=text, kind="baseline replaced")


def _refusals(check: Check, locations: Locations) -> Iterator[_Note]:
    """What cannot be compared; selectors of one dataset that have the same reasons together."""
    refused = [selector for selector in check.selectors if selector.verdict is Verdict.NOT_COMPARABLE]
    by_reasons = group_pairs(((selector.dataset, selector.reasons), selector) for selector in refused)
    for (dataset, reasons), selectors in by_reasons.items():
        titles = first_few([check_texts.selector_title(selector) for selector in selectors])
        yield _Note(
            error=True,
            title=f"{titles} on {dataset}: not comparable",
            text=" ".join(reasons),
            kind="not comparable",
            location=partial(locations.of_queries, selectors[0]),
        )


def _minimum_notes(check: Check, locations: Locations) -> Iterator[_Note]:
    for selector in check.selectors:
        for verdict in selector.missed:
            message = missed_text(verdict)
            yield _Note(
                error=True,
                title=_title(selector, f"minimum of {verdict.metric} ({message.code})"),
                text=message,
                kind="minimum",
                location=partial(locations.in_gate, locations.minimums.get(verdict.metric, 0)),
            )


def _pin_notes(check: Check, locations: Locations) -> Iterator[_Note]:
    for selector in check.selectors:
        for pin in selector.pins:
            yield _Note(
                error=True,
                title=_title(selector, f"pin, {pin.query}"),
                text=pin.message,
                kind="pin",
                subject=f"{check_texts.selector_name(selector)}: {pin.query}: {pin.pin}",
                location=partial(locations.in_gate, pin.line),
            )


def _unmet_notes(check: Check, locations: Locations) -> Iterator[_Note]:
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
            kind="required item gone",
            subject=f"{dataset}: {' or '.join(items)}",
            location=partial(_gone, locations, items, requirement.queries[0], dataset),
        )


def _gone(locations: Locations, items: Sequence[str], query: str, dataset: str) -> Location:
    """The location of an item that can no longer be offered; else of the label that requires it."""
    location = locations.of_items(items, dataset)
    return location if location[1] else locations.labels(dataset, query, items[0])


def _causes(check: Check, strict: bool, locations: Locations) -> Iterator[_Note]:
    """Lost items by cause; equal causes of several selectors together."""
    failing = {Verdict.WORSE} | ({Verdict.INCONCLUSIVE} if strict else set())
    ranked = sorted(
        check_texts.losses_by_cause(check.selectors).items(),
        key=lambda entry: -sum(group.lost - group.gained for _, group in entry[1]),
    )
    for (dataset, cause), groups in ranked:
        shares = ". ".join(_share(selector, group) for selector, group in groups)
        yield _Note(
            error=any(selector.lost_verdict in failing for selector, _ in groups),
            title=f"{count(sum(group.lost for _, group in groups), 'required item')} lost on {dataset}"
            + (f" ({cause.code})" if cause.code else ""),
            text=f"{check_texts.sentence(check_texts.cause_text(cause))}. {shares}.",
            kind="required items lost",
            subject=f"{dataset}: {cause.kind}: {', '.join(cause.subjects)}",
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
    fix = f"; to fix it: {group.fix}" if group.fix else ""
    return f"{check_texts.selector_title(check)} lost {group.lost:,} ({first_few(losing)}){fix}"


def _metric_notes(check: Check, strict: bool, locations: Locations) -> Iterator[_Note]:
    """Metrics that fail or may fail, at the location of their cause, if that is known."""
    is_error = {Verdict.WORSE: True, Verdict.INCONCLUSIVE: strict}
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
            if judged.verdict is Verdict.INCONCLUSIVE:
                text += f"; {undecided_reason(judged, deterministic=selector.deterministic)}"
            yield _Note(
                error=is_error[judged.verdict],
                title=_title(selector, f"{judged.metric} {judged.verdict}"),
                text=text if group is None else f"{text}; {check_texts.sentence(check_texts.cause_text(group.cause))}",
                kind="metric",
                location=unknown_location
                if group is None
                else partial(locations.of_cause, group.cause, selector.dataset, [selector.selector]),
            )


def _servers(check: Check, strict: bool) -> Iterator[_Note]:
    """Servers whose tools may differ from those captured, each once."""
    for reason in dict.fromkeys(reason for selector in check.selectors for reason in server_reasons(selector.outdated)):
        yield _Note(
            error=strict and check.verdict is Verdict.INCONCLUSIVE,
            title="ctxbench check: server not asked",
            text=reason,
            kind="server",
            subject=reason,
        )


def _always_on_notes(check: Check, strict: bool, locations: Locations) -> Iterator[_Note]:
    """Always-on items that are gone, no longer always-on or edited, once per dataset."""
    pairs = {
        (selector.dataset, change.item): change for selector in check.selectors for change in selector.item_changes
    }
    for (dataset, item), change in pairs.items():
        if change.always:
            yield _Note(
                error=strict and change.lost and check.verdict is Verdict.INCONCLUSIVE,
                title=f"always-on item changed on {dataset}",
                text=change.text,
                kind="always-on item",
                subject=f"{dataset}: {item}",
                location=partial(locations.item, dataset, item),
            )


def _token_changes(check: Check, locations: Locations) -> Iterator[_Note]:
    """Items that cost more tokens where tokens decide, each at its line, the largest change first; once per dataset."""
    token_changes: dict[tuple[str, str], TokenChange] = {}
    for selector in check.selectors:
        if any(
            check_texts.counts_tokens(judged) and judged.verdict in check_texts.CAUSE_VERDICTS
            for judged in selector.metrics
        ):
            for item in selector.token_changes:
                token_changes.setdefault((selector.dataset, item.item), item)
    for (dataset, name), item in sorted(token_changes.items(), key=lambda entry: -entry[1].tokens):
        if item.tokens > 0:
            yield _Note(
                error=False,
                title=f"item costs more tokens on {dataset}",
                text=check_texts.token_change_text(item),
                kind="tokens",
                subject=f"{dataset}: {name}",
                location=partial(locations.item, dataset, name),
            )


def _notices(check: Check) -> Iterator[_Note]:
    shared = check_texts.shared_notices(check)
    yield from (
        _Note(error=False, title="ctxbench check", text=text, subject=_without_counts(text))
        for text in (*check.notices, *shared)
    )
    yield from (
        _Note(error=False, title=_title(selector, "notice"), text=text, subject=_title(selector, _without_counts(text)))
        for selector in check.selectors
        for text in selector.notices
        if text not in shared
    )


def _without_counts(text: str) -> str:
    """What a notice is about, whatever it counts."""
    return message_code(text) or re.sub(r"\d[\d,.]*", "", text)


def _title(check: SelectorCheck, subject: str) -> str:
    return f"{check_texts.selector_name(check)}: {subject}"


def _command(note: _Note) -> str:
    file, line = note.location()
    where = [f"file={_property(file)}"] if file else []
    where += [f"{name}={value}" for name, value in (("line", line), ("col", note.column)) if file and value]
    named = ",".join([*where, f"title={_property(check_texts.clipped(note.title))}"])
    return (
        f"::{'error' if note.error else 'warning'} {named}::{_data(document.with_loose_legend(note.text)[:_LONGEST])}"
    )


def _data(text: str) -> str:
    """A message as a workflow command holds it."""
    return document.named(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # XML 1.0, production [2]


@dataclass(frozen=True)
class _Case:
    """A case.

    Attributes:
        name: of the case; one that its suite has already gets a number behind it.
        outcome: `failure`, `error` or `skipped`; empty = passed.
        kind: of the failure or error.
        message: what is wrong, or why it is skipped.
    """

    name: str
    outcome: str = ""
    kind: str = ""
    message: str = ""


def junit(check: Check, *, strict: bool = False, locations: Locations = NO_LOCATIONS) -> str:
    """A check as XML; ends with a line feed.

    A suite has one case for whether it is comparable, one a metric, one a minimum, one for the allowance of lost
    required items, one for each of them, one for each that can no longer be offered, and one for each pin that does not
    hold. Worse is a failure, not comparable an error, inconclusive (unless `strict`) and what was lost within the
    allowance, or maybe by chance, are skipped, with the reason.

    Args:
        check: what was found.
        strict: whether `inconclusive` fails.
        locations: looks up files and lines.
    """
    settings = [
        _Case(f"gate: {setting.setting}", "error", "gate loosened", check_texts.loosened_text(setting))
        for setting in check.loosened
    ]
    name = locations.gate or check.name
    suites = [(name, settings)] if settings else []
    suites += [
        (f"{selector.selector} on {selector.dataset}", list(_cases(selector, strict, locations)))
        for selector in check.selectors
    ]
    return _document(name, suites)


def refusal_xml(name: str, faults: Sequence[Fault]) -> str:
    """The XML of a check that could not be made: one error case per fault, named by its location; at most `SHOWN`.

    Args:
        name: of what was to be checked.
        faults: what is wrong, never empty.
    """
    cases = [_Case(fault.location or "comparable", "error", "cannot judge", str(fault)) for fault in faults[:SHOWN]]
    if len(faults) > SHOWN:
        cases.append(_Case("and more", "error", "cannot judge", f"and {len(faults) - SHOWN:,} more"))
    return _document(name, [(name, cases)])


def _cases(check: SelectorCheck, strict: bool, locations: Locations) -> Iterator[_Case]:
    if check.verdict is Verdict.NOT_COMPARABLE:
        yield _Case("comparable", "error", str(check.verdict), " ".join(check.reasons))
        yield from _pin_cases(check)
        return
    yield _Case("comparable")
    yield from _metric_cases(check, strict, locations)
    for verdict in check.minimums:
        missed = {"outcome": "failure", "kind": "minimum", "message": missed_text(verdict)} if verdict.missed else {}
        by = " by lower" * (verdict.minimum.by == "lower")  # a metric may have a minimum of either kind
        yield _Case(f"minimum: {verdict.metric}{by}", **missed)
    for server, reason in zip(check.outdated, server_reasons(check.outdated), strict=True):
        outcome = _outcome(Verdict.INCONCLUSIVE, strict)
        yield _Case(f"server: {server.name}", outcome, str(Verdict.INCONCLUSIVE), reason)
    for lost in (item_change for item_change in check.item_changes if item_change.lost):
        outcome = _outcome(Verdict.INCONCLUSIVE, strict)
        yield _Case(f"always-on item: {lost.item}", outcome, str(Verdict.INCONCLUSIVE), lost.text)
    outcome = _outcome(check.lost_verdict, strict)
    note = "it may be chance: " if check.lost_verdict is Verdict.INCONCLUSIVE else "within what may be lost: "
    message = f"{check.lost} lost, {check.gained} gained, at most {check.allowed} more may be lost than gained"
    if not check.counted:
        outcome, message = (
            "skipped",
            f"not counted: nondeterministic on all {check.nondeterministic:,} queries that need something",
        )
    yield _Case("required items", outcome, str(check.lost_verdict), message if outcome else "")
    for change in check.changes:
        if change.lost and change.required:
            message = _lost(change) if outcome == "failure" else f"{note}{_lost(change)}"
            yield _Case(f"required item: {change.query} {change.item}", outcome or "skipped", "lost", message)
    for requirement in check.unmet:
        yield _Case(
            f"required item gone: {' or '.join(requirement.items)}",
            "failure",
            "gone",
            check_texts.unmet_text(requirement),
        )
    yield from _pin_cases(check)


def _pin_cases(check: SelectorCheck) -> Iterator[_Case]:
    yield from (_Case(f"pin: {pin.query}: {pin.pin}", "failure", "pin", pin.message) for pin in check.pins)


def _outcome(verdict: Verdict, strict: bool) -> str:
    return {Verdict.WORSE: "failure", Verdict.INCONCLUSIVE: "failure" if strict else "skipped"}.get(verdict, "")


def _metric_cases(check: SelectorCheck, strict: bool, locations: Locations) -> Iterator[_Case]:
    """One case per metric; those that fail or may fail name their cause and its location, if these are known."""
    for judged in check.metrics:
        metric = parse_metric(judged.metric)
        message = (
            f"{judged.verdict}: {check_texts.means(judged)}, difference "
            f"{check_texts.difference(metric, judged.comparison)}{check_texts.p_value_note(check, judged)}, "
            f"tolerance {check_texts.size_text(metric, judged.tolerance)}, detectable "
            f"{check_texts.size_text(metric, judged.detectable)}"
        )
        if (outcome := _outcome(judged.verdict, strict)) and (group := metric_cause(check, judged)) is not None:
            where = locations.text(locations.of_cause(group.cause, check.dataset, [check.selector]))
            message += f"; {check_texts.cause_text(group.cause)}{f' ({where})' if where else ''}"
        yield _Case(f"metric: {judged.metric}", outcome, str(judged.verdict), message if outcome else "")


def _lost(change: Change) -> str:
    parts = (
        check_texts.exclusion_text(change),
        check_texts.score_text(change) and f"score {check_texts.score_text(change)}",
        check_texts.cause_text(change.cause),
        str(change.fix),
    )
    return "; ".join(filter(None, parts))


def _document(name: str, suites: list[tuple[str, list[_Case]]]) -> str:
    from xml.etree.ElementTree import Element, SubElement, indent, tostring  # which a check without JUnit spares

    cases = [case for _, suite_cases in suites for case in suite_cases]
    root = Element("testsuites", {"name": _legal(name), **_counts(cases, skipped=False), "time": "0"})
    for suite, suite_cases in suites:
        element = SubElement(root, "testsuite", {"name": _legal(suite), **_counts(suite_cases), "time": "0"})
        for case, name in zip(suite_cases, _distinct([case.name for case in suite_cases]), strict=True):
            testcase = SubElement(element, "testcase", {"name": _legal(name), "classname": _legal(suite), "time": "0"})
            if case.outcome:
                kind = {"type": _legal(case.kind)} if case.outcome != "skipped" else {}
                message = _legal(document.with_loose_legend(check_texts.sentence(case.message)))
                SubElement(testcase, case.outcome, {**kind, "message": message}).text = message
    indent(root)
    return f"<?xml version='1.0' encoding='utf-8'?>\n{tostring(root, encoding='unicode')}\n"


def _distinct(names: list[str]) -> Iterator[str]:
    """The names, repeated ones with a number appended."""
    counts: Counter[str] = Counter()
    for name in names:
        counts[name] += 1
        yield name if counts[name] == 1 else f"{name} ({counts[name]})"


def _counts(cases: list[_Case], *, skipped: bool = True) -> dict[str, str]:
    """How many cases ended how; the schema has no skipped ones at the root."""
    outcomes = Counter(case.outcome for case in cases)
    counts = {"tests": len(cases), "failures": outcomes["failure"], "errors": outcomes["error"]}
    return {name: str(n) for name, n in (counts | ({"skipped": outcomes["skipped"]} if skipped else {})).items()}


def _legal(text: str) -> str:
    """The text with characters that XML cannot hold replaced by U+FFFD."""
    return _ILLEGAL.sub("\ufffd", text)
