"""Templates: what stands around memories in a prompt, and how each of them is written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ctxbench.core.errors import ParameterError, UnknownNameError, suggest
from ctxbench.core.registry import check_type

VARIABLES = ("content", "type", "confidence", "timestamp", "score")
_METADATA = ("type", "confidence", "timestamp")
_VARIABLE = re.compile(r"\{\{([^{}]*)\}\}")
FIELDS = {"header": str, "memory_format": str, "separator": str, "footer": str, "metadata": bool}
_ALSO = {"memoryFormat": "memory_format", "includeMetadata": "metadata"}  # the document's names


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextTemplate:
    """How chosen items become one text: header, items with separators between them, footer; no items, no text.

    Attributes:
        memory_format: of an item, with `{{content}}` and any other of `VARIABLES`.
        header, separator, footer: as they are; no variables stand in them.
        metadata: whether type, confidence and timestamp are filled in; else they are empty wherever they stand. What
            the format does not name is not shown.

    Raises:
        ParameterError: a variable is unknown or stands elsewhere, or the format lacks `{{content}}`.
    """

    memory_format: str
    header: str = ""
    separator: str = "\n"
    footer: str = ""
    metadata: bool = True

    def __post_init__(self) -> None:
        named = [name.strip() for name in _VARIABLE.findall(self.memory_format)]
        for name in named:
            if name not in VARIABLES:
                raise ParameterError(f"memory_format: no variable is called {name!r}{suggest(name, VARIABLES)}")
        if "content" not in named:
            raise ParameterError(f"memory_format must hold {{{{content}}}}, got {self.memory_format!r}")
        for part in ("header", "separator", "footer"):
            if match := _VARIABLE.search(getattr(self, part)):
                raise ParameterError(f"{part}: {match[0]} is filled in for each memory, so it stands in memory_format")

    @classmethod
    def of(cls, spec: str | Mapping[str, Any], *, metadata: bool | None = None) -> ContextTemplate:
        """Read a template.

        Args:
            given: the name of one of `TEMPLATES`, or the fields of another; `memoryFormat` and `includeMetadata` are
                the document's names of two.
            metadata: in place of the template's own; None = that.

        Raises:
            UnknownNameError: no template has this name; names those there are.
            ParameterError: a field is unknown, missing, given twice or of the wrong type, or a variable is.
        """
        if isinstance(spec, str):
            if spec not in TEMPLATES:
                raise UnknownNameError("template", spec, TEMPLATES)
            template = TEMPLATES[spec]
            return template if metadata is None else replace(template, metadata=metadata)
        fields: dict[str, Any] = {}
        for name, value in spec.items():
            field = _ALSO.get(name, name)
            if field not in FIELDS or field in fields:
                problem = "is given twice" if field in fields else f"is no field of it{suggest(str(name), FIELDS)}"
                raise ParameterError(f"template: {name!r} {problem}")
            check_type(f"template: {name}", value, FIELDS[field])
            fields[field] = value
        if "memory_format" not in fields:
            raise ParameterError("template: memory_format is missing; it says how a memory is written")
        return cls(**fields if metadata is None else {**fields, "metadata": metadata})

    def render(self, memories: Sequence[Mapping[str, str]]) -> str:
        """The text of some items, each with a value for all of `VARIABLES`; what those hold stays as it is."""
        if not memories:
            return ""
        empty = {} if self.metadata else dict.fromkeys(_METADATA, "")
        parts = [self._written({**memory, **empty}) for memory in memories]
        return f"{self.header}{self.separator.join(parts)}{self.footer}"

    def _written(self, memory: Mapping[str, str]) -> str:
        return _VARIABLE.sub(lambda match: memory[match[1].strip()], self.memory_format)


TEMPLATES: Mapping[str, ContextTemplate] = {
    "chat": ContextTemplate(
        header="Relevant context from past conversations:\n\n",
        memory_format="- {{content}}",
        footer="\n",
        metadata=False,
    ),
    "detailed": ContextTemplate(
        header="Relevant memories:\n\n",
        memory_format="[{{type}}] {{content}} (confidence: {{confidence}}, {{timestamp}})",
        separator="\n\n",
        footer="\n",
    ),
    "summary": ContextTemplate(
        header="Key information:\n", memory_format="{{content}}", separator=" | ", metadata=False
    ),
}
"""Those of document 004, "Context Templates"."""
