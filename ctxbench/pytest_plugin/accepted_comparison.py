"""What is offered, held against what was accepted."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ctxbench.core.errors import ParameterError
from ctxbench.gate.differences import is_unmoved, noise_margin, tied_pairs
from ctxbench.pytest_plugin.accepted_file import DIGITS, AcceptedSelection, Key
from ctxbench.pytest_plugin.explained_request import ExplainedAnswer, absence_lines, presence_lines, report
from ctxbench.pytest_plugin.recorder import CallerPlace, Recorder


def against_accepted(asked: ExplainedAnswer, place: CallerPlace, recorder: Recorder) -> str:
    """Record an answer, and compare it with the accepted one unless it is to be accepted itself.

    Returns:
        What is said of a difference; empty if there is none.

    Raises:
        InputError: the file of accepted selections is damaged.
        ParameterError: the test asked the same before, and was offered something else.
    """
    path = recorder.path(place)
    key = Key(place.test, f"{asked.opened.label} on {asked.opened.place}", asked.request.text)
    offered = {one.offered.id: one.offered.score for one in asked.chosen}
    now = AcceptedSelection(key=key, decided_by=asked.decided_by(offered), offered=offered)
    accepted = recorder.accepted(place).get(key)
    lost, gained = ([], []) if accepted is None else differences(accepted, now, asked)
    stays = accepted is not None and not lost and not gained and not _moved(accepted, now, {})
    kept = accepted if stays and accepted is not None else now  # noise rewrites nothing
    if set(recorder.record(place, kept).offered) != set(kept.offered):
        raise ParameterError(
            f"this test asked {key.text!r} of {key.of} before and was offered something else; what is accepted goes by "
            "test, selector and text, so put the other request into a test of its own"
        )
    if recorder.accept:
        return ""
    shown = recorder.shown(path)
    if accepted is None:
        end = f"If this is right: pytest --ctxbench-accept writes it to {shown}; read the diff."
        return report("nothing was accepted yet", asked, [], end=end)
    if not lost and not gained:
        return ""
    findings = [_gone(item, accepted, asked) for item in lost]
    findings += [presence_lines("came in", item, asked) for item in gained]
    end = f"Accepted is what stands in {shown}. If the change is meant: pytest --ctxbench-accept; read the diff."
    return report("not as accepted", asked, findings, end=end)


def differences(
    accepted: AcceptedSelection, now: AcceptedSelection, asked: ExplainedAnswer
) -> tuple[list[str], list[str]]:
    """What went out and what came in, by id, each in the one order; nothing where noise explains it.

    Noise explains something only if nothing that decides the answer was changed, nor the accepted ids by hand. Items
    that changed places, one that went out with one that came in, whose scores are within `noise_margin` of each
    other now, are left out of both. And all is, if the selector is one of ours and no known score moved by more than
    that: an item lies at a threshold. Order and scores decide nothing else: they are there to be read.
    """
    lost = [item for item in accepted.offered if item not in now.offered]
    gained = [item for item in now.offered if item not in accepted.offered]
    if accepted.decided_by != asked.decided_by(accepted.offered):
        return lost, gained
    scores = asked.score_of
    if asked.ours and not _moved(accepted, now, scores):
        return [], []
    margin = _margin(accepted, now, scores)

    def tied(one: str, other: str) -> bool:
        if one not in scores or other not in scores or abs(scores[one] - scores[other]) > margin:
            return False
        return is_unmoved(accepted.offered[one], scores[one], margin=margin, digits=DIGITS)

    out, into = (sorted(items, key=lambda one: -scores.get(one, -math.inf)) for items in (lost, gained))
    swapped = {item for pair in tied_pairs(out, into, tied) for item in pair}
    return [one for one in lost if one not in swapped], [one for one in gained if one not in swapped]


def _moved(accepted: AcceptedSelection, now: AcceptedSelection, also: Mapping[str, float]) -> bool:
    """Whether a score that is known on both sides moved by more than noise, or an item has one on one side only."""
    scores = {**also, **now.offered}
    margin = _margin(accepted, now, also)
    both = [(score, scores[item]) for item, score in accepted.offered.items() if item in scores]
    return any((a is None) != (b is None) or not is_unmoved(a, b, margin=margin, digits=DIGITS) for a, b in both)


def _margin(accepted: AcceptedSelection, now: AcceptedSelection, also: Mapping[str, float]) -> float:
    known = (*accepted.offered.values(), *now.offered.values(), *also.values())
    return noise_margin(score for score in known if score is not None)


def _gone(item: str, accepted: AcceptedSelection, asked: ExplainedAnswer) -> list[str]:
    """Why an accepted item is not offered any more."""
    before = accepted.offered[item]
    what = "went out" if before is None else f"went out (accepted with {before:.3f})"
    if item in asked.opened.catalog.ids:
        return absence_lines(what, item, asked)
    return [f"{what}: {item}", "the catalog has no such item any more"]
