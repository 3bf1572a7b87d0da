"""Conformance checks for strategies, selectors and stores, and the mock data that they run on."""

from ctxbench.testing.conformance import ConformanceError, check_selector, check_step, check_store
from ctxbench.testing.contract import mock_catalog, mock_requests, mock_resources

__all__ = [
    "ConformanceError",
    "check_selector",
    "check_step",
    "check_store",
    "mock_catalog",
    "mock_requests",
    "mock_resources",
]
