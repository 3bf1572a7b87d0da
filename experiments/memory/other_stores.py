"""Selectors outside, for `other-stores.yaml`: what mem0 and LangGraph's store find among the same memories.

Both get ctxbench's vectors, and what a request may see as filters: its workspace and user, and what was there at its
time. mem0 stores texts as they are (`infer=False`), since no language model is called; its search by words and by
entities needs models from a hub and is off, as it is for whoever installs `mem0ai` alone.
"""

from __future__ import annotations

import logging
import os
import tempfile
from datetime import UTC, datetime
from functools import cache

from ctxbench.search.embedders import open_embedder, open_vectors

MOST = 100  # items ranked
SIZE = 384
logging.getLogger("mem0").setLevel(logging.ERROR)


@cache
def _vectors():
    return open_vectors(open_embedder())


def embed(texts):
    """Vectors as lists, kept by ctxbench's store of vectors."""
    return _vectors().get(list(texts)).tolist()


class _Embedding:
    """mem0's protocol of an embedder."""

    def embed(self, text, _action=None):
        return embed([text])[0]

    def embed_batch(self, texts, _action="add"):
        return embed(texts)


def _seconds(time, default):
    """A time as seconds since 1970; None = the default."""
    if time is None:
        return default
    moment = datetime.fromisoformat(time)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _facts(item):
    """What filters are about."""
    return {
        "item": item["_id"],
        "created": _seconds(item.get("created"), 0.0),
        "until": _seconds(item.get("until"), 4e9),
        "owner": item.get("user") or "",
    }


_KEPT = {}


def _once(kind, items, make):
    """What a store holds of a catalog, made once for each list of items."""
    key = kind, id(items)
    if key not in _KEPT:
        embed(item["text"] for item in items)
        _KEPT[key] = items, make(items)
    return _KEPT[key][1]


def _mem0_store(items):
    os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": tempfile.mkdtemp()}
    from mem0 import Memory

    settings = {
        "vector_store": {
            "provider": "qdrant",
            "config": {"path": tempfile.mkdtemp(), "embedding_model_dims": SIZE, "on_disk": False},
        },
        "llm": {"provider": "openai", "config": {"api_key": "none"}},
        "embedder": {"provider": "openai", "config": {"api_key": "none", "embedding_dims": SIZE}},
        "history_db_path": ":memory:",
    }
    store = Memory.from_config(settings)
    store.embedding_model = _Embedding()
    for item in items:
        store.add(item["text"], user_id=item.get("workspace") or "all", metadata=_facts(item), infer=False)
    return store


def mem0(request, items):
    """mem0's own search and threshold, filtered to what the request may see."""
    store = _once("mem0", items, _mem0_store)
    now = _seconds(request.get("time"), 4e9)
    filters = {
        "user_id": request.get("workspace") or "all",
        "created": {"lte": now},
        "until": {"gt": now},
        "owner": {"in": ["", request.get("user") or ""]},
    }
    found = store.search(request["text"], filters=filters, top_k=MOST)["results"]
    return _answer([(one["metadata"]["item"], one["score"]) for one in found])


def _langgraph_store(items):
    from langgraph.store.memory import InMemoryStore

    store = InMemoryStore(index={"dims": SIZE, "embed": embed, "fields": ["text"]})
    for item in items:
        store.put((item.get("workspace") or "all",), item["_id"], {"text": item["text"], **_facts(item)})
    return store


def langgraph(request, items):
    """LangGraph's store in memory, filtered to what the request may see."""
    store = _once("langgraph", items, _langgraph_store)
    now = _seconds(request.get("time"), 4e9)
    filters = {"created": {"$lte": now}, "until": {"$gt": now}}
    found = store.search((request.get("workspace") or "all",), query=request["text"], limit=MOST, filter=filters)
    owners = ("", request.get("user") or "")
    return _answer([(one.key, one.score) for one in found if one.value["owner"] in owners])


def _answer(ranking, n=10):
    rows = [{"id": item, "score": score} for item, score in ranking]
    return {"items": rows[:n], "ranking": rows}
