"""Format a selection as messages, a template, or a text with citations."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal

import numpy as np

from ctxbench.io.errors import ParameterError, UnknownNameError, suggest
from ctxbench.model.candidates import (
    Candidates,
    Origin,
    Rule,
    between_characters,
    part_of,
    part_text,
    place_among,
    text_shown,
)
from ctxbench.model.items import Item, ItemKey
from ctxbench.model.registry import check_type
from ctxbench.model.requests import Query, Request
from ctxbench.model.resources import FORMAT, Resources
from ctxbench.model.selection import Prompt, chosen_items
from ctxbench.model.strategies import Strategy
from ctxbench.search.tokens import BUDGET, BUDGET_WORDS, cut_to_fit, prompt_tokens, rendered_fit
from ctxbench.search.words import asked_words

_TURN = {"reference": 0, "rule": 2}  # references come before rules, other types between them


@dataclass(frozen=True)
class Messages(Strategy):
    """Messages and tools, built from the request context.

    Order: system prompt (if any), earlier messages but system ones, `Reference: ...` of every reference,
    other items, `Rule: ...` of every rule, the user's message. Tools are those of the request context: the
    documents take them from the session, so that tools found by search would never arrive.

    Attributes:
        system: the system prompt.

    Without items there are the system prompt, the earlier messages and the user's. Cost: linear in the items. Source:
    the specification, "Using Request Context to Build LLM Messages".
    """

    system: str = ""
    chats: ClassVar[bool] = True

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Sequence[Prompt]:
        """Build one prompt per request."""
        prompts = []
        for index, request in enumerate(query.batch.requests):
            items = chosen_items(query, candidates, index)
            spans = [part_of(candidates, row) for _, row in items]
            prompts.append(self.prompt(request, [item for item, _ in items], spans))
        return prompts

    def prompt(
        self, request: Request, items: Sequence[Item], spans: Sequence[tuple[int, int] | None] | None = None
    ) -> Prompt:
        """Build the prompt of one request from the items of its request context, in their order.

        Args:
            request: what was asked.
            items: shape (n,).
            spans: the part of each item's prompt text that is sent, None = all; without it all of all items is.
        """
        parts = zip(items, spans or [None] * len(items), strict=True)
        spoken = sorted((part for part in parts if part[0].type != "tool"), key=lambda part: _TURN.get(part[0].type, 1))
        tools = [item for item in items if item.type == "tool"]
        return Prompt.around(request, [text_shown(*part) for part in spoken], tools, system=self.system)


SHORTEST = 4  # digits of an id
EXCERPT = 50  # characters of an excerpt behind a source
_OF_A_HASH = 49  # digits in base 36 that a SHA-256 fills
_RUNS = re.compile(r"<+|>+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """One item of a context, as a reply refers to it.

    Attributes:
        id: `[fil-7k2p]`: its type and a hash of its key, brackets included; see `citation_ids`.
        source: a path or name; of a message role and thread. One line.
        type: of the item.
        path: that of a file or chunk; None of others.
        excerpt: what is shown of its text, without any marks.
        relevance: the score of the last ranking; None for what the session holds.
        used: whether a reply cites it; see `cited`.
    """

    id: str
    source: str
    type: str
    path: str | None = None
    excerpt: str = ""
    relevance: float | None = None
    used: bool = False


def citations(query: Query, candidates: Candidates, request: int) -> tuple[Citation, ...]:
    """What one request was offered, in the one order, but for tools.

    Args:
        query, candidates: of a batch, as the format is given them.
        request: place of the request in it.
    """
    items = [(item, row) for item, row in chosen_items(query, candidates, request) if item.type != "tool"]
    texts = [part_text(item, part_of(candidates, row)) for item, row in items]
    sources = [_source(item) for item, _ in items]
    ids = citation_ids([item.key for item, _ in items])
    scores = [float(candidates.score[row]) for _, row in items]
    return tuple(
        Citation(
            id=id_,
            source=source,
            type=item.type,
            path=item.path if item.is_file else None,
            excerpt=text,
            relevance=None if math.isnan(score) else score,
        )
        for (item, _), id_, source, text, score in zip(items, ids, sources, texts, scores, strict=True)
    )


def _source(item: Item) -> str:
    """Where an item is from, on one line."""
    if item.type == "message":
        origin = f"{item.kind or 'message'} in {item.conversation}" if item.conversation else item.kind or "message"
    else:
        origin = item.title or item.name
    return " ".join(origin.split())


def citation_ids(keys: Sequence[ItemKey]) -> tuple[str, ...]:
    """Ids of the items of one context: `[typ-hash]`, the first three letters of a type and a hash in base 36.

    They are the same in every process and turn, so that what an earlier reply cites is still called so; where two would
    be the same, both are longer.

    Args:
        keys: of the items, distinct.
    """
    digits, length = [_hash(key) for key in keys], [SHORTEST] * len(keys)
    while True:
        ids = [f"[{key.type[:3]}-{digest[:n]}]" for key, digest, n in zip(keys, digits, length, strict=True)]
        count = Counter(ids)
        met = [n for n, id_ in enumerate(ids) if count[id_] > 1]
        if not met:
            return tuple(ids)
        for n in met:
            length[n] += 1


@lru_cache(maxsize=1 << 14)  # the items of a service come again and again
def _hash(key: ItemKey) -> str:
    """The digits of a key's SHA-256 in base 36, the lowest first: those are drawn evenly."""
    number = int.from_bytes(hashlib.sha256(key.id.encode()).digest(), "big")
    return np.base_repr(number, 36).lower()[::-1].ljust(_OF_A_HASH, "0")


