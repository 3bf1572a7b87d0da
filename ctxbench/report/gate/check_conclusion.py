"""What a check ends with: the verdict and what to do, spoken to whoever asked for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ctxbench.gate.model import Check, Verdict
from ctxbench.report.document import Block, Code, Text
from ctxbench.report.gate.acceptance import pin_advice
from ctxbench.report.gate.check_summary import loss_note


@dataclass(frozen=True)
class Speech:
    """How to speak to whoever asked for a check.

    Attributes:
        whole_in: what gives all of it where rows are left out.
        removed: the option that leaves out what is gone.
        codes: whether exit codes are told.
    """

    whole_in: tuple[str, ...] = ("--json", "--markdown FILE")
    removed: str = "--allow-removed"
    codes: bool = True

    def code(self, said: str) -> str:
        """` (exit code 1)`, where these are told."""
        return f" (exit code {said})" if self.codes else ""


COMMAND, PYTHON = Speech(), Speech(("`changes()`",), "`allow_removed=True`", codes=False)


def conclusion(check: Check, *, strict: bool, accept: str, first: str, speech: Speech) -> Iterator[Block]:
    """The verdict in a sentence, and how to accept it; the arguments are those of `check_document.document`."""
    how = f"{first}, then accept it" if first else "accept it"
    new = any(one.left_out.get("new") for one in check.selectors)
    if check.loosened:
        told = f"The gate was loosened{speech.code('2')}: put its settings and pins back ({check.name})."
        told += " The verdict goes by those of the baseline."
        yield Text(f"{told} If they are meant, {how}:" if accept else told)
        yield from _commands(accept, first)
        return
    match check.verdict:
        case Verdict.NOT_COMPARABLE:
            told = f"It cannot be judged{speech.code('2')}: mend what is said above."
            if any(one.left_out.get(why) for one in check.selectors for why in ("removed", "changed", "relabelled")):
                told += f" Queries that are gone or were relabelled on purpose are left out with {speech.removed}."
            yield Text(f"{told} If what differs is meant, {how}:" if accept else told)
        case Verdict.WORSE:
            told, rest = f"It is worse{speech.code('1')}.", "it"
            if any(one.unmet for one in check.selectors):
                told += (
                    f" Required items are gone; if they were removed on purpose, add {speech.removed}: the check then "
                )
                told += "does not fail for that alone."
            if pins := pin_advice(check):
                told, rest = f"{told} {pins[0].upper()}{pins[1:]}.", "the rest"
            said = any(group.remedy and group.remedy.possible for one in check.selectors for group in one.causes)
            mend = f"Mend {rest} as said above, or, if" if said or any(one.unmet for one in check.selectors) else "If"
            yield Text(f"{told} {mend} it is meant, {how}:" if accept else told)
        case Verdict.CANNOT_TELL:
            fails = check.exit_code(strict=True)
            code = speech.code(f"{fails} for --strict" if strict else f"0, with --strict {fails}")
            outdated = any(one.outdated for one in check.selectors)
            what = "ask the servers named above again, or fix them" if outdated else "more queries would tell"
            told = f"The check is inconclusive{code}: {what}."
            yield Text(f"{told} If the change is meant, {how}:" if accept else told)
        case Verdict.BETTER:
            told = f"It is better{speech.code('0')}{loss_note(check.selectors)}."
            yield Text(f"{told} To hold the gain, {how}:" if accept else told)
        case Verdict.SAME:
            told = f"Nothing got worse{speech.code('0')}{loss_note(check.selectors)}."
            yield Text(f"{told} To take new queries in, {how}:" if new and accept else told)
    yield from _commands(accept, first)


def _commands(accept: str, first: str) -> Iterator[Block]:
    """The command that accepts, or what must be done before there is one."""
    if accept:
        yield Code(accept)
    elif first:
        yield Text(f"`ctxbench run` and `ctxbench check --accept` stop with this dataset: {first}.")
