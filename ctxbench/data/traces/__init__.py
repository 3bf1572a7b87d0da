"""Datasets from logs of what an agent was offered and called: JSON lines and OpenTelemetry GenAI spans."""
