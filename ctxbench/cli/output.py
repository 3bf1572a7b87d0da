"""What goes to standard output for a program: JSON."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ctxbench.core.errors import InputError, UserError
from ctxbench.io.console import show_json


def print_json(value: Any) -> None:
    """Print a value as JSON.

    Raises:
        ValueError: a number in it is NaN or infinite.
    """
    from ctxbench.io.json_files import dump_json

    show_json(dump_json(value, indent=2))


def without_keys(error: UserError) -> UserError:
    """An error as it may be shown: one that quotes a line or an address may hold a key."""
    from ctxbench.text.secrets import shown_text

    if not isinstance(error, InputError):
        return UserError(shown_text(str(error)))
    faults = [replace(fault, message=shown_text(fault.message)) for fault in error.faults]
    return InputError(faults, subject=shown_text(error.subject))
