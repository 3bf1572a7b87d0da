"""What all commands are made of: groups and commands that import nothing heavy."""

from __future__ import annotations

from collections.abc import MutableMapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
import typer.core
import typer.main

from ctxbench.cli.stop_signals import exit_code
from ctxbench.io.console import drop_output, flush, say

_READ_HERE = {str: str, Path: Path, list[str]: list}  # annotations of parameters, and what makes a value of text
_PLACEHOLDERS = (("path", "PATH"), ("int", "N"), ("float", "N"))


class _Light:
    """Takes texts, paths and defaults as they are: typer would import pydantic for them, which costs 0.08 s."""

    def get_params(self, ctx: Any) -> Any:
        params = super().get_params(ctx)  # type: ignore[misc]  # that of the command it is mixed into
        for param in params:
            param.metavar = param.metavar or _placeholder(param)
            descriptor = getattr(param, "type_descriptor", None)  # older typer has none, and does without pydantic
            if descriptor is not None:
                param.process_value = partial(_process, param, descriptor.annotation)
        return params


def _placeholder(param: Any) -> str | None:
    """The placeholder of a value in help: PATH, TEXT or N, or an argument's name; None for a flag."""
    if param.param_type_name == "argument":
        return str(param.name).strip("_").upper()
    if param.is_flag:
        return None
    descriptor = getattr(param, "type_descriptor", None)
    kind = str(param.type if descriptor is None else descriptor.annotation).lower()
    return next((name for word, name in _PLACEHOLDERS if word in kind), "TEXT")


def _process(param: Any, annotation: Any, ctx: Any, value: Any) -> Any:
    """Do as `process_value` of the parameter's class does; what there is to check, that checks."""
    if value is None and not param.required:
        return None if param.callback is None else param.callback(ctx, param, None)
    if param.callback is None and value and isinstance(value, str | list | tuple) and annotation in _READ_HERE:
        return _READ_HERE[annotation](value)
    if param.callback is None and annotation is int and type(value) is int:
        return value  # a default
    return type(param).process_value(param, ctx, value)


class Group(_Light, typer.core.TyperGroup):
    """Says what Ctrl-C leaves behind, and ends without a word where the reader of standard output left."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that is named."""
        try:
            result = super().invoke(ctx)
            flush()  # at the very end of the process nothing could be said any more
        except (KeyboardInterrupt, RuntimeError) as stopped:
            if isinstance(stopped, RuntimeError) and not isinstance(stopped.__cause__, KeyboardInterrupt):
                raise  # Python wraps what interrupts the making of a class, which importing is full of
            notes = ", and ".join(["nothing is half-written", *getattr(stopped, "__notes__", ())])
            try:
                say(f"stopped: {notes}", err=True)
            except OSError:  # the terminal is gone, which is why it was stopped
                drop_output(err=True)
            raise typer.Exit(exit_code()) from None
        except BrokenPipeError:
            drop_output()
            raise typer.Exit(0) from None
        except EOFError as error:  # typer would take it for Ctrl-D at a prompt, and there are no prompts
            raise RuntimeError("unexpected end of data") from error
        return result


class Command(_Light, typer.core.TyperCommand):
    """A command."""


def lazy_group(module: str) -> type[Group]:
    """A group whose commands are imported when one of them is called, so that others start faster.

    Args:
        module: the one that holds them, in an app of its own name (`data_app` in `ctxbench.cli.data_app`).
    """

    class Lazy(Group):
        _loaded: MutableMapping[str, Any] | None = None

        @property
        def commands(self) -> MutableMapping[str, Any]:
            """The commands by name."""
            if self._loaded is None:
                app = getattr(import_module(module), module.rpartition(".")[2])
                self._loaded = typer.main.get_group(app).commands
            return self._loaded

        @commands.setter
        def commands(self, _none: Any) -> None:
            """The group is made without any."""

    return Lazy
