"""Contexts on request: a service over a store, its cache and figures, and its HTTP interface."""
