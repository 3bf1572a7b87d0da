"""Embedders by name, imported when asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ctxbench.core import registry
from ctxbench.core.errors import ParameterError, UnknownNameError

if TYPE_CHECKING:
    from ctxbench.embedding.base import Embedder


def open_embedder(name: str = "minilm") -> Embedder:
    """Return the embedder called `name`; nothing is loaded yet.

    Args:
        name: `minilm` (all-MiniLM-L6-v2 by onnxruntime), `hashing` (no model, for tests), `st:<model>` with the name
            or folder of any sentence-transformers model, or a plugin's name.

    Raises:
        UnknownNameError: no such embedder.
        ParameterError: `st:` without a model, or another embedder with one.
    """
    kind, colon, model = name.partition(":")
    try:
        make = registry.find("embedder", kind)  # does not look for plugins where the name is built in: that costs 20 ms
    except UnknownNameError as error:
        known = ["st:<model>" if one == "st" else one for one in error.known]
        raise UnknownNameError("embedder", name, known) from error
    if (kind == "st") != bool(model) or (colon and kind != "st"):
        raise ParameterError(
            f"embedder {name!r}: a model is named with 'st' only, as in 'st:BAAI/bge-small-en-v1.5'; "
            "write 'minilm', 'hashing' or 'st:<model>'"
        )
    return cast("Embedder", make(model) if model else make())
