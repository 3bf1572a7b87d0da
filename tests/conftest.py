"""What holds for all tests."""

from __future__ import annotations

import os
import signal

import pytest


def pytest_configure() -> None:
    """Let tests press Ctrl-C also where they were started with it ignored: by `nohup`, or in a script's background.

    A process hands a signal that it ignores on to those that it starts, but not a handler.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def no_wait_for_the_disk():
    """What tests write need not outlive a power cut; those of lost power start processes, or put their own here."""
    synced, os.fsync = os.fsync, lambda _handle: None
    yield
    os.fsync = synced
