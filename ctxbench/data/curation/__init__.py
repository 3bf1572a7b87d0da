"""Keeping datasets true: what they hold, how they differ, new splits, another catalog, other programs' formats."""
