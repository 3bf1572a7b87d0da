"""The names that hand-written evals give their fields, and what a field that is called otherwise was meant to be."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from ctxbench.io.rows import Row

QUERY = ("query", "input", "question", "request", "prompt", "message", "text")
EXPECTED = (
    *("expected", "expected_tools", "expected_items", "must_include", "include", "relevant", "required", "tools"),
    *("must_use", "should_use"),
)
FORBIDDEN = (
    *("forbidden", "forbidden_tools", "forbidden_items", "must_exclude", "must_not_include", "exclude"),
    *("not_expected", "irrelevant", "must_not_use", "should_not_use", "avoid"),
)
IDS = ("id", "_id", "qid", "query_id")
FIELDS = {"query": QUERY, "expected": EXPECTED, "forbidden": FORBIDDEN, "id": IDS}
NAMING = ("name", "title")  # fields that are the ids where there are no others
READ_BESIDE = ("split", "tags")  # by this name alone
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SAYS_NOT = re.compile(
    r"not|never|avoid|forbid|exclu|without|irrelevant|unexpected|disallow|(?:^|_)(?:no|dont|mustnt|shouldnt)_"
)


def field_of(row: Row, names: Sequence[str]) -> str | None:
    """The record's field of one of the names, also in camelCase; two of them are a fault."""
    fields = sorted((name for name in row.data if snake(name) in names), key=lambda name: names.index(snake(name)))
    if len(fields) > 1:
        row.fault(f"it has {' and '.join(map(repr, fields))}; expected one of them")
    return fields[0] if fields else None


def snake(name: str) -> str:
    """A field's name as it is read: `expectedTools` and `Expected tools` are `expected_tools`."""
    return re.sub(r"[\s-]+", "_", _HUMP.sub("_", name.strip())).lower()


def meant(name: str, value: Any, fields: Mapping[str, str | None]) -> tuple[str, str] | None:
    """What a field that was passed over may have been meant to be: `expected` or `forbidden`, and a name of it.

    What says that something should not be offered is never taken for what should be.

    Args:
        name: of the field.
        value: what it holds; a list under a name that says not is a list of what is forbidden.
        fields: what the record's other fields are; what is there already was not meant.
    """
    plain = snake(name).replace("'", "")
    what, names = ("forbidden", FORBIDDEN) if _SAYS_NOT.search(plain) else ("expected", EXPECTED)
    close = get_close_matches(plain, names, n=1)
    if not close and what == "forbidden" and isinstance(value, list):
        close = ["forbidden"]
    return (what, close[0]) if close and fields[what] is None else None


def naming_field(records: Sequence[Mapping[str, Any]]) -> str | None:
    """A field that tells the records apart where none of them has an id: each has a text there, no two the same."""
    if any(snake(name) in IDS for record in records for name in record):
        return None
    for name in NAMING:
        texts = {text for record in records if isinstance(text := record.get(name), str) and text.strip()}
        if records and len(texts) == len(records):
            return name
    return None
