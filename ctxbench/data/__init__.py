"""Datasets: what they hold, where they come from, and how their labels are made and mended."""
