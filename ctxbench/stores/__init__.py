"""Stores of memories: what agents were told and are to know again, by workspace, with every version of it."""
