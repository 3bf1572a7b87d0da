"""Templates and style sheets of pages; every text that they are given is escaped, whoever wrote it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxbench.io.files import read_text
from ctxbench.io.visible import count
from ctxbench.report.charts.svg import inline

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

_FOLDER = Path(__file__).parent / "templates"


def page_template(name: str, **filters: Callable[[Any], Any]) -> Template:
    """A template by the name of its file: what it shows is escaped, and a name that it does not know is an error.

    Args:
        name: of the file.
        filters: what the template may apply to a value, besides what all pages apply.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"count": count, "breakable": _breakable, "inline": inline, **filters}
    return environment.get_template(name)


def stylesheet(*names: str) -> Markup:
    """Style sheets of the templates folder, concatenated in order."""
    from markupsafe import Markup

    return Markup(read_parts(*names))  # noqa: S704 - files of ours


def read_parts(*names: str) -> str:
    """Files of the templates folder, concatenated in order."""
    return "\n".join(read_text(_FOLDER / name) for name in names)


def _breakable(name: str) -> Markup:
    """A name as markup: it may break after its separators, and turns no text around it the other way."""
    from markupsafe import Markup, escape

    parts = (str(escape(part)) for part in re.split(r"(?<=[._/:-])(?=.)", name))
    return Markup(f"<bdi>{'<wbr>'.join(parts)}</bdi>")  # noqa: S704 - each part is escaped
