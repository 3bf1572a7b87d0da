"""Plans: where to look for what a request about code needs; and the plan that is made without a model."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, TypeAlias

from ctxbench.core.errors import ParameterError
from ctxbench.planning.named_code import is_file, is_path
from ctxbench.planning.request_intent import QueryIntent

DEEPEST, MOST_TERMS, LONGEST_TERM = 5, 30, 200
_DEPTHS = {"simple": 1, "medium": 2, "complex": 3}
_RELATED = [  # what people say, and as the last three of a line what may stand in code for any of it
    line.split()
    for line in (
        "authentication authenticate authorization authorisation auth login session",
        "configuration configure config settings options",
        "database sql db schema migration",
        "documentation docs readme",
        "errors exceptions error exception",
        "caching cached cache",
        "logging logs log logger",
        "parsing parse parser lexer grammar",
        "email mails mail smtp",
        "payments pay payment billing invoice",
        "permissions roles permission role access",
        "users accounts user account profile",
    )
]
_COMMON = frozenset(("make", "change", "implement", "create", "update", "please", "should", "code", "file", "function"))
_TESTS = re.compile(r"\b(?:tests?|specs?|tested|coverage|fixtures?)\b|(?<![^\W_])tests?_", re.IGNORECASE)


@dataclass(frozen=True)
class Focused:
    """Find some symbols and what they depend on directly."""

    name: ClassVar[str] = "focused"
    symbols: tuple[str, ...]


@dataclass(frozen=True)
class Broad:
    """Search the files whose paths match patterns."""

    name: ClassVar[str] = "broad"
    patterns: tuple[str, ...]


@dataclass(frozen=True)
class EntryPointBased:
    """Start from some files and follow what they import."""

    name: ClassVar[str] = "entry_points"
    entry_files: tuple[str, ...]


@dataclass(frozen=True)
class Semantic:
    """Search by meaning, for the `top_k` closest."""

    name: ClassVar[str] = "semantic"
    query: str
    top_k: int


Expansion: TypeAlias = Focused | Broad | EntryPointBased | Semantic
_EXPANSIONS: dict[str, type[Expansion]] = {
    strategy.name: strategy for strategy in (Focused, Broad, EntryPointBased, Semantic)
}


@dataclass(frozen=True)
class ContextPlan:
    """Where to look.

    Attributes:
        keywords: words to search for.
        symbols_to_find: names of functions, classes and the like.
        file_patterns: what paths hold, such as `auth`; with `*` a glob over the whole path; or a path itself.
        include_tests: whether files of tests are wanted.
        max_depth: how far imports and references are followed, 0 to `DEEPEST`.
        strategy: how to begin.
        planner: who made it, `heuristic` or `ollama:MODEL`, `openai:MODEL`.
    """

    keywords: tuple[str, ...]
    symbols_to_find: tuple[str, ...]
    file_patterns: tuple[str, ...]
    include_tests: bool
    max_depth: int
    strategy: Expansion
    planner: str

    def as_dict(self) -> dict[str, Any]:
        """The plan as JSON, what `Query.plan` holds; its strategy with its `name`."""
        plain: dict[str, Any] = {**asdict(self), "strategy": {"name": self.strategy.name, **asdict(self.strategy)}}
        return {name: _listed(value) for name, value in plain.items()}

    @classmethod
    def of(cls, fields: Any, planner: str = "") -> ContextPlan:
        """Read JSON as `as_dict` writes it, or as a model does; lists are cut at `MOST_TERMS`, blank terms left out.

        Args:
            told: the JSON; keys that no plan has are passed over.
            planner: who made it; empty = as the JSON says.

        Raises:
            ParameterError: a part is absent or of another form; says which, and what was expected.
        """
        if not isinstance(fields, Mapping):
            raise ParameterError(f"a plan must be an object, got {_kind(fields)}")
        expansion = fields.get("strategy")
        if not isinstance(expansion, Mapping) or expansion.get("name") not in tuple(_EXPANSIONS):
            raise ParameterError(f"strategy must be an object whose name is one of {', '.join(_EXPANSIONS)}")
        if type(fields.get("include_tests")) is not bool:
            raise ParameterError(f"include_tests must be true or false, got {_kind(fields.get('include_tests'))}")
        return cls(
            keywords=_terms(fields, "keywords"),
            symbols_to_find=_terms(fields, "symbols_to_find"),
            file_patterns=_terms(fields, "file_patterns"),
            include_tests=fields["include_tests"],
            max_depth=_number(fields, "max_depth", 0, DEEPEST),
            strategy=_expansion(expansion),
            planner=planner or str(fields.get("planner", "")),
        )

    def over(self, called: Callable[[str], tuple[str, ...]]) -> tuple[ContextPlan, tuple[str, ...]]:
        """The plan with the paths of a tree in place of the files that it names, and the names that stand for none.

        Args:
            called: the paths that the name of a file stands for, with or without its folders.

        Patterns without the ending of a file, and those with `*`, stay as they are.
        """
        gone: dict[str, None] = {}

        def real(names: tuple[str, ...]) -> tuple[str, ...]:
            real_names = {name: called(name) for name in names}
            gone.update(dict.fromkeys(name for name, paths in real_names.items() if not paths))
            return tuple(dict.fromkeys(path for paths in real_names.values() for path in paths))

        def narrowed(patterns: tuple[str, ...]) -> tuple[str, ...]:
            expanded = (
                (pattern,) if "*" in pattern or not is_file(pattern) else real((pattern,)) for pattern in patterns
            )
            return tuple(dict.fromkeys(pattern for row in expanded for pattern in row))

        patterns, how = narrowed(self.file_patterns), self.strategy
        if isinstance(how, Broad):
            how = Broad(narrowed(how.patterns))
        elif isinstance(how, EntryPointBased):
            how = EntryPointBased(real(how.entry_files))
        return replace(self, file_patterns=patterns, strategy=how), tuple(gone)


def heuristic_plan(text: str, intent: QueryIntent) -> ContextPlan | None:
    """A plan by the words of a request, without a model; None where it says nothing to look for.

    Symbols that it names are found first; else files that it names are where to start; else a request about a whole
    codebase, or to change a part, is searched by patterns, and a question by its meaning.
    """
    heads = [(name.partition("::") if is_path(name.partition("::")[0]) else ("", "", name)) for name in intent.entities]
    paths = tuple(dict.fromkeys(head for head, _, _ in heads if head))
    symbols = tuple(dict.fromkeys(name for _, _, name in heads if re.fullmatch(r"[^\W\d]\S*", name)))
    request_words = [word for word in intent.keywords if word not in _COMMON]
    related = [related_word for word in request_words for row in _RELATED if word in row for related_word in row[-3:]]
    keywords = tuple(dict.fromkeys((*intent.keywords, *related)))[:MOST_TERMS]
    words = [word for word in (*request_words, *related) if re.fullmatch(r"[^\W_]+", word)]
    patterns = tuple(dict.fromkeys((*paths, *words)))[:MOST_TERMS]
    if not (keywords or symbols or patterns):
        return None
    strategy: Expansion
    if symbols:
        strategy = Focused(symbols)
    elif paths:
        strategy = EntryPointBased(paths)
    elif patterns and (intent.scope == "codebase" or intent.action not in ("explain", "search")):
        strategy = Broad(patterns)
    else:
        strategy = Semantic(text, 20)
    tests = bool(_TESTS.search(text)) or intent.action not in ("explain", "search")
    return ContextPlan(keywords, symbols, patterns, tests, _DEPTHS[intent.complexity], strategy, "heuristic")


def plan_schema() -> dict[str, Any]:
    """The JSON schema of a plan, for models that can be held to one."""
    terms = {"type": "array", "items": {"type": "string"}}

    def form(properties: Mapping[str, Any]) -> dict[str, Any]:
        return {"type": "object", "properties": dict(properties), "required": list(properties)}

    fields: dict[type[Expansion], dict[str, Any]] = {
        Focused: {"symbols": terms},
        Broad: {"patterns": terms},
        EntryPointBased: {"entry_files": terms},
        Semantic: {"query": {"type": "string"}, "top_k": {"type": "integer"}},
    }
    forms = [form({"name": {"type": "string", "enum": [strategy.name]}, **of}) for strategy, of in fields.items()]
    return form(
        {
            "keywords": terms,
            "symbols_to_find": terms,
            "file_patterns": terms,
            "include_tests": {"type": "boolean"},
            "max_depth": {"type": "integer"},
            "strategy": {"anyOf": forms},
        }
    )


def _expansion(fields: Mapping[str, Any]) -> Expansion:
    if fields["name"] == Semantic.name:
        if not isinstance(fields.get("query"), str):
            raise ParameterError(f"query must be a text, got {_kind(fields.get('query'))}")
        return Semantic(fields["query"], _number(fields, "top_k", 1, 1000))
    if fields["name"] == Focused.name:
        return Focused(_terms(fields, "symbols"))
    return (
        Broad(_terms(fields, "patterns"))
        if fields["name"] == Broad.name
        else EntryPointBased(_terms(fields, "entry_files"))
    )


def _terms(fields: Mapping[str, Any], name: str) -> tuple[str, ...]:
    values = fields.get(name)
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ParameterError(f"{name} must be a list of texts, got {_kind(values)}")
    clean = (" ".join(value.split())[:LONGEST_TERM] for value in values)
    return tuple(dict.fromkeys(term for term in clean if term))[:MOST_TERMS]


def _number(fields: Mapping[str, Any], name: str, low: int, high: int) -> int:
    value = fields.get(name)
    if type(value) is not int or not low <= value <= high:
        raise ParameterError(f"{name} must be a whole number from {low} to {high}, got {str(value)[:40]}")
    return value


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def _listed(value: Any) -> Any:
    """Tuples as lists, at every depth: what JSON gives back."""
    if isinstance(value, Mapping):
        return {name: _listed(element) for name, element in value.items()}
    return list(value) if isinstance(value, tuple) else value
