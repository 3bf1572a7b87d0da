"""Calibration: fitting probabilities on labelled queries, and measuring the fits on queries that they have not seen."""