def marked(text: str, marks: Sequence[tuple[int, int]]) -> str:
    """A text with `<<<` and `>>>` around its matches; longer ones where the text itself holds such.

    Args:
        text: any.
        marks: `[from, to)`, rising, none within another.
    """
    runs = _RUNS.findall(text) if "<<<" in text or ">>>" in text else ()
    width = max(3, *(len(run) + 1 for run in runs), 0)
    parts, last = [], 0
    for start, end in marks:
        parts += [text[last:start], "<" * width, text[start:end], ">" * width]
        last = end
    return "".join([*parts, text[last:]])


def cited(citations: Sequence[Citation], reply: str) -> tuple[Citation, ...]:
    """The citations, with those marked as used whose id is in a reply."""
    return tuple(replace(citation, used=citation.used or citation.id in reply) for citation in citations)


def sources_text(citations: Sequence[Citation]) -> str:
    """The sources under a reply: one line per used citation; empty without any."""
    lines = [
        f"{citation.id}: {citation.source}{_beginning(citation.excerpt)}" for citation in citations if citation.used
    ]
    return "\n\n---\nSources:\n" + "\n".join(lines) if lines else ""


def _beginning(excerpt: str) -> str:
    text = " ".join(excerpt.split())
    end = next((n for n in range(min(EXCERPT, len(text)), 0, -1) if between_characters(text, n)), 0)
    return f" - {text[:end]}..." if end else ""


