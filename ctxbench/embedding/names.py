"""Embedders by name, imported when asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, cast

from ctxbench.errors import ParameterError, UnknownNameError

if TYPE_CHECKING:
    from ctxbench.embedding.base import Embedder

EMBEDDERS = {
    "minilm": "ctxbench.embedding.minilm:MiniLM",
    "hashing": "ctxbench.embedding.hashing:HashingEmbedder",
    "st": "ctxbench.embedding.sentence_transformers:SentenceTransformerEmbedder",
}


def open_embedder(name: str = "minilm") -> Embedder:
    """Return the embedder called `name`; nothing is loaded yet.

    Args:
        name: `minilm` (all-MiniLM-L6-v2 by onnxruntime), `hashing` (no model, for tests), or `st:<model>` with the
            name or folder of any sentence-transformers model.

    Raises:
        UnknownNameError: no such embedder.
        ParameterError: `st:` without a model, or another embedder with one.
    """
    kind, colon, model = name.partition(":")
    if kind not in EMBEDDERS:
        raise UnknownNameError("embedder", name, ["minilm", "hashing", "st:<model>"])
    if (kind == "st") != bool(model) or (colon and kind != "st"):
        raise ParameterError(
            f"embedder {name!r}: a model is named with 'st' only, as in 'st:BAAI/bge-small-en-v1.5'; "
            "write 'minilm', 'hashing' or 'st:<model>'"
        )
    module, attribute = EMBEDDERS[kind].split(":")
    make = getattr(importlib.import_module(module), attribute)
    return cast("Embedder", make(model) if model else make())
