"""Memories for prompts: search them, and build the context that a model is given.

`ContextEngine` answers for one workspace at a time, over a store of memories (`ctxbench.memory.stores`).
"""

from ctxbench.memory.engine import ContextEngine, ContextOptions, EngineError, SearchOptions

__all__ = ["ContextEngine", "ContextOptions", "EngineError", "SearchOptions"]
