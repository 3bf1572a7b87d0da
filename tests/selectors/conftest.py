"""An agent of the documents' flow example, and resources without a model."""

from __future__ import annotations

import pytest

from ctxbench.model.items import Catalog, Item
from ctxbench.model.resources import Resources
from ctxbench.search.embedders import HashingEmbedder, Vectors
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import CharsCounter
from ctxbench.selectors.session import Agent, Session


class Broken(Resources):
    """Resources of which every search fails."""

    def __init__(self, error):
        self.error = error
        self.asked = 0

    def vectors(self, texts, *, kind="query"):
        self.asked += 1
        raise self.error

    def tokens(self, catalog, items=None):
        raise self.error

    def get_or_create(self, key, make):
        return make()

    def identity(self, resource):
        return "broken"


@pytest.fixture
def resources():
    return LocalResources(Vectors(HashingEmbedder(), None), CharsCounter())


@pytest.fixture
def broken():
    return Broken


@pytest.fixture
def items():
    """The items of the flow example; B and X have texts of other words than the two requests."""
    return [
        Item(type="rule", name="A", text="Be kind.", include="always"),
        Item(type="rule", name="B", text="Write short sentences.", include="manual"),
        Item(type="rule", name="C", text="How to authenticate: send the token.", include="agent"),
        Item(type="reference", name="X", text="The glossary.", include="always"),
        Item(type="reference", name="Y", text="What the error handling is.", include="agent"),
    ]


@pytest.fixture
def agent(items):
    """Of the two agent-mode items, one is found for a request."""
    return Agent(catalog=Catalog(items), settings={"contextTopN": 1}, system="You are helpful.")


@pytest.fixture
def session(agent):
    return Session.start(agent, "c1").add("rule:B")
