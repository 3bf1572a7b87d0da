"""Strategies, one family a file. They never import each other; pipelines compose them by name."""
