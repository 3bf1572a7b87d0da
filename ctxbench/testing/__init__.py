"""Conformance checks for strategies, selectors and stores, and the mock data that they run on.

They check that a strategy (`check_step`), a selector (`check_selector`) or a store (`check_store`), shipped or yours,
behaves as the package expects: equal answers in another batch, in another process and over items in another order;
arguments left unchanged. A `ConformanceError` says what differs. Example: `check_step("cut", "half", {"least": 2})`.

Start with `conformance`, then `contract`.

Modules:
    conformance: Conformance suites for strategies, selectors and stores.
    contract: Checks of queries, candidates and prompts, and mock and grown catalogs to run them on.
"""

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
