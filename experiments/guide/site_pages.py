"""Parts of the documentation site that are written from the code: the API, the command line, formats and metrics.

`conf.py` puts them into pages, in place of a comment such as `<!-- site: formats -->`. Each function returns Markdown.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import typer.main
from typer.cli import get_docs_for_click

import ctxbench
import ctxbench.pytest_plugin
import ctxbench.testing
from ctxbench.cli.app import app
from ctxbench.evaluation.metrics import METRICS, Declaration
from ctxbench.model.formats import SCHEMAS

# The names that `import ctxbench` offers, by the module that defines them; all others are for extensions.
API = {
    "Measure, tune and check": ("ctxbench.api.evaluation", "ctxbench.api.results"),
    "Data and labels": ("ctxbench.api.inputs", "ctxbench.api.labelling"),
    "Selectors and steps": ("ctxbench.api.selectors",),
    "Errors": ("ctxbench.io.errors",),
}
# What the pages on extensions use of other modules.
EXTENSIONS = {
    "Tuning of cuts": ("ctxbench.tuning.cut_families", ("ThresholdFamily",)),
    "Metrics": ("ctxbench.evaluation.metrics", ("Declaration",)),
    "Arrays of metrics": ("ctxbench.evaluation.metric_kernels", ("Joined",)),
    "Shared indexes": ("ctxbench.model.resources", ("index_over",)),
    "External selectors": ("ctxbench.selectors.external", ("External", "external_from_config")),
    "Selectors from callables": ("ctxbench.selectors.callable", ("CallableSource",)),
    "Reports": ("ctxbench.report.document", ("Document", "Section", "Text", "Bullets", "Table", "Code", "Details")),
    "Pages of reports": ("ctxbench.report.pages", ("page",)),
    "File formats": ("ctxbench.model.formats", ("FileModel", "load_file")),
    "Messages": ("ctxbench.io.errors", ("Message",)),
    "Tests of offered items": ("ctxbench.pytest_plugin", ("AssertOffers", "Setup")),
    "Conformance suites": ("ctxbench.testing", tuple(ctxbench.testing.__all__)),
}


# ------------------------------------------------------------------------------------------------------------- the API


def api() -> str:
    """The functions and classes of `import ctxbench`, and the plots of results, with their docstrings."""
    by_module = _public_names()
    groups = ((title, [name for module in modules for name in by_module[module]]) for title, modules in API.items())
    plots = _documented("Plots of results", "ctxbench.api.plots", ("Plots", "TuningPlots"))
    return "\n".join([*(_documented(title, "ctxbench", names) for title, names in groups), plots])


def api_extensions() -> str:
    """The classes for strategies, plugins and tests, with their docstrings."""
    in_api = {module for modules in API.values() for module in modules}
    names = sorted(name for module, names in _public_names().items() if module not in in_api for name in names)
    parts = [_documented("Strategies and the data model", "ctxbench", names)]
    parts += [_documented(title, module, names) for title, (module, names) in EXTENSIONS.items()]
    return "\n".join(parts)


def _public_names() -> dict[str, list[str]]:
    """The public names of `ctxbench` by the module that defines them."""
    by_module: dict[str, list[str]] = {}
    for module, names in ctxbench._MODULES.items():  # noqa: SLF001 - the one table of what is public
        by_module[f"ctxbench.{module}"] = sorted(names, key=str.swapcase)  # functions first
    return by_module


def _documented(title: str, module: str, names: Iterable[str]) -> str:
    """A section with the docstrings of names of a module."""
    lines = [f"## {title}", "", "```{eval-rst}"]
    for name in names:
        value = inspect.getattr_static(__import__(module, fromlist=[name]), name, None) or getattr(ctxbench, name)
        kind = "class" if inspect.isclass(value) else "function" if inspect.isroutine(value) else "data"
        lines += [f".. auto{kind}:: {module}.{name}"]
        lines += (
            ["   :members:", "   :inherited-members: BaseModel, Exception, dict, int, str, tuple"]
            if kind == "class"
            else []
        )
        lines.append("")
    return "\n".join([*lines, "```", ""])


# ---------------------------------------------------------------------------------------------------- the command line


def commands() -> str:
    """Every command with its arguments and options, as `--help` shows them."""
    command = typer.main.get_command(app)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="ctxbench", indent=1)
    text = re.sub(r"For example:\n\n((?:.+\n)+)", r"For example:\n\n```sh\n\1```\n", text)
    parts = re.split(r"(```.*?```|`[^`\n]*`)", text, flags=re.DOTALL)
    parts[::2] = [re.sub(r"(?<![\w-])(--[a-z][\w-]*)", r"`\1`", part.replace("<", "&lt;")) for part in parts[::2]]
    text = "".join(parts)
    return re.sub(r"\*\*Commands\*\*:\n\n(?:\* .*\n)+\n", "", text)  # cut short; each has a section below


# ------------------------------------------------------------------------------------------------------------- formats


def formats() -> str:
    """Every field of every file format, from the JSON Schemas. A block that several formats have is shown once."""
    schemas = {path.name.partition(".")[0]: json.loads(path.read_text("utf-8")) for path in sorted(SCHEMAS.iterdir())}
    users: dict[str, list[str]] = {}
    for name, schema in schemas.items():
        for block in schema.get("$defs", {}):
            users.setdefault(block, []).append(name)
    lines: list[str] = []
    for name, schema in schemas.items():
        link = f'<a href="../../schemas/{name}.schema.json">{name}.schema.json</a>'
        lines += [
            f"## `{name}`",
            "",
            f"{schema.get('description', f'A {_type(schema)}.')} Schema: {link}.",
            "",
            *_fields(schema),
            "",
        ]
        for block, content in schema.get("$defs", {}).items():
            if users[block] == [name]:
                lines += _block(block, content, "###")
    lines += ["## Blocks of several formats", ""]
    for block, names in users.items():
        if len(names) > 1:
            lines += _block(block, schemas[names[0]]["$defs"][block], "###")
    return "\n".join(lines)


def _block(name: str, schema: dict[str, Any], heading: str) -> list[str]:
    return [f"(format-{name})=", f"{heading} {name}", "", schema.get("description", ""), "", *_fields(schema), ""]


def _fields(schema: dict[str, Any]) -> Iterator[str]:
    """The table of an object's fields."""
    required = schema.get("required", [])
    if "properties" not in schema:
        return
    yield from ("| field | type | default | meaning |", "| --- | --- | --- | --- |")
    for name, field in schema["properties"].items():
        default = "required" if name in required else f"`{json.dumps(field['default'])}`" if "default" in field else ""
        cells = (f"`{name}`", _type(field), default, " ".join(field.get("description", "").split()))
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _type(schema: dict[str, Any]) -> str:
    """The type of a field in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#format-{name})"
    if parts := schema.get("anyOf", schema.get("oneOf")):
        return " or ".join(dict.fromkeys(_type(part) for part in parts))
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"mapping to {_type(values)}" if isinstance(values, dict) and values else "mapping"
    words = {"string": "text", "integer": "whole number", "boolean": "true or false", "null": "nothing"}
    bounds = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    limits = ", ".join(f"{sign} {schema[key]:g}" for key, sign in bounds.items() if key in schema)
    return f"{words.get(kind, kind)} {limits}".rstrip()


# ------------------------------------------------------------------------------------------------------------- metrics


def metrics() -> str:
    """Every metric with its formula, its value where there is nothing to count, and its source."""
    intro = (
        "NaN: the mean leaves the query out. So it does for every metric but `forbidden_offered` if not all required "
        "items of the query are known, and for amounts, `abstention`, `false_inclusion` and `forbidden_offered` if the "
        "selector failed on it; for other metrics a failed query is one with nothing offered and an empty ranking."
    )
    parts = ["## Empty cases and sources", "", intro, "", *(line for m in METRICS.values() for line in _metric(m))]
    return "\n".join(parts)


def _metric(metric: Declaration) -> list[str]:
    names = {"none": "`{0}`", "optional": "`{0}` or `{0}@k`", "required": "`{0}@k`"}[metric.cutoff]
    facts = {
        "Formula": metric.description,
        "Empty": metric.empty,
        "Scale": f"{metric.scale}{f' ({metric.unit})' if metric.unit else ''}; {metric.better} is better",
        "As in ir-measures": metric.ir_measures and f"`{metric.ir_measures}`",
        "Source": metric.source,
    }
    lines = [f"### {metric.title}", "", names.format(metric.name), ""]
    return [*lines, *(f"* **{title}:** {text}" for title, text in facts.items() if text), ""]


# ------------------------------------------------------------------------------------------------------------- recipes


def recipes() -> str:
    """A list of the recipes, by the first lines of their pages."""
    pages = sorted((Path(__file__).parents[1] / "recipes").glob("*/README.md"))
    titles = (page.read_text("utf-8").partition("\n")[0].lstrip("# ") for page in pages)
    return "\n".join(
        f"* [{title}](../recipes/{page.parent.name}/README.md)" for page, title in zip(pages, titles, strict=True)
    )


PARTS = {
    "api": api,
    "api-extensions": api_extensions,
    "commands": commands,
    "formats": formats,
    "metrics": metrics,
    "recipes": recipes,
}
