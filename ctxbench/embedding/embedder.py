"""What every embedder is: an identity that is known without loading anything, and texts to vectors."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ctxbench.core.arrays import Float32Array
from ctxbench.core.errors import EmbeddingError

OnDone: TypeAlias = Callable[[int, Float32Array], None]


class ModelError(EmbeddingError):
    """The model itself is missing, wrong or not loadable: no text is at fault."""


@dataclass(frozen=True, slots=True)
class EmbedderIdentity:
    """What a vector depends on beside its text. Two embedders of equal identity give interchangeable vectors.

    Attributes:
        model: name of the model, such as `sentence-transformers/all-MiniLM-L6-v2`.
        revision: which version of its weights: a commit, or the beginning of their hash.
        backend: what computes it, with our own version where we wrote a part of it.
        quantisation: number format of the weights, such as `float32`.
        dimensions: length of a vector.
    """

    model: str
    revision: str
    backend: str
    quantisation: str
    dimensions: int

    @property
    def key(self) -> str:
        """Short stable text, different for different identities, usable as a folder name on any system."""
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{self.model}-{self.backend}-{self.quantisation}").strip("-.")
        digest = hashlib.sha256(json.dumps(self.as_dict(), sort_keys=True).encode()).hexdigest()
        return f"{name[:80]}-{digest[:12]}"

    def as_dict(self) -> dict[str, str | int]:
        """Return the attributes by name, for manifests."""
        return dataclasses.asdict(self)


class Embedder(Protocol):
    """Turns texts into vectors."""

    @property
    def identity(self) -> EmbedderIdentity:
        """Who made the vectors; known without loading the model."""
        ...

    def embed(self, texts: Sequence[str], *, on_done: OnDone | None = None) -> Float32Array:
        """Embed texts. The first call loads the model.

        Args:
            texts: any strings: empty ones, long ones and lone surrogates included.
            on_done: called in the calling thread with (position in `texts`, its vector) as soon as a vector is made,
                in no particular order, once a position; so a caller can store vectors before all are made.

        Returns:
            Shape (n_texts, dimensions), in the order of `texts`, each row of unit length. The bits of a row depend
            on its text alone: not on the other texts, their order, or the number of threads. No texts: shape
            (0, dimensions), and nothing is loaded.

        Raises:
            ModelError: the model is missing or cannot be loaded.
            EmbeddingError: a text cannot be embedded.
        """
        ...


def well_formed(text: str) -> str:
    """Replace lone surrogates by U+FFFD and join split pairs, as JavaScript's `String.prototype.toWellFormed`.

    Text that was cut by UTF-16 units can end in half a character; no tokeniser takes that.
    """
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
