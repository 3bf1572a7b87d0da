"""Count how often each item was offered and referenced, with the tokens of the offers; suggest items to offer less.

Suggested are items that no reply references, where there were enough offers to say so.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ctxbench.bench.stats.intervals import Interval, critical, wilson
from ctxbench.core.errors import ParameterError
from ctxbench.core.items import Catalog, ItemKey
from ctxbench.data.datasets.row_groups import group_pairs
from ctxbench.data.usage.references import References, UsageEvidence
from ctxbench.data.usage.replies import Replies

_ACTIONS = {  # by how an item mostly came into the prompt
    "always": "set its include mode to agent",
    "manual": "remove it from the session",
    "agent": "set its include mode to manual",
    "expansion": "set its include mode to manual",
    "explicit": "do not refer to it",
}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceThreshold:
    """The evidence that is enough to say that an item is not used.

    Attributes:
        share: the upper end of Wilson's 95% interval of its share of references must not exceed this, in (0, 1).
            0.1 takes 35 offers without a reference.
        offers: at least that many offers, >= 1.
        conversations: at least that many conversations, >= 1: the replies of one are much alike.
    """

    share: float = 0.1
    offers: int = 20
    conversations: int = 5

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ParameterError(f"share must lie between 0 and 1, got {self.share}")
        for name in ("offers", "conversations"):
            if getattr(self, name) < 1:
                raise ParameterError(f"{name} must be 1 or more, got {getattr(self, name)}")

    @property
    def needed(self) -> int:
        """Offers without a reference that are enough: with z2 = 1.96^2 Wilson's upper end of 0 of n is z2/(n + z2)."""
        z2 = critical(0.95) ** 2
        return max(self.offers, math.ceil(z2 * (1 - self.share) / self.share - 1e-9))


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """What to do about an item that no reply references.

    Attributes:
        key: which.
        action: what to do.
        why: what was seen, with what it cannot show.
        upper: the upper end of Wilson's interval.
        saved: tokens that its offers cost; up to that much would have been saved. None where tokens are not known.
        more_offers, more_conversations: how many are missing; both 0 where there is enough evidence.
    """

    key: ItemKey
    action: str
    why: str
    upper: float
    saved: int | None
    more_offers: int = 0
    more_conversations: int = 0

    @property
    def holds(self) -> bool:
        """Whether there is enough evidence."""
        return not (self.more_offers or self.more_conversations)

    def as_dict(self) -> dict[str, Any]:
        """The suggestion as JSON."""
        return {
            "id": self.key.id,
            "action": self.action,
            "why": self.why,
            "upper": self.upper,
            "saved": self.saved,
            "more_offers": self.more_offers,
            "more_conversations": self.more_conversations,
        }


@dataclass(frozen=True, kw_only=True)
class Suggestions:
    """Suggestions to offer items less.

    Attributes:
        suggestions: with enough evidence, in the order of the usage.
        pending: without, those that need the fewest more offers first; ties in the order of the usage.
        not_judged: items that are no tools and whose text the catalog lacks, so that no quotation could be seen.
        threshold: what evidence is enough.
    """

    suggestions: tuple[Suggestion, ...]
    pending: tuple[Suggestion, ...]
    not_judged: tuple[ItemKey, ...]
    threshold: EvidenceThreshold

    @property
    def saved(self) -> int | None:
        """Tokens that all suggestions would have saved; None where tokens are not known."""
        saved = [one.saved for one in self.suggestions if one.saved is not None]
        return sum(saved) if len(saved) == len(self.suggestions) and self.suggestions else None

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {
            "enough": {
                "share": self.threshold.share,
                "offers": self.threshold.needed,
                "conversations": self.threshold.conversations,
            },
            "saved": self.saved,
            "suggestions": [one.as_dict() for one in self.suggestions],
            "waiting": [one.as_dict() for one in self.pending],
            "not_judged": [key.id for key in self.not_judged],
        }


def suggest_fewer_offers(usage: Usage, catalog: Catalog, threshold: EvidenceThreshold | None = None) -> Suggestions:
    """Suggest what to do about items that no reply references.

    Args:
        usage: the counts.
        catalog: says how an item is included where no file does.
        threshold: what evidence is enough; None = the default.
    """
    threshold = threshold or EvidenceThreshold()
    unused = [item for item in usage.items if not item.referenced]
    suggestions = [_suggestion(item, catalog, threshold) for item in unused if _can_be_judged(item.key, catalog)]
    pending = sorted((one for one in suggestions if not one.holds), key=lambda one: one.more_offers)
    return Suggestions(
        suggestions=tuple(one for one in suggestions if one.holds),
        pending=tuple(pending),
        not_judged=tuple(item.key for item in unused if not _can_be_judged(item.key, catalog)),
        threshold=threshold,
    )


def _can_be_judged(key: ItemKey, catalog: Catalog) -> bool:
    """Whether a use could be seen: calls always, quotations only of a text that is known."""
    position = catalog.find(key)
    return key.type == "tool" or (position is not None and bool(catalog[position].text))


def _suggestion(item: ItemUsage, catalog: Catalog, threshold: EvidenceThreshold) -> Suggestion:
    how = "called" if item.key.type == "tool" else "cited or quoted"
    aside = "" if item.key.type == "tool" else "; it may be followed without a word"
    return Suggestion(
        key=item.key,
        action=_ACTIONS[_mode(item, catalog)],
        why=f"never {how} in {_n(item.offered, 'offer')} of {_n(item.conversations, 'conversation')}{aside}",
        upper=item.interval.high,
        saved=item.tokens_unused,
        more_offers=max(0, threshold.needed - item.offered),
        more_conversations=max(0, threshold.conversations - item.conversations),
    )


def _n(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _mode(item: ItemUsage, catalog: Catalog) -> str:
    """How an item mostly came into the prompt; of equally frequent modes the first of `_ACTIONS`."""
    modes = {mode: n for mode, n in item.modes.items() if mode in _ACTIONS}
    if modes:
        return max(_ACTIONS, key=lambda mode: modes.get(mode, 0))
    position = catalog.find(item.key)
    include = "agent" if position is None else str(catalog[position].include)
    return "always" if include == "always" else "agent"
