"""What goes to standard output: text, or JSON for a program."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

import typer

from ctxbench.errors import InputError, UserError
from ctxbench.reporting.workflow import harmless_json


def print_json(value: Any) -> None:
    """Print a value as JSON.

    Raises:
        ValueError: a number in it is NaN or infinite.
    """
    from ctxbench.jsonio import dump_json

    print_json_text(dump_json(value, indent=2))


def print_json_text(text: str) -> None:
    """Print a JSON document; characters that standard output cannot hold are escaped as JSON escapes them.

    So is what a runner of workflows would obey.
    """
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(json.loads(text), indent=2) + "\n"
    typer.echo(harmless_json(text), nl=False)


def without_keys(error: UserError) -> UserError:
    """An error as it may be shown: one that quotes a line or an address may hold a key."""
    from ctxbench.secrets import shown_text

    if not isinstance(error, InputError):
        return UserError(shown_text(str(error)))
    faults = [replace(fault, message=shown_text(fault.message)) for fault in error.faults]
    return InputError(faults, subject=shown_text(error.subject))
