"""Datasets from logs of agents: lines of turns and requests, OpenTelemetry spans, exports of Langfuse."""
