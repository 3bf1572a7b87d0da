"""The gate: compare a selector with its accepted baseline, and explain what changed."""
