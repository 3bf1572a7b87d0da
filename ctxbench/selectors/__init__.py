"""Selectors: shipped pipelines with their presets, and selectors of users outside this package."""
