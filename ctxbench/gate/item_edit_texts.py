"""Phrases how an item was edited: the fields that differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ctxbench.gate.snapshots import ItemFact
from ctxbench.gate.value_texts import first_few, shown_value

NAME_FIELDS = ("_id", "name", "server", "title")  # fields in which an item and its renamed successor may differ
_HASHES = {"definition_sha256", "sha256"}  # what readers of sources note of what an item was made from
_VALUE_FIELDS = ("enabled", "include", "type", "server")  # fields shown with their values
_DEFAULTS = {"enabled": True, "include": "agent"}


def differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The names whose values differ between two mappings, or that only one of them has."""
    return [name for name in dict.fromkeys([*before, *after]) if before.get(name) != after.get(name)]


def edited_fields(before: ItemFact, after: ItemFact) -> tuple[str, ...]:
    """The fields in which an item differs, sorted; none where the texts of either side are kept out."""
    if before.row is None or after.row is None:
        return ()
    fields = {*differing(before.row, after.row)} - {"_id"}
    if fields - {"metadata"} and _same_but_hashes(before.row, after.row):
        fields -= {"metadata"}
    return tuple(sorted(fields - {"title"} if "name" in fields else fields))


def _same_but_hashes(*rows: Mapping[str, Any]) -> bool:
    """Whether the metadata of two items is the same except for hashes of their definitions."""
    return {*_metadata_keys(*rows)} <= _HASHES


def _metadata_keys(*rows: Mapping[str, Any]) -> list[str]:
    return differing(*(row.get("metadata") or {} for row in rows))


def edit_text(before: ItemFact | None, after: ItemFact | None) -> str:
    """How an item was edited: `text and metadata (owner) edited`, `renamed from tool:a, enabled true -> false`.

    Without texts, no more is known than that it is not the same.
    """
    if before is None or after is None:
        return "edited"
    if before.row is None or after.row is None:
        return "its content hash is another"
    renamed = before.id != after.id
    fields = [name for name in edited_fields(before, after) if not (renamed and name in NAME_FIELDS)]
    labels = {"metadata": _metadata_text(before.row, after.row)}
    rest = [labels.get(name, name) for name in fields if name not in _VALUE_FIELDS]
    parts = [f"renamed from {before.id}"] if renamed else []
    parts += [
        f"{name} {' -> '.join(shown_value(row.get(name, _DEFAULTS.get(name))) for row in (before.row, after.row))}"
        for name in fields
        if name in _VALUE_FIELDS
    ]
    if rest:
        parts.append(f"{' and '.join([', '.join(rest[:-1]), rest[-1]]) if len(rest) > 1 else rest[0]} edited")
    return ", ".join(parts) or "edited"


def _metadata_text(*rows: Mapping[str, Any]) -> str:
    """`metadata (owner, tier)`: with the first of the keys that differ; hashes of definitions only if nothing else."""
    keys = _metadata_keys(*rows)
    return f"metadata ({first_few([key for key in keys if key not in _HASHES] or keys)})"
