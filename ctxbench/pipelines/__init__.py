"""Pipelines: strategies composed in YAML, and the features and fits that they read."""
