"""What an item's fields hold as words: name, description, parameters, text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ctxbench.index.lexical import words
from ctxbench.items import Item

FIELDS = ("name", "description", "parameters", "text")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_NAMED = ("properties", "patternProperties", "$defs", "definitions")  # keywords of JSON Schema: names to schemas
_NESTED = ("items", "prefixItems", "additionalProperties", "allOf", "anyOf", "oneOf", "not", "if", "then", "else")


def name_words(text: str) -> list[str]:
    """The words of a name: its parts, and behind those of a piece that was split the whole piece.

    `createIssue` and `create_issue` are `create issue createissue`; `HTTPServer2` is `http server 2 httpserver2`.
    A plain sentence has the words of `words`, and for an identifier in it those of its parts too.
    """
    found: list[str] = []
    for piece in text.split():
        parts = name_parts(piece)
        found += parts
        if len(parts) > 1:
            found.append("".join(parts))
    return found


def name_parts(text: str) -> list[str]:
    """The parts of a name, case-folded: split at blanks, punctuation, changes of case, and digits."""
    return [part for piece in text.split() for run in _runs(piece) for part in _cased(run)]


def _runs(piece: str) -> list[str]:
    """Runs of letters, digits and marks, in the case they were written in where that can be split."""
    return re.findall(r"[^\W_]+", piece) if piece.isascii() else words(_spaced(piece))


def _cased(run: str) -> list[str]:
    """A run split at changes of case and between letters and digits; only plain letters have such changes here."""
    return [part.lower() for part in _PART.findall(run)] if run.isascii() else [run]


def _spaced(piece: str) -> str:
    """A blank before every capital that follows a small letter: what is not ASCII has no pattern for its case."""
    return "".join(f" {c}" if i and c.isupper() and not piece[i - 1].isupper() else c for i, c in enumerate(piece))


def field_words(item: Item) -> Mapping[str, list[str]]:
    """The words of each field of an item; fields that it does not have are empty.

    Those of a tool's text are left out, as in its search text. Parameters are the names and descriptions in the
    input schema, at every depth.
    """
    return {
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
