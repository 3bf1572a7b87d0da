"""Signals of likely misses in a turn: what model or user do because an item was not offered."""

from __future__ import annotations

import re
from collections.abc import Callable

from ctxbench.data.labelling.exposure import SIGNALS
from ctxbench.data.traces.conversations import Turn

SHELLS = (
    *("bash", "shell", "sh", "zsh", "powershell", "cmd", "terminal", "exec", "local_shell", "execute_bash"),
    *("run_command", "execute_command", "run_shell_command", "run_terminal_cmd", "run_in_terminal", "shell_exec"),
)
SEARCHES = (
    *("tool_search", "search_tools", "search_tool", "find_tools", "find_tool", "discover_tools", "toolsearch"),
    *("list_tools", "list_available_tools", "retrieve_tools", "tool_search_tool"),
)

_CLEAN = re.compile(r"[\W_]+")
_VERSION = re.compile(r"(?:_regex|_bm25)?(?:_\d{8})?$")  # of Anthropic's tool search tools


def is_shell(name: str) -> bool:
    """Whether a tool runs commands, by its name; a server in front of it does not matter."""
    return _is_one_of(name, SHELLS)


def is_search(name: str) -> bool:
    """Whether a tool looks for tools, by its name."""
    return _is_one_of(name, SEARCHES)


def signals(turn: Turn, holds: Callable[[str], bool]) -> tuple[str, ...]:
    """The signals of a turn, in the order of `SIGNALS`.

    Args:
        turn: with its calls.
        holds: whether the catalog has the tool of this name; a shell that it has is called like anything else.
    """
    present = {
        "unknown-tool": any(call.status == "unknown_tool" for call in turn.calls),
        "searched-again": sum(is_search(call.name) for call in turn.calls) > 1,
        "shell-instead": any(is_shell(call.name) and not holds(call.name) for call in turn.calls),
        "asked-again": turn.asked_again,
    }
    return tuple(name for name in SIGNALS if present[name])


def _is_one_of(name: str, names: tuple[str, ...]) -> bool:
    cleaned = _VERSION.sub("", _CLEAN.sub("_", name.casefold()).strip("_"))
    return any(cleaned == one or cleaned.endswith(f"_{one}") for one in names if len(one) > 3 or cleaned == one)
