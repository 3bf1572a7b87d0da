"""Datasets, metrics, statistics, runs and latency."""
