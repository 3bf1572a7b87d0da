"""How items are chunked: by a rule, with tools whole unless it says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ctxbench.chunking.rules import Paragraphs, Rule, chunk_rule
from ctxbench.core.items import Item


@dataclass(frozen=True)
class ItemChunking:
    """The chunks of an item's search text.

    Attributes:
        rule: splits the text; an item for which it finds no chunk is one chunk as it is.
        split_tools: whether it splits the texts of tools, too; else a tool is one chunk, never trimmed.
    """

    rule: Rule = Paragraphs()  # noqa: RUF009 - frozen
    split_tools: bool = False

    def __call__(self, item: Item) -> tuple[str, ...]:
        """The chunks of an item, at least one."""
        if item.type == "tool" and not self.split_tools:
            return (item.search_text,)
        return tuple(self.rule(item.search_text)) or (item.search_text,)

    @classmethod
    def described(cls, step: Mapping[str, Any]) -> ItemChunking | None:
        """The chunking of a retriever from its description; None where it has no parameter `chunks`."""
        if "chunks" not in step:
            return None
        return cls(chunk_rule(step["chunks"], parameter="chunks"), step["split_tools"])


DOCUMENTS = ItemChunking()
"""The documents' chunking: paragraphs, tools whole."""
