"""Agents, sessions and requests: the items of an agent, of a chat session, and of one request."""

from __future__ import annotations

from ctxbench.session.context_comparison import ContextChange, ContextComparison, Rebuilt, compare, rebuild
from ctxbench.session.exchange import Exchange
from ctxbench.session.session import Agent, RequestContext, Session
from ctxbench.session.session_files import ConversationStore, read_session, write_session
from ctxbench.sources.include_modes import tool_modes

__all__ = [
    "Agent",
    "ContextChange",
    "ContextComparison",
    "ConversationStore",
    "Exchange",
    "Rebuilt",
    "RequestContext",
    "Session",
    "compare",
    "read_session",
    "rebuild",
    "tool_modes",
    "write_session",
]
