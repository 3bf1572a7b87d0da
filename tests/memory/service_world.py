"""A workspace of three users, and a service over it, for the tests of this room."""

from __future__ import annotations

from ctxbench.memory.memories import Memory
from ctxbench.memory.service import ContextService
from tests.memory.dict_store import DictStore

WORKSPACE = "home"
TEXTS = {
    "tyre": "Ana's front tyre went flat on the canal path.",
    "pump": "The bicycle pump is kept in the cellar.",
    "bread": "Ana buys rye bread on Fridays.",
    "tea": "Ben drinks green tea without sugar.",
}


def filled(store=None):
    store = DictStore() if store is None else store
    store.create_workspace(WORKSPACE)
    for day, (id_, content) in enumerate(TEXTS.items(), start=1):
        store.insert(Memory(id=id_, workspace=WORKSPACE, content=content, created=f"2026-03-0{day}T09:00:00Z"))
    return store


def service_over(store, **given):
    return ContextService(store, WORKSPACE, **{"embedder": "hashing", "counter": "chars/4", **given})
