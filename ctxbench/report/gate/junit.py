"""A check as JUnit XML: one suite per dataset and selector.

Source of the form: junit-10.xsd of Jenkins' xunit plugin; times are 0, so that equal checks give equal bytes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from ctxbench.bench.metrics import parse_metric
from ctxbench.core.errors import SHOWN, Fault
from ctxbench.gate.model import Change, Check, SelectorCheck, Verdict
from ctxbench.gate.verdict import server_reasons
from ctxbench.report import wording
from ctxbench.report.gate import check_texts
from ctxbench.report.gate.check_summary import metric_cause
from ctxbench.report.gate.places import Locations

_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # XML 1.0, production [2]
_KINDS = ("failure", "error", "skipped")


@dataclass(frozen=True)
class _Case:
    """A case.

    Attributes:
        name: of the case; one that its suite has already gets a number behind it.
        outcome: one of `_KINDS`; empty = passed.
        kind: of the failure or error.
        message: what is wrong, or why it is skipped.
    """

    name: str
    outcome: str = ""
    kind: str = ""
    message: str = ""


def junit(check: Check, *, strict: bool = False, locations: Locations | None = None) -> str:
    """A check as XML; ends with a line feed.

    A suite has one case for whether it is comparable, one a metric, one for the allowance of lost required
    items, one for each of them, one for each that can no longer be offered, and one for each pin that does not hold.
    Worse is a failure, not comparable an error, cannot tell (unless `strict`) and what was lost within the allowance,
    or maybe by chance, are skipped, with the reason.

    Args:
        check: what was found.
        strict: whether `cannot tell` fails.
        locations: looks up files and lines.
    """
    locations = locations or Locations()
    settings = [
        _Case(f"gate: {setting.setting}", "error", "gate loosened", check_texts.loosened_text(setting))
        for setting in check.loosened
    ]
    suites = [(check.name, settings)] if settings else []
    suites += [
        (f"{selector.selector} on {selector.dataset}", list(_cases(selector, strict, locations)))
        for selector in check.selectors
    ]
    return _document(check.name, suites)


def refusal(name: str, faults: Sequence[Fault]) -> str:
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
        yield from _pins(check)
        return
    yield _Case("comparable")
    yield from _metrics(check, strict, locations)
    for server, reason in zip(check.outdated, server_reasons(check.outdated), strict=True):
        outcome = _outcome(Verdict.CANNOT_TELL, strict)
        yield _Case(f"server: {server.name}", outcome, str(Verdict.CANNOT_TELL), reason)
    outcome = _outcome(check.lost_verdict, strict)
    note = "it may be chance: " if check.lost_verdict is Verdict.CANNOT_TELL else "within what may be lost: "
    message = f"{check.lost} lost, {check.gained} gained, at most {check.allowed} more may be lost than gained"
    if not check.counted:
        outcome, message = "skipped", f"not counted: unsteady on all {check.unsteady:,} queries that need something"
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
    yield from _pins(check)


def _pins(check: SelectorCheck) -> Iterator[_Case]:
    for pin in check.pins:
        yield _Case(f"pin: {pin.query}: {pin.pin}", "failure", "pin", pin.message)


def _outcome(verdict: Verdict, strict: bool) -> str:
    return {Verdict.WORSE: "failure", Verdict.CANNOT_TELL: "failure" if strict else "skipped"}.get(verdict, "")


def _metrics(check: SelectorCheck, strict: bool, locations: Locations) -> Iterator[_Case]:
    """One case per metric; those that fail or may fail name their cause and its location, if these are known."""
    for judged in check.metrics:
        metric = parse_metric(judged.metric)
        message = (
            f"{judged.verdict}: {check_texts.means(judged)}, difference "
            f"{check_texts.difference(metric, judged.comparison)}{check_texts.p_value_note(check, judged)}, "
            f"tolerance {check_texts.size_text(metric, judged.tolerance)}, detectable "
            f"{check_texts.size_text(metric, judged.detectable)}"
        )
        outcome = _outcome(judged.verdict, strict)
        if outcome and (group := metric_cause(check, judged)) is not None:
            where = locations.text(locations.of_cause(group.cause, check.dataset, [check.selector]))
            message += f"; {check_texts.cause_text(group.cause)}{f' ({where})' if where else ''}"
        yield _Case(f"metric: {judged.metric}", outcome, str(judged.verdict), message if outcome else "")


def _lost(change: Change) -> str:
    parts = (
        check_texts.exclusion_text(change),
        check_texts.score_text(change) and f"score {check_texts.score_text(change)}",
        check_texts.cause_text(change.cause),
        str(change.remedy),
    )
    return "; ".join(filter(None, parts))


def _document(name: str, suites: list[tuple[str, list[_Case]]]) -> str:
    cases = [case for _, suite_cases in suites for case in suite_cases]
    root = Element("testsuites", {"name": _legal(name), **_counts(cases, skipped=False), "time": "0"})
    for suite, suite_cases in suites:
        element = SubElement(root, "testsuite", {"name": _legal(suite), **_counts(suite_cases), "time": "0"})
        for case, name in zip(suite_cases, _distinct([case.name for case in suite_cases]), strict=True):
            names = {"name": _legal(name), "classname": _legal(suite), "time": "0"}
            testcase = SubElement(element, "testcase", names)
            if case.outcome:
                kind = {"type": _legal(case.kind)} if case.outcome != "skipped" else {}
                message = _legal(wording.with_loose_legend(check_texts.sentence(case.message)))
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
    attributes = {"tests": str(len(cases))}
    for kind, name in zip(_KINDS, ("failures", "errors", "skipped"), strict=True):
        if kind != "skipped" or skipped:
            attributes[name] = str(sum(case.outcome == kind for case in cases))
    return attributes


def _legal(text: str) -> str:
    """The text with characters that XML cannot hold replaced by U+FFFD."""
    return _ILLEGAL.sub("\ufffd", text)
