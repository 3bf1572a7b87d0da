"""Files, the cache, HTTP, git, the console, and errors."""
