"""Texts to vectors: embedders, the store of vectors on disk, and `open_embedder`, which finds an embedder by name."""

from ctxbench.embedding.embedder_names import open_embedder

__all__ = ["open_embedder"]
