"""Labelled datasets: read, check, write and look up."""
