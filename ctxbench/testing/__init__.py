"""Conformance checks for strategies, selectors and stores, and the mock data that they run on."""

from ctxbench.testing.conformance import ConformanceError, check_selector, check_step
from ctxbench.testing.mocks import mock_catalog, mock_requests, mock_resources
from ctxbench.testing.store_contract import check_store

__all__ = [
    "ConformanceError",
    "check_selector",
    "check_step",
    "check_store",
    "mock_catalog",
    "mock_requests",
    "mock_resources",
]
