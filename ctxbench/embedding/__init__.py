"""Texts to vectors: embedders, the store of vectors on disk, and what finds an embedder by name."""
