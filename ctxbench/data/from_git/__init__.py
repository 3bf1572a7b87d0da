"""Labelled datasets from the history of a git repository: what was asked for, and what it took."""
