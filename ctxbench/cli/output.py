"""What goes to standard output for a program: JSON."""

from __future__ import annotations

from typing import Any

from ctxbench.console import show_json


def print_json(value: Any) -> None:
    """Print a value as JSON.

    Raises:
        ValueError: a number in it is NaN or infinite.
    """
    from ctxbench.jsonio import dump_json

    show_json(dump_json(value, indent=2))
