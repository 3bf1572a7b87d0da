"""Count which offered items replies make use of, and suggest items to offer less."""

from __future__ import annotations

from ctxbench.data.usage.counts import (
    EvidenceThreshold,
    ItemUsage,
    Suggestion,
    Suggestions,
    Usage,
    count_usage,
    suggest_fewer_offers,
)
from ctxbench.data.usage.references import References, UsageEvidence
from ctxbench.data.usage.replies import Replies, Reply, read_replies

__all__ = [
    "EvidenceThreshold",
    "ItemUsage",
    "References",
    "Replies",
    "Reply",
    "Suggestion",
    "Suggestions",
    "Usage",
    "UsageEvidence",
    "count_usage",
    "read_replies",
    "suggest_fewer_offers",
]
