"""Files, streams and the cache: reading with faults by line, writing whole or not at all."""
