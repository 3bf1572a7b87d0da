"""The end of a check: the verdict and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ctxbench.gate.model import Check, Verdict
from ctxbench.report.document import Block, Code, Text
from ctxbench.report.gate.acceptance import pin_advice
from ctxbench.report.gate.check_summary import loss_note


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
    new = any(selector.left_out.get("new") for selector in check.selectors)
    if check.loosened:
        text = f"The gate was loosened{speech.code('2')}: put its settings and pins back ({check.name})."
        text += " The verdict goes by those of the baseline."
        yield Text(f"{text} If they are meant, {how}:" if accept else text)
        yield from _commands(accept, first)
        return
    match check.verdict:
        case Verdict.NOT_COMPARABLE:
            text = f"It cannot be judged{speech.code('2')}: mend what is said above."
            if any(
                selector.left_out.get(why)
                for selector in check.selectors
                for why in ("removed", "changed", "relabelled")
            ):
                text += f" Queries that are gone or were relabelled on purpose are left out with {speech.removed}."
            yield Text(f"{text} If what differs is meant, {how}:" if accept else text)
        case Verdict.WORSE:
            text, rest = f"It is worse{speech.code('1')}.", "it"
            if any(selector.unmet for selector in check.selectors):
                text += (
                    f" Required items are gone; if they were removed on purpose, add {speech.removed}: the check then "
                )
                text += "does not fail for that alone."
            if pins := pin_advice(check):
                text, rest = f"{text} {pins[0].upper()}{pins[1:]}.", "the rest"
            has_fix = any(
                group.remedy and group.remedy.possible for selector in check.selectors for group in selector.causes
            )
            mend = (
                f"Mend {rest} as said above, or, if"
                if has_fix or any(selector.unmet for selector in check.selectors)
                else "If"
            )
            yield Text(f"{text} {mend} it is meant, {how}:" if accept else text)
        case Verdict.CANNOT_TELL:
            fails = check.exit_code(strict=True)
            code = speech.code(f"{fails} for --strict" if strict else f"0, with --strict {fails}")
            outdated = any(selector.outdated for selector in check.selectors)
            advice = "ask the servers named above again, or fix them" if outdated else "more queries would tell"
            text = f"The check is inconclusive{code}: {advice}."
            yield Text(f"{text} If the change is meant, {how}:" if accept else text)
        case Verdict.BETTER:
            text = f"It is better{speech.code('0')}{loss_note(check.selectors)}."
            yield Text(f"{text} To hold the gain, {how}:" if accept else text)
        case Verdict.SAME:
            text = f"Nothing got worse{speech.code('0')}{loss_note(check.selectors)}."
            yield Text(f"{text} To take new queries in, {how}:" if new and accept else text)
    yield from _commands(accept, first)


def _commands(accept: str, first: str) -> Iterator[Block]:
    """The command that accepts, or what must be done before there is one."""
    if accept:
        yield Code(accept)
    elif first:
        yield Text(f"`ctxbench run` and `ctxbench check --accept` stop with this dataset: {first}.")
