"""Importers of public datasets, one source a file."""
