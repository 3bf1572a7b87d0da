"""What is offered, held against what was accepted."""

from __future__ import annotations

from ctxbench.candidates import MARGIN
from ctxbench.errors import ParameterError
from ctxbench.pytest_plugin import messages
from ctxbench.pytest_plugin.accepted_file import Accepted, Key
from ctxbench.pytest_plugin.asking import Asked
from ctxbench.pytest_plugin.recording import Place, Recorder


def against_accepted(asked: Asked, place: Place, recorder: Recorder) -> str:
    """Record an answer, and compare it with the accepted one unless it is to be accepted itself.

    Returns:
        What is said of a difference; empty if there is none.

    Raises:
        InputError: the file of accepted selections is damaged.
        ParameterError: the test asked the same before, and was offered something else.
    """
    path = recorder.path(place)
    key = Key(place.test, f"{asked.opened.label} on {asked.opened.place}", asked.request.text)
    now = Accepted(key=key, decided_by=asked.decided_by, offered=_offered(asked))
    accepted = recorder.accepted(place).get(key)
    lost, gained = ([], []) if accepted is None else differences(accepted, now, asked)
    stays = accepted is not None and not lost and not gained and not _moved(accepted, now)
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
        return messages.report("nothing was accepted yet", asked, [], end=end)
    if not lost and not gained:
        return ""
    findings = [_gone(item, accepted, asked) for item in lost]
    findings += [messages.into("came in", item, asked) for item in gained]
    end = f"Accepted is what stands in {shown}. If the change is meant: pytest --ctxbench-accept; read the diff."
    return messages.report("not as accepted", asked, findings, end=end)


def differences(accepted: Accepted, now: Accepted, asked: Asked) -> tuple[list[str], list[str]]:
    """What went out and what came in, by id, each in the one order; nothing where noise explains it.

    Noise explains it in two cases. Items changed places: as many went out as came in, and best with best, second with
    second and so on have scores within 1e-5 of each other now. Or nothing that decides the answer was changed, the
    selector is one of ours, and no known score moved by more than 1e-5: then an item lies at a threshold.
    """
    lost = [item for item in accepted.offered if item not in now.offered]
    gained = [item for item in now.offered if item not in accepted.offered]
    scores = asked.score_of
    if len(lost) == len(gained) and all(item in scores for item in (*lost, *gained)):
        by_score = (sorted((scores[item] for item in items), reverse=True) for items in (lost, gained))
        if all(abs(one - other) <= MARGIN for one, other in zip(*by_score, strict=True)):
            return [], []
    if asked.ours and accepted.decided_by == now.decided_by and not _moved(accepted, now, scores):
        return [], []
    return lost, gained


def _moved(accepted: Accepted, now: Accepted, also: dict[str, float] | None = None) -> bool:
    """Whether a score that is known on both sides moved by more than 1e-5, or an item has one on one side only."""
    scores = {**(also or {}), **now.offered}
    both = [(score, scores[item]) for item, score in accepted.offered.items() if item in scores]
    return any((a is None) != (b is None) or abs((a or 0.0) - (b or 0.0)) > MARGIN for a, b in both)


def _offered(asked: Asked) -> dict[str, float | None]:
    return {one.offered.id: one.offered.score for one in asked.chosen}


def _gone(item: str, accepted: Accepted, asked: Asked) -> list[str]:
    """Why an accepted item is not offered any more."""
    before = accepted.offered[item]
    what = "went out" if before is None else f"went out (accepted with {before:.3f})"
    if item in asked.opened.catalog.ids:
        return messages.out(what, item, asked)
    return [f"{what}: {item}", "the catalog has no such item any more"]