@dataclass(frozen=True)
class Citations(Strategy):
    """One message with all chosen items, each under its citation, between the earlier messages and the user's.

    Attributes:
        marks: whether the request's words are marked in what is shown, `<<<word>>>`.
        index: how words match: `fts5` or `postgres` (`ctxbench/search/words.py`).
        system: the system prompt; say there that a reply should name the ids of what it uses.

    An item is written as `[fil-7k2p] docs/setup.md (file, relevance 0.82)`, and below it what is shown of its text.
    The source is a path or name, of a message its role and thread; what the session holds has no relevance. An id is
    the same in every process, and is longer where two would be the same or a text holds it; marks are longer where the
    text holds such. Which citations a reply names, and the list of sources below it, tell `cited` and `sources_text`
    of `ctxbench.pipelines.strategies.format`. Items are in the one order; tools are sent as tools.
    Nothing chosen: no such message. Cost: linear in the items, and the matches of what is shown. Source: document 002,
    "Citation Management".
    """

    marks: bool = True
    index: Literal["fts5", "postgres"] = "fts5"
    system: str = ""
    cites: ClassVar[bool] = True

    @property
    def uses(self) -> tuple[str, ...]:
        """The text index, if matches are marked."""
        return (f"text_index:{self.index}",) if self.marks else ()

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Sequence[Prompt]:
        """Build one prompt per request."""
        prompts, chosen = [], [chosen_items(query, candidates, index) for index in range(len(query.batch))]
        for index, texts in enumerate(self._texts(query, candidates, chosen, resources)):
            context = "\n\n".join(map(_written, citations(query, candidates, index), texts))
            tools = [item for item, _ in chosen[index] if item.type == "tool"]
            options = {"system": self.system, "context": context}
            prompts.append(Prompt.around(query.batch.requests[index], [context] if context else [], tools, **options))
        return prompts

    def _texts(
        self, query: Query, candidates: Candidates, chosen: Sequence[Sequence[tuple[Item, int]]], resources: Resources
    ) -> list[list[str]]:
        """The shown texts of the items of each request without tools, matches marked, each text once."""
        excerpts = [
            [text_shown(item, part_of(candidates, row)) for item, row in items if item.type != "tool"]
            for items in chosen
        ]
        if not self.marks or not any(excerpts):
            return excerpts
        word_lists, index = (
            [asked_words(query, row) for row in range(len(excerpts))],
            resources.get(f"text_index:{self.index}"),
        )
        distinct: dict[tuple[str, ...], dict[str, str]] = {words: {} for words in word_lists}
        for words, texts in zip(word_lists, excerpts, strict=True):
            distinct[words].update(dict.fromkeys(texts, ""))
        for words, by_text in distinct.items():
            by_text.update(zip(by_text, map(marked, by_text, index.marks(list(by_text), words)), strict=True))
        return [[distinct[words][text] for text in texts] for words, texts in zip(word_lists, excerpts, strict=True)]


def _written(citation: Citation, text: str) -> str:
    """An item of the context: its head line and its shown text."""
    relevance = "" if citation.relevance is None else f", relevance {citation.relevance:.2f}"
    return f"{citation.id} {citation.source} ({citation.type}{relevance})\n{text}"


VARIABLES = ("content", "type", "confidence", "timestamp", "score")
_METADATA = ("type", "confidence", "timestamp")
_VARIABLE = re.compile(r"\{\{([^{}]*)\}\}")
FIELDS = {"name": str, "header": str, "memory_format": str, "separator": str, "footer": str, "metadata": bool}
_ALSO = {"memoryFormat": "memory_format", "includeMetadata": "metadata"}  # the document's names


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextTemplate:
    """How chosen items become one text: header, items with separators between them, footer; no items, no text.

    Attributes:
        memory_format: of an item, with `{{content}}` and any other of `VARIABLES`.
        name: shown with the context.
        header, separator, footer: plain texts without variables.
        metadata: whether type, confidence and timestamp are filled in; else they are empty wherever they stand. What
            the format does not name is not shown.

    Raises:
        ParameterError: a variable is unknown or in the wrong part, or the format lacks `{{content}}`.
    """

    memory_format: str
    name: str = ""
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
                raise ParameterError(f"{part}: {match[0]} is filled in for each memory; put it into memory_format")

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
                problem = "is given twice" if field in fields else f"is unknown{suggest(str(name), FIELDS)}"
                raise ParameterError(f"template: {name!r} {problem}")
            check_type(f"template: {name}", value, FIELDS[field])
            fields[field] = value
        if "memory_format" not in fields:
            raise ParameterError("template: memory_format is missing; it says how a memory is written")
        return cls(**fields if metadata is None else {**fields, "metadata": metadata})

    def render(self, memories: Sequence[Mapping[str, str]]) -> str:
        """Render some items, each with a value for all of `VARIABLES`; values are inserted unchanged."""
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


