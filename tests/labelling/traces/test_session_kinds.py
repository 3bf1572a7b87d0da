"""Which files are sessions, and damaged sessions."""

from __future__ import annotations

import random

import pytest

from ctxbench.io.errors import CtxbenchError
from ctxbench.labelling.agent_sessions import KINDS
from tests.labelling.traces.session_cases import (
    BARE_REQUEST,
    CHAT_REQUEST,
    OWN_NAMES,
    assistant,
    codex,
    ran,
    result,
    said,
    use,
    user,
)


@pytest.mark.parametrize(
    "rows",
    [
        [{"query": "Go.", "expected": ["track_order"], "role": "user"}],
        [{"messages": [{"role": "user", "content": "Go."}], "offered": []}],
        [{"_id": "1", "text": "A document", "title": "T"}],
        [{"id": "o", "traceId": "t", "type": "AGENT", "input": "x"}],
        [{"input": "Go.", "history": [{"role": "user", "content": "x"}], "expected_tools": ["a"]}],
        [{"name": "track_order", "description": "x", "inputSchema": {}}],
        [{"id": "r", "run_type": "llm", "inputs": {}, "session_id": "s"}],
        ["plain text", "user"],
        [{"_id": "1", "text": "A document", "source": "user"}, {"_id": "2", "text": "Another", "source": "user"}],
        [{"name": "Ann", "role": "user"}, {"name": "Ben", "role": "admin"}],
        [{"requests": [3], "x": 1}, {"conversations": [1]}],
    ],
)
def test_other_files_are_no_sessions(rows):
    assert [kind.name for kind in KINDS if kind.matches(rows)] == []


SESSIONS = {
    "claude-code": [user("Go.", uuid="1"), assistant(use("Skill", skill="pdf")), result()],
    "codex": [codex("session_meta", id="x"), said("Go."), *ran("shop__track_order")],
    "copilot": [{"version": 3, "sessionId": "v", "requests": [CHAT_REQUEST, BARE_REQUEST]}],
    "gemini-cli": [
        {
            "sessionId": "g",
            "projectHash": "h",
            "messages": [
                {"type": "user", "content": "Go."},
                {"type": "gemini", "toolCalls": [{"name": "a", "result": [1]}]},
            ],
        }
    ],
    "transcript": [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "a"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "x"},
    ],
}


DAMAGED = {**SESSIONS, "own names": OWN_NAMES}


@pytest.mark.parametrize("name", SESSIONS)
def test_kinds_are_recognised_by_content(name):
    assert next(kind.name for kind in KINDS if kind.matches(SESSIONS[name])) == name


def mutated(value, draw):
    """A value with some parts of it replaced by others."""
    if draw.random() < 0.06:
        return draw.choice([None, 0, -1, "", "x", [], {}, [None], {"a": 1}, True, 1e300, [[]], "\ud800"])
    if isinstance(value, dict):
        return {
            key if draw.random() > 0.03 else draw.choice(["type", "content", ""]): mutated(part, draw)
            for key, part in value.items()
        }
    return [mutated(part, draw) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_sessions_end_without_a_traceback(read, name):
    draw = random.Random(name)
    for _ in range(60):
        lines = [mutated(line, draw) for line in DAMAGED[name]]
        try:
            read([user("Go."), *lines] if draw.random() < 0.5 else lines)
        except CtxbenchError:
            continue
