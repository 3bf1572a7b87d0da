"""Exchanges with HTTP servers, bounded in time and size."""
