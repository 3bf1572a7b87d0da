"""What keeps an item out, and by how much it missed, with as many digits as say something."""

from __future__ import annotations

import pytest

from ctxbench.core.rules import Rule
from ctxbench.gate.model import Cause, CauseKind, Change
from ctxbench.reporting.gate.texts import step


@pytest.mark.parametrize(
    ("missed_by", "said"),
    [
        (None, ""),
        (0.0, ""),
        (0.0321, "; missed by 0.0321"),
        (0.0001, "; missed by 0.0001"),
        (0.00001, "; missed by less than 0.0001"),
    ],
)
def test_a_miss_is_never_said_to_be_nothing(missed_by, said):
    change = Change(
        query="q", item="tool:a", lost=True, required=True, cause=Cause(kind=CauseKind.UNKNOWN), missed_by=missed_by
    )
    assert step(change) == f"no candidate{said}"


def test_a_rule_of_chunks_is_not_taken_for_one_of_ranks():
    rule = Rule.of("topK", topK=6)
    change = Change(query="q", item="tool:a", lost=True, required=True, cause=Cause(kind=CauseKind.UNKNOWN), rule=rule)
    assert step(change) == "its best chunk is not among the best topK=6 chunks, of which an item may have several"
