"""Fits: probabilities, abstention and weights fitted on labelled queries, and measured on queries unseen by the fit."""
