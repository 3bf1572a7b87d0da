"""What keeps an item out, and by how much it missed, with as many digits as say something."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ctxbench.gate.results import Cause, CauseKind, Change, Fix
from ctxbench.model.candidates import Rule
from ctxbench.report.check_texts import exclusion_text, without_texts


@pytest.mark.parametrize(
    ("missed_by", "said"),
    [
        (None, ""),
        (0.0, ""),
        (0.0321, "; the lowest offered score is 0.0321 higher"),
        (0.0001, "; the lowest offered score is 0.0001 higher"),
        (0.00001, "; the lowest offered score is less than 0.0001 higher"),
    ],
)
def test_a_miss_is_never_said_to_be_nothing(missed_by, said):
    change = Change(
        query="q", item="tool:a", lost=True, required=True, cause=Cause(kind=CauseKind.UNKNOWN), missed_by=missed_by
    )
    assert exclusion_text(change) == f"the selector did not find it{said}"


def test_what_is_gone_was_not_looked_for():
    cause = Cause(kind=CauseKind.GONE, subjects=("tool:a",), detail="no longer in the catalog")
    change = Change(query="q", item="tool:a", lost=True, required=True, cause=cause)
    assert exclusion_text(change) == "no longer in the catalog"
    assert exclusion_text(replace(change, item="tool:b")) == "the selector did not find it"


def test_a_rule_of_chunks_is_not_taken_for_one_of_ranks():
    rule = Rule.of("topK", topK=6)
    change = Change(query="q", item="tool:a", lost=True, required=True, cause=Cause(kind=CauseKind.UNKNOWN), rule=rule)
    assert (
        exclusion_text(change)
        == "its best chunk is not among the best topK=6 chunks, of which an item may have several"
    )


@pytest.mark.parametrize(
    ("fix", "said"),
    [
        (Fix(), ""),
        (Fix("put it back"), "put it back"),
        (Fix("raise topN to", 7), "raise topN to 7"),
        (Fix("lower threshold to", 0.25, lower=True), "lower threshold to 0.25"),
        (
            Fix("take the edit back", quoted='say again: "Be brief."'),
            'take the edit back, or say again: "Be brief."',
        ),
    ],
)
def test_what_would_mend_a_loss_is_one_phrase(fix, said):
    assert (str(fix), bool(fix)) == (said, bool(said))


def test_without_texts_a_phrase_goes_without_what_it_quotes(made):
    quoting = Fix("take the edit back", quoted='say again: "Be brief."')
    check = made.check(replace(made.worse(), changes=(replace(made.LOST, fix=quoting),)))
    (one,) = without_texts(check).selectors
    assert [str(change.fix) for change in one.changes] == ["take the edit back"]
