"""Checks that a strategy or selector of anyone's behaves as the rest relies on, and what they run on."""

from ctxbench.testing.conformance import ConformanceError, check_selector, check_step
from ctxbench.testing.mocks import mock_catalog, mock_requests, mock_resources

__all__ = ["ConformanceError", "check_selector", "check_step", "mock_catalog", "mock_requests", "mock_resources"]
