"""Datasets from logs of agents: JSON lines, and OpenTelemetry GenAI spans."""
