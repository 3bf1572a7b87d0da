"""What the price of an edited item, in prompt tokens, has to do with its loss: by a replay of the head's cuts.

A price is in a score where the selector has the step `price`, and beside it where a budget stands.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ctxbench.gate.flat_steps import FlatStep
from ctxbench.gate.replay import Candidate, ReplayCase, can_replay, replay_cuts
from ctxbench.gate.snapshot_pair import ChangeContext, SnapshotPair


class GrownPrice(NamedTuple):
    """The price of an edited item that keeps it out.

    Attributes:
        before, after: prompt tokens.
        enough: whether the item would be offered now if it cost what it did.
    """

    before: int
    after: int
    enough: bool


def grown_price(change: ChangeContext, pair: SnapshotPair) -> GrownPrice | None:
    """The price of an edited item where it keeps the item out: at the old one it would be in, as found now or before.

    As found before it must be out at the new price, too. None where it costs no more, where the cuts cannot be
    replayed, and of a selector of the user's, whose cuts are its own.
    """
    before, after = pair.base.items.get(pair.base_ids.get(change.item, change.item)), pair.head.items.get(change.item)
    head_row, base_row = change.head.rows.get(change.item), change.base.rows.get(change.item)
    if before is None or after is None or after.tokens <= before.tokens or pair.head.identity.outside:
        return None
    enough = head_row is not None and _is_kept(_at_price(head_row, before.tokens, pair), change, pair)
    alone = base_row is not None and not is_found_again(change, pair) and _is_kept(base_row, change, pair)
    return GrownPrice(before.tokens, after.tokens, enough) if enough or alone else None


def is_found_again(change: ChangeContext, pair: SnapshotPair) -> bool:
    """Whether an edited item would be offered now if the request found it as it did, at the price that it has now.

    False where its score at the base is not known, and where the cuts cannot be replayed.
    """
    row, after = change.base.rows.get(change.item), pair.head.items.get(change.item)
    return row is not None and after is not None and _is_kept(_at_price(row, after.tokens, pair), change, pair)


def _at_price(row: Candidate, tokens: int, pair: SnapshotPair) -> Candidate:
    """The candidate with the tokens that are given, and the score that it has at them."""
    if row.score is None:
        return replace(row, tokens=tokens)
    overheads = [step.values["overhead"] for step in _price_steps(pair) if row.type in step.types]
    reduction = sum(math.log(tokens + overhead) - math.log(row.tokens + overhead) for overhead in overheads)
    return replace(row, tokens=tokens, score=row.score - reduction)


def _price_steps(pair: SnapshotPair) -> Sequence[FlatStep]:
    return [step for step in pair.steps[1] or () if step.kind == "rank" and step.name == "price"]


def _is_kept(candidate: Candidate, change: ChangeContext, pair: SnapshotPair) -> bool:
    steps, side = pair.steps[1] or (), change.head
    rivals = [row for name, row in side.rows.items() if name != change.item]
    return can_replay(steps) and replay_cuts(steps, [ReplayCase(candidate=candidate, rivals=rivals, bar=side.bar)])[0]
