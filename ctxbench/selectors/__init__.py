"""Selectors: pipelines with presets, external selectors, explanations and sessions."""
