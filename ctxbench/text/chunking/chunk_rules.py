"""Rules of chunking: a text in, its chunks out. Each serves requests and items alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ctxbench.core import registry
from ctxbench.core.errors import ParameterError, UserError
from ctxbench.text.original_rules import CHUNK_LIMIT, item_chunks, js_trim, query_chunks

Rule: TypeAlias = Callable[[str], list[str]]
RuleSpec: TypeAlias = str | Mapping[str, Any]


def chunk_rule(spec: RuleSpec, *, parameter: str) -> Rule:
    """Make a rule from its name, or `{name: parameters}`.

    Args:
        spec: as a step of a pipeline is named.
        parameter: what a message calls it.

    Raises:
        ParameterError: there is no such rule, or a parameter does not suit it.
    """
    named: Mapping[str, Any] = {spec: None} if isinstance(spec, str) else spec
    name, parameters = next(iter(named.items()), ("", None))
    parameters = {} if parameters is None else parameters
    if len(named) != 1 or not isinstance(name, str) or not isinstance(parameters, Mapping):
        message = "must be a rule by name, or one name with its parameters, for example {windows: {size: 40}}"
        raise ParameterError(f"{parameter} {message}; got {spec!r}")
    try:
        rule: Rule = registry.build("chunk", name, parameters)
    except UserError as error:
        raise ParameterError(f"{parameter}: {error}") from error
    return rule


@dataclass(frozen=True)
class SentenceRule:
    """The original's sentences of a request: ends lost, the rest of a long one lost (`original_rules.query_chunks`).

    Attributes:
        limit: UTF-16 units after which a sentence is cut, >= 1.

    A blank text has no chunk. Cost: linear in the text. Source: the documents, "Query Chunking".
    """

    limit: int = CHUNK_LIMIT

    def __post_init__(self) -> None:
        check_least("limit", self.limit, 1)

    def __call__(self, text: str) -> list[str]:
        """Split a text."""
        return query_chunks(text, limit=self.limit)


@dataclass(frozen=True)
class Paragraphs:
    """The original's chunks of an item: paragraphs, long ones as packed sentences (`original_rules.item_chunks`).

    Attributes:
        limit: UTF-16 units of a chunk, >= 1; a longer sentence stays whole.

    A blank text has no chunk. Cost: linear in the text. Source: the documents, "Content Chunking".
    """

    limit: int = CHUNK_LIMIT

    def __post_init__(self) -> None:
        check_least("limit", self.limit, 1)

    def __call__(self, text: str) -> list[str]:
        """Split a text."""
        return item_chunks(text, limit=self.limit) if js_trim(text) else []


@dataclass(frozen=True)
class WholeRule:
    """The whole text as one chunk; what an embedding model cannot read of it is the model's to cut.

    A blank text has no chunk. Cost: none. Source: the usual practice of dense retrieval.
    """

    def __call__(self, text: str) -> list[str]:
        """Take a text as it is."""
        return [text] if js_trim(text) else []


def check_least(name: str, value: int, low: int) -> None:
    """Refuse a parameter below its least value.

    Raises:
        ParameterError: it is.
    """
    if value < low:
        raise ParameterError(f"{name} must be {low} or more, got {value}")
