"""The kinds of files that `ctxbench data import` reads, and how a file's kind is recognised.

Each family of readers declares its kinds; this module joins them in the order in which they are tried.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ctxbench.io.errors import UnknownNameError

LOG, EVALS, COLLECTION, CATALOG = "log", "evals", "collection", "catalog"
"""Families of kinds: what becomes a dataset of a log, of evals, of documents with judgments; or a catalog."""
_MODULES = ("agent_sessions", "trace_exports", "evals", "judgment_files")  # in the order of recognition


@dataclass(frozen=True, kw_only=True)
class ImportKind:
    """A kind of file.

    Attributes:
        name: as in `--as`.
        family: one of `LOG`, `EVALS`, `COLLECTION` and `CATALOG`.
        title: what it is, in a few words.
        program: where its program writes it.
        request: what becomes a request.
        label: what becomes a label.
        offered: what becomes an offered set; empty if nothing does.
        matches: whether a file is of this kind, by the values of its first documents.
    """

    name: str
    family: str
    title: str
    program: str
    request: str
    label: str
    offered: str = ""
    matches: Callable[[Sequence[Any]], bool]


@cache
def import_kinds() -> dict[str, ImportKind]:
    """All kinds by name, in the order in which they are tried."""
    modules = (importlib.import_module(f"ctxbench.labelling.{name}") for name in _MODULES)
    return {kind.name: kind for module in modules for kind in module.KINDS}


def kind_named(name: str) -> ImportKind:
    """The kind with a name.

    Raises:
        UnknownNameError: there is none.
    """
    if name not in import_kinds():
        raise UnknownNameError("kind of file", name, import_kinds())
    return import_kinds()[name]


def recognise(values: Sequence[Any]) -> ImportKind | None:
    """The kind of a file, by the values of its first documents; None if it is none of them."""
    return next((kind for kind in import_kinds().values() if values and kind.matches(values)), None)
