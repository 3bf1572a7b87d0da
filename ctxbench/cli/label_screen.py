"""What the screens of `ctxbench data label` and `data review` have in common: requests, and items by their names."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from ctxbench.io.console import say
from ctxbench.io.visible import quoted

if TYPE_CHECKING:
    from ctxbench.core.items import Item, ItemKey
    from ctxbench.core.requests import Request

WIDTH = 100
MESSAGES = 4  # of the history, the last ones


def request_lines(request: Request) -> list[str]:
    """The request under a heading, with the end of its history above it.

    Every line of the request is marked with a bar, those of the history are not; a history is cut to a line a message.
    """
    history = request.history[-MESSAGES:]
    lines = []
    if history:
        n = len(request.history)
        lines += ["", f"earlier ({f'the last {len(history)} of {n}' if n > len(history) else n} messages):"]
        lines += [f"    {message.role}: {short(message.content)}" for message in history]
    return [*lines, "", *quoted(f"the request:\n{request.text or '(an empty request)'}"), ""]


def item_name(key: ItemKey) -> str:
    """An item as people call it: `tracker / create_issue (tool)`, `Code review (rule)`."""
    return f"{key.name if key.server is None else f'{key.server} / {key.name}'} ({key.type})"


def item_line(item: Item, *, reserved: int = 14) -> str:
    """An item in one line that fits the terminal with `reserved` other characters; its name is never cut."""
    name = item_name(item.key)
    return f"{name}: {short(item.description or item.text, reserved=reserved + len(name) + 2)}"


def short(text: str, *, reserved: int = 16) -> str:
    """A text in one line that fits the terminal with `reserved` other characters."""
    flat = " ".join(text.split())
    room = max(shutil.get_terminal_size((WIDTH, 24)).columns - reserved, 12)
    return flat if len(flat) <= room else flat[: room - 3] + "..."


def tell(*lines: str) -> None:
    """Print to the person, not to a program."""
    say(*lines, err=True)


def number_of(key: str) -> int:
    """The digit that a key is; 0 for any other key."""
    return int(key) if key.isascii() and key.isdigit() else 0
