"""Evaluation: experiments, run folders, metrics, statistics and latency."""
