"""Texts: chunks, prices in tokens, and secrets."""
