"""Whether accepting a new baseline would change the outcome of a check, and what to do where it would not."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from ctxbench.gate.model import Check, SelectorCheck, Verdict
from ctxbench.report.gate import check_texts

_SHOWN = 5  # lines of the gate file that are named


def is_acceptable(check: Check) -> bool:
    """Whether a new baseline would give another outcome: none makes a pin hold, or asks a server."""
    if check.loosened:
        return True
    if check.verdict is Verdict.SAME:
        return any(selector.left_out.get("new") for selector in check.selectors)
    if check.verdict is Verdict.CANNOT_TELL:
        return any(selector.verdict is Verdict.CANNOT_TELL and not selector.outdated for selector in check.selectors)
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
    return f"{must} (`{command}`; renames.yaml has the {noun} {check_texts.first_ones(lines, _SHOWN)})"


def pin_advice(check: Check) -> str:
    """What to do about pins that do not hold; empty if all hold."""
    pins = [pin for selector in check.selectors for pin in selector.pins]
    if not pins:
        return ""
    lines = [f"{line:,}" for line in sorted({pin.line for pin in pins} - {0})]
    location = (
        f"{check.name}, line{'' if len(lines) == 1 else 's'} {check_texts.first_ones(lines, _SHOWN)}"
        if lines
        else check.name
    )
    verb = "a broken pin stays broken" if len(pins) == 1 else "broken pins stay broken"
    return f"{verb} whatever is accepted: change or take out the pin ({location}), or mend the selection"


def _is_worse_without_pins(check: SelectorCheck) -> bool:
    """Whether a selector is worse for something else than its pins."""
    if check.verdict is not Verdict.WORSE:
        return False
    facts = bool(check.unmet) or check.lost - check.gained > check.allowed
    return not check.pins or facts or any(metric.verdict is Verdict.WORSE for metric in check.metrics)
