"""The exact sweep: every setting of a cut evaluated at once, equal to running the selector at each of them."""
