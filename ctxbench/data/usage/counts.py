"""Count how often each item was offered and referenced, and the tokens of the offers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ctxbench.bench.stats.intervals import Interval, wilson
from ctxbench.core.items import ItemKey
from ctxbench.data.datasets.row_groups import group_pairs
from ctxbench.data.usage.references import References, UsageEvidence
from ctxbench.data.usage.replies import Replies


@dataclass(frozen=True, kw_only=True)
class ItemUsage:
    """The usage of one item over all replies.

    Attributes:
        key: which.
        offered: replies that it was offered for.
        conversations: how many conversations those offers are of.
        evidence: one for each reply that references it, in the order of the files.
        modes: offers by mode; an empty mode is not known.
        tokens: of its prompt text; None where no catalog was given.
    """

    key: ItemKey
    offered: int
    conversations: int
    evidence: tuple[UsageEvidence, ...]
    modes: Mapping[str, int]
    tokens: int | None

    @property
    def referenced(self) -> int:
        """How many replies reference the item."""
        return len(self.evidence)

    @property
    def interval(self) -> Interval:
        """Wilson's interval of the share of offers that were referenced."""
        return wilson(self.referenced, self.offered)

    @property
    def tokens_unused(self) -> int | None:
        """Tokens of the offers that no reply references."""
        return None if self.tokens is None else self.tokens * (self.offered - self.referenced)

    def as_dict(self) -> dict[str, Any]:
        """The row as JSON."""
        bounds = self.interval
        return {
            "id": self.key.id,
            "offered": self.offered,
            "referenced": self.referenced,
            "share": self.referenced / self.offered,
            "low": bounds.low,
            "high": bounds.high,
            "conversations": self.conversations,
            "modes": dict(self.modes),
            "evidence": [one.as_dict() for one in self.evidence],
            "tokens": self.tokens,
            "tokens_unused": self.tokens_unused,
        }


@dataclass(frozen=True, kw_only=True)
class Usage:
    """The usage of all items over the replies of some files.

    Attributes:
        items: those offered at least once: by tokens spent unused, else by unused offers, most first; ties by id.
        replies: that say what they were offered; only they count.
        conversations: of those.
        without_offers: replies that do not say it.
        not_offered: calls of tools that were not offered for that reply, by item.
        unknown: names that are no item of the catalog, or of several, by how many replies have them.
    """

    items: tuple[ItemUsage, ...]
    replies: int
    conversations: int
    without_offers: int
    not_offered: Mapping[ItemKey, int]
    unknown: Mapping[str, int]

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {
            "replies": self.replies,
            "conversations": self.conversations,
            "without_offers": self.without_offers,
            "not_offered": {key.id: n for key, n in self.not_offered.items()},
            "unknown": dict(self.unknown),
            "items": [item.as_dict() for item in self.items],
        }


class _Offer(NamedTuple):
    """One offer of an item, and the evidence if the reply references the item."""

    conversation: str
    mode: str
    evidence: UsageEvidence | None


def count_usage(replies: Replies, tokens: Mapping[ItemKey, int] | None = None) -> Usage:
    """Count offers and references.

    Args:
        replies: of all files.
        tokens: of every item's prompt text; None where they are not known.

    A reply without words counts for tools only.

    Returns:
        The counts; no items where no reply says what it was offered.
    """
    rule = References(replies.catalog)
    offers: list[tuple[ItemKey, _Offer]] = []
    not_offered: Counter[ItemKey] = Counter()
    unknown: Counter[str] = Counter()
    conversations: set[str] = set()
    n_replies = 0
    for reply in replies.replies:
        unknown.update(set(reply.unknown))
        if reply.offered is None:
            continue
        n_replies += 1
        conversations.add(reply.conversation)
        not_offered.update(key for key in reply.called if key not in reply.offered)
        evidence = rule.find(reply)
        has_text = bool(reply.text.strip())
        offers += [
            (key, _Offer(reply.conversation, mode, evidence.get(key)))
            for key, mode in reply.offered.items()
            if key.type == "tool" or has_text  # without words there is nothing that other items could be cited in
        ]
    items = [_item_usage(key, own, tokens) for key, own in group_pairs(offers).items()]
    return Usage(
        items=tuple(sorted(items, key=_most_unused_first)),
        replies=n_replies,
        conversations=len(conversations),
        without_offers=len(replies.replies) - n_replies,
        not_offered=dict(sorted(not_offered.items(), key=lambda pair: (-pair[1], pair[0].id))),
        unknown=dict(sorted(unknown.items(), key=lambda pair: (-pair[1], pair[0]))),
    )


def _item_usage(key: ItemKey, offers: Sequence[_Offer], tokens: Mapping[ItemKey, int] | None) -> ItemUsage:
    return ItemUsage(
        key=key,
        offered=len(offers),
        conversations=len({offer.conversation for offer in offers}),
        evidence=tuple(offer.evidence for offer in offers if offer.evidence is not None),
        modes=dict(sorted(Counter(offer.mode for offer in offers).items())),
        tokens=None if tokens is None else tokens[key],
    )


def _most_unused_first(item: ItemUsage) -> tuple[int, str]:
    unused = item.tokens_unused
    return -(item.offered - item.referenced if unused is None else unused), item.key.id
