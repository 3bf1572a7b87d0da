"""Which items are suggested for an id that no item has."""

from __future__ import annotations

import pytest

from ctxbench.model.items import suggest_items

KNOWN = [
    "tool:orders:get_order",
    "tool:orders:refund_order",
    "tool:desk:list_tickets",
    "rule:.cursor%2Frules%2Frefunds.mdc",
    "skill:triage",
]


@pytest.mark.parametrize(
    ("item", "meant"),
    [
        ("tool:orders:get_ordr", ["tool:orders:get_order"]),
        ("tool:shop:get_order", ["tool:orders:get_order"]),
        ("tool:get_order", ["tool:orders:get_order"]),
        ("rule:triage", ["skill:triage"]),
        ("rule:.cursor%2Frules%2Frefund.mdc", ["rule:.cursor%2Frules%2Frefunds.mdc"]),
        ("rule:.cursor%2Frules%2Fprivacy.mdc", []),
        ("rule:.cursor%2Frules%2Fpets.mdc", []),
        ("rule:docs%2Frules%2Frefunds.mdc", ["rule:.cursor%2Frules%2Frefunds.mdc"]),
        ("tool:desk:escalate", []),
        ("tool:desk:get_ordr", []),
        ("no id", []),
        ("triage", ["skill:triage"]),
        ("refund_order", ["tool:orders:refund_order"]),
        ("rule:refunds", ["rule:.cursor%2Frules%2Frefunds.mdc"]),
        ("rule:refunds.mdc", ["rule:.cursor%2Frules%2Frefunds.mdc"]),
        ("skill:refunds", []),
        ("refunds", ["rule:.cursor%2Frules%2Frefunds.mdc"]),
    ],
)
def test_only_items_with_a_close_name_are_suggested(item, meant):
    assert suggest_items(item, KNOWN) == (f"; did you mean {meant[0]!r}?" if meant else "")


def test_the_closest_come_first_and_no_more_than_three():
    known = [f"tool:a:get_order_{n}" for n in range(5)]
    said = "'tool:a:get_order_3' or 'tool:a:get_order_0' or 'tool:a:get_order_1'"
    assert suggest_items("tool:b:get_order_3", known) == "; did you mean 'tool:a:get_order_3'?"
    assert suggest_items("tool:a:get_order_33", known) == f"; did you mean {said}?"
