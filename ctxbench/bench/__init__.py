"""Runs: experiments, answers of selectors, metrics, statistics and latency."""
