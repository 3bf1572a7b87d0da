"""Embedders as users of the library give them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from ctxbench.embedding.embedder import Embedder

EmbedderGiven: TypeAlias = "str | Embedder | Callable[[Sequence[str]], Any]"
"""An embedder as a user gives it: its name, an object, or a function from texts to an array."""


def embedder_name(embedder: EmbedderGiven) -> str:
    """The name of an embedder: itself, or that under which a function or an object is one in this process.

    Raises:
        UserError: it is none of them, or the function fails on a first text.
    """
    if isinstance(embedder, str):
        return embedder
    from ctxbench.embedding.given import named

    return named(embedder)
