"""Tuning: choose the setting of a selector by a policy, and report it on the test split."""
