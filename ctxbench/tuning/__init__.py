"""Tuning: the setting that a policy asks for, found on the tuning split and reported on the test split."""
