"""Importers of general formats: any BEIR folder, TREC qrels and runs, AutoRAG's questions. They take files."""
