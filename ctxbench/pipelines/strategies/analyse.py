"""Analyse a request: chunks of its text, history and tool results, and keywords."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, cast

from ctxbench.io.errors import ParameterError, check_range
from ctxbench.model.registry import build, foreign_code, parameters
from ctxbench.model.requests import Batch, ChunkKind, Query, Request
from ctxbench.model.resources import Resources
from ctxbench.model.strategies import Strategy
from ctxbench.search.chunking import CHUNK_LIMIT, Rule, chunk_rule
from ctxbench.search.words import keywords


class _OfText(Strategy):
    """An analysis that splits the text of a request by a chunking rule, and reads nothing else."""

    rule_name: ClassVar[str]

    def __post_init__(self) -> None:
        self.build_rule()  # a wrong parameter is an error now

    def build_rule(self) -> Rule:
        """The rule with these parameters."""
        return cast("Rule", build("chunk", self.rule_name, parameters(self)))

    def __call__(self, batch: Batch, resources: Resources) -> Query:
        """Chunk the text of every request."""
        rule = self.build_rule()
        return Query.of_chunks(batch, [rule(request.text) for request in batch.requests])


@dataclass(frozen=True)
class Sentences(_OfText):
    """One chunk per sentence, by the original engine's rule or by one that knows abbreviations and keeps the marks.

    Attributes:
        limit: length after which a sentence is cut (`original`, UTF-16 units; the rest is lost) or divided (`marked`,
            characters; nothing is lost), >= 1.
        rule: `original` (`ctxbench.search.chunking.query_chunks`) or `marked` (`ctxbench.search.chunking.Marked`).

    A request without a sentence has no chunk. Cost: linear in the text. Source: the specification, "Query Chunking".
    """

    limit: int = CHUNK_LIMIT
    rule: Literal["original", "marked"] = "original"

    def build_rule(self) -> Rule:
        """The rule with these parameters."""
        name = "marked" if self.rule == "marked" else "sentences"
        return cast("Rule", build("chunk", name, {"limit": self.limit}))


@dataclass(frozen=True)
class Clauses(_OfText):
    """One chunk a clause or list item: sentences split further at semicolons, "and then" and the like, and line ends.

    Attributes:
        shortest: words; a clause of fewer joins the one before it in its sentence, >= 1.
        limit: characters after which a clause is divided at white space, >= 1.

    A request without a letter, digit or symbol has no chunk. Cost: linear in the text. Source: ours
    (`ctxbench.search.chunking.ClauseRule`).
    """

    shortest: int = 3
    limit: int = CHUNK_LIMIT
    rule_name: ClassVar[str] = "clauses"


@dataclass(frozen=True)
class Windows(_OfText):
    """Windows of equal size that overlap, from word to word, whatever the sentences.

    Attributes:
        size: of a window in words, >= 1.
        overlap: how many words of a window are in the next one, too, >= 0, less than `size`.

    A blank request has no chunk; one of at most `size` is one. Cost: linear in the text, times
    size / (size - overlap). Source: the usual practice of passage retrieval
    (`ctxbench.search.chunking.WindowRule`); the defaults were tuned on requests of several topics
    (reports/multi-topic.md).
    """

    size: int = 6
    overlap: int = 4
    rule_name: ClassVar[str] = "windows"


@dataclass(frozen=True)
class Whole(_OfText):
    """The whole text as one chunk; what an embedding model cannot read of it is the model's to cut.

    A blank request has no chunk. Cost: none. Source: the usual practice of dense retrieval.
    """

    rule_name: ClassVar[str] = "whole"


@dataclass(frozen=True)
class History(Strategy):
    """The last turns of the user as chunks of kind `HISTORY`, each turn back weighing `decay` times as much.

    Attributes:
        turns: how many of the user's earlier messages are taken, >= 1.
        decay: weight of the last message before the request, and by how much each one before it weighs less, above
            0 and at most 1.
        rule: how a message is split, a name or `{name: parameters}`: `sentences` (the original's), `marked`,
            `clauses`, `windows`, `whole` ...

    Chunks are in order of time, oldest first. The text of the request itself makes none: name another analysis beside
    it. A request without history has no chunk. Cost: linear in the messages. Source: the specification names history
    as an open question; the decay by turn is ours.
    """

    turns: int = 3
    decay: float = 0.5
    rule: str | Mapping[str, Any] = "sentences"

    def __post_init__(self) -> None:
        check_range("turns", self.turns, 1)
        if not 0 < self.decay <= 1:
            raise ParameterError(f"decay must be above 0 and at most 1, got {self.decay:g}")
        chunk_rule(self.rule, parameter="rule")

    @property
    def code(self) -> str | None:
        """Module, class and source of a chunking rule from a plugin; None for a built-in rule."""
        return foreign_code(type(chunk_rule(self.rule, parameter="rule")))

    def __call__(self, batch: Batch, resources: Resources) -> Query:
        """Chunk the earlier messages of every request."""
        rule = chunk_rule(self.rule, parameter="rule")
        rows = [list(self._weighted(request, rule)) for request in batch.requests]
        return _weighted_query(batch, rows, ChunkKind.HISTORY)

    def _weighted(self, request: Request, rule: Rule) -> Iterator[tuple[str, float]]:
        messages = [message.content for message in request.history if message.role == "user"][-self.turns :]
        for index, text in enumerate(messages):
            weight = self.decay ** (len(messages) - index)
            yield from ((chunk, weight) for chunk in rule(text) if weight > 0)


@dataclass(frozen=True)
class ToolResults(Strategy):
    """Results of tools called for the request, as chunks of kind `TOOL_RESULT`.

    Attributes:
        tools: names of the tools whose results are taken; empty = all.
        rule: how a result is split, a name or `{name: parameters}`, as for `history`.
        weight: of every chunk, above 0.
        limit: chunks per request; the first ones are taken, in the order of the results, >= 1.

    The text of the request itself makes none: name another analysis beside it. A request without results of these
    tools has no chunk. Cost: linear in the results. Source: the specification, "Future: Tool Result Analysis".
    """

    tools: tuple[str, ...] = ()
    rule: str | Mapping[str, Any] = "paragraphs"
    weight: float = 1.0
    limit: int = 20
    reads_tool_results: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.weight <= 0:
            raise ParameterError(f"weight must be above 0, got {self.weight:g}")
        check_range("limit", self.limit, 1)
        chunk_rule(self.rule, parameter="rule")

    @property
    def code(self) -> str | None:
        """Module, class and source of a chunking rule from a plugin; None for a built-in rule."""
        return foreign_code(type(chunk_rule(self.rule, parameter="rule")))

    def __call__(self, batch: Batch, resources: Resources) -> Query:
        """Chunk the tool results of every request."""
        rule = chunk_rule(self.rule, parameter="rule")
        rows = [
            [
                (chunk, self.weight)
                for tool, text in request.tool_results
                if not self.tools or tool in self.tools
                for chunk in rule(text)
            ][: self.limit]
            for request in batch.requests
        ]
        return _weighted_query(batch, rows, ChunkKind.TOOL_RESULT)


@dataclass(frozen=True)
class Keywords(Strategy):
    """The keywords of the text, for steps that match them: its words of more than three letters, no stop words.

    Words are separated by white space and in lower case; punctuation at either end is removed (the specification
    keeps it, so that `invoice?` finds no invoice). Stop words are `ctxbench.search.words.STOP_WORDS`. Each word is
    listed once, at its first position. No chunks are made: add another analysis. A request may have no keywords.
    Cost: linear in the text. Source: document 002, `extractKeywords`.
    """

    def __call__(self, batch: Batch, resources: Resources) -> Query:
        """Find the keywords of every request."""
        words = tuple(keywords(request.text) for request in batch.requests)
        return replace(Query.of_chunks(batch, [[]] * len(batch)), keywords=words)


def _weighted_query(batch: Batch, rows: Sequence[Sequence[tuple[str, float]]], kind: ChunkKind) -> Query:
    """A query of (chunk, weight) by request."""
    return Query.of_chunks(
        batch,
        [[chunk for chunk, _ in row] for row in rows],
        weights=[[weight for _, weight in row] for row in rows],
        kind=kind,
    )
