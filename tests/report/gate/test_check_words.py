"""Words that a check explains, where they are told and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ctxbench.gate.results import Cause, CauseGroup, CauseKind, Fix, Verdict
from ctxbench.report.check_document import document
from ctxbench.report.check_texts import explained_words

HELPS = {"margin": "how far below the best.", "n": "items offered", "at_most": "items at most"}


def told(made, *, detail="", fix="", reasons=("it is so",), metrics=()):
    group = CauseGroup(
        cause=Cause(kind=CauseKind.PARAMETER, detail=detail),
        lost=1,
        gained=0,
        others=0,
        tokens=0,
        queries=("q2",),
        fix=Fix(fix),
    )
    one = replace(made.worse(), reasons=reasons, metrics=metrics, causes=(group,), helps=HELPS, changes=(), pins=())
    blocks = [block for section in document(made.check(one)).sections for block in section.blocks]
    return explained_words([one], blocks)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"detail": "margin 5 -> 4"}, "margin: how far below the best."),
        ({"fix": "raise n to 3"}, "n: items offered."),
        ({"fix": "set n back to 3 and margin to 0.5"}, "margin: how far below the best; n: items offered."),
        ({"reasons": ("kept out by margin=0.4",)}, "margin: how far below the best."),
        (
            {"reasons": ("total_tokens 1 -> 2",)},
            "tokens: of what the selector adds to a prompt; total_tokens: with what the session holds.",
        ),
        (
            {"detail": "refine.probability.calibration a -> b"},
            "refine.probability.calibration: its position in the selector's pipeline, from the stage `refine`.",
        ),
    ],
)
def test_a_word_is_explained_where_it_is_told(made, given, words):
    assert told(made, **given) == words


@pytest.mark.parametrize("detail", ["", "a wide margin of n items", "contextmargin 5 -> 4", "tool:n was edited"])
def test_a_word_that_names_no_parameter_is_not(made, detail):
    assert told(made, detail=detail) == ""


def test_metrics_are_explained_where_they_stand_in_a_table(made):
    metrics = (replace(made.judged("tokens", Verdict.SAME, [9.0] * 5, [9.0] * 5), metric="total_tokens"),)
    assert told(made, metrics=metrics).startswith("tokens: of what the selector adds")
