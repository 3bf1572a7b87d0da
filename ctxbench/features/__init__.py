"""Features: columns that say how a candidate matches its request, for fitted rankings to read by name."""
