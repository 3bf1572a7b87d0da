"""Memories for prompts: search them, and build the context that a model is given.

A store keeps memories, files and messages by workspace. `ContextEngine` searches one workspace at a time; every call is
one run of a shipped pipeline with the steps `links`, `rendered` and `template` added. The service answers over HTTP,
and feedback becomes datasets. For users: `experiments/guide/memory.md` and `ctxbench/memory/serve.md`.

Start with `ContextEngine` in `engine`. Nothing here filters: `Request.only` does. Results also have the names of the
memory specification: `memory`, `score`, `rank`; `context`, `tokenCount`, `truncated`; `memoryIds`, `rankingScores`,
`budgetUsed`.

Modules:
    engine: The memory engine: options, errors, results and caches.
    memories: Memories, events, their checks, and the rows that they are imported from.
    service: The context service: build contexts, take feedback and rows, and count requests.
    sqlite_store: The SQLite store.
    stores: The base class of stores, the store in memory, the import of rows, datasets from feedback, users' catalogs.
    web_app: The HTTP interface of the service: tokens, OpenAPI and routes.
"""

from ctxbench.memory.engine import ContextEngine, ContextOptions, EngineError, SearchOptions

__all__ = ["ContextEngine", "ContextOptions", "EngineError", "SearchOptions"]
