"""What an item's fields hold as words: server, name, description, parameters, text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ctxbench.core.items import Item
from ctxbench.index.words import name_words, words

FIELDS = ("server", "name", "description", "parameters", "text")
_NAMED = ("properties", "patternProperties", "$defs", "definitions")  # keywords of JSON Schema: names to schemas
_NESTED = ("items", "prefixItems", "additionalProperties", "allOf", "anyOf", "oneOf", "not", "if", "then", "else")


def field_words(item: Item) -> Mapping[str, list[str]]:
    """The words of each field of an item; fields that it does not have are empty.

    Those of a tool's text are left out, as in its search text. Parameters are the names and descriptions in the
    input schema, at every depth.
    """
    return {
        "server": name_words(item.server or ""),
        "name": name_words(item.name),
        "description": words(item.description),
        "parameters": [word for part in _schema_words(item.schema) for word in part],
        "text": [] if item.type == "tool" else words(item.text),
    }


def _schema_words(schema: Mapping[str, Any] | None) -> Iterator[list[str]]:
    """The words of each parameter's name and description in a JSON schema, in its order, at every depth.

    What the schema as a whole says of itself belongs to no parameter.
    """
    left: list[tuple[str, object]] = [("", schema)]
    while left:
        name, one = left.pop()
        yield name_words(name)
        if not isinstance(one, Mapping):
            continue
        if one is not schema and isinstance(one.get("description"), str):
            yield words(one["description"])
        below: list[tuple[str, object]] = []
        for key, value in one.items():
            if key in _NAMED and isinstance(value, Mapping):
                below += [(str(inner), value[inner]) for inner in value]
            elif key in _NESTED:
                below += [("", inner) for inner in (value if isinstance(value, list) else [value])]
        left += reversed(below)