@dataclass(frozen=True)
class Template(Strategy):
    """One message with all chosen items, written by a template, between the earlier messages and the user's.

    Attributes:
        template: `chat`, `detailed`, `summary`, or one of your own: `memory_format`, and as needed `header`,
            `separator` (a line end), `footer`, `metadata` (true), `name`; `memoryFormat` and `includeMetadata` are the
            same.
        metadata: whether `{{type}}`, `{{confidence}}` and `{{timestamp}}` are filled in; if not, they are empty
            wherever they stand, and what a format does not name is never shown. Default: what the template says.
        system: the system prompt.

    Variables of the format of a memory: `{{content}}` (what is shown of its text), `{{type}}` (the kind of a memory,
    else the item's type), `{{confidence}}`, `{{timestamp}}` (when it was created), `{{score}}` (that of the last
    ranking); of what an item lacks the variable is empty. Variables in contents stay unchanged. Items are in the one
    order; tools are sent as tools. Nothing chosen: no such message. Cost: linear in the items. Source: document 004,
    "Context Templates"; that the template decides where metadata is and `includeMetadata` whether it is filled in is
    our reading of it.
    """

    template: str | Mapping[str, Any] = "chat"
    metadata: bool | None = None
    system: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.template, str):
            object.__setattr__(self, "template", dict(self.template))
        _ = self.layout  # a fault in it is an error now

    @cached_property
    def layout(self) -> ContextTemplate:
        """The template that is written with."""
        return ContextTemplate.of(self.template, metadata=self.metadata)

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Sequence[Prompt]:
        """Build one prompt per request."""
        prompts = []
        for index, request in enumerate(query.batch.requests):
            items = chosen_items(query, candidates, index)
            memories = [_variables(item, candidates, row) for item, row in items if item.type != "tool"]
            context = self.layout.render(memories)
            tools, texts = [item for item, _ in items if item.type == "tool"], [context] if context else []
            prompts.append(Prompt.around(request, texts, tools, system=self.system, context=context))
        return prompts


def _variables(item: Item, candidates: Candidates, row: int) -> dict[str, str]:
    """The values of the variables of a template, for the item of a row."""
    score = float(candidates.score[row])
    return {
        "content": text_shown(item, part_of(candidates, row)),
        "type": item.kind or item.type if item.type == "memory" else item.type,
        "confidence": "" if item.confidence is None else f"{item.confidence:g}",
        "timestamp": item.created or "",
        "score": "" if math.isnan(score) else f"{score:.4g}",
    }


@dataclass(frozen=True)
class Rendered(Strategy):
    """Offer items in the one order as long as all of them, as the pipeline's format renders them, fit into a budget.

    Attributes:
        tokens: of what the items add to the prompt: all that a template writes, header, separators and footer
            included; definitions of tools, too. 0 or more, never exceeded. System prompt, history and the user's
            message are not counted; what the session holds is, and stays.

    An item that does not fit ends the list. Where that is the first one, the beginning of it is shown that does fit: up
    to the end of a sentence, else of a word, else of a character, with `…` behind it; a tool is never cut. Tokens are
    counted on the whole, as counts of parts do not add up. Empty in, empty out. Cost: the prompts are rendered and
    counted for the logarithm of the candidates and, where a first one is cut, of the places where that may be. Source:
    document 004, "Search Flow" (keep the highest ranked); the cut is ours.
    """

    tokens: int = 2000
    uses: ClassVar[tuple[str, ...]] = ("tokens", FORMAT)
    rule_words: ClassVar[Mapping[str, str]] = {BUDGET: BUDGET_WORDS}
    limits: ClassVar[Mapping[str, tuple[float, float]]] = {"tokens": (0, math.inf)}

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Exclude what does not fit, and show a part of a first item that does not."""
        rows = candidates.chosen & (candidates.origin != Origin.SESSION)
        limit = self.tokens + prompt_tokens(query, Candidates.empty(candidates.n_requests), resources)
        fits = rendered_fit(query, candidates, resources, rows, budget=limit)
        first = (place_among(candidates, rows) == 0) & ~fits
        rule = Rule.of(BUDGET, tokens=self.tokens)
        table = candidates.exclude(rows & ~fits & ~first, rule)
        return cut_to_fit(query, table, resources, first, limit, rule)
