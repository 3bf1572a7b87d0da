"""Keys of a known form (`ghp_...`, a JWT, a private key) in captured items: located, or replaced by placeholders.

In texts and JSON values they can be hidden. Names are kept as they are, so a key in one can only be told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ctxbench.core.items import Item
from ctxbench.text.redaction import Redactor, known_keys, shortened

SHOWN = 20  # places that a note lists


def key_places(item: Item, *, line: int = 0) -> Iterator[str]:
    """The locations of the keys of an item, each once, with the part that may be shown.

    Args:
        item: an item as it was captured.
        line: of its file, in which its text begins; 0 = it was read from no file.

    Returns:
        Such as `AGENTS.md, line 12 (ghp_…, 40 characters)` or `tool:git:log, its description (...)`, texts first.
    """
    masked_texts: set[str] = set()
    for field, text in _texts(item):
        for start, key in sorted(known_keys(text)):
            if key not in masked_texts:
                masked_texts.add(key)
                at = text.count("\n", 0, start)
                where = f"{item.name}, line {line + at}" if line and field == "text" else f"{item.id}, its {field}"
                yield f"{where} ({shortened(key)}, {len(key):,} characters)"


def hidden(item: Item, redactor: Redactor) -> Item:
    """The item with a placeholder for each key that the redactor finds in its texts; names stay."""
    return replace(
        item,
        text=redactor.text(item.text),
        description=redactor.text(item.description),
        title=redactor.text(item.title),
        schema=_hidden(item.schema, redactor),
        metadata=_hidden(item.metadata, redactor),
    )


def _texts(item: Item) -> Iterator[tuple[str, str]]:
    """Every text of an item with its kind; names last."""
    yield from (("text", item.text), ("description", item.description), ("title", item.title))
    for part, value in (("schema", item.schema), ("metadata", item.metadata)):
        yield from ((part, text) for text in _leaves(value))
    yield from (("name", item.name), ("server's name", item.server or ""))
    yield from (("names of fields", name) for value in (item.schema, item.metadata) for name in _names(value))


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        yield from (text for entry in value for text in _leaves(entry))
    elif isinstance(value, Mapping):
        yield from (text for entry in value.values() for text in _leaves(entry))


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, list | tuple):
        yield from (name for entry in value for name in _names(entry))
    elif isinstance(value, Mapping):
        yield from value
        yield from (name for entry in value.values() for name in _names(entry))


def _hidden(value: Any, redactor: Redactor) -> Any:
    if isinstance(value, str):
        return redactor.text(value)
    if isinstance(value, list | tuple):
        return [_hidden(entry, redactor) for entry in value]
    if isinstance(value, Mapping):
        return {name: _hidden(entry, redactor) for name, entry in value.items()}
    return value
