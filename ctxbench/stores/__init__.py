"""Stores of memories by workspace, with all versions."""
