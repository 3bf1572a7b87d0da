"""A lock of one process: a child does not wait for threads of its parent."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from ctxbench.io.cache import ProcessLock

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]


def child(work) -> int:
    """The exit code of a forked child."""
    process = os.fork()
    if not process:
        try:
            signal.alarm(20)  # rather than wait for ever
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def test_what_another_thread_holds_is_free_in_a_child():
    def hold():
        with lock:
            held.set()
            done.wait(60)

    def take():
        with lock, lock:
            pass

    lock, held, done = ProcessLock(), threading.Event(), threading.Event()
    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    assert child(take) == 0
    done.set()
    thread.join(60)


def test_what_the_forking_thread_holds_it_goes_on_to_hold():
    lock = ProcessLock()
    with lock:
        assert child(lock.__exit__) == 0
