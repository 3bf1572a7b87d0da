"""Trees of git repositories as catalogs: what a commit or a working tree holds, and the commits that led to it."""
