"""Guards a check against the code of plugins: what it prints or raises must not be taken for a verdict."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from ctxbench.core.errors import CtxbenchError, SelectorError
from ctxbench.core.stored_pipelines import pipelines_in
from ctxbench.selectors.user_code import EndedError, confined, exit_held


def plugin_steps(description: Any) -> tuple[str, ...]:
    """Module and class of every step that is not of ctxbench, sorted, from a selector's description."""
    codes = [step.about.get("code") for pipeline in pipelines_in(description) for step in pipeline.steps()]
    return tuple(sorted({code.partition(" ")[0] for code in codes if isinstance(code, str)}))


@contextlib.contextmanager
def guard_plugins(selector: str, foreign: Sequence[str], *, on: str) -> Iterator[None]:
    """Run a selector; if it has steps of plugins, send what is printed to standard error and name them in errors.

    Args:
        selector: its name.
        foreign: its steps that are not of ctxbench.
        on: what it is asked, for messages.

    Raises:
        SelectorError: anything is raised where steps of plugins take part, a wish to end the process among it; else
            what is raised is a bug of ours, and keeps its traceback.
    """
    if not foreign:
        yield
        return
    try:
        with confined():
            yield
    except (CtxbenchError, KeyboardInterrupt):
        raise
    except BaseException as error:  # a step that ends the process would end it with its own verdict
        raise SelectorError(
            f"selector {selector!r} failed on {on}{_error_text(error)}; it has steps that are not of ctxbench "
            f"({', '.join(foreign)}): mend or update their package, or leave the selector out"
        ) from error


def _error_text(error: BaseException) -> str:
    """An error as text to follow the words `failed on ...`."""
    if isinstance(error, EndedError):
        return f": {error}"
    return f" with {type(error).__name__}: {error}" if str(error) else f" with {type(error).__name__}"


@contextlib.contextmanager
def guard_exit() -> Iterator[None]:
    """Run a whole check, and make it an error if other code ends the process.

    Code of others runs at more places than where a selector is asked: where plugins are imported and steps are made,
    in threads that they started, on the way out. An exit code of theirs would be read as a verdict.

    Raises:
        SelectorError: `os._exit` or `sys.exit` was called inside, or what is neither an error nor Ctrl-C was raised.
    """
    try:
        with exit_held():
            yield
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise SelectorError(
            f"code that is not of ctxbench ended the check{_error_text(error)}; mend or update the package of the "
            "plugin or of the selector that it belongs to, or leave it out"
        ) from error
