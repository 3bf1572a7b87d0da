"""Memories for prompts: search them, and build the context that a model is given.

`ContextEngine` answers for one workspace at a time, over a store of memories (`ctxbench.stores`).
"""

from ctxbench.memory.context_engine import ContextEngine
from ctxbench.memory.engine_errors import EngineError
from ctxbench.memory.engine_options import ContextOptions, SearchOptions

__all__ = ["ContextEngine", "ContextOptions", "EngineError", "SearchOptions"]
