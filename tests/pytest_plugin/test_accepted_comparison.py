"""What is no change of what was accepted."""

from __future__ import annotations

import pytest

from ctxbench.core.errors import ParameterError
from ctxbench.pytest_plugin.accepted_comparison import differences
from ctxbench.pytest_plugin.accepted_file import AcceptedSelection, Key


class Answered:
    """An answer with given scores: of what is offered, and of what stayed out."""

    def __init__(self, offered, kept_out=None, *, decider, ours=True):
        self.offered, self.score_of, self.ours = offered, {**offered, **(kept_out or {})}, ours
        self.decider = decider

    def decided_by(self, offered):
        """What decided, and the ids, in any order."""
        return f"{self.decider}: {' '.join(sorted(offered))}"


def changed(before, now, *, kept_out=None, decided_by="same", ours=True, edited=None):
    """What went out and came in; `edited` is what was made of the accepted answer by hand."""
    key = Key("test_a", "one on items", "text")
    at_base, at_head = Answered(before, decider="same"), Answered(now, kept_out, decider=decided_by, ours=ours)
    base = AcceptedSelection(
        key=key, decided_by=at_base.decided_by(before), offered=before if edited is None else edited
    )
    return differences(base, AcceptedSelection(key=key, decided_by=at_head.decided_by(now), offered=now), at_head)


def test_the_same_items_in_another_order_are_no_change():
    assert changed({"a": 0.5, "b": 0.4}, {"b": 0.6, "a": 0.5}, decided_by="other") == ([], [])
    assert changed({}, {}, decided_by="other") == ([], [])


def test_items_that_are_tied_now_may_change_places():
    tied = {"a": 1.0, "b": 0.3}, {"a": 1.0, "c": 0.300009}
    assert changed(*tied, kept_out={"b": 0.3}, ours=False) == ([], [])
    assert changed(*tied, kept_out={"b": 0.3}, ours=False, decided_by="other") == (["b"], ["c"])
    apart = {"a": 1.0, "b": 0.3}, {"a": 1.0, "c": 0.30002}
    assert changed(*apart, kept_out={"b": 0.3}, ours=False) == (["b"], ["c"])
    assert changed(*tied, kept_out={}, ours=False) == (["b"], ["c"])  # b has no score any more
    two = {"a": 0.5, "b": 0.3}, {"c": 0.5, "d": 0.3}
    assert changed(*two, kept_out={"b": 0.3, "a": 0.5}, ours=False) == ([], [])  # best with best
    moved = {"a": 1.0, "b": 0.8}, {"a": 1.0, "c": 0.3}
    assert changed(*moved, kept_out={"b": 0.3}, ours=False) == (["b"], ["c"])  # it fell to where the other is


def test_small_scores_are_not_all_tied():
    assert changed({"a": 5e-6}, {"b": 5e-6}, kept_out={"a": 1e-6}, ours=False) == (["a"], ["b"])


def test_what_has_no_partner_is_no_swap():
    assert changed({"a": 0.5}, {"b": 0.5, "c": 0.5}, kept_out={"a": 0.5}, ours=False) == ([], ["c"])


def test_an_item_at_a_threshold_is_noise_where_nothing_that_decides_was_changed():
    at = {"a": 0.5, "b": 0.3000004}, {"a": 0.5000002}
    assert changed(*at, kept_out={"b": 0.2999996}) == ([], [])
    assert changed(*at, kept_out={"b": 0.29}) == (["b"], [])  # it moved
    assert changed(*at, kept_out={"b": 0.2999996}, decided_by="another setting") == (["b"], [])
    assert changed(*at, kept_out={"b": 0.2999996}, ours=False) == (["b"], [])  # an outside selector may be noisy


@pytest.mark.parametrize(
    ("edited", "out", "into"),
    [
        ({"a": 0.5}, [], ["b"]),
        ({}, [], ["a", "b"]),
        ({"a": 0.5, "b": 0.3, "c": 0.3}, ["c"], []),  # tied with b, and yet nothing accepted it
        ({"a": 0.5, "b": 0.3, "gone": None}, ["gone"], []),
        ({"a": 0.5, "x": 0.3}, ["x"], ["b"]),
        ({"b": 0.3, "a": 0.9}, [], []),  # the same items: order and scores are there to be read
    ],
)
def test_ids_that_were_edited_by_hand_are_never_noise(edited, out, into):
    offered = {"a": 0.5, "b": 0.3}
    assert changed(offered, offered, kept_out={"c": 0.3}, edited=edited) == (out, into)


def test_the_same_text_twice_in_a_test_must_be_offered_the_same(offers):
    for _ in range(2):
        with pytest.raises(AssertionError, match="nothing was accepted yet"):
            offers.as_accepted("alpha")
    with pytest.raises(ParameterError, match="put the other request into a test of its own"):
        offers.as_accepted("alpha", session=["rule:hand"])
