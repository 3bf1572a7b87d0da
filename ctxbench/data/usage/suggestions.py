"""Suggest items to offer less: those that no reply references, where there were enough offers to say so."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ctxbench.bench.stats.intervals import critical
from ctxbench.core.errors import ParameterError
from ctxbench.core.items import Catalog, ItemKey
from ctxbench.data.usage.counts import ItemUsage, Usage

_ACTIONS = {  # by how an item mostly came into the prompt
    "always": "set its include mode to agent",
    "manual": "remove it from the session",
    "agent": "set its include mode to manual",
    "expansion": "set its include mode to manual",
    "explicit": "do not refer to it",
}


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
