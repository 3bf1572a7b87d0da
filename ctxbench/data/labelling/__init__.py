"""Labels from logs and from a few minutes of a person: what to ask, what the answers say, what to correct."""
