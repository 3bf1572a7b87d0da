"""What holds for all tests."""

from __future__ import annotations

import gc
import os
import signal

import pytest
from hypothesis import HealthCheck, settings

from tests.postgres_server import programs, running_server
from tests.tiers import listed_durations, tiers_of

# a busy machine fails no property
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--tier",
        choices=("quick", "first", "rest", "all"),
        default="all",
        help="quick and essential tests (first), the others (rest), a quick function once (quick); see tests/tiers.py",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tier = config.getoption("--tier")
    if tier == "all":
        return
    durations, functions = listed_durations(), set()
    selected, deselected = [], []
    for item in items:
        function = item.nodeid.partition("[")[0]
        is_repeat = tier == "quick" and function in functions
        functions.add(function)
        (selected if tier in tiers_of(item, durations) and not is_repeat else deselected).append(item)
    config.hook.pytest_deselected(items=deselected)
    items[:] = selected


def pytest_configure() -> None:
    """Let tests send Ctrl-C and SIGHUP also where they were started with them ignored, as by `nohup`.

    A process hands a signal that it ignores on to those that it starts, but not a handler.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)  # the tests themselves outlive their terminal all the same


@pytest.fixture(autouse=True, scope="session")
def no_wait_for_the_disk():
    """What tests write need not outlive a power cut; those of lost power start processes, or put their own here."""
    synced, os.fsync = os.fsync, lambda _handle: None
    yield
    os.fsync = synced


@pytest.fixture(scope="session")
def postgres_server():
    """A PostgreSQL server, one a session; where none is installed the test is skipped, but never in CI."""
    pytest.importorskip("psycopg", reason="needs psycopg: pip install 'ctxbench[postgres]'")
    found = programs()
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("PostgreSQL is not installed; .ci/run installs it")
        pytest.skip("needs PostgreSQL: apt-get install postgresql")
    with running_server(found) as server:
        yield server


@pytest.fixture
def postgres(postgres_server, monkeypatch):
    """The server, named by the environment as for a user."""
    monkeypatch.setenv("CTXBENCH_POSTGRES", postgres_server.address)
    seldom = gc.get_threshold()
    gc.set_threshold(700, 10, 10)  # Python's own: a connection ends with its index, and the server takes few
    yield postgres_server
    gc.set_threshold(*seldom)


def pytest_collection_finish() -> None:
    """Search for garbage less often, and not among what was collected: a tenth of the time went into it."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
