"""The regression gate: an accepted baseline, what changed since, why, and whether it is worse."""
