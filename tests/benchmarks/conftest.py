"""Timings are taken when they are asked for, and never by the tests."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def asked_for(request):
    if not request.config.getoption("benchmark_only"):
        pytest.skip("timings are taken with --benchmark-only")
