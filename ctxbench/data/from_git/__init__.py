"""Labelled datasets from the history of a git repository: commit messages are queries, changed files are required."""
