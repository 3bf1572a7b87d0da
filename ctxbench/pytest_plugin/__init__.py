"""The plugin of pytest: a fixture that asserts what a selector offers. Nothing heavy is loaded until it is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ctxbench.core.errors import UserError
from ctxbench.io.visible import joined, message_lines
from ctxbench.pytest_plugin.assertions import AssertOffers
from ctxbench.pytest_plugin.setup import OpenSetup, Setup, open_setup

__all__ = ["AssertOffers", "Setup"]

_OPTIONS = {
    "gate": "a gate file that says which catalog, selector, embedder and token counter assert_offers uses",
    "catalog": "what assert_offers selects from: a file of items, a folder, or a dataset's name",
    "selector": "which selector it asks: name, name/preset, a pipeline's YAML file, file#preset, an agent file",
    "embedder": "the embedder, as ctxbench select takes it",
    "tokens": "the counter of prompt tokens",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the ini options."""
    for name, about in _OPTIONS.items():
        parser.addini(f"ctxbench_{name}", f"ctxbench: {about}", default="")


@pytest.fixture(scope="session")
def ctxbench_setup(pytestconfig: pytest.Config) -> Setup:
    """What `assert_offers` selects with, from the ini options. Override it to say so in Python."""
    return Setup(**{name: pytestconfig.getini(f"ctxbench_{name}") for name in _OPTIONS})


@pytest.fixture(scope="session")
def _ctxbench_open(pytestconfig: pytest.Config) -> Iterator[Callable[[Setup], OpenSetup]]:
    """Opens each setup once a session; closes them at its end."""
    opened: dict[Setup, OpenSetup] = {}

    def open_once(setup: Setup) -> OpenSetup:
        if setup not in opened:
            opened[setup] = open_setup(setup, pytestconfig.rootpath)
        return opened[setup]

    yield open_once
    for setup in opened.values():
        setup.close()


@pytest.fixture
def assert_offers(ctxbench_setup: Setup, _ctxbench_open: Callable[[Setup], OpenSetup]) -> AssertOffers:
    """Assert what a selector offers: `assert_offers("a request", include=[...], exclude=[...], max_items=8)`."""
    wrong = ""
    try:
        _ctxbench_open(ctxbench_setup)
    except UserError as error:
        wrong = f"assert_offers cannot be set up: {error}"
    if wrong:  # out here, so that the report has no "During handling of the above exception"
        pytest.fail(joined(message_lines(wrong)), pytrace=False)
    return AssertOffers(ctxbench_setup, _ctxbench_open)
