"""Requests about code: intent, other words of code, and search plan from rules or a language model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal, TypeAlias

from ctxbench.io.errors import Message, ParameterError
from ctxbench.io.http import ServerError
from ctxbench.search.resources import ChatMessage, ChatModel, ModelReply
from ctxbench.search.words import keywords, name_parts, stem

_ENDINGS = (
    "py|pyi|rs|ts|tsx|js|jsx|mjs|cjs|vue|svelte|go|java|kt|kts|scala|swift|c|h|cc|cpp|hpp|cs|rb|php|lua|md|rst|toml|"
    "yaml|yml|json|jsonl|lock|cfg|ini|env|sh|bash|ps1|sql|html|css|scss|graphql|proto|txt|gradle|xml|csv|ico|log|mod|"
    "ipynb|tf|svg|png"
)
_FOLDERS = "src|lib|libs|test|tests|docs?|internal|cmd|pkg|app|apps|scripts|packages|crates|examples|benches"
_NAME = r"[^\W\d]\w*"
_LONG_PIECE = re.compile(r"\S{200,}")  # no name; and patterns take a time that grows with its square
_URL = re.compile(r"\b(?:https?|ssh|git)://\S+")
_QUOTED = re.compile(r"`([^`\n]+)`")
_FRAME = re.compile(r'File "([^"\n]+)", line \d+(?:, in ([\w.<>]+))?')  # of a Python stack trace
_CODE = re.compile(
    "|".join(
        (
            rf"(?:[\w.@+-]*/)*[\w@+-][\w.@+-]*\.(?:{_ENDINGS})(?:::\w+)*\b(?!\()",  # a file, a test in it
            rf"(?<![\w./])(?:\.{{0,2}}/|(?:{_FOLDERS})/)\w[\w.@+-]*(?:/[\w.@+-]+)*",  # a path or a route
            r"(?<![\w.])\.[a-z][\w-]{3,}(?:\.\w+)?",  # .gitignore
            rf"{_NAME}<[\w<>:,& ]{{0,60}}\w>{{1,4}}",  # Vec<u8>
            rf"{_NAME}(?:(?:::|\.|\#){_NAME})+",  # a::b, a.b
            r"\b\w*_\w+\b",  # a_b
            r"\b0[xob][\da-fA-F]+\b",
            r"\b(?:Dockerfile|Makefile|Jenkinsfile|Gemfile|LICENSE|README|CHANGELOG|TODO|FIXME)\b",
            rf"(?<![\w.])({_NAME})(?=\((?!e?s\)))",  # f(
            r"\b\w*(?:[^\W\d_][a-z\d]*[a-z\d][A-Z]|[A-Z]{2,}[a-z]{2})\w*\b",  # CamelCase, HTTPServer
        )
    )
)
_SPOKEN = re.compile(
    r"\b(?:function|method|class|struct|trait|interface|module|decorator|macro)\s+(?:called\s+|named\s+)?([a-z]\w+)\b"
    r"|\b(?:the|our|this)\s+([a-z]\w+)\s+(?:function|method|decorator|macro)\b"
)
_CAPITAL = re.compile(r"(?<!\S)[a-z][\w'-]*[,:]? ([A-Z][a-z]{2,})\b(?![ -][A-Z])")  # within a sentence
_COMMIT_TYPE = re.compile(
    r"^(?:fix|feat|docs|test|tests|refactor|perf|chore|build|ci|style)(?:\([\w, -]+\))?!?: "
)  # of a commit's subject
_PLAIN = (  # products, formats, languages, days and constants that are written like code or names
    "github gitlab bitbucket javascript typescript postgresql mysql sqlite mongodb graphql oauth oauth2 openapi "
    "grpc macos ios ipados devops youtube linkedin pypi numpy pytorch fastapi rabbitmq cmake vscode intellij wifi "
    "ipv4 ipv6 dynamodb nosql webassembly node.js vue.js next.js nuxt.js react.js asp.net e.g i.e a.m p.m readme.io "
    "python java rust ruby kotlin swift scala perl haskell django flask rails spring docker kubernetes terraform "
    "redis kafka postgres linux windows ubuntu debian fedora alpine safari chrome firefox edge excel word outlook "
    "slack jira google amazon azure stripe paypal apple microsoft node npm webpack vite react angular vue svelte "
    "pydantic prometheus grafana sentry celery markdown english german french spanish italian dutch polish japanese "
    "chinese korean british american european europe germany france monday tuesday wednesday thursday friday "
    "saturday sunday january february march april june july august september october november december unicode "
    "ascii latin greek christmas internet bluetooth ctrl shift enter escape none true false null nan kib mib gib "
    "cannot "
)
_NO_CODE = frozenset(_PLAIN.split())
_ENGLISH = frozenset(
    ("not", "that", "this", "the", "what", "which", "who", "for", "with", "from", "when", "where", "and")
)
_FILE = re.compile(rf"\.[a-z][\w-]{{3,}}|[\w.@+-]+\.(?:{_ENDINGS})")
_FILES = frozenset(["Dockerfile", "Makefile", "Jenkinsfile", "Gemfile", "LICENSE", "README", "CHANGELOG"])
MOST = 50  # names that count of one request; a pasted log holds thousands


def named_code(text: str) -> tuple[str, ...]:
    """The names of code, files and paths in a text, each once, in the order of the text, at most `MOST`.

    They are what is in backquotes, CamelCase, snake_case, dotted names and those with `::`, file names, paths,
    what is called (`f()`), what is called a function or a class, frames of Python's stack traces, and capitalised
    words within a sentence. Names of products, languages and days are left out. A text without any has none.
    """
    names: dict[str, int] = {}
    for position, name in sorted(_named_at(text), key=lambda entry: entry[0]):
        if name and name.lower() not in _NO_CODE:
            names.setdefault(name, position)
    return tuple(names)[:MOST]


def is_file(name: str) -> bool:
    """Whether a name is that of a file, with or without folders: by its ending, or known files without one."""
    last = name.rpartition("/")[2]
    return bool(_FILE.fullmatch(last)) or last in _FILES


def is_path(name: str) -> bool:
    """Whether a name is a file or folder; `/ping` is a route."""
    return is_file(name) or ("/" in name and name[0] != "/" and not re.search(r"\s", name))


def _named_at(text: str) -> Iterator[tuple[int, str]]:
    """Names and their positions; each part of the text is read once, by the first pattern that matches it."""
    rest = _URL.sub(_blank, _COMMIT_TYPE.sub(_blank, text))
    rest = _LONG_PIECE.sub(_blank, rest)
    for pattern in (_QUOTED, _FRAME):
        for match in pattern.finditer(rest):
            yield from ((match.start(), name.strip()) for name in match.groups() if name and name[0] != "<")
        rest = pattern.sub(_blank, rest)
    for match in _CODE.finditer(rest):
        name = (match[1] or match[0]).rstrip(".:")
        is_name = any(c.isalpha() for c in name)  # else it is a number
        if is_name and not re.fullmatch(r"[A-Z]+s|[a-z]\.[a-z]", name):  # an abbreviation in the plural, two sentences
            yield match.start(), name
    rest = _CODE.sub(_blank, rest)
    for match in _SPOKEN.finditer(rest):
        name = match[1] or match[2]
        if name not in _ENGLISH:
            yield match.start(), name
    yield from ((match.start(), match[1]) for match in _CAPITAL.finditer(rest))


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


ActionName = Literal["create", "modify", "debug", "explain", "refactor", "search"]
ScopeName = Literal["focused", "module", "codebase"]
ComplexityName = Literal["simple", "medium", "complex"]

_SHORT, _LONG = 6, 14  # words: what only names something is one edit, what is longer tells of several
_OPENING = 3.0  # what a word counts that opens the request, beside 1 anywhere else
_ACTIONS: dict[ActionName, tuple[str, str]] = {  # what counts where it opens the request, and anywhere
    "debug": (
        r"""
        fix\w*|debug\w*|repair|prevent|avoid|ensure|correct|handle|diagnose|investigate|troubleshoot|solve|resolve|bug|error\S*|failed|
        traceback|panic\S*""",
        r"""
        crash\w*|fail(?:s|ed|ing|ure)?|bugs?|broken|breaks|wrong\w*|fix|flaky|leaks?|deadlock|hangs?|
        freez\w+|segfault|panic\w*|exception|traceback|\w+(?:error|exception)|error:|nan|stale|twice|
        forever|race|doesn't|don't work|cannot|can't|couldn't|won't|nothing happens|dies|died|typo|
        unexpected\w*|rejected|40[0-9]|50[0-9]|off[- ]by[- ]one|off by|overflows?|regress\w*|incorrect\w*|
        missing|truncated|expected|actual|reproduce|ignores|silently""",
    ),
    "explain": (
        r"""
        how|why|what(?! code)|what's|explain|describe|walk|tell|compare|is|does|are(?! there)|don't get|
        don't understand|give me an overview|understand|summari[sz]e""",
        r"""
        explain|overview|understand|walk me through|how does|how do|what happens|difference between|
        why do(?:es)?""",
    ),
    "search": (
        r"""
        where|where's|find|list|grep|search|locate|show|who|which|all|any|look up|are there|what code|count|
        in which""",
        r"""
        where (?:is|are|do|does|did|we)|where\?|usages|callers|call sites|implementations of|subclasses of|
        occurrences?""",
    ),
    "refactor": (
        r"""
        refactor\S*|rename|split|extract|move|clean|simplify|inline|restructure|reorgani[sz]e|decouple|
        unify|dedupe|convert|merge|pull|dry|flatten|group|break|standardi[sz]e|separate|sort|remove dead|
        get rid|tidy|untangle|reword|moderni[sz]e|reuse""",
        r"""
        refactor\w*|rename|split|extract|out of|duplicated|duplication|no functional changes?|
        easier to (?:follow|read|understand)|separate|not depend|behaviou?r must stay|dead code|
        into (?:its own|smaller|an? \w+ (?:object|class|table))|clean up|simplify|restructure|naming|
        consistent|unused|async/await|monorepo""",
    ),
    "create": (
        r"""
        add|create|implement|write|build|introduce|generate|feat\S*|support|new|an?|provide|we want|we need|
        i need|need|give|expose|scaffold|set up|define|design|class|let|accept""",
        r"""
        add|create|implement|introduce|support for|new|unit tests|write|build an?|generate|from scratch|
        plugin|we need|please""",
    ),
    "modify": (
        r"""
        make|change|update|bump|increase|decrease|set|switch|replace|allow|use|drop|upgrade|extend|respect|
        require|remove|limit|pin|turn|have|migrate|instead|treat|cache|when|move from|compress|adapt|send|
        adjust|enable|disable|let|default|adopt|improve|optimi[sz]e|reduce|skip|ignore""",
        r"""
        should|must|instead of|rather than|by default|from \S+ to|to \d+|no longer|as well as|change|update|
        adapt""",
    ),
}
_POLITE = re.compile(
    r"^(?:(?:hi|hello|hey|please|pls|ok|so|quick one|can|could|would|you|we|i|i'd|i'll|we'd|want|like|need|to|just|"
    r"also|now|then|help|me)\b[\s,:!.]*)+",
    re.IGNORECASE,
)
_WIDE = re.compile(
    r"\b(?:everywhere|throughout|all over|across (?:the|all|every)|(?:whole|entire) (?:\w+ )?(?:codebase|project|"
    r"repo\w*|app\w*)|codebase|this project|the project|the repo\w*|architecture|layering|monorepo|monolith|overview|"
    r"every \w+|all (?:the )?\w+ types|authenticat\w+|internationali[sz]ation|multi-tenancy|migrate|anywhere|"
    r"all services|all (?:sql )?queries)\b",
    re.IGNORECASE,
)
_HARD = re.compile(
    r"\b(?:architecture|deadlock|race condition|plugin system|migrate|monolith|monorepo|restructure|design|multi-\w+|"
    r"internationali[sz]ation|authentication|oauth2?|decouple|concurren\w+|"
    r"terraform|rewrite|port the|distributed|from scratch|intermittent\w*|"
    r"inconsistent)\b",
    re.IGNORECASE,
)
_EASY = re.compile(
    r"\b(?:typo|bump|rename|where(?:'s| is| are| do)?|which (?:file|class|test)|version|default|set|pin|"
    r"link|label|button|footer|logo|grep|count|any|increase|unused|dead code|"
    r"sort imports|error messages?|"
    r"what does|is \S+ (?:needed|on)|\.gitignore|spell|changelog\.md|readme\.md|contributing\.md)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class QueryIntent:
    """The intent of a request about code: action, scope, complexity, names.

    Attributes:
        action: what is to be done with the code.
        scope: `focused`, on what it names; `module`, on a part; `codebase`, on all of it.
        complexity: `simple`, one edit or look-up; `medium`; `complex`, several parts or a design.
        keywords: see `ctxbench.search.words.keywords`.
        entities: see `named_code`.
    """

    action: ActionName
    scope: ScopeName
    complexity: ComplexityName
    keywords: tuple[str, ...]
    entities: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The intent as JSON, what `Query.intent` holds."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def read_intent(text: str) -> QueryIntent:
    """The intent of a request; a blank request is to `debug` a `module`."""
    entities = named_code(text)
    action = _action(text)
    scope: ScopeName = "codebase" if _WIDE.search(text) else "focused" if entities else "module"
    return QueryIntent(action, scope, _complexity(text, action, scope), keywords(text), entities)


def _action(text: str) -> ActionName:
    """The action with most words for it, of equals the first of the table.

    Without such a word it is `debug`: who only says what happens reports a fault.
    """
    words = _POLITE.sub("", text.strip()).lower() or text.lower()
    scores = {
        action: _OPENING * bool(opening.match(words)) + len(set(anywhere.findall(words)))
        for action, (opening, anywhere) in _PATTERNS.items()
    }
    best = max(scores.values())
    return next(action for action, score in scores.items() if score == best) if best else "debug"


def _flat(pattern: str) -> str:
    """A pattern of several lines as one."""
    return "".join(line.strip() for line in pattern.splitlines())


_PATTERNS = {
    action: (
        re.compile(rf"(?:{_flat(opening)})(?:s|e?d|ing)?(?!\w)"),
        re.compile(rf"(?<!\w)(?:{_flat(anywhere)})(?!\w)"),
    )
    for action, (opening, anywhere) in _ACTIONS.items()
}


def _complexity(text: str, action: ActionName, scope: ScopeName) -> ComplexityName:
    if _HARD.search(text):
        return "complex"
    length = len(text.split())
    named = scope == "focused" and (action == "search" or (length <= _SHORT and action not in ("debug", "refactor")))
    easy = scope != "codebase" and bool(_EASY.search(text))
    return "simple" if length <= _LONG and (named or easy) else "medium"


DEEPEST, MOST_TERMS, LONGEST_TERM = 5, 30, 200
_DEPTHS = {"simple": 1, "medium": 2, "complex": 3}
_ASKING_WORDS = (
    "add allow bug change code create fix implement improve introduce issue make please refactor remove should support "
    "update use uses used using"
)
_ASKING = frozenset(map(stem, _ASKING_WORDS.split()))
"""What a request says of the work, not of the code, by stem."""
_FORMS = """\
admin administrator administration; app application; arg argument; async asynchronous; attr attribute
auth authentication authenticate authorization authorize; avg average; bool boolean; buf buffer; calc calculate
cert certificate; char character; cmd command; col column; conf config configuration configure cfg
conn connection connect; cred credential; ctx context; db database; decl declaration; def definition; dep dependency
desc description; dest destination dst; dev development; dict dictionary; dir directory; doc documentation
dup duplicate; elem element; env environment; err error; eval evaluate; exec execute execution; expr expression
ext extension; fmt format; fn func function; fs filesystem; gen generate generator; i18n internationalization
id identifier; idx index; img image; impl implementation; info information; init initialize; int integer; iter iterator
k8s kubernetes; l10n localization; lang language; len length; lib library; max maximum; mem memory; min minimum
mod module; msg message; nav navigation; num number; obj object; op operation operator; opt option; org organization
param parameter; perf performance; perm permission; pkg package; pos position; pref preference; prev previous
proc process; prod production; prop property; proto protocol; ptr pointer; pwd password passwd; ref reference
regex regexp; repo repository; req request; res resp response; sess session; spec specification; src source
stat statistic; stmt statement; str string; sub subscription; sync synchronize; sys system; temp temporary tmp
term terminal; tok token; tx transaction txn; usr user; util utility; val value; var variable; ver version; win window
ws websocket"""  # how one word is spelled in code
_RELATED = """\
authentication authenticate authorization authorisation: auth login session user token
auth login: auth login session
configuration configure config settings: config settings options
database sql: db schema migration
documentation: docs readme
errors exceptions: error exception
caching cached: cache
logging logs: log logger
parsing parse: parser lexer grammar
email mails: mail smtp
payments pay payment: billing invoice
permissions roles permission: role access
users accounts user: account profile"""  # what people say: what may be in code for any of it


def _by_stem(rows: Iterable[tuple[str, str]]) -> Mapping[str, tuple[str, ...]]:
    """The words on the right of each row, by the stems of those on the left."""
    table: dict[str, dict[str, None]] = {}
    for left, right in rows:
        for word in left.split():
            table.setdefault(stem(word), {}).update(dict.fromkeys(right.split()))
    return {word: tuple(forms) for word, forms in table.items()}


_BY_STEM = (
    _by_stem((row, row) for row in _FORMS.replace("\n", "; ").split("; ")),
    _by_stem((said, meant) for said, _, meant in (row.partition(":") for row in _RELATED.splitlines())),
)


def code_vocabulary(words: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What code may say in place of words of a request, each once and none of the words.

    Args:
        words: in small letters; an English ending does not matter.

    Returns:
        How else code spells them (`auth` of `authentication`, and back), and what is related (`login`).
    """
    words = list(words)
    used, rows = set(words), []
    for table in _BY_STEM:
        row = [form for word in words for form in table.get(stem(word), ()) if form not in used]
        used.update(row)
        rows.append(tuple(dict.fromkeys(row)))
    return rows[0], rows[1]


def weighted_chunks(text: str, *, asking: float, forms: float, related: float) -> list[tuple[str, float]]:
    """A request as chunks with weights: its words, those that say what work is asked for, and other words of code.

    Args:
        text: of the request; blank = no chunks. One that only asks is one chunk of weight 1.
        asking: weight of what says of the work, not of the code, such as `implement`; 0 = left out. So for the others.
        forms, related: see `code_vocabulary`.
    """
    asking_words = [match[0] for match in _PLAIN_WORD.finditer(text) if stem(match[0].lower()) in _ASKING]
    code_words = _PLAIN_WORD.sub(lambda match: "" if stem(match[0].lower()) in _ASKING else match[0], text)
    if not any(character.isalnum() for character in code_words):
        asking_words, code_words = [], text
    spelled, linked = code_vocabulary(name_parts(code_words))
    chunks = (
        (code_words, 1.0),
        (" ".join(asking_words), asking),
        (" ".join(spelled), forms),
        (" ".join(linked), related),
    )
    return [(chunk, weight) for chunk, weight in chunks if chunk.strip() and weight > 0]


_PLAIN_WORD = re.compile(r"(?<![\w.])[A-Za-z]+(?![\w.(]|::)")  # part of no name
_COMMON = frozenset(("file", "function"))
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
            told: the JSON; unknown keys are ignored.
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
        """The plan with its file names replaced by paths of a tree, and the names that match no path.

        Args:
            called: the paths that the name of a file means, with or without its folders.

        Patterns without the ending of a file, and those with `*`, stay unchanged.
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
    """A plan from the words of a request, without a model; None if they name nothing to look for.

    Symbols that it names are found first; else files that it names are where to start; else a request about a whole
    codebase, or to change a part, is searched by patterns, and a question by its meaning.
    """
    heads = [(name.partition("::") if is_path(name.partition("::")[0]) else ("", "", name)) for name in intent.entities]
    paths = tuple(dict.fromkeys(head for head, _, _ in heads if head))
    symbols = tuple(dict.fromkeys(name for _, _, name in heads if re.fullmatch(r"[^\W\d]\S*", name)))
    request_words = [word for word in intent.keywords if word not in _COMMON and stem(word) not in _ASKING]
    related = [word for row in code_vocabulary(request_words) for word in row]
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
    """Tuples as lists, at every depth, as JSON returns them."""
    if isinstance(value, Mapping):
        return {name: _listed(element) for name, element in value.items()}
    return list(value) if isinstance(value, tuple) else value


PROMPT = f"""\
You plan which code of a repository somebody has to read before they carry out a developer's request. You do not see the
repository. Answer with JSON only:

{{"keywords": [...], "symbols_to_find": [...], "file_patterns": [...], "include_tests": true, "max_depth": 1,
 "strategy": {{"name": "focused", "symbols": [...]}}}}

keywords: words that the code probably holds. symbols_to_find: names of functions, classes and types, as the request
says them or as they are probably called. file_patterns: parts of paths, such as "auth", or paths that the request says.
include_tests: whether tests are needed. max_depth: how far imports are followed, 0 to {DEEPEST}. strategy, one of:
{{"name": "focused", "symbols": [...]}} for some symbols and what they need;
{{"name": "broad", "patterns": [...]}} for all files whose paths match;
{{"name": "entry_points", "entry_files": [...]}} for some files and what they import;
{{"name": "semantic", "query": "...", "top_k": 20}} for a search by meaning."""

_FENCED = re.compile(r"```(?:json)?[^\S\n]*\n(.*?)```", re.DOTALL | re.IGNORECASE)
_LONGEST = 20_000  # characters of a request that a model is sent


def model_plans(texts: Sequence[str], model: ChatModel, planner: str) -> list[ContextPlan | str]:
    """Ask a model for a plan of each text; after an invalid reply, once more with its fault.

    Args:
        texts: the requests.
        model: what is asked; it keeps replies by text, model and prompt, so that it is asked once.
        planner: what plans say who made them.

    Returns:
        In their order, a plan or why there is none. Empty in, empty out.
    """
    conversations: list[list[ChatMessage]] = [
        [{"role": "system", "content": PROMPT}, {"role": "user", "content": text[:_LONGEST]}] for text in texts
    ]

    def is_plan(_: int, text: str) -> bool:
        return isinstance(_plan_in(text, planner), ContextPlan)

    replies = model(conversations, schema=plan_schema(), alone=True, is_usable=is_plan)
    plans = [_plan(reply, planner) for reply in replies]
    retries = [
        index for index, plan in enumerate(plans) if isinstance(plan, str) and isinstance(replies[index], ModelReply)
    ]
    repairs = [_corrected(conversations[n], replies[n], str(plans[n])) for n in retries]
    second = model(repairs, schema=plan_schema(), alone=True, is_usable=is_plan)
    for index, reply in zip(retries, second, strict=True):
        plans[index] = _plan(reply, planner)
    return plans


def _corrected(conversation: Sequence[ChatMessage], reply: ModelReply | ServerError, fault: str) -> list[ChatMessage]:
    answer = reply.text[:_LONGEST] if isinstance(reply, ModelReply) else ""
    correction = f"That cannot be used: {fault}. Answer with the JSON object alone, in the form that was asked for."
    return [*conversation, {"role": "assistant", "content": answer}, {"role": "user", "content": correction}]


def _plan(reply: ModelReply | ServerError, planner: str) -> ContextPlan | str:
    """The plan that a reply holds, or why it holds none."""
    return _plan_in(reply.text, planner) if isinstance(reply, ModelReply) else str(reply)


def _plan_in(text: str, planner: str) -> ContextPlan | str:
    fields = _object(text)
    if fields is None:
        return Message("pipelines.reply-not-json", reply=" ".join(text.split())[:100])
    try:
        return ContextPlan.of(fields, planner)
    except ParameterError as error:
        return Message("pipelines.reply-other-form", error=error)


def _object(text: str) -> Mapping[str, Any] | None:
    """The JSON object in a text: the whole text, the part between fences, or from the first to the last brace."""
    for part in (text, *_FENCED.findall(text), text[text.find("{") : text.rfind("}") + 1]):
        with suppress(ValueError, RecursionError):
            if isinstance(value := json.loads(part), Mapping):
                return value
    return None
