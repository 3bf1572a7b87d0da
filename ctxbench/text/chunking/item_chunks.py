"""How items are chunked: by a rule, with tools whole unless it says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ctxbench.core.items import Item
from ctxbench.text.chunking.chunk_rules import Paragraphs, Rule, chunk_rule


@dataclass(frozen=True)
class ItemChunking:
    """The chunks of an item's search text, or of that and what the model loads on demand.

    Attributes:
        rule: splits the text; an item for which it finds no chunk is one chunk as it is.
        split_tools: whether it splits the texts of tools, too; else a tool is one chunk, never trimmed.
        bodies: whether the body of a skill is searched, too, behind its name and description.
    """

    rule: Rule = Paragraphs()  # noqa: RUF009 - frozen
    split_tools: bool = False
    bodies: bool = field(default=False, repr=False)  # stored graphs are kept by what `DOCUMENTS` is printed as

    def __call__(self, item: Item) -> tuple[str, ...]:
        """The chunks of an item, at least one."""
        if item.type == "tool" and not self.split_tools:
            return (item.search_text,)
        text = searched(item, bodies=self.bodies)
        return tuple(self.rule(text)) or (text,)

    @property
    def over(self) -> tuple[str, ...]:
        """The attributes of an item that its chunks depend on, and what names it where one cannot be embedded."""
        return ("type", "server", "name", "search_text", *(("body",) if self.bodies else ()))

    @classmethod
    def described(cls, step: Mapping[str, Any]) -> ItemChunking | None:
        """The chunking of a retriever from its description; None where it has no parameter `chunks`."""
        if "chunks" not in step:
            return None
        return cls(chunk_rule(step["chunks"], parameter="chunks"), step["split_tools"], step.get("bodies", False))


def searched(item: Item, *, bodies: bool) -> str:
    """What is searched of an item: its search text, and if asked for the body of a skill."""
    return f"{item.search_text}\n\n{item.body}" if bodies and item.body else item.search_text


DOCUMENTS = ItemChunking()
"""The documents' chunking: paragraphs, tools whole."""
