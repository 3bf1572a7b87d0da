"""Scripts that end as `ctxbench` does where something is missing: one message, and no traceback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ctxbench.cli.output import without_keys
from ctxbench.core.errors import UserError
from ctxbench.io.console import guarded, say
from ctxbench.io.visible import message_lines


def run_script(main: Callable[..., Any], *arguments: Any) -> NoReturn:
    """Run the main function of a script, and end the process with what it returns.

    A fault of the user, such as a dataset that is not fetched, is one message that says what to do, and exit code 2.

    Args:
        main: returns an exit code, or None for 0.
        arguments: of `main`.
    """
    with guarded(for_good=True):
        try:
            raise SystemExit(main(*arguments))
        except UserError as error:
            say(*message_lines(f"error: {without_keys(error)}"), err=True)
            raise SystemExit(error.exit_code) from None
