"""Edits that would tell two items apart: one item made of both, or a new name for one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ctxbench.core.items import Item
from ctxbench.index.words import STOP_WORDS, name_parts, words
from ctxbench.text.original_rules import query_chunks

_TRIED_WORDS = 4


def merge_items(first: Item, second: Item) -> Item:
    """One item for two of a type: the shorter name, what either says once, and the arguments of both.

    An argument is required where both require it.
    """
    base, added = sorted((first, second), key=lambda item: len(item.name))
    return replace(
        base,
        description=_join_texts(base.description, added.description, query_chunks, " "),
        text=_join_texts(base.text, added.text, lambda text: text.split("\n\n"), "\n\n"),
        schema=_join_schemas(base.schema, added.schema),
        links=(),
    )


def _join_texts(base: str, added: str, parts: Callable[[str], list[str]], between: str) -> str:
    base_parts = set(parts(base))
    return between.join(filter(None, [base, *(part for part in parts(added) if part not in base_parts)]))


def _join_schemas(base: Mapping[str, Any] | None, added: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if not base or not added:
        return base or added
    joined = {**added, **base, "properties": {**added.get("properties", {}), **base.get("properties", {})}}
    if "required" in joined:
        joined["required"] = [name for name in base.get("required", []) if name in added.get("required", [])]
    return joined


def new_names(item: Item, rival: Item) -> Iterator[str]:
    """New names for an item, with its server, or with a word of its description that the rival does not have."""
    if item.server and item.server != rival.server:
        yield _add_word(item.name, item.server, front=True)
    used_words = {*words(rival.search_text), *name_parts(item.name), *STOP_WORDS}
    distinct = dict.fromkeys(word for word in words(item.description) if word not in used_words and len(word) > 2)
    for word in list(distinct)[:_TRIED_WORDS]:
        yield _add_word(item.name, word)


def _add_word(name: str, word: str, *, front: bool = False) -> str:
    """A name with one more word, in the way in which the name joins its words."""
    if name.isidentifier() and "_" not in name and any(c.isupper() for c in name[1:]):
        return f"{word}{name[0].upper()}{name[1:]}" if front else f"{name}{word.capitalize()}"
    joint = next((mark for mark in "_-. " if mark in name), "_")
    return f"{word}{joint}{name}" if front else f"{name}{joint}{word}"
